/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The owners of lib/transport/rdma over rxe: two contexts of rxe0, as two engines would have, and
 * what a grant is to them. Runs in a guest; see tests/verbs/guest.
 */
#include "transport/rdma/buffers.h"
#include "transport/rdma/context_set.h"
#include "transport/rdma/cq_lane.h"
#include "transport/rdma/qp.h"
#include "transport/rdma/window.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "otte/otte.h"

#include "check.h"

#define BYTES 262144
#define AT 4096
#define LENGTH 65536
#define WAIT_NS (10 * NSEC_PER_SEC)

struct end {
	struct otte_rdma_context_set set;
	struct otte_rdma_cq_lane *lane;
	struct otte_rdma_buffers *buffers;
	const struct otte_rdma_buffer *buffer;
	struct otte_rdma_qp *qp;
	uint8_t *bytes;
};

struct told {
	struct otte_rdma_work work;
	struct otte_rdma_outcome outcome;
	bool done;
};

struct told_receipt {
	struct otte_rdma_receipt receipt;
	bool done;
	int code;
};

static const struct otte_verbs *verbs;
static struct end requester, source;
static uint64_t grants;

/* A rule of what returns 0. */
static bool goes_well(int rc, const char *rule)
{
	if (rc)
		printf("# %d: %s\n", rc, otte_error_text());
	check(!rc, rule);
	return !rc;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static bool open_set(struct end *end)
{
	const struct otte_rdma_context_params params = OTTE_RDMA_CONTEXT_PARAMS;
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	const char *const names[] = { "rxe0" };
	struct otte_rdma_nics nics;
	int rc;

	select.whitelist = names;
	select.whitelist_count = 1;
	rc = otte_rdma_discover(verbs, &select, &nics);
	if (!rc)
		rc = otte_rdma_context_set_open(verbs, &nics, &params, &end->set);
	otte_rdma_nics_close(verbs, &nics);
	return goes_well(rc, "a context opens");
}

static bool open_end(struct end *end, const struct otte_rdma_qp_params *params)
{
	const struct otte_rdma_buffers_params budget = OTTE_RDMA_BUFFERS_PARAMS;
	struct otte_rdma_lane_params lane = OTTE_RDMA_LANE_PARAMS;
	struct otte_rdma_buffer_spec spec = { .region = 1, .bytes = BYTES, .remote = true };

	end->bytes = aligned_alloc(4096, BYTES);
	spec.at = end->bytes;
	lane.events = true;
	if (!end->bytes || !open_set(end))
		return false;
	if (!goes_well(otte_rdma_lane_create(end->set.slots[0].context, &lane, &end->lane),
		       "a lane is made") ||
	    !goes_well(otte_rdma_buffers_open(&end->set, &budget, &end->buffers), "buffers") ||
	    !goes_well(otte_rdma_buffers_publish(end->buffers, &spec), "a region is published"))
		return false;
	end->buffer = otte_rdma_buffers_get(end->buffers, 1);
	return goes_well(otte_rdma_qp_create(end->lane, params, NULL, NULL, &end->qp),
			 "a QP is made");
}

static void poll_both(void)
{
	otte_rdma_lane_poll(requester.lane, 16);
	otte_rdma_lane_poll(source.lane, 16);
}

static bool wait_for(const bool *done)
{
	uint64_t until = otte_now_ns() + WAIT_NS;

	while (!*done && otte_now_ns() < until)
		poll_both();
	return *done;
}

static bool is_drained(struct end *end)
{
	uint64_t until = otte_now_ns() + WAIT_NS;

	while (!otte_rdma_qp_is_drained(end->qp) && otte_now_ns() < until)
		poll_both();
	return otte_rdma_qp_is_drained(end->qp);
}

/* ---- Work ------------------------------------------------------------------------------------ */

static void work_done(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct told *told = container_of(work, struct told, work);

	told->outcome = *outcome;
	told->done = true;
}

static void receipt_done(struct otte_rdma_receipt *receipt, int code)
{
	struct told_receipt *told = container_of(receipt, struct told_receipt, receipt);

	told->code = code;
	told->done = true;
}

/* What the payload came to. */
static int move(enum otte_rdma_op op, size_t at, uint64_t bytes, uint32_t key)
{
	struct told told = { .work.done = work_done };
	const struct otte_rdma_send send = {
		.op = op,
		.local = (uintptr_t)requester.bytes + at,
		.bytes = bytes,
		.lkey = requester.buffer->by_nic[0].local.native->lkey,
		.remote = (uintptr_t)source.bytes + at,
		.key = key,
		.work = &told.work,
	};
	uint32_t accepted;
	int rc = otte_rdma_qp_post(requester.qp, &send, 1, &accepted);

	if (rc || !wait_for(&told.done))
		return rc ? rc : -ETIMEDOUT;
	return told.outcome.code;
}

static struct otte_rdma_window *bind(enum otte_op direction)
{
	const struct otte_rdma_window_range range = {
		.parent = &source.buffer->by_nic[0].parent,
		.address = (uintptr_t)source.bytes + AT,
		.bytes = LENGTH,
		.direction = direction,
	};
	struct told told = { .work.done = work_done };
	struct otte_rdma_window *window;
	int rc = otte_rdma_window_take(source.set.slots[0].context, &window);

	if (!rc)
		rc = otte_rdma_window_bind(window, source.qp, &range, &told.work);
	if (!rc)
		rc = wait_for(&told.done) ? otte_rdma_window_bound(window, &told.outcome) :
					    -ETIMEDOUT;
	return goes_well(rc, "a window is bound") ? window : NULL;
}

static void expect(struct told_receipt *told, const struct otte_rdma_window *window)
{
	const struct otte_rdma_binding binding = {
		.grant = ++grants,
		.key = window->key,
		.address = (uintptr_t)source.bytes + AT,
		.length = LENGTH,
		.source.qpn = source.qp->end.qpn,
		.requester.qpn = requester.qp->end.qpn,
	};

	*told = (struct told_receipt){
		.receipt = { .done = receipt_done, .grant = binding.grant, .key = window->key },
	};
	otte_rdma_binding_encode(&binding, told->receipt.binding);
	goes_well(otte_rdma_qp_reserve(source.qp, 1), "a receive is reserved");
	goes_well(otte_rdma_qp_expect(source.qp, &told->receipt), "a receipt is expected");
}

static bool finish(struct told_receipt *receipt)
{
	struct told told = { .work.done = work_done };
	const struct otte_rdma_send send = {
		.op = OTTE_RDMA_FINISH,
		.message = receipt->receipt.binding,
		.key = receipt->receipt.key,
		.work = &told.work,
	};
	uint32_t accepted;

	if (otte_rdma_qp_post(requester.qp, &send, 1, &accepted) || !wait_for(&told.done))
		return false;
	return !told.outcome.code && wait_for(&receipt->done) && !receipt->code;
}

/* ---- What is shown --------------------------------------------------------------------------- */

/* A grant as it goes; the same window three times, each with a key of its own. */
static void grant(enum otte_op direction, uint8_t byte)
{
	struct otte_rdma_window *window = bind(direction);
	enum otte_rdma_op op = direction == OTTE_READ ? OTTE_RDMA_READ : OTTE_RDMA_WRITE;
	struct end *from = direction == OTTE_READ ? &source : &requester;
	struct end *to = direction == OTTE_READ ? &requester : &source;
	struct told_receipt receipt;

	if (!window)
		return;
	printf("# key 0x%08x\n", window->key);
	memset(from->bytes, byte, BYTES);
	memset(to->bytes, 0, BYTES);
	expect(&receipt, window);
	goes_well(move(op, AT, LENGTH, window->key), "the payload moves");
	check(to->bytes[AT] == byte && to->bytes[AT + LENGTH - 1] == byte, "all of it");
	check(!to->bytes[AT - 1] && !to->bytes[AT + LENGTH], "and nothing beside it");
	check(finish(&receipt), "the receipt is exact, and the key invalidated");
	goes_well(otte_rdma_window_received(window), "the window knows");
	goes_well(otte_rdma_window_put(window), "the window goes back");
}

static bool connect_ends(void)
{
	return goes_well(otte_rdma_qp_connect(requester.qp, &source.qp->end), "one connects") &&
	       goes_well(otte_rdma_qp_connect(source.qp, &requester.qp->end), "so does the other");
}

static void destroy_qps(void)
{
	goes_well(otte_rdma_qp_drain(requester.qp, -ECANCELED, "done"), "one drains");
	goes_well(otte_rdma_qp_drain(source.qp, -ECANCELED, "done"), "so does the other");
	check(is_drained(&requester) && is_drained(&source), "everything was flushed");
	goes_well(otte_rdma_qp_destroy(requester.qp), "one is destroyed");
	goes_well(otte_rdma_qp_destroy(source.qp), "so is the other");
}

static bool make_qps(const struct otte_rdma_qp_params *params)
{
	return goes_well(otte_rdma_qp_create(requester.lane, params, NULL, NULL, &requester.qp),
			 "another QP") &&
	       goes_well(otte_rdma_qp_create(source.lane, params, NULL, NULL, &source.qp),
			 "and its peer") &&
	       connect_ends();
}

/* Each refused request ends its connection. */
static void refuse(const struct otte_rdma_qp_params *params, enum otte_rdma_op op, size_t at,
		   uint64_t bytes, const char *rule)
{
	struct otte_rdma_window *window = bind(OTTE_READ);

	if (!window)
		return;
	memset(requester.bytes, 0, BYTES);
	check(move(op, at, bytes, window->key) == -EACCES && !requester.bytes[at], rule);
	otte_rdma_qp_drain(source.qp, -ECANCELED, "done");
	goes_well(otte_rdma_window_free(window), "a bound window is freed before its QP");
	destroy_qps();
	make_qps(params);
}

/* Why a window of rxe has a parent of its own: what comes of one that has not. */
static void look_at_the_quirk(const struct otte_rdma_qp_params *params)
{
	struct otte_rdma_window *window;
	int rc;

	source.set.slots[0].context->rxe = false;
	window = bind(OTTE_READ);
	source.set.slots[0].context->rxe = true;
	if (!window)
		return;
	rc = move(OTTE_RDMA_READ, AT - 1, 1, window->key);
	check(!rc || rc == -EACCES, "a window under a larger parent");
	printf("# one byte before it %s\n",
	       rc ? "is refused" : "is read: its range is its parent's");
	otte_rdma_qp_drain(source.qp, -ECANCELED, "done");
	goes_well(otte_rdma_window_free(window), "it is freed");
	destroy_qps();
	make_qps(params);
}

/* A lease: many requests, then its source's invalidation. */
static void revoke_lease(const struct otte_rdma_qp_params *params)
{
	struct otte_rdma_window *window = bind(OTTE_READ);
	struct told told = { .work.done = work_done };
	int rc;

	if (!window)
		return;
	goes_well(move(OTTE_RDMA_READ, AT, 4096, window->key), "a READ");
	goes_well(move(OTTE_RDMA_READ, AT, 4096, window->key), "another by the same key");
	rc = otte_rdma_window_invalidate(window, source.qp, &told.work);
	if (!rc)
		rc = wait_for(&told.done) ? otte_rdma_window_invalidated(window, &told.outcome) :
					    -ETIMEDOUT;
	goes_well(rc, "the window is invalidated");
	check(move(OTTE_RDMA_READ, AT, 4096, window->key) == -EACCES, "then there is none");
	goes_well(otte_rdma_window_put(window), "the window goes back");
	destroy_qps();
	make_qps(params);
}

/*
 * As a user who may pin no more than this. In a process of its own, since a context is for who
 * opened it; and before libibverbs is open.
 */
static int want_locked_memory(rlim_t bytes, int code, const char *text)
{
	const struct rlimit limit = { bytes, bytes };
	static uint8_t memory[BYTES];
	struct otte_rdma_mr mr;
	int rc;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(65534) || setuid(65534))
		return 2;
	if (otte_verbs_open(&verbs) || !open_set(&source))
		return 3;
	rc = otte_rdma_mr_register(source.set.slots[0].context, memory, BYTES,
				   IBV_ACCESS_LOCAL_WRITE, &mr);
	printf("# %d: %s\n", rc, otte_error_text());
	return rc != code || !strstr(otte_error_text(), text);
}

static void another_user(rlim_t bytes, int code, const char *text)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		status = want_locked_memory(bytes, code, text);
		fflush(stdout);
		_exit(status);
	}
	check(child > 0 && waitpid(child, &status, 0) == child && !status,
	      "want of locked memory names its limit");
}

/* The end of a connection with a grant that its peer has not finished. */
static void cut_off(void)
{
	struct otte_rdma_window *window = bind(OTTE_READ);
	struct told_receipt receipt;

	if (!window)
		return;
	expect(&receipt, window);
	goes_well(otte_rdma_qp_drain(source.qp, -ECANCELED, "cut off"), "a source drains");
	goes_well(otte_rdma_window_free(window), "its window is freed");
	destroy_qps();
	check(receipt.done && receipt.code == -ECANCELED, "its receipt will not come");
}

static void close_end(struct end *end)
{
	goes_well(otte_rdma_lane_destroy(end->lane), "the lane goes");
	otte_rdma_buffers_put(end->buffers, end->buffer);
	goes_well(otte_rdma_buffers_withdraw(end->buffers, 1), "the region is withdrawn");
	goes_well(otte_rdma_buffers_close(end->buffers), "and no other is left");
	goes_well(otte_rdma_context_set_close(&end->set), "the context closes, and its windows");
	free(end->bytes);
}

static void show(void)
{
	struct otte_rdma_qp_params params = OTTE_RDMA_QP_PARAMS;
	unsigned int i;

	params.max_recv_wr = 8;
	params.finishes = true;
	params.remote_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	if (!open_end(&requester, &params) || !open_end(&source, &params) || !connect_ends())
		return;
	check(source.set.slots[0].context->rxe, "it is known as rxe");
	for (i = 0; i < 3; i++) {
		grant(OTTE_READ, (uint8_t)(17 + i));
		grant(OTTE_WRITE, (uint8_t)(34 + i));
	}
	refuse(&params, OTTE_RDMA_READ, AT - 1, 1, "one byte before is refused");
	refuse(&params, OTTE_RDMA_READ, AT + LENGTH, 1, "one byte after is refused");
	refuse(&params, OTTE_RDMA_WRITE, AT, 1, "the other direction is refused");
	look_at_the_quirk(&params);
	revoke_lease(&params);
	cut_off();
	close_end(&requester);
	close_end(&source);
}

int main(void)
{
	check(!system("chmod 0666 /dev/infiniband/uverbs*"), "anybody may open the devices");
	another_user(65536, -ENOMEM, "RLIMIT_MEMLOCK is 65536 bytes");
	another_user(0, -EPERM, "RLIMIT_MEMLOCK is 0 bytes");
	if (!goes_well(otte_verbs_open(&verbs), "libibverbs opens"))
		return checked();
	show();
	return checked();
}
