/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_ENGINE_REGION_H
#define OTTE_ENGINE_REGION_H

#include <stdatomic.h>
#include "base/hash.h"

#include "control/wire.h"
#include "cuda/plan.h"
#include "engine/memory.h"
#include "ledger/ledger.h"

/*
 * A registered view.
 *
 *   VISIBLE -> HIDDEN -> gone
 *
 * VISIBLE: in engine->regions, found by peers and usable by requests. HIDDEN: out of the table; uses
 * that began go on. It goes when `uses` counts none and its standing loans are settled. The mark of
 * HIDDEN is in the same word as the count, so that a use cannot slip in behind it.
 */
#define OTTE_REGION_HIDDEN (1ull << 63)

struct otte_region {
	struct otte_plan_view view; /* what local copies read, who know nothing else; zero: not CUDA's */
	struct otte_engine *engine;
	struct otte_mem *mem;
	uint64_t offset;           /* in mem */
	uint64_t length;
	uint32_t access;
	bool pinned;               /* by the module: it can be lent to its clients */
	uint64_t id;               /* also its id in the ledger */
	_Atomic uint64_t uses;     /* count, and OTTE_REGION_HIDDEN */
	struct otte_region_watch watch;
	struct otte_published *published; /* by the transport; NULL: nothing */
	char name[OTTE_NAME_MAX];  /* escaped, as peers see it */
	UT_hash_handle hh;         /* engine->regions, in the order of ids */
};

/* Begin a use of a region of ours. -ENOENT once it is hidden. */
int otte_region_use(struct otte_region *region);
/* The same for a peer, by id. */
int otte_region_use_id(struct otte_engine *engine, uint64_t id, struct otte_region **region);
void otte_region_unuse(struct otte_region *region);
/*
 * 0, or -ESTALE once the memory was unmapped or replaced. Called before bytes are touched, so that
 * nothing moves, and again when they have moved, so that what moved elsewhere is no success.
 */
int otte_region_check_fresh(const struct otte_region *region);

/* Whether peers may know it (-ENOENT), and have `op` done to it (-EACCES). */
int otte_region_check_published(const struct otte_region *region);
int otte_region_check_right(const struct otte_region *region, uint8_t op);

/* Rows of what is published, ids above `after`; see otte_control_handlers. */
int otte_region_describe(struct otte_engine *engine, uint64_t after, struct otte_region_info *rows,
			 size_t capacity, struct otte_regions *regions);

#endif
