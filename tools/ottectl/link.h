/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A socket that speaks to the family "otte": one question and its answer, a dump, or notices as they
 * come. Every function complains itself and returns an exit code.
 */
#ifndef OTTECTL_LINK_H
#define OTTECTL_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "message.h"

struct nl_sock;

struct link {
	struct nl_sock *sock;
	int family;
};

/* Finds the family and checks that the module speaks our revision. */
int link_open(struct link *link);
void link_close(struct link *link);

int link_status(struct link *link, struct message *status);

/* Who takes a dump. `take` gets one message, and returns 0 or -ENOMEM; `restart` forgets all of them. */
struct link_taker {
	int (*take)(void *arg, const struct message *message);
	void (*restart)(void *arg);
	void *arg;
};

/* Of a whole dump. It is not consistent if the ledger never stood still for as long as it took. */
struct link_dump {
	uint64_t generation; /* of the last message; 0: there was none */
	bool consistent;
};

/* Dumps again, some times, while the ledger changes in the middle. */
int link_dump(struct link *link, uint8_t command, const struct link_taker *taker,
	      struct link_dump *dump);

/* Opens a socket that gets notices; administrators only. */
int link_listen(struct link *link);

/* Descriptor to wait on for notices. */
int link_descriptor(const struct link *link);

/*
 * Takes what notices are there. *lost: some came and are lost. With EXIT_OK the caller waits again.
 */
int link_notices(struct link *link, int (*take)(void *arg, const struct message *message),
		 void *arg, bool *lost);

#endif
