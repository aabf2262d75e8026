/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fault.h"

#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static _Atomic int armed, place;
static _Atomic long countdown, every;
static _Atomic uint64_t touched;
static const char *_Atomic failed;
static _Atomic long live;
static _Thread_local bool chosen;

void fault_arm(enum fault_kind kind, enum fault_where where, long nth)
{
	chosen = true;
	atomic_store(&failed, NULL);
	atomic_store(&place, where);
	atomic_store(&countdown, nth);
	atomic_store(&every, nth);
	atomic_store(&touched, 0);
	atomic_store(&armed, kind);
}

const char *fault_disarm(void)
{
	atomic_store(&armed, FAULT_NONE);
	return atomic_load(&failed);
}

bool fault_struck(void)
{
	return atomic_load(&failed) || atomic_load(&touched);
}

uint64_t fault_count(void)
{
	return atomic_load(&touched);
}

long fault_live(void)
{
	return atomic_load(&live);
}

static bool applies(int kind)
{
	int where = atomic_load(&place);

	return atomic_load(&armed) == kind &&
	       (where == FAULT_ANYWHERE || (where == FAULT_HERE) == chosen);
}

static bool hits(int kind, const char *name)
{
	if (!applies(kind) || atomic_fetch_sub(&countdown, 1) != 1)
		return false;
	atomic_store(&failed, name);
	return true;
}

bool fault_of_module(const char *call)
{
	return hits(FAULT_MODULE, call);
}

/* Returns true with errno set: the call fails. */
static bool fails(const char *name, int reset, int scarce)
{
	if (hits(FAULT_RESET, name))
		errno = reset;
	else if (hits(FAULT_SCARCE, name))
		errno = scarce;
	else
		return false;
	return true;
}

/* A connection that was reset stays so. */
static bool breaks(const char *name, int fd, int scarce)
{
	if (hits(FAULT_RESET, name)) {
		shutdown(fd, SHUT_RDWR);
		errno = ECONNRESET;
	} else if (hits(FAULT_SCARCE, name)) {
		errno = scarce;
	} else {
		return false;
	}
	return true;
}

/* A draw for each thread: a common counter would have two threads that take turns draw the same for ever. */
static uint32_t draw_small(void)
{
	static _Atomic uint32_t threads;
	static _Thread_local uint32_t state;

	if (!state)
		state = 0x9e3779b9u * (atomic_fetch_add(&threads, 1) + 1);
	state = state * 1664525u + 1013904223u;
	return state >> 16;
}

static bool storms(void)
{
	if (!applies(FAULT_STORM) || draw_small() % (uint32_t)atomic_load(&every))
		return false;
	atomic_fetch_add(&touched, 1);
	return true;
}

/* ---- Memory ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
void *__real_reallocarray(void *at, size_t count, size_t size);
void __real_free(void *at);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);
void *__wrap_reallocarray(void *at, size_t count, size_t size);
void __wrap_free(void *at);

static void *counted(const void *old, void *at)
{
	if (at && !old)
		atomic_fetch_add(&live, 1);
	return at;
}

#ifdef SANITIZED
static bool no_memory(const char *name)
{
	if (!hits(FAULT_MEMORY, name))
		return false;
	errno = ENOMEM;
	return true;
}
#else
/* malloc() and its kin are ours, below, and fail there. */
static bool no_memory(const char *name)
{
	(void)name;
	return false;
}
#endif

void *__wrap_malloc(size_t size)
{
	return no_memory("malloc") ? NULL : counted(NULL, __real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return no_memory("calloc") ? NULL : counted(NULL, __real_calloc(count, size));
}

void *__wrap_realloc(void *at, size_t size)
{
	return no_memory("realloc") ? NULL : counted(at, __real_realloc(at, size));
}

void *__wrap_reallocarray(void *at, size_t count, size_t size)
{
	return no_memory("reallocarray") ? NULL : counted(at, __real_reallocarray(at, count, size));
}

void __wrap_free(void *at)
{
	if (at)
		atomic_fetch_sub(&live, 1);
	__real_free(at);
}

void fault_start(void)
{
	json_set_alloc_funcs(__wrap_malloc, __wrap_free);
}

#ifndef SANITIZED
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *at, size_t size);

static bool libc_fails(const char *name)
{
	if (!hits(FAULT_MEMORY, name))
		return false;
	errno = ENOMEM;
	return true;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
void *malloc(size_t size)
{
	return libc_fails("malloc") ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return libc_fails("calloc") ? NULL : __libc_calloc(count, size);
}

void *realloc(void *at, size_t size)
{
	return libc_fails("realloc") ? NULL : __libc_realloc(at, size);
}
#pragma GCC diagnostic pop
#endif

/* ---- System calls ---- */

#define REAL(type, name, ...) \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

REAL(int, socket, int domain, int type, int protocol)
{
	return fails("socket", EMFILE, ENOBUFS) ? -1 : __real_socket(domain, type, protocol);
}

REAL(int, bind, int fd, const struct sockaddr *address, socklen_t length)
{
	return fails("bind", EADDRNOTAVAIL, ENOMEM) ? -1 : __real_bind(fd, address, length);
}

REAL(int, listen, int fd, int backlog)
{
	return fails("listen", EADDRINUSE, ENOBUFS) ? -1 : __real_listen(fd, backlog);
}

REAL(int, connect, int fd, const struct sockaddr *address, socklen_t length)
{
	return fails("connect", ENETUNREACH, EADDRNOTAVAIL) ? -1 :
							      __real_connect(fd, address, length);
}

REAL(int, accept4, int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	if (fails("accept4", ECONNABORTED, EMFILE))
		return -1;
	return __real_accept4(fd, address, length, flags);
}

REAL(int, getsockname, int fd, struct sockaddr *address, socklen_t *length)
{
	return fails("getsockname", ENOBUFS, ENOBUFS) ? -1 : __real_getsockname(fd, address, length);
}

REAL(int, getpeername, int fd, struct sockaddr *address, socklen_t *length)
{
	return fails("getpeername", ENOTCONN, ENOBUFS) ? -1 : __real_getpeername(fd, address, length);
}

REAL(int, getsockopt, int fd, int level, int name, void *value, socklen_t *length)
{
	if (fails("getsockopt", ENOBUFS, ENOMEM))
		return -1;
	return __real_getsockopt(fd, level, name, value, length);
}

REAL(int, setsockopt, int fd, int level, int name, const void *value, socklen_t length)
{
	if (fails("setsockopt", EPERM, ENOBUFS))
		return -1;
	return __real_setsockopt(fd, level, name, value, length);
}

REAL(int, epoll_create1, int flags)
{
	return fails("epoll_create1", EMFILE, ENOMEM) ? -1 : __real_epoll_create1(flags);
}

REAL(int, epoll_ctl, int set, int op, int fd, struct epoll_event *event)
{
	if (op != EPOLL_CTL_DEL && fails("epoll_ctl", ENOSPC, ENOMEM))
		return -1;
	return __real_epoll_ctl(set, op, fd, event);
}

REAL(int, epoll_wait, int set, struct epoll_event *events, int room, int timeout_ms)
{
	if (storms() || fails("epoll_wait", EINTR, EINTR)) {
		errno = EINTR;
		return -1;
	}
	return __real_epoll_wait(set, events, room, timeout_ms);
}

REAL(int, eventfd, unsigned count, int flags)
{
	return fails("eventfd", EMFILE, ENOMEM) ? -1 : __real_eventfd(count, flags);
}

REAL(int, timerfd_create, int clock, int flags)
{
	return fails("timerfd_create", EMFILE, ENOMEM) ? -1 : __real_timerfd_create(clock, flags);
}

REAL(ssize_t, read, int fd, void *to, size_t size)
{
	if (size == sizeof(uint64_t))
		return __real_read(fd, to, size);
	if (storms()) {
		errno = EINTR;
		return -1;
	}
	return fails("read", EIO, ENOMEM) ? -1 : __real_read(fd, to, size);
}

/* One call in two is to be asked again, the other moves less than it could. */
static bool again(void)
{
	errno = EAGAIN;
	return draw_small() & 1;
}

REAL(ssize_t, send, int fd, const void *from, size_t size, int flags)
{
	if (storms()) {
		if (again())
			return -1;
		size = size > 3 ? 3 : size;
	}
	return breaks("send", fd, ENOBUFS) ? -1 : __real_send(fd, from, size, flags);
}

REAL(ssize_t, recv, int fd, void *to, size_t size, int flags)
{
	if (storms()) {
		if (again())
			return -1;
		size = size > 5 ? 5 : size;
	}
	return breaks("recv", fd, ENOMEM) ? -1 : __real_recv(fd, to, size, flags);
}

/* Only the first part of a message, cut to a few bytes. */
static struct msghdr cut(const struct msghdr *message, struct iovec *part)
{
	struct msghdr less = *message;

	*part = message->msg_iov[0];
	part->iov_len = part->iov_len > 7 ? part->iov_len / 2 + 1 : part->iov_len;
	less.msg_iov = part;
	less.msg_iovlen = 1;
	return less;
}

REAL(ssize_t, sendmsg, int fd, const struct msghdr *message, int flags)
{
	struct msghdr less;
	struct iovec part;

	if (storms()) {
		if (again())
			return -1;
		less = cut(message, &part);
		message = &less;
	}
	return breaks("sendmsg", fd, ENOBUFS) ? -1 : __real_sendmsg(fd, message, flags);
}

REAL(ssize_t, recvmsg, int fd, struct msghdr *message, int flags)
{
	struct msghdr less;
	struct iovec part;

	/* The error queue has no bytes that could come in parts. */
	if (storms()) {
		if (again())
			return -1;
		if (flags & MSG_ERRQUEUE)
			return __real_recvmsg(fd, message, flags);
		less = cut(message, &part);
		message = &less;
	}
	return breaks("recvmsg", fd, ENOMEM) ? -1 : __real_recvmsg(fd, message, flags);
}

/* The library's own way to the same calls, base/sys.h. */
#define SAME(type, name, parameters, ...) \
	type __wrap_otte_sys_##name parameters; \
	type __wrap_otte_sys_##name parameters \
	{ \
		return __wrap_##name(__VA_ARGS__); \
	}

SAME(ssize_t, send, (int fd, const void *from, size_t size, int flags), fd, from, size, flags)
SAME(ssize_t, recv, (int fd, void *to, size_t size, int flags), fd, to, size, flags)
SAME(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
SAME(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), fd, message, flags)
SAME(int, epoll_wait, (int set, struct epoll_event *events, int room, int timeout_ms), set, events, room,
     timeout_ms)

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	return fails("ioctl", EIO, ENOMEM) ? -1 : __real_ioctl(fd, request, arg);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list args;
	int mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	return fails("open", EMFILE, ENFILE) ? -1 : __real_open(path, flags, mode);
}

REAL(int, fstat, int fd, struct stat *st)
{
	return fails("fstat", EIO, ENOMEM) ? -1 : __real_fstat(fd, st);
}

REAL(void *, mmap, void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (fails("mmap", ENOMEM, EAGAIN))
		return MAP_FAILED;
	return __real_mmap(at, length, protection, flags, fd, offset);
}

REAL(int, madvise, void *at, size_t length, int advice)
{
	return fails("madvise", EINVAL, ENOMEM) ? -1 : __real_madvise(at, length, advice);
}

REAL(int, getaddrinfo, const char *node, const char *service, const struct addrinfo *hints,
     struct addrinfo **list)
{
	if (fails("getaddrinfo", EINVAL, EINVAL))
		return atomic_load(&armed) == FAULT_RESET ? EAI_AGAIN : EAI_MEMORY;
	return __real_getaddrinfo(node, service, hints, list);
}

REAL(int, getnameinfo, const struct sockaddr *address, socklen_t length, char *host,
     socklen_t host_size, char *service, socklen_t service_size, int flags)
{
	if (fails("getnameinfo", EINVAL, EINVAL))
		return EAI_MEMORY;
	return __real_getnameinfo(address, length, host, host_size, service, service_size, flags);
}

REAL(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
     void *arg)
{
	if (fails("pthread_create", EAGAIN, EAGAIN))
		return EAGAIN;
	return __real_pthread_create(thread, attr, run, arg);
}

REAL(int, pthread_atfork, void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	if (fails("pthread_atfork", ENOMEM, ENOMEM))
		return ENOMEM;
	return __real_pthread_atfork(prepare, parent, child);
}
