/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/log_limit.h"

#include <stdatomic.h>

#include "base/clock.h"

bool otte_log_limit_admits(struct otte_log_limit *limit, uint64_t now_ns)
{
	if (now_ns >= limit->until_ns) {
		limit->until_ns = now_ns + NSEC_PER_SEC;
		limit->said = 0;
	}
	if (limit->said < OTTE_LOG_LIMIT_LINES) {
		limit->said++;
		return true;
	}
	limit->held++;
	return false;
}

uint32_t otte_log_limit_held(struct otte_log_limit *limit, uint64_t now_ns)
{
	uint32_t held = limit->held;

	if (now_ns < limit->until_ns)
		return 0;
	limit->held = 0;
	return held;
}

uint64_t otte_log_limit_due(const struct otte_log_limit *limit)
{
	return limit->held ? limit->until_ns : UINT64_MAX;
}

bool otte_log_second_admits(_Atomic uint64_t *said_ns, uint64_t now_ns)
{
	uint64_t said = atomic_load(said_ns);

	if (said && now_ns < said + NSEC_PER_SEC)
		return false;
	return atomic_compare_exchange_strong(said_ns, &said, now_ns);
}
