/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_BASE_READ_H
#define OTTE_BASE_READ_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Read until the end or until `size` bytes are in, through signals and short reads. The bytes read, or
 * a negative errno. A caller with a limit offers one byte more, which is how too much shows.
 */
ssize_t otte_read_all(int fd, char *buffer, size_t size);

#endif
