/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/mr.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"

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

static int register_at(struct otte_rdma_mr *mr, const struct otte_rdma_mr_spec *spec,
		       struct ibv_pd *pd)
{
	const struct otte_rdma_context *context = mr->context;

	errno = 0;
	mr->native = context->verbs->reg_mr(pd, spec->at, spec->bytes, spec->access);
	if (mr->native)
		return 0;
	if (spec->route == OTTE_RDMA_GPU_NONE && (errno == ENOMEM || errno == EPERM))
		return cannot_pin(context, spec->bytes, errno);
	return otte_rdma_call_failed(context, "ibv_reg_mr", errno);
}

/* ---- A GPU's, exported ----------------------------------------------------------------------- */

static int close_file(struct otte_rdma_mr *mr)
{
	int rc;

	if (!mr->exported)
		return 0;
	rc = otte_gpudirect_close(&mr->file);
	if (!rc)
		return 0;
	atomic_fetch_add(&mr->context->retained.files, 1);
	return otte_fail_within(rc, "%s: ", mr->context->name);
}

/* `rc` with its text; where its descriptor stays both, and -EUCLEAN. */
static int give_up_file(struct otte_rdma_mr *mr, int rc)
{
	char why[OTTE_ERROR_BYTES];

	otte_error_keep(why);
	if (close_file(mr))
		return otte_fail_within(-EUCLEAN, "%s; and then ", why);
	return otte_fail(rc, "%s", why);
}

static int register_exported(struct otte_rdma_mr *mr, const struct otte_rdma_mr_spec *spec,
			     struct ibv_pd *pd)
{
	const struct otte_rdma_context *context = mr->context;
	const uint64_t at = (uint64_t)(uintptr_t)spec->at;
	int rc = otte_gpudirect_export(spec->gpu, at, spec->bytes, &mr->file);

	if (rc)
		return rc;
	mr->exported = true;
	errno = 0;
	mr->native = context->verbs->reg_dmabuf_mr(pd, mr->file.offset, spec->bytes, at,
						   mr->file.fd, spec->access);
	if (mr->native)
		return 0;
	return give_up_file(mr, otte_rdma_call_failed(context, "ibv_reg_dmabuf_mr", errno));
}

/* ---- Life ------------------------------------------------------------------------------------ */

static int check_bytes(const struct otte_rdma_context *context, uint64_t bytes)
{
	if (bytes <= context->limits.max_mr_bytes)
		return 0;
	return otte_fail(-EFBIG, "%s: %" PRIu64 " bytes in an MR, at most %" PRIu64, context->name,
			 bytes, context->limits.max_mr_bytes);
}

/* No address and no key: the log is for more eyes than those are. */
static void note_route(const struct otte_rdma_mr *mr, const struct otte_rdma_mr_spec *spec)
{
	if (spec->route == OTTE_RDMA_GPU_NONE)
		return;
	atomic_fetch_add(&mr->context->gpu_mrs[spec->route], 1);
	otte_log(OTTE_LOG_DEBUG, "%s: MR %u of %" PRIu64 " bytes of GPU %d by %s",
		 mr->context->name, mr->native->handle, spec->bytes, spec->gpu->device,
		 otte_rdma_gpu_route_text(spec->route));
}

int otte_rdma_mr_make(struct otte_rdma_context *context, const struct otte_rdma_mr_spec *spec,
		      struct otte_rdma_mr *mr)
{
	struct otte_rdma_mr made = { .context = context, .bytes = spec->bytes };
	struct ibv_pd *pd = spec->pd ? spec->pd : context->pd;
	int rc = otte_rdma_context_check_device(context);

	if (!rc)
		rc = check_bytes(context, spec->bytes);
	if (rc)
		return rc;
	if (spec->route == OTTE_RDMA_GPU_DMABUF)
		rc = register_exported(&made, spec, pd);
	else
		rc = register_at(&made, spec, pd);
	if (rc)
		return rc;
	atomic_fetch_add(&context->children, 1);
	made.state = OTTE_RDMA_MR_LIVE;
	note_route(&made, spec);
	*mr = made;
	return 0;
}

int otte_rdma_mr_register(struct otte_rdma_context *context, void *at, uint64_t bytes, int access,
			  struct otte_rdma_mr *mr)
{
	const struct otte_rdma_mr_spec spec = { .at = at, .bytes = bytes, .access = access };

	return otte_rdma_mr_make(context, &spec, mr);
}

static void retain(struct otte_rdma_mr *mr)
{
	struct otte_rdma_retained *retained = &mr->context->retained;

	mr->state = OTTE_RDMA_MR_RETAINED;
	if (mr->native)
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
	mr->native = NULL;
	rc = close_file(mr);
	if (rc) {
		retain(mr);
		return rc;
	}
	atomic_fetch_sub(&mr->context->children, 1);
	*mr = (struct otte_rdma_mr){};
	return 0;
}
