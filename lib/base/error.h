/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The calling thread's last explanation, behind otte_error_text(). */
#ifndef OTTE_BASE_ERROR_H
#define OTTE_BASE_ERROR_H

#include <stddef.h>

#include "base/util.h"

/* Bytes of a remembered text with its terminator. */
#define OTTE_ERROR_BYTES 256

/* Remember what was at fault and return `code`, so that a caller can `return otte_fail(...)`. */
int otte_fail(int code, const char *format, ...) OTTE_PRINTF(2, 3) OTTE_COLD;

/* Put `prefix` before the remembered text; returns `code`. */
int otte_fail_within(int code, const char *format, ...) OTTE_PRINTF(2, 3) OTTE_COLD;

/* A copy of the remembered text, for what calls on before it tells of it. */
void otte_error_keep(char text[OTTE_ERROR_BYTES]);

/* clang's analyser sees one file at a time: tell it that `code` comes back. */
#ifdef __clang_analyzer__
static inline int otte_fail_known(int code, int same)
{
	(void)same;
	return code;
}
#define otte_fail(code, ...) otte_fail_known(code, (otte_fail)(code, __VA_ARGS__))
#define otte_fail_within(code, ...) otte_fail_known(code, (otte_fail_within)(code, __VA_ARGS__))
#endif

#endif
