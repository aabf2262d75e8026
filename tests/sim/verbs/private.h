/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the files of the simulator know of each other.
 *
 * Lock: sim_lock. The verbs of the table take it; all other functions here expect it to be held.
 * Who waits, waits on sim_changed, or without the lock on a descriptor.
 *
 * Objects: a device has contexts, a context has PDs, channels and CQs, a PD has MRs, windows and
 * QPs. Each counts those that refer to it, and is refused its end while there are any, as by the
 * kernel. Those of a context that was closed under them stay counted until sim_reset().
 */
#ifndef OTTE_TESTS_SIM_VERBS_PRIVATE_H
#define OTTE_TESTS_SIM_VERBS_PRIVATE_H

#include <pthread.h>
#include <sys/queue.h>

#include "sim/verbs/sim.h"

extern pthread_mutex_t sim_lock;
extern pthread_cond_t sim_changed;

/* Says why, and ends the program: what the caller did has no defined effect. */
__attribute__((noreturn, format(printf, 1, 2))) void sim_abort(const char *format, ...);

/* ---- Events (events.c) ----------------------------------------------------------------------- */

struct sim_event {
	TAILQ_ENTRY(sim_event) link;
	struct ibv_async_event async;
	struct sim_object *object; /* NULL: of a port or a device */
};

/* Readable exactly while there are events, for the other end is written under the lock too. */
struct sim_event_queue {
	int fd;
	TAILQ_HEAD(, sim_event) events;
	unsigned int count;
};

/* What events are about: how many were taken and not acknowledged. */
struct sim_object {
	unsigned int completions, asyncs;
};

/* Of ports and devices, in all contexts: such an event does not say whose it was. */
extern struct sim_object sim_ports;

int sim_event_queue_open(struct sim_event_queue *queue);
void sim_event_queue_close(struct sim_event_queue *queue);
void sim_event_push(struct sim_event_queue *queue, const struct ibv_async_event *async,
		    struct sim_object *object);
/* Waits without the lock unless the descriptor is O_NONBLOCK. False: errno says why. */
bool sim_event_take(struct sim_event_queue *queue, struct sim_event *event);
/* Those of an object that ends, and that nobody has taken. */
void sim_event_purge(struct sim_event_queue *queue, const struct sim_object *object);
/* Until all of its events are acknowledged. */
void sim_event_wait_acked(const struct sim_object *object, const char *what);

/* ---- Devices (devices.c) --------------------------------------------------------------------- */

struct sim_key {
	struct sim_mr *mr;
	struct sim_mw *mw;
};

struct sim_nic {
	struct sim_device device;
	LIST_HEAD(, sim_context) contexts;
	LIST_HEAD(, sim_qp) qps;
	struct sim_counts counts;
	struct sim_key *keys; /* by the index of a key */
	uint32_t key_count, key_last;
	uint32_t last_qpn;
	uint8_t key_byte;
	bool fatal;
};

struct sim_context {
	struct ibv_context context;
	LIST_ENTRY(sim_context) link;
	struct sim_nic *nic;
	struct sim_event_queue events;
	LIST_HEAD(, sim_pd) pds;
	LIST_HEAD(, sim_channel) channels;
	LIST_HEAD(, sim_cq) cqs;
	uint64_t pinned_bytes;
	bool closed;
};

extern struct sim_nic sim_nics[SIM_DEVICES];
extern unsigned int sim_nic_count;
extern unsigned int sim_lists_now;

struct sim_context *sim_context_of(struct ibv_context *context);
struct sim_nic *sim_nic_of(struct ibv_context *context);
/* NULL: it has no such port. */
struct sim_port *sim_port_of(struct sim_nic *nic, uint32_t port);
/* Whether the port has this address now. */
bool sim_port_has_gid(const struct sim_port *port, const union ibv_gid *gid);
void sim_devices_reset(void);

struct ibv_device **sim_get_device_list(unsigned int host, int *count);
void sim_free_device_list(struct ibv_device **list);
const char *sim_get_device_name(struct ibv_device *device);
struct ibv_context *sim_open_device(struct ibv_device *device);
int sim_close_device(struct ibv_context *context);
int sim_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int sim_query_port(struct ibv_context *context, uint8_t port, union otte_verbs_port *attr);
int sim_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *hundred_mbps);
int sim_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
int sim_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		     struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
int sim_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void sim_ack_async_event(struct ibv_async_event *event);

/* ---- Memory (memory.c) ----------------------------------------------------------------------- */

struct sim_pd {
	struct ibv_pd pd;
	LIST_ENTRY(sim_pd) link;
	LIST_HEAD(, sim_mr) mrs;
	LIST_HEAD(, sim_mw) mws;
	LIST_HEAD(, sim_qp) qps;
};

struct sim_mr {
	struct ibv_mr mr;
	LIST_ENTRY(sim_mr) link;
	int access;
	unsigned int windows; /* bound to it */
	uint8_t *bytes; /* where the CPU reaches what it is of; NULL: at its address */
	uint8_t *mapped; /* of a dma-buf: its mapping */
	size_t mapped_bytes;
};

struct sim_mw {
	struct ibv_mw mw;
	LIST_ENTRY(sim_mw) link;
	uint32_t key; /* of now; mw.rkey is the caller's to change */
	struct sim_mr *parent; /* NULL: not bound */
	struct sim_qp *qp; /* of type 2; NULL: not bound, or it is gone */
	uint64_t at, length;
	unsigned int access;
};

struct ibv_pd *sim_alloc_pd(struct ibv_context *context);
int sim_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *sim_reg_mr(struct ibv_pd *pd, void *at, size_t length, int access);
struct ibv_mr *sim_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access);
int sim_dereg_mr(struct ibv_mr *mr);
struct ibv_mw *sim_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int sim_dealloc_mw(struct ibv_mw *mw);

/* What a key's index names: both NULL where there is nothing. */
struct sim_key sim_key_find(const struct sim_nic *nic, uint32_t key);
bool sim_mr_covers(const struct sim_mr *mr, uint64_t at, uint64_t length);
/* Where the CPU reaches what the key opens. */
void *sim_key_pointer(const struct sim_nic *nic, uint32_t key, uint64_t at);
/* The QP is gone: no key of its windows works, and their parents stay in use. */
void sim_windows_orphan(struct sim_qp *qp);
/* Frees everything of a context, for sim_reset(). */
void sim_memory_free(struct sim_context *context);

/* ---- Windows (windows.c) --------------------------------------------------------------------- */

/* What is asked of a window, as it was when it was posted. */
struct sim_bind {
	uint32_t old_key, key; /* mw->rkey then, and what it is to become */
	uint32_t parent; /* its local key */
	uint64_t at, length;
	unsigned int access;
};

enum ibv_wc_status sim_window_bind(struct sim_qp *qp, const struct sim_bind *bind);
/* False: it is not bound, or not by this key, or this QP may not. */
bool sim_window_invalidate(struct sim_qp *qp, uint32_t key);
void sim_window_unbind(struct sim_mw *mw);

/* ---- Bytes (bytes.c) ------------------------------------------------------------------------- */

/* Part of a message: where it lies. */
struct sim_bytes {
	const struct sim_nic *nic; /* whose keys those of the list are */
	struct ibv_sge *list;
	unsigned int count;
	uint8_t *inline_bytes; /* instead of the list; NULL: the list */
	uint64_t length;
};

/* Whether the local keys allow it: `write` what comes, or read what goes. */
bool sim_bytes_allowed(const struct sim_qp *qp, const struct sim_bytes *bytes, bool write);
/* Whether a peer's key allows its QP this. */
bool sim_remote_allowed(const struct sim_qp *qp, uint64_t at, uint64_t length, uint32_t key,
			int access);
/* What an address of verbs points to, if a key is not needed to know it. */
void *sim_pointer(uint64_t address);
/* `to` is a list, and has room for it. */
void sim_bytes_copy(const struct sim_bytes *from, const struct sim_bytes *to);

/* ---- Completions (completion.c) -------------------------------------------------------------- */

struct sim_channel {
	struct ibv_comp_channel channel;
	LIST_ENTRY(sim_channel) link;
	struct sim_event_queue events;
};

struct sim_cqe {
	struct ibv_wc wc;
	struct sim_qp *qp; /* NULL: it is gone, or was reset */
	bool send;
	bool solicited;
	uint64_t posted; /* its number in its queue */
};

enum sim_notify { SIM_NOTIFY_OFF, SIM_NOTIFY_SOLICITED, SIM_NOTIFY_ALL };

struct sim_cq {
	struct ibv_cq cq;
	LIST_ENTRY(sim_cq) link;
	struct sim_object object;
	struct sim_cqe *ring;
	unsigned int size, first, count;
	enum sim_notify notify;
	bool error;
	bool held;
	bool held_any, held_solicited; /* came meanwhile */
	unsigned int queues; /* of QPs, that complete here */
};

/* Into its CQ, or not where a fault is armed. What is lost for want of room is a CQ error. */
void sim_complete(struct sim_qp *qp, const struct sim_cqe *cqe);
/* The QP is gone or reset: its completions go too, or name it no more. */
void sim_cq_forget(struct sim_cq *cq, const struct sim_qp *qp, bool drop);
void sim_completion_free(struct sim_context *context);

struct ibv_comp_channel *sim_create_comp_channel(struct ibv_context *context);
int sim_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *sim_create_cq(struct ibv_context *context, int entries, void *cq_context,
			     struct ibv_comp_channel *channel, int vector);
int sim_destroy_cq(struct ibv_cq *cq);
int sim_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void sim_ack_cq_events(struct ibv_cq *cq, unsigned int count);
int sim_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int sim_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- Queue pairs (queues.c, states.c) -------------------------------------------------------- */

/*
 * POSTED --> IN_FLIGHT (a READ that comes late) --> DONE
 *   |------> UNANSWERED (done at the peer, the answer was lost) --> DONE
 *   `------> DONE
 */
enum sim_wqe_state { SIM_WQE_POSTED, SIM_WQE_IN_FLIGHT, SIM_WQE_UNANSWERED, SIM_WQE_DONE };

struct sim_wqe {
	enum sim_wqe_state state;
	enum ibv_wc_status status; /* of DONE */
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint32_t immediate_or_key;
	uint64_t remote_at;
	uint32_t remote_key;
	struct sim_bind bind;
	struct sim_bytes bytes;
	uint64_t unanswered_since_ns, not_ready_since_ns; /* 0: it is not */
	bool begun;
	enum ibv_wc_status instead; /* of success, by a fault; 0: none */
};

struct sim_recv {
	uint64_t wr_id;
	struct sim_bytes bytes;
};

/*
 * Numbers of work requests: [free, head) are done and their slots not yet given back, [head, tail)
 * are not done. A slot is the number modulo size.
 */
struct sim_numbers {
	uint32_t size;
	uint64_t free, head, tail;
};

struct sim_qp {
	struct ibv_qp qp;
	LIST_ENTRY(sim_qp) nic_link, pd_link;
	TAILQ_ENTRY(sim_qp) waiting; /* progress.c */
	bool is_waiting;
	struct sim_object object;
	struct sim_nic *nic;
	struct ibv_qp_cap cap;
	bool signals_all;
	struct ibv_qp_attr attr; /* qp_state is the state */
	union ibv_gid own_gid; /* since RTR */
	bool established; /* IBV_EVENT_COMM_EST was raised */
	uint32_t psn_sent, psn_expected; /* one for each request */
	unsigned int in_flight; /* READs */
	struct sim_numbers sends, recvs;
	struct sim_wqe *wqes;
	struct sim_recv *recv_wqes;
	struct ibv_sge *sges; /* of all slots of both */
	uint8_t *inline_bytes;
};

struct ibv_qp *sim_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int sim_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int sim_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init_attr);
int sim_destroy_qp(struct ibv_qp *qp);

struct sim_qp *sim_qp_of(struct ibv_qp *qp);
struct sim_cq *sim_send_cq(const struct sim_qp *qp);
struct sim_cq *sim_recv_cq(const struct sim_qp *qp);
struct sim_wqe *sim_wqe_at(const struct sim_qp *qp, uint64_t number);
struct sim_recv *sim_recv_at(const struct sim_qp *qp, uint64_t number);
struct sim_qp *sim_qp_find(struct sim_nic *nic, uint32_t number);
/* In error, wherever it was; its work is flushed as progress is made. */
void sim_qp_set_error(struct sim_qp *qp);
void sim_qp_raise(struct sim_qp *qp, enum ibv_event_type event);
void sim_qp_free(struct sim_qp *qp);

/* An errno. Changes nothing. */
int sim_states_check(const struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask);

/* ---- Work (post.c, work.c, fabric.c, progress.c) --------------------------------------------- */

int sim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int sim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int sim_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* Does the next thing that the order of its queues permits. False: there is none now. */
bool sim_work(struct sim_qp *qp);
/* Whether it has work that is not done. */
bool sim_has_work(const struct sim_qp *qp);

/* The QP at the other end, if the request would come there; NULL: it is lost. */
struct sim_qp *sim_fabric_peer(const struct sim_qp *qp);
/* Whether what the peer answers comes here. */
bool sim_fabric_answers(const struct sim_qp *qp, const struct sim_qp *peer);
void sim_fabric_reset(void);

/* It may have something to do now. */
void sim_progress_add(struct sim_qp *qp);
void sim_progress_remove(struct sim_qp *qp);
/* Something has changed: does what can be done, or has it done, by the mode. */
void sim_progress(void);
enum sim_retry sim_retry(void);
bool sim_are_reads_late(void);
void sim_progress_reset(void);

/* ---- Faults (faults.c) ----------------------------------------------------------------------- */

/* The object of a call or completion, and what it belongs to. */
#define SIM_OF(...)                          \
	((const void *const[]){ __VA_ARGS__, NULL })
#define SIM_OF_QP(qp_)                                                                          \
	SIM_OF(&(qp_)->qp, (qp_)->qp.send_cq, (qp_)->qp.recv_cq, (qp_)->qp.pd, (qp_)->qp.context, \
	       &(qp_)->nic->device)

/* Counts the call. The errno with which it is to fail, or 0. */
int sim_fault_call(enum sim_verb verb, const void *const *of);
/* The same for posts, with the fault if there is one. */
const struct sim_fault *sim_fault_post(enum sim_verb verb, const void *const *of);
/* The fault of this kind that strikes now, or NULL. */
const struct sim_fault *sim_fault_strikes(enum sim_fault_kind kind, const void *const *of);
void sim_faults_reset(void);

#endif
