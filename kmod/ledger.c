// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ledger: the mutex under which every state changes, and what must wait until it is dropped.
 *
 * Regions that ended are put on the doomed list under the mutex. otte_ledger_unlock() releases
 * their backings outside of it (unpinning sleeps, fput() may run anything) and then takes the
 * mutex once more to let go of their charges and ids, so that charges always equal what is listed.
 * Callers therefore cannot forget to do it, nor do it too early.
 */
#include <linux/atomic.h>
#include <linux/sched.h>

#include "ledger.h"
#include "region.h"

#define STEPS_HELD	64	/* objects that a walk ends before it lets others have the ledger */

static DEFINE_MUTEX(otte_ledger);
/* Who waits for the ledger holds this or waits for it; see otte_ledger_give_way(). */
static DEFINE_MUTEX(otte_ledger_turn);
/* Regions by doomed_link, each with a reference; under otte_ledger. */
static LIST_HEAD(doomed);
static atomic64_t last_id = ATOMIC64_INIT(0);
static atomic64_t generation = ATOMIC64_INIT(0);
static bool draining;

struct workqueue_struct *otte_wq;

void otte_ledger_lock(void)
{
	might_lock(&otte_ledger);
	if (mutex_trylock(&otte_ledger))
		return;
	mutex_lock(&otte_ledger_turn);
	mutex_lock(&otte_ledger);
	mutex_unlock(&otte_ledger_turn);
}

void otte_ledger_unlock(void)
{
	struct otte_region *region, *next;
	LIST_HEAD(batch);

	while (!list_empty(&doomed)) {
		list_splice_init(&doomed, &batch);
		mutex_unlock(&otte_ledger);
		list_for_each_entry(region, &batch, doomed_link)
			otte_region_release_backing(region);
		mutex_lock(&otte_ledger);
		list_for_each_entry_safe(region, next, &batch, doomed_link) {
			list_del_init(&region->doomed_link);
			otte_region_finish(region);
			otte_region_put(region);
		}
	}
	mutex_unlock(&otte_ledger);
}

/*
 * Dropping a mutex and taking it again at once gives it to nobody: who waits may be spinning, sees
 * the same owner as before and spins on, for as long as its processor has nothing else to do. But
 * who waits has the turn until it has the ledger, and so who waits for the turn comes behind it.
 */
void otte_ledger_give_way(void)
{
	cond_resched();
	mutex_lock(&otte_ledger_turn);
	mutex_unlock(&otte_ledger_turn);
}

void otte_ledger_yield(void)
{
	otte_ledger_unlock();
	otte_ledger_give_way();
	otte_ledger_lock();
}

void otte_ledger_step(unsigned int *steps)
{
	if (!(++*steps % STEPS_HELD))
		otte_ledger_yield();
}

void otte_ledger_assert_held(void)
{
	lockdep_assert_held(&otte_ledger);
}

void otte_ledger_doom(struct otte_region *region)
{
	lockdep_assert_held(&otte_ledger);
	otte_region_get(region);
	list_add_tail(&region->doomed_link, &doomed);
}

void otte_ledger_changed(void)
{
	lockdep_assert_held(&otte_ledger);
	atomic64_inc(&generation);
}

u64 otte_ledger_generation(void)
{
	return atomic64_read(&generation);
}

u64 otte_id_next(void)
{
	return atomic64_inc_return(&last_id);
}

bool otte_ledger_draining(void)
{
	return READ_ONCE(draining);
}

void otte_ledger_set_draining(bool value)
{
	WRITE_ONCE(draining, value);
}

int otte_ledger_init(void)
{
	otte_wq = alloc_workqueue("otte", WQ_UNBOUND, 0);
	return otte_wq ? 0 : -ENOMEM;
}

void otte_ledger_exit(void)
{
	destroy_workqueue(otte_wq);
}
