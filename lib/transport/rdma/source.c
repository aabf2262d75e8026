/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A peer that asks us: its line, and our ends of the pairs that it makes.
 *
 *   accepted -> OPEN -> lost: pairs are closed, grants taken back -> gone
 *
 * The session's end drops it; so does whatever is wrong on the line. It is gone when nothing that
 * was granted over it is in reach any more: then the session's record may go.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "transport/rdma/exposure.h"
#include "transport/rdma/grant.h"
#include "transport/rdma/let.h"
#include "transport/rdma/nic_lanes.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/routes.h"
#include "transport/rdma/source.h"

/* One line is heard so often before the others have their turn. */
#define ROUND_MESSAGES 64
/* Pairs of one peer, those included that are about to go. */
#define PAIRS_MAX (16 * OTTE_RDMA_WIDTH)
/* One peer has no more of rdma.endpoints than it leaves to others and to us. */
#define ENDPOINTS_TIMES 1

static void lose(struct otte_rdma_source *source)
{
	struct otte_rdma_source_pair *pair, *next;

	if (source->lost)
		return;
	source->lost = true;
	otte_rdma_line_close(&source->line);
	otte_rdma_lents_forget(source);
	DL_FOREACH_SAFE(source->pairs, pair, next)
		otte_rdma_source_fail_pair(pair, -ECONNRESET, "its peer is lost");
	source->worker->busy = true;
}

static void cut_off(struct otte_rdma_source *source, int code)
{
	if (code == -EPROTO || code == -EPROTONOSUPPORT) {
		atomic_fetch_add(&source->rdma->bad_frames, 1);
		otte_log(OTTE_LOG_WARNING, "a peer's lane for RDMA is cut off: %s",
			 otte_error_text());
	}
	source->broken = true;
	source->worker->busy = true;
}

void otte_rdma_source_say(struct otte_rdma_source *source, const struct otte_rdma_message *message)
{
	int ret;

	if (source->lost || source->broken)
		return;
	ret = otte_rdma_line_say(&source->line, message);
	if (ret)
		cut_off(source, ret);
}

/* ---- Pairs ---- */

void otte_rdma_source_say_closed(struct otte_rdma_source_pair *pair, int code)
{
	struct otte_rdma_message message = {
		.type = OTTE_RDMA_MSG_CLOSE,
		.close = { .connection = pair->pair.connection, .status = code },
	};

	otte_rdma_source_say(pair->source, &message);
}

void otte_rdma_source_end_pair(struct otte_rdma_source_pair *pair)
{
	otte_rdma_pair_close(&pair->pair, -ECANCELED, "what it was for is over");
}

void otte_rdma_source_fail_pair(struct otte_rdma_source_pair *pair, int code, const char *why)
{
	if (pair->pair.state != OTTE_RDMA_PAIR_OPEN && pair->pair.state != OTTE_RDMA_PAIR_JOINED)
		return;
	otte_rdma_pair_close(&pair->pair, code, why);
	otte_rdma_source_say_closed(pair, code);
	if (pair->pair.stopped)
		otte_rdma_exposures_drop_spares(pair);
	otte_rdma_lents_revoke(pair);
	otte_rdma_lets_revoke(pair);
}

void otte_rdma_source_port_changed(struct otte_rdma_source *source, unsigned int nic)
{
	struct otte_rdma_source_pair *pair, *next;
	int code;

	DL_FOREACH_SAFE(source->pairs, pair, next) {
		if (pair->pair.nic != nic)
			continue;
		code = otte_rdma_why_changed(source->rdma, nic);
		otte_rdma_source_fail_pair(pair, code, otte_error_text());
	}
}

static void pair_failed(struct otte_rdma_pair *pair, int code)
{
	if (otte_log_second_admits(&pair->rdma->failed_ns, otte_now_ns()))
		otte_log(OTTE_LOG_WARNING, "queue pair of a peer's NIC %u: %s", pair->remote_nic,
			 otte_error_text());
	otte_rdma_source_fail_pair(container_of(pair, struct otte_rdma_source_pair, pair), code,
				   "it has failed");
}

/* Its queue pair is gone, with all that was posted there. */
static void close_cell(struct otte_rdma_source_pair *pair)
{
	uint64_t bytes = pair->cell.mr.bytes;

	if (!otte_rdma_cell_close(&pair->cell))
		return;
	otte_log(OTTE_LOG_ERROR, "memory of a GPU that a NIC may still reach: %s",
		 otte_error_text());
	otte_rdma_lost(pair->source->rdma, bytes, "rdma: a cell that could not be destroyed");
	otte_rdma_lents_keep(pair);
}

static void pair_closed(struct otte_rdma_pair *base, bool gone)
{
	struct otte_rdma_source_pair *pair = container_of(base, struct otte_rdma_source_pair, pair);

	if (gone)
		otte_rdma_exposures_drop_spares(pair);
	if (gone)
		close_cell(pair);
	otte_rdma_lents_unpair(pair, gone);
	otte_rdma_lets_unpair(pair, gone);
	if (!gone)
		return; /* nobody knows when */
	DL_DELETE(pair->source->pairs, pair);
	free(pair);
}

static struct otte_rdma_source_pair *find_pair(struct otte_rdma_source *source, uint64_t connection)
{
	struct otte_rdma_source_pair *pair;

	DL_FOREACH(source->pairs, pair)
		if (pair->pair.connection == connection)
			return pair;
	return NULL;
}

/* Those of a lane that is still to be gone are the peer's, too; they are the same worker's. */
static uint32_t count_pairs(const struct otte_rdma_source *source)
{
	const struct otte_rdma_source *each;
	struct otte_rdma_source_pair *pair;
	uint32_t count, sum = 0;

	pthread_mutex_lock(&source->worker->lock);
	DL_FOREACH(source->worker->sources, each) {
		if (each->peer != source->peer)
			continue;
		DL_COUNT(each->pairs, pair, count);
		sum += count;
	}
	pthread_mutex_unlock(&source->worker->lock);
	return sum;
}

static int check_share(const struct otte_rdma_source *source)
{
	const struct otte_rdma *rdma = source->rdma;
	uint32_t most = rdma->env.config->rdma_endpoints;
	uint32_t held = count_pairs(source);
	uint64_t qps = atomic_load(&rdma->qps);

	if (held >= PAIRS_MAX)
		return otte_fail(-EDQUOT, "a peer has %u queue pairs already", held);
	if (qps < most && !otte_rdma_share(held, most - (uint32_t)qps, ENDPOINTS_TIMES))
		return otte_fail(-EDQUOT,
				 "a peer has its share of rdma.endpoints (%u): %u queue pairs",
				 most, held);
	return 0;
}

static int check_connect(struct otte_rdma_source *source, const struct otte_rdma_connect *connect,
			 const struct otte_rdma_path **path)
{
	const struct otte_rdma_poller *poller = &source->rdma->pollers[connect->source_nic];
	int ret = check_share(source);

	if (ret)
		return ret;
	if (connect->op == OTTE_READ && !connect->rd_atomic)
		return otte_fail(-EINVAL, "a peer would have READs, and none under way");
	if (connect->op == OTTE_READ && !source->rdma->env.config->rdma_dest_rd_atomic)
		return otte_fail(-EOPNOTSUPP, "rdma.dest_rd_atomic is 0: no READ is answered");
	*path = otte_rdma_find_path(&source->paths, connect->requester_nic);
	if (!*path || (*path)->pd != connect->requester_pd)
		return otte_fail(-ESTALE, "NIC %u of a peer is not the one of its PATHS",
				 connect->requester_nic);
	if (connect->cell && source->rdma->env.config->rdma_cuda_memory != OTTE_CUDA_MEMORY_DIRECT)
		return otte_fail(-EOPNOTSUPP, "rdma.cuda_memory is staged: there are no cells");
	if (!poller->context || poller->pd != connect->source_pd)
		return otte_fail(-ESTALE, "NIC %u is not the one that a peer knows",
				 connect->source_nic);
	return 0;
}

/* With its cell, where it is one. */
static int open_pair(struct otte_rdma_source_pair *pair, bool cell)
{
	char why[OTTE_ERROR_BYTES];
	int ret;

	if (cell) {
		ret = otte_rdma_cell_open(pair->pair.rdma->pollers[pair->pair.nic].context,
					  &pair->cell);
		if (ret)
			return ret;
		pair->pair.cell = true;
		pair->pair.pd = pair->cell.pd;
	}
	ret = otte_rdma_pair_open(&pair->pair, true);
	if (!ret)
		return 0;
	otte_error_keep(why);
	close_cell(pair);
	return otte_fail(ret, "%s", why);
}

static int make_pair(struct otte_rdma_source *source, const struct otte_rdma_connect *connect,
		     struct otte_rdma_connected *answer)
{
	const struct otte_rdma_path *path = NULL;
	struct otte_rdma_source_pair *pair;
	int ret;

	ret = check_connect(source, connect, &path);
	if (ret)
		return ret;
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return otte_fail(-ENOMEM, "no memory for a queue pair");
	pair->source = source;
	pair->pair = (struct otte_rdma_pair){
		.rdma = source->rdma,
		.worker = source->worker,
		.owner = pair,
		.connection = connect->connection,
		.nic = connect->source_nic,
		.remote_nic = connect->requester_nic,
		.op = connect->op,
		.failed = pair_failed,
		.closed = pair_closed,
	};
	ret = open_pair(pair, connect->cell);
	if (ret) {
		free(pair);
		return ret;
	}
	DL_APPEND(source->pairs, pair);
	ret = otte_rdma_pair_join(&pair->pair, path, connect->qpn, connect->psn, connect->mtu_bytes,
				  connect->rd_atomic);
	if (ret) {
		/* Nobody was told of it. */
		otte_rdma_pair_close(&pair->pair, ret, "it was not connected");
		return ret;
	}
	answer->qpn = pair->pair.qp->end.qpn;
	answer->psn = pair->pair.qp->end.psn;
	/* Ours may be smaller than what its PATHS said then. */
	answer->mtu_bytes =
		(uint32_t)min_u64(connect->mtu_bytes, pair->pair.qp->end.address.mtu_bytes);
	answer->rd_atomic = pair->pair.qp->end.max_dest_rd_atomic;
	return 0;
}

static int take_connect(struct otte_rdma_source *source, const struct otte_rdma_connect *connect)
{
	struct otte_rdma_message answer = {
		.type = OTTE_RDMA_MSG_CONNECTED,
		.connected.connection = connect->connection,
	};
	int ret;

	if (find_pair(source, connect->connection))
		return otte_fail(-EPROTO, "connection %lu comes twice",
				 (unsigned long)connect->connection);
	ret = make_pair(source, connect, &answer.connected);
	if (ret && otte_log_second_admits(&source->rdma->failed_ns, otte_now_ns()))
		otte_log(OTTE_LOG_WARNING, "no queue pair for a peer: %s", otte_error_text());
	if (ret)
		answer.connected = (struct otte_rdma_connected){
			.connection = connect->connection,
			.status = ret,
		};
	otte_rdma_source_say(source, &answer);
	return 0;
}

static int take_close(struct otte_rdma_source *source, const struct otte_rdma_close *message)
{
	struct otte_rdma_source_pair *pair = find_pair(source, message->connection);

	if (pair)
		otte_rdma_source_fail_pair(pair, message->status, "its peer has closed it");
	return 0;
}

/* ---- The line ---- */

static void say_paths(struct otte_rdma_source *source)
{
	struct otte_rdma_message ours = { .type = OTTE_RDMA_MSG_PATHS };

	otte_rdma_fill_paths(source->rdma, &ours.paths);
	otte_rdma_source_say(source, &ours);
}

/* Who has not said any yet is answered with those of then. */
void otte_rdma_source_paths_changed(struct otte_rdma_source *source, unsigned int unused)
{
	(void)unused;
	if (source->greeted)
		say_paths(source);
}

static int take_paths(struct otte_rdma_source *source, const struct otte_rdma_message *message)
{
	if (message->type != OTTE_RDMA_MSG_PATHS)
		return otte_fail(-EPROTO, "message %u of a requester before its PATHS",
				 message->type);
	source->paths = message->paths;
	source->greeted = true;
	say_paths(source);
	return 0;
}

static int take_paths_again(struct otte_rdma_source *source, const struct otte_rdma_paths *paths)
{
	int ret = otte_rdma_paths_follow(paths, &source->paths);

	if (!ret)
		source->paths = *paths;
	return ret;
}

static int take_message(struct otte_rdma_source *source, const struct otte_rdma_message *message)
{
	if (!source->greeted)
		return take_paths(source, message);
	switch (message->type) {
	case OTTE_RDMA_MSG_PATHS:
		return take_paths_again(source, &message->paths);
	case OTTE_RDMA_MSG_CONNECT:
		return take_connect(source, &message->connect);
	case OTTE_RDMA_MSG_ASK:
	case OTTE_RDMA_MSG_LEASE: {
		struct otte_rdma_source_pair *pair = find_pair(source, message->ask.connection);

		/* One that was closed meanwhile, as its peer has been told. */
		if (!pair || pair->pair.state != OTTE_RDMA_PAIR_JOINED)
			return 0;
		if (message->type == OTTE_RDMA_MSG_LEASE)
			return otte_rdma_let_ask(pair, &message->ask);
		return otte_rdma_lent_ask(pair, &message->ask);
	}
	case OTTE_RDMA_MSG_RENEW:
		otte_rdma_let_renewed(source, &message->leasing);
		return 0;
	case OTTE_RDMA_MSG_RETURN:
		otte_rdma_let_returned(source, &message->leasing);
		return 0;
	case OTTE_RDMA_MSG_ACK:
		otte_rdma_lent_acknowledged(source, &message->answer);
		return 0;
	case OTTE_RDMA_MSG_CANCEL:
		otte_rdma_lent_cancelled(source, &message->answer);
		return 0;
	case OTTE_RDMA_MSG_CLOSE:
		return take_close(source, &message->close);
	default:
		return otte_fail(-EPROTO, "message %u of a requester", message->type);
	}
}

static void line_ready(struct otte_watch *watch, uint32_t events)
{
	struct otte_rdma_source *source = container_of(watch, struct otte_rdma_source, line.watch);
	struct otte_rdma_message message;
	unsigned int messages;
	int ret = 1;

	if (source->lost || source->broken)
		return;
	source->worker->busy = true;
	if (events & EPOLLOUT && otte_rdma_line_flush(&source->line) < 0)
		ret = -ECONNRESET;
	for (messages = 0; ret == 1 && !source->broken; messages++) {
		ret = otte_rdma_line_hear(&source->line, messages >= ROUND_MESSAGES, &message);
		if (ret == 1 && take_message(source, &message))
			ret = -EPROTO;
	}
	if (ret < 0)
		cut_off(source, ret);
}

/* ---- What the engine asks ---- */

static bool has_session(struct otte_rdma_worker *worker, const void *peer)
{
	const struct otte_rdma_source *source;
	bool found = false;

	pthread_mutex_lock(&worker->lock);
	DL_FOREACH(worker->sources, source)
		found |= source->peer == peer;
	pthread_mutex_unlock(&worker->lock);
	return found;
}

/* Under rdma->lock: who has the session already, or whose turn it is. */
static struct otte_rdma_worker *worker_for(struct otte_rdma *rdma, const void *peer)
{
	unsigned int i;

	for (i = 0; i < rdma->worker_count; i++) {
		if (!has_session(&rdma->workers[i], peer))
			continue;
		atomic_fetch_add(&rdma->workers[i].sessions, 1);
		return &rdma->workers[i];
	}
	return otte_rdma_worker_choose(rdma);
}

/* Under worker->lock: the session's last lane is the one that counts. */
static int replace(struct otte_rdma_worker *worker, const void *peer)
{
	struct otte_rdma_source *source;
	unsigned int lanes = 1;

	DL_FOREACH(worker->sources, source)
		lanes += source->peer == peer;
	if (lanes > OTTE_RDMA_LANES_MAX)
		return otte_fail(-EBUSY, "the session has %u lanes for RDMA already", lanes - 1);
	DL_FOREACH(worker->sources, source)
		if (source->peer == peer)
			source->told_drop = true;
	return 0;
}

static int give_to(struct otte_rdma_worker *worker, struct otte_rdma_source *source)
{
	int ret;

	source->worker = worker;
	pthread_mutex_lock(&worker->lock);
	ret = replace(worker, source->peer);
	if (!ret)
		DL_APPEND(worker->sources, source);
	pthread_mutex_unlock(&worker->lock);
	if (ret)
		atomic_fetch_sub(&worker->sessions, 1);
	return ret;
}

int otte_rdma_source_accept(struct otte_rdma *rdma, void *peer, int fd)
{
	struct otte_rdma_source *source = calloc(1, sizeof(*source));
	struct otte_rdma_worker *worker;
	int ret;

	if (!source)
		return otte_fail(-ENOMEM, "no memory for a lane");
	source->rdma = rdma;
	source->peer = peer;
	source->fd = fd;
	source->line.watch.fd = -1;
	source->line.watch.ready = line_ready;
	/* Across both: two lanes of a session that come at a time have one worker. */
	pthread_mutex_lock(&rdma->lock);
	worker = worker_for(rdma, peer);
	ret = give_to(worker, source);
	pthread_mutex_unlock(&rdma->lock);
	if (ret)
		free(source);
	else
		otte_rdma_wake(worker);
	return ret;
}

static void drop_from(struct otte_rdma_worker *worker, const void *peer)
{
	struct otte_rdma_source *source;
	bool found = false;

	pthread_mutex_lock(&worker->lock);
	DL_FOREACH(worker->sources, source) {
		if (source->peer != peer)
			continue;
		source->told_drop = found = true;
	}
	pthread_mutex_unlock(&worker->lock);
	if (found)
		otte_rdma_wake(worker);
}

void otte_rdma_source_drop(struct otte_rdma *rdma, void *peer)
{
	unsigned int i;

	for (i = 0; i < rdma->worker_count; i++)
		drop_from(&rdma->workers[i], peer);
}

static void recall_from(struct otte_rdma_worker *worker, uint64_t region)
{
	struct otte_rdma_recalls *recalls = &worker->recalls;

	pthread_mutex_lock(&worker->lock);
	if (!region || recalls->count == OTTE_RDMA_RECALLS)
		recalls->all = true;
	else
		recalls->regions[recalls->count++] = region;
	pthread_mutex_unlock(&worker->lock);
	otte_rdma_wake(worker);
}

void otte_rdma_source_recall(struct otte_rdma *rdma, uint64_t region)
{
	unsigned int i;

	for (i = 0; i < rdma->worker_count; i++)
		recall_from(&rdma->workers[i], region);
}

/* This thread alone takes away from the list. */
void otte_rdma_sources_hear(struct otte_rdma_worker *worker)
{
	struct otte_rdma_source *source;
	struct otte_rdma_recalls recalls;

	pthread_mutex_lock(&worker->lock);
	recalls = worker->recalls;
	worker->recalls = (struct otte_rdma_recalls){ .count = 0 };
	source = worker->sources;
	pthread_mutex_unlock(&worker->lock);
	if (!recalls.count && !recalls.all)
		return;
	while (source) {
		otte_rdma_lents_recall(source, &recalls);
		otte_rdma_lets_recall(source, &recalls);
		pthread_mutex_lock(&worker->lock);
		source = source->next;
		pthread_mutex_unlock(&worker->lock);
	}
}

/* Those that are left, if any. */
static bool all_retained(const struct otte_rdma_source *source)
{
	const struct otte_rdma_source_pair *pair;

	DL_FOREACH(source->pairs, pair)
		if (pair->pair.state != OTTE_RDMA_PAIR_RETAINED)
			return false;
	return true;
}

bool otte_rdma_source_look(struct otte_rdma_source *source, uint64_t now_ns)
{
	struct otte_rdma_worker *worker = source->worker;
	bool drop;
	int fd;

	pthread_mutex_lock(&worker->lock);
	drop = source->told_drop;
	fd = source->fd;
	source->fd = -1;
	pthread_mutex_unlock(&worker->lock);
	if (fd >= 0 && otte_rdma_line_open(&source->line, &worker->lines, fd)) {
		otte_fd_close(fd);
		source->broken = true;
	}
	if (drop || source->broken)
		lose(source);
	otte_rdma_lents_retain(source);
	otte_rdma_lents_look(source, now_ns);
	otte_rdma_lets_look(source, now_ns);
	return !source->lost || source->lents || source->lets || !all_retained(source);
}
