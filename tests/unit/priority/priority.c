/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which NICs a location prefers: what the topology says, the matrix, the file, and each refusal
 * with its text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "otte/otte.h"
#include "topo/priority.h"

#define CPU(n) ((struct otte_location){ OTTE_LOCATION_CPU, n })
#define CUDA(n) ((struct otte_location){ OTTE_LOCATION_CUDA, n })
#define ANY ((struct otte_location){ OTTE_LOCATION_ANY, 0 })

/* Ids 0, 1, 3, 4 and 5: one was lost, and the others keep theirs. */
static const char *const names[] = { "mlx5_0", "mlx5_1", NULL, "mlx5_3", "mlx5_4", "mlx5_5" };

static struct otte_nic_priority_source source_of(const char *matrix, const char *path)
{
	return (struct otte_nic_priority_source){
		.nics = { names, ARRAY_SIZE(names) },
		.matrix = matrix,
		.path = path,
	};
}

static void ranks_are(const struct otte_nic_priority *priority, struct otte_location location,
		      uint64_t first, uint64_t second, uint64_t third)
{
	const struct otte_nic_row *row = otte_nic_priority_find(priority, location);

	assert_non_null(row);
	assert_int_equal(row->ranks[0], first);
	assert_int_equal(row->ranks[1], second);
	assert_int_equal(row->ranks[2], third);
}

/* A file that is gone when the test is. */
static const char *file_of(const char *text, size_t length)
{
	static char path[64];
	FILE *file;
	int fd;

	snprintf(path, sizeof(path), "/tmp/otte-priority-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
	return path;
}

static int load_matrix(const char *text, struct otte_nic_priority *priority)
{
	struct otte_nic_priority_source source = source_of(text, NULL);

	return otte_nic_priority_load(&source, priority);
}

static int load_file(const char *text, struct otte_nic_priority *priority)
{
	struct otte_nic_priority_source source = source_of("", file_of(text, strlen(text)));
	int rc = otte_nic_priority_load(&source, priority);

	unlink(source.path);
	return rc;
}

/* ---- Locations ---- */

static void location_is(const char *text, struct otte_location wanted)
{
	char back[OTTE_LOCATION_TEXT];
	struct otte_location location;

	assert_int_equal(otte_location_parse(text, &location), 0);
	assert_int_equal(location.kind, wanted.kind);
	assert_int_equal(location.index, wanted.index);
	assert_string_equal(otte_location_text(back, location), text);
}

static void a_location_has_one_spelling(void **state)
{
	static const char *const bad[] = {
		"",	 "cpu",	    "cpu:",	  "cpu:00", "cpu:-1", "cpu:1x",	 "CPU:0",
		"gpu:0", "cuda: 1", "cuda:65536", "**",	    "cpu:+1", "cuda:01", "cpu:99999999999"
	};
	struct otte_location location;
	char wanted[128];
	size_t i;

	(void)state;
	location_is("cpu:0", CPU(0));
	location_is("cpu:17", CPU(17));
	location_is("cuda:65535", CUDA(65535));
	location_is("*", ANY);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(otte_location_parse(bad[i], &location), -EINVAL);
		snprintf(wanted, sizeof(wanted),
			 "'%s' is no location, allowed are cpu:N, cuda:N and *", bad[i]);
		assert_string_equal(otte_error_text(), wanted);
	}
}

/* ---- The topology ---- */

/*
 * mlx5_0 and mlx5_1 below a switch with GPU 0, mlx5_3 below the host bridge beside it, mlx5_4 at
 * the node of GPU 1, which shares no bridge that is known with anything. mlx5_5 was found by verbs
 * alone.
 */
static struct otte_topo_node nodes[] = { { .id = 0 }, { .id = 2 } };
static struct otte_topo_nic nics[] = {
	{ .name = "eth0", .rdma = "mlx5_0", .node = 0 },
	{ .name = "mlx5_1", .rdma = "mlx5_1", .node = 0 },
	{ .name = "eth7", .rdma = "", .node = 0 },
	{ .name = "mlx5_3", .rdma = "mlx5_3", .node = 0 },
	{ .name = "mlx5_4", .rdma = "mlx5_4", .node = 2 },
};
static struct otte_topo_gpu gpus[] = {
	{ .pci = "0000:81:00.0", .node = 2 },
	{ .pci = "0000:02:00.0", .node = 0 },
	{ .pci = "0000:0a:00.0", .node = OTTE_TOPO_NO_NODE },
};
static uint8_t paths[] = {
	OTTE_TOPO_SYSTEM, OTTE_TOPO_SYSTEM, OTTE_TOPO_SYSTEM, OTTE_TOPO_SYSTEM, OTTE_TOPO_NODE,
	OTTE_TOPO_SWITCH, OTTE_TOPO_SWITCH, OTTE_TOPO_SWITCH, OTTE_TOPO_ROOT,	OTTE_TOPO_SYSTEM,
	OTTE_TOPO_SYSTEM, OTTE_TOPO_SYSTEM, OTTE_TOPO_SYSTEM, OTTE_TOPO_ROOT,	OTTE_TOPO_SYSTEM,
};
static const struct otte_topo made_up = {
	.nodes = nodes,
	.nics = nics,
	.gpus = gpus,
	.node_count = ARRAY_SIZE(nodes),
	.nic_count = ARRAY_SIZE(nics),
	.gpu_count = ARRAY_SIZE(gpus),
	.paths = paths,
};
/* CUDA's order, one that the topology does not know, and one whose address CUDA does not say. */
static const char *const cuda[] = { "0000:02:00.0", "0000:81:00.0", "0000:0A:00.0", "0000:99:00.0",
				    NULL };

static struct otte_nic_priority_source discovered(void)
{
	struct otte_nic_priority_source source = source_of(NULL, NULL);

	source.topo = &made_up;
	source.cuda = cuda;
	source.cuda_count = ARRAY_SIZE(cuda);
	return source;
}

static int discover(void **state)
{
	static struct otte_nic_priority priority;
	struct otte_nic_priority_source source = discovered();

	*state = &priority;
	return otte_nic_priority_load(&source, &priority);
}

static int discard(void **state)
{
	otte_nic_priority_free(*state);
	return 0;
}

static void a_gpu_prefers_the_nearest_known_bridge_then_its_node(void **state)
{
	ranks_are(*state, CUDA(0), 0x03, 0x08, 0x30);
}

static void the_host_bridge_is_the_nearest_where_no_other_is_shared(void **state)
{
	ranks_are(*state, CUDA(2), 0x08, 0, 0x33);
}

static void a_gpu_without_a_known_bridge_has_no_nearest_nic(void **state)
{
	ranks_are(*state, CUDA(1), 0, 0x10, 0x2b);
}

static void of_a_gpu_of_unknown_place_no_nic_is_near(void **state)
{
	ranks_are(*state, CUDA(3), 0, 0, 0x3b);
	ranks_are(*state, CUDA(4), 0, 0, 0x3b);
	ranks_are(*state, CUDA(5), 0, 0, 0x3b);
}

static void a_node_prefers_its_own_nics(void **state)
{
	ranks_are(*state, CPU(0), 0x0b, 0, 0x30);
	ranks_are(*state, CPU(2), 0x10, 0, 0x2b);
}

static void an_unknown_place_has_every_nic_alike(void **state)
{
	ranks_are(*state, ANY, 0, 0, 0x3b);
	ranks_are(*state, CPU(1), 0, 0, 0x3b);
}

static void without_a_topology_nothing_is_near(void **state)
{
	struct otte_nic_priority_source source = source_of("", "");
	struct otte_nic_priority priority;

	(void)state;
	assert_int_equal(otte_nic_priority_load(&source, &priority), 0);
	assert_int_equal(priority.count, 1);
	ranks_are(&priority, CPU(0), 0, 0, 0x3b);
	otte_nic_priority_free(&priority);
}

static void a_location_is_at_a_node_or_at_none(void **state)
{
	struct otte_nic_priority_source source = discovered();

	(void)state;
	assert_int_equal(otte_location_node(&source, CPU(3)), 3);
	assert_int_equal(otte_location_node(&source, CUDA(0)), 0);
	assert_int_equal(otte_location_node(&source, CUDA(1)), 2);
	assert_int_equal(otte_location_node(&source, CUDA(2)), OTTE_TOPO_NO_NODE);
	assert_int_equal(otte_location_node(&source, CUDA(3)), OTTE_TOPO_NO_NODE);
	assert_int_equal(otte_location_node(&source, CUDA(9)), OTTE_TOPO_NO_NODE);
	assert_int_equal(otte_location_node(&source, ANY), OTTE_TOPO_NO_NODE);
}

static void more_nics_than_a_mask_has_bits_are_refused(void **state)
{
	struct otte_nic_priority_source source = source_of(NULL, NULL);
	struct otte_nic_priority priority;

	(void)state;
	source.nics.count = 65;
	assert_int_equal(otte_nic_priority_load(&source, &priority), -EINVAL);
	assert_string_equal(otte_error_text(), "65 NICs, allowed are 64");
}

/* ---- The matrix ---- */

static void a_row_of_the_matrix_is_rank_0_and_rank_1(void **state)
{
	struct otte_nic_priority priority;

	(void)state;
	assert_int_equal(load_matrix("{\"cuda:0\": [[\"mlx5_1\"], [\"mlx5_0\"]],"
				     " \"cpu:0\": [[\"mlx5_0\", \"mlx5_3\"], []]}",
				     &priority),
			 0);
	assert_int_equal(priority.count, 3);
	ranks_are(&priority, CPU(0), 0x09, 0, 0);
	ranks_are(&priority, CUDA(0), 0x02, 0x01, 0);
	otte_nic_priority_free(&priority);
}

static void without_a_row_for_the_rest_it_has_all_nics_named_at_their_best_rank(void **state)
{
	struct otte_nic_priority priority;

	(void)state;
	assert_int_equal(load_matrix("{\"cpu:0\": [[\"mlx5_0\"], [\"mlx5_1\", \"mlx5_3\"]],"
				     " \"cpu:1\": [[\"mlx5_1\"], [\"mlx5_0\"]]}",
				     &priority),
			 0);
	ranks_are(&priority, ANY, 0x03, 0x08, 0);
	ranks_are(&priority, CUDA(0), 0x03, 0x08, 0);
	otte_nic_priority_free(&priority);
}

static void an_explicit_row_for_the_rest_covers_what_is_not_listed(void **state)
{
	struct otte_nic_priority priority;

	(void)state;
	assert_int_equal(load_matrix("{\"*\": [[\"mlx5_4\"], []], \"cpu:0\": [[\"mlx5_0\"], []]}",
				     &priority),
			 0);
	assert_int_equal(priority.count, 2);
	ranks_are(&priority, ANY, 0x10, 0, 0);
	ranks_are(&priority, CPU(1), 0x10, 0, 0);
	ranks_are(&priority, CPU(0), 0x01, 0, 0);
	otte_nic_priority_free(&priority);
}

static void a_row_without_nics_disables_its_location(void **state)
{
	struct otte_nic_priority priority;

	(void)state;
	assert_int_equal(
		load_matrix("{\"cpu:1\": [[], []], \"cpu:0\": [[\"mlx5_0\"], []]}", &priority), 0);
	ranks_are(&priority, CPU(1), 0, 0, 0);
	ranks_are(&priority, CPU(2), 0x01, 0, 0);
	otte_nic_priority_free(&priority);
}

/* ---- The native file ---- */

static void indices_of_the_file_are_in_its_own_order(void **state)
{
	struct otte_nic_priority priority;

	(void)state;
	assert_int_equal(
		load_file("{\"mems\": [{\"name\": \"cuda:0\", \"type\": 1, \"numa_node\": 7,"
			  " \"device_list\": {\"rank0\": [0], \"rank1\": [1], \"rank2\": []}},"
			  "{\"name\": \"cpu:1\", \"type\": 0, \"device_list\": {\"rank2\": [1]}},"
			  "{\"name\": \"cpu:0\", \"device_list\": {\"rank0\": [2, 1]}}],"
			  " \"nics\": [{\"name\": \"mlx5_4\", \"type\": 0, \"pci_bus_id\": \"x\"},"
			  " {\"name\": \"mlx5_0\", \"device_attrs\": {}}, {\"name\": \"mlx5_3\"}]}",
			  &priority),
		0);
	assert_int_equal(priority.count, 3);
	ranks_are(&priority, CUDA(0), 0x10, 0x01, 0);
	ranks_are(&priority, CPU(1), 0, 0, 0x01);
	ranks_are(&priority, CPU(0), 0x09, 0, 0);
	otte_nic_priority_free(&priority);
}

static void a_file_without_a_row_for_the_rest_has_no_nic_for_it(void **state)
{
	struct otte_nic_priority priority;

	(void)state;
	assert_int_equal(
		load_file("{\"nics\": [{\"name\": \"mlx5_0\"}],"
			  " \"mems\": [{\"name\": \"cpu:0\", \"device_list\": {\"rank0\": [0]}}]}",
			  &priority),
		0);
	assert_null(otte_nic_priority_find(&priority, CPU(1)));
	assert_null(otte_nic_priority_find(&priority, ANY));
	otte_nic_priority_free(&priority);
	assert_int_equal(
		load_file("{\"nics\": [{\"name\": \"mlx5_0\"}], \"mems\": [{\"name\": \"*\","
			  " \"type\": 4, \"device_list\": {\"rank1\": [0]}}]}",
			  &priority),
		0);
	ranks_are(&priority, CPU(1), 0, 0x01, 0);
	otte_nic_priority_free(&priority);
}

static void a_file_may_be_a_matrix(void **state)
{
	struct otte_nic_priority priority;

	(void)state;
	assert_int_equal(load_file("{\"cpu:0\": [[\"mlx5_5\"], []]}", &priority), 0);
	ranks_are(&priority, CPU(0), 0x20, 0, 0);
	otte_nic_priority_free(&priority);
}

static void the_matrix_beats_the_file_and_the_file_the_topology(void **state)
{
	struct otte_nic_priority_source source = discovered();
	struct otte_nic_priority priority;

	(void)state;
	source.matrix = "{\"cpu:0\": [[\"mlx5_1\"], []]}";
	source.path = "/no/such/file";
	assert_int_equal(otte_nic_priority_load(&source, &priority), 0);
	ranks_are(&priority, CPU(0), 0x02, 0, 0);
	otte_nic_priority_free(&priority);
	source.matrix = "";
	assert_int_equal(otte_nic_priority_load(&source, &priority), -ENOENT);
	assert_string_equal(otte_error_text(), "/no/such/file: No such file or directory");
	source.path = "/tmp";
	assert_int_equal(otte_nic_priority_load(&source, &priority), -EISDIR);
	assert_string_equal(otte_error_text(), "/tmp: Is a directory");
}

/* Nobody will ever write to this FIFO, and the other one is without an end. */
static void what_is_no_regular_file_is_not_waited_for(void **state)
{
	struct otte_nic_priority_source source = source_of("", file_of("", 0));
	struct otte_nic_priority priority;

	(void)state;
	assert_int_equal(unlink(source.path), 0);
	assert_int_equal(mkfifo(source.path, 0600), 0);
	assert_int_equal(otte_nic_priority_load(&source, &priority), -EINVAL);
	assert_non_null(strstr(otte_error_text(), ": it is no regular file"));
	assert_int_equal(unlink(source.path), 0);
	source.path = "/dev/zero";
	assert_int_equal(otte_nic_priority_load(&source, &priority), -EINVAL);
	assert_string_equal(otte_error_text(), "/dev/zero: it is no regular file");
}

/* ---- Refusals ---- */

struct refusal {
	const char *text, *words;
};

static const struct refusal in_matrix[] = {
	{ "[]", "line 1 column 1: an object is wanted, not a list" },
	{ " ", "line 1 column 1: '[' or '{' expected near end of file" },
	{ "{\"cpu:0\": [[], []]\n \"cpu:1\": 1}",
	  "line 2 column 8: '}' expected near '\"cpu:1\"'" },
	{ "{} {}", "line 1 column 4: end of file expected near '{'" },
	{ "{\"cpu:0\": [[], []], \"cpu:0\": [[], []]}",
	  "line 1 column 27: duplicate object key near '\"cpu:0\"'" },
	{ "{\"gpu:0\": [[], []]}", "'gpu:0' is no location, allowed are cpu:N, cuda:N and *" },
	{ "{\"a\\nb\": [[], []]}", "'a\\x0ab' is no location, allowed are cpu:N, cuda:N and *" },
	{ "{\"cpu:0\": {}}", "cpu:0: [preferred, available] is wanted, not an object" },
	{ "{\"cpu:0\": []}", "cpu:0: [preferred, available] is wanted, not 0 lists" },
	{ "{\"cpu:0\": [[], [], []]}", "cpu:0: [preferred, available] is wanted, not 3 lists" },
	{ "{\"cuda:1\": [[], \"mlx5_0\"]}",
	  "cuda:1[1]: a list of NIC names is wanted, not a string" },
	{ "{\"cuda:1\": [[\"mlx5_0\", 1], []]}",
	  "cuda:1[0][1]: a NIC's name is wanted, not an integer" },
	{ "{\"cpu:0\": [[], [\"mlx5_2\"]]}",
	  "cpu:0[1][0]: 'mlx5_2' is none of the NICs that were found" },
	{ "{\"cpu:0\": [[\"mlx5_0\", \"mlx5_0\"], []]}", "cpu:0[0][1]: 'mlx5_0' is named twice" },
	{ "{\"*\": [[\"mlx5_0\"], [\"mlx5_1\", \"mlx5_0\"]]}", "*[1][1]: 'mlx5_0' is named twice" },
};

#define NIC "{\"nics\": [{\"name\": \"mlx5_0\"}, {\"name\": \"mlx5_1\"}], "
#define MEM NIC "\"mems\": [{\"name\": \"cpu:0\", \"device_list\": {}}, "

static const struct refusal in_file[] = {
	{ "", "line 1 column 0: no JSON" },
	{ "{\"nics\": []}", "mems: missing, a list is wanted" },
	{ "{\"mems\": []}", "nics: missing, a list is wanted" },
	{ "{\"nics\": {}, \"mems\": []}", "nics: a list is wanted, not an object" },
	{ "{\"nics\": [], \"mems\": 1.5}", "mems: a list is wanted, not a real number" },
	{ "{\"nics\": [], \"cpu:0\": [[], []]}", "cpu:0: unknown member beside nics and mems" },
	{ "{\"nics\": [null]}", "nics[0]: an object is wanted, not null" },
	{ "{\"nics\": [{}]}", "nics[0].name: missing, a NIC's name is wanted" },
	{ "{\"nics\": [{\"name\": true}]}", "nics[0].name: a NIC's name is wanted, not a boolean" },
	{ "{\"nics\": [{\"name\": \"eth0\"}]}",
	  "nics[0].name: 'eth0' is none of the NICs that were found" },
	{ "{\"nics\": [{\"name\": \"mlx5_0\"}, {\"name\": \"mlx5_0\"}]}",
	  "nics[1].name: 'mlx5_0' is named twice" },
	{ "{\"nics\": [{\"name\": \"mlx5_0\", \"type\": 1}]}",
	  "nics[0].type: 1, but a NIC of RDMA is of type 0" },
	{ "{\"nics\": [{\"name\": \"mlx5_0\", \"type\": \"0\"}]}",
	  "nics[0].type: an integer is wanted, not a string" },
	{ "{\"nics\": [{\"name\": \"mlx5_0\", \"speed\": 1}]}", "nics[0].speed: unknown member" },
	{ "{\"nics\": [{\"name\": \"mlx5_0\", \"name\": \"mlx5_1\"}]}",
	  "line 1 column 35: duplicate object key near '\"name\"'" },
	{ MEM "[]]}", "mems[1]: an object is wanted, not a list" },
	{ MEM "{}]}", "mems[1].name: missing, a location's name is wanted" },
	{ MEM "{\"name\": 4}]}", "mems[1].name: a location's name is wanted, not an integer" },
	{ MEM "{\"name\": \"cpu\"}]}",
	  "mems[1].name: 'cpu' is no location, allowed are cpu:N, cuda:N and *" },
	{ MEM "{\"name\": \"cpu:0\"}]}", "mems[1].name: cpu:0 is listed twice" },
	{ MEM "{\"name\": \"cpu:1\", \"ranks\": []}]}", "mems[1].ranks: unknown member" },
	{ MEM "{\"name\": \"cpu:1\", \"type\": 1}]}", "mems[1].type: 1, but cpu:1 is of type 0" },
	{ MEM "{\"name\": \"cuda:1\", \"type\": 0}]}", "mems[1].type: 0, but cuda:1 is of type 1" },
	{ MEM "{\"name\": \"*\", \"type\": 0}]}", "mems[1].type: 0, but * is of type 4" },
	{ MEM "{\"name\": \"cpu:1\", \"type\": null}]}",
	  "mems[1].type: an integer is wanted, not null" },
	{ MEM "{\"name\": \"cpu:1\"}]}",
	  "mems[1].device_list: missing, an object of rank0, rank1 and rank2 is wanted" },
	{ MEM "{\"name\": \"cpu:1\", \"device_list\": []}]}",
	  "mems[1].device_list: an object of rank0, rank1 and rank2 is wanted, not a list" },
	{ MEM "{\"name\": \"cpu:1\", \"device_list\": {\"rank3\": []}}]}",
	  "mems[1].device_list.rank3: unknown member" },
	{ MEM "{\"name\": \"cpu:1\", \"device_list\": {\"rank1\": 0}}]}",
	  "mems[1].device_list.rank1: a list of indices of nics is wanted, not an integer" },
	{ MEM "{\"name\": \"cpu:1\", \"device_list\": {\"rank1\": [\"mlx5_0\"]}}]}",
	  "mems[1].device_list.rank1[0]: an index of nics is wanted, not a string" },
	{ MEM "{\"name\": \"cpu:1\", \"device_list\": {\"rank1\": [2]}}]}",
	  "mems[1].device_list.rank1[0]: 2 is out of range, nics lists 2" },
	{ MEM "{\"name\": \"cpu:1\", \"device_list\": {\"rank2\": [1, -1]}}]}",
	  "mems[1].device_list.rank2[1]: -1 is out of range, nics lists 2" },
	{ MEM "{\"name\": \"cpu:1\", \"device_list\": {\"rank0\": [1], \"rank1\": [0, 1]}}]}",
	  "mems[1].device_list.rank1[1]: 'mlx5_1' is named twice" },
};

static void each_fault_of_a_matrix_is_named_with_its_place(void **state)
{
	struct otte_nic_priority priority;
	char words[256];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(in_matrix); i++) {
		assert_int_equal(load_matrix(in_matrix[i].text, &priority), -EINVAL);
		snprintf(words, sizeof(words), "%s", in_matrix[i].words);
		assert_string_equal(otte_error_text(), words);
	}
}

static void each_fault_of_a_file_is_named_with_its_place(void **state)
{
	struct otte_nic_priority priority;
	const char *text;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(in_file); i++) {
		assert_int_equal(load_file(in_file[i].text, &priority), -EINVAL);
		text = strstr(otte_error_text(), ": ");
		assert_non_null(text);
		assert_memory_equal(otte_error_text(), "/tmp/otte-priority-", 19);
		assert_string_equal(text + 2, in_file[i].words);
	}
}

static void depth_is_bounded(void **state)
{
	struct otte_nic_priority priority;
	char text[100001];

	(void)state;
	memset(text, '[', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	assert_int_equal(load_matrix(text, &priority), -EINVAL);
	assert_string_equal(
		otte_error_text(),
		"line 1 column 2049: maximum parsing depth reached near '['");
}

static void an_input_of_a_mebibyte_is_read_and_a_longer_one_is_not(void **state)
{
	static const char matrix[] = "{\"cpu:0\": [[\"mlx5_0\"], []]}";
	char *text = malloc(MIB + 2);
	struct otte_nic_priority priority;

	(void)state;
	assert_non_null(text);
	memset(text, ' ', MIB + 1);
	memcpy(text, matrix, sizeof(matrix) - 1);
	text[MIB] = 0;
	assert_int_equal(load_matrix(text, &priority), 0);
	otte_nic_priority_free(&priority);
	assert_int_equal(load_file(text, &priority), 0);
	otte_nic_priority_free(&priority);
	text[MIB] = ' ';
	text[MIB + 1] = 0;
	assert_int_equal(load_matrix(text, &priority), -E2BIG);
	assert_string_equal(otte_error_text(),
			    "longer than 1048576 bytes, the most");
	assert_int_equal(load_file(text, &priority), -E2BIG);
	assert_non_null(strstr(otte_error_text(), ": longer than 1048576 bytes, the most"));
	free(text);
}

/* `count` rows cpu:0, cpu:1 and so on. */
static char *many_rows(unsigned count)
{
	size_t size = count * 24 + 8, used = 1;
	char *text = malloc(size);
	unsigned i;

	assert_non_null(text);
	text[0] = '{';
	for (i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, size - used, "%s\"cpu:%u\":[[],[]]",
					 i ? "," : "", i);
	snprintf(text + used, size - used, "}");
	return text;
}

static void the_number_of_rows_is_bounded(void **state)
{
	struct otte_nic_priority priority;
	char *text = many_rows(OTTE_NIC_ROWS_MAX - 1);

	(void)state;
	assert_int_equal(load_matrix(text, &priority), 0);
	assert_int_equal(priority.count, OTTE_NIC_ROWS_MAX);
	otte_nic_priority_free(&priority);
	free(text);
	text = many_rows(OTTE_NIC_ROWS_MAX + 1);
	assert_int_equal(load_matrix(text, &priority), -EINVAL);
	assert_string_equal(otte_error_text(), "more than 4096 locations");
	free(text);
}

/* ---- Memory ---- */

static int until_failure = -1; /* allocations; negative: none fails */

static bool fails(void)
{
	if (until_failure < 0 || until_failure-- > 0)
		return false;
	errno = ENOMEM;
	return true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
	return fails() ? NULL : __real_reallocarray(old, count, size);
}

static void *allocate(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

static void every_failed_allocation_fails_it_all(void **state)
{
	static const char text[] = "{\"nics\": [{\"name\": \"mlx5_0\"}], \"mems\": [{\"name\":"
				   " \"cpu:0\", \"device_list\": {\"rank0\": [0]}}]}";
	struct otte_nic_priority_source source = source_of("", file_of(text, strlen(text)));
	struct otte_nic_priority priority;
	int i, rc;

	(void)state;
	json_set_alloc_funcs(allocate, free);
	for (i = 0;; i++) {
		until_failure = i;
		rc = otte_nic_priority_load(&source, &priority);
		until_failure = -1;
		if (!rc)
			break;
		assert_int_equal(rc, -ENOMEM);
		assert_non_null(strstr(otte_error_text(), ": no memory "));
	}
	json_set_alloc_funcs(malloc, free);
	assert_true(i > 10);
	ranks_are(&priority, CPU(0), 0x01, 0, 0);
	otte_nic_priority_free(&priority);
	unlink(source.path);
}

#define DISCOVERED_TEST(test) cmocka_unit_test_setup_teardown(test, discover, discard)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_location_has_one_spelling),
		DISCOVERED_TEST(a_gpu_prefers_the_nearest_known_bridge_then_its_node),
		DISCOVERED_TEST(the_host_bridge_is_the_nearest_where_no_other_is_shared),
		DISCOVERED_TEST(a_gpu_without_a_known_bridge_has_no_nearest_nic),
		DISCOVERED_TEST(of_a_gpu_of_unknown_place_no_nic_is_near),
		DISCOVERED_TEST(a_node_prefers_its_own_nics),
		DISCOVERED_TEST(an_unknown_place_has_every_nic_alike),
		cmocka_unit_test(without_a_topology_nothing_is_near),
		cmocka_unit_test(a_location_is_at_a_node_or_at_none),
		cmocka_unit_test(more_nics_than_a_mask_has_bits_are_refused),
		cmocka_unit_test(a_row_of_the_matrix_is_rank_0_and_rank_1),
		cmocka_unit_test(
			without_a_row_for_the_rest_it_has_all_nics_named_at_their_best_rank),
		cmocka_unit_test(an_explicit_row_for_the_rest_covers_what_is_not_listed),
		cmocka_unit_test(a_row_without_nics_disables_its_location),
		cmocka_unit_test(indices_of_the_file_are_in_its_own_order),
		cmocka_unit_test(a_file_without_a_row_for_the_rest_has_no_nic_for_it),
		cmocka_unit_test(a_file_may_be_a_matrix),
		cmocka_unit_test(the_matrix_beats_the_file_and_the_file_the_topology),
		cmocka_unit_test(what_is_no_regular_file_is_not_waited_for),
		cmocka_unit_test(each_fault_of_a_matrix_is_named_with_its_place),
		cmocka_unit_test(each_fault_of_a_file_is_named_with_its_place),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(an_input_of_a_mebibyte_is_read_and_a_longer_one_is_not),
		cmocka_unit_test(the_number_of_rows_is_bounded),
		cmocka_unit_test(every_failed_allocation_fails_it_all),
	};

	return cmocka_run_group_tests_name("priority", tests, NULL, NULL);
}
