/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>
#include <string.h>

#include "base/util.h"

/* What the module puts into each message, in an order of its own. */
static const int attributes[OTTE_NL_COMMANDS][20] = {
	[OTTE_NL_STATUS] = { OTTE_A_GENERATION, OTTE_A_REVISION, OTTE_A_LOAD_ID, OTTE_A_DRAINING,
			     OTTE_A_USAGE, OTTE_A_LIMIT },
	[OTTE_NL_CLIENTS] = { OTTE_A_GENERATION, OTTE_A_ID, OTTE_A_TGID, OTTE_A_UID, OTTE_A_COMM,
			      OTTE_A_CGROUP, OTTE_A_START_NS, OTTE_A_FENCED, OTTE_A_DOMAIN },
	[OTTE_NL_REGIONS] = { OTTE_A_GENERATION, OTTE_A_ID, OTTE_A_OWNER, OTTE_A_STATE,
			      OTTE_A_BACKING, OTTE_A_ACCESS, OTTE_A_BYTES, OTTE_A_TAG, OTTE_A_WORD,
			      OTTE_A_LOANS, OTTE_A_EXPOSED },
	[OTTE_NL_LOANS] = { OTTE_A_GENERATION, OTTE_A_ID, OTTE_A_OWNER, OTTE_A_STATE,
			    OTTE_A_DIRECTION, OTTE_A_FLAGS, OTTE_A_ACCEPTED, OTTE_A_EVIDENCE,
			    OTTE_A_BYTES, OTTE_A_TAG },
	[OTTE_NL_RETAINED] = { OTTE_A_GENERATION, OTTE_A_ID, OTTE_A_KIND, OTTE_A_OWNER, OTTE_A_TGID,
			       OTTE_A_UID, OTTE_A_COMM, OTTE_A_CGROUP, OTTE_A_BYTES, OTTE_A_REASON,
			       OTTE_A_TAG, OTTE_A_AGE_NS },
	[OTTE_NL_DOMAINS] = { OTTE_A_GENERATION, OTTE_A_ID, OTTE_A_NAME, OTTE_A_UID, OTTE_A_GID,
			      OTTE_A_MODE, OTTE_A_MEMBERS, OTTE_A_NOW_NS, OTTE_A_EPOCH, OTTE_A_SUMS,
			      OTTE_A_SUMMING, OTTE_A_NIC },
	[OTTE_NL_ACCOUNTS] = { OTTE_A_GENERATION, OTTE_A_LEVEL, OTTE_A_KEY, OTTE_A_USAGE,
			       OTTE_A_LIMIT },
	[OTTE_NL_NOTICE] = { OTTE_A_NOTICE, OTTE_A_ID, OTTE_A_GENERATION },
};

struct nl_msg *build_begin(uint8_t command)
{
	struct nl_msg *msg = nlmsg_alloc();

	assert_non_null(msg);
	assert_non_null(genlmsg_put(msg, 0, 1, 30, 0, NLM_F_MULTI, command, OTTE_NL_VERSION));
	return msg;
}

void build_u32(struct nl_msg *msg, int attribute, uint32_t value)
{
	assert_int_equal(nla_put_u32(msg, attribute, value), 0);
}

void build_u64(struct nl_msg *msg, int attribute, uint64_t value)
{
	assert_int_equal(nla_put_u64(msg, attribute, value), 0);
}

static void build_epoch(struct nl_msg *msg)
{
	struct otte_slot_epoch epoch = {
		.base_ns = 1000, .interval_ns = 100, .slots = 3, .lowest = { 0, 1, 2 }
	};

	assert_int_equal(nla_put(msg, OTTE_A_EPOCH, sizeof(epoch), &epoch), 0);
}

static void build_amounts(struct nl_msg *msg, int attribute)
{
	unsigned i;

	for (i = 0; i < OTTE_RES_COUNT; i++)
		build_u64(msg, attribute, 100u * (unsigned)attribute + i);
}

static void build_one(struct nl_msg *msg, int attribute)
{
	static const uint8_t load_id[16] = { 0xab, 0xcd };

	switch (attribute) {
	case OTTE_A_LOAD_ID:
		assert_int_equal(nla_put(msg, attribute, sizeof(load_id), load_id), 0);
		return;
	case OTTE_A_COMM:
	case OTTE_A_NAME:
	case OTTE_A_NIC:
		assert_int_equal(nla_put_string(msg, attribute, "some-name"), 0);
		return;
	case OTTE_A_EPOCH:
		build_epoch(msg);
		return;
	case OTTE_A_USAGE:
	case OTTE_A_LIMIT:
		build_amounts(msg, attribute);
		return;
	case OTTE_A_GENERATION:
	case OTTE_A_ID:
	case OTTE_A_OWNER:
	case OTTE_A_CGROUP:
	case OTTE_A_START_NS:
	case OTTE_A_DOMAIN:
	case OTTE_A_BYTES:
	case OTTE_A_TAG:
	case OTTE_A_WORD:
	case OTTE_A_AGE_NS:
	case OTTE_A_NOW_NS:
	case OTTE_A_SUMS:
	case OTTE_A_KEY:
		build_u64(msg, attribute, 1000u + (unsigned)attribute);
		return;
	default:
		build_u32(msg, attribute, 1);
	}
}

void build_all(struct nl_msg *msg, uint8_t command, int except)
{
	const int *attribute;

	for (attribute = attributes[command]; *attribute; attribute++)
		if (*attribute != except)
			build_one(msg, *attribute);
}

struct message build_end(struct nl_msg *msg)
{
	struct message_fault fault;
	struct message message;
	struct nlmsghdr *head = nlmsg_hdr(msg);
	int rc = message_parse(head, head->nlmsg_len, &message, &fault);

	nlmsg_free(msg);
	assert_int_equal(rc, 0);
	return message;
}

/* All is there; then the numbers that matter are what the test wants. */
static struct message build_plain(uint8_t command)
{
	struct nl_msg *msg = build_begin(command);

	build_all(msg, command, OTTE_A_UNSPEC);
	return build_end(msg);
}

struct message build_client(uint64_t id, uint32_t uid, const char *comm)
{
	struct message message = build_plain(OTTE_NL_CLIENTS);

	message.number[OTTE_A_ID] = id;
	message.number[OTTE_A_UID] = uid;
	strncpy(message.comm, comm, sizeof(message.comm) - 1);
	return message;
}

struct message build_loan(uint64_t lender, uint64_t borrower, uint32_t state, uint64_t bytes)
{
	struct nl_msg *msg = build_begin(OTTE_NL_LOANS);
	struct message message;

	build_all(msg, OTTE_NL_LOANS, OTTE_A_UNSPEC);
	if (borrower)
		build_u64(msg, OTTE_A_BORROWER, borrower);
	message = build_end(msg);
	message.number[OTTE_A_OWNER] = lender;
	message.number[OTTE_A_STATE] = state;
	message.number[OTTE_A_BYTES] = bytes;
	return message;
}

struct message build_region(uint64_t owner, uint64_t bytes)
{
	struct message message = build_plain(OTTE_NL_REGIONS);

	message.number[OTTE_A_OWNER] = owner;
	message.number[OTTE_A_BYTES] = bytes;
	return message;
}

struct message build_record(uint64_t owner, uint64_t bytes, uint64_t age_ns)
{
	struct message message = build_plain(OTTE_NL_RETAINED);

	message.number[OTTE_A_OWNER] = owner;
	message.number[OTTE_A_BYTES] = bytes;
	message.number[OTTE_A_AGE_NS] = age_ns;
	return message;
}
