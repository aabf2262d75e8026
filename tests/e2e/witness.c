/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "witness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/uses.h"
#include "process.h"

#define USAGE "/sys/class/misc/otte/usage/"
#define PAGE 4096u
/* The table of uses of memory that is borrowed: a region beside it, lent with it. */
#define TABLE ((sizeof(struct otte_uses) + PAGE - 1) / PAGE * PAGE)

/* ---- The log ---- */

void witness_open(struct witness *witness, const char *keys, uint64_t bytes)
{
	memset(witness, 0, sizeof(*witness));
	witness->on = strstr(keys, "ledger=kernel");
	witness->borrowed = strstr(keys, "local.pinned=true");
	witness->by_request = strstr(keys, "rdma.enabled=true");
	witness->bytes = bytes;
}

void witness_born(struct witness *witness, pid_t pid)
{
	if (!witness->on)
		return;
	MUST(witness->count < WITNESS_MAX, "%u entries", witness->count);
	witness->entries[witness->count++] = (struct witness_entry){ .pid = pid };
}

static struct witness_entry *find(struct witness *witness, pid_t pid)
{
	unsigned i;

	for (i = 0; i < witness->count; i++)
		if (witness->entries[i].pid == pid && !witness->entries[i].dead)
			return &witness->entries[i];
	MUST(false, "process %d is not in the log", pid);
	return NULL;
}

static void drop(struct witness *witness, struct witness_entry *entry)
{
	*entry = witness->entries[--witness->count];
}

void witness_lends(struct witness *witness, pid_t pid, unsigned loans)
{
	if (witness->on)
		find(witness, pid)->loans = loans;
}

unsigned witness_records(const struct witness *witness)
{
	unsigned i, records = 0;

	for (i = 0; i < witness->count; i++)
		records += witness->entries[i].dead;
	return records;
}

static unsigned loans(const struct witness *witness)
{
	unsigned i, sum = 0;

	for (i = 0; i < witness->count; i++)
		sum += witness->entries[i].loans;
	return sum;
}

static uint64_t lent_bytes(const struct witness *witness)
{
	uint64_t sum = 0;
	unsigned i;

	if (!witness->by_request)
		return loans(witness) * (witness->bytes + (witness->borrowed ? TABLE : 0));
	for (i = 0; i < witness->count; i++)
		sum += witness->entries[i].left_bytes;
	return sum;
}

/* ---- The module's word ---- */

/* The rows that `ottectl WHAT --json` prints. */
static json_t *ask(const char *what)
{
	const char *program = getenv("OTTECTL");
	char command[256];
	json_error_t error;
	json_t *whole, *rows;
	FILE *pipe;

	snprintf(command, sizeof(command), "%s %s --json", program ? program : "ottectl", what);
	pipe = popen(command, "re");
	MUST(pipe, "%s: %m", command);
	whole = json_loadf(pipe, 0, &error);
	MUST(pclose(pipe) == 0 && whole, "%s: %s", command, error.text);
	rows = json_incref(json_object_get(whole, what));
	MUST(json_is_array(rows), "%s: no rows", command);
	json_decref(whole);
	return rows;
}

static long long number(json_t *row, const char *name)
{
	return json_integer_value(json_object_get(row, name));
}

static bool says(json_t *row, const char *name, const char *word)
{
	const char *text = json_string_value(json_object_get(row, name));

	return text && !strcmp(text, word);
}

static uint64_t usage(const char *resource)
{
	unsigned long long value;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), USAGE "%s", resource);
	file = fopen(path, "re");
	MUST(file && fscanf(file, "%llu", &value) == 1, "%s: %m", path);
	fclose(file);
	return value;
}

/* ---- Both ---- */

static bool usage_agrees(const struct witness *witness, unsigned tables)
{
	const unsigned count = witness->count, lent = loans(witness);
	const uint64_t bytes = count * witness->bytes + tables * TABLE;
	const struct {
		const char *resource;
		uint64_t expected;
	} all[] = {
		{ "clients", count },
		{ "regions", count + tables },
		{ "registered_bytes", bytes },
		{ "pinned_bytes", witness->borrowed ? bytes : 0 },
		{ "loans", witness->borrowed ? 2 * lent : lent },
		{ "lent_bytes", lent_bytes(witness) },
		{ "retained_bytes", witness_records(witness) * witness->bytes },
		{ "holds", 0 },
	};
	unsigned i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (usage(all[i].resource) != all[i].expected)
			return false;
	return true;
}

/* The one row of `rows` in which `name` has that value; NULL where there is none, or more. */
static json_t *only(json_t *rows, const char *name, long long value)
{
	json_t *row, *found = NULL;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (number(row, name) != value)
			continue;
		if (found)
			return NULL;
		found = row;
	}
	return found;
}

/* Of a process that has died: the loans of its region that have outlived it, those of what was under way. */
static void take_what_is_left(struct witness_entry *entry)
{
	json_t *records = ask("retained"), *loans = ask("loans"), *row;
	json_t *record = only(records, "pid", entry->pid);
	size_t i;

	entry->loans = 0;
	json_array_foreach(loans, i, row)
	{
		if (!record || number(row, "region") != number(record, "id"))
			continue;
		entry->loans++;
		entry->left_bytes += (uint64_t)number(row, "bytes");
	}
	MUST(!record || entry->loans, "nothing of the record of process %d is lent", entry->pid);
	json_decref(records);
	json_decref(loans);
}

void witness_died(struct witness *witness, pid_t pid)
{
	struct witness_entry *entry;

	if (!witness->on)
		return;
	entry = find(witness, pid);
	entry->dead = true;
	if (witness->by_request)
		take_what_is_left(entry);
	if (!entry->loans || witness->borrowed)
		drop(witness, entry);
}

/* Takes the one table that `owner` has out of `regions`; whether its loans are those of what it is for. */
static bool table_agrees(const struct witness_entry *entry, json_t *regions, long long owner)
{
	json_t *row;
	size_t i;

	json_array_foreach(regions, i, row)
		if (number(row, "owner") == owner && number(row, "bytes") == (long long)TABLE) {
			bool same = number(row, "exposed") == entry->loans && says(row, "state", "live");

			json_array_remove(regions, i);
			return same;
		}
	return !entry->loans;
}

/* Of one process: its client, its region, and if it died of it the record. */
static bool entry_agrees(const struct witness *witness, const struct witness_entry *entry,
			 json_t *clients, json_t *regions, json_t *records)
{
	json_t *record = only(records, "pid", entry->pid), *region, *client;
	long long owner;

	if (entry->dead) {
		if (!record || !says(record, "kind", "region") ||
		    number(record, "bytes") != (long long)witness->bytes)
			return false;
		owner = number(record, "owner");
	} else {
		client = only(clients, "pid", entry->pid);
		if (record || !client)
			return false;
		owner = number(client, "id");
	}
	if (witness->borrowed && !table_agrees(entry, regions, owner))
		return false;
	region = only(regions, "owner", owner);
	return region && says(region, "state", entry->dead ? "retained" : "live") &&
	       number(region, "exposed") == entry->loans &&
	       number(region, "bytes") == (long long)witness->bytes &&
	       (!entry->dead || number(region, "id") == number(record, "id"));
}

static bool agrees(const struct witness *witness)
{
	json_t *records = ask("retained"), *clients, *regions;
	unsigned i, tables;
	bool same;

	/* Until what was borrowed is back. */
	MUST(json_array_size(records) <= witness_records(witness) || witness->borrowed,
	     "%zu records, there should be %u: %s", json_array_size(records),
	     witness_records(witness), json_dumps(records, JSON_COMPACT));
	clients = ask("clients");
	regions = ask("regions");
	tables = witness->borrowed ? (unsigned)json_array_size(regions) - witness->count : 0;
	same = json_array_size(records) == witness_records(witness) &&
	       json_array_size(regions) == witness->count + tables && usage_agrees(witness, tables);
	for (i = 0; same && i < witness->count; i++)
		same = entry_agrees(witness, &witness->entries[i], clients, regions, records);
	/* Every table was of one of them. */
	same = same && json_array_size(regions) == witness->count;
	json_decref(records);
	json_decref(clients);
	json_decref(regions);
	return same;
}

static void show(const char *what)
{
	json_t *rows = ask(what);
	char *text = json_dumps(rows, JSON_COMPACT);

	fprintf(stderr, "%s: %s\n", what, text);
	free(text);
	json_decref(rows);
}

void witness_check(struct witness *witness, const char *when)
{
	unsigned i;

	if (!witness->on)
		return;
	witness->checks++;
	if (EVENTUALLY(agrees(witness)))
		return;
	for (i = 0; i < witness->count; i++)
		fprintf(stderr, "expected: process %d, %u loans%s\n", witness->entries[i].pid,
			witness->entries[i].loans, witness->entries[i].dead ? ", dead" : "");
	show("clients");
	show("regions");
	show("loans");
	show("retained");
	MUST(false, "%s", when);
}

void witness_release(struct witness *witness)
{
	const char *program = getenv("OTTECTL");
	json_t *records, *row;
	char command[256];
	unsigned i;
	size_t at;

	if (!witness->on)
		return;
	records = ask("retained");
	json_array_foreach(records, at, row)
	{
		snprintf(command, sizeof(command), "%s retained --release %lld >/dev/null",
			 program ? program : "ottectl", number(row, "id"));
		MUST(system(command) == 0, "%s", command);
	}
	json_decref(records);
	for (i = 0; i < witness->count;)
		if (witness->entries[i].dead)
			drop(witness, &witness->entries[i]);
		else
			i++;
	witness_check(witness, "released");
}
