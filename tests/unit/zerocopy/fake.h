/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The calls in which a kernel takes memory without a copy and lets go of it, so that tests decide
 * when it does, and in which order. Everything else goes to the real ones.
 */
#ifndef OTTE_TESTS_FAKE_H
#define OTTE_TESTS_FAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Notifications stay in the kernel. */
extern _Atomic bool fake_withholds;
/* A send without a copy finds no room for its notification. */
extern _Atomic bool fake_refuses;
/* Connections that are made now cannot send without a copy. */
extern _Atomic bool fake_lacks;
/* Sources find nothing to read. */
extern _Atomic bool fake_deaf;
/* Requesters find neither answers nor notifications. */
extern _Atomic bool fake_silent;
/* No socket at all: sends succeed, and notifications are those of fake_tell(). */
extern bool fake_all;

/* The next read of the error queue says that sends low to high are over. */
void fake_tell(uint32_t low, uint32_t high, bool copied);

#endif
