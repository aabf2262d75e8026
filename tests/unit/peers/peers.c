/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How engines find, know and refuse each other, and what kinds of memory they show. */
#include <errno.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/log_limit.h"
#include "engine/engine.h"
#include "unit/engine/pair.h"
#include "seen.h"

#define SIZE (256u << 10)
#define OLD_KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define NEW_KEY "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"

static struct otte_config standard(void)
{
	struct otte_config config;

	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	config.stats_socket = 0;
	return config;
}

static struct otte_engine *make(const struct otte_config *config)
{
	struct otte_engine *engine = NULL;

	if (otte_engine_create(config, &engine))
		fail_msg("%s", otte_error_text());
	return engine;
}

static int open_and_close(struct otte_engine *engine, const char *where)
{
	struct otte_segment *segment;
	int ret = otte_segment_open(engine, where, OTTE_EPOCH_ANY, 5 * SECOND, &segment);

	if (!ret)
		assert_int_equal(otte_segment_close(segment), 0);
	return ret;
}

/* ---- Counters ---- */

static _Atomic unsigned counted;
static const struct otte_ledger_ops *counters_ops;

static void count_counting(struct otte_ledger *ledger, struct otte_ledger_counters *counters)
{
	counted++;
	counters_ops->counters(ledger, counters);
}

static uint64_t regions_of_peer(const struct pair *pair)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	assert_int_equal(otte_segment_stats(pair->segment, 30 * SECOND, &stats), 0);
	return stats.regions;
}

/* With the kernel's ledger that is three dumps of the node. */
static void a_peer_that_asks_a_thousand_times_has_the_ledger_counted_ten_times_a_second(void **state)
{
	struct otte_ledger_ops counting;
	struct otte_region_desc desc;
	struct otte_region *region;
	uint64_t began_ns, took_ns;
	struct pair pair;
	int i;

	(void)state;
	pair_open(&pair, SIZE, NULL);
	counters_ops = pair.source->ledger->ops;
	counting = *counters_ops;
	counting.counters = count_counting;
	pair.source->ledger->ops = &counting;
	began_ns = otte_now_ns();
	for (i = 0; i < 1000; i++)
		assert_int_equal(regions_of_peer(&pair), 1);
	took_ns = otte_now_ns() - began_ns;
	assert_in_range(counted, 1, 1 + took_ns / (100 * NSEC_PER_MSEC));
	/* But it is counted: who asks later hears of what is new. */
	desc = (struct otte_region_desc){ .mem = pair.remote_mem, .length = 1 };
	assert_int_equal(otte_region_register(pair.source, &desc, 1, &region), 0);
	usleep(110000);
	assert_int_equal(regions_of_peer(&pair), 2);
	assert_int_equal(otte_region_unregister(&region, 1, SECOND, NULL), 0);
	pair.source->ledger->ops = counters_ops;
	pair_close(&pair);
}

/* ---- Addresses ---- */

static void on_ipv6(struct otte_config *config)
{
	strcpy(config->listen_address, "::1");
}

static void ipv6_has_brackets_and_carries_bytes(void **state)
{
	struct otte_config config = standard();
	char address[OTTE_ADDRESS_MAX];
	struct otte_engine *probe;
	struct pair pair;

	(void)state;
	on_ipv6(&config);
	if (otte_engine_create(&config, &probe)) {
		printf("no IPv6 here: %s\n", otte_error_text());
		skip();
	}
	assert_int_equal(otte_engine_destroy(probe), 0);
	pair_open(&pair, SIZE, on_ipv6);
	assert_int_equal(otte_engine_address(pair.source, address, sizeof(address)), 0);
	assert_int_equal(strncmp(address, "[::1]:", 6), 0);
	pair_fill(pair.remote_bytes, SIZE, 1);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, SIZE), 0);
	assert_memory_equal(pair.local_bytes, pair.remote_bytes, SIZE);
	pair_close(&pair);
}

static void what_is_advertised_is_what_peers_are_told(void **state)
{
	struct otte_config config = standard();
	char address[OTTE_ADDRESS_MAX], descriptor[OTTE_DESCRIPTOR_MAX];
	struct otte_engine *engine, *user;

	(void)state;
	user = make(&config);
	strcpy(config.advertise, "kv-7.example:7777");
	engine = make(&config);
	assert_int_equal(otte_engine_address(engine, address, sizeof(address)), 0);
	assert_string_equal(address, "kv-7.example:7777");
	assert_int_equal(otte_engine_destroy(engine), 0);
	/* Without a port: the bound one. */
	strcpy(config.advertise, "localhost");
	engine = make(&config);
	assert_int_equal(otte_engine_address(engine, address, sizeof(address)), 0);
	assert_int_equal(strncmp(address, "localhost:", 10), 0);
	assert_int_equal(open_and_close(user, address), 0);
	assert_int_equal(otte_engine_descriptor(engine, descriptor, sizeof(descriptor)), 0);
	assert_int_equal(open_and_close(user, descriptor), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
	assert_int_equal(otte_engine_destroy(user), 0);
}

static void a_descriptor_names_one_engine_and_no_other_on_its_address(void **state)
{
	struct otte_config config = standard();
	char descriptor[OTTE_DESCRIPTOR_MAX], address[OTTE_ADDRESS_MAX];
	struct otte_engine *engine, *user;
	struct otte_segment *segment;
	uint64_t epoch;
	int i;

	(void)state;
	user = make(&config);
	engine = make(&config);
	epoch = otte_engine_epoch(engine);
	assert_int_equal(otte_engine_descriptor(engine, descriptor, sizeof(descriptor)), 0);
	assert_int_equal(otte_engine_address(engine, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(user, descriptor, epoch, 30 * SECOND, &segment), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	assert_int_equal(otte_segment_open(user, descriptor, epoch + 1, 5 * SECOND, &segment),
			 -ESTALE);
	/* The right epoch alone is not the same process, nor the same boot. */
	for (i = 0; i < 2; i++) {
		char *digit = strchr(strstr(descriptor, i ? "boot=" : "incarnation="), '=') + 1;
		const char right = *digit;

		*digit = right == '0' ? '1' : '0';
		assert_int_equal(open_and_close(user, descriptor), -ESTALE);
		assert_non_null(strstr(otte_error_text(), "another process"));
		*digit = right;
	}
	assert_int_equal(open_and_close(user, descriptor), 0);
	assert_int_equal(otte_segment_open(user, address, epoch, 30 * SECOND, &segment), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);

	config.listen_port = (uint32_t)atoi(strrchr(address, ':') + 1);
	engine = make(&config);
	assert_int_not_equal(otte_engine_epoch(engine), epoch);
	assert_int_equal(open_and_close(user, descriptor), -ESTALE);
	assert_int_equal(open_and_close(user, address), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
	assert_int_equal(otte_engine_destroy(user), 0);
}

static void what_a_config_gets_wrong_is_named_by_its_key(void **state)
{
	struct otte_config config = standard();
	struct otte_engine *engine;

	(void)state;
	strcpy(config.tcp_congestion, "nonesuch");
	assert_true(otte_engine_create(&config, &engine) < 0);
	assert_non_null(strstr(otte_error_text(), "tcp.congestion"));
	config = standard();
	strcpy(config.listen_address, "nowhere.invalid");
	assert_true(otte_engine_create(&config, &engine) < 0);
	assert_non_null(strstr(otte_error_text(), "listen.address"));
	config = standard();
	strcpy(config.advertise, "host:notaport");
	assert_int_equal(otte_engine_create(&config, &engine), -EINVAL);
	assert_non_null(strstr(otte_error_text(), "listen.advertise"));
	config = standard();
	config.tcp_workers = 17;
	assert_int_equal(otte_engine_create(&config, &engine), -EINVAL);
	assert_non_null(strstr(otte_error_text(), "tcp.workers"));
	config = standard();
	strcpy(config.key_file, "/nonexistent/key");
	assert_int_equal(otte_engine_create(&config, &engine), -ENOENT);
	assert_non_null(strstr(otte_error_text(), "auth.key_file"));
}

/* ---- One too many ---- */

static void one_peer_at_a_time(struct otte_config *config)
{
	config->control_connections = 1;
	config->reconnect_min_ns = SECOND / 100;
}

static void a_peer_too_many_is_told_so_and_lanes_are_not_counted(void **state)
{
	struct otte_config config = standard();
	char address[OTTE_ADDRESS_MAX];
	struct otte_engine *late;
	struct pair pair;

	(void)state;
	/* The one that is let in has its lanes too. */
	pair_open(&pair, SIZE, one_peer_at_a_time);
	assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, SIZE), 0);
	assert_int_equal(otte_engine_address(pair.source, address, sizeof(address)), 0);
	late = make(&config);
	assert_int_equal(open_and_close(late, address), -EDQUOT);
	assert_non_null(strstr(otte_error_text(), "control.connections (1) is full"));
	assert_non_null(strstr(otte_error_text(), address));
	pair_close_requester(&pair);
	while (open_and_close(late, address))
		usleep(1000); /* until the source has seen the other one go */
	assert_int_equal(otte_engine_destroy(late), 0);
	pair_close_source(&pair);
}

static _Atomic unsigned lines_said, lines_of_more;

static void count_lines(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, "more peers were cut off, turned away or not attested"))
		lines_of_more += (unsigned)atoi(line);
	else if (strstr(line, "a peer is cut off") || strstr(line, "a peer is turned away"))
		lines_said++;
}

static void peers_that_come_in_vain_do_not_fill_the_log(void **state)
{
	const unsigned vain = 200;
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct otte_config config = standard();
	char address[OTTE_ADDRESS_MAX], byte;
	struct otte_engine *engine;
	uint64_t begun_ns, seconds;
	unsigned i;

	(void)state;
	engine = make(&config);
	assert_int_equal(otte_engine_address(engine, address, sizeof(address)), 0);
	begun_ns = otte_now_ns();
	to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	otte_log_set(count_lines, NULL, OTTE_LOG_WARNING);
	for (i = 0; i < vain; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
		assert_int_equal(send(fd, "I am no peer, and say so at some length", 39, 0), 39);
		while (recv(fd, &byte, 1, 0) > 0)
			;
		close(fd);
	}
	for (i = 0; i < 20000 && lines_said + lines_of_more < vain; i++)
		usleep(1000);
	seconds = (otte_now_ns() - begun_ns) / SECOND;
	otte_log_set(NULL, NULL, OTTE_LOG_WARNING);
	/* Each is in a line or in the number of those that are not. */
	assert_int_equal(lines_said + lines_of_more, vain);
	/* So many a second, the first and the last of which are not whole. */
	assert_in_range(lines_said, 1, OTTE_LOG_LIMIT_LINES * (seconds + 2));
	assert_int_equal(otte_engine_destroy(engine), 0);
}

/* ---- Keys ---- */

static void with_keys(struct otte_config *config, char *path, const char *keys)
{
	int fd;

	strcpy(path, "/tmp/otte-peers-XXXXXX");
	fd = mkstemp(path);
	assert_int_equal(write(fd, keys, strlen(keys)), strlen(keys));
	close(fd);
	*config = standard();
	strcpy(config->key_file, path);
}

/* What opening comes to, between engines with these keys; NULL: none. */
static int opens(const char *source_keys, const char *user_keys, bool *authenticated)
{
	struct otte_config source_config = standard(), user_config = standard();
	char source_path[32] = "", user_path[32] = "", address[OTTE_ADDRESS_MAX];
	struct otte_peer_info info = { .size = sizeof(info) };
	struct otte_engine *source, *user;
	struct otte_segment *segment;
	int ret;

	if (source_keys)
		with_keys(&source_config, source_path, source_keys);
	if (user_keys)
		with_keys(&user_config, user_path, user_keys);
	source = make(&source_config);
	user = make(&user_config);
	unlink(source_path);
	unlink(user_path);
	assert_int_equal(otte_engine_address(source, address, sizeof(address)), 0);
	ret = otte_segment_open(user, address, OTTE_EPOCH_ANY, 5 * SECOND, &segment);
	if (!ret) {
		assert_int_equal(otte_segment_peer(segment, &info), 0);
		assert_int_equal(info.epoch, otte_engine_epoch(source));
		assert_int_equal(info.same_host, 1);
		*authenticated = info.authenticated;
		assert_int_equal(otte_segment_close(segment), 0);
	} else {
		assert_non_null(strstr(otte_error_text(), "key"));
	}
	assert_int_equal(otte_engine_destroy(user), 0);
	assert_int_equal(otte_engine_destroy(source), 0);
	return ret;
}

static void only_who_has_the_key_is_let_in(void **state)
{
	bool authenticated = true;

	(void)state;
	assert_int_equal(opens(NULL, NULL, &authenticated), 0);
	assert_false(authenticated);
	assert_int_equal(opens(OLD_KEY, OLD_KEY, &authenticated), 0);
	assert_true(authenticated);
	assert_int_equal(opens(OLD_KEY, NEW_KEY, &authenticated), -EKEYREJECTED);
	assert_int_equal(opens(OLD_KEY, NULL, &authenticated), -EKEYREJECTED);
	assert_int_equal(opens(NULL, OLD_KEY, &authenticated), -EKEYREJECTED);
}

static void two_keys_let_peers_change_over_one_by_one(void **state)
{
	bool authenticated = false;

	(void)state;
	assert_int_equal(opens(OLD_KEY NEW_KEY, OLD_KEY, &authenticated), 0);
	assert_true(authenticated);
	assert_int_equal(opens(NEW_KEY OLD_KEY, OLD_KEY, &authenticated), 0);
	assert_int_equal(opens(NEW_KEY OLD_KEY, NEW_KEY OLD_KEY, &authenticated), 0);
	assert_int_equal(opens(NEW_KEY OLD_KEY, OLD_KEY NEW_KEY, &authenticated), 0);
	/* One that asks with its first key only. */
	assert_int_equal(opens(OLD_KEY, NEW_KEY OLD_KEY, &authenticated), -EKEYREJECTED);
}

/* ---- The stats socket ---- */

static json_t *ask_stats(const char *name)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static char answer[16384];
	size_t got = 0;
	ssize_t n;

	strcpy(to.sun_path + 1, name);
	n = connect(fd, (struct sockaddr *)&to,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name)));
	assert_int_equal(n, 0);
	while ((n = read(fd, answer + got, sizeof(answer) - got)) > 0)
		got += (size_t)n;
	close(fd);
	return json_loadb(answer, got, 0, NULL);
}

static void each_engine_of_a_process_has_a_stats_socket(void **state)
{
	struct otte_config config = standard();
	struct otte_engine *first, *second;
	char name[64], address[OTTE_ADDRESS_MAX];
	json_t *stats;

	(void)state;
	config.stats_socket = 1;
	strcpy(config.name, "the first");
	first = make(&config);
	strcpy(config.name, "the second");
	second = make(&config);
	snprintf(name, sizeof(name), "otte/%d", (int)getpid());
	stats = ask_stats(name);
	assert_non_null(stats);
	assert_string_equal(json_string_value(json_object_get(stats, "name")), "the first");
	assert_int_equal(json_integer_value(json_object_get(stats, "pid")), getpid());
	assert_int_equal(otte_engine_address(first, address, sizeof(address)), 0);
	assert_string_equal(json_string_value(json_object_get(stats, "address")), address);
	assert_true(json_is_integer(json_object_get(stats, "served_requests")));
	json_decref(stats);
	strcat(name, ".1");
	stats = ask_stats(name);
	assert_non_null(stats);
	assert_string_equal(json_string_value(json_object_get(stats, "name")), "the second");
	json_decref(stats);
	assert_int_equal(otte_engine_destroy(first), 0);
	assert_int_equal(otte_engine_destroy(second), 0);
}

/* ---- Memory ---- */

static struct otte_region *show(struct otte_engine *engine, struct otte_mem *mem, uint32_t access)
{
	struct otte_region_desc desc = {
		.mem = mem, .length = otte_mem_length(mem), .access = access,
	};
	struct otte_region *region;

	assert_int_equal(otte_region_register(engine, &desc, 1, &region), 0);
	return region;
}

/* One request to or from another region than the pair's own. */
static int move(struct pair *pair, uint8_t op, struct otte_region *local,
		struct otte_region *remote, uint64_t length)
{
	struct otte_request request = pair_request(pair, op, 0, 0, length);
	struct otte_task task;
	int ret;

	if (local)
		request.local = local;
	if (remote)
		request.remote_region = otte_region_id(remote);
	assert_int_equal(otte_batch_reset(pair->batch), 0);
	ret = otte_batch_submit(pair->batch, &request, 1);
	if (ret)
		return ret;
	assert_int_equal(otte_batch_wait(pair->batch, 30 * SECOND), 0);
	assert_int_equal(otte_batch_task(pair->batch, 0, &task), 0);
	assert_int_equal(task.locally_drained, 1);
	return task.code;
}

static void drop(struct otte_region *region, struct otte_mem *mem)
{
	assert_int_equal(otte_region_unregister(&region, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(mem), 0);
}

static void a_peer_sees_and_does_only_what_it_was_granted(void **state)
{
	struct otte_region *hidden, *readable, *writable;
	struct otte_mem *one, *two, *three;
	struct otte_region_info rows[4];
	struct pair pair;
	size_t count;

	(void)state;
	pair_open(&pair, SIZE, NULL);
	assert_int_equal(otte_mem_alloc(pair.source, SIZE, 0, &one), 0);
	assert_int_equal(otte_mem_alloc(pair.source, SIZE, 0, &two), 0);
	assert_int_equal(otte_mem_alloc(pair.source, SIZE, 0, &three), 0);
	hidden = show(pair.source, one, OTTE_LOCAL_ONLY);
	readable = show(pair.source, two, OTTE_REMOTE_READ);
	writable = show(pair.source, three, OTTE_REMOTE_WRITE);
	/* The source refuses what the requester has not had described. */
	assert_int_equal(move(&pair, OTTE_READ, NULL, hidden, 100), -ENOENT);
	assert_int_equal(move(&pair, OTTE_WRITE, NULL, hidden, 100), -ENOENT);
	assert_int_equal(move(&pair, OTTE_READ, NULL, readable, 100), 0);
	assert_int_equal(move(&pair, OTTE_WRITE, NULL, readable, 100), -EACCES);
	assert_int_equal(move(&pair, OTTE_READ, NULL, writable, 100), -EACCES);
	assert_int_equal(move(&pair, OTTE_WRITE, NULL, writable, 100), 0);
	assert_int_equal(otte_segment_describe(pair.segment, 30 * SECOND, rows, 4, &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(rows[1].id, otte_region_id(readable));
	assert_int_equal(rows[1].access, OTTE_REMOTE_READ);
	assert_int_equal(rows[2].access, OTTE_REMOTE_WRITE);
	/* Now it knows by itself. */
	assert_int_equal(move(&pair, OTTE_WRITE, NULL, readable, 100), -EACCES);
	drop(hidden, one);
	drop(writable, three);
	assert_int_equal(otte_region_unregister(&readable, 1, SECOND, NULL), 0);
	{
		struct otte_region *again = show(pair.source, two, OTTE_REMOTE_READ);

		assert_int_equal(move(&pair, OTTE_READ, NULL, again, 100), 0);
		assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, SIZE), 0);
		drop(again, two);
	}
	pair_close(&pair);
}

static int file_of(uint64_t size, uint8_t salt)
{
	int fd = memfd_create("peers", MFD_CLOEXEC);
	uint8_t *bytes;

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	pair_fill(bytes, size, salt);
	munmap(bytes, size);
	return fd;
}

static void a_file_is_read_and_written_through_its_mapping(void **state)
{
	int fd = file_of(SIZE, 9);
	struct otte_region *region;
	struct otte_mem *mem;
	struct pair pair;
	uint8_t at_end[100];

	(void)state;
	pair_open(&pair, SIZE, NULL);
	assert_int_equal(otte_mem_map_file(pair.source, fd, 4096, 0, 0, &mem), 0);
	assert_int_equal(otte_mem_length(mem), SIZE - 4096);
	region = show(pair.source, mem, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE);
	assert_int_equal(move(&pair, OTTE_READ, NULL, region, SIZE - 4096), 0);
	assert_memory_equal(pair.local_bytes, otte_mem_address(mem), SIZE - 4096);
	memset(pair.local_bytes, 0x77, 100);
	assert_int_equal(move(&pair, OTTE_WRITE, NULL, region, 100), 0);
	assert_int_equal(pread(fd, at_end, 100, 4096), 100);
	assert_memory_equal(at_end, pair.local_bytes, 100);
	drop(region, mem);
	close(fd);
	pair_close(&pair);
}

static void a_truncated_file_is_stale_and_hurts_nobody_else(void **state)
{
	int there_fd = file_of(SIZE, 1), here_fd = file_of(SIZE, 2);
	struct otte_mem *there_mem, *here_mem;
	struct otte_region *there, *here;
	struct pair pair;
	int i;

	(void)state;
	pair_open(&pair, SIZE, NULL);
	assert_int_equal(otte_mem_map_file(pair.source, there_fd, 0, 0, 0, &there_mem), 0);
	assert_int_equal(otte_mem_map_file(pair.requester, here_fd, 0, 0, 0, &here_mem), 0);
	there = show(pair.source, there_mem, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE);
	here = show(pair.requester, here_mem, OTTE_LOCAL_ONLY);
	assert_int_equal(move(&pair, OTTE_READ, here, there, SIZE), 0);
	assert_int_equal(ftruncate(there_fd, 0), 0);
	assert_int_equal(ftruncate(here_fd, 0), 0);
	for (i = 0; i < 3; i++) {
		/* Gone here: each way. */
		assert_int_equal(move(&pair, OTTE_READ, here, NULL, SIZE), -ESTALE);
		assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, SIZE), 0);
		assert_int_equal(move(&pair, OTTE_WRITE, here, NULL, SIZE), -ESTALE);
		while (pair_run(&pair, OTTE_READ, 0, 0, SIZE))
			usleep(1000); /* half a frame has cost the lane */
		/* Gone there. */
		assert_int_equal(move(&pair, OTTE_WRITE, NULL, there, SIZE), -ESTALE);
		assert_int_equal(pair_run(&pair, OTTE_WRITE, 0, 0, SIZE), 0);
		assert_int_equal(move(&pair, OTTE_READ, NULL, there, SIZE), -ESTALE);
		assert_int_equal(pair_run(&pair, OTTE_READ, 0, 0, SIZE), 0);
	}
	drop(there, there_mem);
	drop(here, here_mem);
	close(there_fd);
	close(here_fd);
	pair_close(&pair);
}

/* A READ beside it, one of `length` bytes of `region` from `offset` on, a WRITE beside it: in one batch. */
static int moves_among_others(struct pair *pair, uint8_t op, struct otte_region *region,
			      uint64_t offset, uint64_t length, uint8_t *effect)
{
	const uint64_t side = 8192;
	struct otte_request requests[3] = {
		pair_request(pair, OTTE_READ, 0, 0, side),
		pair_request(pair, op, side, offset, length),
		pair_request(pair, OTTE_WRITE, side + length, side, side),
	};
	struct otte_task task;
	int i, ret = 0;

	requests[1].remote_region = otte_region_id(region);
	assert_int_equal(otte_batch_reset(pair->batch), 0);
	assert_int_equal(otte_batch_submit(pair->batch, requests, 3), 0);
	assert_int_equal(otte_batch_wait(pair->batch, 30 * SECOND), 0);
	for (i = 0; i < 3; i++) {
		assert_int_equal(otte_batch_task(pair->batch, (uint32_t)i, &task), 0);
		assert_true(task.locally_drained);
		if (i != 1) {
			assert_int_equal(task.code, 0);
			continue;
		}
		ret = task.code;
		*effect = task.remote_effect;
	}
	return ret;
}

static void a_request_past_the_end_of_a_truncated_file_fails_alone_at_every_size(void **state)
{
	static const uint64_t lengths[] = { 1, 4096, 20000, 64 << 10, 1 << 20, 12 << 20 };
	const uint64_t whole = 16 << 20, half = whole / 2 + 100;
	struct otte_stats before = { .size = sizeof(before) }, after = before;
	int fd = file_of(whole, 1);
	struct otte_region *region;
	struct otte_mem *mem;
	struct pair pair;
	uint8_t effect;
	size_t i;

	(void)state;
	pair_open(&pair, whole, NULL);
	assert_int_equal(otte_mem_map_file(pair.source, fd, 0, 0, 0, &mem), 0);
	region = show(pair.source, mem, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE);
	assert_int_equal(ftruncate(fd, (off_t)half), 0);
	assert_int_equal(otte_engine_stats(pair.requester, &before), 0);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint64_t length = lengths[i], last = whole - length;

		assert_int_equal(moves_among_others(&pair, OTTE_READ, region, last, length, &effect),
				 -ESTALE);
		assert_int_equal(effect, OTTE_EFFECT_NONE);
		assert_int_equal(moves_among_others(&pair, OTTE_WRITE, region, last, length, &effect),
				 -ESTALE);
		assert_int_equal(effect, OTTE_EFFECT_NONE);
		if (length < half)
			assert_int_equal(moves_among_others(&pair, OTTE_READ, region,
							    half - length, length, &effect), 0);
	}
	/* No lane was lost and nothing was sent twice for it. */
	assert_int_equal(otte_engine_stats(pair.requester, &after), 0);
	assert_int_equal(after.lanes, before.lanes);
	assert_int_equal(after.retries, before.retries);
	assert_int_equal(after.reconnects, before.reconnects);
	/* What grows back is there again. */
	assert_int_equal(ftruncate(fd, (off_t)whole), 0);
	assert_int_equal(moves_among_others(&pair, OTTE_READ, region, whole - 4096, 4096, &effect), 0);
	drop(region, mem);
	close(fd);
	pair_close(&pair);
}

/* Memory of the caller's own may go away after it was looked at: then the copy itself finds out. */
static void memory_that_goes_away_fails_the_request_that_meets_the_hole(void **state)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct otte_stats before = { .size = sizeof(before) }, after = before;
	struct otte_region *region;
	struct otte_mem *mem;
	struct pair pair;
	uint8_t *bytes, effect;

	(void)state;
	pair_open(&pair, SIZE, NULL);
	bytes = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	assert_int_equal(otte_mem_adopt(pair.source, bytes, 4 * page, &mem), 0);
	region = show(pair.source, mem, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE);
	assert_int_equal(mprotect(bytes + 3 * page, page, PROT_NONE), 0);
	assert_int_equal(otte_engine_stats(pair.requester, &before), 0);
	assert_int_equal(moves_among_others(&pair, OTTE_READ, region, 3 * page, page, &effect), -ESTALE);
	assert_int_equal(effect, OTTE_EFFECT_NONE);
	/* The first pages may have been written. */
	memset(pair.local_bytes, 0x77, SIZE);
	assert_int_equal(moves_among_others(&pair, OTTE_WRITE, region, 0, 4 * page, &effect), -ESTALE);
	assert_int_equal(effect, OTTE_EFFECT_UNKNOWN);
	assert_int_equal(moves_among_others(&pair, OTTE_READ, region, 0, page, &effect), 0);
	assert_int_equal(otte_engine_stats(pair.requester, &after), 0);
	assert_int_equal(after.lanes, before.lanes);
	assert_int_equal(after.retries, before.retries);
	drop(region, mem);
	munmap(bytes, 4 * page);
	pair_close(&pair);
}

static void a_file_mapped_for_reading_is_not_written(void **state)
{
	int fd = file_of(SIZE, 3);
	struct otte_region_desc desc = { .length = SIZE, .access = OTTE_REMOTE_WRITE };
	struct otte_region *region;
	struct otte_mem *mem;
	struct pair pair;

	(void)state;
	pair_open(&pair, SIZE, NULL);
	assert_int_equal(otte_mem_map_file(pair.requester, fd, 0, 0, OTTE_MEM_READONLY, &mem), 0);
	desc.mem = mem;
	assert_int_equal(otte_region_register(pair.requester, &desc, 1, &region), -EACCES);
	region = show(pair.requester, mem, OTTE_REMOTE_READ);
	assert_int_equal(move(&pair, OTTE_READ, region, NULL, 100), -EACCES);
	assert_int_equal(move(&pair, OTTE_WRITE, region, NULL, SIZE), 0);
	assert_memory_equal(pair.remote_bytes, otte_mem_address(mem), SIZE);
	drop(region, mem);
	close(fd);
	pair_close(&pair);
}

static void adopted_memory_belongs_to_one_object_at_a_time(void **state)
{
	static uint8_t bytes[3 * 4096];
	struct otte_mem *middle, *other;
	struct otte_region *region;
	struct pair pair;

	(void)state;
	pair_open(&pair, 4096, NULL);
	assert_int_equal(otte_mem_adopt(pair.requester, bytes + 4096, 4096, &middle), 0);
	assert_int_equal(otte_mem_adopt(pair.requester, bytes, 4097, &other), -EEXIST);
	assert_int_equal(otte_mem_adopt(pair.requester, bytes + 8191, 2, &other), -EEXIST);
	assert_int_equal(otte_mem_adopt(pair.requester, bytes, sizeof(bytes), &other), -EEXIST);
	assert_int_equal(otte_mem_adopt(pair.requester, bytes, 4096, &other), 0);
	assert_int_equal(otte_mem_release(other), 0);
	region = show(pair.requester, middle, OTTE_LOCAL_ONLY);
	assert_int_equal(otte_mem_release(middle), -EBUSY);
	pair_fill(pair.remote_bytes, 4096, 4);
	assert_int_equal(move(&pair, OTTE_READ, region, NULL, 4096), 0);
	assert_memory_equal(bytes + 4096, pair.remote_bytes, 4096);
	drop(region, middle);
	assert_int_equal(otte_mem_adopt(pair.requester, bytes, sizeof(bytes), &other), 0);
	assert_int_equal(otte_mem_release(other), 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peer_that_asks_a_thousand_times_has_the_ledger_counted_ten_times_a_second),
		cmocka_unit_test(ipv6_has_brackets_and_carries_bytes),
		cmocka_unit_test(what_is_advertised_is_what_peers_are_told),
		cmocka_unit_test(a_descriptor_names_one_engine_and_no_other_on_its_address),
		cmocka_unit_test(what_a_config_gets_wrong_is_named_by_its_key),
		cmocka_unit_test(a_peer_too_many_is_told_so_and_lanes_are_not_counted),
		cmocka_unit_test(peers_that_come_in_vain_do_not_fill_the_log),
		cmocka_unit_test(only_who_has_the_key_is_let_in),
		cmocka_unit_test(two_keys_let_peers_change_over_one_by_one),
		cmocka_unit_test(each_engine_of_a_process_has_a_stats_socket),
		cmocka_unit_test(a_peer_sees_and_does_only_what_it_was_granted),
		cmocka_unit_test(a_file_is_read_and_written_through_its_mapping),
		cmocka_unit_test(a_truncated_file_is_stale_and_hurts_nobody_else),
		cmocka_unit_test(a_request_past_the_end_of_a_truncated_file_fails_alone_at_every_size),
		cmocka_unit_test(memory_that_goes_away_fails_the_request_that_meets_the_hole),
		cmocka_unit_test(a_file_mapped_for_reading_is_not_written),
		cmocka_unit_test(adopted_memory_belongs_to_one_object_at_a_time),
	};

	return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
