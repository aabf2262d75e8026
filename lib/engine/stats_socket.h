/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters for whoever asks on this machine: an abstract UNIX stream socket "otte/PID" (further engines
 * of one process: "otte/PID.1" and so on) that writes one JSON object to a caller of the same uid, or to
 * root, and hangs up. Runs in serve loop 0.
 */
#ifndef OTTE_ENGINE_STATS_SOCKET_H
#define OTTE_ENGINE_STATS_SOCKET_H

struct otte_engine;
struct otte_stats_socket;

/* *socket is NULL where stats.socket is off. */
int otte_stats_socket_open(struct otte_engine *engine, struct otte_stats_socket **socket);
/* Listens again after a pause. The thread of serve loop 0 calls it now and then; NULL is allowed. */
void otte_stats_socket_tick(struct otte_stats_socket *socket);
void otte_stats_socket_close(struct otte_stats_socket *socket);

#endif
