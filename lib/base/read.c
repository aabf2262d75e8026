/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/read.h"

#include <errno.h>
#include <unistd.h>

ssize_t otte_read_all(int fd, char *buffer, size_t size)
{
	size_t used = 0;
	ssize_t got;

	while (used < size) {
		got = read(fd, buffer + used, size - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		used += (size_t)got;
	}
	return (ssize_t)used;
}
