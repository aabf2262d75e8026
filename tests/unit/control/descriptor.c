/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "suites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "control/descriptor.h"

#define BOOT "000102030405060708090a0b0c0d0e0f"
#define INCARNATION "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
#define LINE                                                                                       \
	"otte1 [2001:db8::1]:7000 boot=" BOOT " incarnation=" INCARNATION " epoch=0123456789abcdef"

static struct otte_descriptor sample(void)
{
	struct otte_descriptor descriptor = {
		.endpoint = { .host = "2001:db8::1", .port = 7000 },
		.epoch = 0x0123456789abcdef,
	};
	unsigned i;

	for (i = 0; i < 16; i++) {
		descriptor.boot_id[i] = (uint8_t)i;
		descriptor.incarnation[i] = (uint8_t)(0xf0 + i);
	}
	return descriptor;
}

/* Decodes a copy that ends with its terminator, for the address sanitizer. */
static int decode(const char *text, struct otte_descriptor *descriptor)
{
	char *copy = strdup(text);
	int rc = otte_descriptor_decode(copy, descriptor);

	free(copy);
	return rc;
}

static void assert_refused(const char *text, int code, const char *why)
{
	struct otte_descriptor got, poison;

	memset(&got, 0xa5, sizeof(got));
	memcpy(&poison, &got, sizeof(poison));
	if (decode(text, &got) != code)
		fail_msg("%s: not refused as it should be", text);
	assert_string_equal(otte_error_text(), why);
	assert_memory_equal(&got, &poison, sizeof(poison));
}

static void a_descriptor_is_one_line_that_decodes_to_the_same(void **state)
{
	struct otte_descriptor descriptor = sample(), got;
	char text[OTTE_DESCRIPTOR_MAX], poison[OTTE_DESCRIPTOR_MAX];
	size_t size;

	(void)state;
	memset(poison, 0xa5, sizeof(poison));
	for (size = 0; size < sizeof(LINE); size++) {
		memcpy(text, poison, sizeof(text));
		assert_int_equal(otte_descriptor_encode(&descriptor, text, size), -ENOSPC);
		assert_memory_equal(text, poison, sizeof(text));
	}
	assert_int_equal(otte_descriptor_encode(&descriptor, text, size), 0);
	assert_string_equal(text, LINE);

	memset(&got, 0xa5, sizeof(got));
	assert_int_equal(decode(text, &got), 0);
	assert_string_equal(got.endpoint.host, "2001:db8::1");
	assert_int_equal(got.endpoint.port, 7000);
	assert_memory_equal(got.boot_id, descriptor.boot_id, 16);
	assert_memory_equal(got.incarnation, descriptor.incarnation, 16);
	assert_true(got.epoch == descriptor.epoch);
}

static void the_longest_address_fits(void **state)
{
	struct otte_descriptor descriptor = sample(), got;
	char text[OTTE_DESCRIPTOR_MAX];
	int i;

	(void)state;
	memset(descriptor.endpoint.host, 'a', 249);
	for (i = 49; i < 249; i += 50)
		descriptor.endpoint.host[i] = '.';
	descriptor.endpoint.host[249] = '\0';
	descriptor.endpoint.port = 65535;
	assert_int_equal(otte_descriptor_encode(&descriptor, text, sizeof(text)), 0);
	assert_int_equal(decode(text, &got), 0);
	assert_string_equal(got.endpoint.host, descriptor.endpoint.host);
}

static void another_form_is_named_with_ours(void **state)
{
	(void)state;
	assert_refused("otte2 [2001:db8::1]:7000 anything=else", -EPROTONOSUPPORT,
		       "descriptor of form 2, this library reads 1");
	assert_refused("otte01 x", -EPROTONOSUPPORT, "descriptor of form 01, this library reads 1");
	assert_refused("otte11 x", -EPROTONOSUPPORT, "descriptor of form 11, this library reads 1");
	assert_refused("otte x", -EINVAL, "descriptor: does not start with \"otte1 \"");
	assert_refused("", -EINVAL, "descriptor: does not start with \"otte1 \"");
	assert_refused(" " LINE, -EINVAL, "descriptor: does not start with \"otte1 \"");
}

static void a_broken_descriptor_is_refused_by_its_field(void **state)
{
#define ADDRESS "otte1 h:1"
#define TO_BOOT ADDRESS " boot=" BOOT
#define TO_INCARNATION TO_BOOT " incarnation=" INCARNATION
	(void)state;
	assert_refused("otte1 ", -EINVAL, "descriptor: address: \"\": no host");
	assert_refused("otte1 h boot=", -EINVAL, "descriptor: address: \"h\": no port");
	assert_refused("otte1  h:1", -EINVAL, "descriptor: address: \"\": no host");
	assert_refused(ADDRESS, -EINVAL, "descriptor: no \" boot=\" where it belongs");
	assert_refused(ADDRESS " incarnation=", -EINVAL,
		       "descriptor: no \" boot=\" where it belongs");
	assert_refused(ADDRESS "  boot=" BOOT, -EINVAL,
		       "descriptor: no \" boot=\" where it belongs");
	assert_refused(ADDRESS " bood=" BOOT, -EINVAL,
		       "descriptor: no \" boot=\" where it belongs");
	assert_refused(ADDRESS " boot", -EINVAL, "descriptor: no \" boot=\" where it belongs");
	assert_refused(ADDRESS " boot=", -EINVAL,
		       "descriptor: boot is not 32 lower-case hexadecimal digits");
	assert_refused(ADDRESS " boot=000102030405060708090a0b0c0d0e0F", -EINVAL,
		       "descriptor: boot is not 32 lower-case hexadecimal digits");
	assert_refused(ADDRESS " boot=000102030405060708090a0b0c0d0e0", -EINVAL,
		       "descriptor: boot is not 32 lower-case hexadecimal digits");
	assert_refused(TO_BOOT "0 incarnation=" INCARNATION, -EINVAL,
		       "descriptor: no \" incarnation=\" where it belongs");
	assert_refused(TO_BOOT, -EINVAL, "descriptor: no \" incarnation=\" where it belongs");
	assert_refused(TO_BOOT " incarnation=xx", -EINVAL,
		       "descriptor: incarnation is not 32 lower-case hexadecimal digits");
	assert_refused(TO_INCARNATION, -EINVAL, "descriptor: no \" epoch=\" where it belongs");
	assert_refused(TO_INCARNATION " epoch=123", -EINVAL,
		       "descriptor: epoch is not 16 lower-case hexadecimal digits");
	assert_refused(TO_INCARNATION " epoch=0000000000000000", -EINVAL,
		       "descriptor: epoch is 0");
	assert_refused(LINE "\n", -EINVAL, "descriptor: 1 bytes behind the epoch");
	assert_refused(LINE " more", -EINVAL, "descriptor: 5 bytes behind the epoch");
	assert_refused(LINE "0", -EINVAL, "descriptor: 1 bytes behind the epoch");
}

static void no_prefix_of_a_descriptor_is_one(void **state)
{
	char text[sizeof(LINE)] = LINE;
	struct otte_descriptor got;
	size_t length;

	(void)state;
	for (length = strlen(LINE) - 1; length > 0; length--) {
		text[length] = '\0';
		assert_int_equal(decode(text, &got), -EINVAL);
	}
}

static void an_overlong_line_is_refused(void **state)
{
	char text[OTTE_DESCRIPTOR_MAX + 1] = "otte1 ";
	struct otte_descriptor got;

	(void)state;
	memset(text + 6, 'a', OTTE_DESCRIPTOR_MAX - 6);
	assert_int_equal(decode(text, &got), -EINVAL);
	assert_string_equal(otte_error_text(), "descriptor longer than 511 bytes");
	text[OTTE_DESCRIPTOR_MAX - 1] = '\0';
	assert_int_equal(decode(text, &got), -EINVAL);
	assert_string_equal(otte_error_text(),
			    "descriptor: address of 505 bytes, at most 255");
}

static void a_descriptor_is_told_from_an_endpoint(void **state)
{
	(void)state;
	assert_true(otte_descriptor_is(LINE));
	assert_true(otte_descriptor_is("otte2 whatever"));
	assert_false(otte_descriptor_is("otte1:80"));
	assert_false(otte_descriptor_is("otte1"));
	assert_false(otte_descriptor_is("otte.example:80"));
	assert_false(otte_descriptor_is("[::1]:80"));
	assert_false(otte_descriptor_is(""));
}

static void a_descriptor_names_one_engine_of_one_process_of_one_boot(void **state)
{
	struct otte_descriptor descriptor = sample();
	struct otte_identity identity = { .epoch = descriptor.epoch };

	(void)state;
	memcpy(identity.boot_id, descriptor.boot_id, 16);
	memcpy(identity.incarnation, descriptor.incarnation, 16);
	assert_true(otte_descriptor_names(&descriptor, &identity));
	identity.boot_id[15] ^= 1;
	assert_false(otte_descriptor_names(&descriptor, &identity));
	identity.boot_id[15] ^= 1;
	identity.incarnation[15] ^= 1;
	assert_false(otte_descriptor_names(&descriptor, &identity));
	identity.incarnation[15] ^= 1;
	identity.epoch ^= 1ull << 63;
	assert_false(otte_descriptor_names(&descriptor, &identity));
}

int run_descriptor_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_descriptor_is_one_line_that_decodes_to_the_same),
		cmocka_unit_test(the_longest_address_fits),
		cmocka_unit_test(another_form_is_named_with_ours),
		cmocka_unit_test(a_broken_descriptor_is_refused_by_its_field),
		cmocka_unit_test(no_prefix_of_a_descriptor_is_one),
		cmocka_unit_test(an_overlong_line_is_refused),
		cmocka_unit_test(a_descriptor_is_told_from_an_endpoint),
		cmocka_unit_test(a_descriptor_names_one_engine_of_one_process_of_one_boot),
	};

	return cmocka_run_group_tests_name("descriptor", tests, NULL, NULL);
}
