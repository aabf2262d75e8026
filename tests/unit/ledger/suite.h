/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the files of the ledger's conformance suite share. Each file gives one array of tests; the
 * program runs all of them over each back end (conformance.c). A test opens what it needs through
 * setup(), reaches the ledger through its ops alone, and owns its clients as separate handles.
 */
#ifndef OTTE_TESTS_UNIT_LEDGER_SUITE_H
#define OTTE_TESTS_UNIT_LEDGER_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "ledger/ledger.h"
#include "otte/otte.h"

struct backend {
	const char *name;
	int (*open)(const struct otte_ledger_limits *limits, struct otte_ledger **ledger);
};

extern const struct backend *backend; /* the one under test */

/*
 * The kernel's differs where docs/architecture.md, "The kernel back end", says so. A test of what
 * only one of them has skips the other by this, with the reason; kernel.c tests what the kernel
 * does instead.
 */
int is_kernel(void);
#define PROCESS_ONLY(why)                             \
	do {                                          \
		if (is_kernel()) {                    \
			print_message("%s\n", why);   \
			skip();                       \
		}                                     \
	} while (0)

enum actor {
	LENDER,
	BORROWER,
	STRANGER,
	ACTORS,
};

/* A ledger, three clients of it, and one region of the lender's that may be read and written. */
struct world {
	struct otte_ledger *ledger;
	const struct otte_ledger_ops *ops;
	struct otte_ledger_client *client[ACTORS]; /* NULL once closed */
	uint64_t id[ACTORS];
	uint64_t region;
};

#define REGION_ADDRESS 0x10000ull
#define REGION_LENGTH 0x1000ull
#define NOTHING (-1) /* state_of() a loan that no dump shows */

void open_world(struct world *w, const struct otte_ledger_limits *limits);
void close_world(struct world *w);
void close_client(struct world *w, enum actor who);

uint64_t add_region(struct world *w, enum actor who, uint64_t address, uint64_t length,
		    uint32_t access);
struct otte_borrower local(const struct world *w, enum actor who);
struct otte_borrower remote(uint8_t peer);
/* The whole region, to be written, revocable, all evidence accepted. */
struct otte_loan_terms usual_terms(const struct world *w, struct otte_borrower borrower);
int offer(struct world *w, const struct otte_loan_terms *terms, uint64_t *loan);
uint64_t must_offer(struct world *w, const struct otte_loan_terms *terms);
/* Offered to the borrower (local) or exposed to a peer. */
uint64_t expose(struct world *w, const struct otte_loan_terms *terms);

int state_of(struct world *w, uint64_t loan);
struct otte_ledger_counters counters_of(struct world *w);
size_t retained_of(struct world *w, struct otte_retained_info *rows, size_t capacity);
/* The next event is this one. */
void expect_event(struct world *w, enum actor who, uint32_t kind, uint32_t evidence, uint64_t loan);
void expect_no_event(struct world *w, enum actor who);
/*
 * The borrower is told of an offer, that was accepted or withdrawn before anybody read of it. The
 * module tells nothing of what is past.
 */
void expect_past_offer(struct world *w, uint64_t loan, int withdrawn);
/* The call gave `rc` and, where that is an error, a text with `part` in it. */
void expect_refused(int rc, int code, const char *part);

/* All counters and both dumps, to be compared as a whole. */
struct picture {
	struct otte_ledger_counters counters;
	struct otte_loan_info loans[64];
	struct otte_retained_info retained[64];
};

void take_picture(struct world *w, struct picture *picture);
void expect_same(struct world *w, const struct picture *before);

/* The status that waitpid() tells of a child that does that, and exits with what it returns. */
int in_a_child(int (*body)(void));

/* OTTE_TEST_SMALL is set: tests that take long do a part of their work, for valgrind. */
int is_small(void);

/* Allocation failures, by wrapping malloc and calloc at link time. */
extern uint64_t allocations; /* since the last call below */
void fail_allocation(uint64_t nth); /* 1: the next; 0: none */

/* The nth call of the module from now on fails, once. Only where no other thread runs. */
void fail_ioctl(uint64_t nth, int error);
/* The module says of none of these features that it has them. */
void hide_features(uint64_t features);
/* So many nonces that nobody awaits come first, whoever reads; and how many of them are left. */
void flood_with_nonces(uint64_t count);
uint64_t flood_left(void);
/* The next socket cannot be had, once. */
void fail_socket(int error);

extern const struct CMUnitTest matrix_tests[], rules_tests[], limits_tests[], walk_tests[],
	faults_tests[], threads_tests[], open_tests[], netlink_tests[], records_tests[],
	kernel_tests[], engine_tests[];
extern const size_t matrix_count, rules_count, limits_count, walk_count, faults_count,
	threads_count, open_count, netlink_count, records_count, kernel_count_tests, engine_count;

#endif
