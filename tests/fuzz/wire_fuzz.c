/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The decoders of everything that comes from a peer, on the wire or as a line of text. The first byte
 * selects one, the rest is its input.
 * Whatever a decoder accepts must encode to the same bytes again: then no two inputs mean the same,
 * and nothing that a peer sent is lost or invented on the way through a struct.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "control/descriptor.h"
#include "control/endpoint.h"
#include "control/wire.h"

#define MAX_PAYLOAD 65536

static uint8_t out[MAX_PAYLOAD];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const char *what, const uint8_t *in, size_t length, ssize_t encoded)
{
	if (encoded == (ssize_t)length && !memcmp(in, out, length))
		return;
	fprintf(stderr, "%s: %zu bytes became %zd, or others\n", what, length, encoded);
	abort();
}

static void frame(const uint8_t *in, size_t length)
{
	struct otte_frame got;

	if (length != OTTE_FRAME_HEADER || otte_frame_decode(in, MAX_PAYLOAD, &got))
		return;
	if (got.length > MAX_PAYLOAD)
		abort();
	otte_frame_encode(&got, out);
	same("frame", in, length, OTTE_FRAME_HEADER);
}

#define DECODER(type)                                                                              \
	static void type(const uint8_t *in, size_t length)                                         \
	{                                                                                          \
		struct otte_##type got;                                                            \
                                                                                                   \
		if (!otte_##type##_decode(in, length, &got))                                       \
			same(#type, in, length, otte_##type##_encode(&got, out, sizeof(out)));     \
	}

DECODER(hello)
DECODER(welcome)
DECODER(proof)
DECODER(lane_hello)
DECODER(describe)
DECODER(claim)
DECODER(lend)

static void text(const uint8_t *in, size_t length)
{
	char got[OTTE_TEXT_MAX];

	if (!otte_text_decode(in, length, got))
		same("text", in, length, otte_text_encode(got, out, sizeof(out)));
}

static void regions(const uint8_t *in, size_t length)
{
	static struct otte_region_info rows[MAX_PAYLOAD / OTTE_REGION_ROW_BYTES];
	struct otte_regions got;
	uint32_t i;

	if (length > MAX_PAYLOAD || otte_regions_decode(in, length, &got))
		return;
	for (i = 0; i < got.count; i++)
		otte_regions_row(in, i, &rows[i]);
	same("regions", in, length, otte_regions_encode(&got, rows, out, sizeof(out)));
}

/* A peer of another version has fewer or more values: those that both know must survive. */
static void stats(const uint8_t *in, size_t length)
{
	struct otte_stats got;
	ssize_t encoded;

	if (length > MAX_PAYLOAD || otte_stats_decode(in, length, &got))
		return;
	encoded = otte_stats_encode(&got, out, sizeof(out));
	if (encoded < 8 || memcmp(in + 8, out + 8, min_u64(length, (uint64_t)encoded) - 8))
		abort();
	if ((size_t)encoded == length)
		same("stats", in, length, encoded);
}

static void lane_request(const uint8_t *in, size_t length)
{
	struct otte_lane_request got;

	if (length != OTTE_LANE_REQUEST_BYTES || otte_lane_request_decode(in, &got))
		return;
	otte_lane_request_encode(&got, out);
	same("lane request", in, length, OTTE_LANE_REQUEST_BYTES);
}

static void lane_cut(const uint8_t *in, size_t length)
{
	struct otte_lane_cut got;

	if (length != OTTE_LANE_REQUEST_BYTES || otte_lane_cut_decode(in, &got))
		return;
	otte_lane_cut_encode(&got, out);
	same("lane cut", in, length, OTTE_LANE_REQUEST_BYTES);
}

static void lane_answer(const uint8_t *in, size_t length)
{
	struct otte_lane_answer got;

	if (length != OTTE_LANE_ANSWER_BYTES || otte_lane_answer_decode(in, &got))
		return;
	otte_lane_answer_encode(&got, out);
	same("lane answer", in, length, OTTE_LANE_ANSWER_BYTES);
}

/* The input as a string of its own, in a block that ends with it. */
static char *string(const uint8_t *in, size_t length)
{
	char *text = malloc(length + 1);

	if (!text)
		abort();
	if (length)
		memcpy(text, in, length);
	text[length] = '\0';
	return text;
}

static void endpoint(const uint8_t *in, size_t length)
{
	char *text = string(in, length);
	struct otte_endpoint got;

	if (!otte_endpoint_parse(text, 0, &got))
		same("endpoint", in, strlen(text),
		     otte_endpoint_format(&got, (char *)out, OTTE_ADDRESS_MAX) ?
			     -1 :
			     (ssize_t)strlen((char *)out));
	if (!otte_endpoint_parse(text, 1, &got) && otte_descriptor_is(text))
		abort();
	free(text);
}

static void descriptor(const uint8_t *in, size_t length)
{
	char *text = string(in, length);
	struct otte_descriptor got;

	if (!otte_descriptor_decode(text, &got)) {
		if (!otte_descriptor_is(text))
			abort();
		same("descriptor", in, strlen(text),
		     otte_descriptor_encode(&got, (char *)out, OTTE_DESCRIPTOR_MAX) ?
			     -1 :
			     (ssize_t)strlen((char *)out));
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* New ones go to the end: the corpus names them by number. */
	static void (*const decoders[])(const uint8_t *, size_t) = {
		frame,    hello,   welcome, proof,        lane_hello,  text,
		describe, regions, stats, lane_request, lane_answer, endpoint, descriptor,
		claim,    lend,    lane_cut,
	};

	if (size)
		decoders[data[0] % ARRAY_SIZE(decoders)](data + 1, size - 1);
	return 0;
}
