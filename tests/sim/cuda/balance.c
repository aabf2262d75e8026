/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What there is. */
#include "sim/cuda/private.h"

static unsigned int count_blocks(enum sim_block_kind kind)
{
	struct sim_block *block;
	unsigned int count = 0;

	for (block = sim.blocks; block; block = block->next)
		count += block->kind == kind;
	return count;
}

EXPORT void sim_cuda_balance(struct sim_cuda_balance *balance)
{
	struct sim_context *context;
	struct sim_stream *stream;
	struct sim_event *event;
	CUdevice device;

	pthread_mutex_lock(&sim.lock);
	*balance = (struct sim_cuda_balance){ .allocations = count_blocks(SIM_DEVICE) +
							     count_blocks(SIM_MANAGED),
					      .host = count_blocks(SIM_HOST),
					      .registered = count_blocks(SIM_REGISTERED),
					      .modules = sim.modules,
					      .imports = count_blocks(SIM_IMPORTED),
					      .handles = sim.handles,
					      .reserved = sim.reserved,
					      .mapped = count_blocks(SIM_MAPPED),
					      .work = sim.work };
	for (context = sim.contexts; context; context = context->next)
		balance->primaries += context->primary ? context->retained : 0;
	for (stream = sim.streams; stream; stream = stream->next)
		balance->streams += stream->kind <= SIM_STREAM_NON_BLOCKING && !stream->destroyed;
	for (event = sim.events; event; event = event->next)
		balance->events += !event->destroyed;
	for (device = 0; device < MAX_DEVICES; device++)
		balance->device_bytes += sim_device_bytes(device);
	pthread_mutex_unlock(&sim.lock);
}
