/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Feeds the config's loaders. The first byte says how the rest comes in: 'E' and a key's number as
 * a variable of the environment, anything else as JSON. Whatever comes: a code that the header
 * names; on error nothing changed and one line of text that says why; on success every value in its
 * range.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/config.h"
#include "otte/otte.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "broken: %s (%s)\n", what, otte_error_text());
	abort();
}

/* The one rule between keys is none of the loaders' business. */
static void require_in_range(const struct otte_config *config)
{
	int rc = otte_config_check(config);

	require(!rc || (rc == -EINVAL && strstr(otte_error_text(), "control.reconnect_min_ms: ")),
		"a loaded value is out of range");
}

static void judge(int rc, const struct otte_config *config, const struct otte_config *before)
{
	if (!rc) {
		require_in_range(config);
		return;
	}
	require(rc == -EINVAL || rc == -E2BIG || rc == -ENOMEM, "an unnamed code");
	require(!memcmp(config, before, sizeof(*config)), "an error changed something");
	require(*otte_error_text() && !strpbrk(otte_error_text(), "\n\r"), "no line of text");
}

static int load_variable(struct otte_config *config, const uint8_t *data, size_t size)
{
	char name[96], *value = malloc(size);
	struct otte_config_key key;
	size_t index = 0;
	int rc;

	while (!otte_config_describe(index, &key))
		index++;
	otte_config_describe(data[0] % index, &key);
	otte_config_variable(key.key, name, sizeof(name));
	require(value != NULL, "memory");
	memcpy(value, data + 1, size - 1);
	value[size - 1] = 0;
	setenv(name, value, 1);
	free(value);
	rc = otte_config_load_env(config);
	unsetenv(name);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct otte_config config, before;
	int rc;

	require(!otte_config_init(&config, sizeof(config)), "init");
	before = config;
	if (size >= 2 && data[0] == 'E')
		rc = load_variable(&config, data + 1, size - 1);
	else
		rc = otte_config_load_json(&config, (const char *)data, size);
	judge(rc, &config, &before);
	return 0;
}
