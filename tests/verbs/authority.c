/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A requester that asks honestly and then tries more than it was granted: nothing is read,
 * nothing is written, and others are served as before. Runs in a guest; see tests/verbs/guest-
 * rdma.
 *
 *   authority DEVICE OTHER [staged]
 *
 * Staged: the source's memory is mirrored by chunks, which is what is granted then.
 */
#include <string.h>

#include "check.h"
#include "hostile.h"
#include "parties.h"

/* In the middle of pages: what is before and after stands in the same ones. */
#define AT (64 * 1024 + 100)
#define LENGTH 5000
#define CANARY 0xa5
#define LEASES_MAX 5 /* tries */
#define TRIALS 3

static uint8_t image[AREA_BYTES]; /* the source's memory as it is to be */

struct stage {
	struct source source;
	struct requester self; /* who tries */
	struct requester fellow; /* of the same source, by the same NIC */
	struct requester distant; /* of the same process, by the other NIC */
};

static void fill(uint8_t salt)
{
	uint32_t i;

	for (i = 0; i < AREA_BYTES; i++)
		image[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + salt);
	memcpy(remote, image, AREA_BYTES);
}

static bool all_canary(const uint8_t *bytes, uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		if (bytes[from] != CANARY)
			return false;
	return true;
}

static bool nothing_has_moved(const struct requester *by)
{
	return all_canary(by->bytes, 0, AREA_BYTES) && !memcmp(remote, image, AREA_BYTES);
}

/* Exactly what was asked for. */
static bool has_moved(const struct requester *by, uint8_t op)
{
	if (!all_canary(by->bytes, 0, AT) || !all_canary(by->bytes, AT + LENGTH, AREA_BYTES))
		return false;
	if (op == OTTE_WRITE)
		memset(image + AT, CANARY, LENGTH);
	return !memcmp(by->bytes + AT, op == OTTE_READ ? image + AT : by->bytes, LENGTH) &&
	       !memcmp(remote, image, AREA_BYTES);
}

static void prepare(struct requester *by, uint8_t salt)
{
	fill(salt);
	memset(by->bytes, CANARY, AREA_BYTES);
}

/* Over a new queue pair, where the last one was lost. */
static bool serves(struct requester *by, uint8_t op)
{
	struct otte_task task;

	prepare(by, 77);
	if (!EVENTUALLY(
		    (requester_submit(by, op, AT, LENGTH), task = requester_wait(by), !task.code)))
		return false;
	return has_moved(by, op);
}

/* ---- By the queue pair that the grant is for ---- */

typedef void (*alter_fn)(struct otte_rdma_send *send, uint32_t earlier);

static void one_before(struct otte_rdma_send *send, uint32_t earlier)
{
	(void)earlier;
	send->remote--;
}

static void one_after(struct otte_rdma_send *send, uint32_t earlier)
{
	(void)earlier;
	send->remote++;
}

static void one_more(struct otte_rdma_send *send, uint32_t earlier)
{
	(void)earlier;
	send->bytes++;
}

static void far_away(struct otte_rdma_send *send, uint32_t earlier)
{
	(void)earlier;
	send->remote += 3 * LENGTH;
}

static void other_direction(struct otte_rdma_send *send, uint32_t earlier)
{
	(void)earlier;
	send->op = send->op == OTTE_RDMA_READ ? OTTE_RDMA_WRITE : OTTE_RDMA_READ;
}

static void key_of_an_earlier_grant(struct otte_rdma_send *send, uint32_t earlier)
{
	send->key = earlier;
}

static void next_key(struct otte_rdma_send *send, uint32_t earlier)
{
	(void)earlier;
	send->key = (send->key & ~0xffu) | ((send->key + 1) & 0xff);
}

static void key_of_the_parent(struct otte_rdma_send *send, uint32_t earlier)
{
	(void)earlier;
	send->key = disclosed->parent;
}

static void key_of_the_windows_own_parent(struct otte_rdma_send *send, uint32_t earlier)
{
	(void)earlier;
	send->key = disclosed->own;
}

static void key_of_the_region(struct otte_rdma_send *send, uint32_t earlier)
{
	(void)earlier;
	send->key = disclosed->local;
}

static const struct trial {
	const char *name;
	alter_fn alter;
} trials[] = {
	{ "one byte before its range", one_before },
	{ "one byte after its range", one_after },
	{ "a byte more than its range", one_more },
	{ "another range", far_away },
	{ "the other direction", other_direction },
	{ "the key of an earlier grant", key_of_an_earlier_grant },
	{ "the next key", next_key },
	{ "the key of the region's parent MR", key_of_the_parent },
	{ "the key of the window's own parent MR", key_of_the_windows_own_parent },
	{ "the key of the region's local MR", key_of_the_region },
};

/*
 * rxe says that a queue pair has no right to an operation at all by another error than the one
 * for a key. That of the other direction never comes to the key.
 */
static bool is_refused(int status, alter_fn alter)
{
	return status == IBV_WC_REM_ACCESS_ERR ||
	       (alter == other_direction && status == IBV_WC_REM_INV_REQ_ERR);
}

static const char *op_text(uint8_t op)
{
	return op == OTTE_READ ? "READ" : "WRITE";
}

static void report(bool good, uint8_t op, const char *name, const char *what)
{
	char rule[160];

	snprintf(rule, sizeof(rule), "granted a %s, %s: %s", op_text(op), name, what);
	check(good, rule);
}

/* A grant of this requester's, live and unused: false: there is none. */
static bool be_granted(struct requester *by, uint8_t op, struct payload *payload)
{
	hostile_hold(false);
	requester_submit(by, op, AT, LENGTH);
	return hostile_held(payload);
}

static void try_by_its_own(struct stage *stage, uint8_t op, const struct trial *trial)
{
	struct payload payload;
	struct otte_task task;
	uint32_t earlier;
	int status = -1;

	if (!serves(&stage->self, op)) {
		report(false, op, trial->name, "is served first");
		return;
	}
	earlier = hostile_last().send.key;
	prepare(&stage->self, (uint8_t)(trial - trials));
	if (be_granted(&stage->self, op, &payload)) {
		trial->alter(&payload.send, earlier);
		status = hostile_post(payload.qp, &payload.send);
	}
	hostile_let_go();
	task = requester_wait(&stage->self);
	printf("# %s, %s: status %d, code %d\n", op_text(op), trial->name, status, task.code);
	report(is_refused(status, trial->alter), op, trial->name, "a remote access error");
	report(nothing_has_moved(&stage->self) && task.code == -ECONNRESET, op, trial->name,
	       "nothing has moved, and the request is lost");
	report(source_rests(&stage->source), op, trial->name, "the source lends nothing any more");
}

static void try_after_done(struct stage *stage, uint8_t op)
{
	static const char *const name = "its key once it is done";
	struct payload payload;
	int status;

	if (!serves(&stage->self, op)) {
		report(false, op, name, "is served first");
		return;
	}
	payload = hostile_last();
	prepare(&stage->self, 99);
	status = hostile_post(payload.qp, &payload.send);
	printf("# %s, %s: status %d\n", op_text(op), name, status);
	report(status == IBV_WC_REM_ACCESS_ERR && nothing_has_moved(&stage->self), op, name,
	       "a remote access error, and nothing has moved");
	report(source_rests(&stage->source), op, name, "the source lends nothing any more");
}

/* ---- By others, while the grant is live ---- */

/*
 * rxe may lose an honest payload as well, with nobody's fault, and then its queue pair: such a
 * trial is done again. What an attack takes from others it takes each time.
 */
static bool is_lost(int code, unsigned int *tried)
{
	return code == -ECONNRESET && ++*tried < TRIALS;
}

static bool try_once_by_another(struct stage *stage, uint8_t op, struct requester *other,
				const char *name, unsigned int *tried)
{
	struct payload payload, theirs;
	struct otte_task task;
	int status = -1;
	bool lost;

	if (!serves(&stage->self, op) || !serves(other, op)) {
		report(false, op, name, "both are served first");
		return false;
	}
	theirs = hostile_last();
	prepare(other, 55);
	memset(stage->self.bytes, CANARY, AREA_BYTES);
	if (be_granted(&stage->self, op, &payload)) {
		theirs.send.remote = payload.send.remote;
		theirs.send.key = payload.send.key;
		status = hostile_post(theirs.qp, &theirs.send);
	}
	printf("# %s, %s: status %d\n", op_text(op), name, status);
	report(status == IBV_WC_REM_ACCESS_ERR && nothing_has_moved(other), op, name,
	       "a remote access error, and nothing has moved");
	hostile_let_go();
	task = requester_wait(&stage->self);
	lost = is_lost(task.code, tried);
	if (!lost)
		report(!task.code && has_moved(&stage->self, op), op, name,
		       "who was granted it has it yet");
	report(source_rests(&stage->source), op, name, "the source lends nothing any more");
	return lost;
}

static void try_by_another(struct stage *stage, uint8_t op, struct requester *other,
			   const char *name)
{
	unsigned int tried = 0;

	while (try_once_by_another(stage, op, other, name, &tried))
		printf("# who was granted it lost it: trial %u\n", tried);
}

/*
 * Live grants of one requester, for two queue pairs of its own: the key of the first is refused
 * on the other, which loses what was granted there.
 */
static bool try_once_by_its_other(struct stage *stage, uint8_t op, unsigned int *tried)
{
	static const char *const name = "its key on another queue pair of its own";
	struct payload first, other;
	int code = 0;
	int status = -1;
	unsigned int i;
	bool lost;

	if (!serves(&stage->self, op)) {
		report(false, op, name, "is served first");
		return false;
	}
	prepare(&stage->self, 33);
	hostile_hold(false);
	requester_submit_some(&stage->self, op, AT, LENGTH, NARROW + 1);
	if (hostile_both_held(&first, &other)) {
		other.send.remote = first.send.remote;
		other.send.key = first.send.key;
		status = hostile_post(other.qp, &other.send);
	}
	printf("# %s, %s: status %d\n", op_text(op), name, status);
	report(status == IBV_WC_REM_ACCESS_ERR && nothing_has_moved(&stage->self), op, name,
	       "a remote access error, and nothing has moved");
	hostile_let_go();
	requester_wait(&stage->self);
	for (i = 0; i < NARROW && !code; i++)
		code = requester_task(&stage->self, i).code;
	lost = is_lost(code, tried);
	if (!lost)
		report(!code && requester_task(&stage->self, NARROW).code == -ECONNRESET, op, name,
		       "what was granted for the right one arrives, the other is lost");
	report(source_rests(&stage->source), op, name, "the source lends nothing any more");
	return lost;
}

static void try_by_its_other(struct stage *stage, uint8_t op)
{
	unsigned int tried = 0;

	while (try_once_by_its_other(stage, op, &tried))
		printf("# what was granted for the right one is lost: trial %u\n", tried);
}

static void try_all(struct stage *stage, uint8_t op)
{
	size_t i;

	for (i = 0; i < sizeof(trials) / sizeof(trials[0]); i++)
		try_by_its_own(stage, op, &trials[i]);
	try_after_done(stage, op);
	try_by_its_other(stage, op);
	try_by_another(stage, op, &stage->fellow, "its key on a queue pair of another requester");
	try_by_another(stage, op, &stage->distant, "its key on a queue pair of another NIC");
	report(serves(&stage->self, op) && serves(&stage->fellow, op) &&
		       serves(&stage->distant, op),
	       op, "and after all of that", "everybody is served");
}

/* ---- By a lease ---- */

/* Memory that is adopted is leased with this ledger alone. */
static void lease_for_a_moment(struct otte_config *config, bool source)
{
	(void)source;
	config->ledger = OTTE_LEDGER_PROCESS;
	config->rdma_lease_idle_ns = SECOND;
}

/*
 * It moves by a lease, which then stands: what was posted. It may be over before we look, where we
 * are held up for longer than it may stand unused; and what rxe loses takes its lease with it.
 */
static bool be_leased(struct stage *stage, uint8_t op, struct payload *payload)
{
	struct counts before, after;
	unsigned int tries;

	for (tries = 0; tries < LEASES_MAX; tries++) {
		before = source_counts(&stage->source);
		if (!serves(&stage->self, op))
			return false;
		*payload = hostile_last();
		after = source_counts(&stage->source);
		if (after.leases > before.leases && after.loans == 1)
			return true;
		printf("# %lu leases more, %lu loans: once more\n",
		       (unsigned long)(after.leases - before.leases), (unsigned long)after.loans);
		if (!source_rests(&stage->source))
			return false;
	}
	return false;
}

static void report_leased(bool good, uint8_t op, const char *name, const char *what)
{
	char rule[160];

	snprintf(rule, sizeof(rule), "leased a %s, %s: %s", op_text(op), name, what);
	check(good, rule);
}

/* By the key of a lease that stands: another range, or the other direction. */
static void try_beside_a_lease(struct stage *stage, uint8_t op, const struct trial *trial)
{
	struct payload payload;
	int status = -1;

	hostile_keep_leases(true);
	if (be_leased(stage, op, &payload)) {
		prepare(&stage->self, 41);
		trial->alter(&payload.send, 0);
		status = hostile_post(payload.qp, &payload.send);
	}
	hostile_keep_leases(false);
	printf("# lease, %s, %s: status %d\n", op_text(op), trial->name, status);
	report_leased(is_refused(status, trial->alter) && nothing_has_moved(&stage->self), op,
		      trial->name, "a remote access error, and nothing has moved");
	report_leased(source_rests(&stage->source), op, trial->name,
		      "the source lends nothing any more");
}

/* Who holds it neither renews it nor gives it back, so that it is taken away; and then uses it. */
static void try_a_revoked_lease(struct stage *stage, uint8_t op)
{
	static const char *const name = "its key once the lease is revoked";
	struct payload payload;
	bool leased, revoked;
	int status;

	hostile_keep_leases(true);
	leased = be_leased(stage, op, &payload);
	revoked = leased && source_rests(&stage->source);
	report_leased(revoked, op, name, "it is revoked without its holder");
	if (revoked) {
		prepare(&stage->self, 43);
		status = hostile_post(payload.qp, &payload.send);
		printf("# lease, %s, %s: status %d\n", op_text(op), name, status);
		report_leased(status == IBV_WC_REM_ACCESS_ERR, op, name, "a remote access error");
		report_leased(nothing_has_moved(&stage->self), op, name, "nothing has moved");
	}
	hostile_keep_leases(false);
	report_leased(serves(&stage->self, op), op, name, "and then an honest one is served");
	report_leased(source_rests(&stage->source), op, name, "the source lends nothing any more");
}

static void try_leases(const char *device)
{
	static const uint8_t ops[] = { OTTE_READ, OTTE_WRITE };
	const char *const devices[DEVICES_MAX] = { device };
	struct stage stage;
	size_t i, j;

	parties.adjust = lease_for_a_moment;
	source_start(&stage.source, devices, NULL);
	requester_open(&stage.self, device, &stage.source.doors[0], false);
	stage.self.lease = OTTE_LEASE_RANGE;
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		for (j = 0; trials[j].alter != key_of_an_earlier_grant; j++)
			try_beside_a_lease(&stage, ops[i], &trials[j]);
		try_a_revoked_lease(&stage, ops[i]);
	}
	requester_close(&stage.self);
	check(source_end(&stage.source) == 0, "the source of leases gives back everything");
}

static void use_chunks(struct otte_config *config, bool source)
{
	if (!source)
		return;
	config->rdma_host_memory = OTTE_HOST_MEMORY_STAGED;
	config->rdma_chunk_bytes = 64u << 10;
	config->rdma_staging_bytes = 4u << 20;
}

int main(int argc, char **argv)
{
	const char *const devices[DEVICES_MAX] = { argv[1], argc > 2 ? argv[2] : NULL };
	struct stage stage;

	hostile_pool = argc == 4 && !strcmp(argv[3], "staged");
	if (argc != 3 && !hostile_pool)
		return 3;
	if (hostile_pool)
		parties.adjust = use_chunks;
	parties_open();
	hostile_open();
	source_start(&stage.source, devices, NULL);
	requester_open(&stage.self, argv[1], &stage.source.doors[0], true);
	requester_open(&stage.fellow, argv[1], &stage.source.doors[0], false);
	requester_open(&stage.distant, argv[2], &stage.source.doors[1], false);
	try_all(&stage, OTTE_READ);
	try_all(&stage, OTTE_WRITE);
	requester_close(&stage.distant);
	requester_close(&stage.fellow);
	requester_close(&stage.self);
	check(source_end(&stage.source) == 0, "the source gives back everything");
	if (!hostile_pool) /* chunks are not leased */
		try_leases(argv[1]);
	return checked();
}
