/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Awaited loans: those of the module's, to a client of its, whose end the ledger will tell: of a grant, or of a table
 * of uses.
 *
 * Of a grant it is the grant's, from otte_source_await_grant() to otte_source_stop_awaiting_grant(); what is told only
 * marks it. A table's outlives the grant with which it was lent, if its borrower has accepted it: it stays until the
 * ledger says that the borrower has it mapped no more, and nobody holds it but engine->awaited, by loan. Under
 * engine->awaited_lock, and the ledger is asked under it.
 */
#ifndef OTTE_ENGINE_SOURCE_AWAITED_H
#define OTTE_ENGINE_SOURCE_AWAITED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct otte_engine;
struct otte_event;
struct otte_source_awaited;
struct source_peer;

/* `over` is set once the loan has ended. NULL: no memory. */
struct otte_source_awaited *otte_source_await_grant(const struct source_peer *peer, uint64_t loan,
						    _Atomic bool *over);
void otte_source_stop_awaiting_grant(struct otte_engine *engine, struct otte_source_awaited *awaited);

/* -EDQUOT: the peer keeps too many tables that it has no grant for any more. */
int otte_source_check_tables(const struct source_peer *peer);
/* A table is on offer to the peer, as `owner` in it. */
int otte_source_await_table(const struct source_peer *peer, uint64_t loan, uint32_t owner);
/* Its grant is over. What the ledger has told the end of it is not asked for. */
void otte_source_take_table_back(const struct source_peer *peer, uint64_t loan);

/* What the ledger told the engine's client. The serving thread calls it. */
void otte_source_told(struct otte_engine *engine, const struct otte_event *event);
/* Nothing is lent by lanes any more: what is still awaited of the ledger is forgotten. */
void otte_source_stop_awaiting(struct otte_engine *engine);

#endif
