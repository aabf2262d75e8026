/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Allocations and system calls that fail on demand.
 *
 * The program is linked with --wrap for every call in mk/sweep.mk, so that the library's own objects
 * come here first; jansson is given the same allocator, and without a sanitizer malloc() itself is
 * replaced, for what the C library allocates in the library's name. Calls that cannot fail on a
 * machine that works (close, munmap, EPOLL_CTL_DEL, eight bytes to and from an eventfd) are left alone.
 */
#ifndef OTTE_TESTS_FAULT_H
#define OTTE_TESTS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
	FAULT_NONE = 0,
	FAULT_MEMORY = 1, /* the n-th allocation */
	FAULT_RESET = 2,  /* the n-th system call; a connection that fails is reset for good */
	FAULT_SCARCE = 3, /* the n-th system call, for lack of something that may be there the next time */
	FAULT_STORM = 4,  /* one in n calls that may be asked again is, or moves a few bytes only */
	FAULT_MODULE = 5, /* the n-th call of the simulated module's that is about a loan to a local client */
};

enum fault_where {
	FAULT_HERE = 0,      /* in the calling thread */
	FAULT_ELSEWHERE = 1, /* in all others */
	FAULT_ANYWHERE = 2,
};

void fault_start(void);
/* For the simulated module: whether this call fails. */
bool fault_of_module(const char *call);
void fault_arm(enum fault_kind kind, enum fault_where where, long nth);
/* The call that failed since, or NULL. */
const char *fault_disarm(void);
/* Whether a call has failed, or was touched by a storm, since it was armed. */
bool fault_struck(void);
/* How many calls a storm has touched. */
uint64_t fault_count(void);
/* Allocations of the library and of jansson that nobody has freed. */
long fault_live(void);

#endif
