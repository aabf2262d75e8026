/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include "transport/rdma/gpu.h"

struct pair pair;
struct side local, remote;
const struct otte_cuda *cuda;
bool module_is_there;
void (*gpu_adjust)(struct otte_config *config);

static struct sim_cuda_balance before;
static CUcontext context;

bool __wrap_otte_rdma_peermem_is_there(const char *sys);

bool __wrap_otte_rdma_peermem_is_there(const char *sys)
{
	(void)sys;
	return module_is_there;
}

void says(const char *word)
{
	if (!strstr(otte_error_text(), word))
		fail_msg("\"%s\" does not say %s", otte_error_text(), word);
}

/* ---- The room -------------------------------------------------------------------------------- */

void use_gpus(struct otte_config *config)
{
	use_nics_at_once(config);
	config->rdma_cuda_memory = OTTE_CUDA_MEMORY_DIRECT;
	if (gpu_adjust)
		gpu_adjust(config);
}

int room_start(void **state)
{
	CUdevice device;

	setenv("MLX5_SCATTER_TO_CQE", "0", 1);
	gpu_adjust = NULL;
	module_is_there = false;
	sim_cuda_reset();
	sim_cuda_balance(&before);
	OK(otte_cuda_open(&cuda));
	OK((int)cuda->device_get(&device, 0));
	OK((int)cuda->primary_ctx_retain(&context, device));
	OK((int)cuda->ctx_push_current(context));
	return with_two_nics(state);
}

static void leave_context(void)
{
	CUcontext popped;
	CUdevice device;

	OK((int)cuda->ctx_pop_current(&popped));
	assert_ptr_equal(popped, context);
	OK((int)cuda->device_get(&device, 0));
	OK((int)cuda->primary_ctx_release(device));
}

int room_finish(void **state)
{
	struct sim_cuda_balance after;
	const char *text;

	leave_context();
	sim_cuda_balance(&after);
	assert_memory_equal(&after, &before, sizeof(after));
	if (sim_cuda_violations(&text))
		fail_msg("%s", text);
	sim_peer_memory(NULL);
	return nothing_is_left(state);
}

void side_open(struct side *side, struct otte_engine *engine, int device, uint32_t access)
{
	struct otte_region_desc desc = { .length = SIZE, .access = access };

	side->engine = engine;
	OK(otte_cuda_alloc(engine, device, SIZE, 0, &side->mem));
	desc.mem = side->mem;
	OK(otte_region_register(engine, &desc, 1, &side->region));
	side->address = (uint64_t)(uintptr_t)otte_mem_address(side->mem);
	side->bytes = sim_cuda_reach(side->address, SIZE);
	assert_non_null(side->bytes);
}

void side_close(struct side *side)
{
	OK(otte_region_unregister(&side->region, 1, 10 * SECOND, NULL));
	OK(otte_mem_release(side->mem));
}

CUstream side_keep_busy(const struct side *side)
{
	CUstream stream;

	OK((int)cuda->stream_create(&stream, CU_STREAM_NON_BLOCKING));
	sim_cuda_hold(stream);
	OK((int)cuda->memcpy_dtod_async(side->address, side->address + SIZE / 2, 4096, stream));
	OK(otte_cuda_record(side->mem, stream));
	return stream;
}

void room_open(void)
{
	pair_open(&pair, SIZE, use_gpus);
	side_open(&remote, pair.source, 0, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE);
	side_open(&local, pair.requester, 0, OTTE_LOCAL_ONLY);
}

void room_close(void)
{
	side_close(&local);
	side_close(&remote);
	pair_close(&pair);
}

/* ---- Requests -------------------------------------------------------------------------------- */

struct otte_request request_of(const struct side *from, const struct side *to, uint8_t op,
			       uint64_t offset, uint64_t length)
{
	const struct side *ours = op == OTTE_READ ? to : from;
	const struct side *theirs = op == OTTE_READ ? from : to;
	struct otte_request request = pair_request(&pair, op, offset, offset, length);

	if (ours)
		request.local = ours->region;
	if (theirs)
		request.remote_region = otte_region_id(theirs->region);
	return request;
}

struct otte_task run_request(const struct otte_request *request)
{
	OK(otte_batch_reset(pair.batch));
	OK(otte_batch_submit(pair.batch, request, 1));
	return wait_task(&pair);
}

static uint8_t *bytes_of(const struct side *side, uint8_t op, bool source_of_bytes)
{
	if (side)
		return side->bytes;
	return (op == OTTE_READ) == source_of_bytes ? pair.remote_bytes : pair.local_bytes;
}

static void move_one(const struct side *from, const struct side *to, uint8_t op, uint64_t length)
{
	const struct otte_request request = request_of(from, to, op, GUARD, length);
	const uint8_t *sent = bytes_of(from, op, true);
	uint8_t *arrived = bytes_of(to, op, false);
	struct otte_task task;
	uint64_t i;

	pair_fill(bytes_of(from, op, true), SIZE, (uint8_t)length);
	memset(arrived, UNTOUCHED, SIZE);
	task = run_request(&request);
	if (task.code)
		fail_msg("%lu bytes: %d", (unsigned long)length, task.code);
	assert_int_equal(task.transport, OTTE_TRANSPORT_RDMA);
	assert_memory_equal(arrived + GUARD, sent + GUARD, length);
	for (i = 0; i < SIZE; i++)
		if ((i < GUARD || i >= GUARD + length) && arrived[i] != UNTOUCHED)
			fail_msg("byte %lu was written", (unsigned long)i);
}

void moves(const struct side *from, const struct side *to, uint8_t op)
{
	static const uint64_t lengths[] = { 1, 17, 32, 64, 4095, 4096, 65537, SIZE - 2 * GUARD };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++)
		move_one(from, to, op, lengths[i]);
}
