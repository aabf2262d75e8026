/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process that copies without end is killed at a random moment, again and again: the GPU's memory is what it was
 * before, and the next process copies every byte.
 *
 *	kills [KILLS]
 *
 * This process uses no GPU. The others are itself with another first argument: `copy` goes on until it is killed, and
 * says a byte for each submission; `check` copies there and back once and prints how much memory is free.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "gpu.h"

#define KILLS 20
#define ROWS 512u
#define ROW_BYTES (8 * KIB)
#define AREA (ROWS * 2 * ROW_BYTES)
/* The driver takes and gives back memory of its own. */
#define SLACK_BYTES (64 * MIB)
/* Giving back all of a dead process is the driver's work, and takes it a while. */
#define TRIES 100

static struct otte_mem *device, *host;
static struct otte_region *on_device, *on_host;
static struct otte_copier *copier;
static struct otte_copy_desc descs[ROWS];

static void open_all(enum otte_copy_mode mode, CUstream stream)
{
	struct otte_copier_config config;
	uint32_t i;

	MUST(otte_cuda_alloc(engine, 0, AREA, 0, &device));
	MUST(otte_cuda_alloc_host(engine, 0, AREA, 0, &host));
	on_device = gpu_region(device, 0, AREA);
	on_host = gpu_region(host, 0, AREA);
	MUST(otte_copier_config_init(&config, sizeof(config)));
	config.mode = mode;
	MUST(otte_copier_bind(device, stream, &config, &copier));
	for (i = 0; i < ROWS; i++)
		descs[i] = (struct otte_copy_desc){ .device = on_device,
						    .host = on_host,
						    .device_offset = i * 2 * ROW_BYTES,
						    .host_offset = (ROWS - 1 - i) * 2 * ROW_BYTES,
						    .bytes = ROW_BYTES,
						    .rows = 1 };
}

static void close_all(void)
{
	MUST(otte_copier_destroy(copier, PATIENCE_NS));
	gpu_region_gone(on_device);
	gpu_region_gone(on_host);
	MUST(otte_mem_release(device));
	MUST(otte_mem_release(host));
}

/* Until it is killed. */
static int copy_for_ever(enum otte_copy_mode mode)
{
	enum otte_copy_direction direction = OTTE_COPY_TO_DEVICE;

	gpu_start(NULL);
	open_all(mode, gpu_stream());
	for (;;) {
		int ret = otte_copier_submit(copier, direction, descs, ROWS, NULL, NULL);

		if (ret == -EDQUOT)
			continue;
		MUST(ret);
		direction = !direction;
		if (write(STDOUT_FILENO, ".", 1) != 1)
			return 1;
	}
}

static void copy_there_and_back(void)
{
	uint8_t *bytes = otte_mem_address(host);
	enum otte_copy_direction direction;
	uint64_t i;

	for (i = 0; i < AREA; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 4096);
	for (direction = OTTE_COPY_TO_DEVICE; direction <= OTTE_COPY_TO_HOST; direction++) {
		struct otte_copy *copy;

		MUST(otte_copier_submit(copier, direction, descs, ROWS, NULL, &copy));
		MUST(otte_copy_wait(copy, PATIENCE_NS));
		otte_copy_put(copy);
		if (direction == OTTE_COPY_TO_DEVICE)
			memset(bytes, 0xee, AREA);
	}
	for (i = 0; i < AREA; i++) {
		bool gap = i / ROW_BYTES % 2;

		if (bytes[i] != (gap ? 0xee : (uint8_t)(i * 31 + i / 4096)))
			fail_msg("byte %" PRIu64 " differs", i);
	}
}

/* Prints what is free with all of it given back; 0 where the driver does not say. */
static int check(void)
{
	CUresult (*info)(size_t *free_bytes, size_t *total);
	size_t free_bytes = 0, total = 0;
	CUstream stream;

	gpu_start(NULL);
	info = (CUresult(*)(size_t *, size_t *))gpu_symbol("cuMemGetInfo_v2");
	stream = gpu_stream();
	open_all(OTTE_COPY_KERNEL, stream);
	copy_there_and_back();
	close_all();
	gpu_stream_gone(stream);
	if (info)
		MUST_CUDA(info(&free_bytes, &total));
	gpu_stop(NULL);
	printf("%zu\n", free_bytes);
	return 0;
}

/* ---- The one that uses no GPU ---------------------------------------------------------------- */

static pid_t run(const char *what, const char *how, int *from)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl("/proc/self/exe", "kills", what, how, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	*from = ends[0];
	return pid;
}

static uint64_t free_bytes_now(void)
{
	char text[64] = "";
	ssize_t have;
	int from, status;
	pid_t pid = run("check", "", &from);

	have = read(from, text, sizeof(text) - 1);
	close(from);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(have > 0);
	return strtoull(text, NULL, 10);
}

static void kill_once(const char *mode, uint64_t *seed)
{
	uint64_t count = 1 + gpu_draw(seed, 200);
	char byte;
	int from, status;
	pid_t pid = run("copy", mode, &from);

	while (count--)
		assert_int_equal(read(from, &byte, 1), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	close(from);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static unsigned int kills = KILLS;

static void who_is_killed_leaves_nothing(void **state)
{
	static const char *const modes[] = { "kernel", "dma" };
	uint64_t seed = gpu_seed(), before = free_bytes_now(), now = 0;
	unsigned int i, try;

	(void)state;
	for (i = 0; i < kills; i++) {
		kill_once(modes[i % ARRAY_SIZE(modes)], &seed);
		for (try = 0; try < TRIES; try++) {
			now = free_bytes_now();
			if (now + SLACK_BYTES >= before)
				break;
		}
		if (now + SLACK_BYTES < before)
			fail_msg("after %u kills %" PRIu64 " bytes are free, and %" PRIu64 " were", i + 1, now, before);
	}
	print_message("%u kills; free: %llu MiB before, %llu MiB after\n", kills, before / MIB, now / MIB);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(who_is_killed_leaves_nothing) };

	if (argc > 2 && !strcmp(argv[1], "copy"))
		return copy_for_ever(strcmp(argv[2], "dma") ? OTTE_COPY_KERNEL : OTTE_COPY_DMA);
	if (argc > 1 && !strcmp(argv[1], "check"))
		return check();
	if (argc > 1)
		kills = (unsigned int)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests_name("kills", tests, NULL, NULL);
}
