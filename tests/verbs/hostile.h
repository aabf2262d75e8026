/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a requester in this process posts by itself, with keys that it was granted honestly.
 *
 * The library's own post of a payload can be held: its grant is there then, the source's window
 * is bound and the binding has not been sent. Meanwhile anything can be posted on any queue pair
 * of this process.
 */
#ifndef OTTE_TESTS_VERBS_HOSTILE_H
#define OTTE_TESTS_VERBS_HOSTILE_H

#include <stdbool.h>

#include "transport/rdma/qp.h"

/* What sources tell nobody, written by their processes: of the last window that was bound. */
struct disclosure {
	uint32_t parent, own,
		local; /* lkeys: of a region's two MRs, and of the window's own one, 0 without */
};

extern struct disclosure *disclosed;
/* Sources' windows are over chunks of a pool, which has one MR. */
extern bool hostile_pool;

/* Before any source starts. */
void hostile_open(void);

/* A payload as the library was about to post it. */
struct payload {
	struct otte_rdma_qp *qp;
	struct otte_rdma_send send;
};

/*
 * The next payload of any requester is held, until hostile_let_go(). `deaf`: and its requester
 * hears nothing more.
 */
void hostile_hold(bool deaf);
/* Once it is there. */
bool hostile_held(struct payload *payload);
/* Once there is one on another queue pair as well. */
bool hostile_both_held(struct payload *first, struct payload *other);
void hostile_let_go(void);
/* The last that was posted. */
struct payload hostile_last(void);

/* Of its leases no requester renews any from now on, or gives one back; or they do again. */
void hostile_keep_leases(bool keep);

/*
 * Posts it and waits for its completion: its status, or -1 with a line that says why there is
 * none.
 */
int hostile_post(struct otte_rdma_qp *qp, const struct otte_rdma_send *send);

#endif
