/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "common.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "base/line.h"
#include "../common/stopping.h"
#include "tool.h"

static const char *const log_levels[] = { "error", "warning", "info", "debug" };

static bool parse_log_level(struct common *common, const char *text)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(log_levels); i++)
		if (!strcmp(text, log_levels[i])) {
			common->log_level = (enum otte_log_level)i;
			return true;
		}
	complain(EXIT_USAGE, "--log-level: \"%s\" is not error, warning, info or debug", text);
	return false;
}

static bool has_two_dots(const char *key, const char *end)
{
	const char *dots = strstr(key, "..");

	return dots && dots < end;
}

static bool add_set(struct common *common, const char *text)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text) {
		complain(EXIT_USAGE, "--set: \"%s\" is not KEY=VALUE", text);
		return false;
	}
	if (*text == '.' || equals[-1] == '.' || has_two_dots(text, equals)) {
		complain(EXIT_USAGE, "--set: \"%s\": a part of the key is empty", text);
		return false;
	}
	if (common->set_count == COMMON_SETS_MAX) {
		complain(EXIT_USAGE, "--set: more than %d of them", COMMON_SETS_MAX);
		return false;
	}
	common->sets[common->set_count++] = text;
	return true;
}

bool common_option(struct common *common, int option, const char *argument)
{
	switch (option) {
	case OPT_COMMON_CONFIG:
		return args_file("--config", argument, &common->config_file);
	case OPT_COMMON_SET:
		return add_set(common, argument);
	case OPT_COMMON_KEY_FILE:
		return args_file("--key-file", argument, &common->key_file);
	case OPT_COMMON_LOG_LEVEL:
		return parse_log_level(common, argument);
	case OPT_COMMON_JSON:
		common->json = true;
		return true;
	default:
		return false; /* getopt_long() has said what is wrong */
	}
}

static void print_log(void *arg, enum otte_log_level level, const char *line)
{
	char shown[1024];

	(void)arg;
	otte_line_escape(shown, sizeof(shown), line);
	fprintf(stderr, "otte %s: %s: %s\n", tool_command, log_levels[level], shown);
}

/* "tcp.lanes", 4 -> { "tcp": { "lanes": 4 } }; takes the reference to value. */
static json_t *nest(const char *key, json_t *value)
{
	char copy[128], *dot;

	if (strlen(key) >= sizeof(copy)) {
		json_decref(value);
		return NULL;
	}
	memcpy(copy, key, strlen(key) + 1);
	while ((dot = strrchr(copy, '.'))) {
		value = json_pack("{s:o}", dot + 1, value);
		*dot = '\0';
	}
	return json_pack("{s:o}", copy, value);
}

/* A value is JSON where it can be read as such, else a string: tcp.lanes=4, name=decode-1. */
static int apply_set(struct otte_config *config, const char *set)
{
	const char *equals = strchr(set, '=');
	char *key = strndup(set, (size_t)(equals - set)), *text = NULL;
	json_t *value, *object = NULL;
	int rc = -ENOMEM;

	value = json_loads(equals + 1, JSON_DECODE_ANY, NULL);
	if (!value)
		value = json_string(equals + 1);
	if (key && value)
		object = nest(key, value);
	if (object)
		text = json_dumps(object, 0);
	if (text)
		rc = otte_config_load_json(config, text, strlen(text));
	if (!text)
		complain(EXIT_USAGE, "--set %s: key or value cannot be read", set);
	else if (rc)
		complain(EXIT_USAGE, "--set %s: %s", set, otte_error_text());
	free(text);
	json_decref(object);
	free(key);
	return rc ? EXIT_USAGE : EXIT_OK;
}

static int apply_key_file(struct otte_config *config, const char *path)
{
	if (strlen(path) >= sizeof(config->key_file))
		return complain(EXIT_USAGE, "--key-file: the path is too long");
	memcpy(config->key_file, path, strlen(path) + 1);
	return EXIT_OK;
}

void common_log(const struct common *common)
{
	otte_log_set(print_log, NULL, common->log_level);
}

int common_config(const struct common *common, struct otte_config *config)
{
	size_t i;
	int rc;

	common_log(common);
	rc = otte_config_init(config, sizeof(*config));
	if (!rc)
		rc = otte_config_load_env(config);
	if (rc)
		return complain(EXIT_USAGE, "environment: %s", otte_error_text());
	if (common->config_file && otte_config_load_file(config, common->config_file))
		return complain(EXIT_USAGE, "--config: %s", otte_error_text());
	for (i = 0; i < common->set_count; i++)
		if (apply_set(config, common->sets[i]))
			return EXIT_USAGE;
	return common->key_file ? apply_key_file(config, common->key_file) : EXIT_OK;
}

int common_ends_at_once(const char *who)
{
	if (stopping_begin())
		return complain(EXIT_LOCAL, "signals: %s", strerror(errno));
	stopping_ends_us(who, EXIT_TRANSFER);
	return EXIT_OK;
}

int common_requester(const struct common *common, struct otte_config *config,
		     struct otte_engine **engine)
{
	int rc = common_config(common, config);

	if (rc)
		return rc;
	config->listen_address[0] = '\0';
	rc = otte_engine_create(config, engine);
	return rc ? complain_engine(rc) : EXIT_OK;
}

/* A key file that holds no key is a file that failed, whatever the library calls it. */
int complain_engine(int code)
{
	if (!strncmp(otte_error_text(), "auth.key_file:", strlen("auth.key_file:")))
		return complain(EXIT_LOCAL, "%s", otte_error_text());
	return complain_library(code, "engine");
}

int complain_library(int code, const char *what)
{
	const char *text = otte_error_text();

	return complain(code == -EINVAL ? EXIT_USAGE : EXIT_LOCAL, "%s: %s", what,
			*text ? text : otte_strerror(code));
}
