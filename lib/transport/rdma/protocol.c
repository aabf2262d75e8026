/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/protocol.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "control/le.h"
#include "control/wire_private.h"
#include "transport/rdma/discovery.h"

#define HEADER 8
#define PATHS_BYTES (HEADER + 16)
#define ROW_BYTES 40
#define MTU_MIN 256
#define MTU_MAX 4096
#define RD_ATOMIC_MAX 255 /* a byte in the attributes of a QP */

_Static_assert(PATHS_BYTES + OTTE_NIC_IDS * ROW_BYTES <= OTTE_RDMA_FRAME_MAX,
	       "each fits into a frame");

static const struct kind {
	const char *name;
	uint32_t bytes; /* of PATHS without its rows */
} kinds[] = {
	[OTTE_RDMA_MSG_PATHS] = { "PATHS", PATHS_BYTES },
	[OTTE_RDMA_MSG_CONNECT] = { "CONNECT", HEADER + 3 * 8 + 4 + 5 * 4 },
	[OTTE_RDMA_MSG_CONNECTED] = { "CONNECTED", HEADER + 8 + 6 * 4 },
	[OTTE_RDMA_MSG_ASK] = { "ASK", HEADER + 6 * 8 + 8 },
	[OTTE_RDMA_MSG_GRANT] = { "GRANT", HEADER + 3 * 8 + 2 * 4 + 16 },
	[OTTE_RDMA_MSG_REFUSED] = { "REFUSED", HEADER + 8 + 8 },
	[OTTE_RDMA_MSG_DONE] = { "DONE", HEADER + 2 * 8 + 8 },
	[OTTE_RDMA_MSG_ACK] = { "ACK", HEADER + 2 * 8 },
	[OTTE_RDMA_MSG_READY] = { "READY", HEADER + 2 * 8 },
	[OTTE_RDMA_MSG_CANCEL] = { "CANCEL", HEADER + 8 },
	[OTTE_RDMA_MSG_CLOSE] = { "CLOSE", HEADER + 8 + 8 },
	[OTTE_RDMA_MSG_LEASE] = { "LEASE", HEADER + 6 * 8 + 8 },
	[OTTE_RDMA_MSG_LEASED] = { "LEASED", HEADER + 3 * 8 + 4 * 4 },
	[OTTE_RDMA_MSG_RENEW] = { "RENEW", HEADER + 3 * 8 },
	[OTTE_RDMA_MSG_RECALL] = { "RECALL", HEADER + 8 },
	[OTTE_RDMA_MSG_RETURN] = { "RETURN", HEADER + 3 * 8 },
	[OTTE_RDMA_MSG_ENDED] = { "ENDED", HEADER + 8 },
};

/* ---- Rules, each of a decoded struct ---- */

static int check_number(const char *what, const char *field, uint32_t number)
{
	int rc = otte_wire_not_zero(what, field, number);

	return rc ? rc : otte_wire_at_most(what, field, number, OTTE_RDMA_NUMBER_MAX);
}

static int check_mtu(const char *what, uint32_t bytes)
{
	if (bytes >= MTU_MIN && bytes <= MTU_MAX && !(bytes & (bytes - 1)))
		return 0;
	return otte_fail(-EPROTO, "%s: mtu_bytes is %" PRIu32 ", no power of two of %d to %d", what,
			 bytes, MTU_MIN, MTU_MAX);
}

/* A status that says why not. */
static int check_failure(const char *what, int32_t status)
{
	return status ? otte_wire_status(what, status) : otte_wire_not_zero(what, "status", 0);
}

static int check_path(const struct otte_rdma_path *path)
{
	int rc = otte_wire_at_most("PATHS", "nic", path->nic, OTTE_NIC_IDS - 1);

	if (!rc)
		rc = otte_wire_not_zero("PATHS", "port", path->port);
	if (!rc)
		rc = otte_wire_at_most("PATHS", "gid_type", path->gid_type, OTTE_RDMA_GID_ROCE_V2);
	if (!rc)
		rc = otte_wire_at_most("PATHS", "ethernet", path->ethernet, 1);
	if (!rc)
		rc = otte_wire_at_most("PATHS", "active", path->active, 1);
	if (!rc)
		rc = check_mtu("PATHS", path->mtu_bytes);
	if (!rc)
		rc = otte_wire_not_zero("PATHS", "pd", path->pd);
	return rc;
}

static int check_paths(const struct otte_rdma_paths *paths)
{
	int rc = otte_wire_not_zero("PATHS", "grants", paths->grants);
	uint32_t i;

	if (!rc && paths->chunk_bytes && paths->chunk_bytes < OTTE_RDMA_CHUNK_MIN)
		rc = otte_fail(-EPROTO, "PATHS: chunk_bytes is %" PRIu32 ", below %u",
			       paths->chunk_bytes, OTTE_RDMA_CHUNK_MIN);
	for (i = 0; i < paths->count && !rc; i++) {
		rc = check_path(&paths->rows[i]);
		if (!rc && i && paths->rows[i].nic <= paths->rows[i - 1].nic)
			rc = otte_fail(-EPROTO, "PATHS: nic %u comes after %u", paths->rows[i].nic,
				       paths->rows[i - 1].nic);
	}
	return rc;
}

static int check_connect(const struct otte_rdma_connect *connect)
{
	int rc = otte_wire_not_zero("CONNECT", "connection", connect->connection);

	if (!rc)
		rc = otte_wire_not_zero("CONNECT", "source_pd", connect->source_pd);
	if (!rc)
		rc = otte_wire_not_zero("CONNECT", "requester_pd", connect->requester_pd);
	if (!rc)
		rc = otte_wire_at_most("CONNECT", "source_nic", connect->source_nic,
				       OTTE_NIC_IDS - 1);
	if (!rc)
		rc = otte_wire_at_most("CONNECT", "requester_nic", connect->requester_nic,
				       OTTE_NIC_IDS - 1);
	if (!rc)
		rc = otte_wire_at_most("CONNECT", "op", connect->op, OTTE_WRITE);
	if (!rc)
		rc = otte_wire_at_most("CONNECT", "cell", connect->cell, 1);
	if (!rc)
		rc = check_number("CONNECT", "qpn", connect->qpn);
	if (!rc)
		rc = otte_wire_at_most("CONNECT", "psn", connect->psn, OTTE_RDMA_NUMBER_MAX);
	if (!rc)
		rc = check_mtu("CONNECT", connect->mtu_bytes);
	if (!rc)
		rc = otte_wire_at_most("CONNECT", "rd_atomic", connect->rd_atomic, RD_ATOMIC_MAX);
	return rc;
}

static int check_connected(const struct otte_rdma_connected *connected)
{
	int rc = otte_wire_not_zero("CONNECTED", "connection", connected->connection);

	if (!rc)
		rc = otte_wire_status("CONNECTED", connected->status);
	if (!rc && connected->status)
		return otte_wire_zero("CONNECTED", "qpn",
				      connected->qpn | connected->psn | connected->mtu_bytes |
					      connected->rd_atomic);
	if (!rc)
		rc = check_number("CONNECTED", "qpn", connected->qpn);
	if (!rc)
		rc = otte_wire_at_most("CONNECTED", "psn", connected->psn, OTTE_RDMA_NUMBER_MAX);
	if (!rc)
		rc = check_mtu("CONNECTED", connected->mtu_bytes);
	if (!rc)
		rc = otte_wire_at_most("CONNECTED", "rd_atomic", connected->rd_atomic,
				       RD_ATOMIC_MAX);
	return rc;
}

static int check_ask(const char *what, const struct otte_rdma_ask *ask)
{
	int rc = otte_wire_not_zero(what, "ask", ask->ask);

	if (!rc)
		rc = otte_wire_not_zero(what, "connection", ask->connection);
	if (!rc)
		rc = otte_wire_not_zero(what, "length", ask->length);
	if (!rc)
		rc = otte_wire_at_most(what, "op", ask->op, OTTE_WRITE);
	if (!rc)
		rc = otte_wire_at_most(what, "priority", ask->priority, OTTE_PRIORITY_LOW);
	if (!rc)
		rc = otte_wire_at_most(what, "intent", ask->intent, OTTE_INTENT_STAGING_INTERNAL);
	return rc;
}

static int check_grant(const struct otte_rdma_grant *grant)
{
	int rc = otte_wire_not_zero("GRANT", "ask", grant->ask);

	if (!rc)
		rc = otte_wire_not_zero("GRANT", "grant", grant->grant);
	return rc ? rc : check_number("GRANT", "qpn", grant->qpn);
}

static int check_answer(uint16_t type, const struct otte_rdma_answer *answer)
{
	const char *what = kinds[type].name;
	int rc = otte_wire_not_zero(what, "ask", answer->ask);

	if (!rc && type == OTTE_RDMA_MSG_REFUSED)
		return check_failure(what, answer->status);
	if (!rc && type != OTTE_RDMA_MSG_CANCEL)
		rc = otte_wire_not_zero(what, "grant", answer->grant);
	if (!rc && type == OTTE_RDMA_MSG_DONE)
		rc = otte_wire_status(what, answer->status);
	return rc;
}

static int check_close(const struct otte_rdma_close *close)
{
	int rc = otte_wire_not_zero("CLOSE", "connection", close->connection);

	return rc ? rc : check_failure("CLOSE", close->status);
}

static int check_leased(const struct otte_rdma_leased *leased)
{
	int rc = otte_wire_not_zero("LEASED", "ask", leased->ask);

	if (!rc)
		rc = otte_wire_not_zero("LEASED", "lease", leased->lease);
	if (!rc)
		rc = otte_wire_not_zero("LEASED", "idle_ms", leased->idle_ms);
	return rc ? rc : check_number("LEASED", "qpn", leased->qpn);
}

static int check(const struct otte_rdma_message *message)
{
	switch (message->type) {
	case OTTE_RDMA_MSG_PATHS:
		return check_paths(&message->paths);
	case OTTE_RDMA_MSG_CONNECT:
		return check_connect(&message->connect);
	case OTTE_RDMA_MSG_CONNECTED:
		return check_connected(&message->connected);
	case OTTE_RDMA_MSG_ASK:
	case OTTE_RDMA_MSG_LEASE:
		return check_ask(kinds[message->type].name, &message->ask);
	case OTTE_RDMA_MSG_LEASED:
		return check_leased(&message->leased);
	case OTTE_RDMA_MSG_RENEW:
	case OTTE_RDMA_MSG_RECALL:
	case OTTE_RDMA_MSG_RETURN:
	case OTTE_RDMA_MSG_ENDED:
		return otte_wire_not_zero(kinds[message->type].name, "lease",
					  message->leasing.lease);
	case OTTE_RDMA_MSG_GRANT:
		return check_grant(&message->grant);
	case OTTE_RDMA_MSG_CLOSE:
		return check_close(&message->close);
	default:
		return check_answer(message->type, &message->answer);
	}
}

/* ---- Layouts ---- */

static uint8_t *put_path(uint8_t *at, const struct otte_rdma_path *path)
{
	at = put_u8(at, path->nic);
	at = put_u8(at, path->port);
	at = put_u8(at, path->gid_type);
	at = put_u8(at, path->ethernet);
	at = put_u8(at, path->active);
	at = put_u8(at, 0);
	at = put_le16(at, path->lid);
	at = put_le32(at, path->mtu_bytes);
	at = put_le32(at, 0);
	at = put_le64(at, path->pd);
	return put_bytes(at, path->gid, sizeof(path->gid));
}

static const uint8_t *get_path(const uint8_t *at, struct otte_rdma_path *path, uint64_t *reserved)
{
	uint32_t reserved32;
	uint8_t reserved8;

	at = get_u8(at, &path->nic);
	at = get_u8(at, &path->port);
	at = get_u8(at, &path->gid_type);
	at = get_u8(at, &path->ethernet);
	at = get_u8(at, &path->active);
	at = get_u8(at, &reserved8);
	at = get_le16(at, &path->lid);
	at = get_le32(at, &path->mtu_bytes);
	at = get_le32(at, &reserved32);
	at = get_le64(at, &path->pd);
	*reserved |= reserved8 | reserved32;
	return get_bytes(at, path->gid, sizeof(path->gid));
}

static uint8_t *put_paths(uint8_t *at, const struct otte_rdma_paths *paths)
{
	uint32_t i;

	at = put_le32(at, paths->grants);
	at = put_le32(at, paths->count);
	at = put_le32(at, paths->leases);
	at = put_le32(at, paths->chunk_bytes);
	for (i = 0; i < paths->count; i++)
		at = put_path(at, &paths->rows[i]);
	return at;
}

/* Its length was found to be that of so many rows. */
static void get_paths(const uint8_t *at, struct otte_rdma_paths *paths, uint64_t *reserved)
{
	uint32_t i;

	at = get_le32(at, &paths->grants);
	at = get_le32(at, &paths->count);
	at = get_le32(at, &paths->leases);
	at = get_le32(at, &paths->chunk_bytes);
	for (i = 0; i < paths->count; i++)
		at = get_path(at, &paths->rows[i], reserved);
}

static uint8_t *put_connect(uint8_t *at, const struct otte_rdma_connect *connect)
{
	at = put_le64(at, connect->connection);
	at = put_le64(at, connect->source_pd);
	at = put_le64(at, connect->requester_pd);
	at = put_u8(at, connect->source_nic);
	at = put_u8(at, connect->requester_nic);
	at = put_u8(at, connect->op);
	at = put_u8(at, connect->cell);
	at = put_le32(at, connect->qpn);
	at = put_le32(at, connect->psn);
	at = put_le32(at, connect->mtu_bytes);
	at = put_le32(at, connect->rd_atomic);
	return put_le32(at, 0);
}

static void get_connect(const uint8_t *at, struct otte_rdma_connect *connect, uint64_t *reserved)
{
	uint32_t reserved32;

	at = get_le64(at, &connect->connection);
	at = get_le64(at, &connect->source_pd);
	at = get_le64(at, &connect->requester_pd);
	at = get_u8(at, &connect->source_nic);
	at = get_u8(at, &connect->requester_nic);
	at = get_u8(at, &connect->op);
	at = get_u8(at, &connect->cell);
	at = get_le32(at, &connect->qpn);
	at = get_le32(at, &connect->psn);
	at = get_le32(at, &connect->mtu_bytes);
	at = get_le32(at, &connect->rd_atomic);
	get_le32(at, &reserved32);
	*reserved |= reserved32;
}

static uint8_t *put_connected(uint8_t *at, const struct otte_rdma_connected *connected)
{
	at = put_le64(at, connected->connection);
	at = put_le32(at, (uint32_t)connected->status);
	at = put_le32(at, connected->qpn);
	at = put_le32(at, connected->psn);
	at = put_le32(at, connected->mtu_bytes);
	at = put_le32(at, connected->rd_atomic);
	return put_le32(at, 0);
}

static void get_connected(const uint8_t *at, struct otte_rdma_connected *connected,
			  uint64_t *reserved)
{
	uint32_t status, reserved32;

	at = get_le64(at, &connected->connection);
	at = get_le32(at, &status);
	at = get_le32(at, &connected->qpn);
	at = get_le32(at, &connected->psn);
	at = get_le32(at, &connected->mtu_bytes);
	at = get_le32(at, &connected->rd_atomic);
	get_le32(at, &reserved32);
	connected->status = (int32_t)status;
	*reserved |= reserved32;
}

static uint8_t *put_ask(uint8_t *at, const struct otte_rdma_ask *ask)
{
	at = put_le64(at, ask->ask);
	at = put_le64(at, ask->connection);
	at = put_le64(at, ask->epoch);
	at = put_le64(at, ask->region);
	at = put_le64(at, ask->offset);
	at = put_le64(at, ask->length);
	at = put_u8(at, ask->op);
	at = put_u8(at, ask->priority);
	at = put_u8(at, ask->intent);
	at = put_u8(at, 0);
	return put_le32(at, 0);
}

static void get_ask(const uint8_t *at, struct otte_rdma_ask *ask, uint64_t *reserved)
{
	uint32_t reserved32;
	uint8_t reserved8;

	at = get_le64(at, &ask->ask);
	at = get_le64(at, &ask->connection);
	at = get_le64(at, &ask->epoch);
	at = get_le64(at, &ask->region);
	at = get_le64(at, &ask->offset);
	at = get_le64(at, &ask->length);
	at = get_u8(at, &ask->op);
	at = get_u8(at, &ask->priority);
	at = get_u8(at, &ask->intent);
	at = get_u8(at, &reserved8);
	get_le32(at, &reserved32);
	*reserved |= reserved8 | reserved32;
}

static uint8_t *put_grant(uint8_t *at, const struct otte_rdma_grant *grant)
{
	at = put_le64(at, grant->ask);
	at = put_le64(at, grant->grant);
	at = put_le64(at, grant->address);
	at = put_le32(at, grant->key);
	at = put_le32(at, grant->qpn);
	return put_bytes(at, grant->nonce, sizeof(grant->nonce));
}

static void get_grant(const uint8_t *at, struct otte_rdma_grant *grant)
{
	at = get_le64(at, &grant->ask);
	at = get_le64(at, &grant->grant);
	at = get_le64(at, &grant->address);
	at = get_le32(at, &grant->key);
	at = get_le32(at, &grant->qpn);
	get_bytes(at, grant->nonce, sizeof(grant->nonce));
}

static bool has_grant(uint16_t type)
{
	return type == OTTE_RDMA_MSG_DONE || type == OTTE_RDMA_MSG_ACK ||
	       type == OTTE_RDMA_MSG_READY;
}

static bool has_status(uint16_t type)
{
	return type == OTTE_RDMA_MSG_DONE || type == OTTE_RDMA_MSG_REFUSED;
}

static uint8_t *put_answer(uint8_t *at, uint16_t type, const struct otte_rdma_answer *answer)
{
	at = put_le64(at, answer->ask);
	if (has_grant(type))
		at = put_le64(at, answer->grant);
	if (!has_status(type))
		return at;
	at = put_le32(at, (uint32_t)answer->status);
	return put_le32(at, type == OTTE_RDMA_MSG_DONE && answer->intact);
}

/* What is behind a status: of DONE `intact`, which is 0 or 1, and 0 where nothing has failed. */
static void get_intact(uint16_t type, uint32_t word, struct otte_rdma_answer *answer,
		       uint64_t *reserved)
{
	answer->intact = type == OTTE_RDMA_MSG_DONE && answer->status && word == 1;
	if (!answer->intact)
		*reserved |= word;
}

static void get_answer(const uint8_t *at, uint16_t type, struct otte_rdma_answer *answer,
		       uint64_t *reserved)
{
	uint32_t status, word;

	*answer = (struct otte_rdma_answer){ 0 };
	at = get_le64(at, &answer->ask);
	if (has_grant(type))
		at = get_le64(at, &answer->grant);
	if (!has_status(type))
		return;
	at = get_le32(at, &status);
	get_le32(at, &word);
	answer->status = (int32_t)status;
	get_intact(type, word, answer, reserved);
}

static uint8_t *put_close(uint8_t *at, const struct otte_rdma_close *close)
{
	at = put_le64(at, close->connection);
	at = put_le32(at, (uint32_t)close->status);
	return put_le32(at, 0);
}

static void get_close(const uint8_t *at, struct otte_rdma_close *close, uint64_t *reserved)
{
	uint32_t status, reserved32;

	at = get_le64(at, &close->connection);
	at = get_le32(at, &status);
	get_le32(at, &reserved32);
	close->status = (int32_t)status;
	*reserved |= reserved32;
}

static uint8_t *put_leased(uint8_t *at, const struct otte_rdma_leased *leased)
{
	at = put_le64(at, leased->ask);
	at = put_le64(at, leased->lease);
	at = put_le64(at, leased->address);
	at = put_le32(at, leased->key);
	at = put_le32(at, leased->qpn);
	at = put_le32(at, leased->idle_ms);
	return put_le32(at, 0);
}

static void get_leased(const uint8_t *at, struct otte_rdma_leased *leased, uint64_t *reserved)
{
	uint32_t reserved32;

	at = get_le64(at, &leased->ask);
	at = get_le64(at, &leased->lease);
	at = get_le64(at, &leased->address);
	at = get_le32(at, &leased->key);
	at = get_le32(at, &leased->qpn);
	at = get_le32(at, &leased->idle_ms);
	get_le32(at, &reserved32);
	*reserved |= reserved32;
}

static bool has_counts(uint16_t type)
{
	return type == OTTE_RDMA_MSG_RENEW || type == OTTE_RDMA_MSG_RETURN;
}

static uint8_t *put_leasing(uint8_t *at, uint16_t type, const struct otte_rdma_leasing *leasing)
{
	at = put_le64(at, leasing->lease);
	if (!has_counts(type))
		return at;
	at = put_le64(at, leasing->requests);
	return put_le64(at, leasing->bytes);
}

static void get_leasing(const uint8_t *at, uint16_t type, struct otte_rdma_leasing *leasing)
{
	*leasing = (struct otte_rdma_leasing){ 0 };
	at = get_le64(at, &leasing->lease);
	if (!has_counts(type))
		return;
	at = get_le64(at, &leasing->requests);
	get_le64(at, &leasing->bytes);
}

static uint8_t *put_body(uint8_t *at, const struct otte_rdma_message *message)
{
	switch (message->type) {
	case OTTE_RDMA_MSG_PATHS:
		return put_paths(at, &message->paths);
	case OTTE_RDMA_MSG_CONNECT:
		return put_connect(at, &message->connect);
	case OTTE_RDMA_MSG_CONNECTED:
		return put_connected(at, &message->connected);
	case OTTE_RDMA_MSG_ASK:
	case OTTE_RDMA_MSG_LEASE:
		return put_ask(at, &message->ask);
	case OTTE_RDMA_MSG_LEASED:
		return put_leased(at, &message->leased);
	case OTTE_RDMA_MSG_RENEW:
	case OTTE_RDMA_MSG_RECALL:
	case OTTE_RDMA_MSG_RETURN:
	case OTTE_RDMA_MSG_ENDED:
		return put_leasing(at, message->type, &message->leasing);
	case OTTE_RDMA_MSG_GRANT:
		return put_grant(at, &message->grant);
	case OTTE_RDMA_MSG_CLOSE:
		return put_close(at, &message->close);
	default:
		return put_answer(at, message->type, &message->answer);
	}
}

static void get_body(const uint8_t *at, struct otte_rdma_message *message, uint64_t *reserved)
{
	switch (message->type) {
	case OTTE_RDMA_MSG_PATHS:
		get_paths(at, &message->paths, reserved);
		break;
	case OTTE_RDMA_MSG_CONNECT:
		get_connect(at, &message->connect, reserved);
		break;
	case OTTE_RDMA_MSG_CONNECTED:
		get_connected(at, &message->connected, reserved);
		break;
	case OTTE_RDMA_MSG_ASK:
	case OTTE_RDMA_MSG_LEASE:
		get_ask(at, &message->ask, reserved);
		break;
	case OTTE_RDMA_MSG_LEASED:
		get_leased(at, &message->leased, reserved);
		break;
	case OTTE_RDMA_MSG_RENEW:
	case OTTE_RDMA_MSG_RECALL:
	case OTTE_RDMA_MSG_RETURN:
	case OTTE_RDMA_MSG_ENDED:
		get_leasing(at, message->type, &message->leasing);
		break;
	case OTTE_RDMA_MSG_GRANT:
		get_grant(at, &message->grant);
		break;
	case OTTE_RDMA_MSG_CLOSE:
		get_close(at, &message->close, reserved);
		break;
	default:
		get_answer(at, message->type, &message->answer, reserved);
	}
}

ssize_t otte_rdma_message_encode(const struct otte_rdma_message *message, uint8_t *out, size_t size)
{
	size_t bytes = kinds[message->type].bytes;
	uint8_t *at = out;
	int rc;

	if (message->type == OTTE_RDMA_MSG_PATHS)
		bytes += (size_t)message->paths.count * ROW_BYTES;
	rc = otte_wire_room(kinds[message->type].name, size, bytes);
	if (rc)
		return rc;
	at = put_le16(at, message->type);
	at = put_le16(at, OTTE_RDMA_VERSION);
	at = put_le32(at, 0);
	return put_body(at, message) - out;
}

/* What a message of this type has behind its fixed part. */
static int check_length(const uint8_t *in, size_t length, uint16_t type)
{
	const char *what = kinds[type].name;
	uint32_t count;
	int rc;

	if (type != OTTE_RDMA_MSG_PATHS)
		return otte_wire_length(what, length, kinds[type].bytes);
	if (length < PATHS_BYTES)
		return otte_wire_length(what, length, PATHS_BYTES);
	get_le32(in + HEADER + 4, &count);
	rc = otte_wire_at_most(what, "count", count, OTTE_NIC_IDS);
	return rc ? rc : otte_wire_length(what, length, PATHS_BYTES + (size_t)count * ROW_BYTES);
}

int otte_rdma_message_decode(const uint8_t *in, size_t length, struct otte_rdma_message *message)
{
	struct otte_rdma_message got;
	uint64_t reserved = 0;
	uint32_t reserved32;
	uint16_t version;
	int rc;

	if (length < HEADER)
		return otte_fail(-EPROTO, "a message of RDMA has %zu bytes", length);
	get_le32(get_le16(get_le16(in, &got.type), &version), &reserved32);
	if (version != OTTE_RDMA_VERSION)
		return otte_fail(-EPROTONOSUPPORT,
				 "the peer speaks version %u of RDMA, this library %u", version,
				 OTTE_RDMA_VERSION);
	if (got.type >= ARRAY_SIZE(kinds) || !kinds[got.type].name)
		return otte_fail(-EPROTO, "a message of RDMA is of type %u, which is unknown",
				 got.type);
	rc = check_length(in, length, got.type);
	if (rc)
		return rc;
	get_body(in + HEADER, &got, &reserved);
	rc = check(&got);
	if (!rc)
		rc = otte_wire_zero(kinds[got.type].name, "reserved", reserved32 | reserved);
	if (!rc)
		*message = got;
	return rc;
}
