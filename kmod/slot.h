/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: slot arithmetic. See slot.c.
 */
#ifndef OTTE_SLOT_H
#define OTTE_SLOT_H

#include <linux/types.h>

#include "../include/uapi/linux/otte.h"

#define OTTE_SLOT_UNUSED_NS	U64_MAX		/* base_ns of an epoch that was never written */

/* Fills @epoch but for its base: 0, or -EINVAL for a pattern or an interval that can never do. */
int otte_slot_pattern(struct otte_slot_epoch *epoch, u64 interval_ns, u32 slots,
		      const u8 lowest[OTTE_SLOTS_MAX]);
bool otte_slot_same_pattern(const struct otte_slot_epoch *a, const struct otte_slot_epoch *b);

/* Index of the epoch that is in force at @now_ns, or -ENOENT before the first. */
int otte_slot_in_force(const struct otte_slot_epoch epoch[2], u64 now_ns);
/* Whether an epoch waits to come into force after @now_ns. */
bool otte_slot_pending(const struct otte_slot_epoch epoch[2], u64 now_ns);
/* Slot of the pattern at @now_ns, which is not before @epoch's base. */
u32 otte_slot_at(const struct otte_slot_epoch *epoch, u64 now_ns);
bool otte_slot_may_send(const struct otte_slot_epoch epoch[2], u64 now_ns, u32 priority);
/*
 * The first boundary of @epoch that lies at least one whole interval after @now_ns. -EOVERFLOW at
 * the end of the clock.
 */
int otte_slot_boundary(const struct otte_slot_epoch *epoch, u64 now_ns, u64 *boundary_ns);

#endif /* OTTE_SLOT_H */
