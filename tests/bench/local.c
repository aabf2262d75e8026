/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * READs from another process of this host: by transport local, by TCP, by process_vm_readv(), and what no transport
 * can be faster than, memcpy() from memory that both have mapped. Alternately, in one run, into the same memory.
 * The medians of all rounds are told; with --check it fails where local misses its bars. With --module, where that is
 * loaded: memory that is borrowed, which the module copies, and beside it such that is mapped.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "otte/otte.h"

#define SIZE (16u << 20)
#define ROUNDS 31
#define FEW_ROUNDS 7 /* of a guest */
/* Bytes of each way in a round, and exchanges at least and at most. */
#define ROUND_BYTES (16u << 20)
#define FEW 3
#define MANY 500
#define MANY_AT_ONCE 16
#define BAR 0.9
#define BAR_4K_NS 3000.0

enum way { MEMCPY, LOCAL, TCP, VM, MAPPED, WAYS };

static const char *const names[WAYS] = { "memcpy", "local", "tcp", "process_vm_readv", "local, mapped" };
static bool by_module;
static const uint64_t sizes[] = { 4096, 65536, 262144, 1 << 20, 4 << 20, 16 << 20 };

#define OK(call) \
	do { \
		int code = (call); \
		if (code) \
			die(#call, code); \
	} while (0)

static void die(const char *what, int code)
{
	fprintf(stderr, "%s: %d: %s\n", what, code, otte_error_text());
	exit(2);
}

struct told {
	char address[OTTE_ADDRESS_MAX];
	uint64_t region, pid, bytes;
};

/* One that reads. */
struct reader {
	struct otte_engine *engine;
	struct otte_segment *segment;
	struct otte_mem *mem;
	struct otte_region *local;
	struct otte_batch *batch;
};

struct bench {
	struct reader copies, maps;
	struct told told;
	uint8_t *to;
	const uint8_t *shared;
};

static void open_engine(bool listens, bool maps, struct otte_engine **engine, struct otte_mem **mem,
			struct otte_region **region)
{
	struct otte_region_desc desc = { .length = SIZE, .access = listens ? OTTE_REMOTE_READ : 0 };
	struct otte_config config;

	OK(otte_config_init(&config, sizeof(config)));
	config.local_trusted = !by_module;
	config.local_pinned = by_module;
	if (by_module)
		config.ledger = OTTE_LEDGER_KERNEL;
	config.local_map_entries = maps;
	config.local_map_repeats = 1;
	if (!listens)
		config.listen_address[0] = '\0';
	OK(otte_engine_create(&config, engine));
	OK(otte_mem_alloc(*engine, SIZE, 0, mem));
	memset(otte_mem_address(*mem), listens ? 0x5a : 0, SIZE);
	desc.mem = *mem;
	OK(otte_region_register(*engine, &desc, 1, region));
}

static void serve(int to)
{
	struct told told = { .pid = (uint64_t)getpid() };
	struct otte_engine *engine;
	struct otte_region *region;
	struct otte_mem *mem;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_engine(true, false, &engine, &mem, &region);
	OK(otte_engine_address(engine, told.address, sizeof(told.address)));
	told.region = otte_region_id(region);
	told.bytes = (uint64_t)(uintptr_t)otte_mem_address(mem);
	if (write(to, &told, sizeof(told)) != (ssize_t)sizeof(told))
		exit(2);
	for (;;)
		pause();
}

static void transfer(struct bench *bench, struct reader *reader, uint8_t transport, uint64_t length)
{
	struct otte_request request = {
		.segment = reader->segment,
		.local = reader->local,
		.remote_region = bench->told.region,
		.length = length,
		.op = OTTE_READ,
		.transport = transport,
	};

	OK(otte_batch_run(reader->batch, &request, 1, -1));
}

static void open_reader(struct bench *bench, bool maps, struct reader *reader)
{
	unsigned i;

	open_engine(false, maps, &reader->engine, &reader->mem, &reader->local);
	OK(otte_segment_open(reader->engine, bench->told.address, OTTE_EPOCH_ANY, -1, &reader->segment));
	OK(otte_batch_create(reader->engine, MANY_AT_ONCE, &reader->batch));
	/* What is mapped is so in time. */
	for (i = 0; maps && i < 20; i++) {
		transfer(bench, reader, OTTE_TRANSPORT_LOCAL, 4096);
		usleep(20000);
	}
}

/* What it borrowed goes back. */
static void close_reader(struct reader *reader)
{
	if (!reader->engine)
		return;
	OK(otte_batch_destroy(reader->batch));
	OK(otte_segment_close(reader->segment));
	OK(otte_region_unregister(&reader->local, 1, -1, NULL));
	OK(otte_mem_release(reader->mem));
	OK(otte_engine_destroy(reader->engine));
}

static void once(struct bench *bench, enum way way, uint64_t length)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the other process */
	struct iovec to = { bench->to, length }, from = { (void *)(uintptr_t)bench->told.bytes, length };

	switch (way) {
	case MEMCPY:
		memcpy(bench->to, bench->shared, length);
		__asm__ volatile("" : : "r"(bench->to) : "memory");
		break;
	case LOCAL:
		transfer(bench, &bench->copies, OTTE_TRANSPORT_LOCAL, length);
		break;
	case MAPPED:
		transfer(bench, &bench->maps, OTTE_TRANSPORT_LOCAL, length);
		break;
	case TCP:
		transfer(bench, &bench->copies, OTTE_TRANSPORT_TCP, length);
		break;
	default:
		if (process_vm_readv((pid_t)bench->told.pid, &to, 1, &from, 1, 0) != (ssize_t)length)
			die("process_vm_readv", 1);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Each exchange by itself: medians of these stand on a machine that has other work, too. */
static unsigned measure(struct bench *bench, enum way way, uint64_t length, double *ns)
{
	uint64_t n = ROUND_BYTES / length / (way == TCP ? 4 : 1), i;
	double begun;

	n = n < FEW ? FEW : n > MANY ? MANY : n;
	once(bench, way, length);
	for (i = 0; i < n; i++) {
		begun = now();
		once(bench, way, length);
		ns[i] = now() - begun;
	}
	return (unsigned)n;
}

static int ascending(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return left < right ? -1 : left > right;
}

static bool measure_size(struct bench *bench, uint64_t length)
{
	static double ns[WAYS][ROUNDS * MANY];
	unsigned round, way, ways = by_module ? WAYS : MAPPED, counts[WAYS] = { 0 };
	double medians[WAYS], part;
	bool good;

	for (round = 0; round < (by_module ? FEW_ROUNDS : ROUNDS); round++)
		for (way = 0; way < ways; way++)
			counts[way] += measure(bench, (enum way)way, length, ns[way] + counts[way]);
	for (way = 0; way < ways; way++) {
		qsort(ns[way], counts[way], sizeof(double), ascending);
		medians[way] = ns[way][counts[way] / 2];
	}
	part = medians[MEMCPY] / medians[LOCAL];
	good = length < 65536 ? medians[LOCAL] <= BAR_4K_NS : part >= BAR;
	printf("| %6lu KiB |", (unsigned long)(length >> 10));
	for (way = 0; way < ways; way++)
		printf(" %8.2f us %6.2f GB/s |", medians[way] / 1e3, (double)length / medians[way]);
	printf(" %5.2f | %s |\n", part, by_module ? "" : good ? "yes" : "no");
	fflush(stdout);
	return good;
}

/*
 * Several requests in one call, of which no two are neighbours that become one. Told beside: the bars are about one
 * request at a time.
 */
static void measure_many(struct bench *bench, uint64_t length)
{
	struct otte_request requests[MANY_AT_ONCE];
	static double ns[ROUNDS * MANY];
	unsigned i;

	for (i = 0; i < MANY_AT_ONCE; i++)
		requests[i] = (struct otte_request){
			.segment = bench->copies.segment,
			.local = bench->copies.local,
			.local_offset = 2 * length * i,
			.remote_region = bench->told.region,
			.remote_offset = 2 * length * i,
			.length = length,
			.op = OTTE_READ,
			.transport = OTTE_TRANSPORT_LOCAL,
		};
	for (i = 0; i < ROUNDS * MANY / MANY_AT_ONCE; i++) {
		double begun = now();

		OK(otte_batch_run(bench->copies.batch, requests, MANY_AT_ONCE, -1));
		ns[i] = (now() - begun) / MANY_AT_ONCE;
	}
	qsort(ns, i, sizeof(double), ascending);
	printf("%d requests of %lu KiB in one call: %.2f us each, %.2f GB/s\n", MANY_AT_ONCE,
	       (unsigned long)(length >> 10), ns[i / 2] / 1e3, (double)length / ns[i / 2]);
}

int main(int argc, char **argv)
{
	bool check = argc > 1 && !strcmp(argv[1], "--check"), good = true;
	struct bench bench = { 0 };
	int pipe_fds[2], fd;
	pid_t source;
	uint8_t *shared;
	unsigned way;
	size_t i;

	by_module = argc > 1 && !strcmp(argv[1], "--module");
	fd = memfd_create("floor", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, SIZE) || pipe(pipe_fds))
		return 2;
	shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		return 2;
	memset(shared, 0x5a, SIZE);
	source = fork();
	if (source == 0)
		serve(pipe_fds[1]);
	if (read(pipe_fds[0], &bench.told, sizeof(bench.told)) != (ssize_t)sizeof(bench.told))
		return 2;
	open_reader(&bench, false, &bench.copies);
	if (by_module)
		open_reader(&bench, true, &bench.maps);
	bench.to = otte_mem_address(bench.copies.mem);
	bench.shared = shared;
	printf("| READ |");
	for (way = 0; way < (by_module ? WAYS : MAPPED); way++)
		printf(" %s |", names[way]);
	printf(" local, part of memcpy | within its bar |\n| --- |");
	for (way = 0; way < (by_module ? WAYS : MAPPED) + 2; way++)
		printf(" --- |");
	printf("\n");
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		good &= measure_size(&bench, sizes[i]);
	measure_many(&bench, sizes[0]);
	measure_many(&bench, sizes[1]);
	close_reader(&bench.copies);
	close_reader(&bench.maps);
	kill(source, SIGKILL);
	waitpid(source, NULL, 0);
	return check && !good;
}
