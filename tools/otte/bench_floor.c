/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lends the plain-socket floor to the benchmark: one connection and one piece of memory a thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "floor.h"

struct floor_lane {
	int fd;
	char *memory;
};

struct bench_floor {
	struct floor floor;
	struct floor_lane lanes[MEASURE_THREADS_MAX];
	struct measured side;
	unsigned threads;
	char *memory;
	uint64_t memory_bytes;
};

static int exchange(void *arg, bool write, uint64_t length, unsigned batch)
{
	struct floor_lane *lane = arg;

	return floor_exchange(lane->fd, write, lane->memory, length, batch);
}

static int map_memory(struct bench_floor *floor, uint64_t length)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	floor->memory = memory;
	floor->memory_bytes = length;
	return 0;
}

static int connect_lanes(struct bench_floor *floor, unsigned threads)
{
	unsigned i;
	int fd;

	for (i = 0; i < threads; i++) {
		fd = floor_connect(&floor->floor);
		if (fd < 0)
			return fd;
		floor->lanes[i].fd = fd;
		floor->lanes[i].memory = floor->memory + floor->memory_bytes / threads * i;
		floor->side.lanes[i] = &floor->lanes[i];
		floor->threads++;
	}
	return 0;
}

int bench_floor_start(const struct bench_options *options, struct bench_floor **result)
{
	struct floor_options floor_options = {
		.congestion = options->congestion,
		.send_buffer_bytes = options->send_buffer_bytes,
		.receive_buffer_bytes = options->receive_buffer_bytes,
		.memory_bytes = bench_memory_bytes(options),
		.server_cpu = options->server_cpu,
	};
	struct bench_floor *floor = calloc(1, sizeof(*floor));
	int rc;

	if (!floor)
		return -ENOMEM;
	floor->side.exchange = exchange;
	rc = floor_start(&floor->floor, &floor_options);
	if (!rc)
		rc = map_memory(floor, floor_options.memory_bytes);
	if (!rc)
		rc = connect_lanes(floor, options->threads);
	if (rc) {
		bench_floor_stop(floor);
		return rc;
	}
	floor->side.peer = floor->floor.server;
	*result = floor;
	return 0;
}

const struct measured *bench_floor_side(const struct bench_floor *floor)
{
	return &floor->side;
}

void bench_floor_stop(struct bench_floor *floor)
{
	unsigned i;

	for (i = 0; i < floor->threads; i++)
		close(floor->lanes[i].fd);
	floor_stop(&floor->floor);
	if (floor->memory)
		munmap(floor->memory, floor->memory_bytes);
	free(floor);
}
