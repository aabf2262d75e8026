/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which NIC a slice takes, what is charged for it, and what is learned from it, on a clock of
 * the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "otte/otte.h"
#include "sched/devices.h"
#include "sched/rate.h"

#define CPU(n) ((struct otte_location){ OTTE_LOCATION_CPU, n })
#define CUDA(n) ((struct otte_location){ OTTE_LOCATION_CUDA, n })
#define ANY ((struct otte_location){ OTTE_LOCATION_ANY, 0 })
#define ALL UINT64_MAX
#define SLICE 65536ull
#define MS NSEC_PER_MSEC

/* NICs 0 and 1 at node 0, 2 at node 1, 3 at none that is known. */
static struct otte_nic_row rows[] = {
	{ { OTTE_LOCATION_CPU, 0 }, { 0x3, 0x8, 0x4 } },
	{ { OTTE_LOCATION_CPU, 1 }, { 0x4, 0, 0xb } },
	{ { OTTE_LOCATION_CPU, 7 }, { 0, 0, 0 } },
	{ { OTTE_LOCATION_CUDA, 0 }, { 0x4, 0x1, 0 } },
	{ { OTTE_LOCATION_CUDA, 1 }, { 0x1, 0x2, 0x4 } },
	{ { OTTE_LOCATION_ANY, 0 }, { 0, 0, 0xf } },
};
static const struct otte_nic_priority priority = { rows, ARRAY_SIZE(rows) };
static const struct otte_device nics[] = {
	{ 0, 1000000000 },
	{ 0, 1000000000 },
	{ 1, 1000000000 },
	{ OTTE_TOPO_NO_NODE, 1000000000 },
};
static const int cuda_nodes[] = { 1, OTTE_TOPO_NO_NODE };

static struct otte_devices_setup standard(void)
{
	return (struct otte_devices_setup){
		.params = OTTE_DEVICES_PARAMS,
		.devices = nics,
		.count = ARRAY_SIZE(nics),
		.priority = &priority,
		.cuda_nodes = cuda_nodes,
		.cuda_count = ARRAY_SIZE(cuda_nodes),
	};
}

static struct otte_devices *open_with(const struct otte_devices_setup *setup)
{
	struct otte_devices *devices;

	assert_int_equal(otte_devices_open(setup, &devices), 0);
	return devices;
}

static struct otte_devices *open_standard(void)
{
	struct otte_devices_setup setup = standard();

	return open_with(&setup);
}

static struct otte_devices_request request_of(struct otte_location location, uint64_t allowed,
					      uint32_t slices)
{
	return (struct otte_devices_request){
		.location = location,
		.allowed = allowed,
		.slicing = { slices, SLICE },
		.length = slices * SLICE,
	};
}

static int try_select(struct otte_devices *devices, struct otte_location location, uint64_t allowed,
		      uint32_t slices, struct otte_device_charge *charge)
{
	struct otte_devices_request request = request_of(location, allowed, slices);

	return otte_devices_select(devices, &request, charge);
}

/* One slice, whose charge stays. */
static unsigned pick(struct otte_devices *devices, struct otte_location location, uint64_t allowed)
{
	struct otte_device_charge charge;

	assert_int_equal(try_select(devices, location, allowed, 1, &charge), 0);
	return charge.nics[0];
}

/* One slice, whose charge goes back. */
static unsigned pick_idle(struct otte_devices *devices, struct otte_location location,
			  uint64_t allowed)
{
	struct otte_device_charge charge;

	assert_int_equal(try_select(devices, location, allowed, 1, &charge), 0);
	assert_int_equal(otte_device_charge_abandon(&charge), SLICE);
	return charge.nics[0];
}

static struct otte_device_load load_of(struct otte_devices *devices, unsigned nic)
{
	struct otte_device_load load;

	assert_int_equal(otte_devices_read(devices, nic, &load), 0);
	return load;
}

static void shares_are(const struct otte_device_charge *charge, unsigned a, unsigned b, unsigned c,
		       unsigned d)
{
	unsigned counts[4] = { 0 };
	uint32_t i;

	for (i = 0; i < charge->slicing.count; i++)
		counts[charge->nics[i]]++;
	assert_int_equal(counts[0], a);
	assert_int_equal(counts[1], b);
	assert_int_equal(counts[2], c);
	assert_int_equal(counts[3], d);
}

/* To a unit in the last place or two: compilers fold constants, and order sums, each in its own way. */
static void rate_is(double value, double wanted)
{
	if (fabs(value - wanted) <= 4 * DBL_EPSILON * fabs(wanted))
		return;
	print_error("%.17g, wanted %.17g\n", value, wanted);
	fail();
}

/* ---- One slice ---- */

static void a_slice_takes_the_nic_with_the_lowest_estimated_time(void **state)
{
	static const struct otte_device two[] = { { 0, 1000000000 }, { 0, 4000000000 } };
	struct otte_devices_setup setup = standard();
	struct otte_devices *devices;

	(void)state;
	setup.devices = two;
	setup.count = 2;
	devices = open_with(&setup);
	assert_int_equal(pick(devices, CPU(0), ALL), 1);
	assert_int_equal(pick(devices, CPU(0), ALL), 1);
	assert_int_equal(pick(devices, CPU(0), ALL), 1);
	/* Four slices there take as long as one here: the other's turn. */
	assert_int_equal(pick(devices, CPU(0), ALL), 0);
	assert_int_equal(pick(devices, CPU(0), ALL), 1);
	assert_int_equal(load_of(devices, 0).charged, SLICE);
	assert_int_equal(load_of(devices, 1).charged, 4 * SLICE);
	otte_devices_close(devices);
}

static void equal_scores_take_turns(void **state)
{
	struct otte_devices *devices = open_standard();
	unsigned i;

	(void)state;
	for (i = 0; i < 9; i++)
		assert_int_equal(pick_idle(devices, ANY, ALL), i % 4);
	assert_int_equal(pick_idle(devices, ANY, 0x9), 3);
	assert_int_equal(pick_idle(devices, ANY, 0x9), 0);
	otte_devices_close(devices);
}

static void a_lower_rank_is_for_five_and_ten_times_the_wait(void **state)
{
	struct otte_devices *devices = open_standard();
	unsigned i;

	(void)state;
	for (i = 0; i < 4; i++)
		assert_int_equal(pick(devices, CUDA(1), ALL), 0);
	assert_int_equal(pick(devices, CUDA(1), ALL), 1);
	for (i = 5; i < 10; i++)
		assert_int_equal(pick(devices, CUDA(1), ALL), 0);
	assert_int_equal(load_of(devices, 0).charged, 9 * SLICE);
	/* Ten, twice five and once ten: in turn. */
	assert_int_equal(pick(devices, CUDA(1), ALL), 1);
	assert_int_equal(pick(devices, CUDA(1), ALL), 2);
	otte_devices_close(devices);
}

static uint64_t elsewhere[4];

static uint64_t others(void *arg, unsigned nic)
{
	assert_ptr_equal(arg, elsewhere);
	assert_in_range(nic, 0, 3);
	return elsewhere[nic];
}

static void what_other_processes_have_under_way_counts(void **state)
{
	struct otte_devices_setup setup = standard();
	struct otte_devices *devices;

	(void)state;
	setup.params.others = others;
	setup.params.arg = elsewhere;
	devices = open_with(&setup);
	elsewhere[0] = 2 * SLICE + 1;
	assert_int_equal(pick(devices, CPU(0), 0x3), 1);
	assert_int_equal(pick(devices, CPU(0), 0x3), 1);
	assert_int_equal(pick(devices, CPU(0), 0x3), 1);
	assert_int_equal(pick(devices, CPU(0), 0x3), 0);
	/* Any number may stand in a page that others write. */
	elsewhere[0] = UINT64_MAX;
	assert_int_equal(pick(devices, CPU(0), 0x3), 1);
	memset(elsewhere, 0, sizeof(elsewhere));
	otte_devices_close(devices);
}

/* Which nobody chooses slice by slice: they are bytes under way, and nothing is learned of them. */
static void what_goes_by_leases_counts(void **state)
{
	struct otte_devices *devices = open_standard();
	struct otte_device_load load;

	(void)state;
	otte_devices_depart(devices, 0, 3 * SLICE);
	otte_devices_depart(devices, 0, SLICE);
	assert_int_equal(pick_idle(devices, CPU(0), 0x3), 1);
	otte_devices_arrive(devices, 0, 3 * SLICE, true);
	assert_int_equal(pick_idle(devices, CPU(0), 0x3), 1);
	otte_devices_arrive(devices, 0, SLICE, false);
	assert_int_equal(pick_idle(devices, CPU(0), 0x3), 0);
	load = load_of(devices, 0);
	assert_int_equal(load.posted, 4 * SLICE);
	assert_int_equal(load.completed, 3 * SLICE);
	assert_int_equal(load.under_way, 0);
	assert_int_equal(load.charged, 0);
	assert_int_equal(load.slices, 0);
	assert_false(load.measured);
	otte_devices_close(devices);
}

/* ---- Several slices ---- */

static void slices_are_shared_out_by_weight_and_the_best_gets_the_rest(void **state)
{
	static const struct otte_device two[] = { { 0, 1000000000 }, { 0, 3000000000 } };
	struct otte_devices_setup setup = standard();
	struct otte_device_charge charge;
	struct otte_devices *devices;

	(void)state;
	/* Weights 1, 1/5 and 1/10 of 1.3: 49.2, 9.8 and 4.9 of 64. */
	devices = open_standard();
	assert_int_equal(try_select(devices, CUDA(1), ALL, 64, &charge), 0);
	shares_are(&charge, 51, 9, 4, 0);
	assert_int_equal(load_of(devices, 0).charged, 51 * SLICE);
	assert_int_equal(load_of(devices, 2).charged, 4 * SLICE);
	/* Now 52 slices would wait there: 1/52, 1/50 and 1/50. */
	assert_int_equal(try_select(devices, CUDA(1), ALL, 10, &charge), 0);
	shares_are(&charge, 3, 4, 3, 0);
	otte_devices_close(devices);

	setup.devices = two;
	setup.count = 2;
	devices = open_with(&setup);
	assert_int_equal(try_select(devices, CPU(0), ALL, 16, &charge), 0);
	shares_are(&charge, 4, 12, 0, 0);
	otte_devices_close(devices);
}

static void slices_of_one_nic_are_neighbours(void **state)
{
	struct otte_devices *devices = open_standard();
	struct otte_device_charge charge;
	uint32_t i, changes = 0;

	(void)state;
	assert_int_equal(try_select(devices, CPU(0), 0x3, 8, &charge), 0);
	shares_are(&charge, 4, 4, 0, 0);
	for (i = 1; i < 8; i++)
		changes += charge.nics[i] != charge.nics[i - 1];
	assert_int_equal(changes, 1);
	otte_devices_close(devices);
}

static void the_last_slice_is_charged_by_its_own_length(void **state)
{
	struct otte_devices_request request = {
		.location = CPU(1),
		.allowed = 0x4,
		.slicing = { 3, SLICE },
		.length = 2 * SLICE + 20000,
	};
	struct otte_devices *devices = open_standard();
	struct otte_device_charge charge;
	struct otte_device_lease lease;

	(void)state;
	assert_int_equal(otte_devices_select(devices, &request, &charge), 0);
	assert_int_equal(load_of(devices, 2).charged, 2 * SLICE + 20000);
	assert_int_equal(load_of(devices, 2).assigned, 2 * SLICE + 20000);
	assert_true(otte_device_charge_take(&charge, 2, &lease));
	assert_int_equal(lease.charged, 20000);
	assert_int_equal(otte_device_lease_end(&lease), 0);
	assert_int_equal(load_of(devices, 2).charged, 2 * SLICE);
	otte_devices_close(devices);
}

static void every_hundredth_request_of_several_slices_goes_round_all_that_are_eligible(void **state)
{
	struct otte_devices *devices = open_standard();
	struct otte_device_charge charge;
	unsigned i;

	(void)state;
	for (i = 1; i < 100; i++) {
		pick_idle(devices, CPU(1), 0x7);
		assert_int_equal(try_select(devices, CPU(1), 0x7, 4, &charge), 0);
		shares_are(&charge, 0, 0, 4, 0);
		otte_device_charge_abandon(&charge);
	}
	/* Not to NIC 3, whose rail has failed. */
	assert_int_equal(try_select(devices, CPU(1), 0x7, 4, &charge), 0);
	shares_are(&charge, 2, 1, 1, 0);
	assert_int_equal(otte_device_charge_abandon(&charge), 4 * SLICE);
	assert_int_equal(try_select(devices, CPU(1), 0x7, 4, &charge), 0);
	shares_are(&charge, 0, 0, 4, 0);
	otte_devices_close(devices);
}

/* ---- Without smart selection ---- */

static void plain_slices_go_round_the_first_tier_and_are_not_charged(void **state)
{
	struct otte_devices_setup setup = standard();
	struct otte_device_charge charge;
	struct otte_devices *devices;

	(void)state;
	setup.params.smart = false;
	devices = open_with(&setup);
	assert_int_equal(pick(devices, CPU(0), ALL), 0);
	assert_int_equal(pick(devices, CPU(0), ALL), 1);
	assert_int_equal(try_select(devices, CPU(0), ALL, 3, &charge), 0);
	shares_are(&charge, 2, 1, 0, 0);
	assert_int_equal(load_of(devices, 0).charged, 0);
	assert_int_equal(load_of(devices, 0).assigned, 3 * SLICE);
	assert_int_equal(load_of(devices, 1).assigned, 2 * SLICE);
	assert_int_equal(otte_device_charge_abandon(&charge), 3 * SLICE);
	assert_int_equal(load_of(devices, 0).charged, 0);
	/* The first rank that has any. */
	otte_devices_set_healthy(devices, 0, false);
	otte_devices_set_healthy(devices, 1, false);
	assert_int_equal(pick(devices, CPU(0), ALL), 3);
	assert_int_equal(pick(devices, CPU(0), ~0x8ull), 2);
	otte_devices_close(devices);
}

/* ---- Eligibility ---- */

static void refused(struct otte_devices *devices, struct otte_location location, uint64_t allowed,
		    const char *words)
{
	struct otte_device_charge charge;

	assert_int_equal(try_select(devices, location, allowed, 1, &charge), -ENODEV);
	assert_string_equal(otte_error_text(), words);
	assert_int_equal(otte_device_charge_abandon(&charge), 0);
}

static void a_nic_outside_the_row_the_mask_or_the_path_is_never_taken(void **state)
{
	struct otte_devices_setup setup = standard();
	struct otte_devices *devices;
	unsigned i;

	(void)state;
	setup.params.mask = 0x6;
	devices = open_with(&setup);
	for (i = 0; i < 50; i++)
		assert_int_equal(pick(devices, CUDA(0), ALL), 2);
	refused(devices, CUDA(0), 0x1, "no NIC is eligible for memory at cuda:0");
	refused(devices, CPU(7), ALL, "no NIC is eligible for memory at cpu:7");
	refused(devices, ANY, 0x8, "no NIC is eligible for memory at *");
	/* What has no row has that of `*`. */
	assert_int_equal(pick(devices, CPU(3), 0x2), 1);
	otte_devices_close(devices);
}

static void a_location_without_a_row_at_all_has_no_nic(void **state)
{
	static const struct otte_nic_priority short_one = { rows, 1 };
	struct otte_devices_setup setup = standard();
	struct otte_devices *devices;

	(void)state;
	setup.priority = &short_one;
	devices = open_with(&setup);
	refused(devices, CPU(1), ALL, "no NIC is eligible for memory at cpu:1");
	otte_devices_close(devices);
}

static void a_nic_that_is_not_healthy_waits_until_it_is(void **state)
{
	struct otte_devices *devices = open_standard();

	(void)state;
	otte_devices_set_healthy(devices, 2, false);
	assert_false(load_of(devices, 2).healthy);
	refused(devices, CPU(1), 0x4, "no NIC is eligible for memory at cpu:1");
	otte_devices_set_healthy(devices, 2, true);
	assert_int_equal(pick(devices, CPU(1), 0x4), 2);
	otte_devices_close(devices);
}

static void strict_locality_excludes_who_is_known_to_be_elsewhere(void **state)
{
	struct otte_devices_setup setup = standard();
	struct otte_devices *devices;

	(void)state;
	setup.params.strict_numa = true;
	devices = open_with(&setup);
	refused(devices, CPU(0), 0x4, "no NIC is eligible for memory at cpu:0");
	assert_int_equal(pick(devices, CPU(0), 0x8), 3);
	refused(devices, CUDA(0), 0x1, "no NIC is eligible for memory at cuda:0");
	assert_int_equal(pick(devices, CUDA(0), 0x4), 2);
	/* Of memory at an unknown place nothing is elsewhere. */
	assert_int_equal(pick(devices, CUDA(1), 0x4), 2);
	assert_int_equal(pick(devices, ANY, 0x1), 0);
	otte_devices_close(devices);
}

static void the_preferred_node_stands_for_host_memorys_own(void **state)
{
	struct otte_devices_setup setup = standard();
	struct otte_devices *devices;

	(void)state;
	setup.params.preferred_node = 1;
	devices = open_with(&setup);
	assert_int_equal(pick_idle(devices, CPU(0), ALL), 2);
	assert_int_equal(pick_idle(devices, CPU(7), ALL), 2);
	assert_int_equal(pick_idle(devices, ANY, ALL), 2);
	assert_int_equal(pick_idle(devices, CUDA(1), ALL), 0);
	otte_devices_close(devices);
	setup.params.strict_numa = true;
	devices = open_with(&setup);
	refused(devices, CPU(0), 0x1, "no NIC is eligible for memory at cpu:0");
	otte_devices_close(devices);
}

static void what_cannot_be_is_refused(void **state)
{
	struct otte_devices_setup setup = standard();
	struct otte_devices *devices;
	struct otte_device_charge charge;
	struct otte_device_load load;

	(void)state;
	setup.count = 65;
	assert_int_equal(otte_devices_open(&setup, &devices), -EINVAL);
	assert_string_equal(otte_error_text(), "65 NICs, allowed are 64");
	setup = standard();
	setup.params.rank_weights[1] = 0;
	assert_int_equal(otte_devices_open(&setup, &devices), -EINVAL);
	assert_string_equal(otte_error_text(), "weight of rank 1: 0, it has to be more than 0");
	setup = standard();
	setup.params.unknown_rate = 0;
	assert_int_equal(otte_devices_open(&setup, &devices), -EINVAL);
	assert_string_equal(otte_error_text(), "rate of unknown links: 0, it has to be more");
	devices = open_standard();
	assert_int_equal(try_select(devices, ANY, ALL, 65, &charge), -EINVAL);
	assert_string_equal(otte_error_text(), "65 slices, allowed are 1 to 64");
	assert_int_equal(try_select(devices, ANY, ALL, 0, &charge), -EINVAL);
	assert_int_equal(otte_devices_read(devices, 4, &load), -ENOENT);
	otte_devices_close(devices);
	otte_devices_close(NULL);
}

/* ---- Charges ---- */

static void each_charge_goes_back_once(void **state)
{
	struct otte_devices *devices = open_standard();
	struct otte_device_charge charge;
	struct otte_device_lease leases[2], again;

	(void)state;
	assert_int_equal(try_select(devices, CPU(1), 0x4, 4, &charge), 0);
	assert_true(otte_device_charge_take(&charge, 0, &leases[0]));
	assert_true(otte_device_charge_take(&charge, 3, &leases[1]));
	assert_false(otte_device_charge_take(&charge, 3, &again));
	assert_false(otte_device_charge_take(&charge, 4, &again));
	assert_int_equal(load_of(devices, 2).charged, 4 * SLICE);
	/* Only what nobody took. */
	assert_int_equal(otte_device_charge_abandon(&charge), 2 * SLICE);
	assert_int_equal(otte_device_charge_abandon(&charge), 0);
	assert_false(otte_device_charge_take(&charge, 1, &again));
	assert_int_equal(load_of(devices, 2).charged, 2 * SLICE);
	assert_int_equal(otte_device_lease_end(&leases[0]), 0);
	assert_int_equal(otte_device_lease_end(&leases[0]), -EALREADY);
	assert_int_equal(load_of(devices, 2).charged, SLICE);
	assert_int_equal(otte_device_lease_end(&leases[1]), 0);
	assert_int_equal(load_of(devices, 2).charged, 0);
	assert_int_equal(load_of(devices, 2).assigned, 4 * SLICE);
	otte_devices_close(devices);
}

static struct otte_device_lease lease_on(struct otte_devices *devices, unsigned nic)
{
	struct otte_device_charge charge;
	struct otte_device_lease lease;

	assert_int_equal(try_select(devices, ANY, 1ull << nic, 1, &charge), 0);
	assert_true(otte_device_charge_take(&charge, 0, &lease));
	return lease;
}

static int tell(struct otte_device_lease *lease, enum otte_device_event event, uint64_t bytes,
		uint64_t now_ns)
{
	return otte_device_lease_tell(lease, event, bytes, now_ns);
}

static void bytes_that_may_be_under_way_stay_charged(void **state)
{
	struct otte_devices *devices = open_standard();
	struct otte_device_lease lease = lease_on(devices, 0);

	(void)state;
	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, 1000, 1), 0);
	assert_int_equal(otte_device_lease_end(&lease), -EBUSY);
	assert_int_equal(tell(&lease, OTTE_DEVICE_DOUBTED, 400, 2), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 600, 3), 0);
	assert_int_equal(otte_device_lease_end(&lease), -EBUSY);
	assert_int_equal(load_of(devices, 0).charged, SLICE);
	assert_int_equal(load_of(devices, 0).under_way, 400);
	assert_int_equal(tell(&lease, OTTE_DEVICE_SETTLED, 400, 4), 0);
	assert_int_equal(otte_device_lease_end(&lease), 0);
	assert_int_equal(load_of(devices, 0).charged, 0);
	assert_int_equal(load_of(devices, 0).under_way, 0);
	assert_int_equal(load_of(devices, 0).posted, 1000);
	assert_int_equal(load_of(devices, 0).completed, 600);
	otte_devices_close(devices);
}

static void more_than_is_under_way_cannot_end(void **state)
{
	struct otte_devices *devices = open_standard();
	struct otte_device_lease lease = lease_on(devices, 0);

	(void)state;
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 1, 1), -EINVAL);
	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, 1000, 1), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 1001, 1), -EINVAL);
	assert_int_equal(tell(&lease, OTTE_DEVICE_DROPPED, 1001, 1), -EINVAL);
	assert_int_equal(tell(&lease, OTTE_DEVICE_SETTLED, 1, 1), -EINVAL);
	assert_int_equal(tell(&lease, OTTE_DEVICE_DOUBTED, 900, 1), 0);
	/* Of what is in doubt nothing completes until it is settled. */
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 101, 1), -EINVAL);
	assert_int_equal(tell(&lease, OTTE_DEVICE_DOUBTED, 101, 1), -EINVAL);
	assert_int_equal(tell(&lease, OTTE_DEVICE_SETTLED, 901, 1), -EINVAL);
	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, UINT64_MAX, 1), -EINVAL);
	assert_int_equal(load_of(devices, 0).under_way, 1000);
	assert_int_equal(tell(&lease, OTTE_DEVICE_SETTLED, 900, 1), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_DROPPED, 100, 1), 0);
	assert_int_equal(otte_device_lease_end(&lease), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, 1, 1), -EINVAL);
	otte_devices_close(devices);
}

static _Atomic unsigned allocations;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_malloc(size_t size)
{
	allocations++;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	allocations++;
	return __real_calloc(count, size);
}

static void no_slice_allocates(void **state)
{
	struct otte_devices *devices = open_standard();
	struct otte_device_charge charge;
	struct otte_device_lease lease;
	unsigned before = allocations, slice;

	(void)state;
	assert_true(before >= 2);
	assert_int_equal(try_select(devices, ANY, ALL, 64, &charge), 0);
	for (slice = 0; slice < 32; slice++) {
		assert_true(otte_device_charge_take(&charge, slice, &lease));
		assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, SLICE, slice), 0);
		assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, SLICE, slice + 1), 0);
		assert_int_equal(otte_device_lease_end(&lease), 0);
	}
	otte_device_charge_abandon(&charge);
	assert_int_equal(allocations, before);
	otte_devices_close(devices);
}

/* ---- Estimates ---- */

static int64_t told[4];

static void hear(void *arg, unsigned nic, int64_t bytes)
{
	assert_ptr_equal(arg, told);
	told[nic] += bytes;
}

static void others_are_told_what_is_under_way(void **state)
{
	struct otte_devices_setup setup = standard();
	struct otte_device_lease lease;
	struct otte_devices *devices;

	(void)state;
	setup.params.moves = hear;
	setup.params.arg = told;
	devices = open_with(&setup);
	lease = lease_on(devices, 2);
	assert_int_equal(told[2], 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, 100, MS), 0);
	assert_int_equal(told[2], 100);
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 50, MS), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_DROPPED, 20, MS), 0);
	assert_int_equal(told[2], 30);
	/* It may be so. */
	assert_int_equal(tell(&lease, OTTE_DEVICE_DOUBTED, 30, MS), 0);
	assert_int_equal(told[2], 30);
	assert_int_equal(tell(&lease, OTTE_DEVICE_SETTLED, 30, MS), 0);
	assert_int_equal(told[2], 0);
	/* There is no more to tell of. */
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 1, MS), -EINVAL);
	assert_int_equal(told[2], 0);
	assert_int_equal(otte_device_lease_end(&lease), 0);
	otte_devices_depart(devices, 1, 70);
	assert_int_equal(told[1], 70);
	otte_devices_arrive(devices, 1, 70, false);
	assert_int_equal(told[1], 0);
	otte_devices_close(devices);
}

static void a_rate_is_told_or_measured_or_unknown(void **state)
{
	static const struct otte_device two[] = { { 0, 1000000000 }, { 0, 0 } };
	struct otte_devices_setup setup = standard();
	struct otte_device_lease lease;
	struct otte_devices *devices;

	(void)state;
	setup.devices = two;
	setup.count = 2;
	devices = open_with(&setup);
	assert_true(load_of(devices, 0).told);
	assert_false(load_of(devices, 1).told);
	lease = lease_on(devices, 1);
	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, 100, MS), 0);
	assert_false(load_of(devices, 1).measured);
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 100, 11 * MS), 0);
	assert_true(load_of(devices, 1).measured);
	assert_false(load_of(devices, 0).measured);
	assert_int_equal(otte_device_lease_end(&lease), 0);
	otte_devices_set_rate(devices, 0, 0);
	assert_false(load_of(devices, 0).told);
	otte_devices_close(devices);
}

/* A slice of `bytes` from first_ns to last_ns. */
static void move(struct otte_devices *devices, unsigned nic, uint64_t bytes, uint64_t first_ns,
		 uint64_t last_ns)
{
	struct otte_device_lease lease = lease_on(devices, nic);

	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, bytes - 1, first_ns), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, 1, last_ns - 1), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 1, last_ns - 1), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, bytes - 1, last_ns), 0);
	assert_int_equal(otte_device_lease_end(&lease), 0);
}

static void selection_learns_from_first_post_to_last_cqe(void **state)
{
	struct otte_devices *devices = open_standard();

	(void)state;
	rate_is(load_of(devices, 0).selection, 1e9);
	move(devices, 0, 1000000, MS, MS + 500000);
	rate_is(load_of(devices, 0).selection, 0.01 * 1e9 + (1 - 0.01) * 2e9);
	rate_is(load_of(devices, 1).selection, 1e9);
	/* Within a tenth and ten times of the link's. */
	move(devices, 1, 1000000000, MS, MS + 10);
	rate_is(load_of(devices, 1).selection, 0.01 * 1e9 + (1 - 0.01) * 1e10);
	move(devices, 2, 2, MS, MS + NSEC_PER_SEC);
	rate_is(load_of(devices, 2).selection, 0.01 * 1e9 + (1 - 0.01) * 1e8);
	otte_devices_close(devices);
}

static void what_was_learned_decides(void **state)
{
	struct otte_devices *devices = open_standard();

	(void)state;
	move(devices, 1, 1000000, MS, MS + 500000);
	assert_int_equal(pick(devices, CPU(0), 0x3), 1);
	assert_int_equal(pick(devices, CPU(0), 0x3), 0);
	otte_devices_close(devices);
}

static void a_failed_or_uncertain_post_is_no_sample(void **state)
{
	struct otte_devices *devices = open_standard();
	struct otte_device_lease lease = lease_on(devices, 0);

	(void)state;
	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, 2000, 1), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_DROPPED, 1000, 2), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 1000, 3), 0);
	assert_int_equal(otte_device_lease_end(&lease), 0);
	lease = lease_on(devices, 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, 2000, 1), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_DOUBTED, 1000, 2), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 1000, 3), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_SETTLED, 1000, 4), 0);
	assert_int_equal(otte_device_lease_end(&lease), 0);
	/* Nor is one that took no time. */
	lease = lease_on(devices, 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_POSTED, 2000, 5), 0);
	assert_int_equal(tell(&lease, OTTE_DEVICE_COMPLETED, 2000, 5), 0);
	assert_int_equal(otte_device_lease_end(&lease), 0);
	rate_is(load_of(devices, 0).selection, 1e9);
	otte_devices_close(devices);
}

static void a_link_of_another_rate_bounds_what_was_learned(void **state)
{
	static const struct otte_device unknown = { OTTE_TOPO_NO_NODE, 0 };
	struct otte_devices_setup setup = standard();
	struct otte_devices *devices = open_standard();

	(void)state;
	otte_devices_set_rate(devices, 0, 5000000000);
	assert_int_equal(load_of(devices, 0).link, 5000000000);
	rate_is(load_of(devices, 0).selection, 1e9);
	otte_devices_set_rate(devices, 0, 20000000000);
	rate_is(load_of(devices, 0).selection, 2e9);
	rate_is(load_of(devices, 0).transmit, 2e9);
	otte_devices_set_rate(devices, 0, 100000000);
	rate_is(load_of(devices, 0).selection, 1e9);
	otte_devices_set_rate(devices, 0, 0);
	assert_int_equal(load_of(devices, 0).link, 50000000000);
	otte_devices_close(devices);
	setup.devices = &unknown;
	setup.count = 1;
	devices = open_with(&setup);
	rate_is(load_of(devices, 0).selection, 5e10);
	rate_is(load_of(devices, 0).transmit, 5e10);
	otte_devices_close(devices);
}

static struct otte_transmit transmit_at(double link)
{
	struct otte_transmit transmit = { 0 };

	otte_rate_set_link(&transmit.rate, link);
	return transmit;
}

static double mixed(double old, double sample)
{
	return OTTE_RATE_TRANSMIT_OLD * old + (1 - OTTE_RATE_TRANSMIT_OLD) * sample;
}

static void transmit_samples_every_10_ms_with_bytes_under_way(void **state)
{
	struct otte_transmit t = transmit_at(1e9);

	(void)state;
	otte_transmit_posted(&t, 100000000, 1000 * MS);
	otte_transmit_completed(&t, 10000000, 1009 * MS);
	rate_is(t.rate.value, 1e9);
	/* 20 MB in 10 ms. */
	otte_transmit_completed(&t, 10000000, 1010 * MS);
	rate_is(t.rate.value, mixed(1e9, 2e9));
	/* 30 MB in 20 ms. */
	otte_transmit_completed(&t, 10000000, 1020 * MS);
	rate_is(t.rate.value, mixed(mixed(1e9, 2e9), 1.5e9));
	assert_int_equal(t.under_way, 70000000);
}

static void transmit_forgets_what_is_older_than_50_ms(void **state)
{
	struct otte_transmit t = transmit_at(1e9);
	double wanted = 1e9;
	unsigned i;

	(void)state;
	otte_transmit_posted(&t, 1000000000, 1000 * MS);
	otte_transmit_completed(&t, 90000000, 1010 * MS);
	wanted = mixed(wanted, 9e9);
	for (i = 2; i <= 5; i++) {
		otte_transmit_completed(&t, 10000000, (1000 + 10 * i) * MS);
		wanted = mixed(wanted, (90e6 + (i - 1) * 10e6) * 1e9 / (i * 10e6));
	}
	rate_is(t.rate.value, wanted);
	/* The first ten are out of sight. */
	otte_transmit_completed(&t, 10000000, 1060 * MS);
	rate_is(t.rate.value, mixed(wanted, 1e9));
	/* One bucket of more than 50 ms is a window. */
	wanted = t.rate.value;
	otte_transmit_completed(&t, 50000000, 1160 * MS);
	rate_is(t.rate.value, mixed(wanted, 0.5e9));
}

static void transmit_time_stands_still_while_nothing_is_under_way(void **state)
{
	struct otte_transmit t = transmit_at(1e9);

	(void)state;
	otte_transmit_posted(&t, 10000000, 1000 * MS);
	otte_transmit_completed(&t, 10000000, 1006 * MS);
	otte_transmit_posted(&t, 10000000, 1040 * MS);
	otte_transmit_completed(&t, 10000000, 1044 * MS);
	rate_is(t.rate.value, mixed(1e9, 2e9));
	/* A pause of a window: what was seen before tells nothing of now. */
	otte_transmit_posted(&t, 5000000, 1094 * MS);
	otte_transmit_completed(&t, 5000000, 1104 * MS);
	rate_is(t.rate.value, mixed(mixed(1e9, 2e9), 0.5e9));
}

static void transmit_takes_no_sample_while_in_doubt(void **state)
{
	struct otte_transmit t = transmit_at(1e9);

	(void)state;
	otte_transmit_posted(&t, 100000000, 1000 * MS);
	otte_transmit_completed(&t, 10000000, 1009 * MS);
	otte_transmit_doubted(&t, 10000000, 1010 * MS);
	otte_transmit_completed(&t, 40000000, 1050 * MS);
	rate_is(t.rate.value, 1e9);
	assert_int_equal(t.under_way, 50000000);
	otte_transmit_settled(&t, 10000000, 1060 * MS);
	assert_int_equal(t.under_way, 40000000);
	/* From then on as from the beginning. */
	otte_transmit_completed(&t, 10000000, 1069 * MS);
	rate_is(t.rate.value, 1e9);
	otte_transmit_completed(&t, 20000000, 1070 * MS);
	rate_is(t.rate.value, mixed(1e9, 3e9));
}

static void transmit_forgets_where_a_post_failed(void **state)
{
	struct otte_transmit t = transmit_at(1e9);

	(void)state;
	otte_transmit_posted(&t, 100000000, 1000 * MS);
	otte_transmit_completed(&t, 50000000, 1009 * MS);
	otte_transmit_dropped(&t, 10000000, 1010 * MS);
	otte_transmit_completed(&t, 10000000, 1020 * MS);
	rate_is(t.rate.value, mixed(1e9, 1e9));
	assert_int_equal(t.under_way, 30000000);
}

static void a_clock_that_goes_back_is_no_time(void **state)
{
	struct otte_transmit t = transmit_at(1e9);

	(void)state;
	otte_transmit_posted(&t, 20000000, 1000 * MS);
	otte_transmit_completed(&t, 20000000, 1006 * MS);
	/* Neither a pause, nor time that was there already. */
	otte_transmit_posted(&t, 10000000, 1005 * MS);
	otte_transmit_completed(&t, 10000000, 1010 * MS);
	rate_is(t.rate.value, mixed(1e9, 3e9));
}

static void transmit_stays_within_bounds_of_the_link(void **state)
{
	struct otte_transmit t = transmit_at(1e9);
	unsigned i;

	(void)state;
	otte_transmit_posted(&t, UINT64_MAX / 2, 1000 * MS);
	for (i = 1; i <= 200; i++)
		otte_transmit_completed(&t, 1ull << 40, (1000 + 10 * i) * MS);
	assert_true(t.rate.value <= 1e10 && t.rate.value > 0.99e10);
	for (i = 201; i <= 600; i++)
		otte_transmit_completed(&t, 1, (1000 + 10 * i) * MS);
	assert_true(t.rate.value >= 1e8 && t.rate.value < 1.01e8);
}

/* ---- Drawn cases ---- */

static uint64_t seed;

static uint64_t draw_from(uint64_t *from, uint64_t below)
{
	*from = *from * 6364136223846793005ull + 1442695040888963407ull;
	return (*from >> 16) % below;
}

static uint64_t draw(uint64_t below)
{
	return draw_from(&seed, below);
}

#define PARENTS 32

/* What the test knows of a request under way. */
struct drawn {
	struct otte_device_charge charge;
	struct otte_device_lease leases[OTTE_DEVICES_SLICES_MAX];
	uint64_t taken;
	bool live;
};

static void expect_charged(struct otte_devices *devices, const struct drawn *drawn)
{
	uint64_t wanted[ARRAY_SIZE(nics)] = { 0 }, offset, bytes;
	unsigned i, slice;

	for (i = 0; i < PARENTS; i++)
		for (slice = 0; drawn[i].live && slice < drawn[i].charge.slicing.count; slice++) {
			otte_slice_range(&drawn[i].charge.slicing, drawn[i].charge.length, slice,
					 &offset, &bytes);
			if ((drawn[i].charge.held | drawn[i].taken) >> slice & 1)
				wanted[drawn[i].charge.nics[slice]] += bytes;
		}
	for (i = 0; i < ARRAY_SIZE(nics); i++)
		assert_int_equal(load_of(devices, i).charged, wanted[i]);
}

static void begin(struct otte_devices *devices, struct drawn *drawn, uint64_t healthy)
{
	struct otte_location location = rows[draw(ARRAY_SIZE(rows))].location;
	const struct otte_nic_row *row = otte_nic_priority_find(&priority, location);
	uint64_t length = 1 + draw(1 << 23), allowed = draw(16);
	struct otte_devices_request request = {
		.location = location,
		.allowed = allowed,
		.slicing = otte_slice_plan(length, SLICE, 64),
		.length = length,
	};
	uint64_t eligible = (row->ranks[0] | row->ranks[1] | row->ranks[2]) & allowed & healthy;
	uint32_t i;
	int rc = otte_devices_select(devices, &request, &drawn->charge);

	assert_int_equal(rc, eligible ? 0 : -ENODEV);
	drawn->live = !rc;
	drawn->taken = 0;
	for (i = 0; !rc && i < request.slicing.count; i++)
		assert_true(eligible >> drawn->charge.nics[i] & 1);
}

static void go_on(struct drawn *drawn, uint64_t now_ns)
{
	unsigned slice = (unsigned)draw(drawn->charge.slicing.count);
	struct otte_device_lease *lease = &drawn->leases[slice];
	uint64_t bit = 1ull << slice, before = drawn->charge.held;

	if (!(drawn->taken & bit)) {
		assert_int_equal(otte_device_charge_take(&drawn->charge, slice, lease),
				 before >> slice & 1);
		drawn->taken |= before & bit;
	} else if (draw(3)) {
		otte_device_lease_tell(lease, (enum otte_device_event)draw(5), draw(SLICE), now_ns);
	} else if (!otte_device_lease_end(lease)) {
		drawn->taken &= ~bit;
	} else {
		assert_true(lease->under_way > 0);
	}
}

static void finish(struct drawn *drawn, uint64_t now_ns)
{
	struct otte_device_lease *lease;
	unsigned slice;

	otte_device_charge_abandon(&drawn->charge);
	for (slice = 0; slice < drawn->charge.slicing.count; slice++) {
		if (!(drawn->taken >> slice & 1))
			continue;
		lease = &drawn->leases[slice];
		assert_int_equal(tell(lease, OTTE_DEVICE_SETTLED, lease->doubted, now_ns), 0);
		assert_int_equal(tell(lease, OTTE_DEVICE_DROPPED, lease->under_way, now_ns), 0);
		assert_int_equal(otte_device_lease_end(lease), 0);
	}
	drawn->live = false;
	drawn->taken = 0;
}

static void bounded(struct otte_devices *devices)
{
	struct otte_device_load load;
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(nics); i++) {
		load = load_of(devices, i);
		assert_true(load.selection >= 1e8 && load.selection <= 1e10);
		assert_true(load.transmit >= 1e8 && load.transmit <= 1e10);
	}
}

static void whatever_comes_charges_are_those_of_slices_under_way(void **state)
{
	static struct drawn drawn[PARENTS];
	struct otte_devices *devices = open_standard();
	uint64_t healthy = 0xf, now_ns = NSEC_PER_SEC;
	struct drawn *one;
	unsigned i, nic;

	(void)state;
	for (i = 0; i < 60000; i++) {
		now_ns += draw(MS);
		one = &drawn[draw(PARENTS)];
		if (!draw(50)) {
			nic = (unsigned)draw(ARRAY_SIZE(nics));
			healthy ^= 1ull << nic;
			otte_devices_set_healthy(devices, nic, healthy >> nic & 1);
		}
		if (!one->live)
			begin(devices, one, healthy);
		else if (draw(40))
			go_on(one, now_ns);
		else
			finish(one, now_ns);
		if (!(i % 64))
			expect_charged(devices, drawn);
	}
	bounded(devices);
	for (i = 0; i < PARENTS; i++)
		if (drawn[i].live)
			finish(&drawn[i], now_ns);
	expect_charged(devices, drawn);
	for (i = 0; i < ARRAY_SIZE(nics); i++)
		assert_int_equal(load_of(devices, i).under_way, 0);
	otte_devices_close(devices);
}

/* ---- Threads ---- */

#define THREADS 8
#define ROUNDS 2000

struct worker {
	pthread_t thread;
	struct otte_devices *devices;
	uint64_t seed;
	bool wrong;
};

/* One slice, from its post to the end of its charge. */
static bool carry(struct worker *worker, struct otte_device_lease *lease)
{
	bool good = draw_from(&worker->seed, 8);
	uint64_t now_ns = otte_now_ns();

	return !tell(lease, OTTE_DEVICE_POSTED, SLICE, now_ns) &&
	       (good || !tell(lease, OTTE_DEVICE_DOUBTED, SLICE, now_ns)) &&
	       otte_device_lease_end(lease) == -EBUSY &&
	       !tell(lease, good ? OTTE_DEVICE_COMPLETED : OTTE_DEVICE_SETTLED, SLICE,
		     otte_now_ns()) &&
	       !otte_device_lease_end(lease);
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct otte_device_charge charge;
	struct otte_device_lease lease;
	uint32_t round, slice, count;

	for (round = 0; round < ROUNDS; round++) {
		count = (uint32_t)(1 + draw_from(&worker->seed, 16));
		otte_devices_set_healthy(worker->devices, (unsigned)draw_from(&worker->seed, 3),
					 draw_from(&worker->seed, 2));
		/* NIC 3 stays. */
		worker->wrong |= try_select(worker->devices, ANY, ALL, count, &charge) != 0;
		for (slice = 0; slice < count && !worker->wrong; slice++)
			if (draw_from(&worker->seed, 4))
				worker->wrong |= !otte_device_charge_take(&charge, slice, &lease) ||
						 !carry(worker, &lease);
		otte_device_charge_abandon(&charge);
	}
	return NULL;
}

static void what_threads_charge_comes_back_to_zero(void **state)
{
	struct otte_devices *devices = open_standard();
	struct worker workers[THREADS];
	unsigned i;

	(void)state;
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .devices = devices, .seed = draw(UINT64_MAX) };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_false(workers[i].wrong);
	}
	for (i = 0; i < ARRAY_SIZE(nics); i++) {
		assert_int_equal(load_of(devices, i).charged, 0);
		assert_int_equal(load_of(devices, i).under_way, 0);
	}
	assert_true(load_of(devices, 3).completed > 0);
	otte_devices_close(devices);
}

int main(void)
{
	const char *given = getenv("SEED");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slice_takes_the_nic_with_the_lowest_estimated_time),
		cmocka_unit_test(equal_scores_take_turns),
		cmocka_unit_test(a_lower_rank_is_for_five_and_ten_times_the_wait),
		cmocka_unit_test(what_other_processes_have_under_way_counts),
		cmocka_unit_test(others_are_told_what_is_under_way),
		cmocka_unit_test(what_goes_by_leases_counts),
		cmocka_unit_test(a_rate_is_told_or_measured_or_unknown),
		cmocka_unit_test(slices_are_shared_out_by_weight_and_the_best_gets_the_rest),
		cmocka_unit_test(slices_of_one_nic_are_neighbours),
		cmocka_unit_test(the_last_slice_is_charged_by_its_own_length),
		cmocka_unit_test(
			every_hundredth_request_of_several_slices_goes_round_all_that_are_eligible),
		cmocka_unit_test(plain_slices_go_round_the_first_tier_and_are_not_charged),
		cmocka_unit_test(a_nic_outside_the_row_the_mask_or_the_path_is_never_taken),
		cmocka_unit_test(a_location_without_a_row_at_all_has_no_nic),
		cmocka_unit_test(a_nic_that_is_not_healthy_waits_until_it_is),
		cmocka_unit_test(strict_locality_excludes_who_is_known_to_be_elsewhere),
		cmocka_unit_test(the_preferred_node_stands_for_host_memorys_own),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(each_charge_goes_back_once),
		cmocka_unit_test(bytes_that_may_be_under_way_stay_charged),
		cmocka_unit_test(more_than_is_under_way_cannot_end),
		cmocka_unit_test(no_slice_allocates),
		cmocka_unit_test(selection_learns_from_first_post_to_last_cqe),
		cmocka_unit_test(what_was_learned_decides),
		cmocka_unit_test(a_failed_or_uncertain_post_is_no_sample),
		cmocka_unit_test(a_link_of_another_rate_bounds_what_was_learned),
		cmocka_unit_test(transmit_samples_every_10_ms_with_bytes_under_way),
		cmocka_unit_test(transmit_forgets_what_is_older_than_50_ms),
		cmocka_unit_test(transmit_time_stands_still_while_nothing_is_under_way),
		cmocka_unit_test(transmit_takes_no_sample_while_in_doubt),
		cmocka_unit_test(transmit_forgets_where_a_post_failed),
		cmocka_unit_test(a_clock_that_goes_back_is_no_time),
		cmocka_unit_test(transmit_stays_within_bounds_of_the_link),
		cmocka_unit_test(whatever_comes_charges_are_those_of_slices_under_way),
		cmocka_unit_test(what_threads_charge_comes_back_to_zero),
	};

	seed = given ? strtoull(given, NULL, 0) : 20261130;
	printf("seed %llu (SEED=... for another)\n", (unsigned long long)seed);
	return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
