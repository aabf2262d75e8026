/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A trace of LLM requests, one JSON object a line:
 *
 *   {"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [ids]}
 *
 * A hash id names a block of the prefix cache. Here blocks are numbered in the order in which they
 * first appear, which is where the prefill process keeps them.
 */
#ifndef OTTE_TOOL_TRACE_H
#define OTTE_TOOL_TRACE_H

#include <stddef.h>
#include <stdint.h>

struct trace_request {
	uint64_t timestamp_ms;
	uint64_t input_length, output_length;
	size_t first, count; /* in trace.accesses */
};

struct trace {
	struct trace_request *requests;
	size_t request_count;
	uint32_t *accesses; /* block numbers */
	size_t access_count;
	uint64_t *hash_ids; /* of each block */
	size_t block_count;
	struct trace_known *known; /* hash id -> block */
	size_t request_room, access_room, block_room;
};

/* All of these: EXIT_OK, or an exit code after a complaint that names file and line. */
int trace_load(struct trace *trace, const char *path);
int trace_generate(struct trace *trace, size_t requests, uint64_t seed);
int trace_write(const struct trace *trace, const char *path);

void trace_free(struct trace *trace);

#endif
