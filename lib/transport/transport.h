/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one interface that every transport implements. Nothing outside a transport knows its types.
 *
 * Requester: a work is planned (everything that can fail for lack of memory is taken), started once,
 * and done exactly once: done() is called without any lock of the transport, after the last touch of
 * the work and of its local range. cancel() only hastens that.
 *
 * Source: what a peer asks is checked and admitted by begin(), which gives the address; the transport
 * moves exactly that range and calls end().
 */
#ifndef OTTE_TRANSPORT_TRANSPORT_H
#define OTTE_TRANSPORT_TRANSPORT_H

#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "control/client.h"
#include "control/wire.h"
#include "otte/otte.h"

/* Threads that serve peers, at most. */
#define OTTE_WORKERS_MAX 16

/* Lanes of RDMA frames of a session: that which is open, and one that is still to be gone. */
#define OTTE_RDMA_LANES_MAX 2

struct otte_cuda_mem;
struct otte_ledger_client;
struct otte_slots;
struct otte_transport;
struct otte_transport_peer;

/* What a transport has prepared for a range that is registered, see publish(). */
struct otte_published;

struct otte_publishing {
	uint8_t *address;
	uint64_t length;
	uint32_t access;           /* OTTE_REMOTE_* */
	struct otte_cuda_mem *gpu; /* whose memory it is, which the CPU cannot touch; NULL: the host's */
};

struct otte_work {
	/* The engine's, set before plan(). */
	uint8_t op;
	uint8_t priority;
	uint8_t intent;
	uint8_t lease;           /* enum otte_lease, never DEFAULT */
	uint64_t deadline_ns;    /* OTTE_DEADLINE_NONE, or an instant at which it is cancelled */
	uint8_t *local;
	uint64_t length;
	uint64_t epoch;
	uint64_t region;
	uint64_t offset;
	uint64_t region_length;  /* of the remote region; 0: not known */
	uint32_t retries;        /* of a READ that is proven drained */
	uint32_t wanted;         /* enum otte_transport_kind that the caller named; ANY */
	bool firm;               /* `local` cannot go away: it is memory of the engine's own */
	bool alone;              /* started by who submitted it, and nothing came with it */
	struct otte_published *published; /* of the region that `local` is in; NULL: nothing was prepared */
	/* Of `local`, whose freshness was looked at before start(): to look again by who has let it wait since. */
	const struct otte_region_watch *watch;
	void (*done)(struct otte_work *work);

	/*
	 * The transport's, valid when done() is called. Not drained: what it may still read was given
	 * to keep() before.
	 */
	int code;
	uint8_t effect;          /* enum otte_remote_effect */
	bool drained;
	bool said;               /* why is the thread's error text in done() */
	uint32_t carrier;        /* enum otte_transport_kind: which transport moved it */

	void *native;            /* from plan() until done() */
	/* Of a transport that moves the bytes itself, in the order of its queue. */
	struct {
		struct otte_work *prev, *next;
		const struct otte_transport_ops *planner; /* whose `native` is */
		void *way;
		uint64_t moved;
		uint64_t since_ns; /* waiting.h */
		bool unleased;   /* not by a lease, whatever the caller would have */
		bool torn;       /* more than `moved` may have reached the peer */
		int slot;
		_Atomic int abandon;
	} own;
};

/* What a source promised to a transport for one request: an admitted range. */
struct otte_source_use;

struct otte_source_grant;

/* What is lent to a process of this host: the range of a region in its memory, for one direction. */
struct otte_source_lent {
	struct otte_source_grant *grant;
	uint64_t loan;           /* the module's, offered to the peer's client; 0: the memory is given itself */
	int fd;                  /* the memory, to be closed; for READ it is open for reading only; -1: a loan */
	int uses_fd;             /* the table of its uses, base/uses.h; stays the engine's; -1: another user's */
	uint64_t uses_loan;      /* and the module's loan of that table, to be mapped; 0: `uses_fd` is to be given */
	uint64_t offset, length; /* of the region in `fd` */
};

struct otte_source_ops {
	/*
	 * Check and admit. 0: *use is live and *address is where the bytes are. Otherwise the errno that
	 * the peer is told; with -EBUSY *address is set if the range is what is busy, else NULL. `peer` is
	 * what accept_lane() was given.
	 */
	int (*begin)(void *peer, const struct otte_lane_request *request,
		     struct otte_source_use **use, uint8_t **address);
	/*
	 * After bytes were copied from or to the range, and before the peer is told of a success: 0, or
	 * -ESTALE, and some of that may have been other memory. It does not call the system.
	 */
	int (*still)(const struct otte_source_use *use);
	/*
	 * Whether that may come of itself, so that a READ's verdict must follow its bytes: how to look, valid
	 * as long as the use, or NULL. Mask and fresh are of the low byte.
	 */
	const struct otte_region_watch *(*guarded)(const struct otte_source_use *use);
	/* Whether nobody but the engine can put other memory in place of it, or take it away, unnoticed. */
	bool (*lasts)(const struct otte_source_use *use);
	/* Whether its memory cannot go away: it is the engine's own. */
	bool (*firm)(const struct otte_source_use *use);
	/* The peer is told an error of begin(). */
	void (*refused)(void *peer);
	/* The transport will not touch the range again. complete: all bytes moved. */
	void (*end)(struct otte_source_use *use, bool complete);
	/*
	 * Before end(): nobody can say when the transport will be done with the range. It is recorded as
	 * retained until then. Nonzero: impossible now, and nothing has changed.
	 */
	int (*retain)(struct otte_source_use *use);
	/* A lane that accept_lane() took is closed, and no use of it is left. */
	void (*lane_closed)(void *peer);

	/*
	 * begin() for a peer that reaches the range by itself: a loan of exactly this range is exposed when it returns
	 * 0, and ends with end_lent(). Memory whose pages may have been replaced is not lent so.
	 */
	int (*begin_lent)(void *peer, const struct otte_lane_request *request,
			  struct otte_source_use **use, uint8_t **address);
	/* The peer cannot reach it any more, as the evidence (enum otte_evidence) says. complete: all bytes moved. */
	void (*end_lent)(struct otte_source_use *use, bool complete, uint32_t evidence);
	/* What publish() made of the use's region. */
	struct otte_published *(*published)(const struct otte_source_use *use);
	/* Who that peer is. */
	const struct otte_identity *(*identity)(const void *peer);

	/*
	 * Lend a whole region for `op`, until it is given back with evidence. Errors are those of begin(). `mapped`:
	 * as a loan of the module that the peer can map, which nobody can take from it; -EOPNOTSUPP. `by_module`:
	 * nothing but through the module, the table too; what the peer leaves there is cleared when that says that its
	 * process is gone. `owner`: who it is in the table of uses.
	 */
	int (*grant)(void *peer, uint64_t region, uint8_t op, bool mapped, bool by_module, uint32_t owner,
		     struct otte_source_lent *lent);
	/* returned: by the peer's receipt, or revoked before; else its process has ended. */
	void (*give_back)(struct otte_source_grant *grant, bool returned);
	/*
	 * Before the give_back() of what it was lent: what the process of `owner` (base/uses.h) was about to do with
	 * memory of the engine's, it will not do.
	 */
	void (*process_ended)(void *engine, uint32_t owner);
	/* A grant of the module's: it says that nothing of it is in reach any more. */
	bool (*over)(const struct otte_source_grant *grant);
	/* Region of a grant. */
	uint64_t (*granted)(const struct otte_source_grant *grant);
	/* Whether its memory is still what was registered; else it is to be asked for back. */
	bool (*fresh)(const struct otte_source_grant *grant);
	/* Whether its owner has a use of the memory that has stood still for control.timeout: end what can be ended. */
	bool (*stands)(const struct otte_source_grant *grant);
	/*
	 * End it without the peer: 0, and nothing of it is in reach any more, give it back. -EINPROGRESS: later.
	 * -EOPNOTSUPP: nobody can.
	 */
	int (*revoke_grant)(struct otte_source_grant *grant);
	/* Nobody can say when it will be given back: recorded as retained until then. As retain(). */
	int (*retain_grant)(struct otte_source_grant *grant);
	/* What a peer says that it did by itself. */
	void (*count)(void *peer, uint64_t requests, uint64_t read_bytes, uint64_t write_bytes);
	/* A connection to this engine, accepted by the transport, in the thread of serve_loops[0]. Taken. */
	void (*connected)(void *engine, int fd);
	void *engine;
};

/*
 * A part of a work's local range that is read beyond the work's end: taken, and recorded as retained, from
 * keep(), called before done(), until let_go(). keep() may fail, and is called again later.
 */
struct otte_keep_ops {
	int (*keep)(struct otte_work *work, const uint8_t *address, uint64_t length, void **kept);
	void (*let_go)(void *kept);
	/* A native object that cannot be shown to be gone is recorded as retained, for good. */
	void (*lost)(void *engine, uint64_t bytes, const char *what);
};

/*
 * What processes of an arbitration domain tell each other of the NICs they use (sched/slots.h), by index;
 * index() gives that of a name which is the same in all of them, or OTTE_SLOTS_NO_NIC.
 */
struct otte_nic_domain {
	struct otte_slots *slots;
	uint8_t (*index)(struct otte_engine *engine, const char *name);
	struct otte_engine *engine;
};

struct otte_transport_counters {
	_Atomic uint64_t lanes, retries, bad_frames;
};

/* What the engine lends a transport for its life. */
struct otte_transport_env {
	const struct otte_config *config;
	struct otte_loop *loop;          /* requester side: run by a waiting thread or the engine's */
	struct otte_loop *serve_loops;   /* source side: config->tcp_workers of them */
	struct otte_source_ops source;
	struct otte_keep_ops keep;
	const struct otte_identity *identity;
	/* As whom memory of other clients of the module is borrowed; NULL: none is. */
	struct otte_ledger_client *client;
	/*
	 * For a transport that does what it can and leaves the rest to another: those behind it, in order. NULL
	 * ends them.
	 */
	const struct otte_transport_ops *const *next;
};

struct otte_transport_ops {
	const char *name;
	uint32_t kind; /* enum otte_transport_kind */
	bool serves_by_address; /* peers reach memory through this process alone, at its addresses */

	/*
	 * 0, or why this transport cannot work here (-ENOSYS, -ENODEV), named in the text. NULL:
	 * it always can.
	 */
	int (*probe)(const struct otte_config *config);
	/* Whatever there is: -EINVAL, with a text, of what the config asks and this process cannot have. */
	int (*check)(const struct otte_config *config);
	int (*create)(const struct otte_transport_env *env, struct otte_transport **transport);
	/*
	 * No work is left: wait for what a thread of the transport's own may still have to do behind a done(). NULL:
	 * it has none.
	 */
	void (*settle)(struct otte_transport *transport);
	/* After every peer is closed and no loop runs. */
	void (*destroy)(struct otte_transport *transport);

	/*
	 * Prepare a range that is about to be registered with rights OTTE_REMOTE_*, for peers as for ourselves; before
	 * the ledger looks at its pages. The memory is mapped until withdraw(), before which every use has ended.
	 * -EUCLEAN, of either: something of it stays, and the memory must not be freed any more. NULL: nothing is to
	 * be prepared. Of a GPU's *published is NULL where the transport does not reach it, which nobody does then.
	 */
	int (*publish)(struct otte_transport *transport, const struct otte_publishing *range,
		       struct otte_published **published);
	int (*withdraw)(struct otte_transport *transport, struct otte_published *published);
	/* How NICs were told of it, OTTE_GPU_BY_*; 0: it is no GPU's memory. NULL with publish(). */
	uint32_t (*gpu_routes)(struct otte_transport *transport, const struct otte_published *published);

	/*
	 * A peer whose control connection is `control`; changed(arg) is called, without locks, whenever
	 * peer_ready() may answer otherwise.
	 */
	int (*peer_open)(struct otte_transport *transport, struct otte_control_client *control,
			 void (*changed)(void *arg), void *arg, struct otte_transport_peer **peer);
	/* The control connection is open: begin to connect what is missing. Never waits. */
	void (*peer_connect)(struct otte_transport_peer *peer);
	/* 1: work can start; 0: still connecting; negative: it cannot, and why. */
	int (*peer_ready)(struct otte_transport_peer *peer);
	/*
	 * Of a peer that is ready: the NIC that its bytes pass. Negative: it cannot be said. NULL: they pass
	 * none.
	 */
	int (*peer_nic)(struct otte_transport_peer *peer, char name[IF_NAMESIZE]);
	/* The peer is lost: every work ends with `code`, its local range drained. */
	void (*peer_stop)(struct otte_transport_peer *peer, int code);
	/* Stall limits and reconnection; the engine's thread calls it now and then. */
	void (*peer_tick)(struct otte_transport_peer *peer, uint64_t now_ns);
	/* Stopped before, no work left. */
	void (*peer_close)(struct otte_transport_peer *peer);

	int (*plan)(struct otte_transport_peer *peer, struct otte_work *work);
	/* Undo plan() of a work that will not be started; of it only `native` counts. */
	void (*unplan)(struct otte_work *work);
	void (*start)(struct otte_transport_peer *peer, struct otte_work *work);
	/*
	 * For a thread that waits for the only work there is: sleep in the connection that it is on, which costs
	 * less than a turn of the loop, and receive what comes. False: there is more to it than one connection,
	 * or nothing came for some milliseconds; the loop should be run.
	 */
	bool (*receive_alone)(struct otte_transport_peer *peer);
	/*
	 * start() and receive_alone() in one, which costs less than either after the other. False: it cannot be done
	 * so, and nothing has happened. True: the work is started, and most often done; the peer may be gone.
	 */
	bool (*exchange)(struct otte_transport_peer *peer, struct otte_work *work);
	/*
	 * For a short work whose local range is firm, and which was not planned: move it here and now, at once and as
	 * a whole, without done(). True: it is moved. False: not so, whatever the reason, and nothing has happened.
	 * Called under the batch's lock. NULL: this transport never moves anything so.
	 */
	bool (*direct)(struct otte_transport_peer *peer, struct otte_work *work);
	/*
	 * End a work early. pin() is called under a lock that keeps the work from being told, cancel()
	 * later without it; the work may be done by then. `code` -ECANCELED: end soon, harming no other
	 * work. -ETIMEDOUT: end now, even if a connection has to be given up for it.
	 */
	void *(*pin)(struct otte_work *work);
	void (*cancel)(struct otte_transport_peer *peer, void *pinned, int code);
	/*
	 * For one that stands before: where the code of a plan's cancel() stands, 0 before. Valid as long as the plan.
	 * Who has put a work where cancel() finds it looks here under the same lock, as that may have come before.
	 */
	_Atomic int *(*mark)(void *native);

	/*
	 * Source: ask for what was lent of `region` (0: of all); give_back() follows for each. NULL: nothing is
	 * ever lent.
	 */
	void (*recall)(struct otte_transport *transport, uint64_t region);
	/*
	 * Source: serve an accepted lane on `fd`. 0: the descriptor is the transport's. -EOPNOTSUPP: it has
	 * no lanes of this kind.
	 */
	int (*accept_lane)(struct otte_transport *transport, void *peer, int fd, enum otte_lane_kind kind,
			   uint64_t counter);
	/* Shut down the lanes of `peer`; lane_closed() follows for each. */
	void (*drop_lanes)(struct otte_transport *transport, void *peer);
	/* Close source lanes that stalled. The thread of loop `index` calls it now and then. */
	void (*source_tick)(struct otte_transport *transport, unsigned index, uint64_t now_ns);

	void (*counters)(struct otte_transport *transport, struct otte_stats *stats);
	/* The NICs it uses, by id: `capacity` of them at most; returns how many there are. NULL: none. */
	size_t (*nics)(struct otte_transport *transport, struct otte_nic_info *rows,
		       size_t capacity);
	/*
	 * For one that chooses between NICs: bytes under way are to be told there, and those of others
	 * count; and payload that is posted later than it was started asks these slots again. Once,
	 * before there are peers; `domain` is valid for the call, its slots until destroy() has
	 * returned. NULL: it does not.
	 */
	void (*join)(struct otte_transport *transport, const struct otte_nic_domain *domain);
};

struct otte_transport {
	const struct otte_transport_ops *ops;
};

static inline void otte_transport_settle(struct otte_transport *transport)
{
	if (transport->ops->settle)
		transport->ops->settle(transport);
}

static inline int otte_transport_publish(struct otte_transport *transport,
					 const struct otte_publishing *range,
					 struct otte_published **published)
{
	*published = NULL;
	if (!transport->ops->publish)
		return 0;
	return transport->ops->publish(transport, range, published);
}

static inline int otte_transport_withdraw(struct otte_transport *transport,
					  struct otte_published *published)
{
	return published ? transport->ops->withdraw(transport, published) : 0;
}

static inline uint32_t otte_transport_gpu_routes(struct otte_transport *transport,
						 const struct otte_published *published)
{
	return published ? transport->ops->gpu_routes(transport, published) : 0;
}

static inline size_t otte_transport_nics(struct otte_transport *transport,
					 struct otte_nic_info *rows, size_t capacity)
{
	return transport->ops->nics ? transport->ops->nics(transport, rows, capacity) : 0;
}

static inline void otte_transport_join(struct otte_transport *transport,
				       const struct otte_nic_domain *domain)
{
	if (transport->ops->join)
		transport->ops->join(transport, domain);
}

/* The one that stands behind the one of `env`, with those behind it. */
static inline int otte_transport_create_next(const struct otte_transport_env *env,
					     struct otte_transport **next)
{
	struct otte_transport_env its = *env;

	its.next++;
	return env->next[0]->create(&its, next);
}

struct otte_transport_peer {
	const struct otte_transport_ops *ops;
	struct otte_transport_peer *next; /* behind it, of the next transport (chain.h) */
	/* What direct() is not worth asking for: a region and op, or _NEVER for all. No more than a hint. */
	_Atomic uint64_t indirect;
};

#define OTTE_INDIRECT(region, op) (2 * (region) + (op))
#define OTTE_INDIRECT_NEVER UINT64_MAX

static inline bool otte_direct_worth(const struct otte_transport_peer *peer, uint64_t region, uint8_t op)
{
	uint64_t indirect = atomic_load_explicit(&peer->indirect, memory_order_relaxed);

	return indirect != OTTE_INDIRECT_NEVER && indirect != OTTE_INDIRECT(region, op);
}

extern const struct otte_transport_ops otte_tcp_transport;
/* Memory of this host, and `env.next` for all that is not. */
extern const struct otte_transport_ops otte_local_transport;
/* NICs of RDMA, and `env.next` for what does not pass them. */
extern const struct otte_transport_ops otte_rdma_transport;

#endif
