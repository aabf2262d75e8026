/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A source that is killed and comes back with the same address, port and memory, at the same
 * virtual addresses: no byte moves by what its predecessor has granted. Runs in a guest; see
 * tests/verbs/guest-rdma.
 *
 *   incarnation DEVICE
 */
#include <string.h>

#include "check.h"
#include "hostile.h"
#include "parties.h"

#define AT (64 * 1024 + 100)
#define LENGTH 5000
#define CANARY 0xa5

static uint8_t image[AREA_BYTES];

static void prepare(struct requester *by, uint8_t salt)
{
	uint32_t i;

	for (i = 0; i < AREA_BYTES; i++)
		image[i] = (uint8_t)(i * 11 + (i >> 8) * 17 + salt);
	memcpy(remote, image, AREA_BYTES);
	memset(by->bytes, CANARY, AREA_BYTES);
}

static bool nothing_has_moved(const struct requester *by)
{
	uint64_t i;

	for (i = 0; i < AREA_BYTES; i++)
		if (by->bytes[i] != CANARY)
			return false;
	return !memcmp(remote, image, AREA_BYTES);
}

static bool serves(struct requester *by, uint8_t op)
{
	struct otte_task task;

	prepare(by, 3);
	return EVENTUALLY((requester_submit(by, op, AT, LENGTH), task = requester_wait(by),
			   !task.code)) &&
	       !memcmp(remote + AT, by->bytes + AT, LENGTH);
}

static void report(bool good, uint8_t op, const char *rule)
{
	char line[160];

	snprintf(line, sizeof(line), "granted a %s before a restart, %s",
		 op == OTTE_READ ? "READ" : "WRITE", rule);
	check(good, line);
}

/* Who was granted it goes on as if nothing had been. */
static void go_on(struct requester *keeper, uint8_t op)
{
	struct otte_task task;

	prepare(keeper, 5);
	hostile_let_go();
	task = requester_wait(keeper);
	printf("# code %d, drained %u, effect %u\n", task.code, task.locally_drained,
	       task.remote_effect);
	report(task.code == -ECONNRESET && task.locally_drained, op,
	       "a requester that posts after it fails, drained");
	report(nothing_has_moved(keeper), op, "and moves nothing");
}

static void use_old_key(struct requester *newcomer, uint8_t op, const struct payload *old)
{
	struct payload payload;
	int status;

	if (!serves(newcomer, op)) {
		report(false, op, "a newcomer is served");
		return;
	}
	payload = hostile_last();
	payload.send.key = old->send.key;
	payload.send.remote = old->send.remote;
	prepare(newcomer, 7);
	status = hostile_post(payload.qp, &payload.send);
	printf("# status %d, key 0x%08x\n", status, old->send.key);
	report(status == IBV_WC_REM_ACCESS_ERR, op,
	       "its key on a new queue pair: a remote access error");
	report(nothing_has_moved(newcomer), op, "and nothing has moved");
	report(serves(newcomer, op), op, "and then an honest one is served");
}

static void check_fence(struct requester *newcomer, const struct door *before,
			const struct door *after, uint8_t op)
{
	struct otte_segment *segment;

	report(!strcmp(before->address, after->address) && before->epoch != after->epoch, op,
	       "the successor has the address and another fence");
	report(otte_segment_open(newcomer->engine, after->address, before->epoch, PATIENCE_NS,
				 &segment) == -ESTALE,
	       op, "who wants the predecessor is told that it is gone");
}

static void restart(const char *device, uint8_t op)
{
	const char *const devices[DEVICES_MAX] = { device };
	struct requester keeper, newcomer;
	struct source before, after;
	struct payload old;
	bool held;

	source_start(&before, devices, NULL);
	requester_open(&keeper, device, &before.doors[0], false);
	report(serves(&keeper, op), op, "it is served");
	hostile_hold(true);
	requester_submit(&keeper, op, AT, LENGTH);
	held = hostile_held(&old);
	report(held && source_counts(&before).loans == 1, op, "its grant is there, unused");
	source_kill(&before);
	source_start(&after, devices, &before.doors[0]);
	go_on(&keeper, op);
	requester_open(&newcomer, device, &after.doors[0], false);
	check_fence(&newcomer, &before.doors[0], &after.doors[0], op);
	use_old_key(&newcomer, op, &old);
	report(source_rests(&after), op, "the successor lends nothing any more");
	requester_close(&newcomer);
	requester_close(&keeper);
	report(source_end(&after) == 0, op, "the successor gives back everything");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 3;
	parties_open();
	hostile_open();
	restart(argv[1], OTTE_READ);
	restart(argv[1], OTTE_WRITE);
	return checked();
}
