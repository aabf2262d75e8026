/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "parties.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUESTS_MAX 4

uint8_t *remote;
struct parties_setup parties;

void *map_for_all(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		_exit(3);
	return at;
}

static size_t area_bytes(void)
{
	return parties.area_bytes ? parties.area_bytes : AREA_BYTES;
}

void parties_open(void)
{
	remote = map_for_all(area_bytes());
}

static void log_line(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	printf("# %d %d: %s\n", getpid(), level, line);
	fflush(stdout);
}

static void fill_config(struct otte_config *config, const char *device, bool source)
{
	MUST(otte_log_set(log_line, NULL, OTTE_LOG_WARNING));
	MUST(otte_config_init(config, sizeof(*config)));
	config->rdma_enabled = 1;
	config->rdma_qp_timeout = 17; /* 3.8 s in all: a busy machine holds guests up */
	if (*device) {
		config->rdma_gid_index = 1; /* the address of IPv4 */
		strcpy(config->rdma_device, device);
	}
	/* What was lost is soon there again. */
	config->reconnect_min_ns = SECOND / 50;
	config->reconnect_max_ns = SECOND / 20;
	if (parties.adjust)
		parties.adjust(config, source);
}

uint64_t device_received(const char *prefix, unsigned int number)
{
	char path[96];
	unsigned long packets = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s%u/ports/1/hw_counters/rcvd_pkts",
		 prefix, number);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%lu", &packets) != 1)
		_exit(3);
	fclose(file);
	return packets;
}

/* ---- The source ---- */

struct host {
	struct otte_engine *engine;
	struct otte_region *region;
	struct otte_mem *mem;
};

/* To listen where that one did. */
static void take_place(struct otte_config *config, const struct door *like)
{
	const char *colon = strrchr(like->address, ':');

	snprintf(config->listen_address, sizeof(config->listen_address), "%.*s",
		 (int)(colon - like->address), like->address);
	config->listen_port = (uint32_t)atoi(colon + 1);
}

static void open_host(struct host *host, const char *device, const struct door *like,
		      struct door *door)
{
	struct otte_region_desc desc = { .length = area_bytes(),
					 .access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE };
	struct otte_config config;

	fill_config(&config, device, true);
	if (like)
		take_place(&config, like);
	MUST(otte_engine_create(&config, &host->engine));
	MUST(otte_mem_adopt(host->engine, remote, area_bytes(), &host->mem));
	desc.mem = host->mem;
	MUST(otte_region_register(host->engine, &desc, 1, &host->region));
	MUST(otte_engine_address(host->engine, door->address, sizeof(door->address)));
	door->region = otte_region_id(host->region);
	door->epoch = otte_engine_epoch(host->engine);
}

static void close_host(struct host *host)
{
	if (!host->engine)
		return;
	if (host->region)
		MUST(otte_region_unregister(&host->region, 1, PATIENCE_NS, NULL));
	MUST(otte_mem_release(host->mem));
	MUST(otte_engine_destroy(host->engine));
}

static struct otte_stats stats_of(struct otte_engine *engine)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	MUST(otte_engine_stats(engine, &stats));
	return stats;
}

static struct counts count(const struct host hosts[DEVICES_MAX])
{
	struct counts counts = { 0 };
	int i;

	for (i = 0; i < DEVICES_MAX && hosts[i].engine; i++) {
		struct otte_stats stats = stats_of(hosts[i].engine);

		counts.loans += stats.loans;
		counts.retained += stats.retained;
		counts.grants += stats.rdma_grants;
		counts.leases += stats.rdma_leases;
	}
	return counts;
}

static int withdraw(struct host hosts[DEVICES_MAX])
{
	int ret = 0, i;

	for (i = 0; i < DEVICES_MAX && hosts[i].engine && !ret; i++) {
		ret = otte_region_unregister(&hosts[i].region, 1, PATIENCE_NS, NULL);
		if (!ret)
			hosts[i].region = NULL;
	}
	return ret;
}

/* 'c': counts; 's': stats; 'w': withdraws its regions, and says what came of it. */
static void answer_all(struct host hosts[DEVICES_MAX], int asks, int answers)
{
	struct otte_stats stats;
	struct counts counts;
	ssize_t written;
	char what;
	int ret;

	while (read(asks, &what, 1) == 1) {
		if (what == 's') {
			stats = stats_of(hosts[0].engine);
			written = write(answers, &stats, sizeof(stats));
		} else if (what == 'w') {
			ret = withdraw(hosts);
			written = write(answers, &ret, sizeof(ret));
		} else {
			counts = count(hosts);
			written = write(answers, &counts, sizeof(counts));
		}
		if (written <= 0)
			_exit(3);
	}
}

static void be_source(const char *const devices[DEVICES_MAX], const struct door *like, int asks,
		      int answers)
{
	struct host hosts[DEVICES_MAX] = { 0 };
	struct source self = { 0 };
	int i;

	if (parties.enter_source)
		parties.enter_source();
	for (i = 0; i < DEVICES_MAX && devices[i]; i++)
		open_host(&hosts[i], devices[i], i ? NULL : like, &self.doors[i]);
	if (write(answers, &self, sizeof(self)) != sizeof(self))
		_exit(3);
	answer_all(hosts, asks, answers);
	for (i = 0; i < DEVICES_MAX; i++)
		close_host(&hosts[i]);
	fflush(stdout);
	_exit(0);
}

void source_start(struct source *source, const char *const devices[DEVICES_MAX],
		  const struct door *like)
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
		be_source(devices, like, asks[0], answers[1]);
	}
	close(asks[0]);
	close(answers[1]);
	if (read(answers[0], source, sizeof(*source)) != sizeof(*source))
		_exit(3);
	source->pid = pid;
	source->asks = asks[1];
	source->answers = answers[0];
}

static void ask(const struct source *source, const char *what, void *answer, size_t bytes)
{
	if (write(source->asks, what, 1) != 1 ||
	    read(source->answers, answer, bytes) != (ssize_t)bytes)
		_exit(3);
}

struct counts source_counts(const struct source *source)
{
	struct counts counts = { 0 };

	ask(source, "c", &counts, sizeof(counts));
	return counts;
}

struct otte_stats source_stats(const struct source *source)
{
	struct otte_stats stats = { 0 };

	ask(source, "s", &stats, sizeof(stats));
	return stats;
}

int source_withdraw(const struct source *source)
{
	int ret = 0;

	ask(source, "w", &ret, sizeof(ret));
	return ret;
}

bool source_rests(const struct source *source)
{
	struct counts counts;

	return EVENTUALLY((counts = source_counts(source), !counts.loans)) && !counts.retained;
}

int source_end(const struct source *source)
{
	int status = -1;

	close(source->asks);
	waitpid(source->pid, &status, 0);
	close(source->answers);
	return status;
}

void source_kill(const struct source *source)
{
	kill(source->pid, SIGKILL);
	source_end(source);
}

/* ---- Requesters ---- */

void requester_open(struct requester *self, const char *device, const struct door *door,
		    bool narrow)
{
	struct otte_region_desc desc = { .length = area_bytes() };
	struct otte_config config;

	fill_config(&config, device, false);
	config.listen_address[0] = '\0';
	if (narrow)
		config.rdma_send_wrs = 2 * NARROW;
	MUST(otte_engine_create(&config, &self->engine));
	MUST(otte_mem_alloc(self->engine, area_bytes(), 0, &self->mem));
	desc.mem = self->mem;
	self->bytes = otte_mem_address(self->mem);
	MUST(otte_region_register(self->engine, &desc, 1, &self->region));
	MUST(otte_segment_open(self->engine, door->address, OTTE_EPOCH_ANY, PATIENCE_NS,
			       &self->segment));
	MUST(otte_batch_create(self->engine, REQUESTS_MAX, &self->batch));
	self->remote = door->region;
	self->lease = OTTE_LEASE_DEFAULT;
}

void requester_close(struct requester *self)
{
	MUST(otte_batch_destroy(self->batch));
	MUST(otte_segment_close(self->segment));
	MUST(otte_region_unregister(&self->region, 1, PATIENCE_NS, NULL));
	MUST(otte_mem_release(self->mem));
	MUST(otte_engine_destroy(self->engine));
}

struct otte_stats requester_stats(const struct requester *self)
{
	return stats_of(self->engine);
}

struct otte_request requester_request(const struct requester *self, uint8_t op, uint64_t offset,
				      uint64_t length)
{
	return (struct otte_request){
		.segment = self->segment,
		.local = self->region,
		.local_offset = offset,
		.remote_region = self->remote,
		.remote_offset = offset,
		.length = length,
		.op = op,
		.transport = OTTE_TRANSPORT_RDMA,
		.lease = self->lease,
	};
}

void requester_submit_some(struct requester *self, uint8_t op, uint64_t offset, uint64_t length,
			   unsigned int count)
{
	struct otte_request requests[REQUESTS_MAX];
	unsigned int i;

	for (i = 0; i < count; i++)
		requests[i] = requester_request(self, op, offset + i * 2 * length, length);
	MUST(otte_batch_reset(self->batch));
	MUST(otte_batch_submit(self->batch, requests, count));
}

void requester_submit(struct requester *self, uint8_t op, uint64_t offset, uint64_t length)
{
	requester_submit_some(self, op, offset, length, 1);
}

struct otte_task requester_task(struct requester *self, unsigned int i)
{
	struct otte_task task;

	MUST(otte_batch_task(self->batch, i, &task));
	return task;
}

struct otte_task requester_wait(struct requester *self)
{
	MUST(otte_batch_wait(self->batch, 2 * PATIENCE_NS));
	return requester_task(self, 0);
}
