/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A peer that we ask: its line, and the requests that wait for it or are under way. peer.c says how
 * it lives.
 *
 * Locks: `lock`, of what others leave there and of the lists of works; all else is its worker's
 * thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_PEER_H
#define OTTE_TRANSPORT_RDMA_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "sched/rails.h"
#include "transport/rdma/line.h"
#include "transport/transport.h"

struct otte_rdma;
struct otte_rdma_endpoint;
struct otte_rdma_lease;
struct otte_rdma_parent;
struct otte_rdma_probe;
struct otte_rdma_transfer;
struct otte_rdma_use;
struct otte_rdma_worker;

enum otte_rdma_peer_state {
	OTTE_RDMA_PEER_DOWN = 0,  /* requests are handed on */
	OTTE_RDMA_PEER_HELLO = 1, /* they wait */
	OTTE_RDMA_PEER_PATHS = 2, /* likewise */
	OTTE_RDMA_PEER_READY = 3,
};

#define OTTE_RDMA_CELLED 64

struct otte_rdma_peer {
	struct otte_transport_peer base;
	struct otte_rdma_peer *prev, *next_peer; /* worker->peers */
	struct otte_retired retired;
	struct otte_rdma *rdma;
	struct otte_rdma_worker *worker; /* for life */
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
	/* Of its regions those that were found to be reached by cells, the latest of them. */
	uint64_t celled[OTTE_RDMA_CELLED];
	uint64_t celled_count;         /* ever, over this line */
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
/*
 * Of a GPU's memory: whether who was to fill it, or to be done with it, is. 0; -EAGAIN: not yet;
 * -EUCLEAN with a text: nobody can say. Of the host's 0.
 */
int otte_rdma_poll_producer(const struct otte_work *work);
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
/* Whether a region of the peer is reached by cells, as far as it has said so. */
bool otte_rdma_peer_is_celled(const struct otte_rdma_peer *peer, uint64_t region);
void otte_rdma_peer_note_celled(struct otte_rdma_peer *peer, uint64_t region);
/* The line is to be lost, as the error's text says. */
void otte_rdma_peer_break(struct otte_rdma_peer *peer, int code);
/* Where that fails the line is lost, with the next look. */
void otte_rdma_peer_say(struct otte_rdma_peer *peer, const struct otte_rdma_message *message);
/* A work is done, or goes the other way. Without locks. */
void otte_rdma_work_tell(struct otte_work *work, int code, bool drained);
void otte_rdma_work_hand_on(struct otte_rdma_peer *peer, struct otte_work *work, int code);
/* The thread: hand_on(), but for what no other transport can move. */
void otte_rdma_work_leave(struct otte_rdma_peer *peer, struct otte_work *work, int code);

#endif
