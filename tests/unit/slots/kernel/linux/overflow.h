/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_TESTS_LINUX_OVERFLOW_H
#define OTTE_TESTS_LINUX_OVERFLOW_H

#define check_add_overflow(a, b, sum) __builtin_add_overflow(a, b, sum)

#endif
