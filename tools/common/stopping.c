/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stopping.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t count;
static volatile sig_atomic_t exit_code = -1; /* not -1: end with it */
static char last_words[64];
static int wake_up[2] = { -1, -1 };
static pid_t begun_by;

/* Of a signal handler, too. A process that was forked since, whom the terminal tells as well, says nothing. */
static void end_now(int code)
{
	ssize_t written = 0;

	if (getpid() == begun_by)
		written = write(STDERR_FILENO, last_words, strlen(last_words));
	(void)written;
	_exit(code);
}

static void note(int number)
{
	int saved = errno;
	ssize_t written;

	(void)number;
	if (exit_code != -1)
		end_now(exit_code);
	count++;
	written = write(wake_up[1], "", 1);
	(void)written; /* a full pipe wakes up too */
	errno = saved;
}

int stopping_begin(void)
{
	struct sigaction action, before;

	begun_by = getpid();
	if (pipe2(wake_up, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	memset(&action, 0, sizeof(action));
	action.sa_handler = note;
	action.sa_flags = SA_RESTART;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGINT, &action, NULL) || sigaction(SIGTERM, &action, NULL) ||
	    sigaction(SIGHUP, NULL, &before))
		return -errno;
	/* Under nohup the end of the terminal is no reason. */
	if (before.sa_handler != SIG_IGN && sigaction(SIGHUP, &action, NULL))
		return -errno;
	return 0;
}

/* A line that is drawn over and over on a terminal makes way, as for any message. Said before each write of a pull. */
void stopping_ends_us(const char *who, int code)
{
	static int terminal = -1; /* not asked yet */

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	snprintf(last_words, sizeof(last_words), "%s%s: interrupted\n", terminal ? "\r\033[K" : "", who);
	exit_code = code;
	if (count)
		end_now(code);
}

void stopping_is_noted(void)
{
	exit_code = -1;
}

int stopping_count(void)
{
	return count;
}

int stopping_descriptor(void)
{
	return wake_up[0];
}

void stopping_wait(int seen)
{
	struct pollfd woken = { .fd = wake_up[0], .events = POLLIN };
	char drain[16];
	ssize_t got;

	while (count <= seen) {
		poll(&woken, 1, -1);
		got = read(wake_up[0], drain, sizeof(drain));
		(void)got;
	}
}
