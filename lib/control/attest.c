/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Without a key a nonce is SHA-256 over a label of its direction and the two frames, all of fixed size. */
#include "control/attest.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <sodium.h>

#include "base/error.h"
#include "control/le.h"

#define LABEL_BYTES 16

_Static_assert(OTTE_NONCE_BYTES == crypto_hash_sha256_BYTES, "SHA-256");

static const char label_server[LABEL_BYTES] = "otte by server";
static const char label_client[LABEL_BYTES] = "otte by client";

static void nonce_of(bool server, const uint8_t *session_key, const uint8_t hello[OTTE_HELLO_BYTES],
		     const uint8_t welcome[OTTE_WELCOME_BYTES], uint8_t nonce[OTTE_NONCE_BYTES])
{
	const char *label = server ? label_server : label_client;
	crypto_hash_sha256_state state;

	if (session_key) {
		otte_attest_mac(session_key, server, hello, welcome, nonce);
		return;
	}
	crypto_hash_sha256_init(&state);
	crypto_hash_sha256_update(&state, (const uint8_t *)label, LABEL_BYTES);
	crypto_hash_sha256_update(&state, hello, OTTE_HELLO_BYTES);
	crypto_hash_sha256_update(&state, welcome, OTTE_WELCOME_BYTES);
	crypto_hash_sha256_final(&state, nonce);
}

uint64_t otte_attest_offer(const struct otte_attestor *attestor)
{
	uint32_t load;

	if (!attestor->client)
		return 0;
	get_le32(attestor->module, &load);
	return OTTE_CAN_ATTEST | (attestor->lends ? OTTE_CAN_LEND : 0) | (uint64_t)load << OTTE_CAN_LOAD_SHIFT;
}

uint64_t otte_attest_agree(const struct otte_attestor *attestor, uint64_t offered)
{
	uint64_t ours = otte_attest_offer(attestor);

	if (!(ours & offered & OTTE_CAN_ATTEST) ||
	    ours >> OTTE_CAN_LOAD_SHIFT != offered >> OTTE_CAN_LOAD_SHIFT)
		return 0;
	return ours & offered & (OTTE_CAN_ATTEST | OTTE_CAN_LEND);
}

void otte_attest_begin(struct otte_attestation *attestation, const struct otte_attestor *attestor,
		       bool server, const uint8_t *session_key,
		       const uint8_t hello[OTTE_HELLO_BYTES],
		       const uint8_t welcome[OTTE_WELCOME_BYTES])
{
	*attestation = (struct otte_attestation){
		.attestor = attestor,
		/* What a server refuses for is read at the other side, too, where "the peer" is the server. */
		.peer = server ? "who connects" : "the peer",
	};
	nonce_of(server, session_key, hello, welcome, attestation->ours);
	nonce_of(!server, session_key, hello, welcome, attestation->theirs);
}

int otte_attest_await(struct otte_attestation *attestation)
{
	const struct otte_attestor *attestor = attestation->attestor;

	return attestor->await(attestor->arg, attestation->theirs, &attestation->wait);
}

bool otte_attest_claimed(struct otte_attestation *attestation, const struct otte_claim *claim)
{
	if (!attestation->attestor || !claim->client ||
	    memcmp(claim->module, attestation->attestor->module, sizeof(claim->module)) != 0)
		return false;
	attestation->claimed = claim->client;
	return true;
}

int otte_attest_give(const struct otte_attestation *attestation)
{
	const struct otte_attestor *attestor = attestation->attestor;
	int ret = attestor->send(attestor->arg, attestation->claimed, attestation->ours);

	if (ret != -ENOENT)
		return ret;
	return otte_fail(-ECONNRESET,
			 "%s claims to be client %" PRIu64
			 " of this host's module, which has left or never was",
			 attestation->peer, attestation->claimed);
}

int otte_attest_check(struct otte_attestation *attestation)
{
	const struct otte_attestor *attestor = attestation->attestor;
	uint64_t client;

	if (attestor->heard(attestor->arg, attestation->wait, &client, &attestation->user))
		return otte_fail(-EKEYREJECTED,
				 "%s claims to be client %" PRIu64
				 " of this host's module, which did not attest that",
				 attestation->peer, attestation->claimed);
	if (client != attestation->claimed)
		return otte_fail(-EKEYREJECTED,
				 "%s claims to be client %" PRIu64
				 " of this host's module, which says that it is %" PRIu64,
				 attestation->peer, attestation->claimed, client);
	return 0;
}

void otte_attest_end(struct otte_attestation *attestation)
{
	const struct otte_attestor *attestor = attestation->attestor;

	if (attestation->wait)
		attestor->forget(attestor->arg, attestation->wait);
	*attestation = (struct otte_attestation){ 0 };
}
