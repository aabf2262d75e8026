/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Text that may be shown on a terminal or in a log: one line of valid UTF-8 without control
 * characters (C0, DEL and C1), because some of it comes from peers.
 */
#ifndef OTTE_BASE_LINE_H
#define OTTE_BASE_LINE_H

#include <stddef.h>
#include <sys/types.h>

/* Offset of the first byte of `length` that such a line cannot have, or -1 if there is none. */
ssize_t otte_line_fault(const char *text, size_t length);

/*
 * Copy `text` as such a line into `out`, always terminated: each unfit byte becomes "\xNN", and what does not fit in
 * size - 1 bytes is cut between characters. Returns the length of the copy. A line stays as it is.
 */
size_t otte_line_escape(char *out, size_t size, const char *text);

/*
 * The same of a name, which is bytes, so that they can be had back: a backslash that would read as such an escape, for
 * x and two hexadecimal digits follow, becomes "\x5c". Once: a name that is escaped already would be so again.
 */
size_t otte_name_escape(char *out, size_t size, const char *name);

#endif
