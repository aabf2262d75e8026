/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What each client has registered, lent, borrowed and left behind, summed from the dumps that everybody
 * may ask for; of others' clients an unprivileged reader has nothing.
 */
#ifndef OTTECTL_TALLY_H
#define OTTECTL_TALLY_H

#include <jansson.h>

#include "link.h"

struct tally; /* by client */

/* NULL without memory. */
struct tally *tally_create(void);
void tally_free(struct tally *tally);

/* Adds one message of CLIENTS, REGIONS, LOANS or RETAINED; clients come first. 0 or -ENOMEM. */
int tally_add(struct tally *tally, const struct message *message);

/* Dumps all four. An exit code. */
int tally_dump(struct tally *tally, struct link *link);

/* An array of clients, who lent most first. */
json_t *tally_json(const struct tally *tally);

/* Of the retained records that were to be seen: how many, and the age of the oldest, 0 without one. */
uint64_t tally_records(const struct tally *tally);
uint64_t tally_oldest_ns(const struct tally *tally);

#endif
