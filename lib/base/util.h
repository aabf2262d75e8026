/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Small things that no header of the system gives. */
#ifndef OTTE_BASE_UTIL_H
#define OTTE_BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define OTTE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
/* Rarely called: what leads there is kept off the path that is taken. */
#define OTTE_COLD __attribute__((cold))

/*
 * What stands around a call that sleeps: on return from there the CPU has forgotten the way back, and takes each
 * frame's return for a surprise.
 */
#define OTTE_FRAMELESS inline __attribute__((always_inline))

#define KIB (1024ull)
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)
#define TIB (1024ull * GIB)

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * Zeroes, by the C library. Of a size that the compiler knows it makes a string instruction, which takes longer to
 * start than all of a few hundred bytes takes in vectors.
 */
static inline void zero_bytes(void *out, size_t size)
{
	__asm__("" : "+r"(size));
	memset(out, 0, size);
}

/*
 * Fill a caller's struct that begins with its uint32_t size, which stays as the caller set it: as much
 * of `whole` as fits. The caller has checked that the size covers itself.
 */
static inline void sized_copy_out(void *out, const void *whole, size_t known)
{
	uint32_t size;

	memcpy(&size, out, sizeof(size));
	memcpy((char *)out + sizeof(size), (const char *)whole + sizeof(size),
	       (size < known ? size : known) - sizeof(size));
}

/* [offset, offset + length) lies inside [0, limit), without overflow. */
static inline int range_inside(uint64_t offset, uint64_t length, uint64_t limit)
{
	return length <= limit && offset <= limit - length;
}

#endif
