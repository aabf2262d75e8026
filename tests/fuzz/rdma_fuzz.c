/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The decoder of what a peer says of its NICs. Whatever it accepts must encode to the same bytes
 * again; and PATHS follow themselves, and others only where the NICs, and chunks, are the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma/protocol.h"
#include "transport/rdma/routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void follow(const struct otte_rdma_paths *paths)
{
	static struct otte_rdma_paths earlier;
	uint32_t i;
	int ret = otte_rdma_paths_follow(paths, &earlier);

	if (!ret && paths->chunk_bytes != earlier.chunk_bytes)
		abort();
	for (i = 0; !ret && i < paths->count; i++)
		if (paths->rows[i].nic != earlier.rows[i].nic || paths->rows[i].pd != earlier.rows[i].pd)
			abort();
	earlier = *paths;
	if (otte_rdma_paths_follow(paths, &earlier))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t out[OTTE_RDMA_FRAME_MAX];
	struct otte_rdma_message got;
	ssize_t encoded;

	if (size > OTTE_RDMA_FRAME_MAX || otte_rdma_message_decode(data, size, &got))
		return 0;
	if (got.type == OTTE_RDMA_MSG_PATHS)
		follow(&got.paths);
	encoded = otte_rdma_message_encode(&got, out, sizeof(out));
	if (encoded == (ssize_t)size && !memcmp(data, out, size))
		return 0;
	fprintf(stderr, "%zu bytes became %zd, or others\n", size, encoded);
	abort();
}
