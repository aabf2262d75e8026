/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every MAC starts with a label of LABEL_BYTES of its own, and all that follows has a fixed size, so
 * that no two uses of a key can ever produce each other's input.
 */
#include "control/auth.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "base/error.h"
#include "base/util.h"
#include "control/le.h"

#define LABEL_BYTES 16
#define KEY_DIGITS (2 * OTTE_SECRET_BYTES)
#define KEY_FILE_MAX 4096 /* two keys and some comment */

_Static_assert(OTTE_MAC_BYTES == crypto_auth_hmacsha256_BYTES, "HMAC-SHA-256");
_Static_assert(OTTE_SECRET_BYTES == crypto_auth_hmacsha256_KEYBYTES, "HMAC-SHA-256");

static const char label_key_id[LABEL_BYTES] = "otte key id";
static const char label_server[LABEL_BYTES] = "otte server";
static const char label_client[LABEL_BYTES] = "otte client";
static const char label_server_can[LABEL_BYTES] = "otte server can";
static const char label_client_can[LABEL_BYTES] = "otte client can";
static const char label_by_server[LABEL_BYTES] = "otte by server";
static const char label_by_client[LABEL_BYTES] = "otte by client";
static const char label_session[LABEL_BYTES] = "otte session";
static const char label_lane[LABEL_BYTES] = "otte lane";
static const char label_lane_lend[LABEL_BYTES] = "otte lane lend";
static const char label_lane_rdma[LABEL_BYTES] = "otte lane rdma";

struct part {
	const void *bytes;
	size_t count;
};

static void mac_of(const uint8_t secret[OTTE_SECRET_BYTES], const char label[LABEL_BYTES],
		   const struct part *parts, size_t count, uint8_t mac[OTTE_MAC_BYTES])
{
	crypto_auth_hmacsha256_state state;
	size_t i;

	crypto_auth_hmacsha256_init(&state, secret, OTTE_SECRET_BYTES);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)label, LABEL_BYTES);
	for (i = 0; i < count; i++)
		crypto_auth_hmacsha256_update(&state, parts[i].bytes, parts[i].count);
	crypto_auth_hmacsha256_final(&state, mac);
	sodium_memzero(&state, sizeof(state));
}

static int start_sodium(void)
{
	if (sodium_init() < 0)
		return otte_fail(-EIO, "libsodium: sodium_init failed");
	return 0;
}

int otte_random(void *out, size_t size)
{
	int rc = start_sodium();

	if (!rc)
		randombytes_buf(out, size);
	return rc;
}

void otte_keys_wipe(struct otte_keys *keys)
{
	sodium_memzero(keys, sizeof(*keys));
}

/* libsodium points at the byte, not at the digit of it that is wrong. */
static size_t bad_column(const char *line, size_t length)
{
	size_t i = 0;

	while (i < length && isxdigit((unsigned char)line[i]))
		i++;
	return i + 1;
}

/* `line` without its newline; `number` counts from 1. */
static int add_key(struct otte_keys *keys, const char *path, unsigned number, const char *line,
		   size_t length)
{
	uint8_t mac[OTTE_MAC_BYTES];
	struct otte_key *key;
	size_t bytes;

	if (keys->count == ARRAY_SIZE(keys->key))
		return otte_fail(-EINVAL, "%s line %u: a third key, at most two", path, number);
	if (length != KEY_DIGITS)
		return otte_fail(-EINVAL, "%s line %u: %zu characters, not %d", path, number, length,
				 KEY_DIGITS);
	key = &keys->key[keys->count];
	if (sodium_hex2bin(key->secret, sizeof(key->secret), line, length, NULL, &bytes, NULL))
		return otte_fail(-EINVAL, "%s line %u: column %zu is not a hexadecimal digit", path,
				 number, bad_column(line, length));
	mac_of(key->secret, label_key_id, NULL, 0, mac);
	memcpy(key->id, mac, sizeof(key->id));
	keys->count++;
	return 0;
}

static int parse_keys(struct otte_keys *keys, const char *path, const char *text, size_t length)
{
	const char *end = text + length, *line, *stop;
	unsigned number = 0;
	int rc;

	for (line = text; line < end; line = stop + 1) {
		stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			stop = end;
		number++;
		if (stop == line || *line == '#')
			continue;
		rc = add_key(keys, path, number, line, (size_t)(stop - line));
		if (rc)
			return rc;
	}
	if (!keys->count)
		return otte_fail(-EINVAL, "%s %s, a line of %d hexadecimal digits is wanted",
				 path, length ? "has no key" : "is empty", KEY_DIGITS);
	return 0;
}

/* A secret that others can read is none; asked of the open file, so that it cannot be swapped. */
static int check_key_file(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return otte_fail(-errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return otte_fail(-EINVAL, "%s: not a regular file", path);
	if (st.st_mode & 077)
		return otte_fail(-EPERM, "%s: mode is 0%o, group and others must have no access", path,
				 st.st_mode & 07777u);
	return 0;
}

/* Reads to the end of the file: stdio would leave copies of the secret in its buffers. */
static ssize_t read_key_file(int fd, const char *path, char *text, size_t size)
{
	size_t used = 0;
	ssize_t got;

	while (used < size) {
		got = read(fd, text + used, size - used);
		if (got == 0)
			return (ssize_t)used;
		if (got > 0)
			used += (size_t)got;
		else if (errno != EINTR)
			return otte_fail(-errno, "%s: %s", path, strerror(errno));
	}
	return otte_fail(-EINVAL, "%s: longer than %d bytes", path, KEY_FILE_MAX);
}

int otte_keys_load(const char *path, struct otte_keys *keys)
{
	char text[KEY_FILE_MAX + 1];
	struct otte_keys fresh = { 0 };
	ssize_t length;
	int fd, rc;

	rc = start_sodium();
	if (rc)
		return rc;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
	if (fd < 0)
		return otte_fail(-errno, "%s: %s", path, strerror(errno));
	rc = check_key_file(fd, path);
	if (!rc) {
		length = read_key_file(fd, path, text, sizeof(text));
		rc = length < 0 ? (int)length : parse_keys(&fresh, path, text, (size_t)length);
	}
	close(fd);
	if (!rc)
		*keys = fresh;
	sodium_memzero(text, sizeof(text));
	otte_keys_wipe(&fresh);
	return rc;
}

const struct otte_key *otte_keys_find(const struct otte_keys *keys,
				      const uint8_t id[OTTE_KEY_ID_BYTES])
{
	unsigned i;

	for (i = 0; i < keys->count; i++)
		if (!memcmp(keys->key[i].id, id, OTTE_KEY_ID_BYTES))
			return &keys->key[i];
	return NULL;
}

void otte_hello_mac(const struct otte_key *key, bool server, const struct otte_can *can,
		    const uint8_t hello[OTTE_HELLO_BYTES],
		    const uint8_t welcome[OTTE_WELCOME_BYTES - OTTE_MAC_BYTES],
		    uint8_t mac[OTTE_MAC_BYTES])
{
	uint8_t words[16];
	const struct part parts[] = {
		{ hello, OTTE_HELLO_BYTES },
		{ welcome, OTTE_WELCOME_BYTES - OTTE_MAC_BYTES },
		{ words, sizeof(words) },
	};

	if (!can->offered && !can->agreed) {
		mac_of(key->secret, server ? label_server : label_client, parts, 2, mac);
		return;
	}
	put_le64(put_le64(words, can->offered), can->agreed);
	mac_of(key->secret, server ? label_server_can : label_client_can, parts, 3, mac);
}

void otte_attest_mac(const uint8_t session_key[OTTE_SECRET_BYTES], bool server,
		     const uint8_t hello[OTTE_HELLO_BYTES],
		     const uint8_t welcome[OTTE_WELCOME_BYTES], uint8_t mac[OTTE_MAC_BYTES])
{
	const struct part parts[] = {
		{ hello, OTTE_HELLO_BYTES },
		{ welcome, OTTE_WELCOME_BYTES },
	};

	mac_of(session_key, server ? label_by_server : label_by_client, parts, ARRAY_SIZE(parts),
	       mac);
}

void otte_session_key(const struct otte_key *key, const uint8_t client_nonce[OTTE_NONCE_BYTES],
		      const uint8_t server_nonce[OTTE_NONCE_BYTES],
		      uint8_t session_key[OTTE_SECRET_BYTES])
{
	const struct part parts[] = {
		{ client_nonce, OTTE_NONCE_BYTES },
		{ server_nonce, OTTE_NONCE_BYTES },
	};

	mac_of(key->secret, label_session, parts, ARRAY_SIZE(parts), session_key);
}

void otte_lane_mac(const uint8_t session_key[OTTE_SECRET_BYTES], enum otte_lane_kind kind,
		   uint64_t session, uint64_t counter, uint8_t mac[OTTE_MAC_BYTES])
{
	static const char *const labels[] = {
		[OTTE_LANE_BYTES] = label_lane,
		[OTTE_LANE_LEND] = label_lane_lend,
		[OTTE_LANE_RDMA] = label_lane_rdma,
	};
	uint8_t numbers[16];
	const struct part part = { numbers, sizeof(numbers) };

	put_le64(put_le64(numbers, session), counter);
	mac_of(session_key, labels[kind], &part, 1, mac);
}

bool otte_mac_equal(const uint8_t a[OTTE_MAC_BYTES], const uint8_t b[OTTE_MAC_BYTES])
{
	return sodium_memcmp(a, b, OTTE_MAC_BYTES) == 0;
}
