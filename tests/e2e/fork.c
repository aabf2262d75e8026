/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fork() in the middle of transfers: the child gets errors and holds nothing, the parent goes on, and
 * the parent's death is seen although its child lives.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "side.h"

#define BYTES (16u << 20)
/* From a kill to the report of it. */
#define REPORT_NS (3 * SECOND)

/* ---- What a child may do: nothing ---- */

static struct side forked;
static struct otte_block_list *forked_list;

struct answer {
	const char *call;
	int code;
};

#define ANSWER(call) { #call, call }

/* How many calls did not answer -EOWNERDEAD. */
static int try_everything(void)
{
	struct otte_stats stats = { .size = sizeof(stats) };
	struct otte_peer_info info = { .size = sizeof(info) };
	struct otte_request request = side_request(&forked, OTTE_READ, 0, 0, 1);
	struct otte_region_desc desc = { .mem = forked.mem, .length = 1 };
	struct otte_block block = { 0 };
	struct otte_region_info row;
	struct otte_batch_status status;
	struct otte_notification notification;
	struct otte_failure failure;
	struct otte_segment *segment;
	struct otte_block_list *list;
	struct otte_region *region = forked.region;
	struct otte_batch *batch;
	struct otte_task task;
	struct otte_mem *mem;
	char text[OTTE_DESCRIPTOR_MAX];
	size_t count;
	const struct answer answers[] = {
		ANSWER(otte_engine_close(forked.engine, OTTE_CLOSE_SOURCE, 0, NULL)),
		ANSWER(otte_engine_address(forked.engine, text, sizeof(text))),
		ANSWER(otte_engine_descriptor(forked.engine, text, sizeof(text))),
		ANSWER(otte_engine_stats(forked.engine, &stats)),
		ANSWER(otte_mem_alloc(forked.engine, 4096, 0, &mem)),
		ANSWER(otte_mem_adopt(forked.engine, text, sizeof(text), &mem)),
		ANSWER(otte_mem_map_file(forked.engine, 0, 0, 0, 0, &mem)),
		ANSWER(otte_region_register(forked.engine, &desc, 1, &region)),
		ANSWER(otte_segment_open(forked.engine, "127.0.0.1:1", 0, SECOND, &segment)),
		ANSWER(otte_segment_describe(forked.segment, SECOND, &row, 1, &count)),
		ANSWER(otte_segment_peer(forked.segment, &info)),
		ANSWER(otte_segment_stats(forked.segment, SECOND, &stats)),
		ANSWER(otte_batch_create(forked.engine, 1, &batch)),
		ANSWER(otte_batch_submit(forked.batch, &request, 1)),
		ANSWER(otte_batch_wait(forked.batch, -1)),
		ANSWER(otte_batch_poll(forked.batch, &status)),
		ANSWER(otte_batch_eventfd(forked.batch)),
		ANSWER(otte_batch_task(forked.batch, 0, &task)),
		ANSWER(otte_batch_failure(forked.batch, &failure)),
		ANSWER(otte_batch_cancel(forked.batch)),
		ANSWER(otte_batch_reset(forked.batch)),
		ANSWER(otte_block_list_create(forked.engine, &request, &block, 1, &list)),
		ANSWER(otte_batch_submit_blocks(forked.batch, forked_list, 0, 1)),
		ANSWER(otte_notify(forked.segment, NULL, "x", 1)),
		ANSWER(otte_notify(forked.segment, forked.batch, "x", 1)),
		ANSWER(otte_notification_next(forked.engine, &notification)),
		ANSWER(otte_notification_eventfd(forked.engine)),
		ANSWER(otte_block_list_destroy(forked_list)),
		ANSWER(otte_batch_destroy(forked.batch)),
		ANSWER(otte_segment_close(forked.segment)),
		ANSWER(otte_region_unregister(&region, 1, SECOND, NULL)),
		ANSWER(otte_mem_release(forked.mem)),
		ANSWER(otte_engine_destroy(forked.engine)),
	};
	int wrong = 0;
	size_t i;

	for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		if (answers[i].code == -EOWNERDEAD)
			continue;
		fprintf(stderr, "in the child: %d from %s\n", answers[i].code, answers[i].call);
		wrong++;
	}
	return wrong;
}

/* Sockets and epoll sets among this process's descriptors. */
static int count_sockets(void)
{
	char path[300], target[256];
	struct dirent *entry;
	int found = 0;
	DIR *dir;

	dir = opendir("/proc/self/fd");
	while (dir && (entry = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (!strncmp(target, "socket:", 7) || strstr(target, "[event"))
			found++;
	}
	if (dir)
		closedir(dir);
	return found;
}

static int wait_for(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void open_forked(struct remote *source)
{
	struct otte_request request;
	struct otte_block block = { 0 };

	remote_start(source, "", -1, BYTES);
	OK(side_open(&forked, "", -1, BYTES));
	OK(side_connect(&forked, source->address, OTTE_EPOCH_ANY, source->region));
	request = side_request(&forked, OTTE_READ, 0, 0, 1);
	OK(otte_block_list_create(forked.engine, &request, &block, 1, &forked_list));
}

static void close_forked(struct remote *source)
{
	OK(otte_block_list_destroy(forked_list));
	OK(side_close(&forked));
	child_end(&source->child);
}

static void every_call_in_a_child_says_owner_dead_and_the_parents_transfer_completes(void **state)
{
	struct otte_batch_status status;
	struct remote source;
	struct outcome outcome;
	unsigned round, bytes = BYTES / 64;
	int sockets = count_sockets();
	pid_t pid;

	(void)state;
	open_forked(&source);
	for (round = 0; round < 10; round++) {
		fill(forked.bytes, BYTES, (uint8_t)round);
		outcome = side_run(&forked, OTTE_WRITE, 0, 0, bytes, 64);
		assert_int_equal(outcome.status.completed_prefix, 64);
		memset(forked.bytes, 0, BYTES);
		OK(side_submit(&forked, OTTE_READ, 0, 0, bytes, 64));
		OK(otte_batch_poll(forked.batch, &status));
		fflush(NULL);
		pid = fork();
		assert_true(pid >= 0);
		if (!pid) {
			alarm(30);
			_exit(try_everything() + count_sockets() - sockets);
		}
		outcome = side_wait(&forked, 20 * SECOND);
		assert_int_equal(outcome.code, 0);
		assert_int_equal(outcome.status.completed_prefix, 64);
		assert_true(filled(forked.bytes, BYTES, (uint8_t)round));
		assert_int_equal(wait_for(pid), 0);
		assert_true(side_probe(&forked));
	}
	close_forked(&source);
}

static int transfer_on_its_own(const struct remote *source)
{
	struct side own;

	alarm(30);
	if (side_open(&own, "deaf", -1, 1 << 20) ||
	    side_connect(&own, source->address, OTTE_EPOCH_ANY, source->region))
		return 1;
	if (!side_probe(&own))
		return 2;
	return side_close(&own) ? 3 : 0;
}

static void a_child_may_have_an_engine_of_its_own(void **state)
{
	struct remote source;
	pid_t pid;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* which ends a child that starts threads after a fork of several */
#endif
	open_forked(&source);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(transfer_on_its_own(&source));
	assert_int_equal(wait_for(pid), 0);
	assert_true(side_probe(&forked));
	close_forked(&source);
}

/* ---- A parent that dies before its child ---- */

/* Opens, forks a child that does nothing and says its number, once the child is out of fork(). */
static int forker_main(char **argv)
{
	struct side side;
	char line[16];
	int out[2];
	pid_t pid;

	MUST(pipe(out) == 0, "%m");
	OK(side_open(&side, "", -1, BYTES));
	if (strcmp(argv[0], "-"))
		OK(side_connect(&side, argv[0], OTTE_EPOCH_ANY, strtoull(argv[1], NULL, 0)));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		alarm(60);
		MUST(write(out[1], "", 1) == 1, "%m");
		for (;;)
			pause();
	}
	MUST(read(out[0], line, 1) == 1, "%m");
	printf("ready address %s region %lu child %d\n", side.address,
	       (unsigned long)otte_region_id(side.region), pid);
	while (fgets(line, sizeof(line), stdin))
		;
	kill(pid, SIGKILL);
	OK(side_close(&side));
	return 0;
}

static pid_t start_forker(struct child *forker, const char *address, uint64_t region)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu", (unsigned long)region);
	child_start(forker, -1, "forker", address, text, (char *)NULL);
	child_hear(forker);
	return (pid_t)child_number(forker, "child");
}

static void a_dead_source_is_lost_at_once_although_its_forked_child_lives(void **state)
{
	char address[OTTE_ADDRESS_MAX];
	struct child forker;
	struct side side;
	struct outcome outcome;
	uint64_t killed_ns, region;
	pid_t pid;

	(void)state;
	pid = start_forker(&forker, "-", 0);
	assert_int_equal(sscanf(forker.line, "ready address %255s region %lu", address, &region), 2);
	OK(side_open(&side, "deaf", -1, BYTES));
	OK(side_connect(&side, address, OTTE_EPOCH_ANY, region));
	assert_true(side_probe(&side));
	child_signal(&forker, SIGSTOP);
	OK(side_submit(&side, OTTE_READ, 0, 0, 1 << 20, 16));
	killed_ns = now_ns();
	child_kill(&forker);
	outcome = side_wait(&side, 20 * SECOND);
	assert_int_equal(outcome.code, 0);
	assert_int_equal(outcome.failure.code, -ECONNRESET);
	assert_in_range(now_ns() - killed_ns, 0, REPORT_NS);
	assert_int_equal(kill(pid, 0), 0);
	/* Nor does the child keep the address. */
	side_disconnect(&side);
	assert_int_equal(side_connect(&side, address, OTTE_EPOCH_ANY, region), -ECONNREFUSED);
	kill(pid, SIGKILL);
	OK(side_close(&side));
}

static void a_dead_requester_is_gone_at_once_although_its_forked_child_lives(void **state)
{
	struct child forker;
	struct side side;
	uint64_t killed_ns;
	pid_t pid;

	(void)state;
	OK(side_open(&side, "", -1, BYTES));
	pid = start_forker(&forker, side.address, otte_region_id(side.region));
	assert_int_equal(side_stats(&side).peers_in, 1);
	killed_ns = now_ns();
	child_kill(&forker);
	assert_true(EVENTUALLY(!side_stats(&side).peers_in && !side_stats(&side).lanes));
	assert_in_range(now_ns() - killed_ns, 0, REPORT_NS);
	assert_int_equal(kill(pid, 0), 0);
	kill(pid, SIGKILL);
	OK(side_close(&side));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_in_a_child_says_owner_dead_and_the_parents_transfer_completes),
		cmocka_unit_test(a_child_may_have_an_engine_of_its_own),
		cmocka_unit_test(a_dead_source_is_lost_at_once_although_its_forked_child_lives),
		cmocka_unit_test(a_dead_requester_is_gone_at_once_although_its_forked_child_lives),
	};
	int status;

	if (side_role(argc, argv, &status))
		return status;
	if (argc == 4 && strcmp(argv[1], "forker") == 0) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		return forker_main(argv + 2);
	}
	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
