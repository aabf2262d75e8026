/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rules that tie fields together, the exact bytes of a header, and the texts of refusals. */
#include "suites.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/line.h"
#include "base/util.h"
#include "control/wire.h"

#define MAX_PAYLOAD 65536u

static int decode_header(const struct otte_frame *frame, uint32_t max_payload)
{
	uint8_t bytes[OTTE_FRAME_HEADER];
	struct otte_frame got, poison;
	int rc;

	otte_frame_encode(frame, bytes);
	memset(&got, 0xa5, sizeof(got));
	memcpy(&poison, &got, sizeof(got));
	rc = otte_frame_decode(bytes, max_payload, &got);
	if (rc) {
		assert_memory_equal(&got, &poison, sizeof(got));
		return rc;
	}
	assert_int_equal(got.type, frame->type);
	assert_int_equal(got.length, frame->length);
	assert_int_equal(got.status, frame->status);
	assert_true(got.id == frame->id);
	return 0;
}

static void a_frame_header_stands_on_the_wire_as_documented(void **state)
{
	static const uint8_t expected[OTTE_FRAME_HEADER] = {
		'O',  'T',  'T',  'E',  2,    0,    7,    0,    0x40, 0x30, 0,    0,
		0,    0,    0,    0,    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,
	};
	const struct otte_frame frame = {
		.type = OTTE_FRAME_REGIONS, .length = 0x3040, .id = 0x0102030405060708,
	};
	uint8_t bytes[OTTE_FRAME_HEADER];

	(void)state;
	otte_frame_encode(&frame, bytes);
	assert_memory_equal(bytes, expected, sizeof(expected));
}

static void another_version_is_named_with_ours_whatever_else_is_wrong(void **state)
{
	uint8_t bytes[OTTE_FRAME_HEADER];
	struct otte_frame frame = { .type = OTTE_FRAME_HELLO, .length = OTTE_HELLO_BYTES };

	(void)state;
	otte_frame_encode(&frame, bytes);
	bytes[4] = 1;
	bytes[6] = 0xff; /* a type, length and status that we do not know */
	bytes[11] = 0xff;
	bytes[12] = 1;
	assert_int_equal(otte_frame_decode(bytes, MAX_PAYLOAD, &frame), -EPROTONOSUPPORT);
	assert_string_equal(otte_error_text(), "the peer speaks wire version 1, this library 2");
	bytes[4] = 0;
	bytes[5] = 3;
	assert_int_equal(otte_frame_decode(bytes, MAX_PAYLOAD, &frame), -EPROTONOSUPPORT);
	assert_string_equal(otte_error_text(), "the peer speaks wire version 768, this library 2");
}

static void something_else_than_otte_is_not_taken_for_another_version(void **state)
{
	static const uint8_t http[OTTE_FRAME_HEADER] = "GET / HTTP/1.1\r\nHost: x";
	struct otte_frame frame;

	(void)state;
	assert_int_equal(otte_frame_decode(http, MAX_PAYLOAD, &frame), -EPROTO);
	assert_string_equal(otte_error_text(), "not a peer of otte: frame: magic is 0x20544547, not 0x4554544f");
}

static void each_type_has_its_lengths_and_its_statuses(void **state)
{
	enum { REQUEST, ANSWER };
	static const struct {
		uint32_t min, max;
		int kind;
	} types[22] = {
		[OTTE_FRAME_HELLO] = { 160, 160, REQUEST },
		[OTTE_FRAME_WELCOME] = { 200, 200, ANSWER },
		[OTTE_FRAME_PROOF] = { 32, 32, REQUEST },
		[OTTE_FRAME_READY] = { 0, 0, ANSWER },
		[OTTE_FRAME_ERROR] = { 0, 191, ANSWER },
		[OTTE_FRAME_DESCRIBE] = { 8, 8, REQUEST },
		[OTTE_FRAME_REGIONS] = { 16, MAX_PAYLOAD, ANSWER },
		[OTTE_FRAME_STATS] = { 0, 0, REQUEST },
		[OTTE_FRAME_STATS_REPLY] = { 8, MAX_PAYLOAD, ANSWER },
		[OTTE_FRAME_NOTIFY] = { 1, 4096, REQUEST },
		[OTTE_FRAME_NOTIFIED] = { 0, 0, ANSWER },
		[OTTE_FRAME_PING] = { 0, 0, REQUEST },
		[OTTE_FRAME_PONG] = { 0, 0, ANSWER },
		[OTTE_FRAME_LANE] = { 48, 48, REQUEST },
		[OTTE_FRAME_LANE_READY] = { 0, 0, ANSWER },
		[OTTE_FRAME_BYE] = { 0, 0, REQUEST },
		[OTTE_FRAME_CLAIM] = { 32, 32, REQUEST },
		[OTTE_FRAME_LANE_LEND] = { 48, 48, REQUEST },
		[OTTE_FRAME_LEND] = { 64, 64, REQUEST },
		[OTTE_FRAME_LANE_RDMA] = { 48, 48, REQUEST },
		[OTTE_FRAME_RDMA] = { 1, 8192, REQUEST },
	};
	struct otte_frame frame = { .id = 7 };
	uint32_t type;

	(void)state;
	for (type = 1; type < ARRAY_SIZE(types); type++) {
		frame.type = (uint16_t)type;
		for (frame.length = 0; frame.length <= MAX_PAYLOAD; frame.length++) {
			int in = frame.length >= types[type].min && frame.length <= types[type].max;
			int text = frame.length <= OTTE_TEXT_MAX - 1;

			frame.status = 0;
			assert_int_equal(decode_header(&frame, MAX_PAYLOAD),
					 in && type != OTTE_FRAME_ERROR ? 0 : -EPROTO);
			frame.status = -ENOENT;
			assert_int_equal(decode_header(&frame, MAX_PAYLOAD),
					 text && types[type].kind == ANSWER ? 0 : -EPROTO);
			if (frame.length == 5000)
				frame.length = MAX_PAYLOAD - 2;
		}
	}
	frame.length = 0;
	for (frame.type = ARRAY_SIZE(types); frame.type; frame.type++)
		assert_int_equal(decode_header(&frame, MAX_PAYLOAD), -EPROTO);
	assert_int_equal(decode_header(&frame, MAX_PAYLOAD), -EPROTO);
	assert_string_equal(otte_error_text(), "frame: type is 0, which is unknown");
}

static void a_status_is_a_negative_errno(void **state)
{
	struct otte_frame frame = { .type = OTTE_FRAME_NOTIFIED };

	(void)state;
	frame.status = -4095;
	assert_int_equal(decode_header(&frame, MAX_PAYLOAD), 0);
	frame.status = -4096;
	assert_int_equal(decode_header(&frame, MAX_PAYLOAD), -EPROTO);
	frame.status = 1;
	assert_int_equal(decode_header(&frame, MAX_PAYLOAD), -EPROTO);
	assert_string_equal(otte_error_text(),
			    "NOTIFIED: status is 1, neither 0 nor a negative errno");
	frame.status = INT32_MIN;
	assert_int_equal(decode_header(&frame, MAX_PAYLOAD), -EPROTO);
}

static void a_frame_above_the_receivers_limit_is_too_long(void **state)
{
	struct otte_frame frame = { .type = OTTE_FRAME_REGIONS, .length = 4096 };

	(void)state;
	assert_int_equal(decode_header(&frame, 4096), 0);
	frame.length = 4097;
	assert_int_equal(decode_header(&frame, 4096), -EMSGSIZE);
	assert_string_equal(otte_error_text(), "REGIONS: length is 4097, above the limit 4096");
	frame.length = UINT32_MAX;
	assert_int_equal(decode_header(&frame, 4096), -EMSGSIZE);
}

static void without_a_key_nothing_of_one_is_sent_or_taken(void **state)
{
	struct otte_hello hello = { .identity = { .epoch = 1 } };
	struct otte_welcome welcome = { .identity = { .epoch = 1 }, .max_payload = 1, .max_lanes = 1 };
	uint8_t bytes[OTTE_WELCOME_BYTES];

	(void)state;
	hello.key_id[7] = 0x5a;
	assert_int_equal(otte_hello_encode(&hello, bytes, sizeof(bytes)), OTTE_HELLO_BYTES);
	assert_int_equal(otte_hello_decode(bytes, OTTE_HELLO_BYTES, &hello), 0);
	assert_int_equal(hello.key_id[7], 0);
	bytes[OTTE_IDENTITY_BYTES + 8 + 7] = 0x5a;
	assert_int_equal(otte_hello_decode(bytes, OTTE_HELLO_BYTES, &hello), -EPROTO);
	assert_string_equal(otte_error_text(), "HELLO: key_id has 0x5a at byte 7, not 0");

	welcome.mac[31] = 0x5a;
	assert_int_equal(otte_welcome_encode(&welcome, bytes, sizeof(bytes)), OTTE_WELCOME_BYTES);
	assert_int_equal(otte_welcome_decode(bytes, OTTE_WELCOME_BYTES, &welcome), 0);
	assert_int_equal(welcome.mac[31], 0);
	bytes[OTTE_WELCOME_BYTES - 1] = 0x5a;
	assert_int_equal(otte_welcome_decode(bytes, OTTE_WELCOME_BYTES, &welcome), -EPROTO);
	assert_string_equal(otte_error_text(), "WELCOME: mac has 0x5a at byte 31, not 0");
}

static void an_epoch_is_never_zero(void **state)
{
	struct otte_hello hello = { .identity = { .epoch = 0 } };
	struct otte_welcome welcome = { .max_payload = 1, .max_lanes = 1 };
	uint8_t bytes[OTTE_WELCOME_BYTES];

	(void)state;
	otte_hello_encode(&hello, bytes, sizeof(bytes));
	assert_int_equal(otte_hello_decode(bytes, OTTE_HELLO_BYTES, &hello), -EPROTO);
	assert_string_equal(otte_error_text(), "HELLO: epoch is 0");
	otte_welcome_encode(&welcome, bytes, sizeof(bytes));
	assert_int_equal(otte_welcome_decode(bytes, OTTE_WELCOME_BYTES, &welcome), -EPROTO);
	assert_string_equal(otte_error_text(), "WELCOME: epoch is 0");
}

static void a_welcome_leaves_room_for_a_frame_and_a_lane(void **state)
{
	struct otte_welcome welcome = { .identity = { .epoch = 1 }, .max_lanes = 1 };
	uint8_t bytes[OTTE_WELCOME_BYTES];

	(void)state;
	otte_welcome_encode(&welcome, bytes, sizeof(bytes));
	assert_int_equal(otte_welcome_decode(bytes, sizeof(bytes), &welcome), -EPROTO);
	assert_string_equal(otte_error_text(), "WELCOME: max_payload is 0");
	welcome.max_payload = 1;
	welcome.max_lanes = 0;
	otte_welcome_encode(&welcome, bytes, sizeof(bytes));
	assert_int_equal(otte_welcome_decode(bytes, sizeof(bytes), &welcome), -EPROTO);
	assert_string_equal(otte_error_text(), "WELCOME: max_lanes is 0");
}

static void a_name_needs_its_terminator_and_nothing_behind_it(void **state)
{
	struct otte_hello hello = { .identity = { .epoch = 1 } };
	uint8_t bytes[OTTE_HELLO_BYTES];

	(void)state;
	otte_hello_encode(&hello, bytes, sizeof(bytes));
	memset(bytes + 48, 'n', OTTE_NAME_MAX);
	assert_int_equal(otte_hello_decode(bytes, sizeof(bytes), &hello), -EPROTO);
	assert_string_equal(otte_error_text(), "HELLO: name has no terminator in 64 bytes");
	bytes[48 + OTTE_NAME_MAX - 1] = 0;
	assert_int_equal(otte_hello_decode(bytes, sizeof(bytes), &hello), 0);
	assert_int_equal(strlen(hello.identity.name), OTTE_NAME_MAX - 1);
	bytes[48 + 2] = '\033';
	assert_int_equal(otte_hello_decode(bytes, sizeof(bytes), &hello), -EPROTO);
	assert_string_equal(otte_error_text(),
			    "HELLO: name has 0x1b at byte 2, not printable UTF-8");
}

static void an_encoder_makes_a_bad_string_fit(void **state)
{
	struct otte_hello hello = { .identity = { .epoch = 1, .name = "a\033[2J\xff\xc3\xa9" } };
	uint8_t bytes[OTTE_HELLO_BYTES];

	(void)state;
	otte_hello_encode(&hello, bytes, sizeof(bytes));
	assert_int_equal(otte_hello_decode(bytes, sizeof(bytes), &hello), 0);
	assert_string_equal(hello.identity.name, "a\\x1b[2J\\xff\xc3\xa9");
}

static void a_text_is_cut_between_characters(void **state)
{
	char in[OTTE_TEXT_MAX + 3] = { 0 }, text[OTTE_TEXT_MAX];
	uint8_t bytes[OTTE_TEXT_MAX];

	(void)state;
	memset(in, 'x', OTTE_TEXT_MAX - 2);
	memcpy(in + OTTE_TEXT_MAX - 2, "\xc3\xa9", 2);
	assert_int_equal(otte_text_encode(in, bytes, sizeof(bytes)), OTTE_TEXT_MAX - 2);
	assert_int_equal(otte_text_decode(bytes, OTTE_TEXT_MAX - 2, text), 0);
	assert_int_equal(strlen(text), OTTE_TEXT_MAX - 2);
	assert_int_equal(otte_text_decode(bytes, OTTE_TEXT_MAX, text), -EPROTO);
	assert_string_equal(otte_error_text(), "text: length is 192, above 191");
	assert_int_equal(otte_text_encode("", bytes, 0), 0);
	assert_int_equal(otte_text_decode(bytes, 0, text), 0);
	assert_string_equal(text, "");
	assert_int_equal(otte_text_decode((const uint8_t *)"a\0b", 3, text), -EPROTO);
	assert_string_equal(otte_error_text(), "text: 0x00 at byte 1 is not printable UTF-8");
}

static void regions_that_do_not_fit_are_left_for_the_next_answer(void **state)
{
	struct otte_region_info rows[3] = {
		{ .id = 1, .length = 10, .name = "a" },
		{ .id = 2, .length = 20, .access = OTTE_REMOTE_WRITE, .name = "b" },
		{ .id = UINT64_MAX, .length = UINT64_MAX, .name = "c" },
	};
	uint8_t bytes[OTTE_REGIONS_HEADER + 3 * OTTE_REGION_ROW_BYTES];
	size_t size;

	(void)state;
	for (size = OTTE_REGIONS_HEADER; size <= sizeof(bytes); size++) {
		struct otte_regions regions = { .total = 3, .count = 3 }, got;
		size_t fit = (size - OTTE_REGIONS_HEADER) / OTTE_REGION_ROW_BYTES;
		ssize_t length = otte_regions_encode(&regions, rows, bytes, size);
		struct otte_region_info row;

		if (!fit) {
			assert_int_equal(length, -ENOSPC);
			assert_int_equal(regions.count, 3);
			continue;
		}
		assert_int_equal(length, OTTE_REGIONS_HEADER + fit * OTTE_REGION_ROW_BYTES);
		assert_int_equal(otte_regions_decode(bytes, (size_t)length, &got), 0);
		assert_int_equal(got.total, 3);
		assert_int_equal(got.count, fit);
		assert_int_equal(got.more, fit < 3);
		memset(&row, 0xa5, sizeof(row));
		otte_regions_row(bytes, got.count - 1, &row);
		assert_memory_equal(&row, &rows[fit - 1], sizeof(row));
	}
}

static ssize_t encode_two_rows(uint64_t id_a, uint64_t id_b, uint64_t length_b, uint64_t total,
			       uint8_t *bytes, size_t size)
{
	struct otte_region_info rows[2] = {
		{ .id = id_a, .length = 1 },
		{ .id = id_b, .length = length_b },
	};
	struct otte_regions regions = { .total = total, .count = 2 };

	return otte_regions_encode(&regions, rows, bytes, size);
}

static void region_ids_ascend_and_lengths_are_not_zero(void **state)
{
	uint8_t bytes[OTTE_REGIONS_HEADER + 2 * OTTE_REGION_ROW_BYTES];
	struct otte_regions regions;
	ssize_t length;

	(void)state;
	length = encode_two_rows(5, 6, 1, 2, bytes, sizeof(bytes));
	assert_int_equal(otte_regions_decode(bytes, (size_t)length, &regions), 0);
	encode_two_rows(5, 5, 1, 2, bytes, sizeof(bytes));
	assert_int_equal(otte_regions_decode(bytes, (size_t)length, &regions), -EPROTO);
	assert_string_equal(otte_error_text(), "REGIONS row: id is 5, not above 5");
	encode_two_rows(5, 4, 1, 2, bytes, sizeof(bytes));
	assert_int_equal(otte_regions_decode(bytes, (size_t)length, &regions), -EPROTO);
	encode_two_rows(0, 6, 1, 2, bytes, sizeof(bytes));
	assert_int_equal(otte_regions_decode(bytes, (size_t)length, &regions), -EPROTO);
	assert_string_equal(otte_error_text(), "REGIONS row: id is 0, not above 0");
	encode_two_rows(5, 6, 0, 2, bytes, sizeof(bytes));
	assert_int_equal(otte_regions_decode(bytes, (size_t)length, &regions), -EPROTO);
	assert_string_equal(otte_error_text(), "REGIONS row: length is 0");
	encode_two_rows(5, 6, 1, 1, bytes, sizeof(bytes));
	assert_int_equal(otte_regions_decode(bytes, (size_t)length, &regions), -EPROTO);
	assert_string_equal(otte_error_text(), "REGIONS: total is 1, below count 2");
}

/* A client that believed it would ask for ever. */
static void more_without_a_row_is_refused(void **state)
{
	struct otte_regions regions = { .total = 9, .count = 0, .more = 1 };
	uint8_t bytes[OTTE_REGIONS_HEADER];

	(void)state;
	assert_int_equal(otte_regions_encode(&regions, NULL, bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(otte_regions_decode(bytes, sizeof(bytes), &regions), -EPROTO);
	assert_string_equal(otte_error_text(), "REGIONS: more is 1 with count 0");
	bytes[12] = 0;
	assert_int_equal(otte_regions_decode(bytes, sizeof(bytes), &regions), 0);
}

/* 2^32 rows of 96 bytes overflow 32 bits to 0. */
static void a_count_that_overflows_is_refused(void **state)
{
	uint8_t bytes[OTTE_REGIONS_HEADER] = { 0 };
	struct otte_regions regions;
	struct otte_stats stats;

	(void)state;
	memset(bytes, 0xff, 8);
	bytes[11] = 0x80;
	assert_int_equal(otte_regions_decode(bytes, sizeof(bytes), &regions), -EPROTO);
	assert_string_equal(otte_error_text(),
			    "REGIONS: count is 2147483648 in 0 bytes of rows of 96");
	memset(bytes, 0, sizeof(bytes));
	bytes[3] = 0x20; /* 2^29 values of 8 bytes */
	assert_int_equal(otte_stats_decode(bytes, 8, &stats), -EPROTO);
	assert_string_equal(otte_error_text(),
			    "STATS_REPLY: count is 536870912 in 0 bytes of values");
}

static void stats_of_an_older_or_newer_peer_are_read_as_far_as_both_know(void **state)
{
	enum { KNOWN = (sizeof(struct otte_stats) - 8) / 8 };
	struct otte_stats stats, got;
	uint8_t bytes[8 + (KNOWN + 1) * 8];

	(void)state;
	memset(&stats, 0x11, sizeof(stats));
	assert_int_equal(otte_stats_encode(&stats, bytes, sizeof(bytes)), 8 + KNOWN * 8);
	memset(bytes + 8 + KNOWN * 8, 0x22, 8);
	bytes[0] = KNOWN + 1;
	memset(&got, 0xa5, sizeof(got));
	assert_int_equal(otte_stats_decode(bytes, sizeof(bytes), &got), 0);
	assert_int_equal(got.size, sizeof(got));
	assert_int_equal(got.threads, 0);
	assert_memory_equal(&got.regions, &stats.regions, KNOWN * 8);

	bytes[0] = 1;
	memset(&got, 0xa5, sizeof(got));
	assert_int_equal(otte_stats_decode(bytes, 16, &got), 0);
	assert_true(got.regions == stats.regions);
	assert_true(got.registered_bytes == 0);
	assert_true(got.stale_regions == 0);
}

static int decode_answer(uint8_t op, uint8_t effect, int32_t status, uint64_t length)
{
	const struct otte_lane_answer answer = {
		.op = op, .effect = effect, .id = 1, .status = status, .length = length,
	};
	uint8_t bytes[OTTE_LANE_ANSWER_BYTES];
	struct otte_lane_answer got;

	otte_lane_answer_encode(&answer, bytes);
	return otte_lane_answer_decode(bytes, &got);
}

static void an_answer_has_a_length_or_an_error(void **state)
{
	(void)state;
	assert_int_equal(decode_answer(OTTE_READ, 0, 0, 4096), 0);
	assert_int_equal(decode_answer(OTTE_READ, 0, -ENOENT, 0), 0);
	assert_int_equal(decode_answer(OTTE_READ, 0, 0, 0), -EPROTO);
	assert_string_equal(otte_error_text(), "lane answer: length is 0");
	assert_int_equal(decode_answer(OTTE_READ, 0, -ENOENT, 1), -EPROTO);
	assert_string_equal(otte_error_text(), "lane answer: length is 0x1, not 0");
}

static int decode_verdict(uint8_t op, int32_t status, uint8_t mask, uint8_t fresh)
{
	const struct otte_lane_answer answer = {
		.op = op, .id = 1, .status = status, .length = status ? 0 : 4096, .mask = mask,
		.fresh = fresh,
	};
	uint8_t bytes[OTTE_LANE_ANSWER_BYTES];
	struct otte_lane_answer got;
	int rc;

	otte_lane_answer_encode(&answer, bytes);
	rc = otte_lane_answer_decode(bytes, &got);
	if (!rc) {
		assert_int_equal(got.mask, mask);
		assert_int_equal(got.fresh, fresh);
	}
	return rc;
}

static void a_verdict_follows_the_payload_of_a_read_alone(void **state)
{
	(void)state;
	assert_int_equal(decode_verdict(OTTE_READ, 0, 5, 1), 0);
	assert_int_equal(decode_verdict(OTTE_READ, 0, 0xff, 0), 0);
	assert_int_equal(decode_verdict(OTTE_READ, 0, 5, 2), -EPROTO);
	assert_string_equal(otte_error_text(), "lane answer: fresh is 0x2 with mask 0x5");
	assert_int_equal(decode_verdict(OTTE_READ, 0, 0, 1), -EPROTO);
	assert_int_equal(decode_verdict(OTTE_READ, -EIO, 5, 1), -EPROTO);
	assert_string_equal(otte_error_text(), "lane answer: mask is 0x5 with op 0 and status -5");
	assert_int_equal(decode_verdict(OTTE_WRITE, 0, 5, 1), -EPROTO);
}

static void only_a_failed_write_has_an_effect(void **state)
{
	(void)state;
	assert_int_equal(decode_answer(OTTE_WRITE, OTTE_EFFECT_UNKNOWN, -EIO, 0), 0);
	assert_int_equal(decode_answer(OTTE_WRITE, OTTE_EFFECT_NONE, -EIO, 0), 0);
	assert_int_equal(decode_answer(OTTE_WRITE, OTTE_EFFECT_UNKNOWN, 0, 1), -EPROTO);
	assert_string_equal(otte_error_text(), "lane answer: effect is 1 with op 1 and status 0");
	assert_int_equal(decode_answer(OTTE_READ, OTTE_EFFECT_UNKNOWN, -EIO, 0), -EPROTO);
}

static void a_request_has_bytes_to_move(void **state)
{
	struct otte_lane_request request = { .op = OTTE_READ, .length = 1 };
	uint8_t bytes[OTTE_LANE_REQUEST_BYTES];

	(void)state;
	otte_lane_request_encode(&request, bytes);
	assert_memory_equal(bytes, "OTTL", 4);
	assert_int_equal(otte_lane_request_decode(bytes, &request), 0);
	request.length = 0;
	otte_lane_request_encode(&request, bytes);
	assert_int_equal(otte_lane_request_decode(bytes, &request), -EPROTO);
	assert_string_equal(otte_error_text(), "lane request: length is 0");
	request.length = 1;
	request.op = 2;
	otte_lane_request_encode(&request, bytes);
	assert_int_equal(otte_lane_request_decode(bytes, &request), -EPROTO);
	assert_string_equal(otte_error_text(), "lane request: op is 2, above 1");
}

static void a_cut_ends_what_it_does_not_name_as_live(void **state)
{
	struct otte_lane_cut cut = { .last = 1000 };
	uint8_t bytes[OTTE_LANE_REQUEST_BYTES];
	struct otte_lane_cut got;

	(void)state;
	otte_lane_cut_spare(&cut, 1001);
	otte_lane_cut_spare(&cut, 999);
	otte_lane_cut_spare(&cut, 1000 - 383);
	otte_lane_cut_spare(&cut, 1000 - 384);
	otte_lane_cut_encode(&cut, bytes);
	assert_true(otte_lane_is_cut(bytes));
	assert_int_equal(otte_lane_cut_decode(bytes, &got), 0);
	assert_false(otte_lane_cut_ends(&got, 1001));
	assert_false(otte_lane_cut_ends(&got, UINT64_MAX));
	assert_true(otte_lane_cut_ends(&got, 1000));
	assert_false(otte_lane_cut_ends(&got, 999));
	assert_true(otte_lane_cut_ends(&got, 998));
	assert_false(otte_lane_cut_ends(&got, 1000 - 383));
	/* Out of reach of the bits, and of a session long past. */
	assert_true(otte_lane_cut_ends(&got, 1000 - 384));
	assert_true(otte_lane_cut_ends(&got, 0));
	bytes[4] = 1;
	assert_int_equal(otte_lane_cut_decode(bytes, &got), -EPROTO);
	cut.last = 0;
	otte_lane_cut_encode(&cut, bytes);
	assert_int_equal(otte_lane_cut_decode(bytes, &got), -EPROTO);
}

static int decode_marked_request(uint8_t op, uint64_t length, uint64_t low, uint64_t high)
{
	const struct otte_lane_request request = {
		.op = op, .length = length, .mark = { low, high },
	};
	uint8_t bytes[OTTE_LANE_REQUEST_BYTES];
	struct otte_lane_request got;
	int rc;

	otte_lane_request_encode(&request, bytes);
	rc = otte_lane_request_decode(bytes, &got);
	if (!rc) {
		assert_true(got.mark[0] == low);
		assert_true(got.mark[1] == high);
	}
	return rc;
}

static void only_a_read_longer_than_its_refusal_has_a_mark(void **state)
{
	(void)state;
	assert_int_equal(decode_marked_request(OTTE_READ, OTTE_LANE_ANSWER_BYTES + 1, 1, 2), 0);
	assert_int_equal(decode_marked_request(OTTE_READ, OTTE_LANE_ANSWER_BYTES, 0, 0), 0);
	assert_int_equal(decode_marked_request(OTTE_READ, OTTE_LANE_ANSWER_BYTES, 1, 0), -EPROTO);
	assert_string_equal(otte_error_text(), "lane request: a mark with op 0 and length 64");
	assert_int_equal(decode_marked_request(OTTE_WRITE, 4096, 0, 1), -EPROTO);
	assert_string_equal(otte_error_text(), "lane request: a mark with op 1 and length 4096");
}

static void only_a_refused_read_has_a_mark(void **state)
{
	struct otte_lane_answer answer = { .op = OTTE_READ, .status = -EBUSY, .mark = { 0, 1 } };
	uint8_t bytes[OTTE_LANE_ANSWER_BYTES];

	(void)state;
	otte_lane_answer_encode(&answer, bytes);
	assert_int_equal(otte_lane_answer_decode(bytes, &answer), 0);
	assert_true(answer.mark[0] == 0 && answer.mark[1] == 1);
	answer.status = 0;
	answer.length = 4096;
	otte_lane_answer_encode(&answer, bytes);
	assert_int_equal(otte_lane_answer_decode(bytes, &answer), -EPROTO);
	assert_string_equal(otte_error_text(), "lane answer: a mark with op 0 and status 0");
	answer.op = OTTE_WRITE;
	answer.status = -EBUSY;
	answer.length = 0;
	otte_lane_answer_encode(&answer, bytes);
	assert_int_equal(otte_lane_answer_decode(bytes, &answer), -EPROTO);
}

static void a_line_is_valid_utf8_without_control_characters(void **state)
{
	static const struct {
		const char *text;
		ssize_t fault;
	} lines[] = {
		{ "", -1 },
		{ " ~", -1 },
		{ "a\nb", 1 },
		{ "a\x7f", 1 },
		{ "\xc2\xa0", -1 },               /* U+00A0, the first after C1 */
		{ "\xc2\x9f", 0 },                /* U+009F, the last of C1 */
		{ "\xc2\x80", 0 },
		{ "\xc1\xbf", 0 },                /* overlong U+007F */
		{ "\xdf\xbf", -1 },               /* U+07FF */
		{ "\xe0\x9f\xbf", 0 },            /* overlong U+07FF */
		{ "\xe0\xa0\x80", -1 },           /* U+0800 */
		{ "\xed\x9f\xbf", -1 },           /* U+D7FF */
		{ "\xed\xa0\x80", 0 },            /* a surrogate */
		{ "\xed\xbf\xbf", 0 },
		{ "\xee\x80\x80", -1 },           /* U+E000 */
		{ "\xf0\x8f\xbf\xbf", 0 },        /* overlong U+FFFF */
		{ "\xf0\x90\x80\x80", -1 },       /* U+10000 */
		{ "\xf4\x8f\xbf\xbf", -1 },       /* U+10FFFF */
		{ "\xf4\x90\x80\x80", 0 },        /* beyond Unicode */
		{ "\xf8\x88\x80\x80\x80", 0 },
		{ "ok\xc3", 2 },                  /* cut short, in all three sizes */
		{ "ok\xe2\x82", 2 },
		{ "ok\xf0\x9f\x98", 2 },
		{ "\xc3(", 0 },
		{ "\xe2\x82(", 0 },
		{ "\xf0\x9f\x98(", 0 },
		{ "\x80", 0 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(lines); i++)
		if (otte_line_fault(lines[i].text, strlen(lines[i].text)) != lines[i].fault)
			fail_msg("line %zu: fault at %zd", i,
				 otte_line_fault(lines[i].text, strlen(lines[i].text)));
}

static void an_escaped_line_fits_and_is_terminated_at_every_size(void **state)
{
	static const char text[] = "x\xf0\x9f\x98\x80\ny\xc3\xa9";
	static const char *const expected[] = {
		"", "x", "x", "x", "x", "x\xf0\x9f\x98\x80", "x\xf0\x9f\x98\x80",
		"x\xf0\x9f\x98\x80", "x\xf0\x9f\x98\x80", "x\xf0\x9f\x98\x80\\x0a",
		"x\xf0\x9f\x98\x80\\x0ay", "x\xf0\x9f\x98\x80\\x0ay",
		"x\xf0\x9f\x98\x80\\x0ay\xc3\xa9",
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(expected); i++) {
		char *out = malloc(i + 1);

		assert_int_equal(otte_line_escape(out, i + 1, text), strlen(expected[i]));
		assert_string_equal(out, expected[i]);
		free(out);
	}
}

static void an_escaped_line_shows_what_it_cannot_have(void **state)
{
	static const struct {
		const char *text, *shown;
	} lines[] = {
		{ "", "" },
		{ "plain y\xc3\xa9", "plain y\xc3\xa9" },
		{ "\033[2J\r\n\x7f", "\\x1b[2J\\x0d\\x0a\\x7f" },
		{ "\xc2\x9b" "0", "\\xc2\\x9b0" }, /* C1 */
		{ "\xff\xc3", "\\xff\\xc3" },
	};
	char out[64];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(lines); i++) {
		assert_int_equal(otte_line_escape(out, sizeof(out), lines[i].text),
				 strlen(lines[i].shown));
		assert_string_equal(out, lines[i].shown);
	}
	/* No half of a stand-in. */
	assert_int_equal(otte_line_escape(out, 5, "a\n"), 1);
	assert_string_equal(out, "a");
	assert_int_equal(otte_line_escape(out, 6, "a\n"), 5);
	assert_string_equal(out, "a\\x0a");
}

static int digit_of(char digit)
{
	return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* What the man page has a reader do. */
static void read_back(char *name)
{
	char *to = name;
	const char *from;

	for (from = name; *from; to++)
		if (from[0] == '\\' && from[1] == 'x' && isxdigit((unsigned char)from[2]) &&
		    isxdigit((unsigned char)from[3])) {
			*to = (char)(digit_of(from[2]) << 4 | digit_of(from[3]));
			from += 4;
		} else {
			*to = *from++;
		}
	*to = '\0';
}

/* Each of up to six bytes of these. */
static void an_escaped_name_is_a_line_and_can_be_had_back(void **state)
{
	static const char bytes[] = { '\\', 'x', '5', 'c', 'g', '\n', '\xc3', '\xa9' };
	enum { BYTES = sizeof(bytes), LONGEST = 6 };
	char name[LONGEST + 1], shown[4 * LONGEST + 1], again[sizeof(shown)];
	size_t length, i, left, number, all = 1;

	(void)state;
	assert_int_equal(otte_name_escape(shown, sizeof(shown), "\\\\x4"), 4);
	assert_string_equal(shown, "\\\\x4");
	assert_int_equal(otte_name_escape(shown, sizeof(shown), "\\xAf\xff"), 11);
	assert_string_equal(shown, "\\x5cxAf\\xff");
	for (length = 1; length <= LONGEST; length++) {
		all *= BYTES;
		for (number = 0; number < all; number++) {
			for (i = 0, left = number; i < length; i++, left /= BYTES)
				name[i] = bytes[left % BYTES];
			name[length] = '\0';
			left = otte_name_escape(shown, sizeof(shown), name);
			assert_int_equal(left, strlen(shown));
			if (otte_line_fault(shown, strlen(shown)) >= 0)
				fail_msg("\"%s\" is no line", shown);
			otte_line_escape(again, sizeof(again), shown);
			assert_string_equal(again, shown);
			read_back(shown);
			assert_string_equal(shown, name);
		}
	}
}

int run_wire_rule_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cut_ends_what_it_does_not_name_as_live),
		cmocka_unit_test(a_frame_header_stands_on_the_wire_as_documented),
		cmocka_unit_test(another_version_is_named_with_ours_whatever_else_is_wrong),
		cmocka_unit_test(something_else_than_otte_is_not_taken_for_another_version),
		cmocka_unit_test(each_type_has_its_lengths_and_its_statuses),
		cmocka_unit_test(a_status_is_a_negative_errno),
		cmocka_unit_test(a_frame_above_the_receivers_limit_is_too_long),
		cmocka_unit_test(without_a_key_nothing_of_one_is_sent_or_taken),
		cmocka_unit_test(an_epoch_is_never_zero),
		cmocka_unit_test(a_welcome_leaves_room_for_a_frame_and_a_lane),
		cmocka_unit_test(a_name_needs_its_terminator_and_nothing_behind_it),
		cmocka_unit_test(an_encoder_makes_a_bad_string_fit),
		cmocka_unit_test(a_text_is_cut_between_characters),
		cmocka_unit_test(regions_that_do_not_fit_are_left_for_the_next_answer),
		cmocka_unit_test(region_ids_ascend_and_lengths_are_not_zero),
		cmocka_unit_test(more_without_a_row_is_refused),
		cmocka_unit_test(a_count_that_overflows_is_refused),
		cmocka_unit_test(stats_of_an_older_or_newer_peer_are_read_as_far_as_both_know),
		cmocka_unit_test(an_answer_has_a_length_or_an_error),
		cmocka_unit_test(only_a_failed_write_has_an_effect),
		cmocka_unit_test(a_verdict_follows_the_payload_of_a_read_alone),
		cmocka_unit_test(a_request_has_bytes_to_move),
		cmocka_unit_test(only_a_read_longer_than_its_refusal_has_a_mark),
		cmocka_unit_test(only_a_refused_read_has_a_mark),
		cmocka_unit_test(a_line_is_valid_utf8_without_control_characters),
		cmocka_unit_test(an_escaped_line_fits_and_is_terminated_at_every_size),
		cmocka_unit_test(an_escaped_line_shows_what_it_cannot_have),
		cmocka_unit_test(an_escaped_name_is_a_line_and_can_be_had_back),
	};

	return cmocka_run_group_tests_name("wire rules", tests, NULL, NULL);
}
