/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel ledger costs transfers over TCP: two engines with it beside two with the process ledger, in one
 * process on one CPU. In each round both move as many requests of one kind; the order changes with the round,
 * and the median of the rounds' ratios counts.
 *
 *	ledger [--rounds N]                     all figures; 1 where one misses its bar
 *	ledger --control N                      the same with two pairs of the process ledger: what the
 *	                                        comparison itself makes of it
 *	ledger --steps N LEDGER MEMORY OP SIZE  N requests and nothing else, to count system calls of
 *
 * LEDGER is kernel or process, MEMORY owned or adopted (both sides'), OP read or write. Adopted memory has no bar:
 * with the kernel ledger a source looks whether it is still there before it lets the last byte go.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "otte/otte.h"

#define SECOND 1000000000ll
#define AREA (1u << 20)
#define ROUNDS_MAX 31
#define WARM_UP 10
#define BAR 1.03

#define OK(call) ok(call, #call)

enum memory {
	OWNED,
	ADOPTED,
	MEMORIES
};

static const char *const memories[] = { "owned", "adopted" };

/* A source and a requester. */
struct pair {
	struct otte_engine *engine[2];
	struct otte_mem *mem[2];
	struct otte_region *region[2];
	struct otte_segment *segment;
	struct otte_batch *batch;
};

static void ok(int ret, const char *what)
{
	if (!ret)
		return;
	fprintf(stderr, "bench-ledger: %s: %d: %s\n", what, ret, otte_error_text());
	exit(2);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* ---- Pairs ---- */

static void get_memory(struct pair *pair, unsigned side, enum memory memory)
{
	void *bytes;

	if (memory == OWNED) {
		OK(otte_mem_alloc(pair->engine[side], AREA, 0, &pair->mem[side]));
		memset(otte_mem_address(pair->mem[side]), 1, AREA);
		return;
	}
	bytes = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ok(bytes == MAP_FAILED ? -errno : 0, "mmap");
	memset(bytes, 1, AREA);
	OK(otte_mem_adopt(pair->engine[side], bytes, AREA, &pair->mem[side]));
}

static void open_pair(struct pair *pair, uint32_t ledger, enum memory memory)
{
	struct otte_region_desc desc = { .length = AREA };
	char address[OTTE_ADDRESS_MAX];
	struct otte_config config;
	unsigned side;

	OK(otte_config_init(&config, sizeof(config)));
	config.ledger = ledger;
	config.stats_socket = 0;
	for (side = 0; side < 2; side++) {
		OK(otte_engine_create(&config, &pair->engine[side]));
		get_memory(pair, side, memory);
		desc.mem = pair->mem[side];
		desc.access = side ? OTTE_LOCAL_ONLY : OTTE_REMOTE_READ | OTTE_REMOTE_WRITE;
		OK(otte_region_register(pair->engine[side], &desc, 1, &pair->region[side]));
	}
	OK(otte_engine_address(pair->engine[0], address, sizeof(address)));
	OK(otte_segment_open(pair->engine[1], address, OTTE_EPOCH_ANY, 10 * SECOND,
			     &pair->segment));
	OK(otte_batch_create(pair->engine[1], 1, &pair->batch));
}

static void close_pair(struct pair *pair)
{
	unsigned side;

	OK(otte_batch_destroy(pair->batch));
	OK(otte_segment_close(pair->segment));
	for (side = 0; side < 2; side++) {
		OK(otte_region_unregister(&pair->region[side], 1, 10 * SECOND, NULL));
		OK(otte_mem_release(pair->mem[side]));
	}
	OK(otte_engine_destroy(pair->engine[1]));
	OK(otte_engine_destroy(pair->engine[0]));
}

/* One after another. */
static double move(struct pair *pair, uint8_t op, uint64_t size, unsigned count)
{
	const struct otte_request request = {
		.segment = pair->segment,
		.local = pair->region[1],
		.remote_region = otte_region_id(pair->region[0]),
		.length = size,
		.op = op,
	};
	uint64_t begun_ns = now_ns();
	unsigned i;

	for (i = 0; i < count; i++)
		OK(otte_batch_run(pair->batch, &request, 1, 60 * SECOND));
	return (double)(now_ns() - begun_ns) / count;
}

/* ---- Figures ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *values, unsigned count)
{
	double sorted[ROUNDS_MAX];

	memcpy(sorted, values, count * sizeof(*values));
	qsort(sorted, count, sizeof(*sorted), compare);
	return sorted[count / 2];
}

/* False: it misses its bar. */
static bool figure(struct pair *process, struct pair *kernel, enum memory memory, uint8_t op,
		   uint64_t size, unsigned rounds)
{
	const unsigned count = size < 65536 ? 60 : size < AREA ? 30 : 6;
	double floor_ns[ROUNDS_MAX], ours_ns[ROUNDS_MAX], ratio[ROUNDS_MAX];
	bool good;
	unsigned i;

	move(process, op, size, WARM_UP);
	move(kernel, op, size, WARM_UP);
	for (i = 0; i < rounds; i++) {
		if (i % 2)
			ours_ns[i] = move(kernel, op, size, count);
		floor_ns[i] = move(process, op, size, count);
		if (i % 2 == 0)
			ours_ns[i] = move(kernel, op, size, count);
		ratio[i] = ours_ns[i] / floor_ns[i];
	}
	good = memory != OWNED || median(ratio, rounds) <= BAR;
	printf("%-8s %-6s %8lu %12.0f %12.0f %8.3f  %s\n", memories[memory],
	       op == OTTE_READ ? "READ" : "WRITE", (unsigned long)size, median(floor_ns, rounds),
	       median(ours_ns, rounds), median(ratio, rounds),
	       memory != OWNED ? "" :
	       good	       ? "met" :
				 "MISSED");
	fflush(stdout);
	return good;
}

static int all_figures(uint32_t second, unsigned rounds)
{
	static const uint64_t sizes[] = { 4096, 65536, AREA };
	struct pair process, kernel;
	bool good = true;
	unsigned memory, op, i;

	printf("%-8s %-6s %8s %12s %12s %8s  bar %.2f\n", "memory", "op", "bytes", "process ns",
	       "kernel ns", "ratio", BAR);
	for (memory = 0; memory < MEMORIES; memory++) {
		open_pair(&process, OTTE_LEDGER_PROCESS, memory);
		open_pair(&kernel, second, memory);
		for (op = OTTE_READ; op <= OTTE_WRITE; op++)
			for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
				good &= figure(&process, &kernel, memory, (uint8_t)op, sizes[i],
					       rounds);
		close_pair(&kernel);
		close_pair(&process);
	}
	return good ? 0 : 1;
}

static int steps(char **argv)
{
	const uint32_t ledger = strcmp(argv[1], "kernel") ? OTTE_LEDGER_PROCESS :
							    OTTE_LEDGER_KERNEL;
	struct pair pair;

	open_pair(&pair, ledger, strcmp(argv[2], "owned") ? ADOPTED : OWNED);
	move(&pair, strcmp(argv[3], "read") ? OTTE_WRITE : OTTE_READ, strtoull(argv[4], NULL, 0),
	     (unsigned)atoi(argv[0]));
	close_pair(&pair);
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = 7;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	ok(sched_setaffinity(0, sizeof(cpu), &cpu) ? -errno : 0, "sched_setaffinity");
	if (argc == 7 && !strcmp(argv[1], "--steps"))
		return steps(argv + 2);
	if (argc == 3)
		rounds = atoi(argv[2]);
	if ((argc == 1 || (argc == 3 && !strcmp(argv[1], "--rounds"))) && rounds > 0 &&
	    rounds <= ROUNDS_MAX)
		return all_figures(OTTE_LEDGER_KERNEL, (unsigned)rounds);
	if (argc == 3 && !strcmp(argv[1], "--control") && rounds > 0 && rounds <= ROUNDS_MAX)
		return all_figures(OTTE_LEDGER_PROCESS, (unsigned)rounds);
	fprintf(stderr, "usage: ledger [--rounds N | --control N | --steps N LEDGER MEMORY OP SIZE]\n");
	return 2;
}
