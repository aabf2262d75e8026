/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a plan of local copies is carried out: by the driver's copies or by the kernel, and by how many CTAs; and the
 * counters of what was decided. Pure arithmetic: no driver is called. The worker's lock is held around each call.
 *
 * Automatically, the kernel takes a plan that comes to many of the driver's operations: from `threshold` on, or from
 * `threshold_background` on for copies to the host that nobody waits for (checkpoint, migration, background prefetch).
 * Not one whose operations are so long that the driver's cost less than the kernel's lower ceiling, nor one that has
 * to be done in order, nor where image, mapping or room for the rows is missing. Why not is said: enum
 * otte_policy_reason, the first that holds. A mode that is forced does what it says or fails.
 *
 * CTAs are what the kernel takes from others on the device, so there are no more than a table for the device says,
 * which is measured: as few as reach what the link gives. `wide` has the grid of old instead, four for each
 * multiprocessor, but no more than there are rows. A limit holds for either.
 */
#ifndef OTTE_CUDA_POLICY_H
#define OTTE_CUDA_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "otte/otte_copy.h"

struct otte_plan;

#define OTTE_POLICY_THRESHOLD 128u
#define OTTE_COPY_NEVER UINT64_MAX
#define OTTE_POLICY_MAX_CTAS 65535u
/* Of the grid of old. */
#define OTTE_POLICY_WIDE_CTAS 4u

#define OTTE_POLICY_CLASSES (OTTE_COPY_DIRECTIONS * OTTE_COPY_INTENTS * OTTE_COPY_PRIORITIES)

/* For rows of up to so many bytes, on the average. */
struct otte_policy_row {
	uint64_t bytes;
	uint32_t ctas[OTTE_COPY_DIRECTIONS];
	uint32_t lanes[OTTE_COPY_DIRECTIONS]; /* that share a row: kernel/copy.h */
};

/* What was measured on one kind of device. The last row is for UINT64_MAX. */
struct otte_policy_table {
	const char *device;
	uint64_t long_bytes; /* operations of so many, on the average, are the driver's; OTTE_COPY_NEVER: none are */
	const struct otte_policy_row *rows;
};

/* Measured on an H200, and what other devices get until they are measured. */
extern const struct otte_policy_table otte_policy_h200;

struct otte_policy_config {
	enum otte_copy_mode mode;
	uint64_t threshold, threshold_background; /* operations */
	uint32_t cta_limit;                       /* 0: none */
	bool wide;
	const struct otte_policy_table *table;
	uint32_t multiprocessors, max_grid_x;     /* the device's */
};

struct otte_policy {
	struct otte_policy_config config;
	struct otte_copy_class classes[OTTE_COPY_DIRECTIONS][OTTE_COPY_INTENTS][OTTE_COPY_PRIORITIES];
};

/* What a submission has beside its plan. */
struct otte_policy_means {
	bool image; /* the kernel is loaded */
	bool room;  /* its rows' upload is within the budget */
};

struct otte_policy_choice {
	enum otte_copy_backend backend;
	enum otte_copy_reason reason;
	uint32_t ctas, lanes; /* of a kernel; else 0 */
};

void otte_policy_defaults(struct otte_policy_config *config);
/* -EINVAL: which value; -ERANGE: a limit of CTAs above what the device's grid or the kernel can have. */
int otte_policy_init(struct otte_policy *policy, const struct otte_policy_config *config);

/*
 * Fails only where the kernel is forced: -EINVAL: destinations meet, or the device does not reach the host memory;
 * -ENOSYS: no image; -EDQUOT: no room.
 */
int otte_policy_choose(const struct otte_policy *policy, const struct otte_plan *plan, unsigned int intent,
		       const struct otte_policy_means *means, struct otte_policy_choice *choice);

/* A submission is admitted; and what the driver then took of it. -EINVAL: there is no such class. */
int otte_policy_admitted(struct otte_policy *policy, bool to_host, unsigned int intent, unsigned int priority,
			 const struct otte_policy_choice *choice);
void otte_policy_batched(struct otte_policy *policy, bool to_host, unsigned int intent, unsigned int priority);
void otte_policy_launched(struct otte_policy *policy, bool to_host, unsigned int intent, unsigned int priority,
			  uint32_t ctas);

#endif
