/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A borrower that speaks for itself: a lane for loans of a side's session, and what is said over it. */
#ifndef OTTE_TESTS_GUEST_FORGED_H
#define OTTE_TESTS_GUEST_FORGED_H

#include "control/wire.h"
#include "../side.h"

/* The peer of the side's segment may offer it loans from now on; *module is the side's descriptor of the module. */
int forged_lane(const struct side *side, int *module);
void forged_say(int fd, const struct otte_lend *lend);
struct otte_lend forged_ask(int fd, uint64_t region, uint16_t op);
void forged_return(int fd, uint64_t id);

#endif
