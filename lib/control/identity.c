/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The incarnation belongs to the process: drawn at the first engine, forgotten in a forked child,
 * which is another process and must not be taken for its parent by peers.
 */
#include "control/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "base/error.h"
#include "base/line.h"
#include "control/auth.h"

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define COMM_PATH "/proc/self/comm"

/* Protects the two below; held across fork so that the child finds it in a known state. */
static pthread_mutex_t incarnation_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t incarnation[16];
static bool drawn;

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER; /* watched */
static bool watched;

static void before_fork(void)
{
	pthread_mutex_lock(&incarnation_lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&incarnation_lock);
}

static void after_fork_in_child(void)
{
	drawn = false;
	pthread_mutex_unlock(&incarnation_lock);
}

/* Not by pthread_once(): what had no memory once may have it the next time. */
static int watch_forks(void)
{
	int rc = 0;

	pthread_mutex_lock(&watch_lock);
	if (!watched)
		rc = -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
	watched = rc == 0;
	pthread_mutex_unlock(&watch_lock);
	return rc ? otte_fail(rc, "pthread_atfork: %s", strerror(-rc)) : 0;
}

static int get_incarnation(uint8_t out[16])
{
	int rc = watch_forks();

	if (rc)
		return rc;
	pthread_mutex_lock(&incarnation_lock);
	if (!drawn)
		rc = otte_random(incarnation, sizeof(incarnation));
	if (!rc) {
		drawn = true;
		memcpy(out, incarnation, sizeof(incarnation));
	}
	pthread_mutex_unlock(&incarnation_lock);
	return rc;
}

/* The first line of a small file of /proc, without its newline. */
static int read_line(const char *path, char *line, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;
	int rc = 0;

	if (fd < 0)
		return otte_fail(-errno, "%s: %m", path);
	do
		got = read(fd, line, size - 1);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		rc = otte_fail(-errno, "%s: %m", path);
	close(fd);
	if (rc)
		return rc;
	line[got] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

static int get_boot_id(uint8_t boot_id[16])
{
	char line[64];
	size_t bytes;
	int rc = read_line(BOOT_ID_PATH, line, sizeof(line));

	if (rc)
		return rc;
	if (sodium_hex2bin(boot_id, 16, line, strlen(line), "-", &bytes, NULL) || bytes != 16)
		return otte_fail(-EIO, BOOT_ID_PATH ": \"%s\" is not a boot id", line);
	return 0;
}

static int get_name(char out[OTTE_NAME_MAX], const char *name)
{
	char comm[OTTE_NAME_MAX];
	int rc;

	if (*name) {
		if (strlen(name) >= OTTE_NAME_MAX)
			return otte_fail(-EINVAL, "name: %zu bytes, at most %d", strlen(name),
					 OTTE_NAME_MAX - 1);
		if (otte_line_fault(name, strlen(name)) >= 0)
			return otte_fail(-EINVAL, "name: byte %zd is not printable UTF-8",
					 otte_line_fault(name, strlen(name)));
		strcpy(out, name);
		return 0;
	}
	rc = read_line(COMM_PATH, comm, sizeof(comm));
	if (!rc)
		otte_name_escape(out, OTTE_NAME_MAX, comm); /* 15 bytes at most */
	return rc;
}

int otte_identity_init(struct otte_identity *identity, const char *name)
{
	struct otte_identity fresh = { .pid = (uint64_t)getpid() };
	int rc = get_name(fresh.name, name);

	if (!rc)
		rc = get_boot_id(fresh.boot_id);
	if (!rc)
		rc = get_incarnation(fresh.incarnation);
	while (!rc && !fresh.epoch)
		rc = otte_random(&fresh.epoch, sizeof(fresh.epoch));
	if (!rc)
		*identity = fresh;
	return rc;
}
