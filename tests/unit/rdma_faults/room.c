/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include "engine/batch.h"
#include "engine/segment.h"
#include "transport/rdma/routes.h"

int fork_state, fork_init_code;
_Atomic unsigned fork_inits;

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

/* Tables of their own, which say of forks what they should. */
static void set_tables(void)
{
	unsigned host;

	fork_state = IBV_FORK_UNNEEDED;
	fork_init_code = 0;
	atomic_store(&fork_inits, 0);
	for (host = 0; host < 2; host++) {
		tables[host] = *verbs_of[host];
		tables[host].is_fork_initialized = is_fork_initialized;
		tables[host].fork_init = fork_init;
		verbs_of[host] = &tables[host];
	}
}

int room_start(void **state)
{
	with_nics(state);
	set_tables();
	return 0;
}

int room_start_two(void **state)
{
	with_two_nics(state);
	set_tables();
	return 0;
}

void use_rdma(struct otte_config *config)
{
	use_nics_at_once(config);
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

int read_by_rdma(struct pair *pair, uint64_t offset)
{
	return run(pair, OTTE_READ, offset, 4096).code;
}

/* ---- What comes to be ---- */

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
