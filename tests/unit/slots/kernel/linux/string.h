/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_TESTS_LINUX_STRING_H
#define OTTE_TESTS_LINUX_STRING_H

#include <string.h>

#endif
