/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/domain.h"

#include <stdio.h>

#include "sched/slots.h"
#include "transport/rdma/rdma.h"

void otte_rdma_domain_join(struct otte_transport *transport, const struct otte_nic_domain *domain)
{
	struct otte_rdma *rdma = container_of(transport, struct otte_rdma, base);
	char name[OTTE_RDMA_NAME_MAX + 8];
	unsigned int nic, i;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++) {
		const struct otte_rdma_context *context = rdma->pollers[nic].context;

		rdma->slot_nics[nic] = OTTE_SLOTS_NO_NIC;
		if (!context)
			continue;
		snprintf(name, sizeof(name), "%s:%u", context->name, context->port);
		rdma->slot_nics[nic] = domain->index(domain->engine, name);
	}
	/* Workers look for slots in each of their rounds. */
	for (i = 0; i < rdma->worker_count; i++)
		pthread_mutex_lock(&rdma->workers[i].turn);
	rdma->slots = domain->slots;
	for (i = 0; i < rdma->worker_count; i++) {
		rdma->workers[i].posts.slots = domain->slots;
		pthread_mutex_unlock(&rdma->workers[i].turn);
	}
}

uint64_t otte_rdma_domain_others(void *arg, unsigned int nic)
{
	const struct otte_rdma *rdma = arg;

	return rdma->slots ? otte_slots_nic_others(rdma->slots, rdma->slot_nics[nic]) : 0;
}

void otte_rdma_domain_moves(void *arg, unsigned int nic, int64_t bytes)
{
	const struct otte_rdma *rdma = arg;

	if (!rdma->slots)
		return;
	if (bytes > 0)
		otte_slots_depart(rdma->slots, rdma->slot_nics[nic], (uint64_t)bytes);
	else
		otte_slots_arrive(rdma->slots, rdma->slot_nics[nic], (uint64_t)-bytes);
}
