/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "routes.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "../common/output.h"

const char *route_name(uint32_t transport)
{
	static const char *const names[] = { "unknown", "tcp", "local", "rdma", "nvlink" };

	return names[transport < ARRAY_SIZE(names) ? transport : 0];
}

void routes_add(struct routes *routes, struct otte_batch *batch, uint32_t index, uint64_t length)
{
	struct otte_task task = { 0 };

	if (otte_batch_task(batch, index, &task) || task.transport >= ARRAY_SIZE(routes->bytes))
		task.transport = OTTE_TRANSPORT_ANY;
	routes->bytes[task.transport] += length;
}

static unsigned count_of(const struct routes *routes)
{
	unsigned count = 0;
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(routes->bytes); i++)
		count += routes->bytes[i] != 0;
	return count;
}

const char *routes_text(const struct routes *routes, char text[ROUTES_TEXT])
{
	unsigned count = count_of(routes);
	size_t used = 0;
	char bytes[32];
	uint32_t i;

	snprintf(text, ROUTES_TEXT, "none");
	for (i = ARRAY_SIZE(routes->bytes); i-- > 0;) {
		if (!routes->bytes[i])
			continue;
		used += (size_t)snprintf(text + used, ROUTES_TEXT - used, "%s%s", used ? " and " : "",
					 route_name(i));
		if (count > 1)
			used += (size_t)snprintf(text + used, ROUTES_TEXT - used, " (%s)",
						 format_bytes(routes->bytes[i], bytes));
	}
	return text;
}

json_t *routes_json(const struct routes *routes)
{
	json_t *object = json_object();
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(routes->bytes); i++)
		if (routes->bytes[i])
			json_object_set_new(object, route_name(i),
					    json_integer((json_int_t)routes->bytes[i]));
	return object;
}
