/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of /dev/otte share: one thin call for each command, a child that can be killed,
 * and the module's own counters. Calls return 0 or -errno, so that a test reads as one comparison.
 */
#ifndef OTTE_TEST_H
#define OTTE_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../include/uapi/linux/otte.h"

/* Benchmarks use this header too, and have no harness. */
#if __has_include("kselftest_harness.h")
#include "kselftest_harness.h"

/* A test that hangs is ended; one in an emulated kernel on a loaded machine is not. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 120
#endif

#define OTTE_DEV	"/dev/otte"
#define PAGE		4096UL

/* Past stdio: the harness ends its children without flushing. */
#define note(...)	dprintf(STDOUT_FILENO, "# note: " __VA_ARGS__)

static inline int write_file(const char *path, const char *value)
{
	int err = 0, fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) != (ssize_t)strlen(value))
		err = -errno;
	close(fd);
	return err;
}

/* Without the line's end. */
static inline int read_file(const char *path, char *value, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, value, room - 1);
	n = n < 0 ? -errno : n;
	close(fd);
	if (n < 0)
		return n;
	value[n] = 0;
	value[strcspn(value, "\n")] = 0;
	return 0;
}

/* -EIO: the file is empty. */
static inline int64_t read_number(const char *path)
{
	char value[64];
	int err = read_file(path, value, sizeof(value));

	if (!err && !value[0])
		err = -EIO;
	return err ?: strtoll(value, NULL, 10);
}

static inline int otte_call(int fd, unsigned long cmd, void *arg)
{
	return ioctl(fd, cmd, arg) ? -errno : 0;
}

static inline int otte_open(void)
{
	int fd = open(OTTE_DEV, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static inline int otte_init_flags(int fd, uint32_t flags, uint64_t *client)
{
	struct otte_client_init arg = { .size = sizeof(arg), .flags = flags };
	int err = otte_call(fd, OTTE_IOC_CLIENT_INIT, &arg);

	if (!err && client)
		*client = arg.client;
	return err;
}

/* An initialised client: its file, or -errno. */
static inline int otte_client(uint64_t *client)
{
	int fd = otte_open(), err;

	if (fd < 0)
		return fd;
	err = otte_init_flags(fd, 0, client);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

static inline int otte_region(int fd, uint32_t backing, uint32_t access, void *addr,
			      uint64_t length, uint64_t *region)
{
	struct otte_region_add arg = {
		.size = sizeof(arg), .backing = backing, .access = access,
		.addr = (uintptr_t)addr, .length = length,
	};
	int err = otte_call(fd, OTTE_IOC_REGION_ADD, &arg);

	if (!err)
		*region = arg.region;
	return err;
}

static inline int otte_region_file(int fd, uint32_t access, int file, uint64_t length,
				   uint64_t *region)
{
	struct otte_region_add arg = {
		.size = sizeof(arg), .backing = OTTE_BACKING_FILE, .access = access,
		.fd = file, .length = length,
	};
	int err = otte_call(fd, OTTE_IOC_REGION_ADD, &arg);

	if (!err)
		*region = arg.region;
	return err;
}

static inline int otte_region_del(int fd, uint64_t region, uint32_t *loans)
{
	struct otte_region_del arg = { .size = sizeof(arg), .region = region };
	int err = otte_call(fd, OTTE_IOC_REGION_DEL, &arg);

	if (!err && loans)
		*loans = arg.loans;
	return err;
}

static inline int otte_verify(int fd, uint64_t region)
{
	struct otte_region_verify arg = { .size = sizeof(arg), .region = region };

	return otte_call(fd, OTTE_IOC_REGION_VERIFY, &arg);
}

static inline int otte_offer_evidence(int fd, uint64_t region, uint64_t offset, uint64_t length,
				      uint64_t borrower, uint32_t direction, uint32_t flags,
				      uint32_t evidence, uint64_t *loan)
{
	struct otte_loan_offer arg = {
		.size = sizeof(arg), .flags = flags, .region = region, .offset = offset,
		.length = length, .borrower = borrower, .direction = direction,
		.evidence = evidence,
	};
	int err = otte_call(fd, OTTE_IOC_LOAN_OFFER, &arg);

	if (!err)
		*loan = arg.loan;
	return err;
}

static inline int otte_offer(int fd, uint64_t region, uint64_t offset, uint64_t length,
			     uint64_t borrower, uint32_t direction, uint32_t flags, uint64_t *loan)
{
	return otte_offer_evidence(fd, region, offset, length, borrower, direction, flags, 0,
				   loan);
}

static inline int otte_accept(int fd, uint64_t loan, struct otte_loan_accept *out)
{
	struct otte_loan_accept arg = { .size = sizeof(arg), .loan = loan };
	int err = otte_call(fd, OTTE_IOC_LOAN_ACCEPT, &arg);

	if (!err && out)
		*out = arg;
	return err;
}

static inline int otte_settle_as(int fd, uint64_t loan, uint32_t evidence)
{
	struct otte_loan_settle arg = { .size = sizeof(arg), .loan = loan, .evidence = evidence };

	return otte_call(fd, OTTE_IOC_LOAN_SETTLE, &arg);
}

static inline int otte_settle(int fd, uint64_t loan)
{
	return otte_settle_as(fd, loan, OTTE_EVIDENCE_RETURNED);
}

static inline int otte_withdraw(int fd, uint64_t loan)
{
	struct otte_loan_withdraw arg = { .size = sizeof(arg), .loan = loan };

	return otte_call(fd, OTTE_IOC_LOAN_WITHDRAW, &arg);
}

static inline int otte_revoke(int fd, uint64_t loan, uint32_t *draining)
{
	struct otte_loan_revoke arg = { .size = sizeof(arg), .loan = loan };
	int err = otte_call(fd, OTTE_IOC_LOAN_REVOKE, &arg);

	if (!err && draining)
		*draining = arg.draining;
	return err;
}

static inline int otte_expose_flags(int fd, uint64_t region, uint64_t offset, uint64_t length,
				    uint8_t peer, uint64_t incarnation, uint32_t direction,
				    uint32_t flags, uint64_t *loan)
{
	struct otte_loan_expose arg = {
		.size = sizeof(arg), .flags = flags, .region = region, .offset = offset,
		.length = length, .incarnation = incarnation, .peer = { peer },
		.direction = direction,
	};
	int err = otte_call(fd, OTTE_IOC_LOAN_EXPOSE, &arg);

	if (!err)
		*loan = arg.loan;
	return err;
}

static inline int otte_expose(int fd, uint64_t region, uint64_t offset, uint64_t length,
			      uint8_t peer, uint64_t incarnation, uint32_t direction,
			      uint64_t *loan)
{
	return otte_expose_flags(fd, region, offset, length, peer, incarnation, direction, 0, loan);
}

/* Bytes copied, or -errno. */
static inline int64_t otte_copy(int fd, uint64_t loan, uint64_t offset, void *addr,
				uint64_t length)
{
	struct otte_loan_copy arg = {
		.size = sizeof(arg), .loan = loan, .offset = offset, .addr = (uintptr_t)addr,
		.length = length,
	};
	int err = otte_call(fd, OTTE_IOC_LOAN_COPY, &arg);

	return err ? err : (int64_t)arg.done;
}

static inline int otte_hold(int fd, uint64_t bytes, uint64_t *hold)
{
	struct otte_hold arg = { .size = sizeof(arg), .kind = OTTE_HOLD_MR, .bytes = bytes };
	int err = otte_call(fd, OTTE_IOC_HOLD, &arg);

	if (!err)
		*hold = arg.hold;
	return err;
}

static inline int otte_hold_drop(int fd, uint64_t hold)
{
	struct otte_hold_drop arg = { .size = sizeof(arg), .hold = hold };

	return otte_call(fd, OTTE_IOC_HOLD_DROP, &arg);
}

static inline int otte_attest(int fd, uint64_t client, uint8_t nonce)
{
	struct otte_attest arg = { .size = sizeof(arg), .client = client, .nonce = { nonce } };

	return otte_call(fd, OTTE_IOC_ATTEST, &arg);
}

/* The next event, waiting at most @ms; -EAGAIN if none comes. */
static inline int otte_next_event(int fd, struct otte_event *event, int ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	ssize_t n;

	if (poll(&pollfd, 1, ms) <= 0 || !(pollfd.revents & POLLIN))
		return -EAGAIN;
	n = read(fd, event, sizeof(*event));
	return n < 0 ? -errno : n == sizeof(*event) ? 0 : -EIO;
}

/* The next event of @type; others are dropped. */
static inline int otte_wait_event(int fd, uint32_t type, struct otte_event *event)
{
	int err;

	do {
		err = otte_next_event(fd, event, 20000);
	} while (!err && event->type != type);
	return err;
}

static inline void otte_drain_events(int fd)
{
	struct otte_event event;

	while (!otte_next_event(fd, &event, 0))
		;
}

/* Usage of the module's account, with @fd's own client in it. */
static inline uint64_t otte_usage(int fd, unsigned int resource)
{
	struct otte_quota arg = { .size = sizeof(arg), .index = 0 };

	return otte_call(fd, OTTE_IOC_QUOTA, &arg) ? UINT64_MAX : arg.usage[resource];
}

/* Waits until nothing but @clients clients is charged to the module; true if so. */
static inline bool otte_all_zero(int fd, uint64_t clients)
{
	struct otte_quota arg;
	unsigned int i, tries;
	bool zero = false;

	for (tries = 0; tries < 2000 && !zero; tries++) {
		memset(&arg, 0, sizeof(arg));
		arg.size = sizeof(arg);
		if (otte_call(fd, OTTE_IOC_QUOTA, &arg))
			return false;
		zero = arg.usage[OTTE_RES_CLIENTS] == clients;
		for (i = OTTE_RES_CLIENTS + 1; i < OTTE_RES_COUNT; i++)
			zero = zero && !arg.usage[i];
		if (!zero)
			usleep(10000);
	}
	for (i = 0; !zero && i < OTTE_RES_COUNT; i++)
		fprintf(stderr, "# resource %u: %llu\n", i, (unsigned long long)arg.usage[i]);
	return zero;
}

static inline uint64_t *otte_status_map(int fd, size_t bytes)
{
	void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, OTTE_MMAP_STATUS);

	return map == MAP_FAILED ? NULL : map;
}

/* A status page holds its words behind eight of its head. */
static inline uint64_t otte_status_word(uint64_t *map, unsigned int index)
{
	return __atomic_load_n(&((struct otte_status_page *)map)->word[index],
			       __ATOMIC_ACQUIRE);
}

static inline void *otte_pages(size_t bytes)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return map == MAP_FAILED ? NULL : map;
}

static inline void otte_fill(void *at, size_t bytes, unsigned int seed)
{
	unsigned char *byte = at;
	size_t i;

	for (i = 0; i < bytes; i++)
		byte[i] = (i * 31 + seed) ^ (i >> 8);
}

static inline bool otte_filled(const void *at, size_t bytes, unsigned int seed, size_t skip)
{
	const unsigned char *byte = at;
	size_t i;

	for (i = 0; i < bytes; i++) {
		if (byte[i] != (unsigned char)(((i + skip) * 31 + seed) ^ ((i + skip) >> 8)))
			return false;
	}
	return true;
}

/* ---- a second process, joined by a socket ---- */

struct peer {
	pid_t pid;
	int sock;
};

/* Runs @body(socket) in a child that dies with us. */
static inline struct peer peer_start(void (*body)(int sock))
{
	struct peer peer = { .pid = -1, .sock = -1 };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return peer;
	fflush(NULL);
	peer.pid = fork();
	if (!peer.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		body(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	peer.sock = pair[0];
	return peer;
}

static inline void say(int sock, uint64_t value)
{
	if (write(sock, &value, sizeof(value)) != sizeof(value))
		_exit(3);
}

/* UINT64_MAX if the other side is gone. */
static inline uint64_t hear(int sock)
{
	uint64_t value;

	return read(sock, &value, sizeof(value)) == sizeof(value) ? value : UINT64_MAX;
}

static inline void peer_kill(struct peer *peer)
{
	kill(peer->pid, SIGKILL);
	waitpid(peer->pid, NULL, 0);
	close(peer->sock);
}

static inline int peer_wait(struct peer *peer)
{
	int status;

	close(peer->sock);
	if (waitpid(peer->pid, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif /* OTTE_TEST_H */
