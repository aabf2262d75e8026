/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The conformance suite of struct otte_ledger_ops: every back end is a row of the table below and
 * obeys the same tests. Also the small helpers that the tests are written in.
 */
#include "suite.h"

#include <sys/wait.h>
#include <unistd.h>

#include "ledger/module.h"

static const struct backend backends[] = {
	{ "process", otte_ledger_process_open },
	{ "kernel", otte_ledger_kernel_open },
};

const struct backend *backend;

int is_kernel(void)
{
	return backend->open == otte_ledger_kernel_open;
}

/* ---- World ----------------------------------------------------------------------------------- */

void open_world(struct world *w, const struct otte_ledger_limits *limits)
{
	static const char *const names[] = { "lender", "borrower", "stranger" };
	unsigned i;

	assert_int_equal(backend->open(limits, &w->ledger), 0);
	w->ops = w->ledger->ops;
	for (i = 0; i < ACTORS; i++) {
		assert_int_equal(w->ops->client_open(w->ledger, names[i], 0, &w->client[i]), 0);
		assert_ptr_equal(w->client[i]->ledger, w->ledger);
		w->id[i] = w->ops->client_id(w->client[i]);
		assert_int_not_equal(w->id[i], 0);
	}
	w->region = 0;
	if (!limits)
		w->region = add_region(w, LENDER, REGION_ADDRESS, REGION_LENGTH,
				       OTTE_REMOTE_READ | OTTE_REMOTE_WRITE);
}

void close_client(struct world *w, enum actor who)
{
	w->ops->client_close(w->client[who]);
	w->client[who] = NULL;
}

/* What the process ledger forgets when it is closed, the module keeps. */
static void release_all(struct world *w)
{
	static _Thread_local struct otte_retained_info rows[64];
	size_t count = retained_of(w, rows, ARRAY_SIZE(rows)), i;

	for (i = 0; i < count && i < ARRAY_SIZE(rows); i++)
		w->ops->release(w->ledger, rows[i].id); /* some go with others */
	assert_int_equal(retained_of(w, rows, 0), 0);
}

void close_world(struct world *w)
{
	unsigned i;

	for (i = 0; i < ACTORS; i++)
		if (w->client[i])
			close_client(w, i);
	if (is_kernel())
		release_all(w);
	w->ops->close(w->ledger);
}

uint64_t add_region(struct world *w, enum actor who, uint64_t address, uint64_t length,
		    uint32_t access)
{
	struct otte_region_claim claim = { .address = address, .length = length, .access = access };
	uint64_t region = 0;

	assert_int_equal(w->ops->region_add(w->client[who], &claim, &region), 0);
	assert_int_not_equal(region, 0);
	return region;
}

struct otte_borrower local(const struct world *w, enum actor who)
{
	return (struct otte_borrower){ .client = w->id[who] };
}

struct otte_borrower remote(uint8_t peer)
{
	return (struct otte_borrower){ .incarnation = { peer }, .epoch = 1000 + peer };
}

struct otte_loan_terms usual_terms(const struct world *w, struct otte_borrower borrower)
{
	return (struct otte_loan_terms){
		.region = w->region,
		.length = REGION_LENGTH,
		.right = OTTE_LOAN_WRITE,
		.flags = OTTE_LOAN_REVOCABLE,
		.accepted = OTTE_EVIDENCE_DEFAULT |
			    OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_BORROWER_EXITED),
		.tag = 77,
		.borrower = borrower,
	};
}

int offer(struct world *w, const struct otte_loan_terms *terms, uint64_t *loan)
{
	return w->ops->loan_offer(w->client[LENDER], terms, loan);
}

uint64_t must_offer(struct world *w, const struct otte_loan_terms *terms)
{
	uint64_t loan = 0;

	assert_int_equal(offer(w, terms, &loan), 0);
	assert_int_not_equal(loan, 0);
	return loan;
}

uint64_t expose(struct world *w, const struct otte_loan_terms *terms)
{
	uint64_t loan = must_offer(w, terms);

	if (terms->borrower.client)
		assert_int_equal(w->ops->loan_accept(w->client[BORROWER], loan), 0);
	else
		assert_int_equal(w->ops->loan_expose(w->client[LENDER], loan), 0);
	return loan;
}

/* ---- Looking --------------------------------------------------------------------------------- */

int state_of(struct world *w, uint64_t loan)
{
	struct otte_loan_info rows[64];
	ssize_t count = w->ops->dump_loans(w->ledger, rows, ARRAY_SIZE(rows));
	ssize_t i;

	assert_in_range(count, 0, ARRAY_SIZE(rows));
	for (i = 0; i < count; i++)
		if (rows[i].id == loan)
			return (int)rows[i].state;
	return NOTHING;
}

struct otte_ledger_counters counters_of(struct world *w)
{
	struct otte_ledger_counters counters;

	w->ops->counters(w->ledger, &counters);
	return counters;
}

size_t retained_of(struct world *w, struct otte_retained_info *rows, size_t capacity)
{
	ssize_t count = w->ops->dump_retained(w->ledger, rows, capacity);

	assert_true(count >= 0);
	return (size_t)count;
}

void expect_event(struct world *w, enum actor who, uint32_t kind, uint32_t evidence, uint64_t loan)
{
	struct otte_event event;

	assert_int_equal(w->ops->event_next(w->client[who], &event), 0);
	assert_int_equal(event.kind, kind);
	assert_int_equal(event.evidence, evidence);
	if (kind == OTTE_EVENT_REGION_GONE) {
		assert_int_equal(event.region, loan);
		assert_int_equal(event.loan, 0);
	} else {
		assert_int_equal(event.loan, loan);
		assert_int_equal(event.tag, 77);
		/* The module does not show a borrower the lender's regions. */
		assert_int_equal(event.region, is_kernel() && who != LENDER ? 0 : w->region);
	}
}

void expect_no_event(struct world *w, enum actor who)
{
	struct otte_event event;

	assert_int_equal(w->ops->event_next(w->client[who], &event), -EAGAIN);
}

void expect_past_offer(struct world *w, uint64_t loan, int withdrawn)
{
	if (is_kernel())
		return;
	expect_event(w, BORROWER, OTTE_EVENT_OFFERED, 0, loan);
	if (withdrawn)
		expect_event(w, BORROWER, OTTE_EVENT_WITHDRAWN, 0, loan);
}

void expect_refused(int rc, int code, const char *part)
{
	assert_int_equal(rc, code);
	assert_non_null(strstr(otte_error_text(), part));
}

void take_picture(struct world *w, struct picture *picture)
{
	size_t i;

	memset(picture, 0, sizeof(*picture));
	picture->counters = counters_of(w);
	assert_in_range(w->ops->dump_loans(w->ledger, picture->loans, ARRAY_SIZE(picture->loans)),
			0, ARRAY_SIZE(picture->loans));
	assert_in_range(retained_of(w, picture->retained, ARRAY_SIZE(picture->retained)), 0,
			ARRAY_SIZE(picture->retained));
	/* The module tells an age. */
	for (i = 0; is_kernel() && i < ARRAY_SIZE(picture->retained); i++)
		picture->retained[i].since_ns = 0;
}

void expect_same(struct world *w, const struct picture *before)
{
	static _Thread_local struct picture now;

	take_picture(w, &now);
	assert_memory_equal(&now, before, sizeof(now));
}

int in_a_child(int (*body)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child)
		_exit(body());
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

int is_small(void)
{
	return getenv("OTTE_TEST_SMALL") != NULL;
}

/* ---- Allocations ----------------------------------------------------------------------------- */

/* Only the main thread of a test asks for failures, while no other one runs. */
uint64_t allocations;
static uint64_t failing;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

void fail_allocation(uint64_t nth)
{
	allocations = 0;
	failing = nth;
}

static int fails(void)
{
	return __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED) == failing;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

/* ---- Calls of the module --------------------------------------------------------------------- */

static uint64_t ioctls_left; /* until one fails; 0: none */
static int ioctl_error;

int __real_ioctl(int fd, unsigned long command, void *arg);
int __wrap_ioctl(int fd, unsigned long command, void *arg);

void fail_ioctl(uint64_t nth, int error)
{
	ioctls_left = nth;
	ioctl_error = error;
}

int __wrap_ioctl(int fd, unsigned long command, void *arg)
{
	if (ioctls_left && !--ioctls_left) {
		errno = ioctl_error;
		return -1;
	}
	return __real_ioctl(fd, command, arg);
}

static uint64_t hidden;

int __real_otte_module_query(int fd, struct otte_module_facts *facts);
int __wrap_otte_module_query(int fd, struct otte_module_facts *facts);

void hide_features(uint64_t features)
{
	hidden = features;
}

int __wrap_otte_module_query(int fd, struct otte_module_facts *facts)
{
	int rc = __real_otte_module_query(fd, facts);

	facts->features &= ~hidden;
	return rc;
}

/* Nonces that others send as fast as they are read. */
static uint64_t flood;

int __real_otte_module_event(int fd, uint32_t size, struct otte_module_event *event);
int __wrap_otte_module_event(int fd, uint32_t size, struct otte_module_event *event);

void flood_with_nonces(uint64_t count)
{
	flood = count;
}

uint64_t flood_left(void)
{
	return flood;
}

int __wrap_otte_module_event(int fd, uint32_t size, struct otte_module_event *event)
{
	if (!flood)
		return __real_otte_module_event(fd, size, event);
	flood--;
	*event = (struct otte_module_event){ .type = OTTE_MODULE_ATTEST, .object = 1 };
	return 0;
}

/* ---- Sockets --------------------------------------------------------------------------------- */

static int socket_error;

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

void fail_socket(int error)
{
	socket_error = error;
}

int __wrap_socket(int domain, int type, int protocol)
{
	if (!socket_error)
		return __real_socket(domain, type, protocol);
	errno = socket_error;
	socket_error = 0;
	return -1;
}

/* ---- Running --------------------------------------------------------------------------------- */

static int run(const char *part, const struct CMUnitTest *tests, size_t count)
{
	char name[64];

	snprintf(name, sizeof(name), "ledger.%s.%s", backend->name, part);
	return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

static int run_all(void)
{
	int failed = 0;

	failed += run("matrix", matrix_tests, matrix_count);
	failed += run("rules", rules_tests, rules_count);
	failed += run("limits", limits_tests, limits_count);
	failed += run("walk", walk_tests, walk_count);
	failed += run("threads", threads_tests, threads_count);
	failed += run("faults", faults_tests, faults_count);
	failed += run("open", open_tests, open_count);
	failed += run("netlink", netlink_tests, netlink_count);
	failed += run("records", records_tests, records_count);
	if (is_kernel())
		failed += run("own", kernel_tests, kernel_count_tests);
	if (is_kernel())
		failed += run("engine", engine_tests, engine_count);
	return failed;
}

/*
 * OTTE_TEST_LEDGER names one back end; the kernel's needs the module, and is run in a guest. OTTE_TEST_ONLY is a
 * pattern of tests.
 */
int main(void)
{
	const char *wanted = getenv("OTTE_TEST_LEDGER");
	int failed = 0, ran = 0;
	size_t i;

	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	if (!wanted)
		wanted = "process";
	for (i = 0; i < ARRAY_SIZE(backends); i++) {
		if (strcmp(backends[i].name, wanted))
			continue;
		backend = &backends[i];
		failed += run_all();
		ran++;
	}
	return ran ? failed : 1;
}
