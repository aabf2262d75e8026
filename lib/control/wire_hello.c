/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* HELLO, WELCOME, PROOF, CLAIM and LANE: who is there, and the proofs of it. */
#include "control/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "control/le.h"
#include "control/wire_private.h"

_Static_assert(OTTE_IDENTITY_BYTES == 16 + 16 + 8 + 8 + OTTE_NAME_MAX, "identity layout");
_Static_assert(OTTE_HELLO_BYTES ==
		       OTTE_IDENTITY_BYTES + 4 + 4 + OTTE_KEY_ID_BYTES + OTTE_NONCE_BYTES,
	       "HELLO layout");
_Static_assert(OTTE_WELCOME_BYTES == OTTE_IDENTITY_BYTES + 8 + 4 + 4 + 4 + 4 + OTTE_NONCE_BYTES +
					     OTTE_MAC_BYTES,
	       "WELCOME layout");
_Static_assert(OTTE_PROOF_BYTES == OTTE_MAC_BYTES, "PROOF layout");
_Static_assert(OTTE_CLAIM_BYTES == OTTE_MODULE_ID_BYTES + 8 + 8, "CLAIM layout");
_Static_assert(OTTE_LANE_HELLO_BYTES == 8 + 8 + OTTE_MAC_BYTES, "LANE layout");

static uint8_t *put_identity(uint8_t *at, const struct otte_identity *identity)
{
	at = put_bytes(at, identity->boot_id, sizeof(identity->boot_id));
	at = put_bytes(at, identity->incarnation, sizeof(identity->incarnation));
	at = put_le64(at, identity->epoch);
	at = put_le64(at, identity->pid);
	return otte_wire_put_string(at, identity->name, sizeof(identity->name));
}

/* Copies the bytes; check_identity() says whether they may be used. */
static const uint8_t *get_identity(const uint8_t *at, struct otte_identity *identity)
{
	at = get_bytes(at, identity->boot_id, sizeof(identity->boot_id));
	at = get_bytes(at, identity->incarnation, sizeof(identity->incarnation));
	at = get_le64(at, &identity->epoch);
	at = get_le64(at, &identity->pid);
	return get_bytes(at, (uint8_t *)identity->name, sizeof(identity->name));
}

static int check_identity(const char *what, const struct otte_identity *identity)
{
	int rc = otte_wire_not_zero(what, "epoch", identity->epoch);

	if (rc)
		return rc;
	return otte_wire_string(what, "name", (const uint8_t *)identity->name,
				sizeof(identity->name));
}

static int check_flags(const char *what, uint32_t flags)
{
	if (!(flags & ~OTTE_HELLO_AUTH))
		return 0;
	return otte_fail(-EPROTO, "%s: flags are 0x%" PRIx32 ", known are 0x%x", what, flags,
			 OTTE_HELLO_AUTH);
}

/* Bytes that mean something only where a key is in use, and are zero elsewhere. */
static uint8_t *put_if_auth(uint8_t *at, uint32_t flags, const uint8_t *bytes, size_t count)
{
	if (flags & OTTE_HELLO_AUTH)
		return put_bytes(at, bytes, count);
	memset(at, 0, count);
	return at + count;
}

static int check_if_auth(const char *what, const char *field, uint32_t flags, const uint8_t *bytes,
			 size_t count)
{
	return flags & OTTE_HELLO_AUTH ? 0 : otte_wire_zeros(what, field, bytes, count);
}

ssize_t otte_hello_encode(const struct otte_hello *hello, uint8_t *out, size_t size)
{
	int rc = otte_wire_room("HELLO", size, OTTE_HELLO_BYTES);
	uint8_t *at = out;

	if (rc)
		return rc;
	at = put_identity(at, &hello->identity);
	at = put_le32(at, hello->flags);
	at = put_le32(at, 0);
	at = put_if_auth(at, hello->flags, hello->key_id, sizeof(hello->key_id));
	at = put_bytes(at, hello->nonce, sizeof(hello->nonce));
	return at - out;
}

int otte_hello_decode(const uint8_t *in, size_t length, struct otte_hello *hello)
{
	int rc = otte_wire_length("HELLO", length, OTTE_HELLO_BYTES);
	const uint8_t *at = in;
	struct otte_hello got;
	uint32_t reserved;

	if (rc)
		return rc;
	at = get_identity(at, &got.identity);
	at = get_le32(at, &got.flags);
	at = get_le32(at, &reserved);
	at = get_bytes(at, got.key_id, sizeof(got.key_id));
	get_bytes(at, got.nonce, sizeof(got.nonce));

	rc = check_identity("HELLO", &got.identity);
	if (!rc)
		rc = check_flags("HELLO", got.flags);
	if (!rc)
		rc = otte_wire_zero("HELLO", "reserved", reserved);
	if (!rc)
		rc = check_if_auth("HELLO", "key_id", got.flags, got.key_id, sizeof(got.key_id));
	if (!rc)
		*hello = got;
	return rc;
}

ssize_t otte_welcome_encode(const struct otte_welcome *welcome, uint8_t *out, size_t size)
{
	int rc = otte_wire_room("WELCOME", size, OTTE_WELCOME_BYTES);
	uint8_t *at = out;

	if (rc)
		return rc;
	at = put_identity(at, &welcome->identity);
	at = put_le64(at, welcome->session);
	at = put_le32(at, welcome->flags);
	at = put_le32(at, welcome->max_payload);
	at = put_le32(at, welcome->max_lanes);
	at = put_le32(at, 0);
	at = put_bytes(at, welcome->nonce, sizeof(welcome->nonce));
	at = put_if_auth(at, welcome->flags, welcome->mac, sizeof(welcome->mac));
	return at - out;
}

static int check_welcome(const struct otte_welcome *welcome, uint32_t reserved)
{
	int rc = check_identity("WELCOME", &welcome->identity);

	if (!rc)
		rc = check_flags("WELCOME", welcome->flags);
	if (!rc)
		rc = otte_wire_not_zero("WELCOME", "max_payload", welcome->max_payload);
	if (!rc)
		rc = otte_wire_not_zero("WELCOME", "max_lanes", welcome->max_lanes);
	if (!rc)
		rc = otte_wire_zero("WELCOME", "reserved", reserved);
	if (!rc)
		rc = check_if_auth("WELCOME", "mac", welcome->flags, welcome->mac,
				   sizeof(welcome->mac));
	return rc;
}

int otte_welcome_decode(const uint8_t *in, size_t length, struct otte_welcome *welcome)
{
	int rc = otte_wire_length("WELCOME", length, OTTE_WELCOME_BYTES);
	const uint8_t *at = in;
	struct otte_welcome got;
	uint32_t reserved;

	if (rc)
		return rc;
	at = get_identity(at, &got.identity);
	at = get_le64(at, &got.session);
	at = get_le32(at, &got.flags);
	at = get_le32(at, &got.max_payload);
	at = get_le32(at, &got.max_lanes);
	at = get_le32(at, &reserved);
	at = get_bytes(at, got.nonce, sizeof(got.nonce));
	get_bytes(at, got.mac, sizeof(got.mac));

	rc = check_welcome(&got, reserved);
	if (!rc)
		*welcome = got;
	return rc;
}

ssize_t otte_proof_encode(const struct otte_proof *proof, uint8_t *out, size_t size)
{
	int rc = otte_wire_room("PROOF", size, OTTE_PROOF_BYTES);

	if (rc)
		return rc;
	return put_bytes(out, proof->mac, sizeof(proof->mac)) - out;
}

int otte_proof_decode(const uint8_t *in, size_t length, struct otte_proof *proof)
{
	int rc = otte_wire_length("PROOF", length, OTTE_PROOF_BYTES);

	if (!rc)
		get_bytes(in, proof->mac, sizeof(proof->mac));
	return rc;
}

ssize_t otte_claim_encode(const struct otte_claim *claim, uint8_t *out, size_t size)
{
	int rc = otte_wire_room("CLAIM", size, OTTE_CLAIM_BYTES);
	uint8_t *at = out;

	if (rc)
		return rc;
	at = put_bytes(at, claim->module, sizeof(claim->module));
	at = put_le64(at, claim->client);
	at = put_le64(at, 0);
	return at - out;
}

int otte_claim_decode(const uint8_t *in, size_t length, struct otte_claim *claim)
{
	int rc = otte_wire_length("CLAIM", length, OTTE_CLAIM_BYTES);
	const uint8_t *at = in;
	struct otte_claim got;
	uint64_t reserved;

	if (rc)
		return rc;
	at = get_bytes(at, got.module, sizeof(got.module));
	at = get_le64(at, &got.client);
	get_le64(at, &reserved);

	rc = otte_wire_zero("CLAIM", "reserved", reserved);
	if (!rc)
		*claim = got;
	return rc;
}

ssize_t otte_lane_hello_encode(const struct otte_lane_hello *hello, uint8_t *out, size_t size)
{
	int rc = otte_wire_room("LANE", size, OTTE_LANE_HELLO_BYTES);
	uint8_t *at = out;

	if (rc)
		return rc;
	at = put_le64(at, hello->session);
	at = put_le64(at, hello->counter);
	at = put_bytes(at, hello->mac, sizeof(hello->mac));
	return at - out;
}

int otte_lane_hello_decode(const uint8_t *in, size_t length, struct otte_lane_hello *hello)
{
	int rc = otte_wire_length("LANE", length, OTTE_LANE_HELLO_BYTES);
	const uint8_t *at = in;

	if (rc)
		return rc;
	at = get_le64(at, &hello->session);
	at = get_le64(at, &hello->counter);
	get_bytes(at, hello->mac, sizeof(hello->mac));
	return 0;
}
