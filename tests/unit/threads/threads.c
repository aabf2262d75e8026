/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sixty-four threads and one engine. OTTE_TEST_SMALL: eight threads and few rounds, for valgrind.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "unit/engine/pair.h"
#include "seen.h"

#define THREADS 64
#define SHARE (128u << 10)
#define REQUESTS 6
#define SEED 20260731

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 12
#else
#define ROUNDS 60
#endif

static unsigned threads(void)
{
	return getenv("OTTE_TEST_SMALL") ? 8 : THREADS;
}

static unsigned rounds(void)
{
	return getenv("OTTE_TEST_SMALL") ? 4 : ROUNDS;
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (*state >> 16) % below;
}

/* What went wrong in a thread; cmocka's own checks belong to the main one. */
static _Atomic int wrong_line, wrong_code;

#define CHECK(condition, code) \
	do { \
		if (!(condition)) { \
			int none_ = 0; \
			if (atomic_compare_exchange_strong(&wrong_line, &none_, __LINE__)) \
				atomic_store(&wrong_code, (code)); \
		} \
	} while (0)

static void nothing_was_wrong(void)
{
	if (atomic_load(&wrong_line))
		fail_msg("in a thread, line %d: %d", atomic_load(&wrong_line),
			 atomic_load(&wrong_code));
}

struct worker {
	pthread_t thread;
	struct pair *pair;
	unsigned index;
	uint64_t random;
	uint64_t busy, done;
};

static void run_all(struct pair *pair, void *(*run)(void *arg), struct worker *workers)
{
	unsigned i;

	for (i = 0; i < threads(); i++) {
		workers[i] = (struct worker){ .pair = pair, .index = i, .random = SEED + i };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
	}
	for (i = 0; i < threads(); i++)
		pthread_join(workers[i].thread, NULL);
	nothing_was_wrong();
}

/* ---- Each thread on bytes of its own ---- */

struct part {
	uint64_t offset, length;
	uint8_t op, salt;
};

/*
 * Payload is touched where the thread sanitizer does not look: what orders the two sides is the arrival
 * of bytes (tests/tsan.supp), and by then it may have forgotten who sent them.
 */
#define PAYLOAD __attribute__((no_sanitize("thread"), noinline))

PAYLOAD static void clear(uint8_t *bytes, uint64_t length)
{
	volatile uint8_t *to = bytes; /* so that no memset() is made of it */

	while (length--)
		*to++ = 0;
}

PAYLOAD static void fill(uint8_t *bytes, uint64_t length, uint8_t salt)
{
	uint64_t i;

	for (i = 0; i < length; i++)
		bytes[i] = (uint8_t)(i * 7 ^ i >> 8 ^ salt);
}

PAYLOAD static bool holds(const uint8_t *bytes, uint64_t length, uint8_t salt)
{
	uint64_t i;

	for (i = 0; i < length; i++)
		if (bytes[i] != (uint8_t)(i * 7 ^ i >> 8 ^ salt))
			return false;
	return true;
}

/* Requests that follow each other in the thread's share, with gaps of zero bytes or more. */
static void draw_parts(struct worker *worker, struct part *parts)
{
	uint64_t at = (uint64_t)worker->index * SHARE, end = at + SHARE;
	unsigned i;

	for (i = 0; i < REQUESTS; i++) {
		uint64_t room = (end - at) / (REQUESTS - i);

		parts[i].offset = at + draw(&worker->random, 2) * draw(&worker->random, room / 2);
		parts[i].length = 1 + draw(&worker->random, room - (parts[i].offset - at) - 1);
		parts[i].op = (uint8_t)draw(&worker->random, 2);
		parts[i].salt = (uint8_t)draw(&worker->random, 256);
		at = parts[i].offset + parts[i].length;
	}
}

static void *move_own_bytes(void *arg)
{
	struct worker *worker = arg;
	struct pair *pair = worker->pair;
	struct otte_request requests[REQUESTS];
	struct otte_batch_status status;
	struct part parts[REQUESTS];
	struct otte_batch *batch;
	unsigned round, i;
	int ret;

	CHECK(otte_batch_create(pair->requester, REQUESTS, &batch) == 0, 0);
	for (round = 0; round < rounds(); round++) {
		draw_parts(worker, parts);
		for (i = 0; i < REQUESTS; i++) {
			bool read = parts[i].op == OTTE_READ;

			fill((read ? pair->remote_bytes : pair->local_bytes) + parts[i].offset,
			     parts[i].length, parts[i].salt);
			clear((read ? pair->local_bytes : pair->remote_bytes) + parts[i].offset,
			      parts[i].length);
			requests[i] = pair_request(pair, parts[i].op, parts[i].offset,
						   parts[i].offset, parts[i].length);
			requests[i].priority = (uint8_t)draw(&worker->random, 3);
		}
		ret = otte_batch_submit(batch, requests, REQUESTS);
		CHECK(ret == 0, ret);
		ret = otte_batch_wait(batch, 60 * SECOND);
		CHECK(ret == 0, ret);
		CHECK(otte_batch_poll(batch, &status) == 0, 0);
		CHECK(status.completed_prefix == REQUESTS, (int)status.completed_prefix);
		for (i = 0; i < REQUESTS; i++)
			CHECK(holds((parts[i].op == OTTE_READ ? pair->local_bytes :
								pair->remote_bytes) + parts[i].offset,
				    parts[i].length, parts[i].salt), (int)i);
		CHECK(otte_batch_reset(batch) == 0, 0);
	}
	CHECK(otte_batch_destroy(batch) == 0, 0);
	return NULL;
}

static void two_workers(struct otte_config *config)
{
	config->tcp_workers = 2;
	config->tcp_lanes = 3;
	config->window_requests = 16;
}

static void sixty_four_threads_each_find_their_bytes(void **state)
{
	static struct worker workers[THREADS];
	struct otte_stats stats = { .size = sizeof(stats) };
	struct pair pair;

	(void)state;
	pair_open(&pair, (uint64_t)THREADS * SHARE, two_workers);
	run_all(&pair, move_own_bytes, workers);
	assert_int_equal(otte_engine_stats(pair.requester, &stats), 0);
	assert_int_equal(stats.submitted, (uint64_t)threads() * rounds() * REQUESTS);
	assert_int_equal(stats.completed, stats.submitted);
	assert_int_equal(stats.failed, 0);
	assert_int_equal(stats.requests, 0);
	assert_int_equal(stats.bytes, 0);
	pair_close(&pair);
}

/* ---- Threads on the same bytes ---- */

#define CONTESTED (1u << 20)

/*
 * What each thread asks for, from before it submits until after it has been told. A refusal is right only
 * if some other one asked for a byte of it at some moment between.
 */
static struct {
	pthread_mutex_t lock;
	struct claim {
		uint64_t start, end;
		bool live, met;
	} claims[THREADS];
} book = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void claim(unsigned index, uint64_t start, uint64_t end)
{
	struct claim *mine = &book.claims[index];
	unsigned i;

	pthread_mutex_lock(&book.lock);
	*mine = (struct claim){ .start = start, .end = end, .live = true };
	for (i = 0; i < THREADS; i++) {
		struct claim *other = &book.claims[i];

		if (i == index || !other->live || other->end <= start || end <= other->start)
			continue;
		mine->met = other->met = true;
	}
	pthread_mutex_unlock(&book.lock);
}

/* True: somebody asked for the same bytes meanwhile. */
static bool unclaim(unsigned index)
{
	bool met;

	pthread_mutex_lock(&book.lock);
	met = book.claims[index].met;
	book.claims[index].live = false;
	pthread_mutex_unlock(&book.lock);
	return met;
}

static void *move_contested_bytes(void *arg)
{
	struct worker *worker = arg;
	struct pair *pair = worker->pair;
	struct otte_batch *batch;
	unsigned round;

	CHECK(otte_batch_create(pair->requester, 1, &batch) == 0, 0);
	for (round = 0; round < rounds() * 4; round++) {
		uint64_t start = draw(&worker->random, CONTESTED - 1);
		uint64_t length = 1 + draw(&worker->random, 30000);
		struct otte_request request;
		struct otte_task task;
		int ret;

		if (length > CONTESTED - start)
			length = CONTESTED - start;
		request = pair_request(pair, (uint8_t)draw(&worker->random, 2), start, start, length);
		claim(worker->index, start, start + length);
		ret = otte_batch_submit(batch, &request, 1);
		if (!ret) {
			CHECK(otte_batch_wait(batch, 60 * SECOND) == 0, 0);
			CHECK(otte_batch_task(batch, 0, &task) == 0, 0);
			ret = task.code;
			CHECK(ret == 0 || task.remote_effect == OTTE_EFFECT_NONE, ret);
			CHECK(otte_batch_reset(batch) == 0, 0);
		}
		CHECK(ret == 0 || ret == -EBUSY, ret);
		CHECK(unclaim(worker->index) || ret == 0, (int)round);
		worker->busy += ret == -EBUSY;
		worker->done += ret == 0;
	}
	CHECK(otte_batch_destroy(batch) == 0, 0);
	return NULL;
}

static void busy_is_said_only_of_bytes_that_are_in_use(void **state)
{
	static struct worker workers[THREADS];
	uint64_t busy = 0, done = 0;
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, CONTESTED, two_workers);
	run_all(&pair, move_contested_bytes, workers);
	for (i = 0; i < threads(); i++) {
		busy += workers[i].busy;
		done += workers[i].done;
	}
	assert_true(done > 0);
	assert_true(busy > 0 || getenv("OTTE_TEST_SMALL"));
	pair_close(&pair);
}

/* A peer may use what it read as soon as it has it, whichever worker answers next. */
static void a_write_may_follow_a_read_at_once(void **state)
{
	struct pair pair;
	unsigned i;

	(void)state;
	/* The READ takes a slice on each lane; the WRITE goes on the first, and meets that of the second. */
	pair_open(&pair, 192 << 10, two_workers);
	for (i = 0; i < rounds() * 50; i++) {
		assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 192 << 10), 0);
		assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 64 << 10, 64), 0);
	}
	pair_close(&pair);
}

/* ---- One runs a batch, others look at it ---- */

#define LOOKS 2000

static _Atomic bool looking;

static void *look_at_tasks(void *arg)
{
	struct pair *pair = arg;
	struct otte_task task;
	uint32_t i;
	int ret;

	while (atomic_load_explicit(&looking, memory_order_relaxed)) {
		for (i = 0; i < 2; i++) {
			ret = otte_batch_task(pair->batch, i, &task);
			CHECK(ret == 0 || ret == -EINVAL, ret);
			CHECK(ret || task.user_data == i, (int)task.user_data);
			CHECK(ret || task.code == 0, task.code);
		}
	}
	return NULL;
}

static void tasks_may_be_looked_at_while_their_batch_is_run_again(void **state)
{
	struct otte_request requests[2];
	pthread_t threads[2];
	struct pair pair;
	unsigned i;

	(void)state;
	pair_open(&pair, SHARE, NULL);
	for (i = 0; i < 2; i++) {
		/* Neighbours: the second is part of the first one's group. */
		requests[i] = pair_request(&pair, OTTE_READ, i * 4096, i * 4096, 4096);
		requests[i].user_data = i;
	}
	atomic_store(&looking, true);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look_at_tasks, &pair), 0);
	for (i = 0; i < LOOKS; i++)
		assert_int_equal(otte_batch_run(pair.batch, requests, 2, 60 * SECOND), 0);
	atomic_store(&looking, false);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	nothing_was_wrong();
	pair_close(&pair);
}

/* ---- Runs, and what happens beside them ---- */

#define RUNNERS 4
#define TROUBLES 250

static struct {
	_Atomic bool on;
	char address[OTTE_ADDRESS_MAX];
	struct otte_batch *batches[RUNNERS];
	pthread_t threads[RUNNERS];
	pthread_rwlock_t lock;
} beside = { .lock = PTHREAD_RWLOCK_INITIALIZER };

static void open_again(struct worker *worker, struct otte_segment **segment)
{
	int ret, tries = 0;

	do {
		ret = otte_segment_open(worker->pair->requester, beside.address, OTTE_EPOCH_ANY,
					20 * SECOND, segment);
		if (ret)
			usleep(1000);
	} while (ret && ++tries < 10000);
	CHECK(ret == 0, ret);
}

static bool is_lost(int code)
{
	return code == -ECONNRESET || code == -ECANCELED;
}

static void run_once(struct worker *worker, struct otte_segment *segment, uint64_t most,
		     int64_t limit)
{
	struct otte_batch *batch = beside.batches[worker->index];
	uint64_t at = (uint64_t)worker->index * SHARE, length = 1 + draw(&worker->random, most);
	struct otte_request request = pair_request(worker->pair, OTTE_READ, at, at, length);
	struct otte_task task = { 0 };
	int ret;

	request.segment = segment;
	clear(worker->pair->local_bytes + at, length);
	ret = otte_batch_run(batch, &request, 1, limit);
	if (ret == -ETIMEDOUT)
		ret = otte_batch_wait(batch, -1);
	if (ret >= 0) {
		CHECK(otte_batch_task(batch, 0, &task) == 0, 0);
		ret = task.code;
	}
	CHECK(ret == 0 || is_lost(ret), ret);
	CHECK(ret || holds(worker->pair->local_bytes + at, length, (uint8_t)worker->index), 0);
	worker->done += ret == 0;
}

static void *run_beside(void *arg)
{
	static const int64_t limits[] = { 0, 30000000, -1, 60 * SECOND };
	struct worker *worker = arg;
	struct otte_segment *segment = NULL;

	while (atomic_load(&beside.on)) {
		int64_t limit = limits[draw(&worker->random, 4)];
		uint64_t most = draw(&worker->random, 4) ? 4096 : SHARE - 1;
		unsigned turns = (unsigned)draw(&worker->random, 200);

		/* Now and then alone, and so asleep in its connection; and its peer goes with its segment. */
		if (draw(&worker->random, 2))
			pthread_rwlock_wrlock(&beside.lock);
		else
			pthread_rwlock_rdlock(&beside.lock);
		open_again(worker, &segment);
		while (turns--)
			run_once(worker, segment, most, limit);
		CHECK(otte_segment_close(segment) == 0, 0);
		pthread_rwlock_unlock(&beside.lock);
		usleep((unsigned)draw(&worker->random, 2000));
	}
	return NULL;
}

/* A connection of this process to the source. */
static void shut_one(uint64_t *random)
{
	unsigned port = (unsigned)atoi(strrchr(beside.address, ':') + 1);
	int fd, first = (int)draw(random, 64), i;

	for (i = 0; i < 64; i++) {
		struct sockaddr_in peer = { 0 };
		socklen_t length = sizeof(peer);

		fd = 3 + (first + i) % 64;
		if (!getpeername(fd, (struct sockaddr *)&peer, &length) &&
		    peer.sin_family == AF_INET && ntohs(peer.sin_port) == port) {
			shutdown(fd, SHUT_RDWR);
			return;
		}
	}
}

static void nothing_to_do(int number)
{
	(void)number;
}

static void make_trouble(uint64_t *random)
{
	unsigned k = (unsigned)draw(random, RUNNERS);

	usleep((unsigned)draw(random, 20000));
	switch (draw(random, 4)) {
	case 0:
		shut_one(random);
		break;
	case 1:
		CHECK(otte_batch_cancel(beside.batches[k]) == 0, 0);
		break;
	default:
		pthread_kill(beside.threads[k], SIGUSR1);
	}
}

static void quick(struct otte_config *config)
{
	config->stats_socket = 0;
	config->tcp_lanes = 2;
	config->tcp_workers = 2;
	config->reconnect_min_ns = 1000000;
	config->reconnect_max_ns = 10000000;
}

static void runs_survive_what_happens_beside_them(void **state)
{
	struct sigaction action = { .sa_handler = nothing_to_do };
	struct worker workers[RUNNERS];
	uint64_t random = SEED, done = 0;
	struct pair pair;
	unsigned i;

	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	pair_open(&pair, RUNNERS * SHARE, quick);
	assert_int_equal(otte_engine_address(pair.source, beside.address, sizeof(beside.address)), 0);
	atomic_store(&beside.on, true);
	for (i = 0; i < RUNNERS; i++) {
		fill(pair.remote_bytes + i * SHARE, SHARE, (uint8_t)i);
		assert_int_equal(otte_batch_create(pair.requester, 1, &beside.batches[i]), 0);
	}
	/* So that the peer goes with the last of their segments. */
	assert_int_equal(otte_segment_close(pair.segment), 0);
	for (i = 0; i < RUNNERS; i++) {
		workers[i] = (struct worker){ .pair = &pair, .index = i, .random = SEED + i };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, run_beside, &workers[i]), 0);
		beside.threads[i] = workers[i].thread;
	}
	for (i = 0; i < (getenv("OTTE_TEST_SMALL") ? 20 : TROUBLES); i++)
		make_trouble(&random);
	atomic_store(&beside.on, false);
	for (i = 0; i < RUNNERS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(otte_batch_destroy(beside.batches[i]), 0);
		done += workers[i].done;
	}
	nothing_was_wrong();
	assert_true(done > 0);
	assert_int_equal(otte_segment_open(pair.requester, beside.address, OTTE_EPOCH_ANY, 30 * SECOND,
					   &pair.segment), 0);
	pair_close(&pair);
}

/* ---- The library's own threads ---- */

/* A thread begins with every signal blocked, and is listed for a moment after it was joined. */
#define SOON(holds) \
	({ \
		int tries_; \
		bool holds_; \
		for (tries_ = 0; !(holds_ = (holds)) && tries_ < 10000; tries_++) \
			usleep(1000); \
		holds_; \
	})

static unsigned tasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

/* The signals that a thread blocks; 0: it is not the library's. */
static uint64_t blocked_by(const char *task)
{
	char path[300], line[200], name[20] = "";
	uint64_t mask = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "Name: %19s", name);
		sscanf(line, "SigBlk: %" SCNx64, &mask);
	}
	fclose(file);
	return strncmp(name, "otte-", 5) ? 0 : mask;
}

static bool has(uint64_t mask, int number)
{
	return mask >> (number - 1) & 1;
}

/* How many threads of the library there are; UINT_MAX: one of them blocks what it should not, or lets through. */
static unsigned threads_with_the_right_mask(void)
{
	struct dirent *entry;
	unsigned seen = 0;
	bool right = true;
	uint64_t mask;
	DIR *dir;

	dir = opendir("/proc/self/task");
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		mask = blocked_by(entry->d_name);
		if (!mask)
			continue;
		seen++;
		right &= has(mask, SIGINT) && has(mask, SIGTERM) && has(mask, SIGALRM) &&
			 !has(mask, SIGSEGV) && !has(mask, SIGBUS) && !has(mask, SIGABRT);
	}
	closedir(dir);
	return right ? seen : UINT_MAX;
}

static void threads_leave_signals_to_the_program_but_for_their_own_faults(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 4096, NULL);
	assert_true(SOON(threads_with_the_right_mask() == 6)); /* three of each engine */
	pair_close(&pair);
}

#define PEERS 40

/* This thread, and that of the thread sanitizer. */
#ifdef __SANITIZE_THREAD__
#define OTHERS 2
#else
#define OTHERS 1
#endif

static void quiet(struct otte_config *config)
{
	config->stats_socket = 0;
}

static void threads_do_not_depend_on_the_number_of_peers(void **state)
{
	struct otte_engine *sources[PEERS], *users[PEERS];
	struct otte_segment *out[PEERS], *in[PEERS];
	struct otte_stats stats = { .size = sizeof(stats) };
	char address[OTTE_ADDRESS_MAX], center[OTTE_ADDRESS_MAX];
	struct otte_config config;
	unsigned before, peers = getenv("OTTE_TEST_SMALL") ? 4 : PEERS, i;
	struct pair pair;

	(void)state;
	pair_open(&pair, 4096, quiet);
	assert_int_equal(otte_engine_address(pair.source, center, sizeof(center)), 0);
	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	quiet(&config);
	for (i = 0; i < peers; i++) {
		assert_int_equal(otte_engine_create(&config, &sources[i]), 0);
		assert_int_equal(otte_engine_create(&config, &users[i]), 0);
	}
	before = OTHERS + (2 + 2 * peers) * 3;
	assert_true(SOON(tasks() == before));
	/* One engine asks forty, and one is asked by forty. */
	for (i = 0; i < peers; i++) {
		assert_int_equal(otte_engine_address(sources[i], address, sizeof(address)), 0);
		assert_int_equal(otte_segment_open(pair.requester, address, OTTE_EPOCH_ANY,
						   30 * SECOND, &out[i]), 0);
		assert_int_equal(otte_segment_open(users[i], center, OTTE_EPOCH_ANY, 30 * SECOND,
						   &in[i]), 0);
	}
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(tasks(), before);
	assert_int_equal(otte_engine_stats(pair.source, &stats), 0);
	assert_int_equal(stats.threads, 3);
	assert_int_equal(stats.peers_in, peers + 1);
	for (i = 0; i < peers; i++) {
		assert_int_equal(otte_segment_close(out[i]), 0);
		assert_int_equal(otte_segment_close(in[i]), 0);
		assert_int_equal(otte_engine_destroy(sources[i]), 0);
		assert_int_equal(otte_engine_destroy(users[i]), 0);
	}
	/* Those of the engines that are gone, as many for each as it says. */
	assert_true(SOON(tasks() == before - 2 * peers * stats.threads));
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sixty_four_threads_each_find_their_bytes),
		cmocka_unit_test(busy_is_said_only_of_bytes_that_are_in_use),
		cmocka_unit_test(a_write_may_follow_a_read_at_once),
		cmocka_unit_test(tasks_may_be_looked_at_while_their_batch_is_run_again),
		cmocka_unit_test(runs_survive_what_happens_beside_them),
		cmocka_unit_test(threads_leave_signals_to_the_program_but_for_their_own_faults),
		cmocka_unit_test(threads_do_not_depend_on_the_number_of_peers),
	};

	printf("seed %d\n", SEED);
	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
