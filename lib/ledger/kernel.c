/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the kernel back end's ledger and its clients. A client is one descriptor of /dev/otte, which
 * the module ties to this process and address space: a child, or whoever is passed the descriptor,
 * is refused by the module itself. It lives from client_open to client_close; the module then
 * retires it before close(2) returns.
 */
#include "ledger/kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/util.h"
#include "ledger/open.h"

/* What this library cannot do without: several peers of one region. */
#define NEEDED OTTE_MODULE_FEAT_STANDING

static struct kernel_ledger *to_ledger(struct otte_ledger *ledger)
{
	return (struct kernel_ledger *)ledger;
}

static struct kernel_client *enter(struct otte_ledger_client *handle)
{
	struct kernel_client *client = (struct kernel_client *)handle;

	pthread_mutex_lock(&client->lock);
	return client;
}

static int leave(struct kernel_client *client, int rc)
{
	pthread_mutex_unlock(&client->lock);
	return rc;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* Whose limit it is: the file that an administrator sets, and of which cgroup or user. */
static void name_limit(const struct otte_module_event *why, char *text, size_t size)
{
	int used;

	if (!strcmp(why->level, "memlock")) {
		snprintf(text, size, "RLIMIT_MEMLOCK of user %" PRIu64, why->key);
		return;
	}
	used = snprintf(text, size, "the module's limit_%s/%s", why->level, why->resource);
	if (!strcmp(why->level, "cgroup") || !strcmp(why->level, "user"))
		snprintf(text + used, size - (size_t)used, " (%s %" PRIu64 ")", why->level,
			 why->key);
}

static int refused_budget(struct kernel_client *client, const char *what, uint64_t id)
{
	const struct otte_module_event *why = &client->refusal;
	char limit[128];

	kernel_event_pump(client); /* the module tells level and resource in an event */
	if (!why->level)
		return otte_fail(-EDQUOT, "%s %" PRIu64 ": a limit of the module is reached", what,
				 id);
	name_limit(why, limit, sizeof(limit));
	otte_fail(-EDQUOT,
		  "%s %" PRIu64 ": %s: %" PRIu64 " of %" PRIu64 " charged, %" PRIu64
		  " more asked for",
		  what, id, limit, why->usage, why->limit, why->requested);
	client->refusal.level = NULL;
	return -EDQUOT;
}

/* All but budgets. */
static int refused(int rc, const char *name)
{
	switch (rc) {
	case -EKEYREVOKED:
		return otte_fail(rc, "%s: fenced", name);
	case -ESTALE:
		return otte_fail(rc, "%s: its memory was unmapped or replaced", name);
	case -ESHUTDOWN:
		return otte_fail(rc, "%s: the module admits nothing new, it is drained", name);
	case -ENOMEM:
		return otte_fail(rc, "%s: no memory in the module", name);
	case -ENOENT:
		return otte_fail(rc, "%s: unknown", name);
	case -EPERM:
		return otte_fail(rc, "%s: not the process that opened this client", name);
	default:
		return otte_fail(rc, "%s: the module says %s", name, strerror(-rc));
	}
}

/* There is no client yet that the module could tell the level, nor an id. */
static int refused_client(int rc)
{
	switch (rc) {
	case -EDQUOT:
		return otte_fail(rc, "a client: the module's limit_user/clients, "
				     "limit_cgroup/clients or limit_module/clients is reached");
	case -ENOSPC:
		return otte_fail(-EDQUOT, "a client: more cgroups and user namespaces, one inside "
					  "the other, than the module can charge");
	default:
		return refused(rc, "a client");
	}
}

int kernel_refused(struct kernel_client *client, int rc, const char *what, uint64_t id)
{
	char name[64];

	if (rc == -EDQUOT)
		return refused_budget(client, what, id);
	snprintf(name, sizeof(name), "%s %" PRIu64, what, id);
	return refused(rc, name);
}

/* ---- Members --------------------------------------------------------------------------------- */

struct kernel_member *kernel_member_find(struct kernel_ledger *ledger, uint64_t id)
{
	struct kernel_member *member;

	HASH_FIND(hh, ledger->members, &id, sizeof(id), member);
	return member;
}

bool kernel_client_is_open(struct kernel_ledger *ledger, uint64_t client)
{
	const struct kernel_member *member;
	bool open;

	pthread_mutex_lock(&ledger->lock);
	member = kernel_member_find(ledger, client);
	open = member && member->client;
	pthread_mutex_unlock(&ledger->lock);
	return open;
}

bool kernel_client_is_ours(struct kernel_ledger *ledger, uint64_t client)
{
	bool ours;

	pthread_mutex_lock(&ledger->lock);
	ours = kernel_member_find(ledger, client) != NULL;
	pthread_mutex_unlock(&ledger->lock);
	return ours;
}

void kernel_count_settled(struct kernel_ledger *ledger, uint64_t loans)
{
	pthread_mutex_lock(&ledger->lock);
	ledger->settled += loans;
	pthread_mutex_unlock(&ledger->lock);
}

static int add_member(struct kernel_ledger *ledger, struct kernel_client *client)
{
	struct kernel_member *member = calloc(1, sizeof(*member));

	if (!member)
		return otte_fail(-ENOMEM, "no memory for a ledger client");
	member->id = client->id;
	member->client = client;
	pthread_mutex_lock(&ledger->lock);
	HASH_ADD(hh, ledger->members, id, sizeof(member->id), member);
	pthread_mutex_unlock(&ledger->lock);
	if (member->hh.tbl)
		return 0;
	free(member);
	return otte_fail(-ENOMEM, "no memory for a ledger client");
}

/* One that left nothing behind need not be remembered. */
static void drop_member(struct kernel_ledger *ledger, uint64_t id, bool left_something)
{
	struct kernel_member *member;

	pthread_mutex_lock(&ledger->lock);
	member = kernel_member_find(ledger, id);
	member->client = NULL;
	if (!left_something) {
		HASH_DEL(ledger->members, member);
		free(member);
	}
	pthread_mutex_unlock(&ledger->lock);
}

/* ---- Clients --------------------------------------------------------------------------------- */

static int attach(struct kernel_ledger *ledger, struct kernel_client *client, uint32_t flags)
{
	const struct otte_module_init init = {
		.status_regions = ledger->status_regions,
		.flags = flags & OTTE_CLIENT_NO_OFFERS ? OTTE_MODULE_ALLOWLIST : 0,
	};
	int rc;

	client->fd = otte_ledger_node_open(OTTE_LEDGER_NODE);
	if (client->fd < 0)
		return client->fd;
	rc = otte_module_client_init(client->fd, &init, &client->id, &client->status_bytes);
	if (rc) {
		rc = refused_client(rc);
		goto close;
	}
	rc = otte_module_status_map(client->fd, client->status_bytes, &client->status);
	if (rc) {
		rc = otte_fail(rc, "client %" PRIu64 ": mmap of its status page: %s", client->id,
			       strerror(-rc));
		goto close;
	}
	rc = add_member(ledger, client);
	if (!rc)
		return 0;
	otte_module_status_unmap(client->status, client->status_bytes);
close:
	otte_fd_close(client->fd);
	return rc;
}

static int client_open(struct otte_ledger *handle, const char *comm, uint32_t flags,
		       struct otte_ledger_client **out)
{
	struct kernel_client *client = calloc(1, sizeof(*client));
	int rc;

	(void)comm; /* the module attests the process's own */
	if (!client)
		return otte_fail(-ENOMEM, "no memory for a ledger client");
	client->base.ledger = handle;
	LIST_INIT(&client->attests);
	TAILQ_INIT(&client->events);
	pthread_mutex_init(&client->lock, NULL);
	rc = attach(to_ledger(handle), client, flags);
	if (rc) {
		pthread_mutex_destroy(&client->lock);
		free(client);
		return rc;
	}
	*out = &client->base;
	return 0;
}

static uint64_t client_id(const struct otte_ledger_client *handle)
{
	return ((const struct kernel_client *)handle)->id; /* never changes: no lock */
}

static void client_close(struct otte_ledger_client *handle)
{
	struct kernel_client *client = enter(handle);
	bool left;

	kernel_loan_withdraw_remote(client, 0);
	left = client->lent || client->accepted || client->holds;
	kernel_domain_unmap(client);
	otte_module_status_unmap(client->status, client->status_bytes);
	otte_fd_close(client->fd);
	drop_member(kernel_ledger_of(client), client->id, left);
	kernel_event_free_all(client);
	kernel_loan_free_all(client);
	kernel_region_free_all(client);
	kernel_hold_free_all(client);
	leave(client, 0);
	pthread_mutex_destroy(&client->lock);
	free(client);
}

/* ---- Ops of a client ------------------------------------------------------------------------- */

static int region_add(struct otte_ledger_client *handle, const struct otte_region_claim *claim,
		      uint64_t *region)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_region_add(client, claim, region));
}

static int region_del(struct otte_ledger_client *handle, uint64_t region)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_region_del(client, region));
}

static int region_watch(struct otte_ledger_client *handle, uint64_t region,
			struct otte_region_watch *watch)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_region_watch(client, region, watch));
}

static int loan_offer(struct otte_ledger_client *handle, const struct otte_loan_terms *terms,
		      uint64_t *loan)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_loan_offer(client, terms, loan));
}

static int loan_accept(struct otte_ledger_client *handle, uint64_t loan)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_loan_accept(client, loan));
}

static int welcome(struct otte_ledger_client *handle, uint64_t lender, bool is_welcome)
{
	struct kernel_client *client = enter(handle);
	int rc = otte_module_allow(client->fd, lender, is_welcome);

	if (rc == -ENOSPC)
		rc = otte_fail(-EDQUOT, "client %" PRIu64 ": allows as many lenders as the module keeps",
			       client->id);
	else if (rc)
		rc = kernel_refused(client, rc, "client", lender);
	return leave(client, rc);
}

static int loan_borrow(struct otte_ledger_client *handle, uint64_t loan, uint64_t lender,
		       struct otte_borrowed *borrowed)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_loan_borrow(client, loan, lender, borrowed));
}

/* Many at a time, and each for as long as its buffer takes: of the client it needs what never changes. */
static int loan_copy(struct otte_ledger_client *handle, uint64_t loan, uint64_t offset, void *buffer,
		     uint64_t length, uint64_t *done)
{
	return kernel_loan_copy((const struct kernel_client *)handle, loan, offset, buffer, length, done);
}

static int loan_map(struct otte_ledger_client *handle, uint64_t loan, void **address)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_loan_map(client, loan, address));
}

static int loan_expose(struct otte_ledger_client *handle, uint64_t loan)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_loan_expose(client, loan));
}

static int loan_settle(struct otte_ledger_client *handle, uint64_t loan,
		       enum otte_evidence evidence)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_loan_settle(client, loan, evidence));
}

static int loan_withdraw(struct otte_ledger_client *handle, uint64_t loan)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_loan_withdraw(client, loan));
}

static int loan_revoke(struct otte_ledger_client *handle, uint64_t loan)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_loan_revoke(client, loan));
}

static int loan_take_back(struct otte_ledger_client *handle, uint64_t loan, bool revoke)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_loan_take_back(client, loan, revoke));
}

static int fence(struct otte_ledger_client *handle, const struct otte_borrower *who)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_fence(client, who));
}

static int hold(struct otte_ledger_client *handle, uint64_t bytes, const char *reason, uint64_t *id)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_hold(client, bytes, reason, id));
}

static int hold_drop(struct otte_ledger_client *handle, uint64_t id)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_hold_drop(client, id));
}

static void attest_module(const struct otte_ledger_client *handle,
			  uint8_t module[OTTE_ATTEST_MODULE_BYTES])
{
	const struct kernel_ledger *ledger =
		kernel_ledger_of((const struct kernel_client *)handle);

	memcpy(module, ledger->load_id, sizeof(ledger->load_id)); /* never changes: no lock */
}

static int attest_send(struct otte_ledger_client *handle, uint64_t to,
		       const uint8_t nonce[OTTE_ATTEST_NONCE_BYTES])
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_attest_send(client, to, nonce));
}

static int attest_await(struct otte_ledger_client *handle,
			const uint8_t nonce[OTTE_ATTEST_NONCE_BYTES], struct otte_attest **attest)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_attest_await(client, nonce, attest));
}

static int attest_heard(struct otte_ledger_client *handle, struct otte_attest *attest,
			uint64_t *from, uint32_t *user)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_attest_heard(client, attest, from, user));
}

static void attest_forget(struct otte_ledger_client *handle, struct otte_attest *attest)
{
	struct kernel_client *client = enter(handle);

	kernel_attest_forget(attest);
	leave(client, 0);
}

static int event_next(struct otte_ledger_client *handle, struct otte_event *event)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_event_next(client, event));
}

static int domain_join(struct otte_ledger_client *handle, const char *name,
		       struct otte_ledger_domain *domain)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_domain_join(client, name, domain));
}

static int domain_nic(struct otte_ledger_client *handle, const char *nic, uint32_t *index)
{
	struct kernel_client *client = enter(handle);

	return leave(client, kernel_domain_nic(client, nic, index));
}

/* Without the lock: the descriptor is there until client_close(), and nothing else is looked at. */
static void domain_kick(struct otte_ledger_client *handle)
{
	otte_module_domain_kick(((struct kernel_client *)handle)->fd);
}

/* ---- Ops of the ledger ----------------------------------------------------------------------- */

static ssize_t dump_loans(struct otte_ledger *handle, struct otte_loan_info *rows, size_t capacity)
{
	return kernel_dump_loans(to_ledger(handle), rows, capacity);
}

static ssize_t dump_retained(struct otte_ledger *handle, struct otte_retained_info *rows,
			     size_t capacity)
{
	return kernel_dump_retained(to_ledger(handle), rows, capacity);
}

static int release(struct otte_ledger *handle, uint64_t retained)
{
	return kernel_release(to_ledger(handle), retained);
}

/* What this process knows of its own, without what clients that closed left behind. Locked. */
static void count_client(const struct kernel_client *client, struct otte_ledger_counters *out)
{
	const struct kernel_region *region;
	const struct kernel_hold *hold;
	const struct kernel_loan *loan;

	for (region = client->regions; region; region = region->hh.next) {
		out->regions++;
		out->registered_bytes += region->claim.length;
	}
	for (loan = client->lent; loan; loan = loan->hh.next) {
		out->loans += !loan->ended;
		out->lent_bytes += loan->ended ? 0 : loan->terms.length;
	}
	for (hold = client->holds; hold; hold = hold->hh.next) {
		out->retained++;
		out->retained_bytes += hold->bytes;
	}
}

/* The module's dumps know best; where they cannot be had, its own tables are a ledger's word. */
static void counters(struct otte_ledger *handle, struct otte_ledger_counters *out)
{
	struct kernel_ledger *ledger = to_ledger(handle);
	const struct kernel_member *member;
	bool dumped;

	memset(out, 0, sizeof(*out));
	dumped = !kernel_count(ledger, out);
	if (!dumped)
		memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&ledger->lock);
	for (member = ledger->members; member; member = member->hh.next) {
		out->clients += member->client != NULL;
		if (!dumped && member->client)
			count_client(member->client, out);
	}
	out->loans_settled = ledger->settled;
	pthread_mutex_unlock(&ledger->lock);
}

/* What is retained is the module's: it stays. Nobody else calls any more. */
static void close_ledger(struct otte_ledger *handle)
{
	struct kernel_ledger *ledger = to_ledger(handle);
	struct otte_ledger_counters left = { 0 };
	struct kernel_member *member, *next;

	/* Where no client left anything nothing is looked for: the text of why it is closed stays. */
	if (ledger->members && !kernel_count(ledger, &left) && left.retained)
		otte_log(OTTE_LOG_WARNING,
			 "ledger: closed with %" PRIu64 " retained records of %" PRIu64
			 " bytes, which the module keeps",
			 left.retained, left.retained_bytes);
	HASH_ITER(hh, ledger->members, member, next) {
		HASH_DEL(ledger->members, member);
		free(member);
	}
	otte_netlink_close(&ledger->netlink);
	pthread_mutex_destroy(&ledger->lock);
	free(ledger);
}

static const struct otte_ledger_ops kernel_ops = {
	.name = "kernel",
	.close = close_ledger,
	.client_open = client_open,
	.client_id = client_id,
	.client_close = client_close,
	.region_add = region_add,
	.region_del = region_del,
	.region_watch = region_watch,
	.loan_offer = loan_offer,
	.loan_accept = loan_accept,
	.welcome = welcome,
	.loan_borrow = loan_borrow,
	.loan_copy = loan_copy,
	.loan_map = loan_map,
	.loan_expose = loan_expose,
	.loan_settle = loan_settle,
	.loan_withdraw = loan_withdraw,
	.loan_revoke = loan_revoke,
	.loan_take_back = loan_take_back,
	.fence = fence,
	.hold = hold,
	.hold_drop = hold_drop,
	.attest_module = attest_module,
	.attest_send = attest_send,
	.attest_await = attest_await,
	.attest_heard = attest_heard,
	.attest_forget = attest_forget,
	.event_next = event_next,
	.domain_join = domain_join,
	.domain_nic = domain_nic,
	.domain_kick = domain_kick,
	.dump_loans = dump_loans,
	.dump_retained = dump_retained,
	.release = release,
	.counters = counters,
};

static int look_at_module(struct otte_module_facts *facts)
{
	int fd = otte_ledger_node_open(OTTE_LEDGER_NODE), rc;

	if (fd < 0)
		return fd;
	rc = otte_module_query(fd, facts);
	otte_fd_close(fd);
	if (rc)
		return otte_fail(-ENODEV, "ledger: %s: is not the otte module's node: %s",
				 OTTE_LEDGER_NODE, strerror(-rc));
	return otte_module_check(facts, NEEDED);
}

/* What the module may lack, and what goes without it then. */
static void set_features(struct kernel_ledger *ledger)
{
	uint64_t features = ledger->facts.features;

	ledger->ops = kernel_ops;
	ledger->by_address = features & OTTE_MODULE_FEAT_BY_ADDRESS;
	if (!ledger->by_address)
		otte_log(OTTE_LOG_INFO,
			 "ledger: this module lends memory whose pages may have been "
			 "replaced (copy on write, swap) to no new peer");
	ledger->standing_offers = features & OTTE_MODULE_FEAT_STANDING_OFFER;
	if (ledger->standing_offers)
		return;
	otte_log(OTTE_LOG_INFO,
		 "ledger: this module lacks STANDING_OFFER (bit %u), so nothing is borrowed "
		 "from peers of this host",
		 (unsigned)__builtin_ctzll(OTTE_MODULE_FEAT_STANDING_OFFER));
	ledger->ops.welcome = NULL;
	ledger->ops.loan_borrow = NULL;
	ledger->ops.loan_copy = NULL;
	ledger->ops.loan_map = NULL;
}

/* The caller's limit, and the words of the status page, of which the module has only so many. */
static void set_regions(struct kernel_ledger *ledger, uint64_t wanted, uint64_t room)
{
	ledger->regions_max = wanted;
	ledger->status_regions = (uint32_t)min_u64(wanted, room);
	if (wanted > room && wanted != UINT64_MAX)
		otte_log(OTTE_LOG_WARNING,
			 "ledger: limits.regions: of %" PRIu64 " regions the module's status page "
			 "has room for %" PRIu64 ", which rules",
			 wanted, room);
}

int otte_ledger_kernel_open(const struct otte_ledger_limits *limits, struct otte_ledger **out)
{
	struct otte_module_facts facts;
	struct kernel_ledger *ledger;
	int rc = look_at_module(&facts);

	if (rc)
		return rc;
	ledger = calloc(1, sizeof(*ledger));
	if (!ledger)
		return otte_fail(-ENOMEM, "no memory for a ledger");
	ledger->base.ops = &ledger->ops;
	ledger->facts = facts;
	memcpy(ledger->load_id, facts.load_id, sizeof(ledger->load_id));
	set_features(ledger);
	set_regions(ledger, limits ? limits->regions : UINT64_MAX, facts.status_regions_max);
	pthread_mutex_init(&ledger->lock, NULL);
	otte_netlink_open(&ledger->netlink);
	if (ledger->netlink.error)
		otte_log(OTTE_LOG_WARNING,
			 "ledger: no dumps, the netlink family " OTTE_NL_FAMILY
			 " cannot be reached here: %s",
			 strerror(-ledger->netlink.error));
	*out = &ledger->base;
	return 0;
}
