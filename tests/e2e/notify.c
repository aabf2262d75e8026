/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Notifications: after the receipts they are tied to, dropped with a failure, bounded, and waited for. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "side.h"

#define BYTES (4u << 20)
#define QUEUE 16

/* The test's own process receives; a child sends. */
struct sender {
	struct side here;
	const uint8_t *bytes;    /* its region's, as the test looks at them */
	int fd;
	struct child child;
};

/* Arguments: address, region. Writes a number everywhere, then notifies with it. */
static int sender_main(char **argv)
{
	struct otte_request bad;
	char line[64], data[32];
	struct side side;
	unsigned n, i;
	int ret;

	OK(side_open(&side, "deaf", -1, BYTES));
	OK(side_connect(&side, argv[0], OTTE_EPOCH_ANY, strtoull(argv[1], NULL, 0)));
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		ret = 0;
		if (sscanf(line, "tied %u", &n) == 1) {
			memset(side.bytes, (int)n, BYTES);
			snprintf(data, sizeof(data), "%u", n);
			OK(side_submit(&side, OTTE_WRITE, 0, 0, BYTES / 32, 32));
			ret = otte_notify(side.segment, side.batch, data, strlen(data) + 1);
			OK(otte_batch_wait(side.batch, 10 * SECOND));
		} else if (sscanf(line, "failing %u", &n) == 1) {
			OK(side_submit(&side, OTTE_WRITE, 0, 0, 4096, 8));
			bad = side_request(&side, OTTE_WRITE, 65536, 0, 1);
			bad.remote_region += 1000;
			OK(otte_batch_submit(side.batch, &bad, 1));
			ret = otte_notify(side.segment, side.batch, "never", 6);
			if (ret == -ECANCELED) /* it has failed already */
				ret = 0;
			OK(otte_batch_wait(side.batch, 10 * SECOND));
		} else if (sscanf(line, "plain %u", &n) == 1) {
			for (i = 0; i < n && !ret; i++) {
				snprintf(data, sizeof(data), "%u", i);
				do
					ret = otte_notify(side.segment, NULL, data, strlen(data) + 1);
				while (ret == -EDQUOT);
			}
		}
		/* An answer of the control connection comes behind whatever was sent on it before. */
		{
			struct otte_stats stats = { .size = sizeof(stats) };

			OK(otte_segment_stats(side.segment, 10 * SECOND, &stats));
		}
		printf("code %d\n", ret);
	}
	OK(side_close(&side));
	return 0;
}

static void sender_start(struct sender *sender, const char *keys)
{
	char region[32];

	sender->bytes = share(&sender->fd, BYTES);
	OK(side_open(&sender->here, keys, sender->fd, BYTES));
	snprintf(region, sizeof(region), "%lu",
		 (unsigned long)otte_region_id(sender->here.region));
	child_start(&sender->child, -1, "sender", sender->here.address, region, (char *)NULL);
	assert_string_equal(child_hear(&sender->child), "ready");
}

static void sender_stop(struct sender *sender)
{
	child_end(&sender->child);
	OK(side_close(&sender->here));
	share_end((void *)sender->bytes, sender->fd, BYTES);
}

static bool readable(const struct side *side, int timeout_ms)
{
	struct pollfd set = { .events = POLLIN };

	set.fd = otte_notification_eventfd(side->engine);
	assert_true(set.fd >= 0);
	return poll(&set, 1, timeout_ms) == 1;
}

static void a_tied_notification_comes_after_the_bytes_it_speaks_of(void **state)
{
	struct otte_notification notification;
	struct sender sender;
	unsigned n;

	(void)state;
	sender_start(&sender, "");
	for (n = 1; n <= 50; n++) {
		child_tell(&sender.child, "tied %u", n);
		assert_true(readable(&sender.here, 10000));
		OK(otte_notification_next(sender.here.engine, &notification));
		assert_int_equal(atoi((char *)notification.data), n);
		/* Every byte of every request of the batch. */
		assert_int_equal(sender.bytes[0], n);
		assert_memory_equal(sender.bytes, sender.bytes + 1, BYTES - 1);
		assert_int_equal(otte_notification_next(sender.here.engine, &notification), -EAGAIN);
		assert_string_equal(child_hear(&sender.child), "code 0");
	}
	sender_stop(&sender);
}

static void a_notification_is_dropped_when_a_request_of_its_batch_fails(void **state)
{
	struct otte_notification notification;
	struct sender sender;
	int i;

	(void)state;
	sender_start(&sender, "");
	for (i = 0; i < 20; i++)
		assert_string_equal(child_ask(&sender.child, "failing 1"), "code 0");
	assert_int_equal(otte_notification_next(sender.here.engine, &notification), -EAGAIN);
	assert_int_equal(side_stats(&sender.here).notifications_received, 0);
	assert_false(readable(&sender.here, 0));
	/* The next one is not kept back by it. */
	assert_string_equal(child_ask(&sender.child, "plain 1"), "code 0");
	assert_true(readable(&sender.here, 10000));
	sender_stop(&sender);
}

static void a_full_queue_takes_no_more_and_keeps_the_oldest_in_order(void **state)
{
	struct otte_notification notification;
	struct sender sender;
	unsigned i;

	(void)state;
	sender_start(&sender, "limits.notifications=16");
	assert_string_equal(child_ask(&sender.child, "plain 5000"), "code 0");
	assert_int_equal(side_stats(&sender.here).notifications_received, QUEUE);
	for (i = 0; i < QUEUE; i++) {
		assert_true(readable(&sender.here, 0));
		OK(otte_notification_next(sender.here.engine, &notification));
		assert_int_equal(atoi((char *)notification.data), i);
		assert_true(notification.epoch != 0);
	}
	assert_false(readable(&sender.here, 0));
	/* Room again. */
	assert_string_equal(child_ask(&sender.child, "plain 1"), "code 0");
	assert_true(readable(&sender.here, 10000));
	sender_stop(&sender);
}

static void sizes_outside_the_limit_are_refused(void **state)
{
	static const uint8_t data[OTTE_NOTIFY_MAX + 1];
	struct otte_notification notification;
	struct side from, to;

	(void)state;
	OK(side_open(&to, "", -1, BYTES));
	OK(side_open(&from, "deaf", -1, BYTES));
	OK(side_connect(&from, to.address, OTTE_EPOCH_ANY, otte_region_id(to.region)));
	assert_int_equal(otte_notify(from.segment, NULL, data, 0), -EINVAL);
	assert_int_equal(otte_notify(from.segment, NULL, data, sizeof(data)), -EINVAL);
	OK(otte_notify(from.segment, NULL, data, OTTE_NOTIFY_MAX));
	assert_true(readable(&to, 10000));
	OK(otte_notification_next(to.engine, &notification));
	assert_int_equal(notification.length, OTTE_NOTIFY_MAX);
	assert_int_equal(notification.epoch, otte_engine_epoch(from.engine));
	OK(side_close(&from));
	OK(side_close(&to));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tied_notification_comes_after_the_bytes_it_speaks_of),
		cmocka_unit_test(a_notification_is_dropped_when_a_request_of_its_batch_fails),
		cmocka_unit_test(a_full_queue_takes_no_more_and_keeps_the_oldest_in_order),
		cmocka_unit_test(sizes_outside_the_limit_are_refused),
	};
	int status;

	if (side_role(argc, argv, &status))
		return status;
	if (argc == 4 && strcmp(argv[1], "sender") == 0) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		return sender_main(argv + 2);
	}
	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
