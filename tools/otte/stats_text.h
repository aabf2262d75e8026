/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What an engine says of itself, an object of counters and an array of its NICs, as text. */
#ifndef OTTE_TOOL_STATS_TEXT_H
#define OTTE_TOOL_STATS_TEXT_H

#include <jansson.h>
#include <stdio.h>

/* A line for each counter, and one for each value of each NIC: "nic0.slices". */
void stats_print(FILE *to, const json_t *stats);

/* OpenMetrics text: gauges otte_engine_*, and otte_nic_* with the device and its port. */
void stats_print_metrics(FILE *to, const json_t *stats);

#endif
