/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stopping.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t count;
static int wake_up[2] = { -1, -1 };

static void note(int number)
{
	int saved = errno;
	ssize_t written;

	(void)number;
	count++;
	written = write(wake_up[1], "", 1);
	(void)written; /* a full pipe wakes up too */
	errno = saved;
}

int stopping_begin(void)
{
	struct sigaction action, before;

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
