/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The loader of JSON, from memory and from a file. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/line.h"
#include "base/read.h"
#include "base/util.h"
#include "engine/config_value.h"

#define JSON_MAX MIB

static const char *type_name(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a real number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	default:
		return "null";
	}
}

static int wrong_type(const char *key, const char *wanted, const json_t *value)
{
	return otte_fail(-EINVAL, "%s: %s is wanted, not %s", key, wanted, type_name(value));
}

static int set_json_number(struct otte_config *config, const struct otte_config_key *key,
			   const json_t *value)
{
	char wanted[80], shown[24], range[OTTE_CONFIG_RANGE];
	json_int_t number;

	if (!json_is_integer(value)) {
		snprintf(wanted, sizeof(wanted), "an integer of %s",
			 otte_config_range_text(range, key));
		return wrong_type(key->key, wanted, value);
	}
	number = json_integer_value(value);
	snprintf(shown, sizeof(shown), "%" JSON_INTEGER_FORMAT, number);
	if (number < 0)
		return otte_config_refuse_number(key, shown);
	return otte_config_set_number(config, key, (uint64_t)number, shown);
}

/* Who reads it later finds it as it was, but for white space. */
static int set_json_object(struct otte_config *config, const struct otte_config_key *key,
			   const json_t *value)
{
	char *text;
	int rc;

	if (!json_is_object(value))
		return wrong_type(key->key, "an object", value);
	if (!json_object_size(value))
		return otte_config_set_text(config, key, "");
	text = json_dumps(value, JSON_COMPACT);
	if (!text)
		return otte_fail(-ENOMEM, "%s: no memory for its JSON", key->key);
	rc = otte_config_set_text(config, key, text);
	free(text);
	return rc;
}

static int set_json(struct otte_config *config, const struct otte_config_key *key,
		    const json_t *value)
{
	switch (key->type) {
	case OTTE_CONFIG_TEXT:
		if (!json_is_string(value))
			return wrong_type(key->key, "a string", value);
		return otte_config_set_text(config, key, json_string_value(value));
	case OTTE_CONFIG_WORD:
		if (!json_is_string(value))
			return wrong_type(key->key, "a string", value);
		return otte_config_set_word(config, key, json_string_value(value));
	case OTTE_CONFIG_OBJECT:
		return set_json_object(config, key, value);
	case OTTE_CONFIG_SWITCH:
		if (!json_is_boolean(value))
			return wrong_type(key->key, "true or false", value);
		otte_config_put_number(config, key, json_is_true(value));
		return 0;
	default:
		return set_json_number(config, key, value);
	}
}

static int unknown_key(const char *name)
{
	char shown[OTTE_CONFIG_KEY_MAX];

	otte_line_escape(shown, sizeof(shown), name);
	if (otte_config_find(shown))
		return otte_fail(-EINVAL,
				 "%s: unknown key; a dot stands for an object in an object", shown);
	return otte_fail(-EINVAL, "%s: unknown key", shown);
}

/* `prefix` is "" at the top, else "group."; groups do not nest, so this goes one level down. */
static int load_object(struct otte_config *config, const char *prefix, json_t *object)
{
	const struct otte_config_key *key;
	char path[OTTE_CONFIG_KEY_MAX * 2];
	const char *name;
	json_t *value;
	int rc;

	json_object_foreach(object, name, value) {
		snprintf(path, sizeof(path), "%s%s", prefix, name);
		if (strlen(name) >= OTTE_CONFIG_KEY_MAX || strchr(name, '.'))
			return unknown_key(path);
		key = otte_config_find(path);
		if (key) {
			rc = set_json(config, key, value);
		} else if (!*prefix && otte_config_is_group(name)) {
			if (!json_is_object(value))
				return wrong_type(name, "an object", value);
			snprintf(path, sizeof(path), "%s.", name);
			rc = load_object(config, path, value);
		} else {
			rc = unknown_key(path);
		}
		if (rc)
			return rc;
	}
	return 0;
}

static int parse_json(const char *text, size_t length, json_t **root)
{
	json_error_t error;
	char shown[JSON_ERROR_TEXT_LENGTH];

	/* Where memory runs out jansson reports a fault in the text, or none; errno knows better. */
	errno = 0;
	*root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
	if (!*root) {
		if (errno == ENOMEM)
			return otte_fail(-ENOMEM, "config: no memory for its JSON");
		otte_line_escape(shown, sizeof(shown), error.text);
		return otte_fail(-EINVAL, "line %d column %d: %s", error.line, error.column, shown);
	}
	if (json_is_object(*root))
		return 0;
	wrong_type("config", "an object", *root);
	json_decref(*root);
	return -EINVAL;
}

static int overlay_json(struct otte_config *whole, const char *text, size_t length)
{
	json_t *root;
	int rc;

	if (length > JSON_MAX)
		return otte_fail(-E2BIG, "config: %zu bytes of JSON, allowed are %llu", length,
				 JSON_MAX);
	if (!length)
		return otte_fail(-EINVAL, "line 1 column 0: no JSON, {} is the least");
	rc = parse_json(text, length, &root);
	if (rc)
		return rc;
	rc = load_object(whole, "", root);
	json_decref(root);
	return rc;
}

int otte_config_load_json(struct otte_config *config, const char *text, size_t length)
{
	struct otte_config whole;
	int rc = otte_config_copy_in(&whole, config);

	if (rc)
		return rc;
	if (!text)
		return otte_fail(-EINVAL, "config: no JSON text");
	rc = overlay_json(&whole, text, length);
	if (rc)
		return rc;
	sized_copy_out(config, &whole, sizeof(whole));
	return 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int read_file(const char *path, char **text, size_t *length)
{
	char shown[96];
	ssize_t got;
	int fd;

	otte_line_escape(shown, sizeof(shown), path);
	*text = malloc(JSON_MAX + 1);
	if (!*text)
		return otte_fail(-ENOMEM, "%s: no memory to read it", shown);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	got = fd < 0 ? -errno : otte_read_all(fd, *text, JSON_MAX + 1);
	if (fd >= 0)
		close(fd);
	if (got > (ssize_t)JSON_MAX) {
		free(*text);
		return otte_fail(-E2BIG, "%s: longer than %llu bytes, the most for a configuration",
				 shown, JSON_MAX);
	}
	if (got >= 0) {
		*length = (size_t)got;
		return 0;
	}
	free(*text);
	return otte_fail((int)got, "%s: %s", shown, strerror((int)-got));
}

int otte_config_overlay_file(struct otte_config *whole, const char *path)
{
	char *text, shown[96];
	size_t length = 0;
	int rc;

	rc = read_file(path, &text, &length);
	if (rc)
		return rc;
	rc = overlay_json(whole, text, length);
	free(text);
	otte_line_escape(shown, sizeof(shown), path);
	return rc ? otte_fail_within(rc, "%s: ", shown) : 0;
}

int otte_config_load_file(struct otte_config *config, const char *path)
{
	struct otte_config whole;
	int rc = otte_config_copy_in(&whole, config);

	if (rc)
		return rc;
	if (!path)
		return otte_fail(-EINVAL, "config: no path");
	rc = otte_config_overlay_file(&whole, path);
	if (rc)
		return rc;
	sized_copy_out(config, &whole, sizeof(whole));
	return 0;
}
