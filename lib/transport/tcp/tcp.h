/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The TCP transport's own objects.
 *
 *   tcp           the transport of one engine; its source lanes
 *   tcp_peer      a peer we ask; its lanes, 1..OTTE_TCP_LANES_MAX
 *   tcp_lane      one payload connection that we opened; a queue of slices, answered in order
 *   tcp_plan      a work cut into slices; lives until the last slice has left its lane
 *   tcp_slice     one request on the wire
 *   source_lane   one payload connection that a peer opened (source.h)
 *   zerocopy      what the kernel still refers to of one connection (zerocopy.h)
 *
 * Lock order: tcp_peer.lock > tcp_lane.rx_lock > tcp_lane.lock. No callback is called under any.
 */
#ifndef OTTE_TRANSPORT_TCP_TCP_H
#define OTTE_TRANSPORT_TCP_TCP_H

#include <pthread.h>

#include "base/error.h"
#include "control/stream.h"
#include "sched/slice.h"
#include "transport/tcp/bare.h"
#include "transport/tcp/zerocopy.h"
#include "transport/transport.h"

#define OTTE_TCP_LANES_MAX 16

/* How long a thread may sleep in one connection, deaf to all others. Rounded up to the kernel's tick. */
#define TCP_ALONE_MS 2

struct source_lane;
struct source_sent;

/*
 * A thread that serves one source lane at a time, asleep in it: the one whose peer waits for each answer before
 * it asks again (express.c).
 *
 *   FREE --take--> TAKEN --serve--> SERVING --the lane went back--> FREE       TAKEN --give up--> FREE
 */
struct tcp_express {
	pthread_mutex_t lock;            /* lane, stop */
	pthread_cond_t given;
	pthread_t thread;
	bool stop;
	struct source_lane *lane;        /* SERVING */
	_Atomic bool taken;              /* not FREE */
	void (*serve)(struct source_lane *lane);
};

struct tcp {
	struct otte_transport base;
	struct otte_transport_env env;
	struct otte_transport_counters counters;
	pthread_mutex_t lock;            /* source lanes: the list and the life of their descriptors */
	/* Of each thread that serves: odd while it sends an answer and ends its use (source_step.c). */
	_Atomic uint32_t sending[OTTE_WORKERS_MAX + 1];
	struct source_lane *lanes;
	struct source_sent *unproven;    /* answers that are sent, their use waits for the kernel */
	unsigned next_loop;
	struct tcp_express express;
	struct tcp_zerocopies zerocopies;
};

/* ---- slice.c: plans and slices ---- */

struct tcp_plan;

struct tcp_slice {
	struct tcp_slice *prev, *next;   /* lane->queue, then perhaps lane->unproven */
	struct tcp_slice *done_next;     /* a list of slices about to be finished, each with a reference */
	struct tcp_plan *plan;
	uint8_t *local;
	uint64_t length;
	uint64_t sent;                   /* of the request and, for a WRITE, its payload */
	/*
	 * The work has been told. The slice stays in its lane's queue until its answer is in, because
	 * answers come in order, but touches no memory of the work any more.
	 */
	bool finished;
	int abandon;                     /* end with this code once it leaves its lane; 0: none */
	int code;                        /* result, while on that list or lane->unproven */
	uint8_t effect;
	bool answered;                   /* on lane->unproven, or what that left behind */
	struct tcp_claim claim;          /* of a WRITE: what the kernel refers to */
	void *kept;                      /* of the engine: told unproven, see struct otte_keep_ops */
	uint8_t request[OTTE_LANE_REQUEST_BYTES];
};

struct tcp_plan {
	struct otte_work *work;          /* until the last slice is finished */
	uint8_t op;
	_Atomic uint32_t unfinished;     /* slices; the last one ends the work */
	_Atomic uint32_t refs;           /* slices in a lane or not yet finished, and pins */
	_Atomic uint32_t retries;        /* left */
	_Atomic int abandon;             /* no slice goes to a lane any more; 0: none */
	_Atomic int code;                /* of the first slice that failed */
	_Atomic bool touched;            /* some WRITE slice moved bytes, or may have */
	_Atomic bool undrained;          /* some slice ended while the kernel may read its bytes */
	const struct otte_keep_ops *keep;
	uint32_t count;
	struct tcp_slice slices[];
};

/* `local`: the peer is on this host. */
int tcp_plan_create(const struct otte_transport_env *env, bool local, struct otte_work *work);
void tcp_plan_put(struct tcp_plan *plan);
/* Bytes that the slice puts on the wire. */
uint64_t tcp_slice_wire_bytes(const struct tcp_slice *slice);
/* Tell the work, ending it with its last slice. Without locks; the slice may be gone after. */
void tcp_slice_finish(struct tcp_slice *slice, int code, uint8_t effect);

/* ---- lane.c, lane_*.c ---- */

enum tcp_lane_state {
	TCP_LANE_DOWN = 0,
	TCP_LANE_CONNECTING = 1,
	TCP_LANE_HELLO = 2,
	TCP_LANE_READY = 3,
};

struct tcp_peer;

struct tcp_lane {
	struct otte_watch watch;
	struct tcp_peer *peer;

	pthread_mutex_t rx_lock;         /* receiving: the fields of this paragraph */
	struct otte_lane_hello greeting; /* what the hello says; until READY */
	struct otte_stream hello;        /* until READY */
	uint8_t answer[OTTE_LANE_ANSWER_BYTES];
	uint32_t answer_got;
	struct tcp_slice *current;       /* READ whose payload is coming in */
	uint64_t current_got;
	struct tcp_bare bare;
	uint8_t mask, fresh;             /* of its answer: how to take the verdict; 0: none follows */
	uint8_t verdict;
	bool garbled;                    /* what comes cannot be told; nothing is received: to be killed */
	_Atomic uint32_t rx_wanted;      /* threads that wait for rx_lock */

	pthread_mutex_t lock;            /* the fields of this paragraph */
	_Atomic enum tcp_lane_state state; /* written under lock */
	struct tcp_slice *queue;         /* oldest first: sent ones, then unsent ones */
	struct tcp_slice *unsent;        /* the first not wholly sent, or NULL */
	struct tcp_slice *unproven;      /* answered WRITEs whose bytes the kernel still refers to */
	struct tcp_zerocopy *zerocopy;   /* READY, perhaps; NULL: every send is copied */
	bool wants_room;                 /* EPOLLOUT is asked for */
	uint32_t exchanges;              /* in a row; the watch is set aside for many */
	uint64_t session, counter;       /* not DOWN: of its hello */
	uint8_t cuts[2 * OTTE_LANE_REQUEST_BYTES]; /* cut.c: to go out ahead of the next slice, one or two */
	uint32_t cut_sent, cut_bytes;    /* of them; the same: none */
	bool held;                       /* nothing is sent: lane_receive.c says why, or `bare` */
	bool broken;                     /* shut down; the loop takes it apart */
	uint64_t retry_at_ns;            /* DOWN: when to connect again */
	uint64_t backoff_ns;

	_Atomic uint64_t queued_bytes;
	_Atomic uint64_t progress_ns;    /* when a byte last moved, or the queue became non-empty */
};

void tcp_lane_init(struct tcp_lane *lane, struct tcp_peer *peer);
void tcp_lane_fini(struct tcp_lane *lane);
/* DOWN -> CONNECTING. Under peer->lock. */
int tcp_lane_connect(struct tcp_lane *lane);
/* Append and send what fits. False: the lane is not READY, the slice is the caller's. */
bool tcp_lane_enqueue(struct tcp_lane *lane, struct tcp_slice *slice);
/*
 * Where the lane owes the answer to one slice and has nothing else to do: receive of it what there is, asleep
 * in the kernel until there is. False: it is not so, somebody else wants the lane, or nothing came for
 * TCP_ALONE_MS.
 */
bool tcp_lane_receive_alone(struct tcp_lane *lane);
/*
 * The slice of a READ on a lane with nothing to do: send it, and sleep for its answer as above. False: the lane is
 * not so, and the slice is the caller's. After true the lane may be gone.
 */
bool tcp_lane_exchange(struct tcp_lane *lane, struct tcp_slice *slice);
/*
 * End the slices of `plan` on this lane where that is possible without giving up the connection. False:
 * something of a WRITE is sent, and only its answer or the end of the connection says what became of it.
 */
bool tcp_lane_abandon(struct tcp_lane *lane, const struct tcp_plan *plan, int code);
/* -> DOWN. Slices that may be sent again go to another lane if `retry`; the others end with `code`. */
void tcp_lane_kill(struct tcp_lane *lane, int code, bool retry);
/* Have the loop kill it soon. */
void tcp_lane_break(struct tcp_lane *lane);

/* ---- peer.c ---- */

struct tcp_peer {
	struct otte_transport_peer base;
	struct tcp *tcp;
	struct otte_control_client *control;
	void (*changed)(void *arg);
	void *arg;
	pthread_mutex_t lock;            /* the fields of this paragraph */
	bool stopped;
	int code;
	uint64_t session;                /* whose lanes these are */
	bool cuts;                       /* whether its lanes may carry cuts */
	struct otte_lane_cut cut;        /* last 0: no lane of the session went down yet */
	char lost[OTTE_ERROR_BYTES];     /* why the last lane that went down did */
	_Atomic bool local;              /* on this host, as the last lane to connect found */
	uint32_t lane_count;
	struct tcp_lane lanes[OTTE_TCP_LANES_MAX];
};

/* Put a slice on the lane with the least to do, of several such on the one from `first` on, or end it. */
void tcp_peer_place(struct tcp_peer *peer, struct tcp_slice *slice, uint32_t first);
/* A lane goes down for what the calling thread's error text says. */
void tcp_peer_note_loss(struct tcp_peer *peer);

int tcp_peer_open(struct otte_transport *transport, struct otte_control_client *control,
		  void (*changed)(void *arg), void *arg, struct otte_transport_peer **peer);
void tcp_peer_connect(struct otte_transport_peer *peer);
int tcp_peer_ready(struct otte_transport_peer *peer);
int tcp_peer_nic(struct otte_transport_peer *peer, char name[IF_NAMESIZE]);
void tcp_peer_stop(struct otte_transport_peer *peer, int code);
void tcp_peer_tick(struct otte_transport_peer *peer, uint64_t now_ns);
void tcp_peer_close(struct otte_transport_peer *peer);
int tcp_peer_plan(struct otte_transport_peer *peer, struct otte_work *work);
void tcp_peer_unplan(struct otte_work *work);
void tcp_peer_start(struct otte_transport_peer *peer, struct otte_work *work);
void *tcp_peer_pin(struct otte_work *work);
bool tcp_peer_receive_alone(struct otte_transport_peer *peer);
bool tcp_peer_exchange(struct otte_transport_peer *peer, struct otte_work *work);
void tcp_peer_cancel(struct otte_transport_peer *peer, void *pinned, int code);
_Atomic int *tcp_plan_mark(void *native);

/* ---- cut.c ---- */

/* Under peer->lock: lanes are of this session from now on. */
void tcp_cut_session(struct tcp_peer *peer, uint64_t session);
/* A lane went down, and nothing was told of what was in it: no later request is served before what it sent. */
void tcp_cut_lane(struct tcp_peer *peer, uint64_t session, uint64_t counter);
/* Under peer->lock and lane->lock: a new lane carries what the others do. */
void tcp_cut_begin(struct tcp_lane *lane);

/* ---- route.c ---- */

/* The interface that packets to this address leave by; negative, with text: nobody can say. */
int tcp_route_interface(const struct sockaddr_storage *to, char name[IF_NAMESIZE]);

/* ---- source.c ---- */

int tcp_source_open(struct tcp *tcp);
int tcp_source_accept(struct otte_transport *transport, void *peer, int fd,
		      enum otte_lane_kind kind, uint64_t counter);
void tcp_source_drop(struct otte_transport *transport, void *peer);
void tcp_source_tick(struct otte_transport *transport, unsigned index, uint64_t now_ns);
/* No loop runs any more: end the express thread and close what is left. */
void tcp_source_close(struct tcp *tcp);

/* ---- express.c ---- */

int tcp_express_init(struct tcp_express *express, void (*serve)(struct source_lane *lane));
/* True: it is the caller's, who must serve or free it. */
bool tcp_express_take(struct tcp_express *express);
/* Its thread calls serve(lane), which gives the lane away again. */
void tcp_express_serve(struct tcp_express *express, struct source_lane *lane);
/* Ends the thread; the caller has seen to it that serve() returns. */
void tcp_express_fini(struct tcp_express *express);

/* ---- socket.c ---- */

/* Options of a payload connection: no delay, buffers, congestion control (named if refused). */
int tcp_socket_prepare(const struct otte_config *config, int fd);
/* Once it is connected: what depends on where the peer is. True: on this host. */
bool tcp_socket_connected(const struct otte_config *config, int fd);

#endif
