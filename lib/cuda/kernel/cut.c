/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rows into pieces: long enough to be worth a team's while, short enough that each team has some. */
#include <errno.h>

#include "base/error.h"
#include "base/util.h"
#include "cuda/kernel/copy.h"

/* Pieces for each team where there are bytes enough: the last ones end at about the same time. */
#define TEAM_PIECES 2

/* As a power of two: thousands of rows are divided by it. */
static otte_copy_u32 piece_shift(otte_copy_u64 total, otte_copy_u32 teams)
{
	otte_copy_u32 shift = __builtin_ctz(OTTE_COPY_MIN_PIECE_BYTES);

	while (1u << shift < OTTE_COPY_PIECE_BYTES && total / TEAM_PIECES / teams > 1u << shift)
		shift++;
	return shift;
}

/* Pieces of a row: one, if it is empty. */
static otte_copy_u64 pieces_of(otte_copy_u64 bytes, otte_copy_u32 shift)
{
	return bytes ? ((bytes - 1) >> shift) + 1 : 1;
}

int otte_copy_cut(struct otte_copy_row *rows, otte_copy_u32 count, otte_copy_u32 ctas, otte_copy_u32 lanes,
		  struct otte_copy_launch *launch)
{
	otte_copy_u64 total = 0, pieces = 0;
	otte_copy_u32 shift, i;

	if (lanes != 8 && lanes != 16 && lanes != 32)
		return otte_fail(-EINVAL, "copy kernel: %u lanes for a row, not 8, 16 or 32", lanes);
	if (!count || count > OTTE_COPY_MAX_PIECES || !ctas || ctas > 65535)
		return otte_fail(-EINVAL, "copy kernel: %u rows, %u CTAs", count, ctas);
	for (i = 0; i < count; i++) {
		if (rows[i].extent >> OTTE_COPY_ROW_BITS)
			return otte_fail(-ERANGE, "copy kernel: row %u has %llu bytes", i, rows[i].extent);
		total += rows[i].extent;
	}
	shift = piece_shift(total, ctas * (OTTE_COPY_CTA_THREADS / lanes));
	/* A row whose number does not fit leaves the array half made, and nobody launches it. */
	for (i = 0; i < count && pieces < OTTE_COPY_MAX_PIECES; i++) {
		otte_copy_u64 bytes = rows[i].extent;

		rows[i].extent = bytes | pieces << OTTE_COPY_ROW_BITS;
		pieces += pieces_of(bytes, shift);
	}
	if (i < count || pieces > OTTE_COPY_MAX_PIECES)
		return otte_fail(-ERANGE, "copy kernel: %llu bytes are more than %u pieces of %u", total,
				 OTTE_COPY_MAX_PIECES, 1u << shift);
	launch->ratio = (((otte_copy_u64)count << 32) + pieces - 1) / pieces;
	launch->count = count;
	launch->pieces = (otte_copy_u32)pieces;
	launch->piece_bytes = 1u << shift;
	launch->lanes = lanes;
	return 0;
}
