/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The topology of a made-up machine (two-nodes.xml), and of the one at hand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>

#include "otte/otte.h"
#include "topo/cpus.h"
#include "topo/memory_node.h"
#include "topo/topo.h"

#define MADE_UP "tests/unit/topo/two-nodes.xml"

static int read_made_up(void **state)
{
	return otte_topo_read(MADE_UP, (struct otte_topo **)state);
}

static int free_it(void **state)
{
	otte_topo_free(*state);
	return 0;
}

static void nodes_have_memory_cpus_and_distances(void **state)
{
	const struct otte_topo *topo = *state;

	assert_int_equal(topo->node_count, 2);
	assert_int_equal(topo->nodes[0].id, 0);
	assert_int_equal(topo->nodes[0].memory_bytes, 1u << 30);
	assert_string_equal(topo->nodes[1].cpus, "2-3");
	assert_non_null(topo->distances);
	assert_int_equal(topo->distances[0], 10);
	assert_int_equal(topo->distances[1], 21);
	assert_int_equal(topo->distances[2], 21);
	assert_int_equal(topo->distances[3], 10);
}

/* CPUs by bits. */
static unsigned near(const struct otte_topo *topo, const int *nodes, size_t count,
		     unsigned allowed, bool known)
{
	cpu_set_t from, to;
	unsigned cpu, found = 0;

	CPU_ZERO(&from);
	for (cpu = 0; cpu < 32; cpu++)
		if (allowed >> cpu & 1)
			CPU_SET(cpu, &from);
	assert_int_equal(otte_topo_cpus_near(topo, nodes, count, &from, &to), known);
	for (cpu = 0; cpu < 32; cpu++)
		found |= (unsigned)!!CPU_ISSET(cpu, &to) << cpu;
	return found;
}

static void cpus_near_nics_are_those_of_their_nodes_that_are_allowed(void **state)
{
	const int both[] = { 0, 1 }, one_unknown[] = { OTTE_TOPO_NO_NODE, 1, 1 };

	assert_int_equal(near(*state, &both[0], 1, 0xff, true), 0x3);
	assert_int_equal(near(*state, &both[1], 1, 0xff, true), 0xc);
	assert_int_equal(near(*state, both, 2, 0xff, true), 0xf);
	assert_int_equal(near(*state, both, 2, 0x16, true), 0x6);
	assert_int_equal(near(*state, one_unknown, 3, 0x5, true), 0x4);
}

static void where_nothing_is_known_of_them_all_that_are_allowed_are_near(void **state)
{
	const int none = OTTE_TOPO_NO_NODE, no_such = 7, first = 0;

	assert_int_equal(near(*state, NULL, 0, 0x31, false), 0x31);
	assert_int_equal(near(*state, &none, 1, 0x31, false), 0x31);
	assert_int_equal(near(*state, &no_such, 1, 0x31, false), 0x31);
	/* And where none of those that are is allowed. */
	assert_int_equal(near(*state, &first, 1, 0x30, false), 0x30);
}

static void an_interface_and_its_verbs_device_are_one_nic(void **state)
{
	const struct otte_topo *topo = *state;

	assert_int_equal(topo->nic_count, 2);
	assert_string_equal(topo->nics[0].name, "eth-near");
	assert_string_equal(topo->nics[0].rdma, "mlx5_0");
	assert_string_equal(topo->nics[0].pci, "0000:03:00.0");
	assert_int_equal(topo->nics[0].node, 0);
}

static void a_verbs_device_without_interface_is_a_nic(void **state)
{
	const struct otte_topo *topo = *state;

	assert_string_equal(topo->nics[1].name, "mlx5_1");
	assert_string_equal(topo->nics[1].rdma, "mlx5_1");
}

static void the_speed_of_another_machines_nic_is_unknown(void **state)
{
	const struct otte_topo *topo = *state;

	assert_int_equal(topo->nics[0].speed_mbps, -1);
}

static void an_emulated_display_adapter_is_no_gpu(void **state)
{
	const struct otte_topo *topo = *state;

	assert_int_equal(topo->gpu_count, 2);
	assert_string_equal(topo->gpus[0].name, "H100");
	assert_string_equal(topo->gpus[1].name, "10de:2330");
	assert_int_equal(topo->gpus[1].node, 1);
}

static void the_path_from_gpu_to_nic_is_the_nearest_that_both_share(void **state)
{
	const struct otte_topo *topo = *state;

	assert_int_equal(topo->paths[0], OTTE_TOPO_SWITCH);
	assert_int_equal(topo->paths[1], OTTE_TOPO_ROOT);
	assert_int_equal(topo->paths[2], OTTE_TOPO_SYSTEM);
	assert_int_equal(topo->paths[3], OTTE_TOPO_SYSTEM);
	assert_string_equal(otte_topo_path_text(OTTE_TOPO_SWITCH), "switch");
}

static void this_machine_has_a_node_whatever_else_it_lacks(void **state)
{
	struct otte_topo *topo;

	(void)state;
	assert_int_equal(otte_topo_read(NULL, &topo), 0);
	assert_true(topo->node_count >= 1);
	otte_topo_free(topo);
}

static void a_missing_description_is_an_error_that_names_it(void **state)
{
	struct otte_topo *topo;

	(void)state;
	assert_int_equal(otte_topo_read("/no/such/topology.xml", &topo), -ENOENT);
	assert_non_null(strstr(otte_error_text(), "/no/such/topology.xml"));
}

#define MADE_UP_TEST(test) cmocka_unit_test_setup_teardown(test, read_made_up, free_it)

static bool is_a_node(const struct otte_topo *found, int node)
{
	size_t i;

	for (i = 0; i < found->node_count; i++)
		if (found->nodes[i].id == node)
			return true;
	return false;
}

/* Where the kernel says nothing, under seccomp, it is none. */
static void memory_is_at_a_node_of_this_machine_or_at_none(void **state)
{
	const uint64_t length = 16 * 4096;
	struct otte_topo *found;
	void *memory;
	int node;

	(void)state;
	assert_int_equal(otte_topo_read(NULL, &found), 0);
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	node = otte_memory_node(memory, length);
	assert_true(node == OTTE_TOPO_NO_NODE || is_a_node(found, node));
	/* Nothing is known of a range of which a part is not there. */
	assert_int_equal(munmap((uint8_t *)memory + length - 4096, 4096), 0);
	assert_int_equal(otte_memory_node(memory, length), OTTE_TOPO_NO_NODE);
	assert_int_equal(munmap(memory, length), 0);
	otte_topo_free(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MADE_UP_TEST(nodes_have_memory_cpus_and_distances),
		MADE_UP_TEST(cpus_near_nics_are_those_of_their_nodes_that_are_allowed),
		MADE_UP_TEST(where_nothing_is_known_of_them_all_that_are_allowed_are_near),
		MADE_UP_TEST(an_interface_and_its_verbs_device_are_one_nic),
		MADE_UP_TEST(a_verbs_device_without_interface_is_a_nic),
		MADE_UP_TEST(the_speed_of_another_machines_nic_is_unknown),
		MADE_UP_TEST(an_emulated_display_adapter_is_no_gpu),
		MADE_UP_TEST(the_path_from_gpu_to_nic_is_the_nearest_that_both_share),
		cmocka_unit_test(this_machine_has_a_node_whatever_else_it_lacks),
		cmocka_unit_test(a_missing_description_is_an_error_that_names_it),
		cmocka_unit_test(memory_is_at_a_node_of_this_machine_or_at_none),
	};

	return cmocka_run_group_tests_name("topo", tests, NULL, NULL);
}
