/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the wire_*.c files share: checks whose texts name the field and the value. */
#ifndef OTTE_CONTROL_WIRE_PRIVATE_H
#define OTTE_CONTROL_WIRE_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

/* -EPROTO with text; for the checks below, which every request makes. */
int otte_wire_bad_set(const char *what, const char *field, uint64_t value) OTTE_COLD;
int otte_wire_bad_zero(const char *what, const char *field) OTTE_COLD;
int otte_wire_bad_above(const char *what, const char *field, uint64_t value,
			uint64_t limit) OTTE_COLD;

/* A field is named as "what field", e.g. "hello" "flags". 0 or -EPROTO. */
static inline int otte_wire_zero(const char *what, const char *field, uint64_t value)
{
	return value ? otte_wire_bad_set(what, field, value) : 0;
}

static inline int otte_wire_not_zero(const char *what, const char *field, uint64_t value)
{
	return value ? 0 : otte_wire_bad_zero(what, field);
}

static inline int otte_wire_at_most(const char *what, const char *field, uint64_t value,
				    uint64_t limit)
{
	return value > limit ? otte_wire_bad_above(what, field, value, limit) : 0;
}

int otte_wire_zeros(const char *what, const char *field, const uint8_t *bytes, size_t count);
int otte_wire_status(const char *what, int32_t status);

/* The payload has exactly `expected` bytes: 0 or -EPROTO. */
int otte_wire_length(const char *what, size_t length, size_t expected);
/* An encoder's output has room for `needed` bytes: 0 or -ENOSPC. */
int otte_wire_room(const char *what, size_t size, size_t needed);

/* A string in a field of `size` bytes: terminated, one line, zeros behind it. */
int otte_wire_string(const char *what, const char *field, const uint8_t *in, size_t size);
/* Cleans the string and fills the field with zeros; returns the place behind it. */
uint8_t *otte_wire_put_string(uint8_t *at, const char *text, size_t size);

#endif
