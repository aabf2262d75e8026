/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/identity.h"

static void engines_of_a_process_differ_by_epoch_only(void **state)
{
	struct otte_identity a, b;

	(void)state;
	memset(&a, 0xa5, sizeof(a));
	memset(&b, 0x5a, sizeof(b));
	assert_int_equal(otte_identity_init(&a, "one"), 0);
	assert_int_equal(otte_identity_init(&b, "one"), 0);
	assert_true(a.epoch && b.epoch && a.epoch != b.epoch);
	assert_int_equal(a.pid, getpid());
	b.epoch = a.epoch;
	assert_memory_equal(&a, &b, sizeof(a));
}

static void the_boot_id_is_the_kernels(void **state)
{
	struct otte_identity identity;
	char text[40] = "", hex[40] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
	size_t from, used = 0, i;

	(void)state;
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	for (from = 0; text[from] && text[from] != '\n'; from++)
		if (text[from] != '-')
			hex[used++] = text[from];
	assert_int_equal(used, 32);
	assert_int_equal(otte_identity_init(&identity, ""), 0);
	for (i = 0; i < 16; i++) {
		char byte[3];

		snprintf(byte, sizeof(byte), "%02x", identity.boot_id[i]);
		assert_memory_equal(byte, hex + 2 * i, 2);
	}
}

static void identity_of_a_child(struct otte_identity *child)
{
	int fds[2], status;
	pid_t pid;

	assert_return_code(pipe(fds), errno);
	pid = fork();
	assert_return_code(pid, errno);
	if (!pid) {
		struct otte_identity own;
		int bad = otte_identity_init(&own, "child") != 0;

		bad |= write(fds[1], &own, sizeof(own)) != (ssize_t)sizeof(own);
		_exit(bad);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], child, sizeof(*child)), sizeof(*child));
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_forked_child_is_another_process(void **state)
{
	struct otte_identity before, first, second, after;

	(void)state;
	assert_int_equal(otte_identity_init(&before, "parent"), 0);
	identity_of_a_child(&first);
	identity_of_a_child(&second);
	assert_int_equal(otte_identity_init(&after, "parent"), 0);

	assert_memory_equal(before.incarnation, after.incarnation, 16);
	assert_memory_equal(before.boot_id, first.boot_id, 16);
	assert_memory_not_equal(before.incarnation, first.incarnation, 16);
	assert_memory_not_equal(before.incarnation, second.incarnation, 16);
	assert_memory_not_equal(first.incarnation, second.incarnation, 16);
	assert_true(first.pid != before.pid);
	assert_true(first.epoch != before.epoch && first.epoch != second.epoch);
}

static void without_a_name_it_is_the_process_name(void **state)
{
	struct otte_identity identity;
	char comm[64] = "";
	FILE *file = fopen("/proc/self/comm", "r");

	(void)state;
	assert_non_null(file);
	assert_non_null(fgets(comm, sizeof(comm), file));
	fclose(file);
	comm[strcspn(comm, "\n")] = '\0';
	assert_int_equal(otte_identity_init(&identity, ""), 0);
	assert_string_equal(identity.name, comm);
	/* Which is of any bytes. */
	assert_int_equal(prctl(PR_SET_NAME, "a\xff\t\\x41"), 0);
	assert_int_equal(otte_identity_init(&identity, ""), 0);
	assert_string_equal(identity.name, "a\\xff\\x09\\x5cx41");
	assert_int_equal(prctl(PR_SET_NAME, comm), 0);
}

static void a_name_fits_and_can_be_printed(void **state)
{
	struct otte_identity identity, poison;
	char name[OTTE_NAME_MAX + 1] = { 0 };

	(void)state;
	memset(name, 'n', OTTE_NAME_MAX - 1);
	assert_int_equal(otte_identity_init(&identity, name), 0);
	assert_string_equal(identity.name, name);

	memset(&identity, 0xa5, sizeof(identity));
	memcpy(&poison, &identity, sizeof(poison));
	memset(name, 'n', OTTE_NAME_MAX);
	assert_int_equal(otte_identity_init(&identity, name), -EINVAL);
	assert_string_equal(otte_error_text(), "name: 64 bytes, at most 63");
	assert_int_equal(otte_identity_init(&identity, "two\nlines"), -EINVAL);
	assert_string_equal(otte_error_text(), "name: byte 3 is not printable UTF-8");
	assert_memory_equal(&identity, &poison, sizeof(poison));
}

int run_identity_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(engines_of_a_process_differ_by_epoch_only),
		cmocka_unit_test(the_boot_id_is_the_kernels),
		cmocka_unit_test(a_forked_child_is_another_process),
		cmocka_unit_test(without_a_name_it_is_the_process_name),
		cmocka_unit_test(a_name_fits_and_can_be_printed),
	};

	return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
