/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "args.h"
#include "base/clock.h"
#include "common.h"
#include "../common/stopping.h"
#include "tool.h"

#define WAIT_STEP_NS (200 * NSEC_PER_MSEC) /* how soon a signal is noticed */
#define DRAIN_LIMIT_NS (5 * NSEC_PER_SEC) /* for what is under way after an error */
#define REQUESTS_MAX (TRANSFER_WINDOW_MAX / TRANSFER_REQUEST_BYTES)

bool transfer_window(const char *text, uint64_t *bytes)
{
	return args_size_within("--window", text, TRANSFER_WINDOW_MIN, TRANSFER_WINDOW_MAX, bytes);
}

static uint64_t request_count(uint64_t length)
{
	return (length + TRANSFER_REQUEST_BYTES - 1) / TRANSFER_REQUEST_BYTES;
}

static int make_slots(struct transfer *transfer)
{
	struct transfer_slot *slot;
	unsigned i;
	int rc;

	for (i = 0; i < TRANSFER_SLOTS; i++) {
		slot = &transfer->slots[i];
		slot->local_offset = i * transfer->window_bytes;
		slot->memory = (char *)otte_mem_address(transfer->mem) + slot->local_offset;
		rc = otte_batch_create(transfer->engine,
				       (uint32_t)request_count(transfer->window_bytes),
				       &slot->batch);
		if (rc)
			return rc;
	}
	return 0;
}

int transfer_begin(struct transfer *transfer, struct otte_engine *engine,
		   const struct remote *remote, uint64_t window_bytes)
{
	struct otte_region_desc desc = { .access = OTTE_LOCAL_ONLY, .name = "window" };
	int rc;

	memset(transfer, 0, sizeof(*transfer));
	transfer->engine = engine;
	transfer->remote = remote;
	transfer->window_bytes = window_bytes;
	rc = otte_mem_alloc(engine, window_bytes * TRANSFER_SLOTS, 0, &transfer->mem);
	if (!rc) {
		desc.mem = transfer->mem;
		desc.length = window_bytes * TRANSFER_SLOTS;
		rc = otte_region_register(engine, &desc, 1, &transfer->region);
	}
	if (!rc)
		rc = make_slots(transfer);
	return rc ? complain_library(rc, "windows") : EXIT_OK;
}

static int submit(struct transfer *transfer, struct transfer_slot *slot, enum otte_op op,
		  uint64_t remote_offset)
{
	struct otte_request requests[REQUESTS_MAX];
	uint64_t done = 0, count = 0, length;

	while (done < slot->length) {
		length = min_u64(slot->length - done, TRANSFER_REQUEST_BYTES);
		requests[count++] = (struct otte_request){
			.segment = transfer->remote->segment,
			.local = transfer->region,
			.local_offset = slot->local_offset + done,
			.remote_region = transfer->remote->region.id,
			.remote_offset = remote_offset + done,
			.length = length,
			.op = (uint8_t)op,
		};
		done += length;
	}
	return otte_batch_submit(slot->batch, requests, count);
}

static int complain_failure(const struct transfer *transfer, struct otte_batch *batch,
			    uint64_t offset)
{
	struct otte_failure failure;

	if (otte_batch_failure(batch, &failure))
		return complain(EXIT_TRANSFER, "%s: failed", transfer->remote->endpoint);
	return complain(EXIT_TRANSFER, "%s/%s: bytes from %" PRIu64 " on: %s",
			transfer->remote->endpoint, transfer->remote->name,
			(uint64_t)(offset + failure.first * TRANSFER_REQUEST_BYTES),
			*failure.text ? failure.text : otte_strerror(failure.code));
}

/* All of the slot's requests have completed. */
static void count_routes(struct transfer *transfer, const struct transfer_slot *slot)
{
	uint64_t done;
	uint32_t i = 0;

	for (done = 0; done < slot->length; done += TRANSFER_REQUEST_BYTES)
		routes_add(&transfer->routes, slot->batch, i++,
			   min_u64(slot->length - done, TRANSFER_REQUEST_BYTES));
}

/* `offset` is that of the slot's first byte in the remote region. */
static int wait_for(struct transfer *transfer, struct transfer_slot *slot, uint64_t offset)
{
	struct otte_batch_status status = { 0 };
	int rc;

	do {
		rc = otte_batch_wait(slot->batch, WAIT_STEP_NS);
		if (stopping_count())
			return complain(EXIT_TRANSFER, "interrupted at byte %" PRIu64, offset);
	} while (rc == -ETIMEDOUT);
	if (rc)
		return complain_library(rc, transfer->remote->endpoint);
	rc = otte_batch_poll(slot->batch, &status);
	if (rc || status.failed)
		return complain_failure(transfer, slot->batch, offset);
	count_routes(transfer, slot);
	rc = otte_batch_reset(slot->batch);
	return rc ? complain_library(rc, "batch") : EXIT_OK;
}

/* Fill the slot if that is ours to do, and send it off. */
static int launch(struct transfer *transfer, struct transfer_slot *slot, enum otte_op op,
		  uint64_t offset, transfer_step step, void *arg)
{
	int rc;

	if (op == OTTE_WRITE) {
		rc = step(arg, slot->memory, slot->length);
		if (rc)
			return rc;
	}
	rc = submit(transfer, slot, op, offset);
	return rc ? complain_transfer(rc, transfer->remote->endpoint) : EXIT_OK;
}

static int land(struct transfer *transfer, struct transfer_slot *slot, enum otte_op op,
		uint64_t offset, transfer_step step, void *arg)
{
	int rc = wait_for(transfer, slot, offset);

	if (!rc && op == OTTE_READ)
		rc = step(arg, slot->memory, slot->length);
	return rc;
}

int transfer_run(struct transfer *transfer, enum otte_op op, uint64_t total, transfer_step step,
		 void *arg, struct progress *progress)
{
	uint64_t launched = 0, landed = 0, launches = 0, landings = 0;
	struct transfer_slot *slot;
	int rc = EXIT_OK;

	while (!rc && landed < total) {
		if (launched < total && launches - landings < TRANSFER_SLOTS) {
			slot = &transfer->slots[launches++ % TRANSFER_SLOTS];
			slot->length = min_u64(total - launched, transfer->window_bytes);
			rc = launch(transfer, slot, op, launched, step, arg);
			launched += slot->length;
			continue;
		}
		slot = &transfer->slots[landings++ % TRANSFER_SLOTS];
		rc = land(transfer, slot, op, landed, step, arg);
		landed += slot->length;
		slot->length = 0;
		if (!rc)
			progress_update(progress, landed);
	}
	return rc;
}

void transfer_end(struct transfer *transfer)
{
	unsigned i;

	for (i = 0; i < TRANSFER_SLOTS; i++) {
		if (!transfer->slots[i].batch)
			continue;
		otte_batch_cancel(transfer->slots[i].batch);
		otte_batch_wait(transfer->slots[i].batch, DRAIN_LIMIT_NS);
		otte_batch_destroy(transfer->slots[i].batch);
	}
	if (transfer->region)
		otte_region_unregister(&transfer->region, 1, DRAIN_LIMIT_NS, NULL);
	if (transfer->mem)
		otte_mem_release(transfer->mem);
	memset(transfer, 0, sizeof(*transfer));
}
