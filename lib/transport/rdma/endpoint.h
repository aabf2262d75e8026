/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The queue pairs with a peer over one rail, for one direction. endpoint.c says when one is made.
 *
 * No lock: its worker's thread's.
 */
#ifndef OTTE_TRANSPORT_RDMA_ENDPOINT_H
#define OTTE_TRANSPORT_RDMA_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rdma/pair.h"
#include "transport/rdma/protocol.h"

struct otte_rdma_peer;

struct otte_rdma_endpoint {
	bool cell;               /* each of its pairs is for one transfer, of memory of a GPU */
	struct otte_rdma_endpoint *prev, *next; /* peer->endpoints */
	struct otte_rdma_peer *peer;
	unsigned int nic, remote_nic;
	uint8_t op;
	struct otte_rdma_pair pairs[OTTE_RDMA_WIDTH];
	uint64_t again_ns;       /* none is made before */
	int code;                /* until then: why */
	unsigned int failures;   /* since anything has passed */
};

/* NULL: there is none yet. It stays as long as the peer. No cells. */
struct otte_rdma_endpoint *otte_rdma_endpoint_find(const struct otte_rdma_peer *peer,
						   unsigned int nic, unsigned int remote_nic,
						   uint8_t op);
int otte_rdma_endpoint_get(struct otte_rdma_peer *peer, unsigned int nic, unsigned int remote_nic,
			   uint8_t op, struct otte_rdma_endpoint **out);
int otte_rdma_endpoint_get_cells(struct otte_rdma_peer *peer, unsigned int nic,
				 unsigned int remote_nic, uint8_t op,
				 struct otte_rdma_endpoint **out);
/* 0: *out has room for a transfer. 1: later. Negative: there is none, and none can be made now. */
int otte_rdma_endpoint_pick(struct otte_rdma_endpoint *endpoint, uint64_t now_ns,
			    struct otte_rdma_pair **out);
/* Whether pick() could say nothing but no, and why. */
bool otte_rdma_endpoint_is_blocked(const struct otte_rdma_endpoint *endpoint, uint64_t now_ns,
				   int *code);
/* Of a cell, which its transfer is over with: the source's end is gone, or about to be. */
void otte_rdma_endpoint_end(struct otte_rdma_pair *pair);
/* Something has passed. */
void otte_rdma_endpoint_succeeded(struct otte_rdma_endpoint *endpoint);
int otte_rdma_endpoint_connected(struct otte_rdma_peer *peer,
				 const struct otte_rdma_connected *connected);
int otte_rdma_endpoint_closed(struct otte_rdma_peer *peer, const struct otte_rdma_close *message);
/* All pairs of the peer; those of one NIC of ours, whose port is another one from now on. */
void otte_rdma_endpoints_close(struct otte_rdma_peer *peer, int code);
void otte_rdma_endpoints_fence(struct otte_rdma_peer *peer, unsigned int nic);
/* What could not be made before may be made now. */
void otte_rdma_endpoints_try_again(struct otte_rdma_peer *peer);
/* Pairs that the peer was asked for and does not answer, and those that are stalled. */
void otte_rdma_endpoints_give_up(struct otte_rdma_peer *peer, uint64_t now_ns);
/* No pair will change any more. */
bool otte_rdma_endpoints_are_over(const struct otte_rdma_peer *peer);
/* Some pair could not be destroyed. */
bool otte_rdma_peer_has_retained(const struct otte_rdma_peer *peer);
/* No pair is left. */
void otte_rdma_endpoints_free(struct otte_rdma_peer *peer);

#endif
