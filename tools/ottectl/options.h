/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Options and arguments that several commands have. */
#ifndef OTTECTL_OPTIONS_H
#define OTTECTL_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/number.h"

/* For getopt_long(): letters of short options are below. */
enum {
	OPT_JSON = 256,
	OPT_CLIENT,
	OPT_RELEASE,
	OPT_OWN, /* a command's own ones from here on */
};

#define JSON_LONG_OPTION                            \
	{                                           \
		"json", no_argument, NULL, OPT_JSON \
	}
#define HELP_LONG_OPTION                       \
	{                                      \
		"help", no_argument, NULL, 'h' \
	}
#define LONG_OPTIONS_END         \
	{                        \
		NULL, 0, NULL, 0 \
	}

#define COMMON_HELP                                  \
	"\nOptions:\n"                               \
	"      --json          the result as JSON\n" \
	"  -h, --help          this text\n"

/* Seconds, with a fraction if need be, as nanoseconds; up to a year. */
bool option_seconds(const char *option, const char *text, uint64_t *ns);

/* An amount of a resource: a number, 64K, 1M, 1G, 1T, or "max" for UINT64_MAX. */
bool option_amount(const char *option, const char *text, uint64_t *amount);

/* The same without a complaint. */
bool parse_amount(const char *text, uint64_t *amount);

/* Complains if words are left over on the command line. */
bool no_more_words(int argc, char **argv);

#endif
