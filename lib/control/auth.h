/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pre-shared keys and the MACs of hellos. HMAC-SHA-256 and the constant-time compare are libsodium's.
 *
 * Both sides prove the key over both hellos: the server in WELCOME, then the client in PROOF, each
 * with a label of its own, so that neither can be reflected. A lane proves a key derived from both
 * nonces. Only who may connect is settled here: payload is neither encrypted nor authenticated.
 */
#ifndef OTTE_CONTROL_AUTH_H
#define OTTE_CONTROL_AUTH_H

#include <stdbool.h>

#include "control/wire.h"

#define OTTE_SECRET_BYTES 32

struct otte_key {
	uint8_t id[OTTE_KEY_ID_BYTES]; /* derived from the secret; public */
	uint8_t secret[OTTE_SECRET_BYTES];
};

/* The first key opens; either is accepted, so that a key can be rotated without an outage. */
struct otte_keys {
	unsigned count; /* 0: no authentication */
	struct otte_key key[2];
};

/*
 * One or two lines of 64 hexadecimal digits; empty lines and lines that start with '#' are skipped.
 * -EPERM when group or others may read the file; -EINVAL names the line.
 */
int otte_keys_load(const char *path, struct otte_keys *keys);
const struct otte_key *otte_keys_find(const struct otte_keys *keys,
				      const uint8_t id[OTTE_KEY_ID_BYTES]);
void otte_keys_wipe(struct otte_keys *keys);

/* Random bytes from libsodium; -EIO if it cannot be initialised. */
int otte_random(void *out, size_t size);

/* The ids of HELLO and WELCOME: OTTE_CAN_*. */
struct otte_can {
	uint64_t offered, agreed;
};

/*
 * MAC of WELCOME (`server` true) or PROOF over the encoded HELLO and the encoded WELCOME without its mac, and over
 * `can` unless it is all zero.
 */
void otte_hello_mac(const struct otte_key *key, bool server, const struct otte_can *can,
		    const uint8_t hello[OTTE_HELLO_BYTES],
		    const uint8_t welcome[OTTE_WELCOME_BYTES - OTTE_MAC_BYTES],
		    uint8_t mac[OTTE_MAC_BYTES]);

void otte_session_key(const struct otte_key *key, const uint8_t client_nonce[OTTE_NONCE_BYTES],
		      const uint8_t server_nonce[OTTE_NONCE_BYTES],
		      uint8_t session_key[OTTE_SECRET_BYTES]);
/* Good for no lane of another kind. */
void otte_lane_mac(const uint8_t session_key[OTTE_SECRET_BYTES], enum otte_lane_kind kind,
		   uint64_t session, uint64_t counter, uint8_t mac[OTTE_MAC_BYTES]);

/* A nonce of attest.h that only who has the session's key can know. `server`: it is the server's. */
void otte_attest_mac(const uint8_t session_key[OTTE_SECRET_BYTES], bool server,
		     const uint8_t hello[OTTE_HELLO_BYTES],
		     const uint8_t welcome[OTTE_WELCOME_BYTES], uint8_t mac[OTTE_MAC_BYTES]);

bool otte_mac_equal(const uint8_t a[OTTE_MAC_BYTES], const uint8_t b[OTTE_MAC_BYTES]);

#endif
