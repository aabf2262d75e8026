/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What one check of the slot gate costs: the clock is read and the gate asked for a Low request, as a window does it.
 *
 *   slot_check clock|alone|ruled CHECKS
 *
 * clock: the clock-only gate. alone: in the module's domain, and nobody waits above. ruled: somebody does, so that the
 * pattern is read. Prints ns a check. Who counts system calls compares two runs of different lengths.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "otte/otte.h"

#define LOW 4u

static struct otte_engine *member(const char *gate)
{
	struct otte_engine *engine;
	struct otte_config config;

	if (otte_config_init(&config, sizeof(config)))
		goto fail;
	config.stats_socket = 0;
	config.listen_address[0] = 0;
	config.ledger = strcmp(gate, "clock") ? OTTE_LEDGER_KERNEL : OTTE_LEDGER_PROCESS;
	strcpy(config.slots_domain, "default");
	if (!otte_engine_create(&config, &engine))
		return engine;
fail:
	fprintf(stderr, "slot_check: %s\n", otte_error_text());
	exit(3);
}

int main(int argc, char **argv)
{
	struct otte_engine *engine, *above = NULL;
	uint64_t checks, again_ns, begin_ns, check_ns, clock_ns, i, open = 0;

	if (argc != 3)
		return 2;
	checks = strtoull(argv[2], NULL, 0);
	if (!checks)
		return 2;
	engine = member(argv[1]);
	if (!strcmp(argv[1], "ruled")) {
		above = member(argv[1]);
		otte_slots_ask(&above->gate.slots, OTTE_PRIORITY_HIGH, 1);
	}
	begin_ns = otte_now_ns();
	for (i = 0; i < checks; i++) {
		again_ns = UINT64_MAX;
		open += otte_slots_admit(&engine->gate.slots, LOW, otte_now_ns(), &again_ns) != 0;
	}
	check_ns = otte_now_ns() - begin_ns;
	begin_ns = otte_now_ns();
	for (i = 0; i < checks; i++)
		otte_now_ns();
	clock_ns = otte_now_ns() - begin_ns;
	printf("%s: %.1f ns a check, %.1f of them the clock; %.3f of %" PRIu64 " open\n", argv[1],
	       (double)check_ns / (double)checks, (double)clock_ns / (double)checks,
	       (double)open / (double)checks, checks);
	if (above)
		otte_slots_answered(&above->gate.slots, OTTE_PRIORITY_HIGH, 1);
	return otte_engine_destroy(above) || otte_engine_destroy(engine);
}
