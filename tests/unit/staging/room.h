/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two engines over simulated NICs (nics.h), of which one or both pass chunks.
 */
#ifndef OTTE_TESTS_STAGING_ROOM_H
#define OTTE_TESTS_STAGING_ROOM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"
#include "ledger/ledger.h"
#include "unit/engine/nics.h"
#include "seen.h"

#define CHUNK 65536u
#define SIZE (2u << 20)
#define ARENA (19 * CHUNK)

/* In place; by chunks, of which there are 19; or one. What fails is made again after an hour. */
void use_rdma(struct otte_config *config);
void use_staged(struct otte_config *config);
void use_one_chunk(struct otte_config *config);

void open_sides(struct pair *pair, void (*source)(struct otte_config *config),
		void (*requester)(struct otte_config *config));

struct otte_task outcome_of(struct otte_batch *batch);
struct otte_task run_one(struct pair *pair, const struct otte_request *request);

/* MRs of anything but the receives of queue pairs, which each have one. */
unsigned known(const struct sim_device *device);

/* What is to be moved, and to where. */
void fill(const struct pair *pair, uint8_t op, uint8_t salt);

#define SIZES 7
extern const uint64_t lengths[SIZES];

/* ---- What happens on the way ---- */

/* A requester that does nothing with what it is granted, nor misses it. */
extern _Atomic bool keeping;
/* What it is granted is said to be so much further. */
extern _Atomic int64_t shift;
/* It says that it has written, and has not, but for a byte. */
extern _Atomic bool lying;
/* How often the source's memory is still what was registered; negative: always. */
extern _Atomic int looks_left;
/* A source says that it is reached in place. */
extern _Atomic bool without_chunks;
/* An arena, or its list of chunks, for which there is no memory, so often. */
extern _Atomic int no_arena, no_list;
/* Grants that were said, and heard by who keeps them; and evidence that loans ended with. */
extern _Atomic unsigned grants_said, grants_kept;
extern const struct otte_rdma *_Atomic last_keeper;
extern _Atomic unsigned ended_as[16];

int room_start(void **state);
/* What is above is as it was at the beginning. */
void room_start_words(void);
/* As setup. */
int room_start_rxe(void **state);

/* One was kept, and is, even where nobody is to keep any from here on. */
bool is_kept(void *arg);
/* The length of this number arrives whole, in slices of a chunk each. */
void move_size(struct pair *pair, uint8_t op, unsigned i);
/* Bytes of chunks that peers may reach. */
uint64_t mirrored(const struct pair *pair);
bool nothing_is_mirrored(void *arg);
bool something_is_mirrored(void *arg);

/* The source's memory is the application's to take away, and is looked at. */
void watch_source(struct pair *pair);
void unwatch_source(struct pair *pair);

int run_requester_tests(void);
int run_source_tests(void);
int run_lost_tests(void);

#endif
