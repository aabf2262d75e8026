/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "nics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "transport/rdma/peer.h"

#define WAIT_US 1000
#define WAIT_TURNS 10000

struct sim_device *nics[2];

static unsigned opens;

int __wrap_otte_verbs_open(const struct otte_verbs **verbs);

/* An engine asks twice, so the first of all engines is on host 0 and others are on host 1. */
int __wrap_otte_verbs_open(const struct otte_verbs **verbs)
{
	*verbs = sim_verbs(opens++ >= 2);
	return 0;
}

int with_nics(void **state)
{
	(void)state;
	sim_reset();
	opens = 0;
	nics[0] = sim_device_add(0, "mlx5_0");
	nics[1] = sim_device_add(1, "mlx5_0");
	return 0;
}

int nothing_is_left(void **state)
{
	(void)state;
	sim_progress_set(SIM_INLINE, 0);
	assert_string_equal(sim_left(), "");
	return 0;
}

void use_rdma(struct otte_config *config)
{
	config->ledger = OTTE_LEDGER_PROCESS;
	config->rdma_enabled = 1;
	config->rdma_mr_bytes = 1ull << 32;
	config->reconnect_max_ns = config->reconnect_min_ns = 1000000;
}

struct otte_request rdma_request(const struct pair *pair, uint8_t op, uint64_t offset, uint64_t length)
{
	struct otte_request request = pair_request(pair, op, offset, offset, length);

	request.transport = OTTE_TRANSPORT_RDMA;
	return request;
}

struct otte_task task_of(struct pair *pair, uint32_t index)
{
	struct otte_task task;

	OK(otte_batch_task(pair->batch, index, &task));
	return task;
}

void submit(struct pair *pair, uint8_t op, uint64_t offset, uint64_t length)
{
	struct otte_request request = rdma_request(pair, op, offset, length);

	OK(otte_batch_submit(pair->batch, &request, 1));
}

struct otte_task run(struct pair *pair, uint8_t op, uint64_t offset, uint64_t length)
{
	OK(otte_batch_reset(pair->batch));
	submit(pair, op, offset, length);
	OK(otte_batch_wait(pair->batch, 20 * SECOND));
	return task_of(pair, 0);
}

bool comes(bool (*condition)(void *arg), void *arg)
{
	unsigned i;

	for (i = 0; i < WAIT_TURNS; i++) {
		if (condition(arg))
			return true;
		usleep(WAIT_US);
	}
	return false;
}

bool is_drained(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).loans == 0;
}

bool has_loan(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).loans >= 1;
}

bool is_unconnected(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).rdma_qps == 0 && pair_stats(pair->requester).rdma_qps == 0;
}

bool has_its_lane(void *arg)
{
	struct pair *pair = arg;
	struct otte_rdma *rdma = (struct otte_rdma *)pair->requester->transport;
	bool ready;

	pthread_mutex_lock(&rdma->lock);
	ready = rdma->peers && rdma->peers->state == OTTE_RDMA_PEER_READY;
	pthread_mutex_unlock(&rdma->lock);
	return ready;
}

void close_rest(struct pair *pair)
{
	pair->remote = NULL;
	pair_close_requester(pair);
	OK(otte_mem_release(pair->remote_mem));
	OK(otte_engine_destroy(pair->source));
}

/* ---- A requester that is none ---- */

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

	for (i = 0; i < 5000 && !stranger->lost && stranger->connected + stranger->refused < answers; i++)
		hear_once(stranger);
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

void stranger_connect(struct stranger *stranger, uint64_t connection, uint32_t mtu_bytes, uint32_t rd_atomic)
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
