/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the nonces that a client awaits. The module queues what other clients send, so many for each sender and
 * tenant; here only what is awaited is kept, so that strangers cannot make it grow. Caller's lock: the client's.
 */
#include "ledger/kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int kernel_attest_send(struct kernel_client *client, uint64_t to, const uint8_t *nonce)
{
	int rc = otte_module_attest(client->fd, to, nonce);

	if (rc == -EBUSY)
		return otte_fail(-EDQUOT,
				 "client %" PRIu64
				 ": the module keeps no more nonces for it that it has"
				 " not read",
				 to);
	return rc ? kernel_refused(client, rc, "client", to) : 0;
}

int kernel_attest_await(struct kernel_client *client, const uint8_t *nonce,
			struct otte_attest **out)
{
	struct otte_attest *attest = calloc(1, sizeof(*attest));

	if (!attest)
		return otte_fail(-ENOMEM, "no memory for a nonce");
	memcpy(attest->nonce, nonce, sizeof(attest->nonce));
	LIST_INSERT_HEAD(&client->attests, attest, link);
	/* What waits unread takes the room of those that are to come. */
	kernel_event_pump(client);
	*out = attest;
	return 0;
}

int kernel_attest_heard(struct kernel_client *client, struct otte_attest *attest, uint64_t *from,
			uint32_t *user)
{
	if (!attest->from)
		kernel_event_pump(client);
	if (!attest->from || attest->disputed)
		return -EAGAIN;
	*from = attest->from;
	if (user)
		*user = attest->user;
	return 0;
}

void kernel_attest_forget(struct otte_attest *attest)
{
	LIST_REMOVE(attest, link);
	free(attest);
}

void kernel_attest_note(struct kernel_client *client, const struct otte_module_event *told)
{
	struct otte_attest *attest;

	LIST_FOREACH(attest, &client->attests, link) {
		if (memcmp(attest->nonce, told->nonce, sizeof(attest->nonce)) != 0)
			continue;
		attest->disputed |= attest->from && attest->from != told->object;
		attest->from = told->object;
		attest->user = told->user;
	}
}
