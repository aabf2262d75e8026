/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Prints the library's table of config keys as otte.json(5) has to have them, one a line. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/config.h"

/* "auto", "kernel" or "process" */
static void print_words(const char *const *words)
{
	size_t i;

	for (i = 0; words[i]; i++)
		printf("%s\"%s\"", !i ? "" : words[i + 1] ? ", " : " or ", words[i]);
}

static void print_range(const struct otte_config_key *key, const char *unit)
{
	printf("%s, %s%" PRIu64 " to %" PRIu64 "; default %" PRIu64, unit, key->or_zero ? "0 or " : "",
	       key->min, key->max, key->standard);
}

int main(void)
{
	struct otte_config_key key;
	size_t i;

	for (i = 0; otte_config_describe(i, &key) == 0; i++) {
		printf("*%s* = ", key.key);
		switch (key.type) {
		case OTTE_CONFIG_TEXT:
			printf("string, at most %" PRIu64 " bytes; default \"%s\"", key.max,
			       key.standard_text);
			break;
		case OTTE_CONFIG_OBJECT:
			printf("object, at most %" PRIu64 " bytes; default {}", key.max);
			break;
		case OTTE_CONFIG_WORD:
			print_words(key.words);
			printf("; default \"%s\"", key.words[key.standard]);
			break;
		case OTTE_CONFIG_SWITCH:
			printf("true or false; default %s", key.standard ? "true" : "false");
			break;
		case OTTE_CONFIG_MS:
			print_range(&key, "milliseconds");
			break;
		case OTTE_CONFIG_US:
			print_range(&key, "microseconds");
			break;
		case OTTE_CONFIG_U32:
		case OTTE_CONFIG_U64:
			print_range(&key, "integer");
			break;
		}
		putchar('\n');
	}
	return i == 0;
}
