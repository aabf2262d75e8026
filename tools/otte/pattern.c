/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "pattern.h"

#include <string.h>

#include "base/util.h"

/* A bijection for each seed, so words of two seeds agree nowhere by rule, and cheap to vectorise. */
static inline uint64_t word(uint64_t seed, uint64_t index)
{
	uint64_t x = (index + 1) * 0x9e3779b97f4a7c15ull ^ seed * 0xd1342543de82ef95ull;

	return x ^ x >> 29;
}

void pattern_fill(void *memory, uint64_t length, uint64_t seed)
{
	char *at = memory;
	uint64_t i, value;

	for (i = 0; i < length; i += sizeof(value)) {
		value = word(seed, i / sizeof(value));
		memcpy(at + i, &value, min_u64(sizeof(value), length - i));
	}
}

bool pattern_check(const void *memory, uint64_t length, uint64_t seed, uint64_t *where)
{
	const char *at = memory;
	uint64_t i, value;

	for (i = 0; i < length; i += sizeof(value)) {
		value = word(seed, i / sizeof(value));
		if (memcmp(at + i, &value, min_u64(sizeof(value), length - i))) {
			*where = i;
			return false;
		}
	}
	return true;
}
