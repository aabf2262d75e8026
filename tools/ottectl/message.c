/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "message.h"

#include <errno.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

/* What an attribute's payload is. */
enum kind {
	KIND_IGNORED, /* padding, and what is not known */
	KIND_U32,
	KIND_U64,
	KIND_NAME,
	KIND_COMM,
	KIND_LOAD_ID,
	KIND_PEER,
	KIND_EPOCH, /* the rest may be repeated */
	KIND_NIC,
	KIND_USAGE,
	KIND_LIMIT,
};

static const uint8_t kinds[OTTE_A_COUNT] = {
	[OTTE_A_GENERATION] = KIND_U64,	 [OTTE_A_ID] = KIND_U64,
	[OTTE_A_NOTICE] = KIND_U32,	 [OTTE_A_REVISION] = KIND_U32,
	[OTTE_A_LOAD_ID] = KIND_LOAD_ID, [OTTE_A_DRAINING] = KIND_U32,
	[OTTE_A_OWNER] = KIND_U64,	 [OTTE_A_BORROWER] = KIND_U64,
	[OTTE_A_REGION] = KIND_U64,	 [OTTE_A_TGID] = KIND_U32,
	[OTTE_A_UID] = KIND_U32,	 [OTTE_A_GID] = KIND_U32,
	[OTTE_A_CGROUP] = KIND_U64,	 [OTTE_A_START_NS] = KIND_U64,
	[OTTE_A_COMM] = KIND_COMM,	 [OTTE_A_FENCED] = KIND_U32,
	[OTTE_A_DOMAIN] = KIND_U64,	 [OTTE_A_STATE] = KIND_U32,
	[OTTE_A_BACKING] = KIND_U32,	 [OTTE_A_ACCESS] = KIND_U32,
	[OTTE_A_BYTES] = KIND_U64,	 [OTTE_A_OFFSET] = KIND_U64,
	[OTTE_A_DIRECTION] = KIND_U32,	 [OTTE_A_FLAGS] = KIND_U32,
	[OTTE_A_ACCEPTED] = KIND_U32,	 [OTTE_A_EVIDENCE] = KIND_U32,
	[OTTE_A_PEER] = KIND_PEER,	 [OTTE_A_INCARNATION] = KIND_U64,
	[OTTE_A_TAG] = KIND_U64,	 [OTTE_A_WORD] = KIND_U64,
	[OTTE_A_LOANS] = KIND_U32,	 [OTTE_A_EXPOSED] = KIND_U32,
	[OTTE_A_KIND] = KIND_U32,	 [OTTE_A_REASON] = KIND_U32,
	[OTTE_A_AGE_NS] = KIND_U64,	 [OTTE_A_NAME] = KIND_NAME,
	[OTTE_A_MODE] = KIND_U32,	 [OTTE_A_MEMBERS] = KIND_U32,
	[OTTE_A_NOW_NS] = KIND_U64,	 [OTTE_A_EPOCH] = KIND_EPOCH,
	[OTTE_A_NIC] = KIND_NIC,	 [OTTE_A_SUMS] = KIND_U64,
	[OTTE_A_SUMMING] = KIND_U32,	 [OTTE_A_LEVEL] = KIND_U32,
	[OTTE_A_KEY] = KIND_U64,	 [OTTE_A_USAGE] = KIND_USAGE,
	[OTTE_A_LIMIT] = KIND_LIMIT,	 [OTTE_A_RESOURCE] = KIND_U32,
	[OTTE_A_REQUESTED] = KIND_U64,
};

_Static_assert(OTTE_A_COUNT <= 64, "a bit for each attribute");

#define BIT(attribute) (UINT64_C(1) << OTTE_A_##attribute)

/* What each message of a kind has, whatever it is about. */
static const uint64_t required[OTTE_NL_COMMANDS] = {
	[OTTE_NL_STATUS] = BIT(GENERATION) | BIT(REVISION) | BIT(LOAD_ID) | BIT(DRAINING) |
			   BIT(USAGE) | BIT(LIMIT),
	[OTTE_NL_CLIENTS] = BIT(GENERATION) | BIT(ID) | BIT(TGID) | BIT(UID) | BIT(COMM) |
			    BIT(CGROUP) | BIT(START_NS) | BIT(FENCED) | BIT(DOMAIN),
	[OTTE_NL_REGIONS] = BIT(GENERATION) | BIT(ID) | BIT(OWNER) | BIT(STATE) | BIT(BACKING) |
			    BIT(ACCESS) | BIT(BYTES) | BIT(TAG) | BIT(WORD) | BIT(LOANS) |
			    BIT(EXPOSED),
	[OTTE_NL_LOANS] = BIT(GENERATION) | BIT(ID) | BIT(OWNER) | BIT(STATE) | BIT(DIRECTION) |
			  BIT(FLAGS) | BIT(ACCEPTED) | BIT(EVIDENCE) | BIT(BYTES) | BIT(TAG),
	[OTTE_NL_RETAINED] = BIT(GENERATION) | BIT(ID) | BIT(KIND) | BIT(OWNER) | BIT(TGID) |
			     BIT(UID) | BIT(COMM) | BIT(CGROUP) | BIT(BYTES) | BIT(REASON) |
			     BIT(TAG) | BIT(AGE_NS),
	[OTTE_NL_DOMAINS] = BIT(GENERATION) | BIT(ID) | BIT(NAME) | BIT(UID) | BIT(GID) |
			    BIT(MODE) | BIT(MEMBERS) | BIT(NOW_NS) | BIT(EPOCH) | BIT(SUMS) |
			    BIT(SUMMING),
	[OTTE_NL_ACCOUNTS] = BIT(GENERATION) | BIT(LEVEL) | BIT(KEY) | BIT(USAGE) | BIT(LIMIT),
	[OTTE_NL_NOTICE] = BIT(NOTICE) | BIT(ID) | BIT(GENERATION),
};

/* A notice of QUOTA has these too. */
#define REFUSAL (BIT(LEVEL) | BIT(KEY) | BIT(RESOURCE) | BIT(USAGE) | BIT(LIMIT) | BIT(REQUESTED))

static int OTTE_PRINTF(3, 4)
	refuse(struct message_fault *fault, int attribute, const char *format, ...)
{
	va_list args;

	fault->attribute = attribute;
	va_start(args, format);
	vsnprintf(fault->text, sizeof(fault->text), format, args);
	va_end(args);
	return -EBADMSG;
}

static int take_bytes(void *to, size_t size, const struct nlattr *attribute,
		      struct message_fault *fault)
{
	int length = nla_len(attribute);

	if ((size_t)length != size)
		return refuse(fault, nla_type(attribute), "it has %d bytes, not %zu", length, size);
	memcpy(to, nla_data(attribute), size);
	return 0;
}

static int take_u32(uint64_t *to, const struct nlattr *attribute, struct message_fault *fault)
{
	uint32_t value = 0;
	int rc = take_bytes(&value, sizeof(value), attribute, fault);

	*to = value;
	return rc;
}

static int take_text(char *to, size_t size, const struct nlattr *attribute,
		     struct message_fault *fault)
{
	size_t length = (size_t)nla_len(attribute);
	const char *text = nla_data(attribute);

	if (!length || text[length - 1])
		return refuse(fault, nla_type(attribute), "the string has no end");
	if (length > size)
		return refuse(fault, nla_type(attribute), "the string has %zu bytes, above %zu",
			      length, size);
	memcpy(to, text, length);
	return 0;
}

/* One more of a list of numbers; a list longer than ours comes from a module that knows more. */
static int take_listed(uint64_t *list, unsigned *count, const struct nlattr *attribute,
		       struct message_fault *fault)
{
	uint64_t value = 0;
	int rc = take_bytes(&value, sizeof(value), attribute, fault);

	if (!rc && *count < OTTE_RES_COUNT)
		list[(*count)++] = value;
	return rc;
}

/* A pattern is used as the divisor and the index of arithmetic on the clock. */
static int take_epoch(struct message *message, const struct nlattr *attribute,
		      struct message_fault *fault)
{
	struct otte_slot_epoch epoch = { 0 };
	unsigned i;
	int rc = take_bytes(&epoch, sizeof(epoch), attribute, fault);

	if (rc)
		return rc;
	if (message->epochs == MESSAGE_EPOCHS_MAX)
		return refuse(fault, OTTE_A_EPOCH, "there are more than %d", MESSAGE_EPOCHS_MAX);
	if (!epoch.slots || epoch.slots > OTTE_SLOTS_MAX || !epoch.interval_ns)
		return refuse(fault, OTTE_A_EPOCH, "a pattern of %u slots of %llu ns", epoch.slots,
			      (unsigned long long)epoch.interval_ns);
	for (i = 0; i < epoch.slots; i++)
		if (epoch.lowest[i] >= OTTE_PRIORITIES)
			return refuse(fault, OTTE_A_EPOCH, "slot %u is for priority %u", i,
				      epoch.lowest[i]);
	message->epoch[message->epochs++] = epoch;
	return 0;
}

static int take_nic(struct message *message, const struct nlattr *attribute,
		    struct message_fault *fault)
{
	if (message->nics == OTTE_NICS_MAX)
		return refuse(fault, OTTE_A_NIC, "there are more than %d", OTTE_NICS_MAX);
	return take_text(message->nic[message->nics++], OTTE_NAME_LEN, attribute, fault);
}

static int take_attribute(struct message *message, const struct nlattr *attribute,
			  struct message_fault *fault)
{
	int type = nla_type(attribute);

	if (type >= OTTE_A_COUNT)
		return 0;
	if (message_has(message, type) && kinds[type] < KIND_EPOCH && kinds[type] != KIND_IGNORED)
		return refuse(fault, type, "it is there twice");
	message->present |= UINT64_C(1) << type;
	switch (kinds[type]) {
	case KIND_U32:
		return take_u32(&message->number[type], attribute, fault);
	case KIND_U64:
		return take_bytes(&message->number[type], sizeof(uint64_t), attribute, fault);
	case KIND_NAME:
		return take_text(message->name, sizeof(message->name), attribute, fault);
	case KIND_COMM:
		return take_text(message->comm, sizeof(message->comm), attribute, fault);
	case KIND_LOAD_ID:
		return take_bytes(message->load_id, sizeof(message->load_id), attribute, fault);
	case KIND_PEER:
		return take_bytes(message->peer, sizeof(message->peer), attribute, fault);
	case KIND_EPOCH:
		return take_epoch(message, attribute, fault);
	case KIND_NIC:
		return take_nic(message, attribute, fault);
	case KIND_USAGE:
		return take_listed(message->usage, &message->usages, attribute, fault);
	case KIND_LIMIT:
		return take_listed(message->limit, &message->limits, attribute, fault);
	default:
		return 0;
	}
}

static int take_attributes(struct message *message, const struct genlmsghdr *head,
			   struct message_fault *fault)
{
	const struct nlattr *attribute = genlmsg_attrdata(head, 0);
	int left = genlmsg_attrlen(head, 0), rc;

	while (nla_ok(attribute, left)) {
		rc = take_attribute(message, attribute, fault);
		if (rc)
			return rc;
		attribute = nla_next(attribute, &left);
	}
	if (left > 0)
		return refuse(fault, OTTE_A_UNSPEC, "%d bytes at its end are no attribute", left);
	return 0;
}

/* A single number each in a refusal; else one for each resource. */
static int check_lists(const struct message *message, struct message_fault *fault)
{
	unsigned wanted = message->command == OTTE_NL_NOTICE ? 1 : OTTE_RES_COUNT;

	if (message_has(message, OTTE_A_USAGE) && message->usages < wanted)
		return refuse(fault, OTTE_A_USAGE, "%u of them, not %u", message->usages, wanted);
	if (message_has(message, OTTE_A_LIMIT) && message->limits < wanted)
		return refuse(fault, OTTE_A_LIMIT, "%u of them, not %u", message->limits, wanted);
	return 0;
}

static int check_complete(const struct message *message, struct message_fault *fault)
{
	uint64_t missing = required[message->command];
	int attribute;

	if (message->command == OTTE_NL_NOTICE &&
	    message->number[OTTE_A_NOTICE] == OTTE_NL_NOTICE_QUOTA)
		missing |= REFUSAL;
	missing &= ~message->present;
	if (!missing)
		return check_lists(message, fault);
	attribute = __builtin_ctzll(missing);
	return refuse(fault, attribute, "it is missing");
}

int message_parse(const struct nlmsghdr *head, size_t room, struct message *message,
		  struct message_fault *fault)
{
	struct genlmsghdr *genl_head;
	int rc;

	memset(message, 0, sizeof(*message));
	if (room > INT32_MAX || !nlmsg_ok(head, (int)room) ||
	    head->nlmsg_len < NLMSG_LENGTH(GENL_HDRLEN))
		return refuse(fault, OTTE_A_UNSPEC, "it is cut off after %zu bytes", room);
	genl_head = nlmsg_data(head);
	message->command = genl_head->cmd;
	if (message->command == OTTE_NL_UNSPEC || message->command >= OTTE_NL_COMMANDS)
		return refuse(fault, OTTE_A_UNSPEC, "it is of the unknown kind %u",
			      message->command);
	rc = take_attributes(message, genl_head, fault);
	return rc ? rc : check_complete(message, fault);
}
