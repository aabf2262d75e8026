/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A peer we ask.
 *
 *   DOWN -> HELLO -> PATHS -> READY -> DOWN ...
 *
 * DOWN is no failure: the other transport takes what comes meanwhile. The line is tried again while
 * the control connection is open. When it ends, so do all pairs that were made over it, and every
 * request in them.
 *
 * start(), cancel(), connect(), stop(), tick() and close() are called by anybody, and leave what
 * they want under `lock`; the thread does it with its next look.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/line.h"
#include "base/log.h"
#include "cuda/memory.h"
#include "ledger/ledger.h"
#include "transport/chain.h"
#include "transport/rdma/deadline.h"
#include "transport/rdma/endpoint.h"
#include "transport/rdma/lease.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/parent.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"
#include "transport/rdma/transfer.h"
#include "transport/rdma/use.h"
#include "transport/rdma/waiting.h"

/* One line is heard so often before the others have their turn. */
#define ROUND_MESSAGES 64

static struct otte_rdma_peer *to_peer(struct otte_transport_peer *peer)
{
	return container_of(peer, struct otte_rdma_peer, base);
}

/* ---- The end of a work ---- */

void otte_rdma_work_tell(struct otte_work *work, int code, bool drained)
{
	const struct otte_transport_ops *planner = work->own.planner;
	struct otte_work planned = { .native = work->native };

	work->code = code;
	work->effect = code && work->op == OTTE_WRITE && (work->own.moved || work->own.torn) ?
			       OTTE_EFFECT_UNKNOWN :
			       OTTE_EFFECT_NONE;
	work->drained = drained;
	work->carrier = OTTE_TRANSPORT_RDMA;
	work->done(work);
	/* Who would end it early could pin its plan up to here. */
	planner->unplan(&planned);
}

void otte_rdma_work_hand_on(struct otte_rdma_peer *peer, struct otte_work *work, int code)
{
	bool begun = work->op == OTTE_WRITE && (work->own.moved || work->own.torn);

	if (!otte_region_is_fresh(work->watch))
		otte_rdma_work_tell(work, -ESTALE, true);
	else if (begun || work->wanted == OTTE_TRANSPORT_RDMA)
		otte_rdma_work_tell(work, code, true);
	else
		peer->base.next->ops->start(peer->base.next, work);
}

/* No other transport reaches what is reached by cells: that would only say so. */
void otte_rdma_work_leave(struct otte_rdma_peer *peer, struct otte_work *work, int code)
{
	if (otte_rdma_peer_is_celled(peer, work->region))
		otte_rdma_work_tell(work, code, true);
	else
		otte_rdma_work_hand_on(peer, work, code);
}

/* The first of a list, out of it; or NULL. `only`: if it is this one; NULL: any. */
static struct otte_work *take_first(struct otte_rdma_peer *peer, struct otte_work **list,
				    const struct otte_work *only)
{
	struct otte_work *work;

	pthread_mutex_lock(&peer->lock);
	work = *list;
	if (only && work != only)
		work = NULL;
	if (work)
		DL_DELETE2(*list, work, own.prev, own.next);
	pthread_mutex_unlock(&peer->lock);
	return work;
}

/* ---- The line ---- */

void otte_rdma_peer_break(struct otte_rdma_peer *peer, int code)
{
	if (peer->broken)
		return;
	peer->broken = code;
	otte_line_escape(peer->broken_text, sizeof(peer->broken_text), otte_error_text());
	peer->worker->busy = true;
}

void otte_rdma_peer_say(struct otte_rdma_peer *peer, const struct otte_rdma_message *message)
{
	int ret;

	if (peer->broken)
		return;
	ret = otte_rdma_line_say(&peer->line, message);
	if (ret)
		otte_rdma_peer_break(peer, ret);
}

/* -> DOWN. What waits is handed on, or ends with `code` where the peer was stopped. */
static void lose(struct otte_rdma_peer *peer, int code, bool stopped, uint64_t now_ns)
{
	const struct otte_config *config = peer->rdma->env.config;
	bool was_ready = peer->state == OTTE_RDMA_PEER_READY;
	struct otte_work *work;

	otte_rdma_line_close(&peer->line);
	pthread_mutex_lock(&peer->lock);
	otte_line_escape(peer->why, sizeof(peer->why), otte_error_text());
	peer->state = OTTE_RDMA_PEER_DOWN;
	/* What is queued from here on is for the next line, which may be begun at once. */
	peer->left = peer->queue;
	peer->queue = NULL;
	if (stopped) /* until it is connected again */
		peer->again_ns = now_ns;
	else
		peer->again_ns =
			now_ns + (was_ready ? config->reconnect_min_ns : config->reconnect_max_ns);
	pthread_mutex_unlock(&peer->lock);
	otte_rdma_parents_fail(peer, stopped ? code : -ECONNRESET, stopped);
	otte_rdma_endpoints_close(peer, code);
	otte_rdma_transfers_forget(peer);
	otte_rdma_probes_go_on(peer, now_ns);
	if (was_ready)
		otte_rdma_peer_part(peer);
	peer->unanswered = 0;
	peer->broken = 0;
	while ((work = take_first(peer, &peer->left, NULL))) {
		if (stopped)
			otte_rdma_work_tell(work, code, true);
		else
			otte_rdma_work_leave(peer, work, code);
	}
}

static int say_paths(struct otte_rdma_peer *peer)
{
	struct otte_rdma_message message = { .type = OTTE_RDMA_MSG_PATHS };

	otte_rdma_fill_paths(peer->rdma, &message.paths);
	return otte_rdma_line_say(&peer->line, &message);
}

/* Who has not said any yet will say those of then. */
void otte_rdma_peer_paths_changed(struct otte_rdma_peer *peer, unsigned int unused)
{
	int ret;

	(void)unused;
	otte_rdma_endpoints_try_again(peer);
	if (peer->state == OTTE_RDMA_PEER_READY)
		otte_rdma_peer_look_again(peer);
	if (peer->broken ||
	    (peer->state != OTTE_RDMA_PEER_PATHS && peer->state != OTTE_RDMA_PEER_READY))
		return;
	ret = say_paths(peer);
	if (ret)
		otte_rdma_peer_break(peer, ret);
}

static int take_paths(struct otte_rdma_peer *peer, const struct otte_rdma_message *message)
{
	if (message->type != OTTE_RDMA_MSG_PATHS)
		return otte_fail(-EPROTO, "message %u of a source before its PATHS", message->type);
	peer->paths = message->paths;
	peer->celled_count = 0;
	otte_rdma_peer_meet(peer);
	peer->state = OTTE_RDMA_PEER_READY;
	return 0;
}

static int take_paths_again(struct otte_rdma_peer *peer, const struct otte_rdma_paths *paths)
{
	int ret = otte_rdma_paths_follow(paths, &peer->paths);

	if (ret)
		return ret;
	peer->paths = *paths;
	otte_rdma_peer_look_again(peer);
	otte_rdma_endpoints_try_again(peer);
	return 0;
}

static int take_message(struct otte_rdma_peer *peer, const struct otte_rdma_message *message)
{
	switch (message->type) {
	case OTTE_RDMA_MSG_PATHS:
		return take_paths_again(peer, &message->paths);
	case OTTE_RDMA_MSG_CONNECTED:
		return otte_rdma_endpoint_connected(peer, &message->connected);
	case OTTE_RDMA_MSG_GRANT:
		return otte_rdma_transfer_granted(peer, &message->grant);
	case OTTE_RDMA_MSG_LEASED:
		return otte_rdma_lease_given(peer, &message->leased);
	case OTTE_RDMA_MSG_RECALL:
		otte_rdma_lease_recalled(peer, &message->leasing);
		return 0;
	case OTTE_RDMA_MSG_ENDED:
		otte_rdma_lease_ended(peer, &message->leasing);
		return 0;
	case OTTE_RDMA_MSG_REFUSED:
		if (otte_rdma_lease_refused(peer, &message->answer))
			return 0;
		return otte_rdma_transfer_answered(peer, message);
	case OTTE_RDMA_MSG_DONE:
	case OTTE_RDMA_MSG_READY:
		return otte_rdma_transfer_answered(peer, message);
	case OTTE_RDMA_MSG_CLOSE:
		return otte_rdma_endpoint_closed(peer, &message->close);
	default:
		return otte_fail(-EPROTO, "message %u of a source", message->type);
	}
}

/* 1: more may be there. */
static int hear(struct otte_rdma_peer *peer, bool only_here)
{
	struct otte_rdma_message message;
	int ret;

	if (peer->state == OTTE_RDMA_PEER_HELLO) {
		ret = otte_rdma_line_greeted(&peer->line);
		if (ret)
			return ret < 0 ? ret : 0;
		peer->state = OTTE_RDMA_PEER_PATHS;
		ret = say_paths(peer);
		return ret ? ret : 1;
	}
	ret = otte_rdma_line_hear(&peer->line, only_here, &message);
	if (ret != 1)
		return ret;
	ret = peer->state == OTTE_RDMA_PEER_PATHS ? take_paths(peer, &message) :
						    take_message(peer, &message);
	return ret ? ret : 1;
}

static void line_ready(struct otte_watch *watch, uint32_t events)
{
	struct otte_rdma_peer *peer = container_of(watch, struct otte_rdma_peer, line.watch);
	unsigned int messages;
	int ret = 1;

	if (!otte_rdma_line_is_open(&peer->line) || peer->broken)
		return;
	peer->worker->busy = true;
	if (events & EPOLLOUT && otte_rdma_line_flush(&peer->line) < 0)
		ret = -ECONNRESET;
	for (messages = 0; ret == 1 && !peer->broken; messages++)
		ret = hear(peer, messages >= ROUND_MESSAGES);
	if (ret >= 0)
		return;
	if (ret == -EPROTO || ret == -EPROTONOSUPPORT)
		atomic_fetch_add(&peer->rdma->bad_frames, 1);
	otte_rdma_peer_break(peer, ret);
}

/* ---- Regions that are reached by cells ---- */

bool otte_rdma_peer_is_celled(const struct otte_rdma_peer *peer, uint64_t region)
{
	unsigned int known = (unsigned int)min_u64(peer->celled_count, OTTE_RDMA_CELLED), i;

	for (i = 0; i < known; i++)
		if (peer->celled[i] == region)
			return true;
	return false;
}

void otte_rdma_peer_note_celled(struct otte_rdma_peer *peer, uint64_t region)
{
	if (!otte_rdma_peer_is_celled(peer, region))
		peer->celled[peer->celled_count++ % OTTE_RDMA_CELLED] = region;
}

/* ---- What waits ---- */

int otte_rdma_poll_producer(const struct otte_work *work)
{
	struct otte_cuda_mem *gpu = work->published->gpu;

	return gpu ? otte_cuda_ready_poll(gpu) : 0;
}

/*
 * The queue's first, and so what is behind it, waits until its producer is done; it is asked under
 * the lock, as the memory is there as long as the work is. 0; 1: it waits; negative, with a text.
 */
static int look_at_producer(struct otte_rdma_peer *peer, const struct otte_work **first)
{
	int ret = 0;

	pthread_mutex_lock(&peer->lock);
	*first = peer->queue;
	if (*first)
		ret = otte_rdma_poll_producer(*first);
	pthread_mutex_unlock(&peer->lock);
	if (ret != -EAGAIN)
		return ret;
	peer->worker->soon = true;
	return 1;
}

/* It cannot begin, as the error's text says; who wants its end may have been faster. */
static void give_up_first(struct otte_rdma_peer *peer, const struct otte_work *first, int code)
{
	struct otte_work *work = take_first(peer, &peer->queue, first);

	if (!work)
		return;
	work->said = work->wanted == OTTE_TRANSPORT_RDMA && otte_region_is_fresh(work->watch);
	otte_rdma_work_leave(peer, work, code);
}

/* 0: begun, or over; 1: it waits. */
static int begin_first(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	struct otte_rdma_plan plan = {};
	const struct otte_work *first;
	struct otte_work *work;
	int ret;

	ret = look_at_producer(peer, &first);
	if (ret < 0)
		give_up_first(peer, first, ret);
	if (ret)
		return ret > 0;
	ret = otte_rdma_lease_begin(peer, now_ns, &first);
	if (ret != -ENOENT)
		return ret;
	pthread_mutex_lock(&peer->lock);
	work = peer->queue;
	if (work == first)
		otte_rdma_plan(peer, work, &plan);
	pthread_mutex_unlock(&peer->lock);
	if (work != first)
		return 0;
	ret = otte_rdma_parent_begin(peer, work, &plan, now_ns);
	if (ret >= 0)
		return ret;
	/* The next one's turn comes. */
	give_up_first(peer, work, ret);
	return 0;
}

/* ---- The thread ---- */

struct told {
	bool open, stop, close;
	int stop_code, fd;
	struct otte_lane_hello hello;
	struct otte_identity identity;
};

static void hear_others(struct otte_rdma_peer *peer, struct told *told)
{
	pthread_mutex_lock(&peer->lock);
	*told = (struct told){
		.open = peer->told_open,
		.stop = peer->told_stop,
		.close = peer->told_close,
		.stop_code = peer->stop_code,
		.fd = peer->fd,
		.hello = peer->hello,
		.identity = peer->identity,
	};
	peer->told_open = peer->told_stop = false;
	pthread_mutex_unlock(&peer->lock);
}

static void open_line(struct otte_rdma_peer *peer, const struct told *told, uint64_t now_ns)
{
	int ret;

	peer->source = told->identity;
	peer->since_ns = now_ns;
	peer->state = OTTE_RDMA_PEER_HELLO;
	peer->line.watch.ready = line_ready;
	ret = otte_rdma_line_open(&peer->line, &peer->worker->lines, told->fd);
	if (ret)
		otte_fd_close(told->fd);
	else
		ret = otte_rdma_line_greet(&peer->line, &told->hello);
	if (ret)
		otte_rdma_peer_break(peer, ret);
}

static bool overdue(const struct otte_rdma_peer *peer, uint64_t now_ns)
{
	/* HELLO comes before its line does, and that before its time. */
	return otte_rdma_line_is_open(&peer->line) &&
	       (peer->state == OTTE_RDMA_PEER_HELLO || peer->state == OTTE_RDMA_PEER_PATHS) &&
	       now_ns - min_u64(now_ns, peer->since_ns) >
		       peer->rdma->env.config->control_timeout_ns;
}

/* Nothing of it will change any more. */
static bool is_over(struct otte_rdma_peer *peer)
{
	struct otte_rdma_transfer *transfer;

	if (peer->parents || peer->uses || otte_rdma_probes_are_under_way(peer) ||
	    !otte_rdma_endpoints_are_over(peer))
		return false;
	DL_FOREACH(peer->transfers, transfer)
		if (transfer->pair && transfer->pair->state != OTTE_RDMA_PAIR_RETAINED)
			return false;
	return !otte_rdma_line_is_open(&peer->line);
}

bool otte_rdma_peer_look(struct otte_rdma_peer *peer, uint64_t now_ns)
{
	struct told told;

	hear_others(peer, &told);
	if (told.stop || told.close) {
		otte_fail(told.stop_code, "the peer is lost");
		lose(peer, told.stop_code, true, now_ns);
	}
	if (told.open)
		open_line(peer, &told, now_ns);
	if (!peer->broken && overdue(peer, now_ns)) {
		otte_fail(-ETIMEDOUT,
			  "the peer does not answer on its lane for RDMA (control.timeout_ms)");
		otte_rdma_peer_break(peer, -ETIMEDOUT);
	}
	otte_rdma_endpoints_give_up(peer, now_ns);
	otte_rdma_transfers_go_on(peer, now_ns);
	otte_rdma_leases_go_on(peer, now_ns);
	otte_rdma_uses_go_on(peer, now_ns);
	otte_rdma_probes_go_on(peer, now_ns);
	otte_rdma_deadlines_look(peer, now_ns);
	while (!peer->broken && peer->state == OTTE_RDMA_PEER_READY &&
	       begin_first(peer, now_ns) == 0)
		peer->worker->busy = true;
	otte_rdma_parents_go_on(peer, now_ns);
	if (peer->broken) {
		otte_fail(peer->broken, "%s", peer->broken_text);
		otte_log(OTTE_LOG_INFO, "peer %s is not reached over rdma: %s", peer->source.name,
			 peer->broken_text);
		lose(peer, peer->broken, false, now_ns);
	}
	return !told.close || !is_over(peer);
}

/* ---- What the engine asks ---- */

static void note_why(struct otte_rdma_peer *peer, const char *why)
{
	pthread_mutex_lock(&peer->lock);
	snprintf(peer->why, sizeof(peer->why), "%s", why);
	pthread_mutex_unlock(&peer->lock);
}

/* Where the control connection goes. Never waits. */
static int connect_line(const struct otte_client_address *to, int *out)
{
	int fd, ret;

	fd = otte_fd_socket(to->address.ss_family, SOCK_STREAM);
	if (fd < 0)
		return otte_fail(-errno, "socket: %m");
	if (connect(fd, (const struct sockaddr *)&to->address, to->length) < 0 &&
	    errno != EINPROGRESS) {
		ret = otte_fail(-errno, "connect: %m");
		otte_fd_close(fd);
		return ret;
	}
	*out = fd;
	return 0;
}

/* Requests wait from here on. */
static void begin(struct otte_rdma_peer *peer)
{
	struct otte_client_address to;
	struct otte_lane_hello hello;
	bool taken = false;
	int fd = -1, ret;

	if (!peer->control->rdma) {
		note_why(peer, "the peer has no transport rdma");
		return;
	}
	ret = otte_control_client_lane(peer->control, OTTE_LANE_RDMA, &hello, &to);
	if (!ret)
		ret = connect_line(&to, &fd);
	if (ret) {
		note_why(peer, otte_error_text());
		return;
	}
	pthread_mutex_lock(&peer->lock);
	if (peer->state == OTTE_RDMA_PEER_DOWN && !peer->stopped && !peer->told_open &&
	    !peer->told_stop) {
		peer->fd = fd;
		peer->hello = hello;
		peer->identity = peer->control->welcome.identity;
		peer->told_open = taken = true;
		peer->state = OTTE_RDMA_PEER_HELLO;
	}
	pthread_mutex_unlock(&peer->lock);
	if (taken)
		otte_rdma_wake(peer->worker);
	else
		otte_fd_close(fd);
}

int otte_rdma_peer_open(struct otte_transport *transport, struct otte_control_client *control,
			void (*changed)(void *arg), void *arg, struct otte_transport_peer **out)
{
	struct otte_rdma *rdma = container_of(transport, struct otte_rdma, base);
	struct otte_rdma_peer *peer;
	int ret;

	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return otte_fail(-ENOMEM, "no memory for a peer");
	ret = rdma->next->ops->peer_open(rdma->next, control, changed, arg, &peer->base.next);
	if (ret) {
		free(peer);
		return ret;
	}
	peer->base.ops = transport->ops;
	peer->base.indirect = OTTE_INDIRECT_NEVER;
	peer->rdma = rdma;
	peer->control = control;
	peer->line.watch.fd = peer->fd = -1;
	peer->stopped = true;
	peer->stop_code = -ESHUTDOWN;
	pthread_mutex_init(&peer->lock, NULL);
	pthread_mutex_lock(&rdma->lock);
	peer->worker = otte_rdma_worker_choose(rdma);
	pthread_mutex_unlock(&rdma->lock);
	pthread_mutex_lock(&peer->worker->lock);
	DL_APPEND2(peer->worker->peers, peer, prev, next_peer);
	pthread_mutex_unlock(&peer->worker->lock);
	*out = &peer->base;
	return 0;
}

void otte_rdma_peer_connect(struct otte_transport_peer *base)
{
	struct otte_rdma_peer *peer = to_peer(base);

	pthread_mutex_lock(&peer->lock);
	peer->stopped = false;
	pthread_mutex_unlock(&peer->lock);
	/* First, so that no request finds the other one ready and this one not begun. */
	begin(peer);
	peer->base.next->ops->peer_connect(peer->base.next);
}

void otte_rdma_peer_stop(struct otte_transport_peer *base, int code)
{
	struct otte_rdma_peer *peer = to_peer(base);

	pthread_mutex_lock(&peer->lock);
	peer->stopped = true;
	peer->told_stop = true;
	peer->stop_code = code;
	if (peer->told_open)
		otte_fd_close(peer->fd);
	peer->told_open = false;
	pthread_mutex_unlock(&peer->lock);
	otte_rdma_wake(peer->worker);
	peer->base.next->ops->peer_stop(peer->base.next, code);
}

void otte_rdma_peer_tick(struct otte_transport_peer *base, uint64_t now_ns)
{
	struct otte_rdma_peer *peer = to_peer(base);
	bool again;

	pthread_mutex_lock(&peer->lock);
	again = peer->state == OTTE_RDMA_PEER_DOWN && !peer->stopped && !peer->told_stop &&
		peer->again_ns <= now_ns;
	if (again)
		peer->again_ns = now_ns + peer->rdma->env.config->reconnect_max_ns;
	pthread_mutex_unlock(&peer->lock);
	if (again)
		begin(peer);
	peer->base.next->ops->peer_tick(peer->base.next, now_ns);
}

void otte_rdma_peer_close(struct otte_transport_peer *base)
{
	struct otte_rdma_peer *peer = to_peer(base);
	struct otte_rdma_worker *worker = peer->worker; /* which outlives the peer */

	peer->base.next->ops->peer_close(peer->base.next);
	pthread_mutex_lock(&peer->lock);
	peer->told_close = true;
	pthread_mutex_unlock(&peer->lock);
	otte_rdma_wake(worker);
}

bool otte_rdma_peer_passes(const struct otte_rdma_peer *peer, const struct otte_work *work)
{
	if (work->wanted != OTTE_TRANSPORT_ANY)
		return work->wanted != OTTE_TRANSPORT_RDMA;
	return !work->published ||
	       atomic_load_explicit(&peer->state, memory_order_relaxed) == OTTE_RDMA_PEER_DOWN;
}

bool otte_rdma_peer_is_idle(struct otte_rdma_peer *peer)
{
	bool idle;

	pthread_mutex_lock(&peer->lock);
	idle = !peer->queue && !peer->left && !peer->running;
	pthread_mutex_unlock(&peer->lock);
	return idle;
}

/* Under lock. Not 0: who wants its end was faster, and it is not in the queue. */
static int enqueue(struct otte_rdma_peer *peer, struct otte_work *work)
{
	int code = atomic_load(work->own.planner->mark(work->native));

	if (!code)
		otte_rdma_waiting_add(&peer->queue, work, otte_now_ns(),
				      peer->rdma->env.config->aging_ns);
	return code;
}

void otte_rdma_work_init(struct otte_work *work)
{
	work->own.way = NULL;
	work->own.moved = 0;
	work->own.torn = work->own.unleased = false;
	atomic_store(&work->own.abandon, 0);
}

void otte_rdma_peer_start(struct otte_transport_peer *base, struct otte_work *work)
{
	struct otte_rdma_peer *peer = to_peer(base);
	/* The work may be over, and the peer gone, at once. */
	struct otte_rdma_worker *worker = peer->worker;
	int ret = 0, code = 0;

	if (otte_rdma_peer_passes(peer, work)) {
		peer->base.next->ops->start(peer->base.next, work);
		return;
	}
	otte_rdma_work_init(work);
	pthread_mutex_lock(&peer->lock);
	if (!work->published)
		ret = otte_fail(-EOPNOTSUPP, "no NIC knows its local region");
	else if (peer->state == OTTE_RDMA_PEER_DOWN || peer->told_stop)
		ret = otte_fail(-ENOTCONN, "%s",
				*peer->why ? peer->why : "the peer is not reached over rdma");
	else
		code = enqueue(peer, work);
	pthread_mutex_unlock(&peer->lock);
	if (ret)
		otte_rdma_work_hand_on(peer, work, ret);
	else if (code)
		otte_rdma_work_tell(work, code, true);
	else
		otte_rdma_wake(worker);
}

/* What stands nowhere here is the other transport's, or over; it has the pin in any case. */
void otte_rdma_peer_cancel(struct otte_transport_peer *base, void *pinned, int code)
{
	struct otte_rdma_peer *peer = to_peer(base);
	struct otte_work *work, *each;
	bool noticed = false;

	/* Before the lock: what stands nowhere yet will find it. */
	atomic_store(peer->base.next->ops->mark(pinned), code);
	pthread_mutex_lock(&peer->lock);
	work = otte_chain_take_pinned(&peer->queue, pinned);
	if (!work)
		work = otte_chain_take_pinned(&peer->left, pinned);
	DL_FOREACH2(peer->running, each, own.next) {
		if (each->native != pinned)
			continue;
		atomic_store(&each->own.abandon, code);
		noticed = true;
	}
	pthread_mutex_unlock(&peer->lock);
	if (work)
		otte_rdma_work_tell(work, code, true);
	if (noticed)
		otte_rdma_wake(peer->worker);
	peer->base.next->ops->cancel(peer->base.next, pinned, code);
}
