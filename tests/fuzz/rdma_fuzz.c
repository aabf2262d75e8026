/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The decoder of what a peer says of its NICs. Whatever it accepts must encode to the same bytes again.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t out[OTTE_RDMA_FRAME_MAX];
	struct otte_rdma_message got;
	ssize_t encoded;

	if (size > OTTE_RDMA_FRAME_MAX || otte_rdma_message_decode(data, size, &got))
		return 0;
	encoded = otte_rdma_message_encode(&got, out, sizeof(out));
	if (encoded == (ssize_t)size && !memcmp(data, out, size))
		return 0;
	fprintf(stderr, "%zu bytes became %zd, or others\n", size, encoded);
	abort();
}
