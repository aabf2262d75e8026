/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The calls of /dev/otte, one function each, over a descriptor that the caller owns. Nothing here
 * knows the ledger's interface: ledger.h and the ABI header use the same words for like things, so
 * no file can include both, and module.c is the one that includes the ABI's.
 *
 * Each returns 0 or the negative errno that the module gave, without a text: what it means depends
 * on who asked. Thread-safe as the module is.
 */
#ifndef OTTE_LEDGER_MODULE_H
#define OTTE_LEDGER_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#define OTTE_MODULE_REVISION 1u /* what this library speaks */
#define OTTE_MODULE_PEER_LEN 32
#define OTTE_MODULE_NONCE_LEN 32
#define OTTE_MODULE_EVENT_MAX 1024u /* bytes of the largest record that is read */

enum otte_module_direction {
	OTTE_MODULE_READ = 1u << 0,
	OTTE_MODULE_WRITE = 1u << 1,
};

enum otte_module_flag {
	OTTE_MODULE_REVOCABLE = 1u << 0,
	OTTE_MODULE_MAPPABLE = 1u << 1,
	OTTE_MODULE_STANDING = 1u << 2,
	OTTE_MODULE_BY_ADDRESS = 1u << 3, /* of an exposure */
};

enum otte_module_feature {
	OTTE_MODULE_FEAT_DOMAIN = 1u << 4,
	OTTE_MODULE_FEAT_STANDING = 1u << 6,
	OTTE_MODULE_FEAT_BY_ADDRESS = 1u << 7,
	OTTE_MODULE_FEAT_STANDING_OFFER = 1u << 8,
};

/* Evidence n of the ABI is bit n; ledger.h counts from 1. */
#define OTTE_MODULE_EVIDENCE_BIT(e) (1u << ((e)-1))

/* Of a region's word on the status page. */
enum otte_module_status {
	OTTE_MODULE_STATUS_LIVE = 1u << 0,
	OTTE_MODULE_STATUS_SUSPECT = 1u << 1,
	OTTE_MODULE_STATUS_STALE = 1u << 2,
};

/* What was accepted. */
struct otte_module_accepted {
	uint64_t length;
	uint64_t map_offset, map_bytes; /* 0: it cannot be mapped */
	uint32_t direction; /* OTTE_MODULE_* */
};

struct otte_module_facts {
	uint32_t revision;
	uint32_t event_bytes; /* of a record, which may have grown at its end */
	uint64_t features;
	uint64_t status_regions_max;
	uint8_t load_id[16]; /* of this load of the module, on this boot of this host */
};

enum otte_module_client_flag {
	OTTE_MODULE_ALLOWLIST = 1u << 0, /* offers of nobody but those that are allowed */
};

struct otte_module_init {
	uint32_t flags; /* enum otte_module_client_flag */
	uint32_t status_regions;
};

struct otte_module_region {
	uint64_t address;
	uint64_t length;
	uint32_t backing;
	uint32_t access; /* OTTE_MODULE_* */
	int fd; /* of a FILE, else 0 */
};

/* An offer to a local client, or, with `borrower` 0, an exposure to a peer. */
struct otte_module_terms {
	uint64_t region;
	uint64_t offset;
	uint64_t length;
	uint64_t borrower;
	uint32_t direction; /* OTTE_MODULE_* */
	uint32_t flags; /* enum otte_module_flag */
	uint32_t evidence; /* OTTE_MODULE_EVIDENCE_BIT; 0: its default */
	uint64_t tag;
	uint64_t incarnation;
	uint8_t peer[OTTE_MODULE_PEER_LEN];
};

enum otte_module_event_type {
	OTTE_MODULE_OFFERED,
	OTTE_MODULE_WITHDRAWN,
	OTTE_MODULE_ACCEPTED,
	OTTE_MODULE_OWNER_GONE,
	OTTE_MODULE_BORROWER_GONE,
	OTTE_MODULE_REVOKED,
	OTTE_MODULE_SETTLED,
	OTTE_MODULE_REGION_STALE,
	OTTE_MODULE_REGION_SUSPECT,
	OTTE_MODULE_REGION_GONE,
	OTTE_MODULE_HOLD_RELEASED,
	OTTE_MODULE_ATTEST,
	OTTE_MODULE_QUOTA,
	OTTE_MODULE_FENCED,
};

struct otte_module_event {
	uint32_t type; /* enum otte_module_event_type; others are to come */
	uint32_t evidence; /* of SETTLED, as ledger.h numbers it */
	uint64_t object;
	uint64_t region; /* shown to the lender */
	uint64_t tag;
	uint64_t other; /* the other side's client */
	uint32_t user;  /* and its user, as this process's user namespace has it */
	uint32_t flags; /* of a loan */
	/* QUOTA */
	const char *level;
	const char *resource;
	uint64_t key; /* which cgroup, which user */
	uint64_t usage, limit, requested;
	uint8_t nonce[OTTE_MODULE_NONCE_LEN]; /* ATTEST: as `object` sent it */
};

int otte_module_query(int fd, struct otte_module_facts *facts);
/*
 * Whether this library can use such a module: 0, or -EPROTONOSUPPORT with what both have in the
 * text: the revision, the size of events, or the first feature of `needed` that it lacks.
 */
int otte_module_check(const struct otte_module_facts *facts, uint64_t needed);

/* `bytes`: of the status page. */
int otte_module_client_init(int fd, const struct otte_module_init *init, uint64_t *client,
			    uint64_t *bytes);
/* The client lives until the page is unmapped, with otte_module_status_unmap(). */
int otte_module_status_map(int fd, uint64_t bytes, void **page);
void otte_module_status_unmap(void *page, uint64_t bytes);
const _Atomic uint64_t *otte_module_status_word(const void *page, uint32_t index);
/* An ATTEST for `client`. */
int otte_module_attest(int fd, uint64_t client, const uint8_t nonce[OTTE_MODULE_NONCE_LEN]);
/* Offers of `client` are welcome, or no longer, where those of others are not. */
int otte_module_allow(int fd, uint64_t client, bool welcome);
int otte_module_fence(int fd, uint64_t client); /* a local one */
int otte_module_fence_peer(int fd, const uint8_t peer[OTTE_MODULE_PEER_LEN], uint64_t incarnation);

/* `index`: of its word on the status page. */
int otte_module_region_add(int fd, const struct otte_module_region *region, uint64_t *id,
			   uint32_t *index);
/* `loans`: those still exposed. */
int otte_module_region_del(int fd, uint64_t region, uint32_t *loans);
/* Of a suspect one: whether its pages are what was registered. -ESTALE, -EAGAIN. */
int otte_module_region_verify(int fd, uint64_t region);

int otte_module_loan_offer(int fd, const struct otte_module_terms *terms, uint64_t *loan);
int otte_module_loan_expose(int fd, const struct otte_module_terms *terms, uint64_t *loan);
int otte_module_loan_accept(int fd, uint64_t loan, struct otte_module_accepted *accepted);
int otte_module_loan_settle(int fd, uint64_t loan, uint32_t evidence);
int otte_module_loan_withdraw(int fd, uint64_t loan);
/* `draining`: a copy still moves a chunk, it settles when that is done. */
int otte_module_loan_revoke(int fd, uint64_t loan, bool *draining);
/* 0: *done bytes are copied, 1 to `length` of them. */
int otte_module_loan_copy(int fd, uint64_t loan, uint64_t offset, void *buffer, uint64_t length,
			  uint64_t *done);
/* All of it, for reading or for both; to be unmapped before it is settled. */
int otte_module_loan_map(int fd, const struct otte_module_accepted *accepted, void **address);

enum otte_module_page {
	OTTE_MODULE_PAGE_SLOT,
	OTTE_MODULE_PAGE_LOAD,
	OTTE_MODULE_PAGE_SHARE, /* the one to be written */
};

int otte_module_domain_join(int fd, const char *name);
int otte_module_domain_nic(int fd, const char *name, uint32_t *index);
int otte_module_domain_kick(int fd);
/* -EPROTONOSUPPORT: of another revision. Like the status page it keeps the client until unmapped. */
int otte_module_domain_map(int fd, enum otte_module_page which, void **page);
void otte_module_domain_unmap(void *page);

int otte_module_hold(int fd, uint64_t bytes, uint64_t *hold);
int otte_module_hold_drop(int fd, uint64_t hold);

/*
 * The oldest event; -EAGAIN for a descriptor that does not block and has none. `bytes`: the
 * module's event_bytes, which was checked: exactly one record, so that none is taken and lost.
 */
int otte_module_event(int fd, uint32_t bytes, struct otte_module_event *event);

#endif
