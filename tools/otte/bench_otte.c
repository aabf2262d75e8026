/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libotte as one that is measured: an engine of ours, and as its peer either a process of our own
 * that runs `otte serve` or any that publishes a region large enough.
 *
 * Content is checked around the rounds of a line, not in them. Before READs a known pattern is
 * written to the peer and our memory cleared; after them our memory must hold it. WRITEs carry a
 * pattern; after them it is read back. A region of somebody else's is written to only if WRITEs are
 * measured: what READs alone bring from there is not verified.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench.h"
#include "child.h"
#include "endpoint.h"
#include "pattern.h"
#include "routes.h"
#include "../common/stopping.h"
#include "tool.h"

#define REGION_NAME "bench"
#define WAIT_LIMIT_NS (120 * (int64_t)NSEC_PER_SEC)
#define CLOSE_LIMIT_NS (5 * (int64_t)NSEC_PER_SEC)

/* One thread's. The requests are made once for each line, as an application would keep them. */
struct otte_lane {
	struct bench_otte *bench;
	struct otte_batch *batch;
	uint64_t offset; /* in the local and in the remote region */
	char *memory;
	struct otte_request requests[BENCH_BATCH_MAX];
	uint64_t length; /* of the requests made */
	unsigned count;
	bool write;
	enum otte_transport_kind route;
	struct otte_failure failure; /* the last one */
};

struct bench_otte {
	const struct bench_options *options;
	struct otte_config config;
	struct child child;
	struct remote remote;
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *region;
	struct otte_lane *lanes;
	struct measured side;
	uint64_t seed;
	bool filled, verified; /* the peer's region is given content; which is checked */
};

/* ---- Exchanges ------------------------------------------------------------------------------- */

static void make_requests(struct otte_lane *lane, bool write, uint64_t length, unsigned count)
{
	const struct bench_otte *bench = lane->bench;
	unsigned i;

	for (i = 0; i < count; i++)
		lane->requests[i] = (struct otte_request){
			.segment = bench->remote.segment,
			.local = bench->region,
			.local_offset = lane->offset + i * length,
			.remote_region = bench->remote.region.id,
			.remote_offset = lane->offset + i * length,
			.length = length,
			.op = write ? OTTE_WRITE : OTTE_READ,
			.lease = bench->options->lease ? OTTE_LEASE_REGION : OTTE_LEASE_DEFAULT,
		};
	lane->write = write;
	lane->length = length;
	lane->count = count;
}

/* What otte_batch_run() returned is not 0, or nobody knows the route yet. */
static int look_at_tasks(struct otte_lane *lane, int rc)
{
	struct otte_task task = { 0 };

	if (rc > 0) {
		rc = otte_batch_failure(lane->batch, &lane->failure);
		return rc ? rc : lane->failure.code;
	}
	if (!rc)
		rc = otte_batch_task(lane->batch, 0, &task);
	lane->route = (enum otte_transport_kind)task.transport;
	return rc;
}

static int exchange(void *arg, bool write, uint64_t length, unsigned batch)
{
	struct otte_lane *lane = arg;
	int rc;

	if (lane->length != length || lane->count != batch || lane->write != write)
		make_requests(lane, write, length, batch);
	rc = otte_batch_run(lane->batch, lane->requests, batch, WAIT_LIMIT_NS);
	return rc || !lane->route ? look_at_tasks(lane, rc) : 0;
}

int bench_otte_complain(const struct bench_otte *bench, int code)
{
	const char *text = otte_error_text();
	unsigned i;

	if (stopping_count()) /* which has ended the second process, too, and is what is told */
		return EXIT_TRANSFER;
	for (i = 0; i < bench->options->threads; i++)
		if (bench->lanes[i].failure.code == code)
			text = bench->lanes[i].failure.text;
	return complain(EXIT_TRANSFER, "%s: %s", bench->remote.endpoint,
			*text ? text : otte_strerror(code));
}

/* ---- Content --------------------------------------------------------------------------------- */

static uint64_t lane_seed(const struct bench_otte *bench, unsigned lane)
{
	return bench->seed * MEASURE_THREADS_MAX + lane;
}

static int exchange_all(struct bench_otte *bench, bool write, uint64_t length)
{
	unsigned i;
	int rc = 0;

	for (i = 0; i < bench->options->threads && !rc; i++)
		rc = exchange(&bench->lanes[i], write, length, bench->options->batch);
	return rc;
}

static void fill_all(struct bench_otte *bench, uint64_t length)
{
	unsigned i;

	bench->seed++;
	for (i = 0; i < bench->options->threads; i++)
		pattern_fill(bench->lanes[i].memory, length * bench->options->batch,
			     lane_seed(bench, i));
}

static void clear_all(struct bench_otte *bench, uint64_t length)
{
	unsigned i;

	for (i = 0; i < bench->options->threads; i++)
		memset(bench->lanes[i].memory, 0, length * bench->options->batch);
}

static int check_all(struct bench_otte *bench, uint64_t length)
{
	uint64_t where;
	unsigned i;

	for (i = 0; i < bench->options->threads; i++)
		if (!pattern_check(bench->lanes[i].memory, length * bench->options->batch,
				   lane_seed(bench, i), &where))
			return complain(EXIT_MISMATCH,
					"thread %u, blocks of %" PRIu64
					": wrong content at %" PRIu64,
					i, length, where);
	return EXIT_OK;
}

int bench_otte_prepare(struct bench_otte *bench, bool write, uint64_t length)
{
	int rc;

	fill_all(bench, length);
	if (write || !bench->filled)
		return EXIT_OK;
	/* Also where nothing is verified: untouched memory is one page of zeroes, faster than memory. */
	rc = exchange_all(bench, true, length);
	clear_all(bench, length);
	return rc ? bench_otte_complain(bench, rc) : EXIT_OK;
}

int bench_otte_verify(struct bench_otte *bench, bool write, uint64_t length)
{
	int rc = 0;

	if (!bench->verified)
		return EXIT_OK;
	if (write) {
		clear_all(bench, length);
		rc = exchange_all(bench, false, length);
	}
	return rc ? bench_otte_complain(bench, rc) : check_all(bench, length);
}

/* ---- Start and end --------------------------------------------------------------------------- */

static void config_args(struct child_args *args, const struct otte_config *config, char sets[3][64])
{
	unsigned i;

	snprintf(sets[0], 64, "tcp.congestion=%s", config->tcp_congestion);
	snprintf(sets[1], 64, "tcp.send_buffer_bytes=%" PRIu64, config->tcp_send_buffer);
	snprintf(sets[2], 64, "tcp.receive_buffer_bytes=%" PRIu64, config->tcp_receive_buffer);
	for (i = *config->tcp_congestion ? 0 : 1; i < 3; i++) {
		child_arg(args, "--set");
		child_arg(args, sets[i]);
	}
}

static int start_child(struct bench_otte *bench)
{
	const struct bench_options *options = bench->options;
	char anonymous[64], sets[3][64], *name;
	struct child_args args = { .count = 0 };
	int rc;

	snprintf(anonymous, sizeof(anonymous), REGION_NAME "=%" PRIu64,
		 bench_memory_bytes(options));
	child_arg(&args, "otte");
	child_arg(&args, "serve");
	child_arg(&args, "--quiet");
	child_arg(&args, "--writable");
	child_arg(&args, "--anon");
	child_arg(&args, anonymous);
	child_common_args(&args, &options->common);
	config_args(&args, &bench->config, sets);
	rc = child_start(&bench->child, &args, options->server_cpu);
	if (rc)
		return rc;
	bench->side.peer = bench->child.pid;
	if (asprintf(&name, "%s/" REGION_NAME, bench->child.endpoint) < 0)
		return complain(EXIT_LOCAL, "no memory");
	rc = remote_open(bench->engine, &bench->config, name, &bench->remote);
	bench->remote.name = REGION_NAME;
	free(name);
	return rc;
}

static int open_peer(struct bench_otte *bench)
{
	const struct bench_options *options = bench->options;
	uint64_t wanted = bench_memory_bytes(options);
	int rc;

	if (!options->peer)
		rc = start_child(bench);
	else
		rc = remote_open(bench->engine, &bench->config, options->peer, &bench->remote);
	if (rc)
		return rc;
	if (bench->remote.region.length < wanted)
		return complain(EXIT_REFUSED, "%s has %" PRIu64 " bytes, but this needs %" PRIu64,
				options->peer, bench->remote.region.length, wanted);
	bench->filled = (!options->peer || options->write) &&
			(bench->remote.region.access & OTTE_REMOTE_WRITE);
	bench->verified = options->verify && bench->filled &&
			  (bench->remote.region.access & OTTE_REMOTE_READ);
	return EXIT_OK;
}

static int make_lane(struct bench_otte *bench, unsigned index, uint64_t stride)
{
	struct otte_lane *lane = &bench->lanes[index];

	lane->bench = bench;
	lane->offset = index * stride;
	lane->memory = (char *)otte_mem_address(bench->mem) + lane->offset;
	bench->side.lanes[index] = lane;
	return otte_batch_create(bench->engine, bench->options->batch, &lane->batch);
}

static int make_lanes(struct bench_otte *bench)
{
	struct otte_region_desc desc = { .access = OTTE_LOCAL_ONLY, .name = "bench-local" };
	uint64_t bytes = bench_memory_bytes(bench->options);
	unsigned i;
	int rc;

	bench->lanes = calloc(bench->options->threads, sizeof(*bench->lanes));
	if (!bench->lanes)
		return complain(EXIT_LOCAL, "no memory");
	rc = otte_mem_alloc(bench->engine, bytes, 0, &bench->mem);
	if (!rc) {
		desc.mem = bench->mem;
		desc.length = bytes;
		rc = otte_region_register(bench->engine, &desc, 1, &bench->region);
	}
	for (i = 0; i < bench->options->threads && !rc; i++)
		rc = make_lane(bench, i, bytes / bench->options->threads);
	if (rc)
		return complain_library(rc, "local memory");
	memset(otte_mem_address(bench->mem), 0, bytes);
	return EXIT_OK;
}

static int make_config(struct bench_otte *bench)
{
	const struct bench_options *options = bench->options;
	struct otte_config *config = &bench->config;
	int rc = common_config(&options->common, config);

	if (rc)
		return rc;
	config->listen_address[0] = '\0';
	if (*options->congestion)
		memcpy(config->tcp_congestion, options->congestion, sizeof(options->congestion));
	if (options->lanes)
		config->tcp_lanes = options->lanes;
	if (options->send_buffer_bytes)
		config->tcp_send_buffer = options->send_buffer_bytes;
	if (options->receive_buffer_bytes)
		config->tcp_receive_buffer = options->receive_buffer_bytes;
	config->max_bytes = max_u64(config->max_bytes, bench_memory_bytes(options));
	return EXIT_OK;
}

/* The first exchange tells the route, and whether anything works at all. */
static int try_it(struct bench_otte *bench)
{
	bool write = !bench->options->read && !(bench->remote.region.access & OTTE_REMOTE_READ);
	int rc = exchange(&bench->lanes[0], write, bench->options->sizes[0], 1);

	return rc ? bench_otte_complain(bench, rc) : EXIT_OK;
}

int bench_otte_start(const struct bench_options *options, struct bench_otte **result)
{
	struct bench_otte *bench = calloc(1, sizeof(*bench));
	int rc;

	if (!bench)
		return complain(EXIT_LOCAL, "no memory");
	bench->options = options;
	bench->child.pid = -1;
	bench->side.exchange = exchange;
	rc = make_config(bench);
	if (!rc) {
		rc = otte_engine_create(&bench->config, &bench->engine);
		if (rc)
			rc = complain_engine(rc);
	}
	if (!rc)
		rc = open_peer(bench);
	if (!rc)
		rc = make_lanes(bench);
	if (!rc)
		rc = try_it(bench);
	if (rc)
		bench_otte_stop(bench);
	else
		*result = bench;
	return rc;
}

void bench_otte_stop(struct bench_otte *bench)
{
	unsigned i;

	for (i = 0; bench->lanes && i < bench->options->threads; i++) {
		if (!bench->lanes[i].batch)
			continue;
		otte_batch_cancel(bench->lanes[i].batch);
		otte_batch_wait(bench->lanes[i].batch, CLOSE_LIMIT_NS);
		otte_batch_destroy(bench->lanes[i].batch);
	}
	if (bench->region)
		otte_region_unregister(&bench->region, 1, CLOSE_LIMIT_NS, NULL);
	if (bench->mem)
		otte_mem_release(bench->mem);
	remote_close(&bench->remote);
	otte_engine_destroy(bench->engine);
	child_stop(&bench->child, CHILD_STOP_NS);
	free(bench->lanes);
	free(bench);
}

const struct measured *bench_otte_side(const struct bench_otte *bench)
{
	return &bench->side;
}

const char *bench_otte_route(const struct bench_otte *bench)
{
	return route_name(bench->lanes[0].route);
}

bool bench_otte_is_verified(const struct bench_otte *bench)
{
	return bench->verified;
}

unsigned bench_otte_lanes(const struct bench_otte *bench)
{
	return bench->config.tcp_lanes;
}
