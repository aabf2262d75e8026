/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two guests that are joined by a link, an rxe device on it in each: bytes move both ways, then
 * one loses its power in the middle. See tests/verbs/run-hosts.
 *
 *   hosts victim DEVICE     serves, and reads from the other one and writes to it, without an end
 *   hosts survivor DEVICE   does the checks, and switches the other one off
 *   hosts source DEVICE     the survivor's next peer, in its own guest
 *
 * SELF and PEER are their addresses.
 */
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "otte/otte.h"

#include "check.h"
#include "patience.h"

#define BYTES (4u << 20)
#define GUARD 64
#define CANARY 0xa5
#define PORT 7700
#define NEXT_PORT 7701
/* What stays without an answer is over then: of the connection, and of the queue pairs. */
#define TIMEOUT_NS (5 * SECOND)
#define MANY 8
#define PART (BYTES / MANY)

#define EVENTUALLY(seconds, condition) EVENTUALLY_WITHIN((seconds)*SECOND, condition)

static const char *device;

static void log_line(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	printf("# %d: %s\n", level, line);
	fflush(stdout);
}

/* ---- One engine, which serves a region, and asks for a peer's with another one ---- */

struct area {
	struct otte_mem *mem;
	struct otte_region *region;
	uint8_t *bytes;
};

struct host {
	struct otte_engine *engine;
	struct area served, own;
	struct otte_segment *segment;
	struct otte_batch *batch;
	uint8_t *bytes; /* of its own */
	uint64_t remote;
};

static void open_area(struct otte_engine *engine, uint32_t access, struct area *area)
{
	struct otte_region_desc desc = { .length = BYTES, .access = access };

	MUST(otte_mem_alloc(engine, BYTES, 0, &area->mem));
	desc.mem = area->mem;
	area->bytes = otte_mem_address(area->mem);
	MUST(otte_region_register(engine, &desc, 1, &area->region));
}

static void close_area(struct area *area)
{
	MUST(otte_region_unregister(&area->region, 1, 60 * SECOND, NULL));
	MUST(otte_mem_release(area->mem));
}

static void open_host(struct host *host, unsigned int port)
{
	struct otte_config config;

	MUST(otte_log_set(log_line, NULL, OTTE_LOG_WARNING));
	MUST(otte_config_init(&config, sizeof(config)));
	config.rdma_enabled = 1;
	config.rdma_gid_index = 1; /* the address of IPv4 */
	config.control_timeout_ns = TIMEOUT_NS;
	config.rdma_qp_timeout = 17; /* 3.8 s in all: a busy machine holds guests up */
	snprintf(config.rdma_device, sizeof(config.rdma_device), "%s", device);
	snprintf(config.listen_address, sizeof(config.listen_address), "%s", getenv("SELF"));
	config.listen_port = port;
	MUST(otte_engine_create(&config, &host->engine));
	open_area(host->engine, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE, &host->served);
	open_area(host->engine, 0, &host->own);
	host->bytes = host->own.bytes;
	MUST(otte_batch_create(host->engine, MANY, &host->batch));
}

static int try_to_join(struct host *host, const char *address, unsigned int port)
{
	char endpoint[OTTE_ADDRESS_MAX];
	struct otte_region_info rows[2];
	size_t count, i;
	int ret;

	snprintf(endpoint, sizeof(endpoint), "%s:%u", address, port);
	ret = otte_segment_open(host->engine, endpoint, OTTE_EPOCH_ANY, 5 * SECOND, &host->segment);
	if (ret)
		return ret;
	MUST(otte_segment_describe(host->segment, 60 * SECOND, rows, 2, &count));
	for (i = 0; i < count; i++) {
		if (rows[i].access) {
			host->remote = rows[i].id;
			return 0;
		}
	}
	/* It listens, and has not come further yet. */
	MUST(otte_segment_close(host->segment));
	return -EAGAIN;
}

static void join(struct host *host, const char *address, unsigned int port)
{
	int ret;

	if (!EVENTUALLY(120, (ret = try_to_join(host, address, port), !ret)))
		must(ret, "otte_segment_open");
}

static void close_host(struct host *host)
{
	MUST(otte_batch_destroy(host->batch));
	if (host->segment)
		MUST(otte_segment_close(host->segment));
	close_area(&host->own);
	close_area(&host->served);
	MUST(otte_engine_destroy(host->engine));
}

static struct otte_stats stats_of(struct host *host)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	MUST(otte_engine_stats(host->engine, &stats));
	return stats;
}

static struct otte_request request_of(const struct host *host, uint8_t op, uint64_t local,
				      uint64_t there, uint64_t length)
{
	return (struct otte_request){
		.segment = host->segment,
		.local = host->own.region,
		.local_offset = local,
		.remote_region = host->remote,
		.remote_offset = there,
		.length = length,
		.op = op,
		.transport = OTTE_TRANSPORT_RDMA,
	};
}

static int move_once(struct host *host, uint8_t op, uint64_t local, uint64_t there, uint64_t length)
{
	struct otte_request request = request_of(host, op, local, there, length);
	struct otte_task task;

	MUST(otte_batch_reset(host->batch));
	MUST(otte_batch_submit(host->batch, &request, 1));
	MUST(otte_batch_wait(host->batch, 120 * SECOND));
	MUST(otte_batch_task(host->batch, 0, &task));
	return task.code;
}

/*
 * rxe may lose it with nobody's fault, and a guest that is held up for longer than TIMEOUT_NS its
 * connection: it is asked for again then.
 */
static int move(struct host *host, uint8_t op, uint64_t local, uint64_t there, uint64_t length)
{
	int code;

	(void)EVENTUALLY(60, (code = move_once(host, op, local, there, length),
			      code != -ECONNRESET && code != -ETIMEDOUT && code != -ENETUNREACH &&
				      code != -EHOSTUNREACH));
	return code;
}

/* ---- What is where ---- */

/*
 * The first half of what is served belongs to its host, which fills it; the other half is the
 * peer's to write.
 */
#define HALF (BYTES / 2)

static uint8_t byte_at(uint64_t i, uint8_t salt)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + salt);
}

static void fill(uint8_t *bytes, uint64_t length, uint8_t salt)
{
	uint64_t i;

	for (i = 0; i < length; i++)
		bytes[i] = byte_at(i, salt);
}

static bool is_filled(const uint8_t *bytes, uint64_t from, uint64_t to, uint8_t salt)
{
	for (; from < to; from++)
		if (bytes[from] != byte_at(from, salt))
			return false;
	return true;
}

static bool is_canary(const uint8_t *bytes, uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		if (bytes[from] != CANARY)
			return false;
	return true;
}

static bool is_within_guards(const uint8_t *bytes, uint64_t length, uint8_t salt)
{
	return is_canary(bytes, 0, GUARD) && is_filled(bytes, GUARD, GUARD + length, salt) &&
	       is_canary(bytes, GUARD + length, HALF);
}

#define THEIRS 11 /* the salt of a victim's first half */

static bool reads(struct host *host, uint64_t length)
{
	memset(host->bytes + HALF, CANARY, HALF);
	return !move(host, OTTE_READ, HALF + GUARD, GUARD, length) &&
	       is_within_guards(host->bytes + HALF, length, THEIRS);
}

/* Their second half is canaries, then some of what we have; all of it is read back. */
static bool writes(struct host *host, uint64_t length)
{
	memset(host->bytes, CANARY, HALF);
	if (move(host, OTTE_WRITE, 0, HALF, HALF))
		return false;
	fill(host->bytes, HALF, 23);
	return !move(host, OTTE_WRITE, GUARD, HALF + GUARD, length) &&
	       !move(host, OTTE_READ, HALF, HALF, HALF) &&
	       is_within_guards(host->bytes + HALF, length, 23);
}

/* ---- Those that serve ---- */

static void serve(unsigned int port)
{
	struct host host = { 0 };
	uint64_t i;

	open_host(&host, port);
	fill(host.served.bytes, HALF, THEIRS);
	printf("# serves at port %u\n", port);
	fflush(stdout);
	if (port == PORT) {
		join(&host, getenv("PEER"), PORT);
		for (i = 0;; i++)
			move(&host, i % 2 ? OTTE_WRITE : OTTE_READ, 0, i % 2 ? HALF : 0, 1u << 20);
	}
	for (;;)
		pause();
}

/* ---- The survivor ---- */

static void move_sizes(struct host *host)
{
	static const uint64_t sizes[] = { 1, 17, 4095, 64u << 10, (1u << 20) + 3 };
	char rule[96];
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(rule, sizeof(rule), "between hosts: READ of %lu bytes",
			 (unsigned long)sizes[i]);
		check(reads(host, sizes[i]), rule);
		snprintf(rule, sizeof(rule), "between hosts: WRITE of %lu bytes",
			 (unsigned long)sizes[i]);
		check(writes(host, sizes[i]), rule);
	}
}

static void switch_off_the_other(void)
{
	/* NOLINTNEXTLINE(bugprone-command-processor): a test's own words */
	if (system("/run/lab/link kill"))
		_exit(3);
}

static bool all_arrived(struct host *host)
{
	struct otte_batch_status status;

	MUST(otte_batch_poll(host->batch, &status));
	return status.completed_prefix == MANY;
}

/* Each as done or lost, and drained. */
static bool ended_as_they_must(struct host *host)
{
	bool good = true;
	unsigned int i;

	for (i = 0; i < MANY; i++) {
		struct otte_task task;

		MUST(otte_batch_task(host->batch, i, &task));
		printf("# %u: code %d, effect %u\n", i, task.code, task.remote_effect);
		good &= task.locally_drained &&
			(!task.code || task.code == -ECONNRESET || task.code == -ETIMEDOUT);
		good &= i % 2 || !task.code || task.remote_effect == OTTE_EFFECT_NONE;
	}
	return good;
}

static void submit_many(struct host *host)
{
	struct otte_request requests[MANY];
	unsigned int i;

	for (i = 0; i < MANY; i++)
		requests[i] =
			request_of(host, i % 2 ? OTTE_WRITE : OTTE_READ, i * PART, i * PART, PART);
	MUST(otte_batch_reset(host->batch));
	MUST(otte_batch_submit(host->batch, requests, MANY));
}

/* It takes a moment until the other one is off: one batch after the other, until one fails. */
static void ask_until_lost(struct host *host)
{
	const uint64_t limit_ns = 60 * SECOND, until_ns = now_ns() + 60 * SECOND;
	uint64_t begun_ns;
	unsigned int batches = 0;
	int ret;

	do {
		begun_ns = now_ns();
		submit_many(host);
		ret = otte_batch_wait(host->batch, (int64_t)limit_ns);
		batches++;
	} while (!ret && all_arrived(host) && begun_ns < until_ns);
	printf("# %u batches, the last one took %.1f s\n", batches,
	       (double)(now_ns() - begun_ns) / 1e9);
	check(!ret, "requests to a host without power end in time");
	check(!all_arrived(host) && ended_as_they_must(host), "as done or lost, and drained");
}

static void lose_the_other(struct host *host)
{
	uint64_t begun_ns, grants = stats_of(host).rdma_grants;
	struct otte_stats stats;

	check(EVENTUALLY(120, stats_of(host).rdma_grants > grants + 3),
	      "the other one is served meanwhile");
	switch_off_the_other();
	ask_until_lost(host);
	begun_ns = now_ns();
	check(EVENTUALLY(120, (stats = stats_of(host), !stats.loans && !stats.rdma_qps)) &&
		      !stats.retained,
	      "what was lent to it is over with its queue pair, nothing is retained");
	printf("# %.1f s later: %lu loans, %lu QPs, %lu retained\n",
	       (double)(now_ns() - begun_ns) / 1e9, (unsigned long)stats.loans,
	       (unsigned long)stats.rdma_qps, (unsigned long)stats.retained);
}

static void serve_the_next(struct host *host)
{
	pid_t pid;

	MUST(otte_batch_reset(host->batch));
	MUST(otte_segment_close(host->segment));
	host->segment = NULL;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/proc/self/exe", "hosts", "source", device, NULL);
		_exit(127);
	}
	join(host, getenv("SELF"), NEXT_PORT);
	check(reads(host, 100000) && writes(host, 100000),
	      "the next peer is read from, and written to");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void survive(void)
{
	struct host host = { 0 };

	open_host(&host, PORT);
	join(&host, getenv("PEER"), PORT);
	move_sizes(&host);
	lose_the_other(&host);
	serve_the_next(&host);
	check(EVENTUALLY(120, !stats_of(&host).loans), "nothing is lent in the end");
	close_host(&host);
}

int main(int argc, char **argv)
{
	if (argc != 3 || !getenv("SELF") || !getenv("PEER"))
		return 3;
	device = argv[2];
	if (strcmp(argv[1], "survivor") == 0) {
		survive();
		return checked();
	}
	serve(strcmp(argv[1], "victim") ? NEXT_PORT : PORT);
	return 0;
}
