/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/rate.h"

#include <stddef.h>

#include "base/util.h"

#define BYTES_PER_MBIT 125000ull
#define BYTES_PER_HUNDRED_MBIT (100 * BYTES_PER_MBIT)
/* 100 Tb/s: beyond any port, and far from an overflow. */
#define LARGEST_IN_HUNDRED_MBIT 1000000ull

static unsigned int lanes_of(uint8_t width)
{
	switch (width) {
	case 1:
		return 1;
	case 2:
		return 4;
	case 4:
		return 8;
	case 8:
		return 12;
	case 16:
		return 2;
	default:
		return 0;
	}
}

/*
 * A lane's Mb/s, by the names of the field: what they carry of late, what they signal in the old
 * ones.
 */
static unsigned int mbps_of(uint32_t speed)
{
	static const struct {
		uint32_t speed, mbps;
	} known[] = {
		{ 1, 2500 }, /* SDR */
		{ 2, 5000 }, /* DDR */
		{ 4, 10000 }, /* QDR */
		{ 8, 10000 }, /* FDR10 */
		{ 16, 14000 }, /* FDR */
		{ 32, 25000 }, /* EDR */
		{ 64, 50000 }, /* HDR */
		{ 128, 100000 }, /* NDR */
		{ 256, 200000 }, /* XDR */
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].speed == speed)
			return known[i].mbps;
	return 0;
}

uint64_t otte_rdma_encoded_rate(uint8_t width, uint32_t speed)
{
	return BYTES_PER_MBIT * lanes_of(width) * mbps_of(speed);
}

uint64_t otte_rdma_port_rate(const struct otte_verbs *verbs, struct ibv_context *context,
			     uint8_t port, const union otte_verbs_port *attr)
{
	uint32_t extended = attr->extended.active_speed_ex;
	uint64_t told = 0;

	if (verbs->query_port_speed && !verbs->query_port_speed(context, port, &told) && told &&
	    told <= LARGEST_IN_HUNDRED_MBIT)
		return told * BYTES_PER_HUNDRED_MBIT;
	return otte_rdma_encoded_rate(attr->attr.active_width,
				      extended ? extended : attr->attr.active_speed);
}
