/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The simulated driver does what tests over it rely on, and finds what a driver would not survive. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "gpu/gpu.h"
#include "sim/cuda/sim.h"

#define SOME (64 * KIB)
#define BLOCK (2 * MIB)

static uint8_t *host;

static int start(void **state)
{
	void *at;

	sim_cuda_reset();
	gpu_start(state);
	MUST_CUDA(gpu->mem_host_alloc(&at, SOME, 0));
	host = at;
	return 0;
}

static int stop(void **state)
{
	struct sim_cuda_balance balance;

	MUST_CUDA(gpu->mem_free_host(host));
	gpu_stop(state);
	sim_cuda_balance(&balance);
	assert_int_equal(balance.primaries + balance.allocations + balance.host + balance.streams +
				 balance.events,
			 0);
	assert_int_equal(balance.handles + balance.reserved + balance.mapped + balance.imports +
				 balance.work,
			 0);
	return 0;
}

static CUdeviceptr allocate(size_t size)
{
	CUdeviceptr at;

	MUST_CUDA(gpu->mem_alloc(&at, size));
	return at;
}

/* A touch of it by the CPU ends the process that does it. */
static void the_cpu_does_not_reach_a_device(void **state)
{
	CUdeviceptr at = allocate(SOME);
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): the device's address, which is none of the CPU's */
		_exit(*(volatile uint8_t *)(uintptr_t)at);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	MUST_CUDA(gpu->mem_free(at));
}

static void nothing_of_it_works_in_a_child(void **state)
{
	int status, count;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(gpu->device_get_count(&count) != CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Each stream has its own order; which is first of two is drawn. */
static void streams_go_on_in_an_order_of_their_own(void **state)
{
	CUdeviceptr at = allocate(SOME);
	CUstream one = gpu_stream(), two = gpu_stream();
	unsigned int i, firsts = 0;

	(void)state;
	for (i = 0; i < 64; i++) {
		sim_cuda_hold(NULL);
		host[0] = 1;
		host[1] = 2;
		MUST_CUDA(gpu->memcpy_htod_async(at, host, 1, one));
		MUST_CUDA(gpu->memcpy_htod_async(at, host + 1, 1, two));
		sim_cuda_release(NULL);
		MUST_CUDA(gpu->stream_synchronize(one));
		MUST_CUDA(gpu->stream_synchronize(two));
		firsts += *(uint8_t *)sim_cuda_reach(at, 1) == 1;
	}
	assert_in_range(firsts, 1, 63);
	gpu_stream_gone(one);
	gpu_stream_gone(two);
	MUST_CUDA(gpu->mem_free(at));
}

static void a_wait_is_for_what_was_recorded_then(void **state)
{
	CUdeviceptr at = allocate(SOME);
	CUstream producer = gpu_stream(), consumer = gpu_stream();
	CUevent event;

	(void)state;
	MUST_CUDA(gpu->event_create(&event, CU_EVENT_DISABLE_TIMING));
	/* One that was never recorded is over. */
	MUST_CUDA(gpu->event_query(event));
	MUST_CUDA(gpu->stream_wait_event(consumer, event, 0));
	MUST_CUDA(gpu->stream_synchronize(consumer));
	sim_cuda_hold(producer);
	MUST_CUDA(gpu->memcpy_htod_async(at, host, 1, producer));
	MUST_CUDA(gpu->event_record(event, producer));
	MUST_CUDA(gpu->stream_wait_event(consumer, event, 0));
	/* It may go meanwhile: the wait stays. */
	MUST_CUDA(gpu->event_destroy(event));
	assert_int_equal(gpu->event_query(event), CUDA_ERROR_INVALID_HANDLE);
	sim_cuda_settle();
	assert_int_equal(gpu->stream_query(consumer), CUDA_ERROR_NOT_READY);
	sim_cuda_release(producer);
	MUST_CUDA(gpu->stream_synchronize(consumer));
	gpu_stream_gone(producer);
	gpu_stream_gone(consumer);
	MUST_CUDA(gpu->mem_free(at));
}

static void the_legacy_stream_and_blocking_ones_wait_for_each_other(void **state)
{
	CUdeviceptr at = allocate(SOME);
	CUstream blocking, other = gpu_stream();

	(void)state;
	MUST_CUDA(gpu->stream_create(&blocking, 0));
	sim_cuda_hold(blocking);
	MUST_CUDA(gpu->memcpy_htod_async(at, host, 1, blocking));
	MUST_CUDA(gpu->memcpy_htod_async(at, host, 1, NULL));
	MUST_CUDA(gpu->memcpy_htod_async(at, host, 1, other));
	MUST_CUDA(gpu->stream_synchronize(other));
	sim_cuda_settle();
	assert_int_equal(gpu->stream_query(NULL), CUDA_ERROR_NOT_READY);
	sim_cuda_release(blocking);
	MUST_CUDA(gpu->stream_synchronize(NULL));
	MUST_CUDA(gpu->stream_query(blocking));
	gpu_stream_gone(blocking);
	gpu_stream_gone(other);
	MUST_CUDA(gpu->mem_free(at));
}

static void work_that_failed_is_said_by_each_call_behind_it(void **state)
{
	CUdeviceptr at = allocate(SOME), other;
	CUstream stream = gpu_stream();

	(void)state;
	sim_cuda_fail_work(1, CUDA_ERROR_LAUNCH_FAILED);
	sim_cuda_hold(stream);
	MUST_CUDA(gpu->memcpy_htod_async(at, host, 1, stream));
	sim_cuda_release(stream);
	assert_int_equal(gpu->stream_synchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(gpu->mem_alloc(&other, 1), CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(gpu->mem_free(at), CUDA_ERROR_LAUNCH_FAILED);
	sim_cuda_context_spoil(gpu_context, CUDA_SUCCESS);
	gpu_stream_gone(stream);
	MUST_CUDA(gpu->mem_free(at));
}

static void a_free_under_work_is_a_violation(void **state)
{
	CUdeviceptr at = allocate(SOME);
	CUstream stream = gpu_stream();
	const char *text;

	(void)state;
	sim_cuda_hold(stream);
	MUST_CUDA(gpu->memcpy_htod_async(at, host, 1, stream));
	MUST_CUDA(gpu->mem_free(at));
	assert_int_equal(sim_cuda_violations(&text), 1);
	assert_non_null(strstr(text, "freed under work"));
	/* And the work finds nothing there. */
	sim_cuda_release(stream);
	assert_int_equal(gpu->stream_synchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	sim_cuda_context_spoil(gpu_context, CUDA_SUCCESS);
	gpu_stream_gone(stream);
}

static void a_copy_crosses_no_allocation(void **state)
{
	CUdeviceptr at = allocate(SOME);
	CUstream stream = gpu_stream();
	uint8_t pageable[8] = { 7 };

	(void)state;
	assert_int_equal(gpu->memcpy_htod_async(at + SOME - 1, host, 2, stream),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(gpu->memcpy_htod_async(at, host + SOME - 1, 2, stream),
			 CUDA_ERROR_INVALID_VALUE);
	/* Host memory that is not pinned is read in the call. */
	MUST_CUDA(gpu->memcpy_htod_async(at, pageable, sizeof(pageable), stream));
	pageable[0] = 0;
	assert_int_equal(*(uint8_t *)sim_cuda_reach(at, 1), 7);
	assert_int_equal(sim_cuda_pageable(), 1);
	gpu_stream_gone(stream);
	MUST_CUDA(gpu->mem_free(at));
}

static void a_device_has_so_much_memory(void **state)
{
	CUdeviceptr at, other;

	(void)state;
	sim_cuda_set("memory_mib", 4);
	at = allocate(3 * MIB);
	assert_int_equal(gpu->mem_alloc(&other, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	MUST_CUDA(gpu->mem_free(at));
	at = allocate(4 * MIB);
	MUST_CUDA(gpu->mem_free(at));
	assert_false(sim_cuda_set("memory", 4));
}

/* ---- Other processes ------------------------------------------------------------------------- */

/* This program again, as another process: which of the driver's ways, and what is handed over. */
static const char *self;

static pid_t run_importer(const char *way, int socket)
{
	char number[16];
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	snprintf(number, sizeof(number), "%d", socket);
	execl(self, self, way, number, (char *)NULL);
	_exit(99);
}

static void ends_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void write_to(CUdeviceptr at, uint8_t value)
{
	memset(sim_cuda_reach(at, SOME), value, SOME);
}

static void another_process_opens_a_handle(void **state)
{
	CUdeviceptr at = allocate(SOME), own;
	CUipcMemHandle handle;
	int pair[2];
	pid_t pid;

	(void)state;
	write_to(at, 5);
	MUST_CUDA(gpu->ipc_get_mem_handle(&handle, at));
	assert_int_equal(gpu->ipc_open_mem_handle(&own, handle, 1), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid = run_importer("ipc", pair[1]);
	assert_int_equal(write(pair[0], &handle, sizeof(handle)), sizeof(handle));
	ends_well(pid);
	/* What it wrote is here. */
	assert_int_equal(*(uint8_t *)sim_cuda_reach(at + 1, 1), 6);
	MUST_CUDA(gpu->mem_free(at));
	/* A handle of memory that is gone opens nothing. */
	pid = run_importer("ipc-gone", pair[1]);
	assert_int_equal(write(pair[0], &handle, sizeof(handle)), sizeof(handle));
	ends_well(pid);
	close(pair[0]);
	close(pair[1]);
}

static void send_descriptor(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	assert_non_null(header);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	assert_int_equal(sendmsg(socket, &message, 0), 1);
}

static int receive_descriptor(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header;
	int fd;

	assert_int_equal(recvmsg(socket, &message, 0), 1);
	header = CMSG_FIRSTHDR(&message);
	if (!header)
		return -1;
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return fd;
}

static CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes =
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };

static CUdeviceptr map(CUmemGenericAllocationHandle handle, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				   .flags = flags };
	CUdeviceptr at;

	MUST_CUDA(gpu->mem_address_reserve(&at, BLOCK, 0, 0, 0));
	MUST_CUDA(gpu->mem_map(at, BLOCK, 0, handle, 0));
	MUST_CUDA(gpu->mem_set_access(at, BLOCK, &access, 1));
	MUST_CUDA(gpu->mem_release(handle));
	return at;
}

static void unmap(CUdeviceptr at)
{
	MUST_CUDA(gpu->mem_unmap(at, BLOCK));
	MUST_CUDA(gpu->mem_address_free(at, BLOCK));
}

/* The importer goes on when this side has let go of memory and descriptor. */
static void an_import_outlives_its_descriptor_and_its_exporter_s_memory(void **state)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	int pair[2], fd;
	pid_t pid;

	(void)state;
	assert_int_equal(gpu->mem_create(&handle, BLOCK + 1, &properties, 0),
			 CUDA_ERROR_INVALID_VALUE);
	MUST_CUDA(gpu->mem_create(&handle, BLOCK, &properties, 0));
	MUST_CUDA(gpu->mem_export_to_shareable_handle(&fd, handle,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	at = map(handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	write_to(at, 5);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid = run_importer("vmm", pair[1]);
	send_descriptor(pair[0], fd);
	close(fd);
	unmap(at);
	assert_int_equal(write(pair[0], "", 1), 1);
	ends_well(pid);
	close(pair[0]);
	close(pair[1]);
}

static CUstream put_byte(CUdeviceptr at, uint8_t value)
{
	CUstream stream = gpu_stream();

	host[0] = value;
	MUST_CUDA(gpu->memcpy_htod_async(at, host, 1, stream));
	return stream;
}

static int import_ipc(int socket, bool gone)
{
	CUipcMemHandle handle;
	CUdeviceptr at, again;

	if (read(socket, &handle, sizeof(handle)) != sizeof(handle))
		return 2;
	if (gone)
		return gpu->ipc_open_mem_handle(&at, handle, 1) != CUDA_ERROR_INVALID_VALUE;
	MUST_CUDA(gpu->ipc_open_mem_handle(&at, handle, 1));
	MUST_CUDA(gpu->ipc_open_mem_handle(&again, handle, 1));
	if (at != again || *(uint8_t *)sim_cuda_reach(at, 1) != 5)
		return 3;
	gpu_stream_gone(put_byte(at + 1, 6));
	MUST_CUDA(gpu->ipc_close_mem_handle(at));
	MUST_CUDA(gpu->ipc_close_mem_handle(at));
	return gpu->ipc_close_mem_handle(at) != CUDA_ERROR_INVALID_VALUE;
}

/* Mapped for reading: what writes there spoils the context. */
static int import_vmm(int socket)
{
	int fd = receive_descriptor(socket);
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	CUstream stream;
	char byte;

	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the ABI has a descriptor as a pointer */
	MUST_CUDA(gpu->mem_import_from_shareable_handle(&handle, (void *)(intptr_t)fd,
							CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	if (read(socket, &byte, 1) != 1)
		return 2;
	at = map(handle, CU_MEM_ACCESS_FLAGS_PROT_READ);
	if (*(uint8_t *)sim_cuda_reach(at, 1) != 5)
		return 3;
	stream = put_byte(at, 6);
	if (gpu->stream_synchronize(stream) != CUDA_ERROR_ILLEGAL_ADDRESS)
		return 4;
	sim_cuda_context_spoil(gpu_context, CUDA_SUCCESS);
	gpu_stream_gone(stream);
	unmap(at);
	return 0;
}

static int import(const char *way, int socket)
{
	int ret;

	start(NULL);
	ret = strcmp(way, "vmm") ? import_ipc(socket, !strcmp(way, "ipc-gone")) :
				   import_vmm(socket);
	stop(NULL);
	return ret;
}

int main(int argc, char **argv)
{
#define OVER_IT(test) cmocka_unit_test_setup_teardown(test, start, stop)
	static const struct CMUnitTest tests[] = {
		OVER_IT(the_cpu_does_not_reach_a_device),
		OVER_IT(nothing_of_it_works_in_a_child),
		OVER_IT(streams_go_on_in_an_order_of_their_own),
		OVER_IT(a_wait_is_for_what_was_recorded_then),
		OVER_IT(the_legacy_stream_and_blocking_ones_wait_for_each_other),
		OVER_IT(work_that_failed_is_said_by_each_call_behind_it),
		OVER_IT(a_free_under_work_is_a_violation),
		OVER_IT(a_copy_crosses_no_allocation),
		OVER_IT(a_device_has_so_much_memory),
		OVER_IT(another_process_opens_a_handle),
		OVER_IT(an_import_outlives_its_descriptor_and_its_exporter_s_memory),
	};

	if (argc == 3)
		return import(argv[1], atoi(argv[2]));
	self = argv[0];
	return cmocka_run_group_tests_name("simulated CUDA", tests, NULL, NULL);
}
