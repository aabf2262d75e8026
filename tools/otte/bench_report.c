/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the benchmark says, to people, to programs, and to a file that is kept. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "otte/otte.h"
#include "../common/output.h"
#include "../common/stopping.h"
#include "tool.h"

static const struct column columns[] = {
	{ "side", "who", COLUMN_TEXT, 0, 5 },
	{ "op", "op", COLUMN_TEXT, 0, 5 },
	{ "block", "block", COLUMN_BYTES, 0, 8 },
	{ "batch", "batch", COLUMN_COUNT, 0, 5 },
	{ "gbps", "GB/s", COLUMN_REAL, 2, 7 },
	{ "mean_us", "avg us", COLUMN_REAL, 1, 8 },
	{ "p50_us", "p50 us", COLUMN_REAL, 1, 8 },
	{ "p99_us", "p99 us", COLUMN_REAL, 1, 8 },
	{ "p999_us", "p99.9 us", COLUMN_REAL, 1, 8 },
	{ "cpu_per_gb", "CPU s/GB", COLUMN_REAL, 3, 8 },
	{ "speed_ratio", "speed x", COLUMN_REAL, 3, 7 },
	{ "latency_ratio", "p50 x", COLUMN_REAL, 3, 7 },
};

/* The last two compare with the floor. */
static size_t column_count(const struct bench_options *options)
{
	return ARRAY_SIZE(columns) - (options->floor ? 0 : 2);
}

static const char *congestion_in_use(const struct bench_options *options, char text[64])
{
	char name[32] = "";
	FILE *file;

	if (*options->congestion)
		return options->congestion;
	file = fopen("/proc/sys/net/ipv4/tcp_congestion_control", "re");
	if (file) {
		if (!fgets(name, sizeof(name), file))
			name[0] = '\0';
		fclose(file);
	}
	name[strcspn(name, "\n")] = '\0';
	snprintf(text, 64, "%s, the system's", *name ? name : "unknown");
	return text;
}

static const char *pinning(const struct bench_options *options, char text[64])
{
	if (options->client_cpu < 0)
		return "none";
	if (options->client_cpu == options->server_cpu)
		snprintf(text, 64, "both on CPU %d", options->client_cpu);
	else
		snprintf(text, 64, "client on CPU %d, server on CPU %d", options->client_cpu,
			 options->server_cpu);
	return text;
}

/* "Intel(R) Xeon(R) ..., 2 CPUs, Linux 6.1.0-amd64" */
static const char *machine(char *text, size_t size)
{
	char line[256], model[128] = "unknown CPU";
	struct utsname kernel = { 0 };
	FILE *file = fopen("/proc/cpuinfo", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "model name : %127[^\n]", model) == 1)
			break;
	if (file)
		fclose(file);
	uname(&kernel);
	snprintf(text, size, "%s, %ld CPUs, %.32s %.64s", model, sysconf(_SC_NPROCESSORS_ONLN),
		 kernel.sysname, kernel.release);
	return text;
}

/* ---- The report -------------------------------------------------------------------------------- */

/*
 * The report while lines are added to it; NULL before and after. Under `lock`, since a signal that comes meanwhile is
 * noticed by a thread that waits for it: whoever measures may wait for a peer that does not answer.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static json_t *open_report;

static json_t *make_report(const struct bench_options *options, const struct bench_otte *bench)
{
	char congestion[64], pin[64], host[256];

	return json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:s, s:b, s:o}", "version",
			 otte_version(), "note",
			 output_string(options->note ? options->note : ""), "machine",
			 machine(host, sizeof(host)), "route",
			 bench ? bench_otte_route(bench) : "sockets", "congestion",
			 congestion_in_use(options, congestion), "pinning", pinning(options, pin),
			 "threads", (int)options->threads, "lanes",
			 bench ? (int)bench_otte_lanes(bench) : (int)options->threads, "rounds",
			 (int)options->rounds, "verified", bench && bench_otte_is_verified(bench),
			 "cpu_of", options->peer ? "this process" : "both processes", "interrupted", false,
			 "results", json_array());
}

static const char *text_of(const json_t *report, const char *key)
{
	return json_string_value(json_object_get(report, key));
}

static int number_of(const json_t *report, const char *key)
{
	return (int)json_integer_value(json_object_get(report, key));
}

static void print_facts(FILE *to, const json_t *report)
{
	if (*text_of(report, "note"))
		fprintf(to, "%s; ", text_of(report, "note"));
	fprintf(to,
		"%s;\nroute %s; congestion control %s; pinning: %s; threads %d; lanes %d; "
		"medians of %d round%s;\nCPU time of %s; content %s\n",
		text_of(report, "machine"), text_of(report, "route"), text_of(report, "congestion"),
		text_of(report, "pinning"), number_of(report, "threads"),
		number_of(report, "lanes"), number_of(report, "rounds"),
		number_of(report, "rounds") == 1 ? "" : "s", text_of(report, "cpu_of"),
		json_is_true(json_object_get(report, "verified")) ? "verified" : "not verified");
}

void bench_report_interrupt(void)
{
	pthread_mutex_lock(&lock);
	if (open_report) {
		json_object_set_new(open_report, "interrupted", json_true());
		output_json(open_report);
		complain(EXIT_TRANSFER, "interrupted");
		/* All that is left is a second process, which ends with this one. */
		_exit(EXIT_TRANSFER);
	}
	pthread_mutex_unlock(&lock);
}

static void *wait_for_signal(void *arg)
{
	(void)arg;
	stopping_wait(0);
	bench_report_interrupt();
	return NULL;
}

static int begin_json(void)
{
	pthread_t thread;
	int rc = pthread_create(&thread, NULL, wait_for_signal, NULL);

	if (rc)
		return complain(EXIT_LOCAL, "a thread: %s", strerror(rc));
	pthread_detach(thread);
	stopping_is_noted();
	return EXIT_OK;
}

int bench_report_begin(const struct bench_options *options, const struct bench_otte *bench)
{
	open_report = make_report(options, bench);
	if (options->common.json)
		return begin_json();
	print_facts(stdout, open_report);
	output_heading(stdout, columns, column_count(options));
	return EXIT_OK;
}

json_t *bench_report_close(void)
{
	json_t *report;

	pthread_mutex_lock(&lock);
	report = open_report;
	open_report = NULL;
	pthread_mutex_unlock(&lock);
	return report;
}

void bench_report_row(const struct bench_options *options, const char *side,
		      const struct measure_options *line, struct bench_series *series,
		      const struct bench_series *floor)
{
	struct measurement *all = &series->all;
	double gb = (double)all->bytes / 1e9;
	json_t *row;

	samples_sort(&all->latencies);
	row = json_pack("{s:s, s:s, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "side", side, "op",
			line->write ? "WRITE" : "READ", "block", (json_int_t)line->length, "batch",
			(int)line->batch, "gbps", bench_series_gbps(series), "mean_us",
			samples_mean(&all->latencies) / 1e3, "p50_us", bench_series_p50_us(series),
			"p99_us", (double)samples_quantile(&all->latencies, 0.99) / 1e3, "p999_us",
			(double)samples_quantile(&all->latencies, 0.999) / 1e3, "cpu_per_gb",
			gb > 0 ? all->cpu_seconds / gb : 0);
	if (floor) {
		json_object_set_new(row, "speed_ratio",
				    json_real(bench_series_speed_ratio(series, floor)));
		json_object_set_new(row, "latency_ratio",
				    json_real(bench_series_latency_ratio(series, floor)));
	}
	if (!options->common.json)
		output_row(stdout, columns, column_count(options), row);
	pthread_mutex_lock(&lock);
	json_array_append_new(json_object_get(open_report, "results"), row);
	pthread_mutex_unlock(&lock);
}

/* ---- Bars ------------------------------------------------------------------------------------ */

static double ratio_of(const json_t *report, uint64_t length, const char *key)
{
	json_t *row;
	size_t i;

	json_array_foreach(
		json_object_get(report, "results"), i,
		row) if (!strcmp(text_of(row, "op"), "READ") && json_object_get(row, key) &&
			 (uint64_t)json_integer_value(json_object_get(row, "block")) ==
				 length) return json_real_value(json_object_get(row, key));
	return -1;
}

/* A bar without a measurement is missed: it would prove nothing. */
static bool judge(const struct bench_options *options, const json_t *report,
		  const struct bench_bar *bar, bool speed)
{
	double ratio = ratio_of(report, bar->length, speed ? "speed_ratio" : "latency_ratio");
	bool met = speed ? ratio >= bar->ratio : ratio <= bar->ratio;
	FILE *to = options->common.json ? stderr : stdout;
	char bytes[32];

	if (ratio < 0) {
		fprintf(to, "MISSED: READ %s was not measured beside the floor\n",
			format_bytes(bar->length, bytes));
		return false;
	}
	fprintf(to, "%s: READ %s %s %.3f of the floor's, at %s %.2f wanted\n",
		met ? "met" : "MISSED", format_bytes(bar->length, bytes),
		speed ? "speed" : "median latency", ratio, speed ? "least" : "most", bar->ratio);
	return met;
}

static int judge_all(const struct bench_options *options, const json_t *report)
{
	unsigned missed = 0;
	size_t i;

	for (i = 0; i < options->speed_bar_count; i++)
		missed += !judge(options, report, &options->speed_bars[i], true);
	for (i = 0; i < options->latency_bar_count; i++)
		missed += !judge(options, report, &options->latency_bars[i], false);
	if (!missed)
		return EXIT_OK;
	return complain(EXIT_BELOW, "%u %s missed", missed, missed == 1 ? "bar" : "bars");
}

/* ---- The file that is kept ------------------------------------------------------------------- */

static void append_rows(FILE *file, const json_t *report)
{
	json_t *row, *ratio;
	char bytes[32];
	size_t i;

	fputs("| who | op | block | batch | GB/s | avg us | p50 us | p99 us | p99.9 us | CPU s/GB | "
	      "speed x | p50 x |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
	      file);
	json_array_foreach(json_object_get(report, "results"), i, row)
	{
		fprintf(file, "| %s | %s | %s | %d | %.2f | %.1f | %.1f | %.1f | %.1f | %.3f |",
			text_of(row, "side"), text_of(row, "op"),
			format_bytes((uint64_t)json_integer_value(json_object_get(row, "block")),
				     bytes),
			number_of(row, "batch"), json_real_value(json_object_get(row, "gbps")),
			json_real_value(json_object_get(row, "mean_us")),
			json_real_value(json_object_get(row, "p50_us")),
			json_real_value(json_object_get(row, "p99_us")),
			json_real_value(json_object_get(row, "p999_us")),
			json_real_value(json_object_get(row, "cpu_per_gb")));
		ratio = json_object_get(row, "speed_ratio");
		if (ratio)
			fprintf(file, " %.3f | %.3f |\n", json_real_value(ratio),
				json_real_value(json_object_get(row, "latency_ratio")));
		else
			fputs(" | |\n", file);
	}
}

int bench_report_check(const struct bench_options *options)
{
	const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;
	bool made;
	int fd;

	if (!options->report)
		return EXIT_OK;
	fd = open(options->report, flags | O_EXCL, 0666);
	made = fd >= 0;
	if (!made && errno == EEXIST)
		fd = open(options->report, flags, 0666);
	if (fd < 0)
		return complain(EXIT_LOCAL, "--report: %s: %s", options->report, strerror(errno));
	close(fd);
	/* It comes back once there is something in it. */
	if (made)
		unlink(options->report);
	return EXIT_OK;
}

static int append_table(const struct bench_options *options, const json_t *report)
{
	FILE *file = fopen(options->report, "ae");
	time_t now = time(NULL);
	char day[32];
	struct tm tm;

	if (!file)
		return complain(EXIT_LOCAL, "--report: %s: %s", options->report, strerror(errno));
	strftime(day, sizeof(day), "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &tm));
	fprintf(file, "\notte %s, %s\n\n", text_of(report, "version"), day);
	print_facts(file, report);
	fputc('\n', file);
	append_rows(file, report);
	if (fclose(file))
		return complain(EXIT_LOCAL, "--report: %s: %s", options->report, strerror(errno));
	return EXIT_OK;
}

int bench_report_end(const struct bench_options *options, json_t *report)
{
	int rc = options->report ? append_table(options, report) : EXIT_OK;

	if (options->common.json)
		output_json(json_incref(report));
	if (!rc)
		rc = judge_all(options, report);
	json_decref(report);
	return rc;
}
