/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The copy kernel's body, as copy.cu compiles it for a GPU and run.c for this machine: one thread's share.
 *
 * Who includes it has defined
 *	FN                         what stands before a function here
 *	LOADS                      units in flight for each lane (4)
 *	struct unit                16 bytes of registers
 *	LOAD(unit, width, from)    width bytes, 1, 4, 8 or 16, aligned to that; `width` is a constant
 *	STORE(unit, width, to)
 *	LOAD_IF(yes, ...), STORE_IF(yes, ...)
 *
 * Loads stand before stores in groups of LOADS: that many are under way for each lane. Host memory is loaded as
 * what others write, never through the read-only path.
 */

/* NOLINTBEGIN(performance-no-int-to-ptr): what the host hands to a device are addresses */

/* [from, from + bytes) to [to, to + bytes), by lane `lane` of `lanes`, in units of `width` bytes; both are aligned. */
#define COPY_UNITS(width)                                                                              \
	FN void copy_units_##width(otte_copy_u64 to, otte_copy_u64 from, otte_copy_u32 units,          \
				   otte_copy_u32 lane, otte_copy_u32 lanes)                            \
	{                                                                                              \
		otte_copy_u32 step = lanes * LOADS, i = lane, at;                                      \
		otte_copy_u64 stride = (otte_copy_u64)lanes * (width);                                 \
		struct unit held[LOADS];                                                               \
                                                                                                       \
		from += (otte_copy_u64)lane * (width);                                                 \
		to += (otte_copy_u64)lane * (width);                                                   \
		for (; i + step - lanes < units; i += step) {                                          \
			UNROLL for (at = 0; at < LOADS; at++)                                          \
				LOAD(held[at], width, from + at * stride);                             \
			UNROLL for (at = 0; at < LOADS; at++)                                          \
				STORE(held[at], width, to + at * stride);                              \
			from += LOADS * stride;                                                        \
			to += LOADS * stride;                                                          \
		}                                                                                      \
		if (i >= units)                                                                        \
			return;                                                                        \
		UNROLL for (at = 0; at < LOADS; at++)                                                  \
			LOAD_IF(i + at * lanes < units, held[at], width, from + at * stride);          \
		UNROLL for (at = 0; at < LOADS; at++)                                                  \
			STORE_IF(i + at * lanes < units, held[at], width, to + at * stride);           \
	}

COPY_UNITS(1)
COPY_UNITS(4)
COPY_UNITS(8)
COPY_UNITS(16)

/* The widest unit to which both addresses can be aligned by the same number of bytes. */
FN otte_copy_u32 common_width(otte_copy_u64 a, otte_copy_u64 b)
{
	otte_copy_u32 differ = (otte_copy_u32)(a ^ b);

	return differ & 3 ? 1 : differ & 7 ? 4 : differ & 15 ? 8 : 16;
}

/* A piece: the bytes up to the first aligned one and behind the last whole unit one by one, the others in units. */
FN void copy_piece(otte_copy_u64 to, otte_copy_u64 from, otte_copy_u32 bytes, otte_copy_u32 lane,
		   otte_copy_u32 lanes)
{
	otte_copy_u32 width = common_width(to, from);
	otte_copy_u32 head = (otte_copy_u32)-from & (width - 1), body, i;

	if (head > bytes)
		head = bytes;
	body = (bytes - head) & -width;
	for (i = lane; i < bytes - body; i += lanes) {
		otte_copy_u64 at = i < head ? i : i + body;
		struct unit held;

		LOAD(held, 1, from + at);
		STORE(held, 1, to + at);
	}
	to += head;
	from += head;
	if (width == 16)
		copy_units_16(to, from, body / 16, lane, lanes);
	else if (width == 8)
		copy_units_8(to, from, body / 8, lane, lanes);
	else if (width == 4)
		copy_units_4(to, from, body / 4, lane, lanes);
	else
		copy_units_1(to, from, body, lane, lanes);
}

#define ROW_BYTES(row) ((row).extent & ((1ull << OTTE_COPY_ROW_BITS) - 1))
#define ROW_FIRST(row) ((otte_copy_u32)((row).extent >> OTTE_COPY_ROW_BITS))

/* Where rows are alike this is the row of the piece; elsewhere it is near. */
FN otte_copy_u32 guess_row(const struct otte_copy_launch *launch, otte_copy_u32 piece)
{
	otte_copy_u64 guess = (piece * launch->ratio) >> 32;

	return guess < launch->count ? (otte_copy_u32)guess : launch->count - 1;
}

FN int row_has(const struct otte_copy_launch *launch, const struct otte_copy_row *row, otte_copy_u32 piece)
{
	otte_copy_u32 first = ROW_FIRST(*row);

	return piece == first || (piece > first && (otte_copy_u64)(piece - first) * launch->piece_bytes <
							   ROW_BYTES(*row));
}

/* The last row that does not begin behind the piece. */
FN otte_copy_u32 find_row(const struct otte_copy_launch *launch, otte_copy_u32 piece)
{
	const struct otte_copy_row *rows = (const struct otte_copy_row *)launch->rows;
	otte_copy_u32 low = 0, high = launch->count - 1;

	while (low < high) {
		otte_copy_u32 middle = high - (high - low) / 2;

		if (ROW_FIRST(rows[middle]) <= piece)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/*
 * What one thread does. The row of its next piece is loaded before this one's bytes are, so that its latency hides
 * behind theirs.
 */
FN void copy_share(const struct otte_copy_launch *launch, otte_copy_u32 thread, otte_copy_u32 threads)
{
	const struct otte_copy_row *rows = (const struct otte_copy_row *)launch->rows;
	otte_copy_u32 lanes = launch->lanes, lane = thread & (lanes - 1);
	otte_copy_u32 piece = thread / lanes, teams = threads / lanes;
	struct otte_copy_row row, next;

	if (piece >= launch->pieces)
		return;
	next = rows[guess_row(launch, piece)];
	for (; piece < launch->pieces; piece += teams) {
		otte_copy_u64 from, to, offset, left;

		row = next;
		if (piece + teams < launch->pieces)
			next = rows[guess_row(launch, piece + teams)];
		if (!row_has(launch, &row, piece))
			row = rows[find_row(launch, piece)];
		offset = (otte_copy_u64)(piece - ROW_FIRST(row)) * launch->piece_bytes;
		left = ROW_BYTES(row) - offset;
		if (left > launch->piece_bytes)
			left = launch->piece_bytes;
		from = (launch->to_host ? row.device : row.host) + offset;
		to = (launch->to_host ? row.host : row.device) + offset;
		copy_piece(to, from, (otte_copy_u32)left, lane, lanes);
	}
}
/* NOLINTEND(performance-no-int-to-ptr) */
