/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Beside what the system's linux/types.h has for everybody. */
#ifndef OTTE_TESTS_LINUX_TYPES_H
#define OTTE_TESTS_LINUX_TYPES_H

#include_next <linux/types.h>

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#endif
