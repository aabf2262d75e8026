/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A dump as an array of JSON objects, in bounded memory. */
#ifndef OTTECTL_ROWS_H
#define OTTECTL_ROWS_H

#include <jansson.h>

#include "link.h"

#define ROWS_MAX 65536 /* the default of --rows: some 100 MB of JSON */

struct rows {
	json_t *array;
	uint64_t most; /* rows kept */
	uint64_t left_out; /* rows that were there beyond them */
	struct link_dump dump;
	/* Which messages are wanted; NULL: all. */
	bool (*wanted)(const struct rows *rows, const struct message *message);
	uint64_t id; /* for that */
};

/* EXIT_OK, or an exit code after a complaint; the array is the caller's in both cases. */
int rows_dump(struct rows *rows, struct link *link, uint8_t command);

/* Warns about what a table would not show: rows left out, and a ledger that never stood still. */
void rows_warn(const struct rows *rows);

/* { generation, consistent, left_out, name: array }; takes the array. */
json_t *rows_json(struct rows *rows, const char *name);

void rows_free(struct rows *rows);

#endif
