/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * otte stats: the counters of an engine, of a process on this machine through the abstract UNIX
 * socket "otte/PID", or "otte/PID.N" of a further engine of it (for its own user and root), or of a
 * peer over its control connection.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "args.h"
#include "base/read.h"
#include "common.h"
#include "endpoint.h"
#include "../common/output.h"
#include "stats_text.h"
#include "tool.h"

#define ANSWER_MAX (64 * KIB)
#define ANSWER_SECONDS 5

static const char help[] =
	"Usage: otte stats [OPTION]... PID|PID.N|ENDPOINT\n"
	"Print the counters of a process's engine, or of the peer at HOST:PORT.\n"
	"A process answers its own user and root. PID.N: its N-th further engine, from 1 on.\n" COMMON_HELP
	"      --metrics       as OpenMetrics text, for node_exporter's textfile collector\n";

enum {
	OPT_METRICS = OPT_OWN,
};

static const struct option long_options[] = {
	{ "metrics", no_argument, NULL, OPT_METRICS },
	COMMON_LONG_OPTIONS,
};

#define COUNTER(name)                                    \
	{                                                \
#name, offsetof(struct otte_stats, name) \
	}
static const struct {
	const char *name;
	size_t offset;
} counters[] = {
	COUNTER(regions),
	COUNTER(registered_bytes),
	COUNTER(segments),
	COUNTER(requests),
	COUNTER(bytes),
	COUNTER(submitted),
	COUNTER(completed),
	COUNTER(failed),
	COUNTER(read_bytes),
	COUNTER(write_bytes),
	COUNTER(served_read_bytes),
	COUNTER(served_write_bytes),
	COUNTER(served_requests),
	COUNTER(refused_requests),
	COUNTER(peers_in),
	COUNTER(peers_out),
	COUNTER(lanes),
	COUNTER(bad_frames),
	COUNTER(reconnects),
	COUNTER(retries),
	COUNTER(loans),
	COUNTER(loans_settled),
	COUNTER(retained),
	COUNTER(retained_bytes),
	COUNTER(notifications_sent),
	COUNTER(notifications_received),
	COUNTER(stale_regions),
	COUNTER(zerocopy_bytes),
	COUNTER(zerocopy_sends),
	COUNTER(zerocopy_copied),
	COUNTER(zerocopy_refused),
	COUNTER(zerocopy_outstanding),
	COUNTER(waiting_high),
	COUNTER(waiting_medium),
	COUNTER(waiting_low),
	COUNTER(promoted),
	COUNTER(low_inflight_bytes),
	COUNTER(rdma_qps),
	COUNTER(rdma_mrs),
	COUNTER(rdma_mr_bytes),
	COUNTER(rdma_grants),
	COUNTER(rdma_cqes),
	COUNTER(rdma_leases),
	COUNTER(rdma_lease_requests),
	COUNTER(rdma_slices),
	COUNTER(rdma_slices_moved),
	COUNTER(rdma_rails_paused),
	COUNTER(rdma_rail_errors),
	COUNTER(rdma_rail_probes),
	COUNTER(rdma_rail_recoveries),
	COUNTER(rdma_direct_bytes),
	COUNTER(rdma_staging_bytes),
	COUNTER(rdma_wrs),
	COUNTER(rdma_dmabuf_registrations),
	COUNTER(rdma_peermem_registrations),
};

/* All that a peer tells: how many threads it has is its own affair. */
static json_t *stats_json(const struct otte_stats *stats)
{
	json_t *object = json_object();
	uint64_t value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		memcpy(&value, (const char *)stats + counters[i].offset, sizeof(value));
		json_object_set_new(object, counters[i].name, json_integer((json_int_t)value));
	}
	return object;
}

static void print_stats(json_t *stats, bool json, bool metrics)
{
	if (json) {
		output_json(stats);
		return;
	}
	if (metrics)
		stats_print_metrics(stdout, stats);
	else
		stats_print(stdout, stats);
	json_decref(stats);
}

/* ---- A process of this machine --------------------------------------------------------------- */

static int connect_process(const char *pid, int *fd)
{
	struct timeval limit = { .tv_sec = ANSWER_SECONDS };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct ucred who;
	socklen_t length = sizeof(who);
	int used;

	used = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "otte/%s", pid);
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0 || setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		return complain(EXIT_LOCAL, "socket: %s", strerror(errno));
	if (connect(*fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)used)))
		return complain(EXIT_UNREACHABLE,
				"process %s has no stats socket of otte: %s (is it an engine with "
				"stats.socket on, in this network namespace?)",
				pid, strerror(errno));
	/* Anybody may bind an abstract name. A process of another PID namespace shows as 0. */
	if (!getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, &who, &length) && who.pid &&
	    who.pid != atoi(pid))
		return complain(EXIT_REFUSED,
				"the stats socket of process %s is held by process %d", pid,
				(int)who.pid);
	return EXIT_OK;
}

static int process_stats(const char *pid, json_t **stats)
{
	char *answer;
	ssize_t got;
	int fd = -1, rc;

	rc = connect_process(pid, &fd);
	answer = rc ? NULL : malloc(ANSWER_MAX);
	if (answer) {
		got = otte_read_all(fd, answer, ANSWER_MAX);
		*stats = got > 0 ? json_loadb(answer, (size_t)got, 0, NULL) : NULL;
		if (got == 0)
			rc = complain(EXIT_REFUSED,
				      "process %s does not answer another user than its own", pid);
		else if (got < 0)
			rc = complain(EXIT_UNREACHABLE, "process %s: %s", pid, strerror((int)-got));
		else if (!json_is_object(*stats))
			rc = complain(EXIT_TRANSFER, "process %s answers with something else", pid);
	}
	free(answer);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- A peer ---------------------------------------------------------------------------------- */

static int peer_stats(const struct common *common, const char *endpoint, json_t **json)
{
	struct otte_stats stats = { .size = sizeof(stats) };
	struct otte_segment *segment;
	struct otte_engine *engine;
	struct otte_config config;
	int rc;

	rc = common_requester(common, &config, &engine);
	if (rc)
		return rc;
	rc = endpoint_open(engine, &config, endpoint, &segment);
	if (!rc) {
		rc = otte_segment_stats(segment, (int64_t)config.control_timeout_ns, &stats);
		if (rc)
			rc = complain_peer(rc, endpoint);
		else
			*json = stats_json(&stats);
		otte_segment_close(segment);
	}
	otte_engine_destroy(engine);
	return rc;
}

static size_t digits(const char *text)
{
	return strspn(text, "0123456789");
}

/* PID or PID.N */
static bool is_process(const char *text)
{
	size_t pid = digits(text), more = text[pid] == '.' ? digits(text + pid + 1) : 0;

	return pid && pid < 10 && more < 10 && !text[more ? pid + 1 + more : pid];
}

int cmd_stats(int argc, char **argv)
{
	struct common common = COMMON_DEFAULTS;
	bool metrics = false;
	json_t *stats = NULL;
	int option, rc;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (option == OPT_METRICS)
			metrics = true;
		else if (!common_option(&common, option, optarg))
			return EXIT_USAGE;
	}
	if (argc - optind != 1)
		return complain(EXIT_USAGE, "give one PID, PID.N or ENDPOINT");
	if (*argv[optind] && !is_process(argv[optind]) && !strchr(argv[optind], ':'))
		return complain(EXIT_USAGE, "\"%s\" is neither PID, PID.N nor HOST:PORT",
				argv[optind]);
	rc = common_ends_at_once("otte stats");
	if (rc)
		return rc;
	if (is_process(argv[optind]))
		rc = process_stats(argv[optind], &stats);
	else
		rc = peer_stats(&common, argv[optind], &stats);
	if (!rc)
		print_stats(stats, common.json, metrics);
	return rc;
}
