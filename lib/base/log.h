/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The one way out for messages: the application's hook. */
#ifndef OTTE_BASE_LOG_H
#define OTTE_BASE_LOG_H

#include "base/util.h"
#include "otte/otte.h"

/* One line, no newline. Call without a lock that a hook could want. */
void otte_log(enum otte_log_level level, const char *format, ...) OTTE_PRINTF(2, 3) OTTE_COLD;

#endif
