/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two processes that reach each other's memory by rxe devices, through the real libibverbs; and what is left when one
 * of them is killed. Runs in a guest; see tests/verbs/guest-rdma.
 *
 *   transfer DEVICE kernel|process     both use this device, with this ledger
 *   transfer DEVICE staged             likewise, the requester through a pool of chunks
 *   transfer DEVICE mirrored           likewise, the source
 *   transfer DEVICE both               likewise, both, with the module's ledger
 *   transfer DEVICE link NETDEV        likewise, while its port goes down and comes back
 *   transfer DEVICE memlock            by a user who may pin little
 *   transfer DEVICE OTHER              the requester's and the source's, which do not reach each other
 *   transfer all|direct kernel|process both use both devices, rails of two networks
 */
#include <dirent.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "otte/otte.h"

#include "check.h"
#include "patience.h"

#define BYTES_MAX (65u << 20)
#define GUARD 64
#define KILLS 4
#define LONG (64u << 20)
#define PATIENCE_NS (60 * SECOND) /* nothing takes that long, unless it never ends */
#define TRIALS 4u

#define EVENTUALLY(condition) EVENTUALLY_WITHIN(PATIENCE_NS, condition)

static const char *device, *source_device;
static uint32_t ledger = OTTE_LEDGER_PROCESS;
static uint32_t topology, in_turn;
static uint32_t staged, mirrored; /* enum otte_host_memory: of the requester, the source */
static uint32_t size = 4u << 20;
static uint8_t *remote; /* the source's, which this process sees as well */

/*
 * rxe may lose what it is to carry with nobody's fault. Then a queue pair is closed, and its
 * request is lost or goes another way; it is asked for again. What is counted exactly is so where
 * nothing was lost: otherwise that part is gone through from its start, some times.
 */
static uint32_t *losses; /* in this part; processes that it forks count here, too */
static unsigned int trials;

static void begin_part(void)
{
	trials = 0;
}

static void begin_trial(void)
{
	trials++;
	__atomic_store_n(losses, 0, __ATOMIC_RELAXED);
}

/* The last trial counts, whatever was lost. */
static bool is_spoilt(void)
{
	uint32_t count = __atomic_load_n(losses, __ATOMIC_RELAXED);

	if (count)
		printf("# rxe has lost %u, trial %u of %u\n", count, trials, TRIALS);
	return count && trials < TRIALS;
}

static void log_line(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	printf("# %d %d: %s\n", getpid(), level, line);
	fflush(stdout);
}

static void fill_config(struct otte_config *config, const char *nic)
{
	MUST(otte_log_set(log_line, NULL, OTTE_LOG_INFO));
	MUST(otte_config_init(config, sizeof(*config)));
	config->ledger = ledger;
	config->rdma_enabled = 1;
	config->rdma_mr_bytes = 1u << 30;
	if (*nic) {
		config->rdma_gid_index = 1; /* the address of IPv4 */
		strcpy(config->rdma_device, nic);
	}
	config->rdma_rail_topology = topology;
	config->rdma_smart_selection = !in_turn;
	config->rdma_link_rate_mbps = 1000;
	config->default_deadline_ns = 300 * SECOND;
	config->rdma_qp_timeout = 17; /* 3.8 s in all: a busy machine holds guests up */
	if (*device && strcmp(device, source_device)) { /* it is to be seen soon that nothing passes */
		config->rdma_qp_timeout = 10;
		config->rdma_qp_retries = 2;
	}
}

/* ---- The source, a process of its own ---- */

struct source {
	pid_t pid;
	int asks, answers; /* its ends of pipes, for us */
	char address[OTTE_ADDRESS_MAX];
	uint64_t region;
};

struct answer {
	uint64_t loans, retained, grants, qps, leases;
	int unregistered; /* what came of that */
};

/* 's': what there is; 'u': what there is once the region is unregistered. */
static void answer_all(struct otte_engine *engine, struct otte_region **region, int asks, int answers)
{
	struct otte_stats stats = { .size = sizeof(stats) };
	struct answer answer;
	char what;
	int ret = 0;

	while (read(asks, &what, 1) == 1) {
		if (what == 'u')
			ret = otte_region_unregister(region, 1, PATIENCE_NS, NULL);
		if (what == 'u' && !ret)
			*region = NULL;
		MUST(otte_engine_stats(engine, &stats));
		answer = (struct answer){ stats.loans,	  stats.retained,    stats.rdma_grants,
					  stats.rdma_qps, stats.rdma_leases, ret };
		if (write(answers, &answer, sizeof(answer)) != sizeof(answer))
			_exit(3);
	}
}

static void be_source(int asks, int answers)
{
	struct otte_region_desc desc = { .length = size, .access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE };
	struct otte_engine *engine;
	struct otte_region *region;
	struct otte_config config;
	struct source self = { 0 };

	fill_config(&config, source_device);
	config.rdma_host_memory = mirrored;
	MUST(otte_engine_create(&config, &engine));
	MUST(otte_mem_adopt(engine, remote, size, &desc.mem));
	MUST(otte_region_register(engine, &desc, 1, &region));
	MUST(otte_engine_address(engine, self.address, sizeof(self.address)));
	self.region = otte_region_id(region);
	if (write(answers, &self, sizeof(self)) != sizeof(self))
		_exit(3);
	answer_all(engine, &region, asks, answers);
	if (region)
		MUST(otte_region_unregister(&region, 1, PATIENCE_NS, NULL));
	MUST(otte_mem_release(desc.mem));
	MUST(otte_engine_destroy(engine));
	fflush(stdout);
	_exit(0);
}

static void start_source(struct source *source)
{
	int asks[2], answers[2];
	pid_t pid;

	if (pipe(asks) || pipe(answers))
		_exit(3);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(asks[1]);
		close(answers[0]);
		be_source(asks[0], answers[1]);
	}
	close(asks[0]);
	close(answers[1]);
	if (read(answers[0], source, sizeof(*source)) != sizeof(*source))
		_exit(3);
	source->pid = pid;
	source->asks = asks[1];
	source->answers = answers[0];
}

static struct answer ask_for(const struct source *source, char what)
{
	struct answer answer = { 0 };

	if (write(source->asks, &what, 1) != 1 || read(source->answers, &answer, sizeof(answer)) != sizeof(answer))
		_exit(3);
	return answer;
}

static struct answer ask(const struct source *source)
{
	return ask_for(source, 's');
}

/* Its exit status; everything that it had it has given back. */
static int end_source(const struct source *source)
{
	int status = -1;

	close(source->asks);
	waitpid(source->pid, &status, 0);
	close(source->answers);
	return status;
}

/* ---- The requester ---- */

struct requester {
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *region;
	struct otte_segment *segment;
	struct otte_batch *batch;
	uint8_t *bytes;
	uint64_t remote;
	uint8_t lease; /* enum otte_lease, of its requests */
};

static void open_requester(struct requester *self, const struct source *source)
{
	struct otte_region_desc desc = { .length = size };
	struct otte_config config;
	size_t regions;

	fill_config(&config, device);
	config.listen_address[0] = '\0';
	config.rdma_host_memory = staged;
	MUST(otte_engine_create(&config, &self->engine));
	MUST(otte_mem_alloc(self->engine, size, 0, &self->mem));
	desc.mem = self->mem;
	self->bytes = otte_mem_address(self->mem);
	MUST(otte_region_register(self->engine, &desc, 1, &self->region));
	MUST(otte_segment_open(self->engine, source->address, OTTE_EPOCH_ANY, PATIENCE_NS, &self->segment));
	MUST(otte_segment_describe(self->segment, PATIENCE_NS, NULL, 0, &regions));
	MUST(otte_batch_create(self->engine, 64, &self->batch));
	self->lease = OTTE_LEASE_OFF;
	self->remote = source->region;
}

static void close_requester(struct requester *self)
{
	MUST(otte_batch_destroy(self->batch));
	MUST(otte_segment_close(self->segment));
	MUST(otte_region_unregister(&self->region, 1, PATIENCE_NS, NULL));
	MUST(otte_mem_release(self->mem));
	MUST(otte_engine_destroy(self->engine));
}

static void submit(struct requester *self, uint8_t op, uint32_t transport, uint64_t offset, uint64_t length)
{
	struct otte_request request = {
		.segment = self->segment,
		.local = self->region,
		.local_offset = offset,
		.remote_region = self->remote,
		.remote_offset = offset,
		.length = length,
		.op = op,
		.transport = transport,
		.lease = self->lease,
	};

	MUST(otte_batch_submit(self->batch, &request, 1));
}

static struct otte_task run(struct requester *self, uint8_t op, uint32_t transport, uint64_t offset,
			    uint64_t length)
{
	struct otte_failure failure;
	struct otte_task task;

	MUST(otte_batch_reset(self->batch));
	submit(self, op, transport, offset, length);
	MUST(otte_batch_wait(self->batch, 200 * SECOND));
	MUST(otte_batch_task(self->batch, 0, &task));
	if (!otte_batch_failure(self->batch, &failure))
		printf("# code %d: %s\n", failure.code, failure.text);
	return task;
}

/* Not where it was to go, or for want of a queue pair not at all: counted. */
static bool was_lost(const struct otte_task *task)
{
	bool lost;

	switch (task->code) {
	case 0:
		lost = task->transport != OTTE_TRANSPORT_RDMA;
		break;
	case -ECONNRESET:
	case -ENETUNREACH: /* or with what its rail has failed, until it is probed */
	case -EHOSTUNREACH:
	case -ETIMEDOUT:
	case -EIO:
		lost = true;
		break;
	default:
		lost = false;
	}
	if (lost)
		__atomic_add_fetch(losses, 1, __ATOMIC_RELAXED);
	return lost;
}

/* Asked for again where it was lost. */
static struct otte_task run_by_rdma(struct requester *self, uint8_t op, uint64_t offset, uint64_t length)
{
	struct otte_task task;

	(void)EVENTUALLY((task = run(self, op, OTTE_TRANSPORT_RDMA, offset, length), !was_lost(&task)));
	return task;
}

static void fill(uint8_t *bytes, uint8_t salt)
{
	uint32_t i;

	for (i = 0; i < size; i++)
		bytes[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + salt);
}

/* Everything that was asked for, and nothing else, anywhere. */
static bool moved(const uint8_t *from, const uint8_t *to, uint64_t length)
{
	uint64_t i;

	if (memcmp(to + GUARD, from + GUARD, length))
		return false;
	for (i = 0; i < size; i++)
		if ((i < GUARD || i >= GUARD + length) && to[i] != 0xa5)
			return false;
	return true;
}

static void move_size(struct requester *self, uint8_t op, uint32_t transport, uint64_t length, uint8_t salt)
{
	uint8_t *from = op == OTTE_READ ? remote : self->bytes, *to = op == OTTE_READ ? self->bytes : remote;
	struct otte_task task;
	char rule[96];

	(void)EVENTUALLY((fill(from, salt), memset(to, 0xa5, size),
			  task = run(self, op, transport, GUARD, length), !was_lost(&task)));
	snprintf(rule, sizeof(rule), "%s: %s of %lu bytes, %s%s", *device ? device : "two rails",
		 op == OTTE_READ ? "READ" : "WRITE", (unsigned long)length,
		 transport == OTTE_TRANSPORT_RDMA ? "named" : "any",
		 self->lease == OTTE_LEASE_OFF ? "" : ", by a lease");
	check(!task.code && task.transport == OTTE_TRANSPORT_RDMA && moved(from, to, length), rule);
}

static void move_sizes(struct requester *self, uint8_t op, uint32_t transport)
{
	static const uint64_t sizes[] = { 1, 17, 4095, 64u << 10, (1u << 20) + 3 };
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		move_size(self, op, transport, sizes[i], (uint8_t)i);
}

static struct otte_stats stats_of(const struct requester *self)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	MUST(otte_engine_stats(self->engine, &stats));
	return stats;
}

/* Also what the library has mended by itself. Whether the trial is spoilt. */
static bool count_lost(const struct requester *self)
{
	struct otte_stats stats = stats_of(self);

	__atomic_add_fetch(losses, stats.rdma_rail_errors + stats.rdma_slices_moved, __ATOMIC_RELAXED);
	return is_spoilt();
}

static bool try_to_move_whole(void)
{
	struct requester self;
	struct source source;
	struct answer answer;
	bool spoilt;

	begin_trial();
	start_source(&source);
	open_requester(&self, &source);
	move_sizes(&self, OTTE_READ, OTTE_TRANSPORT_RDMA);
	move_sizes(&self, OTTE_WRITE, OTTE_TRANSPORT_RDMA);
	move_sizes(&self, OTTE_READ, OTTE_TRANSPORT_ANY);
	move_sizes(&self, OTTE_WRITE, OTTE_TRANSPORT_ANY);
	answer = ask(&source);
	spoilt = count_lost(&self);
	/* Staged, 1 MiB+3 are five slices. */
	if (!spoilt)
		check(answer.grants == (staged || mirrored ? 36 : 20) && !answer.loans && !answer.retained,
		      "each by a grant of its own, and all are over");
	close_requester(&self);
	check(end_source(&source) == 0, "the source gives back everything");
	return !spoilt;
}

static void move_whole(void)
{
	begin_part();
	while (!try_to_move_whole())
		;
}

/* ---- Leases ---- */

/* Memory that its source has adopted could be replaced, which a ledger of the module's would say: it is not leased. */
static bool try_to_move_by_lease(void)
{
	bool leased = ledger == OTTE_LEDGER_PROCESS, spoilt;
	struct requester self;
	struct source source;
	struct answer answer;

	begin_trial();
	start_source(&source);
	open_requester(&self, &source);
	self.lease = OTTE_LEASE_REGION;
	move_sizes(&self, OTTE_READ, OTTE_TRANSPORT_RDMA);
	answer = ask(&source);
	spoilt = count_lost(&self);
	if (!spoilt) {
		check(answer.leases == leased && answer.loans == leased && answer.grants == (leased ? 0 : 5),
		      leased ? "one lease, and nothing granted" : "none leased, each granted");
		move_sizes(&self, OTTE_WRITE, OTTE_TRANSPORT_RDMA);
		answer = ask(&source);
		spoilt = count_lost(&self);
	}
	if (!spoilt)
		check(!answer.retained && (!leased || answer.leases <= 2), "a lease that is in the way is given back");
	if (!spoilt && leased) {
		answer = ask_for(&source, 'u');
		check(!answer.unregistered && !answer.loans && !answer.retained, "and so it is for unregister");
	}
	close_requester(&self);
	check(end_source(&source) == 0, "the source gives back everything");
	return !spoilt;
}

static void move_by_lease(void)
{
	begin_part();
	while (!try_to_move_by_lease())
		;
}

/* Has a lease, and hears of nothing until it goes on. Then nothing may be read any more. */
static void be_holder(const struct source *source)
{
	struct requester self;

	open_requester(&self, source);
	self.lease = OTTE_LEASE_REGION;
	if (run_by_rdma(&self, OTTE_READ, 0, 4096).code)
		_exit(4);
	memset(self.bytes, 0xa5, size);
	raise(SIGSTOP);
	if (!run(&self, OTTE_READ, OTTE_TRANSPORT_RDMA, GUARD, 4096).code || self.bytes[GUARD] != 0xa5)
		_exit(5);
	close_requester(&self);
	_exit(0);
}

/*
 * In one payload. On one rail rxe drops what comes faster than it can be taken, and a READ may go
 * another way then: every byte is looked at all the same.
 */
static bool try_to_move_long_by_lease(uint8_t op)
{
	struct requester self;
	struct source source;
	struct answer answer;
	bool spoilt;

	begin_trial();
	start_source(&source);
	open_requester(&self, &source);
	self.lease = OTTE_LEASE_REGION;
	move_size(&self, op, OTTE_TRANSPORT_RDMA, LONG, 3 + op);
	answer = ask(&source);
	printf("# %lu leases, %lu grants\n", (unsigned long)answer.leases, (unsigned long)answer.grants);
	spoilt = count_lost(&self);
	if (!spoilt)
		check(answer.leases == 1 && (op == OTTE_READ || !answer.grants), "that it had leased");
	close_requester(&self);
	check(end_source(&source) == 0, "the source gives back everything");
	return !spoilt;
}

static void move_long_by_lease(uint8_t op)
{
	const uint32_t before = size;

	if (ledger != OTTE_LEDGER_PROCESS)
		return;
	size = BYTES_MAX;
	begin_part();
	while (!try_to_move_long_by_lease(op))
		;
	size = before;
}

static bool try_to_stop_holder(void)
{
	struct source source;
	struct answer answer;
	bool spoilt;
	int status;
	pid_t pid;

	begin_trial();
	start_source(&source);
	fill(remote, 5);
	fflush(stdout);
	pid = fork();
	if (!pid)
		be_holder(&source);
	waitpid(pid, &status, WUNTRACED);
	check(WIFSTOPPED(status), "a holder of a lease stops");
	spoilt = is_spoilt();
	answer = ask_for(&source, 'u');
	check(!answer.unregistered && !answer.loans && !answer.retained && (spoilt || answer.leases == 1),
	      "its lease is revoked without it, and the region unregistered");
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	check(WIFEXITED(status) && !WEXITSTATUS(status), "it reads nothing by it any more");
	check(end_source(&source) == 0, "the source gives back everything");
	return !spoilt;
}

/* The module leases none of this memory. */
static void stop_holder(void)
{
	if (ledger != OTTE_LEDGER_PROCESS)
		return;
	begin_part();
	while (!try_to_stop_holder())
		;
}

/* ---- Who is killed ---- */

static uint32_t *done_by_victim; /* requests; this process sees it as well */

/* READs or WRITEs without an end. */
static void be_victim(const struct source *source, uint8_t op, uint8_t lease)
{
	struct requester self;

	open_requester(&self, source);
	self.lease = lease;
	for (;; __atomic_add_fetch(done_by_victim, 1, __ATOMIC_RELAXED))
		if (run_by_rdma(&self, op, 0, 1u << 20).code)
			_exit(4);
}

static uint32_t victims_requests(void)
{
	return __atomic_load_n(done_by_victim, __ATOMIC_RELAXED);
}

static bool drains(const struct source *source)
{
	struct answer answer;

	if (EVENTUALLY((answer = ask(source), !answer.loans && !answer.qps)))
		return !answer.retained;
	printf("# %lu loans, %lu QPs, %lu retained\n", (unsigned long)answer.loans, (unsigned long)answer.qps,
	       (unsigned long)answer.retained);
	return false;
}

/* Until it has done some, or is over: whether it is under way. */
static bool works(pid_t pid, uint32_t before)
{
	const struct timespec turn = { .tv_nsec = 70000000 };
	siginfo_t ended = { 0 };

	while (victims_requests() < before + 2) {
		if (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) || ended.si_pid)
			return false;
		nanosleep(&turn, NULL);
	}
	return true;
}

static bool try_to_kill_requesters(uint8_t lease)
{
	struct source source;
	struct answer answer;
	bool good = true, spoilt;
	uint32_t before;
	int i, status;
	pid_t pid;

	begin_trial();
	start_source(&source);
	for (i = 0; i < KILLS; i++) {
		before = victims_requests();
		fflush(stdout);
		pid = fork();
		if (!pid)
			be_victim(&source, i % 2 ? OTTE_WRITE : OTTE_READ, lease);
		good &= works(pid, before);
		good &= lease == OTTE_LEASE_OFF || EVENTUALLY(ask(&source).loans == 1);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		good &= WIFSIGNALED(status) && drains(&source);
	}
	spoilt = is_spoilt();
	answer = ask(&source);
	good &= lease == OTTE_LEASE_OFF || spoilt || (answer.leases == KILLS && !answer.grants);
	check(good, lease == OTTE_LEASE_OFF ?
			    "of a requester that is killed nothing is left: the loans are over, the queue pairs gone" :
			    "nor of one that is killed while it holds a lease and uses it");
	check(end_source(&source) == 0, "and its range can be unregistered");
	return !spoilt;
}

static void kill_requesters(uint8_t lease)
{
	begin_part();
	while (!try_to_kill_requesters(lease))
		;
}

/*
 * One of them is granted, and may have begun; of what goes by a lease its source hears nothing:
 * there the first of them is done, behind which all are posted.
 */
static void wait_until_begun(const struct requester *self, const struct source *source, uint64_t grants)
{
	struct otte_batch_status status;

	do {
		MUST(otte_batch_poll(self->batch, &status));
	} while (!status.finished && (self->lease != OTTE_LEASE_OFF || ask(source).grants == grants));
}

static void kill_source(uint8_t op, uint8_t lease)
{
	struct requester self;
	struct otte_task task;
	struct source source;
	struct answer answer;
	uint32_t i, ended = 0, unknown = 0;

	start_source(&source);
	open_requester(&self, &source);
	self.lease = lease;
	task = run_by_rdma(&self, op, 0, 4096);
	answer = ask(&source);
	check(!task.code && (lease == OTTE_LEASE_OFF ? !answer.leases : answer.leases > 0),
	      "a source that is about to die serves");
	MUST(otte_batch_reset(self.batch));
	for (i = 0; i < 3; i++)
		submit(&self, op, OTTE_TRANSPORT_RDMA, i << 20, 1u << 20);
	wait_until_begun(&self, &source, answer.grants);
	kill(source.pid, SIGKILL);
	check(!otte_batch_wait(self.batch, 120 * SECOND), "requests of a source that is killed end");
	for (i = 0; i < 3; i++) {
		MUST(otte_batch_task(self.batch, i, &task));
		ended += task.locally_drained && (!task.code || task.code == -ECONNRESET);
		unknown += op == OTTE_READ && task.remote_effect != OTTE_EFFECT_NONE;
		printf("# %u: code %d, effect %u\n", i, task.code, task.remote_effect);
	}
	check(ended == 3 && !unknown, "as done or lost, and drained");
	close_requester(&self);
	end_source(&source);
}

static void kill_all(uint8_t lease)
{
	kill_requesters(lease);
	kill_source(OTTE_READ, lease);
	kill_source(OTTE_WRITE, lease);
}

/* ---- NICs that do not reach each other ---- */

static void cross(void)
{
	struct requester self;
	struct otte_task task;
	struct source source;
	struct answer answer;

	start_source(&source);
	open_requester(&self, &source);
	fill(remote, 3);
	memset(self.bytes, 0xa5, size);
	task = run(&self, OTTE_READ, OTTE_TRANSPORT_ANY, GUARD, 100000);
	check(!task.code && task.transport == OTTE_TRANSPORT_TCP && moved(remote, self.bytes, 100000),
	      "a READ that no NIC can carry goes over TCP");
	task = run(&self, OTTE_READ, OTTE_TRANSPORT_ANY, GUARD, 100000);
	check(!task.code && task.transport == OTTE_TRANSPORT_TCP, "and so does the next one");
	answer = ask(&source);
	check(answer.grants == 1 && !answer.retained, "at once: none was granted for it");
	close_requester(&self);
	check(end_source(&source) == 0, "the source gives back everything");
}

/* ---- Both at once ---- */

/* Packets that the device has sent, ever. */
static uint64_t sent(unsigned int rail)
{
	char path[96];
	unsigned long packets = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/rxe%u/ports/1/hw_counters/sent_pkts", rail);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%lu", &packets) != 1)
		_exit(3);
	fclose(file);
	return packets;
}

static bool try_to_move_over_both(void)
{
	uint64_t before[2] = { sent(0), sent(1) };
	struct requester self;
	struct otte_stats stats;
	struct source source;
	bool spoilt;

	begin_trial();
	start_source(&source);
	open_requester(&self, &source);
	move_sizes(&self, OTTE_READ, OTTE_TRANSPORT_RDMA);
	move_sizes(&self, OTTE_WRITE, OTTE_TRANSPORT_RDMA);
	stats = stats_of(&self);
	spoilt = count_lost(&self);
	if (!spoilt) {
		check(stats.rdma_slices > 12 && !stats.rdma_slices_moved, "in slices, none of which was moved");
		check(!stats.rdma_rail_errors, "no rail that leads nowhere was tried");
	}
	/*
	 * In halves: where all of it is on one of them rxe drops what it answers faster than it can
	 * be taken. On a busy machine it drops of halves as well, and then a slice may go another
	 * way: every byte is looked at all the same.
	 */
	if (in_turn && !spoilt) {
		move_size(&self, OTTE_READ, OTTE_TRANSPORT_RDMA, 64u << 20, 8);
		move_size(&self, OTTE_WRITE, OTTE_TRANSPORT_RDMA, 64u << 20, 9);
	}
	stats = stats_of(&self);
	printf("# %lu slices, %lu moved; %lu and %lu packets\n", (unsigned long)stats.rdma_slices,
	       (unsigned long)stats.rdma_slices_moved, (unsigned long)(sent(0) - before[0]),
	       (unsigned long)(sent(1) - before[1]));
	if (!spoilt)
		check(sent(0) - before[0] > 100 && sent(1) - before[1] > 100, "both rails have carried them");
	close_requester(&self);
	check(end_source(&source) == 0, "the source gives back everything");
	return !spoilt;
}

static void move_over_both(void)
{
	size = BYTES_MAX;
	begin_part();
	while (!try_to_move_over_both())
		;
}

/* ---- A port that goes down and comes back ---- */

#define FLAPS 4

static void set_link(const char *netdev, const char *state)
{
	char command[128];

	snprintf(command, sizeof(command), "ip link set %s %s", netdev, state);
	if (system(command)) /* NOLINT(bugprone-command-processor): a test's own words */
		_exit(3);
}

/* Of these READs, which the link is lost under, each arrives. */
static bool lose_link(struct requester *self, const char *netdev)
{
	struct otte_task task;
	bool good = true;
	uint32_t i;

	MUST(otte_batch_reset(self->batch));
	memset(self->bytes, 0xa5, size);
	for (i = 0; i < 3; i++)
		submit(self, OTTE_READ, OTTE_TRANSPORT_ANY, i << 20, 1u << 20);
	set_link(netdev, "down");
	MUST(otte_batch_wait(self->batch, 200 * SECOND));
	for (i = 0; i < 3; i++) {
		MUST(otte_batch_task(self->batch, i, &task));
		good &= !task.code;
	}
	return good && !memcmp(self->bytes, remote, 3u << 20);
}

/* Until a small one goes this way: its time. */
static uint64_t time_until(struct requester *self, uint32_t transport)
{
	const struct timespec step = { .tv_nsec = 2000000 };
	uint64_t since_ns = now_ns();
	struct otte_task task;

	do {
		task = run(self, OTTE_READ, OTTE_TRANSPORT_ANY, 0, 4096);
		if (!task.code && task.transport == transport)
			return now_ns() - since_ns;
		nanosleep(&step, NULL);
	} while (!task.code && now_ns() - since_ns < PATIENCE_NS);
	return UINT64_MAX;
}

static unsigned count_device_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	char path[300], target[64];
	struct dirent *entry;
	unsigned count = 0;

	if (!folder)
		_exit(3);
	while ((entry = readdir(folder))) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		count += strstr(target, "infiniband") != NULL;
	}
	closedir(folder);
	return count;
}

static bool child_has_nothing(void)
{
	unsigned ours = count_device_fds();
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(count_device_fds() != 0);
	waitpid(pid, &status, 0);
	printf("# %u descriptors of the device\n", ours);
	return ours >= 3 && status == 0;
}

static void flap(const char *netdev)
{
	uint64_t lost_ns, back_ns, most_lost_ns = 0, most_back_ns = 0;
	struct requester self;
	struct answer answer;
	struct source source;
	bool whole = true;
	int i;

	start_source(&source);
	open_requester(&self, &source);
	fill(remote, 5);
	check(time_until(&self, OTTE_TRANSPORT_RDMA) < UINT64_MAX, "a port that is up is used");
	check(child_has_nothing(), "a forked child has no descriptor of the device");
	for (i = 0; i < FLAPS; i++) {
		whole &= lose_link(&self, netdev);
		lost_ns = time_until(&self, OTTE_TRANSPORT_TCP);
		set_link(netdev, "up");
		back_ns = time_until(&self, OTTE_TRANSPORT_RDMA);
		printf("# down: over TCP after %.1f ms; up: over RDMA after %.1f ms\n",
		       (double)lost_ns / 1e6, (double)back_ns / 1e6);
		most_lost_ns = lost_ns > most_lost_ns ? lost_ns : most_lost_ns;
		most_back_ns = back_ns > most_back_ns ? back_ns : most_back_ns;
	}
	check(whole, "READs that the link is lost under arrive whole");
	check(most_lost_ns < UINT64_MAX, "over TCP while it is down");
	check(most_back_ns < UINT64_MAX, "and over RDMA when it is up again");
	check(EVENTUALLY((answer = ask(&source), answer.qps <= 2)) && !answer.retained, "nothing of it stays");
	close_requester(&self);
	check(end_source(&source) == 0, "the source gives back everything");
}

/* ---- Who may pin little ---- */

static void be_limited(void)
{
	const struct rlimit limit = { 8u << 20, 8u << 20 };
	struct otte_region_desc desc = { .access = OTTE_REMOTE_READ };
	struct otte_engine *engine;
	struct otte_region *region;
	struct otte_config config;
	struct otte_mem *mem;
	int ret;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgroups(0, NULL) || setgid(65534) ||
	    setuid(65534))
		_exit(3);
	fill_config(&config, device);
	MUST(otte_engine_create(&config, &engine));
	MUST(otte_mem_alloc(engine, 16u << 20, 0, &mem));
	desc.mem = mem;
	desc.length = 16u << 20;
	ret = otte_region_register(engine, &desc, 1, &region);
	printf("# %d: %s\n", ret, otte_error_text());
	check(ret == -ENOMEM && strstr(otte_error_text(), "RLIMIT_MEMLOCK is 8388608 bytes"),
	      "memory beyond RLIMIT_MEMLOCK is refused, by its name");
	desc.length = 1u << 20;
	check(!otte_region_register(engine, &desc, 1, &region), "and some within it is not");
	MUST(otte_region_unregister(&region, 1, PATIENCE_NS, NULL));
	MUST(otte_mem_release(mem));
	MUST(otte_engine_destroy(engine));
}

int main(int argc, char **argv)
{
	bool rails;

	if (argc != 3 + (argc > 2 && !strcmp(argv[2], "link")))
		return 3;
	rails = !strcmp(argv[1], "all") || !strcmp(argv[1], "direct");
	topology = strcmp(argv[1], "direct") ? OTTE_RAIL_ALL : OTTE_RAIL_DIRECT;
	in_turn = topology == OTTE_RAIL_ALL;
	device = source_device = rails ? "" : argv[1];
	if (!strcmp(argv[2], "memlock")) {
		be_limited();
		return checked();
	}
	if (!strcmp(argv[2], "kernel"))
		ledger = OTTE_LEDGER_KERNEL;
	else if (!strcmp(argv[2], "staged"))
		staged = OTTE_HOST_MEMORY_STAGED;
	else if (!strcmp(argv[2], "mirrored"))
		mirrored = OTTE_HOST_MEMORY_STAGED;
	else if (!strcmp(argv[2], "both"))
		staged = mirrored = OTTE_HOST_MEMORY_STAGED;
	else if (strcmp(argv[2], "process") != 0 && strcmp(argv[2], "link") != 0)
		source_device = argv[2];
	if (staged && mirrored)
		ledger = OTTE_LEDGER_KERNEL;
	remote = mmap(NULL, BYTES_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (remote == MAP_FAILED)
		return 3;
	done_by_victim = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (done_by_victim == MAP_FAILED)
		return 3;
	losses = done_by_victim + 1;
	memset(remote, 1, size);
	if (rails)
		move_over_both();
	else if (strcmp(device, source_device))
		cross();
	if (rails || strcmp(device, source_device))
		return checked();
	if (argc == 4) {
		flap(argv[3]);
		return checked();
	}
	move_whole();
	kill_all(OTTE_LEASE_OFF);
	if (staged || mirrored) /* what is staged is not leased */
		return checked();
	move_by_lease();
	move_long_by_lease(OTTE_READ);
	move_long_by_lease(OTTE_WRITE);
	stop_holder();
	if (ledger == OTTE_LEDGER_PROCESS)
		kill_all(OTTE_LEASE_REGION);
	return checked();
}
