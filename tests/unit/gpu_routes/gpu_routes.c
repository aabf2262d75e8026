/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How simulated NICs are told of memory of a simulated GPU: which way is taken, what comes of it,
 * what fails, what stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/util.h"
#include "gpu/gpu.h"
#include "sim/cuda/sim.h"
#include "sim/verbs/sim.h"
#include "transport/rdma/buffers.h"
#include "transport/rdma/context_set.h"
#include "transport/rdma/mr.h"

#define SOME (64 * KIB)
#define PART_AT 5000u
#define PART_BYTES 9000u

static struct sim_cuda_balance before;
static struct otte_cuda_mem *memory;
static struct otte_rdma_context_set set;
static struct otte_rdma_context *context;
static bool module_is_there, lost;
static int files;
static char said[512]; /* the last line of the log about an MR */

bool __real_otte_rdma_peermem_is_there(const char *sys);
bool __wrap_otte_rdma_peermem_is_there(const char *sys);
int __real_otte_gpudirect_close(const struct otte_gpudirect_export *exported);
int __wrap_otte_gpudirect_close(const struct otte_gpudirect_export *exported);
void __wrap_otte_log(enum otte_log_level level, const char *format, ...);

bool __wrap_otte_rdma_peermem_is_there(const char *sys)
{
	assert_string_equal(sys, "/sys");
	return module_is_there;
}

static unsigned int closes;
static bool close_fails;

int __wrap_otte_gpudirect_close(const struct otte_gpudirect_export *exported)
{
	int ret = __real_otte_gpudirect_close(exported);

	closes++;
	return close_fails ? otte_fail(-EUCLEAN, "close of a dma-buf: by the test") : ret;
}

void __wrap_otte_log(enum otte_log_level level, const char *format, ...)
{
	va_list arguments;
	char line[512];

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (level == OTTE_LOG_DEBUG && strstr(line, ": MR "))
		memcpy(said, line, sizeof(said));
}

static int open_files(void)
{
	int fd, count = 0;

	for (fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void says(const char *word)
{
	if (!strstr(otte_error_text(), word))
		fail_msg("\"%s\" does not say %s", otte_error_text(), word);
}

static int start(void **state)
{
	const struct otte_rdma_context_params params = OTTE_RDMA_CONTEXT_PARAMS;
	const struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	struct otte_rdma_nics nics;

	sim_cuda_reset();
	sim_cuda_balance(&before);
	gpu_start(state);
	MUST(otte_cuda_mem_alloc(gpu, 0, SOME, &memory));
	sim_reset();
	sim_device_add(0, "mlx5_0");
	sim_device_add(0, "mlx5_1");
	MUST(otte_rdma_discover(sim_verbs(0), &select, &nics));
	MUST(otte_rdma_context_set_open(sim_verbs(0), &nics, &params, &set));
	otte_rdma_nics_close(sim_verbs(0), &nics);
	context = otte_rdma_context_set_get(&set, 0);
	module_is_there = lost = close_fails = false;
	closes = 0;
	said[0] = '\0';
	files = open_files();
	return 0;
}

/* What is retained is the simulator's to forget, and stays in reach until the process ends. */
static struct otte_rdma_context *kept[32];
static size_t kept_count;

static int stop(void **state)
{
	struct sim_cuda_balance after;
	const char *text;

	sim_peer_memory(NULL);
	if (lost) {
		assert_int_equal(otte_rdma_context_set_close(&set), -EUCLEAN);
		kept[kept_count++] = set.slots[0].context;
	} else {
		MUST(otte_rdma_context_set_close(&set));
		assert_string_equal(sim_left(), "");
	}
	MUST(otte_cuda_mem_free(memory));
	gpu_stop(state);
	sim_cuda_balance(&after);
	assert_memory_equal(&after, &before, sizeof(after));
	if (sim_cuda_violations(&text))
		fail_msg("%s", text);
	return 0;
}

/* ---- Which way ------------------------------------------------------------------------------- */

#define AUTO OTTE_GPU_REGISTRATION_AUTO
#define DMABUF OTTE_GPU_REGISTRATION_DMABUF
#define PEERMEM OTTE_GPU_REGISTRATION_PEERMEM

static const struct {
	uint32_t wanted;
	bool attribute, exports, verb, module;
	int ret;
	enum otte_rdma_gpu_route route;
	const char *word; /* that the text has */
} ways[] = {
	{ AUTO, true, true, true, false, 0, OTTE_RDMA_GPU_DMABUF, "" },
	{ AUTO, true, true, true, true, 0, OTTE_RDMA_GPU_DMABUF, "" },
	{ AUTO, false, true, true, true, 0, OTTE_RDMA_GPU_PEERMEM, "" },
	{ AUTO, true, false, true, true, 0, OTTE_RDMA_GPU_PEERMEM, "" },
	{ AUTO, true, true, false, true, 0, OTTE_RDMA_GPU_PEERMEM, "" },
	{ AUTO, false, true, true, false, -ENOSYS, 0, "DMA_BUF_SUPPORTED" },
	{ AUTO, true, false, true, false, -ENOSYS, 0, "cuMemGetHandleForAddressRange" },
	{ AUTO, true, true, false, false, -ENOSYS, 0, "ibv_reg_dmabuf_mr" },
	{ AUTO, true, true, false, false, -ENOSYS, 0, "nvidia_peermem" },
	{ DMABUF, true, true, true, false, 0, OTTE_RDMA_GPU_DMABUF, "" },
	{ DMABUF, false, true, true, true, -ENOSYS, 0, "DMA_BUF_SUPPORTED" },
	{ DMABUF, true, false, true, true, -ENOSYS, 0, "cuMemGetHandleForAddressRange" },
	{ DMABUF, true, true, false, true, -ENOSYS, 0, "ibv_reg_dmabuf_mr" },
	{ PEERMEM, true, true, true, true, 0, OTTE_RDMA_GPU_PEERMEM, "" },
	{ PEERMEM, false, false, false, true, 0, OTTE_RDMA_GPU_PEERMEM, "" },
	{ PEERMEM, true, true, true, false, -ENOSYS, 0, "nvidia_peermem" },
};

static void what_is_there_decides_which_way_is_taken(void **state)
{
	struct otte_verbs verbs = *sim_verbs(0);
	struct otte_cuda cuda = *gpu;
	enum otte_rdma_gpu_route route;
	size_t i;
	int ret;

	(void)state;
	memory->cuda = &cuda;
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		sim_cuda_set("dma_buf", ways[i].attribute);
		cuda.mem_get_handle_for_address_range =
			ways[i].exports ? gpu->mem_get_handle_for_address_range : NULL;
		verbs.reg_dmabuf_mr = ways[i].verb ? sim_verbs(0)->reg_dmabuf_mr : NULL;
		module_is_there = ways[i].module;
		route = OTTE_RDMA_GPU_NONE;
		ret = otte_rdma_gpu_route(&verbs, ways[i].wanted, memory, &route);
		if (ret != ways[i].ret || route != ways[i].route)
			fail_msg("row %zu: %d, route %d", i, ret, (int)route);
		if (ret) {
			says(ways[i].word);
			says("GPU 0");
		}
	}
	memory->cuda = gpu;
}

/* A driver that does not answer is no driver that says no. */
static void a_question_that_fails_is_no_other_way(void **state)
{
	enum otte_rdma_gpu_route route = OTTE_RDMA_GPU_NONE;

	(void)state;
	module_is_there = true;
	sim_cuda_fail("cuDeviceGetAttribute", 1, CUDA_ERROR_NOT_PERMITTED, 1);
	assert_int_equal(otte_rdma_gpu_route(sim_verbs(0), AUTO, memory, &route), -EPERM);
	assert_int_equal(route, OTTE_RDMA_GPU_NONE);
}

static void make_file(const char *folder, const char *path)
{
	char whole[256];
	char *slash;
	FILE *file;

	snprintf(whole, sizeof(whole), "%s/%s", folder, path);
	for (slash = strchr(whole + strlen(folder) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(whole, 0700);
		*slash = '/';
	}
	file = fopen(whole, "w");
	assert_non_null(file);
	fclose(file);
}

static void remove_file(const char *folder, const char *path)
{
	char whole[256];

	snprintf(whole, sizeof(whole), "%s/%s", folder, path);
	while (strlen(whole) > strlen(folder)) {
		assert_int_equal(remove(whole), 0);
		*strrchr(whole, '/') = '\0';
	}
}

/* A folder of that name is no module that works. */
static void a_module_is_there_where_its_version_is(void **state)
{
	static const char *const versions[] = {
		"kernel/mm/memory_peers/nv_mem/version",
		"kernel/mm/memory_peers/nv_mem_nc/version",
		"module/nvidia_peermem/version",
	};
	char folder[] = "/tmp/otte-sys-XXXXXX";
	size_t i;

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_false(__real_otte_rdma_peermem_is_there(folder));
	make_file(folder, "module/nvidia_peermem/initstate");
	assert_false(__real_otte_rdma_peermem_is_there(folder));
	remove_file(folder, "module/nvidia_peermem/initstate");
	for (i = 0; i < ARRAY_SIZE(versions); i++) {
		make_file(folder, versions[i]);
		assert_true(__real_otte_rdma_peermem_is_there(folder));
		remove_file(folder, versions[i]);
	}
	assert_false(__real_otte_rdma_peermem_is_there(folder));
	assert_int_equal(rmdir(folder), 0);
}

static void gpu_memory_in_place_wants_no_scatter_by_the_cpu(void **state)
{
	static const struct {
		const char *value;
		uint32_t memory;
		int ret;
	} rows[] = {
		{ NULL, OTTE_CUDA_MEMORY_STAGED, 0 },
		{ "1", OTTE_CUDA_MEMORY_STAGED, 0 },
		{ NULL, OTTE_CUDA_MEMORY_DIRECT, -EINVAL },
		{ "1", OTTE_CUDA_MEMORY_DIRECT, -EINVAL },
		{ "", OTTE_CUDA_MEMORY_DIRECT, -EINVAL },
		{ "00", OTTE_CUDA_MEMORY_DIRECT, -EINVAL },
		{ "0", OTTE_CUDA_MEMORY_DIRECT, 0 },
	};
	struct otte_config config;
	size_t i;

	(void)state;
	MUST(otte_config_init(&config, sizeof(config)));
	config.rdma_cuda_memory = OTTE_CUDA_MEMORY_DIRECT;
	unsetenv("MLX5_SCATTER_TO_CQE");
	assert_int_equal(otte_rdma_gpu_check(&config), 0);
	config.rdma_enabled = 1;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		config.rdma_cuda_memory = rows[i].memory;
		unsetenv("MLX5_SCATTER_TO_CQE");
		if (rows[i].value)
			setenv("MLX5_SCATTER_TO_CQE", rows[i].value, 1);
		assert_int_equal(otte_rdma_gpu_check(&config), rows[i].ret);
		if (rows[i].ret)
			says("MLX5_SCATTER_TO_CQE=0");
	}
	unsetenv("MLX5_SCATTER_TO_CQE");
}

/* ---- MRs ------------------------------------------------------------------------------------- */

static struct otte_rdma_mr_spec part(enum otte_rdma_gpu_route route)
{
	return (struct otte_rdma_mr_spec){
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address of a GPU's */
		.at = (void *)(uintptr_t)(memory->address + PART_AT),
		.bytes = PART_BYTES,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.route = route,
		.gpu = memory,
	};
}

static unsigned long calls_of(enum otte_rdma_gpu_route route)
{
	return sim_calls(route == OTTE_RDMA_GPU_DMABUF ? SIM_REG_DMABUF_MR : SIM_REG_MR);
}

static void an_mr_of_a_gpus_memory_is_of_exactly_that(enum otte_rdma_gpu_route route)
{
	struct otte_rdma_mr_spec spec = part(route);
	struct otte_rdma_mr mr = {};
	char address[32];

	sim_peer_memory(sim_cuda_reach);
	MUST(otte_rdma_mr_make(context, &spec, &mr));
	assert_int_equal(mr.state, OTTE_RDMA_MR_LIVE);
	assert_ptr_equal(mr.native->addr, spec.at);
	assert_int_equal(mr.native->length, PART_BYTES);
	assert_int_equal(calls_of(route), 1);
	assert_int_equal(sim_calls(SIM_REG_MR) + sim_calls(SIM_REG_DMABUF_MR), 1);
	assert_int_equal(atomic_load(&context->gpu_mrs[route]), 1);
	assert_int_equal(open_files(), files + (route == OTTE_RDMA_GPU_DMABUF));
	snprintf(address, sizeof(address), "%lx", (unsigned long)memory->address >> 12);
	assert_non_null(strstr(said, otte_rdma_gpu_route_text(route)));
	assert_non_null(strstr(said, "9000 bytes"));
	assert_null(strstr(said, address));
	assert_int_equal(otte_rdma_mr_release(&mr), 0);
	assert_int_equal(mr.state, OTTE_RDMA_MR_NONE);
	assert_int_equal(closes, route == OTTE_RDMA_GPU_DMABUF);
	assert_int_equal(open_files(), files);
	/* Of what there ever was. */
	assert_int_equal(atomic_load(&context->gpu_mrs[route]), 1);
}

static void an_mr_by_dma_buf_is_of_the_range_and_keeps_the_file(void **state)
{
	(void)state;
	an_mr_of_a_gpus_memory_is_of_exactly_that(OTTE_RDMA_GPU_DMABUF);
}

static void an_mr_by_peermem_is_of_the_range_and_has_no_file(void **state)
{
	(void)state;
	an_mr_of_a_gpus_memory_is_of_exactly_that(OTTE_RDMA_GPU_PEERMEM);
}

static void fail_verb(enum sim_verb verb, unsigned int after, int error)
{
	const struct sim_fault fault = {
		.kind = SIM_FAULT_CALL,
		.verb = verb,
		.after = after,
		.times = 1,
		.error = error,
	};

	sim_fault_arm(&fault);
}

static void a_registration_that_fails_leaves_nothing_and_is_not_tried_otherwise(void **state)
{
	struct otte_rdma_mr_spec spec = part(OTTE_RDMA_GPU_DMABUF);
	struct otte_rdma_mr mr = {};

	(void)state;
	sim_peer_memory(sim_cuda_reach);
	fail_verb(SIM_REG_DMABUF_MR, 0, EOPNOTSUPP);
	assert_int_equal(otte_rdma_mr_make(context, &spec, &mr), -EOPNOTSUPP);
	says("ibv_reg_dmabuf_mr");
	assert_int_equal(closes, 1);
	assert_int_equal(sim_calls(SIM_REG_MR), 0);
	sim_cuda_fail("cuMemGetHandleForAddressRange", 1, CUDA_ERROR_INVALID_VALUE, 1);
	assert_int_equal(otte_rdma_mr_make(context, &spec, &mr), -EINVAL);
	says("cuMemGetHandleForAddressRange");
	assert_int_equal(sim_calls(SIM_REG_DMABUF_MR), 1);
	assert_int_equal(sim_calls(SIM_REG_MR), 0);
	spec.route = OTTE_RDMA_GPU_PEERMEM;
	fail_verb(SIM_REG_MR, 0, ENOMEM);
	assert_int_equal(otte_rdma_mr_make(context, &spec, &mr), -ENOMEM);
	says("ibv_reg_mr");
	assert_null(strstr(otte_error_text(), "RLIMIT_MEMLOCK"));
	assert_int_equal(sim_calls(SIM_REG_DMABUF_MR), 1);
	assert_int_equal(mr.state, OTTE_RDMA_MR_NONE);
	assert_int_equal(open_files(), files);
	assert_int_equal(atomic_load(&context->children), 0);
	assert_int_equal(atomic_load(&context->gpu_mrs[OTTE_RDMA_GPU_DMABUF]), 0);
	assert_int_equal(atomic_load(&context->gpu_mrs[OTTE_RDMA_GPU_PEERMEM]), 0);
}

static void peermem_without_its_module_is_an_address_that_nobody_knows(void **state)
{
	struct otte_rdma_mr_spec spec = part(OTTE_RDMA_GPU_PEERMEM);
	struct otte_rdma_mr mr = {};

	(void)state;
	assert_int_equal(otte_rdma_mr_make(context, &spec, &mr), -EFAULT);
}

static void an_mr_that_is_not_let_go_of_keeps_its_file(void **state)
{
	struct otte_rdma_mr_spec spec = part(OTTE_RDMA_GPU_DMABUF);
	struct otte_rdma_mr mr = {};

	(void)state;
	MUST(otte_rdma_mr_make(context, &spec, &mr));
	fail_verb(SIM_DEREG_MR, 0, EBUSY);
	lost = true;
	assert_int_equal(otte_rdma_mr_release(&mr), -EUCLEAN);
	says("ibv_dereg_mr");
	assert_int_equal(mr.state, OTTE_RDMA_MR_RETAINED);
	assert_int_equal(otte_rdma_mr_release(&mr), -EUCLEAN);
	assert_int_equal(sim_calls(SIM_DEREG_MR), 1);
	assert_int_equal(closes, 0);
	assert_int_equal(fcntl(mr.file.fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(atomic_load(&context->retained.mrs), 1);
	assert_int_equal(atomic_load(&context->retained.mr_bytes), PART_BYTES);
	assert_int_equal(atomic_load(&context->retained.files), 0);
	close(mr.file.fd);
}

static void a_file_that_is_not_let_go_of_keeps_the_rest(void **state)
{
	struct otte_rdma_mr_spec spec = part(OTTE_RDMA_GPU_DMABUF);
	struct otte_rdma_mr mr = {};

	(void)state;
	MUST(otte_rdma_mr_make(context, &spec, &mr));
	close_fails = lost = true;
	assert_int_equal(otte_rdma_mr_release(&mr), -EUCLEAN);
	says("dma-buf");
	says("mlx5_0");
	assert_int_equal(mr.state, OTTE_RDMA_MR_RETAINED);
	close_fails = false;
	assert_int_equal(otte_rdma_mr_release(&mr), -EUCLEAN);
	assert_int_equal(closes, 1);
	assert_int_equal(sim_calls(SIM_DEREG_MR), 1);
	assert_int_equal(atomic_load(&context->retained.mrs), 0);
	assert_int_equal(atomic_load(&context->retained.mr_bytes), PART_BYTES);
	assert_int_equal(atomic_load(&context->retained.files), 1);
	assert_int_equal(atomic_load(&context->children), 0);
}

static void a_file_that_stays_of_what_was_not_registered_is_told(void **state)
{
	struct otte_rdma_mr_spec spec = part(OTTE_RDMA_GPU_DMABUF);
	struct otte_rdma_mr mr = {};

	(void)state;
	fail_verb(SIM_REG_DMABUF_MR, 0, ENOMEM);
	close_fails = lost = true;
	assert_int_equal(otte_rdma_mr_make(context, &spec, &mr), -EUCLEAN);
	says("ibv_reg_dmabuf_mr");
	says("and then");
	assert_int_equal(atomic_load(&context->retained.files), 1);
	assert_int_equal(mr.state, OTTE_RDMA_MR_NONE);
}

/* ---- Regions --------------------------------------------------------------------------------- */

static void a_region_of_a_gpu_has_one_mr_on_each_nic_and_no_parent(void **state)
{
	const struct otte_rdma_buffers_params params = OTTE_RDMA_BUFFERS_PARAMS;
	const struct otte_rdma_mr_spec like = part(OTTE_RDMA_GPU_DMABUF);
	const struct otte_rdma_buffer_spec spec = {
		.region = 7,
		.at = like.at,
		.bytes = like.bytes,
		.route = like.route,
		.gpu = like.gpu,
	};
	const struct otte_rdma_buffer *buffer;
	struct otte_rdma_buffers *buffers;
	unsigned int nic;

	(void)state;
	MUST(otte_rdma_buffers_open(&set, &params, &buffers));
	/* The second fails: the first is undone, with its file. */
	fail_verb(SIM_REG_DMABUF_MR, 1, EIO);
	assert_int_equal(otte_rdma_buffers_publish(buffers, &spec), -EIO);
	assert_int_equal(open_files(), files);
	assert_int_equal(closes, 2);
	MUST(otte_rdma_buffers_publish(buffers, &spec));
	buffer = otte_rdma_buffers_get(buffers, 7);
	for (nic = 0; nic < 2; nic++) {
		assert_int_equal(buffer->by_nic[nic].local.state, OTTE_RDMA_MR_LIVE);
		assert_int_equal(buffer->by_nic[nic].parent.state, OTTE_RDMA_MR_NONE);
	}
	assert_int_equal(open_files(), files + 2);
	assert_int_equal(sim_calls(SIM_REG_MR), 0);
	otte_rdma_buffers_put(buffers, buffer);
	MUST(otte_rdma_buffers_withdraw(buffers, 7));
	assert_int_equal(open_files(), files);
	MUST(otte_rdma_buffers_close(buffers));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(what_is_there_decides_which_way_is_taken),
		TEST(a_question_that_fails_is_no_other_way),
		TEST(a_module_is_there_where_its_version_is),
		TEST(gpu_memory_in_place_wants_no_scatter_by_the_cpu),
		TEST(an_mr_by_dma_buf_is_of_the_range_and_keeps_the_file),
		TEST(an_mr_by_peermem_is_of_the_range_and_has_no_file),
		TEST(a_registration_that_fails_leaves_nothing_and_is_not_tried_otherwise),
		TEST(peermem_without_its_module_is_an_address_that_nobody_knows),
		TEST(an_mr_that_is_not_let_go_of_keeps_its_file),
		TEST(a_file_that_is_not_let_go_of_keeps_the_rest),
		TEST(a_file_that_stays_of_what_was_not_registered_is_told),
		TEST(a_region_of_a_gpu_has_one_mr_on_each_nic_and_no_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
