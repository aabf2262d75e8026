/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns each client's fences: borrowers that it gives no new loans. A fence is of one local client
 * or one incarnation of a peer, neither of which ever comes back, so none is ever lifted; they go
 * with their client. Caller's lock: the ledger's.
 */
#include "ledger/process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"

#define FENCES_MAX 65536 /* for each client; the order of peers one engine ever meets */

/*
 * A local client is known by its id alone. The struct has no padding, so it serves as a hash key.
 */
static struct otte_borrower key_of(const struct otte_borrower *who)
{
	_Static_assert(sizeof(*who) == 32, "struct otte_borrower has no padding");
	if (who->client)
		return (struct otte_borrower){ .client = who->client };
	return *who;
}

static struct process_fence *find(const struct process_client *client,
				  const struct otte_borrower *key)
{
	struct process_fence *fence;

	HASH_FIND(hh, client->fences, key, sizeof(*key), fence);
	return fence;
}

int process_fence_add(struct process_client *client, const struct otte_borrower *who)
{
	struct otte_borrower key = key_of(who);
	struct process_fence *fence;

	if (find(client, &key))
		return 0;
	if (HASH_COUNT(client->fences) >= FENCES_MAX)
		return otte_fail(-EDQUOT, "client %" PRIu64 ": fences: %d of %d charged",
				 client->id, FENCES_MAX, FENCES_MAX);
	fence = calloc(1, sizeof(*fence));
	if (!fence)
		return otte_fail(-ENOMEM, "no memory for a fence");
	fence->who = key;
	HASH_ADD(hh, client->fences, who, sizeof(fence->who), fence);
	if (fence->hh.tbl)
		return 0;
	free(fence);
	return otte_fail(-ENOMEM, "no memory for a fence");
}

int process_fence_check(const struct process_client *client, const struct otte_borrower *who)
{
	struct otte_borrower key = key_of(who);

	if (!find(client, &key))
		return 0;
	if (key.client)
		return otte_fail(-EKEYREVOKED, "client %" PRIu64 " is fenced", key.client);
	return otte_fail(-EKEYREVOKED, "the peer of epoch %" PRIx64 " is fenced", key.epoch);
}

void process_fence_free(struct process_client *client)
{
	struct process_fence *fence, *next;

	HASH_ITER(hh, client->fences, fence, next) {
		HASH_DEL(client->fences, fence);
		free(fence);
	}
}
