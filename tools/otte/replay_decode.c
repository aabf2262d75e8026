/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Follows the trace: each request uses its blocks in order, takes those that the cache has and pulls
 * the others, as many at once as the batch holds. Every block is checked whenever it is used.
 *
 * A slot may be taken again while the pull of its previous block is still gathered in the batch
 * (a request of more blocks than the cache has); the batch is then moved first.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "child.h"
#include "endpoint.h"
#include "lru.h"
#include "memory.h"
#include "../common/output.h"
#include "pattern.h"
#include "progress.h"
#include "replay.h"
#include "routes.h"
#include "samples.h"
#include "../common/stopping.h"
#include "tool.h"

#define BATCH_MAX 1024
#define BATCH_BYTES_MAX (256 * MIB)
#define WAIT_LIMIT_NS (120 * NSEC_PER_SEC)
#define WAIT_STEP_NS (100 * NSEC_PER_MSEC) /* how soon a signal is noticed */
#define CLOSE_LIMIT_NS (5 * (int64_t)NSEC_PER_SEC)
#define HURRY_NS (500 * NSEC_PER_MSEC) /* for the second process to end, after a signal */
#define SAMPLES_MAX (1u << 20)

/* What happened. */
struct tally {
	uint64_t requests; /* that were followed to their end */
	uint64_t hits, misses, checked;
	uint64_t pull_ns;
	struct routes routes;
};

struct decode {
	const struct replay_options *options;
	const struct trace *trace;
	struct otte_config config;
	struct child prefill;
	struct otte_engine *engine;
	struct remote remote;
	struct otte_mem *mem;
	struct otte_region *region;
	struct otte_batch *batch;
	struct lru lru;

	/* Pulls that are gathered. */
	struct otte_request requests[BATCH_MAX];
	uint32_t slots[BATCH_MAX];
	uint32_t gathered, batch_room;
	bool *is_gathered; /* of each slot */

	struct tally tally;
	uint64_t request_ns; /* of the request at hand: submission to arrival */
	struct samples latencies;
	bool interrupted;
};

/* To be asked wherever time may have passed. EXIT_OK, or the exit code after a complaint. */
static int heed_signals(struct decode *decode)
{
	if (!stopping_count())
		return EXIT_OK;
	decode->interrupted = true;
	return complain(EXIT_TRANSFER, "interrupted at request %" PRIu64 " of %zu",
			decode->tally.requests, decode->trace->request_count);
}

static char *slot_memory(struct decode *decode, uint32_t slot)
{
	return (char *)otte_mem_address(decode->mem) + slot * decode->options->block_bytes;
}

static int check_block(struct decode *decode, uint32_t slot)
{
	uint64_t hash_id = decode->trace->hash_ids[decode->lru.slots[slot].block], where;

	decode->tally.checked++;
	if (pattern_check(slot_memory(decode, slot), decode->options->block_bytes, hash_id, &where))
		return EXIT_OK;
	return complain(EXIT_MISMATCH, "block %" PRIu64 ": wrong content at byte %" PRIu64, hash_id,
			where);
}

/* ---- Pulling --------------------------------------------------------------------------------- */

static int complain_pull(struct decode *decode, int rc)
{
	struct otte_failure failure;
	const char *text = otte_error_text();

	if (!otte_batch_failure(decode->batch, &failure))
		return complain(EXIT_TRANSFER, "%s: %s", decode->remote.endpoint, failure.text);
	return complain(EXIT_TRANSFER, "%s: %s", decode->remote.endpoint,
			*text ? text : otte_strerror(rc));
}

static int wait_for_gathered(struct decode *decode)
{
	uint64_t end = otte_now_ns() + WAIT_LIMIT_NS;
	int rc;

	do {
		rc = otte_batch_wait(decode->batch, WAIT_STEP_NS);
	} while (rc == -ETIMEDOUT && !stopping_count() && otte_now_ns() < end);
	return rc;
}

static int move_gathered(struct decode *decode)
{
	struct otte_batch_status status = { 0 };
	uint64_t begin = otte_now_ns();
	uint32_t i;
	int rc;

	rc = otte_batch_submit(decode->batch, decode->requests, decode->gathered);
	if (!rc)
		rc = wait_for_gathered(decode);
	decode->request_ns += otte_now_ns() - begin;
	/* Of a signal to both processes the other one may have ended first: what fails by that is no news. */
	if (stopping_count())
		return heed_signals(decode);
	if (!rc)
		rc = otte_batch_poll(decode->batch, &status);
	if (rc || status.failed)
		return complain_pull(decode, rc);
	for (i = 0; i < decode->gathered; i++)
		routes_add(&decode->tally.routes, decode->batch, i, decode->options->block_bytes);
	rc = otte_batch_reset(decode->batch);
	return rc ? complain_pull(decode, rc) : EXIT_OK;
}

static int pull_gathered(struct decode *decode)
{
	uint32_t i;
	int rc;

	if (!decode->gathered)
		return EXIT_OK;
	rc = move_gathered(decode);
	for (i = 0; i < decode->gathered && !rc; i++) {
		decode->is_gathered[decode->slots[i]] = false;
		rc = check_block(decode, decode->slots[i]);
	}
	decode->gathered = 0;
	return rc;
}

static void gather(struct decode *decode, uint32_t block, uint32_t slot)
{
	uint64_t block_bytes = decode->options->block_bytes;

	decode->slots[decode->gathered] = slot;
	decode->is_gathered[slot] = true;
	decode->requests[decode->gathered++] = (struct otte_request){
		.segment = decode->remote.segment,
		.local = decode->region,
		.local_offset = slot * block_bytes,
		.remote_region = decode->remote.region.id,
		.remote_offset = block * block_bytes,
		.length = block_bytes,
		.op = OTTE_READ,
		.priority = OTTE_PRIORITY_HIGH,
		.intent = OTTE_INTENT_FOREGROUND_GET,
	};
}

static int use_block(struct decode *decode, uint32_t block)
{
	uint32_t slot = decode->lru.oldest;
	int rc = EXIT_OK;

	/* Only the oldest can be taken from a block. Its pull must be over before it is known as another. */
	if (decode->lru.slot_of[block] == LRU_NONE &&
	    (decode->gathered == decode->batch_room ||
	     (decode->lru.used == decode->lru.capacity && decode->is_gathered[slot])))
		rc = pull_gathered(decode);
	if (rc)
		return rc;
	if (!lru_use(&decode->lru, block, &slot)) {
		decode->tally.misses++;
		gather(decode, block, slot);
		return EXIT_OK;
	}
	decode->tally.hits++;
	return decode->is_gathered[slot] ? EXIT_OK : check_block(decode, slot);
}

/* ---- Following the trace --------------------------------------------------------------------- */

static void wait_until_due(const struct decode *decode, const struct trace_request *request,
			   uint64_t begin_ns)
{
	struct pollfd stopped = { .fd = stopping_descriptor(), .events = POLLIN };
	struct timespec left;
	uint64_t at, now;
	double due_ns;

	if (decode->options->time_scale <= 0)
		return;
	due_ns = (double)(request->timestamp_ms - decode->trace->requests[0].timestamp_ms) * 1e6 /
		 decode->options->time_scale;
	at = begin_ns + (uint64_t)due_ns;
	while (!stopping_count() && (now = otte_now_ns()) < at) {
		left = (struct timespec){ (time_t)((at - now) / NSEC_PER_SEC),
					  (long)((at - now) % NSEC_PER_SEC) };
		ppoll(&stopped, 1, &left, NULL);
	}
}

static int use_blocks(struct decode *decode, const struct trace_request *request)
{
	size_t i;
	int rc = EXIT_OK;

	for (i = 0; i < request->count && !rc; i++) {
		rc = heed_signals(decode);
		if (!rc)
			rc = use_block(decode, decode->trace->accesses[request->first + i]);
	}
	return rc ? rc : pull_gathered(decode);
}

/* All of the request, or it is as if it had not begun. */
static int follow_request(struct decode *decode, const struct trace_request *request)
{
	struct tally before = decode->tally;
	int rc;

	decode->request_ns = 0;
	rc = use_blocks(decode, request);
	if (rc) {
		decode->tally = before;
		return rc;
	}
	decode->tally.requests++;
	decode->tally.pull_ns += decode->request_ns;
	if (decode->tally.misses != before.misses)
		samples_add(&decode->latencies, decode->request_ns);
	return EXIT_OK;
}

static int follow(struct decode *decode, uint64_t *elapsed_ns)
{
	const struct trace *trace = decode->trace;
	uint64_t begin = otte_now_ns();
	struct progress bar;
	size_t i;
	int rc = EXIT_OK;

	progress_begin_count(&bar, "requests", decode->options->quiet ? 0 : trace->request_count);
	for (i = 0; i < trace->request_count && !rc; i++) {
		wait_until_due(decode, &trace->requests[i], begin);
		rc = heed_signals(decode);
		if (!rc)
			rc = follow_request(decode, &trace->requests[i]);
		if (!rc)
			progress_update(&bar, i + 1);
	}
	progress_end(&bar);
	*elapsed_ns = otte_now_ns() - begin;
	return rc;
}

/* ---- Report ---------------------------------------------------------------------------------- */

/* Blocks are numbered as they appear. */
static uint64_t count_blocks(const struct decode *decode)
{
	const struct trace *trace = decode->trace;
	const struct trace_request *last = &trace->requests[decode->tally.requests - 1];
	uint64_t count = 0;
	size_t i;

	for (i = 0; i < last->first + last->count; i++)
		count = max_u64(count, trace->accesses[i] + 1);
	return count;
}

static json_t *make_report(struct decode *decode, uint64_t elapsed_ns)
{
	const struct tally *tally = &decode->tally;
	uint64_t accesses = tally->hits + tally->misses;
	uint64_t bytes = tally->misses * decode->options->block_bytes;
	struct samples *latencies = &decode->latencies;

	samples_sort(latencies);
	return json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f, "
		"s:f, s:b, s:o}",
		"requests", (json_int_t)tally->requests, "blocks", (json_int_t)count_blocks(decode),
		"accesses", (json_int_t)accesses, "hits", (json_int_t)tally->hits, "misses",
		(json_int_t)tally->misses, "hit_rate",
		accesses ? (double)tally->hits / (double)accesses : 0.0, "cache_blocks",
		(json_int_t)decode->options->cache_blocks, "block_bytes",
		(json_int_t)decode->options->block_bytes, "verified_blocks",
		(json_int_t)tally->checked, "gb_moved", (double)bytes / 1e9, "seconds",
		(double)elapsed_ns / 1e9, "pull_seconds", (double)tally->pull_ns / 1e9, "gbps",
		tally->pull_ns ? (double)bytes / (double)tally->pull_ns : 0.0, "pulling_requests",
		(json_int_t)latencies->seen, "mean_us", samples_mean(latencies) / 1e3, "p50_us",
		(double)samples_quantile(latencies, 0.5) / 1e3, "p99_us",
		(double)samples_quantile(latencies, 0.99) / 1e3, "max_us",
		(double)samples_quantile(latencies, 1) / 1e3, "interrupted",
		decode->interrupted, "routes", routes_json(&tally->routes));
}

static double real_of(const json_t *report, const char *key)
{
	return json_number_value(json_object_get(report, key));
}

static void print_report(struct decode *decode, uint64_t elapsed_ns)
{
	json_t *report = make_report(decode, elapsed_ns);
	char block[32], cache[32], by[ROUTES_TEXT];

	if (decode->options->common.json) {
		output_json(report);
		return;
	}
	format_bytes(decode->options->block_bytes, block);
	format_bytes(decode->options->block_bytes * decode->options->cache_blocks, cache);
	printf("requests      %.0f, %.0f blocks used, %.0f different ones of %s\n",
	       real_of(report, "requests"), real_of(report, "accesses"), real_of(report, "blocks"),
	       block);
	printf("cache         %.0f blocks, %s\n", real_of(report, "cache_blocks"), cache);
	printf("hit rate      %.2f %% (%.0f hits, %.0f misses)\n",
	       real_of(report, "hit_rate") * 100, real_of(report, "hits"),
	       real_of(report, "misses"));
	printf("moved         %.3f GB in %.3f s of pulling, %.2f GB/s by %s; %.3f s in all\n",
	       real_of(report, "gb_moved"), real_of(report, "pull_seconds"),
	       real_of(report, "gbps"), routes_text(&decode->tally.routes, by),
	       real_of(report, "seconds"));
	printf("each request  p50 %.1f us, p99 %.1f us, longest %.1f us (of the %.0f that pulled)\n",
	       real_of(report, "p50_us"), real_of(report, "p99_us"), real_of(report, "max_us"),
	       real_of(report, "pulling_requests"));
	printf("content       %.0f uses checked, all right\n", real_of(report, "verified_blocks"));
	json_decref(report);
}

/* ---- Start and end --------------------------------------------------------------------------- */

static int start_prefill(struct decode *decode)
{
	const struct replay_options *options = decode->options;
	char block_bytes[32], generate[32], seed[32], name[OTTE_ADDRESS_MAX + 16];
	struct child_args args = { .count = 0 };
	int rc;

	snprintf(block_bytes, sizeof(block_bytes), "%" PRIu64, options->block_bytes);
	snprintf(generate, sizeof(generate), "%" PRIu64, options->generate);
	snprintf(seed, sizeof(seed), "%" PRIu64, options->seed);
	child_arg(&args, "otte");
	child_arg(&args, "replay");
	child_arg(&args, "--prefill");
	child_arg(&args, "--block-bytes");
	child_arg(&args, block_bytes);
	if (options->path) {
		child_arg(&args, options->path);
	} else {
		child_arg(&args, "--generate");
		child_arg(&args, generate);
		child_arg(&args, "--seed");
		child_arg(&args, seed);
	}
	child_common_args(&args, &options->common);
	rc = child_start(&decode->prefill, &args, options->server_cpu);
	if (rc)
		return rc;
	snprintf(name, sizeof(name), "%s/" REPLAY_REGION, decode->prefill.endpoint);
	rc = remote_open(decode->engine, &decode->config, name, &decode->remote);
	decode->remote.name = REPLAY_REGION;
	return rc;
}

static int make_cache(struct decode *decode)
{
	const struct replay_options *options = decode->options;
	struct otte_region_desc desc = { .access = OTTE_LOCAL_ONLY, .name = "cache" };
	int rc;

	decode->batch_room =
		(uint32_t)min_u64(max_u64(BATCH_BYTES_MAX / options->block_bytes, 1), BATCH_MAX);
	decode->is_gathered = calloc(options->cache_blocks, sizeof(*decode->is_gathered));
	if (!decode->is_gathered ||
	    lru_init(&decode->lru, (uint32_t)options->cache_blocks, decode->trace->block_count) ||
	    samples_init(&decode->latencies, SAMPLES_MAX))
		return complain(EXIT_LOCAL, "no memory for %" PRIu64 " blocks",
				options->cache_blocks);
	desc.length = options->cache_blocks * options->block_bytes;
	rc = otte_mem_alloc(decode->engine, desc.length, 0, &decode->mem);
	if (!rc) {
		desc.mem = decode->mem;
		rc = otte_region_register(decode->engine, &desc, 1, &decode->region);
	}
	if (!rc)
		rc = otte_batch_create(decode->engine, decode->batch_room, &decode->batch);
	return rc ? complain_library(rc, "cache") : EXIT_OK;
}

static void end(struct decode *decode)
{
	if (decode->batch) {
		otte_batch_cancel(decode->batch);
		otte_batch_wait(decode->batch, CLOSE_LIMIT_NS);
		otte_batch_destroy(decode->batch);
	}
	if (decode->region)
		otte_region_unregister(&decode->region, 1, CLOSE_LIMIT_NS, NULL);
	if (decode->mem)
		otte_mem_release(decode->mem);
	remote_close(&decode->remote);
	otte_engine_destroy(decode->engine);
	child_stop(&decode->prefill, decode->interrupted ? HURRY_NS : CHILD_STOP_NS);
	lru_free(&decode->lru);
	samples_free(&decode->latencies);
	free(decode->is_gathered);
}

int replay_decode(const struct replay_options *options, const struct trace *trace)
{
	static struct decode decode; /* large */
	uint64_t elapsed_ns = 0;
	int rc;

	decode.options = options;
	decode.trace = trace;
	decode.prefill.pid = -1;
	rc = check_memory((trace->block_count + options->cache_blocks) * options->block_bytes,
			  "give a smaller --block-bytes or --cache-blocks");
	if (rc)
		return rc;
	rc = common_requester(&options->common, &decode.config, &decode.engine);
	if (!rc)
		rc = make_cache(&decode);
	if (!rc)
		rc = start_prefill(&decode);
	stopping_is_noted(); /* until here a signal has ended both processes */
	if (!rc)
		rc = follow(&decode, &elapsed_ns);
	/* Of what was followed until then, too. */
	if (!rc || (decode.interrupted && decode.tally.requests))
		print_report(&decode, elapsed_ns);
	end(&decode);
	return rc;
}
