/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel back end does where it differs from the process's: each departure that
 * docs/architecture.md names is one test here. Run in a guest with the module, as root.
 */
#include "suite.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/fork.h"
#include "ledger/kernel.h"
#include "ledger/module.h"
#include "ledger/open.h"

#define BOTH (OTTE_REMOTE_READ | OTTE_REMOTE_WRITE)
#define SYSFS "/sys/class/misc/otte/"

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static uint64_t read_number(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtoull(text, NULL, 10);
}

/* ---- Which ----------------------------------------------------------------------------------- */

static char logged[256];

static void keep(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	snprintf(logged, sizeof(logged), "%s", line);
}

static void auto_takes_the_module_where_it_is_and_says_so(void **unused)
{
	struct otte_ledger *ledger;

	(void)unused;
	otte_log_set(keep, NULL, OTTE_LOG_INFO);
	assert_int_equal(otte_ledger_open(OTTE_LEDGER_AUTO, NULL, &ledger), 0);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	assert_string_equal(ledger->ops->name, "kernel");
	assert_string_equal(logged, "ledger: kernel (/dev/otte)");
	ledger->ops->close(ledger);
}

static void without_permission_kernel_is_refused_and_auto_says_why_not(void **unused)
{
	struct otte_ledger *ledger;
	char why[256];
	int rc, taken;

	(void)unused;
	assert_int_equal(setegid(65534), 0);
	assert_int_equal(seteuid(65534), 0);
	rc = otte_ledger_open(OTTE_LEDGER_KERNEL, NULL, &ledger);
	snprintf(why, sizeof(why), "%s", otte_error_text());
	otte_log_set(keep, NULL, OTTE_LOG_INFO);
	taken = otte_ledger_open(OTTE_LEDGER_AUTO, NULL, &ledger);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(setegid(0), 0);
	assert_int_equal(rc, -EACCES);
	assert_string_equal(why, "ledger: /dev/otte: no permission to read and write it");
	assert_int_equal(taken, 0);
	assert_string_equal(ledger->ops->name, "process");
	assert_string_equal(
		logged,
		"ledger: process, since ledger: /dev/otte: no permission to read and write it");
	ledger->ops->close(ledger);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void a_limit_of_the_administrators_refuses_by_level_and_resource(void **unused)
{
	struct otte_region_claim claim = { 0x900000, 100, BOTH, OTTE_BACKING_NONE };
	static struct picture before;
	struct world w;
	uint64_t id;
	int rc;

	(void)unused;
	open_world(&w, NULL);
	take_picture(&w, &before);
	write_file(SYSFS "limit_client/registered_bytes", "4100");
	rc = w.ops->region_add(w.client[LENDER], &claim, &id);
	write_file(SYSFS "limit_client/registered_bytes", "max");
	expect_refused(rc, -EDQUOT,
		       "limit_client/registered_bytes: 4096 of 4100 charged, 100 more asked for");
	expect_same(&w, &before);
	expect_no_event(&w, LENDER); /* the refusal's own was taken along */
	assert_int_equal(w.ops->region_add(w.client[LENDER], &claim, &id), 0);
	close_world(&w);
}

static int add_lenders(struct world *w, uint64_t *id)
{
	struct otte_region_claim claim = { 0x900000, 100, BOTH, OTTE_BACKING_NONE };

	return w->ops->region_add(w->client[LENDER], &claim, id);
}

static void what_the_lender_settles_is_not_charged_any_more(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	int i;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, remote(1));
	write_file(SYSFS "limit_client/loans", "2");
	for (i = 0; i < 8; i++)
		assert_int_equal(w.ops->loan_settle(w.client[LENDER], expose(&w, &terms),
						    OTTE_EVIDENCE_RETURNED),
				 0);
	write_file(SYSFS "limit_client/loans", "131072");
	close_world(&w);
}

static void add_regions(struct world *w, int count)
{
	int i;

	for (i = 0; i < count; i++)
		add_region(w, LENDER, 0x900000, 100, BOTH);
}

static void the_callers_limit_of_regions_is_exact(void **unused)
{
	struct otte_ledger_limits limits = { .regions = 1000 };
	struct world w;
	uint64_t id;

	(void)unused;
	open_world(&w, &limits);
	add_regions(&w, 1000);
	expect_refused(add_lenders(&w, &id), -EDQUOT,
		       "limits.regions: 1000 of 1000 charged, 1 more asked for");
	close_world(&w);
	limits.regions = 0;
	open_world(&w, &limits);
	expect_refused(add_lenders(&w, &id), -EDQUOT, "limits.regions: 0 of 0 charged");
	close_world(&w);
}

/* The caller's may be larger than the module's, which is said once and named where it refuses. */
static void the_modules_room_for_regions_rules_where_it_is_less(void **unused)
{
	struct otte_ledger_limits limits = { .regions = 1 << 24 };
	struct world w;
	uint64_t id;

	(void)unused;
	logged[0] = '\0';
	otte_log_set(keep, NULL, OTTE_LOG_WARNING);
	open_world(&w, &limits);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	assert_string_equal(logged, "ledger: limits.regions: of 16777216 regions the module's "
				    "status page has room for 65536, which rules");
	write_file(SYSFS "limit_client/regions", "max");
	add_regions(&w, 65536);
	expect_refused(add_lenders(&w, &id), -EDQUOT,
		       "the module's status page has room for no more than 65536");
	close_world(&w);
	write_file(SYSFS "limit_client/regions", "65536");
}

/* ---- Death ----------------------------------------------------------------------------------- */

static void what_a_leaving_owner_lent_is_retained_for_its_borrower(void **unused)
{
	struct otte_retained_info info;
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.length = 10;
	loan = expose(&w, &terms);
	close_client(&w, LENDER);
	assert_int_equal(retained_of(&w, &info, 1), 1);
	assert_int_equal(info.kind, OTTE_RETAINED_REGION);
	assert_int_equal(info.id, w.region);
	assert_int_equal(info.loans, 1);
	assert_int_equal(info.bytes, REGION_LENGTH);
	assert_int_equal(info.owner, w.id[LENDER]);
	assert_int_equal(info.owner_pid, getpid());
	assert_non_null(strstr(info.reason, " left before its loans had evidence"));
	assert_int_equal(counters_of(&w).retained_bytes, REGION_LENGTH);
	assert_int_equal(counters_of(&w).registered_bytes, REGION_LENGTH);
	assert_int_equal(counters_of(&w).lent_bytes, 10);
	expect_event(&w, BORROWER, OTTE_EVENT_OWNER_GONE, 0, loan);
	assert_int_equal(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(counters_of(&w).retained, 0);
	assert_int_equal(counters_of(&w).regions, 0);
	close_world(&w);
}

/* A client is a descriptor; only its process's end is an exit. */
static void a_borrower_that_closes_leaves_a_record_until_the_lender_revokes(void **unused)
{
	struct otte_retained_info info;
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER)); /* its exit would be accepted */
	loan = expose(&w, &terms);
	close_client(&w, BORROWER);
	assert_int_equal(retained_of(&w, &info, 1), 1);
	assert_int_equal(info.kind, OTTE_RETAINED_LOAN);
	assert_int_equal(info.id, loan);
	assert_int_equal(info.loans, 1);
	assert_int_equal(info.owner, w.id[LENDER]);
	assert_int_equal(state_of(&w, loan), OTTE_LOAN_EXPOSED);
	expect_no_event(&w, LENDER);
	assert_int_equal(w.ops->loan_revoke(w.client[LENDER], loan), 0);
	assert_int_equal(retained_of(&w, &info, 1), 0);
	close_world(&w);
}

static void a_loan_that_is_released_is_settled_once(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	loan = expose(&w, &terms);
	close_client(&w, BORROWER);
	assert_int_equal(w.ops->release(w.ledger, loan), 0);
	expect_event(&w, LENDER, OTTE_EVENT_SETTLED, OTTE_EVIDENCE_FORCED, loan);
	assert_int_equal(counters_of(&w).loans_settled, 1);
	/* Where the lender has left, nobody reads of it. */
	assert_int_equal(w.ops->client_open(w.ledger, "again", 0, &w.client[BORROWER]), 0);
	w.id[BORROWER] = w.ops->client_id(w.client[BORROWER]);
	terms.borrower = local(&w, BORROWER);
	loan = expose(&w, &terms);
	close_client(&w, BORROWER);
	close_client(&w, LENDER);
	assert_int_equal(w.ops->release(w.ledger, loan), 0);
	assert_int_equal(counters_of(&w).loans_settled, 2);
	close_world(&w);
}

/* In a child, another process; 0 where it accepted what it was offered. */
static int borrow_and_die(int ids, int loans)
{
	struct otte_ledger *ledger;
	struct otte_ledger_client *client;
	uint64_t id, loan;

	if (otte_ledger_kernel_open(NULL, &ledger) ||
	    ledger->ops->client_open(ledger, "child", 0, &client))
		return 1;
	id = ledger->ops->client_id(client);
	if (write(ids, &id, sizeof(id)) != sizeof(id) ||
	    read(loans, &loan, sizeof(loan)) != sizeof(loan))
		return 2;
	return ledger->ops->loan_accept(client, loan) ? 3 : 0;
}

static void a_borrowers_exit_is_evidence_where_the_lender_accepts_it(void **unused)
{
	struct otte_loan_terms terms;
	int ids[2], loans[2], status, accepted, i;
	struct otte_event event;
	struct world w;
	uint64_t loan;
	pid_t child;

	(void)unused;
	for (accepted = 0; accepted < 2; accepted++) {
		assert_int_equal(pipe(ids), 0);
		assert_int_equal(pipe(loans), 0);
		child = fork();
		assert_true(child >= 0);
		if (!child)
			_exit(borrow_and_die(ids[1], loans[0]));
		open_world(&w, NULL);
		terms = usual_terms(&w, local(&w, BORROWER));
		if (!accepted)
			terms.accepted = 0;
		assert_int_equal(read(ids[0], &terms.borrower.client, sizeof(uint64_t)),
				 sizeof(uint64_t));
		loan = must_offer(&w, &terms);
		assert_int_equal(write(loans[1], &loan, sizeof(loan)), sizeof(loan));
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		/* The module sees the last of it a moment later. */
		for (i = 0; i < 500 && counters_of(&w).loans != (uint64_t)!accepted; i++)
			usleep(10000);
		for (i = 0; i < 500 && counters_of(&w).retained != (uint64_t)!accepted; i++)
			usleep(10000);
		assert_int_equal(counters_of(&w).loans, !accepted);
		assert_int_equal(counters_of(&w).retained, !accepted);
		if (accepted) {
			assert_int_equal(w.ops->event_next(w.client[LENDER], &event), 0);
			assert_int_equal(event.kind, OTTE_EVENT_SETTLED);
			assert_int_equal(event.evidence, OTTE_EVIDENCE_BORROWER_EXITED);
			assert_int_equal(counters_of(&w).loans_settled, 1);
		}
		close_world(&w);
		for (i = 0; i < 2; i++) {
			close(ids[i]);
			close(loans[i]);
		}
	}
}

/* ---- Fork ------------------------------------------------------------------------------------ */

static void a_child_is_not_its_parents_client(void **unused)
{
	struct otte_region_claim claim = { 0x900000, 100, BOTH, OTTE_BACKING_NONE };
	int status;
	struct world w;
	uint64_t id;
	pid_t child;

	(void)unused;
	open_world(&w, NULL);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(w.ops->region_add(w.client[LENDER], &claim, &id) != -EPERM);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(counters_of(&w).regions, 1);
	close_world(&w);
}

/* How many of this process's descriptors are the module's; -1: one would outlive an exec(). */
static int count_nodes(void)
{
	char path[64], target[64];
	int fd, count = 0;
	ssize_t n;

	for (fd = 0; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target));
		if (n != (ssize_t)strlen(OTTE_LEDGER_NODE) || memcmp(target, OTTE_LEDGER_NODE, (size_t)n))
			continue;
		if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			return -1;
		count++;
	}
	return count;
}

/* Ends with 0 if it had none of them; says when it is out of fork(), and lives until the other end is closed. */
static pid_t fork_idler(const int *hold, int out)
{
	pid_t pid = fork();
	int nodes;
	char byte = 0;

	if (pid)
		return pid;
	close(hold[1]);
	if (write(out, &byte, 1) != 1)
		_exit(1);
	nodes = count_nodes();
	_exit(read(hold[0], &byte, 1) < 0 || nodes);
}

/* In a child, since who has asked to be told of forks is told of all of them. */
static int leave_while_a_child_lives(void)
{
	struct otte_ledger_client *client;
	struct otte_ledger *ledger;
	int hold[2], out[2], status, left;
	pid_t idler;
	char byte;

	if (otte_fork_watch() || pipe(hold) || pipe(out) ||
	    otte_ledger_kernel_open(NULL, &ledger) ||
	    ledger->ops->client_open(ledger, "forker", 0, &client))
		return 1;
	if (count_nodes() != 1)
		return 2;
	idler = fork_idler(hold, out[1]);
	if (read(out[0], &byte, 1) != 1)
		return 5;
	ledger->ops->client_close(client);
	left = (int)read_number(SYSFS "usage/clients");
	close(hold[1]);
	if (waitpid(idler, &status, 0) != idler || status)
		return 3;
	ledger->ops->close(ledger);
	return left ? 4 : 0;
}

static void a_child_that_lives_does_not_keep_its_parents_client(void **unused)
{
	(void)unused;
	assert_int_equal(in_a_child(leave_while_a_child_lives), 0);
}

/* ---- Namespaces ------------------------------------------------------------------------------ */

/* In a child: the number of what was wrong, or 0. */
static int count_without_dumps(void)
{
	struct otte_region_claim claim = { 0x900000, 100, BOTH, OTTE_BACKING_NONE };
	struct otte_ledger_counters counters;
	struct otte_loan_terms terms = { .length = 60, .borrower = remote(1) };
	struct otte_ledger_client *client;
	struct otte_ledger *ledger;
	uint64_t loan, hold;

	if (unshare(CLONE_NEWNET) || otte_ledger_kernel_open(NULL, &ledger) ||
	    ledger->ops->client_open(ledger, "child", 0, &client) ||
	    ledger->ops->region_add(client, &claim, &terms.region) ||
	    ledger->ops->loan_offer(client, &terms, &loan) ||
	    ledger->ops->loan_expose(client, loan) || ledger->ops->hold(client, 7, "held", &hold))
		return 1;
	if (ledger->ops->dump_loans(ledger, NULL, 0) != -ENOENT)
		return 2;
	ledger->ops->counters(ledger, &counters);
	if (counters.clients != 1 || counters.regions != 1 || counters.registered_bytes != 100 ||
	    counters.loans != 1 || counters.lent_bytes != 60 || counters.retained != 1 ||
	    counters.retained_bytes != 7)
		return 3;
	if (ledger->ops->loan_settle(client, loan, OTTE_EVIDENCE_RETURNED) ||
	    ledger->ops->hold_drop(client, hold) || ledger->ops->region_del(client, terms.region))
		return 4;
	ledger->ops->counters(ledger, &counters);
	return counters.regions || counters.loans || counters.retained ? 5 : 0;
}

static void in_another_network_namespace_a_ledger_lends_and_counts_its_own(void **unused)
{
	(void)unused;
	assert_int_equal(in_a_child(count_without_dumps), 0);
}

/* ---- Attestation ----------------------------------------------------------------------------- */

static const uint8_t nonces[3][OTTE_ATTEST_NONCE_BYTES] = { { 1 }, { 2 }, { 3 } };

static void a_nonce_says_whose_it_is_to_whom_it_was_sent(void **unused)
{
	struct otte_attest *ours, *others;
	uint8_t module[2][OTTE_ATTEST_MODULE_BYTES];
	uint64_t from = 0;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	w.ops->attest_module(w.client[LENDER], module[0]);
	w.ops->attest_module(w.client[BORROWER], module[1]);
	assert_memory_equal(module[0], module[1], sizeof(module[0]));
	assert_int_equal(w.ops->attest_await(w.client[LENDER], nonces[0], &ours), 0);
	assert_int_equal(w.ops->attest_await(w.client[STRANGER], nonces[0], &others), 0);
	assert_int_equal(w.ops->attest_heard(w.client[LENDER], ours, &from, NULL), -EAGAIN);
	/* What is not awaited is nothing; nor does it come as an event. */
	assert_int_equal(w.ops->attest_send(w.client[BORROWER], w.id[LENDER], nonces[1]), 0);
	assert_int_equal(w.ops->attest_heard(w.client[LENDER], ours, &from, NULL), -EAGAIN);
	assert_int_equal(w.ops->attest_send(w.client[BORROWER], w.id[LENDER], nonces[0]), 0);
	assert_int_equal(w.ops->attest_heard(w.client[LENDER], ours, &from, NULL), 0);
	assert_int_equal(from, w.id[BORROWER]);
	expect_no_event(&w, LENDER);
	assert_int_equal(w.ops->attest_heard(w.client[STRANGER], others, &from, NULL), -EAGAIN);
	/* Twice from one is once; from another one, too, it says nothing. */
	assert_int_equal(w.ops->attest_send(w.client[BORROWER], w.id[LENDER], nonces[0]), 0);
	expect_no_event(&w, LENDER);
	assert_int_equal(w.ops->attest_heard(w.client[LENDER], ours, &from, NULL), 0);
	assert_int_equal(w.ops->attest_send(w.client[STRANGER], w.id[LENDER], nonces[0]), 0);
	expect_no_event(&w, LENDER);
	assert_int_equal(w.ops->attest_heard(w.client[LENDER], ours, &from, NULL), -EAGAIN);
	w.ops->attest_forget(w.client[LENDER], ours);
	w.ops->attest_forget(w.client[STRANGER], others);
	close_world(&w);
}

static void a_nonce_for_nobody_or_too_many_are_refused(void **unused)
{
	struct otte_attest *attest;
	struct world w;
	uint64_t from;
	int i, rc = 0;

	(void)unused;
	open_world(&w, NULL);
	expect_refused(w.ops->attest_send(w.client[BORROWER], UINT64_MAX, nonces[0]), -ENOENT,
		       "unknown");
	for (i = 0; i < 64 && !rc; i++)
		rc = w.ops->attest_send(w.client[BORROWER], w.id[LENDER], nonces[1]);
	expect_refused(rc, -EDQUOT, "has not read");
	assert_int_equal(i, 9); /* eight unread ones for each sender and receiver */
	/* Who begins to await one reads what stands before it. */
	assert_int_equal(w.ops->attest_await(w.client[LENDER], nonces[0], &attest), 0);
	assert_int_equal(w.ops->attest_send(w.client[BORROWER], w.id[LENDER], nonces[0]), 0);
	assert_int_equal(w.ops->attest_heard(w.client[LENDER], attest, &from, NULL), 0);
	assert_int_equal(from, w.id[BORROWER]);
	w.ops->attest_forget(w.client[LENDER], attest);
	/* It was said, whatever became of who said it. */
	assert_int_equal(w.ops->attest_await(w.client[LENDER], nonces[2], &attest), 0);
	assert_int_equal(w.ops->attest_send(w.client[BORROWER], w.id[LENDER], nonces[2]), 0);
	close_client(&w, BORROWER);
	assert_int_equal(w.ops->attest_heard(w.client[LENDER], attest, &from, NULL), 0);
	assert_int_equal(from, w.id[BORROWER]);
	w.ops->attest_forget(w.client[LENDER], attest);
	close_world(&w);
}

static void without_memory_for_a_nonce_none_is_awaited(void **unused)
{
	struct otte_attest *attest;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	fail_allocation(1);
	expect_refused(w.ops->attest_await(w.client[LENDER], nonces[0], &attest), -ENOMEM,
		       "no memory");
	fail_allocation(0);
	assert_int_equal(w.ops->attest_send(w.client[BORROWER], w.id[LENDER], nonces[0]), 0);
	expect_no_event(&w, LENDER);
	close_world(&w);
}

/* Who reads holds the client's lock; others may send for as long as they like. */
static void of_strangers_nonces_only_so_many_are_read_at_one_go(void **unused)
{
	struct otte_event event;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	flood_with_nonces(100000);
	assert_int_equal(w.ops->event_next(w.client[LENDER], &event), -EAGAIN);
	assert_in_range(flood_left(), 80000, 99999);
	flood_with_nonces(0);
	close_world(&w);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void of_an_offer_that_was_read_its_end_is_told(void **unused)
{
	struct otte_loan_terms terms;
	uint64_t loan, declined;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	loan = must_offer(&w, &terms);
	expect_event(&w, BORROWER, OTTE_EVENT_OFFERED, 0, loan);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loan), 0);
	expect_event(&w, BORROWER, OTTE_EVENT_WITHDRAWN, 0, loan);
	declined = must_offer(&w, &terms);
	close_client(&w, BORROWER);
	expect_event(&w, LENDER, OTTE_EVENT_WITHDRAWN, 0, declined);
	expect_no_event(&w, LENDER);
	assert_int_equal(state_of(&w, declined), NOTHING);
	close_world(&w);
}

#define KEPT 1024 /* events that nobody asked for */
#define ROUNDS 560 /* of an offer and its withdrawal: more than are kept */

/* Somebody else's loan to it, told, and taken back, told. */
static uint64_t bother(struct world *w, enum actor whom, uint64_t region)
{
	struct otte_loan_terms terms = usual_terms(w, local(w, whom));
	uint64_t loan;

	terms.region = region;
	assert_int_equal(w->ops->loan_offer(w->client[STRANGER], &terms, &loan), 0);
	return loan;
}

/* Exposed to a peer and settled: charged to the lender until what the module says of it was read. */
static void lend_and_settle(struct world *w)
{
	struct otte_loan_terms terms = usual_terms(w, remote(1));

	assert_int_equal(
		w->ops->loan_settle(w->client[LENDER], expose(w, &terms), OTTE_EVIDENCE_RETURNED),
		0);
}

static void what_others_tell_keeps_no_loan_of_ours_charged(void **unused)
{
	uint64_t region, loan[ROUNDS], missed = 2 * ROUNDS - KEPT, i;
	struct otte_event event;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	region = add_region(&w, STRANGER, REGION_ADDRESS, REGION_LENGTH, BOTH);
	write_file(SYSFS "limit_client/loans", "2");
	for (i = 0; i < ROUNDS; i++) {
		loan[i] = bother(&w, LENDER, region);
		lend_and_settle(&w);
		assert_int_equal(w.ops->loan_withdraw(w.client[STRANGER], loan[i]), 0);
		lend_and_settle(&w);
	}
	write_file(SYSFS "limit_client/loans", "131072");
	assert_int_equal(counters_of(&w).loans, 0);
	/* The oldest were forgotten, which is said once and first. */
	assert_int_equal(w.ops->event_next(w.client[LENDER], &event), 0);
	assert_int_equal(event.kind, OTTE_EVENT_MISSED);
	assert_int_equal(event.missed, missed);
	for (i = missed; i < 2 * ROUNDS; i++) {
		assert_int_equal(w.ops->event_next(w.client[LENDER], &event), 0);
		assert_int_equal(event.kind,
				 i % 2 ? OTTE_EVENT_WITHDRAWN : OTTE_EVENT_OFFERED);
		assert_int_equal(event.loan, loan[i / 2]);
		assert_int_equal(event.missed, 0);
	}
	expect_no_event(&w, LENDER);
	close_world(&w);
}

/* The news is lost, and said to be; what it means for the lender's charge is not. */
static void an_event_that_finds_no_memory_is_missed_and_its_loan_not_charged(void **unused)
{
	struct otte_loan_terms terms;
	struct otte_event event;
	struct world w;
	uint64_t region, mine;

	(void)unused;
	open_world(&w, NULL);
	region = add_region(&w, STRANGER, REGION_ADDRESS, REGION_LENGTH, BOTH);
	terms = usual_terms(&w, remote(1));
	mine = expose(&w, &terms);
	bother(&w, LENDER, region);
	fail_allocation(4); /* the first three are whose offer it is, and the table of these */
	assert_int_equal(w.ops->loan_settle(w.client[LENDER], mine, OTTE_EVIDENCE_RETURNED), 0);
	assert_int_equal(allocations, 4);
	fail_allocation(0);
	assert_int_equal(read_number(SYSFS "usage/loans"), 1); /* the offer */
	assert_int_equal(w.ops->event_next(w.client[LENDER], &event), 0);
	assert_int_equal(event.kind, OTTE_EVENT_MISSED);
	assert_int_equal(event.missed, 1);
	expect_no_event(&w, LENDER);
	close_world(&w);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static int add_one(struct world *w, uint64_t *id)
{
	struct otte_region_claim claim = { 0x900000, 100, BOTH, OTTE_BACKING_NONE };

	return w->ops->region_add(w->client[STRANGER], &claim, id);
}

static int offer_local(struct world *w, uint64_t *id)
{
	struct otte_loan_terms terms = usual_terms(w, local(w, BORROWER));

	terms.length = 100;
	return offer(w, &terms, id);
}

static int offer_remote(struct world *w, uint64_t *id)
{
	struct otte_loan_terms terms = usual_terms(w, remote(1));

	terms.length = 100;
	return offer(w, &terms, id);
}

static int hold_one(struct world *w, uint64_t *id)
{
	return w->ops->hold(w->client[LENDER], 1, "held", id);
}

static void an_allocation_that_fails_leaves_nothing_in_the_module(void **unused)
{
	static int (*const calls[])(struct world *, uint64_t *) = { add_one, offer_local,
								    offer_remote, hold_one };
	struct otte_ledger_counters was, is;
	uint64_t nth, id, refusals = 0;
	struct world w;
	size_t i;
	int rc;

	(void)unused;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		for (nth = 1, rc = -ENOMEM; rc; nth++) {
			open_world(&w, NULL);
			was = counters_of(&w);
			fail_allocation(nth);
			rc = calls[i](&w, &id);
			fail_allocation(0);
			if (rc) {
				expect_refused(rc, -ENOMEM, "no memory");
				is = counters_of(&w);
				assert_memory_equal(&was, &is, sizeof(was));
				expect_no_event(&w, LENDER);
				expect_no_event(&w, BORROWER);
				assert_int_equal(calls[i](&w, &id), 0);
				refusals++;
			}
			close_world(&w);
		}
	}
	assert_true(refusals >= 2 * ARRAY_SIZE(calls));
}

static void an_acceptance_that_finds_no_memory_leaves_the_offer(void **unused)
{
	struct otte_loan_terms terms;
	uint64_t nth, loan;
	struct world w;
	int rc = -ENOMEM;

	(void)unused;
	for (nth = 1; rc; nth++) {
		open_world(&w, NULL);
		terms = usual_terms(&w, local(&w, BORROWER));
		loan = must_offer(&w, &terms);
		fail_allocation(nth);
		rc = w.ops->loan_accept(w.client[BORROWER], loan);
		fail_allocation(0);
		if (rc) {
			expect_refused(rc, -ENOMEM, "no memory");
			assert_int_equal(state_of(&w, loan), OTTE_LOAN_OFFERED);
			assert_int_equal(w.ops->loan_accept(w.client[BORROWER], loan), 0);
		}
		close_world(&w);
	}
	assert_true(nth > 2);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static int (*const module_calls[])(struct world *, uint64_t *) = { add_one, offer_local,
								   offer_remote, hold_one };

static void a_call_that_the_module_refuses_leaves_nothing(void **unused)
{
	struct otte_ledger_counters was, is;
	struct world w;
	uint64_t id;
	size_t i;

	(void)unused;
	for (i = 0; i < ARRAY_SIZE(module_calls); i++) {
		open_world(&w, NULL);
		was = counters_of(&w);
		fail_ioctl(1, EIO);
		expect_refused(module_calls[i](&w, &id), -EIO, "the module says Input/output");
		is = counters_of(&w);
		assert_memory_equal(&was, &is, sizeof(was));
		fail_ioctl(1, EINTR); /* which is asked again */
		assert_int_equal(module_calls[i](&w, &id), 0);
		close_world(&w);
	}
}

static void what_cannot_be_pinned_is_told_with_its_likely_cause(void **unused)
{
	struct otte_region_claim claim = { 0x900000, 100, OTTE_REMOTE_READ, OTTE_BACKING_PAGES };
	struct world w;
	uint64_t id;

	(void)unused;
	open_world(&w, NULL);
	fail_ioctl(1, EFAULT);
	expect_refused(w.ops->region_add(w.client[LENDER], &claim, &id), -EFAULT,
		       "cannot be pinned: part of it is not mapped, or is a shared mapping without PROT_WRITE");
	claim.access |= OTTE_REMOTE_WRITE;
	fail_ioctl(1, EFAULT);
	expect_refused(w.ops->region_add(w.client[LENDER], &claim, &id), -EFAULT,
		       "cannot be pinned: part of it is not mapped, or is mapped without PROT_WRITE");
	claim.backing = OTTE_BACKING_NONE;
	fail_ioctl(1, EFAULT);
	expect_refused(w.ops->region_add(w.client[LENDER], &claim, &id), -EFAULT, "the module says Bad address");
	close_world(&w);
}

static void an_end_that_the_module_refuses_can_be_asked_for_again(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan, hold;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, remote(1));
	loan = expose(&w, &terms);
	fail_ioctl(1, EIO);
	assert_int_equal(w.ops->loan_settle(w.client[LENDER], loan, OTTE_EVIDENCE_RETURNED), -EIO);
	assert_int_equal(state_of(&w, loan), OTTE_LOAN_EXPOSED);
	assert_int_equal(w.ops->loan_settle(w.client[LENDER], loan, OTTE_EVIDENCE_RETURNED), 0);
	terms = usual_terms(&w, local(&w, BORROWER));
	loan = must_offer(&w, &terms);
	fail_ioctl(1, EIO);
	assert_int_equal(w.ops->loan_accept(w.client[BORROWER], loan), -EIO);
	assert_int_equal(state_of(&w, loan), OTTE_LOAN_OFFERED);
	fail_ioctl(1, EIO);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loan), -EIO);
	assert_int_equal(w.ops->loan_accept(w.client[BORROWER], loan), 0);
	fail_ioctl(1, EIO);
	assert_int_equal(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED),
			 -EIO);
	assert_int_equal(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), 0);
	loan = expose(&w, &terms);
	fail_ioctl(1, EIO);
	assert_int_equal(w.ops->loan_revoke(w.client[LENDER], loan), -EIO);
	assert_int_equal(w.ops->loan_revoke(w.client[LENDER], loan), 0);
	assert_int_equal(w.ops->hold(w.client[LENDER], 1, "held", &hold), 0);
	fail_ioctl(1, EIO);
	assert_int_equal(w.ops->hold_drop(w.client[LENDER], hold), -EIO);
	assert_int_equal(w.ops->hold_drop(w.client[LENDER], hold), 0);
	fail_ioctl(1, EIO);
	assert_int_equal(w.ops->region_del(w.client[LENDER], w.region), -EIO);
	assert_int_equal(counters_of(&w).regions, 1);
	assert_int_equal(w.ops->region_del(w.client[LENDER], w.region), 0);
	close_world(&w);
}

static void a_client_that_the_module_refuses_leaves_nothing(void **unused)
{
	struct otte_ledger_client *client;
	struct otte_ledger_counters was;
	struct world w;
	int fd, again;

	(void)unused;
	open_world(&w, NULL);
	was = counters_of(&w);
	fd = dup(0);
	close(fd);
	fail_ioctl(1, EIO);
	expect_refused(w.ops->client_open(w.ledger, "", 0, &client), -EIO, "the module says");
	again = dup(0); /* no descriptor was left open */
	assert_int_equal(again, fd);
	close(again);
	assert_int_equal(counters_of(&w).clients, was.clients);
	close_world(&w);
}

/* ---- What is over ---------------------------------------------------------------------------- */

/* Also for the borrower that has not read of it yet. */
static void a_revoked_loan_cannot_be_accepted_again(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	loan = expose(&w, &terms);
	assert_int_equal(w.ops->loan_accept(w.client[BORROWER], loan), -EALREADY);
	assert_int_equal(w.ops->loan_revoke(w.client[LENDER], loan), 0);
	expect_refused(w.ops->loan_accept(w.client[BORROWER], loan), -ENOENT, "unknown");
	expect_event(&w, BORROWER, OTTE_EVENT_REVOKED, OTTE_EVIDENCE_REVOKED, loan);
	close_world(&w);
}

/* A lender cannot have its borrower keep what it does not let go of. */
static void what_is_to_be_given_back_in_vain_is_not_kept(void **unused)
{
	const struct kernel_client *borrower;
	struct otte_loan_terms terms;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	borrower = (const struct kernel_client *)w.client[BORROWER];
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.accepted = OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_REVOKED);
	loan = expose(&w, &terms);
	assert_int_equal(HASH_COUNT(borrower->accepted), 1);
	expect_refused(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), -EPERM,
		       "do not accept RETURNED");
	assert_null(borrower->accepted);
	expect_refused(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), -EPERM,
		       "do not accept RETURNED");
	assert_int_equal(state_of(&w, loan), OTTE_LOAN_EXPOSED);
	assert_int_equal(w.ops->loan_revoke(w.client[LENDER], loan), 0);
	expect_event(&w, BORROWER, OTTE_EVENT_REVOKED, OTTE_EVIDENCE_REVOKED, loan);
	close_world(&w);
}

/* ---- Standing ------------------------------------------------------------------------------- */

/* The lender orders what it does as it orders a peer's requests. */
static void a_standing_loan_of_a_local_borrower_stands_beside_a_peers(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t id;

	(void)unused;
	open_world(&w, NULL);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.flags |= OTTE_LOAN_STANDING;
	must_offer(&w, &terms);
	must_offer(&w, &terms);
	terms.borrower = remote(1);
	must_offer(&w, &terms);
	terms.flags &= ~OTTE_LOAN_STANDING;
	expect_refused(offer(&w, &terms, &id), -EBUSY, "live");
	close_world(&w);
}

static void a_module_without_standing_offers_has_nothing_to_borrow(void **unused)
{
	struct otte_loan_terms terms;
	struct world w;
	uint64_t id;

	(void)unused;
	hide_features(OTTE_MODULE_FEAT_STANDING_OFFER);
	otte_log_set(keep, NULL, OTTE_LOG_INFO);
	open_world(&w, NULL);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	hide_features(0);
	assert_string_equal(
		logged, "ledger: this module lacks STANDING_OFFER (bit 8), so nothing is borrowed "
			"from peers of this host");
	assert_null(w.ops->welcome);
	assert_null(w.ops->loan_borrow);
	assert_null(w.ops->loan_copy);
	assert_null(w.ops->loan_map);
	/* What stands for a client excludes as ever, what stands for peers does not. */
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.flags |= OTTE_LOAN_STANDING;
	id = must_offer(&w, &terms);
	expect_refused(offer(&w, &terms, &id), -EBUSY, "live");
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], id), 0);
	terms.borrower = remote(1);
	must_offer(&w, &terms);
	terms.borrower = remote(2);
	must_offer(&w, &terms);
	close_world(&w);
}

/* ---- Borrowing ------------------------------------------------------------------------------- */

#define LENT 16384u

/* Pinned memory of the lender's that says where it is. */
static uint8_t *add_pinned(struct world *w, uint64_t *region)
{
	struct otte_region_claim claim = { .length = LENT, .access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE,
					   .backing = OTTE_BACKING_PAGES };
	uint8_t *memory = mmap(NULL, LENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned i;

	assert_true(memory != MAP_FAILED);
	for (i = 0; i < LENT; i++)
		memory[i] = (uint8_t)(i ^ (i >> 8));
	claim.address = (uintptr_t)memory;
	assert_int_equal(w->ops->region_add(w->client[LENDER], &claim, region), 0);
	return memory;
}

static uint64_t offer_pinned(struct world *w, uint64_t region, uint32_t right, uint32_t flags)
{
	struct otte_loan_terms terms = {
		.region = region, .length = LENT, .right = right, .flags = flags,
		.borrower = local(w, BORROWER),
	};

	return must_offer(w, &terms);
}

static void only_the_lender_that_was_meant_is_borrowed_of(void **unused)
{
	struct otte_borrowed borrowed;
	uint64_t region, loan;
	uint8_t *memory;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	memory = add_pinned(&w, &region);
	loan = offer_pinned(&w, region, OTTE_LOAN_READ, 0);
	expect_refused(w.ops->loan_borrow(w.client[BORROWER], loan, w.id[STRANGER], &borrowed), -EPERM,
		       "is of client");
	assert_int_equal(state_of(&w, loan), OTTE_LOAN_OFFERED);
	expect_refused(w.ops->loan_borrow(w.client[STRANGER], loan, w.id[LENDER], &borrowed), -ENOENT,
		       "unknown");
	assert_int_equal(w.ops->loan_borrow(w.client[BORROWER], loan, w.id[LENDER], &borrowed), 0);
	assert_int_equal(borrowed.length, LENT);
	assert_int_equal(borrowed.right, OTTE_LOAN_READ);
	assert_false(borrowed.mappable);
	assert_false(borrowed.revocable);
	assert_int_equal(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), 0);
	/* One that was withdrawn is of nobody. */
	loan = offer_pinned(&w, region, OTTE_LOAN_READ, 0);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loan), 0);
	expect_refused(w.ops->loan_borrow(w.client[BORROWER], loan, w.id[LENDER], &borrowed), -ENOENT,
		       "unknown");
	close_world(&w);
	munmap(memory, LENT);
}

static void what_is_borrowed_is_copied_within_its_range_until_it_is_revoked(void **unused)
{
	struct otte_borrowed borrowed;
	uint64_t region, reads, writes, done;
	uint8_t buffer[LENT], *memory;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	memory = add_pinned(&w, &region);
	reads = offer_pinned(&w, region, OTTE_LOAN_READ, OTTE_LOAN_STANDING | OTTE_LOAN_REVOCABLE);
	writes = offer_pinned(&w, region, OTTE_LOAN_WRITE, OTTE_LOAN_STANDING | OTTE_LOAN_REVOCABLE);
	expect_refused(w.ops->loan_copy(w.client[BORROWER], reads, 0, buffer, 1, &done), -EKEYREVOKED, "");
	assert_int_equal(w.ops->loan_borrow(w.client[BORROWER], reads, w.id[LENDER], &borrowed), 0);
	assert_int_equal(w.ops->loan_borrow(w.client[BORROWER], writes, w.id[LENDER], &borrowed), 0);
	assert_int_equal(w.ops->loan_copy(w.client[BORROWER], reads, 77, buffer, LENT - 77, &done), 0);
	assert_int_equal(done, LENT - 77);
	assert_memory_equal(buffer, memory + 77, LENT - 77);
	memset(buffer, 0x5a, LENT);
	assert_int_equal(w.ops->loan_copy(w.client[BORROWER], writes, 5000, buffer, 5000, &done), 0);
	assert_memory_equal(memory + 5000, buffer, 5000);
	assert_int_equal(memory[4999], (uint8_t)(4999 ^ (4999 >> 8)));
	assert_int_equal(memory[10000], (uint8_t)(10000 ^ (10000 >> 8)));
	expect_refused(w.ops->loan_copy(w.client[BORROWER], reads, 1, buffer, LENT, &done), -ERANGE, "");
	expect_refused(w.ops->loan_copy(w.client[STRANGER], reads, 0, buffer, 1, &done), -EKEYREVOKED, "");
	expect_refused(w.ops->loan_copy(w.client[BORROWER], reads, 0, NULL, 1, &done), -EFAULT,
		       "no memory of ours");
	assert_int_equal(w.ops->loan_revoke(w.client[LENDER], reads), 0);
	expect_refused(w.ops->loan_copy(w.client[BORROWER], reads, 0, buffer, 1, &done), -EKEYREVOKED,
		       "was revoked");
	assert_int_equal(w.ops->loan_copy(w.client[BORROWER], writes, 0, buffer, 1, &done), 0);
	munmap(memory + LENT / 2, LENT / 2);
	expect_refused(w.ops->loan_copy(w.client[BORROWER], writes, 0, buffer, 0, &done), -ESTALE, "");
	close_world(&w);
	munmap(memory, LENT / 2);
}

/* A new page that nobody touches before the handler's reader lets them: the handler. */
static int guard(void *page)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { (uintptr_t)page, 4096 },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	/* Blocking ones are never polled for: all that poll() says of them is POLLERR. */
	int handler = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	assert_true(handler >= 0);
	assert_int_equal(ioctl(handler, UFFDIO_API, &api), 0);
	assert_int_equal(ioctl(handler, UFFDIO_REGISTER, &range), 0);
	return handler;
}

struct copier {
	struct world *w;
	uint64_t loan, done;
	void *to;
	int rc;
};

static void *copy_all(void *arg)
{
	struct copier *c = arg;

	c->rc = c->w->ops->loan_copy(c->w->client[BORROWER], c->loan, 0, c->to, LENT, &c->done);
	return NULL;
}

static void what_is_revoked_while_a_copy_is_stuck_in_its_buffer_is_over_at_once(void **unused)
{
	struct uffdio_zeropage zero = { .range.len = 4096 };
	struct otte_borrowed borrowed;
	struct otte_event event;
	struct pollfd poll_fd = { .events = POLLIN };
	uint64_t region, settled, done;
	struct copier copier;
	uint8_t *memory, byte;
	pthread_t thread;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	memory = add_pinned(&w, &region);
	copier = (struct copier){ .w = &w };
	copier.loan =
		offer_pinned(&w, region, OTTE_LOAN_READ, OTTE_LOAN_STANDING | OTTE_LOAN_REVOCABLE);
	copier.to = mmap(NULL, LENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(copier.to != MAP_FAILED);
	poll_fd.fd = guard(copier.to);
	assert_int_equal(
		w.ops->loan_borrow(w.client[BORROWER], copier.loan, w.id[LENDER], &borrowed), 0);
	assert_int_equal(pthread_create(&thread, NULL, copy_all, &copier), 0);
	assert_int_equal(poll(&poll_fd, 1, 10000), 1);
	assert_int_equal(poll_fd.revents, POLLIN);
	settled = counters_of(&w).loans_settled;
	assert_int_equal(w.ops->loan_revoke(w.client[LENDER], copier.loan), 0);
	assert_int_equal(counters_of(&w).loans_settled, settled + 1);
	assert_int_equal(w.ops->region_del(w.client[LENDER], region), 0);
	expect_refused(w.ops->loan_copy(w.client[BORROWER], copier.loan, 0, &byte, 1, &done),
		       -EKEYREVOKED, "");
	expect_refused(w.ops->loan_revoke(w.client[LENDER], copier.loan), -ENOENT, "unknown");
	zero.range.start = (uintptr_t)copier.to;
	assert_int_equal(ioctl(poll_fd.fd, UFFDIO_ZEROPAGE, &zero), 0);
	pthread_join(thread, NULL);
	assert_int_equal(copier.rc, -EKEYREVOKED);
	do
		assert_int_equal(w.ops->event_next(w.client[BORROWER], &event), 0);
	while (event.kind == OTTE_EVENT_OFFERED);
	assert_int_equal(event.kind, OTTE_EVENT_REVOKED);
	assert_int_equal(event.loan, copier.loan);
	/* Who ended it is not told so, also not once the copy has come to its end. */
	expect_no_event(&w, LENDER);
	assert_int_equal(counters_of(&w).loans_settled, settled + 1);
	close_world(&w);
	close(poll_fd.fd);
	munmap(copier.to, LENT);
	munmap(memory, LENT);
}

static void what_is_mapped_is_settled_once_it_is_unmapped(void **unused)
{
	struct otte_borrowed borrowed;
	uint64_t region, loan;
	void *address;
	uint8_t *memory;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	memory = add_pinned(&w, &region);
	loan = offer_pinned(&w, region, OTTE_LOAN_READ, OTTE_LOAN_STANDING | OTTE_LOAN_MAPPABLE);
	assert_int_equal(w.ops->loan_borrow(w.client[BORROWER], loan, w.id[LENDER], &borrowed), 0);
	assert_true(borrowed.mappable);
	assert_false(borrowed.revocable);
	assert_int_equal(w.ops->loan_map(w.client[BORROWER], loan, &address), 0);
	assert_memory_equal(address, memory, LENT);
	expect_refused(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), -EBUSY,
		       "a mapping or a copy");
	expect_refused(w.ops->loan_revoke(w.client[LENDER], loan), -EPERM, "not offered as revocable");
	assert_int_equal(munmap(address, LENT), 0);
	assert_int_equal(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), 0);
	/* Whoever would map it is told that it may be taken away. */
	loan = offer_pinned(&w, region, OTTE_LOAN_READ,
			    OTTE_LOAN_STANDING | OTTE_LOAN_MAPPABLE | OTTE_LOAN_REVOCABLE);
	assert_int_equal(w.ops->loan_borrow(w.client[BORROWER], loan, w.id[LENDER], &borrowed), 0);
	assert_true(borrowed.mappable);
	assert_true(borrowed.revocable);
	assert_int_equal(w.ops->loan_settle(w.client[BORROWER], loan, OTTE_EVIDENCE_RETURNED), 0);
	close_world(&w);
	munmap(memory, LENT);
}

/* What is pinned is not what the owner sees there any more. */
static void replaced_pages_are_not_lent(void **unused)
{
	struct otte_loan_terms terms = { .length = LENT, .right = OTTE_LOAN_READ };
	struct otte_region_watch watch;
	uint64_t loan;
	uint8_t *memory;
	struct world w;

	(void)unused;
	open_world(&w, NULL);
	memory = add_pinned(&w, &terms.region);
	terms.borrower = local(&w, BORROWER);
	assert_int_equal(w.ops->region_watch(w.client[LENDER], terms.region, &watch), 0);
	assert_int_equal(madvise(memory, LENT, MADV_DONTNEED), 0);
	assert_true(*watch.word & watch.suspect);
	memory[0] = 1;
	expect_refused(offer(&w, &terms, &loan), -ESTALE, "register it anew");
	close_world(&w);
	munmap(memory, LENT);
}

/* ---- Memory that goes ------------------------------------------------------------------------ */

#define PAGES 4
#define PAGE 4096u

/* Registered memory of this process; `touched` by writing, or else only by reading. */
static char *add_memory(struct world *w, int touched, uint64_t *region,
			struct otte_region_watch *watch)
{
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	int i;

	assert_true(memory != MAP_FAILED);
	for (i = 0; i < PAGES; i++)
		if (touched)
			memory[i * PAGE] = 1;
		else
			assert_int_equal(*(volatile char *)(memory + i * PAGE), 0);
	*region = add_region(w, LENDER, (uintptr_t)memory, PAGES * PAGE, BOTH);
	assert_int_equal(w->ops->region_watch(w->client[LENDER], *region, watch), 0);
	assert_true(otte_region_is_fresh(watch));
	return memory;
}

static int lend_one_byte(struct world *w, uint64_t region, uint32_t flags, uint64_t *loan)
{
	struct otte_loan_terms terms = usual_terms(w, remote(1));

	terms.region = region;
	terms.length = 1;
	terms.flags = flags;
	return offer(w, &terms, loan);
}

static void expect_not_lent(struct world *w, uint64_t region, uint32_t flags, const char *why)
{
	uint64_t id;

	expect_refused(lend_one_byte(w, region, flags, &id), -ESTALE, why);
}

/* By unmapping any page of it, by mapping something else there, by moving it away. */
static void memory_that_goes_is_seen_when_the_call_returns(void **unused)
{
	struct otte_region_watch watch;
	struct world w;
	uint64_t region;
	char *memory;
	int way;

	(void)unused;
	for (way = 0; way < 4; way++) {
		open_world(&w, NULL);
		memory = add_memory(&w, 1, &region, &watch);
		if (way == 0)
			assert_int_equal(munmap(memory, PAGES * PAGE), 0);
		else if (way == 1)
			assert_int_equal(munmap(memory + 3 * PAGE, PAGE), 0);
		else if (way == 2)
			assert_ptr_equal(mmap(memory + PAGE, PAGE, PROT_READ,
					      MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
					 memory + PAGE);
		else
			assert_true(mremap(memory, PAGES * PAGE, 64 * PAGE, MREMAP_MAYMOVE) !=
				    (void *)memory);
		assert_false(otte_region_is_fresh(&watch));
		expect_not_lent(&w, region, 0, "was unmapped or replaced: register it anew");
		expect_not_lent(&w, region, OTTE_LOAN_BY_ADDRESS,
				"was unmapped or replaced: register it anew");
		close_world(&w);
	}
}

/* Its neighbours, its protection, a child's copy: the memory is what it was. */
static void memory_that_stays_is_fresh(void **unused)
{
	struct otte_region_watch watch;
	struct world w;
	uint64_t region;
	char *memory;
	pid_t child;

	(void)unused;
	open_world(&w, NULL);
	memory = add_memory(&w, 1, &region, &watch);
	assert_int_equal(
		munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE), 0);
	assert_int_equal(mprotect(memory, PAGE, PROT_READ), 0);
	assert_int_equal(mprotect(memory, PAGE, PROT_READ | PROT_WRITE), 0);
	child = fork();
	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_true(otte_region_is_fresh(&watch));
	close_world(&w);
	munmap(memory, PAGES * PAGE);
}

#define REPLACED                                                      \
	"pages of its memory may have been replaced (copy on write, " \
	"madvise, swap): register it anew"

/* Pages under the same addresses: who holds pages is lent it no more, who goes by address is. */
static void memory_whose_pages_may_be_others_is_lent_by_address_alone(void **unused)
{
	struct otte_region_watch watch;
	struct world w;
	uint64_t region, loan;
	char *memory;
	int way;

	(void)unused;
	for (way = 0; way < 2; way++) {
		open_world(&w, NULL);
		memory = add_memory(&w, way, &region, &watch);
		if (way)
			assert_int_equal(madvise(memory, PAGE, MADV_DONTNEED), 0);
		else
			memory[0] = 1; /* it was the page of zeros */
		assert_true(otte_region_is_fresh(&watch));
		expect_not_lent(&w, region, 0, REPLACED);
		expect_not_lent(&w, region, OTTE_LOAN_STANDING, REPLACED);
		assert_int_equal(lend_one_byte(&w, region, OTTE_LOAN_BY_ADDRESS, &loan), 0);
		assert_int_equal(state_of(&w, loan), OTTE_LOAN_OFFERED);
		assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loan), 0);
		assert_int_equal(w.ops->region_del(w.client[LENDER], region), 0);
		region = add_region(&w, LENDER, (uintptr_t)memory, PAGES * PAGE, BOTH);
		assert_int_equal(w.ops->region_watch(w.client[LENDER], region, &watch), 0);
		assert_true(otte_region_is_fresh(&watch));
		close_world(&w);
		munmap(memory, PAGES * PAGE);
	}
}

static void a_module_that_knows_no_loans_by_address_lends_fresh_memory_so(void **unused)
{
	struct otte_region_watch watch;
	struct world w;
	uint64_t region, loan;
	char *memory;

	(void)unused;
	hide_features(OTTE_MODULE_FEAT_BY_ADDRESS);
	otte_log_set(keep, NULL, OTTE_LOG_INFO);
	open_world(&w, NULL);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	hide_features(0);
	assert_non_null(strstr(logged, "may have been replaced (copy on write, swap) to no new peer"));
	memory = add_memory(&w, 0, &region, &watch);
	assert_int_equal(lend_one_byte(&w, region, OTTE_LOAN_BY_ADDRESS, &loan), 0);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loan), 0);
	memory[0] = 1;
	expect_not_lent(&w, region, OTTE_LOAN_BY_ADDRESS, REPLACED);
	close_world(&w);
	munmap(memory, PAGES * PAGE);
}

/* ---- Offers to peers ------------------------------------------------------------------------- */

/* Another ledger of this process sees what the module knows, not what this one adds. */
static void an_offer_to_a_peer_counts_as_exposed_in_the_module(void **unused)
{
	struct otte_loan_terms terms;
	struct otte_loan_info row;
	struct otte_ledger *other;
	struct world w;
	uint64_t loan;

	(void)unused;
	open_world(&w, NULL);
	assert_int_equal(backend->open(NULL, &other), 0);
	terms = usual_terms(&w, remote(1));
	loan = must_offer(&w, &terms);
	assert_int_equal(state_of(&w, loan), OTTE_LOAN_OFFERED);
	assert_int_equal(other->ops->dump_loans(other, &row, 1), 1);
	assert_int_equal(row.id, loan);
	assert_int_equal(row.state, OTTE_LOAN_EXPOSED);
	assert_memory_equal(row.terms.borrower.incarnation, terms.borrower.incarnation, 16);
	assert_int_equal(row.terms.borrower.epoch, terms.borrower.epoch);
	assert_int_equal(w.ops->loan_withdraw(w.client[LENDER], loan), 0);
	assert_int_equal(other->ops->dump_loans(other, &row, 1), 0);
	must_offer(&w, &terms);
	close_client(&w, LENDER); /* an offer, so nothing is retained */
	assert_int_equal(other->ops->dump_retained(other, NULL, 0), 0);
	assert_int_equal(other->ops->dump_loans(other, &row, 1), 0);
	other->ops->close(other);
	close_world(&w);
}

const struct CMUnitTest kernel_tests[] = {
	cmocka_unit_test(auto_takes_the_module_where_it_is_and_says_so),
	cmocka_unit_test(without_permission_kernel_is_refused_and_auto_says_why_not),
	cmocka_unit_test(a_limit_of_the_administrators_refuses_by_level_and_resource),
	cmocka_unit_test(what_the_lender_settles_is_not_charged_any_more),
	cmocka_unit_test(the_callers_limit_of_regions_is_exact),
	cmocka_unit_test(the_modules_room_for_regions_rules_where_it_is_less),
	cmocka_unit_test(what_a_leaving_owner_lent_is_retained_for_its_borrower),
	cmocka_unit_test(a_borrower_that_closes_leaves_a_record_until_the_lender_revokes),
	cmocka_unit_test(a_loan_that_is_released_is_settled_once),
	cmocka_unit_test(a_borrowers_exit_is_evidence_where_the_lender_accepts_it),
	cmocka_unit_test(a_child_is_not_its_parents_client),
	cmocka_unit_test(a_child_that_lives_does_not_keep_its_parents_client),
	cmocka_unit_test(in_another_network_namespace_a_ledger_lends_and_counts_its_own),
	cmocka_unit_test(a_nonce_says_whose_it_is_to_whom_it_was_sent),
	cmocka_unit_test(a_nonce_for_nobody_or_too_many_are_refused),
	cmocka_unit_test(without_memory_for_a_nonce_none_is_awaited),
	cmocka_unit_test(of_strangers_nonces_only_so_many_are_read_at_one_go),
	cmocka_unit_test(of_an_offer_that_was_read_its_end_is_told),
	cmocka_unit_test(what_others_tell_keeps_no_loan_of_ours_charged),
	cmocka_unit_test(an_event_that_finds_no_memory_is_missed_and_its_loan_not_charged),
	cmocka_unit_test(an_allocation_that_fails_leaves_nothing_in_the_module),
	cmocka_unit_test(an_acceptance_that_finds_no_memory_leaves_the_offer),
	cmocka_unit_test(a_call_that_the_module_refuses_leaves_nothing),
	cmocka_unit_test(what_cannot_be_pinned_is_told_with_its_likely_cause),
	cmocka_unit_test(an_end_that_the_module_refuses_can_be_asked_for_again),
	cmocka_unit_test(a_client_that_the_module_refuses_leaves_nothing),
	cmocka_unit_test(a_revoked_loan_cannot_be_accepted_again),
	cmocka_unit_test(what_is_to_be_given_back_in_vain_is_not_kept),
	cmocka_unit_test(a_standing_loan_of_a_local_borrower_stands_beside_a_peers),
	cmocka_unit_test(a_module_without_standing_offers_has_nothing_to_borrow),
	cmocka_unit_test(only_the_lender_that_was_meant_is_borrowed_of),
	cmocka_unit_test(what_is_borrowed_is_copied_within_its_range_until_it_is_revoked),
	cmocka_unit_test(what_is_revoked_while_a_copy_is_stuck_in_its_buffer_is_over_at_once),
	cmocka_unit_test(what_is_mapped_is_settled_once_it_is_unmapped),
	cmocka_unit_test(replaced_pages_are_not_lent),
	cmocka_unit_test(memory_that_goes_is_seen_when_the_call_returns),
	cmocka_unit_test(memory_that_stays_is_fresh),
	cmocka_unit_test(memory_whose_pages_may_be_others_is_lent_by_address_alone),
	cmocka_unit_test(a_module_that_knows_no_loans_by_address_lends_fresh_memory_so),
	cmocka_unit_test(an_offer_to_a_peer_counts_as_exposed_in_the_module),
};
const size_t kernel_count_tests = ARRAY_SIZE(kernel_tests);
