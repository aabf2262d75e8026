/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NICs of RDMA: a peer's NIC reads or writes registered memory itself, by a key that was made for exactly that
 * range, direction and queue pair, and that is void once the request is over.
 *
 * The transport stands before another one (env.next, TCP), which it leaves to what it cannot move: a peer without
 * RDMA, or with no NIC that ours reaches; a region that NICs do not know; whatever a source refuses, and then answers
 * for there. A request that wants this transport and no other fails instead. A READ that was cut off goes there once
 * its NIC is proven to be done with it, as a retry; a WRITE that was cut off has an unknown effect, and ends.
 *
 *   rdma       the transport of one engine: contexts, MRs, its thread; rdma.c
 *   pair       one end of two QPs that are connected; pair.c
 *   peer       one that we ask: its line, and what waits for it; peer.c
 *   endpoint   the pairs with a peer over one rail, for one direction; endpoint.c
 *   rail       a NIC of ours and one of the peer's: whether it is well, and who takes which; rail.c
 *   probe      a rail that is tried before anything goes over it; rail.c
 *   parent     a request, or a stretch of a long one, and the slices that it is cut into; parent.c
 *   transfer   a slice on its way over a pair; transfer.c
 *   stage      where its payload is for our NICs: in place, or a chunk of a pool; payload.c, staging.c
 *   source     one that asks us: its line, its pairs; source.c
 *   poller     a NIC: its context and its lanes; nic_lanes.c
 *   exposure   a range that a peer may reach: a use with its loan, a window; exposure.c
 *   lent       as a grant: for one payload, until its receipt; grant.c
 *   let        as a lease: for as long as we let it; let.c
 *   lease      one that we hold of a peer, and the uses of it; lease.c, use.c, alone.c
 *
 * One thread, "otte-rdma", does everything but registration and what needs no NIC: it hears the
 * lines, polls the lanes of all contexts, and makes and destroys queue pairs. So all of these
 * objects are its own, and what others want of it they leave in a few fields under a lock and wake
 * it. There is one thread for all NICs. It has the turn (rdma.turn) whenever it is awake; who takes
 * it in its sleep is the thread until he gives it back, as who waits for a lone request by a lease
 * does (alone.c). Beside it the monitor's thread hears what devices tell; see routes.c.
 *
 * Locks: rdma.turn, of all that is the thread's, before all others; rdma.lock, of the lists of peers and
 * sources and of what others leave there (recalls; a source's fd and told_drop); otte_rdma_peer.lock, of what
 * the peer was told. Under neither of the two is any other taken but a loop's, and nobody of the engine called.
 */
#ifndef OTTE_TRANSPORT_RDMA_RDMA_H
#define OTTE_TRANSPORT_RDMA_RDMA_H

#include <pthread.h>

#include "sched/devices.h"
#include "sched/rails.h"
#include "topo/priority.h"
#include "transport/rdma/binding.h"
#include "transport/rdma/buffers.h"
#include "transport/rdma/context_set.h"
#include "transport/rdma/cq_lane.h"
#include "transport/rdma/line.h"
#include "transport/rdma/staging.h"
#include "transport/rdma/window.h"
#include "transport/transport.h"

/* QPs of an endpoint, at most; rdma.pairs of these slots are filled, in their order. */
#define OTTE_RDMA_WIDTH 8
/* No slice is longer, but for a tail of a quarter of it. */
#define OTTE_RDMA_PIECE_BYTES (64 * MIB)

struct otte_rdma;
struct otte_rdma_monitor;

/* What publish() makes of a region. */
struct otte_published {
	uint64_t id;
	const struct otte_rdma_buffer *buffer; /* held; NULL: staged, no NIC knows it */
};

/* ---- rdma.c ---- */

/* Lanes of a NIC that have QPs left and take no more, at most: beyond, no QP is made on it. */
#define OTTE_RDMA_DRAINING_MAX 8

/*
 *   current --it takes no more QPs--> draining --it has none any more--> gone
 */
struct otte_rdma_nic_lane {
	struct otte_watch watch;
	struct otte_retired retired;
	struct otte_rdma_nic_lane *prev, *next; /* poller->draining */
	struct otte_rdma_poller *poller;
	struct otte_rdma_cq_lane *lane;
	bool deaf;                         /* its events do not come: it is polled now and then */
};

/* A NIC: its context and lanes. */
struct otte_rdma_poller {
	struct otte_rdma *rdma;
	struct otte_rdma_context *context; /* NULL: none of this id */
	uint64_t pd;                       /* random: which PD of which time */
	struct otte_rdma_nic_lane *current; /* NULL: not yet */
	struct otte_rdma_nic_lane *draining;

	/* Written by the thread and read by the monitor's. */
	_Atomic uint32_t users;            /* pairs, from before their QP is made until its end */
	_Atomic uint32_t drains;           /* lanes in `draining` */
};

#define OTTE_RDMA_RECALLS 32

/* Regions that are wanted back. More than that: all. */
struct otte_rdma_recalls {
	uint64_t regions[OTTE_RDMA_RECALLS];
	uint32_t count;
	bool all;
};

static inline bool otte_rdma_recalls_name(const struct otte_rdma_recalls *recalls, uint64_t region)
{
	uint32_t i;

	for (i = 0; i < recalls->count; i++)
		if (recalls->regions[i] == region)
			return true;
	return recalls->all;
}

struct otte_rdma {
	struct otte_transport base;
	struct otte_transport_env env;
	struct otte_transport *next;
	const struct otte_verbs *verbs;
	struct otte_rdma_context_set set;
	struct otte_rdma_buffers *buffers;
	struct otte_rdma_monitor *monitor;
	_Atomic uint64_t published; /* ids, ever */
	_Atomic uint64_t fenced, resumed; /* NICs by id: as the monitor says, and not heard yet */

	struct otte_loop loop;
	pthread_t thread;
	_Atomic bool stop;
	_Atomic bool woken;              /* since the thread last began to look */
	_Atomic uint64_t rounds;         /* of the thread */
	pthread_mutex_t turn;
	_Atomic bool awaited;            /* by the thread: others leave it the turn */

	pthread_mutex_t lock;
	struct otte_rdma_peer *peers;
	struct otte_rdma_source *sources;
	struct otte_rdma_recalls recalls; /* not heard yet */

	/* The thread's. */
	struct otte_rdma_lines lines;
	struct otte_rdma_poller pollers[OTTE_NIC_IDS];
	struct otte_rdma_pair *closing;
	struct otte_rdma_lent *waiting;  /* ASKs without a place, first come first */
	uint32_t places;                 /* from EXPECTING to GRANTED, of config.rdma_grants */
	uint32_t stuck;                  /* of these, of grants that stay */
	uint64_t last_turn;              /* of otte_rdma_source.turn */
	uint32_t leases;                 /* of config.rdma_leases */
	uint64_t last_grant;
	bool busy;                       /* something has moved in this round */
	bool unrecorded;                 /* something stays, and there was no room to record it */
	bool timed;                      /* something has a limit that may be near */
	bool soon;                       /* something is to be tried again soon */
	struct otte_rails *rails;
	struct otte_devices *devices;
	struct otte_nic_priority ranks;  /* of devices */
	uint64_t last_epoch;             /* of peers, as rails know them */
	struct otte_rdma_staging staging;
	struct otte_rdma_budget direct;  /* of what is moved in place */

	/* When the log has said it, once a second: peers can make it say so. */
	_Atomic uint64_t wanted_ns;      /* what grants were refused for */
	_Atomic uint64_t failed_ns;      /* what was wrong with a peer's pair */

	/* For statistics. */
	_Atomic uint64_t qps, grants, cqes, retries, bad_frames;
	_Atomic uint64_t leases_given, lease_requests;
	_Atomic uint64_t slices, slices_moved;
	_Atomic uint64_t rails_paused, rail_errors, rail_probes, rail_recoveries;
};

/*
 * Whether who has `held` of what there is may have another one of the `free` ones: a first one in any case, and then as
 * long as it has less than so many times what it would leave to others. So one alone never has all.
 */
static inline bool otte_rdma_share(uint32_t held, uint32_t free, uint32_t times)
{
	return free && (!held || held < (uint64_t)times * (free - 1));
}
/* For longer than the limit; whoever has read the clock first may have come last. */
static inline bool otte_rdma_is_late(uint64_t since_ns, uint64_t limit_ns, uint64_t now_ns)
{
	return now_ns - min_u64(now_ns, since_ns) > limit_ns;
}
/* To do what is the thread's, soon to be ended: it waits. False: not now. */
bool otte_rdma_take_turn(struct otte_rdma *rdma);
void otte_rdma_end_turn(struct otte_rdma *rdma);
/* Something is to be looked at by the thread. */
static inline void otte_rdma_wake(struct otte_rdma *rdma)
{
	if (!atomic_exchange(&rdma->woken, true))
		otte_loop_wake(&rdma->loop);
}
/* A native object that could not be destroyed. */
void otte_rdma_lost(struct otte_rdma *rdma, uint64_t bytes, const char *what);

/* ---- nic_lanes.c ---- */

/* The lane that a new QP of a NIC is to be on. -EAGAIN with a text: too many drain. */
int otte_rdma_lane_of(struct otte_rdma *rdma, unsigned int nic, struct otte_rdma_cq_lane **lane);
/* All of them; those that have drained go. Not within a round of the loop. */
void otte_rdma_lanes_poll(struct otte_rdma *rdma);
/* What comes from now on ends the thread's sleep. */
void otte_rdma_lanes_arm(struct otte_rdma *rdma);
bool otte_rdma_lanes_are_deaf(const struct otte_rdma *rdma);
/* After the thread. -EUCLEAN: some of them stay. */
int otte_rdma_lanes_close(struct otte_rdma *rdma);

/* ---- routes.c ---- */

/* The monitor is there, and does not run yet. */
int otte_rdma_routes_watch(struct otte_rdma *rdma);
/* What it has told since the last look. */
void otte_rdma_routes_look(struct otte_rdma *rdma);
/* Something of a NIC is gone: where it was the last, a port that was paused may return. */
void otte_rdma_route_drains(struct otte_rdma_poller *poller);
/*
 * A port that is down, or another: no path goes out there for now. PATHS have been said; all pairs
 * on that NIC are closed, of those that we ask and of those that ask us.
 */
void otte_rdma_port_changed(struct otte_rdma *rdma, unsigned int nic);
/* The code and text of that. */
int otte_rdma_why_changed(struct otte_rdma *rdma, unsigned int nic);
/* PATHS: our NICs as they are now. */
void otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths);
/* What a peer says of one of its NICs, or NULL. */
const struct otte_rdma_path *otte_rdma_find_path(const struct otte_rdma_paths *paths,
						 unsigned int nic);
/* Said again: the same NICs and PDs, with other addresses and states; else -EPROTO with a text. */
int otte_rdma_paths_follow(const struct otte_rdma_paths *paths,
			   const struct otte_rdma_paths *earlier);

/* ---- pair.c ---- */

/*
 *   EMPTY --open--> OPEN --join--> JOINED
 *     ^              |               |   close, or the QP has fenced itself: failed() is told
 *     |              v               v
 *     `---------- CLOSING: its WRs complete, flushed; once all have, or after a while, it is destroyed
 *     |              |
 *  closed(gone)      `--it could not be--> RETAINED, closed(not gone)
 */
enum otte_rdma_pair_state {
	OTTE_RDMA_PAIR_EMPTY = 0,
	OTTE_RDMA_PAIR_OPEN,
	OTTE_RDMA_PAIR_JOINED,
	OTTE_RDMA_PAIR_CLOSING,
	OTTE_RDMA_PAIR_RETAINED,
};

struct otte_rdma_pair {
	struct otte_rdma_pair *prev, *next; /* rdma->closing */
	struct otte_rdma *rdma;
	void *owner;
	enum otte_rdma_pair_state state;
	uint64_t connection;
	unsigned int nic, remote_nic;
	uint8_t op;
	struct otte_rdma_qp *qp;
	uint32_t remote_qpn;
	int code;            /* CLOSING: why */
	bool stopped;        /* and it is in ERR */
	uint64_t since_ns;   /* OPEN, CLOSING */
	/* The QP is of no use any more, by itself: to be closed. */
	void (*failed)(struct otte_rdma_pair *pair, int code);
	/* gone: it has done what it ever did. Everything that was posted has been told; not so where it is not gone. */
	void (*closed)(struct otte_rdma_pair *pair, bool gone);
};

/* `source`: the end that grants. rdma, owner, nic, remote_nic, op, connection, failed and closed are set. */
int otte_rdma_pair_open(struct otte_rdma_pair *pair, bool source);
int otte_rdma_pair_join(struct otte_rdma_pair *pair, const struct otte_rdma_path *path, uint32_t qpn,
			uint32_t psn, uint32_t mtu_bytes, uint32_t rd_atomic);
/* Of OPEN or JOINED; nothing of it moves from now on but what is under way. */
void otte_rdma_pair_close(struct otte_rdma_pair *pair, int code, const char *why);
/* Those that are CLOSING and drained. */
void otte_rdma_pairs_reap(struct otte_rdma *rdma, uint64_t now_ns);

/* ---- peer.c ---- */

enum otte_rdma_peer_state {
	OTTE_RDMA_PEER_DOWN = 0,  /* requests are handed on */
	OTTE_RDMA_PEER_HELLO = 1, /* they wait */
	OTTE_RDMA_PEER_PATHS = 2, /* likewise */
	OTTE_RDMA_PEER_READY = 3,
};

struct otte_rdma_peer {
	struct otte_transport_peer base;
	struct otte_rdma_peer *prev, *next_peer; /* rdma->peers */
	struct otte_retired retired;
	struct otte_rdma *rdma;
	struct otte_control_client *control;

	_Atomic enum otte_rdma_peer_state state; /* the thread's; read by anybody */

	pthread_mutex_t lock;
	struct otte_work *queue;       /* not begun, or between two pieces */
	struct otte_work *left;        /* in the queue of a line that was lost */
	struct otte_work *running;     /* in a transfer */
	bool told_open;                /* a line is to be opened over `fd`, with `hello` */
	bool told_stop, told_close;
	bool stopped;                  /* until the next connect */
	bool noticed;                  /* a running work is to be ended early */
	int stop_code;
	int fd;
	struct otte_lane_hello hello;
	struct otte_identity identity; /* the source's */
	uint64_t again_ns;             /* DOWN: not tried before */
	char why[OTTE_TEXT_MAX];       /* DOWN: why */

	/* The thread's. */
	struct otte_rdma_line line;
	uint64_t since_ns;             /* HELLO, PATHS */
	struct otte_identity source;   /* of the line */
	struct otte_rdma_paths paths;
	struct otte_rdma_endpoint *endpoints;
	uint64_t epoch;                /* as rails know it; of one line */
	struct otte_rail_paths reach;
	uint64_t nics;                 /* of ours, with any path */
	uint64_t likely[OTTE_NIC_IDS]; /* remote NICs by local one: they are trusted at first */
	uint64_t trusted[OTTE_NIC_IDS]; /* likewise: payload goes there */
	uint64_t carried[OTTE_NIC_IDS]; /* likewise: something has passed, ever */
	struct otte_rdma_probe *probes;
	struct otte_rdma_parent *parents; /* first come first */
	uint32_t unbegun;              /* their slices that are to be asked for */
	uint32_t unanswered;           /* ASKs */
	uint64_t last_ask, last_connection;
	struct otte_rdma_transfer *transfers;
	struct otte_rdma_lease *leases;
	uint32_t lease_count;          /* but for those that are NONE */
	struct otte_rdma_use *uses;
	int broken;                    /* the line: why it is to be lost; 0: it is not */
	char broken_text[OTTE_TEXT_MAX];
};

int otte_rdma_peer_open(struct otte_transport *transport, struct otte_control_client *control,
			void (*changed)(void *arg), void *arg, struct otte_transport_peer **out);
void otte_rdma_peer_connect(struct otte_transport_peer *peer);
void otte_rdma_peer_stop(struct otte_transport_peer *peer, int code);
void otte_rdma_peer_tick(struct otte_transport_peer *peer, uint64_t now_ns);
void otte_rdma_peer_close(struct otte_transport_peer *peer);
void otte_rdma_peer_start(struct otte_transport_peer *peer, struct otte_work *work);
/* Nothing of it was moved. */
void otte_rdma_work_init(struct otte_work *work);
void otte_rdma_peer_cancel(struct otte_transport_peer *peer, void *pinned, int code);
/* Whether a work is not for this transport, as far as can be told without a lock. */
bool otte_rdma_peer_passes(const struct otte_rdma_peer *peer, const struct otte_work *work);
/* Nothing waits here or is under way. */
bool otte_rdma_peer_is_idle(struct otte_rdma_peer *peer);

/* The thread: what others have left there, and whatever can go on. False: the peer is gone. */
bool otte_rdma_peer_look(struct otte_rdma_peer *peer, uint64_t now_ns);
/* The thread, see routes.c: pairs on this NIC are closed; PATHS are said again. */
void otte_rdma_peer_port_changed(struct otte_rdma_peer *peer, unsigned int nic);
void otte_rdma_peer_paths_changed(struct otte_rdma_peer *peer, unsigned int unused);
/* The line is to be lost, as the error's text says. */
void otte_rdma_peer_break(struct otte_rdma_peer *peer, int code);
/* Where that fails the line is lost, with the next look. */
void otte_rdma_peer_say(struct otte_rdma_peer *peer, const struct otte_rdma_message *message);
/* A work is done, or goes the other way. Without locks. */
void otte_rdma_work_tell(struct otte_work *work, int code, bool drained);
void otte_rdma_work_hand_on(struct otte_rdma_peer *peer, struct otte_work *work, int code);

/* ---- endpoint.c ---- */

struct otte_rdma_endpoint {
	struct otte_rdma_endpoint *prev, *next; /* peer->endpoints */
	struct otte_rdma_peer *peer;
	unsigned int nic, remote_nic;
	uint8_t op;
	struct otte_rdma_pair pairs[OTTE_RDMA_WIDTH];
	uint64_t again_ns;       /* none is made before */
	int code;                /* until then: why */
	unsigned int failures;   /* since anything has passed */
};

/* NULL: there is none yet. It stays as long as the peer. */
struct otte_rdma_endpoint *otte_rdma_endpoint_find(const struct otte_rdma_peer *peer, unsigned int nic,
						   unsigned int remote_nic, uint8_t op);
int otte_rdma_endpoint_get(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic, uint8_t op,
			   struct otte_rdma_endpoint **out);
/* 0: *out has room for a transfer. 1: later. Negative: there is none, and none can be made now. */
int otte_rdma_endpoint_pick(struct otte_rdma_endpoint *endpoint, uint64_t now_ns, struct otte_rdma_pair **out);
/* Whether pick() could say nothing but no, and why. */
bool otte_rdma_endpoint_is_blocked(const struct otte_rdma_endpoint *endpoint, uint64_t now_ns, int *code);
/* Something has passed. */
void otte_rdma_endpoint_succeeded(struct otte_rdma_endpoint *endpoint);
int otte_rdma_endpoint_connected(struct otte_rdma_peer *peer, const struct otte_rdma_connected *connected);
int otte_rdma_endpoint_closed(struct otte_rdma_peer *peer, const struct otte_rdma_close *message);
/* All pairs of the peer; those of one NIC of ours, whose port is another one from now on. */
void otte_rdma_endpoints_close(struct otte_rdma_peer *peer, int code);
void otte_rdma_endpoints_fence(struct otte_rdma_peer *peer, unsigned int nic);
/* What could not be made before may be made now. */
void otte_rdma_endpoints_try_again(struct otte_rdma_peer *peer);
/* Pairs that the peer was asked for and does not answer. */
void otte_rdma_endpoints_give_up(struct otte_rdma_peer *peer, uint64_t now_ns);
/* No pair will change any more. */
bool otte_rdma_endpoints_are_over(const struct otte_rdma_peer *peer);
/* Some pair could not be destroyed. */
bool otte_rdma_peer_has_retained(const struct otte_rdma_peer *peer);
/* No pair is left. */
void otte_rdma_endpoints_free(struct otte_rdma_peer *peer);

/* ---- rail.c ---- */

/* What is to go somewhere. */
struct otte_rdma_wanted {
	uint64_t nics; /* that may be used: they know its memory */
	uint8_t op;
	const struct otte_rdma_endpoint *but; /* not over this one's rail; or NULL */
};

struct otte_rdma_choice {
	uint64_t nics;                /* over which payload may go */
	uint8_t remote[OTTE_NIC_IDS]; /* of each: where to */
};

/*
 *   CONNECTING --a pair has room--> POSTED --its CQE--> gone: the rail is trusted
 *       |                             |
 *       `-----------its pair fails----`--> OVER: a failure of the rail; until its CQE has come
 */
enum otte_rdma_probe_state {
	OTTE_RDMA_PROBE_CONNECTING = 0,
	OTTE_RDMA_PROBE_POSTED,
	OTTE_RDMA_PROBE_OVER,
};

struct otte_rdma_probe {
	struct otte_rdma_probe *prev, *next; /* peer->probes; one a rail that is not OVER */
	struct otte_rdma_endpoint *endpoint;
	enum otte_rdma_probe_state state;
	struct otte_rdma_pair *pair;         /* POSTED */
	struct otte_rail_ticket ticket;
	struct otte_rdma_work work;
	bool charged;
};

int otte_rdma_rails_open(struct otte_rdma *rdma);
/* No peer is left. */
void otte_rdma_rails_close(struct otte_rdma *rdma);
/* What the counters say is to be seen by others. */
void otte_rdma_rails_count(struct otte_rdma *rdma);
/* A line is ready: all of its rails are new. And it is lost. */
void otte_rdma_peer_meet(struct otte_rdma_peer *peer);
void otte_rdma_peer_part(struct otte_rdma_peer *peer);
/* PATHS of either side have changed. What is likely now and was not is trusted. */
void otte_rdma_peer_look_again(struct otte_rdma_peer *peer);
/* A port of ours is another one. And what it says of its rate; any thread. */
void otte_rdma_rails_port_changed(struct otte_rdma *rdma, unsigned int nic);
void otte_rdma_rails_rate(struct otte_rdma *rdma, unsigned int nic, uint64_t bytes_per_s);

/*
 * 0; 1: rails are being tried, and nothing else can be said now. Negative, and the text says why: nothing can go
 * there. Begins probes where they are due.
 */
int otte_rdma_rails_choose(struct otte_rdma_peer *peer, const struct otte_rdma_wanted *wanted, uint64_t now_ns,
			   struct otte_rdma_choice *choice);

/* As sched/rails.h, of one of the peer's. What has passed is trusted from now on, what failed is not. */
int otte_rdma_rail_admit(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic, uint64_t now_ns,
			 struct otte_rail_ticket *ticket);
void otte_rdma_rail_cancel(struct otte_rdma_peer *peer, const struct otte_rail_ticket *ticket);
void otte_rdma_rail_succeed(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			    const struct otte_rail_ticket *ticket);
void otte_rdma_rail_fail(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			 const struct otte_rail_ticket *ticket);
/* A pair has failed with this code. `unsaid`: that is its rail's failure, and no ticket has said so. */
void otte_rdma_rail_blame(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair, bool unsaid, int code);
/* Whether what a pair has failed with is its rail's. */
bool otte_rdma_blames_rail(int code);

void otte_rdma_probes_go_on(struct otte_rdma_peer *peer, uint64_t now_ns);
/* Some may still say something. */
bool otte_rdma_probes_are_under_way(const struct otte_rdma_peer *peer);

/* ---- parent.c ---- */

/*
 *   WAITING --asked for--> UNDER_WAY --DONE--> DONE
 *      ^                      |  `--refused, failed, dropped--> DROPPED: its parent has failed
 *      |                      `--its pair stays--> UNPROVEN, likewise
 *      `--lost, and another rail is there: if nothing was posted, or it is a READ that may go again
 */
enum otte_rdma_slice_state {
	OTTE_RDMA_SLICE_WAITING = 0,
	OTTE_RDMA_SLICE_UNDER_WAY,
	OTTE_RDMA_SLICE_DONE,
	OTTE_RDMA_SLICE_DROPPED,
	OTTE_RDMA_SLICE_UNPROVEN,
};

struct otte_rdma_slice {
	struct otte_rdma_parent *parent;
	enum otte_rdma_slice_state state;
	uint64_t offset, bytes;        /* of the work */
	unsigned int nic, remote_nic;
	struct otte_device_lease lease;
	uint32_t tries;                /* its payload was lost so often */
	uint32_t turns;                /* from rail to rail, since it was asked for last */
	bool moved;                    /* to another rail */
	uint64_t busy_ns, again_ns;    /* since when its range is busy; not asked for before */
};

/* Its work is in the peer's `running` meanwhile. */
struct otte_rdma_parent {
	struct otte_rdma_parent *prev, *next; /* peer->parents */
	struct otte_rdma_peer *peer;
	struct otte_work *work;
	uint64_t epoch;                /* the peer's, at its beginning */
	uint8_t op;
	int code;                      /* of the first slice that failed; 0: none has */
	bool settled;                  /* and that is it: not for the other transport */
	bool replays;                  /* payload was lost that goes again, if anything does */
	uint32_t count, waiting, under_way, done, unproven; /* slices */
	struct otte_rdma_turn turn;    /* for a stage */
	struct otte_rdma_slice slices[];
};

/* What is to be known of a work before it is taken out of the queue. */
struct otte_rdma_plan {
	struct otte_rdma_wanted wanted;
	uint64_t left;                 /* bytes */
	bool patient;                  /* it waits for rails that are being tried */
};

/* Under the peer's lock. */
void otte_rdma_plan(const struct otte_rdma_peer *peer, const struct otte_work *work, struct otte_rdma_plan *plan);
/* Of the first of the peer's queue. 0; 1: it waits there; negative, with a text: it stays there, and cannot begin. */
int otte_rdma_parent_begin(struct otte_rdma_peer *peer, struct otte_work *work, const struct otte_rdma_plan *plan,
			   uint64_t now_ns);
/* Slices are asked for, and what is over is told. */
void otte_rdma_parents_go_on(struct otte_rdma_peer *peer, uint64_t now_ns);
/* The line is lost: each ends when nothing of it is under way. */
void otte_rdma_parents_fail(struct otte_rdma_peer *peer, int code, bool settled);

/* What became of a slice that was under way. None of these ends its parent before the next parents_go_on(). */
void otte_rdma_slice_done(struct otte_rdma_slice *slice);
void otte_rdma_slice_refused(struct otte_rdma_slice *slice, int code);
/* Its payload was in vain, as the source says; or nobody wants it any more. */
void otte_rdma_slice_failed(struct otte_rdma_slice *slice, int code);
/* Its pair is of no use any more, and nothing of it moves. */
void otte_rdma_slice_lost(struct otte_rdma_slice *slice, const struct otte_rdma_endpoint *endpoint, bool posted);
/* Its pair stays, and may go on moving it. */
void otte_rdma_slice_unproven(struct otte_rdma_slice *slice);

/* ---- payload.c ---- */

/* All zero: none. */
struct otte_rdma_stage {
	struct otte_rdma_chunk *chunk; /* NULL: direct */
	uint64_t direct;               /* charged */
	bool filled;
};

/* Of `rdma` as it begins. */
void otte_rdma_stages_open(struct otte_rdma *rdma);
/* 0: there are some, or will be again. Else why there are none. */
int otte_rdma_stages_ready(struct otte_rdma *rdma);
/* No slice is longer. */
uint64_t otte_rdma_stages_longest(const struct otte_rdma *rdma);
/* Those of `nics` that a work's payload may pass. */
uint64_t otte_rdma_stages_nics(const struct otte_rdma *rdma, const struct otte_work *work, uint64_t nics);
/* 0; 1: it waits for its turn; -EUCLEAN with a text: there will be none. */
int otte_rdma_stage_take(struct otte_rdma *rdma, struct otte_rdma_turn *turn, uint64_t bytes,
			 struct otte_rdma_stage *stage);
/* It wants none, for now. */
void otte_rdma_stage_leave(struct otte_rdma *rdma, struct otte_rdma_turn *turn);
/* No NIC can touch it any more; or nobody can say so. Of none: nothing. */
void otte_rdma_stage_give(struct otte_rdma *rdma, struct otte_rdma_stage *stage);
void otte_rdma_stage_stick(struct otte_rdma *rdma, struct otte_rdma_stage *stage);
/* Before a WRITE is posted, once; after a READ is DONE. -EFAULT, -ESTALE with a text. */
int otte_rdma_stage_fill(struct otte_rdma_stage *stage, const struct otte_rdma_slice *slice);
int otte_rdma_stage_empty(const struct otte_rdma_stage *stage, const struct otte_rdma_slice *slice);
/* The local half of what is posted to a NIC. */
void otte_rdma_stage_place(const struct otte_rdma *rdma, const struct otte_rdma_stage *stage,
			   const struct otte_rdma_slice *slice, unsigned int nic, struct otte_rdma_send *send);

/* ---- transfer.c ---- */

/*
 *   ASKED --GRANT--> GRANTED --posted--> POSTED --both CQEs and DONE--> OVER --READY--> gone
 *     |                 |
 *     `--REFUSED--------`--its pair closes--> LOST, told once nothing of it is charged
 *
 * Cancelled, it is told at once while its payload is not posted, or when everything of it has completed; a GRANT is
 * given back unused. Without DONE or READY for control.timeout after that the line is lost; so it is without a GRANT
 * for twice as long, as a source lets nobody wait for more than half of it, and hears of its binds within another one.
 */
enum otte_rdma_transfer_state {
	OTTE_RDMA_TRANSFER_ASKED = 0,
	OTTE_RDMA_TRANSFER_GRANTED,
	OTTE_RDMA_TRANSFER_POSTED,
	OTTE_RDMA_TRANSFER_OVER,
	OTTE_RDMA_TRANSFER_LOST,
};

struct otte_rdma_transfer {
	struct otte_rdma_transfer *prev, *next; /* peer->transfers */
	struct otte_rdma_peer *peer;
	struct otte_rdma_pair *pair;
	struct otte_rdma_slice *slice; /* NULL: it has left */
	struct otte_work *work;      /* of the slice, likewise */
	struct otte_rail_ticket ticket;
	bool ticketed;               /* it is out */
	struct otte_rdma_stage stage;
	enum otte_rdma_transfer_state state;
	uint64_t ask, grant;
	uint64_t bytes;
	uint64_t address;
	uint32_t key;
	uint8_t binding[OTTE_RDMA_BINDING_BYTES];
	bool unused;                 /* the grant is given back without payload */
	struct otte_rdma_work payload, finish;
	bool payload_charged, finish_charged, payload_posted;
	int code;                    /* of the first WR that failed */
	uint64_t since_ns;           /* ASKED; POSTED, nothing charged; OVER: an answer is waited for */
	bool done;                   /* DONE was heard */
	int status;                  /* and this in it */
};

/* Ask for a slice over a pair that has room. Not 0: nothing has happened; else ticket and stage are taken. */
int otte_rdma_transfer_begin(struct otte_rdma_peer *peer, struct otte_rdma_pair *pair, struct otte_rdma_slice *slice,
			     const struct otte_rail_ticket *ticket, const struct otte_rdma_stage *stage);
int otte_rdma_transfer_granted(struct otte_rdma_peer *peer, const struct otte_rdma_grant *grant);
int otte_rdma_transfer_answered(struct otte_rdma_peer *peer, const struct otte_rdma_message *message);
/* Those of a pair that was closed, and why: LOST. `gone`: so is the pair. */
void otte_rdma_transfers_lose(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair, int code);
void otte_rdma_transfers_unpair(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair, bool gone);
/* What could not be posted, what was cancelled, and what the peer should have answered: that ends its line. */
void otte_rdma_transfers_go_on(struct otte_rdma_peer *peer, uint64_t now_ns);

/* ---- source.c ---- */

struct otte_rdma_source {
	struct otte_rdma_source *prev, *next; /* rdma->sources */
	struct otte_retired retired;
	struct otte_rdma *rdma;
	void *peer;                    /* what accept_lane() was given */
	int fd;                        /* not opened yet; under rdma.lock */
	bool told_drop;                /* under rdma.lock */

	/* The thread's. */
	struct otte_rdma_line line;
	bool broken;                   /* the line: to be lost with the next look */
	bool lost;
	bool greeted;                  /* its PATHS are here */
	struct otte_rdma_paths paths;
	struct otte_rdma_source_pair *pairs;
	struct otte_rdma_lent *lents;  /* those that wait, too */
	uint32_t unanswered;           /* ASKs; CLOSE answers all of its pair */
	uint32_t places;               /* of rdma->places */
	struct otte_rdma_let *lets;    /* its leases */
	uint32_t leases;               /* so many */
	uint64_t turn;                 /* when it was given the last one: who has waited longest is next */
};

/*
 * `spares`: windows that were made for grants of this pair and are for no other; none pins memory. The kernel takes
 * away what a process that dies has in the reverse order of its making, and rxe waits 50 s for a queue pair with a
 * window that is older.
 */
struct otte_rdma_source_pair {
	struct otte_rdma_pair pair;
	struct otte_rdma_source *source;
	struct otte_rdma_source_pair *prev, *next;
	struct otte_rdma_window *spares; /* by their `next` */
};

int otte_rdma_source_accept(struct otte_rdma *rdma, void *peer, int fd);
void otte_rdma_source_drop(struct otte_rdma *rdma, void *peer);
/* Region 0: all. */
void otte_rdma_source_recall(struct otte_rdma *rdma, uint64_t region);
/* The thread, before it looks at sources: what is recalled is told all of them. */
void otte_rdma_sources_hear(struct otte_rdma *rdma);
/* The thread. False: the source is gone. */
bool otte_rdma_source_look(struct otte_rdma_source *source, uint64_t now_ns);
/* As of a peer. */
void otte_rdma_source_port_changed(struct otte_rdma_source *source, unsigned int nic);
void otte_rdma_source_paths_changed(struct otte_rdma_source *source, unsigned int unused);
/* Where that fails the line is lost, with the next look. */
void otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message);
/* Closed, and everything that was granted on it is taken back. */
void otte_rdma_source_fail_pair(struct otte_rdma_source_pair *pair, int code, const char *why);

#endif
