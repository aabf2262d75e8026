/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the files of the config share.
 *
 *   config.c        the table of keys, and the struct: its defaults, versions, and rules between keys
 *   config_value.c  one value
 *   config_json.c   JSON and files
 *   config_env.c    the environment
 */
#ifndef OTTE_ENGINE_CONFIG_VALUE_H
#define OTTE_ENGINE_CONFIG_VALUE_H

#include "engine/config.h"

#define OTTE_CONFIG_KEY_MAX 64 /* bytes of the longest dotted key with its terminator */

/* ---- config.c ---- */

/* The index-th key; NULL past the last. */
const struct otte_config_key *otte_config_key_at(size_t index);
/* NULL: there is none of that name. */
const struct otte_config_key *otte_config_find(const char *name);
/* "tcp" is a group because some key starts with "tcp.". */
int otte_config_is_group(const char *name);
/* A whole copy of the caller's struct; what the caller's does not have is at its default. */
int otte_config_copy_in(struct otte_config *whole, const struct otte_config *config);

/* ---- config_value.c ---- */

#define OTTE_CONFIG_RANGE 56 /* two numbers of 20 digits and the words around them */

static inline bool otte_config_is_text(const struct otte_config_key *key)
{
	return key->type == OTTE_CONFIG_TEXT || key->type == OTTE_CONFIG_OBJECT;
}
/* Of the key's unit to the struct's. */
uint64_t otte_config_scale(const struct otte_config_key *key);
/* In the struct's unit. By memcpy(), as those below: the caller's struct may have any alignment and size. */
uint64_t otte_config_get_number(const struct otte_config *config, const struct otte_config_key *key);
/* Unchecked, in the key's unit. */
void otte_config_put_number(struct otte_config *config, const struct otte_config_key *key,
			    uint64_t value);
void otte_config_put_text(struct otte_config *config, const struct otte_config_key *key,
			  const char *value);
/* `scale`: of the value's unit to the range's. */
bool otte_config_in_range(const struct otte_config_key *key, uint64_t value, uint64_t scale);
int otte_config_check_form(const struct otte_config_key *key, const char *value);
/* "1 to 16", "0 or 65536 to 1073741824" */
const char *otte_config_range_text(char text[OTTE_CONFIG_RANGE], const struct otte_config_key *key);
/* -EINVAL, with a text of what is allowed. */
int otte_config_refuse_number(const struct otte_config_key *key, const char *value);
/* Checked. `shown`: how a message has the number. */
int otte_config_set_number(struct otte_config *config, const struct otte_config_key *key,
			   uint64_t value, const char *shown);
int otte_config_set_text(struct otte_config *config, const struct otte_config_key *key,
			 const char *value);
int otte_config_set_word(struct otte_config *config, const struct otte_config_key *key,
			 const char *value);

/* ---- config_json.c ---- */

/* Overlays a whole private copy, which an error leaves in any state. */
int otte_config_overlay_file(struct otte_config *whole, const char *path);

#endif
