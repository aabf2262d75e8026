/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a device's calibration says, what is wrong in one, and that copiers go by it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "cuda/table.h"
#include "gpu/gpu.h"
#include "sim/cuda/sim.h"

#define DRIVER 13000

static char folder[] = "/tmp/otte-copy-table-XXXXXX";
static char warning[512];

static void note(void *arg, enum otte_log_level level, const char *text)
{
	(void)arg;
	if (level == OTTE_LOG_WARNING)
		snprintf(warning, sizeof(warning), "%s", text);
}

static int start(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
	otte_log_set(note, NULL, OTTE_LOG_WARNING);
	return 0;
}

static void write_file(const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/otte", folder);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/otte/copy-simulated-GPU.json", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int stop(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/otte/copy-simulated-GPU.json", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/otte", folder);
	rmdir(path);
	return rmdir(folder);
}

static int parse(const char *text, struct otte_table *table)
{
	return otte_table_parse(text, strlen(text), "a GPU", DRIVER, table);
}

static void what_it_says_is_taken(void **state)
{
	struct otte_table table;

	(void)state;
	assert_int_equal(
		parse("{\"device\": \"a GPU\", \"driver\": 13000, \"long_bytes\": 5000, \"rows\": ["
		      "{\"bytes\": 1023, \"to_device\": 8, \"to_host\": 4}, {\"to_device\": 2, \"to_host\": 65535}]}",
		      &table),
		0);
	assert_string_equal(table.policy.device, "a GPU");
	assert_ptr_equal(table.policy.rows, table.rows);
	assert_int_equal(table.policy.long_bytes, 5000);
	assert_int_equal(table.rows[0].bytes, 1023);
	assert_int_equal(table.rows[0].ctas[OTTE_COPY_TO_DEVICE], 8);
	assert_int_equal(table.rows[0].ctas[OTTE_COPY_TO_HOST], 4);
	assert_int_equal(table.rows[0].lanes[OTTE_COPY_TO_HOST], 32);
	assert_true(table.rows[1].bytes == UINT64_MAX);
	assert_int_equal(table.rows[1].ctas[OTTE_COPY_TO_HOST], 65535);
	assert_int_equal(
		parse("{\"device\": \"a GPU\", \"driver\": 13000, \"rows\": [{\"to_device\": 1, \"to_host\": 1}]}",
		      &table),
		0);
	assert_true(table.policy.long_bytes == OTTE_COPY_NEVER);
}

#define OF "{\"device\": \"a GPU\", \"driver\": 13000, "

static void what_is_wrong_in_it_is_named(void **state)
{
	static const struct {
		const char *text, *word;
	} broken[] = {
		{ "", "line" },
		{ "[]", "device" },
		{ "{\"device\": \"another\", \"driver\": 13000}", "a GPU" },
		{ "{\"device\": \"a GPU\", \"driver\": 12080}", "otte calibrate" },
		{ OF "\"driver\": 13000}", "line" },
		{ OF "\"rows\": 3}", "rows" },
		{ OF "\"rows\": []}", "rows" },
		{ OF "\"rows\": [1]}", "rows[0]" },
		{ OF "\"long_bytes\": 0, \"rows\": [{\"to_device\": 1, \"to_host\": 1}]}",
		  "long_bytes" },
		{ OF "\"long_bytes\": \"1M\", \"rows\": [{\"to_device\": 1, \"to_host\": 1}]}",
		  "long_bytes" },
		{ OF "\"rows\": [{\"to_device\": 0, \"to_host\": 1}]}", "rows[0].to_device" },
		{ OF "\"rows\": [{\"to_device\": 1}]}", "rows[0].to_host" },
		{ OF "\"rows\": [{\"to_device\": 1, \"to_host\": 65536}]}", "rows[0].to_host" },
		{ OF "\"rows\": [{\"bytes\": 9, \"to_device\": 1, \"to_host\": 1}]}",
		  "rows[0].bytes" },
		{ OF
		  "\"rows\": [{\"to_device\": 1, \"to_host\": 1}, {\"to_device\": 1, \"to_host\": 1}]}",
		  "rows[0].bytes" },
		{ OF
		  "\"rows\": [{\"bytes\": 0, \"to_device\": 1, \"to_host\": 1}, {\"to_device\": 1, \"to_host\": 1}]}",
		  "rows[0].bytes" },
		{ OF
		  "\"rows\": [{\"bytes\": 5, \"to_device\": 1, \"to_host\": 1}, {\"bytes\": 5, \"to_device\": 1,"
		  "\"to_host\": 1}, {\"to_device\": 1, \"to_host\": 1}]}",
		  "rows[1].bytes" },
	};
	struct otte_table table;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(broken); i++) {
		assert_int_equal(parse(broken[i].text, &table), -EINVAL);
		if (!strstr(otte_error_text(), broken[i].word))
			fail_msg("%zu: \"%s\" does not say %s", i, otte_error_text(),
				 broken[i].word);
	}
}

static void so_many_rows_and_no_more(void **state)
{
	char text[4096];
	struct otte_table table;
	int count, i, at;

	(void)state;
	for (count = OTTE_TABLE_ROWS; count <= OTTE_TABLE_ROWS + 1; count++) {
		at = snprintf(text, sizeof(text), OF "\"rows\": [");
		for (i = 1; i < count; i++)
			at += snprintf(text + at, sizeof(text) - (size_t)at,
				       "{\"bytes\": %d, \"to_device\": 1, \"to_host\": 1},", i);
		snprintf(text + at, sizeof(text) - (size_t)at,
			 "{\"to_device\": 1, \"to_host\": 1}]}");
		assert_int_equal(parse(text, &table), count == OTTE_TABLE_ROWS ? 0 : -EINVAL);
	}
}

static void a_file_is_named_by_the_device(void **state)
{
	char path[256], wanted[256];

	(void)state;
	assert_int_equal(otte_table_path("NVIDIA H200/../x", true, path, sizeof(path)), 0);
	assert_string_equal(path, "/var/cache/otte/copy-NVIDIA-H200----x.json");
	assert_int_equal(otte_table_path("a b", false, path, sizeof(path)), 0);
	snprintf(wanted, sizeof(wanted), "%s/otte/copy-a-b.json", folder);
	assert_string_equal(path, wanted);
	assert_int_equal(otte_table_path("a b", true, path, 20), -ERANGE);
	assert_int_equal(otte_table_path("a b", true, path, 10), -ERANGE);
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", "/home/one", 1);
	assert_int_equal(otte_table_path("a", false, path, sizeof(path)), 0);
	assert_string_equal(path, "/home/one/.cache/otte/copy-a.json");
	unsetenv("HOME");
	assert_int_equal(otte_table_path("a", false, path, sizeof(path)), -ENOENT);
	setenv("XDG_CACHE_HOME", folder, 1);
}

/* Read once for each device of a process, of which the simulator has two with one name. */
static void copiers_go_by_a_file_and_not_by_a_broken_one(void **state)
{
	const struct otte_cuda *cuda;

	(void)state;
	assert_int_equal(otte_cuda_open(&cuda), 0);
	write_file(
		"{\"device\": \"simulated GPU\", \"driver\": 12080, \"rows\": [{\"to_device\": 3, \"to_host\": 5}]}");
	assert_ptr_equal(otte_table_of(cuda, 0), &otte_policy_h200);
	assert_non_null(strstr(warning, "copy-simulated-GPU.json: not used: driver"));
	write_file(
		"{\"device\": \"simulated GPU\", \"driver\": 13000, \"rows\": [{\"to_device\": 3, \"to_host\": 5}]}");
	assert_ptr_equal(otte_table_of(cuda, 0), &otte_policy_h200);
	assert_int_equal(otte_table_of(cuda, 1)->rows[0].ctas[OTTE_COPY_TO_HOST], 5);
	write_file("");
	assert_int_equal(otte_table_of(cuda, 1)->rows[0].ctas[OTTE_COPY_TO_DEVICE], 3);
	assert_ptr_equal(otte_table_of(cuda, 64), &otte_policy_h200);
	assert_ptr_equal(otte_table_of(cuda, -1), &otte_policy_h200);
}

/* Of the second device, with its file's CTAs. */
static void a_bound_copier_launches_what_the_file_says(void **state)
{
	struct otte_copier_config config;
	struct otte_mem *device, *host;
	struct otte_region *views[2];
	struct otte_copy_desc descs[512];
	struct otte_copier_stats stats = { .size = sizeof(stats) };
	struct otte_copier *copier;
	struct otte_copy *copy;
	CUcontext context;
	CUstream stream;
	size_t i;

	(void)state;
	gpu_start(NULL);
	MUST_CUDA(gpu->primary_ctx_retain(&context, 1));
	MUST_CUDA(gpu->ctx_push_current(context));
	MUST(otte_cuda_alloc(engine, 1, MIB, 0, &device));
	MUST(otte_cuda_alloc_host(engine, 1, MIB, 0, &host));
	views[0] = gpu_region(device, 0, MIB);
	views[1] = gpu_region(host, 0, MIB);
	stream = gpu_stream();
	MUST(otte_copier_config_init(&config, sizeof(config)));
	config.mode = OTTE_COPY_KERNEL;
	MUST(otte_copier_bind(device, stream, &config, &copier));
	for (i = 0; i < ARRAY_SIZE(descs); i++)
		descs[i] = (struct otte_copy_desc){ .device = views[0],
						    .host = views[1],
						    .device_offset = i * 1024,
						    .host_offset = i * 1024,
						    .bytes = 512,
						    .rows = 1 };
	MUST(otte_copier_submit(copier, OTTE_COPY_TO_HOST, descs, ARRAY_SIZE(descs), NULL, &copy));
	MUST(otte_copy_wait(copy, PATIENCE_NS));
	otte_copy_put(copy);
	MUST(otte_copier_stats(copier, &stats));
	assert_int_equal(stats.classes[OTTE_COPY_TO_HOST][0][0].last_ctas, 5);
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	gpu_region_gone(views[0]);
	gpu_region_gone(views[1]);
	MUST(otte_mem_release(device));
	MUST(otte_mem_release(host));
	gpu_stream_gone(stream);
	MUST_CUDA(gpu->ctx_pop_current(&context));
	MUST_CUDA(gpu->primary_ctx_release(1));
	gpu_stop(NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_says_is_taken),
		cmocka_unit_test(what_is_wrong_in_it_is_named),
		cmocka_unit_test(so_many_rows_and_no_more),
		cmocka_unit_test(a_file_is_named_by_the_device),
		cmocka_unit_test(copiers_go_by_a_file_and_not_by_a_broken_one),
		cmocka_unit_test(a_bound_copier_launches_what_the_file_says),
	};

	return cmocka_run_group_tests_name("calibrations", tests, start, stop);
}
