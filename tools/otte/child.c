/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "pin.h"
#include "tool.h"

#define READY_TIMEOUT_NS (60 * NSEC_PER_SEC) /* it may fill its memory first */
#define STOP_STEP_US 5000

void child_arg(struct child_args *args, const char *arg)
{
	if (args->count < CHILD_ARGS_MAX)
		args->argv[args->count] = arg;
	args->count++;
}

void child_common_args(struct child_args *args, const struct common *common)
{
	static const char *const levels[] = { "error", "warning", "info", "debug" };
	size_t i;

	if (common->config_file) {
		child_arg(args, "--config");
		child_arg(args, common->config_file);
	}
	for (i = 0; i < common->set_count; i++) {
		child_arg(args, "--set");
		child_arg(args, common->sets[i]);
	}
	if (common->key_file) {
		child_arg(args, "--key-file");
		child_arg(args, common->key_file);
	}
	child_arg(args, "--log-level");
	child_arg(args, levels[common->log_level]);
}

/* In the new process. Through the file's own name, which is what ps shows. */
static void become(const struct child_args *args, int cpu, pid_t parent)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* A signal of the terminal's is for the first one, which ends this one: else it might see this one go first. */
	setpgid(0, 0);
	if (getppid() != parent || pin_to(cpu))
		_exit(EXIT_LOCAL);
	if (nowhere >= 0)
		dup2(nowhere, STDOUT_FILENO);
	if (length > 0) {
		path[length] = '\0';
		execv(path, (char *const *)args->argv);
	}
	_exit(EXIT_LOCAL);
}

/* The endpoint is one line. */
static int read_endpoint(int fd, char *endpoint, size_t size)
{
	uint64_t end = otte_now_ns() + READY_TIMEOUT_NS, now;
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	size_t used = 0;
	ssize_t got;

	while (used + 1 < size) {
		now = otte_now_ns();
		if (now >= end || poll(&ready, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) == 0)
			return -ETIMEDOUT;
		got = read(fd, endpoint + used, size - 1 - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EPIPE;
		used += (size_t)got;
		if (endpoint[used - 1] == '\n') {
			endpoint[used - 1] = '\0';
			return 0;
		}
	}
	return -EPROTO;
}

static int spawn(struct child *child, struct child_args *args, int cpu, int ready)
{
	pid_t parent = getpid();
	char fd[16];

	snprintf(fd, sizeof(fd), "%d", ready);
	child_arg(args, "--ready-fd");
	child_arg(args, fd);
	if (args->count > CHILD_ARGS_MAX)
		return complain(EXIT_USAGE, "too many --set for the second process");
	args->argv[args->count] = NULL;
	child->pid = fork();
	if (child->pid < 0)
		return complain(EXIT_LOCAL, "fork: %s", strerror(errno));
	if (child->pid == 0)
		become(args, cpu, parent);
	return EXIT_OK;
}

int child_start(struct child *child, struct child_args *args, int cpu)
{
	int ready[2], rc;

	child->pid = -1;
	/* The writing end is for the child alone, which gets it over exec. */
	if (pipe2(ready, O_CLOEXEC) || fcntl(ready[1], F_SETFD, 0))
		return complain(EXIT_LOCAL, "pipe: %s", strerror(errno));
	rc = spawn(child, args, cpu, ready[1]);
	close(ready[1]);
	if (!rc) {
		rc = read_endpoint(ready[0], child->endpoint, sizeof(child->endpoint));
		if (rc) {
			child_stop(child, CHILD_STOP_NS);
			rc = complain(EXIT_LOCAL, "the second process did not start: %s",
				      rc == -EPIPE ? "it ended" : strerror(-rc));
		}
	}
	close(ready[0]);
	return rc;
}

void child_stop(struct child *child, uint64_t limit_ns)
{
	uint64_t end = otte_now_ns() + limit_ns;

	if (child->pid <= 0)
		return;
	kill(child->pid, SIGTERM);
	while (waitpid(child->pid, NULL, WNOHANG) == 0) {
		if (otte_now_ns() >= end) {
			warn_user("the second process did not end on SIGTERM");
			kill(child->pid, SIGKILL);
			waitpid(child->pid, NULL, 0);
			break;
		}
		usleep(STOP_STEP_US);
	}
	child->pid = -1;
}
