/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/table.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/read.h"
#include "base/util.h"
#include "cuda/kernel/copy.h"

#define DEVICES 64 /* of a process; more take the built-in table */
#define FILE_MAX (64 * KIB)
#define PATH_MAX_BYTES 512

/* What was found for each device. `lock` is over all of it; an entry that is known does not change. */
static struct {
	pthread_mutex_t lock;
	struct known {
		bool known;
		const struct otte_policy_table *policy;
		struct otte_table table;
	} devices[DEVICES];
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- The text -------------------------------------------------------------------------------- */

static int parse_ctas(const json_t *row, size_t at, const char *key, uint32_t *ctas)
{
	json_int_t value = json_integer_value(json_object_get(row, key));

	if (value < 1 || value > OTTE_POLICY_MAX_CTAS)
		return otte_fail(-EINVAL, "rows[%zu].%s: 1 to %u CTAs are wanted", at, key, OTTE_POLICY_MAX_CTAS);
	*ctas = (uint32_t)value;
	return 0;
}

static int parse_row(const json_t *row, size_t at, bool last, uint64_t before, struct otte_policy_row *out)
{
	const json_t *bytes = json_object_get(row, "bytes");
	int ret;

	if (!json_is_object(row))
		return otte_fail(-EINVAL, "rows[%zu]: an object is wanted", at);
	if (last != !bytes)
		return otte_fail(-EINVAL, "rows[%zu].bytes: all but the last have that", at);
	out->bytes = last ? UINT64_MAX : (uint64_t)json_integer_value(bytes);
	if (!last && (json_integer_value(bytes) < 1 || out->bytes <= before))
		return otte_fail(-EINVAL, "rows[%zu].bytes: more than %lu is wanted", at, (unsigned long)before);
	out->lanes[OTTE_COPY_TO_DEVICE] = out->lanes[OTTE_COPY_TO_HOST] = OTTE_COPY_MAX_LANES;
	ret = parse_ctas(row, at, "to_device", &out->ctas[OTTE_COPY_TO_DEVICE]);
	return ret ? ret : parse_ctas(row, at, "to_host", &out->ctas[OTTE_COPY_TO_HOST]);
}

static int parse_rows(const json_t *rows, struct otte_table *table)
{
	size_t count = json_array_size(rows), i;
	uint64_t before = 0;
	int ret = 0;

	if (!count || count > OTTE_TABLE_ROWS)
		return otte_fail(-EINVAL, "rows: a list of 1 to %d is wanted", OTTE_TABLE_ROWS);
	for (i = 0; i < count && !ret; i++) {
		ret = parse_row(json_array_get(rows, i), i, i + 1 == count, before, &table->rows[i]);
		before = table->rows[i].bytes;
	}
	return ret;
}

static int parse_long(const json_t *value, struct otte_table *table)
{
	table->policy.long_bytes = OTTE_COPY_NEVER;
	if (!value)
		return 0;
	if (json_integer_value(value) < 1)
		return otte_fail(-EINVAL, "long_bytes: a size is wanted");
	table->policy.long_bytes = (uint64_t)json_integer_value(value);
	return 0;
}

static int parse(const json_t *all, const char *device, int driver, struct otte_table *table)
{
	const char *its = json_string_value(json_object_get(all, "device"));
	json_int_t its_driver = json_integer_value(json_object_get(all, "driver"));
	int ret;

	if (!its || strcmp(its, device))
		return otte_fail(-EINVAL, "device: it is not of %s", device);
	if (its_driver != driver)
		return otte_fail(-EINVAL, "driver: it is of %lld, and this one is %d: otte calibrate",
				 (long long)its_driver, driver);
	snprintf(table->device, sizeof(table->device), "%s", device);
	table->policy.device = table->device;
	table->policy.rows = table->rows;
	ret = parse_long(json_object_get(all, "long_bytes"), table);
	return ret ? ret : parse_rows(json_object_get(all, "rows"), table);
}

int otte_table_parse(const char *text, size_t size, const char *device, int driver, struct otte_table *table)
{
	json_error_t error;
	json_t *all = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	int ret;

	if (!all)
		return otte_fail(-EINVAL, "line %d: %s", error.line, error.text);
	ret = parse(all, device, driver, table);
	json_decref(all);
	return ret;
}

/* ---- The file -------------------------------------------------------------------------------- */

static int put_folder(bool machine, char *path, size_t size)
{
	const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");

	if (machine)
		return snprintf(path, size, "/var/cache/otte");
	if (cache && *cache)
		return snprintf(path, size, "%s/otte", cache);
	if (home && *home)
		return snprintf(path, size, "%s/.cache/otte", home);
	return otte_fail(-ENOENT, "neither XDG_CACHE_HOME nor HOME is set");
}

int otte_table_path(const char *device, bool machine, char *path, size_t size)
{
	int folder = put_folder(machine, path, size), name;
	char *at;

	if (folder < 0)
		return folder;
	if ((size_t)folder >= size)
		return otte_fail(-ERANGE, "the path of a calibration is too long");
	at = path + folder;
	name = snprintf(at, size - (size_t)folder, "/copy-%s.json", device);
	if ((size_t)name >= size - (size_t)folder)
		return otte_fail(-ERANGE, "the path of a calibration is too long");
	for (at += strlen("/copy-"); *at && strcmp(at, ".json"); at++)
		if (!isalnum((unsigned char)*at))
			*at = '-';
	return 0;
}

/* -ENOENT without a word: there is none. */
static int read_file(const char *path, const char *device, int driver, struct otte_table *table)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;
	ssize_t size;
	char *text;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? -ENOENT : otte_fail(-errno, "%s", strerror(errno));
	text = malloc(FILE_MAX + 1);
	size = text ? otte_read_all(fd, text, FILE_MAX + 1) : -ENOMEM;
	close(fd);
	if (size < 0)
		ret = otte_fail((int)size, "%s", strerror((int)-size));
	else if ((size_t)size > FILE_MAX)
		ret = otte_fail(-EINVAL, "it is longer than %llu bytes", (unsigned long long)FILE_MAX);
	else
		ret = otte_table_parse(text, (size_t)size, device, driver, table);
	free(text);
	return ret;
}

/* False: there is none, or none that is of use, which was said. */
static bool find_file(const char *device, int driver, bool machine, struct otte_table *table)
{
	char path[PATH_MAX_BYTES];
	int ret = otte_table_path(device, machine, path, sizeof(path));

	if (ret)
		return false;
	ret = read_file(path, device, driver, table);
	if (ret && ret != -ENOENT)
		otte_log(OTTE_LOG_WARNING, "%s: not used: %s", path, otte_error_text());
	return !ret;
}

static void find(const struct otte_cuda *cuda, int device, struct known *known)
{
	char name[OTTE_TABLE_DEVICE_BYTES] = "";
	CUdevice handle;

	known->policy = &otte_policy_h200;
	known->known = true;
	if (cuda->device_get(&handle, device) || cuda->device_get_name(name, sizeof(name), handle))
		return;
	if (find_file(name, cuda->version, false, &known->table) || find_file(name, cuda->version, true, &known->table))
		known->policy = &known->table.policy;
}

const struct otte_policy_table *otte_table_of(const struct otte_cuda *cuda, int device)
{
	const struct otte_policy_table *policy = &otte_policy_h200;

	if (device < 0 || device >= DEVICES)
		return policy;
	pthread_mutex_lock(&process.lock);
	if (!process.devices[device].known)
		find(cuda, device, &process.devices[device]);
	policy = process.devices[device].policy;
	pthread_mutex_unlock(&process.lock);
	return policy;
}
