/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/util.h"
#include "../common/output.h"
#include "describe.h"

/* Whom an entry is of. One that is not known is another user's, or went between two dumps. */
enum whom {
	WHOM_UNKNOWN,
	WHOM_CLIENT,
	WHOM_GONE, /* and left records behind, which tell who it was */
};

struct entry {
	uint64_t id;
	enum whom whom;
	uint32_t pid, uid;
	char comm[OTTE_COMM_LEN + 1];
	uint64_t registered, lent, borrowed, retained;
	uint64_t regions, loans, records;
	UT_hash_handle hh;
};

struct tally {
	struct entry *entries;
	uint64_t oldest_ns;
	/* The dump that is being added, which may have to start over. */
	uint8_t adding;
};

struct tally *tally_create(void)
{
	return calloc(1, sizeof(struct tally));
}

static void forget_all(struct tally *tally)
{
	struct entry *entry, *next;

	HASH_ITER(hh, tally->entries, entry, next) {
		HASH_DEL(tally->entries, entry);
		free(entry);
	}
	tally->oldest_ns = 0;
}

void tally_free(struct tally *tally)
{
	if (tally)
		forget_all(tally);
	free(tally);
}

static struct entry *entry_of(struct tally *tally, uint64_t id)
{
	struct entry *entry;

	HASH_FIND(hh, tally->entries, &id, sizeof(id), entry);
	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->id = id;
	HASH_ADD(hh, tally->entries, id, sizeof(entry->id), entry);
	return entry;
}

static void introduce(struct entry *entry, enum whom whom, const struct message *message)
{
	entry->whom = whom;
	entry->pid = (uint32_t)message->number[OTTE_A_TGID];
	entry->uid = (uint32_t)message->number[OTTE_A_UID];
	memcpy(entry->comm, message->comm, sizeof(entry->comm));
}

static bool is_lent(const struct message *loan)
{
	uint64_t state = loan->number[OTTE_A_STATE];

	return state == OTTE_NL_LOAN_OFFERED || state == OTTE_NL_LOAN_EXPOSED;
}

static int add_loan(struct tally *tally, struct entry *lender, const struct message *loan)
{
	uint64_t bytes = loan->number[OTTE_A_BYTES];
	struct entry *borrower;

	if (!is_lent(loan))
		return 0;
	lender->lent += bytes;
	lender->loans++;
	if (!message_has(loan, OTTE_A_BORROWER))
		return 0;
	borrower = entry_of(tally, loan->number[OTTE_A_BORROWER]);
	if (!borrower)
		return -ENOMEM;
	if (loan->number[OTTE_A_STATE] == OTTE_NL_LOAN_EXPOSED)
		borrower->borrowed += bytes;
	return 0;
}

static void add_record(struct tally *tally, struct entry *entry, const struct message *record)
{
	entry->retained += record->number[OTTE_A_BYTES];
	entry->records++;
	if (entry->whom == WHOM_UNKNOWN)
		introduce(entry, WHOM_GONE, record);
	if (record->number[OTTE_A_AGE_NS] > tally->oldest_ns)
		tally->oldest_ns = record->number[OTTE_A_AGE_NS];
}

int tally_add(struct tally *tally, const struct message *message)
{
	bool client = message->command == OTTE_NL_CLIENTS;
	struct entry *entry;

	entry = entry_of(tally, message->number[client ? OTTE_A_ID : OTTE_A_OWNER]);
	if (!entry)
		return -ENOMEM;
	switch (message->command) {
	case OTTE_NL_CLIENTS:
		introduce(entry, WHOM_CLIENT, message);
		return 0;
	case OTTE_NL_REGIONS:
		entry->registered += message->number[OTTE_A_BYTES];
		entry->regions++;
		return 0;
	case OTTE_NL_LOANS:
		return add_loan(tally, entry, message);
	case OTTE_NL_RETAINED:
		add_record(tally, entry, message);
		return 0;
	default:
		return 0;
	}
}

static int take(void *arg, const struct message *message)
{
	return tally_add(arg, message);
}

/* Takes back what this dump has added so far. */
static void restart(void *arg)
{
	struct tally *tally = arg;
	struct entry *entry, *next;

	HASH_ITER(hh, tally->entries, entry, next) {
		switch (tally->adding) {
		case OTTE_NL_REGIONS:
			entry->registered = entry->regions = 0;
			break;
		case OTTE_NL_LOANS:
			entry->lent = entry->borrowed = entry->loans = 0;
			break;
		case OTTE_NL_RETAINED:
			entry->retained = entry->records = 0;
			break;
		default:
			break;
		}
	}
	if (tally->adding == OTTE_NL_CLIENTS)
		forget_all(tally);
	if (tally->adding == OTTE_NL_RETAINED)
		tally->oldest_ns = 0;
}

int tally_dump(struct tally *tally, struct link *link)
{
	static const uint8_t commands[] = { OTTE_NL_CLIENTS, OTTE_NL_REGIONS, OTTE_NL_LOANS,
					    OTTE_NL_RETAINED };
	struct link_taker taker = { take, restart, tally };
	struct link_dump dump;
	size_t i;
	int rc = 0;

	for (i = 0; !rc && i < ARRAY_SIZE(commands); i++) {
		tally->adding = commands[i];
		rc = link_dump(link, commands[i], &taker, &dump);
	}
	return rc;
}

static int by_lent(const void *a, const void *b)
{
	const struct entry *const *left = a, *const *right = b;

	if ((*left)->lent != (*right)->lent)
		return (*left)->lent < (*right)->lent ? 1 : -1;
	return (*left)->id > (*right)->id ? 1 : -1;
}

static json_t *entry_json(const struct entry *entry)
{
	json_t *object = json_pack("{s:I, s:i, s:I, s:o, s:b}", "id", (json_int_t)entry->id, "pid",
				   (int)entry->pid, "uid", (json_int_t)entry->uid, "comm",
				   output_string(entry->comm), "gone", entry->whom == WHOM_GONE);
	static const struct {
		const char *name;
		size_t offset;
	} sums[] = {
		{ "registered_bytes", offsetof(struct entry, registered) },
		{ "lent_bytes", offsetof(struct entry, lent) },
		{ "borrowed_bytes", offsetof(struct entry, borrowed) },
		{ "retained_bytes", offsetof(struct entry, retained) },
		{ "regions", offsetof(struct entry, regions) },
		{ "loans", offsetof(struct entry, loans) },
		{ "retained_records", offsetof(struct entry, records) },
	};
	uint64_t sum;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sums); i++) {
		memcpy(&sum, (const char *)entry + sums[i].offset, sizeof(sum));
		json_object_set_new(object, sums[i].name, json_integer((json_int_t)sum));
	}
	return object;
}

json_t *tally_json(const struct tally *tally)
{
	size_t count = HASH_COUNT(tally->entries), i = 0;
	struct entry **sorted = calloc(count + 1, sizeof(struct entry *));
	struct entry *entry, *next;
	json_t *array = json_array();

	if (!sorted)
		return array;
	HASH_ITER(hh, tally->entries, entry, next)
		sorted[i++] = entry;
	qsort(sorted, count, sizeof(struct entry *), by_lent);
	for (i = 0; i < count; i++)
		if (sorted[i]->whom != WHOM_UNKNOWN)
			json_array_append_new(array, entry_json(sorted[i]));
	free(sorted);
	return array;
}

uint64_t tally_records(const struct tally *tally)
{
	const struct entry *entry, *next;
	uint64_t records = 0;

	HASH_ITER(hh, tally->entries, entry, next)
		records += entry->records;
	return records;
}

uint64_t tally_oldest_ns(const struct tally *tally)
{
	return tally->oldest_ns;
}
