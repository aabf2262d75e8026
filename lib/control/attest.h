/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which client of the host's module is at the other end of a control connection, as the module says it.
 *
 * Both sides say in HELLO and WELCOME that they can, and then CLAIM to be a client of one load of the module. Each
 * sends the other one a nonce through the module, which tells the addressee whose it is. A nonce is a digest of this
 * connection's HELLO and WELCOME, which have random bytes of both sides, and each direction has its own. So none of it
 * is good for another connection, and what was claimed must be what the module says: else the connection is refused
 * (-EKEYREJECTED). That the load is the same says that the host is, whatever addresses, names and namespaces say, boot
 * ids among them. Peers of other loads are let in without an attested client.
 *
 * With a key the digest is a MAC with the session's, and what both sides can is in their proofs of the key: nobody but
 * a holder of the key can be attested. Without one, who carries the bytes can put himself, as the client that he is, in
 * a side's place. In neither case does it protect what moves afterwards from whoever can change packets.
 *
 * Where the module has no room for a nonce, or the server no turn, both sides go on without: each takes the other for
 * client 0. The server says so in READY (-EDQUOT), either side by a claim to be client 0.
 *
 * A side's proof is sent before the frame that has the other look for it, so nobody waits for one.
 */
#ifndef OTTE_CONTROL_ATTEST_H
#define OTTE_CONTROL_ATTEST_H

#include <stdbool.h>

#include "control/auth.h"
#include "control/wire.h"

/* The way to the module, which the engine fills in. Thread-safe. */
struct otte_attestor {
	void *arg;
	uint64_t client; /* ours; 0: there is no module, and nothing below is called */
	uint8_t module[OTTE_MODULE_ID_BYTES];
	bool lends; /* and its loans reach those that are attested: OTTE_CAN_LEND */
	/* From now on a nonce like this is looked out for. `wait` is freed by forget(). */
	int (*await)(void *arg, const uint8_t nonce[OTTE_NONCE_BYTES], void **wait);
	/* Whose it was, and of which user; -EAGAIN: nobody sent one, or several did. */
	int (*heard)(void *arg, void *wait, uint64_t *client, uint32_t *user);
	void (*forget)(void *arg, void *wait);
	/* -ENOENT: the module knows no such client. -EDQUOT: it has no room for that. */
	int (*send)(void *arg, uint64_t client, const uint8_t nonce[OTTE_NONCE_BYTES]);
};

/* One connection's part of it. All zero: nothing is to be attested. Its owner's lock. */
struct otte_attestation {
	const struct otte_attestor *attestor;
	const char *peer;                 /* in what is said of it */
	uint8_t ours[OTTE_NONCE_BYTES];   /* what we send */
	uint8_t theirs[OTTE_NONCE_BYTES]; /* what we look out for */
	uint64_t claimed;                 /* the peer's */
	uint32_t user;                    /* checked: the peer's, as this process's user namespace has it */
	void *wait;
};

/* What HELLO has to say of it; and what WELCOME says to a peer that said that. */
uint64_t otte_attest_offer(const struct otte_attestor *attestor);
uint64_t otte_attest_agree(const struct otte_attestor *attestor, uint64_t offered);
/* `server`: this side is. `session_key`: NULL without a key. */
void otte_attest_begin(struct otte_attestation *attestation, const struct otte_attestor *attestor,
		       bool server, const uint8_t *session_key,
		       const uint8_t hello[OTTE_HELLO_BYTES],
		       const uint8_t welcome[OTTE_WELCOME_BYTES]);
/* From now on the peer's proof is looked out for; to be freed with otte_attest_end(). */
int otte_attest_await(struct otte_attestation *attestation);
/* Takes note of the peer's claim; false: it is no client of our module, and there is nothing to attest. */
bool otte_attest_claimed(struct otte_attestation *attestation, const struct otte_claim *claim);
/* Gives our proof to whom the peer claims to be. -EDQUOT: the module has no room; -ECONNRESET: it has left. */
int otte_attest_give(const struct otte_attestation *attestation);
/* Whether the peer gave its own: 0, -EKEYREJECTED. */
int otte_attest_check(struct otte_attestation *attestation);
void otte_attest_end(struct otte_attestation *attestation);

#endif
