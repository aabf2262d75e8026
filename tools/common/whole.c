/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

#define NAMES_TRIED 100

/* A file of these folders may lead to a regular one, of whoever started us. */
static bool is_a_descriptor(const char *path)
{
	static const char *const names[] = { "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strncmp(path, names[i], strlen(names[i])))
			return true;
	return false;
}

bool whole_is_direct(const char *path)
{
	struct stat info;

	return is_a_descriptor(path) || (!stat(path, &info) && !S_ISREG(info.st_mode));
}

/* A link that leads nowhere is for the kernel to follow, under its rules for links of others. */
static bool is_a_link(const char *path)
{
	struct stat info;

	return !lstat(path, &info) && S_ISLNK(info.st_mode);
}

static int open_directly(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
}

/* Nobody can have put anything at a name that is made here: O_EXCL follows no link. */
static int open_beside(struct whole *whole, mode_t mode)
{
	unsigned number, tried;
	int fd = -1;

	for (tried = 0; fd < 0 && tried < NAMES_TRIED; tried++) {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -1;
		if (snprintf(whole->beside, sizeof(whole->beside), "%s.%08x", whole->path,
			     number) >= (int)sizeof(whole->beside)) {
			errno = ENAMETOOLONG;
			return -1;
		}
		fd = open(whole->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (fd < 0 && errno != EEXIST)
			return -1;
	}
	return fd;
}

/* errno stays. */
static void close_beside(const struct whole *whole, int fd)
{
	int saved = errno;

	close(fd);
	if (*whole->beside)
		unlink(whole->beside);
	errno = saved;
}

/* stat() has followed the links, under the kernel's rules, before they are resolved. */
static int open_whole(struct whole *whole, const char *path, mode_t mode)
{
	struct stat before;
	bool replaces = !stat(path, &before);
	int fd;

	if (!replaces && errno != ENOENT)
		return -1;
	if (whole_is_direct(path) || (!replaces && is_a_link(path)))
		return open_directly(path);
	if (replaces) {
		mode = before.st_mode & 0777;
		if (!realpath(path, whole->path))
			return -1;
	} else if (snprintf(whole->path, sizeof(whole->path), "%s", path) >=
		   (int)sizeof(whole->path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open_beside(whole, replaces ? 0600 : mode ? mode : 0666);
	if (fd < 0 || !mode || !fchmod(fd, mode))
		return fd;
	close_beside(whole, fd);
	return -1;
}

int whole_begin(struct whole *whole, const char *path, mode_t mode)
{
	struct stat opened;
	int fd;

	memset(whole, 0, sizeof(*whole));
	if (!*path)
		return -ENOENT;
	fd = open_whole(whole, path, mode);
	if (fd >= 0 && !fstat(fd, &opened)) {
		whole->device = opened.st_dev;
		whole->inode = opened.st_ino;
		whole->file = fdopen(fd, "w");
	}
	if (whole->file)
		return 0;
	if (fd >= 0)
		close_beside(whole, fd);
	return -errno;
}

int whole_end(struct whole *whole, int rc)
{
	/* errno: of the write that failed, if one did. */
	if (!rc && (ferror(whole->file) || fflush(whole->file)))
		rc = errno ? -errno : -EIO;
	if (fclose(whole->file) && !rc)
		rc = -errno;
	whole->file = NULL;
	if (!*whole->beside)
		return rc;
	if (!rc && rename(whole->beside, whole->path))
		rc = -errno;
	if (rc)
		unlink(whole->beside);
	return rc;
}

void whole_remove(const struct whole *whole)
{
	struct stat named;

	if (*whole->beside && !lstat(whole->path, &named) && named.st_dev == whole->device &&
	    named.st_ino == whole->inode)
		unlink(whole->path);
}
