/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a reliable connection does with its work, one request at a time. Requests of a queue begin
 * in their order, and complete in their order; only READs may take longer than what follows them.
 *
 * A request that fails completes with its status, signalled or not, and its QP is in error: what
 * follows is flushed. Where it is the peer who refuses, the peer's QP is in error as well. A key
 * that SEND_WITH_INV does not find is the receiver's error alone: it has answered by then.
 */
#include "base/clock.h"
#include "base/util.h"
#include "sim/verbs/private.h"

/* No status: later, perhaps. */
#define WAITS (-1)
/* No status: the peer has no receive posted. */
#define NOT_READY (-2)

#define INFINITE 7
#define TIMEOUT_UNIT_NS 4096ull

/* ---- Completions ----------------------------------------------------------------------------- */

static enum ibv_wc_opcode completion_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	default:
		return IBV_WC_SEND;
	}
}

static void complete_send(struct sim_qp *qp)
{
	const uint64_t number = qp->sends.head++;
	const struct sim_wqe *wqe = sim_wqe_at(qp, number);
	const struct sim_cqe cqe = {
		.wc = {
			.wr_id = wqe->wr_id,
			.status = wqe->status,
			.opcode = completion_opcode(wqe->opcode),
			.byte_len = (uint32_t)wqe->bytes.length,
		},
		.send = true,
		.posted = number,
	};

	qp->nic->counts.wrs--;
	if (qp->signals_all || wqe->flags & IBV_SEND_SIGNALED || wqe->status != IBV_WC_SUCCESS)
		sim_complete(qp, &cqe);
}

static void retire(struct sim_qp *qp)
{
	while (qp->sends.head < qp->sends.tail &&
	       sim_wqe_at(qp, qp->sends.head)->state == SIM_WQE_DONE)
		complete_send(qp);
}

static void complete_recv(struct sim_qp *qp, const struct ibv_wc *known, bool solicited)
{
	struct sim_cqe cqe = { .wc = *known, .posted = qp->recvs.head, .solicited = solicited };

	cqe.wc.wr_id = sim_recv_at(qp, qp->recvs.head++)->wr_id;
	qp->nic->counts.recvs--;
	sim_complete(qp, &cqe);
}

static void fail_recv(struct sim_qp *qp, enum ibv_wc_status status)
{
	const struct ibv_wc known = { .status = status };

	complete_recv(qp, &known, false);
}

static bool flush(struct sim_qp *qp)
{
	struct sim_wqe *wqe;

	qp->in_flight = 0;
	if (qp->sends.head < qp->sends.tail) {
		wqe = sim_wqe_at(qp, qp->sends.head);
		if (wqe->state != SIM_WQE_DONE)
			wqe->status = IBV_WC_WR_FLUSH_ERR;
		complete_send(qp);
		return true;
	}
	if (qp->recvs.head == qp->recvs.tail)
		return false;
	fail_recv(qp, IBV_WC_WR_FLUSH_ERR);
	return true;
}

/* ---- The peer -------------------------------------------------------------------------------- */

/* What it says to a request, and what becomes of it by that. */
struct answer {
	int status; /* or NOT_READY */
	bool fails;
	bool raises;
	enum ibv_event_type event;
};

static const struct answer good = { .status = IBV_WC_SUCCESS };
static const struct answer not_ready = { .status = NOT_READY };

static struct answer refuse(enum ibv_wc_status status)
{
	return (struct answer){
		.status = (int)status,
		.fails = true,
		.raises = true,
		.event = status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR :
							   IBV_EVENT_QP_REQ_ERR,
	};
}

/* What it found in its receive is told there, and no event. */
static struct answer refuse_message(struct sim_qp *peer, enum ibv_wc_status own,
				    enum ibv_wc_status status)
{
	fail_recv(peer, own);
	return (struct answer){ .status = (int)status, .fails = true };
}

static void fail_peer(struct sim_qp *peer, const struct answer *answer)
{
	sim_qp_set_error(peer);
	if (answer->raises && !(peer->nic->device.quirks & SIM_RXE_NO_QP_EVENTS))
		sim_qp_raise(peer, answer->event);
}

static bool has_recv(const struct sim_qp *peer)
{
	return peer->recvs.head < peer->recvs.tail;
}

static void establish(struct sim_qp *peer)
{
	if (peer->established || peer->attr.qp_state != IBV_QPS_RTR)
		return;
	peer->established = true;
	if (!(peer->nic->device.quirks & SIM_RXE_NO_QP_EVENTS))
		sim_qp_raise(peer, IBV_EVENT_COMM_EST);
}

static struct sim_bytes remote_bytes(const struct sim_qp *peer, const struct sim_wqe *wqe,
				     struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){
		.addr = wqe->remote_at,
		.length = (uint32_t)wqe->bytes.length,
		.lkey = wqe->remote_key,
	};
	return (struct sim_bytes){
		.nic = peer->nic,
		.list = sge,
		.count = 1,
		.length = wqe->bytes.length,
	};
}

static struct answer respond_read(struct sim_qp *peer, const struct sim_wqe *wqe,
				  unsigned int in_flight)
{
	if (!(peer->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) ||
	    in_flight > peer->attr.max_dest_rd_atomic)
		return refuse(IBV_WC_REM_INV_REQ_ERR);
	if (!sim_remote_allowed(peer, wqe->remote_at, wqe->bytes.length, wqe->remote_key,
				IBV_ACCESS_REMOTE_READ))
		return refuse(IBV_WC_REM_ACCESS_ERR);
	return good;
}

static struct answer respond_write(struct sim_qp *peer, const struct sim_wqe *wqe)
{
	const bool tells = wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct sim_bytes to;
	struct ibv_sge sge;

	if (!(peer->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return refuse(IBV_WC_REM_INV_REQ_ERR);
	if (tells && !has_recv(peer))
		return not_ready;
	if (!sim_remote_allowed(peer, wqe->remote_at, wqe->bytes.length, wqe->remote_key,
				IBV_ACCESS_REMOTE_WRITE))
		return refuse(IBV_WC_REM_ACCESS_ERR);
	to = remote_bytes(peer, wqe, &sge);
	sim_bytes_copy(&wqe->bytes, &to);
	peer->nic->counts.bytes_written += wqe->bytes.length;
	if (tells) {
		const struct ibv_wc known = {
			.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
			.byte_len = (uint32_t)wqe->bytes.length,
			.imm_data = wqe->immediate_or_key,
			.wc_flags = IBV_WC_WITH_IMM,
		};

		complete_recv(peer, &known, wqe->flags & IBV_SEND_SOLICITED);
	}
	return good;
}

static unsigned int flags_of(const struct sim_qp *peer, enum ibv_wr_opcode opcode)
{
	/* IB_WC_WITH_INVALIDATE of the kernel, which means another thing to users. */
	const unsigned int kernel_invalidated = 1u << 2;
	const bool rxe = peer->nic->device.quirks & SIM_RXE_INV_FLAG;
	unsigned int flags = rxe ? IBV_WC_GRH : 0;

	if (opcode == IBV_WR_SEND_WITH_IMM)
		flags |= IBV_WC_WITH_IMM;
	if (opcode == IBV_WR_SEND_WITH_INV)
		flags |= rxe ? kernel_invalidated : IBV_WC_WITH_INV;
	return flags;
}

static struct answer respond_send(struct sim_qp *peer, const struct sim_wqe *wqe)
{
	const struct ibv_wc known = {
		.opcode = IBV_WC_RECV,
		.byte_len = (uint32_t)wqe->bytes.length,
		.invalidated_rkey = wqe->immediate_or_key,
		.wc_flags = flags_of(peer, wqe->opcode),
	};
	const struct sim_bytes *to;

	if (!has_recv(peer))
		return not_ready;
	to = &sim_recv_at(peer, peer->recvs.head)->bytes;
	if (wqe->bytes.length > to->length)
		return refuse_message(peer, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
	if (!sim_bytes_allowed(peer, to, true))
		return refuse_message(peer, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
	sim_bytes_copy(&wqe->bytes, to);
	peer->nic->counts.bytes_sent += wqe->bytes.length;
	if (wqe->opcode == IBV_WR_SEND_WITH_INV &&
	    !sim_window_invalidate(peer, wqe->immediate_or_key))
		return refuse_message(peer, IBV_WC_REM_INV_REQ_ERR, IBV_WC_SUCCESS);
	complete_recv(peer, &known, wqe->flags & IBV_SEND_SOLICITED);
	return good;
}

static struct answer respond(struct sim_qp *peer, const struct sim_wqe *wqe, unsigned int in_flight)
{
	establish(peer);
	switch (wqe->opcode) {
	case IBV_WR_RDMA_READ:
		return respond_read(peer, wqe, in_flight);
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return respond_write(peer, wqe);
	default:
		return respond_send(peer, wqe);
	}
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Whether it has waited for so long, by the clock, since it began to. */
static bool has_waited(uint64_t *since_ns, uint64_t limit_ns)
{
	const uint64_t now = otte_now_ns();

	if (!*since_ns)
		*since_ns = now;
	return now - *since_ns >= limit_ns;
}

/* Timeout 0 is without end. */
static int wait_for_answer(const struct sim_qp *qp, struct sim_wqe *wqe)
{
	const uint64_t tries = qp->attr.retry_cnt + 1u;
	const uint64_t limit_ns = tries * (TIMEOUT_UNIT_NS << qp->attr.timeout);

	if (sim_retry() == SIM_AT_ONCE)
		return IBV_WC_RETRY_EXC_ERR;
	if (qp->attr.retry_cnt == INFINITE && qp->nic->device.quirks & SIM_RXE_RETRIES_FOR_EVER)
		return WAITS;
	if (!has_waited(&wqe->unanswered_since_ns, limit_ns) || !qp->attr.timeout)
		return WAITS;
	return IBV_WC_RETRY_EXC_ERR;
}

static uint64_t rnr_delay_ns(uint8_t encoded)
{
	static const uint32_t in_10us[32] = {
		65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
		48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
		2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return in_10us[encoded & 31] * 10 * NSEC_PER_USEC;
}

static int wait_for_recv(const struct sim_qp *qp, const struct sim_qp *peer, struct sim_wqe *wqe)
{
	const uint64_t limit_ns = qp->attr.rnr_retry * rnr_delay_ns(peer->attr.min_rnr_timer);

	wqe->unanswered_since_ns = 0;
	if (qp->attr.rnr_retry == INFINITE)
		return WAITS;
	if (sim_retry() == SIM_AT_ONCE || has_waited(&wqe->not_ready_since_ns, limit_ns))
		return IBV_WC_RNR_RETRY_EXC_ERR;
	return WAITS;
}

/* ---- The requester --------------------------------------------------------------------------- */

static int check_local(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
	const bool reads = wqe->opcode == IBV_WR_RDMA_READ;
	const struct sim_port *port = sim_port_of(qp->nic, qp->attr.port_num);

	if (wqe->bytes.length > port->attr.max_msg_sz)
		return IBV_WC_LOC_LEN_ERR;
	if (reads && !qp->attr.max_rd_atomic)
		return IBV_WC_LOC_QP_OP_ERR;
	return sim_bytes_allowed(qp, &wqe->bytes, reads) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

static void fetch(struct sim_qp *qp, const struct sim_qp *peer, const struct sim_wqe *wqe)
{
	struct ibv_sge sge;
	const struct sim_bytes from = remote_bytes(peer, wqe, &sge);

	sim_bytes_copy(&from, &wqe->bytes);
	qp->nic->counts.bytes_read += wqe->bytes.length;
}

/* The answer has come, or is waited for. What a READ asks for without an answer it asks again. */
static int take_answer(struct sim_qp *qp, struct sim_qp *peer, struct sim_wqe *wqe, int status)
{
	const bool reads = wqe->opcode == IBV_WR_RDMA_READ;

	if (sim_fabric_answers(qp, peer)) {
		if (reads && status == IBV_WC_SUCCESS)
			fetch(qp, peer, wqe);
		return status;
	}
	if (!reads) {
		wqe->state = SIM_WQE_UNANSWERED;
		wqe->status = (enum ibv_wc_status)status;
	}
	return wait_for_answer(qp, wqe);
}

static void set_done(struct sim_qp *qp, struct sim_wqe *wqe, int status)
{
	if (wqe->state == SIM_WQE_IN_FLIGHT)
		qp->in_flight--;
	wqe->state = SIM_WQE_DONE;
	wqe->status = status == WAITS ? IBV_WC_RETRY_EXC_ERR : (enum ibv_wc_status)status;
}

static int execute_or_fault(struct sim_qp *qp, struct sim_wqe *wqe);

/*
 * The peer had them before what it refuses, and has answered them before. One that has no answer is
 * the one to fail, for it is the oldest.
 */
static void finish_reads_before(struct sim_qp *qp, const struct sim_wqe *last)
{
	struct sim_wqe *wqe;
	uint64_t i;

	for (i = qp->sends.head; (wqe = sim_wqe_at(qp, i)) != last; i++)
		if (wqe->state == SIM_WQE_IN_FLIGHT)
			set_done(qp, wqe, execute_or_fault(qp, wqe));
}

static int request(struct sim_qp *qp, struct sim_wqe *wqe)
{
	struct sim_qp *peer = sim_fabric_peer(qp);
	struct answer answer;
	int status;

	if (wqe->state == SIM_WQE_UNANSWERED)
		return peer && sim_fabric_answers(qp, peer) ? (int)wqe->status :
							      wait_for_answer(qp, wqe);
	status = check_local(qp, wqe);
	if (status != IBV_WC_SUCCESS)
		return status;
	if (!peer)
		return wait_for_answer(qp, wqe);
	answer = respond(peer, wqe, qp->in_flight ? qp->in_flight : 1);
	if (answer.status == NOT_READY)
		return wait_for_recv(qp, peer, wqe);
	if (answer.fails) {
		finish_reads_before(qp, wqe);
		fail_peer(peer, &answer);
	}
	qp->psn_sent++;
	peer->psn_expected++;
	return take_answer(qp, peer, wqe, answer.status);
}

static int execute(struct sim_qp *qp, struct sim_wqe *wqe)
{
	switch (wqe->opcode) {
	case IBV_WR_BIND_MW:
		return (int)sim_window_bind(qp, &wqe->bind);
	case IBV_WR_LOCAL_INV:
		return sim_window_invalidate(qp, wqe->immediate_or_key) ? IBV_WC_SUCCESS :
									  IBV_WC_LOC_QP_OP_ERR;
	default:
		return request(qp, wqe);
	}
}

/* A fault may have it end otherwise, with the work done or not; that is settled when it begins. */
static int execute_or_fault(struct sim_qp *qp, struct sim_wqe *wqe)
{
	const struct sim_fault *fault;
	int status;

	if (!wqe->begun) {
		wqe->begun = true;
		fault = sim_fault_strikes(SIM_FAULT_SEND_STATUS, SIM_OF_QP(qp));
		if (fault && !fault->done)
			return (int)fault->status;
		if (fault)
			wqe->instead = fault->status;
	}
	status = execute(qp, wqe);
	return status == IBV_WC_SUCCESS && wqe->instead ? (int)wqe->instead : status;
}

/* ---- A queue of sends ------------------------------------------------------------------------ */

/* What is behind the first that has failed is flushed, done or not. */
static void fail_from(struct sim_qp *qp, uint64_t number)
{
	struct sim_wqe *wqe;
	bool failed = false;
	uint64_t i;

	finish_reads_before(qp, sim_wqe_at(qp, number));
	for (i = qp->sends.head; i < qp->sends.tail; i++) {
		wqe = sim_wqe_at(qp, i);
		if (wqe->state != SIM_WQE_DONE)
			continue;
		if (failed)
			wqe->status = IBV_WC_WR_FLUSH_ERR;
		failed |= wqe->status != IBV_WC_SUCCESS;
	}
	sim_qp_set_error(qp);
}

/* False: it waits. */
static bool go(struct sim_qp *qp, uint64_t number)
{
	struct sim_wqe *wqe = sim_wqe_at(qp, number);
	const int status = execute_or_fault(qp, wqe);

	if (status == WAITS)
		return false;
	set_done(qp, wqe, status);
	if (status != IBV_WC_SUCCESS)
		fail_from(qp, number);
	retire(qp);
	return true;
}

/* NULL: all have begun. */
static struct sim_wqe *find_next(struct sim_qp *qp, uint64_t *number)
{
	struct sim_wqe *wqe;

	for (*number = qp->sends.head; *number < qp->sends.tail; ++*number) {
		wqe = sim_wqe_at(qp, *number);
		if (wqe->state == SIM_WQE_POSTED || wqe->state == SIM_WQE_UNANSWERED)
			return wqe;
	}
	return NULL;
}

static bool begin_next(struct sim_qp *qp)
{
	uint64_t number;
	struct sim_wqe *wqe = find_next(qp, &number);

	if (!wqe || (wqe->flags & IBV_SEND_FENCE && qp->in_flight))
		return false;
	if (wqe->opcode != IBV_WR_RDMA_READ || !sim_are_reads_late() || !qp->attr.max_rd_atomic)
		return go(qp, number);
	if (qp->in_flight == qp->attr.max_rd_atomic)
		return false;
	wqe->state = SIM_WQE_IN_FLIGHT;
	qp->in_flight++;
	return true;
}

static bool finish_first_read(struct sim_qp *qp)
{
	uint64_t i;

	for (i = qp->sends.head; i < qp->sends.tail; i++)
		if (sim_wqe_at(qp, i)->state == SIM_WQE_IN_FLIGHT)
			return go(qp, i);
	return false;
}

bool sim_has_work(const struct sim_qp *qp)
{
	return qp->sends.head < qp->sends.tail ||
	       (qp->attr.qp_state == IBV_QPS_ERR && qp->recvs.head < qp->recvs.tail);
}

bool sim_work(struct sim_qp *qp)
{
	if (qp->attr.qp_state == IBV_QPS_ERR)
		return flush(qp);
	if (qp->attr.qp_state != IBV_QPS_RTS)
		return false;
	return begin_next(qp) || finish_first_read(qp);
}
