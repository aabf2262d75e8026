/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What discovery finds of two rxe devices, through the real libibverbs: rxe0 over dummy0 with
 * 192.0.2.1 and rxe1 over dummy1 with 198.51.100.1 and large frames, both with link-local
 * addresses, too. Runs in a guest; see tests/verbs/guest.
 */
#include "transport/rdma/discovery.h"

#include "otte/otte.h"
#include "transport/rdma/verbs.h"

#include "check.h"

static const struct otte_verbs *verbs;
static struct otte_rdma_nics nics;

static int discover(const struct otte_rdma_select *select)
{
	int rc;

	otte_rdma_nics_close(verbs, &nics);
	rc = otte_rdma_discover(verbs, select, &nics);
	if (rc)
		printf("# %s\n", otte_error_text());
	return rc;
}

static bool has_gid(size_t id, const char *address)
{
	char text[OTTE_RDMA_GID_TEXT];

	return !strcmp(otte_rdma_gid_text(&nics.list[id].gid, text), address) &&
	       nics.list[id].gid.type == OTTE_RDMA_GID_ROCE_V2;
}

static void describe(void)
{
	char text[OTTE_RDMA_GID_TEXT];
	const struct otte_rdma_nic *nic;
	size_t i;

	for (i = 0; i < nics.count; i++) {
		nic = &nics.list[i];
		printf("# %zu: %s port %u %s, GID %d %s %s, MTU %u, %llu Mb/s %s; %s\n", i,
		       nic->name, nic->port, otte_rdma_state_text(nic->state), nic->gid.index,
		       otte_rdma_gid_type_text(nic->gid.type), otte_rdma_gid_text(&nic->gid, text),
		       nic->mtu_bytes, (unsigned long long)nic->bytes_per_s / 125000,
		       otte_rdma_rate_source_text(nic->rate_source), nic->why);
	}
}

static void look_at_all(void)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	size_t i;

	check(!discover(&select) && nics.count == 2, "there are two NICs");
	describe();
	check(!strcmp(nics.list[0].name, "rxe0") && !strcmp(nics.list[1].name, "rxe1"),
	      "they are rxe0 and rxe1");
	for (i = 0; i < nics.count; i++) {
		check(nics.list[i].state == OTTE_RDMA_ACTIVE && nics.list[i].port == 1 &&
			      nics.list[i].context,
		      "port 1 is active and open");
		check(nics.list[i].ethernet && !*nics.list[i].pci && nics.list[i].node == -1,
		      "it is of Ethernet, and software");
		check(nics.list[i].rate_source == OTTE_RDMA_RATE_REPORTED &&
			      nics.list[i].bytes_per_s,
		      "it reports a rate");
	}
	check(has_gid(0, "192.0.2.1") && has_gid(1, "198.51.100.1"),
	      "the routable RoCE v2 address is chosen");
	check(nics.list[0].mtu_bytes == 1024 && nics.list[1].mtu_bytes == 4096,
	      "the MTU is the largest that the interface has room for");
}

/* GID 0 is the link-local one that is made from the interface's address. */
static void look_at_one(void)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;

	select.device = "rxe1";
	check(!discover(&select) && nics.count == 1 && !strcmp(nics.list[0].name, "rxe1"),
	      "a device that is named is alone");
	describe();
	check(nics.list[0].port == 1 && nics.list[0].gid.index == 0 &&
		      nics.list[0].gid.bytes[0] == 0xfe && nics.list[0].gid.bytes[1] == 0x80,
	      "it has port 1 and GID 0");
	select.gid_index = 200;
	check(discover(&select) == -ENODATA && strstr(otte_error_text(), "rxe1 port 1") &&
		      strstr(otte_error_text(), "GID 200"),
	      "a GID that is not there has no substitute");
	select.gid_index = OTTE_RDMA_UNSET;
	select.port = 2;
	check(discover(&select) == -ENODEV && strstr(otte_error_text(), "rxe1: no port 2"),
	      "nor has a port");
	select.device = "rxe9";
	check(discover(&select) == -ENODEV && strstr(otte_error_text(), "no device rxe9"),
	      "nor has a device");
}

static void look_at_what_is_permitted(void)
{
	static const char *const names[] = { "rxe0" };
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;

	select.blacklist = names;
	select.blacklist_count = 1;
	select.link_rate_mbps = 100000;
	check(!discover(&select) && nics.count == 1 && !strcmp(nics.list[0].name, "rxe1"),
	      "what the blacklist names is left out");
	check(nics.list[0].bytes_per_s == 12500000000ull &&
		      nics.list[0].rate_source == OTTE_RDMA_RATE_CONFIGURED,
	      "a configured rate counts");
}

/* One that says nothing of the types of GIDs: the kernel's own files do. */
static void look_through_an_older_library(void)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	const struct otte_verbs *newer = verbs;
	struct otte_verbs older = *verbs;

	older.query_gid_ex = NULL;
	verbs = &older;
	check(!discover(&select) && nics.count == 2, "an older library shows two NICs, too");
	describe();
	check(has_gid(0, "192.0.2.1") && has_gid(1, "198.51.100.1"), "with the same addresses");
	otte_rdma_nics_close(verbs, &nics);
	verbs = newer;
}

static void look_at_one_that_goes_down(void)
{
	struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;

	check(!system("ip link set dummy1 down"), "the interface of rxe1 goes down");
	check(!discover(&select) && nics.count == 2, "there are still two NICs");
	describe();
	check(nics.list[0].state == OTTE_RDMA_ACTIVE && nics.list[1].state == OTTE_RDMA_PAUSED,
	      "the second one is paused");
	check(nics.list[1].context && has_gid(1, "198.51.100.1"), "with its context and address");
	check(!system("ip link set dummy1 up"), "the interface comes up");
	check(!discover(&select) && nics.list[1].state == OTTE_RDMA_ACTIVE, "and so does the NIC");
}

int main(void)
{
	int rc = otte_verbs_open(&verbs);

	if (rc)
		printf("# %s\n", otte_error_text());
	check(!rc, "libibverbs opens");
	if (rc)
		return checked();
	look_at_all();
	look_at_one();
	look_at_what_is_permitted();
	look_through_an_older_library();
	look_at_one_that_goes_down();
	otte_rdma_nics_close(verbs, &nics);
	return checked();
}
