/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "describe.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/util.h"
#include "../common/output.h"

#define RESOURCE(id, name) [OTTE_RES_##id] = (name),
#define LEVEL(id, name) [OTTE_LEVEL_##id] = (name),

const char *const resource_names[OTTE_RES_COUNT] = { OTTE_RESOURCE_NAMES(RESOURCE) };
const char *const level_names[OTTE_LEVEL_COUNT] = { OTTE_LEVEL_NAMES(LEVEL) };

static_assert(OTTE_NAME_COUNT(OTTE_RESOURCE_NAMES) == OTTE_RES_COUNT, "each resource has a name");
static_assert(OTTE_NAME_COUNT(OTTE_LEVEL_NAMES) == OTTE_LEVEL_COUNT, "each level has a name");

static const char *const notices[] = {
	[OTTE_NL_NOTICE_CLIENT_NEW] = "client_new", [OTTE_NL_NOTICE_CLIENT_GONE] = "client_gone",
	[OTTE_NL_NOTICE_RETAINED] = "retained",	    [OTTE_NL_NOTICE_RELEASED] = "released",
	[OTTE_NL_NOTICE_QUOTA] = "quota",	    [OTTE_NL_NOTICE_FENCED] = "fenced",
};

static const char *const kinds[] = {
	[OTTE_NL_KIND_REGION] = "region",
	[OTTE_NL_KIND_LOAN] = "loan",
	[OTTE_NL_KIND_HOLD] = "hold",
};

static const char *const region_states[] = {
	[OTTE_NL_REGION_LIVE] = "live",
	[OTTE_NL_REGION_CLOSING] = "closing",
	[OTTE_NL_REGION_RETAINED] = "retained",
	[OTTE_NL_REGION_GONE] = "gone",
};

static const char *const backings[] = {
	[OTTE_BACKING_NONE] = "none",
	[OTTE_BACKING_PAGES] = "pages",
	[OTTE_BACKING_FILE] = "file",
};

static const char *const loan_states[] = {
	[OTTE_NL_LOAN_OFFERED] = "offered",
	[OTTE_NL_LOAN_EXPOSED] = "exposed",
	[OTTE_NL_LOAN_SETTLED] = "settled",
	[OTTE_NL_LOAN_WITHDRAWN] = "withdrawn",
};

/* Names of single bits, from bit 0 on. */
static const char *const rights[] = { "read", "write" };
static const char *const loan_flags[] = { "revocable", "mappable", "standing", "by_address" };
static const char *const evidences[] = { "never_exposed", "returned",	     "unmapped",
					 "revoked",	  "borrower_exited", "forced" };
static const char *const word_bits[] = { "live", "suspect", "stale", "fenced" };

bool resource_is_bytes(unsigned resource)
{
	return strstr(resource_names[resource], "_bytes") != NULL;
}

const char *priority_name(unsigned priority)
{
	static const char *const names[OTTE_PRIORITIES] = { "high", "medium", "low" };

	return priority < OTTE_PRIORITIES ? names[priority] : "?";
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The name of an enumerator; that of a later module is its number. */
static json_t *named(const char *const *names, size_t count, uint64_t value)
{
	return value < count ? json_string(names[value]) : json_sprintf("%" PRIu64, value);
}

#define NAMED(names, value) named(names, ARRAY_SIZE(names), value)

/* "a,b" for the bits of a mask; bits of a later module are passed over. */
static json_t *masked(const char *const *names, size_t count, uint64_t mask)
{
	char text[128] = "";
	size_t i, used = 0;

	for (i = 0; i < count; i++)
		if (mask & (UINT64_C(1) << i))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? "," : "", names[i]);
	return json_string(text);
}

#define MASKED(names, mask) masked(names, ARRAY_SIZE(names), mask)

static json_t *number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *hexadecimal(const uint8_t *bytes, size_t length)
{
	char text[2 * OTTE_PEER_LEN + 1] = "";
	size_t i;

	for (i = 0; i < length && i < OTTE_PEER_LEN; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return json_string(text);
}

static void put(json_t *object, const char *key, json_t *value)
{
	json_object_set_new(object, key, value);
}

static void put_number(json_t *object, const char *key, const struct message *message,
		       enum otte_nl_attr attribute)
{
	put(object, key,
	    message_has(message, attribute) ? number(message->number[attribute]) : json_null());
}

static void put_flag(json_t *object, const char *key, const struct message *message,
		     enum otte_nl_attr attribute)
{
	put(object, key, json_boolean(message->number[attribute]));
}

static void put_tag(json_t *object, const struct message *message)
{
	put(object, "tag", json_sprintf("0x%" PRIx64, message->number[OTTE_A_TAG]));
}

json_t *describe_limit(uint64_t limit)
{
	return limit > INT64_MAX ? json_null() : json_integer((json_int_t)limit);
}

json_t *describe_amounts(const uint64_t amounts[OTTE_RES_COUNT], bool limits)
{
	json_t *object = json_object();
	unsigned i;

	for (i = 0; i < OTTE_RES_COUNT; i++)
		put(object, resource_names[i],
		    limits ? describe_limit(amounts[i]) : number(amounts[i]));
	return object;
}

/* ---- Objects --------------------------------------------------------------------------------- */

static void describe_status(json_t *object, const struct message *message)
{
	put_number(object, "revision", message, OTTE_A_REVISION);
	put(object, "load_id", hexadecimal(message->load_id, sizeof(message->load_id)));
	put_number(object, "generation", message, OTTE_A_GENERATION);
	put_flag(object, "draining", message, OTTE_A_DRAINING);
	put(object, "usage", describe_amounts(message->usage, false));
	put(object, "limit", describe_amounts(message->limit, true));
}

static void describe_person(json_t *object, const struct message *message)
{
	put_number(object, "pid", message, OTTE_A_TGID);
	put_number(object, "uid", message, OTTE_A_UID);
	put(object, "comm", output_string(message->comm));
	put_number(object, "cgroup", message, OTTE_A_CGROUP);
}

static void describe_client(json_t *object, const struct message *message)
{
	uint64_t domain = message->number[OTTE_A_DOMAIN];

	put_number(object, "id", message, OTTE_A_ID);
	describe_person(object, message);
	put_number(object, "start_ns", message, OTTE_A_START_NS);
	put_flag(object, "fenced", message, OTTE_A_FENCED);
	put(object, "domain", domain ? number(domain) : json_null());
}

static void describe_region(json_t *object, const struct message *message)
{
	uint64_t word = message->number[OTTE_A_WORD];

	put_number(object, "id", message, OTTE_A_ID);
	put_number(object, "owner", message, OTTE_A_OWNER);
	put(object, "state", NAMED(region_states, message->number[OTTE_A_STATE]));
	put(object, "backing", NAMED(backings, message->number[OTTE_A_BACKING]));
	put(object, "access", MASKED(rights, message->number[OTTE_A_ACCESS]));
	put_number(object, "bytes", message, OTTE_A_BYTES);
	put_number(object, "loans", message, OTTE_A_LOANS);
	put_number(object, "exposed", message, OTTE_A_EXPOSED);
	put(object, "word_generation", number(word >> OTTE_STATUS_GEN_SHIFT));
	put(object, "word", MASKED(word_bits, word & 0xff));
	put_tag(object, message);
}

static void describe_loan(json_t *object, const struct message *message)
{
	uint64_t evidence = message->number[OTTE_A_EVIDENCE];

	put_number(object, "id", message, OTTE_A_ID);
	put_number(object, "lender", message, OTTE_A_OWNER);
	put_number(object, "borrower", message, OTTE_A_BORROWER);
	put(object, "peer",
	    message_has(message, OTTE_A_PEER) ? hexadecimal(message->peer, sizeof(message->peer)) :
						json_null());
	put(object, "incarnation",
	    message_has(message, OTTE_A_INCARNATION) ?
		    json_sprintf("0x%" PRIx64, message->number[OTTE_A_INCARNATION]) :
		    json_null());
	put_number(object, "region", message, OTTE_A_REGION);
	put_number(object, "offset", message, OTTE_A_OFFSET);
	put_number(object, "bytes", message, OTTE_A_BYTES);
	put(object, "direction", MASKED(rights, message->number[OTTE_A_DIRECTION]));
	put(object, "state", NAMED(loan_states, message->number[OTTE_A_STATE]));
	put(object, "flags", MASKED(loan_flags, message->number[OTTE_A_FLAGS]));
	put(object, "accepted", MASKED(evidences, message->number[OTTE_A_ACCEPTED]));
	put(object, "evidence", evidence ? MASKED(evidences, evidence) : json_null());
	put_tag(object, message);
}

static void describe_retained(json_t *object, const struct message *message)
{
	uint64_t reason = message->number[OTTE_A_REASON];

	put_number(object, "id", message, OTTE_A_ID);
	put(object, "kind", NAMED(kinds, message->number[OTTE_A_KIND]));
	put_number(object, "bytes", message, OTTE_A_BYTES);
	put_number(object, "owner", message, OTTE_A_OWNER);
	describe_person(object, message);
	put_number(object, "age_ns", message, OTTE_A_AGE_NS);
	put_number(object, "reason", message, OTTE_A_REASON);
	put(object, "reason_text",
	    reason && reason < 4096 ? json_string(strerror((int)reason)) : json_null());
	put_tag(object, message);
}

static json_t *describe_epoch(const struct otte_slot_epoch *epoch)
{
	json_t *slots = json_array();
	unsigned i;

	for (i = 0; i < epoch->slots; i++)
		json_array_append_new(slots, json_string(priority_name(epoch->lowest[i])));
	return json_pack("{s:o, s:o, s:o}", "base_ns", number(epoch->base_ns), "interval_ns",
			 number(epoch->interval_ns), "slots", slots);
}

/* The slot at the moment at which the module looked; null before the first one begins. */
static json_t *describe_slot(const struct message *message)
{
	const struct otte_slot_epoch *epoch = &message->epoch[0];
	uint64_t now = message->number[OTTE_A_NOW_NS], slots;

	if (now < epoch->base_ns)
		return json_null();
	slots = (now - epoch->base_ns) / epoch->interval_ns;
	return json_pack("{s:I, s:s, s:o}", "index", (json_int_t)(slots % epoch->slots), "lowest",
			 priority_name(epoch->lowest[slots % epoch->slots]), "left_ns",
			 number(epoch->interval_ns - (now - epoch->base_ns) % epoch->interval_ns));
}

static void describe_domain(json_t *object, const struct message *message)
{
	json_t *nics = json_array();
	unsigned i;

	for (i = 0; i < message->nics; i++)
		json_array_append_new(nics, output_string(message->nic[i]));
	put_number(object, "id", message, OTTE_A_ID);
	put(object, "name", output_string(message->name));
	put_number(object, "uid", message, OTTE_A_UID);
	put_number(object, "gid", message, OTTE_A_GID);
	put(object, "mode", json_sprintf("%04o", (unsigned)message->number[OTTE_A_MODE]));
	put_number(object, "members", message, OTTE_A_MEMBERS);
	put_number(object, "now_ns", message, OTTE_A_NOW_NS);
	put(object, "epoch", describe_epoch(&message->epoch[0]));
	put(object, "pending",
	    message->epochs > 1 ? describe_epoch(&message->epoch[1]) : json_null());
	put(object, "slot", describe_slot(message));
	put(object, "nics", nics);
	put_number(object, "sums", message, OTTE_A_SUMS);
	put_flag(object, "summing", message, OTTE_A_SUMMING);
}

static void describe_account(json_t *object, const struct message *message)
{
	put(object, "level", NAMED(level_names, message->number[OTTE_A_LEVEL]));
	put_number(object, "key", message, OTTE_A_KEY);
	put(object, "usage", describe_amounts(message->usage, false));
	put(object, "limit", describe_amounts(message->limit, true));
}

static json_t *refusing_level(uint64_t level)
{
	return level == OTTE_LEVEL_MEMLOCK ? json_string("memlock") : NAMED(level_names, level);
}

static void describe_notice(json_t *object, const struct message *message)
{
	put(object, "notice", NAMED(notices, message->number[OTTE_A_NOTICE]));
	put_number(object, "id", message, OTTE_A_ID);
	put_number(object, "generation", message, OTTE_A_GENERATION);
	if (message->number[OTTE_A_NOTICE] != OTTE_NL_NOTICE_QUOTA)
		return;
	put(object, "level", refusing_level(message->number[OTTE_A_LEVEL]));
	put_number(object, "key", message, OTTE_A_KEY);
	put(object, "resource", NAMED(resource_names, message->number[OTTE_A_RESOURCE]));
	put(object, "usage", number(message->usage[0]));
	put(object, "limit", describe_limit(message->limit[0]));
	put_number(object, "requested", message, OTTE_A_REQUESTED);
}

json_t *describe(const struct message *message)
{
	static void (*const describers[OTTE_NL_COMMANDS])(json_t *, const struct message *) = {
		[OTTE_NL_STATUS] = describe_status,	[OTTE_NL_CLIENTS] = describe_client,
		[OTTE_NL_REGIONS] = describe_region,	[OTTE_NL_LOANS] = describe_loan,
		[OTTE_NL_RETAINED] = describe_retained, [OTTE_NL_DOMAINS] = describe_domain,
		[OTTE_NL_ACCOUNTS] = describe_account,	[OTTE_NL_NOTICE] = describe_notice,
	};
	json_t *object = json_object();

	if (object)
		describers[message->command](object, message);
	return object;
}
