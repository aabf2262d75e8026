/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SIGKILL at random points of transfers, and what may be said afterwards.
 *
 * The requester keeps a book in shared memory: each request before it is submitted, and what was
 * reported of it as soon as it was. The memory of both sides is shared as well and outlives them. So
 * whoever is killed, the test compares what was reported with the bytes that are there:
 *
 *   completed             the whole payload is at its destination
 *   failed, effect NONE   the destination of a WRITE is as it was
 *   anything else         each byte is the old one or the right new one
 *   everything            the payload's origin and the bytes between the ranges are as they were
 *
 * OTTE_STORM_KILLS is the number of kills (default 40), OTTE_TEST_SEED the seed, OTTE_STORM_KEYS are further
 * keys of both sides (the transport, say) and OTTE_STORM_MIB the size of their memory. With "ledger=kernel" among the
 * keys the module is asked after each step as well whether it shows what was lent, left and settled: witness.h. With
 * "rdma.enabled=true" every request wants NICs and nothing else, and the devices are asked what they still have; with
 * "rdma.lease=region" they go by leases, which are held all the time.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "side.h"
#include "witness.h"

#define LENGTH_MAX (area_bytes / 2)
#define REQUESTS_MAX 24
#define POISON 0xee
/* From a kill to the survivor's report, on loopback with both CPUs busy; in a guest that is interpreted. */
#define REPORT_NS (3 * SECOND)
#define REPORT_IN_GUEST_NS (30 * SECOND)
/* What a source lends a peer that has read and written. */
#define LOANS 2

enum phase {
	PREPARING = 0, /* memory is being poisoned: nothing can be said */
	READY = 1,     /* what is submitted stands in the book */
	REPORTED = 2,  /* the batch is terminal, every result stands in the book */
};

struct entry {
	uint8_t op;
	uint64_t local, remote, length;
	int state;      /* enum otte_task_state, or -1: refused at submission */
	int code;
	unsigned effect, drained;
};

struct book {
	_Atomic unsigned batches, phase;
	_Atomic uint64_t took_ns;       /* the last batch, from submission to its end */
	unsigned count, prefix;
	struct entry entries[REQUESTS_MAX];
};

static uint64_t area_bytes; /* of each side's memory */
static const char *more_keys;
static bool by_nics, by_leases; /* as the keys say */

/* What all processes together have of the devices. */
struct devices {
	unsigned qps, mrs;
};

struct world {
	uint64_t random;
	int source_fd, requester_fd;    /* memory */
	uint8_t *source_bytes, *requester_bytes;
	struct book *book;
	int book_fd;
	struct remote source, requester;
	struct witness witness;
	unsigned source_fds, requester_fds;
	unsigned lent_fds;              /* that the source has more since it lent something by itself */
	unsigned lane_fds;              /* that each has more since it had a queue pair */
	struct devices rest;            /* of either side alone, without a peer */
	unsigned looks;                 /* at the devices */
	unsigned kills, hits, unknown;  /* hits: something was under way */
};

/* Never the poison, and another row of bytes for each request of each batch. */
static uint8_t payload_byte(unsigned batch, unsigned i, uint64_t k)
{
	return (uint8_t)((k ^ k >> 7 ^ k >> 15 ^ (batch * 29u + i * 7u)) & 0x7f);
}

/* ---- The requester ---- */

/* Lengths of every order of magnitude from 1 to LENGTH_MAX. */
static uint64_t draw_length(uint64_t *random)
{
	uint64_t most = 1ull << draw_between(random, 0, 23);

	return draw_between(random, 1, most < LENGTH_MAX ? most : LENGTH_MAX);
}

/* Disjoint ranges, at other places on the two sides. */
static void plan(struct book *book, uint64_t *random)
{
	unsigned most = (unsigned)draw_between(random, 1, REQUESTS_MAX);
	/* A lease for WRITEs is given back for a READ. */
	bool writes = by_leases && draw(random) % 2;
	uint64_t local = 0, remote = 0;

	for (book->count = 0; book->count < most; book->count++) {
		struct entry *entry = &book->entries[book->count];

		memset(entry, 0, sizeof(*entry));
		entry->length = draw_length(random);
		local += draw_between(random, 0, 300);
		remote += draw_between(random, 0, 300);
		if (local + entry->length > area_bytes || remote + entry->length > area_bytes)
			break;
		entry->op = (by_leases ? writes : draw(random) % 2) ? OTTE_WRITE : OTTE_READ;
		entry->local = local;
		entry->remote = remote;
		local += entry->length;
		remote += entry->length;
	}
}

static void prepare(const struct book *book, uint8_t *local, uint8_t *remote)
{
	unsigned i;
	uint64_t k;

	memset(local, POISON, area_bytes);
	memset(remote, POISON, area_bytes);
	for (i = 0; i < book->count; i++) {
		const struct entry *entry = &book->entries[i];
		uint8_t *from = entry->op == OTTE_WRITE ? local + entry->local :
							  remote + entry->remote;

		for (k = 0; k < entry->length; k++)
			from[k] = payload_byte(book->batches, i, k);
	}
}

static int submit(struct side *side, struct book *book)
{
	struct otte_request requests[REQUESTS_MAX];
	unsigned i;
	int ret;

	OK(otte_batch_reset(side->batch));
	for (i = 0; i < book->count; i++)
		requests[i] = side_request(side, book->entries[i].op, book->entries[i].local,
					   book->entries[i].remote, book->entries[i].length);
	ret = otte_batch_submit(side->batch, requests, book->count);
	for (i = 0; ret && i < book->count; i++) {
		book->entries[i].state = -1;
		book->entries[i].code = ret;
	}
	return ret;
}

/* Write down what is terminal by now; true when everything is. */
static bool report(struct side *side, struct book *book)
{
	struct otte_batch_status status;
	struct otte_task task;
	unsigned i;

	OK(otte_batch_poll(side->batch, &status));
	for (i = 0; i < book->count; i++) {
		struct entry *entry = &book->entries[i];

		if (entry->state >= OTTE_TASK_COMPLETED)
			continue;
		OK(otte_batch_task(side->batch, i, &task));
		entry->code = task.code;
		entry->effect = task.remote_effect;
		entry->drained = task.locally_drained;
		atomic_signal_fence(memory_order_release);
		entry->state = (int)task.state;
	}
	book->prefix = status.completed_prefix;
	return status.finished == status.submitted;
}

/* Batch after batch until one fails. */
static void storm(struct side *side, struct book *book, uint8_t *remote, uint64_t random)
{
	uint64_t begun_ns;
	bool failed = false;
	unsigned i;

	while (!failed) {
		book->phase = PREPARING;
		book->batches++;
		plan(book, &random);
		prepare(book, side->bytes, remote);
		book->phase = READY;
		begun_ns = now_ns();
		if (!submit(side, book))
			while (!report(side, book))
				otte_batch_wait(side->batch, 1 * MS);
		for (i = 0; i < book->count; i++)
			failed |= book->entries[i].state != OTTE_TASK_COMPLETED;
		book->took_ns = now_ns() - begun_ns;
		book->phase = REPORTED;
	}
}

static void requester_say(struct side *side)
{
	struct otte_stats stats = side_stats(side);

	printf("requests %llu bytes %llu lanes %llu peers_out %llu loans %llu retained %llu qps %llu leased %llu "
	       "fds %u\n",
	       (unsigned long long)stats.requests, (unsigned long long)stats.bytes,
	       (unsigned long long)stats.lanes, (unsigned long long)stats.peers_out,
	       (unsigned long long)stats.loans, (unsigned long long)stats.retained,
	       (unsigned long long)stats.rdma_qps, (unsigned long long)stats.rdma_lease_requests, count_fds());
}

/* How long a region is that is leased as a whole must be known. */
static int connect_to(struct side *side, const char *address, uint64_t region)
{
	int ret = side_connect(side, address, OTTE_EPOCH_ANY, region);
	size_t count;

	return ret || !by_leases ? ret : otte_segment_describe(side->segment, 10 * SECOND, NULL, 0, &count);
}

/* Arguments: keys, fd of its memory, of the source's, of the book. */
static int requester_main(char **argv)
{
	unsigned long long region, random;
	char line[512], address[256];
	struct book *book;
	struct side side;
	uint8_t *remote;

	remote = map_shared(atoi(argv[2]), area_bytes);
	book = map_shared(atoi(argv[3]), sizeof(*book));
	OK(side_open(&side, argv[0], atoi(argv[1]), area_bytes));
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "open %255s %llu", address, &region) == 2) {
			printf("code %d\n", connect_to(&side, address, region));
		} else if (sscanf(line, "storm %llu", &random) == 1) {
			storm(&side, book, remote, random);
			printf("lost\n");
		} else if (strcmp(line, "probe\n") == 0) {
			printf("probe %d\n", side_probe(&side));
		} else if (strcmp(line, "disconnect\n") == 0) {
			side_disconnect(&side);
			printf("ok\n");
		} else if (strcmp(line, "stats\n") == 0) {
			requester_say(&side);
		}
	}
	OK(side_close(&side));
	return 0;
}

/* ---- What the book says, against what is there ---- */

static bool all_poison(const uint8_t *bytes, uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		if (bytes[from] != POISON)
			return false;
	return true;
}

static void check_origin(const struct book *book, unsigned i, const uint8_t *from)
{
	uint64_t k;

	for (k = 0; k < book->entries[i].length; k++)
		if (from[k] != payload_byte(book->batches, i, k))
			fail_msg("request %u: byte %lu of its origin has changed", i, (unsigned long)k);
}

static void check_destination(const struct book *book, unsigned i, const uint8_t *to)
{
	const struct entry *entry = &book->entries[i];
	bool completed = entry->state == OTTE_TASK_COMPLETED;
	bool untouched = entry->state == -1 || (entry->state > OTTE_TASK_COMPLETED &&
			 entry->op == OTTE_WRITE && entry->effect == OTTE_EFFECT_NONE);
	uint64_t k;

	for (k = 0; k < entry->length; k++) {
		bool old = to[k] == POISON, new = to[k] == payload_byte(book->batches, i, k);

		if (completed && !new)
			fail_msg("request %u (%s) is reported complete, byte %lu of %lu is not there", i,
				 entry->op ? "WRITE" : "READ", (unsigned long)k,
				 (unsigned long)entry->length);
		if (untouched && !old)
			fail_msg("request %u is reported without effect, byte %lu has changed", i,
				 (unsigned long)k);
		if (!old && !new)
			fail_msg("request %u: byte %lu is neither old nor new", i, (unsigned long)k);
	}
}

static void check_report(const struct book *book, unsigned i)
{
	const struct entry *entry = &book->entries[i];

	if (entry->state == -1) {
		assert_int_equal(entry->code, -ECONNRESET);
	} else if (entry->state == OTTE_TASK_COMPLETED) {
		assert_int_equal(entry->code, 0);
	} else if (entry->state > OTTE_TASK_COMPLETED) {
		assert_int_equal(entry->state, OTTE_TASK_FAILED);
		assert_int_equal(entry->code, -ECONNRESET);
		assert_int_equal(entry->drained, 1);
		if (entry->op == OTTE_READ)
			assert_int_equal(entry->effect, OTTE_EFFECT_NONE);
	}
}

static void check_prefix(const struct book *book)
{
	unsigned i = 0;

	while (i < book->count && book->entries[i].state == OTTE_TASK_COMPLETED)
		i++;
	assert_int_equal(book->prefix, i);
	for (i = 0; i < book->count; i++)
		assert_true(book->entries[i].state == -1 ||
			    book->entries[i].state >= OTTE_TASK_COMPLETED);
}

static void tally(struct world *world)
{
	const struct book *book = world->book;
	bool hit = false;
	unsigned i;

	for (i = 0; book->phase != PREPARING && i < book->count; i++) {
		hit |= book->entries[i].state != OTTE_TASK_COMPLETED;
		world->unknown += book->entries[i].effect == OTTE_EFFECT_UNKNOWN;
	}
	world->kills++;
	world->hits += hit;
}

static void check_book(struct world *world)
{
	const struct book *book = world->book;
	uint64_t local = 0, remote = 0;
	unsigned i;

	tally(world);
	if (book->phase == PREPARING)
		return;
	for (i = 0; i < book->count; i++) {
		const struct entry *entry = &book->entries[i];
		const uint8_t *here = world->requester_bytes + entry->local;
		const uint8_t *there = world->source_bytes + entry->remote;

		assert_true(all_poison(world->requester_bytes, local, entry->local));
		assert_true(all_poison(world->source_bytes, remote, entry->remote));
		local = entry->local + entry->length;
		remote = entry->remote + entry->length;
		check_report(book, i);
		check_origin(book, i, entry->op == OTTE_WRITE ? here : there);
		check_destination(book, i, entry->op == OTTE_WRITE ? there : here);
	}
	assert_true(all_poison(world->requester_bytes, local, area_bytes));
	assert_true(all_poison(world->source_bytes, remote, area_bytes));
	if (book->phase == REPORTED && book->count && book->entries[0].state != -1)
		check_prefix(book);
}

/* ---- Processes ---- */

/* Every other process of ours sends without a copy. */
static const char *draw_zerocopy(struct world *world)
{
	return draw(&world->random) % 2 ? "always" : "off";
}

static void start_source(struct world *world)
{
	char keys[256];

	snprintf(keys, sizeof(keys), "tcp.workers=%u tcp.zerocopy=%s %s",
		 (unsigned)draw_between(&world->random, 1, 3), draw_zerocopy(world), more_keys);
	remote_start(&world->source, keys, world->source_fd, area_bytes);
	witness_born(&world->witness, world->source.child.pid);
	child_ask(&world->source.child, "stats");
	world->source_fds = (unsigned)child_number(&world->source.child, "fds");
}

static void start_requester(struct world *world)
{
	char keys[256], fd[3][16];

	snprintf(keys, sizeof(keys), "deaf tcp.lanes=%u window.requests=%u tcp.zerocopy=%s %s",
		 (unsigned)draw_between(&world->random, 1, 4),
		 (unsigned)draw_between(&world->random, 1, 8), draw_zerocopy(world), more_keys);
	snprintf(fd[0], sizeof(fd[0]), "%d", world->requester_fd);
	snprintf(fd[1], sizeof(fd[1]), "%d", world->source_fd);
	snprintf(fd[2], sizeof(fd[2]), "%d", world->book_fd);
	child_start(&world->requester.child, -1, "requester", keys, fd[0], fd[1], fd[2],
		    (char *)NULL);
	assert_string_equal(child_hear(&world->requester.child), "ready");
	witness_born(&world->witness, world->requester.child.pid);
	child_ask(&world->requester.child, "stats");
	world->requester_fds = (unsigned)child_number(&world->requester.child, "fds");
}

/* ---- The devices ---- */

static struct devices look_at_devices(void)
{
	FILE *pipe = popen("rdma resource show", "re");
	struct devices devices = { 0 };
	unsigned qps, mrs;
	char line[256];

	MUST(pipe, "%m");
	while (fgets(line, sizeof(line), pipe)) {
		const char *qp = strstr(line, " qp "), *mr = strstr(line, " mr ");

		MUST(qp && mr && sscanf(qp, " qp %u", &qps) == 1 && sscanf(mr, " mr %u", &mrs) == 1,
		     "\"%s\"", line);
		devices.qps += qps;
		devices.mrs += mrs;
	}
	MUST(pclose(pipe) == 0 && devices.qps, "rdma resource show");
	return devices;
}

/* Of the survivor there is what it has without a peer, of the dead nothing. */
static void check_devices_at_rest(struct world *world)
{
	struct devices now;

	if (!by_nics)
		return;
	world->looks++;
	if (EVENTUALLY((now = look_at_devices(),
			now.qps == world->rest.qps && now.mrs == world->rest.mrs)))
		return;
	fail_msg("%u QPs and %u MRs, not %u and %u", now.qps, now.mrs, world->rest.qps, world->rest.mrs);
}

/* The next peer is served at once: the first transfer completes. */
static void join(struct world *world)
{
	assert_string_equal(child_ask(&world->requester.child, "open %s %lu", world->source.address,
				      (unsigned long)world->source.region), "code 0");
	assert_string_equal(child_ask(&world->requester.child, "probe"), "probe 1");
	child_ask(&world->requester.child, "stats");
	assert_int_equal(child_number(&world->requester.child, "leased") > 0, by_leases);
	witness_lends(&world->witness, world->source.child.pid, by_nics ? 0 : LOANS);
	witness_check(&world->witness, "joined");
}

/* A requester that lost its peer is as it was, but for the segment, and then as before it opened one. */
static void check_requester_at_rest(struct world *world)
{
	struct child *child = &world->requester.child;

	assert_true(EVENTUALLY((child_ask(child, "stats"), !child_number(child, "lanes") &&
				!child_number(child, "peers_out"))));
	assert_int_equal(child_number(child, "requests"), 0);
	assert_int_equal(child_number(child, "bytes"), 0);
	assert_int_equal(child_number(child, "loans"), 0);
	assert_int_equal(child_number(child, "retained"), 0);
	assert_string_equal(child_ask(child, "disconnect"), "ok");
	assert_true(EVENTUALLY((child_ask(child, "stats"), !child_number(child, "qps") &&
				child_number(child, "fds") == world->requester_fds + world->lane_fds)));
	check_devices_at_rest(world);
}

static void check_source_at_rest(struct world *world)
{
	struct child *child = &world->source.child;

	assert_true(EVENTUALLY((child_ask(child, "stats"), !child_number(child, "lanes") &&
				!child_number(child, "peers_in") && !child_number(child, "loans") &&
				!child_number(child, "qps") &&
				child_number(child, "fds") ==
					world->source_fds + world->lent_fds + world->lane_fds)));
	assert_int_equal(child_number(child, "retained"), 0);
	/* The table of uses is one, too, where it is borrowed. */
	assert_int_equal(child_number(child, "regions"), 1 + world->witness.borrowed);
	check_devices_at_rest(world);
}

/* Some batches on, somewhere in one. */
static void wait_for_the_moment(struct world *world)
{
	unsigned batch = world->book->batches + (unsigned)draw_between(&world->random, 1, 3);
	uint64_t until_ns = now_ns() + 60 * SECOND;

	/* Without a pause: a batch may be over in less. */
	while (world->book->batches < batch || world->book->phase != READY)
		assert_true(now_ns() < until_ns);
	until_ns = now_ns() + draw_between(&world->random, 0, world->book->took_ns);
	while (now_ns() < until_ns)
		;
}

static void world_open(struct world *world, uint64_t salt)
{
	uint64_t seed = test_seed(20240607);

	memset(world, 0, sizeof(*world));
	printf("seed %lu\n", (unsigned long)seed);
	world->random = seed + salt;
	witness_open(&world->witness, more_keys, area_bytes);
	/* The table of uses. */
	world->lent_fds = world->witness.borrowed;
	world->source_bytes = share(&world->source_fd, area_bytes);
	world->requester_bytes = share(&world->requester_fd, area_bytes);
	world->book = share(&world->book_fd, sizeof(*world->book));
	inherit(world->source_fd);
	inherit(world->requester_fd);
	inherit(world->book_fd);
	start_source(world);
	if (by_nics) {
		world->rest = look_at_devices();
		world->lane_fds = 1; /* of its events */
	}
	start_requester(world);
	join(world);
}

static void world_close(struct world *world)
{
	pid_t requester = world->requester.child.pid, source = world->source.child.pid;

	child_end(&world->requester.child);
	witness_died(&world->witness, requester);
	check_source_at_rest(world);
	witness_lends(&world->witness, source, 0);
	witness_check(&world->witness, "without a peer");
	child_end(&world->source.child);
	witness_died(&world->witness, source);
	witness_check(&world->witness, "ended");
	witness_release(&world->witness);
	assert_int_equal(world->witness.count, 0);
	printf("%u kills, %u in the middle of a transfer, %u writes of unknown effect\n", world->kills,
	       world->hits, world->unknown);
	if (world->witness.on)
		printf("the module was asked %u times\n", world->witness.checks);
	if (by_nics)
		printf("the devices were asked %u times\n", world->looks);
	/* A storm that never hits anything proves nothing. */
	assert_true(world->hits * 4 >= world->kills);
	share_end(world->source_bytes, world->source_fd, area_bytes);
	share_end(world->requester_bytes, world->requester_fd, area_bytes);
	share_end(world->book, world->book_fd, sizeof(*world->book));
}

static unsigned kills(unsigned share_of_five)
{
	const char *set = getenv("OTTE_STORM_KILLS");

	return (set ? (unsigned)atoi(set) : 40) * share_of_five / 5;
}

static void kill_source(struct world *world)
{
	pid_t pid = world->source.child.pid;

	child_kill(&world->source.child);
	witness_died(&world->witness, pid);
}

static void kill_requester(struct world *world)
{
	pid_t pid = world->requester.child.pid;

	child_kill(&world->requester.child);
	witness_died(&world->witness, pid);
}

/* Records may stay while others are served; now and then an administrator looks at them. */
static void perhaps_release(struct world *world)
{
	witness_check(&world->witness, "killed");
	if (draw(&world->random) % 3 == 0)
		witness_release(&world->witness);
}

static void begin_storm(struct world *world)
{
	child_tell(&world->requester.child, "storm %lu", (unsigned long)draw(&world->random));
	wait_for_the_moment(world);
}

/* ---- The rules ---- */

static void a_killed_source_makes_no_report_untrue_and_leaves_nothing_behind(void **state)
{
	struct world world;
	uint64_t killed_ns;
	unsigned i;

	(void)state;
	world_open(&world, 1);
	for (i = 0; i < kills(2); i++) {
		begin_storm(&world);
		killed_ns = now_ns();
		kill_source(&world);
		assert_string_equal(child_hear(&world.requester.child), "lost");
		assert_in_range(now_ns() - killed_ns, 0,
				world.witness.on ? REPORT_IN_GUEST_NS : REPORT_NS);
		assert_int_equal(world.book->phase, REPORTED);
		check_book(&world);
		check_requester_at_rest(&world);
		perhaps_release(&world);
		start_source(&world);
		join(&world);
	}
	world_close(&world);
}

static void a_killed_requester_has_seen_no_untrue_report_and_leaves_nothing_behind(void **state)
{
	struct world world;
	unsigned i;

	(void)state;
	world_open(&world, 2);
	for (i = 0; i < kills(2); i++) {
		begin_storm(&world);
		kill_requester(&world);
		check_source_at_rest(&world);
		witness_lends(&world.witness, world.source.child.pid, 0);
		witness_check(&world.witness, "killed");
		check_book(&world);
		start_requester(&world);
		join(&world);
	}
	world_close(&world);
}

static void when_both_are_killed_what_was_reported_is_true(void **state)
{
	struct world world;
	unsigned i;

	(void)state;
	world_open(&world, 3);
	for (i = 0; i < kills(1); i++) {
		begin_storm(&world);
		child_signal(&world.source.child, SIGKILL);
		kill_requester(&world);
		kill_source(&world);
		check_book(&world);
		perhaps_release(&world);
		start_source(&world);
		start_requester(&world);
		join(&world);
	}
	world_close(&world);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_source_makes_no_report_untrue_and_leaves_nothing_behind),
		cmocka_unit_test(a_killed_requester_has_seen_no_untrue_report_and_leaves_nothing_behind),
		cmocka_unit_test(when_both_are_killed_what_was_reported_is_true),
	};
	const char *mib = getenv("OTTE_STORM_MIB");
	int status;

	area_bytes = (mib ? strtoull(mib, NULL, 0) : 16) << 20;
	more_keys = getenv("OTTE_STORM_KEYS");
	if (!more_keys)
		more_keys = "";
	by_nics = strstr(more_keys, "rdma.enabled=true");
	by_leases = strstr(more_keys, "rdma.lease=region");
	if (side_role(argc, argv, &status))
		return status;
	if (argc == 6 && strcmp(argv[1], "requester") == 0) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		return requester_main(argv + 2);
	}
	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("storm", tests, NULL, NULL);
}
