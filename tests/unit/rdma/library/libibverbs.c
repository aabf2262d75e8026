/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A library with the exports of libibverbs, none of which does anything. */

#define EXPORT(name)            \
	const char *name(void); \
	const char *name(void)  \
	{                       \
		return #name;   \
	}

EXPORT(ibv_get_device_list)
EXPORT(ibv_free_device_list)
EXPORT(ibv_get_device_name)
EXPORT(ibv_open_device)
EXPORT(ibv_close_device)
EXPORT(ibv_query_device)
EXPORT(ibv_query_gid)
EXPORT(ibv_get_async_event)
EXPORT(ibv_ack_async_event)
EXPORT(ibv_event_type_str)
EXPORT(ibv_fork_init)
EXPORT(ibv_is_fork_initialized)
EXPORT(ibv_alloc_pd)
EXPORT(ibv_dealloc_pd)
EXPORT(ibv_reg_mr)
EXPORT(ibv_dereg_mr)
EXPORT(ibv_create_comp_channel)
EXPORT(ibv_destroy_comp_channel)
EXPORT(ibv_create_cq)
EXPORT(ibv_destroy_cq)
EXPORT(ibv_get_cq_event)
EXPORT(ibv_ack_cq_events)
EXPORT(ibv_create_qp)
EXPORT(ibv_modify_qp)
EXPORT(ibv_query_qp)
EXPORT(ibv_destroy_qp)
EXPORT(ibv_wc_status_str)
EXPORT(ibv_reg_dmabuf_mr)
EXPORT(ibv_query_port_speed)
EXPORT(_ibv_query_gid_ex)
EXPORT(_ibv_query_gid_table)
