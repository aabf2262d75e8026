/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Groups: a head and the neighbours merged into it, one work and one place in the window (batch.h). What the files
 * that see one through have for each other: submit.c prepares it, dispatch.c queues and starts it, cancel.c ends it
 * early, finish.c is its end.
 */
#ifndef OTTE_ENGINE_GROUP_H
#define OTTE_ENGINE_GROUP_H

#include "engine/batch.h"

/* Give back the region and the range that submission took. */
void otte_group_release(struct otte_task_record *head);
/* Under peer->lock: who would end the group early finds it no more. */
void otte_group_leave_live(struct otte_peer *peer, struct otte_task_record *head);
/* Its memory was found to be gone. */
void otte_group_count_stale(const struct otte_task_record *head);

/* The end, from now on the batch may be gone. `sent`: it has left its peer's window. */
void otte_group_end(struct otte_task_record *head, int code, uint8_t effect, bool drained, bool sent);
/*
 * The same without sending what it leaves room for. True: there is room for what waits. The caller holds the peer.
 */
bool otte_group_finish(struct otte_task_record *head, int code, uint8_t effect, bool drained,
		       bool sent);
/* The same of one that was never started. */
void otte_group_end_unsent(struct otte_task_record *head, int code);
/* The same by its transport: otte_work.done. */
void otte_group_done(struct otte_work *work);

#endif
