/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every format promises, over one table of formats: round trip, exact size, and for each byte
 * the exact set of values that a decoder takes there. Inputs end at an unreadable page.
 */
#include "suites.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"
#include "control/wire.h"

#define BUFFER 1024

enum accept {
	FREE,          /* any value */
	SAME,          /* the sample's value only */
	AT_MOST,       /* 0 .. argument */
	PRINT,         /* ASCII that can be shown */
	PRINT_OR_ZERO, /* the last character and the terminator: it may end there or grow */
	ONE_OF,        /* values in set */
};

struct rule {
	unsigned bytes;
	enum accept accept;
	unsigned limit;
	const char *set;
};

struct format {
	const char *name;
	ssize_t (*sample)(uint8_t *out, size_t size);
	/* Decodes, and on success encodes what it got. 0, or the decoder's error. */
	int (*turn)(const uint8_t *in, size_t length, uint8_t *out, size_t size);
	bool fixed; /* the caller of the decoder always has all bytes */
	struct rule rules[16];
};

/* ---- Samples: every free field has a value of its own, no byte of it zero ---- */

static const struct otte_identity sample_identity = {
	.boot_id = { 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c,
		     0x1d, 0x1e, 0x1f },
	.incarnation = { 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b,
			 0x2c, 0x2d, 0x2e, 0x2f },
	.epoch = 0x3132333435363738,
	.pid = 0x4142434445464748,
	.name = "peer",
};

static void fill(uint8_t *bytes, size_t count, uint8_t first)
{
	size_t i;

	for (i = 0; i < count; i++)
		bytes[i] = (uint8_t)(first + i);
}

static struct otte_frame frame_sample(void)
{
	return (struct otte_frame){
		.type = OTTE_FRAME_DESCRIBE, .length = 8, .status = 0, .id = 0x5152535455565758,
	};
}

static struct otte_hello hello_sample(void)
{
	struct otte_hello hello = { .identity = sample_identity, .flags = OTTE_HELLO_AUTH };

	fill(hello.key_id, sizeof(hello.key_id), 0x60);
	fill(hello.nonce, sizeof(hello.nonce), 0x70);
	return hello;
}

static struct otte_welcome welcome_sample(void)
{
	struct otte_welcome welcome = {
		.identity = sample_identity,
		.session = 0x8182838485868788,
		.flags = OTTE_HELLO_AUTH,
		.max_payload = 0x91929394,
		.max_lanes = 0xa1a2a3a4,
	};

	fill(welcome.nonce, sizeof(welcome.nonce), 0xb0);
	fill(welcome.mac, sizeof(welcome.mac), 0xd0);
	return welcome;
}

static struct otte_lane_hello lane_hello_sample(void)
{
	struct otte_lane_hello hello = {
		.session = 0x8182838485868788,
		.counter = 0x9192939495969798,
	};

	fill(hello.mac, sizeof(hello.mac), 0xc0);
	return hello;
}

static struct otte_lane_request lane_request_sample(void)
{
	return (struct otte_lane_request){
		.op = OTTE_WRITE,
		.priority = OTTE_PRIORITY_MEDIUM,
		.intent = OTTE_INTENT_CHECKPOINT,
		.id = 0x1112131415161718,
		.epoch = 0x2122232425262728,
		.region = 0x3132333435363738,
		.offset = 0x4142434445464748,
		.length = 0x5152535455565758,
	};
}

static struct otte_lane_cut lane_cut_sample(void)
{
	struct otte_lane_cut cut = { .last = 0x1112131415161718 };

	fill(cut.live, sizeof(cut.live), 0x80);
	return cut;
}

static struct otte_lane_answer lane_answer_sample(void)
{
	return (struct otte_lane_answer){
		.op = OTTE_WRITE,
		.effect = OTTE_EFFECT_UNKNOWN,
		.id = 0x1112131415161718,
		.status = -EIO,
		.length = 0,
	};
}

static struct otte_lane_request marked_request_sample(void)
{
	struct otte_lane_request request = lane_request_sample();

	request.op = OTTE_READ;
	request.mark[0] = 0x6162636465666768;
	request.mark[1] = 0x7172737475767778;
	return request;
}

static struct otte_lane_answer marked_answer_sample(void)
{
	struct otte_lane_answer answer = lane_answer_sample();

	answer.op = OTTE_READ;
	answer.effect = OTTE_EFFECT_NONE;
	answer.mark[0] = 0x6162636465666768;
	answer.mark[1] = 0x7172737475767778;
	return answer;
}

static const struct otte_region_info sample_rows[2] = {
	{
		.id = 0x0102030405060708,
		.length = 0x1112131415161718,
		.address = 0x2122232425262728,
		.access = OTTE_REMOTE_READ,
		.name = "first",
	},
	{
		.id = 0x0202030405060708,
		.length = 1,
		.address = 2,
		.access = OTTE_REMOTE_READ | OTTE_REMOTE_WRITE,
		.gpu_routes = OTTE_GPU_BY_PEERMEM,
		.name = "second",
	},
};

static struct otte_stats stats_sample(void)
{
	struct otte_stats stats = { .size = sizeof(stats) };
	uint64_t *values = (uint64_t *)((char *)&stats + offsetof(struct otte_stats, regions));
	size_t count = (sizeof(stats) - offsetof(struct otte_stats, regions)) / 8, i;

	for (i = 0; i < count; i++)
		values[i] = 0x0101010101010101 * (i + 1);
	return stats;
}

/* The formats of which every message has all its bytes: the caller of an encoder has room for them. */
#define SAMPLE_FIXED(name, type, bytes, make)                                                      \
	static ssize_t encode_##name(uint8_t *out, size_t size)                                    \
	{                                                                                          \
		struct otte_##type value = make;                                                   \
                                                                                                   \
		if (size < (bytes))                                                                \
			return -ENOSPC;                                                            \
		otte_##type##_encode(&value, out);                                                 \
		return (bytes);                                                                    \
	}

#define TURN_FIXED(type, bytes, decode)                                                            \
	static int turn_##type(const uint8_t *in, size_t length, uint8_t *out, size_t size)        \
	{                                                                                          \
		struct otte_##type value;                                                          \
		int rc;                                                                            \
                                                                                                   \
		assert_int_equal(length, bytes);                                                   \
		assert_true(size >= (bytes));                                                      \
		rc = decode;                                                                       \
		if (!rc)                                                                           \
			otte_##type##_encode(&value, out);                                         \
		return rc;                                                                         \
	}

SAMPLE_FIXED(frame, frame, OTTE_FRAME_HEADER, frame_sample())
TURN_FIXED(frame, OTTE_FRAME_HEADER, otte_frame_decode(in, 65536, &value))
SAMPLE_FIXED(lane_request, lane_request, OTTE_LANE_REQUEST_BYTES, lane_request_sample())
SAMPLE_FIXED(marked_request, lane_request, OTTE_LANE_REQUEST_BYTES, marked_request_sample())
TURN_FIXED(lane_request, OTTE_LANE_REQUEST_BYTES, otte_lane_request_decode(in, &value))
SAMPLE_FIXED(lane_cut, lane_cut, OTTE_LANE_REQUEST_BYTES, lane_cut_sample())
TURN_FIXED(lane_cut, OTTE_LANE_REQUEST_BYTES, otte_lane_cut_decode(in, &value))
SAMPLE_FIXED(lane_answer, lane_answer, OTTE_LANE_ANSWER_BYTES, lane_answer_sample())
SAMPLE_FIXED(marked_answer, lane_answer, OTTE_LANE_ANSWER_BYTES, marked_answer_sample())
TURN_FIXED(lane_answer, OTTE_LANE_ANSWER_BYTES, otte_lane_answer_decode(in, &value))

static ssize_t encode_regions(uint8_t *out, size_t size)
{
	struct otte_regions regions = { .total = 0x6162636465666768, .count = 2, .more = 1 };
	ssize_t length = otte_regions_encode(&regions, sample_rows, out, size);

	/* A smaller frame with fewer rows is tested by itself. */
	return length > 0 && regions.count < 2 ? -ENOSPC : length;
}

static int turn_regions(const uint8_t *in, size_t length, uint8_t *out, size_t size)
{
	struct otte_region_info rows[2];
	struct otte_regions regions;
	int rc = otte_regions_decode(in, length, &regions);
	uint32_t i;

	if (rc)
		return rc;
	assert_true(regions.count <= 2);
	for (i = 0; i < regions.count; i++)
		otte_regions_row(in, i, &rows[i]);
	assert_int_equal(otte_regions_encode(&regions, rows, out, size), length);
	return 0;
}

static ssize_t encode_text(uint8_t *out, size_t size)
{
	return otte_text_encode("no!", out, size);
}

static int turn_text(const uint8_t *in, size_t length, uint8_t *out, size_t size)
{
	char text[OTTE_TEXT_MAX];
	int rc = otte_text_decode(in, length, text);

	if (!rc)
		assert_int_equal(otte_text_encode(text, out, size), length);
	return rc;
}

/* The formats whose functions look at the size. */
#define ADAPT(type, make)                                                                          \
	static ssize_t encode_##type(uint8_t *out, size_t size)                                    \
	{                                                                                          \
		struct otte_##type value = make;                                                   \
                                                                                                   \
		return otte_##type##_encode(&value, out, size);                                    \
	}                                                                                          \
                                                                                                   \
	static int turn_##type(const uint8_t *in, size_t length, uint8_t *out, size_t size)        \
	{                                                                                          \
		struct otte_##type value, poison;                                                  \
		int rc;                                                                            \
                                                                                                   \
		memset(&value, 0xa5, sizeof(value));                                               \
		memcpy(&poison, &value, sizeof(value));                                            \
		rc = otte_##type##_decode(in, length, &value);                                     \
		if (rc)                                                                            \
			assert_memory_equal(&value, &poison, sizeof(value));                       \
		else                                                                               \
			assert_int_equal(otte_##type##_encode(&value, out, size), length);         \
		return rc;                                                                         \
	}

static struct otte_proof proof_sample(void)
{
	struct otte_proof proof;

	fill(proof.mac, sizeof(proof.mac), 0x11);
	return proof;
}

static struct otte_claim claim_sample(void)
{
	struct otte_claim claim = { .client = 0x8182838485868788 };

	fill(claim.module, sizeof(claim.module), 0x61);
	return claim;
}

static struct otte_lend lend_sample(void)
{
	return (struct otte_lend){
		.type = OTTE_LEND_GRANT, .op = OTTE_WRITE, .owner = 0x01020304,
		.id = 0x1112131415161718, .region = 0x2122232425262728, .offset = 0x0132333435363738,
		.length = 0x0242434445464748, .loan = 0x5152535455565758, .uses = 0x6162636465666768,
	};
}

static struct otte_describe describe_sample(void)
{
	return (struct otte_describe){ .after = 0x0102030405060708 };
}

ADAPT(hello, hello_sample())
ADAPT(welcome, welcome_sample())
ADAPT(proof, proof_sample())
ADAPT(claim, claim_sample())
ADAPT(lend, lend_sample())
ADAPT(lane_hello, lane_hello_sample())
ADAPT(describe, describe_sample())
ADAPT(stats, stats_sample())

/* ---- The formats, byte for byte ---- */

#define IDENTITY_RULES                                                                             \
	{ 48, FREE, 0, NULL }, { 3, PRINT, 0, NULL }, { 2, PRINT_OR_ZERO, 0, NULL },               \
	{ 59, SAME, 0, NULL }
/* By what op and mark may be. */
#define REQUEST_RULES(op, mark)                                                                    \
	{ 4, SAME, 0, NULL },               /* magic */                                            \
	{ 1, op, OTTE_WRITE, NULL },                                                               \
	{ 1, AT_MOST, OTTE_PRIORITY_LOW, NULL },                                                   \
	{ 1, AT_MOST, OTTE_INTENT_STAGING_INTERNAL, NULL },                                        \
	{ 1, SAME, 0, NULL },               /* reserved */                                         \
	{ 40, FREE, 0, NULL },              /* id, epoch, region, offset, length */                \
	{ 16, mark, 0, NULL }
/* By what effect and mark may be. */
#define ANSWER_RULES(effect, mark)                                                                 \
	{ 5, SAME, 0, NULL },               /* magic, op: only a WRITE has an effect */            \
	{ 1, effect, OTTE_EFFECT_UNKNOWN, NULL },                                                  \
	{ 2, SAME, 0, NULL },               /* mask, fresh */                                      \
	{ 8, FREE, 0, NULL },               /* id */                                               \
	{ 1, FREE, 0, NULL },               /* status: -256 .. -1 */                               \
	{ 1, ONE_OF, 0, "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff" },      \
	{ 6, SAME, 0, NULL },               /* status, reserved */                                 \
	{ 8, SAME, 0, NULL },               /* length: 0 with a negative status */                 \
	{ 16, mark, 0, NULL },                                                                     \
	{ 16, SAME, 0, NULL }               /* reserved */
#define STATS_COUNT ((sizeof(struct otte_stats) - 8) / 8)

static const struct format formats[] = {
	{ "frame", encode_frame, turn_frame, true,
	  { { 6, SAME, 0, NULL },               /* magic, version */
	    { 1, ONE_OF, 0, "\x06\x09\x0a\x15" }, /* type: those that may have 8 bytes and status 0 */
	    { 1, SAME, 0, NULL },
	    { 1, ONE_OF, 0, "\x08" },           /* length */
	    { 7, SAME, 0, NULL },               /* length, status */
	    { 8, FREE, 0, NULL } } },           /* id */
	{ "HELLO", encode_hello, turn_hello, false,
	  { IDENTITY_RULES,
	    { 1, SAME, 0, NULL },               /* flags: without AUTH there is no key_id */
	    { 7, SAME, 0, NULL },               /* flags, reserved */
	    { 40, FREE, 0, NULL } } },          /* key_id, nonce */
	{ "WELCOME", encode_welcome, turn_welcome, false,
	  { IDENTITY_RULES,
	    { 8, FREE, 0, NULL },               /* session */
	    { 4, SAME, 0, NULL },               /* flags */
	    { 8, FREE, 0, NULL },               /* max_payload, max_lanes */
	    { 4, SAME, 0, NULL },               /* reserved */
	    { 64, FREE, 0, NULL } } },          /* nonce, mac */
	{ "PROOF", encode_proof, turn_proof, false, { { 32, FREE, 0, NULL } } },
	{ "CLAIM", encode_claim, turn_claim, false,
	  { { 24, FREE, 0, NULL },              /* module, client */
	    { 8, SAME, 0, NULL } } },           /* reserved */
	{ "LEND", encode_lend, turn_lend, false,
	  { { 2, SAME, 0, NULL },               /* type: no other has all of these */
	    { 1, AT_MOST, 3, NULL },            /* op */
	    { 5, SAME, 0, NULL },               /* op, status */
	    { 3, FREE, 0, NULL },               /* owner */
	    { 1, AT_MOST, 0x3f, NULL },
	    { 4, SAME, 0, NULL },               /* reserved */
	    { 16, FREE, 0, NULL },              /* id, region */
	    { 7, FREE, 0, NULL },               /* offset: the length behind it must fit */
	    { 1, AT_MOST, 0xfd, NULL },
	    { 7, FREE, 0, NULL },               /* length */
	    { 1, AT_MOST, 0xfe, NULL },
	    { 16, FREE, 0, NULL } } },          /* loan, uses */
	{ "LANE", encode_lane_hello, turn_lane_hello, false, { { 48, FREE, 0, NULL } } },
	{ "text", encode_text, turn_text, false, { { 3, PRINT, 0, NULL } } },
	{ "DESCRIBE", encode_describe, turn_describe, false, { { 8, FREE, 0, NULL } } },
	{ "REGIONS", encode_regions, turn_regions, false,
	  { { 8, FREE, 0, NULL },               /* total: far above count */
	    { 4, SAME, 0, NULL },               /* count */
	    { 1, AT_MOST, 1, NULL },            /* more */
	    { 3, SAME, 0, NULL },
	    { 7, FREE, 0, NULL },               /* first row: id below the second's */
	    { 1, AT_MOST, 1, NULL },
	    { 16, FREE, 0, NULL },              /* length, address */
	    { 1, AT_MOST, 3, NULL },            /* access */
	    { 3, SAME, 0, NULL },
	    { 1, AT_MOST, 3, NULL },            /* gpu_routes */
	    { 3, SAME, 0, NULL },
	    { 4, PRINT, 0, NULL },              /* name */
	    { 2, PRINT_OR_ZERO, 0, NULL },
	    { 58, SAME, 0, NULL } } },          /* and the second row, whose bytes tell no more */
	{ "STATS_REPLY", encode_stats, turn_stats, false,
	  { { 8, SAME, 0, NULL }, { STATS_COUNT * 8, FREE, 0, NULL } } },
	{ "lane request", encode_lane_request, turn_lane_request, true,
	  { REQUEST_RULES(AT_MOST, SAME) } },   /* of a WRITE: without a mark it may be a READ, too */
	{ "lane request with a mark", encode_marked_request, turn_lane_request, true,
	  { REQUEST_RULES(SAME, FREE) } },      /* only a READ bears one */
	{ "lane cut", encode_lane_cut, turn_lane_cut, true,
	  { { 8, SAME, 0, NULL },               /* magic, reserved */
	    { 56, FREE, 0, NULL } } },          /* last, which is not 0; live */
	{ "lane answer", encode_lane_answer, turn_lane_answer, true,
	  { ANSWER_RULES(AT_MOST, SAME) } },    /* of a WRITE: it has no mark, mask or fresh */
	{ "lane answer with a mark", encode_marked_answer, turn_lane_answer, true,
	  { ANSWER_RULES(SAME, FREE) } },       /* of a READ: it has no effect */
};

/* A copy of `length` bytes that ends where reading faults. */
static uint8_t *at_the_edge(const uint8_t *bytes, size_t length)
{
	static uint8_t *page;

	if (!page) {
		page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(page, MAP_FAILED);
		assert_return_code(mprotect(page + 4096, 4096, PROT_NONE), errno);
	}
	assert_true(length <= 4096);
	memmove(page + 4096 - length, bytes, length);
	return page + 4096 - length;
}

static size_t sample_of(const struct format *format, uint8_t *out)
{
	ssize_t length = format->sample(out, BUFFER);

	assert_true(length > 0);
	return (size_t)length;
}

static void what_is_encoded_decodes_to_the_same(void **state)
{
	uint8_t sample[BUFFER], other[BUFFER], back[BUFFER];
	size_t i, length;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(formats); i++) {
		memset(sample, 0xaa, sizeof(sample));
		memset(other, 0x55, sizeof(other));
		memset(back, 0xcc, sizeof(back));
		length = sample_of(&formats[i], sample);
		assert_int_equal(sample_of(&formats[i], other), length);
		assert_memory_equal(sample, other, length); /* no byte left as it was */
		assert_int_equal(sample[length], 0xaa);     /* none beyond touched */
		assert_int_equal(formats[i].turn(at_the_edge(sample, length), length, back,
						 sizeof(back)),
				 0);
		assert_memory_equal(sample, back, length);
	}
}

static void an_encoder_writes_nothing_where_its_message_does_not_fit(void **state)
{
	uint8_t sample[BUFFER], out[BUFFER], poison[BUFFER];
	size_t i, length, size;

	(void)state;
	memset(poison, 0xaa, sizeof(poison));
	for (i = 0; i < ARRAY_SIZE(formats); i++) {
		length = sample_of(&formats[i], sample);
		for (size = 0; size < length; size++) {
			memcpy(out, poison, sizeof(out));
			assert_int_equal(formats[i].sample(out, size), -ENOSPC);
			assert_memory_equal(out + size, poison + size, sizeof(out) - size);
		}
		assert_int_equal(formats[i].sample(out, length), length);
	}
}

static void a_decoder_refuses_every_other_length(void **state)
{
	uint8_t sample[BUFFER], out[BUFFER];
	size_t i, length, cut;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(formats); i++) {
		if (formats[i].fixed || !strcmp(formats[i].name, "text"))
			continue;
		memset(sample, 0, sizeof(sample));
		length = sample_of(&formats[i], sample);
		for (cut = 0; cut <= length + 100; cut++) {
			int rc = formats[i].turn(at_the_edge(sample, cut), cut, out, sizeof(out));

			assert_int_equal(rc, cut == length ? 0 : -EPROTO);
			if (rc)
				assert_non_null(strstr(otte_error_text(), formats[i].name));
		}
	}
}

static bool accepts(const struct rule *rule, uint8_t sample, unsigned value)
{
	switch (rule->accept) {
	case FREE:
		return true;
	case SAME:
		return value == sample;
	case AT_MOST:
		return value <= rule->limit;
	case PRINT:
		return value >= 0x20 && value < 0x7f;
	case PRINT_OR_ZERO:
		return !value || (value >= 0x20 && value < 0x7f);
	case ONE_OF:
		return value && strchr(rule->set, (int)(char)value);
	}
	return false;
}

static void check_byte(const struct format *format, const struct rule *rule, const uint8_t *sample,
		       size_t length, size_t at)
{
	uint8_t changed[BUFFER], back[BUFFER];
	unsigned value;
	int rc;

	memcpy(changed, sample, length);
	for (value = 0; value < 256; value++) {
		changed[at] = (uint8_t)value;
		rc = format->turn(at_the_edge(changed, length), length, back, sizeof(back));
		if ((rc == 0) != accepts(rule, sample[at], value))
			fail_msg("%s: byte %zu = 0x%02x gave %d (%s)", format->name, at, value, rc,
				 rc ? otte_error_text() : "accepted");
		if (!rc)
			assert_memory_equal(back, changed, length);
	}
}

/* All 256 values in each byte: reserved, enum, size and string fields, and the free ones too. */
static void a_decoder_takes_exactly_the_values_that_a_field_can_have(void **state)
{
	uint8_t sample[BUFFER];
	size_t i, j, k, at, length;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(formats); i++) {
		length = sample_of(&formats[i], sample);
		at = 0;
		for (j = 0; j < ARRAY_SIZE(formats[i].rules); j++)
			for (k = 0; k < formats[i].rules[j].bytes; k++)
				check_byte(&formats[i], &formats[i].rules[j], sample, length, at++);
		if (strcmp(formats[i].name, "REGIONS"))
			assert_int_equal(at, length); /* the table leaves no byte out */
		else
			assert_int_equal(at, OTTE_REGIONS_HEADER + OTTE_REGION_ROW_BYTES);
	}
}

int run_wire_format_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_encoded_decodes_to_the_same),
		cmocka_unit_test(an_encoder_writes_nothing_where_its_message_does_not_fit),
		cmocka_unit_test(a_decoder_refuses_every_other_length),
		cmocka_unit_test(a_decoder_takes_exactly_the_values_that_a_field_can_have),
	};

	return cmocka_run_group_tests_name("wire formats", tests, NULL, NULL);
}
