/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: sums of demand and load. See load.c.
 */
#ifndef OTTE_LOAD_H
#define OTTE_LOAD_H

#include <linux/types.h>

#include "../include/uapi/linux/otte.h"

/**
 * struct otte_load - what one client says, or the sum over several
 * @waiting: bytes that wait, for each priority
 * @nic_bytes: bytes in flight, for each NIC
 */
struct otte_load {
	u64 waiting[OTTE_PRIORITIES];
	u64 nic_bytes[OTTE_NICS_MAX];
};

/* Takes down what @share says now, clamped; of NICs only those in the bitmap @nics. */
void otte_load_read(struct otte_load *load, const struct otte_share_page *share,
		    unsigned long nics);
bool otte_load_idle(const struct otte_load *load);
void otte_load_add(struct otte_load *sum, const struct otte_load *load);
/* Publishes @sum without @own on the page of the client that said @own. */
void otte_load_publish(struct otte_load_page *page, const struct otte_load *sum,
		       const struct otte_load *own, u64 now_ns);

#endif /* OTTE_LOAD_H */
