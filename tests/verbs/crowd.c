/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Many threads of two engines, which READ from a source and WRITE to it over two rails with two
 * queue pairs each, for a while; the source has two workers, and so two lanes on each NIC: every
 * byte is what it is to be, and nothing that was taken for it is missing in the end. Runs in a
 * guest with two rxe devices; see tests/verbs/guest-rdma.
 *
 *   crowd direct|staged|both THREADS KIB SECONDS
 *
 * Staged is the requester, or both.
 *
 * Each thread has two ranges of KIB, the same at either side: one it reads, one it writes, both in
 * one batch, and looks at both when it is over. A quarter of them ask for leases.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "parties.h"

#define RAILS 2
#define PAIRS 2 /* queue pairs over a rail in each direction: its lanes */
#define OPS 2
#define REQUESTERS 2 /* and as many workers of the source: one for each */
#define THREADS_MAX 256
#define CANARY 0xa5
/* Fewer places than threads: who loses one has soon none. */
#define GRANTS 32

static bool staged, both;
static uint64_t bytes; /* of a request */
static unsigned int threads;
static uint64_t until_ns;

static void adjust(struct otte_config *config, bool source)
{
	config->ledger = OTTE_LEDGER_PROCESS; /* with which memory that was adopted is leased */
	config->rdma_mr_bytes = 4ull << 30;
	config->rdma_mrs = 4096;
	config->rdma_pairs = PAIRS;
	config->rdma_workers = REQUESTERS;
	config->rdma_grants = GRANTS;
	config->rdma_send_wrs = 4; /* of two requests: more take another pair */
	config->rdma_link_rate_mbps = 1000;
	/* Emulated, beside other work: nothing of it is to be late. */
	config->rdma_lease_idle_ns = 60 * SECOND;
	config->rdma_qp_timeout = 18;
	config->control_timeout_ns = 30 * SECOND;
	config->default_deadline_ns = 600 * SECOND;
	if (both || (!source && staged))
		config->rdma_host_memory = OTTE_HOST_MEMORY_STAGED;
}

/* ---- One of them ---- */

struct member {
	pthread_t thread;
	struct requester *by;
	unsigned int number;
	uint64_t rounds;
	int code; /* of the first request that failed */
	bool mistaken; /* bytes are not what they are to be */
};

static uint64_t range_at(const struct member *member, uint8_t op)
{
	return (2ull * member->number + (op == OTTE_WRITE)) * bytes;
}

/* Another at each place, and in each round. */
static void fill(uint8_t *at, uint64_t salt)
{
	uint64_t i, word = (salt + 1) * 0x9e3779b97f4a7c15;

	for (i = 0; i < bytes; i += sizeof(word), word += 0x0101010101010103)
		memcpy(at + i, &word, sizeof(word));
}

static void prepare(struct member *member, uint8_t op)
{
	uint8_t *theirs = remote + range_at(member, op);
	uint8_t *ours = member->by->bytes + range_at(member, op);

	fill(op == OTTE_READ ? theirs : ours, member->rounds * threads + member->number);
	memset(op == OTTE_READ ? ours : theirs, CANARY, bytes);
}

/* Neither side has the canary any more, and who was read from, or has written, is as it was. */
static bool has_moved(const struct member *member, uint8_t op)
{
	const uint8_t *theirs = remote + range_at(member, op);
	const uint8_t *ours = member->by->bytes + range_at(member, op);
	uint64_t word = (member->rounds * threads + member->number + 1) * 0x9e3779b97f4a7c15;

	return !memcmp(ours, theirs, bytes) && !memcmp(ours, &word, sizeof(word));
}

static void go_round(struct member *member, struct otte_batch *batch)
{
	static const uint8_t ops[OPS] = { OTTE_READ, OTTE_WRITE };
	struct otte_request requests[OPS];
	struct otte_task task;
	unsigned int i;

	for (i = 0; i < OPS; i++) {
		prepare(member, ops[i]);
		requests[i] =
			requester_request(member->by, ops[i], range_at(member, ops[i]), bytes);
		if (member->number % 4 == 0)
			requests[i].lease = OTTE_LEASE_RANGE;
	}
	MUST(otte_batch_reset(batch));
	MUST(otte_batch_submit(batch, requests, OPS));
	MUST(otte_batch_wait(batch, 300 * SECOND));
	for (i = 0; i < OPS; i++) {
		MUST(otte_batch_task(batch, i, &task));
		if (task.code && !member->code) {
			printf("# thread %u: code %d\n", member->number, task.code);
			member->code = task.code;
		} else if (!task.code && !has_moved(member, ops[i])) {
			printf("# thread %u, round %lu: other bytes\n", member->number,
			       (unsigned long)member->rounds);
			member->mistaken = true;
		}
	}
	member->rounds++;
}

static void *be_member(void *arg)
{
	struct member *member = arg;
	struct otte_batch *batch;

	MUST(otte_batch_create(member->by->engine, OPS, &batch));
	do
		go_round(member, batch);
	while (now_ns() < until_ns && !member->code && !member->mistaken);
	MUST(otte_batch_destroy(batch));
	return NULL;
}

/* ---- All of them ---- */

struct gathered {
	bool arrived, lost, right;
	uint64_t rounds; /* requests of each direction that were done */
};

static struct gathered gather(struct requester *by, uint64_t seconds)
{
	static struct member members[THREADS_MAX];
	struct gathered all = { .arrived = true, .right = true };
	uint64_t least = UINT64_MAX, began_ns = now_ns();
	unsigned int i;

	until_ns = began_ns + seconds * SECOND;
	for (i = 0; i < threads; i++) {
		members[i] = (struct member){ .by = &by[i % REQUESTERS], .number = i };
		if (pthread_create(&members[i].thread, NULL, be_member, &members[i]))
			_exit(3);
	}
	for (i = 0; i < threads; i++) {
		pthread_join(members[i].thread, NULL);
		all.arrived &= !members[i].code;
		all.lost |= members[i].code == -ECONNRESET;
		all.right &= !members[i].mistaken;
		all.rounds += members[i].rounds;
		least = members[i].rounds < least ? members[i].rounds : least;
	}
	printf("# %u threads, %lu KiB, %s: %lu READs and as many WRITEs in %.1f s, "
	       "the slowest %lu of each\n",
	       threads, (unsigned long)bytes >> 10,
	       both ? "both staged" : staged ? "staged" : "direct",
	       (unsigned long)all.rounds, (double)(now_ns() - began_ns) / 1e9, (unsigned long)least);
	return all;
}

/* ---- What is left ---- */

static uint64_t received(unsigned int rail)
{
	return device_received("rxe", rail);
}

static bool is_idle(const struct otte_stats *stats)
{
	return !stats->requests && !stats->bytes && !stats->waiting_high &&
	       !stats->waiting_medium && !stats->waiting_low && !stats->rdma_direct_bytes &&
	       !stats->rdma_staging_bytes && !stats->retained;
}

/* What check_source() wants of all requesters together. */
struct sums {
	uint64_t submitted, completed, failed, read_bytes, write_bytes;
	uint64_t slices, lease_requests;
};

static void check_requester(const struct requester *by, struct sums *sums)
{
	struct otte_stats stats;
	bool idle = EVENTUALLY((stats = requester_stats(by), is_idle(&stats)));

	printf("# requester: %lu slices, %lu by leases, %lu QPs, %lu rail errors; now %lu requests, "
	       "%lu bytes in place, %lu of chunks\n",
	       (unsigned long)stats.rdma_slices, (unsigned long)stats.rdma_lease_requests,
	       (unsigned long)stats.rdma_qps, (unsigned long)stats.rdma_rail_errors,
	       (unsigned long)stats.requests, (unsigned long)stats.rdma_direct_bytes,
	       (unsigned long)stats.rdma_staging_bytes);
	check(idle,
	      "the requester has nothing under way: no request, no byte in place or in a chunk");
	check(stats.rdma_qps > RAILS * OPS && stats.rdma_qps <= RAILS * PAIRS * OPS,
	      "over second queue pairs of rails, too, and no more than these");
	check(!stats.rdma_rail_errors && !stats.rdma_slices_moved, "none of which has failed");
	sums->submitted += stats.submitted;
	sums->completed += stats.completed;
	sums->failed += stats.failed;
	sums->read_bytes += stats.read_bytes;
	sums->write_bytes += stats.write_bytes;
	sums->slices += stats.rdma_slices;
	sums->lease_requests += stats.rdma_lease_requests;
}

static void check_requesters(const struct requester *by, uint64_t rounds, struct sums *sums)
{
	unsigned int i;

	for (i = 0; i < REQUESTERS; i++)
		check_requester(&by[i], sums);
	check(sums->submitted == OPS * rounds && sums->completed == OPS * rounds && !sums->failed,
	      "as many requests are done as were asked for");
	check(sums->read_bytes == rounds * bytes && sums->write_bytes == rounds * bytes,
	      "and as many bytes have moved");
	check(staged ? !sums->lease_requests : sums->lease_requests > 0,
	      staged ? "none by a lease" : "some by leases");
}

/* What moved by leases is known once they are given back, as what is withdrawn has to be. */
static void check_source(const struct source *source, const struct sums *asked, uint64_t rounds)
{
	int withdrawn = source_withdraw(source);
	struct otte_stats stats;
	bool rests = EVENTUALLY((stats = source_stats(source), !stats.loans));

	printf("# source: %lu grants, %lu leases, %lu requests, %lu and %lu bytes; "
	       "now %lu loans, %lu retained\n",
	       (unsigned long)stats.rdma_grants, (unsigned long)stats.rdma_leases,
	       (unsigned long)stats.served_requests, (unsigned long)stats.served_read_bytes,
	       (unsigned long)stats.served_write_bytes, (unsigned long)stats.loans,
	       (unsigned long)stats.retained);
	check(!withdrawn && rests && !stats.retained,
	      "the source lends nothing any more, and nothing is retained");
	check(stats.rdma_grants == asked->slices, "it has granted each slice once");
	check(stats.served_requests == stats.rdma_grants + asked->lease_requests,
	      "it has served each of them, and each request by a lease");
	check(stats.served_read_bytes == rounds * bytes &&
		      stats.served_write_bytes == rounds * bytes,
	      "as many bytes as were asked for");
}

static bool has_parted(const struct source *source, struct otte_stats *stats)
{
	*stats = source_stats(source);
	return !stats->rdma_qps && !stats->loans;
}

/* ---- One crowd ---- */

/*
 * rxe may lose what it is to carry, with nobody's fault. Then a rail has failed, a slice is asked
 * for again or its request is lost, and no count of these is exact: another crowd has to do.
 */
#define TRIALS 3

static bool has_lost(const struct requester by[REQUESTERS])
{
	struct otte_stats stats;
	bool lost = false;
	unsigned int i;

	for (i = 0; i < REQUESTERS; i++) {
		stats = requester_stats(&by[i]);
		lost |= stats.rdma_rail_errors || stats.rdma_slices_moved;
	}
	return lost;
}

/* Whether it counts; where it does not nothing is to be left of it either, and no byte wrong. */
static bool try_crowd(uint64_t seconds, bool last)
{
	const char *const devices[DEVICES_MAX] = { "" };
	uint64_t before[RAILS];
	struct requester by[REQUESTERS];
	struct gathered all;
	struct source source;
	struct otte_stats stats;
	struct sums sums = {};
	bool counts;
	unsigned int i;

	source_start(&source, devices, NULL);
	for (i = 0; i < REQUESTERS; i++)
		requester_open(&by[i], "", &source.doors[0], false);
	before[0] = received(0);
	before[1] = received(1);
	all = gather(by, seconds);
	counts = last || !(all.lost || has_lost(by));
	check(all.right, "every byte is what it is to be");
	if (counts) {
		check(all.arrived, "every request of the crowd is done");
		check(received(0) - before[0] > threads && received(1) - before[1] > threads,
		      "both rails have carried them");
		check_requesters(by, all.rounds, &sums);
		check_source(&source, &sums, all.rounds);
	}
	for (i = 0; i < REQUESTERS; i++)
		requester_close(&by[i]);
	check(EVENTUALLY(has_parted(&source, &stats)) && !stats.retained && !stats.rdma_mrs,
	      "of the crowd the source keeps no queue pair and no memory region");
	check(source_end(&source) == 0, "and gives back everything");
	return counts;
}

int main(int argc, char **argv)
{
	unsigned int trials = 1;

	if (argc != 5)
		return 3;
	both = !strcmp(argv[1], "both");
	staged = both || !strcmp(argv[1], "staged");
	threads = (unsigned int)atoi(argv[2]);
	bytes = (uint64_t)atoi(argv[3]) << 10;
	if (!threads || threads > THREADS_MAX || !bytes)
		return 3;
	parties.area_bytes = OPS * threads * bytes;
	parties.adjust = adjust;
	parties_open();
	while (!try_crowd((uint64_t)atoi(argv[4]), trials == TRIALS))
		printf("# rxe has lost some: trial %u\n", trials++);
	return checked();
}
