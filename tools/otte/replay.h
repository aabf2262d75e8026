/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the parts of `otte replay` share.
 *
 *   replay.c          the command line
 *   replay_prefill.c  the process that owns every block of the trace
 *   replay_decode.c   the process that follows the trace and pulls the blocks that it lacks
 *   trace.c, lru.c    the requests; which blocks the decode process has
 *
 * The content of a block follows from its hash id, so the decode process can check each one.
 */
#ifndef OTTE_TOOL_REPLAY_H
#define OTTE_TOOL_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "common.h"
#include "trace.h"

#define REPLAY_REGION "blocks"

struct replay_options {
	struct common common;
	const char *path; /* of the trace, or NULL */
	uint64_t generate; /* requests to make up instead, with */
	uint64_t seed;
	bool seeded; /* by the command line */
	const char *write; /* only write the trace there */
	uint64_t block_bytes;
	uint64_t cache_blocks;
	double time_scale; /* times faster than the trace; 0: as fast as possible */
	int client_cpu, server_cpu;
	int ready_fd; /* of the prefill process */
	bool prefill; /* be that */
	bool quiet;
};

/* Exit codes after a complaint. */
int replay_prefill(const struct replay_options *options, const struct trace *trace);
int replay_decode(const struct replay_options *options, const struct trace *trace);

#endif
