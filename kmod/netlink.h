/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * otte: dumps, and what administrators are told. See netlink.c.
 */
#ifndef OTTE_NETLINK_H
#define OTTE_NETLINK_H

#include "otte_priv.h"

struct otte_refusal;

/* What is multicast to administrators. */
enum otte_notice {
	OTTE_NOTICE_CLIENT_NEW,
	OTTE_NOTICE_CLIENT_GONE,
	OTTE_NOTICE_RETAINED,
	OTTE_NOTICE_RELEASED,
	OTTE_NOTICE_QUOTA,
	OTTE_NOTICE_FENCED,
	OTTE_NOTICE_COUNT,
};

int otte_netlink_init(void);
void otte_netlink_exit(void);
/*
 * Best effort. @id is the client or retained record; @why is set for QUOTA only. Process context;
 * the ledger may be held, so it must not be taken.
 */
void otte_netlink_event(enum otte_notice notice, u64 id, const struct otte_refusal *why);

#endif /* OTTE_NETLINK_H */
