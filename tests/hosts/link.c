/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two hosts and the link between them: large requests on several lanes, addresses of every kind, and a
 * link that goes away in the middle of a transfer. The requester is this process, the source a child on the
 * other host, whose memory is shared with the test and outlives both.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "netns.h"
#include "e2e/side.h"

#define AREA_BYTES (128ull << 20)
#define LENGTH (1ull << 20)
#define COUNT (unsigned)(AREA_BYTES / LENGTH)
#define POISON 0xee
/* A lost link is noticed by the request's deadline, or by a lane that stands still. */
#define DEADLINE_MS 2000
#define STALL_MS 1000
/*
 * The engine looks at deadlines when it ticks, and one that is over ends as soon as its lane is down; on a busy
 * machine some seconds later. Without a deadline it would be a quarter of an hour.
 */
#define LATE_MS 5000
/* What the kernel has not let go of is waited for. */
#define PROOF_MS 1000

static const char keys[] = "tcp.lanes=4 deadline.default_ms=2000 tcp.stall_timeout_ms=1000 "
			   "control.timeout_ms=1000 control.reconnect_max_ms=200";

/* Where the link works, a slow machine is no failure. */
#define PATIENT " deadline.default_ms=60000 tcp.stall_timeout_ms=20000"

static bool have_hosts;

struct setting {
	struct side side;
	struct remote remote;
	uint8_t *bytes;          /* of the source */
	int fd;
	unsigned fds, remote_fds;
};

static long long remote_number(struct setting *setting, const char *name)
{
	child_ask(&setting->remote.child, "stats");
	return child_number(&setting->remote.child, name);
}

static void start_source(struct setting *setting, const char *listen, const char *extra)
{
	char words[512];

	snprintf(words, sizeof(words), "%s %s %s", keys, listen, extra);
	hosts_enter(THERE);
	remote_start(&setting->remote, words, setting->fd, AREA_BYTES);
	hosts_enter(HERE);
}

static void setting_open(struct setting *setting, const char *listen, const char *extra)
{
	char words[512];

	memset(setting, 0, sizeof(*setting));
	setting->bytes = share(&setting->fd, AREA_BYTES);
	start_source(setting, listen, extra);
	snprintf(words, sizeof(words), "deaf %s %s", keys, extra);
	OK(side_open(&setting->side, words, -1, AREA_BYTES));
	OK(side_connect(&setting->side, setting->remote.address, OTTE_EPOCH_ANY,
			setting->remote.region));
	assert_true(side_probe(&setting->side));
	setting->fds = count_fds();
	setting->remote_fds = (unsigned)remote_number(setting, "fds");
}

static void setting_close(struct setting *setting)
{
	OK(side_close(&setting->side));
	child_end(&setting->remote.child);
	share_end(setting->bytes, setting->fd, AREA_BYTES);
}

static int open_hosts(void **state)
{
	(void)state;
	have_hosts = hosts_make();
	if (!have_hosts)
		fprintf(stderr, "no network namespaces or no veth here: skipped\n");
	return 0;
}

#define NEEDS_HOSTS() \
	do { \
		if (!have_hosts) \
			skip(); \
	} while (0)

/* ---- A link that works ---- */

static void moves_both_ways_on_all_lanes(const char *listen, const char *extra)
{
	struct setting setting;
	struct outcome outcome;

	setting_open(&setting, listen, extra);
	fill(setting.bytes, AREA_BYTES, 0x11);
	outcome = side_run(&setting.side, OTTE_READ, 0, 0, AREA_BYTES, 1);
	assert_int_equal(outcome.code | outcome.failure.code, 0);
	assert_true(filled(setting.side.bytes, AREA_BYTES, 0x11));
	assert_int_equal(busy_connections(HERE, true, AREA_BYTES / 8), 4);

	fill(setting.side.bytes, AREA_BYTES, 0x22);
	outcome = side_run(&setting.side, OTTE_WRITE, 0, 0, AREA_BYTES, 1);
	assert_int_equal(outcome.code | outcome.failure.code, 0);
	assert_true(filled(setting.bytes, AREA_BYTES, 0x22));
	assert_int_equal(busy_connections(HERE, false, AREA_BYTES / 8), 4);
	setting_close(&setting);
}

static void a_large_request_is_carried_by_every_lane_over_ipv4(void **state)
{
	(void)state;
	NEEDS_HOSTS();
	moves_both_ways_on_all_lanes("listen.address=10.77.7.2", "tcp.zerocopy=off" PATIENT);
}

static void a_large_request_is_carried_by_every_lane_over_ipv6(void **state)
{
	(void)state;
	NEEDS_HOSTS();
	moves_both_ways_on_all_lanes("listen.address=fd77:7::2", "tcp.zerocopy=off" PATIENT);
}

static void a_peer_is_reached_at_the_address_that_it_advertises(void **state)
{
	struct setting setting;

	(void)state;
	NEEDS_HOSTS();
	setting_open(&setting, "listen.address=0.0.0.0 listen.advertise=10.77.9.2", PATIENT);
	assert_true(strncmp(setting.remote.address, "10.77.9.2:", 10) == 0);
	assert_int_equal(side_run(&setting.side, OTTE_READ, 0, 0, AREA_BYTES / 4, 4)
			 .status.completed_prefix, 4);
	/* Bound to one address, advertised under another one: nobody is there. */
	child_end(&setting.remote.child);
	side_disconnect(&setting.side);
	start_source(&setting, "listen.address=10.77.7.2 listen.advertise=10.77.9.2", "");
	assert_int_equal(side_connect(&setting.side, setting.remote.address, OTTE_EPOCH_ANY,
				      setting.remote.region), -ECONNREFUSED);
	setting_close(&setting);
}

static void a_slow_link_that_loses_packets_delivers_every_byte(void **state)
{
	const char netem[] = "tc qdisc add dev otte0 root netem delay 2ms loss 1% 2>/dev/null";
	const uint64_t length = 4 << 20;
	struct setting setting;
	struct outcome outcome;

	(void)state;
	NEEDS_HOSTS();
	if (host_runs(HERE, netem)) {
		fprintf(stderr, "this kernel has no netem: skipped\n");
		skip();
	}
	assert_int_equal(host_runs(THERE, netem), 0);
	setting_open(&setting, "listen.address=10.77.7.2", PATIENT);
	fill(setting.bytes, length, 0x31);
	outcome = side_run(&setting.side, OTTE_READ, 0, 0, length, 1);
	assert_int_equal(outcome.code | outcome.failure.code, 0);
	assert_true(filled(setting.side.bytes, length, 0x31));
	fill(setting.side.bytes, length, 0x32);
	outcome = side_run(&setting.side, OTTE_WRITE, 0, 0, length, 1);
	assert_int_equal(outcome.code | outcome.failure.code, 0);
	assert_true(filled(setting.bytes, length, 0x32));
	setting_close(&setting);
	assert_int_equal(host_runs(HERE, "tc qdisc del dev otte0 root") |
			 host_runs(THERE, "tc qdisc del dev otte0 root"), 0);
}

/* ---- A link that goes away ---- */

struct loss {
	void (*lose)(void);
	void (*mend)(void);
};

static const struct loss cut = { link_cut, link_join }, removal = { link_delete, link_make };

static bool all(const uint8_t *bytes, uint64_t size, uint8_t value)
{
	return bytes[0] == value && !memcmp(bytes, bytes + 1, size - 1);
}

/*
 * Each request's bytes against what was reported of it. A neighbour that no longer answers keeps packets for
 * some seconds, and their memory then is retained.
 */
static void check_reports(struct setting *setting, uint8_t op, bool without_copy)
{
	const uint8_t *to = op == OTTE_READ ? setting->side.bytes : setting->bytes;
	static uint8_t want[AREA_BYTES];
	struct otte_batch_status status;
	struct otte_task task;
	unsigned i, prefix = 0;
	uint64_t k;

	fill(want, AREA_BYTES, 0x44);
	OK(otte_batch_poll(setting->side.batch, &status));
	for (i = 0; i < COUNT; i++) {
		const uint8_t *at = to + i * LENGTH, *right = want + i * LENGTH;

		OK(otte_batch_task(setting->side.batch, i, &task));
		if (task.state == OTTE_TASK_COMPLETED) {
			assert_memory_equal(at, right, LENGTH);
			prefix += prefix == i;
			continue;
		}
		if (task.code != -ETIME && task.code != -ETIMEDOUT && task.code != -ECONNRESET)
			assert_int_equal(task.code, without_copy ? -EUCLEAN : 0);
		assert_int_equal(task.locally_drained, task.code != -EUCLEAN);
		if (op == OTTE_READ || task.code == -ETIME)
			assert_int_equal(task.remote_effect, OTTE_EFFECT_NONE);
		if (op == OTTE_WRITE && task.remote_effect == OTTE_EFFECT_NONE)
			assert_true(all(at, LENGTH, POISON));
		for (k = 0; k < LENGTH; k++)
			if (at[k] != POISON && at[k] != right[k])
				fail_msg("request %u: byte %llu is of nobody", i, (unsigned long long)k);
	}
	assert_int_equal(status.completed_prefix, prefix);
}

/* Both sides are as they were before the loss, and work. */
static void check_recovery(struct setting *setting, const struct loss *loss)
{
	const struct otte_stats stats = side_stats(&setting->side);

	assert_int_equal(stats.requests | stats.bytes, 0);
	loss->mend();
	side_disconnect(&setting->side);
	assert_true(EVENTUALLY(side_connect(&setting->side, setting->remote.address, OTTE_EPOCH_ANY,
					    setting->remote.region) == 0));
	assert_true(EVENTUALLY(side_probe(&setting->side)));
	assert_true(EVENTUALLY(remote_number(setting, "peers_in") == 1));
	assert_true(EVENTUALLY(remote_number(setting, "lanes") == 4));
	assert_int_equal(remote_number(setting, "requests"), 0);
	assert_true(EVENTUALLY(remote_number(setting, "retained") == 0));
	assert_true(EVENTUALLY(side_stats(&setting->side).retained == 0));
	assert_true(EVENTUALLY(remote_number(setting, "fds") == setting->remote_fds));
	assert_true(EVENTUALLY(side_stats(&setting->side).lanes == 4));
	assert_true(EVENTUALLY(count_fds() == setting->fds));
}

/* Lost while requests are under way: at least one is over, at least one is not. */
static void loses_the_link(const struct loss *loss, uint8_t op, const char *extra)
{
	struct otte_batch_status status;
	struct setting setting;
	struct outcome outcome;
	uint64_t lost_ns;
	unsigned tries;

	setting_open(&setting, "listen.address=10.77.7.2", extra);
	for (tries = 0; tries < 10; tries++) {
		fill(op == OTTE_READ ? setting.bytes : setting.side.bytes, AREA_BYTES, 0x44);
		memset(op == OTTE_READ ? setting.side.bytes : setting.bytes, POISON, AREA_BYTES);
		assert_int_equal(side_submit(&setting.side, op, 0, 0, LENGTH, COUNT), 0);
		do {
			otte_batch_wait(setting.side.batch, 0);
			OK(otte_batch_poll(setting.side.batch, &status));
		} while (!status.completed_prefix);
		loss->lose();
		lost_ns = now_ns();
		outcome = side_wait(&setting.side, 30 * SECOND);
		assert_int_equal(outcome.code, 0);
		if (outcome.status.failed)
			break;
		check_recovery(&setting, loss); /* all was over before the link was lost */
	}
	assert_true(tries < 10);
	assert_in_range(now_ns() - lost_ns, 0, (DEADLINE_MS + LATE_MS + (strstr(extra, "always") ? PROOF_MS : 0)) * MS);
	assert_in_range(outcome.status.completed_prefix, 1, COUNT - 1);
	check_reports(&setting, op, strstr(extra, "always"));
	check_recovery(&setting, loss);
	setting_close(&setting);
}

static void reads_over_a_link_that_is_cut_end_in_time_with_their_prefix(void **state)
{
	(void)state;
	NEEDS_HOSTS();
	loses_the_link(&cut, OTTE_READ, "tcp.zerocopy=off");
}

static void writes_over_a_link_that_is_cut_end_in_time_with_prefix_and_effect(void **state)
{
	(void)state;
	NEEDS_HOSTS();
	loses_the_link(&cut, OTTE_WRITE, "tcp.zerocopy=off");
}

static void reads_over_a_link_that_is_removed_end_in_time_with_their_prefix(void **state)
{
	(void)state;
	NEEDS_HOSTS();
	loses_the_link(&removal, OTTE_READ, "tcp.zerocopy=off");
}

static void writes_over_a_link_that_is_removed_end_in_time_with_prefix_and_effect(void **state)
{
	(void)state;
	NEEDS_HOSTS();
	loses_the_link(&removal, OTTE_WRITE, "tcp.zerocopy=off");
}

static void what_was_sent_without_a_copy_is_proven_when_the_link_is_cut(void **state)
{
	(void)state;
	NEEDS_HOSTS();
	loses_the_link(&cut, OTTE_READ, "tcp.zerocopy=always");
	loses_the_link(&cut, OTTE_WRITE, "tcp.zerocopy=always");
}

static void what_was_sent_without_a_copy_is_proven_when_the_link_is_removed(void **state)
{
	(void)state;
	NEEDS_HOSTS();
	loses_the_link(&removal, OTTE_READ, "tcp.zerocopy=always");
	loses_the_link(&removal, OTTE_WRITE, "tcp.zerocopy=always");
}

static void payload_without_a_copy_is_carried_by_every_lane(void **state)
{
	(void)state;
	NEEDS_HOSTS();
	moves_both_ways_on_all_lanes("listen.address=10.77.7.2", "tcp.zerocopy=always" PATIENT);
	moves_both_ways_on_all_lanes("listen.address=fd77:7::2", "tcp.zerocopy=always" PATIENT);
}

/* A veth pair copies, and the kernel says so; then there is no point in asking. */
static void a_lane_stops_asking_where_the_kernel_copies(void **state)
{
	struct otte_stats stats, later;
	struct setting setting;

	(void)state;
	NEEDS_HOSTS();
	setting_open(&setting, "listen.address=10.77.7.2", "tcp.zerocopy=auto tcp.lanes=1" PATIENT);
	assert_int_equal(side_run(&setting.side, OTTE_WRITE, 0, 0, LENGTH, COUNT)
			 .status.completed_prefix, COUNT);
	stats = side_stats(&setting.side);
	assert_true(stats.zerocopy_sends >= 16); /* how many more went out before the word came varies */
	assert_int_equal(stats.zerocopy_copied, stats.zerocopy_sends);
	assert_int_equal(stats.zerocopy_outstanding, 0);
	assert_int_equal(side_run(&setting.side, OTTE_WRITE, 0, 0, LENGTH, COUNT)
			 .status.completed_prefix, COUNT);
	later = side_stats(&setting.side);
	assert_int_equal(later.zerocopy_sends, stats.zerocopy_sends);
	setting_close(&setting);
}

/* The lost peer's session, its lanes and what they were sending do not keep the source from others. */
static void a_source_that_lost_a_peer_serves_the_next_one_at_once(void **state)
{
	struct setting setting;
	struct side next;

	(void)state;
	NEEDS_HOSTS();
	setting_open(&setting, "listen.address=0.0.0.0 listen.advertise=10.77.7.2", "");
	assert_int_equal(side_submit(&setting.side, OTTE_READ, 0, 0, LENGTH, COUNT), 0);
	otte_batch_wait(setting.side.batch, 1 * MS);
	link_cut();
	hosts_enter(THERE);
	OK(side_open(&next, "deaf", -1, AREA_BYTES));
	OK(side_connect(&next, strcat(strcpy((char[64]){ 0 }, "127.0.0.1"),
				      strrchr(setting.remote.address, ':')),
			OTTE_EPOCH_ANY, setting.remote.region));
	assert_int_equal(side_run(&next, OTTE_READ, 0, 0, AREA_BYTES / 4, 4).status.completed_prefix, 4);
	OK(side_close(&next));
	hosts_enter(HERE);
	assert_int_equal(side_wait(&setting.side, 30 * SECOND).code, 0);
	/* The rest of the lost peer goes when its lanes stand still. */
	assert_true(EVENTUALLY(remote_number(&setting, "lanes") == 0));
	link_join();
	setting_close(&setting);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_large_request_is_carried_by_every_lane_over_ipv4),
		cmocka_unit_test(a_large_request_is_carried_by_every_lane_over_ipv6),
		cmocka_unit_test(a_peer_is_reached_at_the_address_that_it_advertises),
		cmocka_unit_test(a_slow_link_that_loses_packets_delivers_every_byte),
		cmocka_unit_test(reads_over_a_link_that_is_cut_end_in_time_with_their_prefix),
		cmocka_unit_test(writes_over_a_link_that_is_cut_end_in_time_with_prefix_and_effect),
		cmocka_unit_test(reads_over_a_link_that_is_removed_end_in_time_with_their_prefix),
		cmocka_unit_test(writes_over_a_link_that_is_removed_end_in_time_with_prefix_and_effect),
		cmocka_unit_test(payload_without_a_copy_is_carried_by_every_lane),
		cmocka_unit_test(a_lane_stops_asking_where_the_kernel_copies),
		cmocka_unit_test(what_was_sent_without_a_copy_is_proven_when_the_link_is_cut),
		cmocka_unit_test(what_was_sent_without_a_copy_is_proven_when_the_link_is_removed),
		cmocka_unit_test(a_source_that_lost_a_peer_serves_the_next_one_at_once),
	};
	int status;

	if (side_role(argc, argv, &status))
		return status;
	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("link", tests, open_hosts, NULL);
}
