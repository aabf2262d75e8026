/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A device that is open: its PD, the port and address that stand for it, its limits, and what its
 * PD remembers of windows (window.h). Everything that is made of a PD names the context that has
 * it, and is gone before it.
 *
 *   closed --open--> ACTIVE or PAUSED, as the port is
 *   ACTIVE --pause, or another address--> PAUSED, the route's generation is another from now on
 *   PAUSED --resume, with what the generation was when the port was asked--> ACTIVE
 *   any    --fail: the device is lost, or what it tells--> FATAL, for good
 *   any    --close--> closed, or RETAINED: what is left of it stays, and is not tried again
 *
 * Two questions are asked of it. check_device(): may memory be registered here? Yes, unless it is
 * FATAL: a port that is down keeps its PD and MRs. check(): does a path go out here? ACTIVE alone.
 * A generation is never used twice, so an answer to an older question clears no newer fault.
 *
 * What could not be destroyed is counted here by kind (`retained`) and stays where its owner has
 * it; a context with any of it is never closed (-EUCLEAN).
 *
 * Lock: `lock`, of route and windows; innermost but for allocators and providers: what a provider
 * may sleep in is called without it. The rest is constant from open() to close().
 */
#ifndef OTTE_TRANSPORT_RDMA_CONTEXT_H
#define OTTE_TRANSPORT_RDMA_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "transport/rdma/discovery.h"
#include "transport/rdma/gpu.h"
#include "transport/rdma/keys.h"
#include "transport/rdma/verbs.h"

struct otte_rdma_cq_lane;
struct otte_rdma_qp;
struct otte_rdma_window;

enum otte_rdma_context_state {
	OTTE_RDMA_CONTEXT_ACTIVE = 0,
	OTTE_RDMA_CONTEXT_PAUSED = 1,
	OTTE_RDMA_CONTEXT_FATAL = 2,
	OTTE_RDMA_CONTEXT_RETAINED = 3,
};

/* What a peer connects to. */
struct otte_rdma_address {
	struct otte_rdma_gid gid;
	uint32_t mtu_bytes;
	uint16_t lid;
	bool ethernet;
};

struct otte_rdma_limits {
	uint32_t max_qp_wr;
	uint32_t max_cqe;
	uint64_t max_mr_bytes;
	uint32_t max_rd_atomic; /* READs that a QP sends at a time; 0: it does not say */
	uint32_t max_dest_rd_atomic; /* that it answers */
};

/* Native things that could not be destroyed. */
struct otte_rdma_retained {
	_Atomic uint32_t qps, mrs, windows, cqs, channels, pds, devices;
	_Atomic uint32_t files; /* of memory that was exported */
	_Atomic uint64_t mr_bytes;
};

struct otte_rdma_context {
	/* Constant. */
	const struct otte_verbs *verbs;
	struct ibv_context *native;
	struct ibv_pd *pd;
	unsigned int nic; /* its stable id */
	char name[OTTE_RDMA_NAME_MAX];
	uint8_t port;
	bool rxe; /* see receive_queue.h */
	int node; /* of memory; -1: unknown */
	uint64_t bytes_per_s; /* of the link, when it was opened; 0: it did not say */
	struct otte_rdma_limits limits;

	pthread_mutex_t lock;
	/* Under it: the route. */
	enum otte_rdma_context_state state;
	uint64_t generation; /* of the route: never 0 */
	struct otte_rdma_address address;
	int code; /* why it is not ACTIVE */
	char why[OTTE_ERROR_BYTES];
	/* Under it: windows, see window.h. */
	struct otte_rdma_keys *keys;
	struct otte_rdma_window *idle, *parked;
	/* Under it: what is retained and has no other owner. */
	struct otte_rdma_qp *retained_qps;
	struct otte_rdma_cq_lane *retained_lanes;

	_Atomic uint64_t posted; /* WRs of all its QPs, ever; no receives */
	_Atomic uint32_t children; /* MRs, cells, lanes and windows that are in use */
	_Atomic uint64_t gpu_mrs[OTTE_RDMA_GPU_ROUTES]; /* of memory of GPUs, ever, by their route */
	struct otte_rdma_retained retained;
};

struct otte_rdma_context_params {
	uint32_t max_window_key_indices;
};

#define OTTE_RDMA_CONTEXT_PARAMS                                \
	{                                                       \
		.max_window_key_indices = OTTE_RDMA_KEY_INDICES \
	}

/*
 * Of what discovery has found: takes the open context out of `nic`, also when it fails.
 * -EOPNOTSUPP: it has no windows of type 2B; or what a call failed with; each with a text that
 * names the device.
 */
int otte_rdma_context_open(const struct otte_verbs *verbs, struct otte_rdma_nic *nic,
			   unsigned int id, const struct otte_rdma_context_params *params,
			   struct otte_rdma_context **context);

/*
 * 0: gone. -EUCLEAN with a text: something is retained, and so is it, for good; `context` stays
 * valid. -EBUSY with a text: something of it is in use, nothing has changed. NULL is allowed.
 */
int otte_rdma_context_close(struct otte_rdma_context *context);

/* -ENODEV with a text: it is FATAL. */
int otte_rdma_context_check_device(struct otte_rdma_context *context);
/* -ENETDOWN with a text: it is PAUSED; or as above. */
int otte_rdma_context_check(struct otte_rdma_context *context);

struct otte_rdma_route {
	enum otte_rdma_context_state state;
	uint64_t generation;
	struct otte_rdma_address address; /* of now, or of when it was ACTIVE last */
};

void otte_rdma_context_route(struct otte_rdma_context *context, struct otte_rdma_route *route);

/*
 * The port is down, or is another. True: it was ACTIVE, and whoever uses the route must be fenced.
 */
bool otte_rdma_context_pause(struct otte_rdma_context *context, int code, const char *why);
/*
 * The port was asked after `generation` was read, and is well; everything over the old route has
 * drained. -ESTALE: something came in between. -ENODEV with a text: FATAL.
 */
int otte_rdma_context_resume(struct otte_rdma_context *context, uint64_t generation,
			     const struct otte_rdma_address *address);
/* The device is lost. True: it was not FATAL. */
bool otte_rdma_context_fail(struct otte_rdma_context *context, int code, const char *why);

/* Whatever is retained, of any kind. */
uint64_t otte_rdma_retained_sum(const struct otte_rdma_retained *retained);

/* A call on it failed with this errno: the negative one, with a text; of none, -EIO. */
int otte_rdma_call_failed(const struct otte_rdma_context *context, const char *call, int error);

#endif
