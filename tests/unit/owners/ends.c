/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ends.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/util.h"

struct end requester, source;
unsigned int fail_allocation;

/* ---- Allocations ----------------------------------------------------------------------------- */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);

static bool fails(void)
{
	if (!fail_allocation || --fail_allocation)
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
	return fails() ? MAP_FAILED : __real_mmap(at, length, protection, flags, fd, offset);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

void set_open(unsigned int host, struct otte_rdma_context_set *set)
{
	const struct otte_rdma_context_params params = OTTE_RDMA_CONTEXT_PARAMS;
	const struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct otte_rdma_nics nics;

	assert_int_equal(otte_rdma_discover(sim_verbs(host), &select, &nics), 0);
	assert_int_equal(otte_rdma_context_set_open(sim_verbs(host), &nics, &params, set), 0);
	otte_rdma_nics_close(sim_verbs(host), &nics);
}

static bool source_is_rxe;

static void end_open(struct end *end, unsigned int host)
{
	struct otte_rdma_lane_params lane = OTTE_RDMA_LANE_PARAMS;

	memset(end, 0, sizeof(*end));
	end->device = sim_device_add(host, "mlx5_0");
	if (host && source_is_rxe) {
		end->device->attr.vendor_id = 0xffffff;
		end->device->quirks = SIM_RXE;
	}
	set_open(host, &end->set);
	end->context = otte_rdma_context_set_get(&end->set, 0);
	lane.max_cqes = END_CQES;
	lane.max_qps = 4;
	assert_int_equal(otte_rdma_lane_create(end->context, &lane, &end->lane), 0);
	end->bytes = aligned_alloc(4096, END_BYTES);
	memset(end->bytes, host ? 0x5a : 0, END_BYTES);
	assert_int_equal(otte_rdma_mr_register(end->context, end->bytes, END_BYTES,
					       IBV_ACCESS_LOCAL_WRITE, &end->local),
			 0);
	assert_int_equal(otte_rdma_mr_register(end->context, end->bytes, END_BYTES,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
					       &end->parent),
			 0);
}

int ends_open(void **state)
{
	(void)state;
	sim_reset();
	end_open(&requester, 0);
	end_open(&source, 1);
	return 0;
}

int ends_start(void **state)
{
	const struct otte_rdma_qp_params requesters = requester_params();
	const struct otte_rdma_qp_params sources = source_params();

	ends_open(state);
	requester.qp = end_create_qp(&requester, &requesters);
	source.qp = end_create_qp(&source, &sources);
	qps_connect(requester.qp, source.qp);
	return 0;
}

int ends_start_rxe(void **state)
{
	source_is_rxe = true;
	ends_start(state);
	source_is_rxe = false;
	assert_true(source.context->rxe);
	return 0;
}

static void end_close(struct end *end)
{
	if (end->qp)
		assert_int_equal(otte_rdma_qp_destroy(end->qp), 0);
	assert_int_equal(otte_rdma_lane_destroy(end->lane), 0);
	assert_int_equal(otte_rdma_mr_release(&end->local), 0);
	assert_int_equal(otte_rdma_mr_release(&end->parent), 0);
	assert_int_equal(otte_rdma_context_set_close(&end->set), 0);
	free(end->bytes);
}

int ends_finish(void **state)
{
	(void)state;
	end_close(&requester);
	end_close(&source);
	assert_string_equal(sim_left(), "");
	return 0;
}

/* Not static: a variable that is only written is no root. */
extern struct kept *all_kept;
struct kept *all_kept;

struct kept {
	struct kept *next;
	uint8_t copy[];
};

void keep_reachable(const void *what, size_t bytes)
{
	struct kept *kept = calloc(1, sizeof(*kept) + bytes);

	memcpy(kept->copy, what, bytes);
	kept->next = all_kept;
	all_kept = kept;
}

int ends_forget(void **state)
{
	(void)state;
	keep_reachable(&requester, sizeof(requester));
	keep_reachable(&source, sizeof(source));
	return 0;
}

/* ---- QPs ------------------------------------------------------------------------------------- */

struct otte_rdma_qp_params requester_params(void)
{
	struct otte_rdma_qp_params params = OTTE_RDMA_QP_PARAMS;

	params.max_send_wr = END_SEND_WRS;
	params.finishes = true;
	return params;
}

struct otte_rdma_qp_params source_params(void)
{
	struct otte_rdma_qp_params params = OTTE_RDMA_QP_PARAMS;

	params.max_send_wr = END_SEND_WRS;
	params.max_recv_wr = END_RECV_WRS;
	params.remote_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	return params;
}

static void fenced(struct otte_rdma_qp *qp, void *arg)
{
	struct end *end = arg;

	assert_ptr_equal(qp->context, end->context);
	end->fenced++;
}

struct otte_rdma_qp *end_create_qp(struct end *end, const struct otte_rdma_qp_params *params)
{
	struct otte_rdma_qp *qp;

	assert_int_equal(otte_rdma_qp_create(end->lane, params, fenced, end, &qp), 0);
	return qp;
}

void qps_connect(struct otte_rdma_qp *one, struct otte_rdma_qp *other)
{
	assert_int_equal(otte_rdma_qp_connect(one, &other->end), 0);
	assert_int_equal(otte_rdma_qp_connect(other, &one->end), 0);
}

/* ---- Work ------------------------------------------------------------------------------------ */

static void work_done(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct told *told = container_of(work, struct told, work);

	told->outcome = *outcome;
	told->count++;
}

void told_init(struct told *told)
{
	*told = (struct told){ .work.done = work_done };
}

static void receipt_done(struct otte_rdma_receipt *receipt, int code)
{
	struct told_receipt *told = container_of(receipt, struct told_receipt, receipt);

	told->code = code;
	told->count++;
}

void told_receipt_init(struct told_receipt *told, uint64_t grant, uint32_t key)
{
	const struct otte_rdma_binding binding = {
		.grant = grant,
		.key = key,
		.nonce = { 1, 2, 3 },
		.address = 4096,
		.length = 4096,
		.direction = OTTE_READ,
	};

	*told = (struct told_receipt){
		.receipt = { .done = receipt_done, .grant = grant, .key = key },
	};
	otte_rdma_binding_encode(&binding, told->receipt.binding);
}

int end_post(struct end *end, const struct otte_rdma_send *send, struct told *told)
{
	struct otte_rdma_send one = *send;
	uint32_t accepted;

	told_init(told);
	one.work = &told->work;
	return otte_rdma_qp_post(end->qp, &one, 1, &accepted);
}

struct otte_rdma_send payload(enum otte_rdma_op op, size_t at, uint64_t bytes, uint32_t key)
{
	return (struct otte_rdma_send){
		.op = op,
		.local = (uintptr_t)requester.bytes + at,
		.bytes = bytes,
		.lkey = requester.local.native->lkey,
		.remote = (uintptr_t)source.bytes + at,
		.key = key,
	};
}

struct otte_rdma_send finish(const struct told_receipt *receipt)
{
	return (struct otte_rdma_send){
		.op = OTTE_RDMA_FINISH,
		.message = receipt->receipt.binding,
		.key = receipt->receipt.key,
	};
}

struct otte_rdma_window *source_bind(size_t at, uint64_t bytes, enum otte_op direction)
{
	const struct otte_rdma_window_range range = {
		.parent = &source.parent,
		.address = (uintptr_t)source.bytes + at,
		.bytes = bytes,
		.direction = direction,
	};
	struct otte_rdma_window *window;
	struct told told;

	told_init(&told);
	assert_int_equal(otte_rdma_window_take(source.context, &window), 0);
	assert_int_equal(otte_rdma_window_bind(window, source.qp, &range, &told.work), 0);
	end_poll(&source);
	assert_int_equal(told.count, 1);
	assert_int_equal(otte_rdma_window_bound(window, &told.outcome), 0);
	assert_int_equal(window->state, OTTE_RDMA_WINDOW_BOUND);
	return window;
}

int end_poll(struct end *end)
{
	return otte_rdma_lane_poll(end->lane, 64);
}

void ends_poll(void)
{
	end_poll(&requester);
	end_poll(&source);
}

/* ---- What is asserted ------------------------------------------------------------------------ */

struct otte_rdma_qp_status end_status(const struct end *end)
{
	struct otte_rdma_qp_status status;

	otte_rdma_qp_status(end->qp, &status);
	return status;
}

struct otte_rdma_lane_status lane_status(const struct end *end)
{
	struct otte_rdma_lane_status status;

	otte_rdma_lane_status(end->lane, &status);
	return status;
}

void assert_charged(const struct end *end, uint32_t sends, uint32_t receives)
{
	assert_int_equal(end_status(end).sends, sends);
	assert_int_equal(end_status(end).receives, receives);
	assert_int_equal(lane_status(end).sends, sends);
	assert_int_equal(lane_status(end).receives, receives);
}

void assert_fenced(struct end *end, int code, const char *text)
{
	struct otte_rdma_qp_status status;
	uint32_t accepted;

	end_poll(end);
	end_poll(end);
	status = end_status(end);
	assert_int_equal(status.code, code);
	if (!strstr(status.why, text))
		assert_string_equal(status.why, text);
	assert_int_equal(end->fenced, 1);
	assert_int_equal(otte_rdma_qp_post(end->qp, NULL, 1, &accepted), -ESHUTDOWN);
	assert_int_equal(accepted, 0);
	assert_int_equal(otte_rdma_qp_reserve(end->qp, 1), -ESHUTDOWN);
}

void assert_text(const char *part)
{
	if (!strstr(otte_error_text(), part))
		assert_string_equal(otte_error_text(), part);
}

/* ---- What is to fail ------------------------------------------------------------------------- */

unsigned int fail_call_after(enum sim_verb verb, unsigned int after, int error)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = verb,
		.after = after,
		.times = 1,
		.error = error,
	};

	return sim_fault_arm(&fault);
}

unsigned int fail_call(enum sim_verb verb, int error)
{
	return fail_call_after(verb, 0, error);
}

void fail_post(enum sim_verb verb, unsigned int taken, enum sim_bad_wr bad_wr)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = verb,
		.times = 1,
		.error = ENOMEM,
		.accepted = taken,
		.bad_wr = bad_wr,
	};

	sim_fault_arm(&fault);
}

void fail_wr(unsigned int after, enum ibv_wc_status status)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_SEND_STATUS,
		.after = after,
		.times = 1,
		.status = status,
	};

	sim_fault_arm(&fault);
}

void spoil_cqe(const struct end *end, enum sim_fault_kind kind, unsigned int after, uint64_t value)
{
	const struct sim_fault fault = {
		.kind = kind,
		.target = end->qp->native,
		.after = after,
		.times = 1,
		.value = value,
	};

	sim_fault_arm(&fault);
}

unsigned int fail_each_allocation(int (*make)(void), void (*nothing_is_left)(void))
{
	unsigned int nth;
	int rc;

	for (nth = 1;; nth++) {
		otte_fail(-EIO, "before");
		fail_allocation = nth;
		rc = make();
		fail_allocation = 0;
		if (!rc)
			return nth - 1;
		assert_int_equal(rc, -ENOMEM);
		assert_string_not_equal(otte_error_text(), "before");
		nothing_is_left();
	}
}
