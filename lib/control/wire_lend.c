/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* LEND frames. Whether what they name is lent at all is for their receiver, and for the module, to judge. */
#include "control/wire.h"

#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "base/uses.h"
#include "control/le.h"
#include "control/wire_private.h"

_Static_assert(OTTE_LEND_BYTES == 2 * 2 + 3 * 4 + 6 * 8, "LEND layout");

ssize_t otte_lend_encode(const struct otte_lend *lend, uint8_t *out, size_t size)
{
	int rc = otte_wire_room("LEND", size, OTTE_LEND_BYTES);
	uint8_t *at = out;

	if (rc)
		return rc;
	at = put_le16(at, lend->type);
	at = put_le16(at, lend->op);
	at = put_le32(at, (uint32_t)lend->status);
	at = put_le32(at, lend->owner);
	at = put_le32(at, 0);
	at = put_le64(at, lend->id);
	at = put_le64(at, lend->region);
	at = put_le64(at, lend->offset);
	at = put_le64(at, lend->length);
	at = put_le64(at, lend->loan);
	at = put_le64(at, lend->uses);
	return at - out;
}

/* What was lent: all of it is there. */
static int check_lent(const struct otte_lend *lend)
{
	int rc = otte_wire_not_zero("LEND", "id", lend->id);

	if (!rc)
		rc = otte_wire_not_zero("LEND", "owner", lend->owner);
	if (!rc)
		rc = otte_wire_at_most("LEND", "owner", lend->owner, OTTE_USES_OWNER_MAX);
	if (!rc)
		rc = otte_wire_not_zero("LEND", "length", lend->length);
	if (!rc && lend->offset + lend->length < lend->length)
		rc = otte_fail(-EPROTO, "LEND: %" PRIu64 " bytes at %" PRIu64, lend->length, lend->offset);
	if (!rc)
		rc = otte_wire_not_zero("LEND", "loan", lend->loan);
	if (!rc)
		rc = otte_wire_not_zero("LEND", "uses", lend->uses);
	return rc;
}

/* Everything that only a GRANT of status 0 has. */
static int check_nothing_lent(const struct otte_lend *lend)
{
	int rc = otte_wire_zero("LEND", "owner", lend->owner);

	if (!rc)
		rc = otte_wire_zero("LEND", "loan", lend->loan);
	if (!rc)
		rc = otte_wire_zero("LEND", "uses", lend->uses);
	return rc;
}

static int check_range_unset(const struct otte_lend *lend)
{
	int rc = otte_wire_zero("LEND", "offset", lend->offset);

	return rc ? rc : otte_wire_zero("LEND", "length", lend->length);
}

static int check_grant(const struct otte_lend *lend)
{
	int rc = otte_wire_status("LEND", lend->status);

	if (!rc)
		rc = otte_wire_at_most("LEND", "op", lend->op, OTTE_WRITE | OTTE_LEND_MAPPED);
	if (rc)
		return rc;
	if (!lend->status)
		return check_lent(lend);
	rc = check_nothing_lent(lend);
	if (!rc)
		rc = otte_wire_zero("LEND", "id", lend->id);
	return rc ? rc : check_range_unset(lend);
}

/* But for a GRANT, which alone has a status. */
static int check_plain(const struct otte_lend *lend)
{
	int rc = otte_wire_zero("LEND", "status", (uint32_t)lend->status);

	if (!rc)
		rc = check_nothing_lent(lend);
	if (rc || lend->type == OTTE_LEND_COUNT)
		return rc ? rc : otte_wire_zero("LEND", "region", lend->region | lend->op);
	rc = check_range_unset(lend);
	if (rc)
		return rc;
	if (lend->type != OTTE_LEND_ASK)
		return otte_wire_zero("LEND", "region", lend->region | lend->op);
	rc = otte_wire_at_most("LEND", "op", lend->op, OTTE_WRITE | OTTE_LEND_MAPPED);
	return rc ? rc : otte_wire_zero("LEND", "id", lend->id);
}

int otte_lend_decode(const uint8_t *in, size_t length, struct otte_lend *lend)
{
	int rc = otte_wire_length("LEND", length, OTTE_LEND_BYTES);
	uint32_t status, reserved;
	struct otte_lend got;
	const uint8_t *at;

	if (rc)
		return rc;
	at = get_le16(in, &got.type);
	at = get_le16(at, &got.op);
	at = get_le32(at, &status);
	at = get_le32(at, &got.owner);
	at = get_le32(at, &reserved);
	at = get_le64(at, &got.id);
	at = get_le64(at, &got.region);
	at = get_le64(at, &got.offset);
	at = get_le64(at, &got.length);
	at = get_le64(at, &got.loan);
	get_le64(at, &got.uses);
	got.status = (int32_t)status;

	rc = otte_wire_zero("LEND", "reserved", reserved);
	if (!rc)
		rc = otte_wire_not_zero("LEND", "type", got.type);
	if (!rc)
		rc = otte_wire_at_most("LEND", "type", got.type, OTTE_LEND_COUNT);
	if (!rc)
		rc = got.type == OTTE_LEND_GRANT ? check_grant(&got) : check_plain(&got);
	if (!rc)
		*lend = got;
	return rc;
}
