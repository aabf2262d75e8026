/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A source, which is a process of its own with an engine for each of some devices, and
 * requesters in this one.
 *
 * The source's memory is shared with this process and mapped where it is before any source
 * starts: so each source has it at the same address, and this process sees all that happens to
 * it.
 */
#ifndef OTTE_TESTS_VERBS_PARTIES_H
#define OTTE_TESTS_VERBS_PARTIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "otte/otte.h"

#include "patience.h"

#define AREA_BYTES (256u << 10)
#define PATIENCE_NS (90 * SECOND)
#define DEVICES_MAX 2
#define NARROW 2

/* For longer than an emulated machine takes with several losses of rxe's. */
#define EVENTUALLY(condition) EVENTUALLY_WITHIN(PATIENCE_NS, condition)

/* Packets that the rxe device of that name, a prefix and a number, has ever got. */
uint64_t device_received(const char *prefix, unsigned int number);

extern uint8_t *remote; /* the source's memory */

/* What a program has otherwise; once it is open: of whom is created from then on. */
struct parties_setup {
	size_t area_bytes; /* of either side; 0: AREA_BYTES */
	void (*adjust)(struct otte_config *config, bool source);
	void (*enter_source)(void); /* in its process, before its engine is there */
};

extern struct parties_setup parties;

void parties_open(void);
/* Zeroed, and seen by all processes that are forked from now on. */
void *map_for_all(size_t bytes);

struct source {
	pid_t pid;
	int asks, answers; /* its ends of pipes, for us */
	struct door {
		char address[OTTE_ADDRESS_MAX];
		uint64_t region, epoch;
	} doors[DEVICES_MAX];
};

/* Of both engines. */
struct counts {
	uint64_t loans, retained, grants, leases;
};

/* A device "" is all of them. `like`: the first engine listens where that one did; or NULL. */
void source_start(struct source *source, const char *const devices[DEVICES_MAX],
		  const struct door *like);
struct counts source_counts(const struct source *source);
/* Of its first engine. */
struct otte_stats source_stats(const struct source *source);
/* Its regions are not there any more: whoever has leases of them gives them back. */
int source_withdraw(const struct source *source);
/* Nothing is lent, and nothing was retained. */
bool source_rests(const struct source *source);
/* Its exit status; everything that it had it has given back. */
int source_end(const struct source *source);
void source_kill(const struct source *source);

struct requester {
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *region;
	struct otte_segment *segment;
	struct otte_batch *batch;
	uint8_t *bytes;
	uint64_t remote;
	uint8_t lease; /* enum otte_lease, of its requests */
};

/* `narrow`: a queue pair has room for NARROW requests, so that one more takes another. */
void requester_open(struct requester *self, const char *device, const struct door *door,
		    bool narrow);
void requester_close(struct requester *self);
struct otte_stats requester_stats(const struct requester *self);
/* One over RDMA and nothing else, of the same range on both sides. */
struct otte_request requester_request(const struct requester *self, uint8_t op, uint64_t offset,
				      uint64_t length);
/* Submits one, of the same kind. */
void requester_submit(struct requester *self, uint8_t op, uint64_t offset, uint64_t length);
struct otte_task requester_wait(struct requester *self);
/* Likewise some in one batch, which are 2 * `length` apart. */
void requester_submit_some(struct requester *self, uint8_t op, uint64_t offset, uint64_t length,
			   unsigned int count);
struct otte_task requester_task(struct requester *self, unsigned int i);

#endif
