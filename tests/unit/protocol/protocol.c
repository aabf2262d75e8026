/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages of RDMA: each as it stands on the wire, byte for byte, and each rule of their decoder.
 */
#include "transport/rdma/protocol.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/util.h"

#define PATHS_BYTES 24
#define ROW_BYTES 40

static uint8_t bytes[OTTE_RDMA_FRAME_MAX];

static const struct otte_rdma_message paths = {
	.type = OTTE_RDMA_MSG_PATHS,
	.paths = {
		.grants = 0x01020304,
		.count = 2,
		.leases = 0x29303132,
		.chunk_bytes = 0x33343536,
		.rows = {
			{ .nic = 3, .port = 1, .gid_type = 2, .ethernet = 1, .active = 1, .lid = 0,
			  .mtu_bytes = 1024, .pd = 0x1112131415161718,
			  .gid = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } },
			{ .nic = 63, .port = 2, .lid = 0x2122, .mtu_bytes = 4096, .pd = 1 },
		},
	},
};
static const struct otte_rdma_message connect = {
	.type = OTTE_RDMA_MSG_CONNECT,
	.connect = { .connection = 0x0102030405060708, .source_pd = 0x1112131415161718, .requester_pd = 2,
		     .source_nic = 5, .requester_nic = 6, .op = OTTE_WRITE, .cell = 1, .qpn = 0xabcdef, .psn = 0x123456,
		     .mtu_bytes = 256, .rd_atomic = 16 },
};
static const struct otte_rdma_message connected = {
	.type = OTTE_RDMA_MSG_CONNECTED,
	.connected = { .connection = 7, .qpn = 0x11, .psn = 0, .mtu_bytes = 2048, .rd_atomic = 0 },
};
static const struct otte_rdma_message not_connected = {
	.type = OTTE_RDMA_MSG_CONNECTED,
	.connected = { .connection = 7, .status = -EDQUOT },
};
static const struct otte_rdma_message ask = {
	.type = OTTE_RDMA_MSG_ASK,
	.ask = { .ask = 1, .connection = 2, .epoch = 3, .region = 4, .offset = 0x0506070809, .length = 6,
		 .op = OTTE_WRITE, .priority = OTTE_PRIORITY_LOW, .intent = OTTE_INTENT_STAGING_INTERNAL },
};
static const struct otte_rdma_message grant = {
	.type = OTTE_RDMA_MSG_GRANT,
	.grant = { .ask = 1, .grant = 9, .address = 0x7fff00001000, .key = 0x01020304, .qpn = 0xffffff,
		   .nonce = { 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1 } },
};
static const struct otte_rdma_message refused = {
	.type = OTTE_RDMA_MSG_REFUSED,
	.answer = { .ask = 1, .status = -EBUSY },
};
static const struct otte_rdma_message done = {
	.type = OTTE_RDMA_MSG_DONE,
	.answer = { .ask = 1, .grant = 2, .status = -ESTALE },
};
static const struct otte_rdma_message in_vain = {
	.type = OTTE_RDMA_MSG_DONE,
	.answer = { .ask = 1, .grant = 2, .status = -EFAULT, .intact = true },
};
static const struct otte_rdma_message well_done = {
	.type = OTTE_RDMA_MSG_DONE,
	.answer = { .ask = 1, .grant = 2 },
};
static const struct otte_rdma_message ack = {
	.type = OTTE_RDMA_MSG_ACK,
	.answer = { .ask = 1, .grant = 2 },
};
static const struct otte_rdma_message ready = {
	.type = OTTE_RDMA_MSG_READY,
	.answer = { .ask = 1, .grant = 2 },
};
static const struct otte_rdma_message cancel = {
	.type = OTTE_RDMA_MSG_CANCEL,
	.answer = { .ask = 1 },
};
static const struct otte_rdma_message closing = {
	.type = OTTE_RDMA_MSG_CLOSE,
	.close = { .connection = 8, .status = -EIO },
};
static const struct otte_rdma_message lease = {
	.type = OTTE_RDMA_MSG_LEASE,
	.ask = { .ask = 1, .connection = 2, .epoch = 3, .region = 4, .offset = 0x0506070809, .length = 6,
		 .op = OTTE_WRITE, .priority = OTTE_PRIORITY_LOW, .intent = OTTE_INTENT_STAGING_INTERNAL },
};
static const struct otte_rdma_message leased = {
	.type = OTTE_RDMA_MSG_LEASED,
	.leased = { .ask = 1, .lease = 9, .address = 0x7fff00001000, .key = 0x01020304, .qpn = 0xffffff,
		    .idle_ms = 0x2710 },
};
static const struct otte_rdma_message renew = {
	.type = OTTE_RDMA_MSG_RENEW,
	.leasing = { .lease = 9, .requests = 3, .bytes = 0x0102030405 },
};
static const struct otte_rdma_message recall = {
	.type = OTTE_RDMA_MSG_RECALL,
	.leasing = { .lease = 9 },
};
static const struct otte_rdma_message returning = {
	.type = OTTE_RDMA_MSG_RETURN,
	.leasing = { .lease = 9, .requests = 0, .bytes = 4 },
};
static const struct otte_rdma_message ended = {
	.type = OTTE_RDMA_MSG_ENDED,
	.leasing = { .lease = 9 },
};

static const struct {
	const struct otte_rdma_message *message;
	const char *hex;
} layouts[] = {
	{ &paths, "01000300 00000000 04030201 02000000 32313029 36353433"
		  "03010201 01000000 00040000 00000000 1817161514131211 0102030405060708090a0b0c0d0e0f10"
		  "3f020000 00002221 00100000 00000000 0100000000000000 00000000000000000000000000000000" },
	{ &connect, "02000300 00000000 0807060504030201 1817161514131211 0200000000000000"
		    "05060101 efcdab00 56341200 00010000 10000000 00000000" },
	{ &connected, "03000300 00000000 0700000000000000 00000000 11000000 00000000 00080000 00000000 00000000" },
	{ &not_connected,
	  "03000300 00000000 0700000000000000 86ffffff 00000000 00000000 00000000 00000000 00000000" },
	{ &ask, "04000300 00000000 0100000000000000 0200000000000000 0300000000000000 0400000000000000"
		"0908070605000000 0600000000000000 01020600 00000000" },
	{ &grant, "05000300 00000000 0100000000000000 0900000000000000 00100000ff7f0000 04030201 ffffff00"
		  "100f0e0d0c0b0a090807060504030201" },
	{ &refused, "06000300 00000000 0100000000000000 f0ffffff 00000000" },
	{ &done, "07000300 00000000 0100000000000000 0200000000000000 8cffffff 00000000" },
	{ &in_vain, "07000300 00000000 0100000000000000 0200000000000000 f2ffffff 01000000" },
	{ &well_done, "07000300 00000000 0100000000000000 0200000000000000 00000000 00000000" },
	{ &ack, "08000300 00000000 0100000000000000 0200000000000000" },
	{ &ready, "09000300 00000000 0100000000000000 0200000000000000" },
	{ &cancel, "0a000300 00000000 0100000000000000" },
	{ &closing, "0b000300 00000000 0800000000000000 fbffffff 00000000" },
	{ &lease, "0c000300 00000000 0100000000000000 0200000000000000 0300000000000000 0400000000000000"
		  "0908070605000000 0600000000000000 01020600 00000000" },
	{ &leased, "0d000300 00000000 0100000000000000 0900000000000000 00100000ff7f0000 04030201 ffffff00"
		   "10270000 00000000" },
	{ &renew, "0e000300 00000000 0900000000000000 0300000000000000 0504030201000000" },
	{ &recall, "0f000300 00000000 0900000000000000" },
	{ &returning, "10000300 00000000 0900000000000000 0000000000000000 0400000000000000" },
	{ &ended, "11000300 00000000 0900000000000000" },
};

static size_t from_hex(const char *hex, uint8_t *out)
{
	unsigned int value;
	size_t n = 0;

	for (; *hex; hex++) {
		if (*hex == ' ')
			continue;
		assert_int_equal(sscanf(hex++, "%2x", &value), 1);
		out[n++] = (uint8_t)value;
	}
	return n;
}

static size_t encode(const struct otte_rdma_message *message)
{
	ssize_t n = otte_rdma_message_encode(message, bytes, sizeof(bytes));

	assert_true(n > 0);
	return (size_t)n;
}

static void each_message_has_its_layout(void **state)
{
	uint8_t wanted[OTTE_RDMA_FRAME_MAX];
	size_t i, length;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(layouts); i++) {
		length = from_hex(layouts[i].hex, wanted);
		memset(bytes, 0xee, sizeof(bytes));
		assert_int_equal(encode(layouts[i].message), length);
		assert_memory_equal(bytes, wanted, length);
		assert_int_equal(bytes[length], 0xee);
	}
}

static void what_is_decoded_encodes_to_the_same(void **state)
{
	struct otte_rdma_message got;
	uint8_t first[OTTE_RDMA_FRAME_MAX];
	size_t i, length;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(layouts); i++) {
		length = encode(layouts[i].message);
		memcpy(first, bytes, length);
		memset(&got, 0xee, sizeof(got));
		assert_int_equal(otte_rdma_message_decode(first, length, &got), 0);
		assert_int_equal(got.type, layouts[i].message->type);
		memset(bytes, 0, sizeof(bytes));
		assert_int_equal(encode(&got), length);
		assert_memory_equal(bytes, first, length);
	}
}

static void a_message_needs_its_room(void **state)
{
	size_t i, length;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(layouts); i++) {
		length = encode(layouts[i].message);
		assert_int_equal(otte_rdma_message_encode(layouts[i].message, bytes, length), length);
		memset(bytes, 0xee, sizeof(bytes));
		assert_int_equal(otte_rdma_message_encode(layouts[i].message, bytes, length - 1), -ENOSPC);
		assert_int_equal(bytes[0], 0xee);
	}
}

/* Refused with this text, and nothing is changed. */
static void refuse(size_t length, int code, const char *text)
{
	static const uint8_t poison[sizeof(struct otte_rdma_message)] = { 0x5a };
	struct otte_rdma_message got;
	uint8_t exact[OTTE_RDMA_FRAME_MAX];

	memcpy(&got, poison, sizeof(got));
	memcpy(exact, bytes, length);
	assert_int_equal(otte_rdma_message_decode(exact, length, &got), code);
	assert_string_equal(otte_error_text(), text);
	assert_memory_equal(&got, poison, sizeof(got));
}

static void a_message_has_exactly_its_length(void **state)
{
	struct otte_rdma_message got;
	size_t i, length, n;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(layouts); i++) {
		length = encode(layouts[i].message);
		for (n = 0; n < length; n++)
			assert_int_equal(otte_rdma_message_decode(bytes, n, &got), -EPROTO);
		bytes[length] = 0;
		assert_int_equal(otte_rdma_message_decode(bytes, length + 1, &got), -EPROTO);
	}
	refuse(7, -EPROTO, "a message of RDMA has 7 bytes");
	encode(&paths);
	refuse(12, -EPROTO, "PATHS: length is 12, not 24");
	refuse(PATHS_BYTES + ROW_BYTES, -EPROTO, "PATHS: length is 64, not 104");
	bytes[12] = 65;
	refuse(PATHS_BYTES + 2 * ROW_BYTES, -EPROTO, "PATHS: count is 65, above 64");
}

static void another_version_or_type_is_refused(void **state)
{
	size_t length = encode(&ack);

	(void)state;
	bytes[2] = 2;
	refuse(length, -EPROTONOSUPPORT, "the peer speaks version 2 of RDMA, this library 3");
	bytes[2] = 4;
	refuse(length, -EPROTONOSUPPORT, "the peer speaks version 4 of RDMA, this library 3");
	bytes[2] = 3;
	bytes[0] = 0;
	refuse(length, -EPROTO, "a message of RDMA is of type 0, which is unknown");
	bytes[0] = 18;
	refuse(length, -EPROTO, "a message of RDMA is of type 18, which is unknown");
}

static void each_field_has_its_rule(void **state)
{
	static const struct {
		const struct otte_rdma_message *message;
		size_t at;
		unsigned int bytes;
		uint64_t value;
		const char *text;
	} rules[] = {
		{ &ack, 4, 4, 1, "ACK: reserved is 0x1, not 0" },
		{ &paths, 8, 4, 0, "PATHS: grants is 0" },
		{ &paths, 20, 4, 1, "PATHS: chunk_bytes is 1, below 4096" },
		{ &paths, 20, 4, 4095, "PATHS: chunk_bytes is 4095, below 4096" },
		{ &paths, 24, 1, 64, "PATHS: nic is 64, above 63" },
		{ &paths, 24, 1, 63, "PATHS: nic 63 comes after 63" },
		{ &paths, 25, 1, 0, "PATHS: port is 0" },
		{ &paths, 26, 1, 3, "PATHS: gid_type is 3, above 2" },
		{ &paths, 27, 1, 2, "PATHS: ethernet is 2, above 1" },
		{ &paths, 28, 1, 2, "PATHS: active is 2, above 1" },
		{ &paths, 29, 1, 1, "PATHS: reserved is 0x1, not 0" },
		{ &paths, 32, 4, 1000, "PATHS: mtu_bytes is 1000, no power of two of 256 to 4096" },
		{ &paths, 32, 4, 8192, "PATHS: mtu_bytes is 8192, no power of two of 256 to 4096" },
		{ &paths, 32, 4, 0, "PATHS: mtu_bytes is 0, no power of two of 256 to 4096" },
		{ &paths, 36, 4, 4, "PATHS: reserved is 0x4, not 0" },
		{ &paths, 40, 8, 0, "PATHS: pd is 0" },
		{ &connect, 8, 8, 0, "CONNECT: connection is 0" },
		{ &connect, 16, 8, 0, "CONNECT: source_pd is 0" },
		{ &connect, 24, 8, 0, "CONNECT: requester_pd is 0" },
		{ &connect, 32, 1, 64, "CONNECT: source_nic is 64, above 63" },
		{ &connect, 33, 1, 64, "CONNECT: requester_nic is 64, above 63" },
		{ &connect, 34, 1, 2, "CONNECT: op is 2, above 1" },
		{ &connect, 35, 1, 2, "CONNECT: cell is 2, above 1" },
		{ &connect, 36, 4, 0, "CONNECT: qpn is 0" },
		{ &connect, 36, 4, 0x1000000, "CONNECT: qpn is 16777216, above 16777215" },
		{ &connect, 40, 4, 0x1000000, "CONNECT: psn is 16777216, above 16777215" },
		{ &connect, 44, 4, 128, "CONNECT: mtu_bytes is 128, no power of two of 256 to 4096" },
		{ &connect, 48, 4, 256, "CONNECT: rd_atomic is 256, above 255" },
		{ &connect, 52, 4, 1, "CONNECT: reserved is 0x1, not 0" },
		{ &connected, 8, 8, 0, "CONNECTED: connection is 0" },
		{ &connected, 16, 4, 1, "CONNECTED: status is 1, neither 0 nor a negative errno" },
		{ &connected, 20, 4, 0, "CONNECTED: qpn is 0" },
		{ &connected, 24, 4, 0x1000000, "CONNECTED: psn is 16777216, above 16777215" },
		{ &connected, 28, 4, 0, "CONNECTED: mtu_bytes is 0, no power of two of 256 to 4096" },
		{ &connected, 32, 4, 256, "CONNECTED: rd_atomic is 256, above 255" },
		{ &connected, 36, 4, 1, "CONNECTED: reserved is 0x1, not 0" },
		{ &not_connected, 20, 4, 1, "CONNECTED: qpn is 0x1, not 0" },
		{ &ask, 8, 8, 0, "ASK: ask is 0" },
		{ &ask, 16, 8, 0, "ASK: connection is 0" },
		{ &ask, 48, 8, 0, "ASK: length is 0" },
		{ &ask, 56, 1, 2, "ASK: op is 2, above 1" },
		{ &ask, 57, 1, 3, "ASK: priority is 3, above 2" },
		{ &ask, 58, 1, 7, "ASK: intent is 7, above 6" },
		{ &ask, 59, 1, 1, "ASK: reserved is 0x1, not 0" },
		{ &ask, 60, 4, 1, "ASK: reserved is 0x1, not 0" },
		{ &grant, 8, 8, 0, "GRANT: ask is 0" },
		{ &grant, 16, 8, 0, "GRANT: grant is 0" },
		{ &grant, 36, 4, 0, "GRANT: qpn is 0" },
		{ &refused, 8, 8, 0, "REFUSED: ask is 0" },
		{ &refused, 16, 4, 0, "REFUSED: status is 0" },
		{ &refused, 16, 4, 5, "REFUSED: status is 5, neither 0 nor a negative errno" },
		{ &refused, 20, 4, 1, "REFUSED: reserved is 0x1, not 0" },
		{ &done, 16, 8, 0, "DONE: grant is 0" },
		{ &done, 24, 4, 0xffff0000, "DONE: status is -65536, neither 0 nor a negative errno" },
		{ &done, 28, 4, 2, "DONE: reserved is 0x2, not 0" },
		{ &well_done, 28, 4, 1, "DONE: reserved is 0x1, not 0" },
		{ &ready, 16, 8, 0, "READY: grant is 0" },
		{ &cancel, 8, 8, 0, "CANCEL: ask is 0" },
		{ &closing, 8, 8, 0, "CLOSE: connection is 0" },
		{ &closing, 16, 4, 0, "CLOSE: status is 0" },
		{ &lease, 48, 8, 0, "LEASE: length is 0" },
		{ &lease, 60, 4, 1, "LEASE: reserved is 0x1, not 0" },
		{ &leased, 8, 8, 0, "LEASED: ask is 0" },
		{ &leased, 16, 8, 0, "LEASED: lease is 0" },
		{ &leased, 36, 4, 0, "LEASED: qpn is 0" },
		{ &leased, 40, 4, 0, "LEASED: idle_ms is 0" },
		{ &leased, 44, 4, 1, "LEASED: reserved is 0x1, not 0" },
		{ &renew, 8, 8, 0, "RENEW: lease is 0" },
		{ &recall, 8, 8, 0, "RECALL: lease is 0" },
		{ &returning, 8, 8, 0, "RETURN: lease is 0" },
		{ &ended, 8, 8, 0, "ENDED: lease is 0" },
	};
	size_t i, length;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		length = encode(rules[i].message);
		memcpy(&bytes[rules[i].at], &rules[i].value, rules[i].bytes);
		refuse(length, -EPROTO, rules[i].text);
	}
}

static void all_nics_fit_into_a_frame(void **state)
{
	struct otte_rdma_message many = paths, got;
	size_t length;
	uint8_t i;

	(void)state;
	many.paths.count = OTTE_NIC_IDS;
	for (i = 0; i < OTTE_NIC_IDS; i++) {
		many.paths.rows[i] = paths.paths.rows[0];
		many.paths.rows[i].nic = i;
	}
	length = encode(&many);
	assert_int_equal(otte_rdma_message_decode(bytes, length, &got), 0);
	assert_int_equal(got.paths.count, OTTE_NIC_IDS);
	assert_int_equal(got.paths.rows[63].nic, 63);
	assert_int_equal(got.paths.rows[63].pd, 0x1112131415161718);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_message_has_its_layout),
		cmocka_unit_test(what_is_decoded_encodes_to_the_same),
		cmocka_unit_test(a_message_needs_its_room),
		cmocka_unit_test(a_message_has_exactly_its_length),
		cmocka_unit_test(another_version_or_type_is_refused),
		cmocka_unit_test(each_field_has_its_rule),
		cmocka_unit_test(all_nics_fit_into_a_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
