/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The wire format: little-endian, fixed layouts, one version that must match exactly.
 *
 * A control connection carries frames: a header of OTTE_FRAME_HEADER bytes and a payload. A lane is a
 * connection of its own; after its LANE/LANE_READY frames it carries only lane requests and answers
 * (fixed sizes) with their payload bytes behind them.
 *
 *   control   HELLO > WELCOME < [PROOF >] [CLAIM < CLAIM >] READY <
 *             then DESCRIBE, STATS, NOTIFY, PING > answers <
 *   lane      LANE > LANE_READY <                   then requests > answers <
 *   loans     LANE_LEND > LANE_READY <              then LEND in both directions
 *   rdma      LANE_RDMA > LANE_READY <              then RDMA in both directions
 *   either    ERROR < ends the connection
 *
 * Everything here is pure: bytes in, structs out. Encoders return the bytes written, or -ENOSPC when
 * `size` is short; decoders return 0, or -EPROTO (-EPROTONOSUPPORT for another version) with the
 * error text naming field and value. Decoders accept exactly what encoders produce: a short or long
 * payload, a non-zero reserved field, an unknown enum value, a string without its terminator or with
 * control characters in it, is refused. They never read outside [data, data + length), and leave
 * their output as it was unless they return 0. Encoders trust their structs, except for strings,
 * which they make fit (otte_line_escape()).
 */
#ifndef OTTE_CONTROL_WIRE_H
#define OTTE_CONTROL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/identity.h"

#define OTTE_WIRE_MAGIC 0x4554544fu /* "OTTE" as it stands on the wire */
#define OTTE_WIRE_VERSION 2
#define OTTE_FRAME_HEADER 24
#define OTTE_NONCE_BYTES 32
#define OTTE_MAC_BYTES 32
#define OTTE_KEY_ID_BYTES 8
#define OTTE_MODULE_ID_BYTES 16

enum otte_frame_type {
	OTTE_FRAME_HELLO = 1,
	OTTE_FRAME_WELCOME = 2,
	OTTE_FRAME_PROOF = 3,
	OTTE_FRAME_READY = 4,
	OTTE_FRAME_ERROR = 5,
	OTTE_FRAME_DESCRIBE = 6,
	OTTE_FRAME_REGIONS = 7,
	OTTE_FRAME_STATS = 8,
	OTTE_FRAME_STATS_REPLY = 9,
	OTTE_FRAME_NOTIFY = 10,
	OTTE_FRAME_NOTIFIED = 11,
	OTTE_FRAME_PING = 12,
	OTTE_FRAME_PONG = 13,
	OTTE_FRAME_LANE = 14,
	OTTE_FRAME_LANE_READY = 15,
	OTTE_FRAME_BYE = 16, /* source: no new requests will be admitted; no payload */
	OTTE_FRAME_CLAIM = 17,
	OTTE_FRAME_LANE_LEND = 18, /* payload as LANE's */
	OTTE_FRAME_LEND = 19,
	OTTE_FRAME_LANE_RDMA = 20, /* likewise */
	OTTE_FRAME_RDMA = 21,      /* one message of transport/rdma/protocol.h */
};

/* The longest of these messages. */
#define OTTE_RDMA_FRAME_MAX 8192

/* What a lane carries after its hello. */
enum otte_lane_kind {
	OTTE_LANE_BYTES = 0, /* lane requests and answers, with payload */
	OTTE_LANE_LEND = 1,  /* LEND frames */
	OTTE_LANE_RDMA = 2,  /* RDMA frames */
};

/*
 * magic u32, version u16, type u16, length u32, status i32, id u64. The length must be one that the
 * type can have. Requests have status 0, ERROR a negative one; an answer with a negative status
 * carries a text like ERROR's, or nothing, in place of its payload.
 */
struct otte_frame {
	uint16_t type;
	uint32_t length;  /* payload bytes that follow */
	int32_t status;   /* answers: 0 or a negative errno */
	/*
	 * Of the request that an answer belongs to; chosen by the requester. HELLO has there what its side can
	 * (OTTE_CAN_*), WELCOME what of that both sides will do. Bits that a side does not know are nothing to it,
	 * but for the MACs of a key, which are over both words. READY's status is -EDQUOT where both would attest
	 * each other and cannot.
	 */
	uint64_t id;
};

void otte_frame_encode(const struct otte_frame *frame, uint8_t out[OTTE_FRAME_HEADER]);
/* -EMSGSIZE: length above `max_payload`. */
int otte_frame_decode(const uint8_t in[OTTE_FRAME_HEADER], uint32_t max_payload,
		      struct otte_frame *frame);

#define OTTE_CAN_ATTEST 1u /* CLAIMs, and a proof of each through the module: attest.h */
#define OTTE_CAN_LEND 4u   /* with ATTEST: a lane of LEND frames, for loans of the module */
#define OTTE_CAN_RDMA 8u   /* a lane of RDMA frames */
#define OTTE_CAN_CUT 16u   /* lanes of bytes that carry cuts */
#define OTTE_CAN_LOAD_SHIFT 32 /* in HELLO, with ATTEST: from here on the first four bytes of that load's id */

#define OTTE_HELLO_AUTH 1u /* a key is in use: key_id names it, MACs are filled in; else both are zero */

/*
 * identity: boot_id u8[16], incarnation u8[16], epoch u64, pid u64, name char[OTTE_NAME_MAX]
 * HELLO:    identity, flags u32, reserved u32, key_id u8[8], nonce u8[32]
 * WELCOME:  identity, session u64, flags u32, max_payload u32, max_lanes u32, reserved u32,
 *           nonce u8[32], mac u8[32]
 * CLAIM:    module u8[16], client u64, reserved u64
 * LANE:     session u64, counter u64, mac u8[32]
 * LEND:     type u16, op u16, status i32, owner u32, reserved u32, id u64, region u64, offset u64, length u64,
 *           loan u64, uses u64
 */
#define OTTE_IDENTITY_BYTES 112

struct otte_hello {
	struct otte_identity identity;
	uint32_t flags;
	uint8_t key_id[OTTE_KEY_ID_BYTES];
	uint8_t nonce[OTTE_NONCE_BYTES];
};

struct otte_welcome {
	struct otte_identity identity;
	uint64_t session;     /* random; named by lanes */
	uint32_t flags;       /* OTTE_HELLO_AUTH as in the hello */
	uint32_t max_payload; /* of a frame, as the server reads it; never 0 */
	uint32_t max_lanes;   /* never 0 */
	uint8_t nonce[OTTE_NONCE_BYTES];
	uint8_t mac[OTTE_MAC_BYTES];
};

struct otte_proof {
	uint8_t mac[OTTE_MAC_BYTES];
};

/* Which client of which load of the module this side is. 0: none of a module that the other has. */
struct otte_claim {
	uint8_t module[OTTE_MODULE_ID_BYTES];
	uint64_t client;
};

struct otte_lane_hello {
	uint64_t session;
	uint64_t counter; /* grows with each lane of a session; a server takes none twice */
	uint8_t mac[OTTE_MAC_BYTES];
};

#define OTTE_HELLO_BYTES 160
#define OTTE_WELCOME_BYTES 200
#define OTTE_PROOF_BYTES 32
#define OTTE_CLAIM_BYTES 32
#define OTTE_LANE_HELLO_BYTES 48
#define OTTE_LEND_BYTES 64

ssize_t otte_hello_encode(const struct otte_hello *hello, uint8_t *out, size_t size);
int otte_hello_decode(const uint8_t *in, size_t length, struct otte_hello *hello);
ssize_t otte_welcome_encode(const struct otte_welcome *welcome, uint8_t *out, size_t size);
int otte_welcome_decode(const uint8_t *in, size_t length, struct otte_welcome *welcome);
ssize_t otte_proof_encode(const struct otte_proof *proof, uint8_t *out, size_t size);
int otte_proof_decode(const uint8_t *in, size_t length, struct otte_proof *proof);
ssize_t otte_claim_encode(const struct otte_claim *claim, uint8_t *out, size_t size);
int otte_claim_decode(const uint8_t *in, size_t length, struct otte_claim *claim);
ssize_t otte_lane_hello_encode(const struct otte_lane_hello *hello, uint8_t *out, size_t size);
int otte_lane_hello_decode(const uint8_t *in, size_t length, struct otte_lane_hello *hello);
/* The type of the frame that a lane's hello is in. */
uint16_t otte_lane_frame(enum otte_lane_kind kind);

/* What transport local says of loans of the module (local.h has the protocol). A field that is not named is 0. */
enum otte_lend_type {
	OTTE_LEND_ASK = 1,    /* requester: op, region */
	/* source: op, region, status; and with status 0 id, owner, offset, length, loan, and uses, a loan as well */
	OTTE_LEND_GRANT = 2,
	OTTE_LEND_RECALL = 3, /* source: id */
	OTTE_LEND_RETURN = 4, /* requester: id; 0: of everything */
	OTTE_LEND_COUNT = 5,  /* requester: id: requests, offset: bytes read, length: bytes written */
};

#define OTTE_LEND_MAPPED 2u /* of an op: it is to be mapped */

struct otte_lend {
	uint16_t type;
	uint16_t op; /* enum otte_op, OTTE_LEND_MAPPED */
	int32_t status;
	uint32_t owner;
	uint64_t id;
	uint64_t region;
	uint64_t offset, length;
	uint64_t loan, uses;
};

ssize_t otte_lend_encode(const struct otte_lend *lend, uint8_t *out, size_t size);
int otte_lend_decode(const uint8_t *in, size_t length, struct otte_lend *lend);

/* ERROR: one line of text of at most OTTE_TEXT_MAX - 1 bytes. */
ssize_t otte_text_encode(const char *text, uint8_t *out, size_t size);
int otte_text_decode(const uint8_t *in, size_t length, char text[OTTE_TEXT_MAX]);

/* DESCRIBE: regions with an id above `after`, in order of id. */
struct otte_describe {
	uint64_t after;
};

ssize_t otte_describe_encode(const struct otte_describe *describe, uint8_t *out, size_t size);
int otte_describe_decode(const uint8_t *in, size_t length, struct otte_describe *describe);

/*
 * REGIONS: header {u64 total, u32 count, u32 more} and `count` rows of OTTE_REGION_ROW_BYTES:
 * id, length, address, access, gpu_routes, name[OTTE_NAME_MAX].
 */
#define OTTE_REGIONS_HEADER 16
#define OTTE_REGION_ROW_BYTES 96

struct otte_regions {
	uint64_t total;  /* published now */
	uint32_t count;  /* rows in this frame */
	uint32_t more;   /* 1: ask again after the last row's id */
};

/* Encodes as many of regions->count rows as fit in `size`, and sets count and more accordingly. */
ssize_t otte_regions_encode(struct otte_regions *regions, const struct otte_region_info *rows,
			    uint8_t *out, size_t size);
/* Checks everything, rows too; ids must ascend. */
int otte_regions_decode(const uint8_t *in, size_t length, struct otte_regions *regions);
/* Row `index` of a payload that otte_regions_decode() accepted. */
void otte_regions_row(const uint8_t *in, uint32_t index, struct otte_region_info *row);

/* STATS_REPLY: u32 count, u32 reserved, then `count` u64 values of struct otte_stats from `regions` on;
 * a decoder takes the values that it knows and ignores further ones. */
ssize_t otte_stats_encode(const struct otte_stats *stats, uint8_t *out, size_t size);
int otte_stats_decode(const uint8_t *in, size_t length, struct otte_stats *stats);

/* NOTIFY carries the application's 1..OTTE_NOTIFY_MAX bytes as they are; PING, PONG, READY,
 * NOTIFIED, STATS, LANE_READY and BYE have no payload. */

/* ---- Lanes ---- */

#define OTTE_LANE_REQUEST_BYTES 64
#define OTTE_LANE_ANSWER_BYTES 64
#define OTTE_LANE_MAGIC 0x4c54544fu /* "OTTL" */

/*
 * magic u32, op u8, priority u8, intent u8, reserved u8, id u64, epoch u64, region u64, offset u64,
 * length u64, mark u64[2]. Behind a WRITE follow `length` bytes of payload.
 *
 * A READ with a mark has its success answered by the payload alone, whose header would cost both sides more than
 * anything else at 64 KiB. A refusal is an answer as always, and carries the mark. The requester tells them apart
 * because it has chosen a mark that no memory can hold yet, and asks nothing else on the lane until it has seen
 * more than OTTE_LANE_ANSWER_BYTES of the one or all of the other.
 */
struct otte_lane_request {
	uint8_t op;       /* enum otte_op */
	uint8_t priority;
	uint8_t intent;
	uint64_t id;
	uint64_t epoch;   /* of the source engine: another one is refused with -ESTALE */
	uint64_t region;
	uint64_t offset;
	uint64_t length;  /* never 0 */
	uint64_t mark[2]; /* 0, 0: none. With one it is a READ of more than OTTE_LANE_ANSWER_BYTES */
};

/*
 * magic u32, op u8, effect u8, mask u8, fresh u8, id u64, status i32, reserved u32, length u64,
 * mark u64[2], reserved u64[2]. Behind the answer to a READ with status 0 follow `length` bytes: on both sides the
 * kernel copies them faster where they begin at a multiple of 64. Answers come in the order of requests.
 *
 * Where `mask` is not 0 one byte more follows, the verdict, which was read after all of them: they are what
 * was asked for if it is `fresh` in the bits of `mask`. Otherwise the memory went away while it was sent, and
 * the READ has failed with -ESTALE. It is the low byte of the region's status word as the source has it: the
 * bits outside `mask` say whether the memory is suspect or its owner fenced. They mean nothing here, and are to be
 * ignored; a source that is to hide them sends a verdict of its own. A READ with a mark whose answer would have a
 * verdict is refused with -EAGAIN: it is to be asked again, without a mark.
 */
struct otte_lane_answer {
	uint8_t op;
	uint8_t effect;   /* enum otte_remote_effect, of a WRITE that failed */
	uint8_t mask;     /* of a READ with status 0, else 0 */
	uint8_t fresh;    /* no bits but those of `mask` */
	uint64_t id;
	int32_t status;   /* 0 or a negative errno */
	uint64_t length;  /* status 0: as asked; else 0 */
	uint64_t mark[2]; /* status not 0: of a READ that had one; else 0, 0 */
};

/*
 * In place of a request, where both sides can (OTTE_CAN_CUT), and never answered: magic u32, reserved u32, last u64,
 * live u8[48]. Of the lanes of bytes of this session with a counter up to `last` those whose bit in `live` is not
 * set are dead: bit n is that of counter last - n. No request behind it is served before nothing can come by a
 * dead one any more.
 */
#define OTTE_LANE_CUT_MAGIC 0x4354544fu /* "OTTC" */
#define OTTE_LANE_CUT_LIVE 48

struct otte_lane_cut {
	uint64_t last; /* never 0. Lanes too far behind it for a bit are dead */
	uint8_t live[OTTE_LANE_CUT_LIVE];
};

/* As long as a request. */
void otte_lane_cut_encode(const struct otte_lane_cut *cut, uint8_t out[OTTE_LANE_REQUEST_BYTES]);
int otte_lane_cut_decode(const uint8_t in[OTTE_LANE_REQUEST_BYTES], struct otte_lane_cut *cut);
/* Whether it is one, and no request. */
static inline bool otte_lane_is_cut(const uint8_t in[OTTE_LANE_REQUEST_BYTES])
{
	return in[3] == (uint8_t)(OTTE_LANE_CUT_MAGIC >> 24);
}
/* The lane with this counter is not among the dead. */
void otte_lane_cut_spare(struct otte_lane_cut *cut, uint64_t counter);
bool otte_lane_cut_ends(const struct otte_lane_cut *cut, uint64_t counter);

void otte_lane_request_encode(const struct otte_lane_request *request,
			      uint8_t out[OTTE_LANE_REQUEST_BYTES]);
int otte_lane_request_decode(const uint8_t in[OTTE_LANE_REQUEST_BYTES],
			     struct otte_lane_request *request);
/* Into an encoded request: from OTTE_LANE_MARK_AT on. */
#define OTTE_LANE_MARK_AT 48
void otte_lane_request_mark(uint8_t out[OTTE_LANE_REQUEST_BYTES], const uint64_t mark[2]);
void otte_lane_answer_encode(const struct otte_lane_answer *answer,
			     uint8_t out[OTTE_LANE_ANSWER_BYTES]);
int otte_lane_answer_decode(const uint8_t in[OTTE_LANE_ANSWER_BYTES],
			    struct otte_lane_answer *answer);

#endif
