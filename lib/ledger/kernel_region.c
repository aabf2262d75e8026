/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns what this process knows of a client's regions: their claims, and that one is hidden until
 * the module says that it is gone. Caller's lock: the client's.
 */
#include "ledger/kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "ledger/terms.h"
#include "otte/otte.h"

static int check_claim(const struct otte_region_claim *claim)
{
	int rc = otte_claim_check(claim);

	if (rc)
		return rc;
	if (claim->backing == OTTE_BACKING_FILE)
		return otte_fail(-EOPNOTSUPP, "region: backing FILE needs a descriptor, which a "
					      "claim does not carry yet");
	return 0;
}

/* A region that is never lent still needs a direction there; kernel_loan.c refuses to use it. */
static uint32_t module_access(uint32_t access)
{
	return access == OTTE_LOCAL_ONLY ? OTTE_MODULE_READ : access;
}

/* The caller's own limit. What the module says is over has left the table. */
static int check_room(struct kernel_client *client)
{
	uint64_t max = kernel_ledger_of(client)->regions_max;

	if (HASH_COUNT(client->regions) >= max)
		kernel_event_pump(client);
	if (HASH_COUNT(client->regions) < max)
		return 0;
	return otte_fail(-EDQUOT,
			 "limits.regions: %u of %" PRIu64 " charged, 1 more asked for",
			 HASH_COUNT(client->regions), max);
}

/*
 * The module does not tell which. It pins as for writing, but for private memory that peers only
 * read.
 */
static int refused_pin(const struct kernel_client *client, const struct otte_region_claim *claim)
{
	return otte_fail(-EFAULT,
			 "region of client %" PRIu64 ": cannot be pinned: part of it is not mapped, "
			 "or is %s",
			 client->id,
			 claim->access & OTTE_REMOTE_WRITE ? "mapped without PROT_WRITE" :
							     "a shared mapping without PROT_WRITE");
}

static int refused_add(struct kernel_client *client, const struct otte_region_claim *claim, int rc)
{
	if (rc == -EFAULT && claim->backing == OTTE_BACKING_PAGES)
		return refused_pin(client, claim);
	if (rc == -ENOSPC)
		return otte_fail(-EDQUOT,
				 "region of client %" PRIu64 ": the module's status page has room "
				 "for no more than %u",
				 client->id, HASH_COUNT(client->regions));
	return kernel_refused(client, rc, "region of client", client->id);
}

int kernel_region_add(struct kernel_client *client, const struct otte_region_claim *claim,
		      uint64_t *id)
{
	const struct otte_module_region wanted = {
		.address = claim->address,
		.length = claim->length,
		.backing = claim->backing,
		.access = module_access(claim->access),
	};
	struct kernel_ledger *ledger = kernel_ledger_of(client);
	struct kernel_region *region;
	uint32_t loans, index;
	int rc = check_claim(claim);

	if (!rc)
		rc = check_room(client);
	if (rc)
		return rc;
	region = calloc(1, sizeof(*region));
	if (!region)
		return otte_fail(-ENOMEM, "no memory for a region");
	region->claim = *claim;
	rc = otte_module_region_add(client->fd, &wanted, &region->id, &index);
	if (rc) {
		rc = refused_add(client, claim, rc);
		goto free_region;
	}
	region->word = otte_module_status_word(client->status, index);
	pthread_mutex_lock(&ledger->lock);
	HASH_ADD(hh, client->regions, id, sizeof(region->id), region);
	pthread_mutex_unlock(&ledger->lock);
	if (!region->hh.tbl) {
		otte_module_region_del(client->fd, region->id, &loans);
		rc = otte_fail(-ENOMEM, "no memory for a region");
		goto free_region;
	}
	*id = region->id;
	return 0;

free_region:
	free(region);
	return rc;
}

static struct kernel_region *known(struct kernel_client *client, uint64_t id)
{
	struct kernel_region *region;

	HASH_FIND(hh, client->regions, &id, sizeof(id), region);
	return region;
}

static void forget(struct kernel_client *client, struct kernel_region *region)
{
	struct kernel_ledger *ledger = kernel_ledger_of(client);

	pthread_mutex_lock(&ledger->lock);
	HASH_DEL(client->regions, region);
	pthread_mutex_unlock(&ledger->lock);
	free(region);
}

/* The module does not tell what is unknown from what is another's; its dump does. */
static int refuse_unknown(struct kernel_client *client, uint64_t id)
{
	uint64_t owner, exposed;
	int rc = kernel_look_region(kernel_ledger_of(client), id, &owner, &exposed);

	if (!rc && owner != client->id)
		return otte_fail(-EPERM, "region %" PRIu64 ": another client's", id);
	return otte_fail(-ENOENT, "region %" PRIu64 ": unknown", id);
}

int kernel_region_find(struct kernel_client *client, uint64_t id, struct kernel_region **out)
{
	*out = known(client, id);
	if (!*out)
		return refuse_unknown(client, id);
	if ((*out)->hidden)
		return otte_fail(-ENOENT, "region %" PRIu64 ": unregistered", id);
	return 0;
}

int kernel_region_del(struct kernel_client *client, uint64_t id)
{
	struct kernel_region *region;
	uint32_t loans;
	int rc;

	kernel_event_pump(client); /* it may have said that the region is gone */
	region = known(client, id);
	if (!region)
		return refuse_unknown(client, id);
	if (region->hidden)
		return otte_fail(-EALREADY, "region %" PRIu64 ": is unregistered already", id);
	kernel_loan_withdraw_remote(client, id);
	rc = otte_module_region_del(client->fd, id, &loans);
	if (rc)
		return kernel_refused(client, rc, "region", id);
	if (!loans) {
		kernel_region_gone(client, id);
		return 0;
	}
	region->hidden = true;
	return otte_fail(-EINPROGRESS, "region %" PRIu64 ": %" PRIu32 " loans without evidence", id,
			 loans);
}

int kernel_region_watch(struct kernel_client *client, uint64_t id, struct otte_region_watch *watch)
{
	struct kernel_region *region;
	int rc = kernel_region_find(client, id, &region);

	if (rc)
		return rc;
	watch->word = region->word;
	watch->mask = OTTE_MODULE_STATUS_LIVE | OTTE_MODULE_STATUS_STALE;
	watch->fresh = OTTE_MODULE_STATUS_LIVE;
	watch->suspect = OTTE_MODULE_STATUS_SUSPECT;
	return 0;
}

/* Who changes it all the time is refused. */
#define VERIFY_TRIES 3

int kernel_region_verify(struct kernel_client *client, const struct kernel_region *region)
{
	int i, rc = 0;

	if (region->claim.backing != OTTE_BACKING_PAGES)
		return 0;
	for (i = 0; i < VERIFY_TRIES; i++) {
		if (!(atomic_load(region->word) & OTTE_MODULE_STATUS_SUSPECT))
			return 0;
		rc = otte_module_region_verify(client->fd, region->id);
		if (rc != -EAGAIN)
			break;
	}
	return rc ? kernel_region_refuse_stale(client, region->id) : 0;
}

int kernel_region_refuse_stale(struct kernel_client *client, uint64_t id)
{
	const struct kernel_region *region = known(client, id);

	if (region && !(atomic_load(region->word) & OTTE_MODULE_STATUS_STALE))
		return otte_fail(-ESTALE,
				 "region %" PRIu64 ": pages of its memory may have been replaced "
				 "(copy on write, madvise, swap): register it anew",
				 id);
	return otte_fail(-ESTALE,
			 "region %" PRIu64
			 ": its memory was unmapped or replaced: register it anew",
			 id);
}

void kernel_region_gone(struct kernel_client *client, uint64_t id)
{
	struct kernel_region *region = known(client, id);

	kernel_loan_region_gone(client, id);
	if (region)
		forget(client, region);
}

void kernel_region_free_all(struct kernel_client *client)
{
	struct kernel_region *region, *next;

	HASH_ITER(hh, client->regions, region, next)
		forget(client, region);
}
