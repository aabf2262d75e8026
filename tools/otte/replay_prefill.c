/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns every block of the trace, in the order of first appearance, until SIGTERM. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "pattern.h"
#include "replay.h"
#include "../common/stopping.h"
#include "tool.h"

#define CLOSE_LIMIT_NS (5 * (int64_t)NSEC_PER_SEC)

static void fill_blocks(char *memory, const struct trace *trace, uint64_t block_bytes)
{
	size_t i;

	for (i = 0; i < trace->block_count; i++)
		pattern_fill(memory + i * block_bytes, block_bytes, trace->hash_ids[i]);
}

static int tell_endpoint(struct otte_engine *engine, int ready_fd)
{
	char endpoint[OTTE_ADDRESS_MAX];
	int rc = otte_engine_address(engine, endpoint, sizeof(endpoint));

	if (rc)
		return complain_library(rc, "address");
	if (dprintf(ready_fd, "%s\n", endpoint) < 0)
		return complain(EXIT_LOCAL, "--ready-fd: %s", strerror(errno));
	close(ready_fd);
	return EXIT_OK;
}

static int serve_blocks(struct otte_engine *engine, const struct replay_options *options,
			const struct trace *trace)
{
	struct otte_region_desc desc = { .access = OTTE_REMOTE_READ, .name = REPLAY_REGION };
	struct otte_region *region = NULL;
	struct otte_mem *mem = NULL;
	int rc;

	desc.length = trace->block_count * options->block_bytes;
	rc = otte_mem_alloc(engine, desc.length, 0, &mem);
	if (rc)
		return complain_library(rc, "blocks");
	fill_blocks(otte_mem_address(mem), trace, options->block_bytes);
	desc.mem = mem;
	rc = otte_region_register(engine, &desc, 1, &region);
	if (rc)
		rc = complain_library(rc, "blocks");
	else
		rc = tell_endpoint(engine, options->ready_fd);
	if (!rc)
		stopping_wait(0);
	if (region)
		otte_region_unregister(&region, 1, CLOSE_LIMIT_NS, NULL);
	otte_mem_release(mem);
	return rc;
}

int replay_prefill(const struct replay_options *options, const struct trace *trace)
{
	struct otte_config config;
	struct otte_engine *engine;
	int rc = common_config(&options->common, &config);

	if (rc)
		return rc;
	if (stopping_begin())
		return complain(EXIT_LOCAL, "signals: %s", strerror(errno));
	rc = otte_engine_create(&config, &engine);
	if (rc)
		return complain_engine(rc);
	rc = serve_blocks(engine, options, trace);
	otte_engine_close(engine, OTTE_CLOSE_SOURCE | OTTE_CLOSE_REQUESTER, CLOSE_LIMIT_NS, NULL);
	otte_engine_destroy(engine);
	return rc;
}
