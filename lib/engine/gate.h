/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine's slot gate, as slots.domain names one, and who looks at the peers when it opens.
 *
 * Windows ask the gate whenever they would dispatch. What it holds back waits in its window; the engine's
 * thread looks at all peers at the instant that the gate gave, by a timer of its own, since a tick is half a
 * slot long.
 */
#ifndef OTTE_ENGINE_GATE_H
#define OTTE_ENGINE_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "sched/slots.h"

/* So many NICs that the domain does not count are told of, each once however often peers connect. */
#define OTTE_GATE_UNCOUNTED 16

struct otte_engine;

struct otte_gate {
	_Atomic bool open;               /* there is one; set once that is so */
	struct otte_slots slots;
	struct otte_watch timer;         /* in progress.control */
	pthread_mutex_t lock;            /* the rest */
	uint64_t timer_ns;               /* what it is set to; UINT64_MAX: nothing */
	char uncounted[OTTE_GATE_UNCOUNTED][OTTE_SLOTS_NAME_MAX]; /* NICs that the log has; "" behind them */
};

/* From the config; without a domain there is no gate. Once progress has started, before there are peers. */
int otte_gate_open(struct otte_engine *engine);
/* No thread runs the loop any more. */
void otte_gate_close(struct otte_engine *engine);
/* Nor is there the transport, which may have told of bytes until its end. */
void otte_gate_fini(struct otte_engine *engine);

/* What a window is to ask; NULL: nobody. */
struct otte_slots *otte_gate_slots(struct otte_engine *engine);

/*
 * By its name, which has to be the same in all processes of the domain, the NIC's index there;
 * OTTE_SLOTS_NO_NIC: the domain, if any, does not count it.
 */
uint8_t otte_gate_nic(struct otte_engine *engine, const char *name);

/* The peers are to be looked at no later than at `at_ns`. */
void otte_gate_look_at(struct otte_engine *engine, uint64_t at_ns);

#endif
