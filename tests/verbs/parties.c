/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "parties.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REQUESTS_MAX 4

uint8_t *remote;

void must(int ret, const char *what)
{
	if (!ret)
		return;
	printf("not ok - %s: %d: %s\n", what, ret, otte_error_text());
	fflush(stdout);
	_exit(2);
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

void nap(void)
{
	const struct timespec step = { .tv_nsec = 2000000 };

	nanosleep(&step, NULL);
}

void *map_for_all(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		_exit(3);
	return at;
}

void parties_open(void)
{
	remote = map_for_all(AREA_BYTES);
}

static void log_line(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	printf("# %d %d: %s\n", getpid(), level, line);
	fflush(stdout);
}

static void fill_config(struct otte_config *config, const char *device)
{
	MUST(otte_log_set(log_line, NULL, OTTE_LOG_WARNING));
	MUST(otte_config_init(config, sizeof(*config)));
	config->rdma_enabled = 1;
	config->rdma_gid_index = 1; /* the address of IPv4 */
	strcpy(config->rdma_device, device);
	/* What was lost is soon there again. */
	config->reconnect_min_ns = SECOND / 50;
	config->reconnect_max_ns = SECOND / 20;
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
	struct otte_region_desc desc = { .length = AREA_BYTES,
					 .access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE };
	struct otte_config config;

	fill_config(&config, device);
	if (like)
		take_place(&config, like);
	MUST(otte_engine_create(&config, &host->engine));
	MUST(otte_mem_adopt(host->engine, remote, AREA_BYTES, &host->mem));
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
	MUST(otte_region_unregister(&host->region, 1, 10 * SECOND, NULL));
	MUST(otte_mem_release(host->mem));
	MUST(otte_engine_destroy(host->engine));
}

static void answer_all(struct host hosts[DEVICES_MAX], int asks, int answers)
{
	char what;
	int i;

	while (read(asks, &what, 1) == 1) {
		struct counts counts = { 0 };

		for (i = 0; i < DEVICES_MAX && hosts[i].engine; i++) {
			struct otte_stats stats = { .size = sizeof(stats) };

			MUST(otte_engine_stats(hosts[i].engine, &stats));
			counts.loans += stats.loans;
			counts.retained += stats.retained;
			counts.grants += stats.rdma_grants;
		}
		if (write(answers, &counts, sizeof(counts)) != sizeof(counts))
			_exit(3);
	}
}

static void be_source(const char *const devices[DEVICES_MAX], const struct door *like, int asks,
		      int answers)
{
	struct host hosts[DEVICES_MAX] = { 0 };
	struct source self = { 0 };
	int i;

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

struct counts source_counts(const struct source *source)
{
	struct counts counts = { 0 };

	if (write(source->asks, "s", 1) != 1 ||
	    read(source->answers, &counts, sizeof(counts)) != sizeof(counts))
		_exit(3);
	return counts;
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
	struct otte_region_desc desc = { .length = AREA_BYTES };
	struct otte_config config;

	fill_config(&config, device);
	config.listen_address[0] = '\0';
	if (narrow)
		config.rdma_send_wrs = 2 * NARROW;
	MUST(otte_engine_create(&config, &self->engine));
	MUST(otte_mem_alloc(self->engine, AREA_BYTES, 0, &self->mem));
	desc.mem = self->mem;
	self->bytes = otte_mem_address(self->mem);
	MUST(otte_region_register(self->engine, &desc, 1, &self->region));
	MUST(otte_segment_open(self->engine, door->address, OTTE_EPOCH_ANY, 10 * SECOND,
			       &self->segment));
	MUST(otte_batch_create(self->engine, REQUESTS_MAX, &self->batch));
	self->remote = door->region;
}

void requester_close(struct requester *self)
{
	MUST(otte_batch_destroy(self->batch));
	MUST(otte_segment_close(self->segment));
	MUST(otte_region_unregister(&self->region, 1, 10 * SECOND, NULL));
	MUST(otte_mem_release(self->mem));
	MUST(otte_engine_destroy(self->engine));
}

static struct otte_request request_of(const struct requester *self, uint8_t op, uint64_t offset,
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
	};
}

void requester_submit_some(struct requester *self, uint8_t op, uint64_t offset, uint64_t length,
			   unsigned int count)
{
	struct otte_request requests[REQUESTS_MAX];
	unsigned int i;

	for (i = 0; i < count; i++)
		requests[i] = request_of(self, op, offset + i * 2 * length, length);
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
	MUST(otte_batch_wait(self->batch, 60 * SECOND));
	return requester_task(self, 0);
}
