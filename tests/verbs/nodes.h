/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which verbs devices a process finds: as in a container that was given some of the host's. So one
 * guest is two hosts.
 */
#ifndef OTTE_TESTS_VERBS_NODES_H
#define OTTE_TESTS_VERBS_NODES_H

/* This process, and what it starts, has those alone from now on whose names begin so. As root. */
void nodes_keep(const char *prefix);

#endif
