/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A network namespace with nothing but its own loopback, and a way into it for one port. */
#ifndef OTTE_TESTS_ATTEST_RELAY_H
#define OTTE_TESTS_ATTEST_RELAY_H

#include <pthread.h>
#include <stdint.h>

struct relay {
	pthread_t thread;
	int listener;     /* in the namespace of whoever made the relay */
	uint16_t port;    /* of that */
	uint16_t target;  /* on the loopback in the other one */
	int home;
};

/* The calling thread, and those that it starts, are in a new namespace then. -1: it may not. */
int relay_enter(struct relay *relay);
/* Back. From now on what comes to relay->port goes to relay->target in there. */
void relay_leave(struct relay *relay);
void relay_close(struct relay *relay);

#endif
