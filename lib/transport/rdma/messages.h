/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of a QP's own for binding messages, and its MR: one place for each WR that sends or
 * receives one. Pages that nothing else is in, as a receive may write there until its QP is
 * destroyed.
 *
 *   empty --open--> open --close, after the QP--> empty
 *                        `--the MR is retained--> open, and so are the pages
 *
 * No lock: its queue's.
 */
#ifndef OTTE_TRANSPORT_RDMA_MESSAGES_H
#define OTTE_TRANSPORT_RDMA_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

#include "transport/rdma/mr.h"

struct otte_rdma_messages {
	uint8_t *pages; /* NULL: empty */
	size_t bytes;
	struct otte_rdma_mr mr;
};

/* 0 places: empty. `pd` NULL: the context's. -ENOMEM, or as of otte_rdma_mr_make(). */
int otte_rdma_messages_open(struct otte_rdma_messages *messages, struct otte_rdma_context *context,
			    struct ibv_pd *pd, uint32_t places);
/* -EUCLEAN with a text: retained. */
int otte_rdma_messages_close(struct otte_rdma_messages *messages);

uint8_t *otte_rdma_messages_at(const struct otte_rdma_messages *messages, uint32_t place);
struct ibv_sge otte_rdma_messages_sge(const struct otte_rdma_messages *messages, uint32_t place);

#endif
