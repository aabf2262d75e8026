/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "digest.h"

void digest_begin(struct digest *digest, bool wanted)
{
	digest->wanted = wanted;
	if (wanted)
		crypto_hash_sha256_init(&digest->state);
}

void digest_add(struct digest *digest, const void *data, uint64_t length)
{
	if (digest->wanted)
		crypto_hash_sha256_update(&digest->state, data, length);
}

const char *digest_text(struct digest *digest, char text[DIGEST_TEXT])
{
	unsigned char hash[crypto_hash_sha256_BYTES];

	text[0] = '\0';
	if (!digest->wanted)
		return text;
	crypto_hash_sha256_final(&digest->state, hash);
	return sodium_bin2hex(text, DIGEST_TEXT, hash, sizeof(hash));
}
