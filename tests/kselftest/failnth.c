// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every allocation and every user copy on the way of each command fails once, in turn: the call
 * says so, nothing is lost, and nothing is left behind. Needs a kernel with fault injection.
 *
 * A chain is run with the fault set for its Nth chance, for N from 1 until it is not reached.
 */
#include "otte_test.h"
#include "kselftest_harness.h"

#define BYTES	(4 * PAGE)

static int nth_fd = -1;

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static void fault_at(unsigned int n)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(nth_fd, text, length, 0) != length && n)
		exit(20);
}

/*
 * Disarms; true if the fault has struck. If it strikes now, in the asking, it was not reached: that
 * read fails, and so may the disarming, after which there is nothing left to disarm.
 */
static bool fault_struck(void)
{
	char text[16] = "";
	bool asked = pread(nth_fd, text, sizeof(text) - 1, 0) > 0;

	fault_at(0);
	return asked && atoi(text) == 0;
}

/* What a chain may hold; closed after each run, whatever came of it. */
struct chain {
	int a, b, file;
	uint64_t a_id, b_id, region, loan, other;
	struct otte_loan_accept accept;
	char *mem;
};

static int quota(int fd)
{
	struct otte_quota arg = { .size = sizeof(arg) };

	return otte_call(fd, OTTE_IOC_QUOTA, &arg);
}

static int fence(int fd, uint32_t flags, uint64_t client)
{
	struct otte_fence arg = { .size = sizeof(arg), .flags = flags, .client = client };

	arg.peer[0] = flags == OTTE_FENCE_PEER;
	return otte_call(fd, OTTE_IOC_FENCE, &arg);
}

static int allow(int fd, uint64_t client)
{
	struct otte_allow arg = { .size = sizeof(arg), .client = client };

	return otte_call(fd, OTTE_IOC_ALLOW, &arg);
}

static int join(int fd)
{
	struct otte_domain_join arg = { .size = sizeof(arg), .name = "default" };

	return otte_call(fd, OTTE_IOC_DOMAIN_JOIN, &arg);
}

static int nic(int fd)
{
	struct otte_domain_nic arg = { .size = sizeof(arg), .name = "eth0" };

	return otte_call(fd, OTTE_IOC_DOMAIN_NIC, &arg);
}

static int read_one(int fd)
{
	struct otte_event event;

	return read(fd, &event, sizeof(event)) == sizeof(event) ? 0 : -errno;
}

static int map_once(int fd, uint64_t offset, size_t bytes)
{
	char *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, offset);
	int err = 0;

	if (map == MAP_FAILED)
		return -errno;
	/* Faulted in by the kernel, so that a failure there is an error and no signal. */
	if (syscall(SYS_access, map, F_OK) && errno == EFAULT)
		err = -EFAULT;
	/* It may be munmap() that fails. */
	while (munmap(map, bytes))
		;
	return err;
}

#define STEP(call) do {			\
	int _err = (call);		\
	if (_err < 0)			\
		return _err;		\
} while (0)

static int chain_clients(struct chain *c)
{
	STEP(c->a = otte_client(&c->a_id));
	STEP(c->b = otte_client(&c->b_id));
	STEP(quota(c->a));
	STEP(otte_attest(c->a, c->b_id, 1));
	STEP(read_one(c->b));
	STEP(allow(c->a, c->b_id));
	STEP(fence(c->a, 0, c->b_id));
	STEP(fence(c->a, OTTE_FENCE_PEER, 0));
	STEP(otte_hold(c->a, 10, &c->other));
	STEP(otte_hold_drop(c->a, c->other));
	STEP(map_once(c->a, OTTE_MMAP_STATUS, PAGE));
	return 0;
}

static int chain_domain(struct chain *c)
{
	STEP(c->a = otte_client(&c->a_id));
	STEP(join(c->a));
	STEP(nic(c->a));
	STEP(map_once(c->a, OTTE_MMAP_SLOT, PAGE));
	STEP(map_once(c->a, OTTE_MMAP_LOAD, PAGE));
	STEP(map_once(c->a, OTTE_MMAP_SHARE, PAGE));
	return 0;
}

static int chain_pages(struct chain *c)
{
	static char buf[BYTES];

	STEP(c->a = otte_client(&c->a_id));
	STEP(c->b = otte_client(&c->b_id));
	STEP(otte_region(c->a, OTTE_BACKING_PAGES, OTTE_READ, c->mem, BYTES, &c->region));
	STEP(otte_verify(c->a, c->region));
	STEP(otte_offer(c->a, c->region, 0, BYTES, c->b_id, OTTE_READ,
			OTTE_LOAN_MAPPABLE | OTTE_LOAN_REVOCABLE, &c->loan));
	STEP(read_one(c->b));
	STEP(otte_accept(c->b, c->loan, &c->accept));
	STEP(otte_copy(c->b, c->loan, 0, buf, BYTES));
	STEP(map_once(c->b, c->accept.map_offset, BYTES));
	STEP(otte_settle(c->b, c->loan));
	STEP(read_one(c->a));
	STEP(otte_offer(c->a, c->region, 0, PAGE, c->b_id, OTTE_READ, OTTE_LOAN_REVOCABLE,
			&c->loan));
	STEP(otte_accept(c->b, c->loan, &c->accept));
	STEP(otte_revoke(c->a, c->loan, NULL));
	STEP(otte_offer(c->a, c->region, 0, PAGE, c->b_id, OTTE_READ, 0, &c->loan));
	STEP(otte_withdraw(c->a, c->loan));
	STEP(otte_expose(c->a, c->region, 0, PAGE, 1, 1, OTTE_READ, &c->loan));
	STEP(otte_settle(c->a, c->loan));
	STEP(otte_region_del(c->a, c->region, NULL));
	return 0;
}

static int chain_none_and_file(struct chain *c)
{
	STEP(c->a = otte_client(&c->a_id));
	STEP(c->b = otte_client(&c->b_id));
	STEP(otte_region(c->a, OTTE_BACKING_NONE, OTTE_READ, c->mem, BYTES, &c->region));
	STEP(otte_region_del(c->a, c->region, NULL));
	STEP(otte_region_file(c->a, OTTE_WRITE, c->file, BYTES, &c->region));
	STEP(otte_offer_evidence(c->a, c->region, 0, BYTES, c->b_id, OTTE_WRITE, 0, 0, &c->loan));
	STEP(otte_accept(c->b, c->loan, &c->accept));
	close(c->accept.fd);
	STEP(otte_settle(c->b, c->loan));
	return 0;
}

FIXTURE(failnth)
{
	int fd;
	uint64_t client;
	struct chain chain;
};

FIXTURE_VARIANT(failnth)
{
	int (*chain)(struct chain *c);
};

FIXTURE_VARIANT_ADD(failnth, clients)
{
	.chain = chain_clients,
};

FIXTURE_VARIANT_ADD(failnth, domain)
{
	.chain = chain_domain,
};

FIXTURE_VARIANT_ADD(failnth, pages)
{
	.chain = chain_pages,
};

FIXTURE_VARIANT_ADD(failnth, none_and_file)
{
	.chain = chain_none_and_file,
};

FIXTURE_SETUP(failnth)
{
	nth_fd = open("/proc/self/fail-nth", O_RDWR);
	if (nth_fd < 0)
		SKIP(return, "no fault injection in this kernel");
	ASSERT_TRUE(put("/sys/kernel/debug/failslab/ignore-gfp-wait", "N"));
	ASSERT_TRUE(put("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N"));
	ASSERT_TRUE(put("/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N"));
	ASSERT_TRUE(put("/sys/kernel/debug/fail_page_alloc/min-order", "0"));
	put("/sys/kernel/debug/failslab/verbose", "0");
	put("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	put("/sys/kernel/debug/fail_usercopy/verbose", "0");
	self->fd = otte_client(&self->client);
	ASSERT_GE(self->fd, 0);
	self->chain.file = memfd_create("lent", MFD_ALLOW_SEALING);
	ASSERT_EQ(0, ftruncate(self->chain.file, BYTES));
	ASSERT_EQ(0, fcntl(self->chain.file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	self->chain.mem = otte_pages(BYTES);
	memset(self->chain.mem, 1, BYTES);
}

FIXTURE_TEARDOWN(failnth)
{
	close(self->fd);
}

/* Ends what a run left; a file that was handed over leaves a loan that only its borrower ends. */
static void chain_end(struct chain *c, bool struck)
{
	if (c->b >= 0 && c->loan)
		otte_settle(c->b, c->loan);
	if (c->a >= 0 && c->loan)
		otte_settle(c->a, c->loan);
	if (c->a >= 0 && c->other)
		otte_hold_drop(c->a, c->other);
	if (c->a >= 0)
		close(c->a);
	if (c->b >= 0)
		close(c->b);
	c->a = -1;
	c->b = -1;
	c->loan = 0;
	c->other = 0;
}

static void release_all(void)
{
	if (system("for r in /sys/class/misc/otte/retained/[0-9]*; do echo 1 >$r/release; done"))
		return;
}

TEST_F_TIMEOUT(failnth, each_failure_is_reported_and_leaves_nothing, 600)
{
	unsigned int n, struck = 0;
	int err;

	self->chain.a = -1;
	self->chain.b = -1;
	/* Once without a fault, so that what is made once is made. */
	ASSERT_EQ(0, variant->chain(&self->chain));
	chain_end(&self->chain, false);
	for (n = 1; n < 2000; n++) {
		fault_at(n);
		err = variant->chain(&self->chain);
		if (!fault_struck()) {
			EXPECT_EQ(0, err);
			chain_end(&self->chain, false);
			break;
		}
		struck++;
		chain_end(&self->chain, true);
		/* An id that could not be told to us (EFAULT on the way out) cannot be dropped. */
		if (otte_usage(self->fd, OTTE_RES_RETAINED_BYTES))
			release_all();
		ASSERT_TRUE(otte_all_zero(self->fd, 1))
			TH_LOG("after the fault at %u (%d)", n, err);
	}
	note("%u faults\n", struck);
	EXPECT_GT(struck, 10);
	EXPECT_LT(n, 2000);
}

TEST_HARNESS_MAIN
