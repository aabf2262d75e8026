/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the texts of a client's holds (the module keeps numbers), and the way to release a record,
 * which is an administrator's and goes through sysfs. Caller's lock: the client's; none for
 * release.
 */
#include "ledger/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/util.h"

/* Takes an id, and knows records that have no directory under retained/ as well. */
#define RELEASE_FILE "/sys/class/misc/otte/retained_release"
#define RELEASE_WAIT_NS 2000000000ull /* for copies in flight to end */
#define RELEASE_STEP_NS 1000000

/* ---- Holds ----------------------------------------------------------------------------------- */

int kernel_hold(struct kernel_client *client, uint64_t bytes, const char *reason, uint64_t *id)
{
	struct kernel_ledger *ledger = kernel_ledger_of(client);
	struct kernel_hold *hold;
	int rc;

	if (!reason)
		return otte_fail(-EINVAL, "hold: no reason");
	hold = calloc(1, sizeof(*hold));
	if (!hold)
		return otte_fail(-ENOMEM, "no memory for a hold");
	snprintf(hold->reason, sizeof(hold->reason), "%s", reason);
	hold->bytes = max_u64(bytes, 1); /* the module lists nothing of no bytes */
	rc = otte_module_hold(client->fd, hold->bytes, &hold->id);
	if (rc) {
		rc = kernel_refused(client, rc, "hold of client", client->id);
		goto free_hold;
	}
	pthread_mutex_lock(&ledger->lock);
	HASH_ADD(hh, client->holds, id, sizeof(hold->id), hold);
	pthread_mutex_unlock(&ledger->lock);
	if (!hold->hh.tbl) {
		otte_module_hold_drop(client->fd, hold->id);
		rc = otte_fail(-ENOMEM, "no memory for a hold");
		goto free_hold;
	}
	*id = hold->id;
	return 0;

free_hold:
	free(hold);
	return rc;
}

static void forget(struct kernel_client *client, struct kernel_hold *hold)
{
	struct kernel_ledger *ledger = kernel_ledger_of(client);

	pthread_mutex_lock(&ledger->lock);
	HASH_DEL(client->holds, hold);
	pthread_mutex_unlock(&ledger->lock);
	free(hold);
}

static int refuse_unknown(struct kernel_client *client, uint64_t id)
{
	struct otte_retained_info info;

	if (!kernel_look_retained(kernel_ledger_of(client), id, &info) &&
	    info.kind == OTTE_RETAINED_HOLD)
		return otte_fail(-EPERM, "hold %" PRIu64 ": another client's", id);
	return otte_fail(-ENOENT, "hold %" PRIu64 ": unknown", id);
}

int kernel_hold_drop(struct kernel_client *client, uint64_t id)
{
	struct kernel_hold *hold;
	int rc;

	HASH_FIND(hh, client->holds, &id, sizeof(id), hold);
	if (!hold)
		return refuse_unknown(client, id);
	rc = otte_module_hold_drop(client->fd, id);
	if (rc)
		return kernel_refused(client, rc, "hold", id);
	forget(client, hold);
	return 0;
}

void kernel_hold_free_all(struct kernel_client *client)
{
	struct kernel_hold *hold, *next;

	HASH_ITER(hh, client->holds, hold, next)
		forget(client, hold);
}

void kernel_hold_complete(const struct kernel_client *owner, struct otte_retained_info *info)
{
	const struct kernel_hold *hold;

	HASH_FIND(hh, owner->holds, &info->id, sizeof(info->id), hold);
	if (hold)
		memcpy(info->reason, hold->reason, sizeof(info->reason));
}

/* ---- Release --------------------------------------------------------------------------------- */

static int refused_release(int rc, uint64_t id)
{
	switch (rc) {
	case -ENOENT:
	case -ENODEV:
		return otte_fail(-ENOENT, "retained %" PRIu64 ": unknown", id);
	case -EBUSY:
		return otte_fail(rc, "retained %" PRIu64 ": a hold, and its owner lives", id);
	case -EPERM:
	case -EACCES:
		return otte_fail(-EPERM, "retained %" PRIu64 ": only an administrator releases it",
				 id);
	default:
		return otte_fail(rc, "retained %" PRIu64 ": " RELEASE_FILE ": %s", id,
				 strerror(-rc));
	}
}

static int write_id(uint64_t id)
{
	int fd = open(RELEASE_FILE, O_WRONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = dprintf(fd, "%" PRIu64 "\n", id) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

static int wait_gone(struct kernel_ledger *ledger, uint64_t id)
{
	const struct timespec step = { .tv_nsec = RELEASE_STEP_NS };
	uint64_t until_ns = otte_now_ns() + RELEASE_WAIT_NS;
	struct otte_retained_info info;
	int rc;

	while (!(rc = kernel_look_retained(ledger, id, &info))) {
		if (otte_now_ns() >= until_ns)
			return otte_fail(-EINPROGRESS, "retained %" PRIu64 ": copies are in flight",
					 id);
		nanosleep(&step, NULL);
	}
	return rc == -ENOENT ? 0 : rc;
}

/* The module queues it: it is over when the record is gone. */
int kernel_release(struct kernel_ledger *ledger, uint64_t id)
{
	struct otte_retained_info info;
	uint64_t owner, loans = 0;
	int rc = kernel_look_retained(ledger, id, &info);

	if (rc)
		return rc == -ENOENT ? refused_release(rc, id) : rc;
	if (info.kind == OTTE_RETAINED_LOAN)
		loans = 1;
	if (info.kind == OTTE_RETAINED_REGION)
		kernel_look_region(ledger, id, &owner, &loans);
	rc = write_id(id);
	if (rc)
		return refused_release(rc, id);
	rc = wait_gone(ledger, id);
	/* A lender that is there is told of the end, and counts it as it reads that. */
	if (!rc && kernel_client_is_ours(ledger, info.owner) &&
	    !kernel_client_is_open(ledger, info.owner))
		kernel_count_settled(ledger, loans);
	return rc;
}
