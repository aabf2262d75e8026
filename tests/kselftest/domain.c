// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains: everybody computes the same slot at the same time, whatever its time namespace, and sees
 * of the others how much waits, while they live and not longer.
 */
#include "otte_test.h"
#include "kselftest_harness.h"

#include <grp.h>

#define MS		1000000ULL
#define INTERVAL	(2 * MS)
#define NOBODY		65534

static const uint8_t usual[OTTE_SLOTS_MAX] = { 0, 1, 2 };

static uint64_t now_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000 * MS + now.tv_nsec;
}

static void sleep_ms(unsigned int ms)
{
	usleep(ms * 1000);
}

struct setting {
	uint32_t flags;
	uint64_t interval_ns;
	uint32_t slots;
	const uint8_t *lowest;
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
};

static int domain_set(int fd, const char *name, struct setting setting,
		      struct otte_domain_set *out)
{
	struct otte_domain_set arg = {
		.size = sizeof(arg), .flags = setting.flags,
		.interval_ns = setting.interval_ns, .slots = setting.slots,
		.mode = setting.mode, .uid = setting.uid, .gid = setting.gid,
	};
	int err;

	snprintf((char *)arg.name, sizeof(arg.name), "%s", name);
	memcpy(arg.lowest, setting.lowest, sizeof(arg.lowest));
	err = otte_call(fd, OTTE_IOC_DOMAIN_SET, &arg);
	if (!err && out)
		*out = arg;
	return err;
}

static int domain_del(int fd, const char *name)
{
	struct otte_domain_del arg = { .size = sizeof(arg) };

	snprintf((char *)arg.name, sizeof(arg.name), "%s", name);
	return otte_call(fd, OTTE_IOC_DOMAIN_DEL, &arg);
}

static int domain_join(int fd, const char *name, uint64_t *domain)
{
	struct otte_domain_join arg = { .size = sizeof(arg) };
	int err;

	snprintf((char *)arg.name, sizeof(arg.name), "%s", name);
	err = otte_call(fd, OTTE_IOC_DOMAIN_JOIN, &arg);
	if (!err && domain)
		*domain = arg.domain;
	return err;
}

static int domain_nic(int fd, const char *name)
{
	struct otte_domain_nic arg = { .size = sizeof(arg) };
	int err;

	snprintf((char *)arg.name, sizeof(arg.name), "%s", name);
	err = otte_call(fd, OTTE_IOC_DOMAIN_NIC, &arg);
	return err ?: (int)arg.index;
}

static int domain_kick(int fd)
{
	struct otte_domain_kick arg = { .size = sizeof(arg) };

	return otte_call(fd, OTTE_IOC_DOMAIN_KICK, &arg);
}

/* ---- a member: a client with its three pages ---- */

struct member {
	int fd;
	volatile struct otte_slot_page *slot;
	volatile struct otte_load_page *load;
	volatile struct otte_share_page *share;
};

static void *page_of(int fd, uint64_t offset, int prot)
{
	void *map = mmap(NULL, PAGE, prot, MAP_SHARED, fd, offset);

	return map == MAP_FAILED ? NULL : map;
}

static int member_join(struct member *member, const char *name)
{
	int err;

	member->fd = otte_client(NULL);
	if (member->fd < 0)
		return member->fd;
	err = domain_join(member->fd, name, NULL);
	if (err)
		return err;
	member->slot = page_of(member->fd, OTTE_MMAP_SLOT, PROT_READ);
	member->load = page_of(member->fd, OTTE_MMAP_LOAD, PROT_READ);
	member->share = page_of(member->fd, OTTE_MMAP_SHARE, PROT_READ | PROT_WRITE);
	return member->slot && member->load && member->share ? 0 : -EIO;
}

static void member_leave(struct member *member)
{
	munmap((void *)member->slot, PAGE);
	munmap((void *)member->load, PAGE);
	munmap((void *)member->share, PAGE);
	close(member->fd);
}

/* As the header asks for it: after raising a value, and a kick only if nobody sums. */
static void member_raise(struct member *member, volatile __u64 *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&member->load->summing, __ATOMIC_RELAXED))
		domain_kick(member->fd);
}

/* Host time and the pattern's answer of one moment: the clock is read between the two seqs. */
static uint64_t slot_read(const struct member *member, uint32_t *slot, uint8_t *lowest)
{
	const volatile struct otte_slot_page *page = member->slot;
	struct otte_slot_epoch epoch[2];
	uint64_t now;
	uint32_t seq;
	int i;

	do {
		seq = __atomic_load_n(&page->seq, __ATOMIC_ACQUIRE);
		memcpy(epoch, (const void *)page->epoch, sizeof(epoch));
		now = now_of(CLOCK_MONOTONIC) - member->share->timens_offset_ns;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (seq & 1 || seq != __atomic_load_n(&page->seq, __ATOMIC_RELAXED));

	/* The largest base that is not in the future. */
	i = epoch[0].base_ns > now ||
	    (epoch[1].base_ns <= now && epoch[1].base_ns > epoch[0].base_ns);
	*slot = (now - epoch[i].base_ns) / epoch[i].interval_ns % epoch[i].slots;
	*lowest = epoch[i].lowest[*slot];
	return now;
}

/* Waits up to ten seconds until @word is @value; true if so. */
static bool becomes(volatile __u64 *word, uint64_t value)
{
	int i;

	for (i = 0; i < 10000 && __atomic_load_n(word, __ATOMIC_RELAXED) != value; i++)
		sleep_ms(1);
	return *word == value;
}

/* The same until it is above @value. */
static bool passes(volatile __u64 *word, uint64_t value)
{
	int i;

	for (i = 0; i < 10000 && __atomic_load_n(word, __ATOMIC_RELAXED) <= value; i++)
		sleep_ms(1);
	return *word > value;
}

/* Each member's page is written for itself. */
static bool falls_idle(const struct member *member)
{
	int i;

	for (i = 0; i < 10000 && __atomic_load_n(&member->load->summing, __ATOMIC_RELAXED); i++)
		sleep_ms(1);
	return !member->load->summing;
}

FIXTURE(domain)
{
	int admin;
	char name[OTTE_NAME_LEN];
	uint64_t created_ns;
};

FIXTURE_SETUP(domain)
{
	struct otte_domain_set out;

	self->admin = otte_client(NULL);
	ASSERT_GE(self->admin, 0);
	snprintf(self->name, sizeof(self->name), "test-%d", getpid());
	ASSERT_EQ(0, domain_set(self->admin, self->name,
				(struct setting){ OTTE_DOMAIN_CREATE, INTERVAL, 3, usual, 0111 },
				&out));
	self->created_ns = out.effective_ns;
}

FIXTURE_TEARDOWN(domain)
{
	EXPECT_EQ(0, domain_del(self->admin, self->name));
	close(self->admin);
}

/* ---- who may what ---- */

TEST_F(domain, default_one_is_there_and_cannot_be_deleted)
{
	struct member member;

	ASSERT_EQ(0, member_join(&member, "default"));
	EXPECT_EQ(OTTE_ABI_REVISION, member.slot->version);
	EXPECT_EQ(0, member.slot->seq & 1);
	EXPECT_EQ(OTTE_SLOT_NS_DEFAULT, member.slot->epoch[0].interval_ns);
	EXPECT_EQ(3, member.slot->epoch[0].slots);
	EXPECT_EQ(UINT64_MAX, member.slot->epoch[1].base_ns);
	EXPECT_EQ(OTTE_ABI_REVISION, member.load->version);
	EXPECT_EQ(OTTE_ABI_REVISION, member.share->version);
	EXPECT_EQ(-EPERM, domain_del(self->admin, "default"));
	member_leave(&member);
}

TEST_F(domain, client_joins_once_and_a_domain_with_members_stays)
{
	struct member member;
	uint64_t domain = 0xcc;

	EXPECT_EQ(-ENOTCONN, domain_kick(self->admin));
	EXPECT_EQ(-ENOTCONN, domain_nic(self->admin, "eth0"));
	EXPECT_EQ(NULL, page_of(self->admin, OTTE_MMAP_SLOT, PROT_READ));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(-ENOENT, domain_join(self->admin, "test-none", &domain));
	EXPECT_EQ(-EINVAL, domain_join(self->admin, "", &domain));
	EXPECT_EQ(-EINVAL, domain_join(self->admin, "a/b", &domain));
	EXPECT_EQ(0xcc, domain);

	ASSERT_EQ(0, member_join(&member, self->name));
	EXPECT_EQ(-EALREADY, domain_join(member.fd, self->name, &domain));
	EXPECT_EQ(-EALREADY, domain_join(member.fd, "default", &domain));
	EXPECT_EQ(-EBUSY, domain_del(self->admin, self->name));
	member_leave(&member);
}

TEST_F(domain, names_and_patterns_are_checked)
{
	struct setting good = { OTTE_DOMAIN_CREATE, INTERVAL, 3, usual, 0111 }, bad;
	struct otte_domain_set arg = { .size = sizeof(arg), .interval_ns = INTERVAL, .slots = 3 };
	uint8_t lowest[OTTE_SLOTS_MAX] = { 0, 1, 3 };

	EXPECT_EQ(-EEXIST, domain_set(self->admin, self->name, good, NULL));
	bad = good;
	bad.flags = 0;
	EXPECT_EQ(-ENOENT, domain_set(self->admin, "test-none", bad, NULL));
	bad = good;
	bad.interval_ns = OTTE_SLOT_NS_MIN - 1;
	EXPECT_EQ(-EINVAL, domain_set(self->admin, "test-none", bad, NULL));
	bad = good;
	bad.slots = OTTE_SLOTS_MAX + 1;
	EXPECT_EQ(-EINVAL, domain_set(self->admin, "test-none", bad, NULL));
	bad = good;
	bad.mode = 01000;
	EXPECT_EQ(-EINVAL, domain_set(self->admin, "test-none", bad, NULL));
	bad = good;
	bad.uid = -1;
	EXPECT_EQ(-EINVAL, domain_set(self->admin, "test-none", bad, NULL));
	bad = good;
	bad.lowest = lowest;
	EXPECT_EQ(-EINVAL, domain_set(self->admin, "test-none", bad, NULL));
	/* Low would wait for ever. */
	lowest[2] = 1;
	EXPECT_EQ(-EINVAL, domain_set(self->admin, "test-none", bad, NULL));
	memset(arg.name, 'x', sizeof(arg.name));
	memcpy(arg.lowest, usual, sizeof(usual));
	arg.flags = OTTE_DOMAIN_CREATE;
	EXPECT_EQ(-EINVAL, otte_call(self->admin, OTTE_IOC_DOMAIN_SET, &arg));
}

static int join_as(int fd, uid_t uid, gid_t gid, const char *name)
{
	struct member member = {};

	if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return 1;
	if (otte_init_flags(fd, 0, NULL))
		return 2;
	return -domain_join(fd, name, NULL) + !!member.fd;
}

/* The errno with which a process of @uid and @gid is refused, 0 if it may join. */
static int joins(uid_t uid, gid_t gid, const char *name)
{
	int status, fd = otte_open();
	pid_t pid = fork();

	if (!pid)
		_exit(join_as(fd, uid, gid, name));
	close(fd);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

TEST_F(domain, execute_bits_of_owner_group_and_others_decide_who_joins)
{
	struct setting setting = { 0, INTERVAL, 3, usual, 0100, 1001, 1002 };

	ASSERT_EQ(0, domain_set(self->admin, self->name, setting, NULL));
	EXPECT_EQ(0, joins(1001, 5, self->name));
	EXPECT_EQ(EACCES, joins(5, 1002, self->name));
	EXPECT_EQ(EACCES, joins(5, 5, self->name));
	EXPECT_EQ(EACCES, joins(0, 0, self->name));
	setting.mode = 0011;
	ASSERT_EQ(0, domain_set(self->admin, self->name, setting, NULL));
	EXPECT_EQ(EACCES, joins(1001, 1002, self->name));
	EXPECT_EQ(0, joins(5, 1002, self->name));
	EXPECT_EQ(0, joins(5, 5, self->name));
	setting.mode = 0666;
	ASSERT_EQ(0, domain_set(self->admin, self->name, setting, NULL));
	EXPECT_EQ(EACCES, joins(1001, 1002, self->name));
	EXPECT_EQ(EACCES, joins(5, 5, self->name));
}

TEST_F(domain, only_an_administrator_sets_and_deletes)
{
	int status, fd = otte_open();
	pid_t pid = fork();

	if (!pid) {
		if (setresuid(NOBODY, NOBODY, NOBODY) || otte_init_flags(fd, 0, NULL))
			_exit(1);
		if (domain_set(fd, self->name, (struct setting){ 0, INTERVAL, 3, usual, 0111 },
			       NULL) != -EPERM)
			_exit(2);
		_exit(domain_del(fd, self->name) == -EPERM ? 0 : 3);
	}
	close(fd);
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
}

TEST_F(domain, shared_pages_can_neither_be_written_nor_executed)
{
	static const uint64_t offsets[] = { OTTE_MMAP_SLOT, OTTE_MMAP_LOAD };
	struct member member;
	unsigned int i;
	void *map;

	ASSERT_EQ(0, member_join(&member, self->name));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(NULL, page_of(member.fd, offsets[i], PROT_READ | PROT_WRITE));
		EXPECT_EQ(EACCES, errno);
		EXPECT_EQ(NULL, page_of(member.fd, offsets[i], PROT_READ | PROT_EXEC));
		EXPECT_EQ(EACCES, errno);
		map = page_of(member.fd, offsets[i], PROT_READ);
		ASSERT_NE(NULL, map);
		EXPECT_EQ(-1, mprotect(map, PAGE, PROT_READ | PROT_WRITE));
		EXPECT_EQ(EACCES, errno);
		EXPECT_EQ(-1, mprotect(map, PAGE, PROT_READ | PROT_EXEC));
		EXPECT_EQ(EACCES, errno);
		munmap(map, PAGE);
	}
	EXPECT_EQ(NULL, page_of(member.fd, OTTE_MMAP_SHARE, PROT_READ | PROT_WRITE | PROT_EXEC));
	/* Nor can a child be made to inherit them. */
	EXPECT_EQ(-1, madvise((void *)member.share, PAGE, MADV_DOFORK));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, madvise((void *)member.slot, PAGE, MADV_DOFORK));
	EXPECT_EQ(-1, madvise((void *)member.load, PAGE, MADV_DOFORK));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, member.fd,
				   OTTE_MMAP_SLOT));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, member.fd,
				   OTTE_MMAP_SLOT));
	member_leave(&member);
}

/* ---- demand and load ---- */

TEST_F(domain, each_sees_what_waits_at_the_others_at_once_and_not_its_own)
{
	struct member a, b, c;

	ASSERT_EQ(0, member_join(&a, self->name));
	ASSERT_EQ(0, member_join(&b, self->name));
	ASSERT_EQ(0, member_join(&c, self->name));
	EXPECT_EQ(0, a.load->summing);
	member_raise(&a, &a.share->waiting[OTTE_PRIORITY_HIGH], 1000);
	/* Kicked: known when the call returns. */
	EXPECT_EQ(1000, b.load->waiting[OTTE_PRIORITY_HIGH]);
	EXPECT_EQ(1000, c.load->waiting[OTTE_PRIORITY_HIGH]);
	EXPECT_EQ(0, a.load->waiting[OTTE_PRIORITY_HIGH]);
	EXPECT_EQ(1, a.load->summing);
	EXPECT_EQ(1, b.load->summing);

	/* Summed at every interval from now on. */
	member_raise(&b, &b.share->waiting[OTTE_PRIORITY_LOW], 7);
	EXPECT_TRUE(becomes(&c.load->waiting[OTTE_PRIORITY_LOW], 7));
	EXPECT_TRUE(becomes(&a.load->waiting[OTTE_PRIORITY_LOW], 7));
	a.share->waiting[OTTE_PRIORITY_HIGH] = 0;
	EXPECT_TRUE(becomes(&b.load->waiting[OTTE_PRIORITY_HIGH], 0));
	EXPECT_EQ(0, b.load->waiting[OTTE_PRIORITY_LOW]);
	member_leave(&a);
	member_leave(&b);
	member_leave(&c);
}

TEST_F(domain, an_idle_domain_is_not_summed_and_wakes_at_the_next_demand)
{
	struct member a, b;
	uint64_t updated;

	ASSERT_EQ(0, member_join(&a, self->name));
	ASSERT_EQ(0, member_join(&b, self->name));
	member_raise(&a, &a.share->waiting[OTTE_PRIORITY_LOW], 1);
	updated = b.load->updated_ns;
	EXPECT_TRUE(passes(&b.load->updated_ns, updated + 5 * INTERVAL));
	a.share->waiting[OTTE_PRIORITY_LOW] = 0;
	ASSERT_TRUE(falls_idle(&a));
	ASSERT_TRUE(falls_idle(&b));
	updated = b.load->updated_ns;
	sleep_ms(50);
	EXPECT_EQ(updated, b.load->updated_ns);
	member_raise(&b, &b.share->waiting[OTTE_PRIORITY_LOW], 2);
	EXPECT_EQ(2, a.load->waiting[OTTE_PRIORITY_LOW]);
	EXPECT_LT(updated, b.load->updated_ns);
	/* A kick without demand starts nothing. */
	b.share->waiting[OTTE_PRIORITY_LOW] = 0;
	ASSERT_TRUE(falls_idle(&a));
	ASSERT_TRUE(falls_idle(&b));
	EXPECT_EQ(0, domain_kick(a.fd));
	EXPECT_EQ(0, a.load->summing);
	updated = b.load->updated_ns;
	/* Nothing new was said, so nothing was summed, whatever others say without a kick. */
	b.share->waiting[OTTE_PRIORITY_LOW] = 3;
	EXPECT_EQ(0, domain_kick(a.fd));
	EXPECT_EQ(updated, b.load->updated_ns);
	EXPECT_EQ(0, domain_kick(b.fd));
	EXPECT_EQ(3, a.load->waiting[OTTE_PRIORITY_LOW]);
	member_leave(&a);
	member_leave(&b);
}

/* The race between falling asleep and the next demand, many times: demand is never overlooked. */
TEST_F(domain, demand_raised_while_the_sums_stop_is_never_lost)
{
	struct setting fast = { 0, OTTE_SLOT_NS_MIN, 3, usual, 0111 };
	struct member a, b;
	uint64_t i, lost = 0;

	ASSERT_EQ(0, member_join(&a, self->name));
	ASSERT_EQ(0, member_join(&b, self->name));
	ASSERT_EQ(0, domain_set(self->admin, self->name, fast, NULL));
	sleep_ms(10);
	for (i = 1; i <= 2000 && !lost; i++) {
		member_raise(&a, &a.share->waiting[OTTE_PRIORITY_HIGH], i);
		lost = !becomes(&b.load->waiting[OTTE_PRIORITY_HIGH], i);
		a.share->waiting[OTTE_PRIORITY_HIGH] = 0;
		/* Somewhere around the moment of the next sum. */
		usleep(i % 200);
	}
	EXPECT_EQ(0, lost);
	member_leave(&a);
	member_leave(&b);
}

TEST_F(domain, false_demand_is_clamped)
{
	struct member a, b;
	int nic;

	ASSERT_EQ(0, member_join(&a, self->name));
	ASSERT_EQ(0, member_join(&b, self->name));
	nic = domain_nic(a.fd, "mlx5_0:1");
	ASSERT_EQ(0, nic);
	/* Everything, over what the module wrote there too. */
	memset((void *)a.share, 0xff, PAGE);
	ASSERT_EQ(0, domain_kick(a.fd));
	EXPECT_EQ(OTTE_SHARE_BYTES_MAX, b.load->waiting[OTTE_PRIORITY_HIGH]);
	EXPECT_EQ(OTTE_SHARE_BYTES_MAX, b.load->waiting[OTTE_PRIORITY_LOW]);
	EXPECT_EQ(OTTE_SHARE_BYTES_MAX, b.load->nic_bytes[nic]);
	EXPECT_EQ(0, b.load->nic_bytes[nic + 1]);
	EXPECT_EQ(0, a.load->nic_bytes[nic]);
	EXPECT_EQ(0, a.load->waiting[OTTE_PRIORITY_HIGH]);
	member_leave(&a);
	member_leave(&b);
}

TEST_F(domain, nics_have_one_index_for_all_and_names_nobody_uses_make_room)
{
	struct member a, b;
	char name[OTTE_NAME_LEN];
	int i;

	ASSERT_EQ(0, member_join(&a, self->name));
	ASSERT_EQ(0, member_join(&b, self->name));
	for (i = 0; i < OTTE_NICS_MAX; i++) {
		snprintf(name, sizeof(name), "nic%d", i);
		EXPECT_EQ(i, domain_nic(a.fd, name));
	}
	EXPECT_EQ(3, domain_nic(a.fd, "nic3"));
	EXPECT_EQ(3, domain_nic(b.fd, "nic3"));
	EXPECT_EQ(-ENOSPC, domain_nic(b.fd, "one-more"));
	EXPECT_EQ(-EINVAL, domain_nic(b.fd, ""));
	member_raise(&a, &a.share->nic_bytes[3], 4096);
	EXPECT_EQ(4096, b.load->nic_bytes[3]);
	member_leave(&a);
	EXPECT_EQ(0, b.load->nic_bytes[3]);
	/* b still uses nic3. */
	for (i = 0; i < OTTE_NICS_MAX; i++) {
		snprintf(name, sizeof(name), "new%d", i);
		EXPECT_EQ(i < OTTE_NICS_MAX - 1 ? i + (i >= 3) : -ENOSPC, domain_nic(b.fd, name));
	}
	EXPECT_EQ(3, domain_nic(b.fd, "nic3"));
	member_leave(&b);
}

/* Name of the domain for children. */
static char child_domain[OTTE_NAME_LEN];

static void waiting_member(int sock)
{
	struct member member;

	if (member_join(&member, child_domain))
		_exit(1);
	member_raise(&member, &member.share->waiting[OTTE_PRIORITY_HIGH], 55);
	say(sock, 1);
	pause();
}

TEST_F(domain, share_of_a_killed_member_is_gone_within_one_interval)
{
	/* So long that only the death itself can be the reason. */
	struct setting slow = { 0, OTTE_SLOT_NS_MAX, 3, usual, 0111 };
	uint64_t before, took = UINT64_MAX;
	struct member member;
	struct peer peer;
	int round;

	ASSERT_EQ(0, domain_set(self->admin, self->name, slow, NULL));
	memcpy(child_domain, self->name, sizeof(child_domain));
	ASSERT_EQ(0, member_join(&member, self->name));
	/* A loaded machine may lose one race against the tick; who waits for the tick loses all. */
	for (round = 0; round < 5 && took >= OTTE_SLOT_NS_MAX / 2; round++) {
		peer = peer_start(waiting_member);
		ASSERT_EQ(1, hear(peer.sock));
		ASSERT_TRUE(becomes(&member.load->waiting[OTTE_PRIORITY_HIGH], 55));

		/* A stopped one is not a dead one. */
		kill(peer.pid, SIGSTOP);
		sleep_ms(20);
		ASSERT_EQ(0, domain_kick(member.fd));
		EXPECT_EQ(55, member.load->waiting[OTTE_PRIORITY_HIGH]);

		/* Just after a tick, so that the next one is far away. */
		ASSERT_TRUE(passes(&member.load->updated_ns, member.load->updated_ns));
		before = now_of(CLOCK_MONOTONIC);
		peer_kill(&peer);
		EXPECT_TRUE(becomes(&member.load->waiting[OTTE_PRIORITY_HIGH], 0));
		took = now_of(CLOCK_MONOTONIC) - before;
		EXPECT_TRUE(falls_idle(&member));
	}
	EXPECT_GT(OTTE_SLOT_NS_MAX / 2, took);
	member_leave(&member);
}

/* ---- time ---- */

TEST_F(domain, a_change_comes_on_a_boundary_at_least_one_interval_ahead_and_one_at_a_time)
{
	static const uint8_t everybody[OTTE_SLOTS_MAX] = { 2 };
	struct setting slow = { 0, 500 * MS, 3, usual, 0111 };
	struct setting fast = { 0, MS, 1, everybody, 0111 };
	struct otte_domain_set out, again;
	struct member member;
	uint64_t before, after;
	uint32_t slot;
	uint8_t lowest;

	ASSERT_EQ(0, member_join(&member, self->name));
	before = now_of(CLOCK_MONOTONIC);
	ASSERT_EQ(0, domain_set(self->admin, self->name, slow, &out));
	after = now_of(CLOCK_MONOTONIC);
	EXPECT_EQ(0, (out.effective_ns - self->created_ns) % INTERVAL);
	EXPECT_LE(before + INTERVAL, out.effective_ns);
	EXPECT_GT(after + 2 * INTERVAL, out.effective_ns);
	while (now_of(CLOCK_MONOTONIC) < out.effective_ns)
		usleep(100);

	ASSERT_EQ(0, domain_set(self->admin, self->name, fast, &again));
	EXPECT_LE(out.effective_ns + 500 * MS, again.effective_ns);
	EXPECT_EQ(0, (again.effective_ns - out.effective_ns) % (500 * MS));
	EXPECT_EQ(-EBUSY, domain_set(self->admin, self->name, slow, NULL));
	slot_read(&member, &slot, &lowest);
	EXPECT_EQ(slot, lowest);
	while (now_of(CLOCK_MONOTONIC) < again.effective_ns)
		sleep_ms(1);
	slot_read(&member, &slot, &lowest);
	EXPECT_EQ(0, slot);
	EXPECT_EQ(2, lowest);

	/* The same pattern again changes nothing and waits for nothing. */
	ASSERT_EQ(0, domain_set(self->admin, self->name, fast, &out));
	EXPECT_EQ(again.effective_ns, out.effective_ns);
	member_leave(&member);
}

static bool timens_make(int64_t seconds, int64_t ns)
{
	char text[64];
	int fd, n;

	if (unshare(CLONE_NEWTIME))
		return false;
	fd = open("/proc/self/timens_offsets", O_WRONLY);
	n = snprintf(text, sizeof(text), "monotonic %lld %lld\n", (long long)seconds,
		     (long long)ns);
	n = write(fd, text, n) == n;
	close(fd);
	return n;
}

TEST_F(domain, client_that_moves_to_another_time_namespace_is_refused)
{
	int status, ns, fd;
	pid_t pid;

	pid = fork();
	if (!pid) {
		fd = otte_client(NULL);
		if (fd < 0 || domain_join(fd, self->name, NULL) || domain_kick(fd))
			_exit(1);
		if (!timens_make(1000, 0))
			_exit(2);
		/* Only its children are there until now. */
		if (domain_kick(fd))
			_exit(3);
		ns = open("/proc/self/ns/time_for_children", O_RDONLY);
		if (setns(ns, CLONE_NEWTIME))
			_exit(4);
		if (domain_kick(fd) != -EPERM || page_of(fd, OTTE_MMAP_SLOT, PROT_READ) ||
		    errno != EPERM)
			_exit(5);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
}

#define MEMBERS		8
#define STOPPED		2
#define KILLED		5
#define ENTRIES		100000
#define CHANGES_MAX	4096

/**
 * struct entry - what a member believed at one moment
 * @before: CLOCK_REALTIME, which no namespace shifts, before it looked
 * @after: and after
 * @host: host's CLOCK_MONOTONIC as it computed it
 * @slot: slot of the pattern
 * @lowest: lowest priority that may send
 */
struct entry {
	uint64_t before;
	uint64_t after;
	uint64_t host;
	uint32_t slot;
	uint32_t lowest;
};

struct diary {
	uint64_t count;
	struct entry entry[ENTRIES];
};

static void keep_diary(struct diary *diary, const char *name)
{
	struct member member;
	struct entry *entry;
	uint8_t lowest;
	uint64_t i;

	if (member_join(&member, name))
		_exit(1);
	for (i = 0; i < ENTRIES; i++) {
		entry = &diary->entry[i];
		entry->before = now_of(CLOCK_REALTIME);
		entry->host = slot_read(&member, &entry->slot, &lowest);
		entry->lowest = lowest;
		entry->after = now_of(CLOCK_REALTIME);
		__atomic_store_n(&diary->count, i + 1, __ATOMIC_RELEASE);
		/* Spread over many slots and changes, and let the others in. */
		if (i % 64 == 63)
			usleep(200);
	}
	_exit(0);
}

/* A member in the initial time namespace, or in one that is a day and a bit ahead. */
static pid_t diarist_start(struct diary *diary, const char *name, bool ahead)
{
	pid_t pid = fork();
	int status;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!ahead)
		keep_diary(diary, name);
	if (!timens_make(86400, 123456789))
		_exit(2);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		keep_diary(diary, name);
	}
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

/* CLOCK_REALTIME minus CLOCK_MONOTONIC, and how far that may be off. */
static int64_t realtime_offset(int64_t *slack)
{
	int64_t before, real, after, best = 0;
	int i;

	*slack = INT64_MAX;
	for (i = 0; i < 10000; i++) {
		before = now_of(CLOCK_MONOTONIC);
		real = now_of(CLOCK_REALTIME);
		after = now_of(CLOCK_MONOTONIC);
		if (after - before < *slack) {
			*slack = after - before;
			best = real - before;
		}
	}
	return best;
}

static unsigned int change_at(const struct otte_domain_set *change, unsigned int changes,
			      uint64_t host)
{
	while (changes && change[changes - 1].effective_ns > host)
		changes--;
	return changes - 1;
}

static bool entry_is_right(const struct entry *entry, const struct otte_domain_set *change,
			   int64_t offset, int64_t slack)
{
	int64_t real = entry->host + offset;
	uint64_t slot;

	if (real < (int64_t)entry->before - slack || real > (int64_t)entry->after + slack)
		return false;
	slot = (entry->host - change->effective_ns) / change->interval_ns;
	slot -= slot / change->slots * change->slots;
	return entry->slot == slot && entry->lowest == change->lowest[slot];
}

TEST_F_TIMEOUT(domain, eight_members_in_two_time_namespaces_are_right_at_every_moment, 120)
{
	static const uint64_t intervals[] = { 2000000, 300000, 1000001, 100000, 777777 };
	static const uint8_t lowest[][OTTE_SLOTS_MAX] = {
		{ 0, 1, 2 }, { 2 }, { 1, 0, 2, 0, 1, 2, 2 }, { 2, 0 },
	};
	static const uint32_t slots[] = { 3, 1, 7, 2 };
	static struct otte_domain_set change[CHANGES_MAX];
	unsigned int changes = 1, i, in, used = 0, done, wrong = 0, rounds;
	int64_t slack, offset = realtime_offset(&slack);
	uint64_t at, began = now_of(CLOCK_MONOTONIC);
	static bool seen[CHANGES_MAX];
	struct diary *diary;
	pid_t pid[MEMBERS];
	struct setting next;
	bool killed = false;
	int stopped = 0;
	int status;

	diary = mmap(NULL, MEMBERS * sizeof(*diary), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, diary);
	change[0] = (struct otte_domain_set){
		.effective_ns = self->created_ns, .interval_ns = INTERVAL, .slots = 3,
		.lowest = { 0, 1, 2 },
	};
	for (i = 0; i < MEMBERS; i++)
		pid[i] = diarist_start(&diary[i], self->name, i % 2);

	/* Change everything all the time, stop one member for a while, kill another. */
	for (rounds = 0, done = 0; done < MEMBERS && changes < CHANGES_MAX; rounds++) {
		next = (struct setting){
			0, intervals[rounds % 5], slots[rounds % 4], lowest[rounds % 4], 0111,
		};
		status = domain_set(self->admin, self->name, next, &change[changes]);
		ASSERT_TRUE(!status || status == -EBUSY);
		changes += !status;
		/* With the room for changes all but used, the rest is of the last one. */
		usleep(status ? 500 : changes < CHANGES_MAX / 2 ? 5000 : 50000);
		if (!stopped && diary[STOPPED].count > ENTRIES / 4) {
			kill(pid[STOPPED], SIGSTOP);
			stopped = 1;
		} else if (stopped && stopped < 40 && ++stopped == 40) {
			kill(pid[STOPPED], SIGCONT);
		}
		if (!killed && diary[KILLED].count > ENTRIES / 2) {
			/* It lives behind its namespace's parent, and dies with it. */
			kill(pid[KILLED], SIGKILL);
			killed = true;
		}
		for (i = 0, done = 0; i < MEMBERS; i++)
			done += i == KILLED ? killed : diary[i].count == ENTRIES;
	}
	ASSERT_EQ(MEMBERS, done);
	for (i = 0; i < MEMBERS; i++) {
		waitpid(pid[i], &status, 0);
		if (i != KILLED)
			EXPECT_EQ(0, status);
	}

	for (i = 0; i < MEMBERS; i++) {
		for (at = 0; at < diary[i].count; at++) {
			in = change_at(change, changes, diary[i].entry[at].host);
			seen[in] = true;
			if (entry_is_right(&diary[i].entry[at], &change[in], offset, slack))
				continue;
			if (!wrong++)
				TH_LOG("member %u entry %llu: host %llu slot %u lowest %u", i,
				       (unsigned long long)at,
				       (unsigned long long)diary[i].entry[at].host,
				       diary[i].entry[at].slot, diary[i].entry[at].lowest);
		}
	}
	for (i = 0; i < changes; i++)
		used += seen[i];
	EXPECT_EQ(0, wrong);
	EXPECT_LE(50, used);
	EXPECT_TRUE(killed);
	EXPECT_EQ(40, stopped);
	printf("# note: %u changes, %u of them seen, %llu ms; host time known to %lld ns\n",
	       changes, used, (unsigned long long)((now_of(CLOCK_MONOTONIC) - began) / MS),
	       (long long)slack);
	fflush(stdout);
	munmap(diary, MEMBERS * sizeof(*diary));
	/* The killed one's child ends on its own; the domain is empty soon. */
	for (i = 0; i < 100 && domain_del(self->admin, self->name) == -EBUSY; i++)
		sleep_ms(10);
	ASSERT_EQ(0, domain_set(self->admin, self->name,
				(struct setting){ OTTE_DOMAIN_CREATE, INTERVAL, 3, usual, 0111 },
				NULL));
}

TEST_HARNESS_MAIN
