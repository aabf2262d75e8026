// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random calls with shared state: several processes, each with threads, lend the same memory to
 * each other, map, copy, unmap, fork, close and die, with ids that are often right. The kernel's
 * own checks are the judge, and in the end every charge is gone.
 *
 * OTTE_FUZZ_CALLS (over all), OTTE_FUZZ_SEED. The order of calls of one thread is the seed's; how
 * the threads interleave is not.
 */
#include <dirent.h>
#include <pthread.h>

#include "otte_test.h"
#include "kselftest_harness.h"

#define PROCESSES	4
#define THREADS		2
#define IDS		64
#define AREA		(8 * PAGE)
#define ROUND_CALLS	20000	/* of all together, then they start anew */
#define ROUND_S		180	/* what one takes at most: some 20 s on a loaded debug kernel */

struct shared {
	uint64_t id[IDS];		/* clients, regions, loans, holds: whatever was made last */
	uint64_t offset[IDS];		/* mmap offsets */
	unsigned long done;
	/* What each thread is at: its kind of call, and how many it made before. */
	struct {
		unsigned int what;
		unsigned long done;
	} at[PROCESSES][THREADS];
};

static struct shared *shared;

struct fuzzer {
	unsigned int seed;
	unsigned int process, thread;
	int *fd;			/* of this process */
	char *area;
	unsigned long calls, done;
};

static unsigned int pick(struct fuzzer *f, unsigned int n)
{
	return rand_r(&f->seed) % n;
}

static uint64_t some_id(struct fuzzer *f)
{
	return pick(f, 20) ? shared->id[pick(f, IDS)] : (uint64_t)rand_r(&f->seed);
}

static void keep_id(struct fuzzer *f, uint64_t id)
{
	shared->id[pick(f, IDS)] = id;
}

/*
 * A client whose reads do not wait. Threads share their files: of two that poll() told of one event
 * the second to read would wait for another, which may never come.
 */
static int client_nonblocking(uint64_t *id)
{
	int fd = otte_client(id);

	if (fd >= 0)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static uint32_t some_evidence(struct fuzzer *f)
{
	return pick(f, 2) ? 0 : pick(f, 128);
}

static void fuzz_region(struct fuzzer *f, int fd)
{
	struct otte_region_add add = {
		.size = sizeof(add), .backing = pick(f, 4), .access = pick(f, 4),
		.addr = (uintptr_t)f->area + pick(f, AREA), .length = pick(f, AREA),
		.fd = pick(f, 4) ? 0 : pick(f, 16), .tag = 1,
	};
	struct otte_region_verify verify = { .size = sizeof(verify), .region = some_id(f) };

	switch (pick(f, 4)) {
	case 0:
	case 1:
		if (pick(f, 4)) {
			add.backing = pick(f, 2);
			add.access = 3;
			add.fd = 0;
			add.addr = (uintptr_t)f->area + pick(f, 4) * PAGE;
			add.length = (1 + pick(f, 4)) * PAGE;
		}
		if (!otte_call(fd, OTTE_IOC_REGION_ADD, &add))
			keep_id(f, add.region);
		break;
	case 2:
		if (!pick(f, 4))
			otte_region_del(fd, some_id(f), NULL);
		break;
	case 3:
		otte_call(fd, OTTE_IOC_REGION_VERIFY, &verify);
		break;
	}
}

static void fuzz_loan(struct fuzzer *f, int fd)
{
	struct otte_loan_accept accept;
	uint64_t loan;

	switch (pick(f, 8)) {
	case 0:
	case 1:
	case 2:
		if (!otte_offer_evidence(fd, some_id(f), pick(f, 4) * PAGE,
					 pick(f, 2) ? PAGE : pick(f, 9000), some_id(f), pick(f, 4),
					 pick(f, 8), some_evidence(f), &loan))
			keep_id(f, loan);
		break;
	case 3:
	case 4:
		if (!otte_accept(fd, some_id(f), &accept)) {
			shared->offset[pick(f, IDS)] = accept.map_offset;
			if (accept.fd >= 0)
				close(accept.fd);
		}
		break;
	case 5:
		otte_settle_as(fd, some_id(f), some_evidence(f));
		break;
	case 6:
		if (pick(f, 2))
			otte_withdraw(fd, some_id(f));
		else
			otte_revoke(fd, some_id(f), NULL);
		break;
	case 7:
		if (!otte_expose_flags(fd, some_id(f), pick(f, 4) * PAGE, PAGE, 1 + pick(f, 3),
				       pick(f, 3), 1 + pick(f, 3),
				       (pick(f, 2) ? OTTE_LOAN_STANDING : 0) |
				       (pick(f, 2) ? OTTE_LOAN_BY_ADDRESS : 0), &loan))
			keep_id(f, loan);
		break;
	}
}

static void fuzz_use(struct fuzzer *f, int fd)
{
	static __thread char buf[2 * PAGE];
	uint64_t offset = shared->offset[pick(f, IDS)] + pick(f, 3) * PAGE;
	char *map;

	if (pick(f, 2)) {
		otte_copy(fd, some_id(f), pick(f, 4096), buf, pick(f, sizeof(buf)));
		return;
	}
	map = mmap(NULL, PAGE * (1 + pick(f, 2)), PROT_READ | (pick(f, 2) ? PROT_WRITE : 0),
		   pick(f, 8) ? MAP_SHARED : MAP_PRIVATE, fd, pick(f, 16) ? offset : 0);
	if (map == MAP_FAILED)
		return;
	/* Reading through the kernel: a revoked page is an error and no signal. */
	syscall(SYS_access, map, F_OK);
	switch (pick(f, 4)) {
	case 0:
		munmap(map, 2 * PAGE);
		break;
	case 1:
		mremap(map, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
		break;
	case 2:
		mprotect(map, PAGE, pick(f, 8));
		break;
	}
	munmap(map, 2 * PAGE);
}

static void fuzz_memory(struct fuzzer *f)
{
	char *at = f->area + pick(f, 8) * PAGE;

	switch (pick(f, 5)) {
	case 0:
		madvise(at, PAGE, MADV_DONTNEED);
		break;
	case 1:
		mprotect(at, PAGE, PROT_READ);
		mprotect(at, PAGE, PROT_READ | PROT_WRITE);
		break;
	case 2:
		mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		     0);
		break;
	case 3:
		if (!pick(f, 8) && !fork())
			_exit(0);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		break;
	}
}

static void fuzz_client(struct fuzzer *f, int *slot)
{
	struct otte_fence fence = { .size = sizeof(fence), .flags = pick(f, 2), .peer = { 1 } };
	struct otte_allow allow = { .size = sizeof(allow), .client = some_id(f) };
	struct otte_domain_join join = { .size = sizeof(join), .name = "default" };
	uint64_t id = 0;
	int fd;

	switch (pick(f, 12)) {
	case 0:
		fd = pick(f, 2) ? client_nonblocking(&id) : otte_open();
		if (fd < 0)
			break;
		keep_id(f, id);
		/* Closed under the other threads, as the file of a call that is just running. */
		dup2(fd, *slot);
		close(fd);
		break;
	case 1:
		fence.client = fence.flags ? 0 : some_id(f);
		if (!pick(f, 64))
			otte_call(*slot, OTTE_IOC_FENCE, &fence);
		break;
	case 2:
		otte_call(*slot, OTTE_IOC_ALLOW, &allow);
		break;
	case 3:
		otte_attest(*slot, some_id(f), 1);
		break;
	case 4:
		if (!otte_hold(*slot, 1 + pick(f, 100), &id))
			keep_id(f, id);
		break;
	case 5:
		otte_hold_drop(*slot, some_id(f));
		break;
	case 6:
		otte_call(*slot, OTTE_IOC_DOMAIN_JOIN, &join);
		break;
	default:
		otte_drain_events(*slot);
		break;
	}
}

/* A struct of noise for a command of noise. */
static void fuzz_noise(struct fuzzer *f, int fd)
{
	unsigned char arg[512];
	uint32_t size = pick(f, sizeof(arg));
	unsigned int i;

	memset(arg, 0, sizeof(arg));
	for (i = 8; i < size; i++)
		arg[i] = pick(f, 3) ? 0 : rand_r(&f->seed);
	memcpy(arg, &size, 4);
	arg[4] = pick(f, 8) ? 0 : rand_r(&f->seed);
	otte_call(fd, _IO(OTTE_IOC_TYPE, pick(f, 0x48)), arg);
}

static void *fuzz(void *arg)
{
	struct fuzzer *f = arg;
	unsigned int what;
	int *slot;

	while (f->done < f->calls) {
		slot = &f->fd[pick(f, 3)];
		what = pick(f, 20);
		shared->at[f->process][f->thread].what = what;
		shared->at[f->process][f->thread].done = f->done;
		if (what < 5)
			fuzz_region(f, *slot);
		else if (what < 12)
			fuzz_loan(f, *slot);
		else if (what < 15)
			fuzz_use(f, *slot);
		else if (what < 16)
			fuzz_memory(f);
		else if (what < 19)
			fuzz_client(f, slot);
		else
			fuzz_noise(f, *slot);
		f->done++;
	}
	__atomic_add_fetch(&shared->done, f->done, __ATOMIC_RELAXED);
	return NULL;
}

static void process(unsigned int me, unsigned int seed, unsigned long calls)
{
	struct fuzzer f[THREADS];
	pthread_t thread[THREADS];
	int fd[3], i;
	char *area = otte_pages(AREA);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < 3; i++)
		fd[i] = client_nonblocking(&shared->id[rand_r(&seed) % IDS]);
	for (i = 0; i < THREADS; i++) {
		f[i] = (struct fuzzer){ .seed = seed * 31 + i, .process = me, .thread = i,
					.fd = fd, .area = area, .calls = calls };
		pthread_create(&thread[i], NULL, fuzz, &f[i]);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	_exit(0);
}

/* Waits for @pid until @end; tells what it was at, and kills it, if it goes on. */
static bool ends_by(pid_t pid, unsigned int process, const struct timespec *end)
{
	struct timespec now;
	unsigned int i;

	for (;;) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return true;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= end->tv_sec)
			break;
		usleep(5000);
	}
	for (i = 0; i < THREADS; i++)
		note("process %u thread %u: kind %u after %lu calls\n", process, i,
		     shared->at[process][i].what, shared->at[process][i].done);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return false;
}

static void release_all(void)
{
	DIR *dir = opendir("/sys/class/misc/otte/retained");
	struct dirent *entry;
	char path[320];
	int fd;

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/sys/class/misc/otte/retained/%s/release",
			 entry->d_name);
		fd = open(path, O_WRONLY);
		if (fd < 0)
			continue;
		/* What is refused is gone by itself, or is asked for again. */
		(void)!write(fd, "1", 1);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

/* For its time limit only. */
FIXTURE(fuzz)
{
	int unused;
};

FIXTURE_SETUP(fuzz)
{
}

FIXTURE_TEARDOWN(fuzz)
{
}

TEST_F_TIMEOUT(fuzz, random_calls_do_no_harm_and_leave_nothing_behind,
	       7200)
{
	unsigned long calls = getenv("OTTE_FUZZ_CALLS") ?
			      strtoul(getenv("OTTE_FUZZ_CALLS"), NULL, 0) : 100000;
	unsigned int seed = getenv("OTTE_FUZZ_SEED") ? atoi(getenv("OTTE_FUZZ_SEED")) : 1, i, tries;
	unsigned int round;
	pid_t pid[PROCESSES];
	struct timespec end;
	bool ended = true;
	int fd;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	fd = otte_client(NULL);
	/* Who is killed has not counted its calls. */
	for (round = 0; shared->done < calls && ended; round++) {
		fflush(NULL);
		for (i = 0; i < PROCESSES; i++) {
			pid[i] = fork();
			if (!pid[i])
				process(i, seed + round * PROCESSES + i,
					ROUND_CALLS / PROCESSES / THREADS);
		}
		/* One of them does not live to its end. */
		usleep(100000);
		kill(pid[round % PROCESSES], SIGKILL);
		clock_gettime(CLOCK_MONOTONIC, &end);
		end.tv_sec += ROUND_S;
		for (i = 0; i < PROCESSES; i++)
			ended &= ends_by(pid[i], i, &end);
		release_all();
	}
	EXPECT_TRUE(ended);
	note("seed %u, %lu calls\n", seed, shared->done);
	EXPECT_GE(shared->done, calls);
	for (tries = 0; tries < 300 && otte_usage(fd, OTTE_RES_RETAINED_BYTES); tries++) {
		release_all();
		usleep(20000);
	}
	if (access("/sys/class/misc/otte/retained", F_OK))
		SKIP(return, "nothing can be released without sysfs");
	EXPECT_TRUE(otte_all_zero(fd, 1));
}

TEST_HARNESS_MAIN
