/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the module costs beside what the kernel has without it. Each figure is measured next to its
 * floor, round by round, and the median of the rounds' ratios counts:
 *
 *	copy	LOAN_COPY beside process_vm_readv() of the same memory of the same process
 *	map	memcpy() out of a mapped loan beside memcpy() out of a shared memfd, mapping included
 *	cycle	offer, accept, settle beside getppid(), with few and with many live loans
 *
 *	kmod [--json] [--quick]
 *
 * Exit status 1 when a figure misses its bar; --quick takes few figures once and judges none. Runs
 * in a guest on an instruction clock; see tests/bench/kmod.sh.
 */
#include <sys/uio.h>

#include "../kselftest/otte_test.h"

#define KIB 1024ul
#define MIB (1024 * KIB)
#define ROUNDS_MAX 15
#define SAMPLES_MAX 64 /* values that one median is taken of */
#define MAP_USES 100 /* a mapping serves this many copies */
#define CYCLES 64 /* between two looks at the events, which are not measured in "cycle" */
#define GETPPIDS 2000
#define LIVE_FEW 10
#define LIVE_MANY 100000
#define LIVE_QUICK 200
#define LARGEST (16 * MIB)

struct settings {
	bool json;
	bool quick;
	unsigned int rounds;
};

/* One figure: better is a larger ratio of speeds, or a smaller ratio of costs. */
struct figure {
	char name[64];
	bool speed;
	double bar; /* 0 for none */
	unsigned int rounds;
	double floor_ns[ROUNDS_MAX];
	double ours_ns[ROUNDS_MAX];
};

static struct settings settings;
static bool missed;

static _Noreturn void die(const char *what, int err)
{
	fprintf(stderr, "bench-kmod: %s: %s\n", what, strerror(err < 0 ? -err : err));
	exit(2);
}

static int must(int result, const char *what)
{
	if (result < 0)
		die(what, result);
	return result;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* ---- figures ---- */

static struct figure figure_begin(const char *name, unsigned long bytes, bool speed, double bar)
{
	/* One round proves that a figure can be taken, not what it is. */
	struct figure figure = { .speed = speed, .bar = settings.quick ? 0 : bar };

	if (!bytes)
		snprintf(figure.name, sizeof(figure.name), "%s", name);
	else if (bytes < MIB)
		snprintf(figure.name, sizeof(figure.name), "%s %lu KiB", name, bytes / KIB);
	else
		snprintf(figure.name, sizeof(figure.name), "%s %lu MiB", name, bytes / MIB);
	return figure;
}

static void figure_add(struct figure *figure, double floor_ns, double ours_ns)
{
	figure->floor_ns[figure->rounds] = floor_ns;
	figure->ours_ns[figure->rounds++] = ours_ns;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *values, unsigned int count)
{
	double sorted[SAMPLES_MAX];

	memcpy(sorted, values, count * sizeof(*values));
	qsort(sorted, count, sizeof(*sorted), compare);
	return sorted[count / 2];
}

static double figure_ratio(const struct figure *figure)
{
	double ratio[ROUNDS_MAX];
	unsigned int i;

	for (i = 0; i < figure->rounds; i++)
		ratio[i] = figure->speed ? figure->floor_ns[i] / figure->ours_ns[i] :
					   figure->ours_ns[i] / figure->floor_ns[i];
	return median(ratio, figure->rounds);
}

static void report_header(void)
{
	if (!settings.json)
		printf("%-34s %12s %12s %8s %8s\n", "figure", "floor ns", "otte ns", "ratio",
		       "bar");
}

static void report(const struct figure *figure)
{
	double ratio = figure_ratio(figure), bar = figure->bar;
	double floor_ns = median(figure->floor_ns, figure->rounds);
	double ours_ns = median(figure->ours_ns, figure->rounds);
	bool good = !bar || (figure->speed ? ratio >= bar : ratio <= bar);
	char text[24] = "";

	if (settings.json) {
		printf("{\"figure\":\"%s\",\"floor_ns\":%.1f,\"otte_ns\":%.1f,\"ratio\":%.4f,",
		       figure->name, floor_ns, ours_ns, ratio);
		if (bar)
			printf("\"%s\":%.2f,", figure->speed ? "at_least" : "at_most", bar);
		printf("\"rounds\":%u,\"met\":%s}\n", figure->rounds, good ? "true" : "false");
	} else {
		if (bar)
			snprintf(text, sizeof(text), "%s %.2f", figure->speed ? ">=" : "<=", bar);
		printf("%-34s %12.1f %12.1f %8.3f %8s%s\n", figure->name, floor_ns, ours_ns, ratio,
		       text, good ? "" : "  NOT MET");
	}
	fflush(stdout);
	missed |= !good;
}

/* ---- the lender, a process of its own, and what it lends ---- */

/* Mapped before the lender is made, so that it lies at one address in both processes. */
static void *lender_memory;

struct lent {
	struct peer lender;
	int memfd; /* shared memory of the same size, filled alike */
	int fd; /* the borrower's client */
	uint64_t loan[2]; /* for LOAN_COPY and for mmap() */
	uint64_t map_offset;
};

static void *must_map(size_t bytes, int flags, int fd)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (map == MAP_FAILED)
		die("mmap", errno);
	return map;
}

/* Small pages on both sides: what a huge page saves is the same for loan and floor. */
static void *must_alloc(size_t bytes)
{
	void *map = must_map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	madvise(map, bytes, MADV_NOHUGEPAGE);
	memset(map, 1, bytes);
	return map;
}

static void lender(int sock)
{
	uint64_t region = 0, loan = 0, borrower = hear(sock);
	int fd = must(otte_client(NULL), "lender");
	unsigned int i;

	otte_fill(lender_memory, LARGEST, 1);
	must(otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ, lender_memory, LARGEST, &region),
	     "region");
	for (i = 0; i < 2; i++) {
		must(otte_offer(fd, region, 0, LARGEST, borrower, OTTE_READ, OTTE_LOAN_MAPPABLE,
				&loan),
		     "offer");
		say(sock, loan);
	}
	hear(sock);
}

static struct lent lent_open(void)
{
	struct lent lent = {};
	struct otte_loan_accept accepted = {};
	uint64_t client = 0;
	void *map;
	unsigned int i;

	lent.memfd = must(memfd_create("floor", MFD_CLOEXEC), "memfd_create");
	must(ftruncate(lent.memfd, LARGEST), "ftruncate");
	map = must_map(LARGEST, MAP_SHARED, lent.memfd);
	otte_fill(map, LARGEST, 1);
	munmap(map, LARGEST);
	lender_memory = must_map(LARGEST, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(lender_memory, LARGEST, MADV_NOHUGEPAGE);
	lent.lender = peer_start(lender);
	lent.fd = must(otte_client(&client), "borrower");
	say(lent.lender.sock, client);
	for (i = 0; i < 2; i++) {
		lent.loan[i] = hear(lent.lender.sock);
		must(otte_accept(lent.fd, lent.loan[i], &accepted), "accept");
	}
	lent.map_offset = accepted.map_offset;
	return lent;
}

static void lent_close(struct lent *lent)
{
	close(lent->fd);
	close(lent->memfd);
	say(lent->lender.sock, 0);
	if (peer_wait(&lent->lender))
		die("the lender failed", EIO);
}

/*
 * ---- copy ----
 *
 * Each call is timed alone: a thread of the kernel that is given a tick in between, which 6.12
 * has, would be more than all calls of a round.
 */

static double copy_floor(const struct lent *lent, void *to, size_t bytes, unsigned int times)
{
	struct iovec local = { to, bytes }, remote = { lender_memory, bytes };
	double spent[SAMPLES_MAX], start;
	unsigned int i;

	for (i = 0; i < times; i++) {
		start = now_ns();
		if (process_vm_readv(lent->lender.pid, &local, 1, &remote, 1, 0) != (ssize_t)bytes)
			die("process_vm_readv", errno);
		spent[i] = now_ns() - start;
	}
	return median(spent, times);
}

static double copy_ours(const struct lent *lent, void *to, size_t bytes, unsigned int times)
{
	double spent[SAMPLES_MAX], start;
	unsigned int i;

	for (i = 0; i < times; i++) {
		start = now_ns();
		if (otte_copy(lent->fd, lent->loan[0], 0, to, bytes) != (int64_t)bytes)
			die("LOAN_COPY", EIO);
		spent[i] = now_ns() - start;
	}
	return median(spent, times);
}

static void bench_copy(const struct lent *lent, size_t bytes, double bar)
{
	struct figure figure = figure_begin("copy", bytes, true, bar);
	unsigned int i, times = bytes < MIB ? 64 : 8;
	void *to = must_alloc(bytes);
	double floor_ns;

	for (i = 0; i < settings.rounds; i++) {
		memset(to, 0, bytes);
		floor_ns = copy_floor(lent, to, bytes, times);
		if (!otte_filled(to, bytes, 1, 0))
			die("process_vm_readv gave other bytes", EIO);
		memset(to, 0, bytes);
		figure_add(&figure, floor_ns, copy_ours(lent, to, bytes, times));
		if (!otte_filled(to, bytes, 1, 0))
			die("LOAN_COPY gave other bytes", EIO);
	}
	munmap(to, bytes);
	report(&figure);
}

/* ---- map ---- */

/* memcpy() itself chooses its direction; here the pages come from the last one to the first. */
static void copy_backwards(char *to, const char *from, size_t bytes)
{
	while (bytes) {
		bytes -= PAGE;
		memcpy(to + bytes, from + bytes, PAGE);
	}
}

/* Maps, copies MAP_USES times, unmaps; the cost of one use. */
static double map_use(int fd, uint64_t offset, void *to, size_t bytes, bool backwards)
{
	double start = now_ns();
	void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, offset);
	unsigned int i;

	if (map == MAP_FAILED)
		die("mmap", errno);
	for (i = 0; i < MAP_USES; i++) {
		if (backwards)
			copy_backwards(to, map, bytes);
		else
			memcpy(to, map, bytes);
		/* Each copy is wanted. */
		__asm__ volatile("" ::: "memory");
	}
	munmap(map, bytes);
	return (now_ns() - start) / MAP_USES;
}

static void bench_map(const struct lent *lent, size_t bytes, bool backwards)
{
	const char *name = backwards ? "map, last page first," : "map";
	struct figure figure = figure_begin(name, bytes, true, 0.95);
	void *to = must_alloc(bytes);
	double floor_ns;
	unsigned int i;

	for (i = 0; i < settings.rounds; i++) {
		memset(to, 0, bytes);
		floor_ns = map_use(lent->memfd, 0, to, bytes, backwards);
		if (!otte_filled(to, bytes, 1, 0))
			die("the memfd gave other bytes", EIO);
		memset(to, 0, bytes);
		figure_add(&figure, floor_ns,
			   map_use(lent->fd, lent->map_offset, to, bytes, backwards));
		if (!otte_filled(to, bytes, 1, 0))
			die("the mapped loan gave other bytes", EIO);
	}
	munmap(to, bytes);
	report(&figure);
}

/* ---- cycle ---- */

/* A lender and a borrower in one process, so that no switch between two is measured. */
struct sides {
	int lender;
	int borrower;
	uint64_t borrower_id;
	uint64_t region;
	uint64_t pages;
};

static double getppid_ns(void)
{
	double start = now_ns();
	unsigned int i;

	for (i = 0; i < GETPPIDS; i++)
		syscall(SYS_getppid);
	return (now_ns() - start) / GETPPIDS;
}

/* Room for a page a loan, which nobody touches: what is lent here is the ledger's word. */
static struct sides sides_open(uint64_t pages)
{
	struct sides sides = { .pages = pages };
	void *memory;

	memory = must_map(pages * PAGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	sides.lender = must(otte_client(NULL), "lender");
	sides.borrower = must(otte_client(&sides.borrower_id), "borrower");
	must(fcntl(sides.lender, F_SETFL, O_NONBLOCK), "fcntl");
	must(fcntl(sides.borrower, F_SETFL, O_NONBLOCK), "fcntl");
	must(otte_region(sides.lender, OTTE_BACKING_NONE, OTTE_READ, memory, pages * PAGE,
			 &sides.region),
	     "region");
	return sides;
}

static void sides_drain(const struct sides *sides)
{
	static struct otte_event events[CYCLES];

	while (read(sides->borrower, events, sizeof(events)) > 0)
		;
	while (read(sides->lender, events, sizeof(events)) > 0)
		;
}

static uint64_t lend(const struct sides *sides, uint64_t page)
{
	uint64_t loan = 0;

	must(otte_offer(sides->lender, sides->region, page * PAGE, PAGE, sides->borrower_id,
			OTTE_READ, 0, &loan),
	     "offer");
	must(otte_accept(sides->borrower, loan, NULL), "accept");
	return loan;
}

/* @live more loans that stay: a page each, or all of them of page 0. */
static void lend_live(const struct sides *sides, uint64_t live, bool same)
{
	uint64_t i;

	for (i = 0; i < live; i++) {
		lend(sides, same ? 0 : i);
		if (i % CYCLES == 0)
			sides_drain(sides);
	}
	sides_drain(sides);
}

/* One offer, acceptance and settlement; with the events of it, if @events. */
static double cycle_ns(const struct sides *sides, bool events)
{
	double start = now_ns(), spent;
	unsigned int i;

	for (i = 0; i < CYCLES; i++) {
		must(otte_settle(sides->borrower, lend(sides, 0)), "settle");
		if (events)
			sides_drain(sides);
	}
	spent = now_ns() - start;
	sides_drain(sides);
	return spent / CYCLES;
}

/* Returns the median cost in getppid(). */
static double bench_cycle(const struct sides *sides, const char *name, bool events, double bar)
{
	struct figure figure = figure_begin(name, 0, false, bar);
	double floor_ns;
	unsigned int i;

	for (i = 0; i < settings.rounds; i++) {
		floor_ns = getppid_ns();
		figure_add(&figure, floor_ns, cycle_ns(sides, events));
	}
	report(&figure);
	return median(figure.ours_ns, figure.rounds);
}

static void bench_growth(const char *name, double few_ns, double many_ns)
{
	struct figure figure = figure_begin(name, 0, false, 1.2);

	figure_add(&figure, few_ns, many_ns);
	report(&figure);
}

/* The same with many live loans, each of a page or all of one, beside what it cost with few. */
static void bench_many(bool same, double few_ns, double few_read_ns)
{
	unsigned int many = settings.quick ? LIVE_QUICK : LIVE_MANY;
	const char *which = same ? " of a page" : "";
	struct sides sides = sides_open(LIVE_MANY);
	double many_ns;
	char name[64];

	lend_live(&sides, many, same);
	snprintf(name, sizeof(name), "cycle, %u live%s", many, which);
	many_ns = bench_cycle(&sides, name, false, 0);
	snprintf(name, sizeof(name), "growth to %u live%s", many, which);
	bench_growth(name, few_ns, many_ns);
	snprintf(name, sizeof(name), "cycle, events, %u live%s", many, which);
	many_ns = bench_cycle(&sides, name, true, 0);
	snprintf(name, sizeof(name), "growth, events, to %u live%s", many, which);
	bench_growth(name, few_read_ns, many_ns);
	close(sides.lender);
	close(sides.borrower);
}

static void bench_cycles(void)
{
	struct sides sides = sides_open(LIVE_MANY);
	double few_ns, few_read_ns;

	lend_live(&sides, LIVE_FEW, false);
	few_ns = bench_cycle(&sides, "cycle, 10 live", false, 30);
	few_read_ns = bench_cycle(&sides, "cycle, events, 10 live", true, 0);
	close(sides.lender);
	close(sides.borrower);

	bench_many(false, few_ns, few_read_ns);
	bench_many(true, few_ns, few_read_ns);
}

int main(int argc, char **argv)
{
	struct lent lent;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			settings.json = true;
		else if (!strcmp(argv[i], "--quick"))
			settings.quick = true;
		else
			die(argv[i], EINVAL);
	}
	settings.rounds = settings.quick ? 1 : 7;

	report_header();
	lent = lent_open();
	bench_copy(&lent, 4 * KIB, 0);
	bench_copy(&lent, 64 * KIB, 0.9);
	bench_map(&lent, 64 * KIB, false);
	bench_map(&lent, 64 * KIB, true);
	if (!settings.quick) {
		bench_copy(&lent, MIB, 0.9);
		bench_map(&lent, MIB, false);
		bench_map(&lent, MIB, true);
		bench_map(&lent, LARGEST, false);
	}
	lent_close(&lent);
	bench_cycles();
	return missed;
}
