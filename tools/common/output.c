/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "output.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/line.h"

#define COLUMNS_MAX 32
#define CELL_MAX 384 /* a name, each byte of it escaped */

bool output_has_colours(FILE *to)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fileno(to)) && !(none && *none) && !(term && !strcmp(term, "dumb"));
}

const char *format_bytes(uint64_t bytes, char text[32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	if (value == (double)(uint64_t)value)
		snprintf(text, 32, "%.0f %s", value, units[unit]);
	else
		snprintf(text, 32, "%.1f %s", value, units[unit]);
	return text;
}

static void format_cell(char cell[CELL_MAX], const struct column *column, const json_t *row)
{
	const json_t *value = json_object_get(row, column->key);
	char bytes[32];

	if (!value || json_is_null(value))
		snprintf(cell, CELL_MAX, "-");
	else if (json_is_boolean(value))
		snprintf(cell, CELL_MAX, "%s", json_is_true(value) ? "yes" : "no");
	else if (column->kind == COLUMN_TEXT)
		otte_line_escape(cell, CELL_MAX, json_string_value(value));
	else if (column->kind == COLUMN_COUNT)
		snprintf(cell, CELL_MAX, "%lld", (long long)json_integer_value(value));
	else if (column->kind == COLUMN_BYTES)
		snprintf(cell, CELL_MAX, "%s",
			 format_bytes((uint64_t)json_integer_value(value), bytes));
	else
		snprintf(cell, CELL_MAX, "%.*f", column->decimals, json_number_value(value));
}

static int least_width(const struct column *column)
{
	int title = (int)strlen(column->title);

	return column->width > title ? column->width : title;
}

static void print_cell(FILE *to, const struct column *column, int width, bool last,
		       const char *cell)
{
	if (column->kind != COLUMN_TEXT)
		fprintf(to, "%*s%s", width, cell, last ? "" : "  ");
	else if (last)
		fprintf(to, "%s", cell);
	else
		fprintf(to, "%-*s  ", width, cell);
}

static void print_heading(FILE *to, const struct column *columns, size_t count, const int *widths)
{
	bool bold = output_has_colours(to);
	size_t i;

	fputs(bold ? "\033[1m" : "", to);
	for (i = 0; i < count; i++)
		print_cell(to, &columns[i], widths[i], i + 1 == count, columns[i].title);
	fputs(bold ? "\033[0m\n" : "\n", to);
}

static void print_row(FILE *to, const struct column *columns, size_t count, const int *widths,
		      const json_t *row)
{
	char cell[CELL_MAX];
	size_t i;

	for (i = 0; i < count; i++) {
		format_cell(cell, &columns[i], row);
		print_cell(to, &columns[i], widths[i], i + 1 == count, cell);
	}
	fputc('\n', to);
}

static void stream_widths(const struct column *columns, size_t count, int *widths)
{
	size_t i;

	for (i = 0; i < count; i++)
		widths[i] = least_width(&columns[i]);
}

void output_heading(FILE *to, const struct column *columns, size_t count)
{
	int widths[COLUMNS_MAX];

	stream_widths(columns, count, widths);
	print_heading(to, columns, count, widths);
	fflush(to);
}

void output_row(FILE *to, const struct column *columns, size_t count, const json_t *row)
{
	int widths[COLUMNS_MAX];

	stream_widths(columns, count, widths);
	print_row(to, columns, count, widths, row);
	fflush(to);
}

void output_table(FILE *to, const struct column *columns, size_t count, const json_t *rows)
{
	int widths[COLUMNS_MAX], length;
	char cell[CELL_MAX];
	json_t *row;
	size_t i, j;

	stream_widths(columns, count, widths);
	json_array_foreach(rows, j, row)
	{
		for (i = 0; i < count; i++) {
			format_cell(cell, &columns[i], row);
			length = (int)strlen(cell);
			if (length > widths[i])
				widths[i] = length;
		}
	}
	print_heading(to, columns, count, widths);
	json_array_foreach(rows, j, row) print_row(to, columns, count, widths, row);
	fflush(to);
}

const char *output_name(char shown[OUTPUT_NAME_MAX], const char *name)
{
	otte_line_escape(shown, OUTPUT_NAME_MAX, name);
	return shown;
}

json_t *output_string(const char *text)
{
	size_t size = 4 * strlen(text) + 1; /* each byte as "\\xNN" */
	char *escaped = malloc(size);
	json_t *value;

	if (!escaped)
		return json_null();
	otte_name_escape(escaped, size, text);
	value = json_string(escaped);
	free(escaped);
	return value;
}

void output_json(json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	putchar('\n');
	fflush(stdout);
	json_decref(value);
}

/* Backslash, quote and newline cannot stand in a label as they are. */
void output_label(FILE *to, const char *name, const char *value)
{
	fprintf(to, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", to);
		else if (*value == '\\' || *value == '"')
			fprintf(to, "\\%c", *value);
		else
			fputc(*value, to);
	}
	fputc('"', to);
}
