/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The copy kernel, in the place of which its body runs on this machine. An image is one that has its entry; another
 * kernel of an image of some other test can be launched and does nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/kernel/copy.h"
#include "sim/cuda/exports.h"

struct sim_module {
	struct sim_module *next;
	const char *image;
};

struct sim_function {
	struct sim_function *next;
	struct sim_module *module;
	bool copies;
};

struct sim_launch {
	bool copies;
	struct otte_copy_launch copy;
};

static struct sim_module *modules;
static struct sim_function *functions;

static struct sim_module *find_module(CUmodule handle)
{
	struct sim_module *module = modules;

	while (module && (CUmodule)module != handle)
		module = module->next;
	return module;
}

static struct sim_function *find_function(CUfunction handle)
{
	struct sim_function *function = functions;

	while (function && (CUfunction)function != handle)
		function = function->next;
	return function;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *handle, const void *image, unsigned int count,
				   CUjit_option *options, void **values)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_module *module;

	(void)options;
	(void)values;
	if (result)
		return result;
	if (count || !strstr(image, ".visible .entry"))
		return sim_end(CUDA_ERROR_INVALID_IMAGE);
	module = calloc(1, sizeof(*module));
	if (!module)
		abort();
	module->image = image;
	module->next = modules;
	modules = module;
	sim.modules++;
	*handle = (CUmodule)module;
	return sim_end(CUDA_SUCCESS);
}

static void drop_functions(const struct sim_module *module)
{
	struct sim_function **at = &functions, *gone;

	while (*at) {
		gone = *at;
		if (gone->module != module) {
			at = &gone->next;
			continue;
		}
		*at = gone->next;
		free(gone);
	}
}

EXPORT CUresult cuModuleUnload(CUmodule handle)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_module *module, **at = &modules;

	if (result)
		return result;
	module = find_module(handle);
	if (!module)
		return sim_end(CUDA_ERROR_INVALID_HANDLE);
	drop_functions(module);
	while (*at != module)
		at = &(*at)->next;
	*at = module->next;
	free(module);
	sim.modules--;
	return sim_end(CUDA_SUCCESS);
}

EXPORT CUresult cuModuleGetFunction(CUfunction *handle, CUmodule module_handle, const char *name)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_function *function;
	struct sim_module *module;

	if (result)
		return result;
	module = find_module(module_handle);
	if (!module)
		return sim_end(CUDA_ERROR_INVALID_HANDLE);
	if (!strstr(module->image, name))
		return sim_end(CUDA_ERROR_NOT_FOUND);
	function = calloc(1, sizeof(*function));
	if (!function)
		abort();
	function->module = module;
	function->copies = !strcmp(name, OTTE_COPY_ENTRY);
	function->next = functions;
	functions = function;
	*handle = (CUfunction)function;
	return sim_end(CUDA_SUCCESS);
}

static struct sim_launch *make_launch(const struct sim_function *function, void **arguments)
{
	struct sim_launch *launch = calloc(1, sizeof(*launch));

	if (!launch)
		abort();
	launch->copies = function->copies;
	if (!function->copies)
		return launch;
	launch->copy = (struct otte_copy_launch){ .rows = *(otte_copy_u64 *)arguments[0],
						  .ratio = *(otte_copy_u64 *)arguments[1],
						  .count = *(otte_copy_u32 *)arguments[2],
						  .pieces = *(otte_copy_u32 *)arguments[3],
						  .piece_bytes = *(otte_copy_u32 *)arguments[4],
						  .lanes = *(otte_copy_u32 *)arguments[5],
						  .to_host = *(otte_copy_u32 *)arguments[6] };
	return launch;
}

EXPORT CUresult cuLaunchKernel(CUfunction handle, unsigned int grid_x, unsigned int grid_y,
			       unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			       unsigned int block_z, unsigned int shared_bytes,
			       CUstream stream_handle, void **arguments, void **extra)
{
	CUresult result = sim_begin(__func__, SIM_CONTEXT);
	struct sim_function *function;
	struct sim_stream *stream;

	(void)shared_bytes;
	if (result)
		return result;
	function = find_function(handle);
	if (!function)
		return sim_end(CUDA_ERROR_INVALID_HANDLE);
	if (!grid_x || !grid_y || !grid_z || !block_x || block_x * block_y * block_z > 1024 ||
	    extra)
		return sim_end(CUDA_ERROR_INVALID_VALUE);
	result = sim_stream_for_work(stream_handle, &stream);
	if (result)
		return sim_end(result);
	sim_call()->ctas = grid_x;
	result =
		sim_work_put(stream, &(struct sim_work){ .kind = SIM_KERNEL,
							 .launch = make_launch(function, arguments),
							 .ctas = grid_x });
	return sim_end(result);
}

void sim_launch_free(struct sim_launch *launch)
{
	free(launch);
}

/* ---- Running it ------------------------------------------------------------------------------ */

/* A row with addresses of this process. The host side has to be the one that the device is told. */
static bool translate(struct otte_copy_row *row)
{
	size_t bytes = (size_t)otte_copy_row_bytes(row);
	struct sim_block *device, *host;
	uint8_t *at;

	if (!bytes)
		return true;
	if (sim.settings.alias && row->host < ALIAS_OFFSET)
		return false;
	at = sim_reach(row->device, bytes, &device);
	if (!at || device->kind == SIM_HOST || device->kind == SIM_REGISTERED)
		return false;
	row->device = (uint64_t)(uintptr_t)at;
	at = sim_reach(row->host, bytes, &host);
	if (!at || (host->kind != SIM_HOST && host->kind != SIM_REGISTERED))
		return false;
	row->host = (uint64_t)(uintptr_t)at;
	return true;
}

/* All of them stay while the lock is let go of: a free waits for what is moving. */
CUresult sim_launch_run(struct sim_launch *launch, unsigned int ctas)
{
	struct otte_copy_launch copy = launch->copy;
	size_t size = copy.count * sizeof(struct otte_copy_row);
	struct otte_copy_row *rows;
	struct sim_block *block;
	uint8_t *uploaded;
	otte_copy_u32 i;

	if (!launch->copies)
		return CUDA_SUCCESS;
	uploaded = sim_reach(copy.rows, size, &block);
	if (!uploaded)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	rows = malloc(size);
	if (!rows)
		abort();
	memcpy(rows, uploaded, size);
	for (i = 0; i < copy.count && translate(&rows[i]); i++)
		;
	if (i < copy.count) {
		free(rows);
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	copy.rows = (uint64_t)(uintptr_t)rows;
	otte_copy_run(&copy, ctas);
	free(rows);
	return CUDA_SUCCESS;
}

/* The rows that were uploaded; what they name is known only when it runs, and looked at then. */
bool sim_launch_names(const struct sim_launch *launch, uint64_t address, size_t size)
{
	size_t span = launch->copy.count * sizeof(struct otte_copy_row);

	return launch->copies && launch->copy.rows < address + size &&
	       address < launch->copy.rows + span;
}
