// SPDX-License-Identifier: GPL-2.0-only
/* The module that carries the KUnit suites; each *_kunit.c is one, beside what it tests. */
#include <linux/module.h>

MODULE_DESCRIPTION("KUnit tests of otte");
MODULE_LICENSE("GPL");
