/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two containers of one kernel: pid, time, ipc, network and mount namespaces of their own, a root that has nothing but
 * the device node and /proc. They share the slots of a domain, and lend memory to each other.
 *
 * What they tell each other goes through the module. A socket joins each to this test alone, which passes on client ids
 * as an orchestrator would, and hears what came of it. Engines that lend to each other are joined by a pair of virtual
 * links besides, over which they say what they ask for, but for no byte of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "engine/engine.h"
#include "lend.h"
#include "slot_log.h"
#include "unit/engine/pair.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define DOMAIN "shared"
#define SLOT_NS (10 * NSEC_PER_MSEC)
#define SIZE (1u << 20)
#define PIECE (64u << 10)
#define HIGH OTTE_PRIORITY_HIGH
#define LOW OTTE_PRIORITY_LOW
#define PERIODS 60

/* ---- A container ---- */

struct container {
	pid_t pid;
	int sock;
};

static void must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "container: %s: %s; %s\n", what, strerror(errno), otte_error_text());
	_exit(99);
}

static void set_clock(int offset_s)
{
	char text[64];
	int fd = open("/proc/self/timens_offsets", O_WRONLY);
	int length = snprintf(text, sizeof(text), "monotonic %d 0\n", offset_s);

	must(fd >= 0 && write(fd, text, (size_t)length) == length, "timens_offsets");
	close(fd);
}

/* A root of its own, with the node in it. */
static void set_root(void)
{
	struct stat node;

	must(!stat("/dev/otte", &node), "/dev/otte");
	must(!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
	must(!mkdir("/container", 0755) || errno == EEXIST, "/container");
	must(!mount("none", "/container", "tmpfs", 0, NULL), "tmpfs");
	must(!chroot("/container") && !chdir("/"), "chroot");
	must(!mkdir("/dev", 0755) && !mkdir("/proc", 0755), "folders");
	must(!mknod("/dev/otte", S_IFCHR | 0666, node.st_rdev), "mknod");
	must(!chmod("/dev/otte", 0666) && !chmod("/dev", 0755) && !chmod("/", 0755), "modes");
}

static void set_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	must(fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &request), "lo");
	close(fd);
}

/* Pid and time namespaces are those of children. */
static void enter(int offset_s, void (*body)(int sock), int sock)
{
	int status;
	pid_t pid;

	must(!unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWTIME),
	     "unshare");
	set_clock(offset_s);
	set_root();
	pid = fork();
	if (!pid) {
		must(getpid() == 1, "first process of its namespace");
		must(!mount("none", "/proc", "proc", 0, NULL), "/proc");
		set_loopback();
		body(sock);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid, "wait");
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}

static struct container start(int offset_s, void (*body)(int sock))
{
	struct container container;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fflush(NULL);
	container.pid = fork();
	if (!container.pid) {
		close(pair[0]);
		enter(offset_s, body, pair[1]);
	}
	close(pair[1]);
	container.sock = pair[0];
	return container;
}

static void finish(struct container *container)
{
	int status;

	assert_int_equal(waitpid(container->pid, &status, 0), container->pid);
	close(container->sock);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static uint64_t hear(int sock)
{
	uint64_t value;

	assert_int_equal(read(sock, &value, sizeof(value)), sizeof(value));
	return value;
}

static void say(int sock, uint64_t value)
{
	assert_int_equal(write(sock, &value, sizeof(value)), sizeof(value));
}

/* ---- Slots ---- */

static void configure(struct otte_config *config)
{
	config->ledger = OTTE_LEDGER_KERNEL;
	config->stats_socket = 0;
	strcpy(config->slots_domain, DOMAIN);
}

static struct otte_engine *member(void)
{
	struct otte_engine *engine;
	struct otte_config config;

	must(!otte_config_init(&config, sizeof(config)), "config");
	configure(&config);
	config.listen_address[0] = 0;
	must(!otte_engine_create(&config, &engine), "engine");
	return engine;
}

static void wait_until(const struct otte_slots *slots, unsigned priority, bool waits)
{
	const struct timespec step = { .tv_nsec = NSEC_PER_MSEC };
	int tries;

	for (tries = 0; (slot_others_wait(slots, priority) != 0) != waits; tries++) {
		must(tries < 20000, "others do not");
		nanosleep(&step, NULL);
	}
}

/* Reads until told to stop, and says each post. */
static void flood(int sock)
{
	struct otte_request request;
	unsigned i, n;
	uint64_t word;
	struct pair pair;

	pair_open(&pair, SIZE, configure);
	slot_log_start();
	request = pair_request(&pair, OTTE_READ, 0, 0, PIECE);
	request.priority = LOW;
	while (recv(sock, &word, sizeof(word), MSG_DONTWAIT) < 0)
		must(!otte_batch_run(pair.batch, &request, 1, 10 * SECOND), "run");
	n = slot_log_count();
	must(write(sock, &(uint64_t){ n }, sizeof(word)) == sizeof(word), "say");
	for (i = 0; i < n; i++)
		must(write(sock, slot_log_post(i), sizeof(struct slot_post)) > 0, "say");
	pair_close(&pair);
}

static uint64_t host_now(const struct otte_slots *slots)
{
	return otte_now_ns() - (uint64_t)slots->offset_ns;
}

/* Once others wait below, waits above them for some periods of the pattern, and says from when to when. */
static void want(int sock)
{
	struct otte_engine *engine = member();
	struct otte_slots *slots = &engine->gate.slots;
	const struct timespec rest = { .tv_nsec = PERIODS * SLOT_NS };
	uint64_t when[2];

	wait_until(slots, LOW, true);
	nanosleep(&rest, NULL);
	otte_slots_ask(slots, HIGH, 12345);
	when[0] = host_now(slots);
	nanosleep(&rest, NULL);
	when[1] = host_now(slots);
	otte_slots_answered(slots, HIGH, 12345);
	must(write(sock, &when[0], sizeof(when[0])) > 0 &&
		     write(sock, &when[1], sizeof(when[1])) > 0,
	     "say");
	must(!otte_engine_destroy(engine), "destroy");
}

static void containers_keep_the_slots_of_one_domain(void **state)
{
	unsigned early_before = 0, early_between = 0, in_slot_between = 0, n, i;
	struct container low, high;
	struct slot_post post;
	uint64_t from_ns, to_ns;

	(void)state;
	low = start(100000, flood);
	high = start(7, want);
	from_ns = hear(high.sock);
	to_ns = hear(high.sock);
	say(low.sock, 0);
	n = (unsigned)hear(low.sock);
	assert_true(n > 0);
	for (i = 0; i < n; i++) {
		assert_int_equal(read(low.sock, &post, sizeof(post)), sizeof(post));
		assert_true(slot_post_obeys(&post));
		/* What it took for the slot is so on this clock, too: slot 0 is at the domain's base. */
		if (post.now_ns >= from_ns && post.now_ns < to_ns) {
			early_between += slot_post_is_early(&post);
			in_slot_between += !slot_post_is_early(&post);
		} else if (post.now_ns < from_ns) {
			early_before += slot_post_is_early(&post);
		}
	}
	print_message(
		"%u posts: %u early before the other waited; while it did, %u in their slots, "
		"%u early\n",
		n, early_before, in_slot_between, early_between);
	assert_true(early_before > 0);
	assert_true(in_slot_between > 0);
	assert_int_equal(early_between, 0);
	finish(&high);
	finish(&low);
}

/* ---- Loans ---- */

static void lend_as_first(int sock)
{
	lend_to_each_other(sock, 1, 2);
}

static void lend_as_second(int sock)
{
	lend_to_each_other(sock, 2, 1);
}

static void containers_lend_memory_to_each_other(void **state)
{
	struct container first, second;
	int step;

	(void)state;
	first = start(5000, lend_as_first);
	second = start(0, lend_as_second);
	/* Their ids, then twice that both have come so far. */
	for (step = 0; step < 3; step++) {
		uint64_t of_first = hear(first.sock), of_second = hear(second.sock);

		say(first.sock, of_second);
		say(second.sock, of_first);
	}
	finish(&first);
	finish(&second);
}

/* ---- Engines that borrow from each other ---- */

#define ROUNDS 6
#define LAPS_NS (200 * NSEC_PER_MSEC)

struct where {
	char address[OTTE_ADDRESS_MAX];
	uint64_t epoch, region;
};

struct party {
	struct otte_engine *engine;
	struct otte_mem *lent_mem, *mem;
	struct otte_region *lent, *local;
	struct otte_segment *segment;
	struct otte_batch *batch;
	uint8_t *lent_bytes, *bytes;
	uint64_t remote;
};

/* Who each is, set before it starts. */
static struct {
	unsigned number;
	uid_t user;
	bool same_user;
} self;

/* The address is on the loopback device, too, where it outlives the links, which go with either namespace. */
static void set_address(const struct container *container, unsigned number, const char *link)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "nsenter -t %d -n sh -c 'ip addr add 10.9.0.%u/24 dev %s && ip link set %s up && "
		 "ip addr add 10.9.0.%u/32 dev lo'",
		 container->pid, number, link, link, number);
	assert_int_equal(system(command), 0);
}

static void join_links(const struct container *first, const struct container *second)
{
	char command[128];

	snprintf(command, sizeof(command), "ip link add va netns %d type veth peer name vb netns %d", first->pid,
		 second->pid);
	assert_int_equal(system(command), 0);
	set_address(first, 1, "va");
	set_address(second, 2, "vb");
}

static uint64_t must_hear(int sock)
{
	uint64_t word;

	must(read(sock, &word, sizeof(word)) == sizeof(word), "hear");
	return word;
}

static void must_say(int sock, uint64_t word)
{
	must(write(sock, &word, sizeof(word)) == sizeof(word), "say");
}

static uint8_t *take_memory(struct party *party, unsigned access, struct otte_mem **mem, struct otte_region **region)
{
	struct otte_region_desc desc = { .length = SIZE, .access = access };

	must(!otte_mem_alloc(party->engine, SIZE, 0, mem), "memory");
	desc.mem = *mem;
	must(!otte_region_register(party->engine, &desc, 1, region), "region");
	return otte_mem_address(*mem);
}

static void open_party(struct party *party)
{
	struct otte_config config;

	must(!setresgid(self.user, self.user, self.user) && !setresuid(self.user, self.user, self.user), "user");
	must(!prctl(PR_SET_PDEATHSIG, SIGKILL), "death signal");
	must(!otte_config_init(&config, sizeof(config)), "config");
	configure(&config);
	snprintf(config.listen_address, sizeof(config.listen_address), "10.9.0.%u", self.number);
	config.local_pinned = 1;
	config.local_map_repeats = 1;
	config.control_timeout_ns = 2 * NSEC_PER_SEC;
	must(!otte_engine_create(&config, &party->engine), "engine");
	party->lent_bytes = take_memory(party, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE, &party->lent_mem, &party->lent);
	party->bytes = take_memory(party, OTTE_LOCAL_ONLY, &party->mem, &party->local);
	must(!otte_batch_create(party->engine, 16, &party->batch), "batch");
}

static void tell_where(const struct party *party, int sock)
{
	struct where where = { .region = otte_region_id(party->lent) };

	must(!otte_engine_address(party->engine, where.address, sizeof(where.address)), "address");
	must(write(sock, &where, sizeof(where)) == sizeof(where), "say where");
}

static void connect_party(struct party *party, int sock)
{
	struct where where;

	must(read(sock, &where, sizeof(where)) == sizeof(where), "hear where");
	must(!otte_segment_open(party->engine, where.address, OTTE_EPOCH_ANY, 20 * SECOND, &party->segment),
	     "segment");
	party->remote = where.region;
}

/* Its code; *route is what moved it. */
static int move(struct party *party, uint8_t op, uint64_t at, uint64_t length, uint32_t *route)
{
	const struct otte_request request = {
		.segment = party->segment, .local = party->local, .local_offset = at,
		.remote_region = party->remote, .remote_offset = at, .length = length, .op = op,
	};
	struct otte_task task;
	int ret;

	must(!otte_batch_reset(party->batch), "reset");
	ret = otte_batch_run(party->batch, &request, 1, 10 * SECOND);
	if (ret < 0)
		return ret;
	must(!otte_batch_task(party->batch, 0, &task), "task");
	*route = task.transport;
	return task.code;
}

static void moves_locally(struct party *party, uint8_t op, uint64_t at, uint64_t length)
{
	uint32_t route;
	int code = move(party, op, at, length, &route);

	errno = -code;
	must(!code, op == OTTE_READ ? "read" : "write");
	must(route == OTTE_TRANSPORT_LOCAL, "route");
}

static bool all(const uint8_t *bytes, uint64_t length, uint8_t value)
{
	return bytes[0] == value && !memcmp(bytes, bytes + 1, length - 1);
}

/* Whether a loan of a region is mapped here: the table of its uses is shorter. */
static bool has_mapped_loan(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512];
	bool found = false;

	must(maps != NULL, "/proc/self/maps");
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, "/otte") && !strstr(line, "memfd") &&
			 sscanf(line, "%lx-%lx", &start, &end) == 2 && end - start == SIZE;
	fclose(maps);
	return found;
}

static void close_source(struct party *party)
{
	must(!otte_region_unregister(&party->lent, 1, 10 * SECOND, NULL), "unregister");
	must(!otte_mem_release(party->lent_mem), "release");
}

static void close_rest(struct party *party)
{
	must(!otte_batch_destroy(party->batch), "batch");
	if (party->segment)
		must(!otte_segment_close(party->segment), "segment");
	must(!otte_region_unregister(&party->local, 1, 10 * SECOND, NULL), "unregister");
	must(!otte_mem_release(party->mem), "release");
	must(!otte_engine_destroy(party->engine), "destroy");
}

/* Each reads the lower half of what the other lends, and writes the upper one. */
static void lend_and_borrow(int sock)
{
	uint8_t mine = (uint8_t)(16 * self.number), others = (uint8_t)(16 * (3 - self.number));
	struct party party = { 0 };
	unsigned i;

	must_say(sock, 0);
	must_hear(sock);
	open_party(&party);
	tell_where(&party, sock);
	connect_party(&party, sock);
	for (i = 0; i < ROUNDS; i++) {
		memset(party.lent_bytes, mine + (int)i, SIZE / 2);
		must_say(sock, i);
		must_hear(sock);
		memset(party.bytes, 0xee, SIZE / 2);
		moves_locally(&party, OTTE_READ, 0, SIZE / 2);
		must(all(party.bytes, SIZE / 2, (uint8_t)(others + i)), "bytes that were read");
		memset(party.bytes + SIZE / 2, mine + (int)i + 8, SIZE / 2);
		moves_locally(&party, OTTE_WRITE, SIZE / 2, 1);
		moves_locally(&party, OTTE_WRITE, SIZE / 2, SIZE / 2);
		must_say(sock, i);
		must_hear(sock);
		must(all(party.lent_bytes + SIZE / 2, SIZE / 2, (uint8_t)(others + i + 8)), "bytes that were written");
	}
	must(has_mapped_loan() == self.same_user, "mapped, or not");
	must_say(sock, 0);
	must_hear(sock);
	/* One after the other: what is lent is asked back. */
	if (self.number == 1)
		close_source(&party);
	must_say(sock, 0);
	must_hear(sock);
	if (self.number == 2)
		close_source(&party);
	must_say(sock, 0);
	must_hear(sock);
	close_rest(&party);
}

/* Reads and writes until it is killed, or cannot any more. */
static void borrow_only(int sock)
{
	struct party party = { 0 };
	uint32_t route;
	unsigned i;
	int code = 0;

	must_say(sock, 0);
	must_hear(sock);
	open_party(&party);
	connect_party(&party, sock);
	moves_locally(&party, OTTE_READ, 0, SIZE);
	moves_locally(&party, OTTE_WRITE, 0, SIZE);
	must_say(sock, 0);
	for (i = 0; !code; i++)
		code = move(&party, i % 2, 0, SIZE, &route);
	errno = -code;
	must(code == -ECONNRESET || code == -ENOTCONN || code == -ESTALE, "the end of its peer");
	close_source(&party);
	close_rest(&party);
}

/* Once its borrower is gone it can use all of its memory itself, as a borrower of its own. */
static void lend_only(int sock)
{
	char address[OTTE_ADDRESS_MAX];
	struct party party = { 0 };
	uint32_t route;
	unsigned i;
	int code = -EBUSY;

	must_say(sock, 0);
	must_hear(sock);
	open_party(&party);
	tell_where(&party, sock);
	must_hear(sock); /* that the other is killed */
	party.remote = otte_region_id(party.lent);
	must(!otte_engine_address(party.engine, address, sizeof(address)), "address");
	must(!otte_segment_open(party.engine, address, OTTE_EPOCH_ANY, 20 * SECOND, &party.segment), "own");
	for (i = 0; i < 80 && code == -EBUSY; i++) {
		usleep(50000);
		code = move(&party, OTTE_WRITE, 0, SIZE, &route);
	}
	errno = -code;
	must(!code, "its own use");
	close_source(&party);
	close_rest(&party);
}

static uint64_t usage(const char *resource)
{
	char path[96];
	unsigned long long value = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/misc/otte/usage/%s", resource);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%llu", &value), 1);
	fclose(file);
	return value;
}

static void nothing_is_left(void)
{
	static const char *const resources[] = {
		"clients", "regions", "pinned_bytes", "loans", "lent_bytes", "retained_bytes",
	};
	unsigned i, tries;

	for (i = 0; i < ARRAY_SIZE(resources); i++) {
		for (tries = 0; tries < 500 && usage(resources[i]); tries++)
			usleep(20000);
		if (usage(resources[i]))
			fail_msg("%s: %lu left", resources[i], (unsigned long)usage(resources[i]));
	}
}

static struct container start_as(unsigned number, uid_t user, bool same_user, void (*body)(int sock))
{
	self.number = number;
	self.user = user;
	self.same_user = same_user;
	return start(number == 1 ? 5000 : 0, body);
}

/* What each says the other hears. */
static void exchange(struct container *first, struct container *second, size_t bytes)
{
	struct where from_first, from_second;

	assert_int_equal(read(first->sock, &from_first, bytes), bytes);
	assert_int_equal(read(second->sock, &from_second, bytes), bytes);
	assert_int_equal(write(first->sock, &from_second, bytes), bytes);
	assert_int_equal(write(second->sock, &from_first, bytes), bytes);
}

static void start_both(struct container *first, struct container *second)
{
	hear(first->sock);
	hear(second->sock);
	join_links(first, second);
	say(first->sock, 0);
	say(second->sock, 0);
}

static void engines_lend_to_each_other(uid_t one, uid_t other)
{
	struct container first, second;
	unsigned i;

	first = start_as(1, one, one == other, lend_and_borrow);
	second = start_as(2, other, one == other, lend_and_borrow);
	start_both(&first, &second);
	exchange(&first, &second, sizeof(struct where));
	for (i = 0; i < 2 * ROUNDS + 3; i++)
		exchange(&first, &second, sizeof(uint64_t));
	finish(&first);
	finish(&second);
	nothing_is_left();
}

static void engines_in_containers_borrow_from_each_other(void **state)
{
	(void)state;
	engines_lend_to_each_other(1000, 1000);
}

static void engines_of_two_users_are_lent_copies_alone(void **state)
{
	(void)state;
	engines_lend_to_each_other(1000, 1001);
}

static void kill_it(struct container *container)
{
	int status;

	assert_int_equal(kill(container->pid, SIGKILL), 0);
	assert_int_equal(waitpid(container->pid, &status, 0), container->pid);
	close(container->sock);
}

/* In the midst of its copies. */
static void whoever_is_killed_leaves_nothing(void **state)
{
	const struct timespec laps = { .tv_nsec = LAPS_NS };
	unsigned i;

	(void)state;
	for (i = 0; i < 4; i++) {
		struct container lender, borrower;
		struct where where;

		lender = start_as(1, 1000, true, lend_only);
		borrower = start_as(2, i % 2 ? 1001 : 1000, true, borrow_only);
		start_both(&lender, &borrower);
		assert_int_equal(read(lender.sock, &where, sizeof(where)), sizeof(where));
		assert_int_equal(write(borrower.sock, &where, sizeof(where)), sizeof(where));
		hear(borrower.sock);
		nanosleep(&laps, NULL);
		if (i < 2) {
			kill_it(&borrower);
			say(lender.sock, 0);
			finish(&lender);
		} else {
			kill_it(&lender);
			finish(&borrower);
		}
		nothing_is_left();
	}
}

static int make_domain(void **state)
{
	(void)state;
	return slot_domain_create(DOMAIN, SLOT_NS, 0111);
}

static int remove_domain(void **state)
{
	(void)state;
	return slot_domain_delete(DOMAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(containers_keep_the_slots_of_one_domain),
		cmocka_unit_test(containers_lend_memory_to_each_other),
		cmocka_unit_test(engines_in_containers_borrow_from_each_other),
		cmocka_unit_test(engines_of_two_users_are_lent_copies_alone),
		cmocka_unit_test(whoever_is_killed_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, make_domain, remove_domain);
}
