/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/buffers.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/util.h"
#include "otte/otte.h"

enum entry_state {
	PREPARING,
	VISIBLE,
	HIDDEN,
	LEAVING, /* unused, and its MRs are being released */
	RETAINED,
};

struct entry {
	struct otte_rdma_buffer buffer;
	enum entry_state state;
	uint32_t uses;
	uint64_t nics; /* that it is on, as a mask */
	UT_hash_handle hh;
};

struct otte_rdma_buffers {
	const struct otte_rdma_context_set *set;
	struct otte_rdma_buffers_params params;
	pthread_mutex_t lock;
	struct entry *entries;
	struct otte_rdma_buffers_stats stats;
};

/* What is charged for an entry's MRs, or given back. */
struct charge {
	uint32_t mrs;
	uint64_t bytes;
};

int otte_rdma_buffers_open(const struct otte_rdma_context_set *set,
			   const struct otte_rdma_buffers_params *params,
			   struct otte_rdma_buffers **out)
{
	struct otte_rdma_buffers *buffers = calloc(1, sizeof(*buffers));

	if (!buffers)
		return otte_fail(-ENOMEM, "rdma: no memory for a list of MRs");
	buffers->set = set;
	buffers->params = *params;
	pthread_mutex_init(&buffers->lock, NULL);
	*out = buffers;
	return 0;
}

int otte_rdma_buffers_close(struct otte_rdma_buffers *buffers)
{
	unsigned int count;

	if (!buffers)
		return 0;
	count = HASH_COUNT(buffers->entries);
	if (buffers->stats.retained)
		return otte_fail(-EUCLEAN, "rdma: the MRs of %u regions are retained",
				 buffers->stats.retained);
	if (count)
		return otte_fail(-EBUSY, "rdma: %u regions have MRs", count);
	pthread_mutex_destroy(&buffers->lock);
	free(buffers);
	return 0;
}

/* ---- Entries --------------------------------------------------------------------------------- */

static struct entry *find(struct otte_rdma_buffers *buffers, uint64_t region)
{
	struct entry *entry;

	HASH_FIND(hh, buffers->entries, &region, sizeof(region), entry);
	return entry;
}

static void free_entry(struct entry *entry)
{
	free(entry->buffer.by_nic);
	free(entry);
}

static struct entry *new_entry(const struct otte_rdma_context_set *set,
			       const struct otte_rdma_buffer_spec *spec)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->buffer = (struct otte_rdma_buffer){
		.region = spec->region,
		.at = spec->at,
		.bytes = spec->bytes,
		.remote = spec->remote,
		.route = spec->route,
		.gpu = spec->gpu,
		.by_nic = calloc(set->count, sizeof(*entry->buffer.by_nic)),
		.nics = set->count,
	};
	if (entry->buffer.by_nic)
		return entry;
	free(entry);
	return NULL;
}

/* ---- Charges --------------------------------------------------------------------------------- */

/* Under the lock. */
static int charge(struct otte_rdma_buffers *buffers, const struct entry *entry)
{
	const struct otte_rdma_buffers_params *max = &buffers->params;
	struct otte_rdma_buffers_stats *now = &buffers->stats;
	uint32_t mrs = (uint32_t)__builtin_popcountll(entry->nics) * (entry->buffer.remote ? 2 : 1);
	uint64_t bytes;

	if (mrs > max->max_cached_mrs - now->mrs)
		return otte_fail(-EDQUOT, "rdma.mrs (%u): %u are used, %u wanted",
				 max->max_cached_mrs, now->mrs, mrs);
	if (__builtin_mul_overflow(entry->buffer.bytes, mrs, &bytes) ||
	    bytes > max->max_cached_mr_bytes - now->bytes)
		return otte_fail(-EDQUOT,
				 "rdma.mr_bytes (%" PRIu64 "): %" PRIu64
				 " are used, %u times %" PRIu64 " wanted",
				 max->max_cached_mr_bytes, now->bytes, mrs, entry->buffer.bytes);
	now->mrs += mrs;
	now->bytes += bytes;
	return 0;
}

/* Under the lock. */
static void uncharge(struct otte_rdma_buffers *buffers, struct charge charge)
{
	buffers->stats.mrs -= charge.mrs;
	buffers->stats.bytes -= charge.bytes;
}

/* ---- Their MRs ------------------------------------------------------------------------------- */

static int register_on(const struct otte_rdma_buffers *buffers, struct entry *entry,
		       unsigned int nic)
{
	struct otte_rdma_context *context = otte_rdma_context_set_get(buffers->set, nic);
	struct otte_rdma_buffer *buffer = &entry->buffer;
	struct otte_rdma_buffer_mrs *mrs = &buffer->by_nic[nic];
	const struct otte_rdma_mr_spec local = {
		.at = buffer->at,
		.bytes = buffer->bytes,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.route = buffer->route,
		.gpu = buffer->gpu,
	};
	int rc = otte_rdma_mr_make(context, &local, &mrs->local);

	if (rc || !buffer->remote)
		return rc;
	return otte_rdma_mr_register(context, buffer->at, buffer->bytes,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &mrs->parent);
}

static int register_all(const struct otte_rdma_buffers *buffers, struct entry *entry)
{
	unsigned int nic;
	int rc = 0;

	for (nic = 0; nic < entry->buffer.nics && !rc; nic++)
		if (entry->nics >> nic & 1)
			rc = register_on(buffers, entry, nic);
	return rc;
}

/* One that was never made is released like one that was: its charge goes back. */
static int release(struct otte_rdma_mr *mr, uint64_t bytes, struct charge *back)
{
	int rc = otte_rdma_mr_release(mr);

	if (rc)
		return rc;
	back->mrs++;
	back->bytes += bytes;
	return 0;
}

/* Each is tried once. What is to be given back of the charge; the first failure's code and text. */
static int release_all(struct entry *entry, struct charge *back)
{
	struct otte_rdma_buffer *buffer = &entry->buffer;
	char why[OTTE_ERROR_BYTES] = "";
	unsigned int nic;
	int failed = 0;

	*back = (struct charge){};
	for (nic = 0; nic < buffer->nics; nic++) {
		if (!(entry->nics >> nic & 1))
			continue;
		if (buffer->remote && release(&buffer->by_nic[nic].parent, buffer->bytes, back) &&
		    !failed++)
			snprintf(why, sizeof(why), "%s", otte_error_text());
		if (release(&buffer->by_nic[nic].local, buffer->bytes, back) && !failed++)
			snprintf(why, sizeof(why), "%s", otte_error_text());
	}
	return failed ? otte_fail(-EUCLEAN, "%s", why) : 0;
}

/* Nobody sees the entry. It goes, or what is left of it is retained. */
static int dismantle(struct otte_rdma_buffers *buffers, struct entry *entry)
{
	struct charge back;
	int rc = release_all(entry, &back);

	pthread_mutex_lock(&buffers->lock);
	uncharge(buffers, back);
	if (rc) {
		entry->state = RETAINED;
		buffers->stats.retained++;
	} else {
		HASH_DEL(buffers->entries, entry);
	}
	pthread_mutex_unlock(&buffers->lock);
	if (!rc)
		free_entry(entry);
	return rc;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

/* Under the lock. */
static int insert(struct otte_rdma_buffers *buffers, struct entry *entry)
{
	int rc;

	if (find(buffers, entry->buffer.region))
		return otte_fail(-EEXIST, "rdma: region %" PRIu64 " has MRs", entry->buffer.region);
	HASH_ADD(hh, buffers->entries, buffer.region, sizeof(entry->buffer.region), entry);
	if (!entry->hh.tbl)
		return otte_fail(-ENOMEM, "rdma: no memory for a list of MRs");
	rc = charge(buffers, entry);
	if (rc)
		HASH_DEL(buffers->entries, entry);
	return rc;
}

/* All of it is undone; what that fails with comes before `rc`. */
static int undo(struct otte_rdma_buffers *buffers, struct entry *entry, int rc)
{
	char why[OTTE_ERROR_BYTES];

	snprintf(why, sizeof(why), "%s", otte_error_text());
	if (dismantle(buffers, entry))
		return otte_fail_within(-EUCLEAN, "%s; and then ", why);
	return otte_fail(rc, "%s", why);
}

static int publish(struct otte_rdma_buffers *buffers, struct entry *entry)
{
	int rc;

	pthread_mutex_lock(&buffers->lock);
	rc = insert(buffers, entry);
	pthread_mutex_unlock(&buffers->lock);
	if (rc) {
		free_entry(entry);
		return rc;
	}
	rc = register_all(buffers, entry);
	if (rc)
		return undo(buffers, entry, rc);
	pthread_mutex_lock(&buffers->lock);
	entry->state = VISIBLE;
	pthread_mutex_unlock(&buffers->lock);
	return 0;
}

int otte_rdma_buffers_publish(struct otte_rdma_buffers *buffers,
			      const struct otte_rdma_buffer_spec *spec)
{
	uint64_t nics = otte_rdma_context_set_devices(buffers->set);
	struct entry *entry;

	if (!nics)
		return otte_fail(-ENODEV, "rdma: no device can register memory");
	entry = new_entry(buffers->set, spec);
	if (!entry)
		return otte_fail(-ENOMEM, "rdma: no memory for a region's MRs");
	entry->nics = nics;
	return publish(buffers, entry);
}

/* ---- Use ------------------------------------------------------------------------------------- */

const struct otte_rdma_buffer *otte_rdma_buffers_get(struct otte_rdma_buffers *buffers,
						     uint64_t region)
{
	struct entry *entry;

	pthread_mutex_lock(&buffers->lock);
	entry = find(buffers, region);
	if (entry && entry->state != VISIBLE)
		entry = NULL;
	if (entry)
		entry->uses++;
	pthread_mutex_unlock(&buffers->lock);
	return entry ? &entry->buffer : NULL;
}

void otte_rdma_buffers_put(struct otte_rdma_buffers *buffers, const struct otte_rdma_buffer *buffer)
{
	struct entry *entry = container_of(buffer, struct entry, buffer);

	pthread_mutex_lock(&buffers->lock);
	entry->uses--;
	pthread_mutex_unlock(&buffers->lock);
}

/* ---- Withdrawal ------------------------------------------------------------------------------ */

/* Under the lock. 0: the entry is LEAVING, and the caller's. */
static int hide(struct entry *entry)
{
	if (!entry)
		return -ENOENT;
	if (entry->state == RETAINED)
		return otte_fail(-EUCLEAN, "rdma: MRs of region %" PRIu64 " are retained",
				 entry->buffer.region);
	if (entry->state == VISIBLE)
		entry->state = HIDDEN;
	if (entry->state != HIDDEN || entry->uses)
		return -EBUSY;
	entry->state = LEAVING;
	return 0;
}

int otte_rdma_buffers_withdraw(struct otte_rdma_buffers *buffers, uint64_t region)
{
	struct entry *entry;
	int rc;

	pthread_mutex_lock(&buffers->lock);
	entry = find(buffers, region);
	rc = hide(entry);
	pthread_mutex_unlock(&buffers->lock);
	return rc ? rc : dismantle(buffers, entry);
}

void otte_rdma_buffers_stats(struct otte_rdma_buffers *buffers,
			     struct otte_rdma_buffers_stats *stats)
{
	pthread_mutex_lock(&buffers->lock);
	*stats = buffers->stats;
	pthread_mutex_unlock(&buffers->lock);
}
