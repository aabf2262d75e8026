/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What two engines say to each other of their NICs, on a lane of RDMA frames: one message in each
 * frame, little-endian, of fixed layout, and of one version that must match exactly. No state.
 *
 *   requester                                source
 *   PATHS             >
 *                     <                      PATHS
 *   CONNECT           >                      makes the other QP of a pair
 *                     <                      CONNECTED
 *   ASK               >                      waits for a place, takes a loan, binds a window
 *                     <                      GRANT, or REFUSED
 *   payload, and then the binding, which invalidates the key: over the NICs
 *                     <                      DONE, the loan is settled
 *   ACK               >                      forgets the grant
 *                     <                      READY, another may be asked for
 *   CANCEL            >                      REFUSED, if it still waits; else GRANT, to be returned
 *   CLOSE             >   <                  the pair is of no use any more, nor what was granted
 *                                            on it
 *   PATHS             >   <                  again, at any time after the first: the same grants,
 *                                            NICs, ports and PDs with other addresses and states;
 *                                            who hears it answers nothing
 *
 *   of memory of a GPU, which is reached by cells (cell.h):
 *   ASK               >
 *                     <                      REFUSED, with OTTE_RDMA_WANTS_CELL
 *   CONNECT           >                      with `cell`: a pair for one ASK, in a PD of its own
 *                     <                      CONNECTED
 *   ASK               >                      and on as above, but that the message at the end
 *                                            invalidates no key, and that the source's end of the
 *                                            pair, and all that is in its PD, is gone before DONE.
 *                                            After DONE or REFUSED nobody says CLOSE of it
 *
 *   LEASE             >                      takes a loan, binds a window that stands
 *                     <                      LEASED, or REFUSED
 *   payloads, over the NICs, and nothing else
 *   RENEW             >                      it is in use: from now on for the same time again
 *                     <                      RECALL, it is wanted back
 *   RETURN            >                      nothing of it is under way, nor will be: invalidates
 *                                            the window
 *                     <                      ENDED, nothing can be reached by it any more, returned
 *                                            or not
 *
 * An ASK is answered once for good: by REFUSED, by READY, or by the CLOSE of its pair. So many may
 * be unanswered as the source's PATHS say. A LEASE is answered by REFUSED, by LEASED, or likewise;
 * who says in its PATHS that it gives none is asked for none. ASK and LEASE have their names in
 * common. CANCEL does not end a grant: who has its key may be about to invalidate it, and a window
 * is not to be invalidated from both sides.
 *
 * Decoders accept exactly what encoders make, never read outside [in, in + length), and leave their
 * output as it was unless they return 0; else -EPROTO (-EPROTONOSUPPORT for another version) with a
 * text that names message, field and value. Whether what a message names is there is for its
 * receiver to judge.
 */
#ifndef OTTE_TRANSPORT_RDMA_PROTOCOL_H
#define OTTE_TRANSPORT_RDMA_PROTOCOL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/wire.h"
#include "topo/priority.h"

#define OTTE_RDMA_VERSION 3

enum otte_rdma_message_type {
	OTTE_RDMA_MSG_PATHS = 1,
	OTTE_RDMA_MSG_CONNECT = 2,
	OTTE_RDMA_MSG_CONNECTED = 3,
	OTTE_RDMA_MSG_ASK = 4,
	OTTE_RDMA_MSG_GRANT = 5,
	OTTE_RDMA_MSG_REFUSED = 6,
	OTTE_RDMA_MSG_DONE = 7,
	OTTE_RDMA_MSG_ACK = 8,
	OTTE_RDMA_MSG_READY = 9,
	OTTE_RDMA_MSG_CANCEL = 10,
	OTTE_RDMA_MSG_CLOSE = 11,
	OTTE_RDMA_MSG_LEASE = 12,
	OTTE_RDMA_MSG_LEASED = 13,
	OTTE_RDMA_MSG_RENEW = 14,
	OTTE_RDMA_MSG_RECALL = 15,
	OTTE_RDMA_MSG_RETURN = 16,
	OTTE_RDMA_MSG_ENDED = 17,
};

/*
 * Each begins with type u16, version u16, reserved u32. Then
 *
 * PATHS:     grants u32, count u32, leases u32, chunk_bytes u32, and `count` rows: nic u8, port u8,
 *            gid_type u8, ethernet u8, active u8, reserved u8, lid u16, mtu_bytes u32,
 *            reserved u32, pd u64, gid u8[16]
 * CONNECT:   connection u64, source_pd u64, requester_pd u64, source_nic u8, requester_nic u8,
 *            op u8, cell u8, qpn u32, psn u32, mtu_bytes u32, rd_atomic u32, reserved u32
 * CONNECTED: connection u64, status i32, qpn u32, psn u32, mtu_bytes u32, rd_atomic u32,
 *            reserved u32
 * ASK:       ask u64, connection u64, epoch u64, region u64, offset u64, length u64, op u8,
 *            priority u8, intent u8, reserved u8, reserved u32
 * GRANT:     ask u64, grant u64, address u64, key u32, qpn u32, nonce u8[16]
 * REFUSED:   ask u64, status i32, reserved u32
 * DONE:      ask u64, grant u64, status i32, intact u32
 * ACK:       ask u64, grant u64
 * READY:     ask u64, grant u64
 * CANCEL:    ask u64
 * CLOSE:     connection u64, status i32, reserved u32
 * LEASE:     as ASK
 * LEASED:    ask u64, lease u64, address u64, key u32, qpn u32, idle_ms u32, reserved u32
 * RENEW:     lease u64, requests u64, bytes u64
 * RECALL:    lease u64
 * RETURN:    lease u64, requests u64, bytes u64
 * ENDED:     lease u64
 */
struct otte_rdma_path {
	uint8_t nic;         /* its stable id, below OTTE_NIC_IDS */
	uint8_t port;        /* never 0 */
	uint8_t gid_type;    /* enum otte_rdma_gid_type */
	uint8_t ethernet;    /* 1; 0: InfiniBand */
	uint8_t active;      /* 1; 0: the port is paused */
	uint16_t lid;
	uint32_t mtu_bytes;  /* 256 to 4096, a power of two */
	uint64_t pd;         /* random, never 0: which PD of which time */
	uint8_t gid[16];
};

/* NICs in ascending order, each once. */
struct otte_rdma_paths {
	uint32_t grants;     /* of a source: so many ASKs may be unanswered. Never 0 */
	uint32_t count;
	uint32_t leases;     /* of a source: that it gives at most; 0: none */
	/*
	 * Of a source whose memory NICs reach through chunks: no ASK is longer. At least
	 * OTTE_RDMA_CHUNK_MIN; 0: it is reached in place.
	 */
	uint32_t chunk_bytes;
	struct otte_rdma_path rows[OTTE_NIC_IDS];
};

/* Of REFUSED: what is asked for is reached by a cell, which is to be connected for it. */
#define OTTE_RDMA_WANTS_CELL (-EMEDIUMTYPE)

#define OTTE_RDMA_CHUNK_MIN 4096u      /* as of rdma.chunk_bytes */
#define OTTE_RDMA_NUMBER_MAX 0xffffffu /* of a QP and of a packet: 24 bits */

struct otte_rdma_connect {
	uint64_t connection; /* the requester's name for the pair, never 0, used once on a lane */
	uint64_t source_pd, requester_pd;
	uint8_t source_nic, requester_nic;
	uint8_t op;          /* enum otte_op: what it is for */
	uint8_t cell;        /* 1: for one ASK, of memory of a GPU */
	uint32_t qpn, psn;   /* of the requester's QP, and of the first packet that it sends */
	uint32_t mtu_bytes;
	uint32_t rd_atomic;  /* READs that the requester would have under way */
};

struct otte_rdma_connected {
	uint64_t connection;
	int32_t status;      /* not 0: refused, and all below is 0 */
	uint32_t qpn, psn;
	uint32_t mtu_bytes;  /* of both */
	uint32_t rd_atomic;  /* of both */
};

struct otte_rdma_ask {
	uint64_t ask;        /* the requester's name for it, never 0, never used again on a lane */
	uint64_t connection;
	uint64_t epoch;      /* of the source engine */
	uint64_t region, offset;
	uint64_t length;     /* never 0 */
	uint8_t op, priority, intent;
};

struct otte_rdma_grant {
	uint64_t ask;
	uint64_t grant;      /* the source's name for it, never 0, never used again */
	uint64_t address;
	uint32_t key;
	uint32_t qpn;        /* of the source: the key opens nothing to another */
	uint8_t nonce[16];   /* for the binding */
};

/* Of REFUSED, DONE, ACK, READY and CANCEL. */
struct otte_rdma_answer {
	uint64_t ask;
	uint64_t grant;      /* 0 in REFUSED and CANCEL */
	int32_t status;      /* REFUSED: never 0; DONE: 0, or what became of the bytes; else 0 */
	bool intact;         /* DONE, not 0: no byte of the source's range was written; else false */
};

struct otte_rdma_leased {
	uint64_t ask;
	uint64_t lease;      /* the source's name for it, never 0, never used again */
	uint64_t address;
	uint32_t key;
	uint32_t qpn;        /* as of a grant */
	uint32_t idle_ms;    /* without RENEW it is over then. Never 0 */
};

/* Of RENEW, RETURN, RECALL and ENDED. */
struct otte_rdma_leasing {
	uint64_t lease;
	uint64_t requests, bytes; /* RENEW, RETURN: moved since the last one; else 0 */
};

struct otte_rdma_close {
	uint64_t connection;
	int32_t status;      /* why, never 0 */
};

struct otte_rdma_message {
	uint16_t type;
	union {
		struct otte_rdma_paths paths;
		struct otte_rdma_connect connect;
		struct otte_rdma_connected connected;
		struct otte_rdma_ask ask; /* LEASE, too */
		struct otte_rdma_grant grant;
		struct otte_rdma_answer answer;
		struct otte_rdma_close close;
		struct otte_rdma_leased leased;
		struct otte_rdma_leasing leasing;
	};
};

/* The bytes written; -ENOSPC when `size` is short. OTTE_RDMA_FRAME_MAX is enough for each. */
ssize_t otte_rdma_message_encode(const struct otte_rdma_message *message, uint8_t *out,
				 size_t size);
int otte_rdma_message_decode(const uint8_t *in, size_t length, struct otte_rdma_message *message);

#endif
