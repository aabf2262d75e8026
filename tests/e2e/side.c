/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CAPACITY 4096

/* One word "group.key=value" becomes {"group": {"key": value}}. */
static void set_key(struct otte_config *config, const char *word)
{
	char group[32], key[32], value[64], json[256];
	const char *quote;

	if (sscanf(word, "ledger=%63s", value) == 1) {
		snprintf(json, sizeof(json), "{\"ledger\":\"%s\"}", value);
		OK(otte_config_load_json(config, json, strlen(json)));
		return;
	}
	MUST(sscanf(word, "%31[^.].%31[^=]=%63s", group, key, value) == 3, "\"%s\"", word);
	quote = strspn(value, "0123456789") == strlen(value) || !strcmp(value, "true") ||
		!strcmp(value, "false") ? "" : "\"";
	snprintf(json, sizeof(json), "{\"%s\":{\"%s\":%s%s%s}}", group, key, quote, value, quote);
	OK(otte_config_load_json(config, json, strlen(json)));
}

static void set_keys(struct otte_config *config, const char *keys)
{
	char words[512], *word, *rest = words;

	snprintf(words, sizeof(words), "%s", keys);
	while ((word = strsep(&rest, " ")))
		if (!strcmp(word, "deaf"))
			config->listen_address[0] = '\0';
		else if (*word && strcmp(word, "adopted"))
			set_key(config, word);
}

static void open_mem(struct side *side, const char *keys, int fd)
{
	if (fd < 0)
		OK(otte_mem_alloc(side->engine, side->size, 0, &side->mem));
	else if (strstr(keys, "adopted"))
		OK(otte_mem_adopt(side->engine, map_shared(fd, side->size), side->size, &side->mem));
	else
		OK(otte_mem_map_file(side->engine, fd, 0, side->size, 0, &side->mem));
}

int side_open(struct side *side, const char *keys, int fd, uint64_t size)
{
	struct otte_region_desc desc = {
		.length = size, .access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE, .name = "side",
	};
	struct otte_config config;
	int ret;

	memset(side, 0, sizeof(*side));
	side->size = size;
	OK(otte_config_init(&config, sizeof(config)));
	set_keys(&config, keys);
	ret = otte_engine_create(&config, &side->engine);
	if (ret)
		return ret;
	open_mem(side, keys, fd);
	desc.mem = side->mem;
	OK(otte_region_register(side->engine, &desc, 1, &side->region));
	side->bytes = otte_mem_address(side->mem);
	OK(otte_batch_create(side->engine, CAPACITY, &side->batch));
	if (otte_engine_address(side->engine, side->address, sizeof(side->address)))
		strcpy(side->address, "-");
	return 0;
}

int side_connect(struct side *side, const char *address, uint64_t epoch, uint64_t region)
{
	side->remote = region;
	return otte_segment_open(side->engine, address, epoch, 10 * SECOND, &side->segment);
}

void side_disconnect(struct side *side)
{
	if (side->segment)
		OK(otte_segment_close(side->segment));
	side->segment = NULL;
}

int side_close(struct side *side)
{
	int ret;

	if (side->segment && otte_batch_cancel(side->batch) == 0)
		otte_batch_wait(side->batch, 20 * SECOND);
	ret = otte_batch_destroy(side->batch);
	if (!ret && side->segment)
		ret = otte_segment_close(side->segment);
	if (!ret)
		ret = otte_region_unregister(&side->region, 1, 20 * SECOND, NULL);
	if (!ret)
		ret = otte_mem_release(side->mem);
	return ret ? ret : otte_engine_destroy(side->engine);
}

struct otte_request side_request(const struct side *side, uint8_t op, uint64_t local,
				 uint64_t remote, uint64_t length)
{
	return (struct otte_request){
		.segment = side->segment,
		.local = side->region,
		.local_offset = local,
		.remote_region = side->remote,
		.remote_offset = remote,
		.length = length,
		.op = op,
	};
}

int side_submit(struct side *side, uint8_t op, uint64_t local, uint64_t remote, uint64_t length,
		unsigned count)
{
	struct otte_request *requests = calloc(count, sizeof(*requests));
	const uint64_t deadline_ns = side->due_ns ? now_ns() + (uint64_t)side->due_ns : 0;
	unsigned i;
	int ret;

	MUST(requests, "%m");
	OK(otte_batch_reset(side->batch));
	/* Intents alternate so that neighbours are not merged. */
	for (i = 0; i < count; i++) {
		requests[i] = side_request(side, op, local + i * length, remote + i * length, length);
		requests[i].intent = i % 2 ? OTTE_INTENT_MIGRATION : OTTE_INTENT_CHECKPOINT;
		requests[i].deadline_ns = deadline_ns;
	}
	ret = otte_batch_submit(side->batch, requests, count);
	free(requests);
	return ret;
}

struct outcome side_wait(struct side *side, int64_t timeout_ns)
{
	struct outcome outcome = { 0 };

	outcome.code = otte_batch_wait(side->batch, timeout_ns);
	OK(otte_batch_poll(side->batch, &outcome.status));
	if (otte_batch_failure(side->batch, &outcome.failure))
		outcome.failure.code = 0;
	return outcome;
}

struct outcome side_run(struct side *side, uint8_t op, uint64_t local, uint64_t remote,
			uint64_t length, unsigned count)
{
	struct outcome refused = { 0 };

	refused.code = side_submit(side, op, local, remote, length, count);
	return refused.code ? refused : side_wait(side, 60 * SECOND);
}

struct otte_stats side_stats(const struct side *side)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	OK(otte_engine_stats(side->engine, &stats));
	return stats;
}

bool side_probe(struct side *side)
{
	const uint64_t n = 64 << 10;
	struct outcome outcome;

	fill(side->bytes, n, 0xa5);
	outcome = side_run(side, OTTE_WRITE, 0, 0, n, 1);
	if (outcome.code || outcome.status.completed_prefix != 1)
		return false;
	memset(side->bytes, 0, n);
	outcome = side_run(side, OTTE_READ, 0, 0, n, 1);
	return !outcome.code && outcome.status.completed_prefix == 1 && filled(side->bytes, n, 0xa5);
}

void fill(uint8_t *bytes, uint64_t size, uint8_t salt)
{
	uint64_t i;

	for (i = 0; i < size; i++)
		bytes[i] = (uint8_t)(i ^ (i >> 8) ^ (i >> 16) ^ salt);
}

bool filled(const uint8_t *bytes, uint64_t size, uint8_t salt)
{
	uint64_t i;

	for (i = 0; i < size; i++)
		if (bytes[i] != (uint8_t)(i ^ (i >> 8) ^ (i >> 16) ^ salt))
			return false;
	return true;
}

/* ---- The role ---- */

static void say_outcome(const struct outcome *outcome)
{
	printf("code %d submitted %u prefix %u failed %u failure %d effect %u drained %u\n",
	       outcome->code, outcome->status.submitted, outcome->status.completed_prefix,
	       outcome->status.failed, outcome->failure.code, outcome->failure.remote_effect,
	       outcome->failure.locally_drained);
}

static void say_stats(const struct side *side)
{
	struct otte_stats stats = side_stats(side);

	printf("requests %" PRIu64 " bytes %" PRIu64 " lanes %" PRIu64 " peers_in %" PRIu64
	       " peers_out %" PRIu64 " loans %" PRIu64 " retained %" PRIu64 " regions %" PRIu64
	       " served_requests %" PRIu64 " served_read_bytes %" PRIu64 " served_write_bytes %" PRIu64
	       " refused_requests %" PRIu64 " bad_frames %" PRIu64 " qps %" PRIu64 " fds %u\n",
	       stats.requests, stats.bytes, stats.lanes, stats.peers_in, stats.peers_out,
	       stats.loans, stats.retained, stats.regions, stats.served_requests,
	       stats.served_read_bytes, stats.served_write_bytes, stats.refused_requests,
	       stats.bad_frames, stats.rdma_qps, count_fds());
}

/* Descriptors that exhaust() holds; the limit is low enough to be reached. */
#define NOFILE 256

static int spare[NOFILE];
static unsigned spares;

static void release(unsigned count)
{
	while (spares && count--)
		close(spare[--spares]);
}

static void exhaust(unsigned leave)
{
	const struct rlimit limit = { NOFILE, NOFILE };

	MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0, "%m");
	while (spares < NOFILE && (spare[spares] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
		spares++;
	MUST(spares < NOFILE && errno == EMFILE, "%m");
	release(leave);
}

static void obey(struct side *side, const char *line)
{
	uint64_t region, local, remote, length;
	char address[OTTE_ADDRESS_MAX];
	struct outcome outcome = { 0 };
	unsigned op, count, directions;
	long long ms;

	if (sscanf(line, "open %255s %" SCNu64, address, &region) == 2) {
		printf("code %d\n", side_connect(side, address, OTTE_EPOCH_ANY, region));
	} else if (sscanf(line, "run %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %u", &op, &local, &remote,
			  &length, &count) == 5) {
		outcome = side_run(side, (uint8_t)op, local, remote, length, count);
		say_outcome(&outcome);
	} else if (sscanf(line, "submit %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %u", &op, &local,
			  &remote, &length, &count) == 5) {
		printf("code %d\n", side_submit(side, (uint8_t)op, local, remote, length, count));
	} else if (sscanf(line, "wait %lld", &ms) == 1) {
		outcome = side_wait(side, ms * MS);
		say_outcome(&outcome);
	} else if (sscanf(line, "close %u %lld", &directions, &ms) == 2) {
		printf("code %d\n", otte_engine_close(side->engine, directions, ms * MS, NULL));
	} else if (sscanf(line, "exhaust %u", &count) == 1) {
		exhaust(count);
		printf("code 0\n");
	} else if (strcmp(line, "release") == 0) {
		release(NOFILE);
		printf("code 0\n");
	} else if (strcmp(line, "cpu") == 0) {
		printf("cpu %ld\n", clock() / (CLOCKS_PER_SEC / 1000));
	} else if (strcmp(line, "disconnect") == 0) {
		side_disconnect(side);
		printf("code 0\n");
	} else if (strcmp(line, "probe") == 0) {
		printf("probe %d\n", side_probe(side));
	} else if (strcmp(line, "stats") == 0) {
		say_stats(side);
	} else {
		MUST(false, "unknown command \"%s\"", line);
	}
}

static int side_main(char **argv)
{
	struct side side;
	char line[1024];

	OK(side_open(&side, argv[0], atoi(argv[1]), strtoull(argv[2], NULL, 0)));
	printf("ready address %s region %" PRIu64 " epoch %" PRIu64 "\n", side.address,
	       otte_region_id(side.region), otte_engine_epoch(side.engine));
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "quit") == 0)
			break;
		obey(&side, line);
	}
	OK(side_close(&side));
	return 0;
}

bool side_role(int argc, char **argv, int *status)
{
	if (argc != 5 || strcmp(argv[1], "side"))
		return false;
	setvbuf(stdout, NULL, _IOLBF, 0);
	*status = side_main(argv + 2);
	return true;
}

void remote_start(struct remote *remote, const char *keys, int fd, uint64_t size)
{
	char fd_text[16], size_text[32];

	snprintf(fd_text, sizeof(fd_text), "%d", fd);
	snprintf(size_text, sizeof(size_text), "%" PRIu64, size);
	child_start(&remote->child, fd, "side", keys, fd_text, size_text, (char *)NULL);
	child_hear(&remote->child);
	MUST(sscanf(remote->child.line, "ready address %255s region %" SCNu64 " epoch %" SCNu64,
		    remote->address, &remote->region, &remote->epoch) == 3, "%s", remote->child.line);
}
