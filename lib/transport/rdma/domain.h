/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What this process and the others of its arbitration domain have under way at the same NICs
 * (sched/slots.h). A NIC is known there by its device and port, "mlx5_0:1", which are the same for
 * all processes of a host that see it. Not in a domain of the module's, there are no others; but
 * the slots are there, which payload waits for (posts.h).
 *
 * Joined before there are peers, with the turns of all workers, which sleep then, also those that
 * poll; any thread after that.
 */
#ifndef OTTE_TRANSPORT_RDMA_DOMAIN_H
#define OTTE_TRANSPORT_RDMA_DOMAIN_H

#include "transport/transport.h"

/* As otte_transport_ops.join. */
void otte_rdma_domain_join(struct otte_transport *transport, const struct otte_nic_domain *domain);
/* For otte_devices_params: bytes that others have under way at a NIC of ours; and ours. */
uint64_t otte_rdma_domain_others(void *rdma, unsigned int nic);
void otte_rdma_domain_moves(void *rdma, unsigned int nic, int64_t bytes);

#endif
