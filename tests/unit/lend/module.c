/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "module.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/util.h"
#include "engine/attestor.h"
#include "engine/engine.h"
#include "ledger/ledger.h"

#define OBJECTS 65536
#define CHUNK (256 << 10)

enum { STALE = 1, SUSPECT = 2 };

int __real_otte_ledger_open(uint32_t kind, const struct otte_ledger_limits *limits, struct otte_ledger **out);
int __wrap_otte_ledger_open(uint32_t kind, const struct otte_ledger_limits *limits, struct otte_ledger **out);
void __real_otte_attestor_fill(struct otte_engine *engine, struct otte_attestor *attestor);
void __wrap_otte_attestor_fill(struct otte_engine *engine, struct otte_attestor *attestor);

int __real_otte_engine_create(const struct otte_config *config, struct otte_engine **out);
int __wrap_otte_engine_create(const struct otte_config *config, struct otte_engine **out);

struct script script;
bool module_framed, module_absent;

/* One that asks only. */
int __wrap_otte_engine_create(const struct otte_config *config, struct otte_engine **out)
{
	struct otte_config own = *config;

	if (module_framed && !own.listen_address[0])
		own.local_trusted = 0;
	return __real_otte_engine_create(&own, out);
}

struct region {
	uint64_t id, address;
	bool table; /* of uses */
	_Atomic uint64_t word;
};

struct loan {
	uint64_t id, lender, borrower, length, offset;
	void *map; /* last */
	struct otte_ledger_client *owner;
	struct region *region;
	uint32_t right, flags;
	bool over;
	_Atomic bool kept; /* its borrower has failed to settle it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct otte_ledger *ledger;
static const struct otte_ledger_ops *real;
static struct otte_ledger_ops ops;
static unsigned users;
static struct region regions[OBJECTS];
static struct loan loans[OBJECTS];
static unsigned region_count, loan_count;
static struct region *last;

void module_reset(void)
{
	memset(&script, 0, sizeof(script));
}

void module_unmap(void)
{
	atomic_fetch_or(&last->word, STALE);
}

void module_suspect(void)
{
	atomic_fetch_or(&last->word, SUSPECT);
}

static struct loan *find_loan(uint64_t id)
{
	struct loan *found = NULL;
	unsigned i;

	pthread_mutex_lock(&lock);
	for (i = loan_count; i-- && !found;)
		if (loans[i].id == id)
			found = &loans[i];
	pthread_mutex_unlock(&lock);
	return found;
}

static void end(uint64_t id)
{
	struct loan *loan = find_loan(id);

	pthread_mutex_lock(&lock);
	if (loan)
		loan->over = true;
	pthread_mutex_unlock(&lock);
}

/* `ret` of what was to end a loan: it has, or is not known any more. */
static int ended(uint64_t id, int ret)
{
	if (!ret || ret == -ENOENT)
		end(id);
	return ret;
}

static bool is_over(const struct loan *loan)
{
	bool over;

	pthread_mutex_lock(&lock);
	over = loan->over;
	pthread_mutex_unlock(&lock);
	return over;
}

void module_revoke_all(void)
{
	unsigned i, count;

	pthread_mutex_lock(&lock);
	count = loan_count;
	pthread_mutex_unlock(&lock);
	for (i = count > 64 ? count - 64 : 0; i < count; i++)
		if (!is_over(&loans[i]) && loans[i].flags & OTTE_LOAN_REVOCABLE &&
		    !real->loan_revoke(loans[i].owner, loans[i].id))
			end(loans[i].id);
}

void module_release_tables(void)
{
	unsigned i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < loan_count; i++) {
		if (!loans[i].region->table || loans[i].over)
			continue;
		loans[i].over = true;
		if (loans[i].map && mprotect(loans[i].map, loans[i].length, PROT_NONE))
			abort();
	}
	pthread_mutex_unlock(&lock);
}

unsigned module_tables(void)
{
	unsigned i, count = 0;

	pthread_mutex_lock(&lock);
	for (i = 0; i < loan_count; i++)
		count += loans[i].region->table && !loans[i].over;
	pthread_mutex_unlock(&lock);
	return count;
}

unsigned module_loans(bool kept)
{
	unsigned i, count = 0;

	pthread_mutex_lock(&lock);
	for (i = 0; i < loan_count; i++)
		count += !loans[i].over && (kept || !loans[i].kept);
	pthread_mutex_unlock(&lock);
	return count;
}

/* The call that is to fail does. */
static int try(const char *call)
{
	bool (*fails)(const char *call) = script.fails; /* tests set it while engines run */

	return fails && fails(call) ? otte_fail(-ENOMEM, "%s: no memory", call) : 0;
}

/* ---- Clients ---- */

/* Those that are welcome, welcome() says; here all are. */
static int client_open(struct otte_ledger *shared, const char *comm, uint32_t flags,
		       struct otte_ledger_client **client)
{
	return real->client_open(shared, comm, flags & ~OTTE_CLIENT_NO_OFFERS, client);
}

/* What it has borrowed ends with it, and so do offers to it. */
static void client_close(struct otte_ledger_client *client)
{
	uint64_t id = real->client_id(client);
	unsigned i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < loan_count; i++)
		loans[i].over |= loans[i].borrower == id;
	real->client_close(client);
	pthread_mutex_unlock(&lock);
}

/* ---- Regions ---- */

static int region_add(struct otte_ledger_client *client, const struct otte_region_claim *claim, uint64_t *id)
{
	struct otte_region_claim plain = *claim;
	struct region *region;
	int ret;

	if (claim->access == OTTE_REMOTE_WRITE && atomic_load(&script.refuses_pins))
		return otte_fail(-EDQUOT, "RLIMIT_MEMLOCK is reached");
	plain.backing = OTTE_BACKING_NONE;
	ret = real->region_add(client, &plain, id);
	if (ret)
		return ret;
	pthread_mutex_lock(&lock);
	region = &regions[region_count++];
	region->id = *id;
	region->address = claim->address;
	atomic_store(&region->word, 0);
	region->table = claim->access == OTTE_REMOTE_WRITE;
	if (claim->backing == OTTE_BACKING_PAGES && !region->table)
		last = region;
	pthread_mutex_unlock(&lock);
	return 0;
}

static struct region *find_region(uint64_t id)
{
	struct region *found = NULL;
	unsigned i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < region_count && !found; i++)
		if (regions[i].id == id)
			found = &regions[i];
	pthread_mutex_unlock(&lock);
	return found;
}

static int region_watch(struct otte_ledger_client *client, uint64_t id, struct otte_region_watch *watch)
{
	(void)client;
	*watch = (struct otte_region_watch){
		.word = &find_region(id)->word, .mask = STALE, .fresh = 0, .suspect = SUSPECT,
	};
	return 0;
}

/* ---- Loans ---- */

static int loan_offer(struct otte_ledger_client *lender, const struct otte_loan_terms *terms, uint64_t *id)
{
	void (*offered)(void *arg, uint64_t loan, bool table);
	struct region *region = find_region(terms->region);
	struct otte_loan_terms plain = *terms;
	struct loan *loan;
	int ret;

	if (terms->borrower.client && atomic_load(&script.refuses))
		return otte_fail(-EDQUOT, "no more loans");
	if (region->table && atomic_load(&script.refuses_tables))
		return otte_fail(-EDQUOT, "no more tables");
	if (terms->borrower.client && !region->table && atomic_load(&script.refuses_memory))
		return otte_fail(-EDQUOT, "no more of this memory");
	if (atomic_load(&script.keeps_rights))
		plain.flags |= OTTE_LOAN_REVOCABLE;
	plain.flags &= ~OTTE_LOAN_MAPPABLE;
	/* Of pages that only the module lets be touched: it says UNMAPPED. */
	if (terms->borrower.client)
		plain.accepted = OTTE_EVIDENCE_DEFAULT | OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_BORROWER_EXITED);
	ret = terms->borrower.client ? try("loan_offer") : 0;
	if (ret)
		return ret;
	pthread_mutex_lock(&lock);
	ret = real->loan_offer(lender, &plain, id);
	if (ret || !terms->borrower.client)
		goto unlock;
	if (loan_count == OBJECTS)
		abort();
	loan = &loans[loan_count++];
	*loan = (struct loan){
		.id = *id, .lender = real->client_id(lender), .owner = lender,
		.borrower = terms->borrower.client, .offset = terms->offset, .length = terms->length,
		.right = terms->right, .flags = terms->flags | (plain.flags & OTTE_LOAN_REVOCABLE),
		.region = region,
	};
unlock:
	pthread_mutex_unlock(&lock);
	offered = script.offered;
	if (!ret && terms->borrower.client && offered)
		offered(script.offered_arg, *id, region->table);
	return ret;
}

static int loan_borrow(struct otte_ledger_client *borrower, uint64_t id, uint64_t lender,
		       struct otte_borrowed *borrowed)
{
	const struct loan *loan = find_loan(id);
	int ret;

	if (!loan || loan->lender != lender)
		return otte_fail(-EPERM, "loan %lu is not of client %lu", (unsigned long)id, (unsigned long)lender);
	ret = try("loan_borrow");
	if (!ret)
		ret = real->loan_accept(borrower, id);
	*borrowed = (struct otte_borrowed){
		.length = loan->length, .right = loan->right, .mappable = loan->flags & OTTE_LOAN_MAPPABLE,
		.revocable = loan->flags & OTTE_LOAN_REVOCABLE,
	};
	return ret;
}

static int loan_copy(struct otte_ledger_client *borrower, uint64_t id, uint64_t offset, void *buffer,
		     uint64_t length, uint64_t *done)
{
	const struct loan *loan = find_loan(id);
	int ret = try("loan_copy");
	void (*before)(void *arg);
	uint8_t *lent;

	if (ret)
		return ret;
	if (loan && loan->region->table && loan->borrower == real->client_id(borrower) && !length)
		return is_over(loan) ? otte_fail(-EKEYREVOKED, "the table was released") : 0;
	before = script.before;
	if (before)
		before(script.arg);
	if (length)
		atomic_fetch_add(&script.copied, 1);
	else
		atomic_fetch_add(&script.looked, 1);
	if (!loan || loan->borrower != real->client_id(borrower) || is_over(loan))
		return otte_fail(-EKEYREVOKED, "loan %lu was revoked", (unsigned long)id);
	if (atomic_load(&loan->region->word) & STALE)
		return otte_fail(-ESTALE, "its owner has unmapped it");
	if (!range_inside(offset, length, loan->length))
		return otte_fail(-ERANGE, "not inside the loan");
	*done = min_u64(length, CHUNK);
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): as the owner claimed it */
	lent = (uint8_t *)(uintptr_t)(loan->region->address + loan->offset + offset);
	if (loan->right == OTTE_LOAN_READ)
		memcpy(buffer, lent, *done);
	else
		memcpy(lent, buffer, *done);
	return 0;
}

static int welcome(struct otte_ledger_client *client, uint64_t lender, bool is_welcome)
{
	(void)client;
	if (!is_welcome)
		atomic_store(&script.unwelcome, lender);
	else if (atomic_load(&script.refuses_lenders))
		return otte_fail(-EDQUOT, "no more lenders");
	return 0;
}

/* An alias of the owner's shared mapping. */
static int loan_map(struct otte_ledger_client *borrower, uint64_t id, void **address)
{
	struct loan *loan = find_loan(id);
	int ret = try("loan_map");

	(void)borrower;
	if (ret)
		return ret;
	if (!(loan->flags & OTTE_LOAN_MAPPABLE))
		return otte_fail(-EOPNOTSUPP, "not lent to be mapped");
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): as the owner claimed it */
	*address = mremap((void *)(uintptr_t)(loan->region->address + loan->offset), 0, loan->length,
			  MREMAP_MAYMOVE);
	if (*address == MAP_FAILED)
		return otte_fail(-errno, "mremap: %m");
	pthread_mutex_lock(&lock);
	loan->map = *address;
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(loan->region->table ? &script.mapped_tables : &script.mapped, 1);
	return 0;
}

/* Of loans to local clients alone. What is mapped, and no table, nobody else can end. */
static int fail_settle(struct loan *loan)
{
	bool mapping = loan && loan->flags & OTTE_LOAN_MAPPABLE && !loan->region->table;
	int ret = loan ? try(mapping ? "loan_settle, mapped" : "loan_settle") : 0;

	if (ret)
		loan->kept = true;
	return ret;
}

static int loan_settle(struct otte_ledger_client *client, uint64_t id, enum otte_evidence evidence)
{
	int ret = fail_settle(find_loan(id));

	if (!ret)
		ret = real->loan_settle(client, id, evidence);
	return ended(id, ret);
}

static int loan_withdraw(struct otte_ledger_client *client, uint64_t id)
{
	int ret = find_loan(id) ? try("loan_withdraw") : 0;

	if (!ret)
		ret = real->loan_withdraw(client, id);
	if (ret == -ENOENT)
		atomic_fetch_add(&script.in_vain, 1);
	return ended(id, ret);
}

static int loan_revoke(struct otte_ledger_client *client, uint64_t id)
{
	int ret;

	if (atomic_load(&script.drains)) {
		end(id);
		return otte_fail(-EINPROGRESS, "a copy still moves bytes");
	}
	ret = try("loan_revoke");
	if (!ret)
		ret = real->loan_revoke(client, id);
	if (ret == -ENOENT)
		atomic_fetch_add(&script.in_vain, 1);
	return ended(id, ret);
}

static int loan_take_back(struct otte_ledger_client *client, uint64_t id, bool revoke)
{
	int ret = find_loan(id) ? try("loan_withdraw") : 0;

	if (!ret)
		ret = real->loan_take_back(client, id, false);
	if (ret == -EBUSY && revoke)
		return loan_revoke(client, id);
	return ended(id, ret);
}

static int event_next(struct otte_ledger_client *client, struct otte_event *event)
{
	int ret = real->event_next(client, event);

	while (!ret && atomic_load(&script.forgetful))
		ret = real->event_next(client, event);
	return ret;
}

/* ---- The ledger that all share ---- */

static void close_ledger(struct otte_ledger *shared)
{
	pthread_mutex_lock(&lock);
	if (!--users) {
		real->close(shared);
		ledger = NULL;
		region_count = loan_count = 0;
	}
	pthread_mutex_unlock(&lock);
}

static int open_shared(const struct otte_ledger_limits *limits)
{
	int ret = otte_ledger_process_open(limits, &ledger);

	if (ret)
		return ret;
	real = ledger->ops;
	ops = *real;
	ops.close = close_ledger;
	ops.client_open = client_open;
	ops.client_close = client_close;
	ops.region_add = region_add;
	ops.region_watch = region_watch;
	ops.loan_offer = loan_offer;
	ops.welcome = welcome;
	ops.loan_borrow = loan_borrow;
	ops.loan_copy = loan_copy;
	ops.loan_map = loan_map;
	ops.loan_settle = loan_settle;
	ops.loan_withdraw = loan_withdraw;
	ops.loan_revoke = loan_revoke;
	ops.loan_take_back = loan_take_back;
	ops.event_next = event_next;
	ledger->ops = &ops;
	return 0;
}

int __wrap_otte_ledger_open(uint32_t kind, const struct otte_ledger_limits *limits, struct otte_ledger **out)
{
	int ret = 0;

	if (module_absent)
		return __real_otte_ledger_open(kind, limits, out);
	pthread_mutex_lock(&lock);
	if (!ledger)
		ret = open_shared(limits);
	if (!ret)
		users++;
	*out = ledger;
	pthread_mutex_unlock(&lock);
	return ret;
}

/* ---- Attestation: a nonce goes to whoever awaits it ---- */

struct wait {
	struct wait *next;
	uint8_t nonce[OTTE_NONCE_BYTES];
	uint64_t from;
};

static struct wait *waits;

static int await(void *arg, const uint8_t nonce[OTTE_NONCE_BYTES], void **out)
{
	struct wait *wait = calloc(1, sizeof(*wait));

	(void)arg;
	if (!wait)
		return otte_fail(-ENOMEM, "no memory");
	memcpy(wait->nonce, nonce, sizeof(wait->nonce));
	pthread_mutex_lock(&lock);
	wait->next = waits;
	waits = wait;
	pthread_mutex_unlock(&lock);
	*out = wait;
	return 0;
}

static int heard(void *arg, void *waiting, uint64_t *client, uint32_t *user)
{
	const struct wait *wait = waiting;

	(void)arg;
	pthread_mutex_lock(&lock);
	*client = wait->from;
	*user = script.user;
	pthread_mutex_unlock(&lock);
	return *client ? 0 : -EAGAIN;
}

static void forget(void *arg, void *waiting)
{
	struct wait **at;

	(void)arg;
	pthread_mutex_lock(&lock);
	for (at = &waits; *at != waiting; at = &(*at)->next)
		;
	*at = (*at)->next;
	pthread_mutex_unlock(&lock);
	free(waiting);
}

static int send_nonce(void *arg, uint64_t to, const uint8_t nonce[OTTE_NONCE_BYTES])
{
	const struct otte_engine *engine = arg;
	struct wait *wait;

	(void)to;
	pthread_mutex_lock(&lock);
	for (wait = waits; wait; wait = wait->next)
		if (!memcmp(wait->nonce, nonce, sizeof(wait->nonce)))
			wait->from = engine->attestor.client;
	pthread_mutex_unlock(&lock);
	return 0;
}

void __wrap_otte_attestor_fill(struct otte_engine *engine, struct otte_attestor *attestor)
{
	if (module_absent) {
		__real_otte_attestor_fill(engine, attestor);
		return;
	}
	*attestor = (struct otte_attestor){
		.arg = engine,
		.client = script.client ? script.client : real->client_id(engine->client),
		.module = { 7 },
		.lends = !atomic_load(&script.old),
		.await = await,
		.heard = heard,
		.forget = forget,
		.send = send_nonce,
	};
}
