/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/source_standing.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/source_peer.h"

struct otte_standing *otte_standing_find(struct source_peer *peer, uint64_t region, uint8_t op)
{
	struct otte_standing *standing = peer->last, key = { .key = { region, op } };

	if (standing && standing->key.region == region && standing->key.right == op)
		return standing;
	HASH_FIND(hh, peer->loans, &key.key, sizeof(key.key), standing);
	peer->last = standing;
	return standing;
}

int otte_standing_expose(struct source_peer *peer, struct otte_region *region, uint8_t op,
			 struct otte_standing **out)
{
	struct otte_engine *engine = peer->engine;
	const struct otte_ledger_ops *ops = engine->ledger->ops;
	struct otte_loan_terms terms;
	struct otte_standing *standing;
	int ret;

	otte_source_peer_terms(peer, region, op, &terms);
	standing = calloc(1, sizeof(*standing));
	if (!standing)
		return otte_fail(-ENOMEM, "no memory for a loan");
	standing->region = region;
	standing->key.region = region->id;
	standing->key.right = op;
	if (engine->transport->ops->serves_by_address)
		terms.flags |= OTTE_LOAN_BY_ADDRESS;
	ret = ops->loan_offer(engine->client, &terms, &standing->loan);
	if (ret == -EDQUOT)
		otte_source_say_quota(engine);
	if (ret)
		goto free_standing;
	HASH_ADD(hh, peer->loans, key, sizeof(standing->key), standing);
	if (!standing->hh.tbl) {
		ret = otte_fail(-ENOMEM, "no memory for a loan");
		goto withdraw;
	}
	ret = ops->loan_expose(engine->client, standing->loan);
	if (ret)
		goto forget;
	*out = standing;
	return 0;

forget:
	HASH_DEL(peer->loans, standing); /* never was the last */
withdraw:
	ops->loan_withdraw(engine->client, standing->loan);
free_standing:
	free(standing);
	return ret;
}

static void settle(struct source_peer *peer, struct otte_standing *standing)
{
	struct otte_engine *engine = peer->engine;
	int ret;

	HASH_DEL(peer->loans, standing);
	peer->last = NULL;
	ret = engine->ledger->ops->loan_settle(engine->client, standing->loan,
					       OTTE_EVIDENCE_REVOKED);
	if (ret)
		otte_log(OTTE_LOG_ERROR, "loan %lu cannot be settled: %s",
			 (unsigned long)standing->loan, otte_error_text());
	free(standing);
}

void otte_standing_settle_region(struct source_peer *peer, uint64_t region)
{
	struct otte_standing *standing;
	unsigned op;

	for (op = OTTE_READ; op <= OTTE_WRITE; op++) {
		standing = otte_standing_find(peer, region, (uint8_t)op);
		if (standing)
			settle(peer, standing);
	}
}

void otte_standing_settle_idle(struct source_peer *peer)
{
	struct otte_standing *standing, *next;

	HASH_ITER(hh, peer->loans, standing, next)
		if (standing->begun == standing->ended)
			settle(peer, standing);
}

void otte_standing_settle_all(struct source_peer *peer)
{
	struct otte_standing *standing, *next;

	HASH_ITER(hh, peer->loans, standing, next)
		settle(peer, standing);
}
