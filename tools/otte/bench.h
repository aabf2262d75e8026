/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parts of `otte bench` share: what is to be measured. */
#ifndef OTTE_TOOL_BENCH_H
#define OTTE_TOOL_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "measure.h"

#define BENCH_SIZES_MAX 32
#define BENCH_BATCH_MAX 1024
#define BENCH_ROUNDS_MAX 1001

struct bench_options {
	uint64_t sizes[BENCH_SIZES_MAX];
	size_t size_count;
	unsigned batch;
	unsigned threads;
	bool read, write;
	int client_cpu, server_cpu; /* -1: not pinned */
	char congestion[16]; /* "": the system's */
	uint64_t send_buffer_bytes, receive_buffer_bytes;
	uint64_t duration_ns; /* of each measurement, all rounds together */
	uint64_t iterations;
	bool floor; /* measure plain sockets too, alternating */
	bool floor_only;
	unsigned rounds; /* alternations */
};

/* Bytes that one side of all threads needs: largest size x batch x threads. */
uint64_t bench_memory_bytes(const struct bench_options *options);

/* Medians over the rounds of one direction and size. */
struct bench_result {
	double gbps; /* 1e9 bytes a second */
	double mean_us, p50_us, p99_us, p999_us;
	double cpu_per_gb;
};

/* The floor as a side to be measured. 0 or a negative errno. */
struct bench_floor;
int bench_floor_start(const struct bench_options *options, struct bench_floor **floor);
const struct measured *bench_floor_side(const struct bench_floor *floor);
void bench_floor_stop(struct bench_floor *floor);

#endif
