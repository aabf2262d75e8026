/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table over a library of the tests' own, libibverbs.c. One that lacks an export is a copy in
 * which the name is spelled otherwise.
 */
#include "transport/rdma/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "otte/otte.h"
#include "suites.h"

#define THREADS 16

static const char *const required[] = {
	"ibv_get_device_list",
	"ibv_free_device_list",
	"ibv_get_device_name",
	"ibv_open_device",
	"ibv_close_device",
	"ibv_query_device",
	"ibv_query_gid",
	"ibv_get_async_event",
	"ibv_ack_async_event",
	"ibv_event_type_str",
	"ibv_fork_init",
	"ibv_alloc_pd",
	"ibv_dealloc_pd",
	"ibv_reg_mr",
	"ibv_dereg_mr",
	"ibv_create_comp_channel",
	"ibv_destroy_comp_channel",
	"ibv_create_cq",
	"ibv_destroy_cq",
	"ibv_get_cq_event",
	"ibv_ack_cq_events",
	"ibv_create_qp",
	"ibv_modify_qp",
	"ibv_query_qp",
	"ibv_destroy_qp",
	"ibv_wc_status_str",
};

/* build/gcc/fake/libibverbs.so.1, beside build/gcc/unit/rdma. */
static void library_path(char path[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
	int i;

	assert_true(length > 0);
	path[length] = '\0';
	for (i = 0; i < 2; i++)
		*strrchr(path, '/') = '\0';
	assert_true(strlen(path) + 32 < PATH_MAX);
	strcat(path, "/fake/libibverbs.so.1");
}

static char *read_library(size_t *size)
{
	char path[PATH_MAX], *bytes;
	FILE *file;
	long end;

	library_path(path);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	end = ftell(file);
	assert_true(end > 0);
	rewind(file);
	bytes = malloc((size_t)end);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, (size_t)end, file), end);
	fclose(file);
	*size = (size_t)end;
	return bytes;
}

/* A whole string of the dynamic symbols, which stand before the text of the functions. */
static void misspell(char *bytes, size_t size, const char *name)
{
	size_t length = strlen(name) + 1, i;

	for (i = 1; i + length <= size; i++) {
		if (bytes[i - 1] || memcmp(bytes + i, name, length))
			continue;
		bytes[i] = 'X';
		return;
	}
	fail_msg("the library has no %s", name);
}

/* Loads a copy without these exports; the code of otte_verbs_load(). */
static int load_without(const char *const *names, size_t count, struct otte_verbs *verbs,
			char path[64])
{
	size_t size, i;
	char *bytes = read_library(&size);
	int fd, rc;

	strcpy(path, "/tmp/otte-verbs.XXXXXX");
	fd = mkostemp(path, O_CLOEXEC);
	assert_true(fd >= 0);
	for (i = 0; i < count; i++)
		misspell(bytes, size, names[i]);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
	free(bytes);
	rc = otte_verbs_load(path, verbs);
	unlink(path);
	return rc;
}

static void every_entry_is_filled_and_is_another_function(void **state)
{
	void *entries[sizeof(struct otte_verbs) / sizeof(void *)];
	struct otte_verbs verbs;
	char path[64];
	size_t i, j;

	(void)state;
	assert_int_equal(load_without(NULL, 0, &verbs, path), 0);
	memcpy(entries, &verbs, sizeof(verbs));
	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		assert_non_null(entries[i]);
		for (j = 0; j < i; j++)
			assert_ptr_not_equal(entries[i], entries[j]);
	}
}

/* The functions of that library return their names. */
static void an_entry_is_the_export_of_its_name(void **state)
{
	struct otte_verbs verbs;
	char path[64];

	(void)state;
	assert_int_equal(load_without(NULL, 0, &verbs, path), 0);
	assert_string_equal(verbs.get_device_name(NULL), "ibv_get_device_name");
	assert_string_equal(verbs.event_type_str(IBV_EVENT_CQ_ERR), "ibv_event_type_str");
	assert_string_equal(verbs.wc_status_str(IBV_WC_SUCCESS), "ibv_wc_status_str");
	assert_string_equal((const char *)verbs.open_device(NULL), "ibv_open_device");
	assert_string_equal((const char *)verbs.create_qp(NULL, NULL), "ibv_create_qp");
}

static void a_missing_library_is_named(void **state)
{
	struct otte_verbs verbs;

	(void)state;
	assert_int_equal(otte_verbs_load("libotte-none.so.9", &verbs), -ENOSYS);
	assert_int_equal(strncmp(otte_error_text(), "libotte-none.so.9: ", 19), 0);
	assert_non_null(strstr(otte_error_text(), "No such file"));
}

static void a_missing_export_is_named_whichever_it_is(void **state)
{
	char path[64], want[128];
	struct otte_verbs verbs;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(required); i++) {
		assert_int_equal(load_without(&required[i], 1, &verbs, path), -ENOSYS);
		snprintf(want, sizeof(want), "%s: has no %s", path, required[i]);
		assert_string_equal(otte_error_text(), want);
	}
}

static void what_older_libraries_lack_is_null(void **state)
{
	static const char *const optional[] = { "ibv_is_fork_initialized", "ibv_reg_dmabuf_mr", "ibv_query_port_speed",
						"_ibv_query_gid_ex", "_ibv_query_gid_table" };
	struct otte_verbs verbs;
	char path[64];

	(void)state;
	assert_int_equal(load_without(optional, ARRAY_SIZE(optional), &verbs, path), 0);
	assert_null(verbs.is_fork_initialized);
	assert_null(verbs.reg_dmabuf_mr);
	assert_null(verbs.query_port_speed);
	assert_null(verbs.query_gid_ex);
	assert_null(verbs.query_gid_table);
	assert_non_null(verbs.query_gid);
}

/* ---- Attributes of a port -------------------------------------------------------------------- */

static size_t asked_bytes;

/* A library of today: it fills what it knows, as far as it was asked to. */
static int fill_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		     size_t size)
{
	union otte_verbs_port whole = { .attr.active_width = 2 };

	(void)context;
	whole.extended.active_speed_ex = 256;
	asked_bytes = size;
	memcpy(attr, &whole, size);
	return port == 1 ? 0 : EINVAL;
}

static void a_port_is_asked_for_the_speed_that_no_byte_holds(void **state)
{
	struct verbs_context *context = calloc(1, sizeof(*context));
	union otte_verbs_port attr;
	struct otte_verbs verbs;
	char path[64];

	(void)state;
	assert_non_null(context);
	assert_int_equal(load_without(NULL, 0, &verbs, path), 0);
	context->sz = sizeof(*context);
	context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->query_port = fill_port;
	assert_int_equal(verbs.query_port(&context->context, 1, &attr), 0);
	assert_int_equal(asked_bytes, 56);
	assert_int_equal(attr.attr.active_width, 2);
	assert_int_equal(attr.extended.active_speed_ex, 256);
	assert_int_equal(verbs.query_port(&context->context, 2, &attr), EINVAL);
	free(context);
}

static void a_context_of_an_old_library_has_no_port_attributes(void **state)
{
	struct ibv_context context = {};
	union otte_verbs_port attr;
	struct otte_verbs verbs;
	char path[64];

	(void)state;
	assert_int_equal(load_without(NULL, 0, &verbs, path), 0);
	assert_int_equal(verbs.query_port(&context, 1, &attr), EOPNOTSUPP);
}

/* ---- The process's table --------------------------------------------------------------------- */

/* Of the library by its real name. */
static struct {
	unsigned int opened;
	bool missing;
} real;

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);

void *__wrap_dlopen(const char *name, int flags)
{
	char path[PATH_MAX];

	if (!name || strcmp(name, "libibverbs.so.1") != 0)
		return __real_dlopen(name, flags);
	__atomic_add_fetch(&real.opened, 1, __ATOMIC_RELAXED);
	if (real.missing)
		return __real_dlopen("libotte-none.so.9", flags);
	library_path(path);
	return __real_dlopen(path, flags);
}

/* In a process of its own, which stays without. */
static int fail_to_open_twice(void)
{
	const struct otte_verbs *verbs = NULL;
	char first[256];
	int rc;

	real.missing = true;
	rc = otte_verbs_open(&verbs);
	snprintf(first, sizeof(first), "%s", otte_error_text());
	if (rc != -ENOSYS || strncmp(first, "libibverbs.so.1: ", 17) != 0)
		return 1;
	real.missing = false;
	rc = otte_verbs_open(&verbs);
	return rc != -ENOSYS || verbs || real.opened != 1 || strcmp(first, otte_error_text()) != 0;
}

static void a_process_without_the_library_asks_once(void **state)
{
	int status = 0;
	pid_t child;

	(void)state;
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(fail_to_open_twice());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

struct opener {
	pthread_t thread;
	pthread_barrier_t *start;
	const struct otte_verbs *verbs;
	int rc;
};

static void *run_opener(void *arg)
{
	struct opener *opener = arg;

	pthread_barrier_wait(opener->start);
	opener->rc = otte_verbs_open(&opener->verbs);
	return NULL;
}

static void many_threads_open_the_library_once(void **state)
{
	struct opener openers[THREADS] = {};
	pthread_barrier_t start;
	size_t i;

	(void)state;
	pthread_barrier_init(&start, NULL, THREADS);
	for (i = 0; i < THREADS; i++) {
		openers[i].start = &start;
		assert_int_equal(pthread_create(&openers[i].thread, NULL, run_opener, &openers[i]),
				 0);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(openers[i].thread, NULL);
	pthread_barrier_destroy(&start);
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(openers[i].rc, 0);
		assert_non_null(openers[i].verbs);
		assert_ptr_equal(openers[i].verbs, openers[0].verbs);
	}
	assert_int_equal(real.opened, 1);
	assert_string_equal(openers[0].verbs->get_device_name(NULL), "ibv_get_device_name");
}

int run_verbs_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_entry_is_filled_and_is_another_function),
		cmocka_unit_test(an_entry_is_the_export_of_its_name),
		cmocka_unit_test(a_missing_library_is_named),
		cmocka_unit_test(a_missing_export_is_named_whichever_it_is),
		cmocka_unit_test(what_older_libraries_lack_is_null),
		cmocka_unit_test(a_port_is_asked_for_the_speed_that_no_byte_holds),
		cmocka_unit_test(a_context_of_an_old_library_has_no_port_attributes),
		cmocka_unit_test(a_process_without_the_library_asks_once),
		cmocka_unit_test(many_threads_open_the_library_once),
	};

	return cmocka_run_group_tests_name("verbs", tests, NULL, NULL);
}
