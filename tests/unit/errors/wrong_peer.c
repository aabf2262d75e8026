/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "wrong_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "control/wire.h"

#define CONNECTIONS 8
#define VERSION_AT 4 /* of a frame's header */
#define MAX_PAYLOAD 65536
/* So that one who sends without being heard finds out soon. */
#define RECEIVE_BUFFER 4096

static void say(const struct wrong_peer *peer, int fd, uint16_t type, uint64_t id, const void *payload,
		size_t length)
{
	const struct otte_frame frame = { .type = type, .length = (uint32_t)length, .id = id };
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_WELCOME_BYTES];

	otte_frame_encode(&frame, bytes);
	if (peer->way == WRONG_VERSION)
		bytes[VERSION_AT]++;
	if (length)
		memcpy(bytes + OTTE_FRAME_HEADER, payload, length);
	/* The other side may have hung up by now. */
	(void)!send(fd, bytes, OTTE_FRAME_HEADER + length, MSG_NOSIGNAL);
}

static void welcome(const struct wrong_peer *peer, int fd)
{
	struct otte_welcome welcome = {
		.identity = { .epoch = 7, .pid = 1, .name = "wrong" },
		.session = 9,
		.max_payload = MAX_PAYLOAD,
		.max_lanes = 16,
	};
	uint8_t bytes[OTTE_WELCOME_BYTES];

	memset(welcome.identity.boot_id, 1, sizeof(welcome.identity.boot_id));
	memset(welcome.identity.incarnation, 2, sizeof(welcome.identity.incarnation));
	memset(welcome.nonce, 3, sizeof(welcome.nonce));
	otte_welcome_encode(&welcome, bytes, sizeof(bytes));
	say(peer, fd, OTTE_FRAME_WELCOME, 0, bytes, sizeof(bytes));
	say(peer, fd, OTTE_FRAME_READY, 0, NULL, 0);
}

static bool hear(int fd, struct otte_frame *frame)
{
	uint8_t header[OTTE_FRAME_HEADER], payload[MAX_PAYLOAD];

	return recv(fd, header, sizeof(header), MSG_WAITALL) == sizeof(header) &&
	       otte_frame_decode(header, sizeof(payload), frame) == 0 &&
	       (!frame->length ||
		recv(fd, payload, frame->length, MSG_WAITALL) == (ssize_t)frame->length);
}

/* False: nothing more is to be heard from there. */
static bool serve(const struct wrong_peer *peer, int fd)
{
	uint8_t nonsense[OTTE_REGIONS_HEADER];
	struct otte_frame frame;

	memset(nonsense, 0xff, sizeof(nonsense));
	if (!hear(fd, &frame))
		return false;
	switch (frame.type) {
	case OTTE_FRAME_HELLO:
		welcome(peer, fd);
		return peer->way != WRONG_DEAF;
	case OTTE_FRAME_LANE:
		say(peer, fd, OTTE_FRAME_LANE_READY, frame.id, NULL, 0);
		return true;
	case OTTE_FRAME_DESCRIBE:
		say(peer, fd, OTTE_FRAME_REGIONS, frame.id, nonsense, sizeof(nonsense));
		return true;
	case OTTE_FRAME_STATS:
		say(peer, fd, OTTE_FRAME_STATS_REPLY, frame.id, nonsense, sizeof(nonsense));
		return true;
	default:
		return true;
	}
}

static void *be_wrong(void *arg)
{
	struct wrong_peer *peer = arg;
	struct pollfd fds[1 + CONNECTIONS] = { { peer->listener, POLLIN, 0 } };
	nfds_t count = 1, i;

	while (!peer->stop && poll(fds, count, 20) >= 0) {
		for (i = 1; i < count; i++)
			if (fds[i].revents && !serve(peer, fds[i].fd))
				fds[i].events = 0;
		if (fds[0].revents && count < 1 + CONNECTIONS)
			fds[count++] = (struct pollfd){ accept(peer->listener, NULL, NULL), POLLIN, 0 };
	}
	for (i = 1; i < count; i++)
		close(fds[i].fd);
	return NULL;
}

void wrong_peer_start(struct wrong_peer *peer, enum wrong_way way)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(in);
	const int room = RECEIVE_BUFFER;

	memset(peer, 0, sizeof(*peer));
	peer->way = way;
	peer->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(peer->listener >= 0);
	setsockopt(peer->listener, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	assert_int_equal(bind(peer->listener, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(peer->listener, CONNECTIONS), 0);
	assert_int_equal(getsockname(peer->listener, (struct sockaddr *)&in, &length), 0);
	snprintf(peer->address, sizeof(peer->address), "127.0.0.1:%u", ntohs(in.sin_port));
	assert_int_equal(pthread_create(&peer->thread, NULL, be_wrong, peer), 0);
}

void wrong_peer_end(struct wrong_peer *peer)
{
	peer->stop = true;
	pthread_join(peer->thread, NULL);
	close(peer->listener);
}
