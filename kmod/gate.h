/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: who is using a loan's memory through the module. Free of VFS. See gate.c.
 */
#ifndef OTTE_GATE_H
#define OTTE_GATE_H

#include <linux/spinlock.h>

#include "otte_priv.h"

/**
 * struct otte_gate - mappings and copies of one loan
 * @lock: protects all of it
 * @open: new ones are let in; copies look at it without the lock
 * @maps: VMAs
 * @copies: copies that move bytes, and descriptors on their way
 */
struct otte_gate {
	spinlock_t lock;	/* all of it */
	bool open;
	unsigned int maps;
	unsigned int copies;
};

void otte_gate_init(struct otte_gate *gate);
void otte_gate_open(struct otte_gate *gate);
/* Shuts the gate only if nobody is inside: -EBUSY otherwise. */
int otte_gate_close_idle(struct otte_gate *gate);
/* Shuts it anyhow. */
void otte_gate_close(struct otte_gate *gate);
int otte_gate_enter_map(struct otte_gate *gate);
/* One more for a mapping that exists (mremap), even when the gate is shut. */
void otte_gate_dup_map(struct otte_gate *gate);
int otte_gate_enter_copy(struct otte_gate *gate);
/* Both return true if the gate is shut and the last one has left. */
bool otte_gate_leave_map(struct otte_gate *gate);
bool otte_gate_leave_copy(struct otte_gate *gate);
bool otte_gate_is_open(struct otte_gate *gate);
bool otte_gate_idle(struct otte_gate *gate);
bool otte_gate_copying(struct otte_gate *gate);

#endif /* OTTE_GATE_H */
