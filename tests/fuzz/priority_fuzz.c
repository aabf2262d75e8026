/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Feeds the table of NIC ranks: an 'M' and a matrix, or what a file may have. Whatever comes: a
 * code that the header names; on error one line of text that says where; on success rows of known
 * NICs, none of them in two ranks, and each location once.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "otte/otte.h"
#include "topo/priority.h"

#define KNOWN 0x1bull /* what names[] says */

static const char *const names[] = { "mlx5_0", "mlx5_1", NULL, "a", "b" };
static const struct otte_nic_inventory nics = { names, ARRAY_SIZE(names) };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "broken: %s (%s)\n", what, otte_error_text());
	abort();
}

static void require_row(const struct otte_nic_row *row)
{
	char text[OTTE_LOCATION_TEXT];
	struct otte_location back;

	require(!((row->ranks[0] | row->ranks[1] | row->ranks[2]) & ~KNOWN), "an unknown NIC");
	require(!(row->ranks[0] & row->ranks[1]) &&
			!(row->ranks[2] & (row->ranks[0] | row->ranks[1])),
		"a NIC in two ranks");
	require(!otte_location_parse(otte_location_text(text, row->location), &back) &&
			back.kind == row->location.kind && back.index == row->location.index,
		"a location that has no text");
}

/* Rows are in the order of the input here. */
static void require_once(const struct otte_nic_priority *priority, size_t which)
{
	size_t i;

	for (i = 0; i < which; i++)
		require(priority->rows[i].location.kind != priority->rows[which].location.kind ||
				priority->rows[i].location.index !=
					priority->rows[which].location.index,
			"a location with two rows");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct otte_nic_priority priority = { 0 };
	size_t i;
	int rc;

	if (size && data[0] == 'M')
		rc = otte_nic_priority_parse_matrix((const char *)data + 1, size - 1, &nics,
						    &priority);
	else
		rc = otte_nic_priority_parse((const char *)data, size, &nics, &priority);
	require(!rc || rc == -EINVAL || rc == -E2BIG || rc == -ENOMEM, "an unnamed code");
	if (rc)
		require(*otte_error_text() && !strpbrk(otte_error_text(), "\n\r"),
			"no line of text");
	for (i = 0; !rc && i < priority.count; i++) {
		require_row(&priority.rows[i]);
		require_once(&priority, i);
	}
	otte_nic_priority_free(&priority);
	return 0;
}
