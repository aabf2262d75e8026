/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A peer that does everything right, frame by frame on plain sockets, but for one thing. */
#ifndef OTTE_TESTS_WRONG_PEER_H
#define OTTE_TESTS_WRONG_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "otte/otte.h"

enum wrong_way {
	WRONG_VERSION = 0, /* it speaks the next wire version */
	WRONG_ANSWERS = 1, /* its answers are malformed */
	WRONG_DEAF = 2,    /* once it is open it reads its control connection no more */
};

struct wrong_peer {
	enum wrong_way way;
	pthread_t thread;
	_Atomic bool stop;
	int listener;
	char address[OTTE_ADDRESS_MAX];
};

void wrong_peer_start(struct wrong_peer *peer, enum wrong_way way);
void wrong_peer_end(struct wrong_peer *peer);

#endif
