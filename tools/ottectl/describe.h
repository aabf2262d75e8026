/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages as JSON: the one form in which results are held, printed as such or as a table.
 *
 * What JSON cannot carry as a number stands otherwise: tags, identities and incarnations are hexadecimal strings, a
 * limit that is none is null, and so is one above 2^63 - 1, which refuses nothing either.
 */
#ifndef OTTECTL_DESCRIBE_H
#define OTTECTL_DESCRIBE_H

#include <jansson.h>

#include "message.h"

/* Names as sysfs and the command line have them; in the order of their enums. */
extern const char *const resource_names[OTTE_RES_COUNT];
extern const char *const level_names[OTTE_LEVEL_COUNT];

/* Whether a resource is bytes; else it is records. */
bool resource_is_bytes(unsigned resource);

/* "high", "medium", "low": the lowest priority that may send in a slot. */
const char *priority_name(unsigned priority);

/* The message as an object, by its command. NULL without memory. */
json_t *describe(const struct message *message);

/* { resource: number } of one account; for limits null is none. */
json_t *describe_amounts(const uint64_t amounts[OTTE_RES_COUNT], bool limits);

/* A number above what JSON has room for is null. */
json_t *describe_limit(uint64_t limit);

#endif
