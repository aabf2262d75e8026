/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One value of struct otte_config: its place in the struct, its range, and what is said of one that is refused. */
#include "engine/config_value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/line.h"

uint64_t otte_config_scale(const struct otte_config_key *key)
{
	if (key->type == OTTE_CONFIG_MS)
		return NSEC_PER_MSEC;
	return key->type == OTTE_CONFIG_US ? NSEC_PER_USEC : 1;
}

static int is_wide(const struct otte_config_key *key)
{
	return key->type == OTTE_CONFIG_U64 || key->type == OTTE_CONFIG_MS ||
	       key->type == OTTE_CONFIG_US;
}

uint64_t otte_config_get_number(const struct otte_config *config, const struct otte_config_key *key)
{
	const char *place = (const char *)config + key->offset;
	uint64_t wide;
	uint32_t narrow;

	if (is_wide(key)) {
		memcpy(&wide, place, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, place, sizeof(narrow));
	return narrow;
}

void otte_config_put_number(struct otte_config *config, const struct otte_config_key *key,
			    uint64_t value)
{
	char *place = (char *)config + key->offset;
	uint64_t wide = value * otte_config_scale(key);
	uint32_t narrow = (uint32_t)value;

	if (is_wide(key))
		memcpy(place, &wide, sizeof(wide));
	else
		memcpy(place, &narrow, sizeof(narrow));
}

void otte_config_put_text(struct otte_config *config, const struct otte_config_key *key,
			  const char *value)
{
	char *place = (char *)config + key->offset;

	memset(place, 0, key->max + 1);
	memcpy(place, value, strlen(value));
}

const char *otte_config_range_text(char text[OTTE_CONFIG_RANGE], const struct otte_config_key *key)
{
	snprintf(text, OTTE_CONFIG_RANGE, "%s%" PRIu64 " to %" PRIu64, key->or_zero ? "0 or " : "",
		 key->min, key->max);
	return text;
}

int otte_config_refuse_number(const struct otte_config_key *key, const char *value)
{
	char range[OTTE_CONFIG_RANGE];

	return otte_fail(-EINVAL, "%s: %s is out of range, allowed are %s", key->key, value,
			 otte_config_range_text(range, key));
}

static int refuse_word(const struct otte_config_key *key, const char *value)
{
	char list[64] = "", shown[64];
	size_t i, used = 0;

	for (i = 0; key->words[i] && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
					 key->words[i]);
	otte_line_escape(shown, sizeof(shown), value);
	return otte_fail(-EINVAL, "%s: '%s' is none of %s", key->key, shown, list);
}

bool otte_config_in_range(const struct otte_config_key *key, uint64_t value, uint64_t scale)
{
	return (key->or_zero && !value) || (value >= key->min * scale && value <= key->max * scale);
}

int otte_config_set_number(struct otte_config *config, const struct otte_config_key *key,
			   uint64_t value, const char *shown)
{
	if (!otte_config_in_range(key, value, 1))
		return otte_config_refuse_number(key, shown);
	otte_config_put_number(config, key, value);
	return 0;
}

int otte_config_check_form(const struct otte_config_key *key, const char *value)
{
	int rc = key->check ? key->check(value) : 0;

	return rc ? otte_fail_within(rc, "%s: ", key->key) : 0;
}

int otte_config_set_text(struct otte_config *config, const struct otte_config_key *key,
			 const char *value)
{
	size_t length = strlen(value);
	int rc;

	if (length > key->max)
		return otte_fail(-EINVAL, "%s: %zu bytes are too long, allowed are 0 to %" PRIu64,
				 key->key, length, key->max);
	rc = otte_config_check_form(key, value);
	if (rc)
		return rc;
	otte_config_put_text(config, key, value);
	return 0;
}

int otte_config_set_word(struct otte_config *config, const struct otte_config_key *key,
			 const char *value)
{
	size_t i;

	for (i = 0; key->words[i]; i++) {
		if (!strcmp(key->words[i], value)) {
			otte_config_put_number(config, key, i);
			return 0;
		}
	}
	return refuse_word(key, value);
}
