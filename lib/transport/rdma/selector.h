/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the config says of NICs: which devices are looked for at all, and which of the NICs that
 * were found requests of ours go over, and before which others.
 *
 *   rdma.whitelist, rdma.blacklist   devices; what is not permitted has no id and is never opened
 *   rdma.device_mask                 NICs by their ids, of those that there are; peers may still
 *                                    reach our memory over the others
 *   rdma.priority_matrix, or else    ranks by where memory is, and, of a location with a row, its
 *   rdma.topology_file, or else      NICs alone (topo/priority.h)
 *   what is known of NICs' nodes
 *   rdma.numa_node                   in place of the node of memory of the host
 *   rdma.strict_numa                 no NIC that is known to be of another node
 *
 * Each of these only narrows what others leave. Where nothing is left from the beginning there is
 * no engine; where the rest depends on where memory is, requests fail before anything of them goes.
 */
#ifndef OTTE_TRANSPORT_RDMA_SELECTOR_H
#define OTTE_TRANSPORT_RDMA_SELECTOR_H

#include <stdint.h>

#include "base/name_list.h"
#include "transport/rdma/discovery.h"

struct otte_config;
struct otte_rdma;

struct otte_rdma_permitted {
	struct otte_name_list whitelist, blacklist; /* what `select` points to */
	struct otte_rdma_select select;
};

void otte_rdma_permitted_of(const struct otte_config *config, struct otte_rdma_permitted *permitted);

/*
 * rdma->ranks and rdma->devices, of the NICs in rdma->pollers. -EINVAL, -ENODEV, -ENOMEM, or what
 * reading a file gave, each with a text that begins with a key; what was made is to be closed.
 */
int otte_rdma_selector_open(struct otte_rdma *rdma);
void otte_rdma_selector_close(struct otte_rdma *rdma);

/* Over which requests may go, as far as rdma.device_mask says. */
uint64_t otte_rdma_selector_mask(const struct otte_config *config);

#endif
