/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "lend.h"

#include "kselftest/otte_test.h"

#define BYTES (16 * PAGE)

#define STEP(good)                                 \
	do {                                       \
		if (!(good))                       \
			_exit(__LINE__ % 200 + 1); \
	} while (0)

struct loan {
	uint64_t id;
	char *memory;
};

static struct loan offer(int fd, uint64_t borrower, uint32_t direction, unsigned seed)
{
	struct loan loan = { .memory = otte_pages(BYTES) };
	uint64_t region;

	STEP(loan.memory);
	otte_fill(loan.memory, BYTES, seed);
	STEP(!otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ | OTTE_WRITE, loan.memory, BYTES,
			  &region));
	STEP(!otte_offer(fd, region, 0, BYTES, borrower, direction, OTTE_LOAN_MAPPABLE, &loan.id));
	return loan;
}

static char *map(int fd, const struct otte_loan_accept *accept, int prot)
{
	char *at = mmap(NULL, BYTES, prot, MAP_SHARED, fd, (off_t)accept->map_offset);

	STEP(at != MAP_FAILED);
	return at;
}

static void read_what_is_lent(int fd, uint64_t loan, unsigned seed)
{
	static char copy[BYTES];
	struct otte_loan_accept accept;
	char *at;

	STEP(!otte_accept(fd, loan, &accept));
	STEP(accept.direction == OTTE_READ && accept.length == BYTES);
	STEP(otte_copy(fd, loan, 0, copy, BYTES) == (int64_t)BYTES);
	STEP(otte_filled(copy, BYTES, seed, 0));
	at = map(fd, &accept, PROT_READ);
	STEP(otte_filled(at, BYTES, seed, 0));
	munmap(at, BYTES);
	STEP(!otte_settle(fd, loan));
}

static void write_what_is_lent(int fd, uint64_t loan, unsigned seed)
{
	struct otte_loan_accept accept;
	char *at;

	STEP(!otte_accept(fd, loan, &accept));
	STEP(accept.direction == OTTE_WRITE && accept.length == BYTES);
	at = map(fd, &accept, PROT_READ | PROT_WRITE);
	otte_fill(at, BYTES, seed);
	munmap(at, BYTES);
	STEP(!otte_settle(fd, loan));
}

static uint64_t next_offer(int fd)
{
	struct otte_event event;

	STEP(!otte_wait_event(fd, OTTE_EVENT_OFFERED, &event));
	return event.object;
}

/* Both offers are answered before the first event of an end is waited for: none is lost in passing over others. */
void lend_to_each_other(int sock, unsigned own, unsigned others)
{
	uint64_t client = 0, other, first, second;
	struct loan for_reading, for_writing;
	struct otte_event event;
	int fd = otte_client(&client);

	STEP(fd >= 0);
	say(sock, client);
	other = hear(sock);
	STEP(other != UINT64_MAX && other != client);
	for_reading = offer(fd, other, OTTE_READ, own);
	for_writing = offer(fd, other, OTTE_WRITE, own);
	/* Both have offered. */
	say(sock, 0);
	STEP(!hear(sock));
	first = next_offer(fd);
	second = next_offer(fd);
	read_what_is_lent(fd, first, others);
	write_what_is_lent(fd, second, own + 100);
	say(sock, 0);
	STEP(!hear(sock));
	STEP(!otte_wait_event(fd, OTTE_EVENT_SETTLED, &event));
	STEP(event.evidence == OTTE_EVIDENCE_RETURNED || event.evidence == OTTE_EVIDENCE_UNMAPPED);
	STEP(!otte_wait_event(fd, OTTE_EVENT_SETTLED, &event));
	STEP(otte_filled(for_reading.memory, BYTES, own, 0));
	STEP(otte_filled(for_writing.memory, BYTES, others + 100, 0));
	_exit(0);
}
