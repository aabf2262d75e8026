/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's body on this machine, thread after thread: for simulated devices and tests. */
#include <string.h>

#include "cuda/kernel/copy.h"

#define FN static inline
#define UNROLL
#define LOADS 4
#define LOAD(unit, width, from) memcpy(&(unit), (const void *)(from), width)
#define STORE(unit, width, to) memcpy((void *)(to), &(unit), width)
#define LOAD_IF(yes, unit, width, from)            \
	do {                                       \
		if (yes)                           \
			LOAD(unit, width, from);   \
	} while (0)
#define STORE_IF(yes, unit, width, to)             \
	do {                                       \
		if (yes)                           \
			STORE(unit, width, to);    \
	} while (0)

struct unit {
	unsigned char bytes[16];
};

#include "cuda/kernel/body.h"

void otte_copy_run(const struct otte_copy_launch *launch, otte_copy_u32 ctas)
{
	otte_copy_u32 threads = ctas * OTTE_COPY_CTA_THREADS, thread;

	for (thread = 0; thread < threads; thread++)
		copy_share(launch, thread, threads);
}
