/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory of CUDA on a machine without its library, which is named; nothing of the engine minds. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include <string.h>

#include "otte/otte_copy.h"
#include "otte/otte_cuda.h"
#include "seen.h"

static struct otte_engine *engine;

void *__wrap_dlopen(const char *name, int flags);
void *__real_dlopen(const char *name, int flags);

void *__wrap_dlopen(const char *name, int flags)
{
	return __real_dlopen(name && !strcmp(name, "libcuda.so.1") ? "/nonexistent/libcuda.so.1" : name, flags);
}

static int start(void **state)
{
	struct otte_config config;

	(void)state;
	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	config.ledger = OTTE_LEDGER_PROCESS;
	return otte_engine_create(&config, &engine);
}

static int stop(void **state)
{
	(void)state;
	return otte_engine_destroy(engine);
}

static void named(int ret)
{
	assert_int_equal(ret, -ENOSYS);
	assert_non_null(strstr(otte_error_text(), "libcuda.so.1"));
}

static void a_library_that_is_missing_is_named(void **state)
{
	static char bytes[4096];
	struct otte_cuda_pin *pin;
	struct otte_mem *mem;

	(void)state;
	named(otte_cuda_alloc(engine, 0, 4096, 0, &mem));
	named(otte_cuda_alloc_host(engine, 0, 4096, 0, &mem));
	named(otte_cuda_adopt(engine, 0, 4096, 4096, &mem));
	named(otte_cuda_pin(engine, 0, bytes, sizeof(bytes), 0, &pin));
}

static void other_memory_is_not_cudas(void **state)
{
	struct otte_copier *copier;
	struct otte_mem *mem;

	(void)state;
	assert_int_equal(otte_mem_alloc(engine, 4096, 0, &mem), 0);
	assert_int_equal(otte_cuda_record(mem, NULL), -EINVAL);
	assert_int_equal(otte_copier_bind(mem, NULL, NULL, &copier), -EOPNOTSUPP);
	assert_int_equal(otte_mem_release(mem), 0);
}

static void arguments_are_looked_at_first(void **state)
{
	static char bytes[16];
	struct otte_copier_stats stats = { .size = 2 };
	struct otte_copier_config config;
	struct otte_cuda_pin *pin;
	struct otte_mem *mem;

	(void)state;
	assert_int_equal(otte_cuda_alloc(NULL, 0, 1, 0, &mem), -EINVAL);
	assert_int_equal(otte_cuda_alloc(engine, 0, 0, 0, &mem), -EINVAL);
	assert_int_equal(otte_cuda_alloc(engine, 0, 1, 1, &mem), -EINVAL);
	assert_int_equal(otte_cuda_alloc_host(engine, 0, UINT64_MAX, 0, &mem), -EINVAL);
	assert_int_equal(otte_cuda_adopt(engine, 0, 0, 1, &mem), -EINVAL);
	assert_int_equal(otte_cuda_adopt(engine, 0, UINT64_MAX, 2, &mem), -EINVAL);
	assert_int_equal(otte_cuda_pin(engine, 0, NULL, 1, 0, &pin), -EINVAL);
	assert_int_equal(otte_cuda_pin(engine, 0, bytes, 1, 2, &pin), -EINVAL);
	assert_int_equal(otte_cuda_slot(NULL, bytes, 1, &mem), -EINVAL);
	assert_int_equal(otte_cuda_unpin(NULL), -EINVAL);
	assert_int_equal(otte_cuda_record(NULL, NULL), -EINVAL);
	assert_int_equal(otte_copier_config_init(NULL, sizeof(config)), -EINVAL);
	assert_int_equal(otte_copier_bind(NULL, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(otte_copier_submit(NULL, OTTE_COPY_TO_HOST, NULL, 0, NULL, NULL), -EINVAL);
	assert_int_equal(otte_copier_progress(NULL), -EINVAL);
	assert_int_equal(otte_copier_close(NULL, 0), -EINVAL);
	assert_int_equal(otte_copier_stats(NULL, &stats), -EINVAL);
	assert_int_equal(otte_copy_poll(NULL), -EINVAL);
	assert_int_equal(otte_copy_wait(NULL, 0), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_library_that_is_missing_is_named),
		cmocka_unit_test(other_memory_is_not_cudas),
		cmocka_unit_test(arguments_are_looked_at_first),
	};

	return cmocka_run_group_tests_name("cuda missing", tests, start, stop);
}
