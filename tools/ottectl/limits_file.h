/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits as a file keeps them over an unload of the module:
 *
 *   { "user": { "pinned_bytes": "64G", "clients": 100 }, "module": { "lent_bytes": "max" } }
 *
 * Levels and resources that are not named are left as the module has them.
 */
#ifndef OTTECTL_LIMITS_FILE_H
#define OTTECTL_LIMITS_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <linux/otte.h>

#define LIMITS_FILE "/etc/otte/limits.json"

struct limits {
	bool set[OTTE_LEVEL_COUNT][OTTE_RES_COUNT];
	uint64_t value[OTTE_LEVEL_COUNT][OTTE_RES_COUNT]; /* UINT64_MAX: none */
};

/*
 * EXIT_OK, or an exit code after a complaint that names file and key. No file is no limits, unless it
 * was `named` by somebody.
 */
int limits_load(const char *path, bool named, struct limits *limits);

/*
 * Adds those of `changes` to what the file holds; others who do so at the same time wait. The file is
 * replaced as a whole: a crash leaves the old one or the new one.
 */
int limits_save(const char *path, const struct limits *changes);

/* { level: { resource: number or null } } of those that are set. */
json_t *limits_json(const struct limits *limits);

#endif
