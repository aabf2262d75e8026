/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "pin.h"

#include <errno.h>
#include <sched.h>

int pin_to(int cpu)
{
	cpu_set_t cpus;

	if (cpu < 0)
		return 0;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	return sched_setaffinity(0, sizeof(cpus), &cpus) ? -errno : 0;
}
