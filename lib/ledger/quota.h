/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Budgets of a ledger: what is charged before use and refused by name when full. The caller holds
 * the ledger's lock around every call.
 */
#ifndef OTTE_LEDGER_QUOTA_H
#define OTTE_LEDGER_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

struct otte_ledger_limits;

enum otte_budget {
	OTTE_BUDGET_REGIONS,
	OTTE_BUDGET_REGISTERED_BYTES,
	OTTE_BUDGET_LOANS,
	OTTE_BUDGET_LENT_BYTES,
	OTTE_BUDGET_RETAINED_BYTES,
	OTTE_BUDGETS,
};

struct otte_quota {
	uint64_t limit[OTTE_BUDGETS];
	uint64_t used[OTTE_BUDGETS];
};

/* NULL: no limits. */
void otte_quota_init(struct otte_quota *quota, const struct otte_ledger_limits *limits);

/* 0, or -EDQUOT with the budget in the text and nothing charged. */
int otte_quota_charge(struct otte_quota *quota, enum otte_budget budget, uint64_t amount);

/* For what cannot be refused: the limit may be passed. */
void otte_quota_force(struct otte_quota *quota, enum otte_budget budget, uint64_t amount);

/* 0, or -EDQUOT with the budget in the text while more is charged than its limit. */
int otte_quota_check(const struct otte_quota *quota, enum otte_budget budget);

void otte_quota_release(struct otte_quota *quota, enum otte_budget budget, uint64_t amount);

#endif
