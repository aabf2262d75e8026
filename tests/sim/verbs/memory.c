/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * PDs, MRs and windows, and the keys of a device. A key is (index << 8 | byte); indices are handed
 * out in turn, so one that is freed comes again late. The byte of a window is its consumer's from
 * the first bind on.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/util.h"
#include "sim/verbs/private.h"

#define KEY_INDICES 0x20000u
#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define KNOWN_ACCESS (IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND)

static void *fail(int error)
{
	errno = error;
	return NULL;
}

static int check_creates(const struct sim_nic *nic, unsigned int there, int max)
{
	if (nic->fatal)
		return EIO;
	return there >= (unsigned int)max ? ENOMEM : 0;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool is_free(const struct sim_key *key)
{
	return !key->mr && !key->mw;
}

/* 0: there is none left. */
static uint32_t take_index(struct sim_nic *nic)
{
	uint32_t tried;

	if (!nic->keys)
		nic->keys = calloc(KEY_INDICES, sizeof(struct sim_key));
	if (!nic->keys)
		return 0;
	nic->key_count = KEY_INDICES;
	for (tried = 1; tried < KEY_INDICES; tried++) {
		nic->key_last = nic->key_last % (KEY_INDICES - 1) + 1;
		if (is_free(&nic->keys[nic->key_last]))
			return nic->key_last;
	}
	return 0;
}

struct sim_key sim_key_find(const struct sim_nic *nic, uint32_t key)
{
	if (key >> 8 >= nic->key_count)
		return (struct sim_key){};
	return nic->keys[key >> 8];
}

void *sim_key_pointer(const struct sim_nic *nic, uint32_t key, uint64_t at)
{
	const struct sim_key found = sim_key_find(nic, key);
	const struct sim_mr *mr = found.mw ? found.mw->parent : found.mr;

	if (mr && mr->bytes)
		return mr->bytes + (at - (uintptr_t)mr->mr.addr);
	return sim_pointer(at);
}

/* ---- PDs ------------------------------------------------------------------------------------- */

static struct sim_pd *pd_of(struct ibv_pd *pd)
{
	return container_of(pd, struct sim_pd, pd);
}

static struct ibv_pd *alloc_pd(struct sim_context *context)
{
	struct sim_pd *pd;
	int error = check_creates(context->nic, context->nic->counts.pds,
				  context->nic->device.attr.max_pd);

	if (error)
		return fail(error);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->pd.context = &context->context;
	LIST_INIT(&pd->mrs);
	LIST_INIT(&pd->mws);
	LIST_INIT(&pd->qps);
	LIST_INSERT_HEAD(&context->pds, pd, link);
	context->nic->counts.pds++;
	return &pd->pd;
}

struct ibv_pd *sim_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_ALLOC_PD, SIM_OF(context, context->device));
	pd = error ? fail(error) : alloc_pd(sim_context_of(context));
	pthread_mutex_unlock(&sim_lock);
	return pd;
}

static int dealloc_pd(struct sim_pd *pd)
{
	if (!LIST_EMPTY(&pd->mrs) || !LIST_EMPTY(&pd->mws) || !LIST_EMPTY(&pd->qps))
		return EBUSY;
	LIST_REMOVE(pd, link);
	sim_nic_of(pd->pd.context)->counts.pds--;
	free(pd);
	return 0;
}

int sim_dealloc_pd(struct ibv_pd *pd)
{
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_DEALLOC_PD, SIM_OF(pd, pd->context, pd->context->device));
	if (!error)
		error = dealloc_pd(pd_of(pd));
	pthread_mutex_unlock(&sim_lock);
	return error;
}

/* ---- MRs ------------------------------------------------------------------------------------- */

/* The module that tells NICs of memory which is not the kernel's; NULL: there is none. */
static void *(*peer_memory)(uint64_t address, size_t length);

void sim_peer_memory(void *(*reach)(uint64_t address, size_t length))
{
	pthread_mutex_lock(&sim_lock);
	peer_memory = reach;
	pthread_mutex_unlock(&sim_lock);
}

/* A mapping that nobody may touch has no pages, either. */
static bool can_be_touched(uint8_t *at)
{
	uint8_t byte;
	const struct iovec to = { &byte, 1 }, from = { at, 1 };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

/* What the kernel finds when it pins: EFAULT where nothing is mapped. */
static int check_mapped(uint8_t *at, size_t length)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const uint8_t *end = at + length;
	unsigned char resident[512];
	size_t part;

	if (!can_be_touched(at))
		return EFAULT;
	for (at -= (uintptr_t)at % page; at < end; at += part) {
		part = min_u64((uint64_t)(end - at), page * sizeof(resident));
		if (mincore(at, part, resident))
			return EFAULT;
	}
	return 0;
}

static int check_mr(const struct sim_context *context, void *at, size_t length, int access)
{
	const struct sim_device *device = &context->nic->device;

	if ((unsigned int)access & ~(KNOWN_ACCESS | IBV_ACCESS_OPTIONAL_RANGE))
		return EINVAL;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (!length || (uintptr_t)at + length < (uintptr_t)at || length > device->attr.max_mr_size)
		return EINVAL;
	if (device->memlock_bytes &&
	    !range_inside(context->pinned_bytes, length, device->memlock_bytes))
		return ENOMEM;
	return 0;
}

/* Of what was checked. NULL and errno. */
static struct sim_mr *make_mr(struct sim_pd *pd, void *at, size_t length, int access)
{
	struct sim_context *context = sim_context_of(pd->pd.context);
	struct sim_nic *nic = context->nic;
	int error = check_creates(nic, nic->counts.mrs, nic->device.attr.max_mr);
	struct sim_mr *mr;
	uint32_t index;

	if (error)
		return fail(error);
	index = take_index(nic);
	mr = index ? calloc(1, sizeof(*mr)) : NULL;
	if (!mr)
		return fail(ENOMEM);
	nic->keys[index].mr = mr;
	mr->access = access;
	mr->mr = (struct ibv_mr){
		.context = pd->pd.context,
		.pd = &pd->pd,
		.addr = at,
		.length = length,
		.handle = index,
		.lkey = index << 8 | nic->key_byte++,
	};
	mr->mr.rkey = access & REMOTE ? mr->mr.lkey : 0;
	LIST_INSERT_HEAD(&pd->mrs, mr, link);
	context->pinned_bytes += length;
	nic->counts.pinned_bytes += length;
	nic->counts.mrs++;
	return mr;
}

/* A module that knows the address is asked before the kernel is. */
static struct ibv_mr *reg_mr(struct sim_pd *pd, void *at, size_t length, int access)
{
	int error = check_mr(sim_context_of(pd->pd.context), at, length, access);
	uint8_t *bytes = NULL;
	struct sim_mr *mr;

	if (!error && peer_memory)
		bytes = peer_memory((uintptr_t)at, length);
	if (!error && !bytes)
		error = check_mapped(at, length);
	if (error)
		return fail(error);
	mr = make_mr(pd, at, length, access);
	if (!mr)
		return NULL;
	mr->bytes = bytes;
	return &mr->mr;
}

struct ibv_mr *sim_reg_mr(struct ibv_pd *pd, void *at, size_t length, int access)
{
	struct ibv_mr *mr;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_REG_MR, SIM_OF(pd, pd->context, pd->context->device));
	mr = error ? fail(error) : reg_mr(pd_of(pd), at, length, access);
	pthread_mutex_unlock(&sim_lock);
	return mr;
}

/*
 * The whole file is mapped: a device has its own way to it, and keeps it without the descriptor.
 * The page of the address and that of the offset begin alike.
 */
static int map_dmabuf(int fd, uint64_t offset, size_t length, uint64_t iova, uint8_t **mapped,
		      size_t *mapped_bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct stat status;
	void *at;

	if (fstat(fd, &status))
		return EBADF;
	if (!range_inside(offset, length, (uint64_t)status.st_size) || (iova ^ offset) % page)
		return EINVAL;
	at = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return errno;
	*mapped = at;
	*mapped_bytes = (size_t)status.st_size;
	return 0;
}

static struct ibv_mr *reg_dmabuf_mr(struct sim_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access)
{
	void *at = sim_pointer(iova);
	uint8_t *mapped = NULL;
	size_t mapped_bytes = 0;
	struct sim_mr *mr;
	int error;

	error = check_mr(sim_context_of(pd->pd.context), at, length, access);
	if (!error)
		error = map_dmabuf(fd, offset, length, iova, &mapped, &mapped_bytes);
	if (error)
		return fail(error);
	mr = make_mr(pd, at, length, access);
	if (!mr) {
		error = errno;
		munmap(mapped, mapped_bytes);
		return fail(error);
	}
	mr->bytes = mapped + offset;
	mr->mapped = mapped;
	mr->mapped_bytes = mapped_bytes;
	return &mr->mr;
}

struct ibv_mr *sim_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	struct ibv_mr *mr;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_REG_DMABUF_MR, SIM_OF(pd, pd->context, pd->context->device));
	mr = error ? fail(error) : reg_dmabuf_mr(pd_of(pd), offset, length, iova, fd, access);
	pthread_mutex_unlock(&sim_lock);
	return mr;
}

static void free_mr(struct sim_mr *mr)
{
	struct sim_context *context = sim_context_of(mr->mr.context);
	struct sim_nic *nic = context->nic;

	if (mr->mapped)
		munmap(mr->mapped, mr->mapped_bytes);
	nic->keys[mr->mr.handle] = (struct sim_key){};
	LIST_REMOVE(mr, link);
	context->pinned_bytes -= mr->mr.length;
	nic->counts.pinned_bytes -= mr->mr.length;
	nic->counts.mrs--;
	free(mr);
}

int sim_dereg_mr(struct ibv_mr *native)
{
	struct sim_mr *mr = container_of(native, struct sim_mr, mr);
	struct sim_nic *nic = sim_nic_of(native->context);
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_DEREG_MR, SIM_OF(native, native->pd, native->context,
						    native->context->device));
	if (!error && mr->windows)
		error = nic->device.quirks & SIM_RXE_DEREG_EINVAL ? EINVAL : EBUSY;
	if (!error)
		free_mr(mr);
	pthread_mutex_unlock(&sim_lock);
	return error;
}

/* What lies before it is as far behind it as can be. */
bool sim_mr_covers(const struct sim_mr *mr, uint64_t at, uint64_t length)
{
	return range_inside(at - (uintptr_t)mr->mr.addr, length, mr->mr.length);
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* A key that a test has ordered, or the next. */
static int choose_window_key(struct sim_nic *nic, const struct sim_pd *pd, uint32_t *key)
{
	uint32_t index = take_index(nic);
	const struct sim_fault *fault;

	if (!index)
		return ENOMEM;
	*key = index << 8 | nic->key_byte++;
	fault = sim_fault_strikes(SIM_FAULT_WINDOW_KEY,
				  SIM_OF(&pd->pd, pd->pd.context, &nic->device));
	if (!fault)
		return 0;
	*key = (uint32_t)fault->value;
	if (*key >> 8 >= nic->key_count || !is_free(&nic->keys[*key >> 8]))
		sim_abort("key %#x was ordered, and its index is in use", *key);
	return 0;
}

static struct ibv_mw *alloc_mw(struct sim_pd *pd, enum ibv_mw_type type)
{
	struct sim_nic *nic = sim_nic_of(pd->pd.context);
	int error = check_creates(nic, nic->counts.mws, nic->device.attr.max_mw);
	const unsigned int wanted = type == IBV_MW_TYPE_2 ? IBV_DEVICE_MEM_WINDOW_TYPE_2B :
							    IBV_DEVICE_MEM_WINDOW;
	struct sim_mw *mw;
	uint32_t key = 0;

	if (!error && !(nic->device.attr.device_cap_flags & wanted))
		error = EOPNOTSUPP;
	if (!error)
		error = choose_window_key(nic, pd, &key);
	if (error)
		return fail(error);
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	nic->keys[key >> 8].mw = mw;
	mw->key = key;
	mw->mw = (struct ibv_mw){
		.context = pd->pd.context,
		.pd = &pd->pd,
		.rkey = key,
		.handle = key >> 8,
		.type = type,
	};
	LIST_INSERT_HEAD(&pd->mws, mw, link);
	nic->counts.mws++;
	return &mw->mw;
}

struct ibv_mw *sim_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw;
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_ALLOC_MW, SIM_OF(pd, pd->context, pd->context->device));
	mw = error ? fail(error) : alloc_mw(pd_of(pd), type);
	pthread_mutex_unlock(&sim_lock);
	return mw;
}

static void free_mw(struct sim_mw *mw)
{
	struct sim_nic *nic = sim_nic_of(mw->mw.context);

	sim_window_unbind(mw);
	nic->keys[mw->mw.handle] = (struct sim_key){};
	LIST_REMOVE(mw, link);
	nic->counts.mws--;
	free(mw);
}

/* One that is bound is unbound by it. */
int sim_dealloc_mw(struct ibv_mw *native)
{
	int error;

	pthread_mutex_lock(&sim_lock);
	error = sim_fault_call(SIM_DEALLOC_MW, SIM_OF(native, native->pd, native->context,
						      native->context->device));
	if (!error)
		free_mw(container_of(native, struct sim_mw, mw));
	pthread_mutex_unlock(&sim_lock);
	return error;
}

void sim_windows_orphan(struct sim_qp *qp)
{
	struct sim_pd *pd = pd_of(qp->qp.pd);
	struct sim_mw *mw;

	LIST_FOREACH(mw, &pd->mws, link)
		if (mw->qp == qp)
			mw->qp = NULL;
}

void sim_memory_free(struct sim_context *context)
{
	struct sim_pd *pd;

	while ((pd = LIST_FIRST(&context->pds))) {
		while (!LIST_EMPTY(&pd->mws))
			free_mw(LIST_FIRST(&pd->mws));
		while (!LIST_EMPTY(&pd->qps))
			sim_qp_free(LIST_FIRST(&pd->qps));
		while (!LIST_EMPTY(&pd->mrs))
			free_mr(LIST_FIRST(&pd->mrs));
		dealloc_pd(pd);
	}
}
