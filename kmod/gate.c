// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gate of a loan: who is using its memory through the module right now.
 *
 *	shut, empty	before acceptance and after the end
 *	open		mappings and copies may enter
 *	shut, not empty	revoked, or the borrower is gone: they may only leave
 *
 * A copy is inside while it moves bytes and not while its buffer is faulted in, so it leaves soon.
 *
 * A loan settles through otte_gate_close_idle(), which shuts the gate and proves it empty in one
 * step; or, for a revoked loan, once the gate is shut and no copy is inside: its mappings have been
 * zapped and cannot be filled again. Whoever leaves last through a shut gate tells the ledger.
 */
#include "gate.h"

void otte_gate_init(struct otte_gate *gate)
{
	spin_lock_init(&gate->lock);
	gate->open = false;
	gate->maps = 0;
	gate->copies = 0;
}

void otte_gate_open(struct otte_gate *gate)
{
	spin_lock(&gate->lock);
	WRITE_ONCE(gate->open, true);
	spin_unlock(&gate->lock);
}

int otte_gate_close_idle(struct otte_gate *gate)
{
	int err = -EBUSY;

	spin_lock(&gate->lock);
	if (!gate->maps && !gate->copies) {
		WRITE_ONCE(gate->open, false);
		err = 0;
	}
	spin_unlock(&gate->lock);
	return err;
}

void otte_gate_close(struct otte_gate *gate)
{
	spin_lock(&gate->lock);
	WRITE_ONCE(gate->open, false);
	spin_unlock(&gate->lock);
}

int otte_gate_enter_map(struct otte_gate *gate)
{
	int err = -EACCES;

	spin_lock(&gate->lock);
	if (gate->open && gate->maps < U32_MAX) {
		gate->maps++;
		err = 0;
	}
	spin_unlock(&gate->lock);
	return err;
}

void otte_gate_dup_map(struct otte_gate *gate)
{
	spin_lock(&gate->lock);
	WARN_ON_ONCE(!gate->maps);
	gate->maps++;
	spin_unlock(&gate->lock);
}

int otte_gate_enter_copy(struct otte_gate *gate)
{
	int err = -EACCES;

	spin_lock(&gate->lock);
	if (gate->open && gate->copies < U32_MAX) {
		gate->copies++;
		err = 0;
	}
	spin_unlock(&gate->lock);
	return err;
}

bool otte_gate_leave_map(struct otte_gate *gate)
{
	bool last;

	spin_lock(&gate->lock);
	WARN_ON_ONCE(!gate->maps);
	last = !--gate->maps && !gate->open;
	spin_unlock(&gate->lock);
	return last;
}

bool otte_gate_leave_copy(struct otte_gate *gate)
{
	bool last;

	spin_lock(&gate->lock);
	WARN_ON_ONCE(!gate->copies);
	last = !--gate->copies && !gate->open;
	spin_unlock(&gate->lock);
	return last;
}

bool otte_gate_is_open(struct otte_gate *gate)
{
	return READ_ONCE(gate->open);
}

bool otte_gate_idle(struct otte_gate *gate)
{
	bool idle;

	spin_lock(&gate->lock);
	idle = !gate->maps && !gate->copies;
	spin_unlock(&gate->lock);
	return idle;
}

bool otte_gate_copying(struct otte_gate *gate)
{
	bool copying;

	spin_lock(&gate->lock);
	copying = gate->copies;
	spin_unlock(&gate->lock);
	return copying;
}
