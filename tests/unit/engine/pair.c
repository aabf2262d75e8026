/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void ok(int ret, const char *what)
{
	if (ret)
		fail_msg("%s: %d: %s", what, ret, otte_error_text());
}

#define OK(call) ok(call, #call)

static void open_source(struct pair *pair, struct otte_config *config)
{
	struct otte_region_desc desc = {
		.length = pair->size,
		.access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE,
		.name = "block",
	};

	OK(otte_engine_create(config, &pair->source));
	OK(otte_mem_alloc(pair->source, pair->size, 0, &pair->remote_mem));
	desc.mem = pair->remote_mem;
	OK(otte_region_register(pair->source, &desc, 1, &pair->remote));
	pair->remote_bytes = otte_mem_address(pair->remote_mem);
}

static void open_requester(struct pair *pair, struct otte_config *config)
{
	struct otte_region_desc desc = { .length = pair->size };
	char address[OTTE_ADDRESS_MAX];

	OK(otte_engine_address(pair->source, address, sizeof(address)));
	config->listen_address[0] = '\0';
	OK(otte_engine_create(config, &pair->requester));
	OK(otte_mem_alloc(pair->requester, pair->size, 0, &pair->local_mem));
	desc.mem = pair->local_mem;
	OK(otte_region_register(pair->requester, &desc, 1, &pair->local));
	pair->local_bytes = otte_mem_address(pair->local_mem);
	OK(otte_segment_open(pair->requester, address, OTTE_EPOCH_ANY, 30 * SECOND,
			     &pair->segment));
	OK(otte_batch_create(pair->requester, 1024, &pair->batch));
}

void pair_open(struct pair *pair, uint64_t size, void (*adjust)(struct otte_config *config))
{
	struct otte_config config;

	memset(pair, 0, sizeof(*pair));
	pair->size = size;
	OK(otte_config_init(&config, sizeof(config)));
	if (adjust)
		adjust(&config);
	open_source(pair, &config);
	open_requester(pair, &config);
}

void pair_join(struct pair *pair, const struct pair *first, void (*adjust)(struct otte_config *config))
{
	struct otte_config config;

	*pair = *first;
	OK(otte_config_init(&config, sizeof(config)));
	if (adjust)
		adjust(&config);
	open_requester(pair, &config);
}

void pair_close_requester(struct pair *pair)
{
	OK(otte_batch_destroy(pair->batch));
	OK(otte_segment_close(pair->segment));
	OK(otte_region_unregister(&pair->local, 1, 10 * SECOND, NULL));
	OK(otte_mem_release(pair->local_mem));
	OK(otte_engine_destroy(pair->requester));
}

void pair_close_source(struct pair *pair)
{
	OK(otte_region_unregister(&pair->remote, 1, 10 * SECOND, NULL));
	OK(otte_mem_release(pair->remote_mem));
	OK(otte_engine_destroy(pair->source));
}

void pair_close(struct pair *pair)
{
	pair_close_requester(pair);
	pair_close_source(pair);
}

struct otte_stats pair_stats(struct otte_engine *engine)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	OK(otte_engine_stats(engine, &stats));
	return stats;
}

/* Eight at a time, of which the first says what all have in common: a sanitizer looks at each access. */
void pair_fill(uint8_t *bytes, uint64_t size, uint8_t salt)
{
	uint8_t eight[8], first;
	uint64_t i, k;

	for (i = 0; i < size; i += sizeof(eight)) {
		first = (uint8_t)(i ^ (i >> 8) ^ (i >> 16) ^ salt);
		for (k = 0; k < sizeof(eight); k++)
			eight[k] = (uint8_t)(first ^ k);
		memcpy(bytes + i, eight, size - i < sizeof(eight) ? size - i : sizeof(eight));
	}
}

struct otte_request pair_request(const struct pair *pair, uint8_t op, uint64_t local_offset,
				 uint64_t remote_offset, uint64_t length)
{
	return (struct otte_request){
		.segment = pair->segment,
		.local = pair->local,
		.local_offset = local_offset,
		.remote_region = otte_region_id(pair->remote),
		.remote_offset = remote_offset,
		.length = length,
		.op = op,
	};
}

int pair_run(struct pair *pair, uint8_t op, uint64_t local_offset, uint64_t remote_offset,
	     uint64_t length)
{
	struct otte_request request = pair_request(pair, op, local_offset, remote_offset, length);
	struct otte_task task;
	int ret;

	OK(otte_batch_reset(pair->batch));
	ret = otte_batch_submit(pair->batch, &request, 1);
	if (ret)
		return ret;
	OK(otte_batch_wait(pair->batch, 30 * SECOND));
	OK(otte_batch_task(pair->batch, 0, &task));
	return task.code;
}

/* Around what is moved. */
#define GUARD 64u
#define UNTOUCHED 0xee

void pair_move_exact(uint8_t op, uint32_t transport, void (*adjust)(struct otte_config *config))
{
	static const uint64_t sizes[] = {
		1, 17, 4095, 4096, 65536, 65537, 256 << 10, (256 << 10) + 1, (1 << 20) + 3, 16 << 20,
	};
	uint8_t *from, *to, untouched[GUARD];
	struct otte_task task;
	struct pair pair;
	size_t i;

	memset(untouched, UNTOUCHED, sizeof(untouched));
	pair_open(&pair, 20 << 20, adjust);
	from = op == OTTE_READ ? pair.remote_bytes : pair.local_bytes;
	to = op == OTTE_READ ? pair.local_bytes : pair.remote_bytes;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t n = sizes[i];

		pair_fill(from, GUARD + n + GUARD, (uint8_t)i);
		memset(to, UNTOUCHED, GUARD + n + GUARD);
		assert_int_equal(pair_run(&pair, op, GUARD, GUARD, n), 0);
		OK(otte_batch_task(pair.batch, 0, &task));
		assert_int_equal(task.transport, transport);
		assert_memory_equal(to + GUARD, from + GUARD, n);
		assert_memory_equal(to, untouched, GUARD);
		assert_memory_equal(to + GUARD + n, untouched, GUARD);
	}
	pair_close(&pair);
}
