/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a source does about peers that keep, or would have, more than is theirs: it takes back what is wanted back, and
 * one of them leaves room for others.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "engine/source_peer.h"
#include "stranger.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/source.h"
#include "transport/rdma/transfer.h"
#include "unit/engine/nics.h"
#include "seen.h"

#define SIZE (1u << 20)

/* What the source does not say; and whom it has granted something, in this order. */
static _Atomic unsigned unsaid;
static struct otte_rdma_source *granted[64];
static _Atomic unsigned grants;

void __real_otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message);
void __wrap_otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message);

void __wrap_otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message)
{
	if (message->type == OTTE_RDMA_MSG_GRANT && atomic_load(&grants) < ARRAY_SIZE(granted))
		granted[atomic_fetch_add(&grants, 1)] = source;
	if (atomic_load(&unsaid) != message->type)
		__real_otte_rdma_source_say(source, message);
}

/* A requester that keeps what it is granted: the engine of this identity, or all. */
static _Atomic bool keeping;
static const struct otte_identity *keeper;

int __real_otte_rdma_transfer_granted(struct otte_rdma_peer *peer, const struct otte_rdma_grant *grant);
int __wrap_otte_rdma_transfer_granted(struct otte_rdma_peer *peer, const struct otte_rdma_grant *grant);

int __wrap_otte_rdma_transfer_granted(struct otte_rdma_peer *peer, const struct otte_rdma_grant *grant)
{
	struct otte_rdma_transfer *transfer;

	if (atomic_load(&keeping) && (!keeper || keeper == peer->rdma->env.identity)) {
		/* Nor does it miss what it keeps. */
		DL_FOREACH(peer->transfers, transfer)
			transfer->since_ns = UINT64_MAX;
		return 0;
	}
	return __real_otte_rdma_transfer_granted(peer, grant);
}

static int honest(void **state)
{
	atomic_store(&keeping, false);
	atomic_store(&unsaid, 0);
	atomic_store(&grants, 0);
	keeper = NULL;
	return with_nics(state);
}

static void use_short_limits(struct otte_config *config)
{
	use_nics_at_once(config);
	config->rdma_destruction_ns = 100000000;
	config->control_timeout_ns = SECOND;
	config->default_deadline_ns = 0;
}

static bool has_a_grant(void *arg)
{
	(void)arg;
	return atomic_load(&grants) > 0;
}

/* A request whose grant its requester keeps, and does nothing with. */
static void keep(struct pair *pair, uint8_t op)
{
	atomic_store(&keeping, true);
	submit(pair, op, 0, 4096);
	assert_true(comes(has_a_grant, NULL));
	usleep(20000);
	assert_int_equal(pair_stats(pair->source).loans, 1);
}

static void assert_taken_back(struct pair *pair, uint32_t effect)
{
	struct otte_task task;

	OK(otte_batch_wait(pair->batch, 30 * SECOND));
	task = task_of(pair, 0);
	assert_int_equal(task.code, -ECONNRESET);
	assert_int_equal(task.remote_effect, effect);
	assert_int_equal(task.locally_drained, 1);
	assert_int_equal(pair_stats(pair->source).loans, 0);
	assert_int_equal(pair_stats(pair->source).retained, 0);
}

/* ---- What is wanted back ---- */

static void who_keeps_a_grant_does_not_keep_a_region(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_short_limits);
	keep(&pair, OTTE_READ);
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	assert_taken_back(&pair, OTTE_EFFECT_NONE);
	close_rest(&pair);
}

static void who_keeps_a_grant_does_not_keep_an_engine(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_short_limits);
	keep(&pair, OTTE_WRITE);
	OK(otte_engine_close(pair.source, OTTE_CLOSE_SOURCE, 5 * SECOND, NULL));
	assert_taken_back(&pair, OTTE_EFFECT_NONE);
	atomic_store(&keeping, false);
	pair_close(&pair);
}

static bool has_two_grants(void *arg)
{
	(void)arg;
	return atomic_load(&grants) == 2;
}

/* What is granted of another region, on another queue pair. */
static void what_is_not_wanted_back_stays(void **state)
{
	struct otte_region_desc desc = { .length = 4096, .access = OTTE_REMOTE_WRITE };
	struct otte_request requests[2];
	struct otte_region *view;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_short_limits);
	desc.mem = pair.remote_mem;
	desc.offset = 65536;
	OK(otte_region_register(pair.source, &desc, 1, &view));
	atomic_store(&keeping, true);
	requests[0] = rdma_request(&pair, OTTE_READ, 0, 4096);
	requests[1] = rdma_request(&pair, OTTE_WRITE, 0, 4096);
	requests[1].local_offset = 8192;
	requests[1].remote_region = otte_region_id(view);
	OK(otte_batch_submit(pair.batch, requests, 2));
	assert_true(comes(has_two_grants, NULL));
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	usleep(1500000);
	assert_int_equal(pair_stats(pair.source).loans, 1);
	OK(otte_region_unregister(&view, 1, 5 * SECOND, NULL));
	assert_taken_back(&pair, OTTE_EFFECT_NONE);
	close_rest(&pair);
}

static void use_short_grants(struct otte_config *config)
{
	use_short_limits(config);
	config->rdma_grant_ns = SECOND / 2;
}

static void a_grant_has_its_time(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_short_grants);
	keep(&pair, OTTE_READ);
	assert_true(comes(is_drained, &pair));
	assert_taken_back(&pair, OTTE_EFFECT_NONE);
	atomic_store(&keeping, false);
	usleep(5000);
	assert_int_equal(run(&pair, OTTE_READ, 0, 4096).code, 0);
	pair_close(&pair);
}

/* ---- Places ---- */

static void use_four_places(struct otte_config *config)
{
	use_short_limits(config);
	config->rdma_grants = 4;
}

static bool has_three_loans(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).loans == 3;
}

/* It asks for four places of four, and has three: another peer does not wait. */
static void who_keeps_grants_leaves_a_place_to_others(void **state)
{
	struct otte_request requests[4];
	struct pair pair, other;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_four_places);
	pair_join(&other, &pair, use_four_places);
	keeper = &pair.requester->identity;
	atomic_store(&keeping, true);
	for (i = 0; i < 4; i++)
		requests[i] = rdma_request(&pair, OTTE_READ, (3 - i) * 8192, 4096);
	OK(otte_batch_submit(pair.batch, requests, 4));
	assert_true(comes(has_three_loans, &pair));
	assert_int_equal(run(&other, OTTE_READ, 65536, 4096).code, 0);
	assert_true(has_three_loans(&pair));
	OK(otte_batch_cancel(pair.batch));
	atomic_store(&keeping, false);
	pair_close_requester(&other);
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	close_rest(&pair);
}

static void use_one_place(struct otte_config *config)
{
	use_short_limits(config);
	config->rdma_grants = 1;
}

/* Two peers, and one place. Who may go another way is sent there soon; who may not goes on to wait for it. */
static void nobody_waits_for_ever(void **state)
{
	struct otte_request request;
	struct pair pair, other;

	(void)state;
	pair_open(&pair, SIZE, use_one_place);
	pair_join(&other, &pair, use_one_place);
	keeper = &pair.requester->identity;
	keep(&pair, OTTE_READ);
	assert_int_equal(pair_run(&other, OTTE_READ, 65536, 65536, 4096), 0);
	assert_int_equal(task_of(&other, 0).transport, OTTE_TRANSPORT_TCP);
	OK(otte_batch_reset(other.batch));
	request = rdma_request(&other, OTTE_READ, 65536, 4096);
	OK(otte_batch_submit(other.batch, &request, 1));
	assert_int_equal(otte_batch_wait(other.batch, 2 * SECOND), -ETIMEDOUT);
	/* The place is given back. */
	otte_control_client_stop(&pair.segment->peer->control, -ECONNRESET);
	OK(otte_batch_wait(other.batch, 30 * SECOND));
	assert_int_equal(task_of(&other, 0).code, 0);
	assert_int_equal(task_of(&other, 0).transport, OTTE_TRANSPORT_RDMA);
	atomic_store(&keeping, false);
	pair_close_requester(&other);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	OK(otte_region_unregister(&pair.remote, 1, 5 * SECOND, NULL));
	close_rest(&pair);
}

static void use_two_places(struct otte_config *config)
{
	use_nics_at_once(config);
	config->rdma_grants = 2;
}

static bool has_two_loans(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).loans == 2;
}

static void ask(struct pair *pair, uint64_t offset, unsigned count)
{
	struct otte_request requests[2];
	unsigned i;

	OK(otte_batch_reset(pair->batch));
	for (i = 0; i < count; i++)
		requests[i] = rdma_request(pair, OTTE_READ, offset + (count - i) * 8192, 4096);
	OK(otte_batch_submit(pair->batch, requests, count));
}

/* Of two places one has had one, asks for another, and then a third peer asks for its first. */
static void places_go_round(void **state)
{
	struct pair pair, second, third;

	(void)state;
	pair_open(&pair, SIZE, use_two_places);
	pair_join(&second, &pair, use_two_places);
	pair_join(&third, &pair, use_two_places);
	sim_progress_set(SIM_STEPPED, 0);
	ask(&pair, 0, 2);
	ask(&second, 65536, 1);
	assert_true(comes(has_two_loans, &pair));
	usleep(50000);
	ask(&third, 131072, 1);
	usleep(50000);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	OK(otte_batch_wait(second.batch, 30 * SECOND));
	OK(otte_batch_wait(third.batch, 30 * SECOND));
	assert_int_equal(atomic_load(&grants), 4);
	assert_ptr_not_equal(granted[2], granted[0]);
	assert_ptr_not_equal(granted[2], granted[1]);
	pair_close_requester(&third);
	pair_close_requester(&second);
	pair_close(&pair);
}

/* ---- What is never answered ---- */

static void without_grant_the_line_is_lost(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_short_limits);
	atomic_store(&unsaid, OTTE_RDMA_MSG_GRANT);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(task_of(&pair, 0).transport, OTTE_TRANSPORT_TCP);
	assert_true(comes(is_unconnected, &pair));
	assert_int_equal(pair_stats(pair.source).retained, 0);
	pair_close(&pair);
}

/* ---- Lanes and queue pairs ---- */

static void use_no_reconnects(struct otte_config *config)
{
	use_short_limits(config);
	config->reconnect_min_ns = config->reconnect_max_ns = 3600 * SECOND;
}

static void use_all_lanes(struct otte_config *config)
{
	use_no_reconnects(config);
	config->tcp_lanes = OTTE_SOURCE_LANES_MAX;
}

static bool has_all_lanes(void *arg)
{
	struct pair *pair = arg;
	bool all;

	pthread_mutex_lock(&pair->source->source_lock);
	all = atomic_load(&pair->source->source_peers->lanes) == OTTE_SOURCE_LANES_MAX + 1;
	pthread_mutex_unlock(&pair->source->source_lock);
	return all;
}

/* Its other lanes are all there, and so is the one whose place it takes. */
static void a_lane_that_takes_the_place_of_another_has_one(void **state)
{
	static struct stranger stranger;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, use_all_lanes);
	assert_true(comes(has_its_lane, &pair));
	assert_true(comes(has_all_lanes, &pair));
	stranger_open(&stranger, &pair);
	assert_false(stranger.lost);
	assert_int_equal(stranger.theirs.count, 1);
	stranger_close(&stranger);
	pair_close(&pair);
}

static void a_session_has_one_lane(void **state)
{
	static struct stranger strangers[4];
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_no_reconnects);
	assert_true(comes(has_its_lane, &pair));
	for (i = 0; i < ARRAY_SIZE(strangers); i++) {
		stranger_open(&strangers[i], &pair);
		assert_int_equal(strangers[i].theirs.count, 1);
		if (!i)
			continue;
		stranger_hear(&strangers[i - 1], 1);
		assert_true(strangers[i - 1].lost);
	}
	for (i = 0; i < ARRAY_SIZE(strangers); i++)
		stranger_close(&strangers[i]);
	pair_close(&pair);
}

/* Of 64 that there are; an honest one is served. */
static void a_peer_leaves_queue_pairs_to_others(void **state)
{
	static struct stranger stranger;
	struct pair pair, other;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_no_reconnects);
	pair_join(&other, &pair, use_no_reconnects);
	assert_true(comes(has_its_lane, &pair));
	stranger_open(&stranger, &pair);
	for (i = 1; i <= 64; i++)
		stranger_connect(&stranger, i, 4096, 16);
	stranger_hear(&stranger, 64);
	assert_int_equal(stranger.connected + stranger.refused, 64);
	assert_int_equal(stranger.last.status, -EDQUOT);
	assert_in_range(stranger.connected, 1, 32);
	assert_int_equal(run(&other, OTTE_READ, 0, 4096).code, 0);
	stranger_close(&stranger);
	pair_close_requester(&other);
	pair_close(&pair);
}

static void use_eight_endpoints(struct otte_config *config)
{
	use_no_reconnects(config);
	config->rdma_endpoints = 8;
}

static void few_queue_pairs_are_shared_as_well(void **state)
{
	static struct stranger stranger;
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SIZE, use_eight_endpoints);
	assert_true(comes(has_its_lane, &pair));
	stranger_open(&stranger, &pair);
	for (i = 1; i <= 8; i++)
		stranger_connect(&stranger, i, 4096, 16);
	stranger_hear(&stranger, 8);
	assert_int_equal(stranger.connected, 4);
	assert_int_equal(stranger.refused, 4);
	stranger_close(&stranger);
	pair_close(&pair);
}

/* The path's MTU is the smaller one, whatever a peer says; and who reads has READs under way. */
static void what_a_pair_is_to_be_is_checked(void **state)
{
	static struct stranger stranger;
	struct pair pair;

	(void)state;
	nics[SOURCE][0]->ports[0].attr.active_mtu = IBV_MTU_1024;
	pair_open(&pair, SIZE, use_no_reconnects);
	assert_true(comes(has_its_lane, &pair));
	stranger_open(&stranger, &pair);
	stranger_connect(&stranger, 1, 4096, 16);
	stranger_hear(&stranger, 1);
	assert_int_equal(stranger.last.status, 0);
	assert_int_equal(stranger.last.mtu_bytes, 1024);
	stranger_connect(&stranger, 2, 512, 16);
	stranger_hear(&stranger, 2);
	assert_int_equal(stranger.last.mtu_bytes, 512);
	stranger_connect(&stranger, 3, 512, 0);
	stranger_hear(&stranger, 3);
	assert_int_equal(stranger.last.connection, 3);
	assert_int_equal(stranger.last.status, -EINVAL);
	stranger_close(&stranger);
	pair_close(&pair);
}

/* ---- rxe ---- */

static void use_few_sends(struct otte_config *config)
{
	use_nics_at_once(config);
	config->rdma_send_wrs = 4;
	config->rdma_pairs = 1;
}

static void use_many_sends(struct otte_config *config)
{
	use_nics_at_once(config);
	config->rdma_send_wrs = 64;
	config->rdma_pairs = 1;
}

static bool has_six_loans(void *arg)
{
	struct pair *pair = arg;

	return pair_stats(pair->source).loans == 6;
}

/* Of six grants two have no room for their binds; their MRs are made once. */
static void who_has_no_room_registers_once(void **state)
{
	struct otte_request requests[6];
	unsigned long before;
	struct pair first, pair;
	unsigned i;

	(void)state;
	sim_device_be_rxe(nics[SOURCE][0]);
	sim_device_be_rxe(nics[REQUESTER][0]);
	pair_open(&first, SIZE, use_few_sends);
	pair_join(&pair, &first, use_many_sends);
	sim_progress_set(SIM_STEPPED, 0);
	for (i = 0; i < 6; i++)
		requests[i] = rdma_request(&pair, OTTE_READ, (5 - i) * 8192, 4096);
	OK(otte_batch_submit(pair.batch, requests, 6));
	assert_true(comes(has_six_loans, &first));
	before = sim_calls(SIM_REG_MR);
	/* Rounds of the source's thread. */
	for (i = 0; i < 20; i++)
		otte_transport_settle(first.source->transport);
	assert_int_equal(sim_calls(SIM_REG_MR), before);
	sim_progress_set(SIM_INLINE, 0);
	OK(otte_batch_wait(pair.batch, 30 * SECOND));
	for (i = 0; i < 6; i++)
		assert_int_equal(task_of(&pair, i).code, 0);
	pair_close_requester(&pair);
	pair_close(&first);
}

int main(void)
{
#define LIMIT(test) cmocka_unit_test_setup_teardown(test, honest, nothing_is_left)
	const struct CMUnitTest tests[] = {
		LIMIT(who_keeps_a_grant_does_not_keep_a_region),
		LIMIT(who_keeps_a_grant_does_not_keep_an_engine),
		LIMIT(what_is_not_wanted_back_stays),
		LIMIT(a_grant_has_its_time),
		LIMIT(who_keeps_grants_leaves_a_place_to_others),
		LIMIT(nobody_waits_for_ever),
		LIMIT(places_go_round),
		LIMIT(without_grant_the_line_is_lost),
		LIMIT(a_session_has_one_lane),
		LIMIT(a_lane_that_takes_the_place_of_another_has_one),
		LIMIT(a_peer_leaves_queue_pairs_to_others),
		LIMIT(few_queue_pairs_are_shared_as_well),
		LIMIT(what_a_pair_is_to_be_is_checked),
		LIMIT(who_has_no_room_registers_once),
	};

	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
