/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the parts of `otte bench` share.
 *
 *   bench.c         the command line and the order of things
 *   bench_otte.c    libotte as one that is measured, and the check of what it moved
 *   bench_floor.c   the floor as one that is measured
 *   bench_series.c  rounds of measurements, and their medians
 *   bench_report.c  heading, rows, bars, and the table that is appended to a file
 *
 * bench_copy.h has those of `otte bench --copy`.
 */
#ifndef OTTE_TOOL_BENCH_H
#define OTTE_TOOL_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "measure.h"

#define BENCH_SIZES_MAX 32
#define BENCH_BATCH_MAX 1024
#define BENCH_ROUNDS_MAX 1001
#define BENCH_BARS_MAX 32

/* READs of this size must reach this ratio, or (latency) stay below it. */
struct bench_bar {
	uint64_t length;
	double ratio;
};

struct bench_options {
	struct common common;
	uint64_t sizes[BENCH_SIZES_MAX];
	size_t size_count;
	unsigned batch;
	unsigned threads;
	unsigned lanes; /* 0: as configured */
	bool lease;
	bool read, write;
	int client_cpu, server_cpu; /* -1: not pinned */
	char congestion[16]; /* "": the system's */
	uint64_t send_buffer_bytes, receive_buffer_bytes;
	uint64_t duration_ns; /* of each line, all rounds together */
	uint64_t iterations;
	unsigned rounds;
	bool floor; /* measure plain sockets too, alternating */
	bool floor_only;
	bool verify;
	const char *peer; /* ENDPOINT/NAME, or NULL: a process of our own */
	const char *report; /* file to append a table to */
	const char *note; /* shown with the results, or NULL */
	struct bench_bar speed_bars[BENCH_BARS_MAX], latency_bars[BENCH_BARS_MAX];
	size_t speed_bar_count, latency_bar_count;
};

/* Bytes that one side of all threads needs: largest size x batch x threads. */
uint64_t bench_memory_bytes(const struct bench_options *options);

/* ---- Those that are measured ----------------------------------------------------------------- */

struct bench_floor;

/* 0 or a negative errno. Before any engine exists: it forks. */
int bench_floor_start(const struct bench_options *options, struct bench_floor **floor);
const struct measured *bench_floor_side(const struct bench_floor *floor);
void bench_floor_stop(struct bench_floor *floor);

struct bench_otte;

/* EXIT_OK, or an exit code after a complaint. */
int bench_otte_start(const struct bench_options *options, struct bench_otte **bench);
const struct measured *bench_otte_side(const struct bench_otte *bench);
const char *bench_otte_route(const struct bench_otte *bench);
bool bench_otte_is_verified(const struct bench_otte *bench);
unsigned bench_otte_lanes(const struct bench_otte *bench);
void bench_otte_stop(struct bench_otte *bench);

/* Around the rounds of one line: put known content in place, and see whether it arrived. */
int bench_otte_prepare(struct bench_otte *bench, bool write, uint64_t length);
int bench_otte_verify(struct bench_otte *bench, bool write, uint64_t length);

/* Complain about a negative errno of an exchange. */
int bench_otte_complain(const struct bench_otte *bench, int code);

/* ---- Series ---------------------------------------------------------------------------------- */

/* All rounds of one side, direction and size. */
struct bench_series {
	double gbps[BENCH_ROUNDS_MAX];
	double p50_us[BENCH_ROUNDS_MAX];
	unsigned rounds;
	struct measurement all;
};

int bench_series_begin(struct bench_series *series);
void bench_series_end(struct bench_series *series);

/* One more round. 0 or a negative errno. */
int bench_series_add(struct bench_series *series, const struct measured *who,
		     const struct measure_options *options);

/* Medians over rounds. */
double bench_series_gbps(const struct bench_series *series);
double bench_series_p50_us(const struct bench_series *series);

/* Medians over rounds of what one side reached divided by what the other did in the same round. */
double bench_series_speed_ratio(const struct bench_series *one, const struct bench_series *other);
double bench_series_latency_ratio(const struct bench_series *one, const struct bench_series *other);

/* ---- Report ---------------------------------------------------------------------------------- */

/* Before measuring: can --report be written? */
int bench_report_check(const struct bench_options *options);

/*
 * `bench` may be NULL: the floor alone. Prints the heading unless JSON is wanted; with JSON a signal is noted from now
 * on, and ends the process with a report of the lines that are there. EXIT_OK, or an exit code after a complaint.
 */
int bench_report_begin(const struct bench_options *options, const struct bench_otte *bench);

/* For who found out before: does not return while there is a report, as above. */
void bench_report_interrupt(void);

/* A row; `floor` is the series to compare with, or NULL. Sorts the series' latencies. */
void bench_report_row(const struct bench_options *options, const char *side,
		      const struct measure_options *line, struct bench_series *series,
		      const struct bench_series *floor);

/* The report, to which nothing is added any more, and which no signal prints. NULL: there is none. */
json_t *bench_report_close(void);

/* Prints JSON, appends the table, judges the bars. Takes the report. An exit code. */
int bench_report_end(const struct bench_options *options, json_t *report);

#endif
