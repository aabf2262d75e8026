/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * MSG_ZEROCOPY: payload that the kernel sends straight out of registered memory.
 *
 * The kernel numbers the sends of a socket, and until its notification on the error queue says that a send
 * is over it refers to the pages: they may be sent again, or for the first time. So whoever lends
 * memory to such sends keeps a claim, and what depends on the memory ends when the claim has none left:
 * a source's use and with it the loan, a requester's slice and with it the local range.
 *
 * A socket that is given up with sends outstanding is not closed, since that would close the way on which the
 * notifications come. It is disconnected, which makes the kernel drop what it has, and lingers on a list of
 * the transport's until they are in. What is not proven within a second is retained: the ledger gets
 * a record with the reason, waiting works end unquiesced (-EUCLEAN), and the memory stays taken until proof
 * comes after all.
 *
 *   SENDING --connection lost--> LINGERING --all proven--> closed
 *                                    | 1 s
 *                                    v
 *                                RETAINED ----all proven--> closed
 */
#ifndef OTTE_TRANSPORT_TCP_ZEROCOPY_H
#define OTTE_TRANSPORT_TCP_ZEROCOPY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct otte_config;

/* Sends of one slice or use, with numbers that follow each other. */
struct tcp_claim {
	struct tcp_claim *prev, *next;   /* of its socket, while left is not 0 */
	uint32_t first, count;
	uint32_t left;                   /* without a notification */
	bool retained;
};

/* What becomes of the claims of a socket that lingers. Called without locks. */
struct tcp_linger_ops {
	/* The kernel has let go of all of it. */
	void (*proven)(struct tcp_claim *claim);
	/* Not within the time: record it as retained. Nonzero: impossible now, ask again. */
	int (*retain)(struct tcp_claim *claim);
	/* Nothing is left; the socket is closed. May be NULL. */
	void (*over)(void *arg);
};

/* Of one transport. */
struct tcp_zerocopies {
	_Atomic uint64_t bytes, sends, copied, refused, outstanding;
	pthread_mutex_t lock;            /* the list */
	struct tcp_zerocopy *lingering;
};

/* Of one socket; whoever owns the lane sees to it that one thread at a time is in here. */
struct tcp_zerocopy {
	struct tcp_zerocopy *prev, *next; /* the list of lingering ones */
	struct tcp_zerocopies *all;
	const struct otte_config *config;
	int fd;
	bool stopped;                    /* sends no more without copying */
	uint32_t number;                 /* of the next send */
	uint32_t copied_run;             /* the last so many sends were copied after all */
	struct tcp_claim *claims;        /* with sends outstanding */

	bool disconnected;               /* lingering: the kernel was told to drop it all */
	uint64_t since_ns;
	const struct tcp_linger_ops *ops;
	void *arg;
};

void tcp_zerocopies_init(struct tcp_zerocopies *all);
/* Nothing lingers any more. */
void tcp_zerocopies_fini(struct tcp_zerocopies *all);

/* NULL: this socket copies, because the config or the kernel says so, or the peer is on this host. */
struct tcp_zerocopy *tcp_zerocopy_open(struct tcp_zerocopies *all, const struct otte_config *config,
				       int fd, bool local);
/* Without claims; the descriptor stays open. */
void tcp_zerocopy_close(struct tcp_zerocopy *zerocopy);

/* A payload of `length` should be sent with tcp_zerocopy_send(). NULL: no. */
bool tcp_zerocopy_wants(const struct tcp_zerocopy *zerocopy, uint64_t length);
/* As send(). Where the kernel has no room for one more notification the bytes are copied. */
ssize_t tcp_zerocopy_send(struct tcp_zerocopy *zerocopy, struct tcp_claim *claim,
			  const void *data, uint64_t length);
/* Read what the kernel says: claims that have none left now, linked by next. */
struct tcp_claim *tcp_zerocopy_reap(struct tcp_zerocopy *zerocopy);

/*
 * The connection is over. disconnect() has the kernel drop what it still holds, and reaps; if claims are left
 * then, linger() takes socket and claims over, and `ops` are called for each until none is.
 */
struct tcp_claim *tcp_zerocopy_disconnect(struct tcp_zerocopy *zerocopy);
void tcp_zerocopy_linger(struct tcp_zerocopy *zerocopy, const struct tcp_linger_ops *ops, void *arg);
/* Look after all that linger. Any thread, now and then. */
void tcp_zerocopies_tick(struct tcp_zerocopies *all, uint64_t now_ns);

#endif
