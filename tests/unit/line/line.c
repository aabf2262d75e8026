/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lane of RDMA frames: what is said goes when the thread is done, all of it together, and what
 * cannot go is heard.
 */
#include "transport/rdma/line.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"

struct fixture {
	struct otte_loop loop;
	struct otte_rdma_lines lines;
	struct otte_rdma_line line;
	int other;
	uint32_t events;
};

static void note(struct otte_watch *watch, uint32_t events)
{
	struct otte_rdma_line *line = container_of(watch, struct otte_rdma_line, watch);

	container_of(line, struct fixture, line)->events |= events;
}

static void set_up(struct fixture *fixture)
{
	int fds[2];

	*fixture = (struct fixture){ .lines.loop = &fixture->loop,
				     .line.watch = { .fd = -1, .ready = note } };
	assert_int_equal(otte_loop_init(&fixture->loop), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	fixture->other = fds[1];
	assert_int_equal(otte_rdma_line_open(&fixture->line, &fixture->lines, fds[0]), 0);
}

static void tear_down(struct fixture *fixture)
{
	otte_rdma_line_close(&fixture->line);
	otte_loop_fini(&fixture->loop);
	close(fixture->other);
}

static void say_ack(struct fixture *fixture, uint64_t ask)
{
	const struct otte_rdma_message ack = { .type = OTTE_RDMA_MSG_ACK,
					       .answer = { .ask = ask, .grant = 7 } };

	assert_int_equal(otte_rdma_line_say(&fixture->line, &ack), 0);
}

static int arrived(const struct fixture *fixture)
{
	int bytes;

	assert_int_equal(ioctl(fixture->other, FIONREAD, &bytes), 0);
	return bytes;
}

static void what_is_said_waits_for_the_thread(void **state)
{
	struct fixture fixture;
	int one;

	(void)state;
	set_up(&fixture);
	otte_rdma_lines_send(&fixture.lines);
	assert_int_equal(arrived(&fixture), 0);
	say_ack(&fixture, 1);
	assert_ptr_equal(fixture.lines.unsent, &fixture.line);
	assert_int_equal(arrived(&fixture), 0);
	otte_rdma_lines_send(&fixture.lines);
	assert_null(fixture.lines.unsent);
	one = arrived(&fixture);
	assert_true(one > OTTE_FRAME_HEADER);
	say_ack(&fixture, 2);
	say_ack(&fixture, 3);
	assert_int_equal(arrived(&fixture), one);
	otte_rdma_lines_send(&fixture.lines);
	assert_null(fixture.lines.unsent);
	assert_int_equal(arrived(&fixture), 3 * one);
	tear_down(&fixture);
}

static void what_was_said_goes_before_the_end(void **state)
{
	struct fixture fixture;

	(void)state;
	set_up(&fixture);
	say_ack(&fixture, 1);
	otte_rdma_line_close(&fixture.line);
	assert_null(fixture.lines.unsent);
	assert_true(arrived(&fixture) > OTTE_FRAME_HEADER);
	tear_down(&fixture);
}

/* Its owner is told by the loop, as of a peer that has gone. */
static void a_line_on_which_nothing_can_be_sent_ends(void **state)
{
	struct otte_rdma_message message;
	struct fixture fixture;

	(void)state;
	set_up(&fixture);
	shutdown(fixture.line.watch.fd, SHUT_WR);
	otte_loop_run(&fixture.loop, 0);
	assert_int_equal(fixture.events, 0);
	say_ack(&fixture, 1);
	otte_rdma_lines_send(&fixture.lines);
	assert_null(fixture.lines.unsent);
	otte_loop_run(&fixture.loop, 0);
	assert_true(fixture.events & EPOLLIN);
	assert_int_equal(otte_rdma_line_hear(&fixture.line, false, &message), -ECONNRESET);
	tear_down(&fixture);
}

/* The loop says when there is room, and what is said until then goes behind. */
static void what_has_no_room_goes_when_there_is(void **state)
{
	struct fixture fixture;
	int small = 4096;
	uint64_t said = 0;
	uint8_t bytes[4096];
	size_t heard = 0;
	ssize_t n;

	(void)state;
	set_up(&fixture);
	assert_int_equal(
		setsockopt(fixture.line.watch.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	while (!fixture.line.waits_for_room) {
		say_ack(&fixture, ++said);
		otte_rdma_lines_send(&fixture.lines);
		assert_true(said < 10000);
	}
	say_ack(&fixture, ++said);
	assert_null(fixture.lines.unsent);
	while (fixture.line.waits_for_room) {
		while ((n = recv(fixture.other, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
			heard += (size_t)n;
		fixture.events = 0;
		otte_loop_run(&fixture.loop, 1000);
		assert_true(fixture.events & EPOLLOUT);
		assert_int_equal(otte_rdma_line_flush(&fixture.line), 0);
	}
	while ((n = recv(fixture.other, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		heard += (size_t)n;
	assert_int_equal(heard % said, 0);
	assert_true(heard / said > OTTE_FRAME_HEADER);
	tear_down(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_waits_for_the_thread),
		cmocka_unit_test(what_was_said_goes_before_the_end),
		cmocka_unit_test(a_line_on_which_nothing_can_be_sent_ends),
		cmocka_unit_test(what_has_no_room_goes_when_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
