/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rails: a NIC of ours and one of a peer's. Which of them a request takes, and what became of what
 * was sent over them; rail.c says whom it trusts. And probes, by which they are tried.
 *
 * A probe:
 *
 *   CONNECTING --a pair has room--> POSTED --its CQE--> gone: the rail is trusted
 *       |                             |
 *       `-----------its pair fails----`--> OVER: a failure of the rail; until its CQE has come
 *
 * Lock: rdma.rails_lock, a leaf, around each call of sched/rails.h, as all workers' peers have one
 * table. All else is the thread's of the peer's worker, but for what is said to be any thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_RAIL_H
#define OTTE_TRANSPORT_RDMA_RAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/rails.h"
#include "transport/rdma/work.h"

struct otte_rdma;
struct otte_rdma_endpoint;
struct otte_rdma_pair;
struct otte_rdma_peer;

/* What is to go somewhere. */
struct otte_rdma_wanted {
	uint64_t nics; /* that may be used: they know its memory */
	uint8_t op;
	const struct otte_rdma_endpoint *but; /* not over this one's rail; or NULL */
};

struct otte_rdma_choice {
	uint64_t nics;                /* over which payload may go */
	uint8_t remote[OTTE_NIC_IDS]; /* of each: where to */
};

enum otte_rdma_probe_state {
	OTTE_RDMA_PROBE_CONNECTING = 0,
	OTTE_RDMA_PROBE_POSTED,
	OTTE_RDMA_PROBE_OVER,
};

struct otte_rdma_probe {
	struct otte_rdma_probe *prev, *next; /* peer->probes; one a rail that is not OVER */
	struct otte_rdma_endpoint *endpoint;
	enum otte_rdma_probe_state state;
	struct otte_rdma_pair *pair;         /* POSTED */
	struct otte_rail_ticket ticket;
	struct otte_rdma_work work;
	bool charged;
};

int otte_rdma_rails_open(struct otte_rdma *rdma);
/* No peer is left. */
void otte_rdma_rails_close(struct otte_rdma *rdma);
/* A line is ready: all of its rails are new. And it is lost. */
void otte_rdma_peer_meet(struct otte_rdma_peer *peer);
void otte_rdma_peer_part(struct otte_rdma_peer *peer);
/* PATHS of either side have changed. What is likely now and was not is trusted. */
void otte_rdma_peer_look_again(struct otte_rdma_peer *peer);
/* A port of ours is another one. And what it says of its rate; any thread. */
void otte_rdma_rails_port_changed(struct otte_rdma *rdma, unsigned int nic);
void otte_rdma_rails_rate(struct otte_rdma *rdma, unsigned int nic, uint64_t bytes_per_s);

/*
 * 0; 1: rails are being tried, and nothing else can be said now. Negative, and the text says why:
 * nothing can go there. Begins probes where they are due.
 */
int otte_rdma_rails_choose(struct otte_rdma_peer *peer, const struct otte_rdma_wanted *wanted,
			   uint64_t now_ns, struct otte_rdma_choice *choice);

/*
 * As sched/rails.h, of one of the peer's. What has passed is trusted from now on, what failed is
 * not.
 */
int otte_rdma_rail_admit(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			 uint64_t now_ns, struct otte_rail_ticket *ticket);
void otte_rdma_rail_cancel(struct otte_rdma_peer *peer, const struct otte_rail_ticket *ticket);
void otte_rdma_rail_succeed(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			    const struct otte_rail_ticket *ticket);
void otte_rdma_rail_fail(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			 const struct otte_rail_ticket *ticket);
/*
 * A pair has failed with this code. `unsaid`: that is its rail's failure, and no ticket has said
 * so.
 */
void otte_rdma_rail_blame(struct otte_rdma_peer *peer, const struct otte_rdma_pair *pair,
			  bool unsaid, int code);
/* Whether what a pair has failed with is its rail's. */
bool otte_rdma_blames_rail(int code);

void otte_rdma_probes_go_on(struct otte_rdma_peer *peer, uint64_t now_ns);
/* Some may still say something. */
bool otte_rdma_probes_are_under_way(const struct otte_rdma_peer *peer);

#endif
