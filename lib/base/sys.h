/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The calls that every request makes, straight to the kernel: result or -1 and errno, as libc's.
 *
 * libc's are points where pthread_cancel() takes effect. A thread ended in one would keep its lane's
 * locks for ever; and to be such a point costs two atomic operations a call once there are threads. Under a
 * sanitizer they are libc's, which it watches.
 */
#ifndef OTTE_BASE_SYS_H
#define OTTE_BASE_SYS_H

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define OTTE_SYS_LIBC 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || \
	__has_feature(memory_sanitizer)
#define OTTE_SYS_LIBC 1
#endif
#elif !defined(SYS_sendto) || !defined(SYS_recvfrom)
#define OTTE_SYS_LIBC 1 /* a system that reaches sockets by other numbers */
#endif

#ifdef OTTE_SYS_LIBC

#define otte_sys_send send
#define otte_sys_recv recv
#define otte_sys_sendmsg sendmsg
#define otte_sys_recvmsg recvmsg
#define otte_sys_epoll_wait epoll_wait

#else

/* Functions and not inline, so that tests can have them fail as they do libc's. */
ssize_t otte_sys_send(int fd, const void *data, size_t length, int flags);
ssize_t otte_sys_recv(int fd, void *data, size_t length, int flags);
ssize_t otte_sys_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t otte_sys_recvmsg(int fd, struct msghdr *message, int flags);
int otte_sys_epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms);

#endif
#endif
