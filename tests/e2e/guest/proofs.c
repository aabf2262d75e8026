/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What lenders and administrators can do to a borrower, and what is left of it. In a guest with the module loaded. */
#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/engine.h"
#include "ledger/kernel.h"
#include "../side.h"

#define BYTES (4u << 20)
#define LONG (64u << 20)
#define LENDS "ledger=kernel local.pinned=true control.timeout_ms=2000"
#define COPIES "deaf ledger=kernel local.map_entries=0"
#define MAPS "deaf ledger=kernel local.map_repeats=1"

static bool hostile;
static int hostile_fd = -1;
static uint64_t table;

int __real_otte_module_loan_offer(int fd, const struct otte_module_terms *terms, uint64_t *loan);
int __wrap_otte_module_loan_offer(int fd, const struct otte_module_terms *terms, uint64_t *loan);

/* A lender that keeps the right to take the table away. */
int __wrap_otte_module_loan_offer(int fd, const struct otte_module_terms *terms, uint64_t *loan)
{
	struct otte_module_terms own = *terms;
	int ret;

	if (!hostile || !(own.flags & OTTE_MODULE_MAPPABLE))
		return __real_otte_module_loan_offer(fd, terms, loan);
	own.flags |= OTTE_MODULE_REVOCABLE;
	ret = __real_otte_module_loan_offer(fd, &own, loan);
	hostile_fd = fd;
	table = *loan;
	return ret;
}

/* How the child ended, or 0: it lives. */
static int ended_by(struct child *child)
{
	int status, i;

	for (i = 0; i < 50; i++) {
		if (waitpid(child->pid, &status, WNOHANG) == child->pid)
			return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		usleep(100000);
	}
	return 0;
}

static void a_lender_cannot_kill_its_borrower(void **state)
{
	struct remote requester;
	struct side source;
	bool draining;

	(void)state;
	hostile = true;
	OK(side_open(&source, LENDS, -1, BYTES));
	remote_start(&requester, COPIES, -1, BYTES);
	child_ask(&requester.child, "open %s %lu", source.address, (unsigned long)otte_region_id(source.region));
	assert_string_equal(requester.child.line, "code 0");
	child_ask(&requester.child, "run %d 0 0 4096 1", OTTE_READ);
	assert_int_not_equal(table, 0);
	assert_int_equal(otte_module_loan_revoke(hostile_fd, table, &draining), 0);
	hostile = false;
	child_tell(&requester.child, "run %d 0 0 4096 1", OTTE_READ);
	assert_int_equal(ended_by(&requester.child), 0);
	child_end(&requester.child);
	OK(side_close(&source));
}

static void release_regions(void)
{
	DIR *dir = opendir("/sys/class/misc/otte/retained");
	const struct dirent *entry;
	char path[512], bytes[32] = "";
	FILE *file;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/class/misc/otte/retained/%s/bytes", entry->d_name);
		file = fopen(path, "r");
		if (!file || !fgets(bytes, sizeof(bytes), file))
			continue;
		fclose(file);
		print_message("retained %s: %s", entry->d_name, bytes);
		if (atoi(bytes) != 36864)
			continue;
		snprintf(path, sizeof(path), "/sys/class/misc/otte/retained/%s/release", entry->d_name);
		file = fopen(path, "w");
		assert_non_null(file);
		fputs("1", file);
		fclose(file);
	}
	closedir(dir);
}

/* Only what is mapped of memory is said to be dangerous; this requester maps none. */
static void releasing_a_table_ends_nobody_who_copies(void **state)
{
	struct remote source, requester;

	(void)state;
	remote_start(&source, LENDS, -1, LONG);
	remote_start(&requester, COPIES, -1, LONG);
	child_ask(&requester.child, "open %s %lu", source.address, (unsigned long)source.region);
	child_ask(&requester.child, "run %d 0 0 4096 1", OTTE_READ);
	child_tell(&requester.child, "run %d 0 0 %u 1", OTTE_READ, LONG);
	usleep(8000);
	child_signal(&requester.child, SIGSTOP);
	child_kill(&source.child);
	usleep(500000);
	release_regions();
	usleep(500000);
	child_signal(&requester.child, SIGCONT);
	assert_int_equal(ended_by(&requester.child), 0);
	print_message("%s\n", child_hear(&requester.child));
	child_end(&requester.child);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lender_cannot_kill_its_borrower),
		cmocka_unit_test(releasing_a_table_ends_nobody_who_copies),
	};
	int status;

	if (side_role(argc, argv, &status))
		return status;
	return cmocka_run_group_tests_name("proofs", tests, NULL, NULL);
}
