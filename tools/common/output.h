/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Results, held once as JSON and shown either as such or as a table for people. Colours appear on a
 * terminal only, and on none where NO_COLOR is set or TERM is "dumb".
 */
#ifndef OTTE_TOOLS_OUTPUT_H
#define OTTE_TOOLS_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum column_kind {
	COLUMN_TEXT,
	COLUMN_COUNT, /* integer */
	COLUMN_BYTES, /* 64 KiB */
	COLUMN_REAL, /* with `decimals` digits; "-" where the key is missing */
};

struct column {
	const char *key;
	const char *title;
	enum column_kind kind;
	int decimals;
	int width; /* least width; a table knows its rows and widens, a stream does not */
};

/* Whether `to` may be given colours and bold. */
bool output_has_colours(FILE *to);

/* Heading and one row, for rows that appear while a command runs. */
void output_heading(FILE *to, const struct column *columns, size_t count);
void output_row(FILE *to, const struct column *columns, size_t count, const json_t *row);

/* A whole table of `rows`, an array of objects. */
void output_table(FILE *to, const struct column *columns, size_t count, const json_t *rows);

/* `value` on standard output, indented, with a newline; takes the reference. */
void output_json(json_t *value);

#define OUTPUT_NAME_MAX 4096

/* A name of a region or a file as a line can show it: what is not printable stands as "\xNN". */
const char *output_name(char shown[OUTPUT_NAME_MAX], const char *name);

/*
 * A path or a name, which are bytes, as JSON, which takes UTF-8 only: by otte_name_escape(), so that
 * they can be had back. Names of regions that a peer publishes, and its own, are so already.
 */
json_t *output_string(const char *text);

/* A label of OpenMetrics text, name="value". */
void output_label(FILE *to, const char *name, const char *value);

/* "64 KiB", "1.5 GiB", "100 B" */
const char *format_bytes(uint64_t bytes, char text[32]);

#endif
