/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libibverbs as one table of functions, filled when it is first asked for: nothing of the library
 * links with libibverbs, and a machine without it runs everything but RDMA.
 *
 * Who uses verbs is given a `const struct otte_verbs *` and calls through it alone, also what
 * verbs.h has inline; tests give a table of their own. The table lives as long as the process, and
 * so does libibverbs, whose providers keep threads and handlers. No lock beyond the once.
 */
#ifndef OTTE_TRANSPORT_RDMA_VERBS_H
#define OTTE_TRANSPORT_RDMA_VERBS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A port with the speed that no byte holds, which newer libraries write behind what the header of
 * an older one knows. 0 there: active_speed has it.
 */
union otte_verbs_port {
	struct ibv_port_attr attr;
	struct {
		uint8_t known[52];
		uint32_t active_speed_ex;
	} extended;
};

struct otte_verbs {
	/* Devices. Those that return int: 0 or an errno, but query_gid, which sets errno. */
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
	int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
	const char *(*event_type_str)(enum ibv_event_type event);
	int (*fork_init)(void);

	/* Memory. */
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *at, size_t length, int access);
	int (*dereg_mr)(struct ibv_mr *mr);

	/* Queues. */
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			    void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int count);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init_attr);
	int (*destroy_qp)(struct ibv_qp *qp);
	const char *(*wc_status_str)(enum ibv_wc_status status);

	/* No exports: through the context's own operations. */
	int (*query_port)(struct ibv_context *context, uint8_t port, union otte_verbs_port *attr);
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	int (*poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);

	/* NULL where the library is older than they are. */
	int (*is_fork_initialized)(void); /* IBV_FORK_DISABLED, _ENABLED, _UNNEEDED */
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access);
	int (*query_port_speed)(struct ibv_context *context, uint32_t port, uint64_t *hundred_mbps);
	int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index,
			    struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
				   size_t count, uint32_t flags, size_t entry_size);
};

/*
 * The process's table: opens libibverbs.so.1 the first time, whichever thread comes first. 0, or
 * -ENOSYS with a text that names the library or the export that it lacks, then for as long as the
 * process lives.
 */
int otte_verbs_open(const struct otte_verbs **verbs);

/*
 * What the parent of a child writes to memory that NICs know stays what they know, also after the
 * fork: from Linux 5.12 on by itself, else because such memory is not in the child at all, which
 * libibverbs sees to once it was asked. Before anything else is called. -ENOSYS with a text: it
 * cannot any more, as somebody has registered memory unasked.
 */
int otte_verbs_survive_forks(const struct otte_verbs *verbs);

/*
 * Fills `verbs` from a library by name or path: what otte_verbs_open() does once. Else for tests
 * only.
 */
int otte_verbs_load(const char *library, struct otte_verbs *verbs);

#endif
