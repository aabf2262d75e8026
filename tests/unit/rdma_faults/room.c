/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include <sys/wait.h>

#include "engine/batch.h"
#include "engine/segment.h"
#include "transport/rdma/routes.h"

#define WAIT_US 1000
#define WAIT_TURNS 10000

struct sim_device *nics[2][2];
int fork_state, fork_init_code;
_Atomic unsigned fork_inits;

static unsigned opens;
static struct otte_verbs tables[2];
static struct otte_rdma_qp *_Atomic last_joined[2];
static uint8_t last_gid[2][16];
static uint32_t last_mtu[2];

/* ---- What an engine finds ---- */

static int is_fork_initialized(void)
{
	return fork_state;
}

static int fork_init(void)
{
	atomic_fetch_add(&fork_inits, 1);
	return fork_init_code;
}

int __wrap_otte_verbs_open(const struct otte_verbs **verbs);

/* An engine asks twice. */
int __wrap_otte_verbs_open(const struct otte_verbs **verbs)
{
	*verbs = &tables[opens++ < 2 ? SOURCE : REQUESTER];
	return 0;
}

int __real_otte_rdma_pair_join(struct otte_rdma_pair *pair, const struct otte_rdma_path *path,
			       uint32_t qpn, uint32_t psn, uint32_t mtu_bytes, uint32_t rd_atomic);
int __wrap_otte_rdma_pair_join(struct otte_rdma_pair *pair, const struct otte_rdma_path *path,
			       uint32_t qpn, uint32_t psn, uint32_t mtu_bytes, uint32_t rd_atomic);

int __wrap_otte_rdma_pair_join(struct otte_rdma_pair *pair, const struct otte_rdma_path *path,
			       uint32_t qpn, uint32_t psn, uint32_t mtu_bytes, uint32_t rd_atomic)
{
	unsigned host = pair->qp->context->verbs == &tables[REQUESTER];

	memcpy(last_gid[host], path->gid, sizeof(path->gid));
	last_mtu[host] = mtu_bytes;
	atomic_store(&last_joined[host], pair->qp);
	return __real_otte_rdma_pair_join(pair, path, qpn, psn, mtu_bytes, rd_atomic);
}

struct otte_rdma_qp *joined(unsigned host)
{
	return atomic_load(&last_joined[host]);
}

const uint8_t *joined_to(unsigned host)
{
	return last_gid[host];
}

uint32_t joined_mtu(unsigned host)
{
	return last_mtu[host];
}

uint32_t charged(unsigned host)
{
	struct otte_rdma_qp_status status;

	otte_rdma_qp_status(joined(host), &status);
	return status.sends;
}

_Atomic bool forged_paths;
_Atomic uint32_t forged_mtu;

void __real_otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths);
void __wrap_otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths);

void __wrap_otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths)
{
	__real_otte_rdma_fill_paths(rdma, paths);
	if (atomic_load(&forged_paths))
		paths->rows[0].pd++;
	if (atomic_load(&forged_mtu))
		paths->rows[0].mtu_bytes = atomic_load(&forged_mtu);
}

static int start(unsigned count)
{
	static const char *const names[] = { "mlx5_0", "mlx5_1" };
	unsigned host, i;

	sim_reset();
	opens = 0;
	fork_state = IBV_FORK_UNNEEDED;
	fork_init_code = 0;
	atomic_store(&fork_inits, 0);
	memset(nics, 0, sizeof(nics));
	for (host = 0; host < 2; host++) {
		tables[host] = *sim_verbs(host);
		tables[host].is_fork_initialized = is_fork_initialized;
		tables[host].fork_init = fork_init;
		for (i = 0; i < count; i++)
			nics[host][i] = sim_device_add(host, names[i]);
	}
	return 0;
}

int room_start(void **state)
{
	(void)state;
	return start(1);
}

int room_start_two(void **state)
{
	(void)state;
	return start(2);
}

int room_finish(void **state)
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

void use_rdma(struct otte_config *config)
{
	config->ledger = OTTE_LEDGER_PROCESS;
	config->rdma_enabled = 1;
	config->rdma_mr_bytes = 1ull << 32;
	config->reconnect_max_ns = config->reconnect_min_ns = 1000000;
	config->rdma_destruction_ns = 100000000;
}

void use_short_control(struct otte_config *config)
{
	use_rdma(config);
	config->control_timeout_ns = SECOND;
}

void use_long_waits(struct otte_config *config)
{
	use_rdma(config);
	config->reconnect_max_ns = 60 * SECOND;
}

/* ---- Requests ---- */

void submit(struct pair *pair, uint8_t op, uint32_t transport, uint64_t offset, uint64_t length)
{
	struct otte_request request = pair_request(pair, op, offset, offset, length);

	request.transport = transport;
	OK(otte_batch_reset(pair->batch));
	OK(otte_batch_submit(pair->batch, &request, 1));
}

struct otte_task wait_task(struct pair *pair)
{
	struct otte_task task;

	OK(otte_batch_wait(pair->batch, 20 * SECOND));
	OK(otte_batch_task(pair->batch, 0, &task));
	return task;
}

struct otte_task run(struct pair *pair, uint8_t op, uint32_t transport, uint64_t offset,
		     uint64_t length)
{
	submit(pair, op, transport, offset, length);
	return wait_task(pair);
}

int read_by_rdma(struct pair *pair, uint64_t offset)
{
	return run(pair, OTTE_READ, OTTE_TRANSPORT_RDMA, offset, 4096).code;
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

bool is_unconnected(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).rdma_qps == 0 && pair_stats(pair->requester).rdma_qps == 0;
}

bool is_granted(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).rdma_grants == 1;
}

bool is_retained(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).retained + pair_stats(pair->requester).retained >= 1;
}

bool works_by_rdma(void *arg)
{
	return read_by_rdma(arg, 0) == 0;
}

bool is_taken(struct otte_mem *mem, uint64_t offset, uint64_t length)
{
	struct otte_access access;

	if (otte_access_begin(&mem->access, &access, offset, length, true))
		return true;
	otte_access_end(&mem->access, &access);
	return false;
}

/* ---- What breaks ---- */

unsigned strike(enum sim_fault_kind kind, struct sim_device *device, uint64_t value)
{
	const struct sim_fault fault = {
		.kind = kind, .target = device, .times = 1, .value = value
	};

	return sim_fault_arm(&fault);
}

unsigned fail_call(enum sim_verb verb, struct sim_device *device, unsigned times)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = verb,
		.target = device,
		.times = times,
		.error = EIO,
	};

	return sim_fault_arm(&fault);
}
