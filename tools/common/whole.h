/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A file that is there whole or not at all: it is written beside its name and then takes it. What is
 * no regular file (a pipe, a device, a descriptor) is written as it is; a link stays, and what it leads
 * to is replaced, with the mode that it had.
 */
#ifndef OTTE_TOOLS_WHOLE_H
#define OTTE_TOOLS_WHOLE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct whole {
	FILE *file; /* to write to */
	char path[PATH_MAX]; /* without links at its end */
	char beside[PATH_MAX]; /* "": written directly */
	dev_t device; /* of what is written */
	ino_t inode;
};

/* What `path` names is no regular file, or one that is not ours to make or to rename. */
bool whole_is_direct(const char *path);

/*
 * `mode` is that of a new file, 0: what the umask leaves of 0666. Waits for the reader of a pipe.
 * 0 or -errno.
 */
int whole_begin(struct whole *whole, const char *path, mode_t mode);

/*
 * With `rc` 0 the file takes its name once all of it is written; else it goes. `rc`, or -errno of what
 * failed here.
 */
int whole_end(struct whole *whole, int rc);

/* Remove what whole_end() put there, where it still is. */
void whole_remove(const struct whole *whole);

#endif
