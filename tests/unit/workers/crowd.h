/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A source with several requesters, and a requester with several sources, each of which moves bytes
 * by a thread of its own and looks whether they are what they are to be.
 */
#ifndef OTTE_TESTS_CROWD_H
#define OTTE_TESTS_CROWD_H

#include <pthread.h>

#include "transport/rdma/rdma.h"
#include "unit/engine/nics.h"

#define SIZE (4u << 20)
#define CROWD_MAX 6

/* Their ranges are the same at either side, and nobody else's. */
struct member {
	struct pair pair;
	unsigned number;
	uint64_t bytes; /* of a request; 0: many lengths */
	uint32_t transport;
	pthread_t thread;
	unsigned rounds;
	int code;   /* of the first request that failed */
	bool wrong; /* bytes are not what they are to be */
};

struct crowd {
	struct member members[CROWD_MAX];
	unsigned count;
	bool one_requester; /* with several sources; else one source with several requesters */
};

/* rdma.workers of engines that are made with use_workers(). */
extern uint32_t workers;
void use_workers(struct otte_config *config);

void crowd_meet(struct crowd *crowd, unsigned count, void (*adjust)(struct otte_config *config));
void crowd_ask_many(struct crowd *crowd, unsigned count,
		    void (*adjust)(struct otte_config *config));
/* Each so many READs and WRITEs. */
void crowd_start(struct crowd *crowd, unsigned rounds, uint64_t bytes, uint32_t transport);
/* All have moved what they were to. */
void crowd_wait(struct crowd *crowd);
/* They may have failed, for want of a source. */
void crowd_wait_for_any(struct crowd *crowd);
void crowd_part(struct crowd *crowd);

/* The engine that has several peers, or sources. */
struct otte_rdma *crowd_rdma(const struct crowd *crowd);
struct otte_rdma *rdma_of(const struct otte_engine *engine);

#endif
