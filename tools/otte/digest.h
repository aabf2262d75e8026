/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* SHA-256 of what passes by, through libsodium. */
#ifndef OTTE_TOOL_DIGEST_H
#define OTTE_TOOL_DIGEST_H

#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>

#define DIGEST_TEXT (crypto_hash_sha256_BYTES * 2 + 1)

struct digest {
	bool wanted;
	crypto_hash_sha256_state state;
};

void digest_begin(struct digest *digest, bool wanted);
void digest_add(struct digest *digest, const void *data, uint64_t length);

/* In hexadecimal; "" if not wanted. */
const char *digest_text(struct digest *digest, char text[DIGEST_TEXT]);

#endif
