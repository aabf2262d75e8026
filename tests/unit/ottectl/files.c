/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Amounts, files of sysfs, and the file that keeps limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../tools/ottectl/limits_file.h"
#include "../../../tools/ottectl/options.h"
#include "../../../tools/ottectl/ottectl.h"
#include "../../../tools/ottectl/sysfs.h"
#include "suites.h"

static char folder[64];

static const char *in_folder(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put_file(const char *name, const char *text)
{
	FILE *file = fopen(in_folder(name), "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/ottectl-unit.XXXXXX");
	complaints = 0;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	static const char *const names[] = { "number", "etc/limits.json", "etc/limits.json.new",
					     "limits.json", "limits.json.new" };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(names); i++)
		unlink(in_folder(names[i]));
	rmdir(in_folder("etc"));
	return rmdir(folder);
}

/* ---- Amounts --------------------------------------------------------------------------------- */

static void amounts_have_binary_units_and_max(void **state)
{
	static const struct {
		const char *text;
		uint64_t amount;
	} good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "64K", 65536 },
		{ "1MiB", 1 << 20 },
		{ "64G", 64ull << 30 },
		{ "2t", 2ull << 40 },
		{ "16383P", 16383ull << 50 },
		{ "max", UINT64_MAX },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = { "",	  "-1",	    "many", "1.5G",
					   "1KB", "K",	    "1 K",  "0x10",
					   "MAX", "16384P", "1Kx",  "18446744073709551616" };
	uint64_t amount;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		assert_true(parse_amount(good[i].text, &amount));
		assert_int_equal(amount, good[i].amount);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(parse_amount(bad[i], &amount));
}

static void seconds_have_no_sign_and_no_exponent(void **state)
{
	static const char *const bad[] = { "", "-1", "1e3", "inf", "nan", ".", "1.2.3", "1s" };
	uint64_t ns;
	size_t i;

	(void)state;
	assert_true(option_seconds("--timeout", "0.25", &ns));
	assert_int_equal(ns, 250000000);
	assert_true(option_seconds("--timeout", "0", &ns));
	assert_int_equal(ns, 0);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(option_seconds("--timeout", bad[i], &ns));
	assert_int_equal(complaints, ARRAY_SIZE(bad));
}

/* ---- sysfs ----------------------------------------------------------------------------------- */

static void sysfs_number_is_a_number_or_max(void **state)
{
	static const char *const bad[] = { "",	    "\n",	 "-1\n",
					   "12x\n", "maximum\n", "99999999999999999999\n" };
	const char *before = sysfs_top;
	uint64_t value;
	size_t i;

	(void)state;
	sysfs_top = folder;
	put_file("number", "4711\n");
	assert_int_equal(sysfs_read_number("number", &value), 0);
	assert_int_equal(value, 4711);
	put_file("number", "max\n");
	assert_int_equal(sysfs_read_number("number", &value), 0);
	assert_int_equal(value, UINT64_MAX);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		put_file("number", bad[i]);
		assert_int_equal(sysfs_read_number("number", &value), -EBADMSG);
	}
	put_file("number", "1234567890123456789012345678901234567890");
	assert_int_equal(sysfs_read_number("number", &value), -EMSGSIZE);
	assert_int_equal(sysfs_read_number("nothing", &value), -ENOENT);
	sysfs_top = before;
}

/* ---- The file of limits ---------------------------------------------------------------------- */

static void no_file_is_no_limits(void **state)
{
	struct limits limits;
	unsigned i, j;

	(void)state;
	assert_int_equal(limits_load(in_folder("limits.json"), false, &limits), EXIT_OK);
	for (i = 0; i < OTTE_LEVEL_COUNT; i++)
		for (j = 0; j < OTTE_RES_COUNT; j++)
			assert_false(limits.set[i][j]);
	assert_int_equal(complaints, 0);
}

static void file_that_was_named_has_to_be_there(void **state)
{
	struct limits limits;

	(void)state;
	assert_int_equal(limits_load(in_folder("limits.json"), true, &limits), EXIT_LOCAL);
	assert_int_equal(complaints, 1);
	assert_non_null(strstr(complaint, in_folder("limits.json")));
}

static void limits_are_kept_beside_those_that_were_there(void **state)
{
	struct limits changes = { 0 }, limits;
	const char *path;

	(void)state;
	changes.set[OTTE_LEVEL_USER][OTTE_RES_PINNED_BYTES] = true;
	changes.value[OTTE_LEVEL_USER][OTTE_RES_PINNED_BYTES] = 64ull << 30;
	changes.set[OTTE_LEVEL_MODULE][OTTE_RES_LENT_BYTES] = true;
	changes.value[OTTE_LEVEL_MODULE][OTTE_RES_LENT_BYTES] = UINT64_MAX;
	/* The folder is made, too. */
	path = in_folder("etc/limits.json");
	assert_int_equal(limits_save(path, &changes), EXIT_OK);
	memset(&changes, 0, sizeof(changes));
	changes.set[OTTE_LEVEL_USER][OTTE_RES_HOLDS] = true;
	changes.value[OTTE_LEVEL_USER][OTTE_RES_HOLDS] = 0;
	assert_int_equal(limits_save(path, &changes), EXIT_OK);
	assert_int_equal(limits_load(path, false, &limits), EXIT_OK);
	assert_true(limits.set[OTTE_LEVEL_USER][OTTE_RES_PINNED_BYTES]);
	assert_int_equal(limits.value[OTTE_LEVEL_USER][OTTE_RES_PINNED_BYTES], 64ull << 30);
	assert_true(limits.set[OTTE_LEVEL_MODULE][OTTE_RES_LENT_BYTES]);
	assert_int_equal(limits.value[OTTE_LEVEL_MODULE][OTTE_RES_LENT_BYTES], UINT64_MAX);
	assert_true(limits.set[OTTE_LEVEL_USER][OTTE_RES_HOLDS]);
	assert_int_equal(limits.value[OTTE_LEVEL_USER][OTTE_RES_HOLDS], 0);
	assert_false(limits.set[OTTE_LEVEL_CLIENT][OTTE_RES_HOLDS]);
	assert_int_not_equal(access(in_folder("etc/limits.json.new"), F_OK), 0);
}

/* What root leaves open with an odd umask, anybody could set for the next load. */
static void file_is_new_and_its_mode_is_not_the_callers(void **state)
{
	static const mode_t umasks[] = { 0, 077 };
	const char *kept = "victim", *path;
	struct limits changes = { 0 };
	struct stat info;
	mode_t before;
	size_t i;

	(void)state;
	changes.set[OTTE_LEVEL_USER][OTTE_RES_HOLDS] = true;
	put_file("number", kept);
	for (i = 0; i < ARRAY_SIZE(umasks); i++) {
		/* Where the new one is made somebody has put a link to another file. */
		assert_int_equal(symlink("number", in_folder("limits.json.new")), 0);
		path = in_folder("limits.json");
		before = umask(umasks[i]);
		assert_int_equal(limits_save(path, &changes), EXIT_OK);
		umask(before);
		assert_int_equal(lstat(path, &info), 0);
		assert_int_equal(info.st_mode, S_IFREG | 0644);
		assert_int_equal(stat(in_folder("number"), &info), 0);
		assert_int_equal(info.st_size, strlen(kept));
	}
}

static void units_may_stand_in_the_file(void **state)
{
	struct limits limits;

	(void)state;
	put_file("limits.json", "{\"cgroup\": {\"lent_bytes\": \"1G\", \"loans\": 7}}");
	assert_int_equal(limits_load(in_folder("limits.json"), false, &limits), EXIT_OK);
	assert_int_equal(limits.value[OTTE_LEVEL_CGROUP][OTTE_RES_LENT_BYTES], 1 << 30);
	assert_int_equal(limits.value[OTTE_LEVEL_CGROUP][OTTE_RES_LOANS], 7);
}

static void wrong_file_is_refused_and_what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *text, *named;
	} cases[] = {
		{ "{", "limits.json:1:1" },
		{ "[]", "not an object" },
		{ "{\"tenant\": {}}", "tenant: no such level" },
		{ "{\"user\": 5}", "user: not an object" },
		{ "{\"user\": {\"memory\": 5}}", "user.memory: no such resource" },
		{ "{\"user\": {\"holds\": -1}}", "user.holds: not an amount" },
		{ "{\"user\": {\"holds\": \"few\"}}", "user.holds: not an amount" },
		{ "{\"user\": {\"holds\": 1.5}}", "user.holds: not an amount" },
		{ "{\"user\": {\"holds\": 1, \"holds\": 2}}", "duplicate" },
	};
	struct limits limits;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		put_file("limits.json", cases[i].text);
		assert_int_equal(limits_load(in_folder("limits.json"), false, &limits), EXIT_LOCAL);
		assert_int_equal(complaints, i + 1);
		if (!strstr(complaint, cases[i].named) || !strstr(complaint, folder))
			fail_msg("\"%s\" does not name \"%s\"", complaint, cases[i].named);
	}
}

/* Saving must not lose what somebody wrote by hand. */
static void file_that_cannot_be_read_is_not_replaced(void **state)
{
	struct limits changes = { 0 };
	char text[16] = "";
	FILE *file;

	(void)state;
	put_file("limits.json", "{\"user\":");
	changes.set[OTTE_LEVEL_USER][OTTE_RES_HOLDS] = true;
	assert_int_equal(limits_save(in_folder("limits.json"), &changes), EXIT_LOCAL);
	file = fopen(in_folder("limits.json"), "re");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	assert_string_equal(text, "{\"user\":");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int files_suite(void)
{
	static const struct CMUnitTest tests[] = {
		IN_FOLDER(amounts_have_binary_units_and_max),
		IN_FOLDER(seconds_have_no_sign_and_no_exponent),
		IN_FOLDER(sysfs_number_is_a_number_or_max),
		IN_FOLDER(no_file_is_no_limits),
		IN_FOLDER(file_that_was_named_has_to_be_there),
		IN_FOLDER(limits_are_kept_beside_those_that_were_there),
		IN_FOLDER(file_is_new_and_its_mode_is_not_the_callers),
		IN_FOLDER(units_may_stand_in_the_file),
		IN_FOLDER(wrong_file_is_refused_and_what_is_wrong_is_named),
		IN_FOLDER(file_that_cannot_be_read_is_not_replaced),
	};

	return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
