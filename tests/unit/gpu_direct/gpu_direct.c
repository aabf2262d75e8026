/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of GPUs that NICs reach in place: how it is moved, what it waits for, and what is refused
 * where it cannot be had.
 */
#include "room.h"

#include "engine/engine.h"
#include "topo/topo.h"
#include "transport/rdma/rdma.h"
#define SEEN_BY_HAND
#include "seen.h"

/* ---- A topology ------------------------------------------------------------------------------ */

static bool has_topology;

int __real_otte_topo_read(const char *xml_path, struct otte_topo **topo);
int __wrap_otte_topo_read(const char *xml_path, struct otte_topo **topo);

/* GPU 0 and NIC 1 are below one bridge, GPU 1 and NIC 0 below another. */
int __wrap_otte_topo_read(const char *xml_path, struct otte_topo **out)
{
	static const uint8_t paths[] = { OTTE_TOPO_NODE, OTTE_TOPO_SWITCH, OTTE_TOPO_SWITCH,
					 OTTE_TOPO_NODE };
	struct otte_topo *topo;
	unsigned int i;

	if (!has_topology)
		return __real_otte_topo_read(xml_path, out);
	topo = calloc(1, sizeof(*topo));
	topo->nics = calloc(2, sizeof(*topo->nics));
	topo->gpus = calloc(2, sizeof(*topo->gpus));
	topo->paths = calloc(1, sizeof(paths));
	topo->nic_count = topo->gpu_count = 2;
	for (i = 0; i < 2; i++) {
		snprintf(topo->nics[i].rdma, sizeof(topo->nics[i].rdma), "mlx5_%u", i);
		snprintf(topo->gpus[i].pci, sizeof(topo->gpus[i].pci), "0000:%02x:00.0", 0x10 + i);
	}
	memcpy(topo->paths, paths, sizeof(paths));
	*out = topo;
	return 0;
}

static uint64_t near_nics(struct otte_engine *engine, uint32_t device)
{
	const struct otte_rdma *rdma = (struct otte_rdma *)engine->transport;
	const struct otte_location location = { .kind = OTTE_LOCATION_CUDA, .index = device };
	const struct otte_nic_row *row = otte_nic_priority_find(&rdma->ranks, location);

	return row ? row->ranks[0] : 0;
}

static void the_nics_of_a_gpu_are_those_below_its_bridge(void **state)
{
	uint64_t far_bytes;

	(void)state;
	has_topology = true;
	room_open();
	has_topology = false;
	assert_int_equal(near_nics(pair.requester, 0), 1u << 1);
	assert_int_equal(near_nics(pair.requester, 1), 1u << 0);
	assert_int_equal(local.region->published->location.kind, OTTE_LOCATION_CUDA);
	assert_int_equal(local.region->published->location.index, 0);
	moves(NULL, &local, OTTE_READ);
	/* Others help with what is long. */
	far_bytes = sim_counts(nics[REQUESTER][0]).bytes_read;
	assert_true(sim_counts(nics[REQUESTER][1]).bytes_read > 4 * far_bytes);
	room_close();
}

/* ---- Moving ---------------------------------------------------------------------------------- */

/* Of one region of a GPU's at the source, and a host's. */
static void is_described(uint32_t routes)
{
	struct otte_region_info rows[2];
	size_t count = 0, i;

	OK(otte_segment_describe(pair.segment, 30 * SECOND, rows, 2, &count));
	assert_int_equal(count, 2);
	for (i = 0; i < count; i++)
		assert_int_equal(rows[i].gpu_routes,
				 rows[i].id == otte_region_id(remote.region) ? routes : 0);
}

static void choose_peermem(struct otte_config *config)
{
	config->rdma_gpu_registration = OTTE_GPU_REGISTRATION_PEERMEM;
}

static void a_gpu_is_filled_and_read_by_nics_as_a_dma_buf(void **state)
{
	(void)state;
	room_open();
	assert_int_equal(sim_calls(SIM_REG_DMABUF_MR), 4);
	moves(NULL, &local, OTTE_READ);
	moves(&local, NULL, OTTE_WRITE);
	is_described(OTTE_GPU_BY_DMABUF);
	assert_int_equal(pair_stats(pair.requester).rdma_dmabuf_registrations, 2);
	assert_int_equal(pair_stats(pair.source).rdma_dmabuf_registrations, 2);
	assert_int_equal(pair_stats(pair.source).rdma_peermem_registrations, 0);
	room_close();
}

static void a_gpu_is_filled_and_read_by_nics_that_a_module_told(void **state)
{
	(void)state;
	gpu_adjust = choose_peermem;
	module_is_there = true;
	sim_peer_memory(sim_cuda_reach);
	room_open();
	moves(NULL, &local, OTTE_READ);
	moves(&local, NULL, OTTE_WRITE);
	assert_int_equal(sim_calls(SIM_REG_DMABUF_MR), 0);
	is_described(OTTE_GPU_BY_PEERMEM);
	assert_int_equal(pair_stats(pair.requester).rdma_peermem_registrations, 2);
	assert_int_equal(pair_stats(pair.requester).rdma_dmabuf_registrations, 0);
	room_close();
}

static void stage_the_host(struct otte_config *config)
{
	config->rdma_host_memory = OTTE_HOST_MEMORY_STAGED;
}

/* A pool is for memory of the host: there is no way through it for a GPU's. */
static void a_gpu_is_reached_in_place_where_the_host_is_staged(void **state)
{
	(void)state;
	gpu_adjust = stage_the_host;
	room_open();
	moves(NULL, &local, OTTE_READ);
	moves(&local, NULL, OTTE_WRITE);
	moves(NULL, NULL, OTTE_READ);
	room_close();
}

static void trust(struct otte_config *config)
{
	config->local_trusted = 1;
}

/* Who could map the memory of the other maps none of a GPU's, nor moves any inside a call. */
static void a_gpu_is_reached_by_nics_within_a_host(void **state)
{
	const struct side *sides[] = { &local, NULL };
	struct otte_request request;
	struct otte_task task;
	size_t i;

	(void)state;
	gpu_adjust = trust;
	room_open();
	for (i = 0; i < ARRAY_SIZE(sides); i++) {
		moves(&remote, sides[i], OTTE_READ);
		moves(sides[i], &remote, OTTE_WRITE);
		request = request_of(&remote, sides[i], OTTE_READ, 0, 4096);
		OK(otte_batch_run(pair.batch, &request, 1, 30 * SECOND));
	}
	moves(NULL, &local, OTTE_READ);
	request = request_of(NULL, &local, OTTE_READ, 0, 4096);
	OK(otte_batch_run(pair.batch, &request, 1, 30 * SECOND));
	assert_int_equal(task_of(&pair, 0).transport, OTTE_TRANSPORT_RDMA);
	/* As memory of the host is. */
	request = request_of(NULL, NULL, OTTE_READ, 0, 4096);
	task = run_request(&request);
	assert_int_equal(task.code, 0);
	assert_int_equal(task.transport, OTTE_TRANSPORT_LOCAL);
	room_close();
}

/* ---- What peers reach ------------------------------------------------------------------------ */

static unsigned int all_pds(void)
{
	return sim_counts(NULL).pds;
}

/* Each of its own PD, which is gone with its queue pair and its MR before the requester is told. */
static void a_gpu_is_reached_by_peers_through_cells(void **state)
{
	unsigned int pds;

	(void)state;
	room_open();
	pds = all_pds();
	moves(&remote, NULL, OTTE_READ);
	moves(NULL, &remote, OTTE_WRITE);
	moves(&remote, &local, OTTE_READ);
	moves(&local, &remote, OTTE_WRITE);
	assert_int_equal(all_pds(), pds);
	assert_int_equal(sim_calls(SIM_ALLOC_PD), pds + sim_calls(SIM_DEALLOC_PD));
	assert_true(sim_calls(SIM_DEALLOC_PD) >= 32);
	assert_int_equal(sim_calls(SIM_ALLOC_MW), 0);
	room_close();
}

static void a_gpu_is_reached_by_peers_that_a_module_told(void **state)
{
	(void)state;
	gpu_adjust = choose_peermem;
	module_is_there = true;
	sim_peer_memory(sim_cuda_reach);
	room_open();
	moves(&remote, NULL, OTTE_READ);
	moves(NULL, &remote, OTTE_WRITE);
	assert_int_equal(sim_calls(SIM_REG_DMABUF_MR), 0);
	room_close();
}

static void a_gpu_is_reached_beside_what_is_staged(void **state)
{
	(void)state;
	gpu_adjust = stage_the_host;
	room_open();
	moves(&remote, &local, OTTE_READ);
	moves(&local, &remote, OTTE_WRITE);
	moves(NULL, NULL, OTTE_WRITE);
	room_close();
}

/* ---- Producers ------------------------------------------------------------------------------- */

static bool was_asked_again(void *arg)
{
	unsigned long *before = arg;

	return sim_cuda_calls("cuEventQuery") > *before + 3;
}

static void a_request_waits_for_the_producer_of_its_memory(void **state)
{
	struct otte_request request;
	unsigned long asked;
	CUstream stream;

	(void)state;
	room_open();
	memset(local.bytes, 1, SIZE);
	memset(local.bytes + SIZE / 2, 2, SIZE / 2);
	stream = side_keep_busy(&local);
	request = request_of(&local, NULL, OTTE_WRITE, 0, 4096);
	asked = sim_cuda_calls("cuEventQuery");
	OK(otte_batch_reset(pair.batch));
	OK(otte_batch_submit(pair.batch, &request, 1));
	assert_true(comes(was_asked_again, &asked));
	assert_int_equal(sim_counts(NULL).bytes_written, 0);
	sim_cuda_release(stream);
	assert_int_equal(wait_task(&pair).code, 0);
	/* What the producer had still to write. */
	assert_int_equal(pair.remote_bytes[0], 2);
	assert_int_equal(pair.remote_bytes[4095], 2);
	asked = sim_cuda_calls("cuEventQuery");
	assert_int_equal(run_request(&request).code, 0);
	assert_int_equal(sim_cuda_calls("cuEventQuery"), asked);
	OK((int)cuda->stream_destroy(stream));
	room_close();
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void gpu_direct_wants_its_environment_from_the_start(void **state)
{
	struct otte_engine *engine = NULL;
	struct otte_config config;

	(void)state;
	OK(otte_config_init(&config, sizeof(config)));
	use_gpus(&config);
	setenv("MLX5_SCATTER_TO_CQE", "1", 1);
	assert_int_equal(otte_engine_create(&config, &engine), -EINVAL);
	says("MLX5_SCATTER_TO_CQE=0");
	assert_int_equal(sim_calls(SIM_OPEN_DEVICE), 0);
}

static int register_gpu(struct otte_engine *engine, struct otte_mem *mem, uint32_t access,
			uint32_t flags)
{
	struct otte_region_desc desc = {
		.mem = mem, .length = SIZE, .access = access, .flags = flags
	};
	struct otte_region *region;
	int ret = otte_region_register(engine, &desc, 1, &region);

	if (!ret)
		OK(otte_region_unregister(&region, 1, 10 * SECOND, NULL));
	return ret;
}

static void stage_gpus(struct otte_config *config)
{
	config->rdma_cuda_memory = OTTE_CUDA_MEMORY_STAGED;
}

static void memory_of_a_gpu_that_is_not_direct_is_for_nobody_else(void **state)
{
	struct otte_request request;

	(void)state;
	gpu_adjust = stage_gpus;
	pair_open(&pair, SIZE, use_gpus);
	side_open(&local, pair.requester, 0, OTTE_LOCAL_ONLY);
	assert_int_equal(sim_calls(SIM_REG_DMABUF_MR), 0);
	assert_int_equal(register_gpu(pair.requester, local.mem, OTTE_REMOTE_READ, 0), -EOPNOTSUPP);
	says("rdma.cuda_memory is staged");
	request = request_of(NULL, &local, OTTE_READ, 0, 4096);
	assert_int_equal(seen(otte_batch_submit(pair.batch, &request, 1)), -EOPNOTSUPP);
	says("rdma.cuda_memory");
	side_close(&local);
	pair_close(&pair);
}

static void no_rdma(struct otte_config *config)
{
	config->rdma_enabled = 0;
}

static void without_rdma_memory_of_a_gpu_is_for_nobody_else(void **state)
{
	struct otte_request request;

	(void)state;
	gpu_adjust = no_rdma;
	pair_open(&pair, SIZE, use_gpus);
	side_open(&local, pair.requester, 0, OTTE_LOCAL_ONLY);
	assert_int_equal(register_gpu(pair.requester, local.mem, OTTE_REMOTE_READ, 0), -EOPNOTSUPP);
	says("rdma.enabled is false");
	request = request_of(NULL, &local, OTTE_READ, 0, 4096);
	assert_int_equal(otte_batch_submit(pair.batch, &request, 1), -EOPNOTSUPP);
	side_close(&local);
	pair_close(&pair);
}

static void no_other_transport_touches_a_gpu(void **state)
{
	static const uint8_t others[] = { OTTE_TRANSPORT_TCP, OTTE_TRANSPORT_LOCAL };
	struct otte_request request;
	size_t i;

	(void)state;
	room_open();
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		request = request_of(NULL, &local, OTTE_READ, 0, 4096);
		request.transport = others[i];
		OK(otte_batch_reset(pair.batch));
		assert_true(otte_batch_submit(pair.batch, &request, 1) < 0);
	}
	request = request_of(&remote, NULL, OTTE_READ, 0, 4096);
	request.transport = OTTE_TRANSPORT_TCP;
	assert_int_equal(run_request(&request).code, -EOPNOTSUPP);
	assert_int_equal(register_gpu(pair.requester, local.mem, OTTE_LOCAL_ONLY,
				      OTTE_REGION_PINNED),
			 -EOPNOTSUPP);
	says("pins no memory of a GPU");
	room_close();
}

/* Neither does a peer that has no NIC. */
static void memory_of_a_gpu_is_not_moved_where_the_peer_is_not_reached(void **state)
{
	struct otte_request request;
	struct otte_task task;

	(void)state;
	room_open();
	sim_port_set(nics[SOURCE][0], 1, IBV_PORT_DOWN);
	sim_port_set(nics[SOURCE][1], 1, IBV_PORT_DOWN);
	request = request_of(NULL, &local, OTTE_READ, 0, 4096);
	request.deadline_ns = OTTE_DEADLINE_DEFAULT;
	memset(local.bytes, UNTOUCHED, SIZE);
	OK(otte_batch_reset(pair.batch));
	OK(otte_batch_submit(pair.batch, &request, 1));
	OK(otte_batch_cancel(pair.batch));
	task = wait_task(&pair);
	assert_true(task.code < 0);
	assert_int_equal(task.transport == OTTE_TRANSPORT_TCP, 0);
	assert_int_equal(local.bytes[0], UNTOUCHED);
	room_close();
}

/* Each thing that a registration needs fails once: the region is not there, and nothing is left. */
static void what_a_registration_needs_may_fail(void **state)
{
	static const struct {
		const char *call;
		enum sim_verb verb;
		CUresult result;
		int ret;
		const char *word;
	} rows[] = {
		{ "cuDeviceGetAttribute", 0, CUDA_ERROR_NOT_PERMITTED, -EPERM,
		  "cuDeviceGetAttribute" },
		{ "cuPointerSetAttribute", 0, CUDA_ERROR_NOT_SUPPORTED, -EOPNOTSUPP,
		  "SYNC_MEMOPS" },
		{ "cuMemGetHandleForAddressRange", 0, CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM,
		  "cuMemGetHandleForAddressRange" },
		{ NULL, SIM_REG_DMABUF_MR, 0, -EIO, "ibv_reg_dmabuf_mr" },
	};
	struct otte_region_desc desc = { .length = SIZE, .access = OTTE_REMOTE_READ };
	struct sim_fault fault = { .kind = SIM_FAULT_CALL, .times = 1, .error = EIO };
	struct otte_region *region;
	size_t i;

	(void)state;
	pair_open(&pair, SIZE, use_gpus);
	OK(otte_cuda_alloc(pair.source, 0, SIZE, 0, &desc.mem));
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		fault.verb = rows[i].verb;
		if (rows[i].call)
			sim_cuda_fail(rows[i].call, 1, rows[i].result, 1);
		else
			sim_fault_arm(&fault);
		assert_int_equal(otte_region_register(pair.source, &desc, 1, &region), rows[i].ret);
		says(rows[i].word);
		assert_int_equal(pair_stats(pair.source).regions, 1);
	}
	sim_cuda_attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0);
	assert_int_equal(otte_region_register(pair.source, &desc, 1, &region), -EOPNOTSUPP);
	says("GPU_DIRECT_RDMA_WRITES_ORDERING");
	sim_cuda_attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 100);
	sim_cuda_set("dma_buf", 0);
	assert_int_equal(seen(otte_region_register(pair.source, &desc, 1, &region)), -ENOSYS);
	says("nvidia_peermem");
	OK(otte_mem_release(desc.mem));
	pair_close(&pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(the_nics_of_a_gpu_are_those_below_its_bridge),
		TEST(a_gpu_is_filled_and_read_by_nics_as_a_dma_buf),
		TEST(a_gpu_is_filled_and_read_by_nics_that_a_module_told),
		TEST(a_gpu_is_reached_in_place_where_the_host_is_staged),
		TEST(a_gpu_is_reached_by_peers_through_cells),
		TEST(a_gpu_is_reached_by_peers_that_a_module_told),
		TEST(a_gpu_is_reached_beside_what_is_staged),
		TEST(a_gpu_is_reached_by_nics_within_a_host),
		TEST(a_request_waits_for_the_producer_of_its_memory),
		TEST(gpu_direct_wants_its_environment_from_the_start),
		TEST(memory_of_a_gpu_that_is_not_direct_is_for_nobody_else),
		TEST(without_rdma_memory_of_a_gpu_is_for_nobody_else),
		TEST(no_other_transport_touches_a_gpu),
		TEST(memory_of_a_gpu_is_not_moved_where_the_peer_is_not_reached),
		TEST(what_a_registration_needs_may_fail),
	};

	if (argc == 2)
		return run_cell_test(argv[1]);
	return (cmocka_run_group_tests(tests, NULL, NULL) | run_cell_tests()) != 0;
}
