/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/local/local.h"

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(LOCAL_FDS * sizeof(int))];
};

int local_send(int fd, const struct local_message *message, const int *fds)
{
	struct local_message copy = *message;
	struct iovec iov = { &copy, sizeof(copy) };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control control;
	ssize_t n;

	if (fds) {
		memset(&control, 0, sizeof(control));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(LOCAL_FDS * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, LOCAL_FDS * sizeof(int));
		header.msg_control = &control;
		header.msg_controllen = sizeof(control.bytes);
	}
	do
		n = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(*message))
		return 0;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return -EAGAIN;
	return n < 0 ? -errno : -EPROTO;
}

void local_close_fds(int fds[LOCAL_FDS])
{
	int i;

	for (i = 0; i < LOCAL_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* As many as are wanted, or none: what did not fit was closed by the kernel. */
static void take_fds(struct msghdr *header, int fds[LOCAL_FDS])
{
	struct cmsghdr *each;

	for (each = CMSG_FIRSTHDR(header); each; each = CMSG_NXTHDR(header, each)) {
		size_t i, count;

		if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS)
			continue;
		count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count && i < LOCAL_FDS; i++)
			memcpy(&fds[i], CMSG_DATA(each) + i * sizeof(int), sizeof(int));
	}
	if (fds[LOCAL_FDS - 1] < 0)
		local_close_fds(fds);
}

int local_receive(int fd, struct local_message *message, int fds[LOCAL_FDS])
{
	struct iovec iov = { message, sizeof(*message) };
	union control control;
	struct msghdr header = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;
	int i;

	for (i = 0; i < LOCAL_FDS; i++)
		fds[i] = -1;
	do
		n = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	if (n < 0)
		return otte_fail(-EIO, "the connection to a peer of this host: %m");
	take_fds(&header, fds);
	if (n == (ssize_t)sizeof(*message) && message->magic == LOCAL_MAGIC)
		return 1;
	local_close_fds(fds);
	if (n == 0)
		return otte_fail(-ECONNRESET, "a peer of this host has closed its connection");
	return otte_fail(-EPROTO, "a message of a peer of this host has %zd bytes or another magic", n);
}

static int say_framed(struct otte_stream *frames, const struct local_message *message)
{
	const struct otte_frame frame = { .type = OTTE_FRAME_LEND, .length = OTTE_LEND_BYTES };
	const struct otte_lend lend = {
		.type = message->type,
		.op = message->op,
		.status = message->status,
		.owner = message->owner,
		.id = message->id,
		.region = message->region,
		.offset = message->offset,
		.length = message->length,
		.loan = message->loan,
		.uses = message->uses,
	};
	uint8_t bytes[OTTE_LEND_BYTES];
	int ret;

	ret = otte_stream_flush(frames);
	if (ret)
		return ret < 0 ? ret : -EAGAIN;
	otte_lend_encode(&lend, bytes, sizeof(bytes));
	ret = otte_stream_send(frames, &frame, bytes);
	return ret < 0 ? ret : 0;
}

int local_say(int fd, struct otte_stream *frames, const struct local_message *message, const int *fds)
{
	return frames ? say_framed(frames, message) : local_send(fd, message, fds);
}

static int hear_framed(struct otte_stream *frames, struct local_message *message)
{
	struct otte_frame frame;
	const uint8_t *payload;
	struct otte_lend lend;
	int ret;

	ret = otte_stream_receive(frames, &frame, &payload);
	if (ret == 0 || ret == -ECONNRESET)
		return ret;
	if (ret == -ENOMEM)
		return -EIO;
	if (ret < 0)
		return ret == -EPROTO || ret == -EPROTONOSUPPORT || ret == -EMSGSIZE ? -EPROTO : -ECONNRESET;
	if (frame.type != OTTE_FRAME_LEND)
		return otte_fail(-EPROTO, "frame type %u on a lane for loans", frame.type);
	ret = otte_lend_decode(payload, frame.length, &lend);
	if (ret)
		return ret;
	*message = (struct local_message){
		.magic = LOCAL_MAGIC,
		.type = lend.type,
		.op = lend.op,
		.status = lend.status,
		.owner = lend.owner,
		.id = lend.id,
		.region = lend.region,
		.offset = lend.offset,
		.length = lend.length,
		.loan = lend.loan,
		.uses = lend.uses,
	};
	return 1;
}

int local_hear(int fd, struct otte_stream *frames, struct local_message *message, int fds[LOCAL_FDS])
{
	int i;

	if (!frames)
		return local_receive(fd, message, fds);
	for (i = 0; i < LOCAL_FDS; i++)
		fds[i] = -1;
	return hear_framed(frames, message);
}

int local_check_user(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
		return otte_fail(-errno, "SO_PEERCRED: %m");
	if (peer.pid <= 0)
		return otte_fail(-EPERM, "a process that is not to be seen from here wants to map memory");
	if (peer.uid == geteuid() || peer.uid == 0)
		return 0;
	return otte_fail(-EPERM, "process %d is of user %u, not of ours (%u): it may not map memory",
			 peer.pid, peer.uid, geteuid());
}

/* The incarnation is random and told only to those who were let in: nobody can take the name before us. */
unsigned local_address(const struct otte_identity *identity, struct sockaddr_un *address)
{
	char hex[2 * sizeof(identity->incarnation) + 1];
	size_t i;
	int n;

	for (i = 0; i < sizeof(identity->incarnation); i++)
		snprintf(hex + 2 * i, 3, "%02x", identity->incarnation[i]);
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	n = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, LOCAL_NAME "/%s/%016lx", hex,
		     (unsigned long)identity->epoch);
	return (unsigned)offsetof(struct sockaddr_un, sun_path) + 1 + (unsigned)n;
}
