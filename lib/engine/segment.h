/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OTTE_ENGINE_SEGMENT_H
#define OTTE_ENGINE_SEGMENT_H

#include "engine/peer.h"

/* A caller's handle on a peer. Fixed but for the requests that hold it; one more is engine->direct's. */
struct otte_segment {
	struct otte_engine *engine;
	struct otte_peer *peer;
	uint64_t epoch;                  /* of the engine that it was opened to */
	uint64_t uses;                   /* under peer->lock */
};

void otte_segment_use(struct otte_segment *segment);
void otte_segment_unuse(struct otte_segment *segment);

#endif
