/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who an engine is: which boot, which process of it, which engine of that process. */
#ifndef OTTE_CONTROL_IDENTITY_H
#define OTTE_CONTROL_IDENTITY_H

#include <stdint.h>

#include "otte/otte.h"

struct otte_identity {
	uint8_t boot_id[16];
	uint8_t incarnation[16]; /* random, drawn once in a process; another in a forked child */
	uint64_t epoch;          /* random, never 0, drawn for each engine */
	uint64_t pid;            /* for people; proves nothing */
	char name[OTTE_NAME_MAX];
};

/* Our own, with a fresh epoch. `name` "" takes the process's comm. -EIO names what is unreadable. */
int otte_identity_init(struct otte_identity *identity, const char *name);

#endif
