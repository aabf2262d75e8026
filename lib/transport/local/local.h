/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of this host: the source lends it, and the requester copies by itself.
 *
 * The transport stands before another one (env.next, TCP): it takes what it can move, and hands on, before a byte
 * of it has moved, whatever it cannot: a peer of another host, memory that cannot be mapped or borrowed,
 * a range that somebody else touches, a region that is called back. So most errors that a request gets of a source
 * are the other transport's, and a request is refused here only where its caller wants this transport and no other.
 * What is revoked in the middle goes on there if it is a READ: that is drained, and counts as a retry.
 *
 *   requester (peer.c, grant.c, copy.c)               source (source.c)
 *   connects to the source's abstract UNIX socket --> same user or root, or closed
 *   LANE of its session, as for any lane          --> the control server checks it
 *   or, attested: TCP, LANE_LEND, LEND frames     --> likewise; a session that agreed on it
 *   ASK region, direction                         --> a standing loan; GRANT with two descriptors: the memory,
 *                                                     and the table of its uses (base/uses.h)
 *   copies, each copy in the table                    looks into the table before it admits others
 *   COUNT what it did                             --> statistics
 *   unmaps, RETURN, when asked to (RECALL),       --> the loan settles as RETURNED
 *   when it has too many mappings, or at the end
 *   dies                                          --> its pidfd says so: BORROWER_EXITED; or the module
 *
 * A grant is of one of two kinds, which differ in how a `struct local_grant` is filled, used and let go of (ways.c).
 * With local.trusted it is the memory itself: what a lent descriptor gives is the whole allocation that the region is
 * in, and who is not trusted with that is not to be lent it. Through the module it is a loan, of a region that this
 * pins, to the client that the peer was attested to be: it is accepted, copied from and to by the module or mapped, and
 * settled there; no message says anything of its end that the module does not. It can be revoked, unless it is mapped.
 *
 * What is said of loans alone needs no socket, whose name is of one network namespace and whose peer of one pid
 * namespace: a lane of LEND frames does (wire.h). There the table is a loan as well, of pages to be mapped: those the
 * module follows to their end, where a file that it hands over could be kept by whoever once had it. That end, and no
 * pidfd, says when the uses of a borrower that died are to be cleared. A peer of another user has a table of its own,
 * and nothing to map but that (engine/memory_uses.h).
 */
#ifndef OTTE_TRANSPORT_LOCAL_LOCAL_H
#define OTTE_TRANSPORT_LOCAL_LOCAL_H

#include <pthread.h>

#include "base/hash.h"
#include "base/log_limit.h"
#include "base/tail_lock.h"
#include "base/uses.h"
#include "control/stream.h"
#include "transport/transport.h"

/* ---- What is said over the socket; both ends are of one host ---- */

/*
 * Another layout of a message or of the table of uses is another magic, and another name to listen on (LOCAL_NAME): who
 * takes one table for the other sees nothing of its uses.
 */
#define LOCAL_MAGIC 0x334d544fu /* "OTM3" */
#define LOCAL_NAME "otte-local3"
#define LOCAL_FDS 2

/* Of an op that is said: OTTE_READ or OTTE_WRITE; and that it is to be mapped, of the module's loans. */
#define LOCAL_OP 1u
#define LOCAL_OP_MAPPED OTTE_LEND_MAPPED

enum local_type {
	LOCAL_ASK = OTTE_LEND_ASK,
	/*
	 * On a socket, of status 0, with LOCAL_FDS descriptors: the memory and the table of its uses; or with a loan,
	 * and the table twice.
	 */
	LOCAL_GRANT = OTTE_LEND_GRANT,
	LOCAL_RECALL = OTTE_LEND_RECALL,
	LOCAL_RETURN = OTTE_LEND_RETURN, /* by earlier connections of the session too */
	LOCAL_COUNT = OTTE_LEND_COUNT,
};

/*
 * What each says, beside magic and type; what is not named is 0.
 *   ASK     op, region
 *   GRANT   op and region as asked, status; if that is 0: id of the grant, owner, offset and length
 *           of the region in what is lent, loan, uses
 *   RECALL  id
 *   RETURN  id
 *   COUNT   of what was moved since the last one: requests in id, bytes READ in offset, WRITTEN in
 *           length
 */
struct local_message {
	uint32_t magic;
	uint16_t type;
	uint16_t op;
	int32_t status;
	uint32_t owner;
	uint64_t id;
	uint64_t region;
	uint64_t offset;
	uint64_t length;
	uint64_t loan;
	uint64_t uses; /* in frames: the loan of the table */
};
_Static_assert(sizeof(struct local_message) == 64 && sizeof(struct otte_uses) == 64 + 1024 * 32,
	       "what LOCAL_MAGIC stands for");

/* 0, -EAGAIN: no room; else the connection is dead. */
int local_send(int fd, const struct local_message *message, const int *fds);
/*
 * 1: *message is there; its descriptors, which are the caller's, are in fds, else -1. 0: nothing yet. -ECONNRESET:
 * nothing will come any more; -EIO: nothing has come; -EPROTO: something else has. All with the text set.
 */
int local_receive(int fd, struct local_message *message, int fds[LOCAL_FDS]);

/*
 * The same over either kind of connection: in the LEND frames of a stream, unless that is NULL. What is said may be
 * left in the stream, to go with what is said next, or with otte_stream_flush().
 */
int local_say(int fd, struct otte_stream *frames, const struct local_message *message, const int *fds);
int local_hear(int fd, struct otte_stream *frames, struct local_message *message, int fds[LOCAL_FDS]);
/* Those that came with a message. */
void local_close_fds(int fds[LOCAL_FDS]);

/* Whether the process at the other end is of our user, or root's. -EPERM names it. */
int local_check_user(int fd);
/* The name that an engine listens on; returns the length of the address. */
struct sockaddr_un;
unsigned local_address(const struct otte_identity *identity, struct sockaddr_un *address);

/* ---- The transport ---- */

struct local_lane;

struct local {
	struct otte_transport base;
	struct otte_transport_env env;
	struct otte_transport *next;

	/* Source. Lanes belong to the thread of serve_loops[0]; others find them under `lock`. */
	struct otte_watch listener; /* fd -1: none */
	uint64_t paused_until_ns;   /* the listener, for want of descriptors; 0: it is not */
	struct otte_log_limit said;
	pthread_mutex_t lock;
	struct local_lane *lanes;
	uint32_t owners;

	/* Its connections carry no payload, and are not counted as lanes. */
	_Atomic uint64_t bad_frames;
	/* READs that were cut off, and went over the other transport from their beginning. */
	_Atomic uint64_t retries;
	_Atomic uint64_t unsettled_ns; /* when it was last said that a loan cannot be given back */
};

/* ---- Requester ---- */

enum local_state {
	LOCAL_DOWN = 0,  /* requests are handed on */
	LOCAL_HELLO = 1, /* they wait */
	LOCAL_READY = 2,
};

enum local_grant_state {
	LOCAL_ASKED = 0,
	LOCAL_LIVE = 1,
	LOCAL_REFUSED = 2, /* for a while */
};

/*
 * A region of the peer's for one direction. `leaving` ones are out of the table and go with their last user. What is
 * borrowed of the module is copied by it; a region that is used much or in long requests has a second grant, by which
 * it is mapped, and which is used instead.
 */
struct local_grant {
	struct {
		uint64_t region;
		uint64_t op; /* LOCAL_OP_* */
	} key;
	enum local_grant_state state;
	uint32_t users;
	uint32_t owner;
	_Atomic bool leaving;   /* set under lock */
	uint64_t used;          /* the peer's count of uses at the last one */
	uint32_t repeats;       /* borrowed: short requests since then it was not mapped */
	uint64_t epoch;         /* of the source that gave it */
	uint64_t offset, length; /* of the region in the allocation */
	uint8_t *bytes;         /* of the region */
	struct otte_uses *uses;
	uint64_t uses_length;   /* of its mapping */
	uint64_t uses_loan;     /* it is the module's; 0: of a descriptor */
	_Atomic uint64_t looked_ns; /* when it was seen to be there */
	int fd;                 /* of the allocation */
	struct otte_ledger_client *client; /* who borrowed `loan` of the module; NULL: it is mapped itself */
	uint64_t loan;
	int code;               /* REFUSED: why */
	uint64_t since_ns;      /* ASKED, REFUSED */
	uint64_t id;
	void *map;
	uint64_t map_length;
	UT_hash_handle hh;
};

/*
 * `lock` protects lane.fd, kick.fd and all from `state` on. Works are queued until they can run,
 * and running while somebody copies; own.way is the grant of one that has begun.
 */
struct local_peer {
	struct otte_transport_peer base;
	struct local *local;
	struct otte_control_client *control;
	struct otte_watch lane;
	struct otte_watch kick; /* an eventfd: the queue is to be looked at */

	/* What every request looks at, side by side. */
	struct otte_tail_lock lock;
	_Atomic enum local_state state;
	bool stopped;           /* until the next connect */
	bool said;              /* why the peer is not reached by this transport */
	bool kicked;
	_Atomic uint64_t refused_until_ns; /* what base.indirect names is not asked for before */
	struct otte_work *queue, *running;
	struct local_grant *last; /* of the grants: the one that was last found, or NULL */
	uint64_t uses;
	uint64_t requests, read_bytes, write_bytes; /* not told yet */

	struct local_grant *grants;
	uint32_t mapped;        /* grants of LOCAL_OP_MAPPED, in every state */
	uint32_t leaving;       /* grants that are; with none left and DOWN the connection is closed */
	uint64_t lender;        /* READY: the peer's client of our module, attested; 0: not known */
	bool unwelcome;         /* that it could not be made welcome was logged */
	uint64_t since_ns;      /* HELLO: begun; DOWN: tried again from then on */
	bool framed;            /* the connection is a lane of LEND frames, not a UNIX socket */
	bool welcomed;          /* and has been READY */
	struct otte_stream stream; /* HELLO; framed: as long as the connection */
	char why[88];           /* DOWN: why, for a request that wants no other transport; "": not tried yet */
};

int local_peer_open(struct otte_transport *transport, struct otte_control_client *control,
		    void (*changed)(void *arg), void *arg, struct otte_transport_peer **out);
void local_peer_connect(struct otte_transport_peer *peer);
void local_peer_stop(struct otte_transport_peer *peer, int code);
void local_peer_tick(struct otte_transport_peer *peer, uint64_t now_ns);
void local_peer_close(struct otte_transport_peer *peer);

/* Under lock: tell the source what was done, now or in time. */
void local_peer_count(struct local_peer *peer, const struct otte_work *work);

/* Under lock, for grant.c. */
int local_peer_say(struct local_peer *peer, const struct local_message *message);
/* The receipt of a grant; 0: of all that were ever given. */
void local_peer_return(struct local_peer *peer, uint64_t id);
/* DOWN, and nothing is mapped any more. */
void local_peer_close_lane(struct local_peer *peer);
/* Whether the peer's client may offer us loans. */
void local_peer_welcome(struct local_peer *peer, bool is_welcome);

/* ---- Grants, all under local_peer.lock ---- */

/* The one that a work is to use: 0, 1: it comes or not, wait; negative: hand the work on. */
int local_grant_find(struct local_peer *peer, const struct otte_work *work, struct local_grant **out);
/* One user less. */
void local_grant_put(struct local_peer *peer, struct local_grant *grant);
/* By one of its users: it is of no use any more. */
void local_grant_spoil(struct local_peer *peer, struct local_grant *grant);
/* What the source said: an answer, whose descriptors stay the caller's (-EPROTO: to no question), and a recall. */
int local_grant_take(struct local_peer *peer, const struct local_message *message, const int fds[LOCAL_FDS]);
void local_grant_recall(struct local_peer *peer, uint64_t id);
/* Every one leaves. */
void local_grants_leave(struct local_peer *peer);
/* One was asked for longer ago than that. */
bool local_grants_overdue(const struct local_peer *peer, uint64_t now_ns, uint64_t limit_ns);

/* ---- Grants, by the way the bytes are reached ---- */

static inline struct otte_stream *local_peer_frames(struct local_peer *peer)
{
	return peer->framed ? &peer->stream : NULL;
}

/* Map or borrow what a GRANT brought; the descriptors stay the caller's. Under peer->lock. */
int local_way_map(const struct local_peer *peer, struct local_grant *grant,
		  const struct local_message *message, const int fds[LOCAL_FDS]);
/* Unmap it; what was borrowed is settled by our receipt. */
void local_way_unmap(const struct local_peer *peer, struct local_grant *grant);
/*
 * Move `length` bytes of the work from own.moved on, and count them there. 0, or -ESTALE: local or lent memory went
 * away; -EKEYREVOKED: it is lent no longer.
 */
int local_way_move(const struct local_grant *grant, struct otte_work *work, uint64_t length);
/* Whether the table of uses, which is a loan, is still lent: 0, -EKEYREVOKED. */
int local_way_look_uses(struct local_grant *grant);
/* To be asked before each touch of the table: one that was taken away ends who touches it. */
static inline bool local_way_has_uses(struct local_grant *grant)
{
	return !grant->uses_loan || local_way_look_uses(grant) == 0;
}
/* Whether what was lent stays good when the peer is gone, so that a READ goes on. */
static inline bool local_way_outlives(const struct local_grant *grant)
{
	return grant->client;
}

/* ---- Copying ---- */

void local_copy_start(struct otte_transport_peer *peer, struct otte_work *work);
bool local_copy_exchange(struct otte_transport_peer *peer, struct otte_work *work);
bool local_copy_direct(struct otte_transport_peer *peer, struct otte_work *work);
bool local_copy_alone(struct otte_transport_peer *peer);
void local_copy_cancel(struct otte_transport_peer *peer, void *pinned, int code);
void local_copy_ready(struct otte_watch *watch, uint32_t events);
/* Under lock: somebody is to look at the queue. */
void local_copy_kick(struct local_peer *peer);
/* Under lock: copies that have begun end soon; `writes`: those only. */
void local_copy_abandon(struct local_peer *peer, int code, bool writes);
/* End what waits, but for READs that have begun and go on without the peer. */
void local_copy_fail(struct local_peer *peer, int code);

/* ---- Source ---- */

int local_source_open(struct local *local);
void local_source_close(struct local *local);
/* `framed`: of LEND frames; else a UNIX socket. */
int local_source_accept(struct local *local, void *peer, int fd, bool framed);
void local_source_drop(struct local *local, void *peer);
void local_source_recall(struct local *local, uint64_t region);
void local_source_tick(struct local *local, uint64_t now_ns);

#endif
