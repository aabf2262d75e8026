/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How fast a port is, by what it reports of itself. No state. */
#ifndef OTTE_TRANSPORT_RDMA_RATE_H
#define OTTE_TRANSPORT_RDMA_RATE_H

#include <stdint.h>

#include "transport/rdma/verbs.h"

/* Bytes per second of a link of `width` and `speed` as InfiniBand encodes them, or 0: not known. */
uint64_t otte_rdma_encoded_rate(uint8_t width, uint32_t speed);

/*
 * Bytes per second of a port whose attributes are at hand: what the library says of the whole of
 * it, links that are aggregated included, else its encodings; 0: not known.
 */
uint64_t otte_rdma_port_rate(const struct otte_verbs *verbs, struct ibv_context *context,
			     uint8_t port, const union otte_verbs_port *attr);

#endif
