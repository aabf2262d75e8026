/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The history of memory-window keys: each rule, and drawn lives of windows of a provider that
 * behaves well or badly, against a bit for every key there is. SEED=N draws others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/util.h"
#include "otte/otte.h"
#include "transport/rdma/keys.h"

static uint64_t seed = 20261130;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 16) % below;
}

/* ---- Allocations: counted, and one that fails ---- */

static uint64_t allocated_bytes;
static unsigned allocations, fail_allocation;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	allocations++;
	allocated_bytes += count * size;
	if (fail_allocation && !--fail_allocation)
		return NULL;
	return __real_calloc(count, size);
}

/* ---- Rules ---- */

static struct otte_rdma_keys *create(uint32_t max_indices)
{
	struct otte_rdma_keys *keys;

	assert_int_equal(otte_rdma_keys_create(max_indices, &keys), 0);
	return keys;
}

static struct otte_rdma_key_index *admit(struct otte_rdma_keys *keys, uint32_t key)
{
	struct otte_rdma_key_index *index;

	assert_int_equal(otte_rdma_keys_admit(keys, key, &index), 0);
	return index;
}

static void refused(struct otte_rdma_keys *keys, uint32_t key, int code, const char *text)
{
	struct otte_rdma_keys_stats before, after;
	struct otte_rdma_key_index *index;

	otte_rdma_keys_stats(keys, &before);
	assert_int_equal(otte_rdma_keys_admit(keys, key, &index), code);
	assert_string_equal(otte_error_text(), text);
	otte_rdma_keys_stats(keys, &after);
	assert_memory_equal(&before, &after, sizeof(before));
}

static uint32_t grant(struct otte_rdma_keys *keys, struct otte_rdma_key_index *index)
{
	uint32_t key;

	assert_int_equal(otte_rdma_keys_grant(keys, index, &key), 0);
	return key;
}

static void is_parked(struct otte_rdma_keys *keys, struct otte_rdma_key_index *index)
{
	uint32_t key = 17;

	assert_int_equal(otte_rdma_keys_grant(keys, index, &key), -ENOSPC);
	assert_int_equal(key, 17);
}

static struct otte_rdma_keys_stats stats(const struct otte_rdma_keys *keys)
{
	struct otte_rdma_keys_stats now;

	otte_rdma_keys_stats(keys, &now);
	return now;
}

static void an_index_gives_255_grants_and_is_parked(void **state)
{
	static const uint32_t firsts[] = { 0x00000100, 0x012345fe, 0xffffffff, 0x0000007f };
	struct otte_rdma_keys *keys = create(OTTE_RDMA_KEY_INDICES);
	struct otte_rdma_key_index *index;
	unsigned i, n;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(firsts); i++) {
		index = admit(keys, firsts[i]);
		for (n = 1; n < 256; n++) {
			assert_int_equal(stats(keys).parked, i);
			assert_int_equal(grant(keys, index),
					 (firsts[i] & ~0xffu) | ((firsts[i] + n) & 0xff));
		}
		is_parked(keys, index);
		assert_int_equal(stats(keys).parked, i + 1);
		assert_int_equal(stats(keys).grants, 255 * (i + 1));
	}
	assert_int_equal(stats(keys).indices, 4);
	assert_int_equal(stats(keys).live, 4);
	otte_rdma_keys_destroy(keys);
}

static void an_index_that_comes_back_gives_what_is_left(void **state)
{
	struct otte_rdma_keys *keys = create(OTTE_RDMA_KEY_INDICES);
	struct otte_rdma_key_index *index = admit(keys, 0x4210);
	unsigned n;

	(void)state;
	for (n = 1; n <= 10; n++)
		assert_int_equal(grant(keys, index), 0x4210 + n);
	otte_rdma_keys_retire(keys, index);
	assert_int_equal(stats(keys).live, 0);
	index = admit(keys, 0x42fe);
	assert_int_equal(grant(keys, index), 0x42ff);
	for (n = 0; n < 0x10; n++)
		assert_int_equal(grant(keys, index), 0x4200 + n);
	/* Over what was granted before. */
	for (n = 0x1b; n < 0xfe; n++)
		assert_int_equal(grant(keys, index), 0x4200 + n);
	is_parked(keys, index);
	assert_int_equal(stats(keys).indices, 1);
	/* With no byte left but the one it came with. */
	index = admit(keys, 0x7700);
	for (n = 1; n < 255; n++)
		grant(keys, index);
	otte_rdma_keys_retire(keys, index);
	index = admit(keys, 0x77ff);
	is_parked(keys, index);
	assert_int_equal(stats(keys).parked, 2);
	otte_rdma_keys_destroy(keys);
}

static void a_key_that_comes_twice_is_refused_and_never_granted(void **state)
{
	struct otte_rdma_keys *keys = create(OTTE_RDMA_KEY_INDICES);
	struct otte_rdma_key_index *index = admit(keys, 0x4210);

	(void)state;
	refused(keys, 0x4210, -EEXIST,
		"the provider gave key 0x00004210, of a window that is in use");
	refused(keys, 0x4277, -EEXIST,
		"the provider gave key 0x00004277, of a window that is in use");
	assert_int_equal(grant(keys, index), 0x4211);
	otte_rdma_keys_retire(keys, index);
	/* As the provider gave it, and as it was granted. */
	refused(keys, 0x4210, -EEXIST, "the provider gave key 0x00004210, which was in use before");
	refused(keys, 0x4211, -EEXIST, "the provider gave key 0x00004211, which was in use before");
	index = admit(keys, 0x4212);
	assert_int_equal(grant(keys, index), 0x4213);
	otte_rdma_keys_destroy(keys);
}

static void indices_are_bounded_and_the_bound_is_named(void **state)
{
	struct otte_rdma_keys *keys = create(3), *none = create(0);
	struct otte_rdma_key_index *index[3];
	unsigned i;

	(void)state;
	for (i = 0; i < 3; i++)
		index[i] = admit(keys, i << 8);
	refused(keys, 3 << 8, -EDQUOT, "rdma.key_indices (3) are all used up");
	/* What is retired or parked is not forgotten, and what is known can come back. */
	otte_rdma_keys_retire(keys, index[1]);
	refused(keys, 3 << 8, -EDQUOT, "rdma.key_indices (3) are all used up");
	assert_ptr_equal(admit(keys, 1 << 8 | 1), index[1]);
	assert_int_equal(grant(keys, index[2]), 0x201);
	refused(none, 0, -EDQUOT, "rdma.key_indices (0) are all used up");
	otte_rdma_keys_destroy(none);
	otte_rdma_keys_destroy(keys);
	otte_rdma_keys_destroy(NULL);
}

static void memory_is_taken_once_and_is_as_much_as_stated(void **state)
{
	struct otte_rdma_keys *keys;
	uint32_t i, key;

	(void)state;
	allocated_bytes = 0;
	keys = create(OTTE_RDMA_KEY_INDICES);
	assert_in_range(allocated_bytes, 3 * MIB, 3 * MIB + 4096);
	allocations = 0;
	/* As a provider may number them: one by one, or in large steps. */
	for (i = 0; i < OTTE_RDMA_KEY_INDICES; i++) {
		key = (i % 2 ? i : i * 200) << 8;
		assert_int_equal(grant(keys, admit(keys, key)), key + 1);
	}
	assert_int_equal(stats(keys).indices, OTTE_RDMA_KEY_INDICES);
	refused(keys, 0xffffff00, -EDQUOT, "rdma.key_indices (65536) are all used up");
	assert_int_equal(allocations, 0);
	otte_rdma_keys_destroy(keys);
}

static void without_memory_there_is_no_history(void **state)
{
	struct otte_rdma_keys *keys;
	unsigned n;

	(void)state;
	for (n = 1; n <= 3; n++) {
		fail_allocation = n;
		assert_int_equal(otte_rdma_keys_create(8, &keys), -ENOMEM);
	}
	fail_allocation = 0;
}

/* ---- Against a bit for every key ---- */

#define INDICES 300 /* that the provider uses */
#define BOUND 280
#define STEPS 400000
#define INDEX_BASE 0xfffe00u

struct provider {
	struct otte_rdma_key_index *index[INDICES]; /* of its window; NULL: none */
	bool known[INDICES];
	bool handed_out[INDICES][256];
	unsigned left[INDICES];
	uint32_t indices;
	unsigned twice, full, parked, granted;
};

static void allocate(struct provider *p, struct otte_rdma_keys *keys, unsigned i)
{
	uint8_t byte = (uint8_t)draw(256);
	uint32_t key = (INDEX_BASE + i) << 8 | byte;
	struct otte_rdma_key_index *index;
	int expected = 0;

	if (p->index[i] || p->handed_out[i][byte])
		expected = -EEXIST;
	else if (!p->known[i] && p->indices == BOUND)
		expected = -EDQUOT;
	assert_int_equal(otte_rdma_keys_admit(keys, key, &index), expected);
	p->twice += expected == -EEXIST;
	p->full += expected == -EDQUOT;
	if (expected)
		return;
	if (!p->known[i]) {
		p->known[i] = true;
		p->indices++;
		p->left[i] = 256;
	}
	p->handed_out[i][byte] = true;
	p->left[i]--;
	p->index[i] = index;
}

static void grant_from(struct provider *p, struct otte_rdma_keys *keys, unsigned i)
{
	uint32_t key = 0;
	int ret = otte_rdma_keys_grant(keys, p->index[i], &key);

	if (!p->left[i]) {
		assert_int_equal(ret, -ENOSPC);
		p->parked++;
		return;
	}
	assert_int_equal(ret, 0);
	assert_int_equal(key >> 8, INDEX_BASE + i);
	assert_false(p->handed_out[i][key & 0xff]);
	p->handed_out[i][key & 0xff] = true;
	p->left[i]--;
	p->granted++;
}

static void drawn_lives_of_windows_never_repeat_a_key(void **state)
{
	static struct provider provider;
	struct otte_rdma_keys *keys = create(BOUND);
	struct provider *p = &provider;
	unsigned n, i;

	(void)state;
	for (n = 0; n < STEPS; n++) {
		i = (unsigned)draw(INDICES);
		if (!p->index[i] || !draw(50)) {
			allocate(p, keys, i);
		} else if (draw(20)) {
			grant_from(p, keys, i);
		} else {
			otte_rdma_keys_retire(keys, p->index[i]);
			p->index[i] = NULL;
		}
	}
	assert_int_equal(stats(keys).grants, p->granted);
	assert_int_equal(stats(keys).indices, BOUND);
	assert_true(p->twice > 1000 && p->full > 1000 && p->parked > 1000 && p->granted > 50000);
	otte_rdma_keys_destroy(keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_index_gives_255_grants_and_is_parked),
		cmocka_unit_test(an_index_that_comes_back_gives_what_is_left),
		cmocka_unit_test(a_key_that_comes_twice_is_refused_and_never_granted),
		cmocka_unit_test(indices_are_bounded_and_the_bound_is_named),
		cmocka_unit_test(memory_is_taken_once_and_is_as_much_as_stated),
		cmocka_unit_test(without_memory_there_is_no_history),
		cmocka_unit_test(drawn_lives_of_windows_never_repeat_a_key),
	};
	const char *given = getenv("SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	printf("seed %lu\n", (unsigned long)seed);
	return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
