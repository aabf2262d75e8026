/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* from Linux 6.5 on */
#endif

#define WORD_BITS 64

/* Protects the set and every change of what its numbers mean; innermost of all locks. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *marked; /* bit n: descriptor n is ours */
static size_t words;

/* Under lock. */
static bool grow(size_t word)
{
	size_t more = words ? words : 16;
	uint64_t *larger;

	while (more <= word)
		more *= 2;
	larger = realloc(marked, more * sizeof(*marked));
	if (!larger)
		return false;
	memset(larger + words, 0, (more - words) * sizeof(*marked));
	marked = larger;
	words = more;
	return true;
}

/* Under lock. False: no memory. */
static bool record(int fd)
{
	size_t word = (size_t)fd / WORD_BITS;

	if (word >= words && !grow(word))
		return false;
	marked[word] |= 1ull << (size_t)fd % WORD_BITS;
	return true;
}

/* Under lock. */
static void forget(int fd)
{
	if ((size_t)fd / WORD_BITS < words)
		marked[(size_t)fd / WORD_BITS] &= ~(1ull << (size_t)fd % WORD_BITS);
}

/* Under lock. `fd` as it came from the system, with errno. */
static int mark(int fd)
{
	if (fd < 0 || record(fd))
		return fd;
	close(fd);
	errno = ENOMEM;
	return -1;
}

int otte_fd_socket(int domain, int type)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = mark(socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	pthread_mutex_unlock(&lock);
	return fd;
}

int otte_fd_accept(int listener)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = mark(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
	pthread_mutex_unlock(&lock);
	return fd;
}

int otte_fd_eventfd(unsigned count)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = mark(eventfd(count, EFD_CLOEXEC | EFD_NONBLOCK));
	pthread_mutex_unlock(&lock);
	return fd;
}

int otte_fd_epoll(void)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = mark(epoll_create1(EPOLL_CLOEXEC));
	pthread_mutex_unlock(&lock);
	return fd;
}

int otte_fd_timer(void)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = mark(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	pthread_mutex_unlock(&lock);
	return fd;
}

int otte_fd_memfd(const char *name, uint64_t length)
{
	int fd, code;

	pthread_mutex_lock(&lock);
	fd = mark(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	pthread_mutex_unlock(&lock);
	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)length) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	code = errno;
	otte_fd_close(fd);
	errno = code;
	return -1;
}

/* Older kernels have the number only, which is good while the process has not been waited for. */
static int open_pid(int socket)
{
	struct ucred credentials;
	socklen_t length = sizeof(int);
	int fd;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0)
		return fd;
	length = sizeof(credentials);
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
		return -1;
	return (int)syscall(SYS_pidfd_open, credentials.pid, 0);
}

int otte_fd_peer_pid(int socket)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = mark(open_pid(socket));
	pthread_mutex_unlock(&lock);
	return fd;
}

int otte_fd_dup(int fd)
{
	int copy;

	pthread_mutex_lock(&lock);
	copy = mark(fcntl(fd, F_DUPFD_CLOEXEC, 0));
	pthread_mutex_unlock(&lock);
	return copy;
}

int otte_fd_open(const char *path, int flags)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = mark(open(path, flags | O_NONBLOCK | O_CLOEXEC));
	pthread_mutex_unlock(&lock);
	return fd;
}

int otte_fd_netlink(int protocol)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = mark(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
	pthread_mutex_unlock(&lock);
	return fd;
}

void otte_fd_close(int fd)
{
	if (fd < 0)
		return;
	pthread_mutex_lock(&lock);
	forget(fd);
	close(fd);
	pthread_mutex_unlock(&lock);
}

int otte_fd_mark(int fd)
{
	bool recorded;

	if (fd < 0)
		return 0;
	pthread_mutex_lock(&lock);
	recorded = record(fd);
	pthread_mutex_unlock(&lock);
	return recorded ? 0 : -ENOMEM;
}

void otte_fd_forget(int fd)
{
	if (fd < 0)
		return;
	pthread_mutex_lock(&lock);
	forget(fd);
	pthread_mutex_unlock(&lock);
}

void otte_fd_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

void otte_fd_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

void otte_fd_after_fork_in_child(void)
{
	size_t word;

	for (word = 0; word < words; word++) {
		while (marked[word]) {
			close((int)(word * WORD_BITS) + __builtin_ctzll(marked[word]));
			marked[word] &= marked[word] - 1;
		}
	}
	pthread_mutex_unlock(&lock);
}
