/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "otte/otte.h"

/* ---- States ---------------------------------------------------------------------------------- */

static const char *state_text(enum otte_rdma_window_state state)
{
	static const char *const texts[] = {
		"idle",	       "parked",  "fresh",    "being bound", "bound", "being invalidated",
		"invalidated", "unknown", "retained",
	};

	return texts[state];
}

static int expect(const struct otte_rdma_window *window, enum otte_rdma_window_state state)
{
	if (window->state == state)
		return 0;
	return otte_fail(-EPROTO, "%s: window 0x%08x is %s, not %s", window->context->name,
			 window->key, state_text(window->state), state_text(state));
}

/* ---- The context's lists --------------------------------------------------------------------- */

static void push(struct otte_rdma_window **list, struct otte_rdma_window *window)
{
	window->next = *list;
	*list = window;
}

static struct otte_rdma_window *pop(struct otte_rdma_window **list)
{
	struct otte_rdma_window *window = *list;

	if (window)
		*list = window->next;
	return window;
}

/* It stays on the list of those that are kept. */
static int retain(struct otte_rdma_window *window, int error)
{
	struct otte_rdma_context *context = window->context;

	atomic_fetch_add(&context->retained.windows, 1);
	window->state = OTTE_RDMA_WINDOW_RETAINED;
	pthread_mutex_lock(&context->lock);
	push(&context->parked, window);
	pthread_mutex_unlock(&context->lock);
	return otte_fail(-EUCLEAN, "%s: ibv_dealloc_mw of 0x%08x: %s; retained", context->name,
			 window->key, strerror(error < 0 ? -error : error));
}

/* On no list. */
static int free_native(struct otte_rdma_window *window)
{
	struct otte_rdma_context *context = window->context;
	int rc = context->verbs->dealloc_mw(window->native);

	if (rc)
		return retain(window, rc);
	if (window->index) {
		pthread_mutex_lock(&context->lock);
		otte_rdma_keys_retire(context->keys, window->index);
		pthread_mutex_unlock(&context->lock);
	}
	free(window);
	return 0;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static int alloc_native(struct otte_rdma_context *context, struct otte_rdma_window *window)
{
	errno = 0;
	window->context = context;
	window->native = context->verbs->alloc_mw(context->pd, IBV_MW_TYPE_2);
	if (!window->native)
		return otte_rdma_call_failed(context, "ibv_alloc_mw", errno);
	window->key = window->native->rkey;
	return 0;
}

/* Its index has a key besides the one that it came with. */
static int admit(struct otte_rdma_context *context, struct otte_rdma_window *window)
{
	int rc;

	pthread_mutex_lock(&context->lock);
	rc = otte_rdma_keys_admit(context->keys, window->key, &window->index);
	if (!rc)
		rc = otte_rdma_keys_grant(context->keys, window->index, &window->key);
	pthread_mutex_unlock(&context->lock);
	if (rc == -ENOSPC)
		return otte_fail(-EEXIST, "%s: the provider gave key 0x%08x, of an index used up",
				 context->name, window->key);
	return rc;
}

/* It is of no use. */
static int reject(struct otte_rdma_window *window, int rc)
{
	char why[OTTE_ERROR_BYTES];
	const char *name = window->context->name;

	snprintf(why, sizeof(why), "%s", otte_error_text());
	if (free_native(window))
		return otte_fail_within(-EUCLEAN, "%s; and then ", why);
	return otte_fail(rc, "%s: %s", name, why);
}

static int make(struct otte_rdma_context *context, struct otte_rdma_window **out)
{
	struct otte_rdma_window *window = calloc(1, sizeof(*window));
	int rc;

	if (!window)
		return otte_fail(-ENOMEM, "%s: no memory for a window", context->name);
	rc = alloc_native(context, window);
	if (rc) {
		free(window);
		return rc;
	}
	rc = admit(context, window);
	if (rc)
		return reject(window, rc);
	*out = window;
	return 0;
}

int otte_rdma_window_take(struct otte_rdma_context *context, struct otte_rdma_window **out)
{
	struct otte_rdma_window *window;
	int rc = otte_rdma_context_check_device(context);

	if (rc)
		return rc;
	pthread_mutex_lock(&context->lock);
	window = pop(&context->idle);
	pthread_mutex_unlock(&context->lock);
	if (!window)
		rc = make(context, &window);
	if (rc)
		return rc;
	window->state = OTTE_RDMA_WINDOW_FRESH;
	atomic_fetch_add(&context->children, 1);
	*out = window;
	return 0;
}

/* ---- Binding and invalidation ---------------------------------------------------------------- */

/* What it is bound to. */
static int choose_parent(struct otte_rdma_window *window,
			 const struct otte_rdma_window_range *range, struct ibv_mr **parent)
{
	struct ibv_mr *whole = range->parent->native;
	uint8_t *at;
	int rc;

	*parent = window->own.native ? window->own.native : whole;
	if (!window->context->rxe || window->own.native)
		return 0;
	at = (uint8_t *)whole->addr + (range->address - (uintptr_t)whole->addr);
	rc = otte_rdma_mr_register(window->context, at, range->bytes,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &window->own);
	if (!rc)
		*parent = window->own.native;
	return rc;
}

/* It stays as it was only where the post was not accepted for certain. */
static int post(struct otte_rdma_window *window, struct otte_rdma_qp *qp,
		const struct otte_rdma_send *send, enum otte_rdma_window_state under_way)
{
	uint32_t accepted;
	int rc;

	rc = otte_rdma_qp_post(qp, send, 1, &accepted);
	if (!rc)
		window->state = under_way;
	else if (accepted)
		window->state = OTTE_RDMA_WINDOW_UNKNOWN;
	return rc;
}

static int bind_to(struct otte_rdma_window *window, struct otte_rdma_qp *qp,
		   const struct otte_rdma_window_range *range, struct ibv_mr *parent,
		   struct otte_rdma_work *work)
{
	const struct otte_rdma_send send = {
		.op = OTTE_RDMA_BIND,
		.remote = range->address,
		.bytes = range->bytes,
		.key = window->key,
		.window = window->native,
		.parent = parent,
		.access = range->direction == OTTE_READ ? IBV_ACCESS_REMOTE_READ :
							  IBV_ACCESS_REMOTE_WRITE,
		.work = work,
	};

	return post(window, qp, &send, OTTE_RDMA_WINDOW_BINDING);
}

/* After `rc`: nothing was bound to it. */
static int drop_parent(struct otte_rdma_window *window, int rc)
{
	char why[OTTE_ERROR_BYTES];

	snprintf(why, sizeof(why), "%s", otte_error_text());
	if (!otte_rdma_mr_release(&window->own))
		return otte_fail(rc, "%s", why);
	window->state = OTTE_RDMA_WINDOW_UNKNOWN;
	return otte_fail_within(-EUCLEAN, "%s; and then ", why);
}

int otte_rdma_window_bind(struct otte_rdma_window *window, struct otte_rdma_qp *qp,
			  const struct otte_rdma_window_range *range, struct otte_rdma_work *work)
{
	struct ibv_mr *parent;
	int rc = expect(window, OTTE_RDMA_WINDOW_FRESH);

	if (!rc)
		rc = choose_parent(window, range, &parent);
	if (rc)
		return rc;
	rc = bind_to(window, qp, range, parent, work);
	if (rc == -EAGAIN)
		return rc; /* with its parent, if it has one, for the next try */
	return rc && window->state == OTTE_RDMA_WINDOW_FRESH ? drop_parent(window, rc) : rc;
}

int otte_rdma_window_bound(struct otte_rdma_window *window, const struct otte_rdma_outcome *outcome)
{
	int rc = expect(window, OTTE_RDMA_WINDOW_BINDING);

	if (rc)
		return rc;
	if (outcome->code) {
		window->state = OTTE_RDMA_WINDOW_UNKNOWN;
		return otte_fail(outcome->code, "%s: window 0x%08x was not bound: %s",
				 window->context->name, window->key,
				 window->context->verbs->wc_status_str(outcome->status));
	}
	/* Providers take the next bind for one of this window by the key that it has now. */
	window->native->rkey = window->key;
	window->state = OTTE_RDMA_WINDOW_BOUND;
	return 0;
}

int otte_rdma_window_invalidate(struct otte_rdma_window *window, struct otte_rdma_qp *qp,
				struct otte_rdma_work *work)
{
	const struct otte_rdma_send send = {
		.op = OTTE_RDMA_INVALIDATE,
		.key = window->key,
		.work = work,
	};
	int rc = expect(window, OTTE_RDMA_WINDOW_BOUND);

	return rc ? rc : post(window, qp, &send, OTTE_RDMA_WINDOW_INVALIDATING);
}

int otte_rdma_window_invalidated(struct otte_rdma_window *window,
				 const struct otte_rdma_outcome *outcome)
{
	int rc = expect(window, OTTE_RDMA_WINDOW_INVALIDATING);

	if (rc)
		return rc;
	window->state = outcome->code ? OTTE_RDMA_WINDOW_UNKNOWN : OTTE_RDMA_WINDOW_INVALID;
	if (outcome->code)
		return otte_fail(outcome->code, "%s: window 0x%08x was not invalidated: %s",
				 window->context->name, window->key,
				 window->context->verbs->wc_status_str(outcome->status));
	return 0;
}

int otte_rdma_window_received(struct otte_rdma_window *window)
{
	int rc;

	if (window->state == OTTE_RDMA_WINDOW_INVALIDATING)
		return 0;
	rc = expect(window, OTTE_RDMA_WINDOW_BOUND);
	if (!rc)
		window->state = OTTE_RDMA_WINDOW_INVALID;
	return rc;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Under the context's lock, and of its keys. */
static void put(struct otte_rdma_context *context, struct otte_rdma_window *window)
{
	if (otte_rdma_keys_grant(context->keys, window->index, &window->key)) {
		window->state = OTTE_RDMA_WINDOW_PARKED;
		push(&context->parked, window);
	} else {
		window->state = OTTE_RDMA_WINDOW_IDLE;
		push(&context->idle, window);
	}
}

int otte_rdma_window_release(struct otte_rdma_window *window)
{
	struct otte_rdma_context *context = window->context;
	int rc;

	if (window->state != OTTE_RDMA_WINDOW_FRESH && window->state != OTTE_RDMA_WINDOW_INVALID)
		return expect(window, OTTE_RDMA_WINDOW_INVALID);
	rc = otte_rdma_mr_release(&window->own);
	if (!rc)
		return 0;
	pthread_mutex_lock(&context->lock);
	window->state = OTTE_RDMA_WINDOW_RETAINED;
	push(&context->parked, window);
	pthread_mutex_unlock(&context->lock);
	atomic_fetch_sub(&context->children, 1);
	return rc;
}

int otte_rdma_window_put(struct otte_rdma_window *window)
{
	struct otte_rdma_context *context = window->context;
	int rc = otte_rdma_window_release(window);

	if (rc)
		return rc;
	pthread_mutex_lock(&context->lock);
	put(context, window);
	pthread_mutex_unlock(&context->lock);
	atomic_fetch_sub(&context->children, 1);
	return 0;
}

int otte_rdma_window_renew(struct otte_rdma_window *window, struct otte_rdma_window **out)
{
	struct otte_rdma_context *context = window->context;
	bool again;
	int rc = otte_rdma_context_check_device(context);

	if (rc) {
		otte_rdma_window_put(window);
		return rc;
	}
	rc = otte_rdma_window_release(window);
	if (rc)
		return rc;
	pthread_mutex_lock(&context->lock);
	put(context, window);
	again = window->state == OTTE_RDMA_WINDOW_IDLE;
	if (again)
		*out = pop(&context->idle);
	pthread_mutex_unlock(&context->lock);
	if (again) {
		window->state = OTTE_RDMA_WINDOW_FRESH;
		return 0;
	}
	atomic_fetch_sub(&context->children, 1);
	return otte_rdma_window_take(context, out);
}

/* A window that is gone has left its parent. */
int otte_rdma_window_free(struct otte_rdma_window *window)
{
	struct otte_rdma_context *context = window->context;
	struct otte_rdma_mr own = window->own;
	int rc;

	if (window->state == OTTE_RDMA_WINDOW_RETAINED)
		return otte_fail(-EUCLEAN, "%s: window 0x%08x is retained", context->name,
				 window->key);
	rc = free_native(window);
	atomic_fetch_sub(&context->children, 1);
	return rc ? rc : otte_rdma_mr_release(&own);
}

static struct otte_rdma_window *take_all(struct otte_rdma_context *context)
{
	struct otte_rdma_window *all = NULL, *window;

	pthread_mutex_lock(&context->lock);
	while ((window = pop(&context->idle)))
		push(&all, window);
	while ((window = pop(&context->parked)))
		push(&all, window);
	pthread_mutex_unlock(&context->lock);
	return all;
}

int otte_rdma_windows_free(struct otte_rdma_context *context)
{
	struct otte_rdma_window *all = take_all(context), *window;
	int rc = 0;

	while ((window = pop(&all)))
		if (free_native(window))
			rc = -EUCLEAN;
	return rc;
}
