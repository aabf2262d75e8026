/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_ENGINE_DIRECT_H
#define OTTE_ENGINE_DIRECT_H

#include <stdbool.h>

struct otte_batch;
struct otte_engine;
struct otte_request;

/* Once there are a transport and a gate, or none: what may be moved so at all. */
void otte_direct_open(struct otte_engine *engine);

/*
 * Move the request as the batch's only one. True: the batch is finished; *failed: how many requests of it have failed.
 * False: it is to be submitted like any other. Then the batch may have no requests, if they were all finished.
 */
bool otte_direct_run(struct otte_batch *batch, const struct otte_request *request, int *failed);

#endif
