/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * otte: what the ledger holds, for monitors. Generic netlink family "otte".
 */
#ifndef _UAPI_LINUX_OTTE_NETLINK_H
#define _UAPI_LINUX_OTTE_NETLINK_H

/**
 * DOC: Dumps and notices
 *
 * The family lives in the initial network namespace. Anybody there may ask; what is answered
 * depends on who sent the request: an administrator (CAP_SYS_ADMIN in the initial user namespace,
 * for the socket's opener and the sender) sees everything, others what belongs to their user id:
 * their clients and regions, loans on whose side they are, and what is retained for them. Process
 * ids are those of the sender's pid namespace, or 0 where there is none; user and group ids those
 * of the sender's user namespace, or the overflow id.
 *
 * Each message of a dump carries %OTTE_A_GENERATION, which grows with every change of what dumps
 * show. Two equal numbers around a dump mean that nothing changed meanwhile; the kernel also sets
 * NLM_F_DUMP_INTR where it changed between two parts of one dump. There are no addresses in it.
 *
 * Notices go to the multicast group %OTTE_NL_GROUP_EVENTS, which only administrators may join. They
 * may be lost (ENOBUFS); the dump is the truth.
 *
 * Attributes may be added; unknown ones are to be passed over. Numbers are in host byte order.
 */

#define OTTE_NL_FAMILY		"otte"
#define OTTE_NL_VERSION		1
#define OTTE_NL_GROUP_EVENTS	"events"

/**
 * enum otte_nl_command - requests without attributes, and the notice
 * @OTTE_NL_UNSPEC: none
 * @OTTE_NL_STATUS: a single answer: revision, load id, generation, draining; for each resource
 *	usage and limit of the module
 * @OTTE_NL_CLIENTS: dump of clients
 * @OTTE_NL_REGIONS: dump of regions
 * @OTTE_NL_LOANS: dump of loans that are offered, exposed, or ended and not yet read about
 * @OTTE_NL_RETAINED: dump of what lacks evidence
 * @OTTE_NL_DOMAINS: dump of domains; everybody sees all of them
 * @OTTE_NL_ACCOUNTS: dump of usage and limits; users see the module's and their own user's account
 * @OTTE_NL_NOTICE: multicast: OTTE_A_NOTICE, OTTE_A_ID, OTTE_A_GENERATION; for QUOTA the account
 * @OTTE_NL_COMMANDS: number of commands
 */
enum otte_nl_command {
	OTTE_NL_UNSPEC,
	OTTE_NL_STATUS,
	OTTE_NL_CLIENTS,
	OTTE_NL_REGIONS,
	OTTE_NL_LOANS,
	OTTE_NL_RETAINED,
	OTTE_NL_DOMAINS,
	OTTE_NL_ACCOUNTS,
	OTTE_NL_NOTICE,
	OTTE_NL_COMMANDS,
};

/**
 * enum otte_nl_notice - what happened
 * @OTTE_NL_NOTICE_CLIENT_NEW: a client was initialised
 * @OTTE_NL_NOTICE_CLIENT_GONE: a client's file or address space is gone
 * @OTTE_NL_NOTICE_RETAINED: something was put on the retained list
 * @OTTE_NL_NOTICE_RELEASED: it left that list
 * @OTTE_NL_NOTICE_QUOTA: a client was refused for want of budget
 * @OTTE_NL_NOTICE_FENCED: an administrator fenced a client
 */
enum otte_nl_notice {
	OTTE_NL_NOTICE_CLIENT_NEW,
	OTTE_NL_NOTICE_CLIENT_GONE,
	OTTE_NL_NOTICE_RETAINED,
	OTTE_NL_NOTICE_RELEASED,
	OTTE_NL_NOTICE_QUOTA,
	OTTE_NL_NOTICE_FENCED,
};

/**
 * enum otte_nl_kind - of a retained record
 * @OTTE_NL_KIND_REGION: its owner is gone while loans are exposed
 * @OTTE_NL_KIND_LOAN: its borrower is gone without accepted evidence
 * @OTTE_NL_KIND_HOLD: native object declared by its owner
 */
enum otte_nl_kind {
	OTTE_NL_KIND_REGION,
	OTTE_NL_KIND_LOAN,
	OTTE_NL_KIND_HOLD,
};

/**
 * enum otte_nl_region_state - as dumped
 * @OTTE_NL_REGION_LIVE: registered
 * @OTTE_NL_REGION_CLOSING: deleted by its owner, loans are still exposed
 * @OTTE_NL_REGION_RETAINED: its owner is gone, loans are still exposed
 * @OTTE_NL_REGION_GONE: its backing is being released
 */
enum otte_nl_region_state {
	OTTE_NL_REGION_LIVE,
	OTTE_NL_REGION_CLOSING,
	OTTE_NL_REGION_RETAINED,
	OTTE_NL_REGION_GONE,
};

/**
 * enum otte_nl_loan_state - as dumped
 * @OTTE_NL_LOAN_OFFERED: not yet accepted
 * @OTTE_NL_LOAN_EXPOSED: in the borrower's reach
 * @OTTE_NL_LOAN_SETTLED: over, with evidence
 * @OTTE_NL_LOAN_WITHDRAWN: never accepted
 */
enum otte_nl_loan_state {
	OTTE_NL_LOAN_OFFERED,
	OTTE_NL_LOAN_EXPOSED,
	OTTE_NL_LOAN_SETTLED,
	OTTE_NL_LOAN_WITHDRAWN,
};

/**
 * enum otte_nl_attr - attributes of all messages
 * @OTTE_A_UNSPEC: none
 * @OTTE_A_PAD: padding
 * @OTTE_A_GENERATION: u64
 * @OTTE_A_ID: u64: of the object; of the client or record of a notice
 * @OTTE_A_NOTICE: u32: enum otte_nl_notice
 * @OTTE_A_REVISION: u32: OTTE_ABI_REVISION
 * @OTTE_A_LOAD_ID: 16 bytes
 * @OTTE_A_DRAINING: u32: 1 while admission is stopped
 * @OTTE_A_OWNER: u64: client: a region's owner, a loan's lender, who is charged for a record
 * @OTTE_A_BORROWER: u64: client, absent for a remote peer
 * @OTTE_A_REGION: u64: a loan's region; shown to its lender
 * @OTTE_A_TGID: u32: process
 * @OTTE_A_UID: u32
 * @OTTE_A_GID: u32
 * @OTTE_A_CGROUP: u64: id of a client's cgroup, 0 if unknown
 * @OTTE_A_START_NS: u64: start of its process, boottime
 * @OTTE_A_COMM: string
 * @OTTE_A_FENCED: u32: 1 for a client fenced by an administrator
 * @OTTE_A_DOMAIN: u64: a client's domain, 0 for none
 * @OTTE_A_STATE: u32: enum otte_nl_region_state, enum otte_nl_loan_state
 * @OTTE_A_BACKING: u32: enum otte_backing
 * @OTTE_A_ACCESS: u32: OTTE_READ, OTTE_WRITE: of a region
 * @OTTE_A_BYTES: u64: of a region, loan or record
 * @OTTE_A_OFFSET: u64: of a loan in its region; shown to its lender
 * @OTTE_A_DIRECTION: u32: of a loan
 * @OTTE_A_FLAGS: u32: OTTE_LOAN_*
 * @OTTE_A_ACCEPTED: u32: evidence that the lender accepts
 * @OTTE_A_EVIDENCE: u32: why a loan ended, 0 if it has not
 * @OTTE_A_PEER: OTTE_PEER_LEN bytes, remote loans
 * @OTTE_A_INCARNATION: u64: of that peer
 * @OTTE_A_TAG: u64: the owner's; shown to it and to the borrower
 * @OTTE_A_WORD: u64: a region's status word
 * @OTTE_A_LOANS: u32: loans of a region, offered or exposed
 * @OTTE_A_EXPOSED: u32: those of them that are exposed
 * @OTTE_A_KIND: u32: enum otte_nl_kind
 * @OTTE_A_REASON: u32: errno value of a hold
 * @OTTE_A_AGE_NS: u64: since a record was listed
 * @OTTE_A_NAME: string: of a domain
 * @OTTE_A_MODE: u32: of a domain
 * @OTTE_A_MEMBERS: u32: of a domain
 * @OTTE_A_NOW_NS: u64: host's CLOCK_MONOTONIC when a domain was looked at
 * @OTTE_A_EPOCH: struct otte_slot_epoch: in force, then another one if it is pending
 * @OTTE_A_NIC: string, in the order of index; empty for none
 * @OTTE_A_SUMS: u64: times that a domain's load was summed
 * @OTTE_A_SUMMING: u32: 1 while it is summed at every interval
 * @OTTE_A_LEVEL: u32: enum otte_level
 * @OTTE_A_KEY: u64: of an account
 * @OTTE_A_USAGE: u64 for each enum otte_resource
 * @OTTE_A_LIMIT: u64 for each enum otte_resource, U64_MAX for none
 * @OTTE_A_RESOURCE: u32: enum otte_resource of a refusal; USAGE and LIMIT are single numbers then
 * @OTTE_A_REQUESTED: u64: of a refusal
 * @OTTE_A_COUNT: number of attributes
 */
enum otte_nl_attr {
	OTTE_A_UNSPEC,
	OTTE_A_PAD,
	OTTE_A_GENERATION,
	OTTE_A_ID,
	OTTE_A_NOTICE,
	OTTE_A_REVISION,
	OTTE_A_LOAD_ID,
	OTTE_A_DRAINING,
	OTTE_A_OWNER,
	OTTE_A_BORROWER,
	OTTE_A_REGION,
	OTTE_A_TGID,
	OTTE_A_UID,
	OTTE_A_GID,
	OTTE_A_CGROUP,
	OTTE_A_START_NS,
	OTTE_A_COMM,
	OTTE_A_FENCED,
	OTTE_A_DOMAIN,
	OTTE_A_STATE,
	OTTE_A_BACKING,
	OTTE_A_ACCESS,
	OTTE_A_BYTES,
	OTTE_A_OFFSET,
	OTTE_A_DIRECTION,
	OTTE_A_FLAGS,
	OTTE_A_ACCEPTED,
	OTTE_A_EVIDENCE,
	OTTE_A_PEER,
	OTTE_A_INCARNATION,
	OTTE_A_TAG,
	OTTE_A_WORD,
	OTTE_A_LOANS,
	OTTE_A_EXPOSED,
	OTTE_A_KIND,
	OTTE_A_REASON,
	OTTE_A_AGE_NS,
	OTTE_A_NAME,
	OTTE_A_MODE,
	OTTE_A_MEMBERS,
	OTTE_A_NOW_NS,
	OTTE_A_EPOCH,
	OTTE_A_NIC,
	OTTE_A_SUMS,
	OTTE_A_SUMMING,
	OTTE_A_LEVEL,
	OTTE_A_KEY,
	OTTE_A_USAGE,
	OTTE_A_LIMIT,
	OTTE_A_RESOURCE,
	OTTE_A_REQUESTED,
	OTTE_A_COUNT,
};

#endif /* _UAPI_LINUX_OTTE_NETLINK_H */
