/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A peer that asks us: its line, and our ends of the pairs that it makes. source.c says how it
 * lives.
 *
 * Locks: its worker's, of what others leave there; all else is the worker's thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_SOURCE_H
#define OTTE_TRANSPORT_RDMA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "transport/rdma/cell.h"
#include "transport/rdma/line.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/places.h"

struct otte_rdma;
struct otte_rdma_lent;
struct otte_rdma_let;
struct otte_rdma_window;
struct otte_rdma_worker;

struct otte_rdma_source {
	struct otte_rdma_source *prev, *next; /* worker->sources */
	struct otte_retired retired;
	struct otte_rdma *rdma;
	struct otte_rdma_worker *worker; /* for life; the same of all of a session */
	void *peer;                    /* what accept_lane() was given */
	int fd;                        /* not opened yet; under worker.lock */
	bool told_drop;                /* under worker.lock */

	/* The thread's. */
	struct otte_rdma_line line;
	bool broken;                   /* the line: to be lost with the next look */
	bool lost;
	bool greeted;                  /* its PATHS are here */
	struct otte_rdma_paths paths;
	struct otte_rdma_source_pair *pairs;
	struct otte_rdma_lent *lents;  /* those that wait, too */
	uint32_t unanswered;           /* ASKs; CLOSE answers all of its pair */
	struct otte_rdma_places_share places;
	struct otte_rdma_let *lets;    /* its leases */
	uint32_t leases;               /* so many */
};

/*
 * `spares`: windows that were made for grants of this pair and are for no other; none pins memory.
 * The kernel takes away what a process that dies has in the reverse order of its making, and rxe
 * waits 50 s for a queue pair with a window that is older.
 */
struct otte_rdma_source_pair {
	struct otte_rdma_pair pair;
	struct otte_rdma_cell cell; /* of memory of a GPU; else NONE */
	struct otte_rdma_source *source;
	struct otte_rdma_source_pair *prev, *next;
	struct otte_rdma_window *spares; /* by their `next` */
};

int otte_rdma_source_accept(struct otte_rdma *rdma, void *peer, int fd);
void otte_rdma_source_drop(struct otte_rdma *rdma, void *peer);
/* Region 0: all. */
void otte_rdma_source_recall(struct otte_rdma *rdma, uint64_t region);
/* The thread, before it looks at sources: what is recalled is told all of them. */
void otte_rdma_sources_hear(struct otte_rdma_worker *worker);
/* The thread. False: the source is gone. */
bool otte_rdma_source_look(struct otte_rdma_source *source, uint64_t now_ns);
/* As of a peer. */
void otte_rdma_source_port_changed(struct otte_rdma_source *source, unsigned int nic);
void otte_rdma_source_paths_changed(struct otte_rdma_source *source, unsigned int unused);
/* Where that fails the line is lost, with the next look. */
void otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message);
/* Closed, and everything that was granted on it is taken back. */
void otte_rdma_source_fail_pair(struct otte_rdma_source_pair *pair, int code, const char *why);
/* Of a cell, which has had its grant: it goes, and its peer is not told CLOSE of it. */
void otte_rdma_source_end_pair(struct otte_rdma_source_pair *pair);
/* CLOSE, of one that is gone or about to be. */
void otte_rdma_source_say_closed(struct otte_rdma_source_pair *pair, int code);

#endif
