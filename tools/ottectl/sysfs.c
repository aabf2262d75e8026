/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sysfs.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/otte.h>

#include "ottectl.h"

const char *sysfs_top = "/sys/class/misc/otte";
const char *sysfs_module = "/sys/module/otte";

static int open_file(const char *top, const char *name, int flags)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

bool sysfs_present(void)
{
	return !access(sysfs_top, F_OK);
}

static int read_below(const char *top, const char *name, char *value, size_t size)
{
	int fd = open_file(top, name, O_RDONLY);
	ssize_t got;

	if (fd < 0)
		return fd;
	got = read(fd, value, size);
	if (got < 0)
		got = -errno;
	else if ((size_t)got == size)
		got = -EMSGSIZE;
	close(fd);
	if (got < 0)
		return (int)got;
	value[got] = '\0';
	value[strcspn(value, "\n")] = '\0';
	return 0;
}

int sysfs_read(const char *name, char *value, size_t size)
{
	return read_below(sysfs_top, name, value, size);
}

static int parse_number(const char *text, uint64_t *value)
{
	char *end;

	if (!strcmp(text, "max")) {
		*value = UINT64_MAX;
		return 0;
	}
	errno = 0;
	*value = strtoull(text, &end, 10);
	return isdigit((unsigned char)*text) && !*end && !errno ? 0 : -EBADMSG;
}

int sysfs_read_number(const char *name, uint64_t *value)
{
	char text[32];
	int rc = sysfs_read(name, text, sizeof(text));

	return rc ? rc : parse_number(text, value);
}

int sysfs_module_references(uint64_t *references)
{
	char text[32];
	int rc = read_below(sysfs_module, "refcnt", text, sizeof(text));

	*references = 0;
	return rc ? rc : parse_number(text, references);
}

int sysfs_write(const char *name, const char *value)
{
	int fd = open_file(sysfs_top, name, O_WRONLY), rc = 0;

	if (fd < 0)
		return fd;
	if (write(fd, value, strlen(value)) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

int complain_absent(void)
{
	return complain(EXIT_ABSENT, "the module is not loaded: modprobe otte");
}

int complain_sysfs(int code, const char *name)
{
	if (!sysfs_present())
		return complain_absent();
	if (code == -EACCES || code == -EPERM)
		return complain(EXIT_DENIED,
				"%s/%s: %s: this needs CAP_SYS_ADMIN in the initial user namespace",
				sysfs_top, name, strerror(-code));
	if (code == -EBADMSG || code == -EMSGSIZE)
		return complain(EXIT_GARBLED, "%s/%s holds no number", sysfs_top, name);
	return complain(code == -EINVAL || code == -ERANGE ? EXIT_REFUSED : EXIT_LOCAL, "%s/%s: %s",
			sysfs_top, name, strerror(-code));
}

int sysfs_check(void)
{
	uint64_t revision;
	int rc;

	if (!sysfs_present())
		return complain_absent();
	rc = sysfs_read_number("revision", &revision);
	if (rc)
		return complain_sysfs(rc, "revision");
	if (revision != OTTE_ABI_REVISION)
		return complain(EXIT_ABI,
				"the module has revision %llu, this program speaks revision %d",
				(unsigned long long)revision, OTTE_ABI_REVISION);
	return EXIT_OK;
}
