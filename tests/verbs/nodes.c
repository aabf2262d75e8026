/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "nodes.h"

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband_verbs"
#define NODES "/dev/infiniband"

static void give_up(const char *what)
{
	perror(what);
	_exit(3);
}

/* The first line of a file; false: there is none. */
static bool read_line(const char *node, const char *name, char *line, int size)
{
	char path[512];
	bool good;
	FILE *file;

	snprintf(path, sizeof(path), CLASS "/%s/%s", node, name);
	file = fopen(path, "r");
	if (!file)
		return false;
	good = fgets(line, size, file);
	fclose(file);
	return good;
}

static void keep(const char *node, const char *prefix)
{
	char device[64], number[32], path[300];
	unsigned int major, minor;

	if (!read_line(node, "ibdev", device, sizeof(device)) ||
	    !read_line(node, "dev", number, sizeof(number)))
		return;
	if (strncmp(device, prefix, strlen(prefix)) != 0 ||
	    sscanf(number, "%u:%u", &major, &minor) != 2)
		return;
	snprintf(path, sizeof(path), NODES "/%s", node);
	if (mknod(path, S_IFCHR | 0600, makedev(major, minor)))
		give_up(path);
}

void nodes_keep(const char *prefix)
{
	struct dirent *entry;
	DIR *class;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		give_up("mounts of its own");
	if (mount("tmpfs", NODES, "tmpfs", 0, NULL))
		give_up(NODES);
	class = opendir(CLASS);
	if (!class)
		give_up(CLASS);
	while ((entry = readdir(class)))
		keep(entry->d_name, prefix);
	closedir(class);
}
