/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/thread.h"
#include "transport/tcp/tcp.h"

/* Under lock. NULL: the end. */
static struct source_lane *wait_for_lane(struct tcp_express *express)
{
	while (!express->lane && !express->stop)
		pthread_cond_wait(&express->given, &express->lock);
	return express->lane;
}

static void *express_main(void *arg)
{
	struct tcp_express *express = arg;
	struct source_lane *lane;

	pthread_mutex_lock(&express->lock);
	while ((lane = wait_for_lane(express))) {
		pthread_mutex_unlock(&express->lock);
		express->serve(lane);
		pthread_mutex_lock(&express->lock);
		express->lane = NULL;
		atomic_store(&express->taken, false);
	}
	pthread_mutex_unlock(&express->lock);
	return NULL;
}

static void destroy_locks(struct tcp_express *express)
{
	pthread_cond_destroy(&express->given);
	pthread_mutex_destroy(&express->lock);
}

int tcp_express_init(struct tcp_express *express, void (*serve)(struct source_lane *lane))
{
	int ret;

	pthread_mutex_init(&express->lock, NULL);
	pthread_cond_init(&express->given, NULL);
	express->serve = serve;
	ret = otte_thread_start(&express->thread, "otte-express", express_main, express);
	if (ret)
		destroy_locks(express);
	return ret;
}

bool tcp_express_take(struct tcp_express *express)
{
	bool taken = false;

	return atomic_compare_exchange_strong(&express->taken, &taken, true);
}

void tcp_express_serve(struct tcp_express *express, struct source_lane *lane)
{
	pthread_mutex_lock(&express->lock);
	express->lane = lane;
	pthread_cond_signal(&express->given);
	pthread_mutex_unlock(&express->lock);
}

void tcp_express_fini(struct tcp_express *express)
{
	pthread_mutex_lock(&express->lock);
	express->stop = true;
	pthread_cond_signal(&express->given);
	pthread_mutex_unlock(&express->lock);
	pthread_join(express->thread, NULL);
	destroy_locks(express);
}
