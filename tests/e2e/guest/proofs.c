/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What lenders and administrators can do to a borrower, and what is left of it. In a guest with the module loaded. */
#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <pthread.h>
#include <sys/socket.h>

#include "engine/engine.h"
#include "engine/segment.h"
#include "ledger/kernel.h"
#include "../side.h"

#define BYTES (4u << 20)
#define LONG (64u << 20)
#define LENDS "ledger=kernel local.pinned=true control.timeout_ms=2000"
#define COPIES "deaf ledger=kernel local.map_entries=0"
#define MAPS "deaf ledger=kernel local.map_repeats=1"

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

/* How the child ended, or 0: it lives. */
static int ended_by(struct child *child)
{
	int status, i;

	for (i = 0; i < 50; i++) {
		if (waitpid(child->pid, &status, WNOHANG) == child->pid)
			return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		usleep(100000);
	}
	return 0;
}

/* ---- A borrower that takes what is on offer before it is told ---- */

#define TABLES 264

static int forge_lane(struct side *side)
{
	struct otte_control_client *control = &side->segment->peer->control;
	const struct otte_frame frame = { .type = OTTE_FRAME_LANE_LEND, .length = OTTE_LANE_HELLO_BYTES };
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_LANE_HELLO_BYTES];
	struct otte_client_address to;
	struct otte_lane_hello hello;
	int fd;

	assert_int_equal(otte_control_client_lane(control, true, &hello, &to), 0);
	otte_frame_encode(&frame, bytes);
	otte_lane_hello_encode(&hello, bytes + OTTE_FRAME_HEADER, OTTE_LANE_HELLO_BYTES);
	fd = socket(to.address.ss_family, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to.address, to.length), 0);
	assert_int_equal(send(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(recv(fd, bytes, OTTE_FRAME_HEADER, MSG_WAITALL), OTTE_FRAME_HEADER);
	return fd;
}

static void say(int fd, const struct otte_lend *lend)
{
	const struct otte_frame header = { .type = OTTE_FRAME_LEND, .length = OTTE_LEND_BYTES };
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_LEND_BYTES];

	otte_frame_encode(&header, bytes);
	otte_lend_encode(lend, bytes + OTTE_FRAME_HEADER, OTTE_LEND_BYTES);
	assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
}

static struct otte_lend ask_op(int fd, uint64_t region, uint16_t op)
{
	const struct otte_lend lend = { .type = OTTE_LEND_ASK, .op = op, .region = region };
	uint8_t bytes[OTTE_FRAME_HEADER + OTTE_LEND_BYTES];
	struct otte_lend answer;

	say(fd, &lend);
	assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_WAITALL), sizeof(bytes));
	assert_int_equal(otte_lend_decode(bytes + OTTE_FRAME_HEADER, OTTE_LEND_BYTES, &answer), 0);
	return answer;
}

static struct otte_lend ask(int fd, uint64_t region)
{
	return ask_op(fd, region, OTTE_WRITE);
}

/* It says that it gave a mapping back, and keeps it; the lender dies; then it is gone after all, as the module saw. */
static void what_the_module_has_settled_is_retained_no_longer(void **state)
{
	struct otte_module_accepted accepted, table_accepted;
	struct otte_ledger_client *client;
	struct remote source;
	struct otte_lend lend;
	struct side side;
	void *map, *map_table;
	int fd, module;

	(void)state;
	remote_start(&source, LENDS, -1, BYTES);
	OK(side_open(&side, COPIES, -1, BYTES));
	OK(side_connect(&side, source.address, OTTE_EPOCH_ANY, source.region));
	client = side.engine->client;
	module = ((struct kernel_client *)client)->fd;
	assert_int_equal(client->ledger->ops->welcome(client, side.segment->peer->control.attested, true), 0);
	fd = forge_lane(&side);
	lend = ask_op(fd, source.region, OTTE_READ | OTTE_LEND_MAPPED);
	assert_int_equal(lend.status, 0);
	assert_int_equal(otte_module_loan_accept(module, lend.uses, &table_accepted), 0);
	assert_int_equal(otte_module_loan_map(module, &table_accepted, &map_table), 0);
	assert_int_equal(otte_module_loan_accept(module, lend.loan, &accepted), 0);
	assert_int_equal(otte_module_loan_map(module, &accepted, &map), 0);
	say(fd, &(struct otte_lend){ .type = OTTE_LEND_RETURN, .id = lend.id });
	assert_true(EVENTUALLY(usage("holds") == 1));
	print_message("kept: holds %lu, retained %lu\n", usage("holds"), usage("retained_bytes"));
	child_kill(&source.child);
	usleep(500000);
	print_message("lender killed: holds %lu, retained %lu\n", usage("holds"), usage("retained_bytes"));
	munmap(map, BYTES);
	munmap(map_table, table_accepted.length);
	assert_int_equal(otte_module_loan_settle(module, lend.loan, 0), 0);
	assert_int_equal(otte_module_loan_settle(module, lend.uses, 0), 0);
	close(fd);
	OK(side_close(&side));
	assert_true(EVENTUALLY(!usage("loans") && !usage("regions") && !usage("pinned_bytes")));
	usleep(500000);
	print_message("nobody left: clients %lu, holds %lu, retained %lu\n", usage("clients"), usage("holds"), usage("retained_bytes"));
	assert_int_equal(usage("retained_bytes"), 0);
}

static _Atomic uint64_t next_loan, taken;
static _Atomic bool enough;
static int thief_fd;

/* Ids are given one after the other. */
static void *take(void *arg)
{
	struct otte_module_accepted accepted;
	uint64_t id;

	(void)arg;
	while (!enough) {
		id = next_loan;
		if (id && !otte_module_loan_accept(thief_fd, id, &accepted)) {
			taken = id;
			next_loan = 0;
		}
	}
	return NULL;
}

static void what_is_unregistered_is_reached_by_nobody(void **state)
{
	struct otte_ledger_client *client;
	struct otte_module_accepted accepted;
	uint64_t id, done = 0, last = 0;
	struct side source, side;
	uint8_t byte = 0x66;
	struct otte_lend lend;
	pthread_t thread;
	void *map;
	int fd, i;

	(void)state;
	OK(side_open(&source, LENDS, -1, BYTES));
	OK(side_open(&side, COPIES, -1, BYTES));
	OK(side_connect(&side, source.address, OTTE_EPOCH_ANY, otte_region_id(source.region)));
	client = side.engine->client;
	id = otte_region_id(source.region);
	thief_fd = ((struct kernel_client *)client)->fd;
	assert_int_equal(client->ledger->ops->welcome(client, side.segment->peer->control.attested, true), 0);
	fd = forge_lane(&side);
	for (i = 0; i < TABLES; i++) {
		lend = ask(fd, id);
		if (lend.status)
			break;
		assert_int_equal(otte_module_loan_accept(thief_fd, lend.uses, &accepted), 0);
		assert_int_equal(otte_module_loan_map(thief_fd, &accepted, &map), 0);
		last = lend.uses;
		say(fd, &(struct otte_lend){ .type = OTTE_LEND_RETURN, .id = lend.id });
	}
	print_message("%d tables kept, then %d; %lu bytes pinned\n", i, lend.status, usage("pinned_bytes"));
	assert_int_equal(pthread_create(&thread, NULL, take, NULL), 0);
	for (i = 0; i < 2000 && !taken; i++) {
		/* The one that has just been withdrawn was `last` + 1 or so. */
		next_loan = last + 1 + (uint64_t)i + 1;
		lend = ask(fd, id);
	}
	enough = true;
	pthread_join(thread, NULL);
	print_message("taken after %d: loan %lu\n", i, (unsigned long)taken);
	assert_int_not_equal(taken, 0);
	assert_int_equal(otte_region_unregister(&source.region, 1, 10 * SECOND, NULL), 0);
	source.bytes[0] = 0;
	print_message("copy: %d\n", otte_module_loan_copy(thief_fd, taken, 0, &byte, 1, &done));
	assert_int_equal(source.bytes[0], 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	};
	const struct CMUnitTest thief[] = {
		cmocka_unit_test(what_the_module_has_settled_is_retained_no_longer),
		cmocka_unit_test(what_is_unregistered_is_reached_by_nobody),
	};
	int status;

	if (side_role(argc, argv, &status))
		return status;
	if (getenv("OTTE_THIEF"))
		return cmocka_run_group_tests_name("thief", thief, NULL, NULL);
	return cmocka_run_group_tests_name("proofs", tests, NULL, NULL);
}
