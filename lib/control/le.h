/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Little-endian integers at any alignment. Each call returns the place behind what it wrote or read,
 * so that an encoder and its decoder list the same fields in the same order and no offset twice.
 */
#ifndef OTTE_CONTROL_LE_H
#define OTTE_CONTROL_LE_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whole words, because compilers of today do not join the byte-wise form. */
static inline uint8_t *put_le(uint8_t *at, uint64_t value, unsigned bytes)
{
	value = htole64(value);
	memcpy(at, &value, bytes);
	return at + bytes;
}

static inline uint64_t peek_le(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return le64toh(value);
}

static inline uint8_t *put_u8(uint8_t *at, uint8_t value)
{
	*at = value;
	return at + 1;
}

static inline uint8_t *put_le16(uint8_t *at, uint16_t value)
{
	return put_le(at, value, 2);
}

static inline uint8_t *put_le32(uint8_t *at, uint32_t value)
{
	return put_le(at, value, 4);
}

static inline uint8_t *put_le64(uint8_t *at, uint64_t value)
{
	return put_le(at, value, 8);
}

static inline uint8_t *put_bytes(uint8_t *at, const uint8_t *bytes, size_t count)
{
	memcpy(at, bytes, count);
	return at + count;
}

static inline const uint8_t *get_u8(const uint8_t *at, uint8_t *value)
{
	*value = *at;
	return at + 1;
}

static inline const uint8_t *get_le16(const uint8_t *at, uint16_t *value)
{
	*value = (uint16_t)peek_le(at, 2);
	return at + 2;
}

static inline const uint8_t *get_le32(const uint8_t *at, uint32_t *value)
{
	*value = (uint32_t)peek_le(at, 4);
	return at + 4;
}

static inline const uint8_t *get_le64(const uint8_t *at, uint64_t *value)
{
	*value = peek_le(at, 8);
	return at + 8;
}

static inline const uint8_t *get_bytes(const uint8_t *at, uint8_t *bytes, size_t count)
{
	memcpy(bytes, at, count);
	return at + count;
}

#endif
