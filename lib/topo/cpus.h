/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CPUs near memory nodes. No state. */
#ifndef OTTE_TOPO_CPUS_H
#define OTTE_TOPO_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "topo/topo.h"

/*
 * Of `allowed` those that are at one of these nodes, in which OTTE_TOPO_NO_NODE says nothing. False:
 * there is none, or no node of them is known, and *cpus are all that are allowed.
 */
bool otte_topo_cpus_near(const struct otte_topo *topo, const int *nodes, size_t count,
			 const cpu_set_t *allowed, cpu_set_t *cpus);

#endif
