/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* PDs and MRs: which can be had, what their keys are, and what is refused its end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ends.h"
#include "suites.h"

static void refused(void *at, size_t length, int access, int error)
{
	errno = 0;
	assert_null(here.verbs->reg_mr(here.pd, at, length, access));
	assert_int_equal(errno, error);
	assert_int_equal(sim_counts(here.device).mrs, 2);
}

static void only_rights_that_go_together_are_registered(void **state)
{
	(void)state;
	refused(here.bytes, 10, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	refused(here.bytes, 10, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
	refused(here.bytes, 10, IBV_ACCESS_ON_DEMAND, EINVAL);
	refused(here.bytes, 10, IBV_ACCESS_ZERO_BASED, EINVAL);
	refused(here.bytes, 0, 0, EINVAL);
	refused(here.bytes, SIZE_MAX, 0, EINVAL);
}

static void what_a_provider_may_pass_over_is_no_error(void **state)
{
	struct ibv_mr *mr =
		here.verbs->reg_mr(here.pd, here.bytes, 10, IBV_ACCESS_RELAXED_ORDERING);

	(void)state;
	assert_non_null(mr);
	assert_int_equal(here.verbs->dereg_mr(mr), 0);
}

static void what_is_not_mapped_is_not_registered(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(munmap(at + page, page), 0);
	refused(at, page + 1, 0, EFAULT);
	mr = here.verbs->reg_mr(here.pd, at, page, 0);
	assert_non_null(mr);
	assert_int_equal(here.verbs->dereg_mr(mr), 0);
	assert_int_equal(munmap(at, page), 0);
}

/* As much as the ends have, and 100 bytes more. */
static void no_more_is_pinned_than_the_limit_says(void **state)
{
	struct ibv_mr *mr;

	(void)state;
	here.device->memlock_bytes = 2 * END_BYTES + 100;
	refused(here.bytes, 101, 0, ENOMEM);
	mr = here.verbs->reg_mr(here.pd, here.bytes, 100, 0);
	assert_non_null(mr);
	assert_int_equal(sim_counts(here.device).pinned_bytes, 2 * END_BYTES + 100);
	assert_int_equal(here.verbs->dereg_mr(mr), 0);
	mr = here.verbs->reg_mr(here.pd, here.bytes, 100, 0);
	assert_non_null(mr);
	assert_int_equal(here.verbs->dereg_mr(mr), 0);
}

static void an_mr_has_a_remote_key_if_it_has_a_remote_right(void **state)
{
	struct ibv_mr *mr = here.verbs->reg_mr(here.pd, here.bytes, 10, IBV_ACCESS_REMOTE_READ);

	(void)state;
	assert_int_not_equal(mr->rkey, 0);
	assert_int_equal(here.local->rkey, 0);
	assert_int_not_equal(mr->lkey >> 8, here.local->lkey >> 8);
	assert_int_equal(here.verbs->dereg_mr(mr), 0);
}

static void a_device_has_only_so_many(void **state)
{
	struct ibv_pd *pd;

	(void)state;
	here.device->attr.max_mr = 2;
	here.device->attr.max_mw = 0;
	here.device->attr.max_pd = 2;
	refused(here.bytes, 10, 0, ENOMEM);
	assert_null(here.verbs->alloc_mw(here.pd, IBV_MW_TYPE_2));
	assert_int_equal(errno, ENOMEM);
	pd = here.verbs->alloc_pd(here.context);
	assert_non_null(pd);
	errno = 0;
	assert_null(here.verbs->alloc_pd(here.context));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(here.verbs->dealloc_pd(pd), 0);
}

static void a_pd_stays_while_anything_is_of_it(void **state)
{
	struct ibv_pd *pd = here.verbs->alloc_pd(here.context);
	struct ibv_mw *mw = here.verbs->alloc_mw(pd, IBV_MW_TYPE_2);

	(void)state;
	assert_int_equal(here.verbs->dealloc_pd(pd), EBUSY);
	assert_int_equal(here.verbs->dealloc_mw(mw), 0);
	assert_int_equal(here.verbs->dealloc_pd(pd), 0);
	assert_int_equal(here.verbs->dealloc_pd(here.pd), EBUSY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_start, ends_finish)

int run_memory_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_rights_that_go_together_are_registered),
		TEST(what_a_provider_may_pass_over_is_no_error),
		TEST(what_is_not_mapped_is_not_registered),
		TEST(no_more_is_pinned_than_the_limit_says),
		TEST(an_mr_has_a_remote_key_if_it_has_a_remote_right),
		TEST(a_device_has_only_so_many),
		TEST(a_pd_stays_while_anything_is_of_it),
	};

	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
