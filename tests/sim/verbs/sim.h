/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libibverbs over a machine room of the test's own: hosts with devices, a fabric between them,
 * bytes that really move, and faults. One process plays all hosts; each has a table of functions.
 *
 *	sim_reset();
 *	sim_device_add(0, "mlx5_0");
 *	sim_device_add(1, "mlx5_0");
 *	... sim_verbs(0) is what the requester is given, sim_verbs(1) what the source is ...
 *	assert_string_equal(sim_left(), "");
 *
 * It behaves as the man pages of rdma-core and RC say. Where they leave room it takes the side that
 * a caller finds harder: QPs and CQs are as large as asked for and no larger, a slot of a queue is
 * free when a completion of it or of a later one was polled, what a failed completion does not
 * define is rubbish, numbers of QPs are the same on all devices, a bind checks that mw->rkey is the
 * window's key of now. Contexts have no operations of their own: who calls past the table crashes.
 * What differs on rxe is switched on for each device (enum sim_quirk).
 *
 * destroy_cq, destroy_qp: events of it that were taken and not acknowledged are waited for, as the
 * library does. Nobody waits longer than SIM_ACK_WAIT_MS: then the program is aborted with a text.
 * So it is when what a caller does would be undefined: more acknowledged than taken.
 *
 * One lock (private.h) is held in every call, and never while one sleeps. All of it may be called
 * from any thread, but sim_reset() and the writing of a sim_device's fields.
 */
#ifndef OTTE_TESTS_SIM_VERBS_H
#define OTTE_TESTS_SIM_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/rdma/verbs.h"

#define SIM_HOSTS 4
#define SIM_DEVICES 80
#define SIM_PORTS 3
#define SIM_GIDS 8
#define SIM_ACK_WAIT_MS 10000

/* ---- All of it ------------------------------------------------------------------------------- */

/*
 * No device, no object, no fault, no call counted, work done inside of each post. Frees what a test
 * left behind; nobody may be inside a call.
 */
void sim_reset(void);

/* The functions that a process on this host finds. */
const struct otte_verbs *sim_verbs(unsigned int host);

/* ---- Devices (devices.c) --------------------------------------------------------------------- */

/* What rxe of Linux 6.1 does otherwise. */
enum sim_quirk {
	/* A receive that invalidated says so by 1 << 2, and has IBV_WC_GRH; not IBV_WC_WITH_INV. */
	SIM_RXE_INV_FLAG = 1 << 0,
	/* Any QP of the device may invalidate a window, its peer as well as its owner. */
	SIM_RXE_ANY_QP_INVALIDATES = 1 << 1,
	/* A request may touch all of the window's parent, not only the window. */
	SIM_RXE_PARENT_RANGE = 1 << 2,
	/* No IBV_EVENT_QP_* where a peer's request is refused, no IBV_EVENT_COMM_EST. */
	SIM_RXE_NO_QP_EVENTS = 1 << 3,
	/* A destroyed QP's completions stay in their CQ. */
	SIM_RXE_KEEPS_CQES = 1 << 4,
	/* A parent whose windows are bound is EINVAL to dereg_mr, not EBUSY. */
	SIM_RXE_DEREG_EINVAL = 1 << 5,
	/* retry_cnt 7 is without end, as rnr_retry 7 is; by SIM_BY_CLOCK. */
	SIM_RXE_RETRIES_FOR_EVER = 1 << 6,
	SIM_RXE = (1 << 7) - 1,
};

struct sim_gid {
	union ibv_gid gid; /* zero: empty */
	uint32_t type;     /* IBV_GID_TYPE_* */
	int error;         /* of asking for it */
};

struct sim_port {
	struct ibv_port_attr attr;
	uint32_t active_speed_ex;
	uint64_t port_speed; /* in 100 Mb/s; 0: ibv_query_port_speed fails */
	struct sim_gid gids[SIM_GIDS];
	int error; /* of ibv_query_port */
};

/*
 * A test writes here after sim_device_add() and before anybody has opened the device; later by the
 * calls below.
 */
struct sim_device {
	struct ibv_device device;
	struct ibv_device_attr attr;
	struct sim_port ports[SIM_PORTS]; /* the first is port 1 */
	uint32_t max_inline;
	uint64_t memlock_bytes; /* of all MRs of a context; beyond: ENOMEM. 0: no limit */
	unsigned int quirks;    /* enum sim_quirk */
	unsigned int host;
	unsigned int number; /* of all hosts' devices, from 0 */
};

/*
 * One active port of Ethernet, MTU 4096, 100 Gb/s; windows of type 2B; with N = number + 1, GID 0
 * is fe80::N and GID 1 is 192.0.2.N, both of RoCE v2. Reaches every device of every host.
 */
struct sim_device *sim_device_add(unsigned int host, const char *name);

/* It is rxe of Linux 6.1 over a network device of MTU 1500: vendor, limits, ports, all quirks. */
void sim_device_be_rxe(struct sim_device *device);

/* `address`: "fe80::1", "192.0.2.1", or NULL for an empty entry. No event. */
void sim_gid_set(struct sim_device *device, unsigned int port, unsigned int index,
		 const char *address, uint32_t type);

/*
 * A module that tells NICs of memory which the CPU does not reach at its address, as a GPU's:
 * `reach` says where the simulator does, or NULL for what is not the module's. Who registers is
 * given what it was then. NULL, as after sim_reset(): there is none.
 */
void sim_peer_memory(void *(*reach)(uint64_t address, size_t length));

/* ---- The fabric (fabric.c) ------------------------------------------------------------------- */

/*
 * Whether packets pass, both ways or one: no event tells. A request passes from the requester's
 * device, its acknowledgement the other way: of a request without one the bytes are written and the
 * receive is done, and the requester gets IBV_WC_RETRY_EXC_ERR. A device may be cut from itself.
 */
void sim_link_set(struct sim_device *one, struct sim_device *other, bool up);
void sim_path_set(struct sim_device *from, struct sim_device *to, bool up);

/* The port's state, with the event that belongs to it in every context of the device. */
void sim_port_set(struct sim_device *device, unsigned int port, enum ibv_port_state state);

/* ---- When work is done (progress.c) ---------------------------------------------------------- */

enum sim_progress {
	SIM_INLINE,  /* within the call that made it possible */
	SIM_STEPPED, /* by sim_step() */
	SIM_THREAD,  /* by a thread of the simulator's */
};

/*
 * `seed` 0: the queue that has waited longest is next; else each time one by chance. Who goes from
 * THREAD to another has the thread joined.
 */
void sim_progress_set(enum sim_progress progress, uint64_t seed);

/* One work request of one queue pair. False: nothing can be done now. */
bool sim_step(void);
/* sim_step() until nothing can be done; how often it did. */
unsigned int sim_drain(void);

enum sim_retry {
	SIM_AT_ONCE,  /* what is not answered at once has used up its retries; rnr_retry 7 waits */
	/*
	 * The QP's timeout and its retries by otte_now_ns(), which a test may fake. Looked at when
	 * a CQ is polled or anything else is called that could make progress; by THREAD always.
	 */
	SIM_BY_CLOCK,
};

void sim_retry_set(enum sim_retry retry);

/*
 * READs fetch their bytes as late as the order of a queue permits: after what was posted behind
 * them, but for a fence or the end of the queue. Completions keep their order.
 */
void sim_reads_late(bool late);

/*
 * Completions are in the CQ and are not seen: nothing is polled, and nobody is told. They are, in
 * their order, when it is held no more.
 */
void sim_cq_hold(struct ibv_cq *cq, bool hold);

/* ---- Events (events.c) ----------------------------------------------------------------------- */

/* Tells every context of the device, and changes nothing. */
void sim_raise_port(struct sim_device *device, unsigned int port, enum ibv_event_type event);
/* IBV_EVENT_QP_FATAL, and the QP is in error. */
void sim_qp_fatal(struct ibv_qp *qp);
/* IBV_EVENT_CQ_ERR: completions to come are lost, poll_cq is negative when it is empty. */
void sim_cq_error(struct ibv_cq *cq);
/*
 * IBV_EVENT_DEVICE_FATAL: queue pairs in error, nothing can be created or modified (EIO). What
 * there is can be destroyed.
 */
void sim_device_fatal(struct sim_device *device);

/* ---- Faults (faults.c) ----------------------------------------------------------------------- */

#define SIM_VERBS(verb) \
	verb(GET_DEVICE_LIST) verb(OPEN_DEVICE) verb(CLOSE_DEVICE) verb(QUERY_DEVICE) \
	verb(QUERY_PORT) verb(QUERY_GID) verb(GET_ASYNC_EVENT) verb(ACK_ASYNC_EVENT) \
	verb(ALLOC_PD) verb(DEALLOC_PD) verb(REG_MR) verb(REG_DMABUF_MR) verb(DEREG_MR) verb(ALLOC_MW) \
	verb(DEALLOC_MW) verb(BIND_MW) verb(CREATE_COMP_CHANNEL) \
	verb(DESTROY_COMP_CHANNEL) verb(CREATE_CQ) verb(DESTROY_CQ) verb(GET_CQ_EVENT) \
	verb(ACK_CQ_EVENTS) verb(CREATE_QP) verb(MODIFY_QP) verb(QUERY_QP) \
	verb(DESTROY_QP) verb(POST_SEND) verb(POST_RECV) verb(POLL_CQ) verb(REQ_NOTIFY_CQ)

enum sim_verb {
#define SIM_VERB_NUMBER(name) SIM_##name,
	SIM_VERBS(SIM_VERB_NUMBER)
#undef SIM_VERB_NUMBER
	SIM_VERBS_COUNT,
};

enum sim_fault_kind {
	/*
	 * `verb` fails with `error`, as it does: the value, or NULL and errno, or -1. Nothing has
	 * changed. Of a post, `accepted` of its list were taken, and the caller is told `bad_wr`.
	 */
	SIM_FAULT_CALL,
	/* Of a completion; the work is done. */
	SIM_FAULT_CQE_LOST,
	SIM_FAULT_CQE_TWICE,
	SIM_FAULT_CQE_QPN,   /* qp_num is xor'ed with `value` */
	SIM_FAULT_CQE_WR_ID, /* wr_id is xor'ed with `value` */
	SIM_FAULT_CQE_FLAGS, /* wc_flags are xor'ed with `value` */
	SIM_FAULT_CQE_KEY,   /* invalidated_rkey is xor'ed with `value` */
	/* A send ends with `status` and its QP in error; whether the work was done says `done`. */
	SIM_FAULT_SEND_STATUS,
	/* The next window of a device has the key `value`, whoever had it before. */
	SIM_FAULT_WINDOW_KEY,
};

enum sim_bad_wr {
	SIM_BAD_WR_EXACT,     /* the first that was not taken */
	SIM_BAD_WR_NULL,
	SIM_BAD_WR_FOREIGN,   /* none of the list */
	SIM_BAD_WR_UNTOUCHED, /* is not written */
};

struct sim_fault {
	enum sim_fault_kind kind;
	enum sim_verb verb; /* of CALL */
	/*
	 * The object, or one that it belongs to: a sim_device, or anything that a verb returned. Of
	 * a completion its CQ or its QP, of a QP also its CQs. NULL: any.
	 */
	const void *target;
	unsigned int after; /* what goes well before it */
	unsigned int times; /* then it is over; 0: never */
	int error;
	enum sim_bad_wr bad_wr;
	unsigned int accepted;
	enum ibv_wc_status status;
	bool done;
	uint64_t value;
};

/* Each that is armed stays so on its own; the oldest that fits is taken. Its id is not 0. */
unsigned int sim_fault_arm(const struct sim_fault *fault);
void sim_fault_disarm(unsigned int id);
/* How often it struck. */
unsigned int sim_fault_hits(unsigned int id);

/* ---- What there is (counts.c) ---------------------------------------------------------------- */

struct sim_counts {
	unsigned int device_lists, contexts, pds, mrs, mws, mws_bound, channels, cqs, qps;
	unsigned int wrs;    /* posted, without a completion yet: sends */
	unsigned int recvs;  /* the same: receives */
	unsigned int cqes;   /* not polled */
	unsigned int events; /* not taken, or not acknowledged: completion and asynchronous ones */
	uint64_t pinned_bytes;
	/* By all that was ever done. */
	unsigned int opened; /* contexts */
	uint64_t bytes_read, bytes_written, bytes_sent;
};

/* NULL: of all devices. Lists are counted only there. */
struct sim_counts sim_counts(const struct sim_device *device);

/* Since sim_reset(), failed ones included. */
unsigned long sim_calls(enum sim_verb verb);

/* What was opened, allocated, created or taken, and is still there, in words; "": nothing. */
const char *sim_left(void);
bool sim_is_empty(void);

#endif
