/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the arithmetic of budgets: see quota.h. No lock of its own. */
#include "ledger/quota.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "base/util.h"
#include "ledger/ledger.h"

/* "No limit" stays below this, so that a forced charge on top of a full budget cannot overflow. */
#define CEILING (1ull << 62)

static const char *const names[OTTE_BUDGETS] = {
	[OTTE_BUDGET_REGIONS] = "limits.regions",
	[OTTE_BUDGET_REGISTERED_BYTES] = "limits.registered_bytes",
	[OTTE_BUDGET_LOANS] = "limits.loans",
	[OTTE_BUDGET_LENT_BYTES] = "limits.lent_bytes",
	[OTTE_BUDGET_RETAINED_BYTES] = "limits.retained_bytes",
};

void otte_quota_init(struct otte_quota *quota, const struct otte_ledger_limits *limits)
{
	static const struct otte_ledger_limits none = { CEILING, CEILING, CEILING, CEILING,
							CEILING };

	if (!limits)
		limits = &none;
	*quota = (struct otte_quota){
		.limit = {
			[OTTE_BUDGET_REGIONS] = min_u64(limits->regions, CEILING),
			[OTTE_BUDGET_REGISTERED_BYTES] = min_u64(limits->registered_bytes, CEILING),
			[OTTE_BUDGET_LOANS] = min_u64(limits->loans, CEILING),
			[OTTE_BUDGET_LENT_BYTES] = min_u64(limits->lent_bytes, CEILING),
			[OTTE_BUDGET_RETAINED_BYTES] = min_u64(limits->retained_bytes, CEILING),
		},
	};
}

static int refuse(const struct otte_quota *quota, enum otte_budget budget, uint64_t amount)
{
	return otte_fail(-EDQUOT,
			 "%s: %" PRIu64 " of %" PRIu64 " charged, %" PRIu64 " more asked for",
			 names[budget], quota->used[budget], quota->limit[budget], amount);
}

int otte_quota_charge(struct otte_quota *quota, enum otte_budget budget, uint64_t amount)
{
	uint64_t limit = quota->limit[budget], used = quota->used[budget];

	if (used > limit || amount > limit - used)
		return refuse(quota, budget, amount);
	quota->used[budget] += amount;
	return 0;
}

void otte_quota_force(struct otte_quota *quota, enum otte_budget budget, uint64_t amount)
{
	quota->used[budget] += amount;
}

int otte_quota_check(const struct otte_quota *quota, enum otte_budget budget)
{
	return quota->used[budget] > quota->limit[budget] ? refuse(quota, budget, 0) : 0;
}

void otte_quota_release(struct otte_quota *quota, enum otte_budget budget, uint64_t amount)
{
	assert(quota->used[budget] >= amount);
	quota->used[budget] -= amount;
}
