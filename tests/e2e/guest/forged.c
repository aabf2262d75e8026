/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "forged.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "engine/engine.h"
#include "engine/segment.h"
#include "ledger/kernel.h"

int forged_lane(const struct side *side, int *module)
{
	struct otte_control_client *control = &side->segment->peer->control;
	const struct otte_frame frame = { .type = OTTE_FRAME_LANE_LEND, .length = OTTE_LANE_HELLO_BYTES };
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_LANE_HELLO_BYTES];
	struct otte_ledger_client *client = side->engine->client;
	struct otte_client_address to;
	struct otte_lane_hello hello;
	int fd, one = 1;

	*module = ((struct kernel_client *)client)->fd;
	assert_int_equal(client->ledger->ops->welcome(client, control->attested, true), 0);
	assert_int_equal(otte_control_client_lane(control, OTTE_LANE_LEND, &hello, &to), 0);
	otte_frame_encode(&frame, bytes);
	otte_lane_hello_encode(&hello, bytes + OTTE_FRAME_HEADER, OTTE_LANE_HELLO_BYTES);
	fd = socket(to.address.ss_family, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to.address, to.length), 0);
	/* What it says is small, and no answer is waited for now and then. */
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	assert_int_equal(send(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(recv(fd, bytes, OTTE_FRAME_HEADER, MSG_WAITALL), OTTE_FRAME_HEADER);
	return fd;
}

void forged_say(int fd, const struct otte_lend *lend)
{
	const struct otte_frame header = { .type = OTTE_FRAME_LEND, .length = OTTE_LEND_BYTES };
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_LEND_BYTES];

	otte_frame_encode(&header, bytes);
	otte_lend_encode(lend, bytes + OTTE_FRAME_HEADER, OTTE_LEND_BYTES);
	assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
}

struct otte_lend forged_ask(int fd, uint64_t region, uint16_t op)
{
	const struct otte_lend lend = { .type = OTTE_LEND_ASK, .op = op, .region = region };
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_LEND_BYTES];
	struct otte_lend answer;

	forged_say(fd, &lend);
	assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_WAITALL), sizeof(bytes));
	assert_int_equal(otte_lend_decode(bytes + OTTE_FRAME_HEADER, OTTE_LEND_BYTES, &answer), 0);
	return answer;
}

void forged_return(int fd, uint64_t id)
{
	const struct otte_lend lend = { .type = OTTE_LEND_RETURN, .id = id };

	forged_say(fd, &lend);
}
