// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sums of demand and load over the members of a domain.
 *
 * Share pages are written by processes that nobody trusts, at any moment. Each word is read once
 * and clamped; what was read is what is summed and what is taken off again for its own writer, so
 * that a page changing meanwhile can make no sum go below zero. With OTTE_SHARE_BYTES_MAX at 2^40
 * and fewer than 2^24 members no sum can overflow.
 *
 * No state and no lock; domain.c serialises.
 */
#include <linux/compiler.h>
#include <linux/minmax.h>

#include "load.h"

static u64 read_clamped(const u64 *word)
{
	return min_t(u64, READ_ONCE(*word), OTTE_SHARE_BYTES_MAX);
}

void otte_load_read(struct otte_load *load, const struct otte_share_page *share,
		    unsigned long nics)
{
	unsigned int i;

	for (i = 0; i < OTTE_PRIORITIES; i++)
		load->waiting[i] = read_clamped(&share->waiting[i]);
	for (i = 0; i < OTTE_NICS_MAX; i++)
		load->nic_bytes[i] = nics & (1UL << i) ? read_clamped(&share->nic_bytes[i]) : 0;
}

bool otte_load_idle(const struct otte_load *load)
{
	unsigned int i;

	for (i = 0; i < OTTE_PRIORITIES; i++) {
		if (load->waiting[i])
			return false;
	}
	for (i = 0; i < OTTE_NICS_MAX; i++) {
		if (load->nic_bytes[i])
			return false;
	}
	return true;
}

void otte_load_add(struct otte_load *sum, const struct otte_load *load)
{
	unsigned int i;

	for (i = 0; i < OTTE_PRIORITIES; i++)
		sum->waiting[i] += load->waiting[i];
	for (i = 0; i < OTTE_NICS_MAX; i++)
		sum->nic_bytes[i] += load->nic_bytes[i];
}

void otte_load_publish(struct otte_load_page *page, const struct otte_load *sum,
		       const struct otte_load *own, u64 now_ns)
{
	unsigned int i;

	for (i = 0; i < OTTE_PRIORITIES; i++)
		WRITE_ONCE(page->waiting[i], sum->waiting[i] - own->waiting[i]);
	for (i = 0; i < OTTE_NICS_MAX; i++)
		WRITE_ONCE(page->nic_bytes[i], sum->nic_bytes[i] - own->nic_bytes[i]);
	WRITE_ONCE(page->updated_ns, now_ns);
}
