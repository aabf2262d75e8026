/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/sys.h"

#include <unistd.h>

#ifndef OTTE_SYS_LIBC

ssize_t otte_sys_send(int fd, const void *data, size_t length, int flags)
{
	return syscall(SYS_sendto, fd, data, length, flags, NULL, 0);
}

ssize_t otte_sys_recv(int fd, void *data, size_t length, int flags)
{
	return syscall(SYS_recvfrom, fd, data, length, flags, NULL, NULL);
}

ssize_t otte_sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t otte_sys_recvmsg(int fd, struct msghdr *message, int flags)
{
	return syscall(SYS_recvmsg, fd, message, flags);
}

int otte_sys_epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms)
{
#ifdef SYS_epoll_wait
	return (int)syscall(SYS_epoll_wait, fd, events, count, timeout_ms);
#else
	return (int)syscall(SYS_epoll_pwait, fd, events, count, timeout_ms, NULL, 0);
#endif
}

#endif
