/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The config's inner face: what the engine checks at create, and the table of keys that the man
 * page otte.json(5) and `otte --help` are made from.
 */
#ifndef OTTE_ENGINE_CONFIG_H
#define OTTE_ENGINE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otte/otte.h"

enum otte_config_type {
	OTTE_CONFIG_TEXT, /* char[], terminated */
	OTTE_CONFIG_U32,
	OTTE_CONFIG_U64,
	OTTE_CONFIG_MS,     /* uint64_t nanoseconds, milliseconds in JSON and the environment */
	OTTE_CONFIG_US,     /* the same, microseconds */
	OTTE_CONFIG_WORD,   /* uint32_t, one of `words` by its index */
	OTTE_CONFIG_SWITCH, /* uint32_t 0 or 1, true or false in JSON */
	OTTE_CONFIG_OBJECT, /* char[], the text of an object of JSON; "": none */
};

/* One key. Numbers are in the unit of the JSON text; for a text `max` is its longest length. */
struct otte_config_key {
	const char *key;     /* dotted: "tcp.lanes" */
	const char *meaning; /* half a sentence, static storage as all else here */
	enum otte_config_type type;
	bool or_zero;        /* a number: 0 is allowed beside min to max */
	size_t offset; /* in struct otte_config */
	uint64_t min, max;
	uint64_t standard; /* the default, of a number, word or switch */
	const char *standard_text;
	int (*check)(const char *text); /* a text's form, with a text of what is wrong; NULL: any */
	const char *const *words; /* NULL terminated */
};

/* The index-th key in the order of struct otte_config; -ENOENT past the last. */
int otte_config_describe(size_t index, struct otte_config_key *key);

/* The environment variable of a dotted key: "OTTE_TCP_LANES". */
void otte_config_variable(const char *key, char *name, size_t size);

/*
 * Every value in its range, also those that were set without a loader, and the rules between keys.
 * -EINVAL, the text names the key and what is allowed; -E2BIG for a newer struct that says
 * something in its unknown part.
 */
int otte_config_check(const struct otte_config *config);

/*
 * A whole struct of this library's version from one of the caller's size (NULL: all defaults), with
 * defaults for what the caller's does not have, checked as above. *to is unchanged on error.
 */
int otte_config_take(struct otte_config *to, const struct otte_config *from);

#endif
