/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which plans of local copies the kernel takes, with how many CTAs, why not, and what is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "base/util.h"
#include "cuda/plan.h"
#include "cuda/policy.h"
#include "otte/otte.h"

static const struct otte_policy_means all = { .image = true, .room = true };

static struct otte_policy made(struct otte_policy_config config)
{
	struct otte_policy policy;

	assert_int_equal(otte_policy_init(&policy, &config), 0);
	return policy;
}

static struct otte_policy_config h200(void)
{
	struct otte_policy_config config;

	otte_policy_defaults(&config);
	config.multiprocessors = 132;
	config.max_grid_x = INT32_MAX;
	return config;
}

static struct otte_plan rows(uint32_t count, uint64_t bytes, bool to_host)
{
	return (struct otte_plan){ .to_host = to_host,
				   .mapped = true,
				   .row_count = count,
				   .run_count = count,
				   .op_count = count,
				   .bytes = count * bytes };
}

static void check(struct otte_policy_config config, struct otte_plan plan, unsigned int intent,
		  struct otte_policy_means means, struct otte_policy_choice expected)
{
	struct otte_policy policy = made(config);
	struct otte_policy_choice choice;

	assert_int_equal(otte_policy_choose(&policy, &plan, intent, &means, &choice), 0);
	assert_int_equal(choice.backend, expected.backend);
	assert_int_equal(choice.reason, expected.reason);
	assert_int_equal(choice.ctas, expected.ctas);
	assert_int_equal(choice.lanes, expected.lanes);
}

#define DMA(why) ((struct otte_policy_choice){ OTTE_COPY_BY_DMA, OTTE_COPY_##why, 0, 0 })
#define KERNEL(ctas) ((struct otte_policy_choice){ OTTE_COPY_BY_KERNEL, OTTE_COPY_NO_REASON, ctas, 32 })

static void the_kernel_begins_at_the_threshold_of_operations(void **state)
{
	struct otte_plan joined = rows(4096, 2048, false);
	unsigned int intent;

	(void)state;
	for (intent = 0; intent < OTTE_COPY_INTENTS; intent++) {
		check(h200(), rows(127, 2048, false), intent, all, DMA(BELOW_THRESHOLD));
		check(h200(), rows(128, 2048, false), intent, all, KERNEL(2));
		check(h200(), rows(127, 2048, true), intent, all, DMA(BELOW_THRESHOLD));
	}
	/* Operations and not rows. */
	joined.op_count = 1;
	check(h200(), joined, OTTE_INTENT_UNSPEC, all, DMA(BELOW_THRESHOLD));
	check(h200(), rows(0, 0, false), OTTE_INTENT_UNSPEC, all, (struct otte_policy_choice){ 0 });
}

static void copies_to_the_host_in_the_background_have_a_threshold_of_their_own(void **state)
{
	static const bool background[OTTE_COPY_INTENTS] = { [OTTE_INTENT_BACKGROUND_PREFETCH] = true,
							      [OTTE_INTENT_MIGRATION] = true,
							      [OTTE_INTENT_CHECKPOINT] = true };
	struct otte_policy_config config = h200();
	unsigned int intent;

	(void)state;
	for (intent = 0; intent < OTTE_COPY_INTENTS; intent++) {
		check(h200(), rows(4096, 2048, true), intent, all,
		      background[intent] ? DMA(BACKGROUND) : KERNEL(2));
		config.threshold_background = 1000;
		check(config, rows(999, 2048, true), intent, all, background[intent] ? DMA(BACKGROUND) : KERNEL(2));
		check(config, rows(1000, 2048, true), intent, all, KERNEL(2));
	}
}

static void what_is_missing_is_the_reason_or_the_failure(void **state)
{
	struct otte_policy_config forced = h200();
	struct otte_plan overlap = rows(200, 2048, false), alias = overlap, unmapped = overlap, fine = overlap;
	struct otte_policy_means no_image = { .room = true }, no_room = { .image = true };
	struct otte_policy_choice choice;
	struct otte_policy policy;

	(void)state;
	overlap.overlaps = true;
	alias.aliases = true;
	unmapped.mapped = false;
	check(h200(), overlap, 0, all, DMA(OVERLAP));
	check(h200(), alias, 0, all, DMA(OVERLAP));
	check(h200(), fine, 0, no_image, DMA(NO_IMAGE));
	check(h200(), unmapped, 0, all, DMA(NO_MAPPING));
	check(h200(), fine, 0, no_room, DMA(NO_ROOM));
	forced.mode = OTTE_COPY_KERNEL;
	policy = made(forced);
	assert_int_equal(otte_policy_choose(&policy, &overlap, 0, &all, &choice), -EINVAL);
	assert_int_equal(otte_policy_choose(&policy, &alias, 0, &all, &choice), -EINVAL);
	assert_int_equal(otte_policy_choose(&policy, &unmapped, 0, &all, &choice), -EINVAL);
	assert_int_equal(otte_policy_choose(&policy, &fine, 0, &no_image, &choice), -ENOSYS);
	assert_int_equal(otte_policy_choose(&policy, &fine, 0, &no_room, &choice), -EDQUOT);
}

static void a_forced_mode_asks_for_no_threshold(void **state)
{
	struct otte_policy_config config = h200();

	(void)state;
	config.mode = OTTE_COPY_KERNEL;
	check(config, rows(1, 100, false), 0, all, KERNEL(1));
	check(config, rows(4096, 256 * KIB, true), OTTE_INTENT_CHECKPOINT, all, KERNEL(2));
	config.mode = OTTE_COPY_DMA;
	check(config, rows(4096, 2048, false), 0, all, DMA(NO_REASON));
}

static void long_rows_are_the_drivers(void **state)
{
	struct otte_policy_table never = otte_policy_h200;
	struct otte_policy_config config = h200();

	(void)state;
	check(h200(), rows(4096, 384 * KIB - 1, false), 0, all, KERNEL(2));
	check(h200(), rows(4096, 384 * KIB, false), 0, all, DMA(LONG_ROWS));
	never.long_bytes = OTTE_COPY_NEVER;
	config.table = &never;
	check(config, rows(4096, GIB, false), 0, all, KERNEL(2));
}

static void ctas_are_the_tables_up_to_what_has_work(void **state)
{
	struct otte_policy_config config = h200();

	(void)state;
	check(h200(), rows(4096, 512, false), 0, all, KERNEL(8));
	check(h200(), rows(4096, 512, true), 0, all, KERNEL(4));
	check(h200(), rows(4096, 1024, false), 0, all, KERNEL(2));
	/* 32 warps a CTA, a row each. */
	check(h200(), rows(128, 512, false), 0, all, KERNEL(4));
	check(h200(), rows(129, 512, false), 0, all, KERNEL(5));
	config.cta_limit = 1;
	check(config, rows(4096, 512, false), 0, all, KERNEL(1));
	config.cta_limit = 4;
	check(config, rows(4096, 512, false), 0, all, KERNEL(4));
	check(config, rows(4096, 2048, false), 0, all, KERNEL(2));
}

static void the_wide_grid_is_four_a_multiprocessor_up_to_the_rows(void **state)
{
	struct otte_policy_config config = h200();

	(void)state;
	config.wide = true;
	check(config, rows(4096, 2048, false), 0, all, KERNEL(528));
	check(config, rows(527, 2048, false), 0, all, KERNEL(527));
	config.cta_limit = 100;
	check(config, rows(4096, 2048, false), 0, all, KERNEL(100));
	config.cta_limit = 0;
	config.max_grid_x = 77;
	check(config, rows(4096, 2048, false), 0, all, KERNEL(77));
}

static void a_config_that_cannot_be_is_refused(void **state)
{
	struct otte_policy_config config = h200();
	struct otte_policy policy;

	(void)state;
	config.cta_limit = 65535;
	assert_int_equal(otte_policy_init(&policy, &config), 0);
	config.cta_limit = 65536;
	assert_int_equal(otte_policy_init(&policy, &config), -ERANGE);
	config.cta_limit = 1001;
	config.max_grid_x = 1000;
	assert_int_equal(otte_policy_init(&policy, &config), -ERANGE);
	config = h200();
	config.threshold_background = 129;
	assert_int_equal(otte_policy_init(&policy, &config), 0);
	config.threshold_background = 128;
	assert_int_equal(otte_policy_init(&policy, &config), -EINVAL);
	config = h200();
	config.threshold = OTTE_COPY_NEVER;
	assert_int_equal(otte_policy_init(&policy, &config), -EINVAL);
	config = h200();
	config.mode = 3;
	assert_int_equal(otte_policy_init(&policy, &config), -EINVAL);
	config = h200();
	config.multiprocessors = 0;
	assert_int_equal(otte_policy_init(&policy, &config), -EINVAL);
}

static void each_class_counts_its_own(void **state)
{
	struct otte_policy policy = made(h200());
	struct otte_policy_choice kernel = KERNEL(8), dma = DMA(OVERLAP), nothing = { 0 };
	unsigned int to_host, intent, priority, which = 0;

	(void)state;
	for (to_host = 0; to_host < 2; to_host++) {
		for (intent = 0; intent < 7; intent++) {
			for (priority = 0; priority < 3; priority++) {
				unsigned int times = ++which;

				while (times--)
					assert_int_equal(otte_policy_admitted(&policy, to_host, intent, priority,
									      &kernel),
							 0);
			}
		}
	}
	assert_int_equal(which, OTTE_POLICY_CLASSES);
	assert_int_equal(policy.classes[0][0][0].kernel, 1);
	assert_int_equal(policy.classes[0][6][2].kernel, 21);
	assert_int_equal(policy.classes[1][6][2].kernel, 42);
	assert_int_equal(policy.classes[1][6][2].last_ctas, 8);
	assert_int_equal(policy.classes[1][6][2].last_backend, OTTE_COPY_BY_KERNEL);
	/* Decisions are no launches. */
	assert_int_equal(policy.classes[1][6][2].ctas, 0);
	otte_policy_launched(&policy, true, 6, 2, 8);
	otte_policy_launched(&policy, true, 6, 2, 4);
	assert_int_equal(policy.classes[1][6][2].ctas, 12);
	assert_int_equal(otte_policy_admitted(&policy, true, 6, 2, &dma), 0);
	otte_policy_batched(&policy, true, 6, 2);
	assert_int_equal(policy.classes[1][6][2].dma, 1);
	assert_int_equal(policy.classes[1][6][2].batches, 1);
	assert_int_equal(policy.classes[1][6][2].last_backend, OTTE_COPY_BY_DMA);
	assert_int_equal(policy.classes[1][6][2].last_reason, OTTE_COPY_OVERLAP);
	assert_int_equal(policy.classes[1][6][2].last_ctas, 0);
	assert_int_equal(otte_policy_admitted(&policy, true, 6, 2, &nothing), 0);
	assert_int_equal(policy.classes[1][6][2].empty, 1);
	assert_int_equal(policy.classes[1][6][2].last_reason, OTTE_COPY_NO_REASON);
	assert_int_equal(otte_policy_admitted(&policy, true, 7, 0, &dma), -EINVAL);
	assert_int_equal(otte_policy_admitted(&policy, true, 0, 3, &dma), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_begins_at_the_threshold_of_operations),
		cmocka_unit_test(copies_to_the_host_in_the_background_have_a_threshold_of_their_own),
		cmocka_unit_test(what_is_missing_is_the_reason_or_the_failure),
		cmocka_unit_test(a_forced_mode_asks_for_no_threshold),
		cmocka_unit_test(long_rows_are_the_drivers),
		cmocka_unit_test(ctas_are_the_tables_up_to_what_has_work),
		cmocka_unit_test(the_wide_grid_is_four_a_multiprocessor_up_to_the_rows),
		cmocka_unit_test(a_config_that_cannot_be_is_refused),
		cmocka_unit_test(each_class_counts_its_own),
	};

	return cmocka_run_group_tests_name("copy_policy", tests, NULL, NULL);
}
