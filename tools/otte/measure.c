/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "measure.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define WARM_UP_EXCHANGES 3

struct worker {
	const struct measured *who;
	const struct measure_options *options;
	void *lane;
	uint64_t end_ns;
	uint64_t exchanges;
	struct samples samples;
	int rc;
};

static double cpu_seconds(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		return 0;
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double cpu_seconds_of_both(pid_t peer)
{
	double seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
	clockid_t clock;

	if (peer > 0 && !clock_getcpuclockid(peer, &clock))
		seconds += cpu_seconds(clock);
	return seconds;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	const struct measure_options *options = worker->options;
	uint64_t before = otte_now_ns(), now;

	do {
		worker->rc = worker->who->exchange(worker->lane, options->write, options->length,
						   options->batch);
		if (worker->rc)
			break;
		now = otte_now_ns();
		samples_add(&worker->samples, now - before);
		before = now;
		worker->exchanges++;
	} while (options->iterations ? worker->exchanges < options->iterations :
				       now < worker->end_ns);
	return NULL;
}

static int warm_up(const struct measured *who, const struct measure_options *options)
{
	unsigned i, j;
	int rc = 0;

	for (i = 0; i < options->threads; i++)
		for (j = 0; j < WARM_UP_EXCHANGES && !rc; j++)
			rc = who->exchange(who->lanes[i], options->write, options->length,
					   options->batch);
	return rc;
}

/* The first worker runs in the calling thread, so that one thread costs no start. */
static int run_workers(struct worker *workers, unsigned count)
{
	pthread_t threads[MEASURE_THREADS_MAX];
	unsigned i, started;
	int rc = 0;

	for (started = 1; started < count && !rc; started++)
		rc = -pthread_create(&threads[started], NULL, work, &workers[started]);
	if (rc)
		started--;
	work(&workers[0]);
	for (i = 1; i < started; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < started && !rc; i++)
		rc = workers[i].rc;
	return rc;
}

static int prepare_workers(struct worker *workers, const struct measured *who,
			   const struct measure_options *options)
{
	unsigned i;
	int rc = 0;

	memset(workers, 0, options->threads * sizeof(*workers));
	for (i = 0; i < options->threads && !rc; i++) {
		workers[i].who = who;
		workers[i].options = options;
		workers[i].lane = who->lanes[i];
		rc = samples_init(&workers[i].samples, MEASURE_SAMPLES_MAX);
	}
	return rc;
}

int measure(const struct measured *who, const struct measure_options *options,
	    struct measurement *result)
{
	struct worker workers[MEASURE_THREADS_MAX];
	uint64_t begin, exchanges = 0;
	double cpu;
	unsigned i;
	int rc;

	rc = prepare_workers(workers, who, options);
	if (!rc)
		rc = warm_up(who, options);
	cpu = cpu_seconds_of_both(who->peer);
	begin = otte_now_ns();
	for (i = 0; i < options->threads; i++)
		workers[i].end_ns = begin + options->duration_ns;
	if (!rc)
		rc = run_workers(workers, options->threads);
	result->ns += otte_now_ns() - begin;
	result->cpu_seconds += cpu_seconds_of_both(who->peer) - cpu;
	for (i = 0; i < options->threads; i++) {
		exchanges += workers[i].exchanges;
		if (workers[i].samples.ns)
			samples_merge(&result->latencies, &workers[i].samples);
		samples_free(&workers[i].samples);
	}
	result->bytes += exchanges * options->batch * options->length;
	return rc;
}
