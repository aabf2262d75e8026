/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/progress.h"

#include <errno.h>
#include <limits.h>
#include <time.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define TICK_MS 1
/*
 * After so many ticks in each of which somebody was alone it sleeps for longer; not for as long as who was alone
 * leads before it gives up waiting (batch.c).
 */
#define DOZE_TICKS 20
#define DOZE_MS 10
/* How long after the last work the thread goes on ticking, so that a pause between two requests does
 * not cost a wake-up. */
#define LINGER_NS (100 * NSEC_PER_MSEC)
/* A leader looks up from its loop this often, whatever its limit. */
#define LEAD_MS 100
#define LEAD_TICKS (LEAD_MS / TICK_MS)
/* Who sleeps in one connection leads instead this often: the others, with nothing live on them, have news too. */
#define ALONE_NS (20 * NSEC_PER_MSEC)

static bool take_lead(struct otte_progress *progress)
{
	bool free = false;

	return atomic_compare_exchange_strong(&progress->led, &free, true);
}

static void give_lead(struct otte_progress *progress)
{
	atomic_store(&progress->led, false);
	if (!atomic_load(&progress->follower_count))
		return;
	pthread_mutex_lock(&progress->lock);
	if (progress->followers)
		pthread_cond_signal(&progress->followers->cond);
	pthread_mutex_unlock(&progress->lock);
}

/* With the lead. */
static void run_lanes(struct otte_progress *progress, int timeout_ms)
{
	otte_loop_run(&progress->lanes, timeout_ms);
	atomic_store_explicit(&progress->ran_ns, otte_coarse_ns(), memory_order_relaxed);
}

static void disarm(struct otte_progress *progress)
{
	if (progress->armed)
		otte_loop_remove(&progress->control, &progress->lanes_watch);
	progress->armed = false;
}

/* The thread's: take the lead for one round, or leave the lanes to whoever has it. */
static void lanes_ready(struct otte_watch *watch, uint32_t events)
{
	struct otte_progress *progress = container_of(watch, struct otte_progress, lanes_watch);

	(void)events;
	if (atomic_load(&progress->follower_count) || !take_lead(progress)) {
		disarm(progress);
		return;
	}
	run_lanes(progress, 0);
	give_lead(progress);
}

static void arm(struct otte_progress *progress)
{
	if (!progress->armed &&
	    otte_loop_add(&progress->control, &progress->lanes_watch, EPOLLIN) == 0)
		progress->armed = true;
}

/* What the thread has seen of those who lead. */
struct led {
	uint64_t rounds;
	unsigned ticks; /* of the present round */
	uint64_t alone; /* rounds of those who were alone */
	unsigned calm;  /* ticks in a row that found more of these, and nobody restless */
};

static bool is_live(const struct otte_progress *progress)
{
	return atomic_load(progress->live) || atomic_load(progress->direct);
}

/* Lead where nobody has for a whole tick; have a leader look up who has been waiting for long. */
static void look_after_lanes(struct otte_progress *progress, struct led *seen)
{
	uint64_t rounds = atomic_load(&progress->rounds);
	bool led = atomic_load(&progress->led);

	seen->ticks = rounds == seen->rounds ? seen->ticks + 1 : 0;
	seen->rounds = rounds;
	if (seen->ticks) /* nobody has slept in a connection either */
		otte_loop_bring_back(&progress->lanes);
	if (atomic_load(&progress->attention) ||
	    (is_live(progress) && !led && seen->ticks))
		arm(progress);
	else if (!seen->ticks)
		disarm(progress); /* somebody leads, or sleeps in the one connection that matters */
	if (led && seen->ticks && seen->ticks % LEAD_TICKS == 0)
		otte_loop_wake(&progress->lanes);
}

static bool busy(struct otte_progress *progress)
{
	return is_live(progress) || atomic_load(&progress->attention);
}

static int shorter(int a, int b)
{
	if (a < 0)
		return b;
	return b < 0 || a < b ? a : b;
}

static int next_tick_ms(struct otte_progress *progress, struct led *seen)
{
	uint64_t alone = atomic_load_explicit(&progress->alone, memory_order_relaxed);

	if (atomic_load(&progress->restless)) {
		atomic_store(&progress->restless, false);
		seen->calm = 0;
	} else {
		seen->calm = alone == seen->alone ? 0 : seen->calm + 1;
	}
	seen->alone = alone;
	return seen->calm < DOZE_TICKS ? TICK_MS : DOZE_MS;
}

/* Who gets restless looks for one that dozes after saying so, and the thread for the word after lying down. */
static void sleep_in_control(struct otte_progress *progress, int ms)
{
	if (ms > TICK_MS && !atomic_load(&progress->parked)) {
		atomic_store(&progress->dozing, true);
		if (atomic_load(&progress->restless))
			ms = TICK_MS;
	}
	otte_loop_run(&progress->control, ms);
	atomic_store(&progress->dozing, false);
}

static void *progress_main(void *arg)
{
	struct otte_progress *progress = arg;
	struct led seen = { .rounds = 0 };
	uint64_t busy_ns = 0;
	int due_ms, tick_ms, ms;

	while (!atomic_load(&progress->stop)) {
		uint64_t now_ns = otte_now_ns();

		due_ms = progress->tick(progress->arg, now_ns);
		look_after_lanes(progress, &seen);
		if (busy(progress))
			busy_ns = now_ns;
		tick_ms = next_tick_ms(progress, &seen);
		ms = shorter(due_ms, now_ns - busy_ns < LINGER_NS ? tick_ms : -1);
		if (ms < 0 || ms > tick_ms) {
			/* Without work, lanes have news too: that they are up again, or have ended. */
			arm(progress);
			otte_loop_keep_whole(&progress->lanes, true);
			atomic_store(&progress->parked, true);
			if (busy(progress))
				ms = TICK_MS;
		}
		sleep_in_control(progress, ms);
		if (atomic_load(&progress->parked))
			otte_loop_keep_whole(&progress->lanes, false);
		atomic_store(&progress->parked, false);
	}
	return NULL;
}

int otte_progress_start(struct otte_progress *progress, const _Atomic uint64_t *live,
			const _Atomic bool *direct, int (*tick)(void *arg, uint64_t now_ns), void *arg)
{
	int ret;

	ret = otte_loop_init(&progress->lanes);
	if (ret)
		return ret;
	ret = otte_loop_init(&progress->control);
	if (ret)
		goto fini_lanes;
	pthread_mutex_init(&progress->lock, NULL);
	progress->lanes_watch.fd = progress->lanes.epoll_fd;
	progress->lanes_watch.ready = lanes_ready;
	progress->live = live;
	progress->direct = direct;
	progress->tick = tick;
	progress->arg = arg;
	ret = otte_thread_start(&progress->thread, "otte-engine", progress_main, progress);
	if (ret)
		goto fini_control;
	return 0;

fini_control:
	pthread_mutex_destroy(&progress->lock);
	otte_loop_fini(&progress->control);
fini_lanes:
	otte_loop_fini(&progress->lanes);
	return ret;
}

void otte_progress_stop(struct otte_progress *progress)
{
	atomic_store(&progress->stop, true);
	otte_loop_wake(&progress->control);
	pthread_join(progress->thread, NULL);
}

void otte_progress_fini(struct otte_progress *progress)
{
	pthread_mutex_destroy(&progress->lock);
	otte_loop_fini(&progress->control);
	otte_loop_fini(&progress->lanes);
}

void otte_progress_kick(struct otte_progress *progress)
{
	if (atomic_load(&progress->parked))
		otte_loop_wake(&progress->control);
}

void otte_progress_stir(struct otte_progress *progress)
{
	/* The thread takes no notice twice. */
	if (!atomic_load_explicit(&progress->restless, memory_order_relaxed))
		atomic_store(&progress->restless, true);
	if (atomic_load(&progress->dozing))
		otte_loop_wake(&progress->control);
}

void otte_progress_attend(struct otte_progress *progress)
{
	atomic_fetch_add(&progress->attention, 1);
	otte_loop_wake(&progress->control);
}

void otte_progress_unattend(struct otte_progress *progress)
{
	atomic_fetch_sub(&progress->attention, 1);
}

static bool is_late(struct otte_progress *progress)
{
	return otte_coarse_ns() - atomic_load_explicit(&progress->ran_ns, memory_order_relaxed) > ALONE_NS;
}

void otte_progress_catch_up(struct otte_progress *progress)
{
	if (is_late(progress))
		otte_progress_poll(progress);
}

bool otte_progress_alone(struct otte_progress *progress, uint64_t mine)
{
	uint64_t rounds = atomic_load_explicit(&progress->rounds, memory_order_relaxed);

	if (atomic_load(progress->live) != mine || atomic_load(&progress->follower_count) ||
	    atomic_load(&progress->attention))
		return false;
	if (is_late(progress))
		return false;
	/* One that is lost to another's is no loss: they only have to change. */
	atomic_store_explicit(&progress->rounds, rounds + 1, memory_order_relaxed);
	atomic_store_explicit(&progress->alone, rounds + 1, memory_order_relaxed);
	return true;
}

void otte_waiter_init(struct otte_waiter *waiter)
{
	atomic_init(&waiter->done, false);
	atomic_init(&waiter->leading, false);
	waiter->own = false;
	waiter->thread = pthread_self();
}

/*
 * A limit costs the kernel a timer each time. While work is live the thread ticks, and has the leader look
 * up every LEAD_MS; so only an end that is nearer needs one.
 */
static int lead_ms(struct otte_progress *progress, uint64_t until_ns)
{
	uint64_t now_ns = otte_coarse_ns(), left_ms;

	if (until_ns <= now_ns)
		return 0;
	left_ms = (until_ns - now_ns + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	if (left_ms > 2 * LEAD_MS && atomic_load(progress->live))
		return -1;
	return (int)min_u64(LEAD_MS, left_ms);
}

/* One round, with the lead. */
static void lead(struct otte_progress *progress, struct otte_waiter *waiter, uint64_t until_ns)
{
	atomic_store(&waiter->leading, true);
	atomic_fetch_add_explicit(&progress->rounds, 1, memory_order_relaxed);
	if (!atomic_load(&waiter->done))
		run_lanes(progress, lead_ms(progress, until_ns));
	atomic_store_explicit(&waiter->leading, false, memory_order_release);
	give_lead(progress);
}

/* Asleep until the waiter is done, the lead is free, or it is time. */
static void follow(struct otte_progress *progress, struct otte_waiter *waiter, uint64_t until_ns)
{
	const struct timespec until = otte_timespec(until_ns);

	otte_cond_init(&waiter->cond);
	pthread_mutex_lock(&progress->lock);
	DL_APPEND2(progress->followers, waiter, follow_prev, follow_next);
	atomic_fetch_add(&progress->follower_count, 1);
	if (!atomic_load(&waiter->done) && atomic_load(&progress->led))
		pthread_cond_timedwait(&waiter->cond, &progress->lock, &until);
	DL_DELETE2(progress->followers, waiter, follow_prev, follow_next);
	atomic_fetch_sub(&progress->follower_count, 1);
	pthread_mutex_unlock(&progress->lock);
	pthread_cond_destroy(&waiter->cond);
}

bool otte_progress_wait(struct otte_progress *progress, struct otte_waiter *waiter,
			uint64_t until_ns)
{
	while (!atomic_load(&waiter->done)) {
		otte_loop_bring_back(&progress->lanes);
		if (take_lead(progress))
			lead(progress, waiter, until_ns);
		else
			follow(progress, waiter, until_ns);
		if (!atomic_load(&waiter->done) && until_ns != OTTE_FOREVER_NS &&
		    otte_now_ns() >= until_ns)
			break;
	}
	/* A signal that the lead is free may have been for a follower that no longer wants it. */
	if (atomic_load(&progress->follower_count) && take_lead(progress))
		give_lead(progress);
	return atomic_load(&waiter->done);
}

static void wake_follower(struct otte_progress *progress, struct otte_waiter *waiter)
{
	struct otte_waiter *follower;

	pthread_mutex_lock(&progress->lock);
	DL_FOREACH2(progress->followers, follower, follow_next)
		if (follower == waiter)
			pthread_cond_signal(&waiter->cond);
	pthread_mutex_unlock(&progress->lock);
}

void otte_progress_wake(struct otte_progress *progress, struct otte_waiter *waiter)
{
	if (pthread_equal(waiter->thread, pthread_self())) {
		waiter->own = true;
		atomic_store_explicit(&waiter->done, true, memory_order_relaxed);
		return;
	}
	atomic_store(&waiter->done, true);
	if (atomic_load(&waiter->leading))
		otte_loop_wake(&progress->lanes);
	else
		wake_follower(progress, waiter);
}

void otte_progress_poll(struct otte_progress *progress)
{
	if (!take_lead(progress))
		return;
	atomic_fetch_add(&progress->rounds, 1);
	run_lanes(progress, 0);
	give_lead(progress);
}
