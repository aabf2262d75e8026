/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "control/auth.h"

#define KEY_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_B "FFfe02030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

#define UNSIGNED_WELCOME_BYTES (OTTE_WELCOME_BYTES - OTTE_MAC_BYTES)

/*
 * The expectations below were computed by openssl, with the label padded by zeros to 16 bytes:
 *   { printf 'otte server\0\0\0\0\0'; head -c 160 /dev/zero | tr '\0' '\21'
 *     head -c 168 /dev/zero | tr '\0' '\42'; } | openssl dgst -sha256 -mac HMAC -macopt hexkey:KEY_A
 */
static const uint8_t expected_key_id[OTTE_KEY_ID_BYTES] = {
	0x95, 0x51, 0xaa, 0x51, 0xdc, 0x91, 0x61, 0x57,
};

static const char expected_server[] =
	"0df06fb33517254d8591c67c837e5e4652577456390fc70bcac314ee0d67dad5";
static const char expected_client[] =
	"4383d3e872c9cde66f4291aaad21f3391f1b24eaf046d38dd735029a84e6e1ee";
static const char expected_session[] =
	"bb95fb44f1dc478e72d112ef6ad0d8f415428ebc24e794408e369d42bec93f25";
static const char expected_lane[] =
	"7e00a3db5f50382259e3beeb77f6c0ca5cf828bed509dcf3728f9df146726403";

static void assert_hex(const uint8_t *bytes, const char *expected)
{
	char hex[2 * OTTE_MAC_BYTES + 1];
	size_t i;

	for (i = 0; i < OTTE_MAC_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	assert_string_equal(hex, expected);
}

/* A key file of its own for each test, with its text and mode. */
static char key_path[64];

static void write_keys(const char *text, size_t length, mode_t mode)
{
	int fd;

	if (*key_path)
		unlink(key_path);
	strcpy(key_path, "/tmp/otte-test-key-XXXXXX");
	fd = mkstemp(key_path);
	assert_return_code(fd, errno);
	assert_int_equal(write(fd, text, length), length);
	assert_return_code(fchmod(fd, mode), errno);
	close(fd);
}

static int remove_keys(void **state)
{
	(void)state;
	if (*key_path)
		unlink(key_path);
	*key_path = '\0';
	return 0;
}

static int load(const char *text, struct otte_keys *keys)
{
	write_keys(text, strlen(text), 0600);
	return otte_keys_load(key_path, keys);
}

static void assert_refused(const char *text, const char *why)
{
	struct otte_keys keys, poison;
	char expected[256];

	memset(&keys, 0xa5, sizeof(keys));
	memcpy(&poison, &keys, sizeof(keys));
	assert_int_equal(load(text, &keys), -EINVAL);
	snprintf(expected, sizeof(expected), "%s %s", key_path, why);
	assert_string_equal(otte_error_text(), expected);
	assert_memory_equal(&keys, &poison, sizeof(keys));
}

static struct otte_key key_a(void)
{
	struct otte_keys keys;

	assert_int_equal(load(KEY_A "\n", &keys), 0);
	return keys.key[0];
}

static const struct otte_can can_nothing;

static void macs_are_those_of_another_implementation(void **state)
{
	uint8_t hello[OTTE_HELLO_BYTES], welcome[UNSIGNED_WELCOME_BYTES];
	uint8_t client[OTTE_NONCE_BYTES], server[OTTE_NONCE_BYTES], mac[OTTE_MAC_BYTES];
	struct otte_key key = key_a();

	(void)state;
	memset(hello, 0x11, sizeof(hello));
	memset(welcome, 0x22, sizeof(welcome));
	memset(client, 0x33, sizeof(client));
	memset(server, 0x44, sizeof(server));

	assert_memory_equal(key.id, expected_key_id, sizeof(key.id));
	otte_hello_mac(&key, true, &can_nothing, hello, welcome, mac);
	assert_hex(mac, expected_server);
	otte_hello_mac(&key, false, &can_nothing, hello, welcome, mac);
	assert_hex(mac, expected_client);
	otte_session_key(&key, client, server, mac);
	assert_hex(mac, expected_session);
	otte_lane_mac(key.secret, OTTE_LANE_BYTES, 0x0102030405060708, 2, mac);
	assert_hex(mac, expected_lane);
}

static void a_servers_mac_sent_back_proves_nothing(void **state)
{
	uint8_t hello[OTTE_HELLO_BYTES] = { 1 }, welcome[UNSIGNED_WELCOME_BYTES] = { 2 };
	uint8_t server[OTTE_MAC_BYTES], client[OTTE_MAC_BYTES];
	struct otte_key key = key_a();

	(void)state;
	otte_hello_mac(&key, true, &can_nothing, hello, welcome, server);
	otte_hello_mac(&key, false, &can_nothing, hello, welcome, client);
	assert_false(otte_mac_equal(server, client));
}

static void a_mac_covers_every_byte_of_both_hellos(void **state)
{
	uint8_t hello[OTTE_HELLO_BYTES] = { 0 }, welcome[UNSIGNED_WELCOME_BYTES] = { 0 };
	uint8_t mac[OTTE_MAC_BYTES], other[OTTE_MAC_BYTES];
	struct otte_key key = key_a();
	size_t i;

	(void)state;
	otte_hello_mac(&key, false, &can_nothing, hello, welcome, mac);
	for (i = 0; i < sizeof(hello) + sizeof(welcome); i++) {
		uint8_t *byte = i < sizeof(hello) ? &hello[i] : &welcome[i - sizeof(hello)];

		*byte ^= 1;
		otte_hello_mac(&key, false, &can_nothing, hello, welcome, other);
		assert_false(otte_mac_equal(mac, other));
		*byte ^= 1;
	}
	otte_hello_mac(&key, false, &can_nothing, hello, welcome, other);
	assert_true(otte_mac_equal(mac, other));
}

static void a_mac_covers_what_both_sides_can(void **state)
{
	const struct otte_can can[] = { { 0, 0 }, { 1, 0 }, { 0, 1 }, { 1, 1 }, { 1ull << 63, 1 } };
	uint8_t hello[OTTE_HELLO_BYTES] = { 1 }, welcome[UNSIGNED_WELCOME_BYTES] = { 2 };
	uint8_t mac[2 * ARRAY_SIZE(can)][OTTE_MAC_BYTES];
	struct otte_key key = key_a();
	size_t i, j;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(mac); i++) {
		otte_hello_mac(&key, i % 2, &can[i / 2], hello, welcome, mac[i]);
		for (j = 0; j < i; j++)
			assert_false(otte_mac_equal(mac[i], mac[j]));
	}
}

static void a_session_key_depends_on_who_drew_which_nonce(void **state)
{
	uint8_t a[OTTE_NONCE_BYTES] = { 1 }, b[OTTE_NONCE_BYTES] = { 2 };
	uint8_t one[OTTE_SECRET_BYTES], other[OTTE_SECRET_BYTES];
	struct otte_key key = key_a();

	(void)state;
	otte_session_key(&key, a, b, one);
	otte_session_key(&key, b, a, other);
	assert_memory_not_equal(one, other, sizeof(one));
}

static void a_lanes_mac_is_for_one_counter_of_one_session(void **state)
{
	uint8_t mac[OTTE_MAC_BYTES], other[OTTE_MAC_BYTES], third[OTTE_MAC_BYTES];
	struct otte_key key = key_a();

	(void)state;
	otte_lane_mac(key.secret, OTTE_LANE_BYTES, 1, 2, mac);
	otte_lane_mac(key.secret, OTTE_LANE_LEND, 1, 2, other);
	assert_memory_not_equal(mac, other, sizeof(mac));
	otte_lane_mac(key.secret, OTTE_LANE_RDMA, 1, 2, third);
	assert_memory_not_equal(mac, third, sizeof(mac));
	assert_memory_not_equal(other, third, sizeof(mac));
	otte_lane_mac(key.secret, OTTE_LANE_BYTES, 1, 3, other);
	assert_false(otte_mac_equal(mac, other));
	otte_lane_mac(key.secret, OTTE_LANE_BYTES, 2, 2, other);
	assert_false(otte_mac_equal(mac, other));
	otte_lane_mac(key.secret, OTTE_LANE_BYTES, 2, 1, other);
	assert_false(otte_mac_equal(mac, other));
}

static void macs_that_differ_in_one_bit_are_different(void **state)
{
	uint8_t a[OTTE_MAC_BYTES] = { 0 }, b[OTTE_MAC_BYTES] = { 0 };
	unsigned bit;

	(void)state;
	assert_true(otte_mac_equal(a, b));
	for (bit = 0; bit < 8 * OTTE_MAC_BYTES; bit++) {
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(otte_mac_equal(a, b));
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static void the_first_key_opens_and_both_are_found(void **state)
{
	struct otte_keys before, during, after;
	const struct otte_key *found;

	(void)state;
	assert_int_equal(load(KEY_A "\n", &before), 0);
	assert_int_equal(load("# new\n" KEY_B "\n\n# old\n" KEY_A, &during), 0);
	assert_int_equal(load(KEY_B "\n", &after), 0);
	assert_int_equal(before.count, 1);
	assert_int_equal(during.count, 2);

	/* Each side's opening key is known to the other in every step of the rotation. */
	assert_non_null(otte_keys_find(&during, before.key[0].id));
	assert_non_null(otte_keys_find(&during, after.key[0].id));
	assert_non_null(otte_keys_find(&after, during.key[0].id));
	assert_null(otte_keys_find(&after, before.key[0].id));

	found = otte_keys_find(&during, before.key[0].id);
	assert_ptr_equal(found, &during.key[1]);
	assert_memory_equal(found->secret, before.key[0].secret, OTTE_SECRET_BYTES);
	assert_int_equal(during.key[0].secret[0], 0xff);
	assert_int_equal(during.key[0].secret[1], 0xfe);
}

static void without_a_key_none_is_found(void **state)
{
	static const uint8_t zeros[OTTE_KEY_ID_BYTES];
	struct otte_keys keys = { 0 };

	(void)state;
	assert_null(otte_keys_find(&keys, zeros));
}

static void wiped_keys_leave_no_secret(void **state)
{
	static const struct otte_keys none;
	struct otte_keys keys;

	(void)state;
	assert_int_equal(load(KEY_A "\n" KEY_B "\n", &keys), 0);
	otte_keys_wipe(&keys);
	assert_memory_equal(&keys, &none, sizeof(keys));
}

static void a_key_that_others_can_read_is_refused(void **state)
{
	static const mode_t modes[] = { 0640, 0604, 0620, 0602, 0610, 0601, 0644, 0777 };
	struct otte_keys keys;
	char expected[256];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		write_keys(KEY_A "\n", sizeof(KEY_A), modes[i]);
		assert_int_equal(otte_keys_load(key_path, &keys), -EPERM);
		snprintf(expected, sizeof(expected),
			 "%s: mode is 0%o, group and others must have no access", key_path,
			 (unsigned)modes[i]);
		assert_string_equal(otte_error_text(), expected);
	}
	write_keys(KEY_A "\n", sizeof(KEY_A), 0400);
	assert_int_equal(otte_keys_load(key_path, &keys), 0);
}

static void a_bad_key_file_is_refused_by_its_line(void **state)
{
	(void)state;
	assert_refused("", "is empty, a line of 64 hexadecimal digits is wanted");
	assert_refused("# none\n\n", "has no key, a line of 64 hexadecimal digits is wanted");
	assert_refused("\n00\n", "line 2: 2 characters, not 64");
	assert_refused(KEY_A "0\n", "line 1: 65 characters, not 64");
	assert_refused(KEY_A "\r\n", "line 1: 65 characters, not 64");
	assert_refused(KEY_A "\n" KEY_B "\n#\n" KEY_A "\n", "line 4: a third key, at most two");
	assert_refused("#\n"
		       "00010203040506070809_a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
		       "line 2: column 21 is not a hexadecimal digit");
	assert_refused("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1g\n",
		       "line 1: column 64 is not a hexadecimal digit");
	assert_refused(" 00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
		       "line 1: column 1 is not a hexadecimal digit");
}

static void a_key_file_is_a_short_regular_file_that_exists(void **state)
{
	char text[4096 + 1], expected[256];
	struct otte_keys keys;

	(void)state;
	memset(text, '#', sizeof(text));
	memcpy(text, KEY_A "\n", sizeof(KEY_A));
	write_keys(text, 4096, 0600);
	assert_int_equal(otte_keys_load(key_path, &keys), 0);
	write_keys(text, 4097, 0600);
	assert_int_equal(otte_keys_load(key_path, &keys), -EINVAL);
	snprintf(expected, sizeof(expected), "%s: longer than 4096 bytes", key_path);
	assert_string_equal(otte_error_text(), expected);

	unlink(key_path);
	assert_int_equal(otte_keys_load(key_path, &keys), -ENOENT);
	snprintf(expected, sizeof(expected), "%s: No such file or directory", key_path);
	assert_string_equal(otte_error_text(), expected);

	assert_return_code(mkfifo(key_path, 0600), errno);
	assert_int_equal(otte_keys_load(key_path, &keys), -EINVAL);
	snprintf(expected, sizeof(expected), "%s: not a regular file", key_path);
	assert_string_equal(otte_error_text(), expected);
}

static void random_bytes_fill_the_whole_buffer(void **state)
{
	uint8_t seen[33] = { 0 }, bytes[33];
	int round;
	size_t i;

	(void)state;
	for (round = 0; round < 64; round++) {
		memset(bytes, 0, sizeof(bytes));
		assert_int_equal(otte_random(bytes, sizeof(bytes) - 1), 0);
		for (i = 0; i < sizeof(bytes); i++)
			seen[i] |= bytes[i];
	}
	for (i = 0; i < sizeof(bytes) - 1; i++)
		assert_int_equal(seen[i], 0xff);
	assert_int_equal(seen[sizeof(bytes) - 1], 0);
}

int run_auth_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(macs_are_those_of_another_implementation),
		cmocka_unit_test(a_servers_mac_sent_back_proves_nothing),
		cmocka_unit_test(a_mac_covers_every_byte_of_both_hellos),
		cmocka_unit_test(a_mac_covers_what_both_sides_can),
		cmocka_unit_test(a_session_key_depends_on_who_drew_which_nonce),
		cmocka_unit_test(a_lanes_mac_is_for_one_counter_of_one_session),
		cmocka_unit_test(macs_that_differ_in_one_bit_are_different),
		cmocka_unit_test(the_first_key_opens_and_both_are_found),
		cmocka_unit_test(without_a_key_none_is_found),
		cmocka_unit_test(wiped_keys_leave_no_secret),
		cmocka_unit_test(a_key_that_others_can_read_is_refused),
		cmocka_unit_test(a_bad_key_file_is_refused_by_its_line),
		cmocka_unit_test(a_key_file_is_a_short_regular_file_that_exists),
		cmocka_unit_test(random_bytes_fill_the_whole_buffer),
	};

	return cmocka_run_group_tests_name("auth", tests, NULL, remove_keys);
}
