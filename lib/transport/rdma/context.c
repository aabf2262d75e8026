/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "transport/rdma/window.h"

/* That of all rxe devices: it has no vendor. */
#define RXE_VENDOR_ID 0xffffffu

int otte_rdma_call_failed(const struct otte_rdma_context *context, const char *call, int error)
{
	if (error < 0)
		error = -error;
	if (!error)
		error = EIO;
	return otte_fail(-error, "%s: %s: %s", context->name, call, strerror(error));
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int take_limits(struct otte_rdma_context *context, const struct ibv_device_attr *attr)
{
	if (!(attr->device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B))
		return otte_fail(-EOPNOTSUPP, "%s: has no memory windows of type 2B",
				 context->name);
	context->rxe = attr->vendor_id == RXE_VENDOR_ID;
	context->limits = (struct otte_rdma_limits){
		.max_qp_wr = (uint32_t)attr->max_qp_wr,
		.max_cqe = (uint32_t)attr->max_cqe,
		.max_mr_bytes = attr->max_mr_size,
		.max_rd_atomic = (uint32_t)attr->max_qp_init_rd_atom,
		.max_dest_rd_atomic = (uint32_t)attr->max_qp_rd_atom,
	};
	return 0;
}

static int query_limits(struct otte_rdma_context *context)
{
	struct ibv_device_attr attr = {};
	int rc = context->verbs->query_device(context->native, &attr);

	return rc ? otte_rdma_call_failed(context, "ibv_query_device", rc) :
		    take_limits(context, &attr);
}

static int alloc_pd(struct otte_rdma_context *context)
{
	errno = 0;
	context->pd = context->verbs->alloc_pd(context->native);
	return context->pd ? 0 : otte_rdma_call_failed(context, "ibv_alloc_pd", errno);
}

static void take_nic(struct otte_rdma_context *context, const struct otte_rdma_nic *nic)
{
	memcpy(context->name, nic->name, sizeof(context->name));
	context->port = nic->port;
	context->node = nic->node;
	if (nic->rate_source != OTTE_RDMA_RATE_ASSUMED)
		context->bytes_per_s = nic->bytes_per_s;
	context->generation = 1;
	context->address = (struct otte_rdma_address){
		.gid = nic->gid,
		.mtu_bytes = nic->mtu_bytes,
		.lid = nic->lid,
		.ethernet = nic->ethernet,
	};
	if (nic->state == OTTE_RDMA_ACTIVE)
		return;
	context->state = OTTE_RDMA_CONTEXT_PAUSED;
	context->code = -ENETDOWN;
	snprintf(context->why, sizeof(context->why), "%s port %u is not active", nic->name,
		 nic->port);
}

static int no_memory(const char *name)
{
	return otte_fail(-ENOMEM, "%s: %s", name, strerror(ENOMEM));
}

/*
 * A child that kept them would keep all that was made of the device, after its parent's death, too.
 */
static int mark_fds(struct otte_rdma_context *context)
{
	int rc = otte_fd_mark(context->native->cmd_fd);

	if (!rc)
		rc = otte_fd_mark(context->native->async_fd);
	return rc ? no_memory(context->name) : 0;
}

static void forget_fds(struct ibv_context *native)
{
	otte_fd_forget(native->cmd_fd);
	otte_fd_forget(native->async_fd);
}

/* Nothing was made of it. */
static void close_native(const struct otte_verbs *verbs, const char *name,
			 struct ibv_context *native)
{
	forget_fds(native);
	if (verbs->close_device(native))
		otte_log(OTTE_LOG_WARNING, "rdma: %s: ibv_close_device failed", name);
}

static int open_parts(struct otte_rdma_context *context, uint32_t max_window_key_indices)
{
	int rc = query_limits(context);

	if (!rc)
		rc = mark_fds(context);
	if (rc)
		return rc;
	if (otte_rdma_keys_create(max_window_key_indices, &context->keys))
		return no_memory(context->name);
	rc = alloc_pd(context);
	if (rc)
		otte_rdma_keys_destroy(context->keys);
	return rc;
}

int otte_rdma_context_open(const struct otte_verbs *verbs, struct otte_rdma_nic *nic,
			   unsigned int id, const struct otte_rdma_context_params *params,
			   struct otte_rdma_context **out)
{
	struct otte_rdma_context *context = calloc(1, sizeof(*context));
	struct ibv_context *native = nic->context;
	int rc;

	nic->context = NULL;
	if (context) {
		context->verbs = verbs;
		context->native = native;
		context->nic = id;
		take_nic(context, nic);
		rc = open_parts(context, params->max_window_key_indices);
	} else {
		rc = no_memory(nic->name);
	}
	if (rc) {
		close_native(verbs, nic->name, native);
		free(context);
		return rc;
	}
	pthread_mutex_init(&context->lock, NULL);
	*out = context;
	return 0;
}

/* ---- Closing --------------------------------------------------------------------------------- */

uint64_t otte_rdma_retained_sum(const struct otte_rdma_retained *retained)
{
	return (uint64_t)retained->qps + retained->mrs + retained->windows + retained->cqs +
	       retained->channels + retained->pds + retained->devices + retained->files;
}

static int retain(struct otte_rdma_context *context)
{
	pthread_mutex_lock(&context->lock);
	if (context->state != OTTE_RDMA_CONTEXT_RETAINED) {
		context->state = OTTE_RDMA_CONTEXT_RETAINED;
		context->code = -EUCLEAN;
		snprintf(context->why, sizeof(context->why),
			 "%s: retained, with %llu things that could not be destroyed",
			 context->name,
			 (unsigned long long)otte_rdma_retained_sum(&context->retained));
	}
	pthread_mutex_unlock(&context->lock);
	return otte_fail(-EUCLEAN, "%s", context->why);
}

static int close_parts(struct otte_rdma_context *context)
{
	if (otte_rdma_windows_free(context))
		return -EUCLEAN;
	if (context->verbs->dealloc_pd(context->pd)) {
		context->retained.pds++;
		return -EUCLEAN;
	}
	forget_fds(context->native);
	if (context->verbs->close_device(context->native)) {
		context->retained.devices++;
		return -EUCLEAN;
	}
	return 0;
}

int otte_rdma_context_close(struct otte_rdma_context *context)
{
	uint32_t children;

	if (!context)
		return 0;
	if (otte_rdma_retained_sum(&context->retained))
		return retain(context);
	children = atomic_load(&context->children);
	if (children)
		return otte_fail(-EBUSY, "%s: %u things of it are in use", context->name, children);
	if (close_parts(context))
		return retain(context);
	otte_rdma_keys_destroy(context->keys);
	pthread_mutex_destroy(&context->lock);
	free(context);
	return 0;
}

/* ---- The route ------------------------------------------------------------------------------- */

static int check(struct otte_rdma_context *context, bool needs_route)
{
	char why[OTTE_ERROR_BYTES];
	int code = 0;

	pthread_mutex_lock(&context->lock);
	if (context->state >= OTTE_RDMA_CONTEXT_FATAL)
		code = -ENODEV;
	else if (needs_route && context->state == OTTE_RDMA_CONTEXT_PAUSED)
		code = -ENETDOWN;
	if (code)
		memcpy(why, context->why, sizeof(why));
	pthread_mutex_unlock(&context->lock);
	return code ? otte_fail(code, "%s", why) : 0;
}

int otte_rdma_context_check_device(struct otte_rdma_context *context)
{
	return check(context, false);
}

int otte_rdma_context_check(struct otte_rdma_context *context)
{
	return check(context, true);
}

void otte_rdma_context_route(struct otte_rdma_context *context, struct otte_rdma_route *route)
{
	pthread_mutex_lock(&context->lock);
	*route = (struct otte_rdma_route){
		.state = context->state,
		.generation = context->generation,
		.address = context->address,
	};
	pthread_mutex_unlock(&context->lock);
}

/* Under the lock, and not from a state that is for good. True: that is news. */
static bool move(struct otte_rdma_context *context, enum otte_rdma_context_state state, int code,
		 const char *why)
{
	bool news = context->state != state;

	context->generation++;
	context->state = state;
	context->code = code;
	snprintf(context->why, sizeof(context->why), "%s port %u: %s", context->name, context->port,
		 why);
	return news;
}

static bool move_down(struct otte_rdma_context *context, enum otte_rdma_context_state state,
		      int code, const char *why)
{
	bool news = false;

	pthread_mutex_lock(&context->lock);
	if (context->state < OTTE_RDMA_CONTEXT_FATAL)
		news = move(context, state, code, why);
	pthread_mutex_unlock(&context->lock);
	return news;
}

bool otte_rdma_context_pause(struct otte_rdma_context *context, int code, const char *why)
{
	return move_down(context, OTTE_RDMA_CONTEXT_PAUSED, code, why);
}

bool otte_rdma_context_fail(struct otte_rdma_context *context, int code, const char *why)
{
	return move_down(context, OTTE_RDMA_CONTEXT_FATAL, code, why);
}

/* Under the lock. */
static int resume(struct otte_rdma_context *context, uint64_t generation,
		  const struct otte_rdma_address *address)
{
	if (context->state >= OTTE_RDMA_CONTEXT_FATAL)
		return -ENODEV;
	if (context->generation != generation)
		return -ESTALE;
	if (context->state == OTTE_RDMA_CONTEXT_ACTIVE)
		return 0;
	context->state = OTTE_RDMA_CONTEXT_ACTIVE;
	context->address = *address;
	context->code = 0;
	context->why[0] = '\0';
	return 0;
}

int otte_rdma_context_resume(struct otte_rdma_context *context, uint64_t generation,
			     const struct otte_rdma_address *address)
{
	int rc;

	pthread_mutex_lock(&context->lock);
	rc = resume(context, generation, address);
	pthread_mutex_unlock(&context->lock);
	return rc == -ENODEV ? check(context, false) : rc;
}
