/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "slot_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sched/slots.h"
#include "uapi/linux/otte.h"

#define POSTS_MAX (1u << 18)

static struct slot_post posts[POSTS_MAX];
static _Atomic unsigned post_count;

/* What this thread found when it last asked a gate. */
static __thread struct slot_post asked;

void slot_log_start(void)
{
	post_count = 0;
}

unsigned slot_log_count(void)
{
	return post_count;
}

const struct slot_post *slot_log_post(unsigned index)
{
	return &posts[index];
}

/* ---- Looks at the pages ---- */

static uint64_t word(const __u64 *at)
{
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

static uint8_t who_waits(const struct otte_slots *slots)
{
	uint8_t mask = 0;
	unsigned p;

	if (!slots->load)
		return 7;
	for (p = 0; p < OTTE_PRIORITIES; p++)
		if (word(&slots->load->waiting[p]) || word(&slots->share->waiting[p]))
			mask |= 1u << p;
	return mask;
}

/* Tests change no pattern while they log: the page is not being written. */
static uint8_t lowest_at(const struct otte_slots *slots, uint64_t host_ns)
{
	const struct otte_slot_epoch *epoch = slots->page->epoch;

	if (epoch[1].base_ns <= host_ns && epoch[1].base_ns > epoch[0].base_ns)
		epoch++;
	return epoch->lowest[(host_ns - epoch->base_ns) / epoch->interval_ns % epoch->slots];
}

unsigned __real_otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
				 uint64_t *again_ns);
unsigned __wrap_otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
				 uint64_t *again_ns);

unsigned __wrap_otte_slots_admit(const struct otte_slots *slots, unsigned wanted, uint64_t now_ns,
				 uint64_t *again_ns)
{
	uint8_t before = who_waits(slots);
	unsigned admitted = __real_otte_slots_admit(slots, wanted, now_ns, again_ns);

	asked.now_ns = now_ns - (uint64_t)slots->offset_ns;
	asked.lowest = lowest_at(slots, asked.now_ns);
	asked.waiting = before & who_waits(slots);
	return admitted;
}

bool __real_otte_slots_take(struct otte_slots *slots, unsigned priority, uint64_t bytes);
bool __wrap_otte_slots_take(struct otte_slots *slots, unsigned priority, uint64_t bytes);

/* What is taken is posted next. */
bool __wrap_otte_slots_take(struct otte_slots *slots, unsigned priority, uint64_t bytes)
{
	unsigned i;

	if (!__real_otte_slots_take(slots, priority, bytes))
		return false;
	i = atomic_fetch_add(&post_count, 1);
	if (i >= POSTS_MAX)
		abort();
	posts[i] = asked;
	posts[i].priority = (uint8_t)priority;
	posts[i].bytes = bytes;
	posts[i].low_bytes = atomic_load(&slots->low_bytes);
	return true;
}

uint64_t slot_others_wait(const struct otte_slots *slots, unsigned priority)
{
	return word(&slots->load->waiting[priority]);
}

/* ---- Domains ---- */

static int administer(unsigned long command, void *arg)
{
	struct otte_client_init init = { .size = sizeof(init), .status_regions = 1 };
	int fd = open("/dev/otte", O_RDWR | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, OTTE_IOC_CLIENT_INIT, &init) || ioctl(fd, command, arg))
		ret = -errno;
	close(fd);
	return ret;
}

int slot_domain_create(const char *name, uint64_t interval_ns, unsigned mode)
{
	struct otte_domain_set set = {
		.size = sizeof(set),
		.flags = OTTE_DOMAIN_CREATE,
		.interval_ns = interval_ns,
		.slots = 3,
		.mode = mode,
		.lowest = { OTTE_PRIORITY_HIGH, OTTE_PRIORITY_MEDIUM, OTTE_PRIORITY_LOW },
	};

	snprintf((char *)set.name, sizeof(set.name), "%s", name);
	return administer(OTTE_IOC_DOMAIN_SET, &set);
}

int slot_domain_delete(const char *name)
{
	struct otte_domain_del del = { .size = sizeof(del) };

	snprintf((char *)del.name, sizeof(del.name), "%s", name);
	return administer(OTTE_IOC_DOMAIN_DEL, &del);
}
