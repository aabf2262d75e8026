/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

/* What one hook was given. */
struct record {
	unsigned count;
	enum otte_log_level level;
	char line[600];
};

static void note(void *arg, enum otte_log_level level, const char *line)
{
	struct record *record = arg;

	record->count++;
	record->level = level;
	snprintf(record->line, sizeof(record->line), "%s", line);
}

static int restore_silence(void **state)
{
	(void)state;
	return otte_log_set(NULL, NULL, OTTE_LOG_DEBUG);
}

static void a_hook_gets_messages_up_to_its_level(void **state)
{
	struct record record;
	int level, message;

	(void)state;
	for (level = OTTE_LOG_ERROR; level <= OTTE_LOG_DEBUG; level++) {
		assert_int_equal(otte_log_set(note, &record, (enum otte_log_level)level), 0);
		for (message = OTTE_LOG_ERROR; message <= OTTE_LOG_DEBUG; message++) {
			memset(&record, 0, sizeof(record));
			otte_log((enum otte_log_level)message, "lane %d of %s", 3, "h:1");
			assert_int_equal(record.count, message <= level);
			if (message > level)
				continue;
			assert_int_equal(record.level, message);
			assert_string_equal(record.line, "lane 3 of h:1");
		}
	}
}

static void fail_inside(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
	otte_fail(-EINVAL, "the hook's own");
}

static void a_hook_that_fails_leaves_the_error_text_as_it_was(void **state)
{
	(void)state;
	assert_int_equal(otte_log_set(fail_inside, NULL, OTTE_LOG_DEBUG), 0);
	otte_fail(-ECONNRESET, "a lane's");
	otte_log(OTTE_LOG_INFO, "a lane is down: %s", otte_error_text());
	assert_string_equal(otte_error_text(), "a lane's");
}

static void without_a_hook_there_is_silence(void **state)
{
	struct record record = { 0 };

	(void)state;
	otte_log(OTTE_LOG_ERROR, "nobody listens yet");
	otte_log_set(note, &record, OTTE_LOG_DEBUG);
	otte_log_set(NULL, &record, OTTE_LOG_DEBUG);
	otte_log(OTTE_LOG_ERROR, "nobody listens any more");
	assert_int_equal(record.count, 0);
}

static void another_hook_takes_the_place_of_the_first(void **state)
{
	struct record first = { 0 }, second = { 0 };

	(void)state;
	otte_log_set(note, &first, OTTE_LOG_DEBUG);
	otte_log_set(note, &second, OTTE_LOG_DEBUG);
	otte_log(OTTE_LOG_INFO, "once");
	assert_int_equal(first.count, 0);
	assert_int_equal(second.count, 1);
}

static void a_long_message_is_one_line_that_is_cut(void **state)
{
	struct record record = { 0 };
	char text[1000] = { 0 };

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	otte_log_set(note, &record, OTTE_LOG_DEBUG);
	otte_log(OTTE_LOG_INFO, "%s", text);
	assert_int_equal(record.count, 1);
	assert_int_equal(strlen(record.line), 511);
}

static void log_again_and_leave(void *arg, enum otte_log_level level, const char *line)
{
	unsigned *depth = arg;

	(void)level;
	(void)line;
	if (++*depth == 1)
		otte_log(OTTE_LOG_INFO, "from the hook");
	else
		otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
}

/* Any lock held around the hook would hang here; the alarm turns that into a failure. */
static void a_hook_may_log_and_set_another_hook(void **state)
{
	unsigned depth = 0;

	(void)state;
	alarm(20);
	otte_log_set(log_again_and_leave, &depth, OTTE_LOG_INFO);
	otte_log(OTTE_LOG_INFO, "first");
	otte_log(OTTE_LOG_INFO, "into silence");
	assert_int_equal(depth, 2);
	alarm(0);
}

/* ---- Many threads ---- */

enum { LOGGERS = 4, SETS = 20000 };

/* A hook with its argument and level: a message must never meet parts of two. */
struct pairing {
	enum otte_log_level level;
	char name;
	_Atomic unsigned torn;
	_Atomic unsigned lines;
};

static atomic_bool stop;

static void check(struct pairing *own, char name, enum otte_log_level level)
{
	if (own->name != name || level > own->level)
		own->torn++;
	own->lines++;
}

static void hook_a(void *arg, enum otte_log_level level, const char *line)
{
	(void)line;
	check(arg, 'a', level);
}

static void hook_b(void *arg, enum otte_log_level level, const char *line)
{
	(void)line;
	check(arg, 'b', level);
}

static void *log_until_stopped(void *arg)
{
	(void)arg;
	while (!stop) {
		otte_log(OTTE_LOG_ERROR, "an error");
		otte_log(OTTE_LOG_DEBUG, "detail");
	}
	return NULL;
}

static void hook_argument_and_level_change_together_under_load(void **state)
{
	struct pairing a = { .level = OTTE_LOG_ERROR, .name = 'a' };
	struct pairing b = { .level = OTTE_LOG_DEBUG, .name = 'b' };
	pthread_t threads[LOGGERS];
	int i;

	(void)state;
	stop = false;
	for (i = 0; i < LOGGERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, log_until_stopped, NULL), 0);
	for (i = 0; i < SETS || ((!a.lines || !b.lines) && i < 100 * SETS); i++) {
		otte_log_set(hook_a, &a, a.level);
		otte_log_set(hook_b, &b, b.level);
		if (i % 16 == 0)
			otte_log_set(NULL, NULL, OTTE_LOG_DEBUG);
	}
	stop = true;
	for (i = 0; i < LOGGERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_true(a.lines && b.lines);
	assert_int_equal(a.torn, 0);
	assert_int_equal(b.torn, 0);
}

static void ignore(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

/*
 * Forked while other threads log: no lock may be left taken by a thread that the child lacks. OTTE_TEST_SMALL: a few
 * times, for valgrind, which takes all its threads in turn until the one that forks is next.
 */
static void a_forked_child_can_log(void **state)
{
	const int forks = getenv("OTTE_TEST_SMALL") ? 20 : 300;
	pthread_t threads[LOGGERS];
	int i, status;
	pid_t pid;

	(void)state;
	stop = false;
	otte_log_set(ignore, NULL, OTTE_LOG_DEBUG);
	for (i = 0; i < LOGGERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, log_until_stopped, NULL), 0);
	for (i = 0; i < forks; i++) {
		pid = fork();
		assert_return_code(pid, errno);
		if (!pid) {
			alarm(20);
			otte_log(OTTE_LOG_ERROR, "from the child");
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	stop = true;
	for (i = 0; i < LOGGERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int run_log_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_hook_there_is_silence),
		cmocka_unit_test_teardown(a_hook_gets_messages_up_to_its_level, restore_silence),
		cmocka_unit_test_teardown(another_hook_takes_the_place_of_the_first,
					  restore_silence),
		cmocka_unit_test_teardown(a_hook_that_fails_leaves_the_error_text_as_it_was, restore_silence),
		cmocka_unit_test_teardown(a_long_message_is_one_line_that_is_cut, restore_silence),
		cmocka_unit_test_teardown(a_hook_may_log_and_set_another_hook, restore_silence),
		cmocka_unit_test_teardown(hook_argument_and_level_change_together_under_load,
					  restore_silence),
		cmocka_unit_test_teardown(a_forked_child_can_log, restore_silence),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
