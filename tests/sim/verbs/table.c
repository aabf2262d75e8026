/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tables of functions, one for each host, and the lock. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "sim/verbs/private.h"

pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t sim_changed = PTHREAD_COND_INITIALIZER;

void sim_abort(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("simulated verbs: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

static const char *word(const char *const *texts, size_t count, unsigned int index)
{
	return index < count && texts[index] ? texts[index] : "unknown";
}

/* As from Linux 5.12 on. */
static int is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

static int fork_init(void)
{
	return 0;
}

static const char *event_type_str(enum ibv_event_type event)
{
	static const char *const texts[] = {
		[IBV_EVENT_CQ_ERR] = "CQ error",
		[IBV_EVENT_QP_FATAL] = "local work queue catastrophic error",
		[IBV_EVENT_QP_REQ_ERR] = "invalid request local work queue error",
		[IBV_EVENT_QP_ACCESS_ERR] = "local access violation work queue error",
		[IBV_EVENT_COMM_EST] = "communication established",
		[IBV_EVENT_SQ_DRAINED] = "send queue drained",
		[IBV_EVENT_DEVICE_FATAL] = "local catastrophic error",
		[IBV_EVENT_PORT_ACTIVE] = "port active",
		[IBV_EVENT_PORT_ERR] = "port error",
		[IBV_EVENT_LID_CHANGE] = "LID change",
		[IBV_EVENT_PKEY_CHANGE] = "P_Key change",
		[IBV_EVENT_SM_CHANGE] = "SM change",
		[IBV_EVENT_CLIENT_REREGISTER] = "client reregistration",
		[IBV_EVENT_GID_CHANGE] = "GID table change",
	};

	return word(texts, ARRAY_SIZE(texts), (unsigned int)event);
}

static const char *wc_status_str(enum ibv_wc_status status)
{
	static const char *const texts[] = {
		[IBV_WC_SUCCESS] = "success",
		[IBV_WC_LOC_LEN_ERR] = "local length error",
		[IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
		[IBV_WC_LOC_PROT_ERR] = "local protection error",
		[IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
		[IBV_WC_MW_BIND_ERR] = "memory management operation error",
		[IBV_WC_BAD_RESP_ERR] = "bad response error",
		[IBV_WC_LOC_ACCESS_ERR] = "local access error",
		[IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
		[IBV_WC_REM_ACCESS_ERR] = "remote access error",
		[IBV_WC_REM_OP_ERR] = "remote operation error",
		[IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
		[IBV_WC_REM_ABORT_ERR] = "aborted error",
		[IBV_WC_FATAL_ERR] = "fatal error",
		[IBV_WC_RESP_TIMEOUT_ERR] = "response timeout error",
		[IBV_WC_GENERAL_ERR] = "general error",
	};

	return word(texts, ARRAY_SIZE(texts), (unsigned int)status);
}

/* All but what lists the devices: it has no object from which its host could be told. */
static const struct otte_verbs common = {
	.free_device_list = sim_free_device_list,
	.get_device_name = sim_get_device_name,
	.open_device = sim_open_device,
	.close_device = sim_close_device,
	.query_device = sim_query_device,
	.query_gid = sim_query_gid,
	.get_async_event = sim_get_async_event,
	.ack_async_event = sim_ack_async_event,
	.alloc_pd = sim_alloc_pd,
	.dealloc_pd = sim_dealloc_pd,
	.reg_mr = sim_reg_mr,
	.reg_dmabuf_mr = sim_reg_dmabuf_mr,
	.dereg_mr = sim_dereg_mr,
	.create_comp_channel = sim_create_comp_channel,
	.destroy_comp_channel = sim_destroy_comp_channel,
	.create_cq = sim_create_cq,
	.destroy_cq = sim_destroy_cq,
	.get_cq_event = sim_get_cq_event,
	.ack_cq_events = sim_ack_cq_events,
	.create_qp = sim_create_qp,
	.modify_qp = sim_modify_qp,
	.query_qp = sim_query_qp,
	.destroy_qp = sim_destroy_qp,
	.query_port = sim_query_port,
	.alloc_mw = sim_alloc_mw,
	.dealloc_mw = sim_dealloc_mw,
	.bind_mw = sim_bind_mw,
	.post_send = sim_post_send,
	.post_recv = sim_post_recv,
	.poll_cq = sim_poll_cq,
	.req_notify_cq = sim_req_notify_cq,
	.query_port_speed = sim_query_port_speed,
	.query_gid_ex = sim_query_gid_ex,
	.event_type_str = event_type_str,
	.fork_init = fork_init,
	.is_fork_initialized = is_fork_initialized,
	.wc_status_str = wc_status_str,
};

static struct ibv_device **list_0(int *count)
{
	return sim_get_device_list(0, count);
}

static struct ibv_device **list_1(int *count)
{
	return sim_get_device_list(1, count);
}

static struct ibv_device **list_2(int *count)
{
	return sim_get_device_list(2, count);
}

static struct ibv_device **list_3(int *count)
{
	return sim_get_device_list(3, count);
}

static struct otte_verbs tables[SIM_HOSTS];

static void fill(void)
{
	static struct ibv_device **(*const lists[SIM_HOSTS])(int *) = { list_0, list_1, list_2,
									list_3 };
	unsigned int i;

	for (i = 0; i < SIM_HOSTS; i++) {
		tables[i] = common;
		tables[i].get_device_list = lists[i];
	}
}

const struct otte_verbs *sim_verbs(unsigned int host)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fill);
	return &tables[host];
}

/* The thread first: it takes the lock. */
void sim_reset(void)
{
	sim_progress_reset();
	sim_peer_memory(NULL);
	pthread_mutex_lock(&sim_lock);
	sim_devices_reset();
	sim_fabric_reset();
	sim_faults_reset();
	pthread_mutex_unlock(&sim_lock);
	sim_progress_set(SIM_INLINE, 0);
}
