/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All of it is read under leaf locks, or was left for others in atomics by the thread. */
#include "transport/rdma/nic_rows.h"

#include <stdio.h>

#include "transport/rdma/domain.h"
#include "transport/rdma/rdma.h"

static void fill_load(const struct otte_device_load *load, struct otte_nic_info *row)
{
	row->measured = load->measured;
	row->link_rate = load->link;
	row->selection_rate = (uint64_t)load->selection;
	row->transmit_rate = (uint64_t)load->transmit;
	row->charged_bytes = load->charged;
	row->under_way_bytes = load->under_way;
	row->assigned_bytes = load->assigned;
	row->posted_bytes = load->posted;
	row->completed_bytes = load->completed;
	row->slices = load->slices;
}

static void fill_rails(const struct otte_rdma_rail_counts *counts, struct otte_nic_info *row)
{
	row->rails_paused = atomic_load(&counts->paused);
	row->rail_pauses = atomic_load(&counts->pauses);
	row->rail_errors = atomic_load(&counts->errors);
	row->rail_probes = atomic_load(&counts->probes);
	row->rail_recoveries = atomic_load(&counts->recoveries);
}

static void fill(struct otte_rdma *rdma, struct otte_rdma_context *context,
		 struct otte_nic_info *row)
{
	struct otte_device_load load;
	struct otte_rdma_route route;

	*row = (struct otte_nic_info){ .nic = context->nic, .port = context->port };
	snprintf(row->name, sizeof(row->name), "%s", context->name);
	otte_rdma_context_route(context, &route);
	row->active = route.state == OTTE_RDMA_CONTEXT_ACTIVE;
	if (!otte_devices_read(rdma->devices, context->nic, &load))
		fill_load(&load, row);
	row->others_bytes = otte_rdma_domain_others(rdma, context->nic);
	fill_rails(&rdma->rails_of[context->nic], row);
}

size_t otte_rdma_nic_rows(struct otte_transport *transport, struct otte_nic_info *rows,
			  size_t capacity)
{
	struct otte_rdma *rdma = container_of(transport, struct otte_rdma, base);
	size_t count = 0;
	unsigned int nic;

	for (nic = 0; nic < OTTE_NIC_IDS; nic++) {
		if (!rdma->pollers[nic].context)
			continue;
		if (count < capacity)
			fill(rdma, rdma->pollers[nic].context, &rows[count]);
		count++;
	}
	return count;
}
