/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the ledger counts, and who is charged, as messages, files, options and JSON call it. NAME is called
 * with the end of an enumerator of the module's ABI and its name. Who has both compares their numbers with
 * OTTE_NAME_COUNT: a resource or a level of the ABI without a name does not compile.
 */
#ifndef OTTE_BASE_NAMES_H
#define OTTE_BASE_NAMES_H

/* OTTE_RES_... */
#define OTTE_RESOURCE_NAMES(NAME)                       \
	NAME(CLIENTS, "clients")                        \
	NAME(REGIONS, "regions")                        \
	NAME(REGISTERED_BYTES, "registered_bytes")      \
	NAME(PINNED_BYTES, "pinned_bytes")              \
	NAME(LENT_BYTES, "lent_bytes")                  \
	NAME(LOANS, "loans")                            \
	NAME(RETAINED_BYTES, "retained_bytes")          \
	NAME(HOLDS, "holds")

/* OTTE_LEVEL_... */
#define OTTE_LEVEL_NAMES(NAME)                          \
	NAME(MODULE, "module")                          \
	NAME(CGROUP, "cgroup")                          \
	NAME(USER, "user")                              \
	NAME(CLIENT, "client")

#define OTTE_NAME_ONE(id, name) +1
#define OTTE_NAME_COUNT(names)	(0 names(OTTE_NAME_ONE))

#endif
