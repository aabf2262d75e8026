/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What it costs that a verdict follows a READ (control/wire.h): the same READs over loopback with and without, in
 * turn. The word that is looked at is this program's, since the module need not be there.
 */
#include "guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/clock.h"
#include "engine/region.h"
#include "pair.h"

#define ROUNDS 21u
#define LARGEST (1u << 20)

static const _Atomic uint64_t word = 1;

static const struct {
	unsigned length, reads;
} sizes[] = { { 4096, 3000 }, { 65536, 2000 }, { LARGEST, 300 } };

static double round_of(struct pair *pair, unsigned length, unsigned reads, bool guarded)
{
	const struct otte_request request = pair_request(pair, OTTE_READ, 0, 0, length);
	uint64_t began_ns;
	unsigned i;

	pair->remote->watch = (struct otte_region_watch){
		.word = &word,
		.mask = guarded ? 5 : 0,
		.fresh = guarded ? 1 : 0,
	};
	began_ns = otte_now_ns();
	for (i = 0; i < reads; i++)
		if (otte_batch_run(pair->batch, &request, 1, -1))
			fail_msg("%s", otte_error_text());
	return (double)(otte_now_ns() - began_ns) / reads / 1000;
}

static int by_size(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

int guard_bench(void)
{
	double took[2][ROUNDS];
	struct pair pair;
	unsigned round;
	size_t i;

	pair_open(&pair, LARGEST, NULL);
	pair.remote_mem->kind = OTTE_MEM_ADOPTED;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (round = 0; round < 2 * ROUNDS; round++)
			took[round % 2][round / 2] =
				round_of(&pair, sizes[i].length, sizes[i].reads, round % 2);
		qsort(took[0], ROUNDS, sizeof(double), by_size);
		qsort(took[1], ROUNDS, sizeof(double), by_size);
		printf("%7u bytes: %7.2f us, with a verdict %7.2f us: %.3f (of the least: %.3f)\n",
		       sizes[i].length, took[0][ROUNDS / 2], took[1][ROUNDS / 2],
		       took[1][ROUNDS / 2] / took[0][ROUNDS / 2], took[1][0] / took[0][0]);
	}
	pair.remote->watch = (struct otte_region_watch){ .mask = 0 };
	pair.remote_mem->kind = OTTE_MEM_OWNED;
	pair_close(&pair);
	return 0;
}
