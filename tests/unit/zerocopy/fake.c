/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fake.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <linux/errqueue.h>

#define TOLD_MAX 64

_Atomic bool fake_withholds, fake_refuses, fake_lacks, fake_deaf, fake_silent;
bool fake_all;

static struct sock_extended_err told[TOLD_MAX];
static unsigned tell_at, heard_at;

void fake_tell(uint32_t low, uint32_t high, bool copied)
{
	told[tell_at++ % TOLD_MAX] = (struct sock_extended_err){
		.ee_origin = SO_EE_ORIGIN_ZEROCOPY,
		.ee_code = copied ? SO_EE_CODE_ZEROCOPY_COPIED : 0,
		.ee_info = low,
		.ee_data = high,
	};
}

static ssize_t hear(struct msghdr *message)
{
	struct cmsghdr *part = message->msg_control;

	if (heard_at == tell_at) {
		errno = EAGAIN;
		return -1;
	}
	part->cmsg_level = SOL_IPV6;
	part->cmsg_type = IPV6_RECVERR;
	part->cmsg_len = CMSG_LEN(sizeof(told[0]));
	memcpy(CMSG_DATA(part), &told[heard_at++ % TOLD_MAX], sizeof(told[0]));
	message->msg_controllen = CMSG_SPACE(sizeof(told[0]));
	return 0;
}

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_otte_sys_recvmsg(int fd, struct msghdr *message, int flags);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
ssize_t __real_recv(int fd, void *to, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t length, int flags);
ssize_t __wrap_otte_sys_recv(int fd, void *to, size_t length, int flags);
ssize_t __real_send(int fd, const void *data, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t length, int flags);
ssize_t __wrap_otte_sys_send(int fd, const void *data, size_t length, int flags);

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	if (flags & MSG_ERRQUEUE && fake_all)
		return hear(message);
	if (fake_silent || (flags & MSG_ERRQUEUE && fake_withholds)) {
		errno = EAGAIN;
		return -1;
	}
	return __real_recvmsg(fd, message, flags);
}

ssize_t __wrap_otte_sys_recvmsg(int fd, struct msghdr *message, int flags)
{
	return __wrap_recvmsg(fd, message, flags);
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	if (level == SOL_SOCKET && name == SO_ZEROCOPY && fake_lacks) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return __real_setsockopt(fd, level, name, value, length);
}

ssize_t __wrap_recv(int fd, void *to, size_t length, int flags)
{
	if (fake_deaf) {
		errno = EAGAIN;
		return -1;
	}
	return __real_recv(fd, to, length, flags);
}

ssize_t __wrap_otte_sys_recv(int fd, void *to, size_t length, int flags)
{
	return __wrap_recv(fd, to, length, flags);
}

ssize_t __wrap_send(int fd, const void *data, size_t length, int flags)
{
	if (flags & MSG_ZEROCOPY && fake_refuses) {
		errno = ENOBUFS;
		return -1;
	}
	return fake_all ? (ssize_t)length : __real_send(fd, data, length, flags);
}

ssize_t __wrap_otte_sys_send(int fd, const void *data, size_t length, int flags)
{
	return __wrap_send(fd, data, length, flags);
}
