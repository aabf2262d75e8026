/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Handles belong to the process that made them. A forked child gets an error from every call on one, and
 * none of the descriptors behind them (base/fd.h), so that its parent's death is seen by peers at once.
 */
#ifndef OTTE_ENGINE_FORK_H
#define OTTE_ENGINE_FORK_H

#include <stdatomic.h>

#include "base/error.h"

/* Counts forks seen from the child's side; an engine remembers the value it was created under. */
extern _Atomic unsigned otte_fork_generation;

/* Arrange for both. 0 or -ENOMEM. */
int otte_fork_watch(void);

/* 0, or -EOWNERDEAD in a forked child. */
int otte_fork_check(unsigned generation);

#endif
