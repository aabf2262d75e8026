/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "hostile.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/util.h"
#include "transport/rdma/peer.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/transfer.h"
#include "transport/rdma/window.h"

#include "parties.h"

struct disclosure *disclosed;
bool hostile_pool;

void hostile_open(void)
{
	disclosed = map_for_all(sizeof(*disclosed));
}

int __real_otte_rdma_window_bind(struct otte_rdma_window *window, struct otte_rdma_qp *qp,
				 const struct otte_rdma_window_range *range,
				 struct otte_rdma_work *work);
int __wrap_otte_rdma_window_bind(struct otte_rdma_window *window, struct otte_rdma_qp *qp,
				 const struct otte_rdma_window_range *range,
				 struct otte_rdma_work *work);

int __wrap_otte_rdma_window_bind(struct otte_rdma_window *window, struct otte_rdma_qp *qp,
				 const struct otte_rdma_window_range *range,
				 struct otte_rdma_work *work)
{
	const struct otte_rdma_buffer_mrs *mrs =
		container_of(range->parent, struct otte_rdma_buffer_mrs, parent);
	int ret = __real_otte_rdma_window_bind(window, qp, range, work);

	disclosed->parent = range->parent->native->lkey;
	disclosed->local = hostile_pool ? disclosed->parent : mrs->local.native->lkey;
	disclosed->own = window->own.native ? window->own.native->lkey : 0;
	return ret;
}

enum stage { HONEST, HOLDING, HELD };

static _Atomic enum stage stage;
static bool stops; /* its thread, meanwhile */
static _Atomic bool both; /* are held */
/* Written by a requester's thread: read once they are held, or the request is over. */
static struct payload last, second;
static struct otte_rdma_worker *holder;

int __real_otte_rdma_qp_post(struct otte_rdma_qp *qp, const struct otte_rdma_send *sends,
			     uint32_t count, uint32_t *accepted);
int __wrap_otte_rdma_qp_post(struct otte_rdma_qp *qp, const struct otte_rdma_send *sends,
			     uint32_t count, uint32_t *accepted);

int __wrap_otte_rdma_qp_post(struct otte_rdma_qp *qp, const struct otte_rdma_send *sends,
			     uint32_t count, uint32_t *accepted)
{
	const struct otte_rdma_transfer *transfer;

	if (sends[0].empty || (sends[0].op != OTTE_RDMA_READ && sends[0].op != OTTE_RDMA_WRITE))
		return __real_otte_rdma_qp_post(qp, sends, count, accepted);
	if (atomic_load(&stage) != HELD)
		last = (struct payload){ qp, sends[0] };
	if (qp != last.qp && !atomic_load(&both)) {
		second = (struct payload){ qp, sends[0] };
		atomic_store(&both, true);
	}
	if (atomic_load(&stage) == HONEST)
		return __real_otte_rdma_qp_post(qp, sends, count, accepted);
	transfer = container_of(sends[0].work, struct otte_rdma_transfer, payload);
	holder = transfer->peer->worker;
	atomic_store(&stage, HELD);
	if (stops) {
		while (atomic_load(&stage) == HELD)
			nap();
		return __real_otte_rdma_qp_post(qp, sends, count, accepted);
	}
	*accepted = 0;
	return -EAGAIN; /* as if there were no room: it is tried again */
}

void hostile_hold(bool deaf)
{
	stops = deaf;
	atomic_store(&both, false);
	atomic_store(&stage, HOLDING);
}

bool hostile_held(struct payload *payload)
{
	if (!EVENTUALLY(atomic_load(&stage) == HELD))
		return false;
	*payload = last;
	return true;
}

bool hostile_both_held(struct payload *first, struct payload *other)
{
	if (!EVENTUALLY(atomic_load(&both)))
		return false;
	*first = last;
	*other = second;
	return true;
}

void hostile_let_go(void)
{
	if (atomic_exchange(&stage, HONEST) == HELD)
		otte_rdma_wake(holder);
}

struct payload hostile_last(void)
{
	return last;
}

static _Atomic bool keeps;

void __real_otte_rdma_peer_say(struct otte_rdma_peer *peer,
			       const struct otte_rdma_message *message);
void __wrap_otte_rdma_peer_say(struct otte_rdma_peer *peer,
			       const struct otte_rdma_message *message);

void __wrap_otte_rdma_peer_say(struct otte_rdma_peer *peer,
			       const struct otte_rdma_message *message)
{
	if (atomic_load(&keeps) && (message->type == OTTE_RDMA_MSG_RENEW ||
				    message->type == OTTE_RDMA_MSG_RETURN))
		return;
	__real_otte_rdma_peer_say(peer, message);
}

void hostile_keep_leases(bool keep)
{
	atomic_store(&keeps, keep);
}

struct shot {
	struct otte_rdma_work work;
	_Atomic int status;
};

static void told(struct otte_rdma_work *work, const struct otte_rdma_outcome *outcome)
{
	struct shot *shot = container_of(work, struct shot, work);

	atomic_store(&shot->status,
		     outcome->evidence == OTTE_RDMA_COMPLETED ? (int)outcome->status : -1);
}

#define PENDING (-2)

int hostile_post(struct otte_rdma_qp *qp, const struct otte_rdma_send *send)
{
	static struct shot shot; /* stays, whenever its completion comes */
	struct otte_rdma_send own = *send;
	uint32_t accepted;
	int ret;

	shot = (struct shot){ .work.done = told, .status = PENDING };
	own.work = &shot.work;
	ret = __real_otte_rdma_qp_post(qp, &own, 1, &accepted);
	if (ret) {
		printf("# a post: %d: %s\n", ret, otte_error_text());
		return -1;
	}
	if (!EVENTUALLY(atomic_load(&shot.status) != PENDING))
		printf("# a post: no completion\n");
	return atomic_load(&shot.status);
}
