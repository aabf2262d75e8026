/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* PDs and MRs: which can be had, what their keys are, and what is refused its end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
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

/* ---- Memory that the CPU has elsewhere ------------------------------------------------------- */

#define FAR_BYTES 8192u

/* Where programs name it, where the simulator reaches it, and the file that it is. */
static struct {
	uint8_t *name, *bytes;
	int fd;
} far_memory;

static void far_open(void)
{
	far_memory.fd = memfd_create("far", MFD_CLOEXEC);
	assert_true(far_memory.fd >= 0);
	assert_int_equal(ftruncate(far_memory.fd, FAR_BYTES), 0);
	far_memory.name = mmap(NULL, FAR_BYTES, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	far_memory.bytes =
		mmap(NULL, FAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, far_memory.fd, 0);
	assert_ptr_not_equal(far_memory.name, MAP_FAILED);
	assert_ptr_not_equal(far_memory.bytes, MAP_FAILED);
}

static void far_close(void)
{
	munmap(far_memory.name, FAR_BYTES);
	munmap(far_memory.bytes, FAR_BYTES);
	close(far_memory.fd);
}

static void *reach_far(uint64_t address, size_t length)
{
	uint64_t offset = address - (uintptr_t)far_memory.name;

	return range_inside(offset, length, FAR_BYTES) ? far_memory.bytes + offset : NULL;
}

/* The peer writes to 100 bytes at 5000, and reads them back, by a key of this MR alone. */
static void moves_far(struct ibv_mr *mr)
{
	uint8_t *at = far_memory.name + 5000;
	uint32_t key = mr->rkey;

	memset(far_memory.bytes, 0, FAR_BYTES);
	end_write(&here, 7, 100, at, key, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_memory_equal(far_memory.bytes + 5000, here.bytes + 7, 100);
	assert_int_equal(far_memory.bytes[4999] | far_memory.bytes[5100], 0);
	end_read(&here, 1000, 100, at, key, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_SUCCESS);
	assert_memory_equal(here.bytes + 1000, here.bytes + 7, 100);
}

#define FAR_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void a_module_tells_of_memory_that_the_kernel_does_not_know(void **state)
{
	struct ibv_mr *mr;

	(void)state;
	far_open();
	refused(far_memory.name, FAR_BYTES, FAR_ACCESS, EFAULT);
	sim_peer_memory(reach_far);
	mr = there.verbs->reg_mr(there.pd, far_memory.name + 5000, 100, FAR_ACCESS);
	assert_non_null(mr);
	sim_peer_memory(NULL);
	moves_far(mr);
	end_write(&here, 0, 101, far_memory.name + 5000, mr->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_sent(&here).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(there.verbs->dereg_mr(mr), 0);
	far_close();
}

static void a_dma_buf_stays_in_reach_without_its_descriptor(void **state)
{
	struct ibv_mr *mr;
	uint64_t iova;

	(void)state;
	far_open();
	iova = (uint64_t)(uintptr_t)far_memory.name + 5000;
	mr = there.verbs->reg_dmabuf_mr(there.pd, 5000, 100, iova, far_memory.fd, FAR_ACCESS);
	assert_non_null(mr);
	close(far_memory.fd);
	moves_far(mr);
	assert_int_equal(there.verbs->dereg_mr(mr), 0);
	far_memory.fd = -1;
	far_close();
}

static void only_what_is_in_a_dma_buf_is_registered_of_it(void **state)
{
	static const struct {
		uint64_t offset, length, iova_at;
		bool good_fd;
		int error;
	} rows[] = {
		{ 5000, FAR_BYTES - 5000 + 1, 5000, true, EINVAL },
		{ 5000, 0, 5000, true, EINVAL },
		{ 5000, 100, 5001, true, EINVAL },
		{ 5000, 100, 5000, false, EBADF },
		{ 5000, 100, 5000 + 3 * 4096, true, 0 },
	};
	struct ibv_mr *mr;
	size_t i;

	(void)state;
	far_open();
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		errno = 0;
		mr = there.verbs->reg_dmabuf_mr(there.pd, rows[i].offset, rows[i].length,
						(uintptr_t)far_memory.name + rows[i].iova_at,
						rows[i].good_fd ? far_memory.fd : -1, FAR_ACCESS);
		assert_int_equal(mr ? 0 : errno, rows[i].error);
		if (mr)
			assert_int_equal(there.verbs->dereg_mr(mr), 0);
	}
	assert_int_equal(sim_calls(SIM_REG_DMABUF_MR), ARRAY_SIZE(rows));
	far_close();
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
		TEST(a_module_tells_of_memory_that_the_kernel_does_not_know),
		TEST(a_dma_buf_stays_in_reach_without_its_descriptor),
		TEST(only_what_is_in_a_dma_buf_is_registered_of_it),
		TEST(no_more_is_pinned_than_the_limit_says),
		TEST(an_mr_has_a_remote_key_if_it_has_a_remote_right),
		TEST(a_device_has_only_so_many),
		TEST(a_pd_stays_while_anything_is_of_it),
	};

	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
