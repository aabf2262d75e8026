/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sched/slots.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/read.h"
#include "base/util.h"
#include "uapi/linux/otte.h"

_Static_assert(OTTE_SLOTS_PATTERN_MAX == OTTE_SLOTS_MAX, "patterns are those of the ABI");
_Static_assert(sizeof(struct otte_slot_epoch) % sizeof(uint64_t) == 0, "epochs are whole words");
_Static_assert(OTTE_SLOTS_NAME_MAX == OTTE_NAME_LEN, "names are those of the ABI");

#define UNUSED_NS UINT64_MAX /* base_ns of an epoch that was never written */
#define NEVER_NS UINT64_MAX
/* A page that is being written is looked at so often, and then again after the shortest slot. */
#define READS 4

#define OFFSETS "/proc/self/timens_offsets"
#define INITIAL_NAMESPACE 0xeffffffau /* inode of the first time namespace: PROC_TIME_INIT_INO */

/* ---- Names and patterns ---- */

int otte_slots_check_name(const char *name)
{
	size_t i;

	for (i = 0; name[i]; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("-_.:@", name[i]))
			return otte_fail(-EINVAL,
					 "only letters, digits and any of -_.:@ are allowed");
	if (i >= OTTE_SLOTS_NAME_MAX)
		return otte_fail(-EINVAL, "longer than %d bytes", OTTE_SLOTS_NAME_MAX - 1);
	return 0;
}

static int parse_word(const char *word, size_t length, uint8_t *lowest)
{
	static const char *const words[OTTE_PRIORITIES] = { "high", "medium", "low" };
	unsigned i;

	for (i = 0; i < OTTE_PRIORITIES; i++) {
		if (strlen(words[i]) == length && !memcmp(words[i], word, length)) {
			*lowest = (uint8_t)i;
			return 0;
		}
	}
	return -EINVAL;
}

int otte_slots_parse(const char *text, struct otte_slots_pattern *pattern)
{
	bool all = false;
	size_t length;

	memset(pattern->lowest, 0, sizeof(pattern->lowest));
	for (pattern->slots = 0;; text += length + 1) {
		length = strcspn(text, ",");
		if (pattern->slots == OTTE_SLOTS_PATTERN_MAX)
			return otte_fail(-EINVAL, "more than %d slots", OTTE_SLOTS_PATTERN_MAX);
		if (parse_word(text, length, &pattern->lowest[pattern->slots]))
			return otte_fail(-EINVAL, "slot %u is none of high, medium, low",
					 pattern->slots + 1);
		all |= pattern->lowest[pattern->slots++] == OTTE_PRIORITY_LOW;
		if (!text[length])
			break;
	}
	return all ? 0 : otte_fail(-EINVAL, "no slot is for low, which could never send");
}

/* As strict as the module is with a domain's. */
static int check_pattern(const struct otte_slots_pattern *pattern)
{
	bool all = false;
	uint32_t i;

	if (pattern->interval_ns < OTTE_SLOT_NS_MIN || pattern->interval_ns > OTTE_SLOT_NS_MAX ||
	    !pattern->slots || pattern->slots > OTTE_SLOTS_MAX)
		return -EINVAL;
	for (i = 0; i < OTTE_SLOTS_MAX; i++) {
		if (pattern->lowest[i] > OTTE_PRIORITY_LOW ||
		    (i >= pattern->slots && pattern->lowest[i]))
			return -EINVAL;
		all |= pattern->lowest[i] == OTTE_PRIORITY_LOW;
	}
	return all ? 0 : -EINVAL;
}

/* ---- Life ---- */

static void open_over(struct otte_slots *slots, const struct otte_slot_page *page,
		      int64_t offset_ns, uint64_t low_bytes_max)
{
	memset(slots, 0, sizeof(*slots));
	slots->page = page;
	slots->offset_ns = offset_ns;
	slots->low_bytes_max = low_bytes_max;
}

void otte_slots_open_domain(struct otte_slots *slots, const struct otte_slots_domain *domain,
			    uint64_t low_bytes_max)
{
	open_over(slots, domain->slot, domain->share ? domain->share->timens_offset_ns : 0,
		  low_bytes_max);
	slots->load = domain->load;
	slots->share = domain->share;
	slots->kick = domain->kick;
	slots->kick_arg = domain->arg;
}

int otte_slots_open_clock(struct otte_slots *slots, const struct otte_slots_pattern *pattern,
			  int64_t offset_ns, uint64_t low_bytes_max)
{
	struct otte_slot_page *own;

	if (check_pattern(pattern))
		return otte_fail(-EINVAL, "a pattern of slots that could not be a domain's");
	own = calloc(1, sizeof(*own));
	if (!own)
		return otte_fail(-ENOMEM, "no memory for a pattern of slots");
	own->epoch[0].interval_ns = pattern->interval_ns;
	own->epoch[0].slots = pattern->slots;
	memcpy(own->epoch[0].lowest, pattern->lowest, sizeof(own->epoch[0].lowest));
	own->epoch[1].base_ns = UNUSED_NS;
	open_over(slots, own, offset_ns, low_bytes_max);
	slots->own = own;
	return 0;
}

void otte_slots_close(struct otte_slots *slots)
{
	free(slots->own);
	memset(slots, 0, sizeof(*slots));
}

/* ---- The clock of another time namespace ---- */

/* A kernel without time namespaces has one clock, as have those who are in the first of them. */
static int find_namespaces(ino_t *own, ino_t *children)
{
	struct stat of_own, of_children;

	if (stat("/proc/self/ns/time", &of_own) ||
	    stat("/proc/self/ns/time_for_children", &of_children)) {
		if (errno != ENOENT)
			return otte_fail(-errno, "/proc/self/ns/time: %m");
		*own = *children = INITIAL_NAMESPACE;
		return 0;
	}
	*own = of_own.st_ino;
	*children = of_children.st_ino;
	return 0;
}

static int parse_offset(const char *text, int64_t *offset_ns)
{
	const char *line = strstr(text, "monotonic");
	long long seconds, nanoseconds;

	if (!line || sscanf(line, "monotonic %lld %lld", &seconds, &nanoseconds) != 2)
		return otte_fail(-EIO, OFFSETS ": no monotonic clock in it");
	*offset_ns = seconds * (int64_t)NSEC_PER_SEC + nanoseconds;
	return 0;
}

static int read_offset(int64_t *offset_ns)
{
	char text[256];
	ssize_t got;
	int fd;

	fd = open(OFFSETS, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -errno : otte_read_all(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (got < 0)
		return otte_fail((int)got, OFFSETS ": %s", strerror((int)-got));
	text[got] = 0;
	return parse_offset(text, offset_ns);
}

int otte_slots_clock_offset(int64_t *offset_ns)
{
	ino_t own = INITIAL_NAMESPACE, children = own;
	int ret;

	*offset_ns = 0;
	ret = find_namespaces(&own, &children);
	if (ret || own == INITIAL_NAMESPACE)
		return ret;
	/* What the kernel shows is of the namespace that children get. */
	if (own != children)
		return otte_fail(
			-EOPNOTSUPP,
			"the time namespace of this process is not that of its children, so "
			"nothing tells its clock's offset");
	return read_offset(offset_ns);
}

/* ---- Arithmetic of a pattern; times are the host's ---- */

/* A page is written by another: whatever it says, nothing is divided by zero or read behind a pattern. */
static bool in_use(const struct otte_slot_epoch *epoch, uint64_t now_ns)
{
	return epoch->base_ns != UNUSED_NS && epoch->base_ns <= now_ns && epoch->interval_ns &&
	       epoch->slots && epoch->slots <= OTTE_SLOTS_MAX;
}

/* The one with the largest base that is not in the future; NULL before the first. */
static const struct otte_slot_epoch *in_force(const struct otte_slot_epoch epoch[2],
					      uint64_t now_ns)
{
	bool first = in_use(&epoch[0], now_ns), second = in_use(&epoch[1], now_ns);

	if (first && second)
		return &epoch[epoch[1].base_ns > epoch[0].base_ns];
	if (first || second)
		return &epoch[second];
	return NULL;
}

static unsigned sends_in(const struct otte_slot_epoch *epoch, uint64_t slot)
{
	unsigned lowest = epoch->lowest[slot % epoch->slots];

	return lowest <= OTTE_PRIORITY_LOW ? (2u << lowest) - 1 : 0;
}

static unsigned sends_at(const struct otte_slot_epoch epoch[2], uint64_t now_ns)
{
	const struct otte_slot_epoch *now = in_force(epoch, now_ns);

	return now ? sends_in(now, (now_ns - now->base_ns) / now->interval_ns) : 0;
}

/* Start of the first slot from number `slot` on in which one of `wanted` may send. */
static uint64_t opens_from(const struct otte_slot_epoch *epoch, uint64_t slot, unsigned wanted)
{
	uint64_t start_ns;
	uint32_t i;

	for (i = 0; i < epoch->slots; i++) {
		if (!(sends_in(epoch, slot + i) & wanted))
			continue;
		if (__builtin_mul_overflow(slot + i, epoch->interval_ns, &start_ns) ||
		    __builtin_add_overflow(start_ns, epoch->base_ns, &start_ns))
			return NEVER_NS;
		return start_ns;
	}
	return NEVER_NS;
}

/* The next instant after now at which one of `wanted` may send, by the epoch that is in force then. */
static uint64_t opens_after(const struct otte_slot_epoch epoch[2], uint64_t now_ns, unsigned wanted)
{
	const struct otte_slot_epoch *now = in_force(epoch, now_ns);
	uint64_t opens_ns = NEVER_NS, ends_ns = NEVER_NS;
	unsigned i;

	for (i = 0; i < 2; i++)
		if (epoch[i].base_ns > now_ns)
			ends_ns = min_u64(ends_ns, epoch[i].base_ns);
	if (now)
		opens_ns = opens_from(now, (now_ns - now->base_ns) / now->interval_ns + 1, wanted);
	if (opens_ns < ends_ns || ends_ns == NEVER_NS)
		return opens_ns;
	for (i = 0; i < 2; i++)
		if (epoch[i].base_ns == ends_ns)
			return opens_from(&epoch[i], 0, wanted);
	return NEVER_NS;
}

/* ---- The pages ---- */

/*
 * A consistent copy, or false: it is being written. The clock was read before: the page is at least as new, so
 * an epoch that has begun by then is on it.
 */
static bool read_epochs(const struct otte_slot_page *page, struct otte_slot_epoch epoch[2])
{
	const _Atomic uint32_t *seq = (const _Atomic uint32_t *)&page->seq;
	const _Atomic uint64_t *from = (const _Atomic uint64_t *)page->epoch;
	uint64_t words[2 * sizeof(*epoch) / sizeof(uint64_t)];
	uint32_t before, tries;
	size_t i;

	for (tries = 0; tries < READS; tries++) {
		before = atomic_load_explicit(seq, memory_order_acquire);
		/* Each in order, so that the second look at seq is behind all of them. */
		for (i = 0; i < ARRAY_SIZE(words); i++)
			words[i] = atomic_load_explicit(&from[i], memory_order_acquire);
		if (!(before & 1) && atomic_load_explicit(seq, memory_order_relaxed) == before) {
			memcpy(epoch, words, sizeof(words));
			return true;
		}
	}
	return false;
}

static bool others_wait(const struct otte_slots *slots, unsigned priority)
{
	const _Atomic uint64_t *others = (const _Atomic uint64_t *)&slots->load->waiting[priority];

	return atomic_load_explicit(others, memory_order_relaxed);
}

static _Atomic uint64_t *asked(const struct otte_slots *slots, unsigned priority)
{
	return (_Atomic uint64_t *)&slots->share->waiting[priority];
}

static bool waits(const struct otte_slots *slots, unsigned priority)
{
	return others_wait(slots, priority) || atomic_load(asked(slots, priority));
}

/* Those above whom nobody in the domain waits. */
static unsigned unhindered(const struct otte_slots *slots)
{
	unsigned free = 1;

	if (!slots->load)
		return 0;
	while (free < OTTE_QUEUE_ALL && !waits(slots, (unsigned)__builtin_popcount(free) - 1))
		free = free << 1 | 1;
	return free;
}

/* ---- The gate ---- */

static uint64_t host_time(const struct otte_slots *slots, uint64_t now_ns)
{
	if (slots->offset_ns > 0 && now_ns < (uint64_t)slots->offset_ns)
		return 0;
	return now_ns - (uint64_t)slots->offset_ns;
}

/* Nobody tells when others no longer wait: sums are made once a slot, so that is when to look again. */
static uint64_t ask_again(const struct otte_slots *slots, const struct otte_slot_epoch epoch[2],
			  uint64_t now_ns, unsigned closed)
{
	const struct otte_slot_epoch *now = in_force(epoch, now_ns);
	uint64_t opens_ns = opens_after(epoch, now_ns, closed);

	if (slots->load)
		opens_ns = min_u64(opens_ns, now_ns + (now ? now->interval_ns : OTTE_SLOT_NS_MIN));
	return opens_ns == NEVER_NS ? NEVER_NS : opens_ns + (uint64_t)slots->offset_ns;
}

unsigned otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
			  uint64_t *again_ns)
{
	unsigned admitted = wanted & unhindered(slots);
	uint64_t host_ns = host_time(slots, now_ns);
	struct otte_slot_epoch epoch[2];

	if (admitted == wanted)
		return admitted;
	if (!read_epochs(slots->page, epoch)) {
		*again_ns = min_u64(*again_ns, now_ns + OTTE_SLOT_NS_MIN);
		return admitted;
	}
	admitted |= wanted & sends_at(epoch, host_ns);
	if (admitted != wanted)
		*again_ns =
			min_u64(*again_ns, ask_again(slots, epoch, host_ns, wanted & ~admitted));
	return admitted;
}

/* ---- What the domain is told ---- */

static bool others_wait_below(const struct otte_slots *slots, unsigned priority)
{
	unsigned below;

	for (below = priority + 1; below < OTTE_PRIORITIES; below++)
		if (others_wait(slots, below))
			return true;
	return false;
}

/*
 * A word has risen from zero. The module adds up once a slot while somebody waits, and is asked to
 * where it does not: the word is raised before `summing` is read, in one order, as the module clears
 * that before it looks at the words once more. It is also asked where others wait who are to go behind
 * this, so that they do not go on until the slot's end.
 */
static void tell(struct otte_slots *slots, unsigned priority)
{
	const _Atomic uint32_t *summing = (const _Atomic uint32_t *)&slots->load->summing;

	if (!atomic_load(summing) || others_wait_below(slots, priority))
		slots->kick(slots->kick_arg);
}

void otte_slots_ask(struct otte_slots *slots, unsigned priority, uint64_t bytes)
{
	if (slots->share && !atomic_fetch_add(asked(slots, priority), bytes))
		tell(slots, priority);
}

bool otte_slots_answered(struct otte_slots *slots, unsigned priority, uint64_t bytes)
{
	return slots->share && atomic_fetch_sub(asked(slots, priority), bytes) == bytes;
}

/*
 * Nobody need be asked to sum for these: they depart after their request was told of, and arrive before
 * it is answered.
 */
static _Atomic uint64_t *at_nic(const struct otte_slots *slots, uint8_t nic)
{
	if (!slots->share || nic >= OTTE_NICS_MAX)
		return NULL;
	return (_Atomic uint64_t *)&slots->share->nic_bytes[nic];
}

void otte_slots_depart(struct otte_slots *slots, uint8_t nic, uint64_t bytes)
{
	_Atomic uint64_t *word = at_nic(slots, nic);

	if (word)
		atomic_fetch_add_explicit(word, bytes, memory_order_relaxed);
}

void otte_slots_arrive(struct otte_slots *slots, uint8_t nic, uint64_t bytes)
{
	_Atomic uint64_t *word = at_nic(slots, nic);

	if (word)
		atomic_fetch_sub_explicit(word, bytes, memory_order_relaxed);
}

uint64_t otte_slots_nic_others(const struct otte_slots *slots, uint8_t nic)
{
	if (!slots->load || nic >= OTTE_NICS_MAX)
		return 0;
	return atomic_load_explicit((const _Atomic uint64_t *)&slots->load->nic_bytes[nic],
				    memory_order_relaxed);
}

/* ---- Who waits in this process ---- */

/*
 * Who waits says so before it tries to take, or looks at who asked above, and who gives, or is the last to be
 * answered above, looks at who waits afterwards, all in one order: one of the two sees the other.
 */
void otte_slots_wait(struct otte_slots *slots, unsigned priority, int64_t bytes)
{
	atomic_fetch_add(&slots->waiting[priority], (uint64_t)bytes);
}

uint64_t otte_slots_low_waiting(const struct otte_slots *slots)
{
	return atomic_load(&slots->waiting[OTTE_PRIORITY_MEDIUM]) +
	       atomic_load(&slots->waiting[OTTE_PRIORITY_LOW]);
}

/* ---- Bytes under way below High ---- */

static bool take_low(struct otte_slots *slots, uint64_t bytes)
{
	uint64_t now = atomic_load(&slots->low_bytes);

	do {
		if (now && (bytes > slots->low_bytes_max || now > slots->low_bytes_max - bytes))
			return false;
	} while (!atomic_compare_exchange_weak(&slots->low_bytes, &now, now + bytes));
	return true;
}

bool otte_slots_take(struct otte_slots *slots, unsigned priority, uint64_t bytes)
{
	if (priority == OTTE_PRIORITY_HIGH || take_low(slots, bytes))
		return true;
	atomic_store(&slots->refused, true);
	return false;
}

void otte_slots_give(struct otte_slots *slots, unsigned priority, uint64_t bytes)
{
	if (priority != OTTE_PRIORITY_HIGH)
		atomic_fetch_sub(&slots->low_bytes, bytes);
}
