/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lending to processes of this host.
 *
 * A lane is served by the thread of serve_loops[0] alone; who unregisters a region or closes the engine finds it
 * through local.lock and asks for grants back under lane.lock.
 *
 *   OPEN -> CLOSING -> gone        OPEN or CLOSING -> DYING -> gone
 *
 * CLOSING: its session has ended; nothing more is lent, everything is asked for. DYING: the connection has ended
 * with grants unreturned; they wait for the end of the process, which the pidfd tells. Without grants a lane goes at
 * once. A peer that lives and connects again says what it has given back of what it was lent before. What neither
 * comes back nor is heard of for control.timeout_ms is recorded as retained, until it does.
 *
 * A lane of LEND frames has no process to be watched, which may be of another namespace. DYING it waits for what the
 * module says of its loans, which is not a matter of lanes. Nor is a connection kept for that: who leaves it open
 * without its session for control.timeout_ms makes its lane DYING. Of either kind a lane over which
 * nothing is lent any more is gone after that time, whatever receipts were to come.
 *
 * Locks: local.lock > lane.lock > source_peer.lock and below. An ASK is answered under lane.lock, so that who asks
 * back finds every grant whose region was still to be found when it was made.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "transport/local/local.h"

#define BACKLOG 64
/* One lane is heard so often before the others have their turn. */
#define ROUND_MESSAGES 64
#define FAILURES 16
/* Of frames that are said and not yet sent, and of the largest that is heard. */
#define FRAME_BYTES 4096
/* Without descriptors nobody is accepted for so long. */
#define PAUSE_NS (100 * NSEC_PER_MSEC)

enum lane_state {
	LANE_OPEN = 0,
	LANE_CLOSING = 1,
	LANE_DYING = 2,
	LANE_GONE = 3,
};

/* The key is what the peer calls it by. */
struct lent {
	uint64_t id;
	struct otte_source_grant *grant;
	uint64_t wanted_ns; /* back, since then; 0: it may stay */
	bool recalled;      /* and the peer was told */
	bool retained;
	UT_hash_handle hh;
};

struct local_lane {
	struct local_lane *prev, *next; /* local->lanes */
	struct otte_watch watch, process;
	struct otte_retired retired;
	struct local *local;
	void *peer;             /* what accept_lane() was given */
	pid_t pid;              /* of a UNIX socket */
	bool framed;            /* it is a lane of LEND frames: the module says when the peer has ended */
	uint32_t owner;         /* in tables of uses */
	/* The rest; the loop's thread alone changes it, but for what is wanted back. */
	pthread_mutex_t lock;
	enum lane_state state;
	struct otte_stream stream; /* framed */
	uint64_t last_id;
	uint64_t silent_ns;     /* since when nothing is lent; 0: OPEN */
	bool watched;           /* DYING: the end of the process will be seen */
	unsigned failures;      /* to receive */
	unsigned revoked;       /* grants: the peer may still send receipts for them, and have uses in tables */
	bool returned_all;      /* and what earlier lanes of the session were lent is to be settled, too */
	struct lent *lents;
};

static struct otte_loop *loop_of(const struct local *local)
{
	return &local->env.serve_loops[0];
}

static void free_lane(struct otte_retired *retired)
{
	struct local_lane *lane = container_of(retired, struct local_lane, retired);

	otte_stream_fini(&lane->stream);
	pthread_mutex_destroy(&lane->lock);
	free(lane);
}

static struct otte_stream *frames_of(struct local_lane *lane)
{
	return lane->framed ? &lane->stream : NULL;
}

/* Under lane.lock. */
static int say(struct local_lane *lane, const struct local_message *message, const int *fds)
{
	return local_say(lane->watch.fd, frames_of(lane), message, fds);
}

/* ---- Grants ---- */

/* Under lane.lock. */
static void give_back(struct local_lane *lane, struct lent *lent, bool returned)
{
	HASH_DEL(lane->lents, lent);
	lane->local->env.source.give_back(lent->grant, returned);
	free(lent);
}

/* Under lane.lock. */
static void give_back_all(struct local_lane *lane, bool returned)
{
	struct lent *lent, *next;

	HASH_ITER(hh, lane->lents, lent, next)
		give_back(lane, lent, returned);
}

/*
 * Under lane.lock: neither a receipt is to come, nor the end of the process to be seen. Where the module tells that end
 * it does so whether or not there is a lane.
 */
static bool is_idle(const struct local_lane *lane)
{
	return !lane->lents && (!lane->revoked || (lane->framed && lane->state == LANE_DYING));
}

/* Under lane.lock: what finds no room is said with the next tick. */
static void say_recalls(struct local_lane *lane)
{
	struct lent *lent, *next;

	if (lane->state > LANE_CLOSING)
		return;
	HASH_ITER(hh, lane->lents, lent, next) {
		struct local_message message = {
			.magic = LOCAL_MAGIC,
			.type = LOCAL_RECALL,
			.id = lent->id,
		};

		if (lent->wanted_ns && !lent->recalled)
			lent->recalled = !say(lane, &message, NULL);
	}
}

static void want(struct lent *lent)
{
	if (!lent->wanted_ns)
		lent->wanted_ns = otte_now_ns();
}

/* Under lane.lock. Region 0: all. */
static void recall(struct local_lane *lane, uint64_t region)
{
	struct lent *lent, *next;

	HASH_ITER(hh, lane->lents, lent, next)
		if (!region || lane->local->env.source.granted(lent->grant) == region)
			want(lent);
	say_recalls(lane);
}

void local_source_recall(struct local *local, uint64_t region)
{
	struct local_lane *lane;

	pthread_mutex_lock(&local->lock);
	DL_FOREACH(local->lanes, lane) {
		pthread_mutex_lock(&lane->lock);
		recall(lane, region);
		pthread_mutex_unlock(&lane->lock);
	}
	pthread_mutex_unlock(&local->lock);
}

/*
 * Under lane.lock: nothing more is lent or said. The peer sees the end of it, and still sends its receipts.
 */
static void hang_up(struct local_lane *lane)
{
	lane->state = LANE_CLOSING;
	lane->silent_ns = otte_now_ns();
	shutdown(lane->watch.fd, SHUT_WR);
}

/* Under lane.lock. Its descriptor is closed by the caller. */
static int lend(struct local_lane *lane, uint64_t region, uint16_t op, struct otte_source_lent *lent)
{
	const struct otte_source_ops *source = &lane->local->env.source;
	struct lent *record;
	int ret;

	record = calloc(1, sizeof(*record));
	if (!record)
		return otte_fail(-ENOMEM, "no memory for a grant");
	ret = source->grant(lane->peer, region, op & LOCAL_OP, op & LOCAL_OP_MAPPED, lane->framed, lane->owner,
			    lent);
	if (ret) {
		free(record);
		return ret;
	}
	record->id = ++lane->last_id;
	record->grant = lent->grant;
	HASH_ADD(hh, lane->lents, id, sizeof(record->id), record);
	if (record->hh.tbl)
		return 0;
	source->give_back(lent->grant, true);
	otte_fd_close(lent->fd);
	free(record);
	return otte_fail(-ENOMEM, "no memory for a grant");
}

/* Under lane.lock. */
static void answer_ask(struct local_lane *lane, const struct local_message *asked)
{
	struct local_message message = {
		.magic = LOCAL_MAGIC,
		.type = LOCAL_GRANT,
		.op = asked->op,
		.region = asked->region,
	};
	struct otte_source_lent lent;
	struct lent *record;
	int fds[LOCAL_FDS];

	message.status = lane->state == LANE_OPEN ?
				 lend(lane, asked->region, asked->op, &lent) : -ESHUTDOWN;
	if (message.status) {
		if (say(lane, &message, NULL))
			hang_up(lane);
		return;
	}
	message.id = lane->last_id;
	message.owner = lane->owner;
	message.offset = lent.offset;
	message.length = lent.length;
	message.loan = lent.loan;
	message.uses = lent.uses_loan;
	fds[0] = lent.loan ? lent.uses_fd : lent.fd;
	fds[1] = lent.uses_fd;
	if (say(lane, &message, fds)) {
		/* It never left us. */
		HASH_FIND(hh, lane->lents, &message.id, sizeof(message.id), record);
		give_back(lane, record, true);
		hang_up(lane);
	}
	otte_fd_close(lent.fd);
}

/* Under lane.lock. */
static int take_return(struct local_lane *lane, uint64_t id)
{
	struct lent *lent;

	if (!id) {
		give_back_all(lane, true);
		lane->revoked = 0;
		lane->returned_all = true;
		return 0;
	}
	HASH_FIND(hh, lane->lents, &id, sizeof(id), lent);
	if (!lent && lane->revoked && id <= lane->last_id) {
		lane->revoked--;
		return 0;
	}
	if (!lent)
		return otte_fail(-EPROTO, "a receipt for grant %lu, which is not lent", (unsigned long)id);
	give_back(lane, lent, true);
	return 0;
}

/* Under lane.lock. */
static int take_message(struct local_lane *lane, const struct local_message *message)
{
	switch (message->type) {
	case LOCAL_ASK:
		if (message->op & ~(LOCAL_OP | LOCAL_OP_MAPPED))
			return otte_fail(-EPROTO, "op %u is asked for", message->op);
		answer_ask(lane, message);
		return 0;
	case LOCAL_RETURN:
		return take_return(lane, message->id);
	case LOCAL_COUNT:
		lane->local->env.source.count(lane->peer, message->id, message->offset, message->length);
		return 0;
	default:
		return otte_fail(-EPROTO, "message type %u of a requester", message->type);
	}
}

/* ---- Lanes ---- */

/* Without locks. */
static void end_lane(struct local_lane *lane)
{
	struct local *local = lane->local;

	pthread_mutex_lock(&local->lock);
	DL_DELETE(local->lanes, lane);
	pthread_mutex_unlock(&local->lock);
	if (lane->watch.fd >= 0)
		otte_loop_remove(loop_of(local), &lane->watch);
	otte_fd_close(lane->watch.fd);
	if (lane->watched)
		otte_loop_remove(loop_of(local), &lane->process);
	otte_fd_close(lane->process.fd);
	lane->state = LANE_GONE;
	local->env.source.lane_closed(lane->peer);
	otte_loop_retire(loop_of(local), &lane->retired);
}

static void watch_process(struct local_lane *lane)
{
	if (lane->framed)
		return;
	lane->watched = otte_loop_add(loop_of(lane->local), &lane->process, EPOLLIN) == 0;
}

/* The connection has ended, and with it the way of receipts. */
static void begin_to_die(struct local_lane *lane)
{
	struct local *local = lane->local;

	otte_loop_remove(loop_of(local), &lane->watch);
	pthread_mutex_lock(&lane->lock);
	otte_fd_close(lane->watch.fd);
	lane->watch.fd = -1;
	lane->state = LANE_DYING;
	if (!lane->silent_ns)
		lane->silent_ns = otte_now_ns();
	pthread_mutex_unlock(&lane->lock);
	watch_process(lane);
}

/* By its word on `lane`, the peer has nothing any more of what its lost lanes were lent. */
static void settle_earlier(struct local_lane *lane)
{
	struct local_lane *each, *next;

	DL_FOREACH_SAFE(lane->local->lanes, each, next) {
		if (each->peer != lane->peer || each->state != LANE_DYING)
			continue;
		pthread_mutex_lock(&each->lock);
		give_back_all(each, true);
		pthread_mutex_unlock(&each->lock);
		end_lane(each);
	}
}

static void say_cut_off(const struct local_lane *lane)
{
	if (lane->framed)
		otte_log(OTTE_LOG_WARNING, "a borrower of this host is cut off: %s", otte_error_text());
	else
		otte_log(OTTE_LOG_WARNING, "process %d of this host is cut off: %s", lane->pid,
			 otte_error_text());
}

static void lane_ready(struct otte_watch *watch, uint32_t events)
{
	struct local_lane *lane = container_of(watch, struct local_lane, watch);
	struct local_message message;
	int fds[LOCAL_FDS], ret = 1;
	unsigned messages;
	bool idle;

	(void)events;
	if (lane->state >= LANE_DYING)
		return;
	pthread_mutex_lock(&lane->lock);
	/* What is asked for after all was returned is not to find earlier lanes' still counted. */
	for (messages = 0; messages < ROUND_MESSAGES && ret == 1 && !lane->returned_all; messages++) {
		ret = local_hear(watch->fd, frames_of(lane), &message, fds);
		local_close_fds(fds);
		if (ret == 1 && take_message(lane, &message))
			ret = -EPROTO;
	}
	/* Nothing was lost, and receipts may still be there: it is tried again, in vain only so often. */
	if (ret == -EIO && lane->failures++ < FAILURES)
		ret = 0;
	idle = is_idle(lane);
	pthread_mutex_unlock(&lane->lock);
	if (lane->returned_all)
		settle_earlier(lane);
	lane->returned_all = false;
	if (ret == -EPROTO) {
		atomic_fetch_add(&lane->local->bad_frames, 1);
		say_cut_off(lane);
	}
	if (idle && (ret < 0 || lane->state == LANE_CLOSING))
		end_lane(lane);
	else if (ret < 0)
		begin_to_die(lane);
}

/* Its threads are gone, and with them its mappings and whatever it was about to write. */
static void process_ended(struct otte_watch *watch, uint32_t events)
{
	struct local_lane *lane = container_of(watch, struct local_lane, process);

	(void)events;
	if (lane->state != LANE_DYING)
		return;
	lane->local->env.source.process_ended(lane->local->env.source.engine, lane->owner);
	pthread_mutex_lock(&lane->lock);
	give_back_all(lane, false);
	pthread_mutex_unlock(&lane->lock);
	end_lane(lane);
}

/* Of a UNIX socket: its process, to be watched. */
static int find_process(struct local_lane *lane, int fd)
{
	struct ucred credentials;
	socklen_t length = sizeof(credentials);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
		return otte_fail(-errno, "SO_PEERCRED: %m");
	lane->process.fd = otte_fd_peer_pid(fd);
	if (lane->process.fd < 0)
		return otte_fail(-errno, "pidfd of process %d: %m", credentials.pid);
	lane->pid = credentials.pid;
	return 0;
}

static void start_frames(struct local_lane *lane, int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	otte_stream_init(&lane->stream, fd, FRAME_BYTES, FRAME_BYTES);
}

static int create_lane(struct local *local, void *peer, int fd, bool framed, struct local_lane **out)
{
	struct local_lane *lane;
	int ret;

	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return otte_fail(-ENOMEM, "no memory for a lane");
	lane->process.fd = -1;
	ret = framed ? 0 : find_process(lane, fd);
	if (ret) {
		free(lane);
		return ret;
	}
	if (framed)
		start_frames(lane, fd);
	lane->framed = framed;
	lane->local = local;
	lane->peer = peer;
	do
		lane->owner = ++local->owners & OTTE_USES_OWNER_MAX;
	while (lane->owner <= OTTE_USES_LENDER);
	lane->watch.fd = fd;
	lane->watch.ready = lane_ready;
	lane->process.ready = process_ended;
	lane->retired.free = free_lane;
	pthread_mutex_init(&lane->lock, NULL);
	*out = lane;
	return 0;
}

int local_source_accept(struct local *local, void *peer, int fd, bool framed)
{
	struct local_lane *lane = NULL;
	int ret;

	ret = create_lane(local, peer, fd, framed, &lane);
	if (ret)
		return ret;
	pthread_mutex_lock(&local->lock);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): made above, where errno is not 0 */
	DL_APPEND(local->lanes, lane);
	pthread_mutex_unlock(&local->lock);
	ret = otte_loop_add(loop_of(local), &lane->watch, EPOLLIN);
	if (ret) {
		pthread_mutex_lock(&local->lock);
		DL_DELETE(local->lanes, lane);
		pthread_mutex_unlock(&local->lock);
		otte_fd_close(lane->process.fd);
		free_lane(&lane->retired);
		return ret;
	}
	if (!framed && local->env.config->local_trusted)
		otte_log(OTTE_LOG_INFO,
			 "process %d may map memory of this engine, whole allocations (local.trusted)",
			 lane->pid);
	return 0;
}

void local_source_drop(struct local *local, void *peer)
{
	struct local_lane *lane, *next;

	DL_FOREACH_SAFE(local->lanes, lane, next) {
		bool idle;

		if (lane->peer != peer || lane->state != LANE_OPEN)
			continue;
		pthread_mutex_lock(&lane->lock);
		lane->state = LANE_CLOSING;
		lane->silent_ns = otte_now_ns();
		recall(lane, 0);
		idle = is_idle(lane);
		pthread_mutex_unlock(&lane->lock);
		if (idle)
			end_lane(lane);
	}
}

/* Under lane.lock. What finds no room among the records is tried again with the next tick. */
static void retain_all(struct local_lane *lane)
{
	struct lent *lent, *next;

	HASH_ITER(hh, lane->lents, lent, next)
		if (!lent->retained)
			lent->retained = !lane->local->env.source.retain_grant(lent->grant);
}

/* Under lane.lock: memory that is not the registered one any more is lent no longer. */
static void want_stale(struct local_lane *lane)
{
	struct lent *lent, *next;

	HASH_ITER(hh, lane->lents, lent, next)
		if (!lane->local->env.source.fresh(lent->grant))
			want(lent);
}

/* Under lane.lock: what the module says is over, of a borrower that can send no receipts any more. */
static void give_back_over(struct local_lane *lane)
{
	struct lent *lent, *next;

	if (!lane->framed || lane->state != LANE_DYING)
		return;
	HASH_ITER(hh, lane->lents, lent, next)
		if (lane->local->env.source.over(lent->grant))
			give_back(lane, lent, true);
}

static bool passed(uint64_t since_ns, uint64_t now_ns, uint64_t limit_ns)
{
	return since_ns && now_ns - min_u64(now_ns, since_ns) > limit_ns;
}

/* Under lane.lock: what can be had without the peer is waited for no longer. */
static void revoke_overdue(struct local_lane *lane, uint64_t now_ns)
{
	const struct otte_source_ops *source = &lane->local->env.source;
	uint64_t limit_ns = lane->local->env.config->control_timeout_ns;
	bool silent = passed(lane->silent_ns, now_ns, limit_ns);
	struct lent *lent, *next;

	HASH_ITER(hh, lane->lents, lent, next) {
		if (!silent && !passed(lent->wanted_ns, now_ns, limit_ns) && !source->stands(lent->grant))
			continue;
		if (source->revoke_grant(lent->grant) == -EOPNOTSUPP)
			continue;
		lane->revoked++;
		give_back(lane, lent, true);
	}
	if (silent)
		retain_all(lane);
}

/*
 * Under lane.lock: its session or connection has ended, and it had its time. What could be had back
 * without the peer is: marks that it left in tables are cleared as of somebody who is lent nothing.
 * What is still lent is the module's to tell the end of, or of a socket whose process must be seen to
 * end: nobody can revoke a mapping or whole memory.
 */
static bool is_overdue(const struct local_lane *lane, uint64_t now_ns)
{
	return lane->state != LANE_OPEN &&
	       passed(lane->silent_ns, now_ns, lane->local->env.config->control_timeout_ns);
}

/* True: there is nothing left to wait for. */
static bool look_at(struct local_lane *lane, uint64_t now_ns)
{
	bool over, overdue, in_vain;

	pthread_mutex_lock(&lane->lock);
	if (lane->framed && lane->state < LANE_DYING)
		otte_stream_flush(&lane->stream);
	give_back_over(lane);
	want_stale(lane);
	say_recalls(lane);
	revoke_overdue(lane, now_ns);
	overdue = is_overdue(lane, now_ns);
	over = lane->state != LANE_OPEN && (is_idle(lane) || (overdue && !lane->lents));
	in_vain = !over && overdue && lane->framed && lane->state == LANE_CLOSING;
	pthread_mutex_unlock(&lane->lock);
	if (in_vain)
		begin_to_die(lane);
	if (!over && lane->state == LANE_DYING && !lane->watched)
		watch_process(lane);
	return over;
}

static void resume_listener(struct local *local)
{
	if (otte_loop_add(loop_of(local), &local->listener, EPOLLIN) == 0)
		local->paused_until_ns = 0;
}

void local_source_tick(struct local *local, uint64_t now_ns)
{
	struct local_lane *lane, *next;

	DL_FOREACH_SAFE(local->lanes, lane, next)
		if (look_at(lane, now_ns))
			end_lane(lane);
	if (local->paused_until_ns && now_ns >= local->paused_until_ns)
		resume_listener(local);
}

/* ---- The listener ---- */

static void refuse(struct local *local, int fd)
{
	if (otte_log_limit_admits(&local->said, otte_now_ns()))
		otte_log(OTTE_LOG_WARNING, "a process of this host is turned away: %s",
			 otte_error_text());
	otte_fd_close(fd);
}

/* Who waits in its queue would wake us without an end. */
static void pause_listener(struct local *local)
{
	local->paused_until_ns = otte_now_ns() + PAUSE_NS;
	otte_loop_remove(loop_of(local), &local->listener);
}

static void listener_ready(struct otte_watch *watch, uint32_t events)
{
	struct local *local = container_of(watch, struct local, listener);
	int fd;

	(void)events;
	fd = otte_fd_accept(watch->fd);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_listener(local);
		return;
	}
	if (local_check_user(fd))
		refuse(local, fd);
	else
		local->env.source.connected(local->env.source.engine, fd);
}

static int listen_on(struct local *local)
{
	struct sockaddr_un address;
	unsigned length = local_address(local->env.identity, &address);

	if (bind(local->listener.fd, (const struct sockaddr *)&address, length) < 0)
		return otte_fail(-errno, "bind of @%s: %m", address.sun_path + 1);
	if (listen(local->listener.fd, BACKLOG) < 0)
		return otte_fail(-errno, "listen: %m");
	return otte_loop_add(loop_of(local), &local->listener, EPOLLIN);
}

int local_source_open(struct local *local)
{
	int ret;

	local->listener.fd = -1;
	local->listener.ready = listener_ready;
	/* Loans of the module need none. */
	if (!local->env.config->listen_address[0] || !local->env.config->local_trusted)
		return 0;
	local->listener.fd = otte_fd_socket(AF_UNIX, SOCK_STREAM);
	if (local->listener.fd < 0)
		return otte_fail(-errno, "socket: %m");
	ret = listen_on(local);
	if (ret) {
		otte_fd_close(local->listener.fd);
		local->listener.fd = -1;
	}
	return ret;
}

/* Nothing is lent any more: every region is unregistered. */
void local_source_close(struct local *local)
{
	struct local_lane *lane, *next;

	if (local->listener.fd >= 0 && !local->paused_until_ns)
		otte_loop_remove(loop_of(local), &local->listener);
	otte_fd_close(local->listener.fd);
	DL_FOREACH_SAFE(local->lanes, lane, next)
		end_lane(lane);
}
