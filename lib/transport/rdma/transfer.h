/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A transfer: a slice on its way over a pair.
 *
 *   ASKED --GRANT--> GRANTED --posted--> POSTED --both CQEs and DONE--> OVER --READY--> gone
 *     |                 |
 *     `--REFUSED--------`--its pair closes--> LOST, told once nothing of it is charged
 *
 * Over a cell (cell.h) DONE comes when the source's end of the pair is gone, which may be before the
 * CQEs, and instead of them: the message that it answers came behind all payload. Then our end is
 * closed, and it is OVER when that has flushed what was left; its pair may go before READY comes.
 *
 * Cancelled, it is told at once while its payload is not posted, or when everything of it has
 * completed; a GRANT is given back unused. Without DONE or READY for control.timeout after that the
 * line is lost; so it is without a GRANT for twice as long, as a source lets nobody wait for more
 * than half of it, and hears of its binds within another one.
 *
 * In a domain of slots a GRANTED one waits for the slot of its priority (posts.h), as long as its
 * deadline lets it.
 *
 * No lock: its worker's thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_TRANSFER_H
#define OTTE_TRANSPORT_RDMA_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/rails.h"
#include "transport/rdma/binding.h"
#include "transport/rdma/payload.h"
#include "transport/rdma/posts.h"
#include "transport/rdma/protocol.h"
#include "transport/rdma/work.h"
#include "transport/transport.h"

struct otte_rdma_pair;
struct otte_rdma_peer;
struct otte_rdma_slice;

enum otte_rdma_transfer_state {
	OTTE_RDMA_TRANSFER_ASKED = 0,
	OTTE_RDMA_TRANSFER_GRANTED,
	OTTE_RDMA_TRANSFER_POSTED,
	OTTE_RDMA_TRANSFER_OVER,
	OTTE_RDMA_TRANSFER_LOST,
};

struct otte_rdma_transfer {
	struct otte_rdma_transfer *prev, *next; /* peer->transfers */
	struct otte_rdma_peer *peer;
	struct otte_rdma_pair *pair; /* NULL: OVER, and it is gone */
	struct otte_rdma_slice *slice; /* NULL: it has left */
	struct otte_work *work;      /* of the slice, likewise */
	struct otte_rail_ticket ticket;
	struct otte_rdma_stage stage;
	enum otte_rdma_transfer_state state;
	bool ticketed;               /* the ticket is out */
	bool unused;                 /* the grant is given back without payload */
	bool payload_charged, finish_charged, payload_posted;
	bool done;                   /* DONE was heard */
	bool intact;                 /* as that says: nothing of it was written at the source */
	bool orphan;                 /* the line was lost after DONE: no READY will come */
	uint64_t ask, grant;
	uint64_t bytes;
	uint64_t address;
	uint32_t key;
	uint8_t binding[OTTE_RDMA_BINDING_BYTES];
	struct otte_rdma_work payload, finish;
	struct otte_rdma_posting posting; /* GRANTED: its turn, where there are slots */
	int code;                    /* of the first WR that failed */
	int status;                  /* that DONE has told */
	uint64_t since_ns;           /* ASKED, POSTED (nothing charged), OVER: no answer */
};

/*
 * Ask for a slice over a pair that has room. Not 0: nothing has happened; else ticket and stage are
 * taken.
 */
int otte_rdma_transfer_begin(struct otte_rdma_peer *peer, struct otte_rdma_pair *pair,
			     struct otte_rdma_slice *slice, const struct otte_rail_ticket *ticket,
			     const struct otte_rdma_stage *stage);
int otte_rdma_transfer_granted(struct otte_rdma_peer *peer, const struct otte_rdma_grant *grant);
int otte_rdma_transfer_answered(struct otte_rdma_peer *peer,
				const struct otte_rdma_message *message);
/* Those of a pair that was closed, and why: LOST. `gone`: so is the pair. */
void otte_rdma_transfers_lose(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair,
			      int code);
void otte_rdma_transfers_unpair(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair,
				bool gone);
/* The line is lost, and its pairs are closed: those that no pair ends. */
void otte_rdma_transfers_forget(struct otte_rdma_peer *peer);
/*
 * What could not be posted, what was cancelled, and what the peer should have answered: that ends
 * its line.
 */
void otte_rdma_transfers_go_on(struct otte_rdma_peer *peer, uint64_t now_ns);

#endif
