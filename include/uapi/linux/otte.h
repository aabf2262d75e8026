/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * otte: the node's ledger of registered, lent and retained memory.
 *
 * This header is the whole ABI of /dev/otte: ioctl commands, the records that read() returns,
 * the mmap offsets, and the layout of the pages behind them.
 */
#ifndef _UAPI_LINUX_OTTE_H
#define _UAPI_LINUX_OTTE_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DOC: General ioctl format
 *
 * Every command takes a pointer to a struct that starts with a &__u32 size, set by the caller to
 * the size it was compiled with, and a &__u32 flags. The numbers carry no size, so a struct can
 * grow at its end: a shorter struct of an older caller reads as if the missing tail were zero, a
 * longer one of a newer caller is accepted while the tail that this kernel does not know is zero.
 * Fields marked *out* are written only when the command returns 0, unless said otherwise, and
 * never beyond the caller's @size. They must be zero on input: most commands check that (EINVAL),
 * so zero the struct before every call, also before a LOAN_COPY that is repeated.
 *
 * Errors that every command can return:
 *
 * ENOTTY
 *	unknown command, or a 32-bit caller.
 * EINVAL
 *	@size is shorter than the first published form of the struct; or a field has a value that
 *	can never be right.
 * E2BIG
 *	a byte behind the known struct is not zero, or @size is above one page.
 * EOPNOTSUPP
 *	a flag or an enumerator that this kernel does not know, a reserved field that is not zero,
 *	or a feature whose bit QUERY does not show.
 * EFAULT
 *	the struct cannot be read or written. What was done stays done: look the object up.
 * ENOTCONN
 *	CLIENT_INIT has not been called on this file (QUERY and CLIENT_INIT never return it).
 * EPERM
 *	the caller is not the process that called CLIENT_INIT, or has another address space or time
 *	namespace offset than then; or the command is for administrators.
 * ESHUTDOWN
 *	the client is gone: its address space was released, or the ledger is being drained.
 * ENOENT
 *	no such object, or it belongs to somebody else: the two are not told apart.
 * EACCES
 *	the right that was asked for is not granted (direction, access, mappability, evidence).
 * ERANGE
 *	the range is not inside the object.
 * EBUSY
 *	a conflicting loan, a mapping or a copy still exists, or the object is in another state.
 * EKEYREVOKED
 *	a fence forbids it.
 * ESTALE
 *	the registered memory was unmapped or replaced.
 * EDQUOT
 *	a budget is used up. An %OTTE_EVENT_QUOTA record names level and resource (but not for
 *	CLIENT_INIT, which leaves nobody to read it).
 * ENOMEM, EINTR
 *	as usual.
 *
 * Ids are unsigned 64-bit numbers from one sequence for all kinds of objects. They are never
 * reused while the module stays loaded; 0 is no object.
 */

#define OTTE_ABI_REVISION	1

#define OTTE_IOC_TYPE		0xEA

#define OTTE_IOC_QUERY		_IO(OTTE_IOC_TYPE, 0x00)
#define OTTE_IOC_CLIENT_INIT	_IO(OTTE_IOC_TYPE, 0x01)
#define OTTE_IOC_ATTEST		_IO(OTTE_IOC_TYPE, 0x02)
#define OTTE_IOC_ALLOW		_IO(OTTE_IOC_TYPE, 0x03)
#define OTTE_IOC_QUOTA		_IO(OTTE_IOC_TYPE, 0x04)
#define OTTE_IOC_FENCE		_IO(OTTE_IOC_TYPE, 0x05)

#define OTTE_IOC_REGION_ADD	_IO(OTTE_IOC_TYPE, 0x10)
#define OTTE_IOC_REGION_DEL	_IO(OTTE_IOC_TYPE, 0x11)
#define OTTE_IOC_REGION_VERIFY	_IO(OTTE_IOC_TYPE, 0x12)

#define OTTE_IOC_LOAN_OFFER	_IO(OTTE_IOC_TYPE, 0x20)
#define OTTE_IOC_LOAN_ACCEPT	_IO(OTTE_IOC_TYPE, 0x21)
#define OTTE_IOC_LOAN_SETTLE	_IO(OTTE_IOC_TYPE, 0x22)
#define OTTE_IOC_LOAN_WITHDRAW	_IO(OTTE_IOC_TYPE, 0x23)
#define OTTE_IOC_LOAN_REVOKE	_IO(OTTE_IOC_TYPE, 0x24)
#define OTTE_IOC_LOAN_EXPOSE	_IO(OTTE_IOC_TYPE, 0x25)
#define OTTE_IOC_LOAN_COPY	_IO(OTTE_IOC_TYPE, 0x26)

#define OTTE_IOC_HOLD		_IO(OTTE_IOC_TYPE, 0x30)
#define OTTE_IOC_HOLD_DROP	_IO(OTTE_IOC_TYPE, 0x31)

#define OTTE_IOC_DOMAIN_JOIN	_IO(OTTE_IOC_TYPE, 0x40)
#define OTTE_IOC_DOMAIN_NIC	_IO(OTTE_IOC_TYPE, 0x41)
#define OTTE_IOC_DOMAIN_KICK	_IO(OTTE_IOC_TYPE, 0x42)
#define OTTE_IOC_DOMAIN_SET	_IO(OTTE_IOC_TYPE, 0x43)
#define OTTE_IOC_DOMAIN_DEL	_IO(OTTE_IOC_TYPE, 0x44)

#define OTTE_NAME_LEN		32	/* names of domains and NICs, with the final NUL */
#define OTTE_PEER_LEN		32	/* a remote peer's identity, opaque to the module */
#define OTTE_NONCE_LEN		32
#define OTTE_COMM_LEN		16

/**
 * enum otte_resource - what is counted and limited
 * @OTTE_RES_CLIENTS: initialised clients, kept until nothing refers to them
 * @OTTE_RES_REGIONS: regions, kept until their backing is released
 * @OTTE_RES_REGISTERED_BYTES: bytes of those regions
 * @OTTE_RES_PINNED_BYTES: bytes of PAGES regions, whole pages
 * @OTTE_RES_LENT_BYTES: bytes of loans that are offered or exposed
 * @OTTE_RES_LOANS: loan records, kept until both sides have read their last event
 * @OTTE_RES_RETAINED_BYTES: bytes of everything in the retained list, holds of live clients too
 * @OTTE_RES_HOLDS: holds
 * @OTTE_RES_COUNT: number of resources
 */
enum otte_resource {
	OTTE_RES_CLIENTS,
	OTTE_RES_REGIONS,
	OTTE_RES_REGISTERED_BYTES,
	OTTE_RES_PINNED_BYTES,
	OTTE_RES_LENT_BYTES,
	OTTE_RES_LOANS,
	OTTE_RES_RETAINED_BYTES,
	OTTE_RES_HOLDS,
	OTTE_RES_COUNT,
};

#define OTTE_RES_MAX		16	/* room in structs for resources still to come */

/**
 * enum otte_level - who is charged
 * @OTTE_LEVEL_MODULE: everybody together
 * @OTTE_LEVEL_CGROUP: one cgroup (v2) among the client's ancestors, its own included
 * @OTTE_LEVEL_USER: the client's user, or the owner of a user namespace around it unless that is
 *	the host's root
 * @OTTE_LEVEL_CLIENT: the client
 * @OTTE_LEVEL_COUNT: number of levels
 * @OTTE_LEVEL_MEMLOCK: not a level of the ledger: the user's RLIMIT_MEMLOCK, in quota events only
 */
enum otte_level {
	OTTE_LEVEL_MODULE,
	OTTE_LEVEL_CGROUP,
	OTTE_LEVEL_USER,
	OTTE_LEVEL_CLIENT,
	OTTE_LEVEL_COUNT,
	OTTE_LEVEL_MEMLOCK = OTTE_LEVEL_COUNT,
};

/* Feature bits of QUERY. */
#define OTTE_FEAT_PAGES		(1ULL << 0)	/* PAGES regions: sound long-term pins */
#define OTTE_FEAT_FILE		(1ULL << 1)	/* FILE regions: descriptors can be handed over */
#define OTTE_FEAT_CGROUP	(1ULL << 2)	/* cgroup level present (cgroup v2) */
#define OTTE_FEAT_BOOT_ID	(1ULL << 3)	/* boot_id of QUERY is set */
#define OTTE_FEAT_DOMAIN	(1ULL << 4)	/* slots, demand and load */
#define OTTE_FEAT_TIME_NS	(1ULL << 5)	/* time namespaces are accounted for */
#define OTTE_FEAT_STANDING	(1ULL << 6)	/* exposures can be STANDING */
#define OTTE_FEAT_BY_ADDRESS	(1ULL << 7)	/* exposures can be BY_ADDRESS */
/* Offers to local clients can be STANDING, and LOAN_COPY tells what is lost to its lender. */
#define OTTE_FEAT_STANDING_OFFER (1ULL << 8)

/**
 * struct otte_query - ioctl(OTTE_IOC_QUERY)
 * @size: sizeof(struct otte_query)
 * @flags: must be 0
 * @revision: out: OTTE_ABI_REVISION of the running module
 * @event_size: out: bytes of the largest record that read() returns
 * @features: out: OTTE_FEAT_*
 * @boot_id: out: the kernel's boot id, zero without OTTE_FEAT_BOOT_ID
 * @load_id: out: random, made when the module was loaded
 * @status_regions_max: out: largest @status_regions that CLIENT_INIT accepts
 * @copy_max: out: most bytes that one LOAN_COPY moves; longer requests return a prefix
 * @map_max: out: largest loan that can be mapped, in bytes
 *
 * Works on every open file, also before CLIENT_INIT and from any process.
 */
struct otte_query {
	__u32 size;
	__u32 flags;
	__u32 revision;
	__u32 event_size;
	__aligned_u64 features;
	__u8 boot_id[16];
	__u8 load_id[16];
	__aligned_u64 status_regions_max;
	__aligned_u64 copy_max;
	__aligned_u64 map_max;
};

#define OTTE_CLIENT_ALLOWLIST	(1U << 0)	/* offers only from clients named with ALLOW */

/**
 * struct otte_client_init - ioctl(OTTE_IOC_CLIENT_INIT)
 * @size: sizeof(struct otte_client_init)
 * @flags: OTTE_CLIENT_*
 * @status_regions: words wanted on the status page, 0 for as many as fit one page
 * @reserved: must be 0
 * @client: out: this client's id
 * @status_bytes: out: bytes to map at OTTE_MMAP_STATUS
 *
 * Makes the open file a client of the calling process: its thread group, its address space, its
 * user and its cgroup are taken down now and stay what the ledger says about it. Only that process
 * in that address space can use the file afterwards. A file is initialised once (EALREADY). ENOSPC
 * in more cgroups and user namespaces, one inside the other, than can be charged (about 250).
 */
struct otte_client_init {
	__u32 size;
	__u32 flags;
	__u32 status_regions;
	__u32 reserved;
	__aligned_u64 client;
	__aligned_u64 status_bytes;
};

/**
 * struct otte_attest - ioctl(OTTE_IOC_ATTEST)
 * @size: sizeof(struct otte_attest)
 * @flags: must be 0
 * @client: the client that shall receive the proof
 * @nonce: what it shall receive
 *
 * Queues an %OTTE_EVENT_ATTEST for @client. The record carries @nonce and the sender's identity as
 * the module knows it. Two processes that exchange nonces over a socket and find them in these
 * events know which client is at the other end. At most 8 unread ones for each sender and
 * receiver, 64 for each sender, 64 for all clients of one user in one cgroup and 1024 for everybody
 * at one receiver (EBUSY).
 */
struct otte_attest {
	__u32 size;
	__u32 flags;
	__aligned_u64 client;
	__u8 nonce[OTTE_NONCE_LEN];
};

#define OTTE_ALLOW_REMOVE	(1U << 0)

/**
 * struct otte_allow - ioctl(OTTE_IOC_ALLOW)
 * @size: sizeof(struct otte_allow)
 * @flags: OTTE_ALLOW_REMOVE takes @client off the list again
 * @client: the client whose offers are welcome
 *
 * Has an effect on clients initialised with %OTTE_CLIENT_ALLOWLIST: anybody else's offer to them
 * fails with EACCES. Up to 1024 entries (ENOSPC). Offers already made stay.
 */
struct otte_allow {
	__u32 size;
	__u32 flags;
	__aligned_u64 client;
};

/**
 * struct otte_quota - ioctl(OTTE_IOC_QUOTA)
 * @size: sizeof(struct otte_quota)
 * @flags: must be 0
 * @index: which of the accounts that the caller is charged to, from 0
 * @level: out: enum otte_level
 * @key: out: cgroup id, user id as the caller's namespace shows it, or client id; 0 for the module
 * @usage: out: for each enum otte_resource, 0 behind the last
 * @limit: out: for each enum otte_resource, U64_MAX for none; 0 behind the last
 *
 * Without a limit an account still holds no more than 2^56 of a resource for a client, 2^58 for a
 * user or a cgroup, and 2^62 for the module: above that it is EDQUOT, too.
 * ENOENT past the last account.
 *
 * The size is settled: there is room for %OTTE_RES_MAX resources, those behind the last named one
 * read as 0, and a new one takes the next place. It grows no further.
 */
struct otte_quota {
	__u32 size;
	__u32 flags;
	__u32 index;
	__u32 level;
	__aligned_u64 key;
	__aligned_u64 usage[OTTE_RES_MAX];
	__aligned_u64 limit[OTTE_RES_MAX];
};

#define OTTE_FENCE_PEER		(1U << 0)	/* fence @peer, @incarnation instead of @client */
#define OTTE_FENCE_ALL		(1U << 1)	/* from everybody's loans; CAP_SYS_ADMIN */

/**
 * struct otte_fence - ioctl(OTTE_IOC_FENCE)
 * @size: sizeof(struct otte_fence)
 * @flags: OTTE_FENCE_*
 * @client: the client to fence
 * @incarnation: the incarnation of @peer to fence
 * @peer: the peer, as given to LOAN_EXPOSE
 *
 * From now on the caller lends nothing more to @client (or to that incarnation of @peer): offers,
 * exposures and acceptances of offers already made fail with EKEYREVOKED. Loans that are exposed
 * stay as they are. With %OTTE_FENCE_ALL an administrator fences a client for every lender, and
 * its regions from being lent; it is told by an event and on its status page. A fence is never
 * lifted. Up to 1024 fences for each lender (ENOSPC).
 */
struct otte_fence {
	__u32 size;
	__u32 flags;
	__aligned_u64 client;
	__aligned_u64 incarnation;
	__u8 peer[OTTE_PEER_LEN];
};

/**
 * enum otte_backing - what holds a region's memory
 * @OTTE_BACKING_NONE: nobody here: a driver pins and charges it; the module watches the range
 * @OTTE_BACKING_PAGES: the module pins it, charged to the user's locked memory
 * @OTTE_BACKING_FILE: a file that the module holds: sealed memfd, dma-buf, or a device file whose
 *	major number the administrator allowed
 */
enum otte_backing {
	OTTE_BACKING_NONE,
	OTTE_BACKING_PAGES,
	OTTE_BACKING_FILE,
};

/* Access of a region, and direction of a loan, seen from the borrower. */
#define OTTE_READ		(1U << 0)
#define OTTE_WRITE		(1U << 1)

/**
 * struct otte_region_add - ioctl(OTTE_IOC_REGION_ADD)
 * @size: sizeof(struct otte_region_add)
 * @flags: must be 0
 * @backing: enum otte_backing
 * @access: OTTE_READ and/or OTTE_WRITE: directions in which it may be lent
 * @addr: first byte, for NONE and PAGES
 * @length: bytes, not 0; for FILE the size of the whole object, which memfd and dma-buf know better
 *	(ERANGE where they differ)
 * @fd: the file, for FILE; must be 0 otherwise
 * @reserved: must be 0
 * @tag: the caller's own, shown in dumps
 * @region: out: id
 * @status_index: out: index of this region's word on the status page
 *
 * PAGES takes anonymous, shared and huge memory (EACCES for other files' pages, EFAULT for holes
 * and device memory). A memfd must be sealed against shrinking and growing, and for READ loans
 * against future writes; a dma-buf or device file lent for READ must not be open for writing
 * (EACCES). Any other file is refused with EOPNOTSUPP. ENOSPC when the status page is full.
 */
struct otte_region_add {
	__u32 size;
	__u32 flags;
	__u32 backing;
	__u32 access;
	__aligned_u64 addr;
	__aligned_u64 length;
	__s32 fd;
	__u32 reserved;
	__aligned_u64 tag;
	__aligned_u64 region;
	__u32 status_index;
	__u32 reserved2;
};

/**
 * struct otte_region_del - ioctl(OTTE_IOC_REGION_DEL)
 * @size: sizeof(struct otte_region_del)
 * @flags: must be 0
 * @region: id
 * @loans: out: loans that are still exposed
 * @reserved: must be 0
 *
 * The region is hidden at once and its open offers are withdrawn. If @loans is 0 its backing is
 * released before the call returns, or, where another thread is just verifying it, before that call
 * does; else when the last loan settles, told by %OTTE_EVENT_REGION_GONE.
 */
struct otte_region_del {
	__u32 size;
	__u32 flags;
	__aligned_u64 region;
	__u32 loans;
	__u32 reserved;
};

/**
 * struct otte_region_verify - ioctl(OTTE_IOC_REGION_VERIFY)
 * @size: sizeof(struct otte_region_verify)
 * @flags: must be 0
 * @region: id
 * @generation: out: the generation that is good
 *
 * Compares what the owner's address space maps now with the pinned pages of a suspect PAGES
 * region: 0 and the suspicion is lifted, or ESTALE and the region is stale. EAGAIN when the range
 * changed meanwhile, EFAULT when it cannot be read now (it stays suspect). A suspect NONE region is
 * always ESTALE, because nobody here knows its pages: register it anew.
 */
struct otte_region_verify {
	__u32 size;
	__u32 flags;
	__aligned_u64 region;
	__aligned_u64 generation;
};

/**
 * DOC: Evidence
 *
 * Why a loan ended, as bits. A timeout is none of them. %OTTE_EVIDENCE_FORCED needs no consent of
 * the lender; the others count only if the lender accepts them, %OTTE_EVIDENCE_DEFAULT where it
 * gave 0.
 */
#define OTTE_EVIDENCE_NEVER_EXPOSED	(1U << 0)	/* nobody ever got it */
#define OTTE_EVIDENCE_RETURNED		(1U << 1)	/* the borrower's receipt */
#define OTTE_EVIDENCE_UNMAPPED		(1U << 2)	/* no mapping and no copy of it is left */
#define OTTE_EVIDENCE_REVOKED		(1U << 3)	/* zapped here, or by hardware */
#define OTTE_EVIDENCE_BORROWER_EXITED	(1U << 4)	/* its threads and address space are gone */
#define OTTE_EVIDENCE_FORCED		(1U << 5)	/* an administrator */

#define OTTE_EVIDENCE_DEFAULT		0x0f

#define OTTE_LOAN_REVOCABLE	(1U << 0)	/* the lender may revoke it */
#define OTTE_LOAN_MAPPABLE	(1U << 1)	/* the borrower may map it; PAGES, whole pages */
#define OTTE_LOAN_STANDING	(1U << 2)	/* for many requests, see LOAN_EXPOSE */
#define OTTE_LOAN_BY_ADDRESS	(1U << 3)	/* LOAN_EXPOSE alone: see there */

/**
 * struct otte_loan_offer - ioctl(OTTE_IOC_LOAN_OFFER)
 * @size: sizeof(struct otte_loan_offer)
 * @flags: OTTE_LOAN_REVOCABLE, OTTE_LOAN_MAPPABLE, OTTE_LOAN_STANDING
 * @region: id of a region of the caller
 * @offset: first byte lent, in the region
 * @length: bytes lent, not 0; FILE regions are lent whole
 * @borrower: the client that may accept
 * @direction: OTTE_READ or OTTE_WRITE, one of them
 * @evidence: accepted evidence, 0 for OTTE_EVIDENCE_DEFAULT
 * @tag: shown to the borrower
 * @loan: out: id
 *
 * Readers share a range, a writer excludes everybody (EBUSY). The borrower is told by
 * %OTTE_EVENT_OFFERED; ENOSPC when it has too many unanswered offers, in total or of this lender.
 * A client can lend to itself. EACCES for a borrower that does not want this lender's offers.
 *
 * With %OTTE_LOAN_STANDING the caller states that it orders what this borrower does with the range
 * together with all others to whom it stands, as in LOAN_EXPOSE: nothing that stands excludes
 * anything else that does.
 */
struct otte_loan_offer {
	__u32 size;
	__u32 flags;
	__aligned_u64 region;
	__aligned_u64 offset;
	__aligned_u64 length;
	__aligned_u64 borrower;
	__u32 direction;
	__u32 evidence;
	__aligned_u64 tag;
	__aligned_u64 loan;
};

/**
 * struct otte_loan_accept - ioctl(OTTE_IOC_LOAN_ACCEPT)
 * @size: sizeof(struct otte_loan_accept)
 * @flags: must be 0
 * @loan: id of an offer to the caller
 * @length: out: bytes lent
 * @map_offset: out: offset for mmap() of a MAPPABLE loan, else 0
 * @map_bytes: out: bytes that can be mapped there, else 0
 * @direction: out: OTTE_READ or OTTE_WRITE
 * @fd: out: for FILE a new descriptor (close-on-exec), else -1
 *
 * Once: a second call is EALREADY, a withdrawn offer ENOENT. From here on the lender's memory is
 * exposed. For FILE the descriptor is installed last; when it cannot be (EMFILE, a security
 * module's refusal) the loan is over, settled as NEVER_EXPOSED.
 */
struct otte_loan_accept {
	__u32 size;
	__u32 flags;
	__aligned_u64 loan;
	__aligned_u64 length;
	__aligned_u64 map_offset;
	__aligned_u64 map_bytes;
	__u32 direction;
	__s32 fd;
};

/**
 * struct otte_loan_settle - ioctl(OTTE_IOC_LOAN_SETTLE)
 * @size: sizeof(struct otte_loan_settle)
 * @flags: must be 0
 * @loan: id
 * @evidence: what the caller attests, see below
 * @reserved: must be 0
 *
 * By the local borrower: its receipt, @evidence is 0 or OTTE_EVIDENCE_RETURNED. EBUSY while a
 * mapping of it exists or a copy moves bytes, which one does not whose buffer is being faulted in;
 * EACCES if the lender accepts no receipt. On an offer not yet accepted it declines it. By the
 * lender: for an exposed remote loan OTTE_EVIDENCE_RETURNED (the peer's receipt) or
 * OTTE_EVIDENCE_REVOKED (a completed hardware invalidation); for a local loan of a NONE region
 * OTTE_EVIDENCE_REVOKED.
 */
struct otte_loan_settle {
	__u32 size;
	__u32 flags;
	__aligned_u64 loan;
	__u32 evidence;
	__u32 reserved;
};

/**
 * struct otte_loan_withdraw - ioctl(OTTE_IOC_LOAN_WITHDRAW)
 * @size: sizeof(struct otte_loan_withdraw)
 * @flags: must be 0
 * @loan: id of an offer of the caller, EBUSY once accepted
 */
struct otte_loan_withdraw {
	__u32 size;
	__u32 flags;
	__aligned_u64 loan;
};

/**
 * struct otte_loan_revoke - ioctl(OTTE_IOC_LOAN_REVOKE)
 * @size: sizeof(struct otte_loan_revoke)
 * @flags: must be 0
 * @loan: id of a loan of the caller, offered as REVOCABLE
 * @draining: out: 1 while a copy still moves bytes, else 0
 * @reserved: must be 0
 *
 * For exposed loans of PAGES regions. When it returns no mapping of it can be touched any more
 * (SIGBUS). It settles as REVOKED when the last copy that moves bytes has ended, before the return
 * where @draining is 0. That takes no longer than a chunk of memory does (64 KiB): a copy whose
 * buffer is being faulted in is none of these, and finds out afterwards. The borrower's copies fail
 * with EACCES, and with ENOENT once both sides have read of the end. An administrator who releases
 * a retained record does the same to loans that are not REVOCABLE as well, and so may end a
 * borrower that is at its mapping then.
 */
struct otte_loan_revoke {
	__u32 size;
	__u32 flags;
	__aligned_u64 loan;
	__u32 draining;
	__u32 reserved;
};

/**
 * struct otte_loan_expose - ioctl(OTTE_IOC_LOAN_EXPOSE)
 * @size: sizeof(struct otte_loan_expose)
 * @flags: OTTE_LOAN_STANDING, OTTE_LOAN_BY_ADDRESS
 * @region: id of a NONE or PAGES region of the caller
 * @offset: first byte
 * @length: bytes, not 0
 * @incarnation: which life of the peer
 * @peer: the remote peer, as the caller knows it; not all zero
 * @direction: OTTE_READ and/or OTTE_WRITE; both count as a writer
 * @evidence: RETURNED and/or REVOKED, 0 for both
 * @tag: the caller's own
 * @loan: out: id
 *
 * States that the range is now within reach of a remote peer. Only the caller can settle it. One
 * exposure may stand for many requests of one peer. With %OTTE_LOAN_STANDING the caller states that
 * it orders the requests of all such peers itself: standing exposures and standing offers exclude
 * nothing among each other, while all other loans conflict with them as with any (EBUSY).
 *
 * With %OTTE_LOAN_BY_ADDRESS the caller states that the peer reaches the range through it alone: it
 * reads and writes at its own addresses for the peer, and nobody but sends that are under way holds
 * the pages. What the owner sees there is what the peer gets, whichever pages these are: so a
 * suspect NONE region can be lent, where any other loan of it is ESTALE. A stale one cannot. A send
 * that was begun (MSG_ZEROCOPY) keeps the page of that time, also past the caller's death.
 */
struct otte_loan_expose {
	__u32 size;
	__u32 flags;
	__aligned_u64 region;
	__aligned_u64 offset;
	__aligned_u64 length;
	__aligned_u64 incarnation;
	__u8 peer[OTTE_PEER_LEN];
	__u32 direction;
	__u32 evidence;
	__aligned_u64 tag;
	__aligned_u64 loan;
};

/**
 * struct otte_loan_copy - ioctl(OTTE_IOC_LOAN_COPY)
 * @size: sizeof(struct otte_loan_copy)
 * @flags: must be 0
 * @loan: id of an accepted loan of a PAGES region
 * @offset: first byte, in the loan
 * @addr: the borrower's buffer
 * @length: bytes
 * @done: out: bytes copied from the start. Written whenever the struct can be
 *
 * Copies out of the lent range (READ) or into it (WRITE). 0 with a @done below @length is a
 * prefix: the buffer faulted behind it, a fatal signal, the loan's end or the lender's munmap()
 * came, or the request was longer than one call moves. An error means that nothing was copied:
 * EFAULT, EINTR, EACCES for a loan revoked, ENOENT for one that ended otherwise, and ESTALE once
 * the lender, which lives, has unmapped any of the region, or REGION_VERIFY has found other pages
 * there. Its death, or its end as a client, is no such thing. With a @length of 0 nothing but that
 * is looked at, also after a copy: was it all in time?
 *
 * The buffer is faulted in where it has to be, for as long as that takes (userfaultfd, a file of
 * FUSE) and until a fatal signal. Meanwhile the call holds nothing of the loan, which can be
 * revoked or settled as if it were not there. Behind the prefix the buffer stays as it was; what
 * others write into it before the call returns may be lost.
 */
struct otte_loan_copy {
	__u32 size;
	__u32 flags;
	__aligned_u64 loan;
	__aligned_u64 offset;
	__aligned_u64 addr;
	__aligned_u64 length;
	__aligned_u64 done;
};

/**
 * enum otte_hold_kind - native objects that could not be proven drained
 * @OTTE_HOLD_OTHER: something else
 * @OTTE_HOLD_QP: queue pair
 * @OTTE_HOLD_MR: memory region
 * @OTTE_HOLD_MW: memory window
 * @OTTE_HOLD_CQ: completion queue
 * @OTTE_HOLD_STREAM: CUDA stream
 * @OTTE_HOLD_MAPPING: mapping of somebody else's memory
 * @OTTE_HOLD_COUNT: number of kinds
 */
enum otte_hold_kind {
	OTTE_HOLD_OTHER,
	OTTE_HOLD_QP,
	OTTE_HOLD_MR,
	OTTE_HOLD_MW,
	OTTE_HOLD_CQ,
	OTTE_HOLD_STREAM,
	OTTE_HOLD_MAPPING,
	OTTE_HOLD_COUNT,
};

/**
 * struct otte_hold - ioctl(OTTE_IOC_HOLD)
 * @size: sizeof(struct otte_hold)
 * @flags: must be 0
 * @kind: enum otte_hold_kind
 * @reason: errno value (positive) of what failed, 0 for unknown
 * @bytes: bytes behind it, not 0
 * @tag: the caller's own
 * @hold: out: id
 *
 * Accounting only: the object shows up in the retained list and its bytes are charged until the
 * client drops it, or, after the client's death, until an administrator releases it.
 */
struct otte_hold {
	__u32 size;
	__u32 flags;
	__u32 kind;
	__u32 reason;
	__aligned_u64 bytes;
	__aligned_u64 tag;
	__aligned_u64 hold;
};

/**
 * struct otte_hold_drop - ioctl(OTTE_IOC_HOLD_DROP)
 * @size: sizeof(struct otte_hold_drop)
 * @flags: must be 0
 * @hold: id of a hold of the caller: the object was proven drained after all
 */
struct otte_hold_drop {
	__u32 size;
	__u32 flags;
	__aligned_u64 hold;
};

/**
 * DOC: Events
 *
 * read() returns whole records, as many as fit and are there. EMSGSIZE when not even one fits,
 * EAGAIN for a non-blocking file without one. A record is taken off the queue only after it was
 * copied out. Its memory belongs to its subject, so none is ever lost, and equal ones for one
 * subject that were not read in time are told once. poll() shows EPOLLIN while one waits, EPOLLERR
 * once the client is fenced by an administrator, and EPOLLERR and EPOLLHUP once it is gone.
 */

/**
 * enum otte_event_type - what happened; the comment says to whom it is told
 * @OTTE_EVENT_OFFERED: borrower: a loan was offered
 * @OTTE_EVENT_WITHDRAWN: borrower: that offer is void
 * @OTTE_EVENT_ACCEPTED: lender: the offer was accepted
 * @OTTE_EVENT_OWNER_GONE: borrower: the lender is gone, the loan stays good
 * @OTTE_EVENT_BORROWER_GONE: lender: the borrower is gone without evidence, the loan is retained
 * @OTTE_EVENT_REVOKED: borrower: the loan was revoked or forced
 * @OTTE_EVENT_SETTLED: lender: the loan is over, see @evidence
 * @OTTE_EVENT_REGION_STALE: owner: the range was unmapped or replaced
 * @OTTE_EVENT_REGION_SUSPECT: owner: pages of the range may have been replaced
 * @OTTE_EVENT_REGION_GONE: owner: a region that was deleted has settled all its loans
 * @OTTE_EVENT_HOLD_RELEASED: owner: an administrator released a hold
 * @OTTE_EVENT_ATTEST: addressee: another client's nonce
 * @OTTE_EVENT_QUOTA: whose call failed with EDQUOT; only the last refusal is kept
 * @OTTE_EVENT_FENCED: the client was fenced by an administrator
 * @OTTE_EVENT_COUNT: number of types
 */
enum otte_event_type {
	OTTE_EVENT_OFFERED,
	OTTE_EVENT_WITHDRAWN,
	OTTE_EVENT_ACCEPTED,
	OTTE_EVENT_OWNER_GONE,
	OTTE_EVENT_BORROWER_GONE,
	OTTE_EVENT_REVOKED,
	OTTE_EVENT_SETTLED,
	OTTE_EVENT_REGION_STALE,
	OTTE_EVENT_REGION_SUSPECT,
	OTTE_EVENT_REGION_GONE,
	OTTE_EVENT_HOLD_RELEASED,
	OTTE_EVENT_ATTEST,
	OTTE_EVENT_QUOTA,
	OTTE_EVENT_FENCED,
	OTTE_EVENT_COUNT,
};

/**
 * struct otte_identity - a client as the module attests it
 * @client: id, 0 for none (a remote peer)
 * @cgroup: id of its cgroup (v2) at CLIENT_INIT, 0 if unknown
 * @start_ns: start of its process, CLOCK_BOOTTIME of the initial time namespace
 * @tgid: its process id in the reader's pid namespace, 0 if it has none there
 * @uid: its user as the reader's user namespace shows it
 * @comm: its command name at CLIENT_INIT
 */
struct otte_identity {
	__aligned_u64 client;
	__aligned_u64 cgroup;
	__aligned_u64 start_ns;
	__u32 tgid;
	__u32 uid;
	__u8 comm[OTTE_COMM_LEN];
};

/**
 * struct otte_event - one record of read()
 * @size: bytes of this record; the next one follows
 * @type: enum otte_event_type
 * @object: loan, region, hold; or the client itself
 * @region: region of a loan, shown to its lender; 0 otherwise
 * @offset: of a loan in its region, shown to its lender; 0 otherwise
 * @length: bytes of the loan, region or hold
 * @tag: the subject's tag
 * @flags: OTTE_LOAN_* of a loan
 * @direction: of a loan
 * @evidence: SETTLED: one bit of OTTE_EVIDENCE_*
 * @level: QUOTA: enum otte_level
 * @resource: QUOTA: enum otte_resource
 * @reserved: 0
 * @key: QUOTA: key of the account, as in struct otte_quota
 * @usage: QUOTA: usage at the refusal
 * @limit: QUOTA: limit at the refusal
 * @requested: QUOTA: what was asked for
 * @generation: REGION_STALE, REGION_SUSPECT: generation now
 * @other: the other party of a loan, the sender of an ATTEST
 * @nonce: ATTEST
 */
struct otte_event {
	__u32 size;
	__u32 type;
	__aligned_u64 object;
	__aligned_u64 region;
	__aligned_u64 offset;
	__aligned_u64 length;
	__aligned_u64 tag;
	__u32 flags;
	__u32 direction;
	__u32 evidence;
	__u32 level;
	__u32 resource;
	__u32 reserved;
	__aligned_u64 key;
	__aligned_u64 usage;
	__aligned_u64 limit;
	__aligned_u64 requested;
	__aligned_u64 generation;
	struct otte_identity other;
	__u8 nonce[OTTE_NONCE_LEN];
};

/**
 * DOC: Shared pages
 *
 * mmap() with MAP_SHARED at these offsets. All but SHARE refuse PROT_WRITE and PROT_EXEC, also by
 * a later mprotect(). SLOT, LOAD and SHARE exist after DOMAIN_JOIN (ENOTCONN before). Like any
 * mapping these keep their file, and so the client, until they are unmapped. A fork does not
 * inherit them, whatever madvise() is asked (EINVAL for MADV_DOFORK).
 *
 * Offsets from OTTE_MMAP_LOANS up are loans' (see &struct otte_loan_accept): MAP_SHARED, from a
 * file opened O_RDWR, inside the loan. Memory mapped so cannot be registered with or pinned by
 * other drivers, and neither fork nor core dumps see it.
 */
#define OTTE_MMAP_STATUS	0x000000000ULL
#define OTTE_MMAP_SLOT		0x100000000ULL
#define OTTE_MMAP_LOAD		0x200000000ULL
#define OTTE_MMAP_SHARE		0x300000000ULL
#define OTTE_MMAP_LOANS		(1ULL << 42)

/* A region's word on the status page: 8 low bits of state, the generation above. */
#define OTTE_STATUS_LIVE	(1ULL << 0)	/* the word belongs to a registered region */
#define OTTE_STATUS_SUSPECT	(1ULL << 1)	/* VERIFY it before use */
#define OTTE_STATUS_STALE	(1ULL << 2)	/* never again */
#define OTTE_STATUS_FENCED	(1ULL << 3)	/* an administrator fenced its owner */
#define OTTE_STATUS_GEN_SHIFT	8

/**
 * struct otte_status_page - at OTTE_MMAP_STATUS
 * @version: OTTE_ABI_REVISION
 * @regions: number of words
 * @client: this client's id
 * @reserved: 0
 * @word: indexed by status_index; read with acquire semantics. A word goes stale or suspect before
 *	the munmap() or madvise() that caused it returns. Its generation only grows, also from one
 *	region at that index to the next.
 */
struct otte_status_page {
	__u32 version;
	__u32 regions;
	__aligned_u64 client;
	__aligned_u64 reserved[6];
	__aligned_u64 word[];
};

#define OTTE_PRIORITY_HIGH	0
#define OTTE_PRIORITY_MEDIUM	1
#define OTTE_PRIORITY_LOW	2
#define OTTE_PRIORITIES		3

#define OTTE_SLOTS_MAX		16
#define OTTE_NICS_MAX		16

/* Interval of a domain's slots: 2 ms by default, within these bounds. */
#define OTTE_SLOT_NS_DEFAULT	2000000ULL
#define OTTE_SLOT_NS_MIN	100000ULL
#define OTTE_SLOT_NS_MAX	1000000000ULL

/**
 * struct otte_slot_epoch - a pattern, valid from a time on
 * @base_ns: start of its slot 0, CLOCK_MONOTONIC of the initial time namespace; U64_MAX for unused
 * @interval_ns: length of a slot
 * @slots: slots of the pattern, 1 to OTTE_SLOTS_MAX
 * @reserved: 0
 * @lowest: for each slot the lowest priority (largest number) that may send in it; the lowest of
 *	all, OTTE_PRIORITY_LOW, in one of them at least, and 0 behind the pattern
 */
struct otte_slot_epoch {
	__aligned_u64 base_ns;
	__aligned_u64 interval_ns;
	__u32 slots;
	__u32 reserved;
	__u8 lowest[OTTE_SLOTS_MAX];
};

/**
 * struct otte_slot_page - at OTTE_MMAP_SLOT, one for each domain
 * @version: OTTE_ABI_REVISION
 * @seq: odd while the module writes; unchanged and even around a good read, which includes the
 *	reading of the clock. Who finds it odd several times over treats that as "not now"
 * @domain: the domain's id
 * @epoch: in force is the one with the largest base_ns that is not in the future. The module never
 *	changes that one; it writes the other, with a base at least one whole interval ahead on a
 *	boundary of the one in force, so that all members change at one instant.
 *
 * With now the host's CLOCK_MONOTONIC (the caller's reading minus timens_offset_ns of its share
 * page), a priority p may send when
 * p <= lowest[((now - base_ns) / interval_ns) % slots].
 */
struct otte_slot_page {
	__u32 version;
	__u32 seq;
	__aligned_u64 domain;
	struct otte_slot_epoch epoch[2];
};

/**
 * struct otte_load_page - at OTTE_MMAP_LOAD, one for each client of a domain
 * @waiting: bytes that the *other* members say wait, for each priority
 * @summing: 1 while the module sums at every interval; 0 means that every member was idle
 * @version: OTTE_ABI_REVISION
 * @updated_ns: host's CLOCK_MONOTONIC of the last sum
 * @reserved: 0
 * @nic_bytes: bytes that the other members have in flight, for each NIC of the domain
 *
 * Each word is a value of its own, read with plain atomic loads.
 */
struct otte_load_page {
	__aligned_u64 waiting[OTTE_PRIORITIES];
	__u32 summing;
	__u32 version;
	__aligned_u64 updated_ns;
	__aligned_u64 reserved[3];
	__aligned_u64 nic_bytes[OTTE_NICS_MAX];
};

/* Larger values on a share page count as this. */
#define OTTE_SHARE_BYTES_MAX	(1ULL << 40)

/**
 * struct otte_share_page - at OTTE_MMAP_SHARE, the one page that a client writes
 * @waiting: bytes that wait here, for each priority
 * @version: OTTE_ABI_REVISION, written by the module
 * @reserved: 0
 * @timens_offset_ns: written by the module: CLOCK_MONOTONIC of this client minus the host's
 * @reserved2: 0
 * @nic_bytes: bytes in flight here, for each NIC of the domain
 *
 * After raising a value from an all-zero page the client issues a full barrier, reads @summing of
 * its load page, and calls DOMAIN_KICK if that is 0. The module clears @summing, issues a full
 * barrier and looks at the share pages once more before it stops summing.
 */
struct otte_share_page {
	__aligned_u64 waiting[OTTE_PRIORITIES];
	__u32 version;
	__u32 reserved;
	__aligned_s64 timens_offset_ns;
	__aligned_u64 reserved2[3];
	__aligned_u64 nic_bytes[OTTE_NICS_MAX];
};

/**
 * struct otte_domain_join - ioctl(OTTE_IOC_DOMAIN_JOIN)
 * @size: sizeof(struct otte_domain_join)
 * @flags: must be 0
 * @name: which domain, NUL-terminated
 * @domain: out: its id
 *
 * Once for each client (EALREADY); it leaves with its client. EACCES where owner, group and mode
 * of the domain do not let the caller in (the execute bits count, for user 0 as for others). ENOSPC
 * when it has as many members as the module sums (4096).
 */
struct otte_domain_join {
	__u32 size;
	__u32 flags;
	__u8 name[OTTE_NAME_LEN];
	__aligned_u64 domain;
};

/**
 * struct otte_domain_nic - ioctl(OTTE_IOC_DOMAIN_NIC)
 * @size: sizeof(struct otte_domain_nic)
 * @flags: must be 0
 * @name: a NIC's name, equal for all members, NUL-terminated
 * @index: out: its index in nic_bytes of this domain's pages
 * @reserved: must be 0
 *
 * Gives the name an index the first time. ENOSPC while OTTE_NICS_MAX names are in use; names that
 * no member uses any more make room. Bytes at indices that a member has not named do not count.
 */
struct otte_domain_nic {
	__u32 size;
	__u32 flags;
	__u8 name[OTTE_NAME_LEN];
	__u32 index;
	__u32 reserved;
};

/**
 * struct otte_domain_kick - ioctl(OTTE_IOC_DOMAIN_KICK)
 * @size: sizeof(struct otte_domain_kick)
 * @flags: must be 0
 *
 * Makes the module sum now and at every interval until all members are idle. Where the caller's
 * share page says what it said at the last sum there is nothing to add up, and nothing is done.
 */
struct otte_domain_kick {
	__u32 size;
	__u32 flags;
};

#define OTTE_DOMAIN_CREATE	(1U << 0)	/* EEXIST if there is one; else it must exist */

/**
 * struct otte_domain_set - ioctl(OTTE_IOC_DOMAIN_SET), administrators only
 * @size: sizeof(struct otte_domain_set)
 * @flags: OTTE_DOMAIN_*
 * @name: which domain, NUL-terminated
 * @interval_ns: length of a slot
 * @slots: slots of the pattern
 * @mode: who may join: execute bits for owner, group and others
 * @uid: owner, in the caller's user namespace
 * @gid: group, in the caller's user namespace
 * @lowest: the pattern, as in struct otte_slot_epoch
 * @effective_ns: out: host's CLOCK_MONOTONIC at which it comes into force
 * @domain: out: id
 *
 * A change takes effect for all members at one boundary; EBUSY while an earlier one is pending. Who
 * may join changes at once. ENOSPC behind 64 domains. Names are letters, digits and any of "-_.:@".
 */
struct otte_domain_set {
	__u32 size;
	__u32 flags;
	__u8 name[OTTE_NAME_LEN];
	__aligned_u64 interval_ns;
	__u32 slots;
	__u32 mode;
	__u32 uid;
	__u32 gid;
	__u8 lowest[OTTE_SLOTS_MAX];
	__aligned_u64 effective_ns;
	__aligned_u64 domain;
};

/**
 * struct otte_domain_del - ioctl(OTTE_IOC_DOMAIN_DEL), administrators only
 * @size: sizeof(struct otte_domain_del)
 * @flags: must be 0
 * @name: which domain; EBUSY while it has members, EPERM for "default"
 */
struct otte_domain_del {
	__u32 size;
	__u32 flags;
	__u8 name[OTTE_NAME_LEN];
};

#endif /* _UAPI_LINUX_OTTE_H */
