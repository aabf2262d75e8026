/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Engines whose ledger is the kernel's: what the module's administrator, or who shares the node,
 * can do to one, and what it says of that. Run in a guest with the module, as root. Behind all
 * others: a process that has had an engine is told of forks.
 */
#include "suite.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/engine.h"

#define SYSFS "/sys/class/misc/otte/"
#define BYTES 65536u
#define SECOND 1000000000ll

/* A limit as it was found, to be put back. */
struct limit {
	char path[96], before[32];
};

static void set(const struct limit *limit, const char *text)
{
	int fd = open(limit->path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void lower(struct limit *limit, const char *level, const char *resource, const char *text)
{
	ssize_t n;
	int fd;

	snprintf(limit->path, sizeof(limit->path), SYSFS "limit_%s/%s", level, resource);
	fd = open(limit->path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = read(fd, limit->before, sizeof(limit->before) - 1);
	assert_true(n > 0);
	limit->before[n] = '\0';
	close(fd);
	set(limit, text);
}

/* ---- Engines --------------------------------------------------------------------------------- */

struct side {
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *region; /* NULL: none */
};

static int make(struct otte_engine **engine)
{
	struct otte_config config;

	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	config.ledger = OTTE_LEDGER_KERNEL;
	config.stats_socket = 0;
	return otte_engine_create(&config, engine);
}

static void open_side(struct side *side)
{
	assert_int_equal(make(&side->engine), 0);
	assert_int_equal(otte_mem_alloc(side->engine, BYTES, 0, &side->mem), 0);
	side->region = NULL;
}

static int add(struct side *side, struct otte_region **region)
{
	struct otte_region_desc desc = {
		.mem = side->mem,
		.length = BYTES,
		.access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE,
	};

	return otte_region_register(side->engine, &desc, 1, region);
}

static void close_side(struct side *side)
{
	if (side->region)
		assert_int_equal(otte_region_unregister(&side->region, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(side->mem), 0);
	assert_int_equal(otte_engine_destroy(side->engine), 0);
}

static void an_engine_takes_no_offers(void **unused)
{
	struct otte_loan_terms terms;
	struct otte_engine *engine;
	struct world w;
	uint64_t id;

	(void)unused;
	open_world(&w, NULL);
	assert_int_equal(make(&engine), 0);
	terms = usual_terms(&w, local(&w, BORROWER));
	terms.borrower.client = engine->ledger->ops->client_id(engine->client);
	expect_refused(offer(&w, &terms, &id), -EACCES, "takes no offers of this lender");
	assert_int_equal(otte_engine_destroy(engine), 0);
	close_world(&w);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void a_region_over_a_limit_is_refused_by_level_and_resource(void **unused)
{
	static const struct {
		const char *level, *resource, *limit, *text;
	} cases[] = {
		{ "client", "regions", "1", "the module's limit_client/regions: 1 of 1 charged, 1" },
		{ "user", "regions", "1", "the module's limit_user/regions (user 0): 1 of 1" },
		{ "module", "regions", "1", "the module's limit_module/regions: 1 of 1" },
		{ "client", "registered_bytes", "65536",
		  "limit_client/registered_bytes: 65536 of 65536 charged, 65536 more asked for" },
	};
	struct otte_region *region;
	struct limit limit;
	struct side side;
	size_t i;
	int rc;

	(void)unused;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		open_side(&side);
		assert_int_equal(add(&side, &side.region), 0);
		lower(&limit, cases[i].level, cases[i].resource, cases[i].limit);
		rc = add(&side, &region);
		set(&limit, limit.before);
		expect_refused(rc, -EDQUOT, cases[i].text);
		/* It is over with the limit. */
		assert_int_equal(add(&side, &region), 0);
		assert_int_equal(otte_region_unregister(&region, 1, SECOND, NULL), 0);
		close_side(&side);
	}
}

static void who_is_at_its_limit_keeps_no_neighbour_from_anything(void **unused)
{
	struct side full, other;
	struct otte_region *region;
	struct limit limit;
	int rc;

	(void)unused;
	open_side(&full);
	open_side(&other);
	assert_int_equal(add(&full, &full.region), 0);
	lower(&limit, "client", "regions", "1");
	rc = add(&full, &region);
	expect_refused(rc, -EDQUOT, "limit_client/regions");
	assert_int_equal(add(&other, &other.region), 0);
	set(&limit, limit.before);
	close_side(&full);
	close_side(&other);
}

/* ---- Cgroups ---- */

#define CGROUP_FULL "/sys/fs/cgroup/full"
#define CGROUP_OTHER "/sys/fs/cgroup/other"

static int enter_cgroup(const char *path)
{
	char procs[64];
	int fd, rc;

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	fd = open(procs, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = write(fd, "0", 1) == 1 ? 0 : -errno;
	close(fd);
	return rc;
}

/* An engine of a cgroup that has room for one region, then one of another cgroup; 0: as it must. */
static int fill_a_cgroup(void)
{
	struct otte_region *region;
	struct side full, other;
	struct stat cgroup;
	char text[128];

	if (enter_cgroup(CGROUP_FULL) || stat(CGROUP_FULL, &cgroup))
		return 1;
	open_side(&full);
	if (add(&full, &full.region))
		return 2;
	snprintf(text, sizeof(text),
		 "the module's limit_cgroup/regions (cgroup %llu): 1 of 1 charged, 1 more",
		 (unsigned long long)cgroup.st_ino);
	if (add(&full, &region) != -EDQUOT || !strstr(otte_error_text(), text))
		return 3;
	if (enter_cgroup(CGROUP_OTHER))
		return 4;
	open_side(&other);
	if (add(&other, &other.region))
		return 5;
	close_side(&other);
	close_side(&full);
	return 0;
}

static void a_cgroup_at_its_limit_is_named_and_keeps_no_other_from_anything(void **unused)
{
	struct limit limit;
	int status;

	(void)unused;
	assert_int_equal(mkdir(CGROUP_FULL, 0755), 0);
	assert_int_equal(mkdir(CGROUP_OTHER, 0755), 0);
	lower(&limit, "cgroup", "regions", "1");
	status = in_a_child(fill_a_cgroup);
	set(&limit, limit.before);
	assert_int_equal(status, 0);
	assert_int_equal(rmdir(CGROUP_FULL), 0);
	assert_int_equal(rmdir(CGROUP_OTHER), 0);
}

static void an_engine_for_which_there_is_no_client_says_whose_limits_those_are(void **unused)
{
	struct otte_engine *engine;
	struct limit limit;
	int rc;

	(void)unused;
	lower(&limit, "user", "clients", "0");
	rc = make(&engine);
	set(&limit, limit.before);
	expect_refused(rc, -EDQUOT, "the module's limit_user/clients, limit_cgroup/clients or");
}

/* ---- A peer that cannot be lent to ----------------------------------------------------------- */

static char warning[512];
static unsigned warnings;

static void keep(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	if (level != OTTE_LOG_WARNING || !strstr(line, "a peer is lent nothing"))
		return;
	snprintf(warning, sizeof(warning), "%s", line);
	__atomic_fetch_add(&warnings, 1, __ATOMIC_RELEASE);
}

static int read_from(struct side *user, struct otte_segment *segment, uint64_t region)
{
	struct otte_request request = {
		.op = OTTE_READ,
		.local = user->region,
		.segment = segment,
		.remote_region = region,
		.length = BYTES,
	};
	struct otte_batch *batch;
	struct otte_failure failure;
	int rc;

	assert_int_equal(otte_batch_create(user->engine, 1, &batch), 0);
	assert_int_equal(otte_batch_submit(batch, &request, 1), 0);
	assert_int_equal(otte_batch_wait(batch, 30 * SECOND), 0);
	rc = otte_batch_failure(batch, &failure) ? 0 : failure.code;
	assert_int_equal(otte_batch_destroy(batch), 0);
	return rc;
}

/* The peer gets the code; level and resource are told where the limit can be raised. */
static void a_source_at_its_limit_of_loans_refuses_its_peer_and_says_which_once_a_second(void **unused)
{
	char address[OTTE_ADDRESS_MAX];
	struct otte_segment *segment;
	struct side source, user;
	struct limit limit;
	uint64_t region;
	int i, rc[5];

	(void)unused;
	open_side(&source);
	open_side(&user);
	assert_int_equal(add(&source, &source.region), 0);
	assert_int_equal(add(&user, &user.region), 0);
	region = otte_region_id(source.region);
	assert_int_equal(otte_engine_address(source.engine, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(user.engine, address, OTTE_EPOCH_ANY, 30 * SECOND,
					   &segment),
			 0);
	otte_log_set(keep, NULL, OTTE_LOG_WARNING);
	lower(&limit, "client", "loans", "0");
	for (i = 0; i < 5; i++)
		rc[i] = read_from(&user, segment, region);
	set(&limit, limit.before);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	for (i = 0; i < 5; i++)
		assert_int_equal(rc[i], -EDQUOT);
	assert_in_range(__atomic_load_n(&warnings, __ATOMIC_ACQUIRE), 1, 4);
	assert_non_null(strstr(warning, "the module's limit_client/loans: 0 of 0 charged, 1 more"));
	assert_int_equal(read_from(&user, segment, region), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	close_side(&user);
	close_side(&source);
}

/* ---- Memory of the application's whose pages are others by now -------------------------------- */

/* Registered when it was the page of zeros; what was written since is what a new peer reads. */
static void adopted_memory_that_was_copied_on_write_is_read_by_a_new_peer(void **unused)
{
	char address[OTTE_ADDRESS_MAX];
	struct otte_segment *segment;
	struct side source, user;
	unsigned char *bytes;

	(void)unused;
	open_side(&user);
	assert_int_equal(add(&user, &user.region), 0);
	assert_int_equal(make(&source.engine), 0);
	bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(bytes != MAP_FAILED);
	assert_int_equal(*(volatile unsigned char *)bytes, 0);
	assert_int_equal(otte_mem_adopt(source.engine, bytes, BYTES, &source.mem), 0);
	assert_int_equal(add(&source, &source.region), 0);
	memset(bytes, 0xa5, BYTES);
	assert_int_equal(otte_engine_address(source.engine, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(user.engine, address, OTTE_EPOCH_ANY, 30 * SECOND,
					   &segment),
			 0);
	assert_int_equal(read_from(&user, segment, otte_region_id(source.region)), 0);
	assert_memory_equal(otte_mem_address(user.mem), bytes, BYTES);
	assert_int_equal(munmap(bytes, BYTES), 0);
	assert_int_equal(read_from(&user, segment, otte_region_id(source.region)), -ESTALE);
	assert_int_equal(otte_segment_close(segment), 0);
	close_side(&user);
	close_side(&source);
}

const struct CMUnitTest engine_tests[] = {
	cmocka_unit_test(an_engine_takes_no_offers),
	cmocka_unit_test(a_region_over_a_limit_is_refused_by_level_and_resource),
	cmocka_unit_test(who_is_at_its_limit_keeps_no_neighbour_from_anything),
	cmocka_unit_test(a_cgroup_at_its_limit_is_named_and_keeps_no_other_from_anything),
	cmocka_unit_test(an_engine_for_which_there_is_no_client_says_whose_limits_those_are),
	cmocka_unit_test(adopted_memory_that_was_copied_on_write_is_read_by_a_new_peer),
	cmocka_unit_test(a_source_at_its_limit_of_loans_refuses_its_peer_and_says_which_once_a_second),
};
const size_t engine_count = ARRAY_SIZE(engine_tests);
