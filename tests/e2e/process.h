/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processes that tests start, talk to and kill.
 *
 * A test program execs itself with a role's name as its first argument; the role reads one command a
 * line from its standard input and answers each with one line. A child dies with its parent.
 */
#ifndef OTTE_TESTS_PROCESS_H
#define OTTE_TESTS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define SECOND 1000000000ll
#define MS 1000000ll

/* Fails the test, or ends the process where none runs, with a line that says what went wrong. */
#define MUST(condition, ...) \
	do { \
		if (!(condition)) \
			must_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
	} while (0)
/* A call of the library that must return 0. */
#define OK(call) MUST((call) == 0, "%s", otte_error_text())

void must_fail(const char *file, int line, const char *condition, const char *format, ...)
	__attribute__((format(printf, 4, 5), noreturn));

struct child {
	pid_t pid;
	FILE *to, *from;
	char line[1024];
};

/* Arguments up to NULL. The child inherits `keep` (-1: nothing) beside its standard streams. */
void child_start(struct child *child, int keep, const char *role, ...);
/* Send a command line; the answer is in child->line. */
void child_tell(struct child *child, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
const char *child_hear(struct child *child);
const char *child_ask(struct child *child, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* A number that stands behind "NAME " in the last line. */
long long child_number(const struct child *child, const char *name);
/* SIGKILL and wait. Nothing if it is gone already. */
void child_kill(struct child *child);
void child_signal(struct child *child, int signal);
/* Close its input and wait: it must exit with status 0 by itself. */
void child_end(struct child *child);

/* What processes of one test share. */
void *share(int *fd, size_t size);
void share_end(void *at, int fd, size_t size);
void *map_shared(int fd, size_t size);
/* Children started from now on have `fd`. */
void inherit(int fd);
uint64_t now_ns(void);
/* Until `condition` or half a minute has passed; true: it holds. */
#define EVENTUALLY(condition) \
	({ \
		uint64_t until_ns_ = now_ns() + 30 * SECOND; \
		bool holds_; \
		while (!(holds_ = (condition)) && now_ns() < until_ns_) \
			nap(); \
		holds_; \
	})
void nap(void);
unsigned count_fds(void);
/* Resident bytes of a process that it shares with nobody. */
uint64_t resident_bytes(pid_t pid);

/* A small generator with a seed that a test prints (OTTE_TEST_SEED sets it). */
uint64_t test_seed(uint64_t fixed);
uint64_t draw(uint64_t *state);
/* From `low` to `high`. */
uint64_t draw_between(uint64_t *state, uint64_t low, uint64_t high);

#endif
