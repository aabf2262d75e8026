/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Two hosts with two simulated NICs each (unit/engine/nics.h), of two networks. */
#ifndef OTTE_TESTS_ROOM_H
#define OTTE_TESTS_ROOM_H

#include "transport/rdma/rdma.h"
#include "unit/engine/nics.h"

#define SIZE (2u << 20)
#define RAILS 2

static struct sim_device *const *const theirs = nics[SOURCE], *const *const ours = nics[REQUESTER];

/* Like NICs reach each other, others do not. */
int with_two_networks(void **state);

/* By turns; and by load and rate. */
void use_rdma(struct otte_config *config);
void use_selection(struct otte_config *config);

/*
 * One request and nothing else, at GUARD. What is read from is one thing, and where it goes to
 * another; for assert_arrived().
 */
struct otte_task move(struct pair *pair, uint8_t op, uint32_t transport, uint64_t length,
		      uint8_t salt);

/* Payload that has passed a rail, ever. */
uint64_t carried(uint8_t op, unsigned rail);

struct otte_rdma *rdma_of(struct otte_engine *engine);
/*
 * As if the requester had posted so many bytes on the rail, `times` times, and they had completed
 * after `ns`, before anything else is posted.
 */
void measure(const struct pair *pair, unsigned rail, uint64_t bytes, uint64_t ns, unsigned times);
/* In sysfs, below a folder, as the library reads it; each node once. */
void put_at_node(struct sim_device *device, const char *root, int node);
void take_from_node(struct sim_device *device);
/* What is told of the requester's NICs. */
void read_nics(const struct pair *pair, struct otte_nic_info rows[RAILS]);

#endif
