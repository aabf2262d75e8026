/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Transport local through the module, between processes: what is lent is copied and mapped, comes back, is taken back,
 * and outlives who lent it. In a guest with the module loaded.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/engine.h"
#include "forged.h"
#include "ledger/module.h"
#include "../side.h"

#define BYTES (4u << 20)
#define LONG (64u << 20)
#define KILLS 16u
/* Each grant is two loans: the region, and the table of its uses, of so many bytes. */
#define GRANT 2u
#define TABLE 36864u
#define LENDS "ledger=kernel local.pinned=true control.timeout_ms=2000"
#define COPIES "deaf ledger=kernel local.map_entries=0"
#define MAPS "deaf ledger=kernel local.map_repeats=1"

static const char *const ways[] = { COPIES, MAPS };

/* A lender that keeps the right to take away what it lends to be mapped; the last such loan of it. */
static bool keeps_rights;
static int lender_fd = -1;
static uint64_t revocable;

/* >= 0: who it is takes what is lent to be copied before its lender has told it anything. */
static int thief = -1;
static uint64_t stolen;

int __real_otte_module_loan_offer(int fd, const struct otte_module_terms *terms, uint64_t *loan);
int __wrap_otte_module_loan_offer(int fd, const struct otte_module_terms *terms, uint64_t *loan);

/* The thief's turn is as if it had guessed the id, which is the last one's and one more. */
int __wrap_otte_module_loan_offer(int fd, const struct otte_module_terms *terms, uint64_t *loan)
{
	bool mappable = terms->flags & OTTE_MODULE_MAPPABLE;
	struct otte_module_terms own = *terms;
	struct otte_module_accepted accepted;
	int ret;

	if (keeps_rights && mappable)
		own.flags |= OTTE_MODULE_REVOCABLE;
	ret = __real_otte_module_loan_offer(fd, &own, loan);
	if (!ret && keeps_rights && mappable) {
		lender_fd = fd;
		revocable = *loan;
	}
	if (!ret && thief >= 0 && !mappable && !otte_module_loan_accept(thief, *loan, &accepted))
		stolen = *loan;
	return ret;
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

static bool nothing_left(void)
{
	return !usage("clients") && !usage("regions") && !usage("pinned_bytes") && !usage("loans") &&
	       !usage("lent_bytes") && !usage("retained_bytes");
}

static struct otte_task first(const struct side *side)
{
	struct otte_task task;

	OK(otte_batch_task(side->batch, 0, &task));
	return task;
}

static bool goes_locally(struct side *side, uint8_t op, uint64_t at, uint64_t length)
{
	struct outcome outcome = side_run(side, op, at, at, length, 1);

	assert_int_equal(outcome.code, 0);
	assert_int_equal(outcome.failure.code, 0);
	return first(side).transport == OTTE_TRANSPORT_LOCAL;
}

/* Whether a loan of a region, not of its table, is mapped in this process. */
static bool has_mapping(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long long start, end, offset;

		if (strstr(line, "/otte") && sscanf(line, "%llx-%llx %*s %llx", &start, &end, &offset) == 3)
			found |= offset >= 0x100000000ull && end - start == BYTES;
	}
	fclose(maps);
	return found;
}

static void what_is_written_is_read_back_through_the_module(void **state)
{
	struct remote source;
	struct side side;
	unsigned i, n;

	(void)state;
	for (i = 0; i < 2; i++) {
		remote_start(&source, LENDS, -1, BYTES);
		OK(side_open(&side, ways[i], -1, BYTES));
		OK(side_connect(&side, source.address, source.epoch, source.region));
		for (n = 0; n < 4; n++) {
			fill(side.bytes, BYTES, (uint8_t)(n + i));
			assert_true(goes_locally(&side, OTTE_WRITE, 0, BYTES));
			memset(side.bytes, 0xee, BYTES);
			assert_true(goes_locally(&side, OTTE_READ, 0, BYTES));
			assert_true(filled(side.bytes, BYTES, (uint8_t)(n + i)));
			memset(side.bytes, 0xee, BYTES);
			assert_true(goes_locally(&side, OTTE_READ, 0, 4096));
			assert_true(goes_locally(&side, OTTE_READ, 4096, BYTES - 4096));
			assert_true(filled(side.bytes, BYTES, (uint8_t)(n + i)));
			assert_true(goes_locally(&side, OTTE_READ, 77, 1));
		}
		assert_int_equal(has_mapping(), i);
		/* One standing loan for each direction; and those that are mapped. */
		assert_int_equal(usage("loans"), (i ? 4 : 2) * GRANT);
		assert_int_equal(usage("pinned_bytes"), BYTES + TABLE);
		side_disconnect(&side);
		assert_true(EVENTUALLY(usage("loans") == 0));
		assert_false(has_mapping());
		OK(side_close(&side));
		child_end(&source.child);
		assert_true(EVENTUALLY(nothing_left()));
	}
}

static void what_is_not_pinned_goes_over_tcp(void **state)
{
	struct remote source;
	struct side side;

	(void)state;
	remote_start(&source, "ledger=kernel", -1, BYTES);
	OK(side_open(&side, COPIES, -1, BYTES));
	OK(side_connect(&side, source.address, source.epoch, source.region));
	fill(side.bytes, BYTES, 3);
	assert_false(goes_locally(&side, OTTE_WRITE, 0, BYTES));
	memset(side.bytes, 0, BYTES);
	assert_false(goes_locally(&side, OTTE_READ, 0, BYTES));
	assert_true(filled(side.bytes, BYTES, 3));
	OK(side_close(&side));
	child_end(&source.child);
	assert_true(EVENTUALLY(nothing_left()));
}

/* Rights and ranges are the module's to keep; what it refuses moves nothing. */
static void ranges_beyond_the_region_move_nothing(void **state)
{
	struct remote source;
	struct outcome outcome;
	struct side side;

	(void)state;
	remote_start(&source, LENDS, -1, BYTES / 2);
	OK(side_open(&side, COPIES, -1, BYTES));
	OK(side_connect(&side, source.address, source.epoch, source.region));
	memset(side.bytes, 0xee, BYTES);
	outcome = side_run(&side, OTTE_READ, 0, BYTES / 2 - 4096, 8192, 1);
	assert_int_equal(outcome.failure.code, -ERANGE);
	assert_int_equal(side.bytes[0], 0xee);
	OK(side_close(&side));
	child_end(&source.child);
}

/* A READ that has begun completes from pages that outlive their owner; else the prefix is exact. */
static void a_source_that_is_killed_is_not_the_requesters_end(void **state)
{
	uint64_t random = test_seed(41);
	unsigned i, j, done = 0, failed = 0;
	struct outcome outcome;
	struct remote source;
	struct side side;

	(void)state;
	for (i = 0; i < KILLS; i++) {
		uint8_t op = i % 4 == 3 ? OTTE_WRITE : OTTE_READ;
		uint64_t until_ns;

		OK(side_open(&side, ways[i % 2], -1, BYTES));
		remote_start(&source, LENDS, -1, BYTES);
		OK(side_connect(&side, source.address, source.epoch, source.region));
		fill(side.bytes, BYTES, (uint8_t)i);
		assert_true(goes_locally(&side, OTTE_WRITE, 0, BYTES));
		if (op == OTTE_READ)
			memset(side.bytes, 0xee, BYTES);
		assert_int_equal(side_submit(&side, op, 0, 0, BYTES / 4, 4), 0);
		until_ns = now_ns() + draw_between(&random, 0, 20 * MS);
		while (now_ns() < until_ns)
			;
		child_kill(&source.child);
		outcome = side_wait(&side, 20 * SECOND);
		assert_int_equal(outcome.code, 0);
		done += outcome.status.completed_prefix;
		failed += outcome.status.failed;
		for (j = 0; j < 4 && op == OTTE_READ; j++) {
			struct otte_task task;

			OK(otte_batch_task(side.batch, j, &task));
			if (task.state != OTTE_TASK_COMPLETED)
				assert_int_equal(task.code, -ECONNRESET);
		}
		if (!outcome.status.failed && op == OTTE_READ)
			assert_true(filled(side.bytes, BYTES, (uint8_t)i));
		if (outcome.status.failed)
			assert_true(outcome.failure.locally_drained);
		side_disconnect(&side);
		/* Its receipts free what its owner left behind. */
		assert_true(EVENTUALLY(usage("loans") == 0 && usage("retained_bytes") == 0));
		OK(side_close(&side));
		assert_true(EVENTUALLY(nothing_left()));
	}
	print_message("%u kills, %u requests done, %u failed\n", KILLS, done, failed);
}

/* The module settles what was lent to it, and its uses block nobody. */
static void a_requester_that_is_killed_leaves_nothing_behind(void **state)
{
	uint64_t random = test_seed(42);
	struct remote requester;
	struct side source, other;
	unsigned i;

	(void)state;
	OK(side_open(&source, LENDS, -1, BYTES));
	OK(side_open(&other, COPIES, -1, BYTES));
	OK(side_connect(&other, source.address, OTTE_EPOCH_ANY, otte_region_id(source.region)));
	for (i = 0; i < KILLS; i++) {
		remote_start(&requester, ways[i % 2], -1, BYTES);
		child_ask(&requester.child, "open %s %lu", source.address,
			  (unsigned long)otte_region_id(source.region));
		assert_string_equal(requester.child.line, "code 0");
		child_tell(&requester.child, "run %d 0 0 %u 16", i % 4 < 2 ? OTTE_WRITE : OTTE_READ, BYTES / 16);
		usleep((useconds_t)draw_between(&random, 0, 40000));
		child_kill(&requester.child);
		assert_true(EVENTUALLY(side_stats(&source).peers_in == 1));
		assert_true(EVENTUALLY(usage("loans") == (i > 0) * GRANT));
		assert_true(goes_locally(&other, OTTE_WRITE, 0, BYTES));
	}
	assert_int_equal(usage("retained_bytes"), 0);
	OK(side_close(&other));
	assert_true(EVENTUALLY(!usage("loans")));
	OK(side_close(&source));
	assert_true(EVENTUALLY(nothing_left()));
}

/* One that does not answer keeps a copied loan only so long: it is revoked, and goes on without harm. */
static void a_requester_that_is_stopped_is_revoked(void **state)
{
	struct remote requester;
	struct side source;

	(void)state;
	OK(side_open(&source, LENDS, -1, BYTES));
	remote_start(&requester, COPIES, -1, BYTES);
	child_ask(&requester.child, "open %s %lu", source.address,
		  (unsigned long)otte_region_id(source.region));
	assert_string_equal(requester.child.line, "code 0");
	child_ask(&requester.child, "run %d 0 0 4096 4", OTTE_READ);
	assert_int_equal(usage("loans"), GRANT);
	child_signal(&requester.child, SIGSTOP);
	assert_int_equal(otte_region_unregister(&source.region, 1, SECOND / 5, NULL), -ETIMEDOUT);
	assert_int_equal(usage("loans"), GRANT);
	assert_int_equal(otte_region_unregister(&source.region, 1, 10 * SECOND, NULL), 0);
	/* Its record stays until the borrower has read of its end; nothing else of it does, but for the table. */
	assert_int_equal(usage("lent_bytes"), TABLE);
	assert_int_equal(usage("pinned_bytes"), TABLE);
	child_signal(&requester.child, SIGCONT);
	child_ask(&requester.child, "run %d 0 0 4096 1", OTTE_READ);
	assert_int_equal(child_number(&requester.child, "failure"), -ENOENT);
	child_end(&requester.child);
	OK(otte_batch_destroy(source.batch));
	OK(otte_mem_release(source.mem));
	OK(otte_engine_destroy(source.engine));
	assert_true(EVENTUALLY(nothing_left()));
}

/* What is mapped and revoked is the end of who touches it next: so it is not mapped, and all goes over TCP. */
static void a_lender_cannot_kill_its_borrower(void **state)
{
	struct remote requester;
	struct side source;
	bool draining;
	unsigned i;

	(void)state;
	for (i = 0; i < 2; i++) {
		keeps_rights = true;
		revocable = 0;
		OK(side_open(&source, LENDS, -1, BYTES));
		remote_start(&requester, ways[i], -1, BYTES);
		child_ask(&requester.child, "open %s %lu", source.address,
			  (unsigned long)otte_region_id(source.region));
		assert_string_equal(requester.child.line, "code 0");
		child_ask(&requester.child, "run %d 0 0 4096 1", OTTE_READ);
		assert_int_not_equal(revocable, 0);
		otte_module_loan_revoke(lender_fd, revocable, &draining);
		keeps_rights = false;
		child_ask(&requester.child, "run %d 0 0 4096 1", OTTE_READ);
		assert_int_equal(child_number(&requester.child, "prefix"), 1);
		child_end(&requester.child);
		OK(side_close(&source));
		assert_true(EVENTUALLY(nothing_left()));
	}
}

static bool read_number(const char *path, unsigned long long *number)
{
	FILE *file = fopen(path, "r");
	bool read = file && fscanf(file, "%llu", number) == 1;

	if (file)
		fclose(file);
	return read;
}

/* As an administrator does, of what dead owners left behind; how many there were. */
static unsigned release_tables(void)
{
	DIR *dir = opendir("/sys/class/misc/otte/retained");
	const struct dirent *entry;
	unsigned long long bytes;
	unsigned count = 0;
	char path[512];
	FILE *file;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/sys/class/misc/otte/retained/%s/bytes", entry->d_name);
		if (entry->d_name[0] == '.' || !read_number(path, &bytes) || bytes != TABLE)
			continue;
		snprintf(path, sizeof(path), "/sys/class/misc/otte/retained/%s/release", entry->d_name);
		file = fopen(path, "w");
		assert_non_null(file);
		fputs("1", file);
		assert_int_equal(fclose(file), 0);
		count++;
	}
	closedir(dir);
	return count;
}

static bool have_released(unsigned *count)
{
	*count += release_tables();
	return *count > 0;
}

/* A READ outlives its source, and the table that it stands in. */
static void releasing_a_table_ends_nobody_who_copies(void **state)
{
	struct remote source, requester;
	unsigned released = 0;

	(void)state;
	remote_start(&source, LENDS, -1, LONG);
	remote_start(&requester, COPIES, -1, LONG);
	child_ask(&requester.child, "open %s %lu", source.address, (unsigned long)source.region);
	assert_string_equal(requester.child.line, "code 0");
	child_ask(&requester.child, "run %d 0 0 4096 1", OTTE_READ);
	child_tell(&requester.child, "run %d 0 0 %u 1", OTTE_READ, LONG);
	usleep(8000);
	child_signal(&requester.child, SIGSTOP);
	child_kill(&source.child);
	assert_true(EVENTUALLY(have_released(&released)));
	child_signal(&requester.child, SIGCONT);
	/* Done, or not even begun. */
	assert_non_null(child_hear(&requester.child));
	assert_int_equal(child_number(&requester.child, "drained"), child_number(&requester.child, "failed"));
	child_end(&requester.child);
	assert_true(EVENTUALLY(nothing_left()));
}

struct adopted {
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *region;
	uint8_t *bytes;
	char address[OTTE_ADDRESS_MAX];
};

static void adopt(struct adopted *source)
{
	struct otte_region_desc desc = {
		.length = BYTES, .access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE, .flags = OTTE_REGION_PINNED,
	};
	struct otte_config config;

	OK(otte_config_init(&config, sizeof(config)));
	config.ledger = OTTE_LEDGER_KERNEL;
	OK(otte_engine_create(&config, &source->engine));
	source->bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(source->bytes != MAP_FAILED);
	fill(source->bytes, BYTES, 9);
	OK(otte_mem_adopt(source->engine, source->bytes, BYTES, &source->mem));
	desc.mem = source->mem;
	OK(otte_region_register(source->engine, &desc, 1, &source->region));
	OK(otte_engine_address(source->engine, source->address, sizeof(source->address)));
}

/* The owner has unmapped it: from then on nothing of it moves, not even what is pinned. */
static void what_the_source_unmapped_is_stale_at_once(void **state)
{
	struct adopted source;
	struct outcome outcome;
	struct side side;
	unsigned i;

	(void)state;
	for (i = 0; i < 4; i++) {
		uint8_t op = i < 2 ? OTTE_READ : OTTE_WRITE;

		adopt(&source);
		OK(side_open(&side, ways[i % 2], -1, BYTES));
		OK(side_connect(&side, source.address, OTTE_EPOCH_ANY, otte_region_id(source.region)));
		assert_true(goes_locally(&side, OTTE_READ, 0, BYTES));
		assert_true(goes_locally(&side, OTTE_READ, 0, BYTES));
		assert_true(filled(side.bytes, BYTES, 9));
		assert_true(goes_locally(&side, OTTE_WRITE, 0, BYTES));
		assert_true(goes_locally(&side, OTTE_WRITE, 0, BYTES));
		memset(side.bytes, 0xee, BYTES);
		munmap(source.bytes + BYTES / 2, BYTES / 2);
		outcome = side_run(&side, op, 0, 0, BYTES / 4, 1);
		assert_int_equal(outcome.failure.code, -ESTALE);
		assert_int_equal(outcome.failure.remote_effect, OTTE_EFFECT_NONE);
		assert_int_equal(side.bytes[0], 0xee);
		outcome = side_run(&side, op, 0, 0, 4096, 1);
		assert_int_equal(outcome.failure.code, -ESTALE);
		OK(side_close(&side));
		OK(otte_region_unregister(&source.region, 1, 20 * SECOND, NULL));
		OK(otte_mem_release(source.mem));
		OK(otte_engine_destroy(source.engine));
		munmap(source.bytes, BYTES / 2);
		assert_true(EVENTUALLY(nothing_left()));
	}
}

static void set_limit(const char *resource, const char *value)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/misc/otte/limit_client/%s", resource);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(value, file);
	assert_int_equal(fclose(file), 0);
}

/* A loan too many is no error of the request's: it goes the other way. */
static void without_quota_for_loans_it_is_told_or_goes_over_tcp(void **state)
{
	struct otte_request request;
	struct remote source;
	struct side side;
	char before[64] = "";
	FILE *file = fopen("/sys/class/misc/otte/limit_client/loans", "r");

	(void)state;
	assert_non_null(file);
	assert_non_null(fgets(before, sizeof(before), file));
	fclose(file);
	remote_start(&source, LENDS, -1, BYTES);
	OK(side_open(&side, COPIES, -1, BYTES));
	OK(side_connect(&side, source.address, source.epoch, source.region));
	assert_true(goes_locally(&side, OTTE_READ, 0, 4096));
	set_limit("loans", "1");
	request = side_request(&side, OTTE_WRITE, 0, 0, 4096);
	request.transport = OTTE_TRANSPORT_LOCAL;
	OK(otte_batch_reset(side.batch));
	assert_int_not_equal(otte_batch_run(side.batch, &request, 1, 10 * SECOND), 0);
	assert_int_equal(first(&side).code, -EDQUOT);
	set_limit("loans", before);
	/* The refusal is believed for a second. */
	assert_false(goes_locally(&side, OTTE_WRITE, 0, 4096));
	usleep(1200000);
	assert_true(goes_locally(&side, OTTE_WRITE, 0, 4096));
	OK(side_close(&side));
	child_end(&source.child);
	assert_true(EVENTUALLY(nothing_left()));
}

/* What is mapped is bounded: the one whose use is longest ago comes back, with its receipt. */
static void mappings_are_bounded_and_closed_by_receipts(void **state)
{
	struct remote sources[3];
	struct side side;
	struct otte_segment *segments[3];
	unsigned i, n;

	(void)state;
	for (i = 0; i < 3; i++)
		remote_start(&sources[i], LENDS, -1, BYTES);
	OK(side_open(&side, "deaf ledger=kernel local.map_repeats=1 local.map_entries=1", -1, BYTES));
	for (i = 0; i < 3; i++)
		OK(otte_segment_open(side.engine, sources[i].address, sources[i].epoch, 10 * SECOND,
				     &segments[i]));
	for (n = 0; n < 9; n++) {
		side.segment = segments[n % 3];
		side.remote = sources[n % 3].region;
		assert_true(goes_locally(&side, n / 3 % 2, 0, 65536));
		assert_true(goes_locally(&side, n / 3 % 2, 0, 65536));
	}
	/* Of each peer at most a READ and a WRITE loan, and one that is mapped. */
	assert_true(EVENTUALLY(usage("loans") <= 9 * GRANT));
	for (i = 0; i < 3; i++)
		OK(otte_segment_close(segments[i]));
	side.segment = NULL;
	assert_true(EVENTUALLY(usage("loans") == 0));
	OK(side_close(&side));
	for (i = 0; i < 3; i++)
		child_end(&sources[i].child);
	assert_true(EVENTUALLY(nothing_left()));
}

/* ---- Borrowers that do not mean well ---- */

/* More than a source lets a borrower keep. */
#define TABLES 264

/* Accepts and maps what is offered of tables until nothing more is lent; how many it has. */
static unsigned keep_tables(int fd, int module, uint64_t region, void **maps)
{
	struct otte_module_accepted accepted;
	struct otte_lend lend;
	unsigned count;

	for (count = 0; count < TABLES; count++) {
		lend = forged_ask(fd, region, OTTE_WRITE);
		if (lend.status)
			break;
		assert_int_equal(otte_module_loan_accept(module, lend.uses, &accepted), 0);
		assert_int_equal(otte_module_loan_map(module, &accepted, &maps[count]), 0);
		forged_return(fd, lend.id);
	}
	assert_int_equal(lend.status, -EDQUOT);
	return count;
}

static void unmap_tables(void **maps, unsigned count)
{
	while (count)
		munmap(maps[--count], TABLE);
}

static void cannot_write(const struct side *source, int module, uint64_t loan)
{
	uint8_t byte = 0x66;
	uint64_t done = 0;

	source->bytes[0] = 0;
	assert_int_not_equal(otte_module_loan_copy(module, loan, 0, &byte, 1, &done), 0);
	assert_int_equal(source->bytes[0], 0);
}

/* Whether it was granted, or not since its table could not be lent. */
static void what_is_unregistered_is_reached_by_nobody(void **state)
{
	struct side source, side;
	void *maps[TABLES];
	unsigned granted, count;
	struct otte_lend lend;
	int fd, module;

	(void)state;
	for (granted = 0; granted < 2; granted++) {
		OK(side_open(&source, LENDS, -1, BYTES));
		OK(side_open(&side, COPIES, -1, BYTES));
		OK(side_connect(&side, source.address, OTTE_EPOCH_ANY, otte_region_id(source.region)));
		fd = forged_lane(&side, &module);
		count = granted ? 0 : keep_tables(fd, module, otte_region_id(source.region), maps);
		stolen = 0;
		thief = module;
		lend = forged_ask(fd, otte_region_id(source.region), OTTE_WRITE);
		thief = -1;
		assert_int_equal(lend.status, granted ? 0 : -EDQUOT);
		assert_int_equal(otte_region_unregister(&source.region, 1, 20 * SECOND, NULL), 0);
		cannot_write(&source, module, stolen);
		assert_int_equal(stolen, granted ? lend.loan : 0);
		close(fd);
		unmap_tables(maps, count);
		OK(side_close(&side));
		OK(otte_batch_destroy(source.batch));
		OK(otte_mem_release(source.mem));
		OK(otte_engine_destroy(source.engine));
		assert_true(EVENTUALLY(nothing_left()));
	}
}

/*
 * It says that it gave a mapping back, and keeps it; its lender dies, and what is in its reach is retained, once; and
 * no longer than that is so.
 */
static void what_the_module_has_settled_is_retained_no_longer(void **state)
{
	struct otte_module_accepted region, table;
	void *map, *map_table;
	struct remote source;
	struct otte_lend lend;
	struct side side;
	int fd, module;

	(void)state;
	remote_start(&source, LENDS, -1, BYTES);
	OK(side_open(&side, COPIES, -1, BYTES));
	OK(side_connect(&side, source.address, OTTE_EPOCH_ANY, source.region));
	fd = forged_lane(&side, &module);
	lend = forged_ask(fd, source.region, OTTE_READ | OTTE_LEND_MAPPED);
	assert_int_equal(lend.status, 0);
	assert_int_equal(otte_module_loan_accept(module, lend.uses, &table), 0);
	assert_int_equal(otte_module_loan_map(module, &table, &map_table), 0);
	assert_int_equal(otte_module_loan_accept(module, lend.loan, &region), 0);
	assert_int_equal(otte_module_loan_map(module, &region, &map), 0);
	forged_return(fd, lend.id);
	/* Its owner says so, and the module has no record of that beside the loan. */
	assert_true(EVENTUALLY((child_ask(&source.child, "stats"), child_number(&source.child, "retained") == 1)));
	assert_int_equal(usage("holds"), 0);
	child_kill(&source.child);
	assert_true(EVENTUALLY(usage("retained_bytes") == BYTES + TABLE));
	munmap(map, BYTES);
	munmap(map_table, TABLE);
	close(fd);
	OK(side_close(&side));
	assert_true(EVENTUALLY(nothing_left()));
	assert_int_equal(usage("holds"), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_back_through_the_module),
		cmocka_unit_test(what_is_not_pinned_goes_over_tcp),
		cmocka_unit_test(ranges_beyond_the_region_move_nothing),
		cmocka_unit_test(a_source_that_is_killed_is_not_the_requesters_end),
		cmocka_unit_test(a_requester_that_is_killed_leaves_nothing_behind),
		cmocka_unit_test(a_requester_that_is_stopped_is_revoked),
		cmocka_unit_test(a_lender_cannot_kill_its_borrower),
		cmocka_unit_test(releasing_a_table_ends_nobody_who_copies),
		cmocka_unit_test(what_the_source_unmapped_is_stale_at_once),
		cmocka_unit_test(without_quota_for_loans_it_is_told_or_goes_over_tcp),
		cmocka_unit_test(mappings_are_bounded_and_closed_by_receipts),
		cmocka_unit_test(what_is_unregistered_is_reached_by_nobody),
		cmocka_unit_test(what_the_module_has_settled_is_retained_no_longer),
	};
	int status;

	if (side_role(argc, argv, &status))
		return status;
	cmocka_set_test_filter(getenv("OTTE_TEST_ONLY"));
	return cmocka_run_group_tests_name("borrow", tests, NULL, NULL);
}
