/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages as the module makes them; each in static memory, until the next one. */
#ifndef OTTECTL_BUILD_H
#define OTTECTL_BUILD_H

#include "../../../tools/ottectl/message.h"

struct nl_msg;

/* Begins a message of a command; attributes follow. */
struct nl_msg *build_begin(uint8_t command);
void build_u32(struct nl_msg *msg, int attribute, uint32_t value);
void build_u64(struct nl_msg *msg, int attribute, uint64_t value);

/* Adds all that a message of that command has, numbered by attribute; but not `except`. */
void build_all(struct nl_msg *msg, uint8_t command, int except);

/* One that belongs to each command, with numbers given: of OWNER, ID, and so on. */
struct message build_client(uint64_t id, uint32_t uid, const char *comm);
struct message build_loan(uint64_t lender, uint64_t borrower, uint32_t state, uint64_t bytes);
struct message build_region(uint64_t owner, uint64_t bytes);
struct message build_record(uint64_t owner, uint64_t bytes, uint64_t age_ns);

/* Takes the message apart, which must succeed, and frees it. */
struct message build_end(struct nl_msg *msg);

#endif
