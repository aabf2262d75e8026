/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/mr.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

/*
 * What is pinned counts against RLIMIT_MEMLOCK: beyond it is ENOMEM, and with a limit of 0 EPERM.
 */
static int cannot_pin(const struct otte_rdma_context *context, uint64_t bytes, int error)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return otte_fail(-error, "%s: ibv_reg_mr of %" PRIu64 " bytes: %s", context->name,
				 bytes, strerror(error));
	return otte_fail(-error,
			 "%s: ibv_reg_mr of %" PRIu64 " bytes: %s; RLIMIT_MEMLOCK is %" PRIu64
			 " bytes",
			 context->name, bytes, strerror(error), (uint64_t)limit.rlim_cur);
}

int otte_rdma_mr_register(struct otte_rdma_context *context, void *at, uint64_t bytes, int access,
			  struct otte_rdma_mr *mr)
{
	struct ibv_mr *native;
	int rc = otte_rdma_context_check_device(context);

	if (rc)
		return rc;
	if (bytes > context->limits.max_mr_bytes)
		return otte_fail(-EFBIG, "%s: %" PRIu64 " bytes in an MR, at most %" PRIu64,
				 context->name, bytes, context->limits.max_mr_bytes);
	errno = 0;
	native = context->verbs->reg_mr(context->pd, at, bytes, access);
	if (!native && (errno == ENOMEM || errno == EPERM))
		return cannot_pin(context, bytes, errno);
	if (!native)
		return otte_rdma_call_failed(context, "ibv_reg_mr", errno);
	atomic_fetch_add(&context->children, 1);
	*mr = (struct otte_rdma_mr){
		.context = context,
		.native = native,
		.bytes = bytes,
		.state = OTTE_RDMA_MR_LIVE,
	};
	return 0;
}

static void retain(struct otte_rdma_mr *mr)
{
	struct otte_rdma_retained *retained = &mr->context->retained;

	mr->state = OTTE_RDMA_MR_RETAINED;
	atomic_fetch_add(&retained->mrs, 1);
	atomic_fetch_add(&retained->mr_bytes, mr->bytes);
	atomic_fetch_sub(&mr->context->children, 1);
}

int otte_rdma_mr_release(struct otte_rdma_mr *mr)
{
	int rc;

	if (mr->state == OTTE_RDMA_MR_NONE)
		return 0;
	if (mr->state == OTTE_RDMA_MR_RETAINED)
		return otte_fail(-EUCLEAN, "%s: an MR of %" PRIu64 " bytes is retained",
				 mr->context->name, mr->bytes);
	rc = mr->context->verbs->dereg_mr(mr->native);
	if (rc) {
		retain(mr);
		return otte_fail(-EUCLEAN, "%s: ibv_dereg_mr of %" PRIu64 " bytes: %s; retained",
				 mr->context->name, mr->bytes, strerror(rc < 0 ? errno : rc));
	}
	atomic_fetch_sub(&mr->context->children, 1);
	*mr = (struct otte_rdma_mr){};
	return 0;
}
