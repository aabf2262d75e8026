/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One measurement of transport rdma, the counterpart of one run of perftest: a process serves memory, another one
 * reads or writes it over the same device, in batches, one after another. Both are new, and so are their queue pairs:
 * one for each direction.
 *
 *	rdma DEVICE GID_INDEX read|write LENGTH DEPTH COUNT [lease]
 *
 * COUNT requests of LENGTH bytes, DEPTH of them in a batch. Prints the bytes a second of all and the median time
 * of a batch in ns. Every request is one of its own: no two of a batch are neighbours, which would become one.
 * The bytes are compared afterwards. With `lease` they move by a lease. Exit status 2 where anything fails, or
 * goes another way than over the device.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "otte/otte.h"

#define SECOND 1000000000ll
#define GAP 4096u
#define DEPTH_MAX 64u
#define COUNT_MAX 100000u
#define LENGTH_MAX (16u << 20)
/* Of a request: its payload, and what gives its grant back. */
#define SEND_WRS 2u

#define OK(call) ok(call, #call)

static void ok(int ret, const char *what)
{
	if (!ret)
		return;
	fprintf(stderr, "bench-rdma: %s: %d: %s\n", what, ret, otte_error_text());
	exit(2);
}

static void die(const char *what)
{
	fprintf(stderr, "bench-rdma: %s\n", what);
	exit(2);
}

struct plan {
	const char *device;
	unsigned gid_index;
	uint8_t op, lease;
	uint64_t length;
	unsigned depth, count;
	uint64_t span; /* of memory on each side */
	uint8_t *remote; /* that of the source, as this process sees it */
};

/* What the source tells. */
struct told {
	char address[OTTE_ADDRESS_MAX];
	uint64_t region;
};

struct requester {
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *region;
	struct otte_segment *segment;
	struct otte_batch *batch;
	struct otte_request requests[DEPTH_MAX];
};

static void open_engine(const struct plan *plan, bool listens, struct otte_engine **engine)
{
	struct otte_config config;

	OK(otte_config_init(&config, sizeof(config)));
	config.rdma_enabled = 1;
	snprintf(config.rdma_device, sizeof(config.rdma_device), "%s", plan->device);
	config.rdma_gid_index = plan->gid_index;
	config.rdma_pairs = 1;
	if (config.rdma_send_wrs < SEND_WRS * plan->depth)
		config.rdma_send_wrs = SEND_WRS * plan->depth;
	if (!listens)
		config.listen_address[0] = '\0';
	OK(otte_engine_create(&config, engine));
}

static void serve(const struct plan *plan, int to)
{
	struct otte_region_desc desc = { .length = plan->span,
					 .access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE };
	struct told told = { .region = 0 };
	struct otte_engine *engine;
	struct otte_region *region;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_engine(plan, true, &engine);
	OK(otte_mem_adopt(engine, plan->remote, plan->span, &desc.mem));
	OK(otte_region_register(engine, &desc, 1, &region));
	OK(otte_engine_address(engine, told.address, sizeof(told.address)));
	told.region = otte_region_id(region);
	if (write(to, &told, sizeof(told)) != (ssize_t)sizeof(told))
		exit(2);
	for (;;)
		pause();
}

static pid_t start_source(const struct plan *plan, struct told *told)
{
	int ends[2];
	pid_t pid;

	if (pipe(ends))
		die("no pipe");
	pid = fork();
	if (pid < 0)
		die("no process");
	if (pid == 0)
		serve(plan, ends[1]);
	close(ends[1]);
	if (read(ends[0], told, sizeof(*told)) != (ssize_t)sizeof(*told))
		die("the source has failed");
	close(ends[0]);
	return pid;
}

static void open_requester(const struct plan *plan, const struct told *told, struct requester *self)
{
	struct otte_region_desc desc = { .length = plan->span };
	size_t regions;
	unsigned i;

	open_engine(plan, false, &self->engine);
	OK(otte_mem_alloc(self->engine, plan->span, 0, &self->mem));
	desc.mem = self->mem;
	OK(otte_region_register(self->engine, &desc, 1, &self->region));
	OK(otte_segment_open(self->engine, told->address, OTTE_EPOCH_ANY, 10 * SECOND,
			     &self->segment));
	/* How long the region is, which is leased as a whole. */
	OK(otte_segment_describe(self->segment, 10 * SECOND, NULL, 0, &regions));
	OK(otte_batch_create(self->engine, plan->depth, &self->batch));
	for (i = 0; i < plan->depth; i++)
		self->requests[i] = (struct otte_request){
			.segment = self->segment,
			.local = self->region,
			.local_offset = i * (plan->length + GAP),
			.remote_region = told->region,
			.remote_offset = i * (plan->length + GAP),
			.length = plan->length,
			.op = plan->op,
			.transport = OTTE_TRANSPORT_RDMA,
			.lease = plan->lease,
		};
}

static void close_requester(struct requester *self)
{
	OK(otte_batch_destroy(self->batch));
	OK(otte_segment_close(self->segment));
	OK(otte_region_unregister(&self->region, 1, -1, NULL));
	OK(otte_mem_release(self->mem));
	OK(otte_engine_destroy(self->engine));
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void run(struct requester *self, unsigned count)
{
	struct otte_failure failure;

	if (!otte_batch_run(self->batch, self->requests, count, 60 * SECOND))
		return;
	if (otte_batch_failure(self->batch, &failure))
		die(otte_error_text());
	fprintf(stderr, "bench-rdma: request %u: %d: %s\n", failure.first, failure.code,
		failure.text);
	exit(2);
}

/* ---- The bytes ---- */

static uint8_t pattern(uint64_t at)
{
	return (uint8_t)(at * 7 + (at >> 8) * 13 + (at >> 16) * 29 + 1);
}

static void fill(uint8_t *from, uint64_t length)
{
	uint64_t i;

	for (i = 0; i < length; i++)
		from[i] = pattern(i);
}

/* Each request's own, and none between them. */
static void compare(const struct plan *plan, const uint8_t *to)
{
	uint64_t i, stride = plan->length + GAP;

	for (i = 0; i < plan->span; i++)
		if (to[i] != (i % stride < plan->length ? pattern(i) : 0))
			die("other bytes than those that were there");
}

/* ---- Measuring ---- */

static int ascending(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static void measure(const struct plan *plan, struct requester *self)
{
	unsigned batches = plan->count / plan->depth, i;
	uint64_t *ns = calloc(batches, sizeof(*ns)), total = 0, begun;
	struct otte_stats stats = { .size = sizeof(stats) };
	struct otte_task task;

	if (!ns)
		die("no memory");
	/* The first makes the queue pairs. */
	run(self, plan->depth);
	OK(otte_batch_task(self->batch, 0, &task));
	OK(otte_engine_stats(self->engine, &stats));
	if (task.transport != OTTE_TRANSPORT_RDMA || (!stats.rdma_lease_requests != (plan->lease == OTTE_LEASE_OFF)))
		die("not by RDMA, or not by a lease");
	for (i = 0; i < batches; i++) {
		begun = now_ns();
		run(self, plan->depth);
		ns[i] = now_ns() - begun;
		total += ns[i];
	}
	qsort(ns, batches, sizeof(*ns), ascending);
	printf("%.0f %lu\n", (double)plan->length * plan->depth * batches * 1e9 / (double)total,
	       (unsigned long)ns[batches / 2]);
	free(ns);
}

static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || value > max)
		die("a number is wrong");
	return value;
}

static void read_plan(char **argv, struct plan *plan)
{
	plan->device = argv[1];
	plan->gid_index = (unsigned)number(argv[2], 255);
	if (strcmp(argv[3], "read") && strcmp(argv[3], "write"))
		die("neither read nor write");
	plan->op = strcmp(argv[3], "read") ? OTTE_WRITE : OTTE_READ;
	plan->length = number(argv[4], LENGTH_MAX);
	plan->depth = (unsigned)number(argv[5], DEPTH_MAX);
	plan->count = (unsigned)number(argv[6], COUNT_MAX);
	if (!plan->length || !plan->depth || plan->count < plan->depth)
		die("nothing to do");
	plan->span = plan->depth * (plan->length + GAP);
	plan->remote =
		mmap(NULL, plan->span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (plan->remote == MAP_FAILED)
		die("no memory");
}

int main(int argc, char **argv)
{
	struct requester requester;
	struct told told;
	struct plan plan;
	uint8_t *local;
	pid_t source;

	if (argc != 7 && (argc != 8 || strcmp(argv[7], "lease"))) {
		fprintf(stderr, "usage: rdma DEVICE GID_INDEX read|write LENGTH DEPTH COUNT [lease]\n");
		return 2;
	}
	read_plan(argv, &plan);
	plan.lease = argc == 8 ? OTTE_LEASE_REGION : OTTE_LEASE_OFF;
	source = start_source(&plan, &told);
	open_requester(&plan, &told, &requester);
	local = otte_mem_address(requester.mem);
	fill(plan.op == OTTE_READ ? plan.remote : local, plan.span);
	measure(&plan, &requester);
	compare(&plan, plan.op == OTTE_READ ? local : plan.remote);
	close_requester(&requester);
	kill(source, SIGKILL);
	waitpid(source, NULL, 0);
	return 0;
}
