/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two rails, one of which is lost under load and comes back, again and again: every READ arrives,
 * over the other one, and then both carry again. Runs in a guest; see tests/verbs/guest-rails.
 *
 *   flap event TIMES     the port goes down, which its device tells
 *   flap silent TIMES    what is sent is lost, and nobody tells; needs cls_matchall, act_gact and the
 *                        ingress qdiscs of guest-rails. rxe itself does not always find it out: then
 *                        rdma.stall_ms does
 *   flap nowhere         one of the rails leads nowhere from the start
 *
 * There are devices ra0 and ra1 of a requester and rb0 and rb1 of a source, over links va0 to vb0
 * and va1 to vb1.
 */
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "nodes.h"
#include "parties.h"

#define RAILS 2
#define LOAD 8
#define PART (1u << 20)
#define SMALL (64u << 10)
#define CANARY 0xa5
#define TIMES_MAX 100
#define TRIES 3 /* a load may be over too soon */
#define CARRIED_PACKETS 50 /* so many have come: it carries */
#define QP_TIMEOUT 18
#define QP_RETRIES 1
#define LINK_MBPS 1000
/* rdma.stall_ms by default, with these, and a load that is under way; and what is asserted of it. */
#define STALL_NS \
	(4 * (QP_RETRIES + 1) * (4096ull << QP_TIMEOUT) + 10 * LOAD * PART * 8000ull / LINK_MBPS)
#define MOVED_MAX_NS (2 * STALL_NS + 10 * SECOND)
#define GRANT_NS (2 * STALL_NS) /* not before a stall of the same queue pair is found out */
#define RETURN_MAX_NS (60 * SECOND) /* a load is begun within it, that both carry */
#define LOAD_MAX_NS (120 * SECOND)

static void adjust(struct otte_config *config, bool source)
{
	(void)source;
	config->ledger = OTTE_LEDGER_PROCESS;
	config->rdma_mr_bytes = 1u << 30;
	config->rdma_pairs = 1;
	config->rdma_link_rate_mbps = LINK_MBPS;
	config->rdma_smart_selection = 0; /* halves, whatever has been measured */
	/*
	 * 2.1 s in all. Not shorter: emulated, answers of rxe are late by a tenth of a second, and
	 * a READ that is sent again then, while it is answered, may never complete there (6.12).
	 */
	config->rdma_qp_timeout = QP_TIMEOUT;
	config->rdma_qp_retries = QP_RETRIES;
	config->rdma_rail_cooldown_ns = SECOND / 2;
	config->rdma_rail_probe_interval_ns = SECOND / 10;
	/*
	 * What rxe may lose besides: a work request of a queue pair in error, which is never flushed
	 * (6.1, whenever packets were lost), and the receipt of a grant.
	 */
	config->rdma_destruction_ns = SECOND;
	config->rdma_grant_ns = GRANT_NS;
	config->retry_budget = 16;
	config->default_deadline_ns = 300 * SECOND;
}

static void see_theirs(void)
{
	nodes_keep("rb");
}

/* ---- What is lost ---- */

enum fault {
	EVENT,
	SILENT
};

static FILE *shaper; /* takes the words of tc(8), one line after the other */

static void open_shaper(void)
{
	shaper = popen("tc -force -batch -",
		       "w"); /* NOLINT(bugprone-command-processor): a test's own words */
	if (!shaper)
		_exit(3);
}

static void set_port(unsigned int rail, bool up)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "va%u", rail);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request))
		_exit(3);
	request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
	if (ioctl(fd, SIOCSIFFLAGS, &request))
		_exit(3);
	close(fd);
}

/* Either way; as it comes in, so that who has sent it hears nothing of it. */
static void set_loss(unsigned int rail, bool lossy)
{
	static const char *const sides = "ab";
	const char *side;

	for (side = sides; *side; side++)
		fprintf(shaper,
			lossy ? "filter add dev v%c%u ingress matchall action drop\n" :
				"filter del dev v%c%u ingress\n",
			*side, rail);
	fflush(shaper);
}

static void lose(enum fault fault, unsigned int rail)
{
	if (fault == EVENT)
		set_port(rail, false);
	else
		set_loss(rail, true);
}

static void restore(enum fault fault, unsigned int rail)
{
	if (fault == EVENT)
		set_port(rail, true);
	else
		set_loss(rail, false);
}

/* Packets that the requester's device has ever got. */
static uint64_t received(unsigned int rail)
{
	return device_received("ra", rail);
}

/* ---- Load ---- */

struct load {
	struct requester *by;
	struct otte_batch *batch;
	uint64_t submitted_ns;
};

static void fill(uint8_t salt)
{
	uint32_t i;

	for (i = 0; i < LOAD * PART; i++)
		remote[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + salt);
}

static void submit(struct load *load)
{
	struct otte_request requests[LOAD];
	unsigned int i;

	memset(load->by->bytes, CANARY, LOAD * PART);
	for (i = 0; i < LOAD; i++) { /* backwards, so that no two are merged */
		requests[i] = requester_request(load->by, OTTE_READ, (LOAD - 1 - i) * PART, PART);
		requests[i].transport = OTTE_TRANSPORT_ANY;
	}
	MUST(otte_batch_reset(load->batch));
	load->submitted_ns = now_ns();
	MUST(otte_batch_submit(load->batch, requests, LOAD));
}

static unsigned int finished(const struct load *load)
{
	struct otte_batch_status status;

	MUST(otte_batch_poll(load->batch, &status));
	return status.finished;
}

/* All of it is there, byte for byte. */
static bool arrives(struct load *load)
{
	struct otte_task task;
	bool good = true;
	unsigned int i, tcp = 0;

	MUST(otte_batch_wait(load->batch, LOAD_MAX_NS));
	for (i = 0; i < LOAD; i++) {
		MUST(otte_batch_task(load->batch, i, &task));
		tcp += task.transport == OTTE_TRANSPORT_TCP;
		if (task.code)
			printf("# request %u: code %d\n", i, task.code);
		good &= !task.code;
	}
	if (tcp)
		printf("# %u requests by TCP\n", tcp);
	return good && !memcmp(load->by->bytes, remote, LOAD * PART);
}

/*
 * Whole loads, until each rail has carried some of one and still has its queue pair: how long that
 * one took; 0: it never did. rxe may lose a READ on a rail that is well, so that its pair is closed
 * under any of them.
 */
static uint64_t until_both_carry(struct load *load)
{
	const uint64_t since_ns = now_ns();
	uint64_t before[RAILS];
	bool whole;

	do {
		before[0] = received(0);
		before[1] = received(1);
		submit(load);
		whole = arrives(load);
		if (whole && received(0) > before[0] + CARRIED_PACKETS &&
		    received(1) > before[1] + CARRIED_PACKETS &&
		    requester_stats(load->by).rdma_qps >= RAILS)
			return now_ns() - load->submitted_ns;
		nap();
	} while (whole && now_ns() - since_ns < RETURN_MAX_NS);
	return 0;
}

/* ---- Loss ---- */

struct sample {
	uint64_t moved_ns; /* until something was put on the other rail; 0: nothing had to be */
	uint64_t first_ns; /* until a request was done after that */
	uint64_t back_ns; /* until both carried again, from its return */
};

/* The load is lost under: what it had on that rail goes over the other one. */
static bool lose_under(struct load *load, enum fault fault, unsigned int rail,
		       struct sample *sample)
{
	const uint64_t moved = requester_stats(load->by).rdma_slices_moved, before = received(rail);
	unsigned int done = LOAD;
	uint64_t lost_ns;

	submit(load);
	if (!EVENTUALLY(received(rail) > before + CARRIED_PACKETS || finished(load) == LOAD))
		return false;
	lost_ns = now_ns();
	lose(fault, rail);
	for (; finished(load) < LOAD && now_ns() - lost_ns < 60 * SECOND; usleep(200)) {
		if (!sample->moved_ns && requester_stats(load->by).rdma_slices_moved > moved) {
			sample->moved_ns = now_ns() - lost_ns;
			done = finished(load);
		}
		if (sample->moved_ns && !sample->first_ns && finished(load) > done)
			sample->first_ns = now_ns() - lost_ns;
	}
	if (sample->moved_ns && !sample->first_ns)
		sample->first_ns = now_ns() - lost_ns;
	return arrives(load);
}

static int compare(const void *one, const void *other)
{
	const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

/* Prints the median and the most of those that are not 0; their most. */
static uint64_t summarize(const char *what, uint64_t *values, unsigned int count)
{
	unsigned int zeros = 0, middle;

	qsort(values, count, sizeof(*values), compare);
	while (zeros < count && !values[zeros])
		zeros++;
	if (zeros == count)
		return 0;
	middle = zeros + (count - zeros) / 2;
	printf("# %s: median %.1f ms, at most %.1f ms, of %u\n", what, (double)values[middle] / 1e6,
	       (double)values[count - 1] / 1e6, count - zeros);
	return values[count - 1];
}

static uint64_t value_of(const struct sample *sample, unsigned int which)
{
	return which == 0 ? sample->moved_ns : which == 1 ? sample->first_ns : sample->back_ns;
}

static bool report(enum fault fault, const struct sample *samples, unsigned int count)
{
	static const char *const what[] = { "on the other rail", "first request over it done",
					    "both carry again" };
	const char *name = fault == EVENT ? "port event" : "silent loss";
	uint64_t values[TIMES_MAX], most_ns;
	bool good = true;
	unsigned int which, i;
	char line[96];

	for (which = 0; which < 3; which++) {
		for (i = 0; i < count; i++)
			values[i] = value_of(&samples[i], which);
		snprintf(line, sizeof(line), "flap, %s: %s", name, what[which]);
		most_ns = summarize(line, values, count);
		good &= most_ns && most_ns < (which ? RETURN_MAX_NS + LOAD_MAX_NS : MOVED_MAX_NS);
	}
	return good;
}

/* A queue pair for each rail, at either end. */
static bool is_as_before(const struct source *source, const struct requester *by)
{
	const struct otte_stats theirs = source_stats(source), ours = requester_stats(by);

	return ours.rdma_qps == RAILS && theirs.rdma_qps == RAILS && !theirs.retained &&
	       !ours.retained;
}

static void flap(enum fault fault, unsigned int times, struct source *source, struct load *load)
{
	struct sample samples[TIMES_MAX] = { 0 };
	bool whole = true, returned = true;
	uint64_t before_ns, after_ns = 0, since_ns;
	unsigned int i = 0, tries;

	before_ns = until_both_carry(load);
	check(before_ns > 0, "both rails carry");
	for (tries = 0; i < times && tries < TRIES * times && whole && returned; tries++) {
		samples[i] = (struct sample){ 0 };
		fill((uint8_t)tries);
		whole = lose_under(load, fault, tries % RAILS, &samples[i]);
		restore(fault, tries % RAILS);
		since_ns = now_ns();
		after_ns = until_both_carry(load);
		returned = after_ns > 0;
		samples[i].back_ns = now_ns() - since_ns;
		printf("# %u: on the other rail after %.1f ms, done after %.1f ms; "
		       "both carry again after %.1f ms\n",
		       i, (double)samples[i].moved_ns / 1e6, (double)samples[i].first_ns / 1e6,
		       (double)samples[i].back_ns / 1e6);
		i += samples[i].moved_ns > 0; /* 0: the load was over before the loss */
	}
	check(whole, "READs that a rail is lost under arrive whole");
	check(returned, "and both rails carry again once it is back");
	check(report(fault, samples, i),
	      "what was on the rail that is lost goes over the other one, in time");
	printf("# flap: %u MiB took %.1f ms before, %.1f ms after %u times\n", LOAD * PART >> 20,
	       (double)before_ns / 1e6, (double)after_ns / 1e6, i);
	check(EVENTUALLY(is_as_before(source, load->by)),
	      "each rail has one queue pair, as before, and nothing is retained");
}

/* ---- A rail that leads nowhere ---- */

/*
 * The requester's only device stands where the source's first one does, which it does not reach: so
 * that is tried first. With the retries that are the default.
 */
static void adjust_for_nowhere(struct otte_config *config, bool source)
{
	adjust(config, source);
	config->rdma_qp_timeout = 16;
	config->rdma_qp_retries = 7;
	config->rdma_rail_cooldown_ns = 3600 * SECOND;
	config->rdma_rail_probe_interval_ns = 3600 * SECOND;
}

static void lead_nowhere(struct source *source, struct load *load)
{
	struct otte_stats stats;
	struct otte_task task;
	bool arrived = true;
	unsigned int i;

	fill(77);
	memset(load->by->bytes, CANARY, LOAD * PART);
	for (i = 0; i < LOAD && arrived; i++) {
		const uint64_t since_ns = now_ns();

		requester_submit(load->by, OTTE_READ, i * PART, SMALL);
		task = requester_wait(load->by);
		if (i < 2)
			printf("# nowhere: READ %u: code %d after %.1f ms\n", i, task.code,
			       (double)(now_ns() - since_ns) / 1e6);
		arrived = !task.code;
	}
	stats = requester_stats(load->by);
	for (i = 0; i < LOAD && arrived; i++)
		arrived = !memcmp(load->by->bytes + i * PART, remote + i * PART, SMALL);
	check(arrived,
	      "READs of who has a rail that leads nowhere wait for it to be found out, and arrive");
	check(stats.rdma_rail_errors == 1 && stats.rdma_rails_paused == 1,
	      "it has failed once, and is paused");
	check(!stats.rdma_slices_moved && source_stats(source).rdma_grants == LOAD,
	      "nothing was granted for it");
}

/* ---- Both of them ---- */

static void see_ours(const char *how)
{
	nodes_keep(strcmp(how, "nowhere") ? "ra" : "ra1");
}

int main(int argc, char **argv)
{
	const char *const devices[DEVICES_MAX] = { "" };
	unsigned int times = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
	struct requester self;
	struct source source;
	struct load load = { .by = &self };

	if (argc < 2 || times > TIMES_MAX)
		return 3;
	setvbuf(stdout, NULL, _IOLBF, 0);
	parties.area_bytes = LOAD * PART;
	parties.adjust = strcmp(argv[1], "nowhere") ? adjust : adjust_for_nowhere;
	parties.enter_source = see_theirs;
	open_shaper();
	parties_open();
	source_start(&source, devices, NULL);
	see_ours(argv[1]);
	requester_open(&self, "", &source.doors[0], false);
	MUST(otte_batch_create(self.engine, LOAD, &load.batch));
	if (!strcmp(argv[1], "nowhere"))
		lead_nowhere(&source, &load);
	else
		flap(strcmp(argv[1], "event") ? SILENT : EVENT, times, &source, &load);
	MUST(otte_batch_destroy(load.batch));
	requester_close(&self);
	check(source_end(&source) == 0, "the source gives back everything");
	pclose(shaper);
	return checked();
}
