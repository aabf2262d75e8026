/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where paths go out: what the monitor tells of our NICs, and what is said of them to all peers.
 *
 * No lock: a worker's thread's; routes.c says what the monitor's leaves to each of them.
 */
#ifndef OTTE_TRANSPORT_RDMA_ROUTES_H
#define OTTE_TRANSPORT_RDMA_ROUTES_H

#include "transport/rdma/protocol.h"

struct otte_rdma;
struct otte_rdma_poller;
struct otte_rdma_worker;

/* The monitor is there, and does not run yet. */
int otte_rdma_routes_watch(struct otte_rdma *rdma);
/* What it has told since the last look. */
void otte_rdma_routes_look(struct otte_rdma_worker *worker);
/* Something of a NIC is gone: where it was the last, a port that was paused may return. */
void otte_rdma_route_drains(struct otte_rdma_poller *poller);
/* The code and text of a NIC whose port is down, or another. */
int otte_rdma_why_changed(struct otte_rdma *rdma, unsigned int nic);
/* PATHS: our NICs as they are now. */
void otte_rdma_fill_paths(struct otte_rdma *rdma, struct otte_rdma_paths *paths);
/* What a peer says of one of its NICs, or NULL. */
const struct otte_rdma_path *otte_rdma_find_path(const struct otte_rdma_paths *paths,
						 unsigned int nic);
/* Said again: the same NICs and PDs, with other addresses and states; else -EPROTO with a text. */
int otte_rdma_paths_follow(const struct otte_rdma_paths *paths,
			   const struct otte_rdma_paths *earlier);

#endif
