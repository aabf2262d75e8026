/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One memory window of type 2B: the authority of one grant over an exact range in one direction,
 * by a key that nobody had before.
 *
 *   IDLE --take--> FRESH, with a key --bind--> BINDING --its CQE--> BOUND
 *     ^                                                               |  the peer invalidates it
 *     |                                                               |  (receipt), or invalidate:
 *     |                                                               v  INVALIDATING --its CQE
 *     |---put, if its index has keys left--- INVALID <----------------'
 *   PARKED <--put, if not
 *
 *   FRESH  --put--> as INVALID: its key is used up, bound or not
 *   UNKNOWN: a bind or invalidation that failed, or that nobody knows of. Only free() is left then
 *   any    --free, after its QP is in ERR--> gone, or RETAINED: it failed, and is not tried again
 *
 * rxe (6.1, 6.12) compares what a peer asks for with the range of the window's parent, not the
 * window's: on contexts of that driver a window has a parent of its own, of its range and no more,
 * from bind() until it is released, put or freed.
 *
 * Freeing ends the authority of a window as an invalidation does, and what is freed is never
 * granted again (keys.h). Idle and parked windows are the context's, and are freed with it.
 *
 * BOUND is not proven invalid by anything but the three moves above: not by payload, not by time.
 * And who knows that the peer may be invalidating it does not post an invalidation of its own: rxe
 * (6.1) crashes at the second one.
 *
 * No lock: its grant's, held around every call, so that the end of a post is not told before the
 * post. The context's is taken within for its lists and keys, its QP's for posts.
 */
#ifndef OTTE_TRANSPORT_RDMA_WINDOW_H
#define OTTE_TRANSPORT_RDMA_WINDOW_H

#include <stdint.h>

#include "otte/otte.h"
#include "transport/rdma/context.h"
#include "transport/rdma/mr.h"
#include "transport/rdma/qp.h"

enum otte_rdma_window_state {
	OTTE_RDMA_WINDOW_IDLE = 0,
	OTTE_RDMA_WINDOW_PARKED,
	OTTE_RDMA_WINDOW_FRESH,
	OTTE_RDMA_WINDOW_BINDING,
	OTTE_RDMA_WINDOW_BOUND,
	OTTE_RDMA_WINDOW_INVALIDATING,
	OTTE_RDMA_WINDOW_INVALID,
	OTTE_RDMA_WINDOW_UNKNOWN,
	OTTE_RDMA_WINDOW_RETAINED,
};

struct otte_rdma_window {
	struct otte_rdma_context *context;
	struct ibv_mw *native;
	struct otte_rdma_key_index *index;
	uint32_t key;
	enum otte_rdma_window_state state;
	struct otte_rdma_mr own; /* its parent on rxe */
	struct otte_rdma_window *next; /* the context's list */
};

/* What it opens. */
struct otte_rdma_window_range {
	const struct otte_rdma_mr *parent; /* which has it */
	uint64_t address;
	uint64_t bytes;
	enum otte_op direction; /* what the peer does: OTTE_READ or OTTE_WRITE */
};

/*
 * FRESH. -EDQUOT with a text that names rdma.key_indices; -EEXIST with a text: the provider
 * gave a key that was in use before; -ENOMEM; else, with a text, what ibv_alloc_mw failed with.
 * -EUCLEAN: one that is of no use could not be freed either.
 */
int otte_rdma_window_take(struct otte_rdma_context *context, struct otte_rdma_window **window);

/*
 * Posts the bind; work->done() hears of it, and calls bound(). As otte_rdma_qp_post(): where
 * nothing was accepted it is still FRESH; after -EAGAIN it is for the same range again, or to be
 * put.
 */
int otte_rdma_window_bind(struct otte_rdma_window *window, struct otte_rdma_qp *qp,
			  const struct otte_rdma_window_range *range, struct otte_rdma_work *work);
/* BINDING to BOUND, or UNKNOWN. What the outcome says, with a text. */
int otte_rdma_window_bound(struct otte_rdma_window *window,
			   const struct otte_rdma_outcome *outcome);

/* Posts LOCAL_INV; as bind(). Where nothing was accepted it is still BOUND. */
int otte_rdma_window_invalidate(struct otte_rdma_window *window, struct otte_rdma_qp *qp,
				struct otte_rdma_work *work);
/* INVALIDATING to INVALID, or UNKNOWN. */
int otte_rdma_window_invalidated(struct otte_rdma_window *window,
				 const struct otte_rdma_outcome *outcome);
/*
 * The receipt is here, which has invalidated its key: BOUND to INVALID. INVALIDATING stays until
 * its own CQE. -EPROTO with a text: it was not BOUND, and nothing has changed.
 */
int otte_rdma_window_received(struct otte_rdma_window *window);

/*
 * FRESH or INVALID: nothing of it pins memory any more. -EUCLEAN with a text: the parent that it
 * had is retained, and so is it, by the context; the memory is to be kept. -EPROTO with a text: it
 * is neither, and nothing has changed.
 */
int otte_rdma_window_release(struct otte_rdma_window *window);

/* As release(), and then back to the context, idle or parked. Its QP may live on. */
int otte_rdma_window_put(struct otte_rdma_window *window);

/*
 * As put() and then take(), but for that nobody else takes it in between: *out is itself, as long as
 * its index has keys left.
 */
int otte_rdma_window_renew(struct otte_rdma_window *window, struct otte_rdma_window **out);

/*
 * In any state; its QP is in ERR or gone. -EUCLEAN with a text: it is RETAINED, or its parent is.
 */
int otte_rdma_window_free(struct otte_rdma_window *window);

/* For a context of which nothing is retained: all that is idle or parked. As above. */
int otte_rdma_windows_free(struct otte_rdma_context *context);

#endif
