/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Descriptors run out: on the side that accepts, and on the side that opens. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "side.h"

#define BYTES (1u << 20)

static void open_segment(struct remote *requester, const struct remote *source)
{
	child_tell(&requester->child, "open %s %lu", source->address, (unsigned long)source->region);
}

static long long answer_code(struct remote *remote)
{
	child_hear(&remote->child);
	return child_number(&remote->child, "code");
}

/* Somebody who waits for counters, on a socket that is looked at in the same loop. */
static int ask_for_stats(const struct remote *source)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int n, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	n = snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, "otte/%d", source->child.pid);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
			 0);
	return fd;
}

/* A source without descriptors does not turn in circles. */
static void assert_source_rests(struct remote *source, struct remote *good)
{
	uint64_t until_ns = now_ns() + 1 * SECOND;
	long long used;

	child_ask(&source->child, "cpu");
	used = child_number(&source->child, "cpu");
	while (now_ns() < until_ns)
		nap();
	child_ask(&source->child, "cpu");
	assert_in_range(child_number(&source->child, "cpu") - used, 0, 60);
	/* And those who are there are served as ever. */
	assert_string_equal(child_ask(&good->child, "probe"), "probe 1");
}

static void a_source_without_descriptors_serves_its_peers_and_takes_others_later(void **state)
{
	struct remote source, good, late;
	char brace;
	int fd;

	(void)state;
	remote_start(&source, "", -1, BYTES);
	remote_start(&good, "deaf", -1, BYTES);
	remote_start(&late, "deaf control.timeout_ms=20000", -1, BYTES);
	open_segment(&good, &source);
	assert_int_equal(answer_code(&good), 0);
	child_ask(&source.child, "exhaust 0");
	open_segment(&late, &source);
	fd = ask_for_stats(&source);
	assert_source_rests(&source, &good);
	child_ask(&source.child, "release");
	assert_int_equal(answer_code(&late), 0);
	assert_int_equal(recv(fd, &brace, 1, 0), 1);
	assert_int_equal(brace, '{');
	close(fd);
	assert_string_equal(child_ask(&late.child, "probe"), "probe 1");
	assert_string_equal(child_ask(&good.child, "probe"), "probe 1");
	child_end(&late.child);
	child_end(&good.child);
	child_end(&source.child);
}

/* One descriptor is left for the control connection, none for a lane; and so on. */
static void a_peer_that_gets_only_some_connections_fails_or_works_and_leaves_nothing(void **state)
{
	struct remote source, good, late;
	unsigned left;
	long long code, fds;

	(void)state;
	remote_start(&source, "", -1, BYTES);
	remote_start(&good, "deaf", -1, BYTES);
	open_segment(&good, &source);
	assert_int_equal(answer_code(&good), 0);
	assert_string_equal(child_ask(&good.child, "probe"), "probe 1");
	child_ask(&source.child, "stats");
	fds = child_number(&source.child, "fds");
	for (left = 0; left <= 3; left++) {
		remote_start(&late, "deaf control.timeout_ms=1500", -1, BYTES);
		/* Its own words need one to say how many there are. */
		child_ask(&source.child, "exhaust %u", left);
		open_segment(&late, &source);
		code = answer_code(&late);
		assert_true(code == 0 || code == -ETIMEDOUT || code == -ECONNRESET);
		assert_true(code == 0 || left < 3);
		assert_true(code != 0 || left > 1);
		if (!code)
			assert_string_equal(child_ask(&late.child, "probe"), "probe 1");
		assert_string_equal(child_ask(&good.child, "probe"), "probe 1");
		child_ask(&source.child, "release");
		if (code) {
			open_segment(&late, &source);
			assert_int_equal(answer_code(&late), 0);
			assert_string_equal(child_ask(&late.child, "probe"), "probe 1");
		}
		child_end(&late.child);
		assert_true(EVENTUALLY((child_ask(&source.child, "stats"),
					child_number(&source.child, "fds") == fds)));
		assert_int_equal(child_number(&source.child, "peers_in"), 1);
		assert_int_equal(child_number(&source.child, "lanes"), 2);
	}
	child_end(&good.child);
	child_end(&source.child);
}

static void a_requester_without_descriptors_is_told_so_and_recovers(void **state)
{
	struct remote source, requester;
	unsigned left;
	long long code, fds;

	(void)state;
	remote_start(&source, "", -1, BYTES);
	for (left = 0; left <= 3; left++) {
		remote_start(&requester, "deaf", -1, BYTES);
		child_ask(&requester.child, "stats");
		fds = child_number(&requester.child, "fds");
		child_ask(&requester.child, "exhaust %u", left);
		open_segment(&requester, &source);
		code = answer_code(&requester);
		/* One lane is enough; the other one is tried again later. */
		assert_int_equal(code, left < 2 ? -EMFILE : 0);
		if (!code)
			assert_string_equal(child_ask(&requester.child, "probe"), "probe 1");
		child_ask(&requester.child, "release");
		if (!code)
			assert_string_equal(child_ask(&requester.child, "disconnect"), "code 0");
		assert_true(EVENTUALLY((child_ask(&requester.child, "stats"),
					child_number(&requester.child, "fds") == fds)));
		open_segment(&requester, &source);
		assert_int_equal(answer_code(&requester), 0);
		assert_string_equal(child_ask(&requester.child, "probe"), "probe 1");
		child_end(&requester.child);
	}
	child_end(&source.child);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_source_without_descriptors_serves_its_peers_and_takes_others_later),
		cmocka_unit_test(a_peer_that_gets_only_some_connections_fails_or_works_and_leaves_nothing),
		cmocka_unit_test(a_requester_without_descriptors_is_told_so_and_recovers),
	};
	int status;

	if (side_role(argc, argv, &status))
		return status;
	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("descriptors", tests, NULL, NULL);
}
