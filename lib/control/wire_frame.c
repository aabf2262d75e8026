/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frame headers, and the one payload that any frame can have: a text. */
#include "control/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/line.h"
#include "control/le.h"
#include "control/wire_private.h"

#define TEXT_BYTES (OTTE_TEXT_MAX - 1)
#define UNBOUNDED UINT32_MAX /* but by the receiver's max_payload */

_Static_assert(OTTE_FRAME_HEADER == 4 + 2 + 2 + 4 + 4 + 8, "frame header layout");

static const struct frame_kind {
	const char *name;
	uint32_t min, max; /* bytes of payload with status 0 */
	bool answer;       /* may have a status */
} kinds[] = {
	[OTTE_FRAME_HELLO] = { "HELLO", OTTE_HELLO_BYTES, OTTE_HELLO_BYTES, false },
	[OTTE_FRAME_WELCOME] = { "WELCOME", OTTE_WELCOME_BYTES, OTTE_WELCOME_BYTES, true },
	[OTTE_FRAME_PROOF] = { "PROOF", OTTE_PROOF_BYTES, OTTE_PROOF_BYTES, false },
	[OTTE_FRAME_READY] = { "READY", 0, 0, true },
	[OTTE_FRAME_ERROR] = { "ERROR", 0, TEXT_BYTES, true },
	[OTTE_FRAME_DESCRIBE] = { "DESCRIBE", 8, 8, false },
	[OTTE_FRAME_REGIONS] = { "REGIONS", OTTE_REGIONS_HEADER, UNBOUNDED, true },
	[OTTE_FRAME_STATS] = { "STATS", 0, 0, false },
	[OTTE_FRAME_STATS_REPLY] = { "STATS_REPLY", 8, UNBOUNDED, true },
	[OTTE_FRAME_NOTIFY] = { "NOTIFY", 1, OTTE_NOTIFY_MAX, false },
	[OTTE_FRAME_NOTIFIED] = { "NOTIFIED", 0, 0, true },
	[OTTE_FRAME_PING] = { "PING", 0, 0, false },
	[OTTE_FRAME_PONG] = { "PONG", 0, 0, true },
	[OTTE_FRAME_LANE] = { "LANE", OTTE_LANE_HELLO_BYTES, OTTE_LANE_HELLO_BYTES, false },
	[OTTE_FRAME_LANE_READY] = { "LANE_READY", 0, 0, true },
	[OTTE_FRAME_BYE] = { "BYE", 0, 0, false },
	[OTTE_FRAME_CLAIM] = { "CLAIM", OTTE_CLAIM_BYTES, OTTE_CLAIM_BYTES, false },
	[OTTE_FRAME_LANE_LEND] = { "LANE_LEND", OTTE_LANE_HELLO_BYTES, OTTE_LANE_HELLO_BYTES, false },
	[OTTE_FRAME_LEND] = { "LEND", OTTE_LEND_BYTES, OTTE_LEND_BYTES, false },
	[OTTE_FRAME_LANE_RDMA] = { "LANE_RDMA", OTTE_LANE_HELLO_BYTES, OTTE_LANE_HELLO_BYTES, false },
	[OTTE_FRAME_RDMA] = { "RDMA", 1, OTTE_RDMA_FRAME_MAX, false },
};

uint16_t otte_lane_frame(enum otte_lane_kind kind)
{
	static const uint16_t types[] = {
		[OTTE_LANE_BYTES] = OTTE_FRAME_LANE,
		[OTTE_LANE_LEND] = OTTE_FRAME_LANE_LEND,
		[OTTE_LANE_RDMA] = OTTE_FRAME_LANE_RDMA,
	};

	return types[kind];
}

void otte_frame_encode(const struct otte_frame *frame, uint8_t out[OTTE_FRAME_HEADER])
{
	uint8_t *at = out;

	at = put_le32(at, OTTE_WIRE_MAGIC);
	at = put_le16(at, OTTE_WIRE_VERSION);
	at = put_le16(at, frame->type);
	at = put_le32(at, frame->length);
	at = put_le32(at, (uint32_t)frame->status);
	put_le64(at, frame->id);
}

static int check_status(const struct frame_kind *kind, const struct otte_frame *frame)
{
	int rc = otte_wire_status(kind->name, frame->status);

	if (rc)
		return rc;
	if (frame->status && !kind->answer)
		return otte_fail(-EPROTO, "%s: status is %" PRId32 ", not 0", kind->name,
				 frame->status);
	if (!frame->status && frame->type == OTTE_FRAME_ERROR)
		return otte_fail(-EPROTO, "ERROR: status is 0");
	return 0;
}

static int check_length(const struct frame_kind *kind, const struct otte_frame *frame,
			uint32_t max_payload)
{
	uint32_t min = frame->status ? 0 : kind->min;
	uint32_t max = frame->status ? TEXT_BYTES : kind->max;

	if (frame->length > max_payload)
		return otte_fail(-EMSGSIZE, "%s: length is %" PRIu32 ", above the limit %" PRIu32,
				 kind->name, frame->length, max_payload);
	if (frame->length < min || frame->length > max)
		return otte_fail(-EPROTO, "%s: length is %" PRIu32 ", not %" PRIu32 " to %" PRIu32,
				 kind->name, frame->length, min, max);
	return 0;
}

/* The version comes before everything that a version may change. */
static const uint8_t *decode_version(const uint8_t *at, int *rc)
{
	uint32_t magic;
	uint16_t version;

	at = get_le32(at, &magic);
	at = get_le16(at, &version);
	*rc = 0;
	if (magic != OTTE_WIRE_MAGIC)
		*rc = otte_fail(-EPROTO,
				"not a peer of otte: frame: magic is 0x%08" PRIx32 ", not 0x%08x", magic,
				OTTE_WIRE_MAGIC);
	else if (version != OTTE_WIRE_VERSION)
		*rc = otte_fail(-EPROTONOSUPPORT, "the peer speaks wire version %u, this library %u",
				version, OTTE_WIRE_VERSION);
	return at;
}

int otte_frame_decode(const uint8_t in[OTTE_FRAME_HEADER], uint32_t max_payload,
		      struct otte_frame *frame)
{
	struct otte_frame got;
	const uint8_t *at;
	uint32_t status;
	int rc;

	at = decode_version(in, &rc);
	if (rc)
		return rc;
	at = get_le16(at, &got.type);
	at = get_le32(at, &got.length);
	at = get_le32(at, &status);
	get_le64(at, &got.id);
	got.status = (int32_t)status;

	if (got.type >= ARRAY_SIZE(kinds) || !kinds[got.type].name)
		return otte_fail(-EPROTO, "frame: type is %u, which is unknown", got.type);
	rc = check_status(&kinds[got.type], &got);
	if (!rc)
		rc = check_length(&kinds[got.type], &got, max_payload);
	if (!rc)
		*frame = got;
	return rc;
}

ssize_t otte_text_encode(const char *text, uint8_t *out, size_t size)
{
	char line[OTTE_TEXT_MAX];
	size_t length = otte_line_escape(line, sizeof(line), text);
	int rc = otte_wire_room("text", size, length);

	if (rc)
		return rc;
	memcpy(out, line, length);
	return (ssize_t)length;
}

int otte_text_decode(const uint8_t *in, size_t length, char text[OTTE_TEXT_MAX])
{
	int rc = otte_wire_at_most("text", "length", length, TEXT_BYTES);
	ssize_t fault;

	if (rc)
		return rc;
	fault = otte_line_fault((const char *)in, length);
	if (fault >= 0)
		return otte_fail(-EPROTO, "text: 0x%02x at byte %zd is not printable UTF-8", in[fault],
				 fault);
	if (length)
		memcpy(text, in, length);
	text[length] = '\0';
	return 0;
}
