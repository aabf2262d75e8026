/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is told of each NIC of ours: its port, its load and its rails. No state. */
#ifndef OTTE_TRANSPORT_RDMA_NIC_ROWS_H
#define OTTE_TRANSPORT_RDMA_NIC_ROWS_H

#include "transport/transport.h"

/* As otte_transport_ops.nics; any thread. */
size_t otte_rdma_nic_rows(struct otte_transport *transport, struct otte_nic_info *rows,
			  size_t capacity);

#endif
