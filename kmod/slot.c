// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slots: which priorities may send is arithmetic on the clock.
 *
 * A page holds two epochs, each a pattern with the time from which on it counts. In force is the
 * one with the largest base that is not in the future; the other is unused, outdated, or pending.
 * Only an epoch that is not in force is ever written, and only with a base at least one whole
 * interval ahead: whoever looked at the page up to one interval before the base knows of it then.
 * So nobody has to do anything at the boundary itself, and nothing here can stall.
 *
 * No state, no lock, no clock: time comes in as an argument. All times are nanoseconds of the
 * initial time namespace's CLOCK_MONOTONIC.
 */
#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/overflow.h>
#include <linux/string.h>

#include "slot.h"

int otte_slot_pattern(struct otte_slot_epoch *epoch, u64 interval_ns, u32 slots,
		      const u8 lowest[OTTE_SLOTS_MAX])
{
	bool all = false;
	u32 i;

	if (interval_ns < OTTE_SLOT_NS_MIN || interval_ns > OTTE_SLOT_NS_MAX)
		return -EINVAL;
	if (!slots || slots > OTTE_SLOTS_MAX)
		return -EINVAL;
	for (i = 0; i < OTTE_SLOTS_MAX; i++) {
		if (lowest[i] >= OTTE_PRIORITIES || (i >= slots && lowest[i]))
			return -EINVAL;
		all |= lowest[i] == OTTE_PRIORITIES - 1;
	}
	/* A pattern without a slot for everybody would stall the lowest priority for good. */
	if (!all)
		return -EINVAL;
	epoch->interval_ns = interval_ns;
	epoch->slots = slots;
	epoch->reserved = 0;
	memcpy(epoch->lowest, lowest, sizeof(epoch->lowest));
	return 0;
}

bool otte_slot_same_pattern(const struct otte_slot_epoch *a, const struct otte_slot_epoch *b)
{
	return a->interval_ns == b->interval_ns && a->slots == b->slots &&
	       !memcmp(a->lowest, b->lowest, sizeof(a->lowest));
}

int otte_slot_in_force(const struct otte_slot_epoch epoch[2], u64 now_ns)
{
	int i, found = -ENOENT;

	for (i = 0; i < 2; i++) {
		if (epoch[i].base_ns == OTTE_SLOT_UNUSED_NS || epoch[i].base_ns > now_ns)
			continue;
		if (found < 0 || epoch[i].base_ns > epoch[found].base_ns)
			found = i;
	}
	return found;
}

bool otte_slot_pending(const struct otte_slot_epoch epoch[2], u64 now_ns)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (epoch[i].base_ns != OTTE_SLOT_UNUSED_NS && epoch[i].base_ns > now_ns)
			return true;
	}
	return false;
}

u32 otte_slot_at(const struct otte_slot_epoch *epoch, u64 now_ns)
{
	u32 slot;

	div_u64_rem(div64_u64(now_ns - epoch->base_ns, epoch->interval_ns), epoch->slots, &slot);
	return slot;
}

bool otte_slot_may_send(const struct otte_slot_epoch epoch[2], u64 now_ns, u32 priority)
{
	int i = otte_slot_in_force(epoch, now_ns);

	return i >= 0 && priority <= epoch[i].lowest[otte_slot_at(&epoch[i], now_ns)];
}

int otte_slot_boundary(const struct otte_slot_epoch *epoch, u64 now_ns, u64 *boundary_ns)
{
	u64 ahead, passed = now_ns - epoch->base_ns;

	/* Rounded up to a boundary, then one interval more. */
	ahead = div64_u64(passed, epoch->interval_ns) * epoch->interval_ns;
	if (ahead != passed && check_add_overflow(ahead, epoch->interval_ns, &ahead))
		return -EOVERFLOW;
	if (check_add_overflow(ahead, epoch->interval_ns, &ahead) ||
	    check_add_overflow(ahead, epoch->base_ns, boundary_ns) ||
	    *boundary_ns == OTTE_SLOT_UNUSED_NS)
		return -EOVERFLOW;
	return 0;
}
