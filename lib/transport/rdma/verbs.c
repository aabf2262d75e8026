/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "otte/otte.h"

#define LIBRARY "libibverbs.so.1"

_Static_assert(offsetof(struct ibv_port_attr, port_cap_flags2) == 48,
	       "active_speed_ex stands behind port_cap_flags2");

struct entry {
	const char *name;
	size_t offset;
	bool optional;
};

#define REQUIRED(member)                                                   \
	{                                                                  \
		"ibv_" #member, offsetof(struct otte_verbs, member), false \
	}
#define OPTIONAL(prefix, member)                                          \
	{                                                                 \
		prefix #member, offsetof(struct otte_verbs, member), true \
	}

static const struct entry entries[] = {
	REQUIRED(get_device_list),
	REQUIRED(free_device_list),
	REQUIRED(get_device_name),
	REQUIRED(open_device),
	REQUIRED(close_device),
	REQUIRED(query_device),
	REQUIRED(query_gid),
	REQUIRED(get_async_event),
	REQUIRED(ack_async_event),
	REQUIRED(event_type_str),
	REQUIRED(fork_init),
	REQUIRED(alloc_pd),
	REQUIRED(dealloc_pd),
	REQUIRED(reg_mr),
	REQUIRED(dereg_mr),
	REQUIRED(create_comp_channel),
	REQUIRED(destroy_comp_channel),
	REQUIRED(create_cq),
	REQUIRED(destroy_cq),
	REQUIRED(get_cq_event),
	REQUIRED(ack_cq_events),
	REQUIRED(create_qp),
	REQUIRED(modify_qp),
	REQUIRED(query_qp),
	REQUIRED(destroy_qp),
	REQUIRED(wc_status_str),
	OPTIONAL("ibv_", is_fork_initialized),
	OPTIONAL("ibv_", reg_dmabuf_mr),
	OPTIONAL("ibv_", query_port_speed),
	OPTIONAL("_ibv_", query_gid_ex),
	OPTIONAL("_ibv_", query_gid_table),
};

/*
 * verbs.h's own ibv_query_port() falls back to an export that knows half of the struct. Libraries
 * whose contexts lack this operation are older than 2018.
 */
static int query_port(struct ibv_context *context, uint8_t port, union otte_verbs_port *attr)
{
	struct verbs_context *extended = verbs_get_ctx_op(context, query_port);

	memset(attr, 0, sizeof(*attr));
	if (!extended)
		return EOPNOTSUPP;
	return extended->query_port(context, port, &attr->attr, sizeof(*attr));
}

static int resolve(const char *library, void *handle, struct otte_verbs *verbs)
{
	void *symbol;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		symbol = dlsym(handle, entries[i].name);
		if (!symbol && !entries[i].optional)
			return otte_fail(-ENOSYS, "%s: has no %s", library, entries[i].name);
		memcpy((char *)verbs + entries[i].offset, &symbol, sizeof(symbol));
	}
	return 0;
}

int otte_verbs_load(const char *library, struct otte_verbs *verbs)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	int rc;

	if (!handle)
		return otte_fail(-ENOSYS, "%s: cannot be loaded: %s", library, dlerror());
	*verbs = (struct otte_verbs){
		.query_port = query_port,
		.alloc_mw = ibv_alloc_mw,
		.dealloc_mw = ibv_dealloc_mw,
		.bind_mw = ibv_bind_mw,
		.post_send = ibv_post_send,
		.post_recv = ibv_post_recv,
		.poll_cq = ibv_poll_cq,
		.req_notify_cq = ibv_req_notify_cq,
	};
	rc = resolve(library, handle, verbs);
	if (rc)
		dlclose(handle);
	return rc;
}

/* ---- Forks ----------------------------------------------------------------------------------- */

int otte_verbs_survive_forks(const struct otte_verbs *verbs)
{
	int rc, status = IBV_FORK_DISABLED;

	if (verbs->is_fork_initialized)
		status = verbs->is_fork_initialized();
	if (status != IBV_FORK_DISABLED)
		return 0;
	rc = verbs->fork_init();
	if (!rc)
		return 0;
	return otte_fail(-ENOSYS,
			 "ibv_fork_init: %s; memory was registered without it, which no fork may "
			 "come upon before Linux 5.12",
			 strerror(rc < 0 ? -rc : rc));
}

/* ---- The process's --------------------------------------------------------------------------- */

/* Written once; each caller reads it behind pthread_once(). */
static struct {
	pthread_once_t once;
	struct otte_verbs verbs;
	int code;
	char text[OTTE_ERROR_BYTES];
} process = { .once = PTHREAD_ONCE_INIT };

static void load_process(void)
{
	process.code = otte_verbs_load(LIBRARY, &process.verbs);
	if (process.code)
		snprintf(process.text, sizeof(process.text), "%s", otte_error_text());
}

int otte_verbs_open(const struct otte_verbs **verbs)
{
	pthread_once(&process.once, load_process);
	if (process.code)
		return otte_fail(process.code, "%s", process.text);
	*verbs = &process.verbs;
	return 0;
}
