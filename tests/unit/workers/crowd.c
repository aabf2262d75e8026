/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "crowd.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "engine/engine.h"

#define RANGE (SIZE / CROWD_MAX / 4096 * 4096)

uint32_t workers;

void use_workers(struct otte_config *config)
{
	use_nics_at_once(config);
	config->rdma_workers = workers;
	config->rdma_endpoints = 1024;
}

struct otte_rdma *rdma_of(const struct otte_engine *engine)
{
	return (struct otte_rdma *)engine->transport;
}

struct otte_rdma *crowd_rdma(const struct crowd *crowd)
{
	const struct pair *pair = &crowd->members[0].pair;

	return rdma_of(crowd->one_requester ? pair->requester : pair->source);
}

/* ---- They meet ---- */

void crowd_meet(struct crowd *crowd, unsigned count, void (*adjust)(struct otte_config *config))
{
	unsigned i;

	*crowd = (struct crowd){ .count = count };
	pair_open(&crowd->members[0].pair, SIZE, adjust);
	/* One after the other: who comes first has the first worker. */
	assert_true(comes(has_its_lane, &crowd->members[0].pair));
	for (i = 1; i < count; i++) {
		pair_join(&crowd->members[i].pair, &crowd->members[0].pair, adjust);
		assert_true(comes(has_its_lane, &crowd->members[i].pair));
	}
}

/* `adjust` knows one by that it does not listen. */
static void open_requester(struct pair *pair, void (*adjust)(struct otte_config *config))
{
	struct otte_region_desc desc = { .length = SIZE };
	struct otte_config config;

	OK(otte_config_init(&config, sizeof(config)));
	config.listen_address[0] = '\0';
	adjust(&config);
	OK(otte_engine_create(&config, &pair->requester));
	OK(otte_mem_alloc(pair->requester, SIZE, 0, &pair->local_mem));
	desc.mem = pair->local_mem;
	OK(otte_region_register(pair->requester, &desc, 1, &pair->local));
	pair->local_bytes = otte_mem_address(pair->local_mem);
}

static void open_source(struct pair *pair, const struct otte_config *config)
{
	struct otte_region_desc desc = {
		.length = SIZE,
		.access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE,
	};
	char address[OTTE_ADDRESS_MAX];

	OK(otte_engine_create(config, &pair->source));
	OK(otte_mem_alloc(pair->source, SIZE, 0, &pair->remote_mem));
	desc.mem = pair->remote_mem;
	OK(otte_region_register(pair->source, &desc, 1, &pair->remote));
	pair->remote_bytes = otte_mem_address(pair->remote_mem);
	OK(otte_engine_address(pair->source, address, sizeof(address)));
	OK(otte_segment_open(pair->requester, address, OTTE_EPOCH_ANY, 10 * SECOND,
			     &pair->segment));
	OK(otte_batch_create(pair->requester, 64, &pair->batch));
}

void crowd_ask_many(struct crowd *crowd, unsigned count, void (*adjust)(struct otte_config *config))
{
	struct otte_config config;
	unsigned i;

	*crowd = (struct crowd){ .count = count, .one_requester = true };
	OK(otte_config_init(&config, sizeof(config)));
	adjust(&config);
	crowd->members[0].pair.size = SIZE;
	open_requester(&crowd->members[0].pair, adjust);
	for (i = 1; i < count; i++)
		crowd->members[i].pair = crowd->members[0].pair;
	for (i = 0; i < count; i++)
		open_source(&crowd->members[i].pair, &config);
	assert_true(comes(has_its_lane, &crowd->members[0].pair));
}

static void part_from_source(struct pair *pair)
{
	OK(otte_batch_destroy(pair->batch));
	OK(otte_segment_close(pair->segment));
	pair_close_source(pair);
}

void crowd_part(struct crowd *crowd)
{
	struct pair *first = &crowd->members[0].pair;
	unsigned i;

	if (crowd->one_requester) {
		for (i = 0; i < crowd->count; i++)
			part_from_source(&crowd->members[i].pair);
		OK(otte_region_unregister(&first->local, 1, 10 * SECOND, NULL));
		OK(otte_mem_release(first->local_mem));
		OK(otte_engine_destroy(first->requester));
		return;
	}
	for (i = 0; i < crowd->count; i++)
		pair_close_requester(&crowd->members[i].pair);
	pair_close_source(first);
}

/* ---- They move bytes ---- */

static uint64_t length_of(const struct member *member, unsigned round)
{
	static const uint64_t lengths[] = { 1, 17, 4095, 65536, 131073, 262144 };

	return member->bytes ? member->bytes : lengths[round % ARRAY_SIZE(lengths)];
}

static int move(struct member *member, uint8_t op, uint64_t length)
{
	struct pair *pair = &member->pair;
	struct otte_request request =
		request_over(pair, op, member->transport, (uint64_t)member->number * RANGE, length);
	struct otte_task task;
	int ret;

	ret = otte_batch_reset(pair->batch);
	if (!ret)
		ret = otte_batch_submit(pair->batch, &request, 1);
	if (!ret)
		ret = otte_batch_wait(pair->batch, 30 * SECOND);
	if (!ret)
		ret = otte_batch_task(pair->batch, 0, &task);
	return ret ? ret : task.code;
}

/* What is written over was something else before. */
static void move_and_look(struct member *member, uint8_t op, unsigned round)
{
	uint64_t at = (uint64_t)member->number * RANGE, length = length_of(member, round);
	uint8_t *ours = member->pair.local_bytes + at, *theirs = member->pair.remote_bytes + at;
	uint8_t salt = (uint8_t)(2 * round + op + member->number);

	pair_fill(op == OTTE_READ ? theirs : ours, length, salt);
	memset(op == OTTE_READ ? ours : theirs, ~salt, length);
	member->code = move(member, op, length);
	if (!member->code && memcmp(ours, theirs, length))
		member->wrong = true;
}

static void *go(void *arg)
{
	struct member *member = arg;
	unsigned round;

	for (round = 0; round < member->rounds && !member->code && !member->wrong; round++) {
		move_and_look(member, OTTE_WRITE, round);
		if (!member->code)
			move_and_look(member, OTTE_READ, round);
	}
	return NULL;
}

void crowd_start(struct crowd *crowd, unsigned rounds, uint64_t bytes, uint32_t transport)
{
	unsigned i;

	for (i = 0; i < crowd->count; i++) {
		struct member *member = &crowd->members[i];

		member->number = i;
		member->rounds = rounds;
		member->bytes = bytes;
		member->transport = transport;
		assert_int_equal(pthread_create(&member->thread, NULL, go, member), 0);
	}
}

void crowd_wait_for_any(struct crowd *crowd)
{
	unsigned i;

	for (i = 0; i < crowd->count; i++) {
		pthread_join(crowd->members[i].thread, NULL);
		assert_false(crowd->members[i].wrong);
	}
}

void crowd_wait(struct crowd *crowd)
{
	unsigned i;

	crowd_wait_for_any(crowd);
	for (i = 0; i < crowd->count; i++)
		assert_int_equal(crowd->members[i].code, 0);
}
