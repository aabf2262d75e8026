/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stranger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "transport/rdma/gid.h"
#include "unit/engine/nics.h"

static void take(struct stranger *stranger, const struct otte_rdma_message *message)
{
	if (message->type == OTTE_RDMA_MSG_PATHS)
		stranger->theirs = message->paths;
	if (message->type != OTTE_RDMA_MSG_CONNECTED)
		return;
	stranger->last = message->connected;
	stranger->connected += !message->connected.status;
	stranger->refused += !!message->connected.status;
}

/* 1: more may be there. */
static int hear(struct stranger *stranger)
{
	struct otte_rdma_message message;
	int ret;

	if (!stranger->ready) {
		ret = otte_rdma_line_greeted(&stranger->line);
		stranger->ready = !ret;
		return ret < 0 ? ret : !ret;
	}
	ret = otte_rdma_line_hear(&stranger->line, false, &message);
	if (ret == 1)
		take(stranger, &message);
	return ret;
}

static void line_ready(struct otte_watch *watch, uint32_t events)
{
	struct stranger *stranger = container_of(watch, struct stranger, line.watch);
	int ret = 1;

	if (events & EPOLLOUT)
		otte_rdma_line_flush(&stranger->line);
	while (ret == 1)
		ret = hear(stranger);
	if (ret < 0)
		stranger->lost = true;
}

static void hear_once(struct stranger *stranger)
{
	otte_rdma_lines_send(&stranger->lines);
	otte_loop_run(&stranger->loop, 2);
}

void stranger_hear(struct stranger *stranger, unsigned answers)
{
	unsigned i;

	for (i = 0; i < 5000 && !stranger->lost; i++) {
		if (stranger->connected + stranger->refused >= answers)
			break;
		hear_once(stranger);
	}
}

void stranger_open(struct stranger *stranger, struct pair *pair)
{
	struct otte_rdma_message message = { .type = OTTE_RDMA_MSG_PATHS };
	struct otte_client_address to;
	struct otte_lane_hello hello;
	unsigned i;
	int fd;

	memset(stranger, 0, sizeof(*stranger));
	OK(otte_loop_init(&stranger->loop));
	stranger->lines.loop = &stranger->loop;
	OK(otte_control_client_lane(&pair->segment->peer->control, OTTE_LANE_RDMA, &hello, &to));
	fd = socket(to.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	OK(connect(fd, (struct sockaddr *)&to.address, to.length));
	stranger->line.watch.ready = line_ready;
	OK(otte_rdma_line_open(&stranger->line, &stranger->lines, fd));
	OK(otte_rdma_line_greet(&stranger->line, &hello));
	for (i = 0; i < 5000 && !stranger->ready && !stranger->lost; i++)
		hear_once(stranger);
	if (stranger->lost)
		return;
	message.paths.grants = 64;
	message.paths.count = 1;
	message.paths.rows[0] = (struct otte_rdma_path){
		.port = 1,
		.gid_type = OTTE_RDMA_GID_ROCE_V2,
		.ethernet = 1,
		.active = 1,
		.mtu_bytes = 4096,
		.pd = 77,
	};
	OK(otte_rdma_line_say(&stranger->line, &message));
	for (i = 0; i < 5000 && !stranger->theirs.count && !stranger->lost; i++)
		hear_once(stranger);
}

void stranger_close(struct stranger *stranger)
{
	otte_rdma_line_close(&stranger->line);
	otte_loop_fini(&stranger->loop);
}

void stranger_connect(struct stranger *stranger, uint64_t connection, uint32_t mtu_bytes,
		      uint32_t rd_atomic)
{
	const struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_CONNECT,
		.connect = {
			.connection = connection,
			.source_pd = stranger->theirs.rows[0].pd,
			.requester_pd = 77,
			.source_nic = stranger->theirs.rows[0].nic,
			.op = OTTE_READ,
			.qpn = 0x1234,
			.psn = 1,
			.mtu_bytes = mtu_bytes,
			.rd_atomic = rd_atomic,
		},
	};

	OK(otte_rdma_line_say(&stranger->line, &message));
}
