/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the module must show, from what a test did, and what `ottectl --json` and the usage files say.
 *
 * The log knows of processes that each have one client with one region of `bytes`, of how many loans of
 * it there are, and which of them have died: a region that was lent stays as one record, with its loans,
 * until an administrator releases it; all else of the dead is gone. What was borrowed of the module
 * ("local.pinned=true" is among the keys) comes back in any case: receipts, or the end of its borrower,
 * free it, and nothing stays; beside it the table of its uses is a region, with a loan for each. NICs
 * ("rdma.enabled=true") reach what was lent for one request each: how much of it the dead have left is for the
 * module to say. Without the module (the keys do not say ledger=kernel) nothing is done.
 */
#ifndef OTTE_TESTS_WITNESS_H
#define OTTE_TESTS_WITNESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WITNESS_MAX 512

struct witness {
	bool on, borrowed, by_request;
	uint64_t bytes;
	unsigned count, checks;
	struct witness_entry {
		pid_t pid;
		unsigned loans;
		uint64_t left_bytes; /* by_request, dead: what they are of */
		bool dead;
	} entries[WITNESS_MAX];
};

void witness_open(struct witness *witness, const char *keys, uint64_t bytes);
void witness_born(struct witness *witness, pid_t pid);
void witness_lends(struct witness *witness, pid_t pid, unsigned loans);
void witness_died(struct witness *witness, pid_t pid);
unsigned witness_records(const struct witness *witness);
/* The administrator releases every record. */
void witness_release(struct witness *witness);
/* The module comes to show exactly this; and more records than there are to be it never shows. */
void witness_check(struct witness *witness, const char *when);

#endif
