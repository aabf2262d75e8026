/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: the two backings of a region that the module holds. See pages.c, escrow.c.
 */
#ifndef OTTE_BACKING_H
#define OTTE_BACKING_H

#include "otte_priv.h"

struct otte_refusal;
struct otte_region;

int otte_pages_pin(struct otte_region *region, struct otte_refusal *why);
void otte_pages_unpin(struct otte_region *region);
/* 0 if the owner still maps the pinned pages, -ESTALE, -EFAULT. By the owner, no lock held. */
int otte_pages_verify(struct otte_region *region);
bool otte_pages_supported(void);

int otte_escrow_take(struct otte_region *region, int fd);
void otte_escrow_drop(struct otte_region *region);

#endif /* OTTE_BACKING_H */
