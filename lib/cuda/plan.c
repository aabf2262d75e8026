/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cuda/plan.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/util.h"
#include "cuda/kernel/copy.h"

/* Of the radix sort: its counters fit into the first cache, and three passes do for addresses of a usual spread. */
#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)
/* Up to here, shifting ranges one by one is faster than clearing counters. */
#define FEW_RANGES 48

int otte_plan_init(struct otte_plan *plan, uint32_t max_rows, uint64_t max_pitch)
{
	*plan = (struct otte_plan){ .max_rows = max_rows, .max_pitch = max_pitch };
	if (!max_rows)
		return otte_fail(-EINVAL, "local copy: no rows a submission");
	plan->runs = calloc(max_rows, sizeof(*plan->runs));
	plan->ops = calloc(max_rows, sizeof(*plan->ops));
	plan->ranges = calloc(max_rows, sizeof(*plan->ranges));
	plan->sorted = calloc(max_rows, sizeof(*plan->sorted));
	plan->digits = calloc(DIGITS, sizeof(*plan->digits));
	if (plan->runs && plan->ops && plan->ranges && plan->sorted && plan->digits)
		return 0;
	otte_plan_free(plan);
	return otte_fail(-ENOMEM, "local copy: no memory for plans of %u rows", max_rows);
}

void otte_plan_free(struct otte_plan *plan)
{
	free(plan->runs);
	free(plan->ops);
	free(plan->ranges);
	free(plan->sorted);
	free(plan->digits);
	*plan = (struct otte_plan){ 0 };
}

static inline const struct otte_plan_view *view_of(const struct otte_region *region)
{
	return (const struct otte_plan_view *)region;
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

/* The last row is the one that reaches furthest: pitches are not negative. */
static inline bool side_fits(const struct otte_plan_view *view, uint64_t offset, uint64_t pitch,
			     const struct otte_copy_desc *desc)
{
	uint64_t last = offset;

	if (desc->rows > 1 && (__builtin_mul_overflow(desc->rows - 1, pitch, &last) ||
				__builtin_add_overflow(last, offset, &last)))
		return false;
	return range_inside(last, desc->bytes, view->length) && view->length <= UINT64_MAX - view->base;
}

static OTTE_COLD int refuse_side(const char *side, const struct otte_plan_view *view, const struct otte_copy_desc *desc,
				 uint32_t at)
{
	return otte_fail(-ERANGE,
			 "local copy: descriptor %u: not all of its %lu rows are within its %s view, %lu bytes at %#lx",
			 at, (unsigned long)desc->rows, side, (unsigned long)view->length, (unsigned long)view->base);
}

static int check_desc(struct otte_plan *plan, const struct otte_copy_desc *desc, uint32_t at, uint64_t bytes_left)
{
	uint64_t bytes;

	if (desc->rows > plan->max_rows - plan->row_count)
		return otte_fail(-EDQUOT, "local copy: descriptor %u: more than %u rows in a submission", at,
				 plan->max_rows);
	if (!side_fits(view_of(desc->device), desc->device_offset, desc->device_pitch, desc))
		return refuse_side("device", view_of(desc->device), desc, at);
	if (!side_fits(view_of(desc->host), desc->host_offset, desc->host_pitch, desc))
		return refuse_side("host", view_of(desc->host), desc, at);
	if (__builtin_mul_overflow(desc->bytes, desc->rows, &bytes) || bytes > bytes_left - plan->bytes)
		return otte_fail(-EDQUOT, "local copy: descriptor %u: more bytes than the %lu that the budget has left",
				 at, (unsigned long)bytes_left);
	plan->row_count += (uint32_t)desc->rows;
	plan->bytes += bytes;
	return 0;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* `same`: the owners are those of the last run. */
static inline void add_row(struct otte_plan *plan, uint64_t device, uint64_t host, uint64_t alias, uint64_t bytes,
			   bool same, bool join)
{
	struct otte_plan_run *last;

	if (same && join) {
		last = &plan->runs[plan->run_count - 1];
		if (last->device + last->bytes == device && last->host + last->bytes == host) {
			last->bytes += bytes;
			return;
		}
	}
	plan->runs[plan->run_count++] = (struct otte_plan_run){ device, host, alias, bytes, same };
}

static inline void add_rows(struct otte_plan *plan, const struct otte_copy_desc *desc, bool same, bool join)
{
	uint64_t device = view_of(desc->device)->base + desc->device_offset;
	const struct otte_plan_view *side = view_of(desc->host);
	uint64_t host = side->base + desc->host_offset, alias = side->alias + desc->host_offset, i;

	plan->mapped = plan->mapped && side->alias;
	for (i = 0; i < desc->rows; i++) {
		add_row(plan, device, host, alias, desc->bytes, same, join);
		device += desc->device_pitch;
		host += desc->host_pitch;
		alias += desc->host_pitch;
		same = true;
	}
}

static void plan_clear(struct otte_plan *plan)
{
	plan->overlaps = plan->aliases = false;
	plan->mapped = true;
	plan->row_count = plan->run_count = plan->op_count = 0;
	plan->bytes = plan->longest = 0;
}

static inline bool same_owners(const struct otte_copy_desc *a, const struct otte_copy_desc *b)
{
	return (a->device == b->device || view_of(a->device)->owner == view_of(b->device)->owner) &&
	       (a->host == b->host || view_of(a->host)->owner == view_of(b->host)->owner);
}

/*
 * Descriptors of one row each, of the same views as the one before them, as long as there is nothing else to be said
 * of them: what most submissions consist of. Returns the first that is not.
 */
static uint32_t add_single_rows(struct otte_plan *plan, const struct otte_copy_desc *descs,
				uint32_t at, uint32_t count, uint64_t bytes_left, bool join)
{
	const struct otte_plan_view *device = view_of(descs[at - 1].device),
				    *host = view_of(descs[at - 1].host);
	uint64_t to_alias = host->alias - host->base, bytes = plan->bytes;
	struct otte_plan_run *run = &plan->runs[plan->run_count - 1];
	uint32_t begin = at, most = (uint32_t)min_u64(count - at, plan->max_rows - plan->row_count);

	for (; at - begin < most; at++) {
		const struct otte_copy_desc *desc = &descs[at];
		uint64_t on_device = device->base + desc->device_offset,
			 on_host = host->base + desc->host_offset;

		if (desc->rows != 1 || view_of(desc->device) != device ||
		    view_of(desc->host) != host || !desc->bytes ||
		    !range_inside(desc->device_offset, desc->bytes, device->length) ||
		    !range_inside(desc->host_offset, desc->bytes, host->length) ||
		    desc->bytes > bytes_left - bytes)
			break;
		bytes += desc->bytes;
		if (join && run->device + run->bytes == on_device &&
		    run->host + run->bytes == on_host) {
			run->bytes += desc->bytes;
			continue;
		}
		*++run = (struct otte_plan_run){ on_device, on_host, on_host + to_alias,
						 desc->bytes, true };
	}
	plan->bytes = bytes;
	plan->row_count += at - begin;
	plan->run_count = (uint32_t)(run - plan->runs) + 1;
	return at;
}

static int make_runs(struct otte_plan *plan, const struct otte_copy_desc *descs, uint32_t count, uint64_t bytes_left,
		     bool join)
{
	const struct otte_copy_desc *last = NULL;
	uint32_t i;
	int rc;

	plan_clear(plan);
	for (i = 0; i < count; i++) {
		const struct otte_copy_desc *desc;

		if (last && last == &descs[i] - 1)
			i = add_single_rows(plan, descs, i, count, bytes_left, join);
		if (i == count)
			break;
		desc = &descs[i];
		if (!desc->rows)
			continue;
		rc = check_desc(plan, desc, i, bytes_left);
		if (rc)
			return rc;
		if (!desc->bytes)
			continue;
		add_rows(plan, desc, last && same_owners(last, desc), join);
		last = desc;
	}
	return 0;
}

/* ---- Which ranges meet ----------------------------------------------------------------------- */

static struct otte_plan_range range_of(const struct otte_plan *plan, uint32_t run, bool of_host)
{
	uint64_t start = of_host ? plan->runs[run].host : plan->runs[run].device;

	return (struct otte_plan_range){ start, start + plan->runs[run].bytes };
}

static void sort_few(struct otte_plan_range *ranges, uint32_t count)
{
	uint32_t i, at;

	for (i = 1; i < count; i++) {
		struct otte_plan_range held = ranges[i];

		for (at = i; at && ranges[at - 1].start > held.start; at--)
			ranges[at] = ranges[at - 1];
		ranges[at] = held;
	}
}

/* One digit: from `from` to `to`, keeping the order of what has the same. */
static void sort_digit(const struct otte_plan_range *from, struct otte_plan_range *to, uint32_t count, uint64_t base,
		       uint32_t shift, uint32_t *digits)
{
	uint32_t i, sum = 0;

	zero_bytes(digits, DIGITS * sizeof(*digits));
	for (i = 0; i < count; i++)
		digits[((from[i].start - base) >> shift) & (DIGITS - 1)]++;
	for (i = 0; i < DIGITS; i++) {
		uint32_t many = digits[i];

		digits[i] = sum;
		sum += many;
	}
	for (i = 0; i < count; i++)
		to[digits[((from[i].start - base) >> shift) & (DIGITS - 1)]++] = from[i];
}

/* plan->ranges by their starts. Bits that no two starts differ in are not looked at. */
static void sort_ranges(struct otte_plan *plan, uint32_t count)
{
	uint64_t base = plan->ranges[0].start, bits = 0;
	uint32_t shift, i;

	if (count <= FEW_RANGES) {
		sort_few(plan->ranges, count);
		return;
	}
	for (i = 1; i < count; i++)
		base = min_u64(base, plan->ranges[i].start);
	for (i = 0; i < count; i++)
		bits |= plan->ranges[i].start - base;
	if (!bits)
		return;
	shift = (uint32_t)__builtin_ctzll(bits);
	for (; shift < 64 && bits >> shift; shift += DIGIT_BITS) {
		struct otte_plan_range *other = plan->sorted;

		sort_digit(plan->ranges, other, count, base, shift, plan->digits);
		plan->sorted = plan->ranges;
		plan->ranges = other;
	}
}

/* Sorts the destinations into plan->ranges; whether two of them meet. */
static bool sort_destinations(struct otte_plan *plan)
{
	bool found = false;
	uint32_t i;

	for (i = 0; i < plan->run_count; i++)
		plan->ranges[i] = range_of(plan, i, plan->to_host);
	sort_ranges(plan, plan->run_count);
	for (i = 1; i < plan->run_count; i++)
		found |= plan->ranges[i].start < plan->ranges[i - 1].end;
	return found;
}

static bool meet(struct otte_plan_range a, struct otte_plan_range b)
{
	return a.start < b.end && b.start < a.end;
}

/* All runs, seen once. */
struct survey {
	struct otte_plan_range to, from; /* what lies around all of them */
	bool in_order;                   /* destinations go up, or down, without meeting: nothing is to be sorted */
	uint64_t apart;                  /* what starts of destinations differ by from the first, all bits of it */
};

static inline void widen(struct otte_plan_range *all, struct otte_plan_range one)
{
	all->start = min_u64(all->start, one.start);
	all->end = max_u64(all->end, one.end);
}

static struct survey survey(struct otte_plan *plan)
{
	struct survey all = { .to = { UINT64_MAX, 0 }, .from = { UINT64_MAX, 0 } };
	bool to_host = plan->to_host, up = true, down = true;
	uint64_t first = range_of(plan, 0, to_host).start;
	struct otte_plan_range to, before = { 0, 0 };
	uint32_t i;

	for (i = 0; i < plan->run_count; i++) {
		to = range_of(plan, i, to_host);
		widen(&all.to, to);
		widen(&all.from, range_of(plan, i, !to_host));
		all.apart |= to.start - first;
		up &= to.start >= before.end;
		down &= !i || to.end <= before.start;
		before = to;
		plan->longest = max_u64(plan->longest, plan->runs[i].bytes);
	}
	all.in_order = up || down;
	return all;
}

/*
 * Blocks of a cache: all destinations lie on a grid, whose steps are no shorter than the longest of them. Two then meet
 * only if they are the same step's.
 */
static bool lie_on_a_grid(const struct otte_plan *plan, const struct survey *all, uint32_t *shift)
{
	const uint64_t bits = (uint64_t)plan->max_rows * sizeof(*plan->sorted) * 8;

	if (!all->apart)
		return false;
	*shift = (uint32_t)__builtin_ctzll(all->apart);
	return plan->longest <= 1ull << *shift && (all->to.end - all->to.start) >> *shift < bits;
}

static bool steps_repeat(struct otte_plan *plan, const struct survey *all, uint32_t shift)
{
	uint64_t *taken = (uint64_t *)plan->sorted, repeated = 0;
	uint64_t last = (all->to.end - all->to.start) >> shift;
	uint32_t i;

	zero_bytes(taken, (last / 64 + 1) * sizeof(*taken));
	for (i = 0; i < plan->run_count; i++) {
		uint64_t step = (range_of(plan, i, plan->to_host).start - all->to.start) >> shift;

		repeated |= taken[step / 64] & 1ull << step % 64;
		taken[step / 64] |= 1ull << step % 64;
	}
	return repeated;
}

static bool destinations_meet(struct otte_plan *plan, const struct survey *all)
{
	uint32_t shift;

	if (all->in_order)
		return false;
	return lie_on_a_grid(plan, all, &shift) ? steps_repeat(plan, all, shift) : sort_destinations(plan);
}

/* Whether a source meets one of the sorted destinations, whose ends become the furthest so far. */
static bool sources_meet(struct otte_plan *plan)
{
	uint32_t i;

	for (i = 1; i < plan->run_count; i++)
		plan->ranges[i].end = max_u64(plan->ranges[i].end, plan->ranges[i - 1].end);
	for (i = 0; i < plan->run_count; i++) {
		struct otte_plan_range source = range_of(plan, i, !plan->to_host);
		uint32_t low = 0, high = plan->run_count; /* how many start before the source ends */

		while (low < high) {
			uint32_t middle = low + (high - low) / 2;

			if (plan->ranges[middle].start < source.end)
				low = middle + 1;
			else
				high = middle;
		}
		if (low && plan->ranges[low - 1].end > source.start)
			return true;
	}
	return false;
}

/* With runs that are single rows, where sources and destinations lie among each other. */
static int check_aliases(struct otte_plan *plan)
{
	uint32_t i;

	for (i = 0; i < plan->run_count; i++) {
		if (meet(range_of(plan, i, true), range_of(plan, i, false)))
			return otte_fail(-EINVAL, "local copy: %lu bytes at %#lx are copied onto a part of themselves",
					 (unsigned long)plan->runs[i].bytes, (unsigned long)plan->runs[i].device);
	}
	plan->overlaps = sort_destinations(plan);
	plan->aliases = sources_meet(plan);
	return 0;
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* How far `to` is behind `from`, if a pitch can be that. */
static bool pitch_fits(const struct otte_plan *plan, uint64_t from, uint64_t to, uint64_t bytes, uint64_t *pitch)
{
	*pitch = to - from;
	return to > from && *pitch >= bytes && *pitch <= plan->max_pitch;
}

/* How many runs from this one on are rows of one 2D operation. */
static uint32_t count_alike(const struct otte_plan *plan, uint32_t at, uint64_t *device_pitch, uint64_t *host_pitch)
{
	const struct otte_plan_run *first = &plan->runs[at], *run = first + 1;
	uint32_t left = plan->run_count - at;

	if (left < 2 || !pitch_fits(plan, first->device, run->device, first->bytes, device_pitch) ||
	    !pitch_fits(plan, first->host, run->host, first->bytes, host_pitch))
		return 1;
	while (run < first + left && run->bytes == first->bytes && run->device - run[-1].device == *device_pitch &&
	       run->host - run[-1].host == *host_pitch && run->same_owners)
		run++;
	return (uint32_t)(run - first);
}

/* How many runs from this one on are one operation, with its pitches where that is more than one. */
static uint32_t op_rows(const struct otte_plan *plan, uint32_t at, uint64_t *device_pitch, uint64_t *host_pitch)
{
	uint32_t rows = plan->aliases ? 1 : count_alike(plan, at, device_pitch, host_pitch);

	return rows >= OTTE_PLAN_2D_ROWS ? rows : 1;
}

static void count_ops(struct otte_plan *plan)
{
	uint64_t device_pitch, host_pitch;
	uint32_t at;

	for (at = 0; at < plan->run_count; at += op_rows(plan, at, &device_pitch, &host_pitch))
		plan->op_count++;
}

void otte_plan_make_ops(struct otte_plan *plan)
{
	struct otte_plan_op *op = plan->ops;
	uint32_t at;

	for (at = 0; at < plan->run_count; at += op->rows, op++) {
		const struct otte_plan_run *run = &plan->runs[at];
		uint64_t device_pitch, host_pitch;
		uint32_t rows = op_rows(plan, at, &device_pitch, &host_pitch);

		*op = (struct otte_plan_op){
			.device = run->device, .host = run->host, .bytes = run->bytes, .rows = rows
		};
		if (rows == 1)
			continue;
		op->device_pitch = device_pitch;
		op->host_pitch = host_pitch;
	}
}

/* Sources and destinations lie among each other, which real devices' and hosts' addresses do not. */
static int make_tangled_runs(struct otte_plan *plan, const struct otte_copy_desc *descs, uint32_t count,
			     uint64_t bytes_left)
{
	bool overlaps;
	int rc;

	rc = make_runs(plan, descs, count, bytes_left, false);
	if (!rc)
		rc = check_aliases(plan);
	if (rc || plan->aliases)
		return rc;
	overlaps = plan->overlaps;
	rc = make_runs(plan, descs, count, bytes_left, true);
	plan->overlaps = overlaps;
	return rc;
}

static int plan_make(struct otte_plan *plan, const struct otte_copy_desc *descs, uint32_t count, uint64_t bytes_left)
{
	struct survey all;
	int rc;

	rc = make_runs(plan, descs, count, bytes_left, true);
	if (rc)
		return rc;
	all = survey(plan);
	if (plan->run_count && meet(all.to, all.from)) {
		rc = make_tangled_runs(plan, descs, count, bytes_left);
		if (rc)
			return rc;
		survey(plan);
	} else {
		plan->overlaps = destinations_meet(plan, &all);
	}
	count_ops(plan);
	return 0;
}

int otte_plan_build(struct otte_plan *plan, const struct otte_copy_desc *descs, uint32_t count, bool to_host,
		    uint64_t bytes_left)
{
	int rc;

	plan->to_host = to_host;
	rc = plan_make(plan, descs, count, bytes_left);
	if (rc)
		plan_clear(plan);
	return rc;
}

void otte_plan_fill_rows(const struct otte_plan *plan, struct otte_copy_row *rows)
{
	uint32_t i;

	for (i = 0; i < plan->run_count; i++) {
		rows[i].device = plan->runs[i].device;
		rows[i].host = plan->runs[i].alias;
		rows[i].extent = plan->runs[i].bytes;
	}
}

uint64_t otte_plan_storage_bytes(uint32_t max_rows, uint32_t slots)
{
	return 2ull * sizeof(struct otte_copy_row) * max_rows * slots;
}
