/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Local copies: a worker on a stream of the caller's, its slots and what its submissions came to.
 *
 * A slot is FREE, or has a submission:
 *
 *	FREE -> BUSY -> FREE    its marker is on the stream; the stream has passed it
 *	FREE -> BUSY -> STUCK   asking for the marker, or the way back to the caller's context, failed
 *	FREE -> STUCK           something is on the stream, and no marker behind it
 *
 * A slot that is not FREE holds its views (a use of each region) and its charge. STUCK is for good,
 * and ends all admission. The completion (struct otte_copy) is the handle's and the slot's: whoever
 * lets go last frees it, and the copier's own memory stays until the last handle is put.
 *
 * copier->lock is over all of it, the calls of the driver too: a stream takes work in one order.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "cuda/context.h"
#include "cuda/memory.h"
#include "cuda/mover.h"
#include "cuda/plan.h"
#include "cuda/policy.h"
#include "cuda/table.h"
#include "engine/engine.h"
#include "engine/keep.h"
#include "engine/region.h"
#include "otte/otte_copy.h"

#define MAX_ROWS (1u << 20)
#define MAX_SLOTS 1024u
/* Regions looked back at before one is counted as another use. */
#define RECENT 8u
/* A wait asks so often before it sleeps, and then sleeps for longer and longer. */
#define SPINS 200u
#define NAP_FIRST_US 5u
#define NAP_LAST_US 200u

enum state {
	FREE = 0,
	BUSY = 1,
	STUCK = 2,
};

struct slot {
	enum state state;
	struct otte_copy *copy;      /* NULL: nobody asks any more */
	int code;                    /* of a submission of which the driver refused a part */
	char text[OTTE_ERROR_BYTES]; /* and why */
	uint64_t bytes;              /* charged */
	struct otte_region **regions;
	uint32_t region_count;
};

struct otte_copy {
	struct otte_copier *copier;
	struct slot *slot;           /* NULL: it is over */
	int code;
	char text[OTTE_ERROR_BYTES]; /* where that is an error */
};

struct otte_copier {
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_copier_config config;
	pthread_t thread;            /* that bound it */
	pthread_mutex_t lock;
	struct otte_mover mover;
	struct otte_plan plan;
	struct otte_policy policy;
	struct slot *slots;
	bool closed;                 /* admits nothing */
	bool gone;                   /* destroyed; handles are left */
	uint32_t handles;
	uint32_t used, stuck;        /* slots */
	uint64_t charged, submitted, completed, failed;
	struct otte_copier *next_kept;
};

/* Those that were destroyed and hold what cannot be given back, for as long as the process lives. */
static struct {
	pthread_mutex_t lock;
	struct otte_copier *first;
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- Config ---------------------------------------------------------------------------------- */

static const struct otte_copier_config defaults = {
	.size = sizeof(defaults),
	.mode = OTTE_COPY_AUTO,
	.threshold = OTTE_POLICY_THRESHOLD,
	.threshold_background = OTTE_COPY_NEVER,
	.max_bytes = 256 * MIB,
	.max_rows = 4096,
	.slots = 4,
};

int otte_copier_config_init(struct otte_copier_config *config, uint32_t size)
{
	if (!config || size < sizeof(config->size))
		return otte_fail(-EINVAL, "otte_copier_config_init: config is NULL, or %u bytes do not hold its size",
				 size);
	config->size = size;
	sized_copy_out(config, &defaults, sizeof(defaults));
	return 0;
}

/* What the caller's struct is too short for is the default. */
static int take_config(struct otte_copier *copier, const struct otte_copier_config *config)
{
	struct otte_copier_config *own = &copier->config;

	*own = defaults;
	if (config) {
		if (config->size < sizeof(config->size))
			return otte_fail(-EINVAL, "otte_copier_bind: the config's size is %u", config->size);
		memcpy(own, config, min_u64(config->size, sizeof(*own)));
	}
	if (!own->max_rows || own->max_rows > MAX_ROWS)
		return otte_fail(-EINVAL, "otte_copier_bind: max_rows is %u, not 1 .. %u", own->max_rows, MAX_ROWS);
	if (!own->slots || own->slots > MAX_SLOTS)
		return otte_fail(-EINVAL, "otte_copier_bind: slots is %u, not 1 .. %u", own->slots, MAX_SLOTS);
	if (own->wide > 1)
		return otte_fail(-EINVAL, "otte_copier_bind: wide is %u, not 0 or 1", own->wide);
	if (!own->max_bytes)
		return otte_fail(-EINVAL, "otte_copier_bind: max_bytes is 0");
	return 0;
}

static int make_policy(struct otte_copier *copier)
{
	const struct otte_copier_config *own = &copier->config;
	struct otte_policy_config config;

	otte_policy_defaults(&config);
	config.mode = own->mode;
	config.threshold = own->threshold;
	config.threshold_background = own->threshold_background;
	config.cta_limit = own->cta_limit;
	config.wide = own->wide;
	config.table = otte_table_of(copier->mover.cuda, copier->mover.device);
	config.multiprocessors = copier->mover.multiprocessors;
	config.max_grid_x = copier->mover.max_grid_x;
	return otte_policy_init(&copier->policy, &config);
}

/* ---- Making ---------------------------------------------------------------------------------- */

static int make_slots(struct otte_copier *copier)
{
	uint32_t i, views = 2 * copier->config.max_rows;

	copier->slots = calloc(copier->config.slots, sizeof(*copier->slots));
	for (i = 0; copier->slots && i < copier->config.slots; i++) {
		copier->slots[i].regions = calloc(views, sizeof(struct otte_region *));
		if (!copier->slots[i].regions)
			return otte_fail(-ENOMEM, "local copy: no memory for a slot's views");
	}
	return copier->slots ? 0 : otte_fail(-ENOMEM, "local copy: no memory for slots");
}

static void free_slots(struct otte_copier *copier)
{
	uint32_t i;

	for (i = 0; copier->slots && i < copier->config.slots; i++)
		free(copier->slots[i].regions);
	free(copier->slots);
	copier->slots = NULL;
}

static int load_kernel(struct otte_copier *copier)
{
	int ret;

	if (copier->config.mode == OTTE_COPY_DMA)
		return 0;
	ret = otte_mover_load(&copier->mover);
	if (!ret || ret == -EUCLEAN)
		return ret;
	if (copier->config.mode == OTTE_COPY_KERNEL)
		return otte_fail_within(-ENOSYS, "local copy: the kernel is forced: ");
	otte_log(OTTE_LOG_WARNING, "local copies go without the kernel: %s", otte_error_text());
	return 0;
}

/* With the context current. */
static int open_mover(struct otte_copier *copier)
{
	int ret;

	ret = otte_mover_open(&copier->mover, copier->config.max_rows, copier->config.slots);
	return ret ? ret : load_kernel(copier);
}

static int within(struct otte_copier *copier, int (*step)(struct otte_copier *copier), bool *restored)
{
	const struct otte_mover *mover = &copier->mover;
	struct otte_cuda_guard guard;
	int ret;

	*restored = true;
	ret = otte_cuda_enter(&guard, mover->cuda, mover->context, mover->device);
	if (ret)
		return ret;
	return otte_cuda_leave(&guard, step(copier), restored);
}

static int close_mover(struct otte_copier *copier)
{
	return otte_mover_close(&copier->mover);
}

/* What the driver does not let go of stays, and stands in the ledger. */
static int discard_mover(struct otte_copier *copier)
{
	const uint64_t rows = 2ull * sizeof(uint64_t) * 3 * copier->config.max_rows * copier->config.slots;
	char text[OTTE_ERROR_BYTES];
	bool restored;
	int ret;

	if (!copier->mover.context)
		return 0;
	ret = within(copier, close_mover, &restored);
	if (!ret)
		return 0;
	otte_error_keep(text);
	otte_keep_lost(copier->engine, rows, OTTE_CUDA_REASON);
	return otte_fail(-EUCLEAN, "%s", text);
}

static void free_memory(struct otte_copier *copier)
{
	otte_plan_free(&copier->plan);
	free_slots(copier);
	pthread_mutex_destroy(&copier->lock);
	free(copier);
}

static void keep_for_good(struct otte_copier *copier)
{
	copier->handles++;
	pthread_mutex_lock(&kept.lock);
	copier->next_kept = kept.first;
	kept.first = copier;
	pthread_mutex_unlock(&kept.lock);
}

static int make(struct otte_copier *copier, struct CUstream_st *stream)
{
	const struct otte_cuda_mem *memory = copier->mem->cuda;
	bool restored;
	int ret;

	ret = otte_cuda_check_stream(memory->cuda, memory->context, memory->device, stream);
	if (!ret)
		ret = otte_mover_init(&copier->mover, memory->cuda, memory->device, memory->context, stream);
	if (!ret)
		ret = make_policy(copier);
	if (!ret)
		ret = make_slots(copier);
	if (!ret)
		ret = otte_plan_init(&copier->plan, copier->config.max_rows, copier->mover.max_pitch);
	return ret ? ret : within(copier, open_mover, &restored);
}

int otte_copier_bind(struct otte_mem *mem, struct CUstream_st *stream, const struct otte_copier_config *config,
		     struct otte_copier **out)
{
	struct otte_copier *copier;
	char text[OTTE_ERROR_BYTES];
	int ret;

	if (!mem || !out)
		return otte_fail(-EINVAL, "otte_copier_bind: mem and copier must not be NULL");
	ret = otte_fork_check(mem->engine->generation);
	if (ret)
		return ret;
	if (!otte_mem_on_device(mem))
		return otte_fail(-EOPNOTSUPP, "otte_copier_bind: the memory is not a GPU's");
	copier = calloc(1, sizeof(*copier));
	if (!copier)
		return otte_fail(-ENOMEM, "no memory for a copier");
	copier->engine = mem->engine;
	copier->mem = mem;
	copier->thread = pthread_self();
	pthread_mutex_init(&copier->lock, NULL);
	ret = take_config(copier, config);
	if (!ret)
		ret = make(copier, stream);
	if (ret)
		goto undo;
	atomic_fetch_add(&mem->views, 1);
	*out = copier;
	return 0;

undo:
	otte_error_keep(text);
	if (discard_mover(copier)) {
		ret = -EUCLEAN;
		keep_for_good(copier);
	} else {
		free_memory(copier);
	}
	return otte_fail(ret, "%s", text);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static void free_slot(struct otte_copier *copier, struct slot *slot)
{
	uint32_t i;

	for (i = 0; i < slot->region_count; i++)
		otte_region_unuse(slot->regions[i]);
	slot->region_count = 0;
	copier->charged -= slot->bytes;
	slot->bytes = 0;
	slot->state = FREE;
	copier->used--;
}

/* `code`, and the thread's text where that is an error, is what the submission came to. */
static void tell(struct otte_copier *copier, struct slot *slot, int code)
{
	struct otte_copy *copy = slot->copy;

	copier->completed += !code;
	copier->failed += code != 0;
	slot->copy = NULL;
	if (!copy)
		return;
	copy->slot = NULL;
	copy->code = code;
	if (code)
		otte_error_keep(copy->text);
}

static void stick(struct otte_copier *copier, struct slot *slot)
{
	slot->state = STUCK;
	copier->stuck++;
	otte_fail_within(-EUCLEAN, "a copy cannot be proven done: ");
	otte_log(OTTE_LOG_ERROR, "%s", otte_error_text());
	tell(copier, slot, -EUCLEAN);
}

static void finish(struct otte_copier *copier, struct slot *slot)
{
	if (slot->code)
		otte_fail(slot->code, "%s", slot->text);
	tell(copier, slot, slot->code);
	free_slot(copier, slot);
}

/* The context is current. True: it is over, or stuck. */
static bool look(struct otte_copier *copier, struct slot *slot)
{
	int ret = otte_mover_ask(&copier->mover, &copier->mover.slots[slot - copier->slots]);

	if (ret == -EAGAIN)
		return false;
	if (ret)
		stick(copier, slot);
	else
		finish(copier, slot);
	return true;
}

static void look_at_all(struct otte_copier *copier)
{
	uint32_t i;

	for (i = 0; i < copier->config.slots; i++)
		if (copier->slots[i].state == BUSY)
			look(copier, &copier->slots[i]);
}

static int look_step(struct otte_copier *copier)
{
	look_at_all(copier);
	return 0;
}

/* Nobody can say what the calling thread's context is: what is under way is not waited for from here any more. */
static void stick_all(struct otte_copier *copier)
{
	char text[OTTE_ERROR_BYTES];
	uint32_t i;

	otte_error_keep(text);
	for (i = 0; i < copier->config.slots; i++)
		if (copier->slots[i].state == BUSY) {
			otte_fail(-EUCLEAN, "%s", text);
			stick(copier, &copier->slots[i]);
		}
}

/* Lock held, nothing entered. */
static int look_from_outside(struct otte_copier *copier)
{
	bool restored;
	int ret;

	if (copier->used == copier->stuck)
		return 0;
	ret = within(copier, look_step, &restored);
	if (!restored)
		stick_all(copier);
	return ret;
}

/* ---- Submission ------------------------------------------------------------------------------ */

static int check_view(const struct otte_copier *copier, const struct otte_region *region, bool of_device, size_t i)
{
	const char *side = of_device ? "device" : "host";
	const struct otte_cuda_mem *memory;

	if (!region || region->engine != copier->engine)
		return otte_fail(-EINVAL, "descriptor %zu: its %s view is not of this engine", i, side);
	memory = region->mem->cuda;
	if (!memory || (memory->kind == OTTE_CUDA_DEVICE) != of_device)
		return otte_fail(-EINVAL, "descriptor %zu: its %s view is not of %s", i, side,
				 of_device ? "memory of a GPU" : "pinned host memory");
	if (of_device && memory->context != copier->mover.context)
		return otte_fail(-EINVAL, "descriptor %zu: its memory is of another context than the stream", i);
	return 0;
}

static bool is_held(const struct slot *slot, const struct otte_region *region)
{
	uint32_t i, from = slot->region_count > RECENT ? slot->region_count - RECENT : 0;

	for (i = from; i < slot->region_count; i++)
		if (slot->regions[i] == region)
			return true;
	return false;
}

/* Each view is looked at and held once where descriptors that follow each other name it. */
static int hold_view(struct otte_copier *copier, struct slot *slot, struct otte_region *region, bool of_device,
		     size_t i)
{
	int ret;

	/* One that is held may be named as the other side. */
	ret = check_view(copier, region, of_device, i);
	if (ret || is_held(slot, region))
		return ret;
	ret = otte_region_check_fresh(region);
	if (!ret)
		ret = otte_region_use(region);
	if (!ret)
		slot->regions[slot->region_count++] = region;
	return ret;
}

static int hold_views(struct otte_copier *copier, struct slot *slot, const struct otte_copy_desc *descs, size_t count)
{
	size_t i = 0;
	int ret;

	while (i < count) {
		struct otte_region *device = descs[i].device, *host = descs[i].host;

		ret = hold_view(copier, slot, device, true, i);
		if (!ret)
			ret = hold_view(copier, slot, host, false, i);
		if (ret)
			return ret;
		for (i++; i < count && descs[i].device == device && descs[i].host == host; i++)
			;
	}
	return 0;
}

/* The stream waits for those who still write, or read, what is copied. */
static int wait_for_producers(const struct otte_copier *copier, const struct slot *slot,
			      const struct otte_copy_options *options)
{
	const struct otte_mover *mover = &copier->mover;
	uint32_t i;
	int ret = 0;

	for (i = 0; i < slot->region_count && !ret; i++)
		ret = otte_cuda_ready_chain(slot->regions[i]->mem->cuda, mover->stream);
	if (ret || !options->ready)
		return ret;
	return otte_cuda_error(mover->cuda, mover->cuda->stream_wait_event(mover->stream, options->ready, 0),
			       mover->device, "cuStreamWaitEvent");
}

struct submission {
	enum otte_copy_direction direction;
	const struct otte_copy_desc *descs;
	size_t count;
	struct otte_copy_options options;
	struct slot *slot;
	struct otte_policy_choice choice;
	struct otte_mover_outcome outcome;
};

static int decide(struct otte_copier *copier, struct submission *submission)
{
	uint64_t left = copier->config.max_bytes - copier->charged;
	uint64_t rows = otte_plan_storage_bytes(copier->config.max_rows, 1);
	struct otte_plan *plan = &copier->plan;
	struct otte_policy_means means = { .image = copier->mover.module };
	int ret;

	ret = otte_plan_build(plan, submission->descs, (uint32_t)submission->count,
			      submission->direction == OTTE_COPY_TO_HOST, left);
	if (ret)
		return ret;
	means.room = left - plan->bytes >= rows;
	ret = otte_policy_choose(&copier->policy, plan, submission->options.intent, &means, &submission->choice);
	if (ret)
		return ret;
	submission->slot->bytes = plan->bytes;
	if (submission->choice.backend == OTTE_COPY_BY_KERNEL)
		submission->slot->bytes += rows;
	return 0;
}

/* With the context current. An error that left nothing on the stream leaves outcome.touched false. */
static int put(struct otte_copier *copier, struct submission *submission)
{
	struct slot *slot = submission->slot;
	int ret;

	ret = otte_mover_check(&copier->mover);
	if (!ret)
		ret = hold_views(copier, slot, submission->descs, submission->count);
	if (!ret)
		ret = decide(copier, submission);
	if (!ret)
		ret = wait_for_producers(copier, slot, &submission->options);
	if (ret)
		return ret;
	return otte_mover_put(&copier->mover, &copier->mover.slots[slot - copier->slots], &copier->plan,
			      &submission->choice, &submission->outcome);
}

static void count_decision(struct otte_copier *copier, const struct submission *submission)
{
	bool to_host = submission->direction == OTTE_COPY_TO_HOST;
	uint32_t intent = submission->options.intent, priority = submission->options.priority, i;

	otte_policy_admitted(&copier->policy, to_host, intent, priority, &submission->choice);
	for (i = 0; i < submission->outcome.batches; i++)
		otte_policy_batched(&copier->policy, to_host, intent, priority);
	if (submission->outcome.ctas)
		otte_policy_launched(&copier->policy, to_host, intent, priority, submission->outcome.ctas);
}

/* Nothing of it is on the stream. */
static int give_up(struct otte_copier *copier, struct slot *slot, struct otte_copy *copy, int rc)
{
	slot->copy = NULL;
	slot->bytes = 0;
	copier->used++;
	free_slot(copier, slot);
	if (copy)
		copier->handles--;
	free(copy);
	return rc;
}

/* Something is on the stream: `rc` is what the driver, or the way back, said of that. */
static int keep(struct otte_copier *copier, struct submission *submission, int rc, bool restored)
{
	struct slot *slot = submission->slot;

	copier->used++;
	copier->submitted++;
	copier->charged += slot->bytes;
	count_decision(copier, submission);
	slot->state = BUSY;
	slot->code = rc;
	if (rc)
		otte_error_keep(slot->text);
	if (submission->outcome.marked && restored)
		return rc;
	stick(copier, slot);
	return -EUCLEAN;
}

static int put_from_outside(struct otte_copier *copier, struct submission *submission, struct otte_copy *copy)
{
	const struct otte_mover *mover = &copier->mover;
	struct otte_cuda_guard guard;
	bool restored = true;
	int ret;

	submission->slot->copy = copy;
	if (copy) {
		copy->copier = copier;
		copy->slot = submission->slot;
		copier->handles++;
	}
	ret = otte_cuda_enter(&guard, mover->cuda, mover->context, mover->device);
	if (!ret)
		ret = otte_cuda_leave(&guard, put(copier, submission), &restored);
	if (submission->outcome.touched)
		return keep(copier, submission, ret, restored);
	return give_up(copier, submission->slot, copy, ret);
}

static struct slot *find_free(struct otte_copier *copier)
{
	uint32_t i;

	for (i = 0; i < copier->config.slots; i++)
		if (copier->slots[i].state == FREE)
			return &copier->slots[i];
	return NULL;
}

/* Whose handle was put is looked after by those who come next. */
static bool any_abandoned(const struct otte_copier *copier)
{
	uint32_t i;

	for (i = 0; i < copier->config.slots; i++)
		if (copier->slots[i].state == BUSY && !copier->slots[i].copy)
			return true;
	return false;
}

static int say_stuck(const struct otte_copier *copier)
{
	return otte_fail(-EUCLEAN, "GPU %d: %u copies on this stream cannot be proven done", copier->mover.device,
			 copier->stuck);
}

static int admit(struct otte_copier *copier, struct submission *submission)
{
	int ret = 0;

	if (copier->closed)
		return otte_fail(-ESHUTDOWN, "the copier is closed");
	if (copier->mover.stream == CU_STREAM_PER_THREAD && !pthread_equal(copier->thread, pthread_self()))
		return otte_fail(-EINVAL, "a per-thread stream is submitted to by the thread that bound it alone");
	if (copier->used && (copier->used == copier->config.slots || any_abandoned(copier)))
		ret = look_from_outside(copier);
	if (copier->stuck)
		return say_stuck(copier);
	if (ret)
		return ret;
	submission->slot = find_free(copier);
	if (!submission->slot)
		return otte_fail(-EDQUOT, "slots: %u submissions are under way", copier->config.slots);
	return 0;
}

static int check_arguments(const struct otte_copier *copier, const struct submission *submission)
{
	if (!copier || (submission->count && !submission->descs))
		return otte_fail(-EINVAL, "otte_copier_submit: copier and descs must not be NULL");
	if (submission->direction > OTTE_COPY_TO_HOST)
		return otte_fail(-EINVAL, "otte_copier_submit: there is no direction %u",
				 (unsigned int)submission->direction);
	if (submission->options.intent >= OTTE_COPY_INTENTS || submission->options.priority >= OTTE_COPY_PRIORITIES)
		return otte_fail(-EINVAL, "otte_copier_submit: intent %u, priority %u", submission->options.intent,
				 submission->options.priority);
	if (submission->count > copier->config.max_rows)
		return otte_fail(-EDQUOT, "max_rows: %zu descriptors are more than %u", submission->count,
				 copier->config.max_rows);
	return otte_fork_check(copier->engine->generation);
}

int otte_copier_submit(struct otte_copier *copier, enum otte_copy_direction direction,
		       const struct otte_copy_desc *descs, size_t count, const struct otte_copy_options *options,
		       struct otte_copy **out)
{
	struct submission submission = { .direction = direction, .descs = descs, .count = count };
	struct otte_copy *copy = NULL;
	int ret;

	if (options)
		submission.options = *options;
	ret = check_arguments(copier, &submission);
	if (ret)
		return ret;
	if (out) {
		*out = NULL;
		copy = calloc(1, sizeof(*copy));
		if (!copy)
			return otte_fail(-ENOMEM, "no memory for a completion");
	}
	pthread_mutex_lock(&copier->lock);
	ret = admit(copier, &submission);
	if (ret) {
		free(copy);
	} else {
		ret = put_from_outside(copier, &submission, copy);
		if (out && submission.outcome.touched)
			*out = copy;
	}
	pthread_mutex_unlock(&copier->lock);
	return ret;
}

/* ---- Completions ----------------------------------------------------------------------------- */

int otte_copier_progress(struct otte_copier *copier)
{
	int ret;

	if (!copier)
		return otte_fail(-EINVAL, "otte_copier_progress: copier must not be NULL");
	ret = otte_fork_check(copier->engine->generation);
	if (ret)
		return ret;
	pthread_mutex_lock(&copier->lock);
	ret = look_from_outside(copier);
	if (copier->stuck)
		ret = say_stuck(copier);
	pthread_mutex_unlock(&copier->lock);
	return ret;
}

static int ask(struct otte_copy *copy)
{
	struct otte_copier *copier = copy->copier;
	int ret = 0;

	pthread_mutex_lock(&copier->lock);
	if (copy->slot)
		ret = look_from_outside(copier);
	if (copy->slot)
		ret = ret ? ret : -EAGAIN;
	else
		ret = copy->code ? otte_fail(copy->code, "%s", copy->text) : 0;
	pthread_mutex_unlock(&copier->lock);
	return ret;
}

int otte_copy_poll(struct otte_copy *copy)
{
	int ret;

	if (!copy)
		return otte_fail(-EINVAL, "otte_copy_poll: copy must not be NULL");
	ret = otte_fork_check(copy->copier->engine->generation);
	if (!ret)
		ret = ask(copy);
	return ret == -EAGAIN ? otte_fail(ret, "the copy is under way") : ret;
}

/* Sleeps a little longer each time, but no longer than is left. */
static void nap(uint32_t *turn, uint64_t left_ns)
{
	uint32_t us = NAP_FIRST_US;

	if (++*turn <= SPINS)
		return;
	us = (uint32_t)min_u64(us + (*turn - SPINS), NAP_LAST_US);
	usleep((useconds_t)min_u64(us, left_ns / NSEC_PER_USEC + 1));
}

int otte_copy_wait(struct otte_copy *copy, int64_t timeout_ns)
{
	uint64_t until_ns = otte_deadline_after(timeout_ns), now_ns;
	uint32_t turn = 0;
	int ret;

	if (!copy)
		return otte_fail(-EINVAL, "otte_copy_wait: copy must not be NULL");
	ret = otte_fork_check(copy->copier->engine->generation);
	if (ret)
		return ret;
	while ((ret = ask(copy)) == -EAGAIN) {
		now_ns = otte_now_ns();
		if (now_ns >= until_ns)
			return otte_fail(-ETIMEDOUT, "the copy is still under way");
		nap(&turn, until_ns - now_ns);
	}
	return ret;
}

void otte_copy_put(struct otte_copy *copy)
{
	struct otte_copier *copier;
	bool last;

	if (!copy || otte_fork_check(copy->copier->engine->generation))
		return;
	copier = copy->copier;
	pthread_mutex_lock(&copier->lock);
	if (copy->slot)
		copy->slot->copy = NULL;
	last = !--copier->handles && copier->gone;
	pthread_mutex_unlock(&copier->lock);
	free(copy);
	if (last)
		free_memory(copier);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Lock held; it is given up between two looks. */
static int drain(struct otte_copier *copier, uint64_t until_ns)
{
	uint32_t turn = 0;
	uint64_t now_ns;
	int ret;

	copier->closed = true;
	for (;;) {
		ret = look_from_outside(copier);
		if (copier->used == copier->stuck)
			return copier->stuck ? say_stuck(copier) : 0;
		if (ret)
			return ret;
		now_ns = otte_now_ns();
		if (now_ns >= until_ns)
			return otte_fail(-ETIMEDOUT, "%u copies are under way", copier->used - copier->stuck);
		pthread_mutex_unlock(&copier->lock);
		nap(&turn, until_ns - now_ns);
		pthread_mutex_lock(&copier->lock);
	}
}

int otte_copier_close(struct otte_copier *copier, int64_t timeout_ns)
{
	int ret;

	if (!copier)
		return otte_fail(-EINVAL, "otte_copier_close: copier must not be NULL");
	ret = otte_fork_check(copier->engine->generation);
	if (ret)
		return ret;
	pthread_mutex_lock(&copier->lock);
	ret = drain(copier, otte_deadline_after(timeout_ns));
	pthread_mutex_unlock(&copier->lock);
	return ret;
}

/* What is still under way is held for good, and its handles are told. */
static int abandon(struct otte_copier *copier)
{
	uint64_t bytes = copier->charged;

	otte_fail(-EUCLEAN, "the copier was destroyed before it was done");
	stick_all(copier);
	otte_keep_lost(copier->engine, bytes, OTTE_COPY_REASON);
	return say_stuck(copier);
}

int otte_copier_destroy(struct otte_copier *copier, int64_t timeout_ns)
{
	struct otte_mem *mem;
	bool last;
	int ret;

	if (!copier)
		return 0;
	ret = otte_fork_check(copier->engine->generation);
	if (ret)
		return ret;
	mem = copier->mem;
	pthread_mutex_lock(&copier->lock);
	ret = drain(copier, otte_deadline_after(timeout_ns));
	if (ret)
		ret = abandon(copier);
	else
		ret = discard_mover(copier);
	copier->gone = true;
	/* Slots that are stuck have events and rows, and views that they hold. */
	if (ret)
		keep_for_good(copier);
	last = !copier->handles;
	pthread_mutex_unlock(&copier->lock);
	if (!ret)
		atomic_fetch_sub(&mem->views, 1);
	if (last)
		free_memory(copier);
	return ret;
}

int otte_copier_stats(struct otte_copier *copier, struct otte_copier_stats *stats)
{
	struct otte_copier_stats all = { 0 };

	if (!copier || !stats || stats->size < sizeof(stats->size))
		return otte_fail(-EINVAL, "otte_copier_stats: an argument is NULL, or stats->size too small");
	pthread_mutex_lock(&copier->lock);
	all.slots_used = copier->used;
	all.bytes_charged = copier->charged;
	all.submitted = copier->submitted;
	all.completed = copier->completed;
	all.failed = copier->failed;
	all.unquiesced = copier->stuck;
	memcpy(all.classes, copier->policy.classes, sizeof(all.classes));
	pthread_mutex_unlock(&copier->lock);
	sized_copy_out(stats, &all, sizeof(all));
	return 0;
}
