/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Faults that a test has armed, and how often each verb was called. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "sim/verbs/private.h"

#define FAULTS 64

static struct armed {
	struct sim_fault fault;
	unsigned int passed; /* that went well before it */
	unsigned int hits;
	bool over;
} faults[FAULTS];
static unsigned int fault_count;
static unsigned long calls[SIM_VERBS_COUNT];

unsigned int sim_fault_arm(const struct sim_fault *fault)
{
	unsigned int id;

	pthread_mutex_lock(&sim_lock);
	if (fault_count == FAULTS)
		sim_abort("more than %d faults", FAULTS);
	faults[fault_count] = (struct armed){ .fault = *fault };
	id = ++fault_count;
	pthread_mutex_unlock(&sim_lock);
	return id;
}

void sim_fault_disarm(unsigned int id)
{
	pthread_mutex_lock(&sim_lock);
	faults[id - 1].over = true;
	pthread_mutex_unlock(&sim_lock);
}

unsigned int sim_fault_hits(unsigned int id)
{
	unsigned int hits;

	pthread_mutex_lock(&sim_lock);
	hits = faults[id - 1].hits;
	pthread_mutex_unlock(&sim_lock);
	return hits;
}

void sim_faults_reset(void)
{
	fault_count = 0;
	memset(calls, 0, sizeof(calls));
}

unsigned long sim_calls(enum sim_verb verb)
{
	unsigned long count;

	pthread_mutex_lock(&sim_lock);
	count = calls[verb];
	pthread_mutex_unlock(&sim_lock);
	return count;
}

/* ---- Striking -------------------------------------------------------------------------------- */

static bool is_of(const void *target, const void *const *of)
{
	if (!target)
		return true;
	for (; *of; of++)
		if (*of == target)
			return true;
	return false;
}

static bool fits(const struct armed *armed, enum sim_fault_kind kind, enum sim_verb verb,
		 const void *const *of)
{
	return !armed->over && armed->fault.kind == kind &&
	       (kind != SIM_FAULT_CALL || armed->fault.verb == verb) &&
	       is_of(armed->fault.target, of);
}

/* Every fault that fits counts what it sees; the oldest that is ripe strikes. */
static const struct sim_fault *strike(enum sim_fault_kind kind, enum sim_verb verb,
				      const void *const *of)
{
	struct armed *ripe = NULL;
	unsigned int i;

	for (i = 0; i < fault_count; i++) {
		if (!fits(&faults[i], kind, verb, of))
			continue;
		if (faults[i].passed < faults[i].fault.after)
			faults[i].passed++;
		else if (!ripe)
			ripe = &faults[i];
	}
	if (!ripe)
		return NULL;
	ripe->over = ++ripe->hits == ripe->fault.times;
	return &ripe->fault;
}

const struct sim_fault *sim_fault_strikes(enum sim_fault_kind kind, const void *const *of)
{
	return strike(kind, SIM_VERBS_COUNT, of);
}

const struct sim_fault *sim_fault_post(enum sim_verb verb, const void *const *of)
{
	calls[verb]++;
	return strike(SIM_FAULT_CALL, verb, of);
}

int sim_fault_call(enum sim_verb verb, const void *const *of)
{
	const struct sim_fault *fault = sim_fault_post(verb, of);

	return fault ? fault->error : 0;
}
