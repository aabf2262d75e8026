/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* DESCRIBE and REGIONS: what a peer publishes. STATS_REPLY: its counters. */
#include "control/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "control/le.h"
#include "control/wire_private.h"

#define DESCRIBE_BYTES 8
#define STATS_HEADER 8
#define STATS_FIRST offsetof(struct otte_stats, regions)
#define STATS_VALUES ((sizeof(struct otte_stats) - STATS_FIRST) / sizeof(uint64_t))
#define KNOWN_ACCESS (OTTE_REMOTE_READ | OTTE_REMOTE_WRITE)
#define KNOWN_ROUTES (OTTE_GPU_BY_DMABUF | OTTE_GPU_BY_PEERMEM)

_Static_assert(OTTE_REGIONS_HEADER == 8 + 4 + 4, "REGIONS layout");
_Static_assert(OTTE_REGION_ROW_BYTES == 8 + 8 + 8 + 4 + 4 + OTTE_NAME_MAX, "REGIONS row layout");
_Static_assert(STATS_FIRST + STATS_VALUES * sizeof(uint64_t) == sizeof(struct otte_stats),
	       "otte_stats is u64 values from regions on");

ssize_t otte_describe_encode(const struct otte_describe *describe, uint8_t *out, size_t size)
{
	int rc = otte_wire_room("DESCRIBE", size, DESCRIBE_BYTES);

	if (rc)
		return rc;
	return put_le64(out, describe->after) - out;
}

int otte_describe_decode(const uint8_t *in, size_t length, struct otte_describe *describe)
{
	int rc = otte_wire_length("DESCRIBE", length, DESCRIBE_BYTES);

	if (!rc)
		get_le64(in, &describe->after);
	return rc;
}

static uint8_t *put_row(uint8_t *at, const struct otte_region_info *row)
{
	at = put_le64(at, row->id);
	at = put_le64(at, row->length);
	at = put_le64(at, row->address);
	at = put_le32(at, row->access);
	at = put_le32(at, row->gpu_routes);
	return otte_wire_put_string(at, row->name, sizeof(row->name));
}

ssize_t otte_regions_encode(struct otte_regions *regions, const struct otte_region_info *rows,
			    uint8_t *out, size_t size)
{
	size_t least = OTTE_REGIONS_HEADER + (regions->count ? OTTE_REGION_ROW_BYTES : 0);
	int rc = otte_wire_room("REGIONS", size, least);
	uint8_t *at = out;
	size_t fit;
	uint32_t i;

	if (rc)
		return rc;
	fit = (size - OTTE_REGIONS_HEADER) / OTTE_REGION_ROW_BYTES;
	if (fit < regions->count) {
		regions->count = (uint32_t)fit;
		regions->more = 1;
	}
	at = put_le64(at, regions->total);
	at = put_le32(at, regions->count);
	at = put_le32(at, regions->more);
	for (i = 0; i < regions->count; i++)
		at = put_row(at, &rows[i]);
	return at - out;
}

static const uint8_t *get_row(const uint8_t *at, struct otte_region_info *row)
{
	at = get_le64(at, &row->id);
	at = get_le64(at, &row->length);
	at = get_le64(at, &row->address);
	at = get_le32(at, &row->access);
	at = get_le32(at, &row->gpu_routes);
	return get_bytes(at, (uint8_t *)row->name, sizeof(row->name));
}

static int check_row(const struct otte_region_info *row, uint64_t previous_id)
{
	int rc;

	if (row->id <= previous_id)
		return otte_fail(-EPROTO, "REGIONS row: id is %" PRIu64 ", not above %" PRIu64,
				 row->id, previous_id);
	rc = otte_wire_not_zero("REGIONS row", "length", row->length);
	if (rc)
		return rc;
	if (row->access & ~KNOWN_ACCESS)
		return otte_fail(-EPROTO, "REGIONS row: access is 0x%" PRIx32 ", known is 0x%x",
				 row->access, KNOWN_ACCESS);
	if (row->gpu_routes & ~KNOWN_ROUTES)
		return otte_fail(-EPROTO, "REGIONS row: gpu_routes is 0x%" PRIx32 ", known is 0x%x",
				 row->gpu_routes, KNOWN_ROUTES);
	return otte_wire_string("REGIONS row", "name", (const uint8_t *)row->name,
				sizeof(row->name));
}

static int check_rows(const uint8_t *in, uint32_t count)
{
	struct otte_region_info row;
	uint64_t previous_id = 0;
	uint32_t i;
	int rc;

	for (i = 0; i < count; i++) {
		otte_regions_row(in, i, &row);
		rc = check_row(&row, previous_id);
		if (rc)
			return rc;
		previous_id = row.id;
	}
	return 0;
}

/* What the header says of itself; `length` is that of the whole payload. */
static int check_regions(const struct otte_regions *regions, size_t length)
{
	size_t bytes = length - OTTE_REGIONS_HEADER;
	int rc;

	if (bytes % OTTE_REGION_ROW_BYTES || bytes / OTTE_REGION_ROW_BYTES != regions->count)
		return otte_fail(-EPROTO,
				 "REGIONS: count is %" PRIu32 " in %zu bytes of rows of %d",
				 regions->count, bytes, OTTE_REGION_ROW_BYTES);
	if (regions->total < regions->count)
		return otte_fail(-EPROTO, "REGIONS: total is %" PRIu64 ", below count %" PRIu32,
				 regions->total, regions->count);
	rc = otte_wire_at_most("REGIONS", "more", regions->more, 1);
	if (rc)
		return rc;
	/* Asking again would give the same answer for ever. */
	if (regions->more && !regions->count)
		return otte_fail(-EPROTO, "REGIONS: more is 1 with count 0");
	return 0;
}

int otte_regions_decode(const uint8_t *in, size_t length, struct otte_regions *regions)
{
	const uint8_t *at = in;
	struct otte_regions got;
	int rc;

	if (length < OTTE_REGIONS_HEADER)
		return otte_fail(-EPROTO, "REGIONS: length is %zu, below %d", length,
				 OTTE_REGIONS_HEADER);
	at = get_le64(at, &got.total);
	at = get_le32(at, &got.count);
	get_le32(at, &got.more);
	rc = check_regions(&got, length);
	if (!rc)
		rc = check_rows(in, got.count);
	if (!rc)
		*regions = got;
	return rc;
}

void otte_regions_row(const uint8_t *in, uint32_t index, struct otte_region_info *row)
{
	get_row(in + OTTE_REGIONS_HEADER + (size_t)index * OTTE_REGION_ROW_BYTES, row);
}

ssize_t otte_stats_encode(const struct otte_stats *stats, uint8_t *out, size_t size)
{
	int rc =
		otte_wire_room("STATS_REPLY", size, STATS_HEADER + STATS_VALUES * sizeof(uint64_t));
	const uint64_t *values = (const uint64_t *)((const char *)stats + STATS_FIRST);
	uint8_t *at = out;
	size_t i;

	if (rc)
		return rc;
	at = put_le32(at, STATS_VALUES);
	at = put_le32(at, 0);
	for (i = 0; i < STATS_VALUES; i++)
		at = put_le64(at, values[i]);
	return at - out;
}

int otte_stats_decode(const uint8_t *in, size_t length, struct otte_stats *stats)
{
	uint64_t *values = (uint64_t *)((char *)stats + STATS_FIRST);
	const uint8_t *at = in;
	uint32_t count, reserved, i;
	int rc;

	if (length < STATS_HEADER)
		return otte_fail(-EPROTO, "STATS_REPLY: length is %zu, below %d", length,
				 STATS_HEADER);
	at = get_le32(at, &count);
	at = get_le32(at, &reserved);
	if (length - STATS_HEADER != (uint64_t)count * sizeof(uint64_t))
		return otte_fail(-EPROTO,
				 "STATS_REPLY: count is %" PRIu32 " in %zu bytes of values", count,
				 length - STATS_HEADER);
	rc = otte_wire_zero("STATS_REPLY", "reserved", reserved);
	if (rc)
		return rc;
	*stats = (struct otte_stats){ .size = sizeof(*stats) };
	for (i = 0; i < count && i < STATS_VALUES; i++)
		at = get_le64(at, &values[i]);
	return 0;
}
