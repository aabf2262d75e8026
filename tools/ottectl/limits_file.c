/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "limits_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "describe.h"
#include "options.h"
#include "ottectl.h"

static int find_name(const char *const *names, unsigned count, const char *name)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return (int)i;
	return -1;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool take_value(const json_t *value, uint64_t *limit)
{
	if (json_is_string(value))
		return parse_amount(json_string_value(value), limit);
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*limit = (uint64_t)json_integer_value(value);
	return true;
}

static int take_level(const char *path, struct limits *limits, unsigned level, json_t *values)
{
	const char *name;
	json_t *value;
	int resource;

	if (!json_is_object(values))
		return complain(EXIT_LOCAL, "%s: %s: not an object", path, level_names[level]);
	json_object_foreach(values, name, value) {
		resource = find_name(resource_names, OTTE_RES_COUNT, name);
		if (resource < 0)
			return complain(EXIT_LOCAL, "%s: %s.%s: no such resource", path,
					level_names[level], name);
		if (!take_value(value, &limits->value[level][resource]))
			return complain(EXIT_LOCAL,
					"%s: %s.%s: not an amount (such as 4096, \"1G\" or "
					"\"max\")",
					path, level_names[level], name);
		limits->set[level][resource] = true;
	}
	return EXIT_OK;
}

static int take_levels(const char *path, struct limits *limits, json_t *levels)
{
	const char *name;
	json_t *values;
	int level, rc = EXIT_OK;

	if (!json_is_object(levels))
		return complain(EXIT_LOCAL, "%s: not an object", path);
	json_object_foreach(levels, name, values) {
		level = find_name(level_names, OTTE_LEVEL_COUNT, name);
		if (level < 0)
			return complain(EXIT_LOCAL, "%s: %s: no such level", path, name);
		rc = take_level(path, limits, (unsigned)level, values);
		if (rc)
			break;
	}
	return rc;
}

int limits_load(const char *path, bool named, struct limits *limits)
{
	json_error_t error;
	json_t *levels;
	FILE *file;
	int rc;

	memset(limits, 0, sizeof(*limits));
	file = fopen(path, "re");
	if (!file && errno == ENOENT && !named)
		return EXIT_OK;
	if (!file)
		return complain(EXIT_LOCAL, "%s: %s", path, strerror(errno));
	levels = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	fclose(file);
	if (!levels)
		return complain(EXIT_LOCAL, "%s:%d:%d: %s", path, error.line, error.column,
				error.text);
	rc = take_levels(path, limits, levels);
	json_decref(levels);
	return rc;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* As the file has them: none is "max", which describe_limit() has no word for. */
static json_t *file_json(const struct limits *limits)
{
	json_t *levels = json_object(), *values;
	unsigned i, j;

	for (i = 0; i < OTTE_LEVEL_COUNT; i++) {
		values = json_object();
		for (j = 0; j < OTTE_RES_COUNT; j++) {
			if (!limits->set[i][j])
				continue;
			json_object_set_new(values, resource_names[j],
					    limits->value[i][j] > INT64_MAX ?
						    json_string("max") :
						    describe_limit(limits->value[i][j]));
		}
		if (json_object_size(values))
			json_object_set(levels, level_names[i], values);
		json_decref(values);
	}
	return levels;
}

json_t *limits_json(const struct limits *limits)
{
	json_t *levels = json_object(), *values;
	unsigned i, j;

	for (i = 0; i < OTTE_LEVEL_COUNT; i++) {
		values = json_object();
		for (j = 0; j < OTTE_RES_COUNT; j++)
			if (limits->set[i][j])
				json_object_set_new(values, resource_names[j],
						    describe_limit(limits->value[i][j]));
		json_object_set_new(levels, level_names[i], values);
	}
	return levels;
}

static void merge(struct limits *limits, const struct limits *changes)
{
	unsigned i, j;

	for (i = 0; i < OTTE_LEVEL_COUNT; i++)
		for (j = 0; j < OTTE_RES_COUNT; j++)
			if (changes->set[i][j]) {
				limits->set[i][j] = true;
				limits->value[i][j] = changes->value[i][j];
			}
}

/* A new file, whatever an interrupted call left at its name. Everybody may read it, whatever the umask. */
static FILE *create_file(const char *path)
{
	FILE *file;
	int fd;

	if (unlink(path) && errno != ENOENT)
		return NULL;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return NULL;
	file = fchmod(fd, 0644) ? NULL : fdopen(fd, "w");
	if (!file)
		close(fd);
	return file;
}

/* 0 or negative errno. */
static int write_file(const char *path, const struct limits *limits)
{
	json_t *levels = file_json(limits);
	FILE *file = create_file(path);
	int rc = 0;

	if (!file) {
		rc = -errno;
	} else {
		if (json_dumpf(levels, file, JSON_INDENT(2)) || fputc('\n', file) == EOF ||
		    fflush(file) || fsync(fileno(file)))
			rc = errno ? -errno : -EIO;
		if (fclose(file) && !rc)
			rc = -errno;
	}
	json_decref(levels);
	return rc;
}

/* Opens the folder and takes its lock; the descriptor, or negative errno. */
static int lock_folder(const char *path)
{
	char copy[PATH_MAX], *folder;
	int fd, rc = 0;

	snprintf(copy, sizeof(copy), "%s", path);
	folder = dirname(copy);
	if (mkdir(folder, 0755) && errno != EEXIST)
		return -errno;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX))
		rc = -errno;
	if (rc)
		close(fd);
	return rc ? rc : fd;
}

static int replace(const char *path, const struct limits *limits, int folder)
{
	char temporary[PATH_MAX];
	int rc;

	if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	rc = write_file(temporary, limits);
	if (!rc && (rename(temporary, path) || fsync(folder)))
		rc = -errno;
	if (rc)
		unlink(temporary);
	return rc;
}

int limits_save(const char *path, const struct limits *changes)
{
	struct limits limits;
	int folder = lock_folder(path), rc;

	if (folder == -EACCES || folder == -EPERM)
		return complain(EXIT_DENIED, "%s: %s", path, strerror(-folder));
	if (folder < 0)
		return complain(EXIT_LOCAL, "%s: %s", path, strerror(-folder));
	rc = limits_load(path, false, &limits);
	if (!rc) {
		merge(&limits, changes);
		rc = replace(path, &limits, folder);
		if (rc)
			rc = complain(rc == -EACCES || rc == -EPERM ? EXIT_DENIED : EXIT_LOCAL,
				      "%s: %s", path, strerror(-rc));
	}
	close(folder);
	return rc;
}
