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

struct otte_plan;

enum otte_policy_mode {
	OTTE_POLICY_AUTO = 0,
	OTTE_POLICY_DMA = 1,
	OTTE_POLICY_KERNEL = 2,
};

enum otte_policy_backend {
	OTTE_POLICY_NOTHING = 0, /* no bytes: a marker on the stream is all */
	OTTE_POLICY_BY_DMA = 1,
	OTTE_POLICY_BY_KERNEL = 2,
};

/* Why a plan that was free to choose is not the kernel's. */
enum otte_policy_reason {
	OTTE_POLICY_NO_REASON = 0,
	OTTE_POLICY_BELOW_THRESHOLD = 1,
	OTTE_POLICY_BACKGROUND = 2, /* enough operations for others, not for who can wait */
	OTTE_POLICY_LONG_ROWS = 3,
	OTTE_POLICY_OVERLAP = 4,
	OTTE_POLICY_NO_IMAGE = 5,
	OTTE_POLICY_NO_MAPPING = 6,
	OTTE_POLICY_NO_ROOM = 7, /* for the rows' upload, in the budget of bytes */
};

#define OTTE_POLICY_THRESHOLD 128u
#define OTTE_POLICY_NEVER UINT64_MAX
#define OTTE_POLICY_MAX_CTAS 65535u
/* Of the grid of old. */
#define OTTE_POLICY_WIDE_CTAS 4u

#define OTTE_POLICY_DIRECTIONS 2 /* 0: to the device, 1: to the host */
#define OTTE_POLICY_INTENTS 7    /* enum otte_intent */
#define OTTE_POLICY_PRIORITIES 3 /* enum otte_priority */
#define OTTE_POLICY_CLASSES (OTTE_POLICY_DIRECTIONS * OTTE_POLICY_INTENTS * OTTE_POLICY_PRIORITIES)

/* For rows of up to so many bytes, on the average. */
struct otte_policy_row {
	uint64_t bytes;
	uint32_t ctas[OTTE_POLICY_DIRECTIONS];
	uint32_t lanes[OTTE_POLICY_DIRECTIONS]; /* that share a row: kernel/copy.h */
};

/* What was measured on one kind of device. The last row is for UINT64_MAX. */
struct otte_policy_table {
	const char *device;
	uint64_t long_bytes; /* operations of so many, on the average, are the driver's; OTTE_POLICY_NEVER: none are */
	const struct otte_policy_row *rows;
};

/* Measured on an H200, and what other devices get until they are measured. */
extern const struct otte_policy_table otte_policy_h200;

struct otte_policy_config {
	enum otte_policy_mode mode;
	uint64_t threshold, threshold_background; /* operations */
	uint32_t cta_limit;                       /* 0: none */
	bool wide;
	const struct otte_policy_table *table;
	uint32_t multiprocessors, max_grid_x;     /* the device's */
};

/* What the numbers count, of one class; and the latest submission of it that was admitted. */
struct otte_policy_class {
	uint64_t dma, kernel; /* decisions */
	uint64_t empty;
	uint64_t batches;     /* calls of the driver's batch that returned success */
	uint64_t ctas;        /* of launches that returned success */
	enum otte_policy_backend last_backend;
	enum otte_policy_reason last_reason;
	uint32_t last_ctas;
};

struct otte_policy {
	struct otte_policy_config config;
	struct otte_policy_class classes[OTTE_POLICY_DIRECTIONS][OTTE_POLICY_INTENTS][OTTE_POLICY_PRIORITIES];
};

/* What a submission has beside its plan. */
struct otte_policy_means {
	bool image; /* the kernel is loaded */
	bool room;  /* its rows' upload is within the budget */
};

struct otte_policy_choice {
	enum otte_policy_backend backend;
	enum otte_policy_reason reason;
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
