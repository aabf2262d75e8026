/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the files of a lane share among them; others see of it what tcp.h has.
 *
 * What is in line here is on the way of every request.
 */
#ifndef OTTE_TRANSPORT_TCP_LANE_H
#define OTTE_TRANSPORT_TCP_LANE_H

#include "transport/tcp/tcp.h"

static inline struct otte_loop *tcp_lane_loop(struct tcp_lane *lane)
{
	return lane->peer->tcp->env.loop;
}

/*
 * Who sleeps in the connection does so with rx_lock, and would have it again before anybody else woke. So it is
 * told that somebody waits.
 */
static inline void tcp_lane_lock_rx(struct tcp_lane *lane)
{
	if (pthread_mutex_trylock(&lane->rx_lock) == 0)
		return;
	atomic_fetch_add(&lane->rx_wanted, 1);
	pthread_mutex_lock(&lane->rx_lock);
	atomic_fetch_sub(&lane->rx_wanted, 1);
}

/* Under lock, which orders the writers; pick() and idle() look without it. */
static inline void tcp_lane_change_queued(struct tcp_lane *lane, uint64_t more, uint64_t less)
{
	uint64_t bytes = atomic_load_explicit(&lane->queued_bytes, memory_order_relaxed);

	atomic_store_explicit(&lane->queued_bytes, bytes + more - less, memory_order_relaxed);
}

/* ---- Slices that have their result: a list, told once no lock is held ---- */

/* Takes the slice's reference to its plan with it. */
static inline void tcp_done_add(struct tcp_slice **done, struct tcp_slice *slice, int code,
				uint8_t effect)
{
	slice->code = code;
	slice->effect = effect;
	slice->done_next = *done;
	*done = slice;
}

/* Under rx_lock, a READ: it is told, but stays in the queue for its answer, which may come before it is told. */
static inline void tcp_done_add_early(struct tcp_slice **done, struct tcp_slice *slice, int code)
{
	atomic_fetch_add(&slice->plan->refs, 1);
	slice->finished = true;
	tcp_done_add(done, slice, code, OTTE_EFFECT_NONE);
}

/* Without locks. */
static inline void tcp_done_finish(struct tcp_slice *done)
{
	while (done) {
		struct tcp_slice *slice = done;
		struct tcp_plan *plan = slice->plan;

		done = slice->done_next;
		tcp_slice_finish(slice, slice->code, slice->effect);
		tcp_plan_put(plan);
	}
}

/* ---- lane_send.c, under lock ---- */

void tcp_lane_flush(struct tcp_lane *lane);
/* Have the loop told when there is room in the socket, or no longer. */
int tcp_lane_ask_for_room(struct tcp_lane *lane, bool want);
/* Takes the connection down for the loop to bury. */
void tcp_lane_shut(struct tcp_lane *lane);

/* Under both locks: what was added to a held lane goes out. */
static inline void tcp_lane_let_go(struct tcp_lane *lane)
{
	lane->held = false;
	if (lane->unsent && !lane->wants_room)
		tcp_lane_flush(lane);
}

/* ---- lane_answer.c, under rx_lock ---- */

/* Under lock: the oldest slice if its answer may come; *alone: nothing else can follow that answer. */
static inline struct tcp_slice *tcp_lane_sent_head(struct tcp_lane *lane, bool *alone)
{
	struct tcp_slice *head = lane->queue == lane->unsent ? NULL : lane->queue;

	*alone = head && (!head->next || head->next == lane->unsent);
	return head;
}

static inline struct tcp_slice *tcp_lane_answered_next(struct tcp_lane *lane, bool *alone)
{
	struct tcp_slice *head;

	pthread_mutex_lock(&lane->lock);
	head = tcp_lane_sent_head(lane, alone);
	pthread_mutex_unlock(&lane->lock);
	return head;
}

/* Under rx_lock: what is still to come of the current payload, its verdict included. */
static inline uint64_t tcp_lane_payload_left(const struct tcp_lane *lane)
{
	return lane->current->length + !!lane->mask - lane->current_got;
}

/*
 * Under rx_lock: whether so little of a bare answer is in that it cannot be told what it is, in memory that the slice
 * still has.
 */
static inline bool tcp_lane_has_start(const struct tcp_lane *lane)
{
	return lane->bare.pending && !lane->current->finished && !lane->garbled;
}

/* What is in of the answer, to lane->answer, while the slice still has its memory. */
void tcp_lane_keep_start(struct tcp_lane *lane);
/* It can be a refusal's, and then is no part of what the slice's memory is to hold. */
void tcp_lane_put_back_start(const struct tcp_lane *lane);
/* A whole answer is in, and `extra` bytes of what follows it. */
int tcp_lane_take_answer(struct tcp_lane *lane, struct tcp_slice *head, uint64_t extra,
			 struct tcp_slice **done);
/*
 * A receive that found `current` has returned n. 1: something came; 0: nothing; negative: the connection is of no
 * use.
 */
int tcp_lane_received(struct tcp_lane *lane, struct tcp_slice *current, ssize_t n,
		      struct tcp_slice **done);
/* Under both locks: what the kernel has let go of. */
void tcp_lane_reap(struct tcp_lane *lane, struct tcp_slice **done);

/* ---- lane_receive.c ---- */

/* Under rx_lock: what there is. 0 or negative. */
int tcp_lane_receive_round(struct tcp_lane *lane, struct tcp_slice **done);

/* ---- lane_connect.c ---- */

/* CONNECTING or HELLO, and the socket has something to say. */
void tcp_lane_connecting_ready(struct tcp_lane *lane);

#endif
