/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Peers that lie, stop in the middle or never read, against one live source in a process of its own. A
 * good peer keeps transferring all the time: every transfer must succeed, none may take long, and the
 * source's memory must stay bounded.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "control/wire.h"
#include "side.h"

#define BYTES (32u << 20)
#define CONNECTIONS 32
#define KEYS "control.timeout_ms=1000 tcp.stall_timeout_ms=1000 control.connections=32"
/* The limits above, the second at most until they are looked at, and a busy machine. */
#define CUT_OFF_NS (10 * SECOND)
/* One transfer of the good peer, whatever happens beside it on two busy CPUs. */
#define SLOWEST_NS (4 * SECOND)
/* What all hostile peers together may cost the source, its own buffers included. */
#define RESIDENT_BYTES (8u << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* freed memory stays resident for a while */
#else
#define SANITIZED 0
#endif

/* ---- The source and the good peer ---- */

static struct remote source;
static int served_fd; /* the file behind its region */
static struct side good;
static pthread_t thread;
static _Atomic bool stop, broken;
static _Atomic uint64_t transfers, slowest_ns;
static uint64_t resident_before;

static void *be_good(void *arg)
{
	(void)arg;
	while (!stop) {
		uint64_t begun_ns = now_ns(), took_ns;

		if (!side_probe(&good))
			broken = true;
		took_ns = now_ns() - begun_ns;
		if (took_ns > slowest_ns)
			slowest_ns = took_ns;
		transfers++;
	}
	return NULL;
}

static int set_up(void **state)
{
	uint8_t *bytes;
	int fd;

	(void)state;
	bytes = share(&fd, BYTES);
	memset(bytes, 0x11, BYTES);
	inherit(fd);
	remote_start(&source, KEYS, fd, BYTES);
	munmap(bytes, BYTES);
	served_fd = fd;
	OK(side_open(&good, "deaf", -1, 1 << 20));
	OK(side_connect(&good, source.address, OTTE_EPOCH_ANY, source.region));
	assert_int_equal(side_run(&good, OTTE_READ, 0, 0, 1 << 20, 1).status.completed_prefix, 1);
	resident_before = resident_bytes(source.child.pid);
	stop = false;
	return pthread_create(&thread, NULL, be_good, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	stop = true;
	pthread_join(thread, NULL);
	OK(side_close(&good));
	child_end(&source.child);
	close(served_fd);
	return 0;
}

/* The good peer has got on since `before`, and the source has only it and is as small as it was. */
static void assert_unharmed(uint64_t before)
{
	uint64_t resident;

	assert_true(EVENTUALLY(transfers > before + 2));
	assert_false(broken);
	assert_in_range(slowest_ns, 0, SLOWEST_NS);
	assert_true(EVENTUALLY((child_ask(&source.child, "stats"),
				child_number(&source.child, "peers_in") == 1 &&
				child_number(&source.child, "lanes") == 2)));
	assert_int_equal(child_number(&source.child, "retained"), 0);
	resident = resident_bytes(source.child.pid);
	if (!SANITIZED)
		assert_in_range(resident, 0, resident_before + RESIDENT_BYTES);
	slowest_ns = 0;
}

/* ---- A hostile peer ---- */

static int dial(void)
{
	const struct timeval limit = { .tv_sec = CUT_OFF_NS / SECOND };
	struct sockaddr_in to = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_port = htons((uint16_t)atoi(strrchr(source.address, ':') + 1));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void say(int fd, const void *bytes, size_t size)
{
	/* It may have been cut off already. */
	if (send(fd, bytes, size, MSG_NOSIGNAL) < 0)
		assert_true(errno == EPIPE || errno == ECONNRESET || errno == EAGAIN);
}

static void say_frame(int fd, uint16_t type, uint32_t length, const void *payload, size_t size)
{
	const struct otte_frame frame = { .type = type, .length = length, .id = 1 };
	uint8_t header[OTTE_FRAME_HEADER];

	otte_frame_encode(&frame, header);
	say(fd, header, sizeof(header));
	if (size)
		say(fd, payload, size);
}

/* Whatever it still says, it hangs up in time. */
static void assert_cut_off(int fd)
{
	uint64_t begun_ns = now_ns();
	uint8_t bytes[4096];
	ssize_t n;

	do
		n = recv(fd, bytes, sizeof(bytes), 0);
	while (n > 0 && now_ns() - begun_ns < CUT_OFF_NS);
	assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
	assert_in_range(now_ns() - begun_ns, 0, CUT_OFF_NS);
	close(fd);
}

static struct otte_frame hear_frame(int fd, uint8_t *payload, size_t size)
{
	uint8_t header[OTTE_FRAME_HEADER];
	struct otte_frame frame;

	assert_int_equal(recv(fd, header, sizeof(header), MSG_WAITALL), sizeof(header));
	assert_int_equal(otte_frame_decode(header, (uint32_t)size, &frame), 0);
	if (frame.length)
		assert_int_equal(recv(fd, payload, frame.length, MSG_WAITALL), frame.length);
	return frame;
}

/* An honest hello; the session's id. */
static int open_session(uint64_t *session)
{
	struct otte_hello hello = { .identity = { .epoch = 77, .pid = 1, .name = "hostile" } };
	struct otte_welcome welcome;
	uint8_t bytes[4096];
	int fd = dial();
	ssize_t n;

	memset(hello.nonce, 5, sizeof(hello.nonce));
	memset(hello.identity.boot_id, 6, sizeof(hello.identity.boot_id));
	memset(hello.identity.incarnation, 7, sizeof(hello.identity.incarnation));
	n = otte_hello_encode(&hello, bytes, sizeof(bytes));
	say_frame(fd, OTTE_FRAME_HELLO, (uint32_t)n, bytes, (size_t)n);
	assert_int_equal(hear_frame(fd, bytes, sizeof(bytes)).type, OTTE_FRAME_WELCOME);
	assert_int_equal(otte_welcome_decode(bytes, OTTE_WELCOME_BYTES, &welcome), 0);
	assert_int_equal(hear_frame(fd, bytes, sizeof(bytes)).type, OTTE_FRAME_READY);
	*session = welcome.session;
	return fd;
}

static int say_lane(uint64_t session, uint64_t counter)
{
	const struct otte_lane_hello hello = { .session = session, .counter = counter };
	uint8_t bytes[OTTE_LANE_HELLO_BYTES];
	int fd = dial();

	otte_lane_hello_encode(&hello, bytes, sizeof(bytes));
	say_frame(fd, OTTE_FRAME_LANE, sizeof(bytes), bytes, sizeof(bytes));
	return fd;
}

static int open_lane(uint64_t session, uint64_t counter)
{
	int fd = say_lane(session, counter);
	uint8_t bytes[64];

	assert_int_equal(hear_frame(fd, bytes, sizeof(bytes)).type, OTTE_FRAME_LANE_READY);
	return fd;
}

static void say_request_to(int fd, uint64_t epoch, uint8_t op, uint64_t offset, uint64_t length)
{
	const struct otte_lane_request request = {
		.op = op, .id = 1, .epoch = epoch, .region = source.region,
		.offset = offset, .length = length,
	};
	uint8_t bytes[OTTE_LANE_REQUEST_BYTES];

	otte_lane_request_encode(&request, bytes);
	say(fd, bytes, sizeof(bytes));
}

static void say_request(int fd, uint8_t op, uint64_t offset, uint64_t length)
{
	say_request_to(fd, source.epoch, op, offset, length);
}

static void say_marked(int fd, uint8_t op, uint64_t offset, uint64_t length)
{
	const struct otte_lane_request request = {
		.op = op, .id = 1, .epoch = source.epoch, .region = source.region,
		.offset = offset, .length = length, .mark = { 0x1234, 0x5678 },
	};
	uint8_t bytes[OTTE_LANE_REQUEST_BYTES];

	otte_lane_request_encode(&request, bytes);
	say(fd, bytes, sizeof(bytes));
}

static struct otte_lane_answer hear_answer(int lane)
{
	uint8_t bytes[OTTE_LANE_ANSWER_BYTES];
	struct otte_lane_answer answer;

	assert_int_equal(recv(lane, bytes, sizeof(bytes), MSG_WAITALL), sizeof(bytes));
	assert_int_equal(otte_lane_answer_decode(bytes, &answer), 0);
	return answer;
}

static long long bad_frames(void)
{
	child_ask(&source.child, "stats");
	return child_number(&source.child, "bad_frames");
}

/* ---- The rules ---- */

static void garbage_is_cut_off_and_counted(void **state)
{
	uint64_t before = transfers, random = test_seed(31);
	long long bad = bad_frames();
	uint64_t bytes[512];
	unsigned i, k;
	int fd;

	(void)state;
	for (i = 0; i < 100; i++) {
		fd = dial();
		for (k = 0; k < 512; k++)
			bytes[k] = draw(&random);
		say(fd, bytes, 1 + (size_t)(draw(&random) % sizeof(bytes)));
		shutdown(fd, SHUT_WR);
		assert_cut_off(fd);
	}
	assert_true(bad_frames() >= bad + 90);
	assert_unharmed(before);
}

static void half_a_frame_and_nothing_at_all_are_cut_off_in_time(void **state)
{
	const struct otte_frame frame = { .type = OTTE_FRAME_HELLO, .length = OTTE_HELLO_BYTES };
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_HELLO_BYTES] = { 0 };
	uint64_t before = transfers;
	int fds[3] = { dial(), dial(), dial() };
	unsigned i;

	(void)state;
	otte_frame_encode(&frame, bytes);
	say(fds[1], bytes, OTTE_FRAME_HEADER / 2);
	say(fds[2], bytes, sizeof(bytes) - 1);
	for (i = 0; i < 3; i++)
		assert_cut_off(fds[i]);
	assert_unharmed(before);
}

static void a_huge_length_is_refused_before_memory_is_taken(void **state)
{
	uint64_t session, before = transfers;
	unsigned i;
	int fd;

	(void)state;
	for (i = 0; i < 20; i++) {
		fd = dial();
		say_frame(fd, OTTE_FRAME_HELLO, 0xfffffff0u, NULL, 0);
		assert_cut_off(fd);
		fd = open_session(&session);
		say_frame(fd, OTTE_FRAME_NOTIFY, 0x7fffffffu, NULL, 0);
		assert_cut_off(fd);
	}
	assert_unharmed(before);
}

static void garbage_after_a_right_hello_ends_that_session_only(void **state)
{
	uint64_t session, other, before = transfers;
	uint8_t bytes[256];
	int fd, lane, bystander;

	(void)state;
	bystander = open_session(&other);
	fd = open_session(&session);
	lane = open_lane(session, 1);
	memset(bytes, 0xff, sizeof(bytes));
	say(fd, bytes, sizeof(bytes));
	assert_cut_off(fd);
	/* Its lanes end with it. */
	assert_cut_off(lane);
	lane = open_lane(other, 1);
	say(lane, bytes, sizeof(bytes));
	assert_cut_off(lane);
	/* A broken lane is not the end of its session. */
	say_frame(bystander, OTTE_FRAME_PING, 0, NULL, 0);
	assert_int_equal(hear_frame(bystander, bytes, sizeof(bytes)).type, OTTE_FRAME_PONG);
	close(bystander);
	assert_unharmed(before);
}

static void a_lane_is_taken_once_and_only_for_a_session_that_exists(void **state)
{
	uint64_t session, before = transfers;
	int fd, lane;

	(void)state;
	fd = open_session(&session);
	lane = open_lane(session, 1);
	assert_cut_off(say_lane(session, 1));
	assert_cut_off(say_lane(session ^ 1, 2));
	assert_cut_off(say_lane(0, 1));
	close(fd);
	/* The session is over: its lanes end, and none can be added. */
	assert_cut_off(lane);
	assert_cut_off(say_lane(session, 2));
	assert_unharmed(before);
}

static void a_write_that_stops_after_its_header_frees_its_range_in_time(void **state)
{
	const uint64_t offset = 1 << 20, length = 1 << 20;
	uint64_t session, before = transfers;
	uint8_t answer[OTTE_LANE_ANSWER_BYTES];
	struct otte_lane_answer refused;
	int fd, lane, other;

	(void)state;
	fd = open_session(&session);
	lane = open_lane(session, 1);
	other = open_lane(session, 2);
	say_request(lane, OTTE_WRITE, offset, length);
	say(lane, answer, 1);
	/* Meanwhile the range is busy, for others too, and nothing beside it is. */
	do {
		say_request(other, OTTE_READ, offset + length - 1, 1);
		assert_int_equal(recv(other, answer, sizeof(answer), MSG_WAITALL), sizeof(answer));
		assert_int_equal(otte_lane_answer_decode(answer, &refused), 0);
		if (!refused.status)
			assert_int_equal(recv(other, answer, 1, 0), 1);
	} while (!refused.status);
	assert_int_equal(refused.status, -EBUSY);
	assert_cut_off(lane);
	say_request(other, OTTE_READ, offset, 1);
	assert_int_equal(recv(other, answer, sizeof(answer), MSG_WAITALL), sizeof(answer));
	assert_int_equal(otte_lane_answer_decode(answer, &refused), 0);
	assert_int_equal(refused.status, 0);
	close(other);
	close(fd);
	assert_unharmed(before);
}

/* Who has made sure to tell them apart is answered by bytes alone, or refused with its mark; nobody writes so. */
static void a_marked_read_is_answered_without_a_header(void **state)
{
	const uint64_t offset = 2 << 20, length = 1000;
	uint8_t plain[1000], marked[1000];
	struct otte_lane_answer answer;
	uint64_t session, before = transfers;
	long long bad;
	int fd, lane;
	unsigned i;

	(void)state;
	fd = open_session(&session);
	lane = open_lane(session, 1);
	say_request(lane, OTTE_READ, offset, length);
	assert_int_equal(hear_answer(lane).status, 0);
	assert_int_equal(recv(lane, plain, length, MSG_WAITALL), length);
	for (i = 0; i < 3; i++) {
		memset(marked, 0, sizeof(marked));
		say_marked(lane, OTTE_READ, offset, length);
		assert_int_equal(recv(lane, marked, length, MSG_WAITALL), length);
		assert_memory_equal(marked, plain, length);
		say_marked(lane, OTTE_READ, UINT64_MAX, length);
		answer = hear_answer(lane);
		assert_int_equal(answer.status, -ERANGE);
		assert_int_equal(answer.mark[0], 0x1234);
		assert_int_equal(answer.mark[1], 0x5678);
	}
	say_request(lane, OTTE_READ, UINT64_MAX, length);
	answer = hear_answer(lane);
	assert_int_equal(answer.mark[0] | answer.mark[1], 0);
	bad = bad_frames();
	say_marked(lane, OTTE_WRITE, offset, length);
	assert_cut_off(lane);
	assert_int_equal(bad_frames(), bad + 1);
	close(fd);
	assert_unharmed(before);
}

static void a_request_of_another_epoch_is_stale_and_moves_nothing(void **state)
{
	const uint64_t offset = 3 << 20, length = 4096;
	uint64_t session, before = transfers;
	uint8_t bytes[4096];
	int fd, lane;
	unsigned i;

	(void)state;
	fd = open_session(&session);
	lane = open_lane(session, 1);
	for (i = 0; i < 2; i++) {
		const uint64_t epoch = i ? source.epoch + 1 : 0;

		say_request_to(lane, epoch, OTTE_READ, offset, length);
		assert_int_equal(hear_answer(lane).status, -ESTALE);
		say_request_to(lane, epoch, OTTE_WRITE, offset, length);
		memset(bytes, 0xee, sizeof(bytes));
		say(lane, bytes, length);
		assert_int_equal(hear_answer(lane).status, -ESTALE);
	}
	say_request(lane, OTTE_READ, offset, length);
	assert_int_equal(hear_answer(lane).status, 0);
	assert_int_equal(recv(lane, bytes, length, MSG_WAITALL), length);
	for (i = 0; i < length; i++)
		assert_int_equal(bytes[i], 0x11);
	close(lane);
	close(fd);
	assert_unharmed(before);
}

/* The answer's header has promised more than there is: only the end of that lane can take it back. */
static void a_file_cut_off_in_the_middle_of_an_answer_costs_that_lane_only(void **state)
{
	const uint64_t offset = 4 << 20, length = BYTES - (4 << 20);
	uint64_t session, got = 0, before = transfers;
	static uint8_t bytes[1 << 20];
	int fd, lane, other;
	ssize_t n;

	(void)state;
	fd = open_session(&session);
	lane = open_lane(session, 1);
	other = open_lane(session, 2);
	say_request(lane, OTTE_READ, offset, length);
	assert_int_equal(hear_answer(lane).status, 0);
	/* It has sent what the sockets hold, and waits. */
	usleep(100000);
	assert_int_equal(ftruncate(served_fd, (off_t)offset), 0);
	while ((n = recv(lane, bytes, sizeof(bytes), 0)) > 0)
		got += (uint64_t)n;
	assert_true(n == 0 || errno == ECONNRESET);
	assert_true(got < length);
	close(lane);
	say_request(other, OTTE_READ, offset, length);
	assert_int_equal(hear_answer(other).status, -ESTALE);
	say_request(other, OTTE_READ, 0, 1);
	assert_int_equal(hear_answer(other).status, 0);
	assert_int_equal(recv(other, bytes, 1, 0), 1);
	assert_int_equal(ftruncate(served_fd, BYTES), 0);
	close(other);
	close(fd);
	assert_unharmed(before);
}

static void one_who_does_not_read_what_it_asked_for_is_cut_off(void **state)
{
	uint64_t session, before = transfers;
	unsigned i, k;
	int fd, lanes[8];

	(void)state;
	fd = open_session(&session);
	for (i = 0; i < 8; i++) {
		lanes[i] = open_lane(session, i + 1);
		for (k = 0; k < 16; k++)
			say_request(lanes[i], OTTE_READ, 2 << 20, 24 << 20);
	}
	/* The source ends them by itself; what it had sent before may still be there to read. */
	assert_true(EVENTUALLY((child_ask(&source.child, "stats"),
				child_number(&source.child, "lanes") == 2)));
	for (i = 0; i < 8; i++)
		close(lanes[i]);
	close(fd);
	assert_unharmed(before);
}

static void one_who_does_not_read_answers_is_cut_off(void **state)
{
	static const uint8_t after[8];
	uint64_t session, before = transfers, begun_ns = now_ns();
	ssize_t sent = 0;
	int fd;

	(void)state;
	fd = open_session(&session);
	/* More and more answers than the sockets and the source's own limit hold, however far behind it is. */
	while (sent >= 0 && now_ns() - begun_ns < 30 * SECOND) {
		uint8_t bytes[OTTE_FRAME_HEADER + sizeof(after)] = { 0 };
		const struct otte_frame frame = {
			.type = OTTE_FRAME_DESCRIBE, .length = sizeof(after), .id = 1,
		};

		otte_frame_encode(&frame, bytes);
		sent = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
	}
	assert_true(sent < 0);
	assert_true(errno == EPIPE || errno == ECONNRESET);
	close(fd);
	assert_unharmed(before);
}

/* It hangs up in time; true: not without a reason, which is `status`. */
static bool is_told(int fd, int status)
{
	uint8_t header[OTTE_FRAME_HEADER];
	struct otte_frame frame;
	bool told;

	told = recv(fd, header, sizeof(header), MSG_WAITALL) == sizeof(header) &&
	       otte_frame_decode(header, 4096, &frame) == 0 && frame.type == OTTE_FRAME_ERROR &&
	       frame.status == status && frame.length > 0;
	assert_cut_off(fd);
	return told;
}

static void a_flood_of_connections_stops_at_the_limit_and_passes(void **state)
{
	uint64_t before = transfers;
	int fds[4 * CONNECTIONS];
	unsigned i, told = 0;
	struct side late;

	(void)state;
	for (i = 0; i < 4 * CONNECTIONS; i++)
		fds[i] = dial();
	child_ask(&source.child, "stats");
	assert_in_range(child_number(&source.child, "fds"), 0, CONNECTIONS + 64);
	for (i = 0; i < 4 * CONNECTIONS; i++)
		told += is_told(fds[i], -EDQUOT);
	/* Some were let in and then had nothing to say; to the others it was said why not. */
	assert_in_range(told, CONNECTIONS, 4 * CONNECTIONS - 1);
	/* A newcomer is welcome again. */
	OK(side_open(&late, "deaf", -1, 1 << 20));
	OK(side_connect(&late, source.address, OTTE_EPOCH_ANY, source.region));
	assert_int_equal(side_run(&late, OTTE_READ, 0, 1 << 20, 4096, 1).status.completed_prefix, 1);
	OK(side_close(&late));
	assert_unharmed(before);
}

/* Sends `bytes` again and again until it is cut off or told to stop; throws away what comes back. */
struct talker {
	pthread_t thread;
	int fd;
	uint8_t bytes[65536];
	size_t size;
	_Atomic bool stop;
};

static void *talk(void *arg)
{
	struct talker *talker = arg;
	size_t sent = 0;
	ssize_t n;

	while (!talker->stop) {
		n = send(talker->fd, talker->bytes + sent, talker->size - sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			sent = (sent + (size_t)n) % talker->size;
		else if (errno != EAGAIN)
			break;
		while (recv(talker->fd, NULL, 1 << 20, MSG_DONTWAIT | MSG_TRUNC) > 0)
			;
	}
	return NULL;
}

static void two_who_never_stop_talking_leave_others_their_turn(void **state)
{
	static struct talker pinger, writer;
	const struct otte_frame ping = { .type = OTTE_FRAME_PING, .id = 1 };
	uint64_t session, before;
	size_t i;

	(void)state;
	pinger.fd = open_session(&session);
	writer.fd = open_lane(session, 1);
	for (i = 0; i + OTTE_FRAME_HEADER <= sizeof(pinger.bytes); i += OTTE_FRAME_HEADER)
		otte_frame_encode(&ping, pinger.bytes + i);
	pinger.size = i;
	/* Refused, with a payload that never ends. */
	say_request(writer.fd, OTTE_WRITE, 0, INT64_MAX);
	writer.size = sizeof(writer.bytes);
	before = transfers;
	slowest_ns = 0;
	assert_int_equal(pthread_create(&pinger.thread, NULL, talk, &pinger), 0);
	assert_int_equal(pthread_create(&writer.thread, NULL, talk, &writer), 0);
	assert_true(EVENTUALLY(transfers > before + 50));
	pinger.stop = writer.stop = true;
	pthread_join(pinger.thread, NULL);
	pthread_join(writer.thread, NULL);
	close(writer.fd);
	close(pinger.fd);
	assert_unharmed(before);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(garbage_is_cut_off_and_counted),
		cmocka_unit_test(half_a_frame_and_nothing_at_all_are_cut_off_in_time),
		cmocka_unit_test(a_huge_length_is_refused_before_memory_is_taken),
		cmocka_unit_test(garbage_after_a_right_hello_ends_that_session_only),
		cmocka_unit_test(a_lane_is_taken_once_and_only_for_a_session_that_exists),
		cmocka_unit_test(a_write_that_stops_after_its_header_frees_its_range_in_time),
		cmocka_unit_test(a_marked_read_is_answered_without_a_header),
		cmocka_unit_test(a_request_of_another_epoch_is_stale_and_moves_nothing),
		cmocka_unit_test(a_file_cut_off_in_the_middle_of_an_answer_costs_that_lane_only),
		cmocka_unit_test(one_who_does_not_read_what_it_asked_for_is_cut_off),
		cmocka_unit_test(one_who_does_not_read_answers_is_cut_off),
		cmocka_unit_test(two_who_never_stop_talking_leave_others_their_turn),
		cmocka_unit_test(a_flood_of_connections_stops_at_the_limit_and_passes),
	};
	int status;

	if (side_role(argc, argv, &status))
		return status;
	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("hostile", tests, set_up, tear_down);
}
