/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a requester says at the end of a grant, in the message that invalidates its key: which
 * grant, of whom, to whom, over which bytes. 141 bytes, little-endian. No state.
 *
 * The source has made the same bytes when it granted, and compares all of them but the one that
 * says whether the grant was used, which only the requester knows. So there is one encoding of a
 * binding, and decoding accepts nothing else.
 */
#ifndef OTTE_TRANSPORT_RDMA_BINDING_H
#define OTTE_TRANSPORT_RDMA_BINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "otte/otte.h"

#define OTTE_RDMA_BINDING_BYTES 141
#define OTTE_RDMA_BINDING_MAGIC 0x4254544fu /* "OTTB" as it stands in memory */
#define OTTE_RDMA_BINDING_VERSION 2
/* Which of them is `unused`. It is the requester's to set, and the source expects either. */
#define OTTE_RDMA_BINDING_UNUSED_AT 140

/* One end of it: which engine, and where it is reached. */
struct otte_rdma_party {
	uint8_t boot_id[16];
	uint8_t incarnation[16];
	uint64_t epoch;
	uint32_t qpn;
	uint8_t nic;
};

struct otte_rdma_binding {
	struct otte_rdma_party source, requester;
	uint64_t grant; /* the source's number, never used twice */
	uint8_t nonce[16]; /* the source's, of this grant */
	uint64_t address; /* of the source's memory, as its window has it */
	uint64_t length;
	uint32_t key; /* of the window */
	enum otte_op direction; /* what the requester does */
	bool unused; /* or rather did not: the grant is given back without payload */
};

void otte_rdma_binding_encode(const struct otte_rdma_binding *binding,
			      uint8_t out[OTTE_RDMA_BINDING_BYTES]);

/* -EPROTO with a text that names the field; *binding is as it was then. */
int otte_rdma_binding_decode(const uint8_t bytes[OTTE_RDMA_BINDING_BYTES],
			     struct otte_rdma_binding *binding);

#endif
