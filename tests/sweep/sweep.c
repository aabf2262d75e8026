/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Each public call with its n-th allocation failing, then its n-th system call, for n = 1, 2, ... until a
 * call has seen none fail. Each time: the call succeeds, or it returns a negative errno with a text and
 * has done nothing; transfers between two other engines' objects work afterwards, counters are where
 * they were; at the end of each sweep, no allocation and no descriptor is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/memory.h"
#include "engine/region.h"
#include "fault.h"
#include "unit/lend/module.h"
#include "world.h"
#define SEEN_BY_HAND
#include "seen.h"

#undef OK
#define OK(call) HOLDS((call) == 0, "%s", otte_error_text())
#define PATIENCE (5 * SECOND)
/* Nothing here takes so long, even under valgrind. */
#define WATCHDOG_S 120

/* Of the faults in the library's threads, which are many: all of them, but for a sanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRIDE 5
#else
#define STRIDE 1
#endif

/* What one call works on and makes. */
struct stage {
	struct world world;
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *regions[3];
	struct otte_segment *segment;
	struct otte_batch *batch;
	struct otte_block_list *list;
	struct otte_config config;
	bool notified;
};

struct step {
	const char *name;
	const char *function; /* the public one, as its page has it */
	void (*before)(struct stage *stage); /* may be NULL */
	int (*call)(struct stage *stage);
	/* `ret` of the call: give back what it made, or find that it made nothing. May be NULL. */
	void (*after)(struct stage *stage, int ret);
};

static char config_path[] = "/tmp/otte-sweep-config-XXXXXX";
static char key_path[] = "/tmp/otte-sweep-key-XXXXXX";

/* ---- Ways to move bytes ---- */

static void use_keys_and_stats(struct otte_config *config)
{
	config->stats_socket = 1;
	config->tcp_workers = 2;
	strcpy(config->key_file, key_path);
	strcpy(config->slots_domain, "sweep");
}

static void use_zerocopy(struct otte_config *config)
{
	use_keys_and_stats(config);
	config->tcp_zerocopy = OTTE_ZEROCOPY_ALWAYS;
	config->tcp_zerocopy_bytes = 4096;
}

static void use_local(struct otte_config *config)
{
	use_keys_and_stats(config);
	config->local_trusted = 1;
}

/*
 * Through the module, with so few grants and mappings that they come and go with each request: reading and
 * writing, copied and mapped.
 */
static void use_borrowing(struct otte_config *config)
{
	use_local(config);
	config->local_pinned = 1;
	config->local_maps = 2;
	config->local_map_entries = 1;
	config->local_map_repeats = 1;
	config->local_map_bytes = 4096;
}

static bool fails_in_module(const char *call)
{
	/* A mapping that its borrower does not settle ends with the borrower: here that is this process. */
	return strcmp(call, "loan_settle, mapped") && fault_of_module(call);
}

static void have_module(bool framed)
{
	module_reset();
	module_absent = false;
	module_framed = framed;
	script.fails = fails_in_module;
}

static void have_no_module(void)
{
	module_absent = true;
	module_framed = false;
}

/* ---- Config ---- */

static const char json[] = "{\"tcp\": {\"lanes\": 3}, \"name\": \"swept\"}";

static void before_config(struct stage *stage)
{
	OK(otte_config_init(&stage->config, sizeof(stage->config)));
}

static int load_json(struct stage *stage)
{
	return otte_config_load_json(&stage->config, json, sizeof(json) - 1);
}

static int load_file(struct stage *stage)
{
	return otte_config_load_file(&stage->config, config_path);
}

static int load_env(struct stage *stage)
{
	return otte_config_load_env(&stage->config);
}

static void after_load(struct stage *stage, int ret)
{
	struct otte_config standard;

	OK(otte_config_init(&standard, sizeof(standard)));
	if (ret) {
		HOLDS(memcmp(&standard, &stage->config, sizeof(standard)) == 0,
		      "a config that did not load has changed");
		return;
	}
	HOLDS(stage->config.tcp_lanes == 3 && !strcmp(stage->config.name, "swept"),
	      "a config that loaded has not changed");
}

/* ---- Engine ---- */

static void before_engine(struct stage *stage)
{
	stage->engine = NULL;
	world_config(&stage->config);
	stage->config.stats_socket = 1;
	stage->config.tcp_workers = 3;
	strcpy(stage->config.key_file, key_path);
	strcpy(stage->config.advertise, "example.invalid");
}

static int create_engine(struct stage *stage)
{
	return otte_engine_create(&stage->config, &stage->engine);
}

static void after_engine(struct stage *stage, int ret)
{
	if (!ret)
		OK(otte_engine_destroy(stage->engine));
}

static void made_engine(struct stage *stage)
{
	before_engine(stage);
	OK(create_engine(stage));
}

static int destroy_engine(struct stage *stage)
{
	return otte_engine_destroy(stage->engine);
}

static void after_destroy_engine(struct stage *stage, int ret)
{
	if (ret)
		OK(otte_engine_destroy(stage->engine));
}

static int close_engine(struct stage *stage)
{
	struct otte_close_report report = { .size = sizeof(report) };

	return otte_engine_close(stage->engine, OTTE_CLOSE_SOURCE | OTTE_CLOSE_REQUESTER, PATIENCE,
				 &report);
}

static void after_close_engine(struct stage *stage, int ret)
{
	if (ret)
		OK(close_engine(stage));
	OK(otte_engine_destroy(stage->engine));
}

static int say_address(struct stage *stage)
{
	char text[OTTE_ADDRESS_MAX];

	return otte_engine_address(stage->world.source, text, sizeof(text));
}

static int say_descriptor(struct stage *stage)
{
	char text[OTTE_DESCRIPTOR_MAX];

	return otte_engine_descriptor(stage->world.source, text, sizeof(text));
}

static int engine_stats(struct stage *stage)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	return otte_engine_stats(stage->world.user, &stats);
}

/* ---- Memory and regions ---- */

static int alloc_mem(struct stage *stage)
{
	return otte_mem_alloc(stage->world.user, 3 << 20, OTTE_MEM_HUGE, &stage->mem);
}

static int adopt_mem(struct stage *stage)
{
	static char bytes[8192];

	return otte_mem_adopt(stage->world.user, bytes, sizeof(bytes), &stage->mem);
}

static int map_mem(struct stage *stage)
{
	int ret, fd = memfd_create("sweep", MFD_CLOEXEC);

	HOLDS(fd >= 0 && ftruncate(fd, 65536) == 0, "memfd");
	ret = otte_mem_map_file(stage->world.user, fd, 0, 0, 0, &stage->mem);
	close(fd);
	return ret;
}

static void after_mem(struct stage *stage, int ret)
{
	if (!ret)
		OK(otte_mem_release(stage->mem));
}

static void made_mem(struct stage *stage)
{
	OK(alloc_mem(stage));
}

static int release_mem(struct stage *stage)
{
	return otte_mem_release(stage->mem);
}

static void after_release_mem(struct stage *stage, int ret)
{
	if (ret)
		OK(otte_mem_release(stage->mem));
}

static int register_regions(struct stage *stage)
{
	struct otte_region_desc descs[3];
	int i;

	for (i = 0; i < 3; i++)
		descs[i] = (struct otte_region_desc){
			.mem = stage->mem, .offset = (uint64_t)i * 4096, .length = 8192,
			.access = OTTE_REMOTE_READ, .name = "one of three",
		};
	return otte_region_register(stage->world.user, descs, 3, stage->regions);
}

static void after_register(struct stage *stage, int ret)
{
	if (!ret)
		OK(otte_region_unregister(stage->regions, 3, PATIENCE, NULL));
	OK(otte_mem_release(stage->mem));
}

static void made_regions(struct stage *stage)
{
	made_mem(stage);
	OK(register_regions(stage));
}

static int unregister_regions(struct stage *stage)
{
	return otte_region_unregister(stage->regions, 3, PATIENCE, NULL);
}

static void after_unregister(struct stage *stage, int ret)
{
	if (ret)
		OK(unregister_regions(stage));
	OK(otte_mem_release(stage->mem));
}

/* ---- Segments ---- */

/* Through an engine that has no connection to it yet. */
static void before_open(struct stage *stage)
{
	world_config(&stage->config);
	stage->config.listen_address[0] = '\0';
	OK(otte_engine_create(&stage->config, &stage->engine));
}

static int open_segment(struct stage *stage)
{
	return otte_segment_open(stage->engine, stage->world.address, OTTE_EPOCH_ANY, PATIENCE,
				 &stage->segment);
}

static void after_open(struct stage *stage, int ret)
{
	/* The same engine can try again. */
	if (ret)
		OK(open_segment(stage));
	OK(otte_segment_close(stage->segment));
	OK(otte_engine_destroy(stage->engine));
}

static void made_segment(struct stage *stage)
{
	before_open(stage);
	OK(open_segment(stage));
}

static int describe_segment(struct stage *stage)
{
	struct otte_region_info row;
	size_t count;

	return otte_segment_describe(stage->segment, PATIENCE, &row, 1, &count);
}

static int segment_peer(struct stage *stage)
{
	struct otte_peer_info info = { .size = sizeof(info) };

	return otte_segment_peer(stage->segment, &info);
}

static int segment_stats(struct stage *stage)
{
	struct otte_stats stats = { .size = sizeof(stats) };

	return otte_segment_stats(stage->segment, PATIENCE, &stats);
}

static void after_ask(struct stage *stage, int ret)
{
	if (ret)
		HOLDS(SOON(describe_segment(stage) == 0), "never again: %s", otte_error_text());
	OK(otte_segment_close(stage->segment));
	OK(otte_engine_destroy(stage->engine));
}

static int close_segment(struct stage *stage)
{
	return otte_segment_close(stage->segment);
}

static void after_close_segment(struct stage *stage, int ret)
{
	if (ret)
		OK(close_segment(stage));
	OK(otte_engine_destroy(stage->engine));
}

/* ---- Batches ---- */

static int create_batch(struct stage *stage)
{
	return otte_batch_create(stage->world.user, 100, &stage->batch);
}

static void after_batch(struct stage *stage, int ret)
{
	if (!ret)
		OK(otte_batch_destroy(stage->batch));
}

static void made_batch(struct stage *stage)
{
	OK(create_batch(stage));
	world_fill(&stage->world);
}

static int submit_some(struct stage *stage)
{
	struct otte_request requests[3];
	int i;

	for (i = 0; i < 3; i++) {
		requests[i] = world_request(&stage->world, i == 1 ? OTTE_WRITE : OTTE_READ);
		if (i == 1)
			requests[i].remote_region = otte_region_id(stage->world.spare);
		requests[i].length = 20000;
		requests[i].local_offset = requests[i].remote_offset = (uint64_t)i * 30000;
	}
	return otte_batch_submit(stage->batch, requests, 3);
}

static void submitted(struct stage *stage)
{
	made_batch(stage);
	OK(submit_some(stage));
}

/* Every request has ended in one way or the other, and says how. */
static void finish_batch(struct stage *stage)
{
	struct otte_batch_status status;
	struct otte_failure failure;
	struct otte_task task;
	uint32_t i;

	OK(otte_batch_wait(stage->batch, PATIENCE));
	OK(otte_batch_poll(stage->batch, &status));
	HOLDS(status.finished == status.submitted, "a finished batch is not");
	for (i = 0; i < status.submitted; i++) {
		OK(otte_batch_task(stage->batch, i, &task));
		HOLDS(task.locally_drained, "request %u is not drained", i);
		HOLDS(task.code ? task.state > OTTE_TASK_COMPLETED :
				  task.state == OTTE_TASK_COMPLETED, "code %d, state %u", task.code,
		      task.state);
		HOLDS(i == 1 || task.remote_effect == OTTE_EFFECT_NONE, "a READ has an effect");
	}
	if (status.failed) {
		OK(otte_batch_failure(stage->batch, &failure));
		HOLDS(failure.code < 0 && failure.text[0], "a failure says nothing");
	}
	OK(otte_batch_destroy(stage->batch));
}

static void after_submit(struct stage *stage, int ret)
{
	struct otte_batch_status status;

	OK(otte_batch_poll(stage->batch, &status));
	HOLDS(status.submitted == (ret ? 0 : 3), "%u were submitted", status.submitted);
	finish_batch(stage);
}

static int wait_batch(struct stage *stage)
{
	return otte_batch_wait(stage->batch, PATIENCE);
}

static int poll_batch(struct stage *stage)
{
	struct otte_batch_status status;
	int ret;

	do {
		ret = otte_batch_poll(stage->batch, &status);
		nap();
	} while (!ret && status.finished != status.submitted);
	return ret;
}

static int cancel_batch(struct stage *stage)
{
	return otte_batch_cancel(stage->batch);
}

static void after_use(struct stage *stage, int ret)
{
	(void)ret;
	finish_batch(stage);
}

static int batch_eventfd(struct stage *stage)
{
	int ret = otte_batch_eventfd(stage->batch);

	return ret < 0 ? ret : 0;
}

static void finished(struct stage *stage)
{
	submitted(stage);
	OK(otte_batch_wait(stage->batch, PATIENCE));
}

static int reset_batch(struct stage *stage)
{
	return otte_batch_reset(stage->batch);
}

static int destroy_batch(struct stage *stage)
{
	return otte_batch_destroy(stage->batch);
}

static void after_destroy_batch(struct stage *stage, int ret)
{
	if (ret)
		OK(destroy_batch(stage));
}

static int create_list(struct stage *stage)
{
	const struct otte_block blocks[3] = { { 0, 0 }, { 30000, 30000 }, { 60000, 60000 } };
	struct otte_request prototype = world_request(&stage->world, OTTE_READ);

	prototype.length = 20000;
	return otte_block_list_create(stage->world.user, &prototype, blocks, 3, &stage->list);
}

static void after_list(struct stage *stage, int ret)
{
	if (!ret)
		OK(otte_block_list_destroy(stage->list));
}

static void made_list(struct stage *stage)
{
	made_batch(stage);
	OK(create_list(stage));
}

static int submit_blocks(struct stage *stage)
{
	return otte_batch_submit_blocks(stage->batch, stage->list, 0, 3);
}

static void after_submit_blocks(struct stage *stage, int ret)
{
	after_submit(stage, ret);
	OK(otte_block_list_destroy(stage->list));
}

static int destroy_list(struct stage *stage)
{
	return otte_block_list_destroy(stage->list);
}

static void after_destroy_list(struct stage *stage, int ret)
{
	if (ret)
		OK(destroy_list(stage));
	OK(otte_batch_destroy(stage->batch));
}

/* ---- Notifications ---- */

static void drain_notifications(struct stage *stage)
{
	static struct otte_notification notification;

	while (otte_notification_next(stage->world.source, &notification) == 0)
		HOLDS(notification.length == 5 && !memcmp(notification.data, "hello", 5),
		      "another notification came than was sent");
}

static int notify(struct stage *stage)
{
	return otte_notify(stage->segment, NULL, "hello", 5);
}

/* What was refused is not delivered later. */
static void after_notify(struct stage *stage, int ret)
{
	static struct otte_notification notification;

	if (!ret) {
		HOLDS(SOON(otte_notification_next(stage->world.source, &notification) == 0),
		      "a notification that was sent has not come");
	} else {
		HOLDS(SOON(notify(stage) == 0), "never again: %s", otte_error_text());
		HOLDS(SOON(otte_notification_next(stage->world.source, &notification) == 0),
		      "a notification that was sent has not come");
		usleep(2000);
		HOLDS(otte_notification_next(stage->world.source, &notification) == -EAGAIN,
		      "a notification came that was refused");
	}
	after_ask(stage, 0);
}

static int notify_tied(struct stage *stage)
{
	return otte_notify(stage->world.segment, stage->batch, "hello", 5);
}

static void after_notify_tied(struct stage *stage, int ret)
{
	(void)ret;
	finish_batch(stage);
	usleep(1000);
	drain_notifications(stage);
}

static void sent_one(struct stage *stage)
{
	struct otte_stats stats = { .size = sizeof(stats) };
	uint64_t before;

	OK(otte_engine_stats(stage->world.source, &stats));
	before = stats.notifications_received;
	OK(otte_notify(stage->world.segment, NULL, "hello", 5));
	HOLDS(SOON(otte_engine_stats(stage->world.source, &stats) == 0 &&
			 stats.notifications_received > before), "no notification");
}

static int next_notification(struct stage *stage)
{
	static struct otte_notification notification;

	return otte_notification_next(stage->world.source, &notification);
}

static void after_next(struct stage *stage, int ret)
{
	(void)ret;
	drain_notifications(stage);
}

static int notification_eventfd(struct stage *stage)
{
	int ret = otte_notification_eventfd(stage->world.source);

	return ret < 0 ? ret : 0;
}

/* ---- What is lent through the module ---- */

static bool borrows(struct otte_batch *batch, const struct otte_request *request)
{
	struct otte_task task;

	OK(otte_batch_reset(batch));
	OK(otte_batch_submit(batch, request, 1));
	OK(otte_batch_wait(batch, PATIENCE));
	OK(otte_batch_task(batch, 0, &task));
	return !task.code && task.transport == OTTE_TRANSPORT_LOCAL;
}

/*
 * One after the other in the caller's thread, which asks, copies and gives back: what it wrote it reads. Ends
 * with the first that fails. A fault that costs the lane for loans may cut one that is under way, which is no
 * failure of the call.
 */
static int run_some(struct otte_batch *batch, struct otte_request request, uint8_t *bytes)
{
	struct otte_task task = { .code = 0 };
	unsigned i, k;
	int ret;

	for (i = 0; i < 8 && !task.code; i++) {
		request.op = i & 1 ? OTTE_READ : OTTE_WRITE;
		memset(bytes, i & 1 ? 0xee : (int)i, request.length);
		ret = otte_batch_run(batch, &request, 1, PATIENCE);
		if (ret < 0)
			return ret;
		OK(otte_batch_task(batch, 0, &task));
		for (k = 0; k < request.length && !task.code; k++)
			HOLDS(bytes[k] == (i & ~1u), "completed without its bytes");
	}
	return fault_struck() && (task.code == -ECONNRESET || task.code == -EKEYREVOKED) ? 0 : task.code;
}

static int run_batch(struct stage *stage)
{
	struct otte_request request = world_request(&stage->world, OTTE_WRITE);

	request.remote_region = otte_region_id(stage->world.spare);
	return run_some(stage->batch, request, stage->world.to + request.local_offset);
}

static void after_run(struct stage *stage, int ret)
{
	struct otte_task task;

	(void)ret;
	OK(otte_batch_wait(stage->batch, PATIENCE));
	if (!otte_batch_task(stage->batch, 0, &task))
		HOLDS(task.locally_drained, "a request is not drained");
	OK(otte_batch_destroy(stage->batch));
}

/* A region of the source's, and a loan of it to the requester. */
static void lent(struct stage *stage)
{
	struct otte_region_desc desc = { .length = 65536, .access = OTTE_REMOTE_READ };
	struct otte_request request = world_request(&stage->world, OTTE_READ);

	OK(otte_mem_alloc(stage->world.source, desc.length, 0, &stage->mem));
	desc.mem = stage->mem;
	OK(otte_region_register(stage->world.source, &desc, 1, stage->regions));
	request.remote_region = otte_region_id(stage->regions[0]);
	request.length = desc.length - 64;
	HOLDS(SOON(borrows(stage->world.batch, &request)), "never lent");
	OK(otte_batch_reset(stage->world.batch));
}

static int unregister_lent(struct stage *stage)
{
	return otte_region_unregister(stage->regions, 1, PATIENCE, NULL);
}

static void after_unregister_lent(struct stage *stage, int ret)
{
	if (ret)
		OK(unregister_lent(stage));
	OK(otte_mem_release(stage->mem));
}

/* What a fault has cut off holds its range for as long as it takes to be sure of its end. */
static bool nobody_uses_spare(const struct world *world)
{
	const struct otte_region *spare = world->spare;
	struct otte_access access;

	if (otte_access_begin(&spare->mem->access, &access, spare->offset, spare->length, true))
		return false;
	otte_access_end(&spare->mem->access, &access);
	return true;
}

/* Another requester, which is lent nothing yet. */
static void ready_to_borrow(struct stage *stage)
{
	struct otte_region_desc desc = { .length = AREA };

	HOLDS(SOON(nobody_uses_spare(&stage->world)), "it stays in use");
	world_config(&stage->config);
	use_borrowing(&stage->config);
	stage->config.listen_address[0] = '\0';
	OK(otte_engine_create(&stage->config, &stage->engine));
	OK(open_segment(stage));
	OK(otte_mem_alloc(stage->engine, AREA, 0, &stage->mem));
	desc.mem = stage->mem;
	OK(otte_region_register(stage->engine, &desc, 1, stage->regions));
	OK(otte_batch_create(stage->engine, 1, &stage->batch));
}

static struct otte_request borrower_request(const struct stage *stage)
{
	struct otte_request request = world_request(&stage->world, OTTE_READ);

	request.segment = stage->segment;
	request.local = stage->regions[0];
	request.remote_region = otte_region_id(stage->world.spare);
	return request;
}

static int borrow_first(struct stage *stage)
{
	struct otte_request request = borrower_request(stage);
	uint8_t *bytes = otte_mem_address(stage->mem);

	return run_some(stage->batch, request, bytes + request.local_offset);
}

static void after_borrow_first(struct stage *stage, int ret)
{
	after_run(stage, ret);
	OK(otte_segment_close(stage->segment));
	OK(otte_region_unregister(stage->regions, 1, PATIENCE, NULL));
	OK(otte_mem_release(stage->mem));
	OK(otte_engine_destroy(stage->engine));
}

/* One that is lent something. */
static void borrowed(struct stage *stage)
{
	struct otte_request request;

	ready_to_borrow(stage);
	request = borrower_request(stage);
	HOLDS(SOON(borrows(stage->batch, &request)), "never lent");
	OK(otte_batch_destroy(stage->batch));
	OK(otte_region_unregister(stage->regions, 1, PATIENCE, NULL));
	OK(otte_mem_release(stage->mem));
}

static int close_requester(struct stage *stage)
{
	struct otte_close_report report = { .size = sizeof(report) };

	return otte_engine_close(stage->engine, OTTE_CLOSE_REQUESTER, PATIENCE, &report);
}

static void after_close_requester(struct stage *stage, int ret)
{
	if (ret)
		OK(close_requester(stage));
	OK(otte_segment_close(stage->segment));
	OK(otte_engine_destroy(stage->engine));
}

/* ---- The sweep ---- */

#define STEP(call, ...) { #call, "otte_" #call, __VA_ARGS__ }

static const struct step steps[] = {
	STEP(config_load_json, before_config, load_json, after_load),
	STEP(config_load_file, before_config, load_file, after_load),
	STEP(config_load_env, before_config, load_env, after_load),
	STEP(engine_create, before_engine, create_engine, after_engine),
	STEP(engine_close, made_engine, close_engine, after_close_engine),
	STEP(engine_destroy, made_engine, destroy_engine, after_destroy_engine),
	STEP(engine_address, NULL, say_address, NULL),
	STEP(engine_descriptor, NULL, say_descriptor, NULL),
	STEP(engine_stats, NULL, engine_stats, NULL),
	STEP(mem_alloc, NULL, alloc_mem, after_mem),
	STEP(mem_adopt, NULL, adopt_mem, after_mem),
	STEP(mem_map_file, NULL, map_mem, after_mem),
	STEP(mem_release, made_mem, release_mem, after_release_mem),
	STEP(region_register, made_mem, register_regions, after_register),
	STEP(region_unregister, made_regions, unregister_regions, after_unregister),
	STEP(segment_open, before_open, open_segment, after_open),
	STEP(segment_describe, made_segment, describe_segment, after_ask),
	STEP(segment_peer, made_segment, segment_peer, after_ask),
	STEP(segment_stats, made_segment, segment_stats, after_ask),
	STEP(segment_close, made_segment, close_segment, after_close_segment),
	STEP(batch_create, NULL, create_batch, after_batch),
	STEP(batch_submit, made_batch, submit_some, after_submit),
	STEP(batch_wait, submitted, wait_batch, after_use),
	STEP(batch_poll, submitted, poll_batch, after_use),
	STEP(batch_cancel, submitted, cancel_batch, after_use),
	STEP(batch_eventfd, made_batch, batch_eventfd, after_use),
	STEP(batch_reset, finished, reset_batch, after_use),
	STEP(batch_destroy, finished, destroy_batch, after_destroy_batch),
	STEP(block_list_create, NULL, create_list, after_list),
	STEP(batch_submit_blocks, made_list, submit_blocks, after_submit_blocks),
	STEP(block_list_destroy, made_list, destroy_list, after_destroy_list),
	STEP(notify, made_segment, notify, after_notify),
	{ "notify_after_a_batch", "otte_notify", submitted, notify_tied, after_notify_tied },
	STEP(notification_next, sent_one, next_notification, after_next),
	STEP(notification_eventfd, NULL, notification_eventfd, NULL),
};

#define STEPS (sizeof(steps) / sizeof(steps[0]))

/* The same through the module, over lanes for loans. */
static const struct step lent_steps[] = {
	{ "lent_batch_run", "otte_batch_run", made_batch, run_batch, after_run },
	{ "lent_first_run", "otte_batch_run", ready_to_borrow, borrow_first, after_borrow_first },
	{ "lent_batch_submit", "otte_batch_submit", made_batch, submit_some, after_submit },
	{ "lent_batch_wait", "otte_batch_wait", submitted, wait_batch, after_use },
	{ "lent_batch_poll", "otte_batch_poll", submitted, poll_batch, after_use },
	{ "lent_batch_cancel", "otte_batch_cancel", submitted, cancel_batch, after_use },
	{ "lent_region_unregister", "otte_region_unregister", lent, unregister_lent, after_unregister_lent },
	{ "lent_segment_close", "otte_segment_close", borrowed, close_segment, after_close_segment },
	{ "lent_engine_close", "otte_engine_close", borrowed, close_requester, after_close_requester },
};

#define LENT_STEPS (sizeof(lent_steps) / sizeof(lent_steps[0]))

/* What faults have cost does not keep the source from lending. */
static bool is_lent(struct world *world)
{
	struct otte_request request = world_request(world, OTTE_READ);
	bool is = borrows(world->batch, &request);

	OK(otte_batch_reset(world->batch));
	return is;
}

/* True: a fault was met. */
static bool one_fault(const struct step *step, enum fault_kind kind, long nth, struct stage *stage)
{
	const char *met;
	char text[256];
	int ret;

	doing_nth = nth;
	alarm(WATCHDOG_S);
	if (step->before)
		step->before(stage);
	fault_arm(kind, FAULT_HERE, nth);
	ret = step->call(stage);
	met = fault_disarm();
	snprintf(text, sizeof(text), "%s", otte_error_text());
	if (getenv("SWEEP_SHOW") && met)
		printf("%s %d: %ld %s: %d %s\n", step->name, kind, nth, met, ret, ret ? text : "");
	HOLDS(ret == 0 || (ret < 0 && ret > -4096), "returned %d", ret);
	if (!met)
		HOLDS(ret == 0, "without a fault: %d: %s", ret, text);
	else if (ret < 0)
		HOLDS(text[0] && !strstr(text, "segment is closed"), "%d with the text '%s'", ret, text);
	if (kind == FAULT_MEMORY && ret < 0)
		HOLDS(ret == -ENOMEM || ret == -EAGAIN, "%d for want of memory", ret);
	if (ret == -ENOMEM)
		seen_as(step->function, ret);
	if (ret && met && !strcmp(met, "pthread_create"))
		HOLDS(strstr(text, strerror(EAGAIN)), "no reason in '%s'", text);
	if (step->after)
		step->after(stage, ret);
	world_is_well(&stage->world);
	return met;
}

static void sweep(const struct step *step, enum fault_kind kind, void (*adjust)(struct otte_config *config))
{
	unsigned fds = count_fds();
	long live = fault_live(), nth = 1;
	struct stage stage;

	memset(&stage, 0, sizeof(stage));
	doing = step->name;
	world_open_adjusted(&stage.world, adjust);
	while (one_fault(step, kind, nth, &stage))
		nth++;
	HOLDS(!adjust || SOON(is_lent(&stage.world)), "nothing is lent any more");
	world_close(&stage.world);
	HOLDS(fault_live() == live, "%ld allocations are left", fault_live() - live);
	HOLDS(count_fds() == fds, "%u descriptors, not %u", count_fds(), fds);
}

static void no_fault_does_harm(void **state)
{
	const struct step *step = *state;

	sweep(step, FAULT_MEMORY, NULL);
	sweep(step, FAULT_RESET, NULL);
	sweep(step, FAULT_SCARCE, NULL);
}

static void no_fault_does_harm_to_what_is_lent(void **state)
{
	const struct step *step = *state;

	have_module(true);
	sweep(step, FAULT_MEMORY, use_borrowing);
	sweep(step, FAULT_RESET, use_borrowing);
	sweep(step, FAULT_SCARCE, use_borrowing);
	sweep(step, FAULT_MODULE, use_borrowing);
	have_no_module();
}

/* ---- In the library's own threads ---- */

/* What a caller may not care for, but has to be told right. */
static bool right_or_told(int ret)
{
	HOLDS(ret == 0 || otte_error_text()[0], "%d without a text", ret);
	return ret == 0;
}

/* With the engine's thread, not the caller, moving the bytes. */
static bool transfers_by_eventfd(struct world *world)
{
	struct otte_request request = world_request(world, OTTE_READ);
	struct pollfd ready = { .events = POLLIN };
	struct otte_task task;
	struct otte_batch *batch;

	OK(otte_batch_create(world->user, 1, &batch));
	ready.fd = otte_batch_eventfd(batch);
	HOLDS(ready.fd >= 0, "%s", otte_error_text());
	world_fill(world);
	memset(&task, 0, sizeof(task));
	if (right_or_told(otte_batch_submit(batch, &request, 1))) {
		HOLDS(poll(&ready, 1, 20000) == 1, "an eventfd says nothing");
		OK(otte_batch_task(batch, 0, &task));
		HOLDS(task.state >= OTTE_TASK_COMPLETED, "an eventfd says too much");
	} else {
		task.code = -ECONNRESET;
	}
	if (task.code && getenv("SWEEP_SHOW"))
		printf("by eventfd: %d %s\n", task.code, otte_error_text());
	OK(otte_batch_destroy(batch));
	return task.code == 0;
}

/* Whoever asks the stats socket gets the whole of an answer, or nothing. */
static bool stats_socket_answers(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char answer[8192];
	int n, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t got = 0;
	ssize_t part;

	n = snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, "otte/%d", (int)getpid());
	HOLDS(connect(fd, (struct sockaddr *)&to,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0,
	      "stats socket: %m");
	while ((part = recv(fd, answer + got, sizeof(answer) - got, 0)) > 0)
		got += (size_t)part;
	close(fd);
	HOLDS(!got || (answer[0] == '{' && answer[got - 1] == '}'), "half an answer");
	return got > 0;
}

/* Tried for so many milliseconds: where it may be lost to a fault, few, so that it is sent again. */
static bool notification_comes(struct world *world, int ms)
{
	static struct otte_notification notification;
	int i;

	if (!right_or_told(otte_notify(world->segment, NULL, "hello", 5)))
		return false;
	for (i = 0; i < ms; i++, usleep(1000))
		if (otte_notification_next(world->source, &notification) == 0)
			return true;
	return false;
}

static bool describes(struct world *world)
{
	struct otte_region_info row;
	struct otte_stats stats = { .size = sizeof(stats) };
	size_t count;

	return right_or_told(otte_segment_describe(world->segment, PATIENCE, &row, 1, &count)) &&
	       right_or_told(otte_segment_stats(world->segment, PATIENCE, &stats));
}

/* A life with the nth call of the others failing, then everything that ought to work. True: one did. */
static bool one_fault_elsewhere(enum fault_kind kind, long nth,
				void (*adjust)(struct otte_config *config))
{
	struct world world;
	const char *met;

	doing_nth = nth;
	alarm(WATCHDOG_S);
	fault_arm(kind, FAULT_ELSEWHERE, nth);
	world_open_adjusted(&world, adjust);
	HOLDS(SOON(describes(&world)), "never described: %s", otte_error_text());
	HOLDS(SOON(notification_comes(&world, 50)), "no notification: %s", otte_error_text());
	HOLDS(SOON(transfers_by_eventfd(&world)), "no transfer: %s", otte_error_text());
	HOLDS(SOON(stats_socket_answers()), "no stats");
	world_is_well(&world);
	met = fault_disarm();
	if (getenv("SWEEP_SHOW") && met)
		printf("%s %d: %ld %s\n", doing, kind, nth, met);
	world_is_well(&world);
	world_close(&world);
	return met;
}

static bool happens(enum fault_kind kind, void (*adjust)(struct otte_config *config))
{
	bool lends = adjust == use_borrowing, by_socket = adjust == use_local || (lends && !module_framed);

	if (kind == FAULT_MODULE)
		return lends;
	/*
	 * Nobody resets a UNIX socket between two processes that live. Were one to be, at the end, what was lent
	 * would stay so until the borrower has ended, as it should: here that is this process.
	 */
	if (by_socket && kind == FAULT_RESET)
		return false;
	/* What is said over it is the same for both kinds of grants. */
	return !lends || !by_socket || kind == FAULT_MEMORY;
}

static void survives_each_fault_elsewhere(void (*adjust)(struct otte_config *config))
{
	static const enum fault_kind kinds[] = { FAULT_MEMORY, FAULT_SCARCE, FAULT_RESET, FAULT_MODULE };
	unsigned fds = count_fds(), i;
	long nth, live = fault_live();

	doing = "elsewhere";
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (nth = 1; happens(kinds[i], adjust) && one_fault_elsewhere(kinds[i], nth, adjust); nth += STRIDE)
			;
	HOLDS(fault_live() == live, "%ld allocations are left", fault_live() - live);
	HOLDS(count_fds() == fds, "%u descriptors, not %u", count_fds(), fds);
}

static void a_fault_in_the_librarys_threads_is_survived(void **state)
{
	(void)state;
	survives_each_fault_elsewhere(use_keys_and_stats);
}

static void a_fault_while_the_kernel_refers_to_memory_is_survived(void **state)
{
	(void)state;
	survives_each_fault_elsewhere(use_zerocopy);
}

static void a_fault_while_memory_is_lent_within_the_host_is_survived(void **state)
{
	(void)state;
	survives_each_fault_elsewhere(use_local);
}

static void a_fault_while_the_module_lends_is_survived(void **state)
{
	(void)state;
	have_module(false);
	survives_each_fault_elsewhere(use_borrowing);
	have_module(true);
	survives_each_fault_elsewhere(use_borrowing);
	have_no_module();
}

/* ---- Calls that have to be asked again ---- */

static void move_the_same_bytes_in_a_storm(void (*adjust)(struct otte_config *config))
{
	static const long every[] = { 2, 3, 5, 11 };
	unsigned i, round;
	struct world world;
	int ret;

	doing = "storm";
	for (i = 0; i < 4; i++) {
		fault_arm(FAULT_STORM, FAULT_ANYWHERE, every[i]);
		world_open_adjusted(&world, adjust);
		for (round = 0; round < 10; round++) {
			doing_nth = round;
			alarm(WATCHDOG_S);
			ret = world_transfer(&world, OTTE_READ);
			HOLDS(ret == 0, "a READ failed: %d: %s", ret, otte_error_text());
			ret = world_transfer(&world, OTTE_WRITE);
			HOLDS(ret == 0, "a WRITE failed: %d: %s", ret, otte_error_text());
			HOLDS(transfers_by_eventfd(&world), "a READ failed");
			HOLDS(describes(&world), "%s", otte_error_text());
			HOLDS(notification_comes(&world, 20000), "no notification");
		}
		fault_disarm();
		HOLDS(fault_count() > 20, "only %lu calls were touched",
		      (unsigned long)fault_count());
		world_is_well(&world);
		world_close(&world);
	}
}

static void calls_that_are_cut_short_move_the_same_bytes(void **state)
{
	(void)state;
	move_the_same_bytes_in_a_storm(use_keys_and_stats);
}

static void calls_that_are_cut_short_move_the_same_bytes_without_a_copy(void **state)
{
	(void)state;
	move_the_same_bytes_in_a_storm(use_zerocopy);
}

/* ---- The first engine of a process ---- */

static pid_t start_fresh(void)
{
	pid_t child = fork();

	if (child)
		return child;
	execl("/proc/self/exe", "sweep", "fresh", key_path, NULL);
	_exit(127);
}

/*
 * In a child that has made none: what a process sets up once must not stay undone because it failed
 * once.
 */
static void what_is_set_up_once_is_tried_again(void **state)
{
	int status;
	pid_t child;

	(void)state;
	child = start_fresh();
	HOLDS(waitpid(child, &status, 0) == child, "waitpid");
	HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

/* ---- The program ---- */

static void hang(int signal)
{
	(void)signal;
	/* NOLINTNEXTLINE(bugprone-signal-handler): the process ends here, come what may */
	dprintf(STDERR_FILENO, "%s, fault %ld: hangs\n", doing, doing_nth);
	_exit(3);
}

static void write_file(char *path, const char *text, size_t length)
{
	int fd = mkstemp(path);

	HOLDS(fd >= 0 && write(fd, text, length) == (ssize_t)length, "%s", path);
	close(fd);
}

/* The first life of this process, with each call of its first otte_engine_create() failing. */
static int be_fresh(char **argv)
{
	enum fault_kind kind;
	struct stage stage;
	const char *met;
	long nth;
	int ret;

	strcpy(key_path, argv[2]);
	have_no_module();
	fault_start();
	alarm(WATCHDOG_S);
	signal(SIGALRM, hang);
	/* System calls first: one of them is what is set up once. */
	for (kind = FAULT_SCARCE; kind >= FAULT_MEMORY; kind--) {
		nth = 1;
		do {
			doing = "a fresh process";
			doing_nth = nth;
			memset(&stage, 0, sizeof(stage));
			before_engine(&stage);
			fault_arm(kind, FAULT_HERE, nth++);
			ret = create_engine(&stage);
			met = fault_disarm();
			HOLDS(met || !ret, "without a fault: %d: %s", ret, otte_error_text());
			after_engine(&stage, ret);
		} while (met);
	}
	world_open(&stage.world);
	world_is_well(&stage.world);
	world_close(&stage.world);
	return 0;
}

static void prepare(void)
{
	static const char key[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
	struct world world;

	signal(SIGALRM, hang);
	alarm(WATCHDOG_S);
	have_no_module();
	fault_start();
	write_file(config_path, json, sizeof(json) - 1);
	write_file(key_path, key, sizeof(key) - 1);
	setenv("OTTE_CONFIG", config_path, 1);
	/* What the process keeps for good is made once. */
	world_open(&world);
	world_close(&world);
}

/* Tests that are no step of steps[]. */
static const struct CMUnitTest others[] = {
	cmocka_unit_test(what_is_set_up_once_is_tried_again),
	cmocka_unit_test(a_fault_in_the_librarys_threads_is_survived),
	cmocka_unit_test(a_fault_while_the_kernel_refers_to_memory_is_survived),
	cmocka_unit_test(a_fault_while_memory_is_lent_within_the_host_is_survived),
	cmocka_unit_test(a_fault_while_the_module_lends_is_survived),
	cmocka_unit_test(calls_that_are_cut_short_move_the_same_bytes),
	cmocka_unit_test(calls_that_are_cut_short_move_the_same_bytes_without_a_copy),
};

#define OTHERS (sizeof(others) / sizeof(others[0]))

static struct CMUnitTest test_of(const struct step *step, CMUnitTestFunction run)
{
	return (struct CMUnitTest){ .name = step->name, .test_func = run, .initial_state = (void *)step };
}

/* Of one test alone, where the environment names it. */
static void add(struct CMUnitTest *tests, size_t *count, struct CMUnitTest test)
{
	const char *only = getenv("SWEEP_ONLY");

	if (!only || !strcmp(only, test.name))
		tests[(*count)++] = test;
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[OTHERS + STEPS + LENT_STEPS];
	size_t i, n = 0;
	int ret;

	if (argc == 3 && !strcmp(argv[1], "fresh"))
		return be_fresh(argv);
	prepare();
	for (i = 0; i < OTHERS; i++)
		add(tests, &n, others[i]);
	for (i = 0; i < STEPS; i++)
		add(tests, &n, test_of(&steps[i], no_fault_does_harm));
	for (i = 0; i < LENT_STEPS; i++)
		add(tests, &n, test_of(&lent_steps[i], no_fault_does_harm_to_what_is_lent));
	ret = _cmocka_run_group_tests("sweep", tests, n, NULL, NULL);
	unlink(config_path);
	unlink(key_path);
	return ret;
}
