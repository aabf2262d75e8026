/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which transports moved what, and how a report says it. */
#ifndef OTTE_TOOL_ROUTES_H
#define OTTE_TOOL_ROUTES_H

#include <jansson.h>
#include <stdint.h>

#include "otte/otte.h"

#define ROUTES_TEXT 256

struct routes {
	uint64_t bytes[OTTE_TRANSPORT_NVLINK + 1]; /* by enum otte_transport_kind */
};

/* "tcp"; "unknown" for what nobody knows. */
const char *route_name(uint32_t transport);

/* Request `index` of the batch has moved `length` bytes. */
void routes_add(struct routes *routes, struct otte_batch *batch, uint32_t index, uint64_t length);

/* "local"; where there were several, "local (3 MiB) and tcp (1 MiB)"; "none" where nothing moved. */
const char *routes_text(const struct routes *routes, char text[ROUTES_TEXT]);

/* { "local": 3145728, "tcp": 1048576 }: those that moved something. */
json_t *routes_json(const struct routes *routes);

#endif
