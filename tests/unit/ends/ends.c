/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The end of a request, step by step, against those who close what it was made of. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/access.h"
#include "engine/notify.h"
#include "unit/engine/pair.h"

#define SIZE (64u << 10)
#define MS 1000000ll

/* ---- Where the end of a request stops ---- */

struct stop {
	_Atomic bool set, reached;
};

static struct stop at_access; /* its segment is let go, its bytes are not */
static struct stop at_notify; /* its result stands, and is not published */

static void pass(struct stop *stop)
{
	if (!atomic_load(&stop->set))
		return;
	atomic_store(&stop->reached, true);
	while (atomic_load(&stop->set))
		usleep(1000);
}

static void set(struct stop *stop)
{
	atomic_store(&stop->reached, false);
	atomic_store(&stop->set, true);
}

static void wait_reached(struct stop *stop)
{
	int i;

	for (i = 0; i < 10000 && !atomic_load(&stop->reached); i++)
		usleep(1000);
	assert_true(atomic_load(&stop->reached));
}

void __real_otte_access_end(struct otte_access_map *map, struct otte_access *access);
void __wrap_otte_access_end(struct otte_access_map *map, struct otte_access *access);
void __wrap_otte_access_end(struct otte_access_map *map, struct otte_access *access)
{
	if (access->write) /* of a READ, at the requester */
		pass(&at_access);
	__real_otte_access_end(map, access);
}

void __real_otte_notify_send_list(struct otte_pending_notify *list, int code);
void __wrap_otte_notify_send_list(struct otte_pending_notify *list, int code);
void __wrap_otte_notify_send_list(struct otte_pending_notify *list, int code)
{
	if (list)
		pass(&at_notify);
	__real_otte_notify_send_list(list, code);
}

/* ---- Tests ---- */

static void open_pair(struct pair *pair)
{
	pair_open(pair, SIZE, NULL);
	pair_fill(pair->remote_bytes, SIZE, 5);
}

/* Nobody waits for it: the engine's thread ends it. */
static void submit(struct pair *pair)
{
	const struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, SIZE);

	assert_int_equal(otte_batch_submit(pair->batch, &request, 1), 0);
}

static void a_segment_may_be_closed_while_its_last_request_ends(void **state)
{
	char address[OTTE_ADDRESS_MAX];
	struct pair pair;

	(void)state;
	open_pair(&pair);
	set(&at_access);
	submit(&pair);
	wait_reached(&at_access);
	assert_int_equal(otte_segment_close(pair.segment), 0);
	/* Both look for the peer of what is not terminal. */
	assert_int_equal(otte_batch_cancel(pair.batch), 0);
	assert_int_equal(otte_batch_wait(pair.batch, 50 * MS), -ETIMEDOUT);
	atomic_store(&at_access.set, false);
	assert_int_equal(otte_batch_wait(pair.batch, 10 * SECOND), 0);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, SIZE);
	assert_int_equal(otte_engine_address(pair.source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(pair.requester, address, OTTE_EPOCH_ANY, 10 * SECOND,
					   &pair.segment), 0);
	pair_close(&pair);
}

static void close_waits_until_results_are_published(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct pair pair;

	(void)state;
	open_pair(&pair);
	set(&at_notify);
	set(&at_access);
	submit(&pair);
	assert_int_equal(otte_notify(pair.segment, pair.batch, "x", 1), 0);
	atomic_store(&at_access.set, false);
	wait_reached(&at_notify);
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, 50 * MS, &report),
			 -ETIMEDOUT);
	assert_int_equal(report.requests, 1);
	atomic_store(&at_notify.set, false);
	assert_int_equal(otte_engine_close(pair.requester, OTTE_CLOSE_REQUESTER, 10 * SECOND, &report), 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_segment_may_be_closed_while_its_last_request_ends),
		cmocka_unit_test(close_waits_until_results_are_published),
	};

	return cmocka_run_group_tests_name("ends", tests, NULL, NULL);
}
