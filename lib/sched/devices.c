/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sched/devices.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/util.h"
#include "sched/rate.h"

#define SCORE_FLOOR 1e-12 /* that an idle NIC's weight is finite */

struct device {
	int node;
	uint64_t link;
	bool told;
	struct otte_rate selection;
	struct otte_transmit transmit;
	uint64_t charged, assigned, posted, completed, slices;
	/* By leases, ever, without the lock. Ended: completed ones and failed ones. */
	_Atomic uint64_t departed, ended, failed;
};

struct otte_devices {
	/* Set once. */
	struct otte_devices_params params;
	const struct otte_nic_priority *priority;
	int *cuda_nodes;
	size_t cuda_count, count;
	uint64_t present; /* ids below count */

	pthread_mutex_t lock;
	uint64_t healthy;
	unsigned turn; /* the NIC that was chosen last, of equal ones */
	unsigned round; /* likewise, going round */
	uint32_t parents; /* requests of several slices since the last probe */
	struct device device[OTTE_NIC_IDS];
};

/* ---- Open and close -------------------------------------------------------------------------- */

static int check(const struct otte_devices_setup *setup)
{
	unsigned rank;

	if (setup->count > OTTE_NIC_IDS)
		return otte_fail(-EINVAL, "%zu NICs, allowed are %d", setup->count, OTTE_NIC_IDS);
	if (!setup->params.unknown_rate)
		return otte_fail(-EINVAL, "rate of unknown links: 0, it has to be more");
	for (rank = 0; rank < OTTE_NIC_RANKS; rank++)
		if (!(setup->params.rank_weights[rank] > 0))
			return otte_fail(-EINVAL, "weight of rank %u: %g, it has to be more than 0",
					 rank, setup->params.rank_weights[rank]);
	return 0;
}

static void set_rate(struct otte_devices *devices, struct device *device, uint64_t rate)
{
	device->link = rate ? rate : devices->params.unknown_rate;
	device->told = rate;
	otte_rate_set_link(&device->selection, (double)device->link);
	otte_rate_set_link(&device->transmit.rate, (double)device->link);
}

static void add_device(struct otte_devices *devices, size_t nic, const struct otte_device *from)
{
	devices->device[nic].node = from->node;
	devices->present |= 1ull << nic;
	devices->healthy |= 1ull << nic;
	set_rate(devices, &devices->device[nic], from->rate);
}

int otte_devices_open(const struct otte_devices_setup *setup, struct otte_devices **devices)
{
	struct otte_devices *made;
	int rc = check(setup);
	size_t i;

	if (rc)
		return rc;
	made = calloc(1, sizeof(*made));
	if (!made)
		return otte_fail(-ENOMEM, "no memory for a choice of NICs");
	made->cuda_nodes = calloc(setup->cuda_count + 1, sizeof(*made->cuda_nodes));
	if (!made->cuda_nodes) {
		free(made);
		return otte_fail(-ENOMEM, "no memory for a choice of NICs");
	}
	made->params = setup->params;
	made->priority = setup->priority;
	made->count = setup->count;
	made->cuda_count = setup->cuda_count;
	for (i = 0; i < setup->cuda_count; i++)
		made->cuda_nodes[i] = setup->cuda_nodes[i];
	for (i = 0; i < setup->count; i++)
		add_device(made, i, &setup->devices[i]);
	made->turn = made->round = OTTE_NIC_IDS - 1;
	pthread_mutex_init(&made->lock, NULL);
	*devices = made;
	return 0;
}

void otte_devices_close(struct otte_devices *devices)
{
	if (!devices)
		return;
	pthread_mutex_destroy(&devices->lock);
	free(devices->cuda_nodes);
	free(devices);
}

void otte_devices_set_healthy(struct otte_devices *devices, unsigned nic, bool healthy)
{
	if (nic >= devices->count)
		return;
	pthread_mutex_lock(&devices->lock);
	devices->healthy &= ~(1ull << nic);
	devices->healthy |= (uint64_t)healthy << nic;
	pthread_mutex_unlock(&devices->lock);
}

void otte_devices_set_rate(struct otte_devices *devices, unsigned nic, uint64_t rate)
{
	if (nic >= devices->count)
		return;
	pthread_mutex_lock(&devices->lock);
	set_rate(devices, &devices->device[nic], rate);
	pthread_mutex_unlock(&devices->lock);
}

/* ---- Who is eligible ------------------------------------------------------------------------- */

/* The hint is of CPUs: device memory is where it is. */
static struct otte_location place_of(const struct otte_devices *devices,
				     struct otte_location location)
{
	if (devices->params.preferred_node < 0 || location.kind == OTTE_LOCATION_CUDA)
		return location;
	return (struct otte_location){ .kind = OTTE_LOCATION_CPU,
				       .index = (uint32_t)devices->params.preferred_node };
}

static int node_of(const struct otte_devices *devices, struct otte_location location)
{
	if (location.kind == OTTE_LOCATION_CPU)
		return (int)location.index;
	if (location.kind == OTTE_LOCATION_CUDA && location.index < devices->cuda_count)
		return devices->cuda_nodes[location.index];
	return OTTE_TOPO_NO_NODE;
}

/* NICs that may be at `node`: those of which nothing is known may. */
static uint64_t local_to(const struct otte_devices *devices, int node)
{
	uint64_t mask = 0;
	size_t nic;

	if (node < 0)
		return UINT64_MAX;
	for (nic = 0; nic < devices->count; nic++)
		if (devices->device[nic].node < 0 || devices->device[nic].node == node)
			mask |= 1ull << nic;
	return mask;
}

/* What does not change: all but health. */
static void find_ranks(const struct otte_devices *devices,
		       const struct otte_devices_request *request, uint64_t ranks[OTTE_NIC_RANKS])
{
	struct otte_location location = place_of(devices, request->location);
	const struct otte_nic_row *row = otte_nic_priority_find(devices->priority, location);
	uint64_t mask = request->allowed & devices->params.mask & devices->present;
	unsigned rank;

	if (devices->params.strict_numa)
		mask &= local_to(devices, node_of(devices, location));
	for (rank = 0; rank < OTTE_NIC_RANKS; rank++)
		ranks[rank] = row ? row->ranks[rank] & mask : 0;
}

uint64_t otte_devices_eligible(const struct otte_devices *devices, struct otte_location location)
{
	const struct otte_devices_request any = { .location = location, .allowed = UINT64_MAX };
	uint64_t ranks[OTTE_NIC_RANKS];

	find_ranks(devices, &any, ranks);
	return ranks[0] | ranks[1] | ranks[2];
}

double otte_devices_weight(const struct otte_devices *devices, struct otte_location location,
			   unsigned nic)
{
	const struct otte_devices_request any = { .location = location, .allowed = UINT64_MAX };
	uint64_t ranks[OTTE_NIC_RANKS];
	unsigned rank = 0;

	find_ranks(devices, &any, ranks);
	while (rank < OTTE_NIC_RANKS - 1 && !(ranks[rank] >> nic & 1))
		rank++;
	return devices->params.rank_weights[rank];
}

static void tell_others(const struct otte_devices *devices, unsigned nic, int64_t bytes)
{
	if (devices->params.moves)
		devices->params.moves(devices->params.arg, nic, bytes);
}

/* ---- What goes by leases --------------------------------------------------------------------- */

void otte_devices_depart(struct otte_devices *devices, unsigned nic, uint64_t bytes)
{
	tell_others(devices, nic, (int64_t)bytes);
	atomic_fetch_add_explicit(&devices->device[nic].departed, bytes, memory_order_relaxed);
}

void otte_devices_arrive(struct otte_devices *devices, unsigned nic, uint64_t bytes, bool completed)
{
	struct device *device = &devices->device[nic];

	if (!completed)
		atomic_fetch_add_explicit(&device->failed, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&device->ended, bytes, memory_order_release);
	tell_others(devices, nic, -(int64_t)bytes);
}

static uint64_t leased(const struct device *device)
{
	/* First, so that nothing has ended that is not seen to have departed. */
	uint64_t ended = atomic_load_explicit(&device->ended, memory_order_acquire);

	return atomic_load_explicit(&device->departed, memory_order_relaxed) - ended;
}

static uint64_t leased_completed(const struct device *device)
{
	uint64_t ended = atomic_load_explicit(&device->ended, memory_order_acquire);
	uint64_t failed = atomic_load_explicit(&device->failed, memory_order_relaxed);

	return ended - min_u64(ended, failed);
}

/* ---- The choice: all under the lock ---------------------------------------------------------- */

struct choice {
	uint64_t eligible;
	uint64_t ranks[OTTE_NIC_RANKS];
	uint64_t others[OTTE_NIC_IDS];
	double scores[OTTE_NIC_IDS];
};

/* The next NIC of the mask after `last`, going round. The mask is not empty. */
static unsigned next_in(uint64_t mask, unsigned last)
{
	uint64_t above = last >= OTTE_NIC_IDS - 1 ? 0 : mask & (UINT64_MAX << (last + 1));

	return (unsigned)__builtin_ctzll(above ? above : mask);
}

static unsigned rank_of(const struct choice *choice, unsigned nic)
{
	unsigned rank = 0;

	while (rank < OTTE_NIC_RANKS - 1 && !(choice->ranks[rank] >> nic & 1))
		rank++;
	return rank;
}

static void score(const struct otte_devices *devices, struct choice *choice, uint64_t slice_bytes)
{
	const struct device *device;
	uint64_t left;
	double bytes;
	unsigned nic;

	for (left = choice->eligible; left; left &= left - 1) {
		nic = (unsigned)__builtin_ctzll(left);
		device = &devices->device[nic];
		/* Of others there may be any number: they write their pages themselves. */
		bytes = (double)device->charged + (double)leased(device) +
			(double)choice->others[nic] + (double)slice_bytes;
		choice->scores[nic] = bytes / device->selection.value *
				      devices->params.rank_weights[rank_of(choice, nic)];
	}
}

static unsigned best(struct otte_devices *devices, const struct choice *choice)
{
	unsigned nic = next_in(choice->eligible, devices->turn), found = nic;
	uint64_t left = choice->eligible;

	for (; left; left &= left - 1) {
		if (choice->scores[nic] < choice->scores[found])
			found = nic;
		nic = next_in(choice->eligible, nic);
	}
	devices->turn = found;
	return found;
}

/* Slices in a row, that a NIC's are beside each other in memory. */
static uint32_t give(struct otte_device_charge *charge, uint32_t from, uint32_t count, unsigned nic)
{
	memset(charge->nics + from, (int)nic, count);
	return from + count;
}

static void share_out(struct otte_devices *devices, const struct choice *choice,
		      struct otte_device_charge *charge)
{
	uint32_t count = charge->slicing.count, given = 0;
	unsigned first = best(devices, choice), nic;
	double total = 0, weight;
	uint32_t part;
	uint64_t left;

	for (left = choice->eligible; left; left &= left - 1)
		total += 1 / (choice->scores[__builtin_ctzll(left)] + SCORE_FLOOR);
	for (left = choice->eligible; left; left &= left - 1) {
		nic = (unsigned)__builtin_ctzll(left);
		weight = 1 / (choice->scores[nic] + SCORE_FLOOR);
		part = (uint32_t)(weight / total * count);
		given = give(charge, given, part < count - given ? part : count - given, nic);
	}
	give(charge, given, count - given, first);
}

static void go_round(struct otte_devices *devices, uint64_t mask, struct otte_device_charge *charge)
{
	uint32_t i;

	for (i = 0; i < charge->slicing.count; i++) {
		devices->round = next_in(mask, devices->round);
		charge->nics[i] = (uint8_t)devices->round;
	}
}

static bool probe_is_due(struct otte_devices *devices)
{
	if (!devices->params.probe_interval || ++devices->parents < devices->params.probe_interval)
		return false;
	devices->parents = 0;
	return true;
}

static uint64_t first_tier(const struct choice *choice)
{
	uint64_t tier = 0;
	unsigned rank;

	for (rank = 0; !tier && rank < OTTE_NIC_RANKS; rank++)
		tier = choice->ranks[rank] & choice->eligible;
	return tier;
}

static void choose(struct otte_devices *devices, struct choice *choice,
		   struct otte_device_charge *charge)
{
	if (!devices->params.smart) {
		go_round(devices, first_tier(choice), charge);
		return;
	}
	if (charge->slicing.count > 1 && probe_is_due(devices)) {
		go_round(devices, choice->eligible, charge);
		return;
	}
	score(devices, choice,
	      charge->slicing.count > 1 ? charge->slicing.block_bytes : charge->length);
	if (charge->slicing.count > 1)
		share_out(devices, choice, charge);
	else
		charge->nics[0] = (uint8_t)best(devices, choice);
}

/* ---- Charges --------------------------------------------------------------------------------- */

static uint64_t slice_bytes(const struct otte_device_charge *charge, uint32_t slice)
{
	uint64_t offset, bytes;

	otte_slice_range(&charge->slicing, charge->length, slice, &offset, &bytes);
	return bytes;
}

static void commit(struct otte_devices *devices, struct otte_device_charge *charge)
{
	struct device *device;
	uint64_t bytes;
	uint32_t i;

	for (i = 0; i < charge->slicing.count; i++) {
		device = &devices->device[charge->nics[i]];
		bytes = slice_bytes(charge, i);
		device->assigned += bytes;
		device->charged += charge->charged ? bytes : 0;
		charge->held |= 1ull << i;
	}
}

static void ask_others(const struct otte_devices *devices, struct choice *choice)
{
	uint64_t left = devices->params.smart ? choice->eligible : 0;
	unsigned nic;

	for (; left; left &= left - 1) {
		nic = (unsigned)__builtin_ctzll(left);
		choice->others[nic] = devices->params.others ?
					      devices->params.others(devices->params.arg, nic) :
					      0;
	}
}

static int refuse(struct otte_location location)
{
	char text[OTTE_LOCATION_TEXT];

	return otte_fail(-ENODEV, "no NIC is eligible for memory at %s",
			 otte_location_text(text, location));
}

int otte_devices_select(struct otte_devices *devices, const struct otte_devices_request *request,
			struct otte_device_charge *charge)
{
	struct choice choice;

	if (!request->slicing.count || request->slicing.count > OTTE_DEVICES_SLICES_MAX)
		return otte_fail(-EINVAL, "%u slices, allowed are 1 to %d", request->slicing.count,
				 OTTE_DEVICES_SLICES_MAX);
	charge->devices = devices;
	charge->slicing = request->slicing;
	charge->length = request->length;
	charge->charged = devices->params.smart;
	charge->held = 0;
	find_ranks(devices, request, choice.ranks);
	choice.eligible = choice.ranks[0] | choice.ranks[1] | choice.ranks[2];
	ask_others(devices, &choice);
	pthread_mutex_lock(&devices->lock);
	choice.eligible &= devices->healthy;
	if (choice.eligible) {
		choose(devices, &choice, charge);
		commit(devices, charge);
	}
	pthread_mutex_unlock(&devices->lock);
	return choice.eligible ? 0 : refuse(request->location);
}

bool otte_device_charge_take(struct otte_device_charge *charge, uint32_t slice,
			     struct otte_device_lease *lease)
{
	uint64_t bit = slice < charge->slicing.count ? 1ull << slice : 0;
	bool taken;

	pthread_mutex_lock(&charge->devices->lock);
	taken = charge->held & bit;
	charge->held &= ~bit;
	if (taken)
		charge->devices->device[charge->nics[slice]].slices++;
	pthread_mutex_unlock(&charge->devices->lock);
	if (taken)
		*lease = (struct otte_device_lease){
			.devices = charge->devices,
			.nic = charge->nics[slice],
			.charged = charge->charged ? slice_bytes(charge, slice) : 0,
		};
	return taken;
}

uint64_t otte_device_charge_abandon(struct otte_device_charge *charge)
{
	uint64_t bytes, total = 0;
	unsigned slice;

	pthread_mutex_lock(&charge->devices->lock);
	for (; charge->held; charge->held &= charge->held - 1) {
		slice = (unsigned)__builtin_ctzll(charge->held);
		bytes = slice_bytes(charge, slice);
		charge->devices->device[charge->nics[slice]].charged -= charge->charged ? bytes : 0;
		total += bytes;
	}
	pthread_mutex_unlock(&charge->devices->lock);
	return total;
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static void posted(struct otte_device_lease *lease, struct device *device, uint64_t bytes,
		   uint64_t now_ns)
{
	if (!lease->under_way && !lease->completed)
		lease->first_ns = now_ns;
	lease->under_way += bytes;
	device->posted += bytes;
	otte_transmit_posted(&device->transmit, bytes, now_ns);
}

static void completed(struct otte_device_lease *lease, struct device *device, uint64_t bytes,
		      uint64_t now_ns)
{
	lease->under_way -= bytes;
	lease->completed += bytes;
	lease->last_ns = now_ns;
	device->completed += bytes;
	otte_transmit_completed(&device->transmit, bytes, now_ns);
}

static void settled(struct otte_device_lease *lease, struct device *device, uint64_t bytes,
		    uint64_t now_ns)
{
	lease->under_way -= bytes;
	lease->doubted -= bytes;
	otte_transmit_settled(&device->transmit, bytes, now_ns);
}

/* How many bytes the event can be of at most. */
static uint64_t room(const struct otte_device_lease *lease, enum otte_device_event event)
{
	if (event == OTTE_DEVICE_POSTED)
		return UINT64_MAX - lease->under_way;
	return event == OTTE_DEVICE_SETTLED ? lease->doubted : lease->under_way - lease->doubted;
}

static void tell(struct otte_device_lease *lease, enum otte_device_event event, uint64_t bytes,
		 uint64_t now_ns)
{
	struct device *device = &lease->devices->device[lease->nic];

	switch (event) {
	case OTTE_DEVICE_POSTED:
		posted(lease, device, bytes, now_ns);
		break;
	case OTTE_DEVICE_COMPLETED:
		completed(lease, device, bytes, now_ns);
		break;
	case OTTE_DEVICE_DROPPED:
		lease->spoiled = true;
		lease->under_way -= bytes;
		otte_transmit_dropped(&device->transmit, bytes, now_ns);
		break;
	case OTTE_DEVICE_DOUBTED:
		lease->spoiled = true;
		lease->doubted += bytes;
		otte_transmit_doubted(&device->transmit, bytes, now_ns);
		break;
	case OTTE_DEVICE_SETTLED:
		settled(lease, device, bytes, now_ns);
		break;
	}
}

int otte_device_lease_tell(struct otte_device_lease *lease, enum otte_device_event event,
			   uint64_t bytes, uint64_t now_ns)
{
	struct otte_devices *devices = lease->devices;
	int rc = -EINVAL;

	if (!devices)
		return rc;
	pthread_mutex_lock(&devices->lock);
	if (bytes <= room(lease, event)) {
		tell(lease, event, bytes, now_ns);
		rc = 0;
	}
	pthread_mutex_unlock(&devices->lock);
	if (!rc && event != OTTE_DEVICE_DOUBTED)
		tell_others(devices, lease->nic,
			    event == OTTE_DEVICE_POSTED ? (int64_t)bytes : -(int64_t)bytes);
	return rc;
}

/* All of it moved, and nothing was in doubt meanwhile. */
static void sample(const struct otte_device_lease *lease, struct device *device)
{
	if (lease->spoiled || !lease->completed || lease->last_ns <= lease->first_ns)
		return;
	otte_rate_sample(&device->selection,
			 (double)lease->completed * (double)NSEC_PER_SEC /
				 (double)(lease->last_ns - lease->first_ns),
			 OTTE_RATE_SELECTION_OLD);
}

int otte_device_lease_end(struct otte_device_lease *lease)
{
	struct otte_devices *devices = lease->devices;
	bool busy;

	if (!devices)
		return -EALREADY;
	pthread_mutex_lock(&devices->lock);
	busy = lease->under_way;
	if (!busy) {
		devices->device[lease->nic].charged -= lease->charged;
		sample(lease, &devices->device[lease->nic]);
		lease->devices = NULL;
	}
	pthread_mutex_unlock(&devices->lock);
	return busy ? -EBUSY : 0;
}

int otte_devices_read(struct otte_devices *devices, unsigned nic, struct otte_device_load *load)
{
	const struct device *device;

	if (nic >= devices->count)
		return -ENOENT;
	device = &devices->device[nic];
	pthread_mutex_lock(&devices->lock);
	*load = (struct otte_device_load){
		.link = device->link,
		.selection = device->selection.value,
		.transmit = device->transmit.rate.value,
		.told = device->told,
		.measured = device->transmit.rate.sampled,
		.healthy = devices->healthy >> nic & 1,
		.charged = device->charged,
		.under_way = device->transmit.under_way + leased(device),
		.doubted = device->transmit.doubted,
		.assigned = device->assigned,
		.posted = device->posted + atomic_load(&device->departed),
		.completed = device->completed + leased_completed(device),
		.slices = device->slices,
	};
	pthread_mutex_unlock(&devices->lock);
	return 0;
}
