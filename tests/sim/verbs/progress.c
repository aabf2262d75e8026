/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When work is done, and whose is next. Queue pairs with something to do are in one list, those
 * that did something last at its end; one that waits for its peer or the clock stays where it is.
 */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "sim/verbs/private.h"

#define THREAD_WAITS_NS (NSEC_PER_MSEC)

static struct {
	TAILQ_HEAD(, sim_qp) waiting;
	unsigned int count;
	enum sim_progress progress;
	uint64_t chance; /* 0: the longest */
	enum sim_retry retry;
	bool late;
	pthread_t thread;
	bool stops;
} work = { .waiting = TAILQ_HEAD_INITIALIZER(work.waiting) };

void sim_progress_add(struct sim_qp *qp)
{
	if (qp->is_waiting)
		return;
	qp->is_waiting = true;
	TAILQ_INSERT_TAIL(&work.waiting, qp, waiting);
	work.count++;
}

void sim_progress_remove(struct sim_qp *qp)
{
	if (!qp->is_waiting)
		return;
	qp->is_waiting = false;
	TAILQ_REMOVE(&work.waiting, qp, waiting);
	work.count--;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static unsigned int choose(void)
{
	if (!work.chance || !work.count)
		return 0;
	work.chance ^= work.chance << 13;
	work.chance ^= work.chance >> 7;
	work.chance ^= work.chance << 17;
	return (unsigned int)(work.chance % work.count);
}

/* To the end, if there is more for it to do. */
static void requeue(struct sim_qp *qp)
{
	sim_progress_remove(qp);
	if (sim_has_work(qp))
		sim_progress_add(qp);
}

static bool step(void)
{
	struct sim_qp *qp = TAILQ_FIRST(&work.waiting);
	unsigned int skipped, tried, count = work.count;

	for (skipped = choose(); skipped; skipped--)
		qp = TAILQ_NEXT(qp, waiting);
	for (tried = 0; tried < count; tried++) {
		if (sim_work(qp)) {
			requeue(qp);
			return true;
		}
		qp = TAILQ_NEXT(qp, waiting);
		if (!qp)
			qp = TAILQ_FIRST(&work.waiting);
	}
	return false;
}

bool sim_step(void)
{
	bool done;

	pthread_mutex_lock(&sim_lock);
	done = step();
	pthread_mutex_unlock(&sim_lock);
	return done;
}

unsigned int sim_drain(void)
{
	unsigned int steps = 0;

	while (sim_step())
		steps++;
	return steps;
}

void sim_progress(void)
{
	if (work.progress == SIM_INLINE)
		while (step())
			;
	pthread_cond_broadcast(&sim_changed);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void wait_a_moment(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += THREAD_WAITS_NS;
	if (until.tv_nsec >= (long)NSEC_PER_SEC) {
		until.tv_sec++;
		until.tv_nsec -= (long)NSEC_PER_SEC;
	}
	pthread_cond_timedwait(&sim_changed, &sim_lock, &until);
}

static void *work_on(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&sim_lock);
	while (!work.stops) {
		if (!step()) {
			wait_a_moment();
			continue;
		}
		pthread_mutex_unlock(&sim_lock);
		sched_yield();
		pthread_mutex_lock(&sim_lock);
	}
	pthread_mutex_unlock(&sim_lock);
	return NULL;
}

static void stop(void)
{
	bool runs;

	pthread_mutex_lock(&sim_lock);
	runs = work.progress == SIM_THREAD;
	work.stops = true;
	pthread_cond_broadcast(&sim_changed);
	pthread_mutex_unlock(&sim_lock);
	if (runs)
		pthread_join(work.thread, NULL);
}

void sim_progress_set(enum sim_progress progress, uint64_t seed)
{
	stop();
	pthread_mutex_lock(&sim_lock);
	work.progress = progress;
	work.chance = seed;
	work.stops = false;
	if (progress == SIM_THREAD && pthread_create(&work.thread, NULL, work_on, NULL))
		sim_abort("no thread");
	sim_progress();
	pthread_mutex_unlock(&sim_lock);
}

/* ---- What holds for all work ----------------------------------------------------------------- */

enum sim_retry sim_retry(void)
{
	return work.retry;
}

void sim_retry_set(enum sim_retry retry)
{
	pthread_mutex_lock(&sim_lock);
	work.retry = retry;
	sim_progress();
	pthread_mutex_unlock(&sim_lock);
}

bool sim_are_reads_late(void)
{
	return work.late;
}

void sim_reads_late(bool late)
{
	pthread_mutex_lock(&sim_lock);
	work.late = late;
	pthread_mutex_unlock(&sim_lock);
}

void sim_progress_reset(void)
{
	sim_progress_set(SIM_STEPPED, 0);
	sim_retry_set(SIM_AT_ONCE);
	sim_reads_late(false);
}
