/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "memory.h"

#include <inttypes.h>
#include <stdio.h>

#include "../common/output.h"
#include "tool.h"

/* UINT64_MAX where the system does not say. */
static uint64_t available_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	uint64_t kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib ? kib * KIB : UINT64_MAX;
}

int check_memory(uint64_t bytes, const char *remedy)
{
	uint64_t available = available_bytes();
	char needs[32], has[32];

	if (bytes < available / 10 * 9)
		return EXIT_OK;
	return complain(EXIT_LOCAL, "this needs %s of memory, and %s are free: %s",
			format_bytes(bytes, needs), format_bytes(available, has), remedy);
}
