/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Eight processes of four tenants (cgroups) write over one shaped link, behind no gate, the module's domain, or the
 * clock-only gate. In each phase some of them are busy; the others are members that want nothing.
 *
 *   slots source                      serves, beyond the link; prints ADDRESS REGION
 *   slots run ADDRESS REGION [-r N] [-q] [-m MBIT] [-s SEED]
 *
 * Every post below High is held against the clock: the slot, by the pattern, or nobody above it who waited.
 * -q: one short repetition of what is judged by that alone; else the bars of docs/performance.md, too.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "e2e/guest/slot_log.h"
#include "otte/otte.h"

#define DOMAIN "bench"
#define SLOT_NS (50 * NSEC_PER_MSEC)
#define CAP_BYTES (256u << 10)
#define WORKERS 8
#define TENANTS 4
#define PIECE (64u << 10)
#define PIECES 16 /* of a worker's part */
#define PART ((uint64_t)PIECE * PIECES)
#define AHEAD 8 /* requests of a batch of a flood; there are two */
#define FIXED_BATCHES 4 /* what a Low is to finish under a saturating High: 2 MiB */
#define POSTS 32768
#define HIGHS 8192
#define SECOND 1000000000ll
#define GRACE_NS (40 * NSEC_PER_MSEC) /* that a tick in an emulated guest may come late */

enum gate {
	GATE_NONE,
	GATE_DOMAIN,
	GATE_CLOCK
};
enum role {
	IDLE,
	LOW_FLOOD,
	LOW_FIXED,
	HIGH_FLOOD,
	HIGH_NOW_AND_THEN
};

static const char *const gate_names[] = { "no gate", "the module's domain", "the clock alone" };

struct span {
	uint64_t begin_ns, end_ns;
};

/* Shared with the parent. */
struct worker {
	enum role role;
	enum gate gate;
	unsigned index;
	unsigned seed;
	uint64_t bytes, first_ns, last_ns;
	unsigned posts, highs;
	struct slot_post post[POSTS];
	struct span high[HIGHS];
};

static const char *address;
static uint64_t region;
static struct worker *workers;
static _Atomic uint64_t *start_ns; /* shared: 0 until all are there */
static _Atomic unsigned *there;
static uint64_t for_ns;

static void die(const char *what)
{
	fprintf(stderr, "slots: %s: %s\n", what, otte_error_text());
	exit(3);
}

static void pause_ns(uint64_t ns)
{
	const struct timespec step = { (time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC) };

	nanosleep(&step, NULL);
}

/* ---- A worker ---- */

struct sender {
	struct worker *worker;
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *local;
	struct otte_segment *segment;
	struct otte_batch *batch[2];
};

static void configure(struct otte_config *config, enum gate gate)
{
	if (otte_config_init(config, sizeof(*config)))
		die("config");
	config->stats_socket = 0;
	config->control_timeout_ns = 60 * NSEC_PER_SEC; /* eight at once, in an emulated guest */
	config->listen_address[0] = 0;
	config->ledger = gate == GATE_CLOCK ? OTTE_LEDGER_PROCESS : OTTE_LEDGER_KERNEL;
	config->slot_interval_ns = SLOT_NS;
	config->low_inflight_bytes = CAP_BYTES;
	if (gate != GATE_NONE)
		strcpy(config->slots_domain, DOMAIN);
}

static void open_sender(struct sender *sender, struct worker *worker)
{
	struct otte_region_desc desc = { .length = PART };
	struct otte_config config;

	memset(sender, 0, sizeof(*sender));
	sender->worker = worker;
	configure(&config, worker->gate);
	if (otte_engine_create(&config, &sender->engine) ||
	    otte_mem_alloc(sender->engine, PART, 0, &sender->mem))
		die("engine");
	desc.mem = sender->mem;
	if (otte_region_register(sender->engine, &desc, 1, &sender->local) ||
	    otte_segment_open(sender->engine, address, OTTE_EPOCH_ANY, 30 * SECOND,
			      &sender->segment) ||
	    otte_batch_create(sender->engine, AHEAD, &sender->batch[0]) ||
	    otte_batch_create(sender->engine, AHEAD, &sender->batch[1]))
		die("segment");
}

/* Pieces from the last one on, so that none continues the one before it. */
static struct otte_request piece(const struct sender *sender, unsigned index, uint8_t priority)
{
	uint64_t offset = (uint64_t)(PIECES - 1 - index) * PIECE;

	return (struct otte_request){
		.segment = sender->segment,
		.local = sender->local,
		.op = OTTE_WRITE,
		.priority = priority,
		.local_offset = offset,
		.remote_region = region,
		.remote_offset = sender->worker->index * PART + offset,
		.length = PIECE,
	};
}

static void submit(struct sender *sender, unsigned half, uint8_t priority)
{
	struct otte_request requests[AHEAD];
	unsigned i;

	for (i = 0; i < AHEAD; i++)
		requests[i] = piece(sender, half * AHEAD + i, priority);
	if (otte_batch_submit(sender->batch[half], requests, AHEAD))
		die("submit");
}

static void finish(struct sender *sender, unsigned half)
{
	if (otte_batch_wait(sender->batch[half], 60 * SECOND) ||
	    otte_batch_reset(sender->batch[half]))
		die("wait");
	sender->worker->bytes += AHEAD * PIECE;
	sender->worker->last_ns = otte_now_ns();
}

/* Always more submitted than may be under way, until time or `batches` run out. */
static void flood(struct sender *sender, uint8_t priority, uint64_t until_ns, unsigned batches)
{
	unsigned half = 0, sent = 1;

	submit(sender, 0, priority);
	while (otte_now_ns() < until_ns && sent < batches) {
		submit(sender, !half, priority);
		sent++;
		finish(sender, half);
		half = !half;
	}
	finish(sender, half);
}

static void note_high(struct worker *worker, uint64_t begin_ns)
{
	if (worker->highs == HIGHS)
		die("more High requests than there is room for");
	worker->high[worker->highs++] = (struct span){ begin_ns, otte_now_ns() };
}

/* At moments that have nothing to do with slots. */
static void now_and_then(struct sender *sender, uint64_t until_ns)
{
	struct worker *worker = sender->worker;
	struct otte_request request = piece(sender, 0, OTTE_PRIORITY_HIGH);
	uint64_t begin_ns;

	while ((begin_ns = otte_now_ns()) < until_ns) {
		if (otte_batch_run(sender->batch[0], &request, 1, 60 * SECOND))
			die("run");
		note_high(worker, begin_ns);
		worker->bytes += PIECE;
		worker->last_ns = otte_now_ns();
		pause_ns((uint64_t)rand_r(&worker->seed) % (80 * NSEC_PER_MSEC));
	}
}

static void work(struct sender *sender, uint64_t until_ns)
{
	struct worker *worker = sender->worker;
	uint64_t begin_ns = otte_now_ns();

	worker->first_ns = begin_ns;
	switch (worker->role) {
	case LOW_FLOOD:
		flood(sender, OTTE_PRIORITY_LOW, until_ns, UINT32_MAX);
		break;
	case LOW_FIXED:
		flood(sender, OTTE_PRIORITY_LOW, UINT64_MAX, FIXED_BATCHES);
		break;
	case HIGH_FLOOD:
		/* Two batches overlap: to the domain this is one request. */
		flood(sender, OTTE_PRIORITY_HIGH, until_ns, UINT32_MAX);
		note_high(worker, begin_ns);
		break;
	case HIGH_NOW_AND_THEN:
		now_and_then(sender, until_ns);
		break;
	default:
		pause_ns(until_ns - begin_ns);
	}
}

static void close_sender(struct sender *sender)
{
	if (otte_batch_destroy(sender->batch[0]) || otte_batch_destroy(sender->batch[1]) ||
	    otte_segment_close(sender->segment) ||
	    otte_region_unregister(&sender->local, 1, 10 * SECOND, NULL) ||
	    otte_mem_release(sender->mem) || otte_engine_destroy(sender->engine))
		die("close");
}

static void join_tenant(unsigned index)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/fs/cgroup/tenant%u/cgroup.procs", index % TENANTS);
	file = fopen(path, "w");
	if (!file || fprintf(file, "%d", (int)getpid()) < 0 || fclose(file)) {
		perror(path);
		exit(3);
	}
}

static void run_worker(struct worker *worker)
{
	struct sender sender;
	unsigned i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	join_tenant(worker->index);
	open_sender(&sender, worker);
	slot_log_start();
	atomic_fetch_add(there, 1);
	while (!atomic_load(start_ns))
		pause_ns(NSEC_PER_MSEC);
	work(&sender, atomic_load(start_ns) + for_ns);
	worker->posts = slot_log_count();
	if (worker->posts > POSTS)
		die("more posts than there is room for");
	for (i = 0; i < worker->posts; i++)
		worker->post[i] = *slot_log_post(i);
	close_sender(&sender);
}

/* ---- A phase ---- */

static void run_phase(enum gate gate, const enum role roles[WORKERS], uint64_t phase_ns,
		      unsigned seed)
{
	pid_t pids[WORKERS];
	int i, status;

	for_ns = phase_ns;
	atomic_store(start_ns, 0);
	atomic_store(there, 0);
	memset(workers, 0, sizeof(*workers) * WORKERS);
	for (i = 0; i < WORKERS; i++) {
		workers[i].role = roles[i];
		workers[i].gate = gate;
		workers[i].index = (unsigned)i;
		workers[i].seed = seed + (unsigned)i;
		fflush(NULL);
		pids[i] = fork();
		if (!pids[i]) {
			run_worker(&workers[i]);
			_exit(0);
		}
	}
	for (i = 0; atomic_load(there) < WORKERS; i++) {
		if (i == 60000)
			die("workers do not come up");
		pause_ns(NSEC_PER_MSEC);
	}
	atomic_store(start_ns, otte_now_ns());
	for (i = 0; i < WORKERS; i++)
		if (waitpid(pids[i], &status, 0) != pids[i] || status)
			die("a worker failed");
}

/* ---- Posts against the clock ---- */

static unsigned passed, failed;
static uint64_t posts_checked, posts_early;

static void judge(bool good, const char *what)
{
	if (good)
		passed++;
	else
		failed++;
	if (!good)
		printf("FAILED: %s\n", what);
}

/* Another process had a High request from long enough before until after: the module has told of it. */
static bool high_was_known(const struct slot_post *post)
{
	unsigned w, i;

	for (w = 0; w < WORKERS; w++)
		for (i = 0; i < workers[w].highs; i++)
			if (workers[w].high[i].begin_ns + SLOT_NS + GRACE_NS < post->now_ns &&
			    workers[w].high[i].end_ns > post->now_ns)
				return true;
	return false;
}

static bool post_is_good(const struct worker *worker, const struct slot_post *post)
{
	bool early = slot_post_is_early(post);

	posts_early += early;
	if (post->low_bytes > CAP_BYTES && post->low_bytes != post->bytes)
		return false;
	if (worker->gate == GATE_CLOCK)
		return !early && post->lowest == post->now_ns / SLOT_NS % 3;
	return slot_post_obeys(post) && !(early && high_was_known(post));
}

static void print_post(const struct worker *worker, unsigned i)
{
	const struct slot_post *post = &worker->post[i];

	printf("worker %u, post %u: at %" PRIu64
	       ", priority %u, slot %u, waiting %x, low bytes %" PRIu64 "\n",
	       worker->index, i, post->now_ns, post->priority, post->lowest, post->waiting,
	       post->low_bytes);
}

static void check_posts(const char *phase)
{
	uint64_t bad = 0, all = 0;
	unsigned w, i;
	char text[128];

	posts_early = 0;
	for (w = 0; w < WORKERS; w++) {
		for (i = 0; i < workers[w].posts; i++, all++) {
			if (post_is_good(&workers[w], &workers[w].post[i]))
				continue;
			if (!bad++)
				print_post(&workers[w], i);
		}
	}
	posts_checked += all;
	snprintf(text, sizeof(text), "%s, %s: %" PRIu64 " of %" PRIu64 " posts (%" PRIu64 " early)",
		 phase, gate_names[workers[0].gate], bad, all, posts_early);
	judge(!bad && all, text);
}

/* ---- Figures ---- */

#define REPETITIONS_MAX 32

struct figures {
	double low_alone[REPETITIONS_MAX]; /* bytes a second, of all four */
	double high_alone[REPETITIONS_MAX]; /* p99, seconds */
	double high_beside[REPETITIONS_MAX];
	double low_beside[REPETITIONS_MAX]; /* bytes a second, beside High now and then */
	double low_finishes[REPETITIONS_MAX]; /* seconds */
};

static struct figures figures[3];

static double throughput(enum role role)
{
	uint64_t bytes = 0, first_ns = UINT64_MAX, last_ns = 0;
	unsigned i;

	for (i = 0; i < WORKERS; i++) {
		if (workers[i].role != role)
			continue;
		bytes += workers[i].bytes;
		first_ns = min_u64(first_ns, workers[i].first_ns);
		last_ns = max_u64(last_ns, workers[i].last_ns);
	}
	return (double)bytes * 1e9 / (double)(last_ns - first_ns);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double p99_of_high(void)
{
	static double times[WORKERS * HIGHS];
	unsigned n = 0, w, i;

	for (w = 0; w < WORKERS; w++)
		for (i = 0; i < workers[w].highs; i++)
			times[n++] =
				(double)(workers[w].high[i].end_ns - workers[w].high[i].begin_ns) /
				1e9;
	if (n < 5)
		die("too few High requests");
	qsort(times, n, sizeof(*times), by_value);
	return times[(n - 1) * 99 / 100];
}

static double finishing_time(void)
{
	return (double)(workers[1].last_ns - workers[1].first_ns) / 1e9;
}

static double median(const double *values, unsigned n)
{
	double sorted[REPETITIONS_MAX];

	memcpy(sorted, values, n * sizeof(*values));
	qsort(sorted, n, sizeof(*sorted), by_value);
	return sorted[n / 2];
}

/* ---- The phases ---- */

static const enum role low_alone[WORKERS] = { LOW_FLOOD, LOW_FLOOD, LOW_FLOOD, LOW_FLOOD };
static const enum role high_alone[WORKERS] = { HIGH_NOW_AND_THEN };
static const enum role beside[WORKERS] = { HIGH_NOW_AND_THEN, LOW_FLOOD };
static const enum role saturated[WORKERS] = { HIGH_FLOOD, LOW_FIXED };
static const enum role mixed[WORKERS] = { HIGH_NOW_AND_THEN, LOW_FLOOD, LOW_FLOOD,
					  HIGH_NOW_AND_THEN, LOW_FLOOD, HIGH_NOW_AND_THEN,
					  LOW_FLOOD,	     IDLE };

static void repeat(enum gate gate, unsigned r, unsigned seed)
{
	struct figures *f = &figures[gate];

	run_phase(gate, low_alone, 1500 * NSEC_PER_MSEC, seed);
	f->low_alone[r] = throughput(LOW_FLOOD);
	if (gate != GATE_NONE)
		check_posts("Low alone");
	run_phase(gate, high_alone, 3 * NSEC_PER_SEC, seed);
	f->high_alone[r] = p99_of_high();
	run_phase(gate, beside, 5 * NSEC_PER_SEC, seed);
	f->high_beside[r] = p99_of_high();
	f->low_beside[r] = throughput(LOW_FLOOD);
	if (gate != GATE_NONE)
		check_posts("High beside a Low flood");
	run_phase(gate, saturated, 3 * NSEC_PER_SEC, seed);
	f->low_finishes[r] = finishing_time();
	if (gate != GATE_NONE)
		check_posts("a saturating High");
	if (gate != GATE_NONE) {
		run_phase(gate, mixed, 1500 * NSEC_PER_MSEC, seed);
		check_posts("all together");
	}
}

static void print_figures(enum gate gate, unsigned n, double capped_s)
{
	const struct figures *f = &figures[gate];

	printf("%-20s  Low alone %6.2f MB/s (%.3f of ungated)  High p99 alone %6.1f ms, beside a flood %6.1f ms "
	       "(%.2f of the bound's base)  Low beside High %6.2f MB/s  2 MiB Low under a saturating High %5.2f s\n",
	       gate_names[gate], median(f->low_alone, n) / 1e6,
	       median(f->low_alone, n) / median(figures[GATE_NONE].low_alone, n),
	       median(f->high_alone, n) * 1e3, median(f->high_beside, n) * 1e3,
	       median(f->high_beside, n) / (median(figures[GATE_DOMAIN].high_alone, n) + capped_s),
	       median(f->low_beside, n) / 1e6, median(f->low_finishes, n));
}

static void judge_bars(unsigned n, double capped_s)
{
	const struct figures *f = &figures[GATE_DOMAIN];

	judge(median(f->low_alone, n) >= 0.97 * median(figures[GATE_NONE].low_alone, n),
	      "Low alone >= 0.97 of ungated");
	judge(median(f->high_beside, n) <= 1.3 * (median(f->high_alone, n) + capped_s),
	      "High's p99 beside a Low flood <= 1.3 x (High alone + capped bytes at link rate)");
	judge(median(f->low_finishes, n) < 60, "Low under a saturating High finishes");
}

static void measure(unsigned n, double capped_s, unsigned seed)
{
	static const enum gate gates[] = { GATE_NONE, GATE_DOMAIN, GATE_CLOCK };
	unsigned r, g;

	for (r = 0; r < n; r++) {
		for (g = 0; g < ARRAY_SIZE(gates); g++)
			repeat(gates[g], r, seed + r * 100);
		printf("repetition %u\n", r + 1);
		for (g = 0; g < ARRAY_SIZE(gates); g++) {
			const struct figures *f = &figures[gates[g]];

			printf("  %-20s low alone %.2f MB/s, high alone %.1f ms, beside %.1f ms, low beside %.2f MB/s, "
			       "low finishes %.2f s\n",
			       gate_names[gates[g]], f->low_alone[r] / 1e6, f->high_alone[r] * 1e3,
			       f->high_beside[r] * 1e3, f->low_beside[r] / 1e6, f->low_finishes[r]);
		}
		fflush(stdout);
	}
	printf("medians of %u\n", n);
	for (g = 0; g < ARRAY_SIZE(gates); g++)
		print_figures(gates[g], n, capped_s);
	judge_bars(n, capped_s);
}

static void measure_quickly(unsigned seed)
{
	run_phase(GATE_DOMAIN, low_alone, NSEC_PER_SEC, seed);
	check_posts("Low alone");
	judge(posts_early > 0, "Low alone goes outside of its slots");
	run_phase(GATE_DOMAIN, beside, 3 * NSEC_PER_SEC, seed);
	check_posts("High beside a Low flood");
	run_phase(GATE_DOMAIN, mixed, 3 * NSEC_PER_SEC, seed);
	check_posts("all together");
	run_phase(GATE_CLOCK, mixed, 3 * NSEC_PER_SEC, seed);
	check_posts("all together");
}

/* ---- Programs ---- */

_Noreturn static void serve(void)
{
	struct otte_region_desc desc = { .length = PART * WORKERS, .access = OTTE_REMOTE_WRITE };
	char text[OTTE_ADDRESS_MAX];
	struct otte_engine *engine;
	struct otte_region *served;
	struct otte_config config;

	configure(&config, GATE_NONE);
	config.ledger = OTTE_LEDGER_PROCESS;
	strcpy(config.listen_address, "192.0.2.2");
	if (otte_engine_create(&config, &engine) ||
	    otte_mem_alloc(engine, desc.length, 0, &desc.mem) ||
	    otte_region_register(engine, &desc, 1, &served) ||
	    otte_engine_address(engine, text, sizeof(text)))
		die("source");
	printf("%s %" PRIu64 "\n", text, otte_region_id(served));
	fflush(stdout);
	for (;;)
		pause();
}

static void *shared(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED) {
		perror("mmap");
		exit(3);
	}
	return at;
}

static void make_tenants(void)
{
	char path[64];
	int i;

	for (i = 0; i < TENANTS; i++) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup/tenant%d", i);
		if (mkdir(path, 0755) && errno != EEXIST) {
			perror(path);
			exit(3);
		}
	}
}

int main(int argc, char **argv)
{
	unsigned repetitions = 5, mbit = 80, seed = 4711;
	bool quick = false;
	int option;

	if (argc == 2 && !strcmp(argv[1], "source"))
		serve();
	if (argc < 4 || strcmp(argv[1], "run"))
		return 2;
	address = argv[2];
	region = strtoull(argv[3], NULL, 0);
	optind = 4;
	while ((option = getopt(argc, argv, "r:m:s:q")) != -1) {
		switch (option) {
		case 'r':
			repetitions = (unsigned)atoi(optarg);
			break;
		case 'm':
			mbit = (unsigned)atoi(optarg);
			break;
		case 's':
			seed = (unsigned)atoi(optarg);
			break;
		case 'q':
			quick = true;
			break;
		default:
			return 2;
		}
	}
	if (!repetitions || repetitions > REPETITIONS_MAX)
		return 2;
	printf("seed %u\n", seed);
	workers = shared(sizeof(*workers) * WORKERS);
	start_ns = shared(sizeof(*start_ns));
	there = shared(sizeof(*there));
	make_tenants();
	if (slot_domain_create(DOMAIN, SLOT_NS, 0111)) {
		fprintf(stderr, "slots: no domain\n");
		return 3;
	}
	if (quick)
		measure_quickly(seed);
	else
		measure(repetitions, CAP_BYTES * 8 / (mbit * 1e6), seed);
	slot_domain_delete(DOMAIN);
	printf("%" PRIu64 " posts below High were held against the clock\n", posts_checked);
	printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
