/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ends.h"

#include <string.h>

#include "base/util.h"

static struct otte_rdma_binding example(void)
{
	struct otte_rdma_binding binding = {
		.source = { .epoch = 0x0102030405060708, .qpn = 0x11121314, .nic = 0x15 },
		.requester = { .epoch = 0x2122232425262728, .qpn = 0x31323334, .nic = 0x35 },
		.grant = 0x4142434445464748,
		.address = 0x5152535455565758,
		.length = 0x6162636465666768,
		.key = 0x71727374,
		.direction = OTTE_WRITE,
		.unused = true,
	};

	memset(binding.source.boot_id, 0xa1, 16);
	memset(binding.source.incarnation, 0xa2, 16);
	memset(binding.requester.boot_id, 0xa3, 16);
	memset(binding.requester.incarnation, 0xa4, 16);
	memset(binding.nonce, 0xa5, 16);
	return binding;
}

static void each_field_has_its_place(void **state)
{
	static const struct {
		unsigned int at, count;
		const char *bytes;
	} places[] = {
		{ 0, 4, "OTTB" },
		{ 4, 1, "\x02" },
		{ 5, 1, "\x02" },
		{ 6, 1, "\xa1" },
		{ 22, 1, "\xa2" },
		{ 38, 8, "\x08\x07\x06\x05\x04\x03\x02\x01" },
		{ 46, 4, "\x14\x13\x12\x11" },
		{ 50, 1, "\x15" },
		{ 51, 1, "\xa3" },
		{ 67, 1, "\xa4" },
		{ 83, 8, "\x28\x27\x26\x25\x24\x23\x22\x21" },
		{ 91, 4, "\x34\x33\x32\x31" },
		{ 95, 1, "\x35" },
		{ 96, 8, "\x48\x47\x46\x45\x44\x43\x42\x41" },
		{ 104, 1, "\xa5" },
		{ 120, 8, "\x58\x57\x56\x55\x54\x53\x52\x51" },
		{ 128, 8, "\x68\x67\x66\x65\x64\x63\x62\x61" },
		{ 136, 4, "\x74\x73\x72\x71" },
		{ OTTE_RDMA_BINDING_UNUSED_AT, 1, "\x01" },
	};
	const struct otte_rdma_binding binding = example();
	uint8_t bytes[OTTE_RDMA_BINDING_BYTES];
	size_t i;

	(void)state;
	otte_rdma_binding_encode(&binding, bytes);
	for (i = 0; i < ARRAY_SIZE(places); i++)
		assert_memory_equal(bytes + places[i].at, places[i].bytes, places[i].count);
}

static void what_is_decoded_encodes_to_the_same_bytes(void **state)
{
	struct otte_rdma_binding binding = example(), decoded;
	uint8_t bytes[OTTE_RDMA_BINDING_BYTES], again[OTTE_RDMA_BINDING_BYTES];
	unsigned int op;

	(void)state;
	for (op = OTTE_READ; op <= OTTE_WRITE; op++) {
		binding.direction = (enum otte_op)op;
		binding.unused = op == OTTE_WRITE;
		otte_rdma_binding_encode(&binding, bytes);
		assert_int_equal(otte_rdma_binding_decode(bytes, &decoded), 0);
		assert_int_equal(decoded.direction, op);
		assert_int_equal(decoded.unused, op == OTTE_WRITE);
		otte_rdma_binding_encode(&decoded, again);
		assert_memory_equal(bytes, again, sizeof(bytes));
	}
}

static void nothing_else_is_decoded(void **state)
{
	static const struct {
		unsigned int at;
		uint8_t byte;
		const char *text;
	} wrong[] = {
		{ 0, 'X', "binding: magic 0x42545458" }, { 4, 1, "binding: version 1, not 2" },
		{ 5, 0, "binding: direction 0" },	 { 5, 3, "binding: direction 3" },
		{ 140, 2, "binding: unused is 2" },
	};
	const struct otte_rdma_binding binding = example();
	uint8_t bytes[OTTE_RDMA_BINDING_BYTES];
	struct otte_rdma_binding decoded;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		memset(&decoded, 0x77, sizeof(decoded));
		otte_rdma_binding_encode(&binding, bytes);
		bytes[wrong[i].at] = wrong[i].byte;
		assert_int_equal(otte_rdma_binding_decode(bytes, &decoded), -EPROTO);
		assert_string_equal(otte_error_text(), wrong[i].text);
		assert_int_equal(decoded.key, 0x77777777);
	}
}

int run_binding_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_has_its_place),
		cmocka_unit_test(what_is_decoded_encodes_to_the_same_bytes),
		cmocka_unit_test(nothing_else_is_decoded),
	};

	return cmocka_run_group_tests_name("binding", tests, NULL, NULL);
}
