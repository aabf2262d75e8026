/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What kmod/slot.c takes from the kernel's headers, for a build of it as a part of a test. */
#ifndef OTTE_TESTS_LINUX_LIMITS_H
#define OTTE_TESTS_LINUX_LIMITS_H

#include_next <linux/limits.h>

#define U64_MAX (~0ull)

#endif
