/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The loader of the environment, and first of the file that OTTE_CONFIG names. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/line.h"
#include "base/log.h"
#include "base/util.h"
#include "engine/config_value.h"

static int set_variable_number(struct otte_config *config, const struct otte_config_key *key,
			       const char *value)
{
	char shown[40], range[OTTE_CONFIG_RANGE], *end;
	uint64_t number;

	otte_line_escape(shown, sizeof(shown), value);
	if (!*value || strspn(value, "0123456789") != strlen(value))
		return otte_fail(-EINVAL, "%s: '%s' is not an integer, allowed are %s", key->key,
				 shown, otte_config_range_text(range, key));
	errno = 0;
	number = strtoull(value, &end, 10);
	if (errno)
		return otte_config_refuse_number(key, shown);
	return otte_config_set_number(config, key, number, shown);
}

static int set_variable_switch(struct otte_config *config, const struct otte_config_key *key,
			       const char *value)
{
	char shown[40];

	if (!strcmp(value, "true") || !strcmp(value, "1")) {
		otte_config_put_number(config, key, 1);
		return 0;
	}
	if (!strcmp(value, "false") || !strcmp(value, "0")) {
		otte_config_put_number(config, key, 0);
		return 0;
	}
	otte_line_escape(shown, sizeof(shown), value);
	return otte_fail(-EINVAL, "%s: '%s' is none of true, false, 1, 0", key->key, shown);
}

static int set_variable(struct otte_config *config, const struct otte_config_key *key,
			const char *value)
{
	switch (key->type) {
	case OTTE_CONFIG_TEXT:
	case OTTE_CONFIG_OBJECT:
		return otte_config_set_text(config, key, value);
	case OTTE_CONFIG_WORD:
		return otte_config_set_word(config, key, value);
	case OTTE_CONFIG_SWITCH:
		return set_variable_switch(config, key, value);
	default:
		return set_variable_number(config, key, value);
	}
}

static int overlay_variables(struct otte_config *whole)
{
	const struct otte_config_key *key;
	char name[OTTE_CONFIG_KEY_MAX + 8];
	const char *value;
	size_t i;
	int rc;

	for (i = 0; (key = otte_config_key_at(i)); i++) {
		otte_config_variable(key->key, name, sizeof(name));
		value = getenv(name);
		rc = value ? set_variable(whole, key, value) : 0;
		if (rc)
			return otte_fail_within(rc, "%s: ", name);
	}
	return 0;
}

static int is_variable(const char *entry, size_t length)
{
	const struct otte_config_key *key;
	char name[OTTE_CONFIG_KEY_MAX + 8];
	size_t i;

	for (i = 0; (key = otte_config_key_at(i)); i++) {
		otte_config_variable(key->key, name, sizeof(name));
		if (strlen(name) == length && !memcmp(name, entry, length))
			return 1;
	}
	return length == strlen("OTTE_CONFIG") && !memcmp(entry, "OTTE_CONFIG", length);
}

static void warn_unknown_variables(void)
{
	char name[OTTE_CONFIG_KEY_MAX], shown[OTTE_CONFIG_KEY_MAX];
	size_t length;
	char **entry;

	for (entry = environ; entry && *entry; entry++) {
		length = strcspn(*entry, "=");
		if (strncmp(*entry, "OTTE_", 5) || is_variable(*entry, length))
			continue;
		snprintf(name, min_u64(sizeof(name), length + 1), "%s", *entry);
		otte_line_escape(shown, sizeof(shown), name);
		otte_log(OTTE_LOG_WARNING, "config: %s names no key, ignored", shown);
	}
}

int otte_config_load_env(struct otte_config *config)
{
	struct otte_config whole;
	const char *path;
	int rc = otte_config_copy_in(&whole, config);

	if (rc)
		return rc;
	warn_unknown_variables();
	path = getenv("OTTE_CONFIG");
	rc = path ? otte_config_overlay_file(&whole, path) : 0;
	if (rc)
		return otte_fail_within(rc, "OTTE_CONFIG: ");
	rc = overlay_variables(&whole);
	if (rc)
		return rc;
	sized_copy_out(config, &whole, sizeof(whole));
	return 0;
}
