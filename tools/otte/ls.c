/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* otte ls: what a peer publishes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "endpoint.h"
#include "../common/output.h"
#include "tool.h"

static const char help[] = "Usage: otte ls [OPTION]... ENDPOINT\n"
			   "List the regions that the peer at HOST:PORT publishes.\n" COMMON_HELP;

static const struct option long_options[] = { COMMON_LONG_OPTIONS };

static const struct column columns[] = {
	{ "id", "id", COLUMN_COUNT, 0, 0 },	   { "length", "length", COLUMN_COUNT, 0, 0 },
	{ "length", "", COLUMN_BYTES, 0, 0 },	   { "rights", "rights", COLUMN_TEXT, 0, 0 },
	{ "memory", "memory", COLUMN_TEXT, 0, 0 }, { "name", "name", COLUMN_TEXT, 0, 0 },
};

static const char *rights_text(uint32_t access)
{
	static const char *const texts[] = { "none", "read", "write", "read,write" };

	return texts[access & (OTTE_REMOTE_READ | OTTE_REMOTE_WRITE)];
}

/* Whose it is, and how the peer's NICs were told of a GPU's. */
static const char *memory_text(uint32_t gpu_routes)
{
	static const char *const texts[] = { "host", "gpu,dmabuf", "gpu,peermem", "gpu" };

	return texts[gpu_routes & (OTTE_GPU_BY_DMABUF | OTTE_GPU_BY_PEERMEM)];
}

static json_t *region_rows(const struct otte_region_info *rows, size_t count)
{
	json_t *array = json_array();
	size_t i;

	for (i = 0; i < count; i++)
		json_array_append_new(
			array, json_pack("{s:I, s:I, s:s, s:s, s:s%}", "id", (json_int_t)rows[i].id,
					 "length", (json_int_t)rows[i].length, "rights",
					 rights_text(rows[i].access), "memory",
					 memory_text(rows[i].gpu_routes), "name", rows[i].name,
					 strnlen(rows[i].name, OTTE_NAME_MAX)));
	return array;
}

static void print_peer(const char *endpoint, const struct otte_peer_info *peer)
{
	printf("%s: %s, pid %" PRIu64 ", epoch %016" PRIx64 ", protocol %" PRIu32 ", %s, %s\n",
	       endpoint, peer->name, peer->pid, peer->epoch, peer->protocol,
	       peer->authenticated ? "authenticated" : "not authenticated",
	       peer->same_host ? "this host" : "another host");
}

static json_t *peer_json(const struct otte_peer_info *peer)
{
	char epoch[20];

	snprintf(epoch, sizeof(epoch), "%016" PRIx64, peer->epoch);
	return json_pack("{s:s, s:s, s:I, s:s, s:i, s:b, s:b, s:I}", "name", peer->name, "address",
			 peer->address, "pid", (json_int_t)peer->pid, "epoch", epoch, "protocol",
			 (int)peer->protocol, "authenticated", peer->authenticated, "same_host",
			 peer->same_host, "client", (json_int_t)peer->client);
}

static int list(const struct common *common, struct otte_segment *segment, const char *endpoint,
		int64_t timeout_ns)
{
	struct otte_peer_info peer = { .size = sizeof(peer) };
	struct otte_region_info *rows;
	json_t *regions;
	size_t count;
	int rc;

	rc = otte_segment_peer(segment, &peer);
	if (rc)
		return complain_peer(rc, endpoint);
	rc = endpoint_regions(segment, endpoint, timeout_ns, &rows, &count);
	if (rc)
		return rc;
	regions = region_rows(rows, count);
	free(rows);
	if (common->json) {
		output_json(json_pack("{s:s, s:o, s:o}", "endpoint", endpoint, "peer",
				      peer_json(&peer), "regions", regions));
		return EXIT_OK;
	}
	print_peer(endpoint, &peer);
	output_table(stdout, columns, ARRAY_SIZE(columns), regions);
	json_decref(regions);
	return EXIT_OK;
}

int cmd_ls(int argc, char **argv)
{
	struct common common = COMMON_DEFAULTS;
	struct otte_segment *segment;
	struct otte_engine *engine;
	struct otte_config config;
	int option, rc;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (!common_option(&common, option, optarg))
			return EXIT_USAGE;
	}
	if (argc - optind != 1)
		return complain(EXIT_USAGE, "give one ENDPOINT");
	rc = common_ends_at_once("otte ls");
	if (!rc)
		rc = common_requester(&common, &config, &engine);
	if (rc)
		return rc;
	rc = endpoint_open(engine, &config, argv[optind], &segment);
	if (!rc) {
		rc = list(&common, segment, argv[optind], (int64_t)config.control_timeout_ns);
		otte_segment_close(segment);
	}
	otte_engine_destroy(engine);
	return rc;
}
