/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/policy.h"

#include <errno.h>

#include "base/error.h"
#include "base/util.h"
#include "cuda/kernel/copy.h"
#include "cuda/plan.h"
#include "otte/otte.h"

/*
 * Two CTAs reach what zero-copy can on that link, 50 GB/s to the device and 51 from it at 2 KiB; rows of 512 bytes
 * need eight to the device and four back. The driver's call of many copies is behind that at 256 KiB, and ahead at
 * 512 KiB.
 */
static const struct otte_policy_row h200_rows[] = {
	{ 1023, { 8, 4 }, { 32, 32 } },
	{ UINT64_MAX, { 2, 2 }, { 32, 32 } },
};

const struct otte_policy_table otte_policy_h200 = { .device = "H200", .long_bytes = 384 * KIB, .rows = h200_rows };

void otte_policy_defaults(struct otte_policy_config *config)
{
	*config = (struct otte_policy_config){
		.mode = OTTE_COPY_AUTO,
		.threshold = OTTE_POLICY_THRESHOLD,
		.threshold_background = OTTE_COPY_NEVER,
		.table = &otte_policy_h200,
		.multiprocessors = 1,
		.max_grid_x = OTTE_POLICY_MAX_CTAS,
	};
}

int otte_policy_init(struct otte_policy *policy, const struct otte_policy_config *config)
{
	uint64_t most = min_u64(OTTE_POLICY_MAX_CTAS, config->max_grid_x);

	*policy = (struct otte_policy){ .config = *config };
	if (config->mode > OTTE_COPY_KERNEL)
		return otte_fail(-EINVAL, "local copy: there is no mode %u", (unsigned int)config->mode);
	if (config->threshold_background <= config->threshold)
		return otte_fail(-EINVAL, "local copy: the background threshold %lu is not above the normal one, %lu",
				 (unsigned long)config->threshold_background, (unsigned long)config->threshold);
	if (!config->multiprocessors || !config->max_grid_x || !config->table)
		return otte_fail(-EINVAL, "local copy: a device without multiprocessors, grid or table");
	if (config->cta_limit > most)
		return otte_fail(-ERANGE, "local copy: %u CTAs are more than %lu, which a grid can have",
				 config->cta_limit, (unsigned long)most);
	return 0;
}

/* Copies to the host that nobody waits for. */
static bool is_background(const struct otte_plan *plan, unsigned int intent)
{
	return plan->to_host && (intent == OTTE_INTENT_CHECKPOINT || intent == OTTE_INTENT_MIGRATION ||
				 intent == OTTE_INTENT_BACKGROUND_PREFETCH);
}

/* What keeps the kernel from it, also where it is forced. */
static enum otte_copy_reason obstacle(const struct otte_plan *plan, const struct otte_policy_means *means)
{
	if (plan->overlaps || plan->aliases)
		return OTTE_COPY_OVERLAP;
	if (!means->image)
		return OTTE_COPY_NO_IMAGE;
	if (!plan->mapped)
		return OTTE_COPY_NO_MAPPING;
	return means->room ? OTTE_COPY_NO_REASON : OTTE_COPY_NO_ROOM;
}

static enum otte_copy_reason why_not(const struct otte_policy_config *config, const struct otte_plan *plan,
				       unsigned int intent, const struct otte_policy_means *means)
{
	if (plan->op_count < config->threshold)
		return OTTE_COPY_BELOW_THRESHOLD;
	if (is_background(plan, intent) && plan->op_count < config->threshold_background)
		return OTTE_COPY_BACKGROUND;
	if (config->table->long_bytes != OTTE_COPY_NEVER &&
	    plan->bytes / plan->op_count >= config->table->long_bytes)
		return OTTE_COPY_LONG_ROWS;
	return obstacle(plan, means);
}

static int refuse(enum otte_copy_reason reason)
{
	switch (reason) {
	case OTTE_COPY_OVERLAP:
		return otte_fail(-EINVAL, "local copy: the kernel is forced, and rows meet others' destinations");
	case OTTE_COPY_NO_IMAGE:
		return otte_fail(-ENOSYS, "local copy: the kernel is forced, and its image is not loaded");
	case OTTE_COPY_NO_MAPPING:
		return otte_fail(-EINVAL, "local copy: the kernel is forced, and host memory has no mapping for it");
	default:
		return otte_fail(-EDQUOT, "local copy: the kernel is forced, and the budget has no room for its rows");
	}
}

/* No more CTAs than have a piece to copy for each of their teams. */
static uint64_t useful_ctas(const struct otte_plan *plan, uint32_t lanes)
{
	uint64_t pieces = max_u64(plan->run_count, plan->bytes / OTTE_COPY_MIN_PIECE_BYTES);
	uint64_t teams = OTTE_COPY_CTA_THREADS / lanes;

	return (pieces + teams - 1) / teams;
}

static void choose_grid(const struct otte_policy_config *config, const struct otte_plan *plan,
			struct otte_policy_choice *choice)
{
	const struct otte_policy_row *row = config->table->rows;
	uint64_t bytes = plan->bytes / plan->run_count, ctas;

	while (bytes > row->bytes)
		row++;
	choice->lanes = row->lanes[plan->to_host];
	if (config->wide)
		ctas = min_u64(OTTE_POLICY_WIDE_CTAS * (uint64_t)config->multiprocessors, plan->run_count);
	else
		ctas = min_u64(row->ctas[plan->to_host], useful_ctas(plan, choice->lanes));
	if (config->cta_limit)
		ctas = min_u64(ctas, config->cta_limit);
	choice->ctas = (uint32_t)min_u64(ctas, min_u64(OTTE_POLICY_MAX_CTAS, config->max_grid_x));
}

int otte_policy_choose(const struct otte_policy *policy, const struct otte_plan *plan, unsigned int intent,
		       const struct otte_policy_means *means, struct otte_policy_choice *choice)
{
	const struct otte_policy_config *config = &policy->config;

	*choice = (struct otte_policy_choice){ .backend = OTTE_COPY_NOTHING };
	if (!plan->op_count)
		return 0;
	choice->backend = OTTE_COPY_BY_DMA;
	if (config->mode == OTTE_COPY_DMA)
		return 0;
	if (config->mode == OTTE_COPY_KERNEL) {
		enum otte_copy_reason reason = obstacle(plan, means);

		if (reason)
			return refuse(reason);
	} else {
		choice->reason = why_not(config, plan, intent, means);
		if (choice->reason)
			return 0;
	}
	choice->backend = OTTE_COPY_BY_KERNEL;
	choose_grid(config, plan, choice);
	return 0;
}

int otte_policy_admitted(struct otte_policy *policy, bool to_host, unsigned int intent, unsigned int priority,
			 const struct otte_policy_choice *choice)
{
	struct otte_copy_class *class;

	if (intent >= OTTE_COPY_INTENTS || priority >= OTTE_COPY_PRIORITIES)
		return otte_fail(-EINVAL, "local copy: intent %u, priority %u", intent, priority);
	class = &policy->classes[to_host][intent][priority];
	class->empty += choice->backend == OTTE_COPY_NOTHING;
	class->dma += choice->backend == OTTE_COPY_BY_DMA;
	class->kernel += choice->backend == OTTE_COPY_BY_KERNEL;
	class->last_backend = choice->backend;
	class->last_reason = choice->reason;
	class->last_ctas = choice->ctas;
	return 0;
}

void otte_policy_batched(struct otte_policy *policy, bool to_host, unsigned int intent, unsigned int priority)
{
	policy->classes[to_host][intent][priority].batches++;
}

void otte_policy_launched(struct otte_policy *policy, bool to_host, unsigned int intent, unsigned int priority,
			  uint32_t ctas)
{
	policy->classes[to_host][intent][priority].ctas += ctas;
}
