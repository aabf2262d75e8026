/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Two ends on two hosts, connected; what each posts and finds. Everything is asserted here. */
#ifndef OTTE_TESTS_VERBS_SIM_ENDS_H
#define OTTE_TESTS_VERBS_SIM_ENDS_H

#include "sim/verbs/sim.h"

#define END_BYTES 65536
#define END_WRS 8
#define END_INLINE 64

struct end {
	const struct otte_verbs *verbs;
	struct sim_device *device;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *sends, *recvs;
	struct ibv_qp *qp;
	struct ibv_mr *local; /* of bytes: LOCAL_WRITE */
	struct ibv_mr *parent; /* of bytes: LOCAL_WRITE | MW_BIND */
	uint64_t last_id; /* of what it has posted */
	uint8_t bytes[END_BYTES];
};

/* The requester, on host 0, and the source, on host 1: its bytes are 1, 2, ... 251, 1, ... */
extern struct end here, there;

/* cmocka's: a new room with both, and its end, which fails unless nothing is left. */
int ends_start(void **state);
int ends_finish(void **state);

void end_open(struct end *end, struct sim_device *device);
void end_close(struct end *end);
struct ibv_qp *end_create_qp(struct end *end);

/* Attributes as both ends have them; `gid` the index of both addresses. */
#define END_GID 1
int end_to_init(struct end *end, struct ibv_qp *qp);
int end_to_rtr(struct end *end, struct ibv_qp *qp, const struct end *peer,
	       const struct ibv_qp *peer_qp);
int end_to_rts(struct end *end, struct ibv_qp *qp);
void end_connect(struct end *end, struct ibv_qp *qp, const struct end *peer,
		 const struct ibv_qp *peer_qp);

/* Each returns its wr_id; `flags` with IBV_SEND_SIGNALED. */
uint64_t end_read(struct end *end, size_t to, uint32_t length, const void *from, uint32_t key,
		  unsigned int flags);
uint64_t end_write(struct end *end, size_t from, uint32_t length, const void *to, uint32_t key,
		   unsigned int flags);
uint64_t end_send(struct end *end, size_t from, uint32_t length, unsigned int flags);
uint64_t end_send_inv(struct end *end, size_t from, uint32_t length, uint32_t key,
		      unsigned int flags);
uint64_t end_bind(struct end *end, struct ibv_mw *mw, uint32_t key, const void *at,
		  uint64_t length, unsigned int access);
uint64_t end_local_inv(struct end *end, uint32_t key);
uint64_t end_recv(struct end *end, size_t to, uint32_t length);

/* The next completion, which there is; and that there is none. */
struct ibv_wc end_sent(struct end *end);
struct ibv_wc end_received(struct end *end);
void end_is_idle(struct end *end);

/* The next completion of a send is of this one, with this status. */
void end_fails(struct end *end, uint64_t id, enum ibv_wc_status status);

/* A window over bytes of the end, bound and its completion taken. mw->rkey is its key. */
struct ibv_mw *end_window(struct end *end, size_t offset, uint64_t length, unsigned int access);

/* The state that the device has it in. */
enum ibv_qp_state end_state(struct end *end, struct ibv_qp *qp);

#endif
