// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many clients lend to each other and are killed at random. Within five seconds every loan has
 * settled or is listed as retained, the charges are those of what is listed, and after the
 * administrator released that, nothing is left.
 *
 * OTTE_STORM_CLIENTS, OTTE_STORM_LOANS and OTTE_STORM_SEED change size and order; OTTE_STORM_SLOW
 * lifts the five seconds, which only stock kernels are held to.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "otte_genl.h"
#include "kselftest_harness.h"

#define RETAINED	"/sys/class/misc/otte/retained"
#define CLIENTS_MAX	200

struct shared {
	uint64_t id[CLIENTS_MAX];	/* of each client, once it is up */
	unsigned int up;
	unsigned int lent;		/* offers made, over all */
	unsigned int taken;
};

static struct shared *shared;
static unsigned int clients, loans;

static unsigned int number(const char *name, unsigned int otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 0) : otherwise;
}

/* Takes whatever it is offered; gives about half of it back. */
static void answer(int fd, unsigned int *seed)
{
	struct otte_event event;
	char buf[64];

	while (!otte_next_event(fd, &event, 0)) {
		if (event.type != OTTE_EVENT_OFFERED || otte_accept(fd, event.object, NULL))
			continue;
		__atomic_add_fetch(&shared->taken, 1, __ATOMIC_RELAXED);
		otte_copy(fd, event.object, 0, buf, sizeof(buf));
		if (rand_r(seed) % 2)
			otte_settle(fd, event.object);
	}
}

/* Lends @loans pieces of memory of both kinds to others, answering theirs in between. */
static void life(unsigned int me, unsigned int seed)
{
	uint64_t region[2], loan;
	char *mem = otte_pages(2 * PAGE);
	unsigned int n, other, kind;
	int fd = otte_client(&shared->id[me]);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd < 0 || otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ, mem, PAGE, &region[0]) ||
	    otte_region(fd, OTTE_BACKING_NONE, OTTE_READ, mem + PAGE, PAGE, &region[1]))
		_exit(1);
	__atomic_add_fetch(&shared->up, 1, __ATOMIC_SEQ_CST);
	for (n = 0; n < loans;) {
		other = rand_r(&seed) % clients;
		kind = rand_r(&seed) % 2;
		answer(fd, &seed);
		if (!shared->id[other] ||
		    otte_offer_evidence(fd, region[kind], rand_r(&seed) % 4000, 64,
					shared->id[other], OTTE_READ, 0,
					rand_r(&seed) % 2 ? OTTE_EVIDENCE_DEFAULT :
					OTTE_EVIDENCE_DEFAULT | OTTE_EVIDENCE_BORROWER_EXITED,
					&loan)) {
			usleep(1000);
			continue;
		}
		n++;
		__atomic_add_fetch(&shared->lent, 1, __ATOMIC_RELAXED);
	}
	for (;;) {
		answer(fd, &seed);
		usleep(10000);
	}
}

/* What the ledger said at one moment: no change came between the dumps and the charges. */
struct moment {
	unsigned int records;
	uint64_t bytes;			/* of all records */
	unsigned int exposed;		/* loans without a receipt */
	unsigned int unlisted;		/* of these, with nothing of theirs in the list */
	uint64_t charged, loans;
};

/* Loans whose borrower is dead and whose region's owner is, too, are listed by either. */
static bool is_listed(const struct rows *retained, const struct row *loan)
{
	return row_find(retained, loan->num[OTTE_A_ID]) ||
	       row_find(retained, loan->num[OTTE_A_REGION]);
}

/* True if @moment is one: the generation has not moved, and no dump was torn. */
static bool look(struct genl *genl, int fd, struct moment *moment)
{
	static struct rows retained, lent;
	struct row before, after;
	unsigned int i;

	memset(moment, 0, sizeof(*moment));
	if (genl_status(genl, &before) || genl_dump(genl, OTTE_NL_RETAINED, &retained) ||
	    genl_dump(genl, OTTE_NL_LOANS, &lent))
		return false;
	moment->charged = otte_usage(fd, OTTE_RES_RETAINED_BYTES);
	moment->loans = otte_usage(fd, OTTE_RES_LOANS);
	if (genl_status(genl, &after) || retained.interrupted || lent.interrupted ||
	    before.num[OTTE_A_GENERATION] != after.num[OTTE_A_GENERATION])
		return false;
	moment->records = retained.count;
	for (i = 0; i < retained.count; i++)
		moment->bytes += retained.row[i].num[OTTE_A_BYTES];
	for (i = 0; i < lent.count; i++) {
		if (lent.row[i].num[OTTE_A_STATE] != OTTE_NL_LOAN_EXPOSED)
			continue;
		moment->exposed++;
		moment->unlisted += !is_listed(&retained, &lent.row[i]);
	}
	return true;
}

/* Releases what sysfs lists; returns how many. */
static unsigned int release_listed(void)
{
	DIR *dir = opendir(RETAINED);
	struct dirent *entry;
	unsigned int n = 0;
	char path[320];
	int fd;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		n++;
		snprintf(path, sizeof(path), RETAINED "/%s/release", entry->d_name);
		fd = open(path, O_WRONLY);
		if (fd >= 0) {
			if (write(fd, "1", 1) != 1)
				n += 0;
			close(fd);
		}
	}
	if (dir)
		closedir(dir);
	return n;
}

/* For its time limit only. */
FIXTURE(storm)
{
	int unused;
};

FIXTURE_SETUP(storm)
{
}

FIXTURE_TEARDOWN(storm)
{
}

TEST_F_TIMEOUT(storm, what_the_dead_leave_is_settled_or_listed_and_nothing_is_left_after_release,
	       600)
{
	unsigned int i, j, seed = number("OTTE_STORM_SEED", 20261129), tries;
	unsigned int patience = getenv("OTTE_STORM_SLOW") ? 6000 : 500;
	bool can_release = !access(RETAINED, F_OK);
	unsigned int moments = 0, wrong = 0;
	struct moment now = {};
	struct genl genl;
	uint64_t client;
	pid_t pid[CLIENTS_MAX], swap;
	int fd;

	clients = number("OTTE_STORM_CLIENTS", CLIENTS_MAX);
	loans = number("OTTE_STORM_LOANS", 50);
	note("seed %u, %u clients, %u loans each\n", seed, clients, loans);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	fd = otte_client(&client);
	ASSERT_TRUE(otte_all_zero(fd, 1));
	ASSERT_EQ(0, genl_open(&genl));
	fflush(NULL);
	for (i = 0; i < clients; i++) {
		pid[i] = fork();
		if (!pid[i])
			life(i, seed + i);
	}
	for (tries = 0; shared->up < clients && tries < 6000; tries++)
		usleep(10000);
	ASSERT_EQ(clients, shared->up);
	for (tries = 0; shared->lent < clients * loans / 2 && tries < 3000; tries++)
		usleep(10000);

	/* In random order, most of them in the middle of something. */
	for (i = clients - 1; i; i--) {
		j = rand_r(&seed) % (i + 1);
		swap = pid[i];
		pid[i] = pid[j];
		pid[j] = swap;
	}
	for (i = 0; i < clients; i++) {
		kill(pid[i], SIGKILL);
		if (rand_r(&seed) % 4 == 0)
			usleep(rand_r(&seed) % 20000);
	}
	for (i = 0; i < clients; i++)
		waitpid(pid[i], NULL, 0);
	note("%u offered, %u accepted\n", shared->lent, shared->taken);

	/* Loans of pinned pages settle: everybody who could map or copy is gone. */
	for (tries = 0; tries < patience; tries++) {
		if (look(&genl, fd, &now)) {
			/* Also while it all comes down, a moment's charges are those of its list. */
			moments++;
			wrong += now.bytes != now.charged;
			if (!otte_usage(fd, OTTE_RES_PINNED_BYTES) && !now.unlisted &&
			    now.exposed == now.loans)
				break;
		}
		usleep(10000);
	}
	EXPECT_EQ(0, otte_usage(fd, OTTE_RES_PINNED_BYTES));
	note("%u records, %llu bytes retained, %u loans exposed, in moment %u\n", now.records,
	     (unsigned long long)now.bytes, now.exposed, moments);
	EXPECT_LT(tries, patience);
	EXPECT_EQ(0, wrong);
	EXPECT_GT(now.records, 0);
	EXPECT_GT(now.bytes, 0);
	EXPECT_EQ(now.bytes, now.charged);
	EXPECT_EQ(0, now.unlisted);
	/* Everything else has settled: what is left to charge are those and what nobody has read. */
	EXPECT_EQ(now.exposed, now.loans);
	if (!can_release)
		SKIP(return, "nothing can be released without sysfs");
	/* Releasing makes room for directories of those that had none. */
	for (tries = 0; tries < 600 && (release_listed() ||
					otte_usage(fd, OTTE_RES_RETAINED_BYTES)); tries++)
		usleep(50000);
	EXPECT_TRUE(otte_all_zero(fd, 1));
	EXPECT_TRUE(look(&genl, fd, &now));
	EXPECT_EQ(0, now.records);
	close(genl.fd);
	close(fd);
}

TEST_HARNESS_MAIN
