/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lane requests and answers. Regions, ranges and epochs are for the source engine to judge. */
#include "control/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "control/le.h"
#include "control/wire_private.h"

#define ANSWER_RESERVED 2

_Static_assert(OTTE_LANE_REQUEST_BYTES == 4 + 4 * 1 + 5 * 8 + 2 * 8, "lane request layout");
_Static_assert(OTTE_LANE_REQUEST_BYTES == OTTE_LANE_MARK_AT + 2 * 8, "the mark comes last");
_Static_assert(OTTE_LANE_ANSWER_BYTES == 4 + 4 * 1 + 8 + 4 + 4 + 8 + 4 * 8, "lane answer layout");

static int check_magic(const char *what, uint32_t magic)
{
	if (magic == OTTE_LANE_MAGIC)
		return 0;
	return otte_fail(-EPROTO, "%s: magic is 0x%08" PRIx32 ", not 0x%08x", what, magic,
			 OTTE_LANE_MAGIC);
}

void otte_lane_request_encode(const struct otte_lane_request *request,
			      uint8_t out[OTTE_LANE_REQUEST_BYTES])
{
	uint8_t *at = out;

	at = put_le32(at, OTTE_LANE_MAGIC);
	at = put_u8(at, request->op);
	at = put_u8(at, request->priority);
	at = put_u8(at, request->intent);
	at = put_u8(at, 0);
	at = put_le64(at, request->id);
	at = put_le64(at, request->epoch);
	at = put_le64(at, request->region);
	at = put_le64(at, request->offset);
	put_le64(at, request->length);
	otte_lane_request_mark(out, request->mark);
}

void otte_lane_request_mark(uint8_t out[OTTE_LANE_REQUEST_BYTES], const uint64_t mark[2])
{
	put_le64(put_le64(out + OTTE_LANE_MARK_AT, mark[0]), mark[1]);
}

static int check_mark(const struct otte_lane_request *request)
{
	if (!(request->mark[0] | request->mark[1]))
		return 0;
	if (request->op == OTTE_READ && request->length > OTTE_LANE_ANSWER_BYTES)
		return 0;
	return otte_fail(-EPROTO, "lane request: a mark with op %u and length %" PRIu64, request->op,
			 request->length);
}

static int check_request(const struct otte_lane_request *request)
{
	int rc = otte_wire_at_most("lane request", "op", request->op, OTTE_WRITE);

	if (!rc)
		rc = otte_wire_at_most("lane request", "priority", request->priority,
				       OTTE_PRIORITY_LOW);
	if (!rc)
		rc = otte_wire_at_most("lane request", "intent", request->intent,
				       OTTE_INTENT_STAGING_INTERNAL);
	if (!rc)
		rc = otte_wire_not_zero("lane request", "length", request->length);
	if (!rc)
		rc = check_mark(request);
	return rc;
}

int otte_lane_request_decode(const uint8_t in[OTTE_LANE_REQUEST_BYTES],
			     struct otte_lane_request *request)
{
	struct otte_lane_request got;
	const uint8_t *at;
	uint8_t reserved8;
	uint32_t magic;
	int rc;

	at = get_le32(in, &magic);
	at = get_u8(at, &got.op);
	at = get_u8(at, &got.priority);
	at = get_u8(at, &got.intent);
	at = get_u8(at, &reserved8);
	at = get_le64(at, &got.id);
	at = get_le64(at, &got.epoch);
	at = get_le64(at, &got.region);
	at = get_le64(at, &got.offset);
	at = get_le64(at, &got.length);
	at = get_le64(at, &got.mark[0]);
	get_le64(at, &got.mark[1]);

	rc = check_magic("lane request", magic);
	if (!rc)
		rc = check_request(&got);
	if (!rc)
		rc = otte_wire_zero("lane request", "reserved", reserved8);
	if (!rc)
		*request = got;
	return rc;
}

_Static_assert(OTTE_LANE_REQUEST_BYTES == 4 + 4 + 8 + OTTE_LANE_CUT_LIVE, "lane cut layout");

void otte_lane_cut_encode(const struct otte_lane_cut *cut, uint8_t out[OTTE_LANE_REQUEST_BYTES])
{
	uint8_t *at = out;

	at = put_le32(at, OTTE_LANE_CUT_MAGIC);
	at = put_le32(at, 0);
	at = put_le64(at, cut->last);
	put_bytes(at, cut->live, sizeof(cut->live));
}

int otte_lane_cut_decode(const uint8_t in[OTTE_LANE_REQUEST_BYTES], struct otte_lane_cut *cut)
{
	struct otte_lane_cut got;
	uint32_t magic, reserved;
	const uint8_t *at;
	int rc;

	at = get_le32(in, &magic);
	at = get_le32(at, &reserved);
	at = get_le64(at, &got.last);
	get_bytes(at, got.live, sizeof(got.live));
	if (magic != OTTE_LANE_CUT_MAGIC)
		return otte_fail(-EPROTO, "lane cut: magic is 0x%08" PRIx32 ", not 0x%08x", magic,
				 OTTE_LANE_CUT_MAGIC);
	rc = otte_wire_zero("lane cut", "reserved", reserved);
	if (!rc)
		rc = otte_wire_not_zero("lane cut", "last", got.last);
	if (!rc)
		*cut = got;
	return rc;
}

void otte_lane_cut_spare(struct otte_lane_cut *cut, uint64_t counter)
{
	uint64_t behind = cut->last - counter;

	if (counter <= cut->last && behind < 8 * OTTE_LANE_CUT_LIVE)
		cut->live[behind / 8] |= (uint8_t)(1u << behind % 8);
}

bool otte_lane_cut_ends(const struct otte_lane_cut *cut, uint64_t counter)
{
	uint64_t behind = cut->last - counter;

	if (counter > cut->last)
		return false;
	return behind >= 8 * OTTE_LANE_CUT_LIVE || !(cut->live[behind / 8] & 1u << behind % 8);
}

void otte_lane_answer_encode(const struct otte_lane_answer *answer,
			     uint8_t out[OTTE_LANE_ANSWER_BYTES])
{
	uint8_t *at = out;

	at = put_le32(at, OTTE_LANE_MAGIC);
	at = put_u8(at, answer->op);
	at = put_u8(at, answer->effect);
	at = put_u8(at, answer->mask);
	at = put_u8(at, answer->fresh);
	at = put_le64(at, answer->id);
	at = put_le32(at, (uint32_t)answer->status);
	at = put_le32(at, 0);
	at = put_le64(at, answer->length);
	at = put_le64(at, answer->mark[0]);
	at = put_le64(at, answer->mark[1]);
	memset(at, 0, ANSWER_RESERVED * sizeof(uint64_t));
}

static int check_answer(const struct otte_lane_answer *answer)
{
	int rc = otte_wire_at_most("lane answer", "op", answer->op, OTTE_WRITE);

	if (!rc)
		rc = otte_wire_at_most("lane answer", "effect", answer->effect,
				       OTTE_EFFECT_UNKNOWN);
	if (!rc)
		rc = otte_wire_status("lane answer", answer->status);
	if (rc)
		return rc;
	if (answer->mask && (answer->op != OTTE_READ || answer->status))
		return otte_fail(-EPROTO, "lane answer: mask is 0x%x with op %u and status %" PRId32,
				 answer->mask, answer->op, answer->status);
	if (answer->fresh & ~answer->mask)
		return otte_fail(-EPROTO, "lane answer: fresh is 0x%x with mask 0x%x", answer->fresh,
				 answer->mask);
	if (answer->effect != OTTE_EFFECT_NONE && (answer->op != OTTE_WRITE || !answer->status))
		return otte_fail(-EPROTO, "lane answer: effect is %u with op %u and status %" PRId32,
				 answer->effect, answer->op, answer->status);
	if ((answer->mark[0] | answer->mark[1]) && (answer->op != OTTE_READ || !answer->status))
		return otte_fail(-EPROTO, "lane answer: a mark with op %u and status %" PRId32,
				 answer->op, answer->status);
	if (answer->status)
		return otte_wire_zero("lane answer", "length", answer->length);
	return otte_wire_not_zero("lane answer", "length", answer->length);
}

int otte_lane_answer_decode(const uint8_t in[OTTE_LANE_ANSWER_BYTES],
			    struct otte_lane_answer *answer)
{
	uint32_t magic, status, reserved32;
	struct otte_lane_answer got;
	uint64_t reserved, any = 0;
	const uint8_t *at;
	size_t i;
	int rc;

	at = get_le32(in, &magic);
	at = get_u8(at, &got.op);
	at = get_u8(at, &got.effect);
	at = get_u8(at, &got.mask);
	at = get_u8(at, &got.fresh);
	at = get_le64(at, &got.id);
	at = get_le32(at, &status);
	at = get_le32(at, &reserved32);
	at = get_le64(at, &got.length);
	at = get_le64(at, &got.mark[0]);
	at = get_le64(at, &got.mark[1]);
	for (i = 0; i < ANSWER_RESERVED; i++) {
		at = get_le64(at, &reserved);
		any |= reserved;
	}
	got.status = (int32_t)status;

	rc = check_magic("lane answer", magic);
	if (!rc)
		rc = check_answer(&got);
	if (!rc)
		rc = otte_wire_zero("lane answer", "reserved32", reserved32);
	if (!rc)
		rc = otte_wire_zero("lane answer", "reserved", any);
	if (!rc)
		*answer = got;
	return rc;
}
