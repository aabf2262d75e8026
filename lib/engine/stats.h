/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_ENGINE_STATS_H
#define OTTE_ENGINE_STATS_H

#include "otte/otte.h"

struct otte_engine;

/* One JSON object of counters and of who we are; the caller frees it. NULL: no memory. */
char *otte_stats_json(const struct otte_engine *engine, const struct otte_stats *stats);

/* For how long what took so long to count is told. */
uint64_t otte_stats_age(uint64_t took_ns);

#endif
