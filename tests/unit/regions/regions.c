/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Many regions. `regions bench` (make bench-regions) also times the rounds: the medians of the last ten
 * and of the first ten differ by less than half.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/region.h"
#include "otte/otte.h"
#include "seen.h"

#define SECOND 1000000000ll
#define MANY 10000
#define PAGE 4096
/* In bytes that the process has allocated; what a table keeps for later is below it. */
#define SLACK (64 << 10)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 5
#define COUNTS_MEMORY 0 /* mallinfo2() sees nothing of theirs */
#else
#define ROUNDS 100
#define COUNTS_MEMORY 1
#endif

static struct otte_region *regions[MANY];
static struct otte_region_desc descs[MANY];

static struct otte_engine *make_engine(void (*adjust)(struct otte_config *config))
{
	struct otte_config config;
	struct otte_engine *engine;

	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	config.stats_socket = 0;
	if (adjust)
		adjust(&config);
	assert_int_equal(otte_engine_create(&config, &engine), 0);
	return engine;
}

static void fill_descs(struct otte_mem *mem, uint32_t access)
{
	size_t i;

	for (i = 0; i < MANY; i++)
		descs[i] = (struct otte_region_desc){
			.mem = mem, .offset = i * PAGE, .length = PAGE, .access = access,
			.name = i % 2 ? "odd" : NULL,
		};
}

static struct otte_stats stats_of(struct otte_engine *engine)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	assert_int_equal(otte_engine_stats(engine, &stats), 0);
	return stats;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* One round; `regions` in the order that `backwards` says when they are given back. */
static double one_round(struct otte_engine *engine, bool backwards)
{
	double start = seconds();
	size_t i;

	assert_int_equal(otte_region_register(engine, descs, MANY, regions), 0);
	assert_int_equal(stats_of(engine).regions, MANY);
	for (i = 0; backwards && i < MANY / 2; i++) {
		struct otte_region *swap = regions[i];

		regions[i] = regions[MANY - 1 - i];
		regions[MANY - 1 - i] = swap;
	}
	assert_int_equal(otte_region_unregister(regions, MANY, SECOND, NULL), 0);
	assert_int_equal(stats_of(engine).regions, 0);
	assert_int_equal(stats_of(engine).registered_bytes, 0);
	return seconds() - start;
}

static void ten_thousand_regions_come_and_go_and_leave_nothing(void **state)
{
	struct otte_engine *engine = make_engine(NULL);
	size_t early = 0, late;
	struct otte_mem *mem;
	int i;

	(void)state;
	assert_int_equal(otte_mem_alloc(engine, (uint64_t)MANY * PAGE, 0, &mem), 0);
	fill_descs(mem, OTTE_REMOTE_READ);
	for (i = 0; i < ROUNDS; i++) {
		one_round(engine, i % 2);
		if (i == 1)
			early = mallinfo2().uordblks;
	}
	late = mallinfo2().uordblks;
	if (COUNTS_MEMORY)
		assert_true(late < early + SLACK);
	assert_int_equal(otte_mem_release(mem), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

static int by_time(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static double median_of_ten(double *times)
{
	qsort(times, 10, sizeof(*times), by_time);
	return (times[4] + times[5]) / 2;
}

static void the_last_rounds_cost_what_the_first_ones_did(void **state)
{
	struct otte_engine *engine = make_engine(NULL);
	double times[100], first, last;
	struct otte_mem *mem;
	int i;

	(void)state;
	assert_int_equal(otte_mem_alloc(engine, (uint64_t)MANY * PAGE, 0, &mem), 0);
	fill_descs(mem, OTTE_REMOTE_READ);
	for (i = 0; i < 100; i++)
		times[i] = one_round(engine, i % 2);
	first = median_of_ten(times);
	last = median_of_ten(times + 90);
	printf("%d regions registered and unregistered, CPU time of a round: first ten %.2f ms, "
	       "last ten %.2f ms (medians), ratio %.2f\n", MANY, first * 1e3, last * 1e3, last / first);
	assert_true(last / first <= 1.5);
	assert_int_equal(otte_mem_release(mem), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

static void what_stands_twice_in_a_list_is_dropped_once(void **state)
{
	struct otte_engine *engine = make_engine(NULL);
	struct otte_region *twice[2], *list[7];
	struct otte_region_desc same[2];
	struct otte_mem *mem;
	size_t pending = 99;

	(void)state;
	assert_int_equal(otte_mem_alloc(engine, PAGE, 0, &mem), 0);
	same[0] = same[1] = (struct otte_region_desc){ .mem = mem, .length = PAGE };
	assert_int_equal(otte_region_register(engine, same, 2, twice), 0);
	assert_ptr_not_equal(twice[0], twice[1]);
	assert_int_not_equal(otte_region_id(twice[0]), otte_region_id(twice[1]));
	assert_int_equal(otte_mem_release(mem), -EBUSY);
	list[0] = list[3] = list[6] = twice[0];
	list[1] = list[2] = twice[1];
	list[4] = list[5] = NULL;
	assert_int_equal(otte_region_unregister(list, 7, SECOND, &pending), 0);
	assert_int_equal(pending, 0);
	assert_int_equal(stats_of(engine).regions, 0);
	assert_int_equal(otte_mem_release(mem), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

static void room_for_five(struct otte_config *config)
{
	config->max_regions = 5;
}

static void room_for_ten_pages(struct otte_config *config)
{
	config->max_registered_bytes = 10 * PAGE;
}

static void a_full_budget_names_itself_and_takes_nothing(void **state)
{
	struct otte_engine *engine = make_engine(room_for_five);
	struct otte_mem *mem;

	(void)state;
	assert_int_equal(otte_mem_alloc(engine, (uint64_t)MANY * PAGE, 0, &mem), 0);
	fill_descs(mem, OTTE_REMOTE_READ);
	memset(regions, 0, sizeof(regions));
	assert_int_equal(otte_region_register(engine, descs, 6, regions), -EDQUOT);
	assert_non_null(strstr(otte_error_text(), "limits.regions"));
	assert_int_equal(stats_of(engine).regions, 0);
	/* Nothing of it is left to be dropped. */
	assert_int_equal(otte_region_unregister(regions, 6, SECOND, NULL), 0);
	assert_int_equal(otte_region_register(engine, descs, 3, regions), 0);
	assert_int_equal(otte_region_register(engine, descs, 3, regions + 3), -EDQUOT);
	assert_int_equal(otte_region_register(engine, descs, 2, regions + 3), 0);
	assert_int_equal(otte_region_register(engine, descs, 1, regions + 5), -EDQUOT);
	assert_int_equal(otte_region_unregister(regions + 4, 1, SECOND, NULL), 0);
	assert_int_equal(otte_region_register(engine, descs, 1, regions + 4), 0);
	assert_int_equal(otte_region_unregister(regions, 5, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(mem), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);

	engine = make_engine(room_for_ten_pages);
	assert_int_equal(otte_mem_alloc(engine, (uint64_t)MANY * PAGE, 0, &mem), 0);
	fill_descs(mem, OTTE_REMOTE_READ);
	assert_int_equal(otte_region_register(engine, descs, 11, regions), -EDQUOT);
	assert_non_null(strstr(otte_error_text(), "limits.registered_bytes"));
	assert_int_equal(stats_of(engine).registered_bytes, 0);
	assert_int_equal(otte_region_register(engine, descs, 10, regions), 0);
	assert_int_equal(otte_region_unregister(regions, 10, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(mem), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

static void a_name_of_any_bytes_is_described_so_that_it_can_be_had_back(void **state)
{
	struct otte_engine *source = make_engine(NULL), *user = make_engine(NULL);
	struct otte_region_desc desc = { .length = PAGE, .access = OTTE_REMOTE_READ };
	char address[OTTE_ADDRESS_MAX], name[OTTE_NAME_MAX] = "";
	struct otte_region_info row;
	struct otte_segment *segment;
	struct otte_region *region;
	size_t count;

	(void)state;
	assert_int_equal(otte_mem_alloc(source, PAGE, 0, &desc.mem), 0);
	assert_int_equal(otte_engine_address(source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(user, address, OTTE_EPOCH_ANY, 30 * SECOND, &segment), 0);
	desc.name = "y\xc3\xa9\xff\n\\x0ab\\";
	assert_int_equal(otte_region_register(source, &desc, 1, &region), 0);
	assert_int_equal(otte_segment_describe(segment, 30 * SECOND, &row, 1, &count), 0);
	assert_string_equal(row.name, "y\xc3\xa9\\xff\\x0a\\x5cx0ab\\");
	assert_int_equal(otte_region_unregister(&region, 1, 5 * SECOND, NULL), 0);

	/* 15 bytes become 60, 16 one more than there is room for. */
	desc.name = memset(name, 0xff, 15);
	assert_int_equal(otte_region_register(source, &desc, 1, &region), 0);
	assert_int_equal(otte_segment_describe(segment, 30 * SECOND, &row, 1, &count), 0);
	assert_int_equal(strlen(row.name), 60);
	assert_int_equal(otte_region_unregister(&region, 1, 5 * SECOND, NULL), 0);
	desc.name = memset(name, 0xff, 16);
	assert_int_equal(otte_region_register(source, &desc, 1, &region), -EINVAL);
	assert_string_equal(otte_error_text(), "view 0: the name has 64 bytes where unprintable ones are"
			    " \"\\xNN\", allowed are 63");

	assert_int_equal(otte_segment_close(segment), 0);
	assert_int_equal(otte_mem_release(desc.mem), 0);
	assert_int_equal(otte_engine_destroy(user), 0);
	assert_int_equal(otte_engine_destroy(source), 0);
}

static void ten_thousand_regions_are_described_in_the_order_of_their_ids(void **state)
{
	static struct otte_region_info rows[MANY];
	struct otte_engine *source = make_engine(NULL), *user = make_engine(NULL);
	struct otte_region_desc hidden = { .length = PAGE };
	char address[OTTE_ADDRESS_MAX];
	struct otte_segment *segment;
	struct otte_region *local_only;
	struct otte_mem *mem;
	size_t i, count = 0;

	(void)state;
	assert_int_equal(otte_mem_alloc(source, (uint64_t)MANY * PAGE, 0, &mem), 0);
	fill_descs(mem, OTTE_REMOTE_READ);
	hidden.mem = mem;
	assert_int_equal(otte_region_register(source, descs, MANY / 2, regions), 0);
	assert_int_equal(otte_region_register(source, &hidden, 1, &local_only), 0);
	assert_int_equal(otte_region_register(source, descs + MANY / 2, MANY / 2,
					      regions + MANY / 2), 0);
	assert_int_equal(otte_engine_address(source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(user, address, OTTE_EPOCH_ANY, 30 * SECOND, &segment), 0);

	assert_int_equal(otte_segment_describe(segment, 30 * SECOND, rows, MANY, &count), 0);
	assert_int_equal(count, MANY);
	for (i = 0; i < MANY; i++) {
		assert_int_equal(rows[i].id, otte_region_id(regions[i]));
		assert_true(i == 0 || rows[i].id > rows[i - 1].id);
		assert_int_equal(rows[i].length, PAGE);
		assert_int_equal(rows[i].address, (uintptr_t)otte_mem_address(mem) + i * PAGE);
		assert_int_equal(rows[i].access, OTTE_REMOTE_READ);
		assert_string_equal(rows[i].name, i % 2 ? "odd" : "");
		assert_int_not_equal(rows[i].id, otte_region_id(local_only));
	}
	/* Less room than rows: the count is still the whole, and nothing is written past the room. */
	memset(rows, 0, sizeof(rows));
	assert_int_equal(otte_segment_describe(segment, 30 * SECOND, rows, 10, &count), 0);
	assert_int_equal(count, MANY);
	assert_int_not_equal(rows[9].id, 0);
	assert_int_equal(rows[10].id, 0);
	assert_int_equal(otte_segment_describe(segment, 30 * SECOND, NULL, 0, &count), 0);
	assert_int_equal(count, MANY);

	assert_int_equal(otte_region_unregister(regions, MANY - 1, 5 * SECOND, NULL), 0);
	assert_int_equal(otte_segment_describe(segment, 30 * SECOND, rows, MANY, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(rows[0].id, otte_region_id(regions[MANY - 1]));
	assert_int_equal(otte_region_unregister(&local_only, 1, SECOND, NULL), 0);
	assert_int_equal(otte_region_unregister(&regions[MANY - 1], 1, SECOND, NULL), 0);
	assert_int_equal(otte_segment_describe(segment, 30 * SECOND, rows, MANY, &count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(otte_segment_close(segment), 0);
	assert_int_equal(otte_mem_release(mem), 0);
	assert_int_equal(otte_engine_destroy(user), 0);
	assert_int_equal(otte_engine_destroy(source), 0);
}

#define ASKED 100000

struct asker {
	struct otte_region *region;
	_Atomic bool stop;
	_Atomic unsigned asked, let_in;
};

static void *ask_for_a_use(void *arg)
{
	struct asker *asker = arg;

	while (!atomic_load(&asker->stop)) {
		if (otte_region_use(asker->region) != -ENOENT)
			atomic_fetch_add(&asker->let_in, 1);
		atomic_fetch_add(&asker->asked, 1);
	}
	return NULL;
}

/* Whoever waits for the last use would otherwise see one more now and then, and give up before its time. */
static void who_is_refused_a_region_never_counts_as_its_user(void **state)
{
	struct otte_region_desc desc = { .length = PAGE };
	struct otte_engine *engine = make_engine(NULL);
	struct asker asker = { .stop = false };
	struct otte_mem *mem;
	pthread_t threads[2];
	unsigned i;
	uint64_t other = 0;

	(void)state;
	assert_int_equal(otte_mem_alloc(engine, PAGE, 0, &mem), 0);
	desc.mem = mem;
	assert_int_equal(otte_region_register(engine, &desc, 1, &asker.region), 0);
	assert_int_equal(otte_region_use(asker.region), 0);
	assert_int_equal(otte_region_unregister(&asker.region, 1, 0, NULL), -ETIMEDOUT);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_for_a_use, &asker), 0);
	while (atomic_load(&asker.asked) < ASKED)
		other += atomic_load(&asker.region->uses) != (OTTE_REGION_HIDDEN | 1);
	atomic_store(&asker.stop, true);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(asker.let_in, 0);
	assert_int_equal(other, 0);
	otte_region_unuse(asker.region);
	assert_int_equal(otte_region_unregister(&asker.region, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(mem), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

/* As the module answers where part of a range is not mapped. */
static int region_add_over_a_hole(struct otte_ledger_client *client, const struct otte_region_claim *claim,
				  uint64_t *id)
{
	(void)client;
	(void)id;
	assert_int_equal(claim->backing, OTTE_BACKING_PAGES);
	return otte_fail(-EFAULT, "a page is not mapped");
}

static void what_cannot_be_pinned_is_no_region(void **state)
{
	struct otte_region_desc desc = { .length = PAGE, .access = OTTE_REMOTE_READ,
					 .flags = OTTE_REGION_PINNED };
	struct otte_engine *engine = make_engine(NULL);
	const struct otte_ledger_ops *real = engine->ledger->ops;
	struct otte_ledger_ops ops = *real;
	struct otte_region *region;

	(void)state;
	assert_int_equal(otte_mem_alloc(engine, PAGE, 0, &desc.mem), 0);
	assert_int_equal(otte_region_register(engine, &desc, 1, &region), -EOPNOTSUPP);
	assert_non_null(strstr(otte_error_text(), "OTTE_REGION_PINNED or local.pinned needs the module"));
	ops.region_add = region_add_over_a_hole;
	engine->ledger->ops = &ops;
	assert_int_equal(otte_region_register(engine, &desc, 1, &region), -EFAULT);
	assert_string_equal(otte_error_text(), "a page is not mapped");
	engine->ledger->ops = real;
	assert_int_equal(otte_mem_release(desc.mem), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

/* By whoever it was lent: 0 says that nobody reaches the memory any more. */
static void what_the_ledger_still_lends_is_not_gone(void **state)
{
	struct otte_region_desc desc = { .length = PAGE, .access = OTTE_REMOTE_READ };
	struct otte_loan_terms terms = {
		.length = PAGE, .right = OTTE_LOAN_READ, .borrower = { .incarnation = { 1 }, .epoch = 1 },
	};
	struct otte_engine *engine = make_engine(NULL);
	const struct otte_ledger_ops *ops = engine->ledger->ops;
	struct otte_region *region;
	struct otte_mem *mem;
	size_t pending = 99;
	uint64_t loan;

	(void)state;
	assert_int_equal(otte_mem_alloc(engine, PAGE, 0, &mem), 0);
	desc.mem = mem;
	assert_int_equal(otte_region_register(engine, &desc, 1, &region), 0);
	terms.region = otte_region_id(region);
	assert_int_equal(ops->loan_offer(engine->client, &terms, &loan), 0);
	assert_int_equal(ops->loan_expose(engine->client, loan), 0);
	assert_int_equal(otte_region_unregister(&region, 1, 0, &pending), -ETIMEDOUT);
	assert_int_equal(pending, 1);
	assert_int_equal(otte_region_unregister(&region, 1, SECOND / 20, &pending), -ETIMEDOUT);
	assert_int_equal(pending, 1);
	assert_int_equal(otte_mem_release(mem), -EBUSY);
	assert_int_equal(ops->loan_settle(engine->client, loan, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(otte_region_unregister(&region, 1, SECOND, &pending), 0);
	assert_int_equal(pending, 0);
	assert_int_equal(otte_mem_release(mem), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_thousand_regions_come_and_go_and_leave_nothing),
		cmocka_unit_test(what_stands_twice_in_a_list_is_dropped_once),
		cmocka_unit_test(a_full_budget_names_itself_and_takes_nothing),
		cmocka_unit_test(a_name_of_any_bytes_is_described_so_that_it_can_be_had_back),
		cmocka_unit_test(ten_thousand_regions_are_described_in_the_order_of_their_ids),
		cmocka_unit_test(who_is_refused_a_region_never_counts_as_its_user),
		cmocka_unit_test(what_cannot_be_pinned_is_no_region),
		cmocka_unit_test(what_the_ledger_still_lends_is_not_gone),
	};
	const struct CMUnitTest bench[] = {
		cmocka_unit_test(the_last_rounds_cost_what_the_first_ones_did),
	};

	if (argc == 2 && !strcmp(argv[1], "bench"))
		return cmocka_run_group_tests_name("regions", bench, NULL, NULL);
	return cmocka_run_group_tests_name("regions", tests, NULL, NULL);
}
