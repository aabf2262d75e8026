/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A mapped loan cannot be registered with an RDMA device: nobody but the module may hold the
 * lender's pages, or settling would prove nothing. Runs in a guest with otte.ko and one rxe
 * device; see tests/verbs/guest.
 *
 * Each rule has its control beside it, so that a refusal has no other cause.
 */
#include <infiniband/verbs.h>

#include "../kselftest/otte_test.h"
#include "check.h"

#define BYTES (16 * PAGE)

static void must(bool good, const char *what)
{
	if (good)
		return;
	printf("not ok - %s: %s\n", what, strerror(errno));
	exit(2);
}

static struct ibv_pd *open_device(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context;
	struct ibv_pd *pd;

	must(list && count, "there is an RDMA device");
	context = ibv_open_device(list[0]);
	must(context, "the device opens");
	pd = ibv_alloc_pd(context);
	must(pd, "a protection domain");
	return pd;
}

/* 0, or what registering failed with. */
static int register_memory(struct ibv_pd *pd, void *at, int access)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(pd, at, BYTES, access);
	if (!mr)
		return errno ? errno : EINVAL;
	ibv_dereg_mr(mr);
	return 0;
}

struct lent {
	int fd;
	uint64_t loan;
	void *map;
};

/* A loan of @memory that this process maps. */
static struct lent lend(void *memory, uint32_t direction)
{
	int protection = direction == OTTE_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
	struct otte_loan_accept accepted = {};
	uint64_t client = 0, region = 0;
	struct lent lent = {};

	lent.fd = otte_client(&client);
	must(lent.fd >= 0, "a client");
	must(!otte_region(lent.fd, OTTE_BACKING_PAGES, direction, memory, BYTES, &region),
	     "a region");
	must(!otte_offer(lent.fd, region, 0, BYTES, client, direction, OTTE_LOAN_MAPPABLE,
			 &lent.loan),
	     "an offer");
	must(!otte_accept(lent.fd, lent.loan, &accepted), "its acceptance");
	lent.map = mmap(NULL, BYTES, protection, MAP_SHARED, lent.fd, accepted.map_offset);
	must(lent.map != MAP_FAILED, "a mapping");
	return lent;
}

static void refused(struct ibv_pd *pd, uint32_t direction, int access, const char *rule)
{
	/* Shared, because the kernel itself refuses to put anonymous pages into a driver's mapping. */
	void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct lent lent;
	int err;

	must(memory != MAP_FAILED, "memory");
	otte_fill(memory, BYTES, 7);
	lent = lend(memory, direction);
	check(otte_filled(lent.map, BYTES, 7, 0), "the mapping shows the lender's bytes");
	err = register_memory(pd, lent.map, access);
	if (err)
		printf("# refused with %s\n", strerror(err));
	check(err == EFAULT, rule);
	munmap(lent.map, BYTES);
	check(!otte_settle(lent.fd, lent.loan), "the loan settles after the refusal");
	close(lent.fd);
	munmap(memory, BYTES);
}

int main(void)
{
	struct ibv_pd *pd = open_device();
	void *own = otte_pages(BYTES);

	must(own, "memory");
	check(!register_memory(pd, own, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
	      "memory of one's own can be registered");
	refused(pd, OTTE_READ, IBV_ACCESS_REMOTE_READ,
		"a loan mapped for reading cannot be registered for remote reads");
	refused(pd, OTTE_READ, 0, "nor for local use");
	refused(pd, OTTE_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		"a loan mapped for writing cannot be registered for remote writes");
	check(!register_memory(pd, own, IBV_ACCESS_LOCAL_WRITE),
	      "the device still registers memory of one's own");
	return checked();
}
