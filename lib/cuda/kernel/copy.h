/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The copy kernel: what the host writes for it, and what it is launched with.
 *
 * The host makes one array of rows and uploads it; the kernel reads it and moves the bytes of each row between
 * device memory and the device's own mapping of pinned host memory. A row is 24 bytes. The array is there twice
 * for each slot, in pinned host memory, from which it is uploaded, and in device memory, where it is read: that
 * is why a budget takes 24 bytes for each possible row on either side, though a row is no longer than 24.
 *
 * A row is copied in pieces, so that a few long ones keep all of the grid busy. The pieces of all rows are
 * numbered through; a row says the number of its first. Each row has at least one, an empty row an empty one. A
 * team of lanes (a warp, or a part of one for short rows) takes each piece whose number is its own, modulo the
 * teams of the grid. No thread waits for another, so any grid of any size copies all rows.
 *
 * No byte outside of a row is read or written. Rows of one launch must not write what another reads or writes:
 * nothing orders them.
 *
 * This file is C and CUDA both, and includes nothing: clang makes the kernel without headers.
 */
#ifndef OTTE_CUDA_KERNEL_COPY_H
#define OTTE_CUDA_KERNEL_COPY_H

#define OTTE_COPY_ENTRY "otte_copy_rows" /* the kernel's name in the image */
#define OTTE_COPY_CTA_THREADS 1024u      /* blockDim.x; the image is made for no more */
#define OTTE_COPY_ROW_BITS 40            /* of a length */
#define OTTE_COPY_MAX_PIECES (1u << 24)  /* of a launch */
#define OTTE_COPY_MIN_PIECE_BYTES 2048u
#define OTTE_COPY_PIECE_BYTES 16384u
#define OTTE_COPY_MIN_LANES 8u
#define OTTE_COPY_MAX_LANES 32u

typedef unsigned int otte_copy_u32;
typedef unsigned long long otte_copy_u64;

struct otte_copy_row {
	otte_copy_u64 device; /* address */
	otte_copy_u64 host;   /* address at which the device reaches it */
	otte_copy_u64 extent; /* bytes, below 2^40; number of the first piece in the 24 bits above */
};

/* The kernel's parameters, in order: each is one of its launch. All but `rows` come from otte_copy_cut(). */
struct otte_copy_launch {
	otte_copy_u64 rows;        /* device address of the array */
	otte_copy_u64 ratio;       /* rows a piece, times 2^32: where a piece's row is looked for first */
	otte_copy_u32 count;       /* rows */
	otte_copy_u32 pieces;
	otte_copy_u32 piece_bytes;
	otte_copy_u32 lanes;       /* of a team: 8, 16 or 32 */
	otte_copy_u32 to_host;     /* 0: to the device */
};

#ifndef __CUDA__
_Static_assert(sizeof(struct otte_copy_row) == 24, "as the kernel reads it");

static inline otte_copy_u64 otte_copy_row_bytes(const struct otte_copy_row *row)
{
	return row->extent & ((1ull << OTTE_COPY_ROW_BITS) - 1);
}

/* The image, for the driver to load: PTX text that ends in NUL. */
const char *otte_copy_image(void);

/*
 * Number the pieces of `count` rows, whose `extent` holds their bytes alone, for a grid of so many CTAs and teams of
 * so many lanes. Fills *launch but for `rows` and `to_host`. -EINVAL: `lanes`; no rows or no CTAs. -ERANGE: a row
 * or all of them are too long.
 */
int otte_copy_cut(struct otte_copy_row *rows, otte_copy_u32 count, otte_copy_u32 ctas, otte_copy_u32 lanes,
		  struct otte_copy_launch *launch);

/* What the kernel does, done by the caller: addresses are pointers of this process. One grid of `ctas`. */
void otte_copy_run(const struct otte_copy_launch *launch, otte_copy_u32 ctas);
#endif

#endif
