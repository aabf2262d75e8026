/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the calls of a sweep work on: two engines, everything of theirs, and something to compare with. */
#ifndef OTTE_TESTS_WORLD_H
#define OTTE_TESTS_WORLD_H

#include "e2e/process.h"
#include "otte/otte.h"

#define AREA (256u << 10)

struct world {
	struct otte_engine *source, *user;
	struct otte_mem *there, *here, *aside;
	/* A WRITE that was cut may still come: it goes to the spare one, which nobody looks at later. */
	struct otte_region *shared, *local, *spare;
	struct otte_segment *segment;
	struct otte_batch *batch;
	char address[OTTE_ADDRESS_MAX];
	uint8_t *from, *to;
	uint8_t salt;
	struct otte_stats source_before, user_before;
};

/* Short limits, so that what is lost is found and mended within milliseconds. */
void world_config(struct otte_config *config);
void world_open(struct world *world);
/* The same in an adjusted way (may be NULL), while calls fail elsewhere. */
void world_open_adjusted(struct world *world, void (*adjust)(struct otte_config *config));
void world_close(struct world *world);

struct otte_request world_request(const struct world *world, uint8_t op);
/* Fill what is read or written with new bytes, and empty the other side. */
void world_fill(struct world *world);
/* Once. 0: the bytes are right, and nothing but the range changed. */
int world_transfer(struct world *world, uint8_t op);
/* Transfers work, at the latest when what was lost is back; counters are where they were. */
void world_is_well(struct world *world);


/* The step and fault that a message is about. */
extern const char *doing;
extern long doing_nth;

/* Until `call`, which may do something, is true: within ten seconds. */
#define SOON(call) \
	({ \
		uint64_t until_ns_ = now_ns() + 30 * SECOND; \
		bool so_; \
\
		while (!(so_ = (call)) && now_ns() < until_ns_) \
			nap(); \
		so_; \
	})
#define HOLDS(condition, ...) \
	do { \
		if (!(condition)) \
			does_not_hold(__LINE__, #condition, __VA_ARGS__); \
	} while (0)
void does_not_hold(int line, const char *condition, const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));

#endif
