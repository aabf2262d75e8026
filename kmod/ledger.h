/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: the one mutex, ids, generation, and what is left to be done outside it. See ledger.c.
 */
#ifndef OTTE_LEDGER_H
#define OTTE_LEDGER_H

#include "otte_priv.h"

struct otte_region;
struct workqueue_struct;

extern struct workqueue_struct *otte_wq;

void otte_ledger_lock(void);
/* Also releases the backings of the regions that ended while the lock was held. May sleep long. */
void otte_ledger_unlock(void);
/* Called between two holds of a loop: whoever waits for the ledger gets it first. Not held. */
void otte_ledger_give_way(void);
/* Drops it and gives way: what was found under it may have ended when it returns. */
void otte_ledger_yield(void);
/* After each object of a walk that has no bound: yields every so many @steps, counted from 0. */
void otte_ledger_step(unsigned int *steps);
void otte_ledger_assert_held(void);

/* Grows with every change that a dump would show. Call with the ledger held. */
void otte_ledger_changed(void);
u64 otte_ledger_generation(void);

u64 otte_id_next(void);

/* Queues @region for the release of its backing at unlock. */
void otte_ledger_doom(struct otte_region *region);

/* Administrators stop admission before an unload: new clients, regions, loans get ESHUTDOWN. */
bool otte_ledger_draining(void);
void otte_ledger_set_draining(bool draining);

int otte_ledger_init(void);
void otte_ledger_exit(void);

#endif /* OTTE_LEDGER_H */
