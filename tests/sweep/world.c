/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "unit/lend/module.h"

const char *doing = "nothing";
long doing_nth;

void does_not_hold(int line, const char *condition, const char *format, ...)
{
	const char *what = fault_disarm();
	va_list args;

	fprintf(stderr, "%s, fault %ld (%s), line %d: not so: %s: ", doing, doing_nth,
		what ? what : "none", line, condition);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	fflush(NULL);
	abort();
}

#undef OK
#define OK(call) HOLDS((call) == 0, "%s", otte_error_text())

void world_config(struct otte_config *config)
{
	OK(otte_config_init(config, sizeof(*config)));
	config->reconnect_min_ns = 1 * MS;
	config->reconnect_max_ns = 8 * MS;
	config->control_timeout_ns = 2 * SECOND;
	config->default_deadline_ns = 8 * SECOND;
	config->stats_socket = 0;
}

static struct otte_region *view(struct otte_engine *engine, uint32_t access, struct otte_mem **mem)
{
	struct otte_region_desc desc = { .length = AREA, .access = access, .name = "view" };
	struct otte_region *region = NULL;

	OK(otte_mem_alloc(engine, AREA, 0, mem));
	desc.mem = *mem;
	OK(otte_region_register(engine, &desc, 1, &region));
	return region;
}

static void remember(struct otte_engine *engine, struct otte_stats *stats)
{
	stats->size = sizeof(*stats);
	OK(otte_engine_stats(engine, stats));
}

void world_open(struct world *world)
{
	world_open_adjusted(world, NULL);
}

void world_open_adjusted(struct world *world, void (*adjust)(struct otte_config *config))
{
	struct otte_config config;

	memset(world, 0, sizeof(*world));
	world_config(&config);
	if (adjust)
		adjust(&config);
	OK(otte_engine_create(&config, &world->source));
	/* One that asks only, if it is to speak over lanes. */
	if (module_framed)
		config.listen_address[0] = '\0';
	OK(otte_engine_create(&config, &world->user));
	world->shared = view(world->source, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE, &world->there);
	world->spare = view(world->source, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE, &world->aside);
	world->local = view(world->user, OTTE_LOCAL_ONLY, &world->here);
	world->from = otte_mem_address(world->there);
	world->to = otte_mem_address(world->here);
	OK(otte_engine_address(world->source, world->address, sizeof(world->address)));
	HOLDS(SOON(otte_segment_open(world->user, world->address, OTTE_EPOCH_ANY, 5 * SECOND,
					   &world->segment) == 0), "%s", otte_error_text());
	OK(otte_batch_create(world->user, 8, &world->batch));
	HOLDS(SOON(world_transfer(world, OTTE_READ) == 0), "%s", otte_error_text());
	remember(world->source, &world->source_before);
	remember(world->user, &world->user_before);
	/* Lanes and sessions that a fault has cost may not be back yet. */
	world->user_before.peers_out = world->source_before.peers_in = 1;
	world->user_before.peers_in = world->source_before.peers_out = 0;
	world->user_before.lanes = world->source_before.lanes = config.tcp_lanes;
}

void world_close(struct world *world)
{
	OK(otte_batch_destroy(world->batch));
	OK(otte_segment_close(world->segment));
	HOLDS(SOON(!module_loans(false)), "%u loans are not given back", module_loans(false));
	OK(otte_region_unregister(&world->local, 1, 5 * SECOND, NULL));
	OK(otte_mem_release(world->here));
	OK(otte_engine_destroy(world->user));
	HOLDS(SOON(!module_loans(true)), "%u loans are left", module_loans(true));
	OK(otte_region_unregister(&world->shared, 1, 5 * SECOND, NULL));
	OK(otte_mem_release(world->there));
	OK(otte_region_unregister(&world->spare, 1, 5 * SECOND, NULL));
	OK(otte_mem_release(world->aside));
	OK(otte_engine_destroy(world->source));
}

struct otte_request world_request(const struct world *world, uint8_t op)
{
	return (struct otte_request){
		.segment = world->segment,
		.local = world->local,
		.local_offset = 64,
		.remote_region = otte_region_id(world->shared),
		.remote_offset = 64,
		.length = AREA - 128,
		.op = op,
	};
}

void world_fill(struct world *world)
{
	uint32_t i;

	world->salt++;
	for (i = 0; i < AREA; i++)
		world->from[i] = (uint8_t)(i ^ i >> 8 ^ world->salt);
	memset(world->to, 0xee, AREA);
}

static int same(struct world *world)
{
	return memcmp(world->from + 64, world->to + 64, AREA - 128) ? -EILSEQ : 0;
}

int world_transfer(struct world *world, uint8_t op)
{
	struct otte_request request = world_request(world, op);
	uint8_t *swap = world->from;
	struct otte_task task;
	int ret;

	if (op == OTTE_WRITE) {
		world->from = world->to;
		world->to = swap;
	}
	world_fill(world);
	OK(otte_batch_reset(world->batch));
	ret = otte_batch_submit(world->batch, &request, 1);
	if (!ret) {
		OK(otte_batch_wait(world->batch, 20 * SECOND));
		OK(otte_batch_task(world->batch, 0, &task));
		ret = task.code;
		HOLDS(ret || same(world) == 0, "completed without its bytes");
		HOLDS(world->to[63] == 0xee && world->to[AREA - 64] == 0xee,
		      "bytes beside the range have changed");
	}
	OK(otte_batch_reset(world->batch));
	if (op == OTTE_WRITE) {
		world->to = world->from;
		world->from = swap;
	}
	return ret;
}

/* But for the table of the shared memory's uses, which is made when that is first lent over a lane. */
static bool same_regions(const struct otte_stats *now, const struct otte_stats *before)
{
	uint64_t tables = now->regions - before->regions;
	uint64_t table_bytes = now->registered_bytes - before->registered_bytes;

	if (module_absent)
		return !tables && !table_bytes;
	return tables <= 2 && table_bytes <= tables * (64u << 10);
}

static bool as_before(struct otte_engine *engine, const struct otte_stats *before)
{
	struct otte_stats now = { .size = sizeof(now) };

	OK(otte_engine_stats(engine, &now));
	return same_regions(&now, before) && now.segments == before->segments && now.requests == 0 && now.bytes == 0 &&
	       now.retained == 0 && now.retained_bytes == 0 && now.peers_in == before->peers_in &&
	       now.peers_out == before->peers_out && now.lanes == before->lanes;
}

void world_is_well(struct world *world)
{
	HOLDS(SOON(world_transfer(world, OTTE_READ) == 0), "no READ: %s", otte_error_text());
	HOLDS(SOON(world_transfer(world, OTTE_WRITE) == 0), "no WRITE: %s", otte_error_text());
	HOLDS(SOON(as_before(world->user, &world->user_before)),
	      "the requester's counters are not where they were");
	HOLDS(SOON(as_before(world->source, &world->source_before)),
	      "the source's counters are not where they were");
}
