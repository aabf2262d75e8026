/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the module's ABI: the only file that knows the structs of /dev/otte. No state, no lock.
 */
#include "ledger/module.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/names.h"
#include "base/util.h"
#include "uapi/linux/otte.h"

static_assert(OTTE_MODULE_REVISION == OTTE_ABI_REVISION, "module.h speaks the header's revision");
static_assert(OTTE_MODULE_NONCE_LEN == OTTE_NONCE_LEN, "nonces are as long");
static_assert(OTTE_MODULE_PEER_LEN == OTTE_PEER_LEN, "peers are as long");
static_assert(OTTE_MODULE_READ == OTTE_READ && OTTE_MODULE_WRITE == OTTE_WRITE, "directions");
static_assert(OTTE_MODULE_ALLOWLIST == OTTE_CLIENT_ALLOWLIST, "client flags");
static_assert(OTTE_MODULE_REVOCABLE == OTTE_LOAN_REVOCABLE, "flags");
static_assert(OTTE_MODULE_MAPPABLE == OTTE_LOAN_MAPPABLE, "flags");
static_assert(OTTE_MODULE_STANDING == OTTE_LOAN_STANDING, "flags");
static_assert(OTTE_MODULE_BY_ADDRESS == OTTE_LOAN_BY_ADDRESS, "flags");
static_assert(OTTE_MODULE_FEAT_STANDING == OTTE_FEAT_STANDING, "features");
static_assert(OTTE_MODULE_FEAT_BY_ADDRESS == OTTE_FEAT_BY_ADDRESS, "features");
static_assert(OTTE_MODULE_FEAT_STANDING_OFFER == OTTE_FEAT_STANDING_OFFER, "features");
static_assert(OTTE_MODULE_FEAT_DOMAIN == OTTE_FEAT_DOMAIN, "features");
static_assert((int)OTTE_MODULE_STATUS_LIVE == (int)OTTE_STATUS_LIVE, "status");
static_assert((int)OTTE_MODULE_STATUS_SUSPECT == (int)OTTE_STATUS_SUSPECT, "status");
static_assert((int)OTTE_MODULE_STATUS_STALE == (int)OTTE_STATUS_STALE, "status");
static_assert(OTTE_MODULE_EVIDENCE_BIT(1) == OTTE_EVIDENCE_NEVER_EXPOSED, "evidence");
static_assert(OTTE_MODULE_EVIDENCE_BIT(6) == OTTE_EVIDENCE_FORCED, "evidence");
static_assert((int)OTTE_MODULE_SETTLED == (int)OTTE_EVENT_SETTLED, "events");
static_assert((int)OTTE_MODULE_FENCED == (int)OTTE_EVENT_FENCED, "events");

/* A signal may end a call before it did anything. */
static int call(int fd, unsigned long command, void *arg)
{
	int rc;

	do
		rc = ioctl(fd, command, arg);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : 0;
}

/* ---- The module ------------------------------------------------------------------------------ */

int otte_module_query(int fd, struct otte_module_facts *facts)
{
	struct otte_query query = { .size = sizeof(query) };
	int rc = call(fd, OTTE_IOC_QUERY, &query);

	if (rc)
		return rc;
	*facts = (struct otte_module_facts){
		.revision = query.revision,
		.event_bytes = query.event_size,
		.features = query.features,
		.status_regions_max = query.status_regions_max,
	};
	memcpy(facts->load_id, query.load_id, sizeof(facts->load_id));
	return 0;
}

static int lacks(const struct otte_module_facts *facts, uint64_t needed)
{
	static const char *const names[] = { "PAGES",	"FILE",	    "CGROUP",	"BOOT_ID",    "DOMAIN",
					     "TIME_NS", "STANDING", "BY_ADDRESS",
					     "STANDING_OFFER" };
	unsigned bit = (unsigned)__builtin_ctzll(needed & ~facts->features);

	return otte_fail(-EPROTONOSUPPORT,
			 "ledger: the module lacks feature %s (bit %u): it has %#" PRIx64
			 " of revision %" PRIu32 ", this library needs %#" PRIx64 " of revision %u",
			 bit < ARRAY_SIZE(names) ? names[bit] : "?", bit, facts->features,
			 facts->revision, needed, OTTE_MODULE_REVISION);
}

int otte_module_check(const struct otte_module_facts *facts, uint64_t needed)
{
	if (facts->revision != OTTE_MODULE_REVISION)
		return otte_fail(-EPROTONOSUPPORT,
				 "ledger: the module speaks revision %" PRIu32
				 " of the ABI, this library %u",
				 facts->revision, OTTE_MODULE_REVISION);
	if (facts->event_bytes < sizeof(struct otte_event) ||
	    facts->event_bytes > OTTE_MODULE_EVENT_MAX)
		return otte_fail(-EPROTONOSUPPORT,
				 "ledger: the module's events have %" PRIu32
				 " bytes, this library reads %zu to %u",
				 facts->event_bytes, sizeof(struct otte_event),
				 OTTE_MODULE_EVENT_MAX);
	return needed & ~facts->features ? lacks(facts, needed) : 0;
}

int otte_module_client_init(int fd, const struct otte_module_init *init, uint64_t *client,
			    uint64_t *bytes)
{
	struct otte_client_init arg = {
		.size = sizeof(arg),
		.flags = init->flags,
		.status_regions = init->status_regions,
	};
	int rc = call(fd, OTTE_IOC_CLIENT_INIT, &arg);

	*client = arg.client;
	*bytes = arg.status_bytes;
	return rc;
}

int otte_module_status_map(int fd, uint64_t bytes, void **page)
{
	*page = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, OTTE_MMAP_STATUS);
	return *page == MAP_FAILED ? -errno : 0;
}

void otte_module_status_unmap(void *page, uint64_t bytes)
{
	munmap(page, bytes);
}

const _Atomic uint64_t *otte_module_status_word(const void *page, uint32_t index)
{
	const struct otte_status_page *status = page;

	return (const _Atomic uint64_t *)&status->word[index];
}

int otte_module_attest(int fd, uint64_t client, const uint8_t nonce[OTTE_MODULE_NONCE_LEN])
{
	struct otte_attest attest = { .size = sizeof(attest), .client = client };

	memcpy(attest.nonce, nonce, sizeof(attest.nonce));
	return call(fd, OTTE_IOC_ATTEST, &attest);
}

int otte_module_allow(int fd, uint64_t client, bool welcome)
{
	struct otte_allow allow = { .size = sizeof(allow),
				    .flags = welcome ? 0 : OTTE_ALLOW_REMOVE,
				    .client = client };

	return call(fd, OTTE_IOC_ALLOW, &allow);
}

int otte_module_fence(int fd, uint64_t client)
{
	struct otte_fence fence = { .size = sizeof(fence), .client = client };

	return call(fd, OTTE_IOC_FENCE, &fence);
}

int otte_module_fence_peer(int fd, const uint8_t peer[OTTE_MODULE_PEER_LEN], uint64_t incarnation)
{
	struct otte_fence fence = { .size = sizeof(fence),
				    .flags = OTTE_FENCE_PEER,
				    .incarnation = incarnation };

	memcpy(fence.peer, peer, sizeof(fence.peer));
	return call(fd, OTTE_IOC_FENCE, &fence);
}

/* ---- Regions --------------------------------------------------------------------------------- */

int otte_module_region_add(int fd, const struct otte_module_region *region, uint64_t *id,
			   uint32_t *index)
{
	struct otte_region_add add = {
		.size = sizeof(add),
		.backing = region->backing,
		.access = region->access,
		.addr = region->address,
		.length = region->length,
		.fd = region->fd,
	};
	int rc = call(fd, OTTE_IOC_REGION_ADD, &add);

	*id = add.region;
	*index = add.status_index;
	return rc;
}

int otte_module_region_del(int fd, uint64_t region, uint32_t *loans)
{
	struct otte_region_del del = { .size = sizeof(del), .region = region };
	int rc = call(fd, OTTE_IOC_REGION_DEL, &del);

	*loans = del.loans;
	return rc;
}

int otte_module_region_verify(int fd, uint64_t region)
{
	struct otte_region_verify verify = { .size = sizeof(verify), .region = region };

	return call(fd, OTTE_IOC_REGION_VERIFY, &verify);
}

/* ---- Loans ----------------------------------------------------------------------------------- */

int otte_module_loan_offer(int fd, const struct otte_module_terms *terms, uint64_t *loan)
{
	struct otte_loan_offer offer = {
		.size = sizeof(offer),
		.flags = terms->flags,
		.region = terms->region,
		.offset = terms->offset,
		.length = terms->length,
		.borrower = terms->borrower,
		.direction = terms->direction,
		.evidence = terms->evidence,
		.tag = terms->tag,
	};
	int rc = call(fd, OTTE_IOC_LOAN_OFFER, &offer);

	*loan = offer.loan;
	return rc;
}

int otte_module_loan_expose(int fd, const struct otte_module_terms *terms, uint64_t *loan)
{
	struct otte_loan_expose expose = {
		.size = sizeof(expose),
		.flags = terms->flags,
		.region = terms->region,
		.offset = terms->offset,
		.length = terms->length,
		.incarnation = terms->incarnation,
		.direction = terms->direction,
		.evidence = terms->evidence,
		.tag = terms->tag,
	};
	int rc;

	memcpy(expose.peer, terms->peer, sizeof(expose.peer));
	rc = call(fd, OTTE_IOC_LOAN_EXPOSE, &expose);
	*loan = expose.loan;
	return rc;
}

int otte_module_loan_accept(int fd, uint64_t loan, struct otte_module_accepted *accepted)
{
	struct otte_loan_accept accept = { .size = sizeof(accept), .loan = loan };
	int rc = call(fd, OTTE_IOC_LOAN_ACCEPT, &accept);

	/* A FILE's descriptor: nobody here asks for it yet. */
	if (!rc && accept.fd >= 0)
		close(accept.fd);
	*accepted = (struct otte_module_accepted){
		.length = accept.length,
		.map_offset = accept.map_offset,
		.map_bytes = accept.map_bytes,
		.direction = accept.direction,
	};
	return rc;
}

int otte_module_loan_settle(int fd, uint64_t loan, uint32_t evidence)
{
	struct otte_loan_settle settle = { .size = sizeof(settle),
					   .loan = loan,
					   .evidence = evidence };

	return call(fd, OTTE_IOC_LOAN_SETTLE, &settle);
}

int otte_module_loan_withdraw(int fd, uint64_t loan)
{
	struct otte_loan_withdraw withdraw = { .size = sizeof(withdraw), .loan = loan };

	return call(fd, OTTE_IOC_LOAN_WITHDRAW, &withdraw);
}

int otte_module_loan_revoke(int fd, uint64_t loan, bool *draining)
{
	struct otte_loan_revoke revoke = { .size = sizeof(revoke), .loan = loan };
	int rc = call(fd, OTTE_IOC_LOAN_REVOKE, &revoke);

	*draining = revoke.draining;
	return rc;
}

int otte_module_loan_copy(int fd, uint64_t loan, uint64_t offset, void *buffer, uint64_t length,
			  uint64_t *done)
{
	struct otte_loan_copy copy = {
		.size = sizeof(copy),
		.loan = loan,
		.offset = offset,
		.addr = (uintptr_t)buffer,
		.length = length,
	};
	int rc = call(fd, OTTE_IOC_LOAN_COPY, &copy);

	*done = copy.done;
	return rc;
}

int otte_module_loan_map(int fd, const struct otte_module_accepted *accepted, void **address)
{
	int protection = accepted->direction == OTTE_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;

	*address = mmap(NULL, accepted->map_bytes, protection, MAP_SHARED, fd,
			(off_t)accepted->map_offset);
	return *address == MAP_FAILED ? -errno : 0;
}

/* ---- Holds ----------------------------------------------------------------------------------- */

int otte_module_hold(int fd, uint64_t bytes, uint64_t *hold)
{
	struct otte_hold arg = { .size = sizeof(arg), .kind = OTTE_HOLD_OTHER, .bytes = bytes };
	int rc = call(fd, OTTE_IOC_HOLD, &arg);

	*hold = arg.hold;
	return rc;
}

int otte_module_hold_drop(int fd, uint64_t hold)
{
	struct otte_hold_drop drop = { .size = sizeof(drop), .hold = hold };

	return call(fd, OTTE_IOC_HOLD_DROP, &drop);
}

/* ---- Domains --------------------------------------------------------------------------------- */

/* A name that is too long is refused by the module, which wants its end. */
static void set_name(uint8_t to[OTTE_NAME_LEN], const char *name)
{
	memcpy(to, name, strnlen(name, OTTE_NAME_LEN));
}

int otte_module_domain_join(int fd, const char *name)
{
	struct otte_domain_join join = { .size = sizeof(join) };

	set_name(join.name, name);
	return call(fd, OTTE_IOC_DOMAIN_JOIN, &join);
}

int otte_module_domain_nic(int fd, const char *name, uint32_t *index)
{
	struct otte_domain_nic nic = { .size = sizeof(nic) };
	int rc;

	set_name(nic.name, name);
	rc = call(fd, OTTE_IOC_DOMAIN_NIC, &nic);
	*index = nic.index;
	return rc;
}

int otte_module_domain_kick(int fd)
{
	struct otte_domain_kick kick = { .size = sizeof(kick) };

	return call(fd, OTTE_IOC_DOMAIN_KICK, &kick);
}

/* Each is one page of the system's, whatever that is; the kernel rounds up. */
static const struct {
	off_t offset;
	size_t version; /* offset of its word */
} pages[] = {
	[OTTE_MODULE_PAGE_SLOT] = { OTTE_MMAP_SLOT, offsetof(struct otte_slot_page, version) },
	[OTTE_MODULE_PAGE_LOAD] = { OTTE_MMAP_LOAD, offsetof(struct otte_load_page, version) },
	[OTTE_MODULE_PAGE_SHARE] = { OTTE_MMAP_SHARE, offsetof(struct otte_share_page, version) },
};

#define DOMAIN_PAGE_BYTES 4096

int otte_module_domain_map(int fd, enum otte_module_page which, void **page)
{
	int prot = PROT_READ | (which == OTTE_MODULE_PAGE_SHARE ? PROT_WRITE : 0);
	void *at = mmap(NULL, DOMAIN_PAGE_BYTES, prot, MAP_SHARED, fd, pages[which].offset);

	if (at == MAP_FAILED)
		return -errno;
	if (*(uint32_t *)((char *)at + pages[which].version) != OTTE_ABI_REVISION) {
		munmap(at, DOMAIN_PAGE_BYTES);
		return -EPROTONOSUPPORT;
	}
	*page = at;
	return 0;
}

void otte_module_domain_unmap(void *page)
{
	if (page)
		munmap(page, DOMAIN_PAGE_BYTES);
}

/* ---- Events ---------------------------------------------------------------------------------- */

#define LEVEL(id, name) [OTTE_LEVEL_##id] = (name),
#define RESOURCE(id, name) [OTTE_RES_##id] = (name),

static_assert(OTTE_NAME_COUNT(OTTE_LEVEL_NAMES) == OTTE_LEVEL_COUNT, "each level has a name");
static_assert(OTTE_NAME_COUNT(OTTE_RESOURCE_NAMES) == OTTE_RES_COUNT, "each resource has a name");

static const char *level_name(uint32_t level)
{
	static const char *const names[] = {
		OTTE_LEVEL_NAMES(LEVEL)
		[OTTE_LEVEL_MEMLOCK] = "memlock",
	};

	return level < ARRAY_SIZE(names) ? names[level] : "?";
}

static const char *resource_name(uint32_t resource)
{
	static const char *const names[OTTE_RES_COUNT] = { OTTE_RESOURCE_NAMES(RESOURCE) };

	return resource < OTTE_RES_COUNT ? names[resource] : "?";
}

int otte_module_event(int fd, uint32_t bytes, struct otte_module_event *event)
{
	union {
		struct otte_event record;
		char bytes[OTTE_MODULE_EVENT_MAX];
	} room;
	const struct otte_event *record = &room.record;
	ssize_t n;

	do
		n = read(fd, &room, bytes);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n != bytes || record->size != bytes)
		return -EPROTO;
	*event = (struct otte_module_event){
		.type = record->type,
		.evidence = record->evidence ? (uint32_t)__builtin_ctz(record->evidence) + 1 : 0,
		.object = record->object,
		.region = record->region,
		.tag = record->tag,
		.other = record->other.client,
		.user = record->other.uid,
		.flags = record->flags,
		.level = level_name(record->level),
		.resource = resource_name(record->resource),
		.key = record->key,
		.usage = record->usage,
		.limit = record->limit,
		.requested = record->requested,
	};
	memcpy(event->nonce, record->nonce, sizeof(event->nonce));
	return 0;
}
