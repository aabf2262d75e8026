/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/binding.h"

#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "control/le.h"

#define PARTY_BYTES (16 + 16 + 8 + 4 + 1)

_Static_assert(4 + 1 + 1 + 2 * PARTY_BYTES + 8 + 16 + 8 + 8 + 4 + 1 == OTTE_RDMA_BINDING_BYTES,
	       "a binding's fields");

/* READ is 0 in otte.h; memory that nobody wrote must not be a direction. */
#define DIRECTION(op) ((uint8_t)((op) + 1))

static uint8_t *put_party(uint8_t *at, const struct otte_rdma_party *party)
{
	at = put_bytes(at, party->boot_id, sizeof(party->boot_id));
	at = put_bytes(at, party->incarnation, sizeof(party->incarnation));
	at = put_le64(at, party->epoch);
	at = put_le32(at, party->qpn);
	return put_u8(at, party->nic);
}

void otte_rdma_binding_encode(const struct otte_rdma_binding *binding,
			      uint8_t out[OTTE_RDMA_BINDING_BYTES])
{
	uint8_t *at = out;

	at = put_le32(at, OTTE_RDMA_BINDING_MAGIC);
	at = put_u8(at, OTTE_RDMA_BINDING_VERSION);
	at = put_u8(at, DIRECTION(binding->direction));
	at = put_party(at, &binding->source);
	at = put_party(at, &binding->requester);
	at = put_le64(at, binding->grant);
	at = put_bytes(at, binding->nonce, sizeof(binding->nonce));
	at = put_le64(at, binding->address);
	at = put_le64(at, binding->length);
	at = put_le32(at, binding->key);
	put_u8(at, binding->unused);
}

static const uint8_t *get_party(const uint8_t *at, struct otte_rdma_party *party)
{
	at = get_bytes(at, party->boot_id, sizeof(party->boot_id));
	at = get_bytes(at, party->incarnation, sizeof(party->incarnation));
	at = get_le64(at, &party->epoch);
	at = get_le32(at, &party->qpn);
	return get_u8(at, &party->nic);
}

int otte_rdma_binding_decode(const uint8_t bytes[OTTE_RDMA_BINDING_BYTES],
			     struct otte_rdma_binding *binding)
{
	struct otte_rdma_binding got = {};
	uint8_t version, direction, unused;
	const uint8_t *at = bytes;
	uint32_t magic;

	at = get_le32(at, &magic);
	at = get_u8(at, &version);
	at = get_u8(at, &direction);
	at = get_party(at, &got.source);
	at = get_party(at, &got.requester);
	at = get_le64(at, &got.grant);
	at = get_bytes(at, got.nonce, sizeof(got.nonce));
	at = get_le64(at, &got.address);
	at = get_le64(at, &got.length);
	at = get_le32(at, &got.key);
	get_u8(at, &unused);
	if (magic != OTTE_RDMA_BINDING_MAGIC)
		return otte_fail(-EPROTO, "binding: magic 0x%08" PRIx32, magic);
	if (version != OTTE_RDMA_BINDING_VERSION)
		return otte_fail(-EPROTO, "binding: version %u, not %u", version,
				 OTTE_RDMA_BINDING_VERSION);
	if (direction != DIRECTION(OTTE_READ) && direction != DIRECTION(OTTE_WRITE))
		return otte_fail(-EPROTO, "binding: direction %u", direction);
	if (unused > 1)
		return otte_fail(-EPROTO, "binding: unused is %u", unused);
	got.unused = unused;
	got.direction = (enum otte_op)(direction - 1);
	*binding = got;
	return 0;
}
