/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS_MAX 16

void must_fail(const char *file, int line, const char *condition, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: not so: %s: ", file, line, condition);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	fflush(NULL);
	abort();
}

static void become(char *const *argv, int input, int output, int keep)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0)
		_exit(126);
	if (keep >= 0)
		fcntl(keep, F_SETFD, 0);
	execv("/proc/self/exe", argv);
	_exit(127);
}

void child_start(struct child *child, int keep, const char *role, ...)
{
	char *argv[ARGUMENTS_MAX] = { "peer", (char *)role };
	int in[2], out[2], argc = 2;
	va_list args;

	va_start(args, role);
	while (argc < ARGUMENTS_MAX - 1 && (argv[argc] = va_arg(args, char *)))
		argc++;
	va_end(args);
	argv[argc] = NULL;
	MUST(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "%m");
	child->pid = fork();
	MUST(child->pid >= 0, "%m");
	if (!child->pid)
		become(argv, in[0], out[1], keep);
	close(in[0]);
	close(out[1]);
	child->to = fdopen(in[1], "w");
	child->from = fdopen(out[0], "r");
	MUST(child->to && child->from, "%m");
	setvbuf(child->to, NULL, _IOLBF, 0);
}

void child_tell(struct child *child, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(child->to, format, args);
	va_end(args);
	fputc('\n', child->to);
	fflush(child->to);
}

const char *child_hear(struct child *child)
{
	MUST(fgets(child->line, sizeof(child->line), child->from), "process %d is silent", child->pid);
	child->line[strcspn(child->line, "\n")] = '\0';
	return child->line;
}

const char *child_ask(struct child *child, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(child->to, format, args);
	va_end(args);
	fputc('\n', child->to);
	fflush(child->to);
	return child_hear(child);
}

long long child_number(const struct child *child, const char *name)
{
	size_t length = strlen(name);
	const char *at = child->line;

	while ((at = strstr(at, name))) {
		if ((at == child->line || at[-1] == ' ') && at[length] == ' ')
			return strtoll(at + length + 1, NULL, 0);
		at += length;
	}
	MUST(at, "no %s in \"%s\"", name, child->line);
	return 0;
}

static int reap(struct child *child)
{
	int status;

	MUST(waitpid(child->pid, &status, 0) == child->pid, "%m");
	fclose(child->to);
	fclose(child->from);
	child->pid = 0;
	return status;
}

void child_kill(struct child *child)
{
	if (!child->pid)
		return;
	kill(child->pid, SIGKILL);
	reap(child);
}

void child_signal(struct child *child, int signal)
{
	MUST(kill(child->pid, signal) == 0, "%m");
	/* Only when it is told has every thread stopped. */
	if (signal == SIGSTOP)
		MUST(waitpid(child->pid, NULL, WUNTRACED) == child->pid, "%m");
}

void child_end(struct child *child)
{
	FILE *to = child->to;
	int status;

	/* The write end alone: the child's last words are of no interest, its status is. */
	child->to = fopen("/dev/null", "w");
	fclose(to);
	status = reap(child);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child's status is 0x%x", status);
}

void *map_shared(int fd, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	MUST(at != MAP_FAILED, "%m");
	return at;
}

void *share(int *fd, size_t size)
{
	*fd = memfd_create("otte-test", MFD_CLOEXEC);
	MUST(*fd >= 0 && ftruncate(*fd, (off_t)size) == 0, "%m");
	return map_shared(*fd, size);
}

void share_end(void *at, int fd, size_t size)
{
	munmap(at, size);
	close(fd);
}

void inherit(int fd)
{
	MUST(fcntl(fd, F_SETFD, 0) == 0, "%m");
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

void nap(void)
{
	const struct timespec step = { .tv_nsec = 1 * MS };

	nanosleep(&step, NULL);
}

unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	MUST(dir, "%m");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* . and .. and the directory itself */
}

uint64_t resident_bytes(pid_t pid)
{
	unsigned long kib = 0;
	char line[256];
	FILE *file;

	snprintf(line, sizeof(line), "/proc/%d/status", pid);
	file = fopen(line, "r");
	MUST(file, "%s: %m", line);
	while (!kib && fgets(line, sizeof(line), file))
		sscanf(line, "RssAnon: %lu", &kib);
	fclose(file);
	MUST(kib, "process %d has no RssAnon", pid);
	return kib * 1024;
}

uint64_t test_seed(uint64_t fixed)
{
	const char *set = getenv("OTTE_TEST_SEED");

	return set ? strtoull(set, NULL, 0) : fixed;
}

uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint64_t draw_between(uint64_t *state, uint64_t low, uint64_t high)
{
	return low + draw(state) % (high - low + 1);
}
