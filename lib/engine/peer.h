/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Another engine, as one that we ask.
 *
 *   CONNECTING -> READY -> LOST -> CONNECTING ...        any -> STALE
 *
 * LOST: the control connection or every lane is gone; requests under way have failed, new ones are
 * refused, and the engine's thread connects again with a growing pause. STALE: somebody else answers
 * there now; final. Moved under `lock`.
 *
 * Lock order: batch.lock is never held when peer.lock is taken; peer.lock is never held when the
 * transport or the control client is called, but for pin().
 */
#ifndef OTTE_ENGINE_PEER_H
#define OTTE_ENGINE_PEER_H

#include <stdatomic.h>

#include "base/hash.h"
#include "control/client.h"
#include "control/endpoint.h"
#include "sched/window.h"
#include "transport/transport.h"

struct otte_engine;
struct otte_task_record;

enum otte_peer_state {
	OTTE_PEER_CONNECTING = 0,
	OTTE_PEER_READY = 1,
	OTTE_PEER_LOST = 2,
	OTTE_PEER_STALE = 3,
};

/* What became of requests. */
struct otte_request_counts {
	uint64_t submitted, completed, failed, read_bytes, write_bytes, promoted;
	uint64_t waiting[OTTE_PRIORITIES]; /* groups, now */
};

/* The last region that a caller's requests were checked against; spares them the peer's lock. */
struct otte_region_memo {
	uint64_t stamp;                  /* of peer.described, which is of one peer and one description */
	uint64_t id, length;
	uint32_t access;
};

struct otte_known_region {
	uint64_t id;
	uint64_t length;
	uint32_t access;
	uint64_t described;              /* which describe saw it */
	UT_hash_handle hh;
};

struct otte_peer {
	struct otte_peer *prev, *next;   /* engine->peers, under engine->peer_lock */
	struct otte_engine *engine;
	struct otte_retired retired;
	char endpoint[OTTE_ADDRESS_MAX];
	_Atomic uint64_t refs;           /* segments and tasks that end; the last one takes it down */
	struct otte_control_client control;

	/* What every request looks at, side by side; the atomics are written under lock. */
	struct otte_transport_peer *transport; /* of the engine's */
	_Atomic enum otte_peer_state state;
	_Atomic bool said_bye;           /* it admits no new requests */
	_Atomic uint64_t described;      /* stamp of what is in regions; 0: nothing */

	pthread_mutex_t lock;            /* the rest */
	pthread_cond_t changed;
	int code;                        /* LOST, STALE: why; until the next time */
	char text[OTTE_TEXT_MAX];
	bool closing;                    /* taken down; changes mean nothing any more */
	bool authenticated;
	bool said_unattested;            /* a peer of this host that is not is told of once */
	bool served;                     /* the last tick found something that its gate lets go; the thread's */
	uint64_t losses;                 /* how often it became LOST */
	struct otte_identity identity;   /* epoch 0 until first READY or given */
	uint64_t client;                 /* READY: which one of our module it is, attested; 0: not known */
	uint64_t retry_at_ns, backoff_ns;
	struct otte_window window;
	struct otte_task_record *live;   /* tasks queued or dispatched */
	uint64_t next_deadline_ns;       /* no live task is due before */
	struct otte_known_region *regions;
	uint64_t describes;
	struct otte_request_counts counts;
};

/*
 * The peer at `endpoint`, connected or connecting. `epoch` 0: whoever answers. Never waits. `losses` is how often
 * it had been lost before the attempt that the caller is a part of.
 */
int otte_peer_get(struct otte_engine *engine, const char *endpoint,
		  const struct otte_addresses *addresses, uint64_t epoch, struct otte_peer **peer,
		  uint64_t *losses);
void otte_peer_hold(struct otte_peer *peer);
void otte_peer_put(struct otte_peer *peer);

/* Until that attempt is over, whatever attempts have followed meanwhile. 0: READY. */
int otte_peer_wait_ready(struct otte_peer *peer, uint64_t losses, uint64_t until_ns);
/* 0: READY. Otherwise the errno that a request gets, with text. */
int otte_peer_check(struct otte_peer *peer);
/* What a request may ask of a region, as far as it was described; 0 if it was not. */
int otte_peer_check_region(struct otte_peer *peer, const struct otte_request *request,
			   struct otte_region_memo *memo);

/*
 * Both of these without a lock, and without a text. False: it is refused, or cannot be told so, as the memo is of
 * another region.
 */
bool otte_peer_admits(struct otte_peer *peer, const struct otte_request *request,
		      const struct otte_region_memo *memo);

/* Over all peers there are and were. */
void otte_peer_sum(struct otte_engine *engine, struct otte_request_counts *sum);

/* Reconnect, limits of the transport. Returns when it wants to be called again. */
uint64_t otte_peer_tick(struct otte_peer *peer, uint64_t now_ns);

#endif
