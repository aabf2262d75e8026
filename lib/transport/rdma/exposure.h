/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A range of ours that a peer's NIC may reach: what a grant (grant.h) and a lease (let.h) have in
 * common. Each of them embeds one, and has states of its own.
 *
 * It has a loan in the ledger before anything can reach it, and a window that opens exactly this
 * range, in one direction, to one queue pair, by a key that nobody had before. Where NICs are not
 * to know our memory it is mirrored: the window is over a chunk (mirror.h). Memory of a GPU has no
 * windows: what opens it is the MR of a cell (cell.h), which goes with its queue pair.
 *
 *   begin: its loan --take_window: a key--> bind --its CQE, bound()--> in reach of the peer
 *     before bind: cancel
 *     in reach --the receipt, which has invalidated the key: put_window--> settle
 *              --invalidate, its CQE: put_window, invalidated()----------> settle
 *              --its queue pair is in ERR: free_window; it is gone: unpair, which settles
 *   settle: its loan is over, with evidence; or its window stays, and so it is retained
 *
 * Nothing else says that it is over, least of all time or the peer's word: what is neither stays
 * taken, and is recorded as retained.
 *
 * No lock: its worker's thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_EXPOSURE_H
#define OTTE_TRANSPORT_RDMA_EXPOSURE_H

#include "ledger/ledger.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/source.h"
#include "transport/rdma/window.h"

struct otte_rdma_exposure;

/* What it is the range of. */
struct otte_rdma_exposure_use {
	/* The CQE of its bind; 0, or a code with a text. Not after its pair was closed. */
	void (*bound)(struct otte_rdma_exposure *exposure, int code);
	/* Likewise of its invalidation. NULL: the peer's receipt alone ends it. */
	void (*invalidated)(struct otte_rdma_exposure *exposure, int code);
};

struct otte_rdma_exposure {
	const struct otte_rdma_exposure_use *as;
	struct otte_rdma_source *source;
	struct otte_rdma_source_pair *pair; /* NULL: it stays, and its pair is gone */
	struct otte_rdma_ask ask;
	uint64_t id;
	struct otte_source_use *use;        /* NULL: none, or settled */
	uint8_t *address;                   /* where the range is */
	struct otte_rdma_chunk *chunk;      /* what is reached instead; NULL: it itself */
	struct otte_rdma_window *window;    /* NULL: none, or not ours any more */
	bool window_kept;                   /* it, or its cell, could not be freed */
	bool stays, retained;               /* as far as anybody can say; and is recorded so */
	uint64_t since_ns;                  /* of its owner's state; bind() and init() set it */
	uint64_t recalled_ns;               /* it is wanted back since; 0: it is not */
	struct otte_rdma_work bind, invalidation;
};

static inline const struct otte_source_ops *
otte_rdma_exposure_ops(const struct otte_rdma_exposure *exposure)
{
	return &exposure->source->rdma->env.source;
}

static inline bool otte_rdma_exposure_is_celled(const struct otte_rdma_exposure *exposure)
{
	return exposure->pair->pair.cell;
}

/* What the peer's NIC reaches. */
static inline const uint8_t *otte_rdma_exposure_at(const struct otte_rdma_exposure *exposure)
{
	return exposure->chunk ? exposure->chunk->at : exposure->address;
}

/* Of what is all zero. */
void otte_rdma_exposure_init(struct otte_rdma_exposure *exposure,
			     const struct otte_rdma_exposure_use *as,
			     struct otte_rdma_source_pair *pair, const struct otte_rdma_ask *ask);

/*
 * Its loan. -EOPNOTSUPP: its pair's NIC does not know the region, or not so; OTTE_RDMA_WANTS_CELL:
 * it is a GPU's, and its pair no cell; else as begin_lent().
 */
int otte_rdma_exposure_begin(struct otte_rdma_exposure *exposure);
/*
 * Of a cell, which has its loan: an MR of the range. 0; 1: its producer is not done with it yet;
 * -EUCLEAN with a text: nobody can say whether it ever will be; else as otte_rdma_cell_register().
 */
int otte_rdma_exposure_register(struct otte_rdma_exposure *exposure);
/* What the peer's NIC needs to know for it: of its window, or of its cell. */
uint32_t otte_rdma_exposure_key(const struct otte_rdma_exposure *exposure);
/* As otte_rdma_window_take(); a spare one of the pair goes before a new one. */
int otte_rdma_exposure_take_window(struct otte_rdma_exposure *exposure);
/* Where it is mirrored: its chunk, as otte_rdma_mirror_take(). */
int otte_rdma_exposure_mirror(struct otte_rdma_exposure *exposure);
/* It was never in reach: its window has no parent, its loan ends as NEVER_EXPOSED. */
void otte_rdma_exposure_cancel(struct otte_rdma_exposure *exposure);
/* As otte_rdma_window_bind(): -EAGAIN: there is no room now. Then bound() hears of it. */
int otte_rdma_exposure_bind(struct otte_rdma_exposure *exposure);
/* As otte_rdma_window_invalidate(). Then invalidated() hears of it. */
int otte_rdma_exposure_invalidate(struct otte_rdma_exposure *exposure);
/* Nothing is bound to its window any more. */
void otte_rdma_exposure_put_window(struct otte_rdma_exposure *exposure);
/* Its queue pair is in ERR or gone. */
void otte_rdma_exposure_free_window(struct otte_rdma_exposure *exposure);
/*
 * Before settle(), with its receipt, which says that there was payload or not: 0, or what became of
 * the bytes, with a text; `intact` then: no byte of the range was written.
 */
int otte_rdma_exposure_conclude(struct otte_rdma_exposure *exposure, bool used, bool *intact);
/*
 * The peer cannot reach it any more, as the evidence says. False: it is retained, for its window,
 * or the MR that this had, stays. Of what was mirrored the chunk stays then, and nothing else.
 */
bool otte_rdma_exposure_settle(struct otte_rdma_exposure *exposure, bool complete,
			       enum otte_evidence evidence);
/*
 * Its pair is gone, or stays. True: it is settled. False: it is retained, or its chunk is; where
 * the pair stays it keeps it, as it may still be heard of.
 */
bool otte_rdma_exposure_unpair(struct otte_rdma_exposure *exposure, bool gone);
/* It stays. With the next look again, where it cannot be recorded. */
void otte_rdma_exposure_retain(struct otte_rdma_exposure *exposure);

/* True: it was not wanted back before. */
bool otte_rdma_exposure_want(struct otte_rdma_exposure *exposure);
/* -ETIMEDOUT with a text: `what` was posted at since_ns, and its CQE is late. */
int otte_rdma_exposure_check_posted(const struct otte_rdma_exposure *exposure, const char *what,
				    uint64_t now_ns);
/* Its pair is closed with the error's text, which the log has once a second. */
void otte_rdma_exposure_fail_pair(struct otte_rdma_exposure *exposure, int code);

/* REFUSED is said of what was asked for. */
void otte_rdma_exposure_refuse(struct otte_rdma_source *source, const struct otte_rdma_ask *ask,
			       int code);
/* The pair's spare windows are freed: it is in ERR, or gone. */
void otte_rdma_exposures_drop_spares(struct otte_rdma_source_pair *pair);

#endif
