/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which NICs memory prefers by where it is: for each location three ranks of NICs, the nearest
 * first.
 *
 * The rows come from one of three sources, the first that is given:
 *
 *   matrix    JSON, {"cpu:0": [["mlx5_0"], ["mlx5_1"]]}: preferred NICs are rank 0, available ones
 *             rank 1
 *   file      the same, or {"nics": [...], "mems": [...]}, where ranks are indices into the file's
 *             nics
 *   topology  of a GPU, rank 0 are the NICs below the nearest bridge that is known to be shared,
 *             rank 1 others of its memory node, rank 2 the rest; of a node, rank 0 are its own NICs
 *             and rank 2 the rest. What is not known is never near.
 *
 * In rows that were given only the NICs that they name are eligible, and a row of no NICs disables
 * its location. The row `*` is of memory of unknown place and of locations without a row. A matrix
 * without one gets it from all NICs named in it, each at the better of the ranks that it has
 * somewhere; a file of nics and mems does not.
 *
 * Of a fault in what was given nothing is repaired: -EINVAL, with a text that begins with the
 * member's path or, where it is no JSON, with line and column.
 *
 * NICs are bits of a mask by the inventory's stable ids. A table does not change once made, so it
 * has no lock.
 */
#ifndef OTTE_TOPO_PRIORITY_H
#define OTTE_TOPO_PRIORITY_H

#include <stddef.h>
#include <stdint.h>

#include "topo/topo.h"

#define OTTE_NIC_RANKS 3
#define OTTE_NIC_IDS 64 /* width of a mask of NICs */
#define OTTE_NIC_ROWS_MAX 4096 /* rows of one input */
#define OTTE_NIC_JSON_MAX (1u << 20) /* bytes of one input */
#define OTTE_LOCATION_INDEX_MAX 65535
#define OTTE_LOCATION_TEXT 16

/* The memory types of the native file have these numbers. */
enum otte_location_kind {
	OTTE_LOCATION_CPU = 0, /* cpu:N, a memory node */
	OTTE_LOCATION_CUDA = 1, /* cuda:N, as CUDA numbers what it shows this process */
	OTTE_LOCATION_ANY = 4, /* *, unknown */
};

struct otte_location {
	enum otte_location_kind kind;
	uint32_t index; /* 0 of ANY */
};

/* The NICs that there are, after filters. */
struct otte_nic_inventory {
	const char *const *names; /* of verbs devices, by id; NULL: no NIC has this id */
	size_t count; /* at most OTTE_NIC_IDS */
};

struct otte_nic_row {
	struct otte_location location;
	uint64_t ranks[OTTE_NIC_RANKS]; /* no NIC is in two */
};

struct otte_nic_priority {
	struct otte_nic_row *rows; /* by kind and index */
	size_t count;
};

struct otte_nic_priority_source {
	struct otte_nic_inventory nics;
	const int *nodes; /* of NICs by id, or OTTE_TOPO_NO_NODE; NULL: as `topo` says */
	const char *matrix; /* NULL or "": none */
	const char *path; /* likewise */
	const struct otte_topo *topo; /* NULL: nothing is known but `nodes` */
	const char *const *cuda; /* PCI address of each device of CUDA's; NULL: unknown */
	size_t cuda_count;
};

/* "cpu:0". -EINVAL with a text. */
int otte_location_parse(const char *text, struct otte_location *location);
const char *otte_location_text(char text[OTTE_LOCATION_TEXT], struct otte_location location);

/* The memory node that it is at, or OTTE_TOPO_NO_NODE. */
int otte_location_node(const struct otte_nic_priority_source *source,
		       struct otte_location location);

/*
 * From the first source that is given. -EINVAL, -E2BIG of an input that is too long, what the file
 * system says, -ENOMEM; *priority is to be freed after success only.
 */
int otte_nic_priority_load(const struct otte_nic_priority_source *source,
			   struct otte_nic_priority *priority);
void otte_nic_priority_free(struct otte_nic_priority *priority);

/* Its own row, else that of `*`, else NULL: no NIC is for it. */
const struct otte_nic_row *otte_nic_priority_find(const struct otte_nic_priority *priority,
						  struct otte_location location);

/* ---- Between priority.c and priority_json.c ---- */

/* At the end, unsorted. -EINVAL: there are too many; -ENOMEM. */
int otte_nic_priority_add(struct otte_nic_priority *priority, const struct otte_nic_row *row);
/* JSON of either form. On error rows may be left, which the caller frees. */
int otte_nic_priority_parse(const char *text, size_t length, const struct otte_nic_inventory *nics,
			    struct otte_nic_priority *priority);
/* The matrix alone. */
int otte_nic_priority_parse_matrix(const char *text, size_t length,
				   const struct otte_nic_inventory *nics,
				   struct otte_nic_priority *priority);

#endif
