/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two containers of one kernel: pid, time, ipc, network and mount namespaces of their own, a root that has nothing but
 * the device node and /proc. They share the slots of a domain, and lend memory to each other.
 *
 * What they tell each other goes through the module. A socket joins each to this test alone, which passes on client ids
 * as an orchestrator would, and hears what came of it.
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
	};

	return cmocka_run_group_tests(tests, make_domain, remove_domain);
}
