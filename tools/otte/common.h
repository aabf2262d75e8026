/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Options that every subcommand with an engine takes, and that engine. Later ones win:
 * environment, --config, --set in their order, --key-file, then the subcommand's own.
 */
#ifndef OTTE_TOOL_COMMON_H
#define OTTE_TOOL_COMMON_H

#include <getopt.h>
#include <stdbool.h>

#include "otte/otte.h"

#define COMMON_SETS_MAX 64

struct common {
	bool json;
	const char *config_file;
	const char *sets[COMMON_SETS_MAX];
	size_t set_count;
	const char *key_file;
	enum otte_log_level log_level;
};

#define COMMON_DEFAULTS                       \
	{                                     \
		.log_level = OTTE_LOG_WARNING \
	}

/* Values of getopt_long; a subcommand's own start at OPT_OWN. */
enum {
	OPT_COMMON_CONFIG = 256,
	OPT_COMMON_SET,
	OPT_COMMON_KEY_FILE,
	OPT_COMMON_LOG_LEVEL,
	OPT_COMMON_JSON,
	OPT_OWN,
};

/* clang-format off */
#define COMMON_LONG_OPTIONS                                              \
	{ "config", required_argument, NULL, OPT_COMMON_CONFIG },        \
	{ "set", required_argument, NULL, OPT_COMMON_SET },              \
	{ "key-file", required_argument, NULL, OPT_COMMON_KEY_FILE },    \
	COMMON_LONG_OPTIONS_OF_ALL

/* Without an engine there is nothing to configure. */
#define COMMON_LONG_OPTIONS_OF_ALL                                       \
	{ "log-level", required_argument, NULL, OPT_COMMON_LOG_LEVEL },  \
	{ "json", no_argument, NULL, OPT_COMMON_JSON },                  \
	{ "help", no_argument, NULL, 'h' },                              \
	{ NULL, 0, NULL, 0 }
/* clang-format on */

#define COMMON_HELP                                                                   \
	"\nCommon options:\n"                                                         \
	"  --config FILE       JSON configuration (otte.json(5))\n"                   \
	"  --set KEY=VALUE     one key of it, such as tcp.lanes=4; may be repeated\n" \
	"  --key-file FILE     pre-shared key; payload is not encrypted\n" COMMON_HELP_OF_ALL

#define COMMON_HELP_OF_ALL                                                \
	"  --log-level LEVEL   error, warning (default), info or debug\n" \
	"  --json              results as JSON\n"                         \
	"  -h, --help          this text\n"

/*
 * Takes an option of getopt_long() that is not the subcommand's own. True if it was a good common
 * one; false after a complaint (getopt_long's or ours).
 */
bool common_option(struct common *common, int option, const char *argument);

/* Sets the log hook, of a subcommand without configuration. */
void common_log(const struct common *common);

/* Sets the log hook and works out the configuration. EXIT_OK or the exit code after a complaint. */
int common_config(const struct common *common, struct otte_config *config);

/*
 * From now on SIGINT, SIGTERM and SIGHUP end the process at once, see stopping_ends_us(). Before the engine.
 * EXIT_OK or the exit code after a complaint.
 */
int common_ends_at_once(const char *who);

/* An engine that listens nowhere. EXIT_OK or the exit code after a complaint. */
int common_requester(const struct common *common, struct otte_config *config,
		     struct otte_engine **engine);

/* Exit code for a failed call of the library on something at this side, after a complaint. */
int complain_library(int code, const char *what);
/* The same for an engine that could not be created. */
int complain_engine(int code);

#endif
