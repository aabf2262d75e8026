/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The guard over a thread's stack of contexts of the test's own, on which each call fails once. */
#include "cuda/context.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/error.h"
#include "otte/otte.h"

#define DEPTH 4

/* Contexts are never looked into. */
static char contexts[2];
#define MINE ((CUcontext)(void *)&contexts[0])
#define THEIRS ((CUcontext)(void *)&contexts[1])

static struct {
	CUcontext at[DEPTH];
	unsigned int depth;
	unsigned int pushes;
	CUresult push, pop, get;
} stack;

static CUresult get(CUcontext *context)
{
	*context = stack.depth ? stack.at[stack.depth - 1] : NULL;
	return stack.get;
}

static CUresult push(CUcontext context)
{
	if (stack.push)
		return stack.push;
	assert_true(stack.depth < DEPTH);
	stack.pushes++;
	stack.at[stack.depth++] = context;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
	if (stack.pop)
		return stack.pop;
	if (!stack.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = stack.at[--stack.depth];
	return CUDA_SUCCESS;
}

static CUresult name_error(CUresult error, const char **name)
{
	(void)error;
	*name = "CUDA_ERROR_TEST";
	return CUDA_SUCCESS;
}

static const struct otte_cuda cuda = {
	.ctx_get_current = get,
	.ctx_push_current = push,
	.ctx_pop_current = pop,
	.get_error_name = name_error,
};

static int start(void **state)
{
	(void)state;
	stack.depth = 0;
	stack.pushes = 0;
	stack.push = stack.pop = stack.get = CUDA_SUCCESS;
	return 0;
}

static void the_callers_context_is_its_own_again_an_empty_one_too(void **state)
{
	static const CUcontext before[] = { THEIRS, MINE };
	struct otte_cuda_guard guard;
	bool restored = false;
	unsigned int i;

	(void)state;
	for (i = 0; i <= 2; i++) {
		assert_int_equal(otte_cuda_enter(&guard, &cuda, MINE, 1), 0);
		assert_ptr_equal(stack.at[stack.depth - 1], MINE);
		assert_int_equal(otte_cuda_leave(&guard, 0, &restored), 0);
		assert_true(restored);
		assert_int_equal(stack.depth, i);
		if (i < 2)
			push(before[i]);
	}
}

static void who_cannot_enter_has_nothing_to_leave(void **state)
{
	struct otte_cuda_guard guard;

	(void)state;
	stack.push = CUDA_ERROR_INVALID_CONTEXT;
	assert_int_equal(otte_cuda_enter(&guard, &cuda, MINE, 1), -EINVAL);
	assert_string_equal(otte_error_text(), "GPU 1: cuCtxPushCurrent_v2: CUDA_ERROR_TEST");
	assert_int_equal(stack.depth, 0);
}

static void a_restore_that_fails_is_told_and_hides_no_earlier_error(void **state)
{
	struct otte_cuda_guard guard;
	bool restored = true;

	(void)state;
	assert_int_equal(otte_cuda_enter(&guard, &cuda, MINE, 1), 0);
	stack.pop = CUDA_ERROR_DEINITIALIZED;
	assert_int_equal(otte_cuda_leave(&guard, 0, &restored), -EIO);
	assert_false(restored);
	assert_string_equal(otte_error_text(), "GPU 1: cuCtxPopCurrent_v2: CUDA_ERROR_TEST");
	restored = true;
	otte_fail(-ENOMEM, "first");
	assert_int_equal(otte_cuda_leave(&guard, -ENOMEM, &restored), -ENOMEM);
	assert_false(restored);
	assert_string_equal(otte_error_text(), "first");
}

static void another_context_on_top_is_put_back_and_told(void **state)
{
	struct otte_cuda_guard guard;
	bool restored = true;

	(void)state;
	assert_int_equal(otte_cuda_enter(&guard, &cuda, MINE, 1), 0);
	push(THEIRS);
	assert_int_equal(otte_cuda_leave(&guard, 0, &restored), -EIO);
	assert_false(restored);
	assert_int_equal(stack.depth, 2);
	assert_ptr_equal(stack.at[1], THEIRS);
}

static void one_that_is_current_is_not_pushed_again(void **state)
{
	struct otte_cuda_guard guard;
	bool restored = true;

	(void)state;
	push(MINE);
	assert_int_equal(otte_cuda_enter(&guard, &cuda, MINE, 1), 0);
	assert_int_equal(stack.pushes, 1);
	push(THEIRS);
	assert_int_equal(otte_cuda_leave(&guard, 0, &restored), -EIO);
	assert_false(restored);
	pop(&guard.context);
	guard.context = MINE;
	stack.get = CUDA_ERROR_DEINITIALIZED;
	assert_int_equal(otte_cuda_leave(&guard, 0, &restored), -EIO);
	assert_string_equal(otte_error_text(), "GPU 1: cuCtxGetCurrent: CUDA_ERROR_TEST");
	assert_false(restored);
	stack.get = CUDA_SUCCESS;
	assert_int_equal(otte_cuda_leave(&guard, 0, &restored), 0);
	assert_true(restored);
	assert_int_equal(stack.depth, 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_callers_context_is_its_own_again_an_empty_one_too,
				       start),
		cmocka_unit_test_setup(who_cannot_enter_has_nothing_to_leave, start),
		cmocka_unit_test_setup(a_restore_that_fails_is_told_and_hides_no_earlier_error,
				       start),
		cmocka_unit_test_setup(one_that_is_current_is_not_pushed_again, start),
		cmocka_unit_test_setup(another_context_on_top_is_put_back_and_told, start),
	};

	return cmocka_run_group_tests_name("cuda context", tests, NULL, NULL);
}
