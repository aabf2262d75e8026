/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The codes that the man pages promise, each provoked once. seen.h records them; the man pages' check
 * compares the record with the ERRORS sections.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "engine/engine.h"
#include "ledger/module.h"
#include "ledger/open.h"
#include "otte/otte.h"
#include "wrong_peer.h"
#include "seen.h"

#define SIZE (1u << 20)
#define SECOND 1000000000ll

/* A source that publishes `shared` and a requester that opened it. */
struct bench {
	struct otte_engine *source, *user;
	struct otte_mem *there, *here;
	struct otte_region *shared, *local;
	struct otte_segment *segment;
	struct otte_batch *batch;
	struct otte_request request;
};

static struct otte_config config_of(void (*adjust)(struct otte_config *config))
{
	struct otte_config config;

	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	config.stats_socket = 0;
	if (adjust)
		adjust(&config);
	return config;
}

static struct otte_region *view(struct otte_engine *engine, uint32_t access, struct otte_mem **mem)
{
	struct otte_region_desc desc = { .length = SIZE, .access = access };
	struct otte_region *region;

	assert_int_equal(otte_mem_alloc(engine, SIZE, 0, mem), 0);
	desc.mem = *mem;
	assert_int_equal(otte_region_register(engine, &desc, 1, &region), 0);
	return region;
}

static void open_bench(struct bench *b, uint32_t access, void (*adjust)(struct otte_config *config))
{
	struct otte_config config = config_of(adjust);
	char descriptor[OTTE_DESCRIPTOR_MAX];
	struct otte_region_info row;
	size_t count;

	assert_int_equal(otte_engine_create(&config, &b->source), 0);
	assert_int_equal(otte_engine_create(&config, &b->user), 0);
	b->shared = view(b->source, access, &b->there);
	b->local = view(b->user, OTTE_LOCAL_ONLY, &b->here);
	assert_int_equal(otte_engine_descriptor(b->source, descriptor, sizeof(descriptor)), 0);
	assert_int_equal(otte_segment_open(b->user, descriptor, 0, 30 * SECOND, &b->segment), 0);
	assert_int_equal(otte_segment_describe(b->segment, 30 * SECOND, &row, 1, &count), 0);
	assert_int_equal(otte_batch_create(b->user, 4, &b->batch), 0);
	b->request = (struct otte_request){
		.segment = b->segment,
		.local = b->local,
		.remote_region = otte_region_id(b->shared),
		.length = 4096,
	};
}

static void close_bench(struct bench *b)
{
	assert_int_equal(otte_batch_destroy(b->batch), 0);
	assert_int_equal(otte_segment_close(b->segment), 0);
	assert_int_equal(otte_region_unregister(&b->local, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(b->here), 0);
	assert_int_equal(otte_region_unregister(&b->shared, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(b->there), 0);
	assert_int_equal(otte_engine_destroy(b->user), 0);
	assert_int_equal(otte_engine_destroy(b->source), 0);
}

static void a_null_argument_is_malformed(void **state)
{
	const struct otte_region_desc desc = { .length = 1 };
	struct otte_region *none = NULL;
	struct otte_block block = { 0 };
	struct otte_block_list *list;
	struct bench b;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	assert_int_equal(otte_config_init(NULL, 0), -EINVAL);
	assert_int_equal(otte_config_load_json(NULL, "{}", 2), -EINVAL);
	assert_int_equal(otte_config_load_file(NULL, "x"), -EINVAL);
	assert_int_equal(otte_config_load_env(NULL), -EINVAL);
	assert_int_equal(otte_engine_create(NULL, NULL), -EINVAL);
	assert_int_equal(otte_engine_close(NULL, OTTE_CLOSE_SOURCE, 0, NULL), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_engine_close: engine must not be NULL");
	assert_int_equal(otte_engine_close(b.user, 0, 0, NULL), -EINVAL);
	assert_int_equal(otte_engine_close(b.user, 4, 0, NULL), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_engine_close: directions are 0x4, allowed are bits of 0x3");
	assert_int_equal(otte_engine_destroy(NULL), 0);
	assert_int_equal(otte_engine_address(NULL, NULL, 0), -EINVAL);
	assert_int_equal(otte_engine_descriptor(NULL, NULL, 0), -EINVAL);
	assert_int_equal(otte_engine_stats(NULL, NULL), -EINVAL);
	assert_int_equal(otte_engine_nics(NULL, NULL, 0, NULL), -EINVAL);
	assert_int_equal(otte_engine_nics(b.user, NULL, 1, &(size_t){ 0 }), -EINVAL);
	assert_int_equal(otte_mem_alloc(NULL, 1, 0, NULL), -EINVAL);
	assert_int_equal(otte_mem_alloc(b.user, 0, 0, &b.here), -EINVAL);
	assert_int_equal(otte_mem_adopt(NULL, NULL, 1, NULL), -EINVAL);
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address near the end of all */
	assert_int_equal(otte_mem_adopt(b.user, (void *)(UINTPTR_MAX - 4096), 8192, &b.there), -EINVAL);
	assert_non_null(strstr(otte_error_text(), "8192 bytes at 0xffffffffffffefff wrap around"));
	assert_int_equal(otte_mem_map_file(NULL, 0, 0, 0, 0, NULL), -EINVAL);
	assert_int_equal(otte_mem_release(NULL), -EINVAL);
	assert_int_equal(otte_region_register(NULL, NULL, 1, NULL), -EINVAL);
	assert_string_equal(otte_error_text(),
			    "otte_region_register: engine, descs and regions must not be NULL");
	assert_int_equal(otte_region_register(b.user, &desc, 0, &none), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_region_register: count must not be 0");
	assert_int_equal(otte_region_unregister(NULL, 1, 0, NULL), -EINVAL);
	assert_int_equal(otte_region_unregister(&none, 1, 0, NULL), 0);
	assert_int_equal(otte_segment_open(NULL, NULL, 0, 0, NULL), -EINVAL);
	assert_int_equal(otte_segment_close(NULL), -EINVAL);
	assert_int_equal(otte_segment_describe(NULL, 0, NULL, 0, NULL), -EINVAL);
	assert_int_equal(otte_segment_peer(b.segment, NULL), -EINVAL);
	assert_int_equal(otte_segment_stats(b.segment, 0, NULL), -EINVAL);
	assert_int_equal(otte_batch_create(NULL, 1, NULL), -EINVAL);
	assert_int_equal(otte_batch_submit(NULL, &b.request, 1), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_batch_submit: batch must not be NULL");
	assert_int_equal(otte_batch_submit(b.batch, NULL, 1), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_batch_submit: requests must not be NULL");
	assert_int_equal(otte_batch_submit(b.batch, &b.request, 0), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_batch_submit: count must not be 0");
	assert_int_equal(otte_batch_run(NULL, &b.request, 1, 0), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_batch_run: batch must not be NULL");
	assert_int_equal(otte_batch_run(b.batch, NULL, 1, 0), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_batch_run: requests must not be NULL");
	assert_int_equal(otte_batch_run(b.batch, &b.request, 0, 0), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_batch_run: count must not be 0");
	assert_int_equal(otte_batch_wait(NULL, 0), -EINVAL);
	assert_int_equal(otte_batch_poll(NULL, NULL), -EINVAL);
	assert_int_equal(otte_batch_eventfd(NULL), -EINVAL);
	assert_int_equal(otte_batch_cancel(NULL), -EINVAL);
	assert_int_equal(otte_batch_task(NULL, 0, NULL), -EINVAL);
	assert_int_equal(otte_batch_failure(NULL, NULL), -EINVAL);
	assert_int_equal(otte_batch_reset(NULL), -EINVAL);
	assert_int_equal(otte_batch_destroy(NULL), 0);
	assert_int_equal(otte_block_list_create(NULL, &b.request, &block, 1, NULL), -EINVAL);
	assert_string_equal(otte_error_text(),
			    "otte_block_list_create: engine, prototype, blocks and list must not be NULL");
	assert_int_equal(otte_block_list_create(b.user, &b.request, &block, 0, &list), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_block_list_create: count must not be 0");
	assert_int_equal(otte_batch_submit_blocks(b.batch, NULL, 0, 1), -EINVAL);
	assert_string_equal(otte_error_text(), "otte_batch_submit_blocks: batch and list must not be NULL");
	assert_int_equal(otte_block_list_destroy(NULL), 0);
	assert_int_equal(otte_notify(NULL, NULL, "x", 1), -EINVAL);
	assert_int_equal(otte_notification_next(NULL, NULL), -EINVAL);
	assert_int_equal(otte_notification_eventfd(NULL), -EINVAL);
	close_bench(&b);
}

/* In the child: how many calls did not answer -EOWNERDEAD. */
static int calls_that_do_not_know_the_fork(struct bench *b, struct otte_block_list *list)
{
	static struct otte_notification notification;
	struct otte_peer_info peer = { .size = sizeof(peer) };
	struct otte_stats stats = { .size = sizeof(stats) };
	struct otte_region_desc desc = { .mem = b->here, .length = 1 };
	struct otte_region_info row;
	struct otte_batch_status status;
	struct otte_block block = { 0 };
	struct otte_failure failure;
	struct otte_segment *segment;
	struct otte_block_list *other;
	struct otte_region *region;
	struct otte_batch *batch;
	struct otte_task task;
	struct otte_mem *mem;
	char text[OTTE_DESCRIPTOR_MAX];
	size_t count;
	int bad = 0, fd = memfd_create("fork", 0);

	bad += otte_engine_close(b->user, OTTE_CLOSE_SOURCE, 0, NULL) != -EOWNERDEAD;
	bad += otte_engine_destroy(b->user) != -EOWNERDEAD;
	bad += otte_engine_address(b->user, text, sizeof(text)) != -EOWNERDEAD;
	bad += otte_engine_descriptor(b->user, text, sizeof(text)) != -EOWNERDEAD;
	bad += otte_engine_stats(b->user, &stats) != -EOWNERDEAD;
	bad += otte_engine_nics(b->user, NULL, 0, &count) != -EOWNERDEAD;
	bad += otte_mem_alloc(b->user, 1, 0, &mem) != -EOWNERDEAD;
	bad += otte_mem_adopt(b->user, text, 1, &mem) != -EOWNERDEAD;
	bad += otte_mem_map_file(b->user, fd, 0, 0, 0, &mem) != -EOWNERDEAD;
	bad += otte_mem_release(b->here) != -EOWNERDEAD;
	bad += otte_region_register(b->user, &desc, 1, &region) != -EOWNERDEAD;
	bad += otte_region_unregister(&b->local, 1, 0, NULL) != -EOWNERDEAD;
	bad += otte_segment_open(b->user, "127.0.0.1:1", 0, 0, &segment) != -EOWNERDEAD;
	bad += otte_segment_close(b->segment) != -EOWNERDEAD;
	bad += otte_segment_describe(b->segment, 0, &row, 1, &count) != -EOWNERDEAD;
	bad += otte_segment_peer(b->segment, &peer) != -EOWNERDEAD;
	bad += otte_segment_stats(b->segment, 0, &stats) != -EOWNERDEAD;
	bad += otte_batch_create(b->user, 1, &batch) != -EOWNERDEAD;
	bad += otte_batch_submit(b->batch, &b->request, 1) != -EOWNERDEAD;
	bad += otte_batch_run(b->batch, &b->request, 1, 0) != -EOWNERDEAD;
	bad += otte_batch_wait(b->batch, 0) != -EOWNERDEAD;
	bad += otte_batch_poll(b->batch, &status) != -EOWNERDEAD;
	bad += otte_batch_eventfd(b->batch) != -EOWNERDEAD;
	bad += otte_batch_cancel(b->batch) != -EOWNERDEAD;
	bad += otte_batch_task(b->batch, 0, &task) != -EOWNERDEAD;
	bad += otte_batch_failure(b->batch, &failure) != -EOWNERDEAD;
	bad += otte_batch_reset(b->batch) != -EOWNERDEAD;
	bad += otte_batch_destroy(b->batch) != -EOWNERDEAD;
	bad += otte_block_list_create(b->user, &b->request, &block, 1, &other) != -EOWNERDEAD;
	bad += otte_batch_submit_blocks(b->batch, list, 0, 1) != -EOWNERDEAD;
	bad += otte_block_list_destroy(list) != -EOWNERDEAD;
	bad += otte_notify(b->segment, NULL, "x", 1) != -EOWNERDEAD;
	bad += otte_notification_next(b->user, &notification) != -EOWNERDEAD;
	bad += otte_notification_eventfd(b->user) != -EOWNERDEAD;
	return bad;
}

static void a_forked_child_gets_an_error_from_every_call(void **state)
{
	struct otte_block block = { 0 };
	struct otte_block_list *list;
	struct bench b;
	pid_t child;
	int status;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	assert_int_equal(otte_block_list_create(b.user, &b.request, &block, 1, &list), 0);
	child = fork();
	if (!child)
		_exit(calls_that_do_not_know_the_fork(&b, list));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(otte_batch_submit(b.batch, &b.request, 1), 0);
	assert_int_equal(otte_batch_wait(b.batch, 30 * SECOND), 0);
	assert_int_equal(otte_block_list_destroy(list), 0);
	close_bench(&b);
}

static void a_config_that_cannot_be_is_refused(void **state)
{
	static char huge[(1 << 20) + 2];
	struct otte_config config = config_of(NULL);
	char path[] = "/tmp/otte-errors-XXXXXX";
	struct otte_engine *engine;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	memset(huge, ' ', sizeof(huge));
	assert_int_equal(otte_config_load_json(&config, huge, sizeof(huge)), -E2BIG);
	assert_int_equal(otte_config_load_file(&config, "/nonexistent/otte.json"), -ENOENT);
	assert_int_equal(otte_config_load_file(&config, "/"), -EISDIR);
	assert_int_equal(truncate(path, sizeof(huge)), 0);
	assert_int_equal(otte_config_load_file(&config, path), -E2BIG);
	setenv("OTTE_CONFIG", path, 1);
	assert_int_equal(otte_config_load_env(&config), -E2BIG);
	setenv("OTTE_CONFIG", "/nonexistent/otte.json", 1);
	assert_int_equal(otte_config_load_env(&config), -ENOENT);
	unsetenv("OTTE_CONFIG");

	config.tcp_lanes = 99;
	assert_int_equal(otte_engine_create(&config, &engine), -EINVAL);
	config = config_of(NULL);
	strcpy(config.listen_address, "192.0.2.1");
	assert_int_equal(otte_engine_create(&config, &engine), -EADDRNOTAVAIL);
	config = config_of(NULL);
	strcpy(config.key_file, "/nonexistent/otte.key");
	assert_int_equal(otte_engine_create(&config, &engine), -ENOENT);
	assert_int_equal(chmod(path, 0644), 0);
	strcpy(config.key_file, path);
	assert_int_equal(otte_engine_create(&config, &engine), -EPERM);
	unlink(path);
}

/* ---- Nodes that are not what `ledger = kernel` wants ---- */

static const char *node; /* stands for the module's */
static struct otte_module_facts facts;

int __real_otte_ledger_node_open(const char *path);
int __wrap_otte_ledger_node_open(const char *path);
int __wrap_otte_module_query(int fd, struct otte_module_facts *out);

static int init_code; /* what the module says to a new client */

int __wrap_otte_module_client_init(int fd, const struct otte_module_init *init, uint64_t *client,
				   uint64_t *bytes);
int __wrap_otte_module_client_init(int fd, const struct otte_module_init *init, uint64_t *client,
				   uint64_t *bytes)
{
	(void)fd;
	(void)init;
	*client = *bytes = 0;
	return init_code;
}

int __wrap_otte_ledger_node_open(const char *path)
{
	return __real_otte_ledger_node_open(node ? node : path);
}

int __wrap_otte_module_query(int fd, struct otte_module_facts *out)
{
	(void)fd;
	*out = facts;
	return 0;
}

static void expect_no_kernel_ledger(int code, const char *part)
{
	struct otte_config config = config_of(NULL);
	struct otte_engine *engine = (struct otte_engine *)1;

	config.ledger = OTTE_LEDGER_KERNEL;
	assert_int_equal(otte_engine_create(&config, &engine), code);
	assert_null(engine);
	if (!strstr(otte_error_text(), part))
		fail_msg("%s: %s", otte_error_text(), part);
}

static void a_kernel_ledger_that_cannot_be_had_is_refused_by_name(void **state)
{
	char path[] = "/tmp/otte-errors-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	node = path;
	expect_no_kernel_ledger(-ENODEV, path);
	assert_int_equal(chmod(path, 0), 0);
	if (!geteuid())
		assert_int_equal(seteuid(65534), 0);
	expect_no_kernel_ledger(-EACCES, "no permission to read and write it");
	assert_int_equal(seteuid(getuid()), 0);
	unlink(path);
	expect_no_kernel_ledger(-ENODEV, "no such device");
	node = "/dev/null";
	facts.revision = 2;
	expect_no_kernel_ledger(-EPROTONOSUPPORT, "revision 2 of the ABI, this library 1");
	facts.revision = 1;
	facts.event_bytes = 1024;
	facts.features = ~(uint64_t)OTTE_MODULE_FEAT_STANDING;
	expect_no_kernel_ledger(-EPROTONOSUPPORT, "lacks feature STANDING (bit 6)");
	facts.features = ~(uint64_t)OTTE_MODULE_FEAT_STANDING_OFFER; /* without which it does */
	init_code = -EDQUOT;
	expect_no_kernel_ledger(-EDQUOT, "limit_user/clients, limit_cgroup/clients or limit_module");
	init_code = -ENOSPC; /* of what can be charged */
	expect_no_kernel_ledger(-EDQUOT, "more cgroups and user namespaces, one inside the other");
	init_code = -ESHUTDOWN;
	expect_no_kernel_ledger(-ESHUTDOWN, "a client: the module admits nothing new, it is drained");
	node = NULL;
}

static void an_address_is_taken_once(void **state)
{
	struct otte_config config = config_of(NULL);
	struct otte_engine *first, *second;
	char text[OTTE_ADDRESS_MAX], descriptor[OTTE_DESCRIPTOR_MAX];

	(void)state;
	assert_int_equal(otte_engine_create(&config, &first), 0);
	assert_int_equal(otte_engine_address(first, text, 3), -ENOSPC);
	assert_int_equal(otte_engine_descriptor(first, text, 3), -ENOSPC);
	assert_int_equal(otte_engine_address(first, text, sizeof(text)), 0);
	config.listen_port = (uint32_t)atoi(strrchr(text, ':') + 1);
	assert_int_equal(otte_engine_create(&config, &second), -EADDRINUSE);
	config.listen_address[0] = 0;
	config.listen_port = 0;
	assert_int_equal(otte_engine_create(&config, &second), 0);
	assert_int_equal(otte_engine_address(second, text, sizeof(text)), -ENOTCONN);
	assert_int_equal(otte_engine_descriptor(second, descriptor, sizeof(descriptor)), -ENOTCONN);
	assert_int_equal(otte_engine_destroy(second), 0);
	assert_int_equal(otte_engine_destroy(first), 0);
}

static void what_is_in_use_is_not_given_back(void **state)
{
	struct bench b;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	assert_int_equal(otte_mem_release(b.here), -EBUSY);
	assert_int_equal(otte_engine_destroy(b.user), -EBUSY);
	assert_int_equal(otte_mem_adopt(b.user, otte_mem_address(b.here), 1, &b.there), -EEXIST);
	close_bench(&b);
}

static void a_file_must_be_a_file_and_open_for_it(void **state)
{
	struct otte_config config = config_of(NULL);
	struct otte_region_desc desc = { .length = 4096, .access = OTTE_REMOTE_WRITE };
	struct otte_region *region;
	struct otte_engine *engine;
	struct otte_mem *mem;
	int fd, rc;

	(void)state;
	assert_int_equal(otte_engine_create(&config, &engine), 0);
	assert_int_equal(otte_mem_map_file(engine, -1, 0, 0, 0, &mem), -EBADF);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	rc = otte_mem_map_file(engine, fd, 0, 4096, 0, &mem);
	assert_int_equal(rc, -EACCES);
	assert_int_equal(otte_mem_map_file(engine, fd, 1, 0, 0, &mem), -EINVAL);
	assert_int_equal(otte_mem_map_file(engine, fd, 0, 4096, OTTE_MEM_READONLY, &mem), 0);
	desc.mem = mem;
	assert_int_equal(otte_region_register(engine, &desc, 1, &region), -EACCES);
	desc.length = 1 << 20;
	desc.access = OTTE_REMOTE_READ;
	assert_int_equal(otte_region_register(engine, &desc, 1, &region), -ERANGE);
	assert_int_equal(otte_mem_release(mem), 0);
	close(fd);
	assert_int_equal(otte_mem_alloc(engine, 1ull << 60, 0, &mem), -ENOMEM);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

static void one_region_and_one_request(struct otte_config *config)
{
	config->max_regions = 1;
	config->max_requests = 4;
	config->max_bytes = 64 << 10;
	config->max_notifications = 1;
}

static void a_budget_that_is_full_refuses(void **state)
{
	struct otte_region_desc desc = { .length = 1 };
	struct otte_block blocks[5] = { { 0 } };
	struct otte_block_list *list;
	struct otte_region *region;
	struct bench b;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, one_region_and_one_request);
	desc.mem = b.here;
	assert_int_equal(otte_region_register(b.user, &desc, 1, &region), -EDQUOT);
	b.request.length = 65 << 10;
	assert_int_equal(otte_batch_submit(b.batch, &b.request, 1), -EDQUOT);
	assert_int_equal(otte_batch_run(b.batch, &b.request, 1, 0), -EDQUOT);
	assert_int_equal(otte_block_list_create(b.user, &b.request, blocks, 5, &list), -EDQUOT);
	assert_int_equal(otte_block_list_create(b.user, &b.request, blocks, 1, &list), 0);
	assert_int_equal(otte_batch_submit_blocks(b.batch, list, 0, 1), -EDQUOT);
	assert_int_equal(otte_batch_submit_blocks(b.batch, list, 1, 1), -ERANGE);
	assert_int_equal(otte_block_list_destroy(list), 0);
	close_bench(&b);
}

static void a_request_that_cannot_be_served_is_refused(void **state)
{
	struct otte_request pair[2];
	struct otte_block block = { 0 }, far = { .local_offset = SIZE };
	struct otte_block twice[2] = { { 0 } };
	struct otte_block_list *list;
	struct otte_failure failure;
	struct otte_task task;
	struct bench b;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	pair[0] = pair[1] = b.request;
	assert_int_equal(otte_batch_submit(b.batch, pair, 2), -EBUSY);
	pair[0] = b.request;
	pair[0].length = SIZE + 1;
	assert_int_equal(otte_batch_submit(b.batch, pair, 1), -ERANGE);
	pair[0] = b.request;
	pair[0].op = OTTE_WRITE;
	assert_int_equal(otte_batch_submit(b.batch, pair, 1), -EACCES);
	assert_int_equal(otte_block_list_create(b.user, pair, &block, 1, &list), -EACCES);
	assert_int_equal(otte_block_list_create(b.user, &b.request, &far, 1, &list), -ERANGE);
	pair[0] = b.request;
	pair[0].transport = OTTE_TRANSPORT_RDMA;
	assert_int_equal(otte_batch_submit(b.batch, pair, 1), -ENOSYS);
	assert_int_equal(otte_block_list_create(b.user, pair, &block, 1, &list), -ENOSYS);
	assert_int_equal(otte_block_list_create(b.user, &b.request, twice, 2, &list), 0);
	assert_int_equal(otte_batch_submit_blocks(b.batch, list, 0, 2), -EBUSY);
	assert_int_equal(otte_block_list_destroy(list), 0);
	assert_int_equal(otte_batch_failure(b.batch, &failure), -ENOENT);
	assert_int_equal(otte_batch_task(b.batch, 0, &task), -EINVAL);
	close_bench(&b);
}

/* Asks until another thread is waiting in the call; then the peer goes, and with it what is waited for. */
struct asked {
	struct otte_engine *engine;
	struct wrong_peer *peer;
	int rc;
};

static void *ask_to_close(void *arg)
{
	struct asked *asked = arg;

	do
		asked->rc = otte_engine_close(asked->engine, OTTE_CLOSE_REQUESTER, 0, NULL);
	while (asked->rc == -ETIMEDOUT);
	wrong_peer_end(asked->peer);
	return NULL;
}

/* Of a peer that does not answer. */
static void what_a_transfer_uses_stays_until_it_ends(void **state)
{
	struct otte_region_desc desc = { .length = SIZE };
	struct otte_segment *segment;
	struct otte_block block = { 0 };
	struct otte_block_list *list;
	struct wrong_peer peer;
	struct otte_region *near;
	struct otte_mem *near_mem;
	struct bench b;
	struct asked asked;
	pthread_t asker;
	int rc;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	wrong_peer_start(&peer, WRONG_DEAF);
	assert_int_equal(otte_segment_open(b.user, peer.address, 0, 30 * SECOND, &segment), 0);
	assert_int_equal(otte_mem_alloc(b.user, SIZE, 0, &near_mem), 0);
	desc.mem = near_mem;
	assert_int_equal(otte_region_register(b.user, &desc, 1, &near), 0);
	b.request.segment = segment;
	b.request.local = near;
	assert_int_equal(otte_block_list_create(b.user, &b.request, &block, 1, &list), 0);

	assert_int_equal(otte_batch_run(b.batch, &b.request, 1, 0), -ETIMEDOUT);
	assert_int_equal(otte_batch_wait(b.batch, 0), -ETIMEDOUT);
	assert_int_equal(otte_batch_run(b.batch, &b.request, 1, 0), -EBUSY);
	assert_int_equal(otte_batch_reset(b.batch), -EBUSY);
	assert_int_equal(otte_batch_destroy(b.batch), -EBUSY);
	assert_int_equal(otte_segment_close(segment), -EBUSY);
	assert_int_equal(otte_batch_submit(b.batch, &b.request, 1), -EBUSY);
	assert_int_equal(otte_region_unregister(&near, 1, 0, NULL), -ETIMEDOUT);
	assert_int_equal(otte_batch_submit(b.batch, &b.request, 1), -ENOENT);
	assert_int_equal(otte_batch_submit_blocks(b.batch, list, 0, 1), -ENOENT);
	assert_int_equal(otte_engine_close(b.user, OTTE_CLOSE_REQUESTER, 0, NULL), -ETIMEDOUT);
	asked = (struct asked){ .engine = b.user, .peer = &peer };
	assert_int_equal(pthread_create(&asker, NULL, ask_to_close, &asked), 0);
	do /* the other one may be in its call just now */
		rc = otte_engine_close(b.user, OTTE_CLOSE_REQUESTER, 60 * SECOND, NULL);
	while (rc == -EALREADY);
	assert_int_equal(rc, 0);
	pthread_join(asker, NULL);
	assert_int_equal(asked.rc, -EALREADY);

	assert_int_equal(otte_block_list_destroy(list), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	assert_int_equal(otte_region_unregister(&near, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(near_mem), 0);
	close_bench(&b);
}

/* The source goes and nobody, or another engine, answers where it was. */
static void a_peer_that_went_is_not_another_one(void **state)
{
	static struct otte_region_info row;
	struct otte_stats stats = { .size = sizeof(stats) };
	struct otte_config config = config_of(NULL);
	char address[OTTE_ADDRESS_MAX];
	struct otte_block block = { 0 };
	struct otte_block_list *list;
	struct otte_engine *other;
	struct bench b;
	size_t count;
	int i, rc = 0;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	assert_int_equal(otte_block_list_create(b.user, &b.request, &block, 1, &list), 0);
	assert_int_equal(otte_engine_address(b.source, address, sizeof(address)), 0);
	assert_int_equal(otte_region_unregister(&b.shared, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(b.there), 0);
	assert_int_equal(otte_engine_destroy(b.source), 0);
	for (i = 0; i < 2000 && rc != -ECONNRESET; i++, usleep(10000))
		rc = otte_segment_describe(b.segment, SECOND, &row, 1, &count);
	assert_int_equal(rc, -ECONNRESET);
	assert_int_equal(otte_segment_stats(b.segment, SECOND, &stats), -ECONNRESET);
	assert_int_equal(otte_batch_submit(b.batch, &b.request, 1), -ECONNRESET);
	assert_int_equal(otte_batch_run(b.batch, &b.request, 1, 0), -ECONNRESET);
	assert_int_equal(otte_batch_submit_blocks(b.batch, list, 0, 1), -ECONNRESET);
	assert_int_equal(otte_notify(b.segment, NULL, "x", 1), -ECONNRESET);

	config.listen_port = (uint32_t)atoi(strrchr(address, ':') + 1);
	assert_int_equal(otte_engine_create(&config, &other), 0);
	for (i = 0; i < 2000 && rc != -ESTALE; i++, usleep(10000))
		rc = otte_segment_describe(b.segment, SECOND, &row, 1, &count);
	assert_int_equal(rc, -ESTALE);
	assert_int_equal(otte_segment_stats(b.segment, SECOND, &stats), -ESTALE);
	assert_int_equal(otte_batch_submit(b.batch, &b.request, 1), -ESTALE);
	assert_int_equal(otte_batch_run(b.batch, &b.request, 1, 0), -ESTALE);
	assert_int_equal(otte_batch_submit_blocks(b.batch, list, 0, 1), -ESTALE);
	assert_int_equal(otte_notify(b.segment, NULL, "x", 1), -ESTALE);

	assert_int_equal(otte_block_list_destroy(list), 0);
	assert_int_equal(otte_batch_destroy(b.batch), 0);
	assert_int_equal(otte_segment_close(b.segment), 0);
	assert_int_equal(otte_region_unregister(&b.local, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(b.here), 0);
	assert_int_equal(otte_engine_destroy(b.user), 0);
	assert_int_equal(otte_engine_destroy(other), 0);
}

static void an_endpoint_that_is_none_is_refused(void **state)
{
	struct otte_segment *segment;
	char text[OTTE_ADDRESS_MAX];
	struct bench b;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	assert_int_equal(otte_segment_open(b.user, "no port", 0, SECOND, &segment), -EINVAL);
	assert_int_equal(otte_segment_open(b.user, "nowhere.invalid:1", 0, SECOND, &segment),
			 -EHOSTUNREACH);
	assert_int_equal(otte_segment_open(b.user, "127.0.0.1:1", 0, SECOND, &segment), -ECONNREFUSED);
	assert_int_equal(otte_engine_address(b.source, text, sizeof(text)), 0);
	assert_int_equal(otte_segment_open(b.user, text, 12345, SECOND, &segment), -ESTALE);
	close_bench(&b);
}

static void a_notification_tied_to_a_failed_batch_is_not_sent(void **state)
{
	struct otte_task task;
	struct bench b;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	b.request.remote_region = 1ull << 40;
	assert_int_equal(otte_batch_submit(b.batch, &b.request, 1), 0);
	assert_int_equal(otte_batch_wait(b.batch, 30 * SECOND), 0);
	assert_int_equal(otte_batch_task(b.batch, 0, &task), 0);
	assert_int_equal(task.code, -ENOENT);
	assert_int_equal(otte_notify(b.segment, b.batch, "x", 1), -ECANCELED);
	close_bench(&b);
}

/* A listener of plain sockets and its address. */
static int listen_plainly(char *address, size_t size)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &length), 0);
	snprintf(address, size, "127.0.0.1:%u", ntohs(in.sin_port));
	return fd;
}

struct answer {
	int listener;
	const char *text; /* "": hang up at once */
};

/* Whoever comes, until the listener is shut down: the port may have been another program's before. */
static void *answer_all(void *arg)
{
	struct answer *answer = arg;
	char dropped[256];
	int fd;

	while ((fd = accept(answer->listener, NULL, NULL)) >= 0) {
		/* Until the other side has hung up: closed with words unread, a socket takes back its own. */
		if (*answer->text && send(fd, answer->text, strlen(answer->text), MSG_NOSIGNAL) > 0)
			while (recv(fd, dropped, sizeof(dropped), 0) > 0)
				;
		close(fd);
	}
	return NULL;
}

static int open_one_that_says(struct otte_engine *engine, const char *text)
{
	char address[OTTE_ADDRESS_MAX];
	struct answer answer = { .listener = listen_plainly(address, sizeof(address)), .text = text };
	struct otte_segment *segment;
	pthread_t thread;
	int rc;

	assert_int_equal(pthread_create(&thread, NULL, answer_all, &answer), 0);
	rc = otte_segment_open(engine, address, 0, 5 * SECOND, &segment);
	shutdown(answer.listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(answer.listener);
	return rc;
}

static void who_does_not_speak_the_protocol_is_no_peer(void **state)
{
	static char garbage[4096];
	struct otte_config config = config_of(NULL);
	struct otte_segment *segment;
	char address[OTTE_ADDRESS_MAX];
	struct otte_engine *engine;
	int listener = listen_plainly(address, sizeof(address));

	(void)state;
	memset(garbage, 'x', sizeof(garbage) - 1);
	assert_int_equal(otte_engine_create(&config, &engine), 0);
	assert_int_equal(otte_segment_open(engine, address, 0, SECOND / 20, &segment), -ETIMEDOUT);
	close(listener);
	assert_int_equal(open_one_that_says(engine, ""), -ECONNRESET);
	assert_int_equal(open_one_that_says(engine, garbage), -EPROTO);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

static void a_peer_of_another_version_is_refused_and_both_are_named(void **state)
{
	struct otte_config config = config_of(NULL);
	struct otte_segment *segment;
	struct otte_engine *engine;
	struct wrong_peer peer;

	(void)state;
	assert_int_equal(otte_engine_create(&config, &engine), 0);
	wrong_peer_start(&peer, WRONG_VERSION);
	assert_int_equal(otte_segment_open(engine, peer.address, 0, 5 * SECOND, &segment),
			 -EPROTONOSUPPORT);
	assert_non_null(strstr(otte_error_text(), "wire version 3, this library 2"));
	wrong_peer_end(&peer);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

/* An engine without a listener and a segment of a wrong peer. */
static void open_wrong(enum wrong_way way, struct wrong_peer *peer, struct otte_engine **engine,
		       struct otte_segment **segment)
{
	struct otte_config config = config_of(NULL);

	config.listen_address[0] = '\0';
	assert_int_equal(otte_engine_create(&config, engine), 0);
	wrong_peer_start(peer, way);
	assert_int_equal(otte_segment_open(*engine, peer->address, 0, 30 * SECOND, segment), 0);
}

static void an_answer_that_is_malformed_is_a_breach_of_the_protocol(void **state)
{
	struct otte_stats stats = { .size = sizeof(stats) }, untouched = stats;
	struct otte_region_info row = { .id = 77 };
	struct otte_segment *segment;
	struct otte_engine *engine;
	struct wrong_peer peer;
	size_t count = 77;

	(void)state;
	open_wrong(WRONG_ANSWERS, &peer, &engine, &segment);
	assert_int_equal(otte_segment_describe(segment, 5 * SECOND, &row, 1, &count), -EPROTO);
	assert_int_equal(count, 77);
	assert_int_equal(row.id, 77);
	assert_int_equal(otte_segment_stats(segment, 5 * SECOND, &stats), -EPROTO);
	assert_memory_equal(&stats, &untouched, sizeof(stats));
	assert_int_equal(otte_segment_close(segment), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
	wrong_peer_end(&peer);
}

static void who_does_not_read_gets_no_more_notifications_than_fit(void **state)
{
	static const char data[OTTE_NOTIFY_MAX];
	struct otte_segment *segment;
	struct otte_engine *engine;
	struct wrong_peer peer;
	int i, rc = 0;

	(void)state;
	open_wrong(WRONG_DEAF, &peer, &engine, &segment);
	/* Sixteen frames of 64 KiB, and what the sockets take. */
	for (i = 0; i < 10000 && rc == 0; i++)
		rc = otte_notify(segment, NULL, data, sizeof(data));
	assert_int_equal(rc, -EDQUOT);
	assert_in_range(i, 16 * 65536 / sizeof(data), 9999);
	/* Refused is not lost: the peer is still the same one. */
	assert_int_equal(otte_notify(segment, NULL, data, sizeof(data)), -EDQUOT);
	assert_int_equal(otte_segment_close(segment), 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
	wrong_peer_end(&peer);
}

/* TCP proves everything; a transport whose hardware does not answer records what it had to keep. */
static void what_is_retained_makes_a_close_unclean_until_it_is_dropped(void **state)
{
	struct otte_close_report report = { .size = sizeof(report) };
	struct otte_config config = config_of(NULL);
	struct otte_engine *engine;
	uint64_t hold;

	(void)state;
	assert_int_equal(otte_engine_create(&config, &engine), 0);
	assert_int_equal(engine->ledger->ops->hold(engine->client, 4096, "a queue pair", &hold), 0);
	assert_int_equal(otte_engine_close(engine, OTTE_CLOSE_SOURCE, SECOND, &report), -EUCLEAN);
	assert_int_equal(report.retained, 1);
	assert_int_equal(report.retained_bytes, 4096);
	assert_int_equal(report.loans, 0);
	assert_int_equal(report.requests, 0);
	assert_int_equal(engine->ledger->ops->hold_drop(engine->client, hold), 0);
	assert_int_equal(otte_engine_close(engine, OTTE_CLOSE_SOURCE, SECOND, &report), 0);
	assert_int_equal(report.retained, 0);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

static void an_answer_that_may_take_no_time_is_late(void **state)
{
	struct otte_stats stats = { .size = sizeof(stats) };
	struct otte_region_info row;
	struct bench b;
	size_t count;
	int i, rc = 0;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	/* Unless the answer comes before the caller has begun to wait. */
	for (i = 0; i < 10000 && rc != -ETIMEDOUT; i++)
		rc = otte_segment_describe(b.segment, 0, &row, 1, &count);
	assert_int_equal(rc, -ETIMEDOUT);
	for (i = 0, rc = 0; i < 10000 && rc != -ETIMEDOUT; i++)
		rc = otte_segment_stats(b.segment, 0, &stats);
	assert_int_equal(rc, -ETIMEDOUT);
	close_bench(&b);
}

static void a_key_on_one_side_opens_nothing(void **state)
{
	char path[] = "/tmp/otte-errors-XXXXXX", address[OTTE_ADDRESS_MAX];
	struct otte_config config = config_of(NULL);
	struct otte_engine *locked, *open;
	struct otte_segment *segment;
	int i, fd = mkstemp(path);

	(void)state;
	for (i = 0; i < 32; i++)
		assert_int_equal(write(fd, "5a", 2), 2);
	close(fd);
	assert_int_equal(otte_engine_create(&config, &open), 0);
	strcpy(config.key_file, path);
	assert_int_equal(otte_engine_create(&config, &locked), 0);
	unlink(path);
	assert_int_equal(otte_engine_address(locked, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(open, address, 0, SECOND, &segment), -EKEYREJECTED);
	assert_int_equal(otte_engine_destroy(open), 0);
	assert_int_equal(otte_engine_destroy(locked), 0);
}

static void a_newer_config_that_says_something_new_is_refused(void **state)
{
	struct {
		struct otte_config config;
		uint64_t news;
	} newer;
	struct otte_engine *engine;

	(void)state;
	assert_int_equal(otte_config_init(&newer.config, sizeof(newer)), 0);
	newer.news = 1;
	assert_int_equal(otte_engine_create(&newer.config, &engine), -E2BIG);
}

static void a_closed_direction_admits_nothing(void **state)
{
	struct otte_block block = { 0 };
	struct otte_block_list *list;
	struct otte_segment *segment;
	struct bench b;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	assert_int_equal(otte_block_list_create(b.user, &b.request, &block, 1, &list), 0);
	assert_int_equal(otte_engine_close(b.user, OTTE_CLOSE_REQUESTER, SECOND, NULL), 0);
	assert_int_equal(otte_batch_submit(b.batch, &b.request, 1), -ESHUTDOWN);
	assert_int_equal(otte_batch_run(b.batch, &b.request, 1, 0), -ESHUTDOWN);
	assert_int_equal(otte_batch_submit_blocks(b.batch, list, 0, 1), -ESHUTDOWN);
	assert_int_equal(otte_segment_open(b.user, "127.0.0.1:1", 0, SECOND, &segment), -ESHUTDOWN);
	assert_int_equal(otte_notify(b.segment, NULL, "x", 1), -ESHUTDOWN);
	assert_int_equal(otte_block_list_destroy(list), 0);
	close_bench(&b);
}

static void no_descriptor_is_left_for_an_engine(void **state)
{
	struct otte_config config = config_of(NULL);
	struct rlimit before, none;
	struct otte_engine *engine;
	int rc;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 4;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	rc = otte_engine_create(&config, &engine);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(rc, -EMFILE);
}

static void no_descriptor_is_left_for_a_peer_or_a_batch(void **state)
{
	struct rlimit before, none;
	struct otte_segment *segment;
	struct bench b;
	int fd, opened, waited;

	(void)state;
	open_bench(&b, OTTE_REMOTE_READ, NULL);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	fd = dup(0);
	close(fd);
	none = before;
	none.rlim_cur = (rlim_t)fd;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	opened = otte_segment_open(b.user, "127.0.0.1:1", 0, SECOND, &segment);
	waited = otte_batch_eventfd(b.batch);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(opened, -EMFILE);
	assert_int_equal(waited, -EMFILE);
	close_bench(&b);
}

static void nothing_waits_in_a_new_engine(void **state)
{
	static struct otte_notification notification;
	struct otte_config config = config_of(NULL);
	struct otte_engine *engine;

	(void)state;
	assert_int_equal(otte_engine_create(&config, &engine), 0);
	assert_int_equal(otte_notification_next(engine, &notification), -EAGAIN);
	assert_int_equal(otte_engine_destroy(engine), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_null_argument_is_malformed),
		cmocka_unit_test(a_forked_child_gets_an_error_from_every_call),
		cmocka_unit_test(a_config_that_cannot_be_is_refused),
		cmocka_unit_test(a_kernel_ledger_that_cannot_be_had_is_refused_by_name),
		cmocka_unit_test(an_address_is_taken_once),
		cmocka_unit_test(what_is_in_use_is_not_given_back),
		cmocka_unit_test(a_file_must_be_a_file_and_open_for_it),
		cmocka_unit_test(a_budget_that_is_full_refuses),
		cmocka_unit_test(a_request_that_cannot_be_served_is_refused),
		cmocka_unit_test(what_a_transfer_uses_stays_until_it_ends),
		cmocka_unit_test(a_peer_that_went_is_not_another_one),
		cmocka_unit_test(an_endpoint_that_is_none_is_refused),
		cmocka_unit_test(a_notification_tied_to_a_failed_batch_is_not_sent),
		cmocka_unit_test(who_does_not_speak_the_protocol_is_no_peer),
		cmocka_unit_test(a_peer_of_another_version_is_refused_and_both_are_named),
		cmocka_unit_test(an_answer_that_is_malformed_is_a_breach_of_the_protocol),
		cmocka_unit_test(who_does_not_read_gets_no_more_notifications_than_fit),
		cmocka_unit_test(what_is_retained_makes_a_close_unclean_until_it_is_dropped),
		cmocka_unit_test(an_answer_that_may_take_no_time_is_late),
		cmocka_unit_test(a_key_on_one_side_opens_nothing),
		cmocka_unit_test(a_newer_config_that_says_something_new_is_refused),
		cmocka_unit_test(a_closed_direction_admits_nothing),
		cmocka_unit_test(no_descriptor_is_left_for_an_engine),
		cmocka_unit_test(no_descriptor_is_left_for_a_peer_or_a_batch),
		cmocka_unit_test(nothing_waits_in_a_new_engine),
	};

	return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
