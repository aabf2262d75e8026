/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One message of the generic netlink family "otte", taken apart. No socket and no output: what comes
 * in are bytes that nobody has looked at yet, what goes out is complete and of the right sizes, or a
 * fault that names the attribute.
 */
#ifndef OTTECTL_MESSAGE_H
#define OTTECTL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/netlink.h>
#include <linux/otte.h>
#include <linux/otte_netlink.h>

#define MESSAGE_LOAD_ID_LEN 16
#define MESSAGE_EPOCHS_MAX 2

/* What a message says; numbers of attributes that are not there are 0. */
struct message {
	uint8_t command; /* enum otte_nl_command */
	uint64_t present; /* a bit for each enum otte_nl_attr */
	uint64_t number[OTTE_A_COUNT]; /* of those that are one u32 or u64 */
	char name[OTTE_NAME_LEN];
	char comm[OTTE_COMM_LEN + 1];
	uint8_t load_id[MESSAGE_LOAD_ID_LEN];
	uint8_t peer[OTTE_PEER_LEN];
	/* Those that are repeated, in the order of their enum. What a later module adds is cut off. */
	uint64_t usage[OTTE_RES_COUNT];
	uint64_t limit[OTTE_RES_COUNT];
	struct otte_slot_epoch epoch[MESSAGE_EPOCHS_MAX];
	char nic[OTTE_NICS_MAX][OTTE_NAME_LEN];
	unsigned usages, limits, epochs, nics;
};

/* Why a message was not taken. */
struct message_fault {
	int attribute; /* enum otte_nl_attr, or OTTE_A_UNSPEC for the message itself */
	char text[96];
};

static inline bool message_has(const struct message *message, enum otte_nl_attr attribute)
{
	return message->present & (UINT64_C(1) << attribute);
}

/*
 * Takes apart the message at `head`, of which `room` bytes are there. Attributes that are not known
 * are passed over. -EBADMSG with a fault if a length is wrong, a string has no end, or something
 * that belongs to the command is missing.
 */
int message_parse(const struct nlmsghdr *head, size_t room, struct message *message,
		  struct message_fault *fault);

#endif
