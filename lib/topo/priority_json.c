/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The two JSON forms of the table of rows. `where` is the path of the member at hand, which begins
 * every text. The first fault in the order of the text is the one that is told. How deep the text
 * may nest is jansson's bound; the forms themselves need five levels.
 */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/line.h"
#include "base/util.h"
#include "topo/priority.h"

#define WHERE 96
#define SHOWN 64
#define NIC_TYPE_RDMA 0

/* What the ranks of a file's row refer to: ids by the order of its "nics". */
struct listed {
	unsigned ids[OTTE_NIC_IDS];
	size_t count;
};

static const char *type_name(const json_t *value)
{
	switch (value ? json_typeof(value) : JSON_NULL) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a real number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	default:
		return "null";
	}
}

/*
 * No place is longer than WHERE: numbers of less than 2^20, and locations and members of known
 * length.
 */
OTTE_PRINTF(2, 3) static void place(char where[WHERE], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(where, WHERE, format, args);
	va_end(args);
}

static int wrong_type(const char *where, const char *wanted, const json_t *value)
{
	if (!value)
		return otte_fail(-EINVAL, "%s: missing, %s is wanted", where, wanted);
	return otte_fail(-EINVAL, "%s: %s is wanted, not %s", where, wanted, type_name(value));
}

static int unknown_member(const char *where, const char *name)
{
	char shown[SHOWN];

	otte_line_escape(shown, sizeof(shown), name);
	return otte_fail(-EINVAL, "%s.%s: unknown member", where, shown);
}

/* ---- NICs ------------------------------------------------------------------------------------ */

static int find_nic(const char *where, const char *name, const struct otte_nic_inventory *nics,
		    unsigned *id)
{
	char shown[SHOWN];

	for (*id = 0; *id < nics->count; ++*id)
		if (nics->names[*id] && !strcmp(nics->names[*id], name))
			return 0;
	otte_line_escape(shown, sizeof(shown), name);
	return otte_fail(-EINVAL, "%s: '%s' is none of the NICs that were found", where, shown);
}

/* A device's name is that of each of its ports. */
static int take_nic(const char *where, unsigned id, unsigned rank,
		    const struct otte_nic_inventory *nics, struct otte_nic_row *row)
{
	uint64_t bits = 0;
	size_t i;

	for (i = id; i < nics->count; i++)
		if (nics->names[i] && !strcmp(nics->names[i], nics->names[id]))
			bits |= 1ull << i;
	if ((row->ranks[0] | row->ranks[1] | row->ranks[2]) & bits)
		return otte_fail(-EINVAL, "%s: '%s' is named twice", where, nics->names[id]);
	row->ranks[rank] |= bits;
	return 0;
}

/* ---- The matrix ------------------------------------------------------------------------------ */

static int load_names(const char *where, const json_t *names, unsigned rank,
		      const struct otte_nic_inventory *nics, struct otte_nic_row *row)
{
	char entry[WHERE];
	const json_t *name;
	unsigned id;
	size_t i;
	int rc;

	if (!json_is_array(names))
		return wrong_type(where, "a list of NIC names", names);
	json_array_foreach(names, i, name) {
		place(entry, "%s[%zu]", where, i);
		if (!json_is_string(name))
			return wrong_type(entry, "a NIC's name", name);
		rc = find_nic(entry, json_string_value(name), nics, &id);
		if (!rc)
			rc = take_nic(entry, id, rank, nics, row);
		if (rc)
			return rc;
	}
	return 0;
}

static int load_matrix_row(const char *key, const json_t *lists,
			   const struct otte_nic_inventory *nics, struct otte_nic_row *row)
{
	char where[WHERE];
	unsigned rank;
	int rc = otte_location_parse(key, &row->location);

	if (rc)
		return rc;
	if (!json_is_array(lists))
		return wrong_type(key, "[preferred, available]", lists);
	if (json_array_size(lists) != 2)
		return otte_fail(-EINVAL, "%s: [preferred, available] is wanted, not %zu lists",
				 key, json_array_size(lists));
	for (rank = 0; !rc && rank < 2; rank++) {
		place(where, "%s[%u]", key, rank);
		rc = load_names(where, json_array_get(lists, rank), rank, nics, row);
	}
	return rc;
}

/* Every NIC that was named, once. */
static int add_any(struct otte_nic_priority *priority)
{
	struct otte_nic_row any = { .location = { .kind = OTTE_LOCATION_ANY } };
	size_t i;

	for (i = 0; i < priority->count; i++) {
		if (priority->rows[i].location.kind == OTTE_LOCATION_ANY)
			return 0;
		any.ranks[0] |= priority->rows[i].ranks[0];
		any.ranks[1] |= priority->rows[i].ranks[1];
	}
	any.ranks[1] &= ~any.ranks[0];
	return otte_nic_priority_add(priority, &any);
}

static int load_matrix(json_t *root, const struct otte_nic_inventory *nics,
		       struct otte_nic_priority *priority)
{
	const char *key;
	json_t *lists;
	int rc = 0;

	json_object_foreach(root, key, lists) {
		struct otte_nic_row row = { 0 };

		rc = load_matrix_row(key, lists, nics, &row);
		if (!rc)
			rc = otte_nic_priority_add(priority, &row);
		if (rc)
			return rc;
	}
	return add_any(priority);
}

/*
 * ---- The native file: nics
 * --------------------------------------------------------------------
 */

/* True of the machine where the file was written, and read over: of this one it is known. */
static bool is_description(const char *name)
{
	return !strcmp(name, "pci_bus_id") || !strcmp(name, "numa_node") ||
	       !strcmp(name, "device_attrs");
}

/* No members but those of the list, which ends with NULL, and descriptions. */
static int check_members(const char *where, json_t *object, const char *const *names)
{
	const char *name;
	json_t *value;
	size_t i;

	json_object_foreach(object, name, value) {
		for (i = 0; names[i] && strcmp(names[i], name);)
			i++;
		if (!names[i] && !is_description(name))
			return unknown_member(where, name);
	}
	return 0;
}

/* Absent is good. */
static int check_type(const char *where, const json_t *object, json_int_t wanted, const char *what)
{
	const json_t *type = json_object_get(object, "type");
	char member[WHERE];

	place(member, "%s.type", where);
	if (!type)
		return 0;
	if (!json_is_integer(type))
		return wrong_type(member, "an integer", type);
	if (json_integer_value(type) == wanted)
		return 0;
	return otte_fail(-EINVAL,
			 "%s: %" JSON_INTEGER_FORMAT ", but %s is of type %" JSON_INTEGER_FORMAT,
			 member, json_integer_value(type), what, wanted);
}

static int list_nic(const char *where, json_t *entry, const struct otte_nic_inventory *nics,
		    struct listed *listed)
{
	static const char *const members[] = { "name", "type", NULL };
	char member[WHERE];
	const json_t *name;
	unsigned id;
	size_t i;
	int rc;

	if (!json_is_object(entry))
		return wrong_type(where, "an object", entry);
	rc = check_members(where, entry, members);
	if (rc)
		return rc;
	place(member, "%s.name", where);
	name = json_object_get(entry, "name");
	if (!json_is_string(name))
		return wrong_type(member, "a NIC's name", name);
	rc = find_nic(member, json_string_value(name), nics, &id);
	if (rc)
		return rc;
	for (i = 0; i < listed->count; i++)
		if (listed->ids[i] == id)
			return otte_fail(-EINVAL, "%s: '%s' is named twice", member,
					 nics->names[id]);
	listed->ids[listed->count++] = id;
	return check_type(where, entry, NIC_TYPE_RDMA, "a NIC of RDMA");
}

static int list_nics(const json_t *entries, const struct otte_nic_inventory *nics,
		     struct listed *listed)
{
	char where[WHERE];
	json_t *entry;
	size_t i;
	int rc;

	if (!json_is_array(entries))
		return wrong_type("nics", "a list", entries);
	json_array_foreach(entries, i, entry) {
		place(where, "nics[%zu]", i);
		rc = list_nic(where, entry, nics, listed);
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * ---- The native file: mems
 * --------------------------------------------------------------------
 */

static int load_indices(const char *where, const json_t *indices, unsigned rank,
			const struct otte_nic_inventory *nics, const struct listed *listed,
			struct otte_nic_row *row)
{
	char entry[WHERE];
	const json_t *index;
	json_int_t number;
	size_t i;
	int rc;

	if (!json_is_array(indices))
		return wrong_type(where, "a list of indices of nics", indices);
	json_array_foreach(indices, i, index) {
		place(entry, "%s[%zu]", where, i);
		if (!json_is_integer(index))
			return wrong_type(entry, "an index of nics", index);
		number = json_integer_value(index);
		if (number < 0 || number >= (json_int_t)listed->count)
			return otte_fail(-EINVAL,
					 "%s: %" JSON_INTEGER_FORMAT
					 " is out of range, nics lists %zu",
					 entry, number, listed->count);
		rc = take_nic(entry, listed->ids[number], rank, nics, row);
		if (rc)
			return rc;
	}
	return 0;
}

/* An absent rank is an empty one. */
static int load_ranks(const char *where, json_t *ranks, const struct otte_nic_inventory *nics,
		      const struct listed *listed, struct otte_nic_row *row)
{
	static const char *const members[] = { "rank0", "rank1", "rank2" };
	char member[WHERE];
	const char *name;
	json_t *indices;
	unsigned rank;
	int rc;

	if (!json_is_object(ranks))
		return wrong_type(where, "an object of rank0, rank1 and rank2", ranks);
	json_object_foreach(ranks, name, indices) {
		for (rank = 0; rank < OTTE_NIC_RANKS && strcmp(members[rank], name);)
			rank++;
		if (rank == OTTE_NIC_RANKS)
			return unknown_member(where, name);
		place(member, "%s.%s", where, members[rank]);
		rc = load_indices(member, indices, rank, nics, listed, row);
		if (rc)
			return rc;
	}
	return 0;
}

static int name_mem(const char *where, const json_t *entry,
		    const struct otte_nic_priority *priority, struct otte_nic_row *row)
{
	const json_t *name = json_object_get(entry, "name");
	char member[WHERE];
	size_t i;
	int rc;

	place(member, "%s.name", where);
	if (!json_is_string(name))
		return wrong_type(member, "a location's name", name);
	rc = otte_location_parse(json_string_value(name), &row->location);
	if (rc)
		return otte_fail_within(rc, "%s: ", member);
	for (i = 0; i < priority->count; i++)
		if (priority->rows[i].location.kind == row->location.kind &&
		    priority->rows[i].location.index == row->location.index)
			return otte_fail(-EINVAL, "%s: %s is listed twice", member,
					 json_string_value(name));
	return 0;
}

static int load_mem(const char *where, json_t *entry, const struct otte_nic_inventory *nics,
		    const struct listed *listed, struct otte_nic_priority *priority)
{
	static const char *const members[] = { "name", "type", "device_list", NULL };
	char member[WHERE], location[OTTE_LOCATION_TEXT];
	struct otte_nic_row row = { 0 };
	int rc;

	if (!json_is_object(entry))
		return wrong_type(where, "an object", entry);
	rc = check_members(where, entry, members);
	if (!rc)
		rc = name_mem(where, entry, priority, &row);
	if (!rc)
		rc = check_type(where, entry, (json_int_t)row.location.kind,
				otte_location_text(location, row.location));
	if (rc)
		return rc;
	place(member, "%s.device_list", where);
	rc = load_ranks(member, json_object_get(entry, "device_list"), nics, listed, &row);
	if (rc)
		return rc;
	rc = otte_nic_priority_add(priority, &row);
	return rc ? otte_fail_within(rc, "%s: ", where) : 0;
}

static int load_mems(const json_t *entries, const struct otte_nic_inventory *nics,
		     const struct listed *listed, struct otte_nic_priority *priority)
{
	char where[WHERE];
	json_t *entry;
	size_t i;
	int rc;

	if (!json_is_array(entries))
		return wrong_type("mems", "a list", entries);
	json_array_foreach(entries, i, entry) {
		place(where, "mems[%zu]", i);
		rc = load_mem(where, entry, nics, listed, priority);
		if (rc)
			return rc;
	}
	return 0;
}

static int load_native(json_t *root, const struct otte_nic_inventory *nics,
		       struct otte_nic_priority *priority)
{
	struct listed listed = { .count = 0 };
	char shown[SHOWN];
	const char *name;
	json_t *value;
	int rc;

	json_object_foreach(root, name, value) {
		if (!strcmp(name, "nics") || !strcmp(name, "mems"))
			continue;
		otte_line_escape(shown, sizeof(shown), name);
		return otte_fail(-EINVAL, "%s: unknown member beside nics and mems", shown);
	}
	rc = list_nics(json_object_get(root, "nics"), nics, &listed);
	if (rc)
		return rc;
	return load_mems(json_object_get(root, "mems"), nics, &listed, priority);
}

/*
 * ---- Either
 * -----------------------------------------------------------------------------------
 */

static int parse_json(const char *text, size_t length, json_t **root)
{
	char shown[JSON_ERROR_TEXT_LENGTH];
	json_error_t error;

	if (length > OTTE_NIC_JSON_MAX)
		return otte_fail(-E2BIG, "longer than %u bytes, the most", OTTE_NIC_JSON_MAX);
	if (!length)
		return otte_fail(-EINVAL, "line 1 column 0: no JSON");
	/*
	 * Where memory runs out jansson reports a fault in the text, or none; errno knows
	 * better.
	 */
	errno = 0;
	*root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
	if (!*root) {
		if (errno == ENOMEM)
			return otte_fail(-ENOMEM, "no memory for its JSON");
		otte_line_escape(shown, sizeof(shown), error.text);
		return otte_fail(-EINVAL, "line %d column %d: %s", error.line, error.column, shown);
	}
	if (json_is_object(*root))
		return 0;
	otte_fail(-EINVAL, "line 1 column 1: an object is wanted, not %s", type_name(*root));
	json_decref(*root);
	return -EINVAL;
}

int otte_nic_priority_parse_matrix(const char *text, size_t length,
				   const struct otte_nic_inventory *nics,
				   struct otte_nic_priority *priority)
{
	json_t *root;
	int rc = parse_json(text, length, &root);

	if (rc)
		return rc;
	rc = load_matrix(root, nics, priority);
	json_decref(root);
	return rc;
}

int otte_nic_priority_parse(const char *text, size_t length, const struct otte_nic_inventory *nics,
			    struct otte_nic_priority *priority)
{
	json_t *root;
	int rc = parse_json(text, length, &root);

	if (rc)
		return rc;
	if (json_object_get(root, "nics") || json_object_get(root, "mems"))
		rc = load_native(root, nics, priority);
	else
		rc = load_matrix(root, nics, priority);
	json_decref(root);
	return rc;
}
