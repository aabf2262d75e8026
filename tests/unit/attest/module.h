/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The module as far as it attests: a simulated one in this process, or, with OTTE_TEST_LEDGER=kernel, the real one.
 * Engines that are made by the program get their attestor from here, with a twist.
 */
#ifndef OTTE_TESTS_ATTEST_MODULE_H
#define OTTE_TESTS_ATTEST_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/attest.h"

/* What the next engine does otherwise than it should. */
struct twist {
	bool none;       /* there is no module */
	unsigned load;   /* its module is another load: that byte of its id is another, counted from 1 */
	bool forgetful;  /* it has no memory to await a nonce */
	bool full;       /* the module keeps no more nonces of it */
	bool mute;       /* it proves nothing, and says that it did */
	uint64_t hears;  /* the client that it takes every proof for; 0: as the module says */
	uint64_t claims; /* the id that it gives as its own; 0: its own */
};

extern struct twist twist;

bool module_is_real(void);
/* A client of the module in this process, beside those of engines. */
void module_client_open(struct otte_attestor *attestor);
void module_client_close(struct otte_attestor *attestor);
/* From now on it keeps nobody's nonces, or does again. Where it is simulated. */
void module_fill(bool full);
/* How many nonces are awaited by anybody. Where it is simulated. */
unsigned module_awaited(void);
/* That of the engine made last, as the module knows it. */
uint64_t module_last_client(void);

#endif
