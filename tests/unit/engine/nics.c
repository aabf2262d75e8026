/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "nics.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "engine/engine.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"

/* ---- Hosts ---- */

struct sim_device *nics[2][2];
const struct otte_verbs *verbs_of[2];
bool hosts_in_turn;

static unsigned opens;

int __wrap_otte_verbs_open(const struct otte_verbs **verbs);

/* An engine asks twice. */
int __wrap_otte_verbs_open(const struct otte_verbs **verbs)
{
	unsigned engine = opens++ / 2;
	unsigned host = hosts_in_turn ? engine % 2 : engine > 0;

	if (!verbs_of[host])
		return otte_fail(-ENOSYS, "libibverbs.so.1: cannot open shared object file");
	*verbs = verbs_of[host];
	return 0;
}

unsigned verbs_opened(void)
{
	return opens;
}

static int start(unsigned count)
{
	static const char *const names[] = { "mlx5_0", "mlx5_1" };
	unsigned host, i;

	sim_reset();
	opens = 0;
	memset(nics, 0, sizeof(nics));
	for (host = 0; host < 2; host++) {
		verbs_of[host] = sim_verbs(host);
		for (i = 0; i < count; i++)
			nics[host][i] = sim_device_add(host, names[i]);
	}
	return 0;
}

int without_nics(void **state)
{
	(void)state;
	return start(0);
}

int with_nics(void **state)
{
	(void)state;
	return start(1);
}

int with_two_nics(void **state)
{
	(void)state;
	return start(2);
}

int nothing_is_left(void **state)
{
	(void)state;
	sim_progress_set(SIM_INLINE, 0);
	assert_string_equal(sim_left(), "");
	return 0;
}

void in_its_own_process(void (*test)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		test();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* For a run of all tests with so many workers, or with workers that poll. */
static void use_environment(struct otte_config *config)
{
	const char *workers = getenv("OTTE_TEST_WORKERS"), *polling = getenv("OTTE_TEST_POLLING");

	if (workers)
		config->rdma_workers = (uint32_t)strtoul(workers, NULL, 0);
	if (polling)
		config->rdma_progress = OTTE_RDMA_PROGRESS_POLLING;
}

void use_nics(struct otte_config *config)
{
	use_environment(config);
	config->ledger = OTTE_LEDGER_PROCESS;
	config->rdma_enabled = 1;
	config->rdma_mr_bytes = 1ull << 32;
}

void use_nics_at_once(struct otte_config *config)
{
	use_nics(config);
	config->reconnect_max_ns = config->reconnect_min_ns = 1000000;
}

/* ---- Requests ---- */

struct otte_request request_over(const struct pair *pair, uint8_t op, uint32_t transport,
				 uint64_t offset, uint64_t length)
{
	struct otte_request request = pair_request(pair, op, offset, offset, length);

	request.transport = transport;
	return request;
}

struct otte_task task_of(struct pair *pair, uint32_t index)
{
	struct otte_task task;

	OK(otte_batch_task(pair->batch, index, &task));
	return task;
}

void submit_over(struct pair *pair, uint8_t op, uint32_t transport, uint64_t offset,
		 uint64_t length)
{
	struct otte_request request = request_over(pair, op, transport, offset, length);

	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, &request, 1));
}

struct otte_task wait_task(struct pair *pair)
{
	OK(otte_batch_wait(pair->batch, 30 * SECOND));
	return task_of(pair, 0);
}

struct otte_task run_over(struct pair *pair, uint8_t op, uint32_t transport, uint64_t offset,
			  uint64_t length)
{
	submit_over(pair, op, transport, offset, length);
	return wait_task(pair);
}

struct otte_request rdma_request(const struct pair *pair, uint8_t op, uint64_t offset,
				 uint64_t length)
{
	return request_over(pair, op, OTTE_TRANSPORT_RDMA, offset, length);
}

void submit(struct pair *pair, uint8_t op, uint64_t offset, uint64_t length)
{
	struct otte_request request = rdma_request(pair, op, offset, length);

	OK(otte_batch_submit(pair->batch, &request, 1));
}

struct otte_task run(struct pair *pair, uint8_t op, uint64_t offset, uint64_t length)
{
	return run_over(pair, op, OTTE_TRANSPORT_RDMA, offset, length);
}

void assert_arrived(const struct pair *pair, uint8_t op, uint64_t length)
{
	const uint8_t *from = op == OTTE_READ ? pair->remote_bytes : pair->local_bytes;
	const uint8_t *to = op == OTTE_READ ? pair->local_bytes : pair->remote_bytes;
	uint64_t i;

	assert_memory_equal(to + GUARD, from + GUARD, length);
	for (i = 0; i < GUARD; i++)
		assert_int_equal(to[i], UNTOUCHED);
	for (i = GUARD + length; i < pair->size; i++)
		if (to[i] != UNTOUCHED)
			fail_msg("byte %lu behind the range was written",
				 (unsigned long)(i - GUARD - length));
}

/* ---- What comes to be ---- */

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

bool is_granted(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).rdma_grants == 1;
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
	const struct otte_rdma_peer *peer;
	bool ready = false;
	unsigned i;

	for (i = 0; i < rdma->worker_count; i++) {
		pthread_mutex_lock(&rdma->workers[i].lock);
		peer = rdma->workers[i].peers;
		ready |= peer && peer->state == OTTE_RDMA_PEER_READY;
		pthread_mutex_unlock(&rdma->workers[i].lock);
	}
	return ready;
}

void close_rest(struct pair *pair)
{
	pair->remote = NULL;
	pair_close_requester(pair);
	OK(otte_mem_release(pair->remote_mem));
	OK(otte_engine_destroy(pair->source));
}
