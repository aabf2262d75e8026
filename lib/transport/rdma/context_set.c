/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/context_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "otte/otte.h"

static int open_slot(const struct otte_verbs *verbs, struct otte_rdma_nic *nic, unsigned int id,
		     const struct otte_rdma_context_params *params,
		     struct otte_rdma_context_slot *slot)
{
	slot->code = nic->code ? nic->code :
				 otte_rdma_context_open(verbs, nic, id, params, &slot->context);
	if (slot->code)
		snprintf(slot->why, sizeof(slot->why), "%s",
			 nic->code ? nic->why : otte_error_text());
	return slot->code;
}

int otte_rdma_context_set_open(const struct otte_verbs *verbs, struct otte_rdma_nics *nics,
			       const struct otte_rdma_context_params *params,
			       struct otte_rdma_context_set *set)
{
	unsigned int id, opened = 0;

	memset(set, 0, sizeof(*set));
	for (id = 0; id < nics->count; id++)
		opened += !open_slot(verbs, &nics->list[id], id, params, &set->slots[id]);
	set->count = nics->count;
	if (opened)
		return 0;
	if (!set->count)
		return otte_fail(-ENODEV, "rdma: no NIC");
	return otte_fail(set->slots[0].code, "rdma: %s", set->slots[0].why);
}

int otte_rdma_context_set_close(struct otte_rdma_context_set *set)
{
	char why[OTTE_ERROR_BYTES];
	int rc, first = 0;
	size_t id;

	for (id = 0; id < set->count; id++) {
		rc = otte_rdma_context_close(set->slots[id].context);
		if (!rc)
			set->slots[id].context = NULL;
		else if (!first)
			snprintf(why, sizeof(why), "%s", otte_error_text());
		first = first ? first : rc;
	}
	return first ? otte_fail(first, "%s", why) : 0;
}

struct otte_rdma_context *otte_rdma_context_set_get(const struct otte_rdma_context_set *set,
						    unsigned int nic)
{
	return nic < set->count ? set->slots[nic].context : NULL;
}

static uint64_t mask(const struct otte_rdma_context_set *set,
		     int (*check)(struct otte_rdma_context *context))
{
	uint64_t nics = 0;
	size_t id;

	for (id = 0; id < set->count; id++)
		if (set->slots[id].context && !check(set->slots[id].context))
			nics |= 1ull << id;
	return nics;
}

uint64_t otte_rdma_context_set_devices(const struct otte_rdma_context_set *set)
{
	return mask(set, otte_rdma_context_check_device);
}

uint64_t otte_rdma_context_set_routes(const struct otte_rdma_context_set *set)
{
	return mask(set, otte_rdma_context_check);
}
