/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The threads that serve peers, the listener, and the stats socket. */
#ifndef OTTE_ENGINE_SERVE_H
#define OTTE_ENGINE_SERVE_H

struct otte_engine;

/* Loops and the listening socket; nothing runs yet. Sets engine->address. */
int otte_serve_open(struct otte_engine *engine);
int otte_serve_start(struct otte_engine *engine);
void otte_serve_stop(struct otte_engine *engine);
/* After stop, and after the transport is gone. */
void otte_serve_close(struct otte_engine *engine);

/* Tell peers that nothing new will be admitted. */
void otte_serve_say_bye(struct otte_engine *engine);

#endif
