/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a tenant at its quota costs its neighbours. A neighbour on CPU 0 reads 64 KiB over TCP, with
 * the kernel ledger, one request after another, and registers and unregisters a region; both are
 * timed one by one. Beside it is a tenant of another user and cgroup, with a process on each other
 * CPU, or on the same if there is no other. The neighbour sleeps a little before each call, whose
 * time counts from when it is to wake; and the tenant is of SCHED_IDLE, so that the neighbour's
 * turn comes as soon as the kernel can give it: what is left is what the tenant's calls hold. In
 * turn the tenant
 *
 *	idle	sleeps: the floor
 *	busy	makes a timerfd and closes it, in a loop: what a kernel with work to do, on CPUs
 *		that are shared, costs without the module
 *	granted	takes a region, a loan and a client and gives them back, in a loop: what its calls
 *		cost while its quota has room
 *	refused	makes the same calls with its quota full; each is refused, -EDQUOT, with level and
 *		resource in the text
 *
 * Each round takes the four, in changing order; medians of the rounds' ratios count. Whatever the
 * neighbour is refused, and whatever the tenant is told but what is stated here, ends the program
 * with 2.
 *
 *	quota [--rounds N] [--reads N] [--only regions|loans|clients]      1 where a bar is missed
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "ledger/ledger.h"
#include "ledger/open.h"
#include "otte/otte.h"

#define SECOND 1000000000ll
#define SIZE 65536u
#define SYSFS "/sys/class/misc/otte/"
#define CGROUP "/sys/fs/cgroup/tenant"
#define TENANT 1001 /* its user */
#define CLIENTS 4 /* of each of its processes */
#define OBJECTS 32 /* of each of its processes: regions, and loans */
#define WORKERS_MAX 31
#define ROUNDS_MAX 31
#define READS_MAX 10000
#define WARM_UP 50
#define PAUSE_NS \
	100000 /* before a call; and up to PAUSES of them, so that it comes at any moment */
#define PAUSES 5
#define SETTLE_NS 5000000 /* what has changed is under way */
#define CALLS_MIN 30 /* of a process in a phase, or it was not beside it */

#define OK(call) ok(call, #call)

enum mode {
	IDLE,
	BUSY,
	GRANTED,
	REFUSED,
	MODES,
	LEAVE = MODES, /* gives back what it kept, and ends */
	ORDERS
};

static const char *const modes[] = { "idle", "busy", "granted", "refused" };

/* Of the tenant's processes and who tells them what to do. */
static struct shared {
	_Atomic unsigned order; /* n * ORDERS + mode, n growing */
	struct {
		_Atomic unsigned seen; /* the last order, once that before is not obeyed any more */
		atomic_ulong calls;
	} workers[WORKERS_MAX];
} * shared;

static int cpus;
static unsigned workers;
static const char *only; /* of the quotas, by its resource; NULL: each in turn */

static void ok(int ret, const char *what)
{
	if (!ret)
		return;
	fprintf(stderr, "bench-quota: %s: %d: %s\n", what, ret, otte_error_text());
	exit(2);
}

static void sys(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "bench-quota: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void sleep_ns(long ns)
{
	const struct timespec time = { .tv_nsec = ns };

	nanosleep(&time, NULL);
}

static void sleep_until(uint64_t ns)
{
	const struct timespec time = { (time_t)(ns / SECOND), (long)(ns % SECOND) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	sys(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
	close(fd);
}

static void stay_on(int number)
{
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(number, &cpu);
	sys(!sched_setaffinity(0, sizeof(cpu), &cpu), "sched_setaffinity");
}

/* ---- One of the tenant's processes ---- */

static struct worker {
	unsigned number;
	const struct otte_ledger_ops *ops;
	struct otte_ledger *ledger;
	struct otte_ledger_client *client;
	uint64_t region; /* one of those that are kept */
	uint8_t peers;
	/* What the last call took. */
	struct otte_ledger_client *another;
	uint64_t id;
} self;

static int add_region(void)
{
	const struct otte_region_claim claim = { 0x100000, 4096, OTTE_REMOTE_READ,
						 OTTE_BACKING_NONE };

	return self.ops->region_add(self.client, &claim, &self.id);
}

static int del_region(void)
{
	return self.ops->region_del(self.client, self.id);
}

static int lend(void)
{
	const struct otte_loan_terms terms = {
		.region = self.region,
		.length = 4096,
		.right = OTTE_LOAN_READ,
		.flags = OTTE_LOAN_STANDING,
		.borrower = { .incarnation = { ++self.peers }, .epoch = 1 },
	};

	return self.ops->loan_offer(self.client, &terms, &self.id);
}

static int withdraw(void)
{
	return self.ops->loan_withdraw(self.client, self.id);
}

static int open_client(void)
{
	return self.ops->client_open(self.ledger, "tenant", 0, &self.another);
}

static int close_client(void)
{
	self.ops->client_close(self.another);
	return 0;
}

/* Its quotas, of which each process has an equal part. */
static const struct quota {
	int (*take)(void), (*give_back)(void);
	const char *limit;
	unsigned part;
} quotas[] = {
	{ add_region, del_region, "limit_cgroup/regions", OBJECTS },
	{ lend, withdraw, "limit_cgroup/loans", OBJECTS },
	{ open_client, close_client, "limit_user/clients", CLIENTS },
};

#define QUOTAS (sizeof(quotas) / sizeof(*quotas))

static void be_granted(const struct quota *quota)
{
	ok(quota->take(), quota->limit);
	ok(quota->give_back(), quota->limit);
}

static void be_refused(const struct quota *quota)
{
	int rc = quota->take();

	if (rc == -EDQUOT && strstr(otte_error_text(), quota->limit))
		return;
	fprintf(stderr, "bench-quota: beyond %s: %d: %s\n", quota->limit, rc, otte_error_text());
	exit(2);
}

/* What the kernel keeps for it is freed once RCU allows, as is what the module has for a client. */
static void open_and_close(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	sys(fd >= 0 && !close(fd), "timerfd_create");
}

static void take_parts(void)
{
	unsigned i, k;

	OK(otte_ledger_open(OTTE_LEDGER_KERNEL, NULL, &self.ledger));
	self.ops = self.ledger->ops;
	OK(self.ops->client_open(self.ledger, "tenant", 0, &self.client));
	OK(add_region());
	self.region = self.id;
	for (i = 0; i < QUOTAS; i++)
		for (k = quotas[i].take == lend ? 0 : 1; k < quotas[i].part; k++)
			ok(quotas[i].take(), quotas[i].limit);
}

static bool is_asked_for(const struct quota *quota)
{
	return !only || !strcmp(strchr(quota->limit, '/') + 1, only);
}

static void obey(enum mode mode)
{
	unsigned i, calls = 0;

	if (mode == IDLE) {
		sleep_ns(SETTLE_NS / 4);
		return;
	}
	for (i = 0; i < QUOTAS; i++) {
		if (!is_asked_for(&quotas[i]))
			continue;
		calls++;
		if (mode == BUSY)
			open_and_close();
		else if (mode == GRANTED)
			be_granted(&quotas[i]);
		else
			be_refused(&quotas[i]);
	}
	atomic_fetch_add(&shared->workers[self.number].calls, calls);
}

static void run_worker(unsigned number)
{
	unsigned order;

	self.number = number;
	stay_on((1 + (int)number) % cpus);
	write_text(CGROUP "/cgroup.procs", "0");
	sys(!sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){ 0 }), "SCHED_IDLE");
	sys(!setgid(TENANT) && !setuid(TENANT), "setuid");
	sys(!prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
	take_parts();
	for (;;) {
		order = atomic_load(&shared->order);
		atomic_store(&shared->workers[number].seen, order);
		if (order % ORDERS == LEAVE)
			break;
		obey(order % ORDERS);
	}
	self.ops->client_close(self.client);
	exit(0);
}

/* ---- The tenant ---- */

static pid_t pids[WORKERS_MAX];

static void check_alive(unsigned worker)
{
	sys(waitpid(pids[worker], NULL, WNOHANG) == 0, "a process of the tenant's");
}

static unsigned give_order(enum mode mode)
{
	unsigned next = (atomic_load(&shared->order) / ORDERS + 1) * ORDERS + mode;

	atomic_store(&shared->order, next);
	return next;
}

/* Returns when all do so, and nothing else any more. */
static void have_all(enum mode mode)
{
	unsigned i, order = give_order(mode);

	for (i = 0; i < workers; i++)
		while (atomic_load(&shared->workers[i].seen) != order) {
			check_alive(i);
			sleep_ns(SETTLE_NS);
		}
}

/* For what its processes keep, and for one more of each where there is room. */
static void set_quotas(bool room)
{
	char path[64], text[16];
	unsigned i;

	for (i = 0; i < QUOTAS; i++) {
		snprintf(path, sizeof(path), SYSFS "%s", quotas[i].limit);
		snprintf(text, sizeof(text), "%u", workers * (quotas[i].part + room));
		write_text(path, text);
	}
}

static void tell_tenant(enum mode mode)
{
	have_all(IDLE);
	set_quotas(mode == GRANTED);
	have_all(mode);
	sleep_ns(SETTLE_NS);
}

static void start_tenant(void)
{
	unsigned i;

	sys(!mkdir(CGROUP, 0755) || errno == EEXIST, CGROUP);
	sys(!chmod("/dev/otte", 0666), "chmod");
	set_quotas(false);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	sys(shared != MAP_FAILED, "mmap");
	for (i = 0; i < workers; i++) {
		pids[i] = fork();
		sys(pids[i] >= 0, "fork");
		if (!pids[i])
			run_worker(i);
	}
	have_all(IDLE);
}

static void end_tenant(void)
{
	unsigned i;
	int status;

	give_order(LEAVE);
	for (i = 0; i < workers; i++)
		sys(waitpid(pids[i], &status, 0) == pids[i] && !status, "the tenant's end");
}

/* ---- Its neighbour ---- */

/* A source and a requester. */
static struct pair {
	struct otte_engine *engine[2];
	struct otte_mem *mem[2];
	struct otte_region *region[2];
	struct otte_segment *segment;
	struct otte_batch *batch;
} pair;

static void describe(unsigned side, struct otte_region_desc *desc)
{
	*desc = (struct otte_region_desc){
		.mem = pair.mem[side],
		.length = SIZE,
		.access = side ? OTTE_LOCAL_ONLY : OTTE_REMOTE_READ,
	};
}

static void open_pair(void)
{
	char address[OTTE_ADDRESS_MAX];
	struct otte_region_desc desc;
	struct otte_config config;
	unsigned side;

	OK(otte_config_init(&config, sizeof(config)));
	config.ledger = OTTE_LEDGER_KERNEL;
	config.stats_socket = 0;
	for (side = 0; side < 2; side++) {
		OK(otte_engine_create(&config, &pair.engine[side]));
		OK(otte_mem_alloc(pair.engine[side], SIZE, 0, &pair.mem[side]));
		memset(otte_mem_address(pair.mem[side]), side ? 0 : 0xa5, SIZE);
		describe(side, &desc);
		OK(otte_region_register(pair.engine[side], &desc, 1, &pair.region[side]));
	}
	OK(otte_engine_address(pair.engine[0], address, sizeof(address)));
	OK(otte_segment_open(pair.engine[1], address, OTTE_EPOCH_ANY, 10 * SECOND, &pair.segment));
	OK(otte_batch_create(pair.engine[1], 1, &pair.batch));
}

static void close_pair(void)
{
	unsigned side;

	OK(otte_batch_destroy(pair.batch));
	OK(otte_segment_close(pair.segment));
	for (side = 0; side < 2; side++) {
		OK(otte_region_unregister(&pair.region[side], 1, 10 * SECOND, NULL));
		OK(otte_mem_release(pair.mem[side]));
	}
	OK(otte_engine_destroy(pair.engine[1]));
	OK(otte_engine_destroy(pair.engine[0]));
}

static void read_once(void)
{
	const struct otte_request request = {
		.segment = pair.segment,
		.local = pair.region[1],
		.remote_region = otte_region_id(pair.region[0]),
		.length = SIZE,
		.op = OTTE_READ,
	};

	OK(otte_batch_run(pair.batch, &request, 1, 60 * SECOND));
}

static void register_once(void)
{
	struct otte_region_desc desc;
	struct otte_region *region;

	describe(0, &desc);
	OK(otte_region_register(pair.engine[0], &desc, 1, &region));
	OK(otte_region_unregister(&region, 1, 10 * SECOND, NULL));
}

/* ---- Figures ---- */

enum kind {
	READ,
	REGISTER,
	KINDS
};

/*
 * A READ of the engine's memory makes no call of the module, so that a tenant that is refused must be
 * no worse than one that sleeps. A registration waits for the module's mutex, so that it is held against
 * the worse of the two others that work: a refusal must hold nothing longer than what is granted. What
 * is above 1 in the bar is for the scatter of 99th percentiles.
 */
static const struct {
	const char *name;
	void (*once)(void);
	bool calls_module;
} kinds[KINDS] = {
	{ "READ 64 KiB", read_once, false },
	{ "register", register_once, true },
};

#define BAR 1.25

struct figure {
	double p50, p99; /* us */
};

static struct figure figures[ROUNDS_MAX][MODES][KINDS];
static double calls_a_second[ROUNDS_MAX][MODES]; /* of all of the tenant */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct figure measure(enum kind kind, unsigned count)
{
	static double us[READS_MAX];
	unsigned i, seed = 1;
	uint64_t begun_ns;

	for (i = 0; i < count; i++) {
		begun_ns = now_ns() + PAUSE_NS + rand_r(&seed) % (PAUSES * PAUSE_NS);
		sleep_until(begun_ns);
		kinds[kind].once();
		us[i] = (double)(now_ns() - begun_ns) / 1000;
	}
	qsort(us, count, sizeof(*us), compare);
	return (struct figure){ us[count / 2], us[count - 1 - count / 100] };
}

static unsigned long calls_of(unsigned worker)
{
	return atomic_load(&shared->workers[worker].calls);
}

static void measure_beside(enum mode mode, unsigned reads, unsigned round)
{
	static unsigned long before[WORKERS_MAX];
	unsigned long calls = 0;
	uint64_t begun_ns;
	unsigned i;

	tell_tenant(mode);
	for (i = 0; i < workers; i++)
		before[i] = calls_of(i);
	begun_ns = now_ns();
	for (i = 0; i < KINDS; i++)
		figures[round][mode][i] = measure(i, reads);
	for (i = 0; i < workers; i++) {
		unsigned long its = calls_of(i) - before[i];

		check_alive(i);
		calls += its;
		if (mode == IDLE ? !its : its >= CALLS_MIN)
			continue;
		fprintf(stderr, "bench-quota: %s: process %u made %lu calls\n", modes[mode], i,
			its);
		exit(2);
	}
	calls_a_second[round][mode] = (double)calls * SECOND / (double)(now_ns() - begun_ns);
}

static double median(const double *values, unsigned count)
{
	double sorted[ROUNDS_MAX];

	memcpy(sorted, values, count * sizeof(*values));
	qsort(sorted, count, sizeof(*sorted), compare);
	return sorted[count / 2];
}

static double figure_of(unsigned round, enum mode mode, enum kind kind, bool tail)
{
	const struct figure *figure = &figures[round][mode][kind];

	return tail ? figure->p99 : figure->p50;
}

static double median_of(unsigned rounds, enum mode mode, enum kind kind, bool tail)
{
	double values[ROUNDS_MAX];
	unsigned i;

	for (i = 0; i < rounds; i++)
		values[i] = figure_of(i, mode, kind, tail);
	return median(values, rounds);
}

/* Beside one to beside the other, round by round. */
static double ratio_of(unsigned rounds, enum kind kind, enum mode mode, enum mode to, bool tail)
{
	double values[ROUNDS_MAX];
	unsigned i;

	for (i = 0; i < rounds; i++)
		values[i] = figure_of(i, mode, kind, tail) / figure_of(i, to, kind, tail);
	return median(values, rounds);
}

static double rate_of(unsigned rounds, enum mode mode)
{
	double values[ROUNDS_MAX];
	unsigned i;

	for (i = 0; i < rounds; i++)
		values[i] = calls_a_second[i][mode];
	return median(values, rounds);
}

static void print_table(unsigned rounds)
{
	enum kind kind;
	enum mode mode;

	printf("| neighbour | tenant | its calls/s | p50 us | p99 us | p50, of idle | p99, of idle |\n");
	printf("| --- | --- | --- | --- | --- | --- | --- |\n");
	for (kind = 0; kind < KINDS; kind++)
		for (mode = 0; mode < MODES; mode++)
			printf("| %s | %s | %.0f | %.1f | %.1f | %.3f | %.3f |\n", kinds[kind].name,
			       modes[mode], rate_of(rounds, mode),
			       median_of(rounds, mode, kind, false),
			       median_of(rounds, mode, kind, true),
			       ratio_of(rounds, kind, mode, IDLE, false),
			       ratio_of(rounds, kind, mode, IDLE, true));
}

static double floor_of(unsigned round, enum kind kind)
{
	double busy = figure_of(round, BUSY, kind, true);
	double granted = figure_of(round, GRANTED, kind, true);

	if (!kinds[kind].calls_module)
		return figure_of(round, IDLE, kind, true);
	return granted > busy ? granted : busy;
}

static bool judge(unsigned rounds)
{
	double values[ROUNDS_MAX], ratio;
	bool good = true;
	enum kind kind;
	unsigned i;

	for (kind = 0; kind < KINDS; kind++) {
		for (i = 0; i < rounds; i++)
			values[i] = figure_of(i, REFUSED, kind, true) / floor_of(i, kind);
		ratio = median(values, rounds);
		printf("%s: p99 beside refused %.3f of that beside %s, bar %.2f: %s\n",
		       kinds[kind].name, ratio,
		       kinds[kind].calls_module ? "busy or granted, the worse" : "idle", BAR,
		       ratio <= BAR ? "met" : "MISSED");
		good &= ratio <= BAR;
	}
	return good;
}

static int run(unsigned rounds, unsigned reads)
{
	unsigned i, k;
	bool good;

	cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	sys(cpus > 0, "CPUs");
	workers = cpus == 1 ? 1 : cpus > WORKERS_MAX ? WORKERS_MAX : (unsigned)cpus - 1;
	start_tenant();
	stay_on(0);
	sys(!prctl(PR_SET_TIMERSLACK, 1), "PR_SET_TIMERSLACK");
	open_pair();
	measure(READ, WARM_UP);
	for (i = 0; i < rounds; i++)
		for (k = 0; k < MODES; k++)
			measure_beside((i % 2 ? i + MODES * rounds - k : i + k) % MODES, reads, i);
	have_all(IDLE);
	print_table(rounds);
	good = judge(rounds);
	printf("%u rounds of %u READs beside a tenant of %u processes; the neighbour failed nothing\n",
	       rounds, reads, workers);
	end_tenant();
	close_pair();
	return good ? 0 : 1;
}

static unsigned number(const char *text, unsigned least, unsigned most)
{
	unsigned long value = strtoul(text, NULL, 0);

	if (value >= least && value <= most)
		return (unsigned)value;
	fprintf(stderr, "bench-quota: %s: not of %u to %u\n", text, least, most);
	exit(2);
}

static bool is_resource(const char *name)
{
	return !strcmp(name, "regions") || !strcmp(name, "loans") || !strcmp(name, "clients");
}

int main(int argc, char **argv)
{
	unsigned rounds = 7, reads = 300;
	int i;

	for (i = 1; i + 1 < argc; i += 2)
		if (!strcmp(argv[i], "--rounds"))
			rounds = number(argv[i + 1], 1, ROUNDS_MAX);
		else if (!strcmp(argv[i], "--reads"))
			reads = number(argv[i + 1], 100, READS_MAX);
		else if (!strcmp(argv[i], "--only") && is_resource(argv[i + 1]))
			only = argv[i + 1];
		else
			break;
	if (i == argc)
		return run(rounds, reads);
	fprintf(stderr, "usage: quota [--rounds N] [--reads N] [--only regions|loans|clients]\n");
	return 2;
}
