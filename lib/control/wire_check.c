/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "control/wire_private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/line.h"

#define ERRNO_MAX 4095 /* the largest that Linux returns as -errno */

int otte_wire_bad_set(const char *what, const char *field, uint64_t value)
{
	return otte_fail(-EPROTO, "%s: %s is 0x%" PRIx64 ", not 0", what, field, value);
}

int otte_wire_bad_zero(const char *what, const char *field)
{
	return otte_fail(-EPROTO, "%s: %s is 0", what, field);
}

int otte_wire_bad_above(const char *what, const char *field, uint64_t value, uint64_t limit)
{
	return otte_fail(-EPROTO, "%s: %s is %" PRIu64 ", above %" PRIu64, what, field, value, limit);
}

int otte_wire_zeros(const char *what, const char *field, const uint8_t *bytes, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (bytes[i])
			return otte_fail(-EPROTO, "%s: %s has 0x%02x at byte %zu, not 0", what, field,
					 bytes[i], i);
	return 0;
}

int otte_wire_status(const char *what, int32_t status)
{
	if (status <= 0 && status >= -ERRNO_MAX)
		return 0;
	return otte_fail(-EPROTO, "%s: status is %" PRId32 ", neither 0 nor a negative errno", what,
			 status);
}

int otte_wire_length(const char *what, size_t length, size_t expected)
{
	if (length == expected)
		return 0;
	return otte_fail(-EPROTO, "%s: length is %zu, not %zu", what, length, expected);
}

int otte_wire_room(const char *what, size_t size, size_t needed)
{
	if (size >= needed)
		return 0;
	return otte_fail(-ENOSPC, "%s: %zu bytes do not fit in %zu", what, needed, size);
}

int otte_wire_string(const char *what, const char *field, const uint8_t *in, size_t size)
{
	const uint8_t *end = memchr(in, 0, size);
	ssize_t fault;

	if (!end)
		return otte_fail(-EPROTO, "%s: %s has no terminator in %zu bytes", what, field, size);
	fault = otte_line_fault((const char *)in, (size_t)(end - in));
	if (fault >= 0)
		return otte_fail(-EPROTO, "%s: %s has 0x%02x at byte %zd, not printable UTF-8", what,
				 field, in[fault], fault);
	return otte_wire_zeros(what, field, end, size - (size_t)(end - in));
}

uint8_t *otte_wire_put_string(uint8_t *at, const char *text, size_t size)
{
	size_t length = otte_line_escape((char *)at, size, text);

	memset(at + length, 0, size - length);
	return at + size;
}
