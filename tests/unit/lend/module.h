/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The module as far as it attests and lends: engines of this program share one process ledger, whose clients can borrow
 * from each other as from the real one.
 */
#ifndef OTTE_TESTS_LEND_MODULE_H
#define OTTE_TESTS_LEND_MODULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the module does next, and what it was asked. */
struct script {
	/* Before each copy; `copied` are those that moved bytes, `looked` those that moved none. */
	void (*_Atomic before)(void *arg);
	void *_Atomic arg;
	_Atomic unsigned copied, looked, mapped, mapped_tables;
	_Atomic unsigned in_vain; /* loans to be ended that were unknown: a look at all */
	_Atomic bool refuses; /* offers, for want of quota */
	_Atomic bool drains;  /* a revoked loan has a copy in the midst of a chunk while this is set */
	_Atomic bool forgetful; /* nobody is told anything any more */
	_Atomic bool old;     /* engines that are made now know of no lanes for loans */
	_Atomic uint32_t user; /* of every client, as it is attested */
	_Atomic uint64_t client; /* that engines made now are attested as; 0: their own */
	_Atomic uint64_t unwelcome; /* the lender that was last said to be welcome no more */
	_Atomic bool refuses_pins; /* of tables of uses, for want of locked memory */
	_Atomic bool refuses_tables; /* offers of tables of uses, for want of quota */
	_Atomic bool refuses_memory; /* and of what they are of */
	_Atomic bool refuses_lenders; /* no place for one more that is welcome */
	_Atomic bool keeps_rights; /* lenders can revoke what they lend to be mapped, too */
	/* An offer to a local client, of a table of uses or of memory, is there for its borrower to accept. */
	void (*_Atomic offered)(void *arg, uint64_t loan, bool table);
	void *_Atomic offered_arg;
	/* Whether a call fails, for want of memory. May be NULL. */
	bool (*_Atomic fails)(const char *call);
};

extern struct script script;

/* From the next engines on requesters speak over lanes of frames; sources lend memory that can be shared. */
extern bool module_framed;
/* There is none: engines have the ledger of their config. */
extern bool module_absent;

void module_reset(void);
/* Of the region that was added last and is to be lent. */
void module_unmap(void);
void module_suspect(void);
/* Loans of tables of uses that live. */
unsigned module_tables(void);
/* Takes them away, as an administrator does once their lender is dead: who touches one now is dead as well. */
void module_release_tables(void);
/* Loans to local clients that live, those of tables too; `kept`: and those that their borrowers failed to settle. */
unsigned module_loans(bool kept);
/* Takes every loan to local clients away. */
void module_revoke_all(void);

#endif
