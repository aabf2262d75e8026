/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/line.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool continues(const uint8_t *text, size_t length, size_t count)
{
	size_t i;

	if (length <= count)
		return false;
	for (i = 1; i <= count; i++)
		if ((text[i] & 0xc0) != 0x80)
			return false;
	return true;
}

/* Bytes of the character that `text` starts with, or 0 if it is none that a line can have. */
static size_t character(const uint8_t *text, size_t length)
{
	uint32_t code;

	if (text[0] < 0x80)
		return text[0] >= 0x20 && text[0] != 0x7f;
	if ((text[0] & 0xe0) == 0xc0) {
		if (!continues(text, length, 1))
			return 0;
		code = (text[0] & 0x1fu) << 6 | (text[1] & 0x3fu);
		return code >= 0xa0 ? 2 : 0; /* below: overlong, or C1 */
	}
	if ((text[0] & 0xf0) == 0xe0) {
		if (!continues(text, length, 2))
			return 0;
		code = (text[0] & 0x0fu) << 12 | (text[1] & 0x3fu) << 6 | (text[2] & 0x3fu);
		return code >= 0x800 && (code < 0xd800 || code > 0xdfff) ? 3 : 0;
	}
	if ((text[0] & 0xf8) == 0xf0) {
		if (!continues(text, length, 3))
			return 0;
		code = (text[0] & 0x07u) << 18 | (text[1] & 0x3fu) << 12 | (text[2] & 0x3fu) << 6 |
		       (text[3] & 0x3fu);
		return code >= 0x10000 && code <= 0x10ffff ? 4 : 0;
	}
	return 0;
}

ssize_t otte_line_fault(const char *text, size_t length)
{
	size_t at = 0, bytes;

	while (at < length) {
		bytes = character((const uint8_t *)text + at, length - at);
		if (!bytes)
			return (ssize_t)at;
		at += bytes;
	}
	return -1;
}

#define STAND_IN 4 /* bytes of "\\xNN" */

/* What a line has in place of a byte that it cannot have. */
static void stand_in(char instead[STAND_IN], uint8_t byte)
{
	static const char digits[] = "0123456789abcdef";

	instead[0] = '\\';
	instead[1] = 'x';
	instead[2] = digits[byte >> 4];
	instead[3] = digits[byte & 15];
}

/* Whether a terminated `text` begins as a byte does that is escaped. */
static bool reads_escaped(const char *text)
{
	return text[0] == '\\' && text[1] == 'x' && isxdigit((unsigned char)text[2]) &&
	       isxdigit((unsigned char)text[3]);
}

static size_t copy_line(char *out, size_t size, const char *text, bool name)
{
	size_t length = strlen(text), from = 0, used = 0, bytes, wanted;
	char instead[STAND_IN];

	while (from < length) {
		bytes = character((const uint8_t *)text + from, length - from);
		if (name && reads_escaped(text + from))
			bytes = 0;
		wanted = bytes ? bytes : STAND_IN;
		if (!bytes)
			stand_in(instead, (uint8_t)text[from]);
		if (used + wanted >= size)
			break;
		memcpy(out + used, bytes ? text + from : instead, wanted);
		used += wanted;
		from += bytes ? bytes : 1;
	}
	out[used] = '\0';
	return used;
}

size_t otte_line_escape(char *out, size_t size, const char *text)
{
	return copy_line(out, size, text, false);
}

size_t otte_name_escape(char *out, size_t size, const char *name)
{
	return copy_line(out, size, name, true);
}
