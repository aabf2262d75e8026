/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Cells: what they open, when they are gone, and what comes of those that are not; what is lost on
 * the way; many at a time.
 */
#include "room.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "transport/rdma/cq_lane.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/source.h"
#include "transport/rdma/transfer.h"

/* ---- What is said, and heard ----------------------------------------------------------------- */

struct natives {
	unsigned int pds, mrs, qps;
};

/* What the source had of these when it said each type of message last. */
static struct natives at_message[OTTE_RDMA_MSG_ENDED + 1];
static _Atomic unsigned int heard[OTTE_RDMA_MSG_ENDED + 1];
static _Atomic unsigned int unsaid; /* a type that is not said, so often */
static _Atomic unsigned int unsaid_times;
/* What the requester does when it is granted something; NULL: nothing. */
static void (*_Atomic when_granted)(struct otte_rdma_peer *peer, struct otte_rdma_grant *grant);
/* Completions that are not seen before DONE is heard. */
static struct ibv_cq *_Atomic held;

void __real_otte_rdma_source_say(struct otte_rdma_source *source,
				 const struct otte_rdma_message *message);
void __wrap_otte_rdma_source_say(struct otte_rdma_source *source,
				 const struct otte_rdma_message *message);
int __real_otte_rdma_transfer_granted(struct otte_rdma_peer *peer,
				      const struct otte_rdma_grant *grant);
int __wrap_otte_rdma_transfer_granted(struct otte_rdma_peer *peer,
				      const struct otte_rdma_grant *grant);

int __real_otte_rdma_transfer_answered(struct otte_rdma_peer *peer,
				       const struct otte_rdma_message *message);
int __wrap_otte_rdma_transfer_answered(struct otte_rdma_peer *peer,
				       const struct otte_rdma_message *message);

static struct natives source_has(void)
{
	struct sim_counts one = sim_counts(nics[SOURCE][0]), other = sim_counts(nics[SOURCE][1]);

	return (struct natives){
		.pds = one.pds + other.pds,
		.mrs = one.mrs + other.mrs,
		.qps = one.qps + other.qps,
	};
}

void __wrap_otte_rdma_source_say(struct otte_rdma_source *source,
				 const struct otte_rdma_message *message)
{
	at_message[message->type] = source_has();
	atomic_fetch_add(&heard[message->type], 1);
	if (atomic_load(&unsaid) == message->type && atomic_load(&unsaid_times)) {
		atomic_fetch_sub(&unsaid_times, 1);
		return;
	}
	__real_otte_rdma_source_say(source, message);
}

int __wrap_otte_rdma_transfer_granted(struct otte_rdma_peer *peer,
				      const struct otte_rdma_grant *grant)
{
	void (*does)(struct otte_rdma_peer *, struct otte_rdma_grant *) =
		atomic_load(&when_granted);
	struct otte_rdma_grant changed = *grant;

	if (does)
		does(peer, &changed);
	return __real_otte_rdma_transfer_granted(peer, &changed);
}

int __wrap_otte_rdma_transfer_answered(struct otte_rdma_peer *peer,
				       const struct otte_rdma_message *message)
{
	int ret = __real_otte_rdma_transfer_answered(peer, message);
	struct ibv_cq *cq = message->type == OTTE_RDMA_MSG_DONE ? atomic_exchange(&held, NULL) :
								  NULL;

	if (cq)
		sim_cq_hold(cq, false);
	return ret;
}

static int start(void **state)
{
	unsigned int i;

	for (i = 0; i <= OTTE_RDMA_MSG_ENDED; i++)
		atomic_store(&heard[i], 0);
	atomic_store(&unsaid, 0);
	atomic_store(&when_granted, NULL);
	sim_retry_set(SIM_AT_ONCE);
	return room_start(state);
}

/* A request of 4 KiB at the beginning, which ends so. */
static struct otte_task run_one(const struct side *from, const struct side *to, uint8_t op)
{
	const struct otte_request request = request_of(from, to, op, 0, 4096);

	return run_request(&request);
}

static void be_hasty(struct otte_config *config)
{
	config->control_timeout_ns = 400000000;
}

/* ---- What they open -------------------------------------------------------------------------- */

static void a_cell_is_gone_when_its_end_is_told(void **state)
{
	struct natives before;

	(void)state;
	room_open();
	before = source_has();
	assert_int_equal(run_one(&remote, NULL, OTTE_READ).code, 0);
	/* Beside the queue pair over which it was asked for first: one of a cell, with an MR for it and its message. */
	assert_int_equal(at_message[OTTE_RDMA_MSG_GRANT].pds, before.pds + 1);
	assert_int_equal(at_message[OTTE_RDMA_MSG_GRANT].qps, before.qps + 2);
	assert_int_equal(at_message[OTTE_RDMA_MSG_DONE].pds, before.pds);
	assert_int_equal(at_message[OTTE_RDMA_MSG_DONE].qps, before.qps + 1);
	assert_int_equal(at_message[OTTE_RDMA_MSG_DONE].mrs,
			 at_message[OTTE_RDMA_MSG_GRANT].mrs - 2);
	assert_int_equal(atomic_load(&heard[OTTE_RDMA_MSG_REFUSED]), 1);
	/* From then on it is known. */
	assert_int_equal(run_one(NULL, &remote, OTTE_WRITE).code, 0);
	assert_int_equal(run_one(&remote, NULL, OTTE_READ).code, 0);
	assert_int_equal(atomic_load(&heard[OTTE_RDMA_MSG_REFUSED]), 1);
	assert_int_equal(pair_stats(pair.source).loans, 0);
	assert_int_equal(pair_stats(pair.source).served_requests, 3);
	room_close();
}

static void reach_further(struct otte_rdma_peer *peer, struct otte_rdma_grant *grant)
{
	(void)peer;
	grant->address++;
}

static void a_cell_opens_no_byte_beside_its_range(void **state)
{
	struct otte_task task;

	(void)state;
	room_open();
	memset(remote.bytes, UNTOUCHED, SIZE);
	memset(pair.local_bytes, 1, SIZE);
	atomic_store(&when_granted, reach_further);
	task = run_one(NULL, &remote, OTTE_WRITE);
	assert_true(task.code < 0);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(remote.bytes[0], UNTOUCHED);
	assert_int_equal(remote.bytes[1], UNTOUCHED);
	assert_int_equal(remote.bytes[4096], UNTOUCHED);
	atomic_store(&when_granted, NULL);
	assert_int_equal(run_one(NULL, &remote, OTTE_WRITE).code, 0);
	assert_int_equal(remote.bytes[4095], 1);
	assert_int_equal(remote.bytes[4096], UNTOUCHED);
	room_close();
}

/* By no lease of the source's; of what is local it is as good as other memory. */
static void a_gpu_is_not_leased_and_may_be_moved_by_leases(void **state)
{
	struct otte_request request;
	unsigned int i;

	(void)state;
	room_open();
	for (i = 0; i < 4; i++) {
		request = request_of(&remote, NULL, OTTE_READ, 0, 4096);
		request.lease = OTTE_LEASE_RANGE;
		assert_int_equal(run_request(&request).code, 0);
	}
	assert_int_equal(pair_stats(pair.source).rdma_leases, 0);
	pair_fill(pair.remote_bytes, SIZE, 3);
	for (i = 0; i < 4; i++) {
		memset(local.bytes, 0, SIZE);
		request = request_of(NULL, &local, OTTE_READ, 0, 4096);
		request.lease = OTTE_LEASE_RANGE;
		assert_int_equal(run_request(&request).code, 0);
		assert_memory_equal(local.bytes, pair.remote_bytes, 4096);
	}
	assert_int_equal(pair_stats(pair.source).rdma_leases, 1);
	assert_true(pair_stats(pair.requester).rdma_lease_requests >= 3);
	room_close();
}

/* ---- Producers ------------------------------------------------------------------------------- */

static bool was_asked_again(void *arg)
{
	unsigned long *before = arg;

	return sim_cuda_calls("cuEventQuery") > *before + 5;
}

/* Longer than anybody waits for a place; and what wants no GPU does not wait. */
static void a_peer_waits_for_the_producer_and_others_do_not(void **state)
{
	struct otte_request requests[2];
	unsigned long asked;
	CUstream stream;

	(void)state;
	gpu_adjust = be_hasty;
	room_open();
	memset(remote.bytes, 1, SIZE / 2);
	memset(remote.bytes + SIZE / 2, 2, SIZE / 2);
	stream = side_keep_busy(&remote);
	asked = sim_cuda_calls("cuEventQuery");
	requests[0] = request_of(&remote, NULL, OTTE_READ, 0, 4096);
	requests[1] = request_of(NULL, NULL, OTTE_READ, 8192, 4096);
	OK(otte_batch_reset(pair.batch));
	OK(otte_batch_submit(pair.batch, &requests[0], 1));
	assert_true(comes(was_asked_again, &asked));
	OK(otte_batch_submit(pair.batch, &requests[1], 1));
	while (task_of(&pair, 1).state != OTTE_TASK_COMPLETED)
		usleep(WAIT_US);
	usleep(600000);
	assert_true(task_of(&pair, 0).state < OTTE_TASK_COMPLETED);
	sim_cuda_release(stream);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	assert_int_equal(task_of(&pair, 0).code, 0);
	assert_int_equal(pair.local_bytes[0], 2);
	assert_int_equal(pair.local_bytes[4095], 2);
	OK((int)cuda->stream_destroy(stream));
	room_close();
}

static void who_waits_for_a_producer_may_be_cancelled(void **state)
{
	struct otte_request request;
	unsigned long asked;
	CUstream stream;

	(void)state;
	room_open();
	stream = side_keep_busy(&remote);
	asked = sim_cuda_calls("cuEventQuery");
	request = request_of(&remote, NULL, OTTE_READ, 0, 4096);
	OK(otte_batch_reset(pair.batch));
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_true(comes(was_asked_again, &asked));
	OK(otte_batch_cancel(pair.batch));
	assert_int_equal(wait_task(&pair).code, -ECANCELED);
	assert_true(comes(is_drained, &pair));
	sim_cuda_release(stream);
	assert_int_equal(run_request(&request).code, 0);
	OK((int)cuda->stream_destroy(stream));
	room_close();
}

/* ---- What is lost on the way ----------------------------------------------------------------- */

/* Our completions are seen when DONE has been heard, and that of the message is that nobody answered it. */
static void lose_answer(struct otte_rdma_peer *peer, struct otte_rdma_grant *grant)
{
	struct otte_rdma_transfer *transfer = peer->transfers;
	struct sim_fault fault = {
		.kind = SIM_FAULT_SEND_STATUS,
		.after = 1, /* behind the payload */
		.times = 1,
		.status = IBV_WC_RETRY_EXC_ERR,
		.done = true,
	};

	while (transfer->ask != grant->ask)
		transfer = transfer->next;
	fault.target = transfer->pair->qp->native;
	sim_fault_arm(&fault);
	atomic_store(&held, transfer->pair->qp->lane->send_cq);
	sim_cq_hold(atomic_load(&held), true);
}

/* The source's end goes with what it has not acknowledged yet: DONE says that all has come. */
static void done_is_proof_where_an_acknowledgement_is_lost(void **state)
{
	static const uint8_t ops[] = { OTTE_WRITE, OTTE_READ };
	struct otte_task task;
	size_t i;

	(void)state;
	room_open();
	assert_int_equal(run_one(NULL, &remote, OTTE_WRITE).code, 0);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		memset(pair.local_bytes, ops[i] == OTTE_READ ? 0 : 7, SIZE);
		atomic_store(&when_granted, lose_answer);
		task = ops[i] == OTTE_READ ? run_one(&remote, NULL, ops[i]) :
					     run_one(NULL, &remote, ops[i]);
		atomic_store(&when_granted, NULL);
		assert_int_equal(task.code, 0);
		assert_int_equal(task.locally_drained, 1);
		assert_int_equal(remote.bytes[4095], 7);
		assert_int_equal(pair.local_bytes[4095], 7);
	}
	assert_int_equal(pair_stats(pair.requester).rdma_rail_errors, 0);
	assert_int_equal(pair_stats(pair.requester).retries, 0);
	room_close();
}

static bool has_no_request(void *arg)
{
	(void)arg;
	return !pair_stats(pair.source).rdma_qps && !pair_stats(pair.requester).rdma_qps;
}

/* Each message of the source's is lost once; what follows goes on, and nothing is left of it. */
static void what_a_source_does_not_say_ends_with_the_line(void **state)
{
	static const uint16_t types[] = { OTTE_RDMA_MSG_READY, OTTE_RDMA_MSG_DONE,
					  OTTE_RDMA_MSG_GRANT };
	struct otte_task task;
	size_t i;

	(void)state;
	gpu_adjust = be_hasty;
	room_open();
	assert_int_equal(run_one(NULL, &remote, OTTE_WRITE).code, 0);
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		atomic_store(&unsaid_times, 1);
		atomic_store(&unsaid, types[i]);
		task = run_one(NULL, &remote, OTTE_WRITE);
		if (types[i] == OTTE_RDMA_MSG_READY)
			assert_int_equal(task.code, 0);
		if (types[i] == OTTE_RDMA_MSG_DONE)
			assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
		while (atomic_load(&unsaid_times))
			usleep(WAIT_US);
		if (types[i] == OTTE_RDMA_MSG_READY)
			assert_true(comes(has_no_request, NULL));
		assert_true(comes(has_its_lane, &pair));
		memset(pair.local_bytes, (int)i + 1, SIZE);
		/* The first pair after that may still be held off. */
		while (run_one(NULL, &remote, OTTE_WRITE).code)
			usleep(WAIT_US);
		assert_int_equal(remote.bytes[4095], (int)i + 1);
		assert_true(comes(is_drained, &pair));
	}
	room_close();
}

static void lose_nic(struct otte_rdma_peer *peer, struct otte_rdma_grant *grant)
{
	(void)peer;
	(void)grant;
	atomic_store(&when_granted, NULL);
	sim_port_set(nics[SOURCE][0], 1, IBV_PORT_DOWN);
	sim_port_set(nics[SOURCE][0], 1, IBV_PORT_ACTIVE);
}

static void a_read_whose_cell_is_lost_goes_over_another(void **state)
{
	struct otte_task task;
	unsigned int i;

	(void)state;
	room_open();
	pair_fill(remote.bytes, SIZE, 5);
	for (i = 0; i < 4; i++) {
		memset(pair.local_bytes, 0, SIZE);
		atomic_store(&when_granted, lose_nic);
		task = run_one(&remote, NULL, OTTE_READ);
		assert_int_equal(task.code, 0);
		assert_memory_equal(pair.local_bytes, remote.bytes, 4096);
	}
	assert_true(comes(is_drained, &pair));
	room_close();
}

/* ---- What cannot be made --------------------------------------------------------------------- */

static bool has_pds(void *arg)
{
	const unsigned int *pds = arg;

	return source_has().pds == *pds;
}

static void fail_next(enum sim_verb verb, unsigned int after, unsigned int times)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = verb,
		.after = after,
		.times = times,
		.error = ENOMEM,
	};

	sim_fault_arm(&fault);
}

/* On the first rail; nothing of it stays, and the request ends, or goes over another. */
static void a_cell_that_cannot_be_made_leaves_nothing(void **state)
{
	static const enum sim_verb verbs[] = { SIM_ALLOC_PD, SIM_REG_DMABUF_MR, SIM_CREATE_QP,
					       SIM_MODIFY_QP, SIM_POST_RECV };
	struct natives before;
	size_t i;

	(void)state;
	room_open();
	assert_int_equal(run_one(NULL, &remote, OTTE_WRITE).code, 0);
	assert_int_equal(run_one(&remote, NULL, OTTE_READ).code, 0);
	before = source_has();
	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		fail_next(verbs[i], 0, 1);
		run_one(NULL, &remote, OTTE_WRITE);
		assert_true(comes(is_drained, &pair));
		while (run_one(NULL, &remote, OTTE_WRITE).code)
			usleep(WAIT_US);
		assert_true(comes(is_drained, &pair));
		assert_true(comes(has_pds, &before.pds));
	}
	sim_cuda_fail("cuMemGetHandleForAddressRange", 1, CUDA_ERROR_OUT_OF_MEMORY, 1);
	assert_int_equal(run_one(NULL, &remote, OTTE_WRITE).code, -ENOMEM);
	assert_int_equal(run_one(NULL, &remote, OTTE_WRITE).code, 0);
	assert_true(comes(has_pds, &before.pds));
	room_close();
}

/* ---- What does not go ------------------------------------------------------------------------ */

/* Who hears nothing is not done when the test is. */
static void be_patient(struct otte_config *config)
{
	config->control_timeout_ns = 600 * SECOND;
}

/* The memory is lent for good, and so the peer hears of no success. */
static void is_kept_by(enum sim_verb verb, unsigned int after)
{
	struct otte_region *region;
	struct otte_stats stats;
	struct otte_task task;

	gpu_adjust = be_patient;
	room_open();
	assert_int_equal(run_one(NULL, &remote, OTTE_WRITE).code, 0);
	region = remote.region;
	fail_next(verb, after, 1);
	task = run_one(NULL, &remote, OTTE_WRITE);
	assert_true(task.code < 0);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_UNKNOWN);
	stats = pair_stats(pair.source);
	assert_true(stats.retained >= 2);
	assert_int_equal(stats.loans, 1);
	assert_int_equal(otte_region_unregister(&region, 1, 100000000, NULL), -ETIMEDOUT);
	assert_int_equal(otte_mem_release(remote.mem), -EBUSY);
	/* What is not of it goes on. */
	assert_int_equal(run_one(NULL, &local, OTTE_READ).code, 0);
}

static void an_mr_that_does_not_go_keeps_the_memory(void **state)
{
	(void)state;
	/* Behind that of the queue pair's messages. */
	is_kept_by(SIM_DEREG_MR, 1);
}

static void a_pd_that_does_not_go_keeps_the_memory(void **state)
{
	(void)state;
	is_kept_by(SIM_DEALLOC_PD, 0);
}

static void a_queue_pair_that_does_not_go_keeps_the_memory(void **state)
{
	(void)state;
	is_kept_by(SIM_DESTROY_QP, 0);
}

static void a_request_of_memory_whose_producer_is_lost_fails(void **state)
{
	struct otte_request request;
	struct otte_task task;
	CUstream stream;

	(void)state;
	room_open();
	stream = side_keep_busy(&local);
	sim_cuda_fail("cuEventQuery", 1, CUDA_ERROR_UNKNOWN, 1);
	request = request_of(&local, NULL, OTTE_WRITE, 0, 4096);
	task = run_request(&request);
	assert_int_equal(task.code, -EUCLEAN);
	assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(sim_counts(NULL).bytes_written, 0);
	sim_cuda_release(stream);
	sim_cuda_settle();
	/* The memory stays, as nobody can say when the producer is done with it. */
	OK(otte_region_unregister(&local.region, 1, 10 * SECOND, NULL));
	assert_int_equal(otte_mem_release(local.mem), -EUCLEAN);
	OK((int)cuda->stream_destroy(stream));
}

/* In a process of its own: what it keeps nobody can take from it. */
static void alone(void (*test)(void **state))
{
	void *state = NULL;

	start(&state);
	test(&state);
	fflush(stdout);
	_exit(0);
}

static const struct {
	const char *name;
	void (*test)(void **state);
} lone[] = {
	{ "mr", an_mr_that_does_not_go_keeps_the_memory },
	{ "pd", a_pd_that_does_not_go_keeps_the_memory },
	{ "qp", a_queue_pair_that_does_not_go_keeps_the_memory },
	{ "producer", a_request_of_memory_whose_producer_is_lost_fails },
};

int run_cell_test(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lone); i++)
		if (!strcmp(lone[i].name, name))
			alone(lone[i].test);
	return 2;
}

static void what_does_not_go_is_kept(void **state)
{
	size_t i;
	pid_t pid;
	int status;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(lone); i++) {
		pid = fork();
		assert_true(pid >= 0);
		if (!pid) {
			execl("/proc/self/exe", "gpu_direct", lone[i].name, (char *)NULL);
			_exit(3);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status)
			fail_msg("%s: %d", lone[i].name, status);
	}
}

/* ---- Many at a time -------------------------------------------------------------------------- */

#define BLOCKS 64
#define BLOCK (SIZE / BLOCKS)

static void few_endpoints(struct otte_config *config)
{
	config->rdma_endpoints = 12;
}

/* Each block of four is moved from another place of its kind to its own, all of them at once. */
static void blocks_move(uint8_t op)
{
	struct otte_request requests[BLOCKS];
	struct side *theirs;
	unsigned int i;

	for (i = 0; i < BLOCKS; i++) {
		theirs = i % 4 < 2 ? &remote : NULL;
		requests[i] =
			op == OTTE_READ ?
				request_of(theirs, i % 2 ? &local : NULL, op, i * BLOCK, BLOCK) :
				request_of(i % 2 ? &local : NULL, theirs, op, i * BLOCK, BLOCK);
	}
	OK(otte_batch_reset(pair.batch));
	OK(otte_batch_submit(pair.batch, requests, BLOCKS));
	OK(otte_batch_wait(pair.batch, 60 * SECOND));
	for (i = 0; i < BLOCKS; i++) {
		if (task_of(&pair, i).code)
			fail_msg("block %u: %d", i, task_of(&pair, i).code);
		assert_memory_equal((i % 2 ? local.bytes : pair.local_bytes) + i * BLOCK,
				    (i % 4 < 2 ? remote.bytes : pair.remote_bytes) + i * BLOCK,
				    BLOCK);
	}
}

static void blocks_move_both_ways(void)
{
	pair_fill(remote.bytes, SIZE, 1);
	pair_fill(pair.remote_bytes, SIZE, 2);
	memset(local.bytes, 0, SIZE);
	memset(pair.local_bytes, 0, SIZE);
	blocks_move(OTTE_READ);
	pair_fill(local.bytes, SIZE, 3);
	pair_fill(pair.local_bytes, SIZE, 4);
	blocks_move(OTTE_WRITE);
}

static void memory_of_all_kinds_moves_at_once(void **state)
{
	(void)state;
	room_open();
	sim_progress_set(SIM_THREAD, 7);
	sim_reads_late(true);
	blocks_move_both_ways();
	assert_true(comes(is_drained, &pair));
	room_close();
}

static void few_queue_pairs_are_enough(void **state)
{
	(void)state;
	gpu_adjust = few_endpoints;
	room_open();
	blocks_move_both_ways();
	assert_true(comes(is_drained, &pair));
	room_close();
}

int run_cell_tests(void)
{
#define CELL_TEST(name) cmocka_unit_test_setup_teardown(name, start, room_finish)
	const struct CMUnitTest tests[] = {
		CELL_TEST(a_cell_is_gone_when_its_end_is_told),
		CELL_TEST(a_cell_opens_no_byte_beside_its_range),
		CELL_TEST(a_gpu_is_not_leased_and_may_be_moved_by_leases),
		CELL_TEST(a_peer_waits_for_the_producer_and_others_do_not),
		CELL_TEST(who_waits_for_a_producer_may_be_cancelled),
		CELL_TEST(done_is_proof_where_an_acknowledgement_is_lost),
		CELL_TEST(what_a_source_does_not_say_ends_with_the_line),
		CELL_TEST(a_read_whose_cell_is_lost_goes_over_another),
		CELL_TEST(a_cell_that_cannot_be_made_leaves_nothing),
		CELL_TEST(memory_of_all_kinds_moves_at_once),
		CELL_TEST(few_queue_pairs_are_enough),
		cmocka_unit_test(what_does_not_go_is_kept),
	};

	return cmocka_run_group_tests_name("cells", tests, NULL, NULL);
}
