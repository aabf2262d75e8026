/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: who lends to whom no more. See fence.c.
 */
#ifndef OTTE_FENCE_H
#define OTTE_FENCE_H

#include "otte_priv.h"

struct otte_client;

/* Whether @lender may still lend to @borrower. Ledger held. */
bool otte_fence_blocks(struct otte_client *lender, struct otte_client *borrower);
bool otte_fence_blocks_peer(struct otte_client *lender, const u8 peer[OTTE_PEER_LEN],
			    u64 incarnation);
void otte_fence_free_all(struct otte_client *client);
int otte_fence_ioctl(struct otte_client *client, void *arg);

#endif /* OTTE_FENCE_H */
