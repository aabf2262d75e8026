/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * otte topo: memory nodes, NICs and GPUs of this machine, and how near they are to each other; and
 * what RDMA would use of its verbs devices.
 */
#include "topo/topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "../common/output.h"
#include "tool.h"
#include "topo/priority.h"
#include "transport/rdma/discovery.h"
#include "transport/rdma/verbs.h"

static const char help[] =
	"Usage: otte topo [OPTION]...\n"
	"Show memory nodes, NICs and GPUs of this machine, and how near they are to each other:\n"
	"switch (one PCI bridge), root (one host bridge), node (one memory node), system.\n"
	"Which verbs devices are near to memory of each node and GPU, which less, which far.\n"
	"And each port of these devices, with the address and rate that RDMA would use.\n"
	"\n"
	"  --xml FILE          of a machine that hwloc's lstopo described in FILE\n" COMMON_HELP_OF_ALL;

enum {
	OPT_XML = OPT_OWN
};

static const struct option long_options[] = {
	{ "xml", required_argument, NULL, OPT_XML },
	COMMON_LONG_OPTIONS_OF_ALL,
};

static const struct column node_columns[] = {
	{ "node", "node", COLUMN_COUNT, 0, 0 },
	{ "memory_bytes", "memory", COLUMN_BYTES, 0, 0 },
	{ "cpus", "CPUs", COLUMN_TEXT, 0, 0 },
};

static const struct column nic_columns[] = {
	{ "name", "NIC", COLUMN_TEXT, 0, 0 },	      { "rdma", "verbs", COLUMN_TEXT, 0, 0 },
	{ "speed_mbps", "Mb/s", COLUMN_COUNT, 0, 0 }, { "node", "node", COLUMN_COUNT, 0, 0 },
	{ "pci", "PCI", COLUMN_TEXT, 0, 0 },
};

static const struct column verbs_columns[] = {
	{ "id", "id", COLUMN_COUNT, 0, 0 },	    { "device", "verbs", COLUMN_TEXT, 0, 0 },
	{ "port", "port", COLUMN_COUNT, 0, 0 },	    { "state", "state", COLUMN_TEXT, 0, 0 },
	{ "mtu_bytes", "MTU", COLUMN_COUNT, 0, 0 }, { "rate_mbps", "Mb/s", COLUMN_COUNT, 0, 0 },
	{ "rate", "rate", COLUMN_TEXT, 0, 0 },	    { "gid_index", "GID", COLUMN_COUNT, 0, 0 },
	{ "gid_type", "type", COLUMN_TEXT, 0, 0 },  { "gid", "address", COLUMN_TEXT, 0, 0 },
};

static const struct column gpu_columns[] = {
	{ "index", "GPU", COLUMN_COUNT, 0, 0 },
	{ "node", "node", COLUMN_COUNT, 0, 0 },
	{ "pci", "PCI", COLUMN_TEXT, 0, 0 },
	{ "name", "name", COLUMN_TEXT, 0, 0 },
};

static const struct column rank_columns[] = {
	{ "location", "memory at", COLUMN_TEXT, 0, 0 },
	{ "near", "near", COLUMN_TEXT, 0, 0 },
	{ "next", "next", COLUMN_TEXT, 0, 0 },
	{ "far", "far", COLUMN_TEXT, 0, 0 },
};

/* What is unknown is null. */
static json_t *known_text(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static json_t *known_number(int64_t number)
{
	return number >= 0 ? json_integer(number) : json_null();
}

static json_t *node_rows(const struct otte_topo *topo)
{
	json_t *rows = json_array(), *distances;
	size_t i, j;

	for (i = 0; i < topo->node_count; i++) {
		distances = topo->distances ? json_array() : json_null();
		for (j = 0; topo->distances && j < topo->node_count; j++)
			json_array_append_new(
				distances, json_integer(topo->distances[i * topo->node_count + j]));
		json_array_append_new(
			rows, json_pack("{s:i, s:I, s:s, s:o}", "node", topo->nodes[i].id,
					"memory_bytes", (json_int_t)topo->nodes[i].memory_bytes,
					"cpus", topo->nodes[i].cpus, "distances", distances));
	}
	return rows;
}

static json_t *nic_rows(const struct otte_topo *topo)
{
	json_t *rows = json_array();
	size_t i;

	for (i = 0; i < topo->nic_count; i++)
		json_array_append_new(rows, json_pack("{s:o, s:o, s:o, s:o, s:o}", "name",
						      output_string(topo->nics[i].name), "rdma",
						      known_text(topo->nics[i].rdma), "speed_mbps",
						      known_number(topo->nics[i].speed_mbps),
						      "node", known_number(topo->nics[i].node),
						      "pci", known_text(topo->nics[i].pci)));
	return rows;
}

/* What an unusable one has not is null. */
static json_t *verbs_row(size_t id, const struct otte_rdma_nic *nic)
{
	bool usable = nic->state != OTTE_RDMA_UNUSABLE;
	char gid[OTTE_RDMA_GID_TEXT];
	json_t *row;

	row = json_pack("{s:I, s:s, s:i, s:s, s:o, s:o, s:o}", "id", (json_int_t)id, "device",
			nic->name, "port", nic->port, "state", otte_rdma_state_text(nic->state),
			"why", known_text(nic->why), "node", known_number(nic->node), "pci",
			known_text(nic->pci));
	json_object_set_new(row, "link_layer",
			    !usable ? json_null() :
				      json_string(nic->ethernet ? "Ethernet" : "InfiniBand"));
	json_object_set_new(row, "lid", known_number(usable ? nic->lid : -1));
	json_object_set_new(row, "mtu_bytes", known_number(usable ? (int64_t)nic->mtu_bytes : -1));
	json_object_set_new(row, "rate_mbps",
			    known_number(usable ? (int64_t)(nic->bytes_per_s / 125000) : -1));
	json_object_set_new(row, "rate",
			    known_text(usable ? otte_rdma_rate_source_text(nic->rate_source) : ""));
	json_object_set_new(row, "gid_index", known_number(usable ? nic->gid.index : -1));
	json_object_set_new(row, "gid_type",
			    known_text(usable ? otte_rdma_gid_type_text(nic->gid.type) : ""));
	json_object_set_new(row, "gid",
			    known_text(usable ? otte_rdma_gid_text(&nic->gid, gid) : ""));
	return row;
}

static int discover_verbs(json_t *rows)
{
	const struct otte_rdma_select select = OTTE_RDMA_SELECT_DEFAULTS;
	static struct otte_rdma_nics nics;
	const struct otte_verbs *verbs;
	int rc = otte_verbs_open(&verbs);
	size_t i;

	if (!rc)
		rc = otte_rdma_discover(verbs, &select, &nics);
	if (rc)
		return rc;
	for (i = 0; i < nics.count; i++)
		json_array_append_new(rows, verbs_row(i, &nics.list[i]));
	otte_rdma_nics_close(verbs, &nics);
	return 0;
}

/* Of this machine; null where another one is described. */
static json_t *verbs_of(bool this_machine)
{
	json_t *rows;
	int rc;

	if (!this_machine)
		return json_null();
	rows = json_array();
	rc = discover_verbs(rows);
	return json_pack("{s:o, s:o}", "error", rc ? output_string(otte_error_text()) : json_null(),
			 "nics", rows);
}

static json_t *gpu_paths(const struct otte_topo *topo, size_t gpu)
{
	json_t *paths = json_object();
	size_t i;

	for (i = 0; i < topo->nic_count; i++)
		json_object_set_new(
			paths, topo->nics[i].name,
			json_string(otte_topo_path_text(topo->paths[gpu * topo->nic_count + i])));
	return paths;
}

static json_t *gpu_rows(const struct otte_topo *topo)
{
	json_t *rows = json_array();
	size_t i;

	for (i = 0; i < topo->gpu_count; i++)
		json_array_append_new(rows,
				      json_pack("{s:i, s:s, s:o, s:s, s:o}", "index", (int)i,
						"name", topo->gpus[i].name, "node",
						known_number(topo->gpus[i].node), "pci",
						topo->gpus[i].pci, "paths", gpu_paths(topo, i)));
	return rows;
}

/* ---- Ranks ---- */

/* Names of verbs devices by their place among those that the topology knows, each once. */
static size_t name_devices(const struct otte_topo *topo, const char *names[OTTE_NIC_IDS])
{
	size_t count = 0, i, k;

	for (i = 0; i < topo->nic_count && count < OTTE_NIC_IDS; i++) {
		for (k = 0; k < count && strcmp(names[k], topo->nics[i].rdma) != 0; k++)
			;
		if (*topo->nics[i].rdma && k == count)
			names[count++] = topo->nics[i].rdma;
	}
	return count;
}

/* "mlx5_0,mlx5_1" */
static json_t *rank_text(uint64_t rank, const char *const *names)
{
	char text[OTTE_NIC_IDS * OTTE_TOPO_NAME_MAX] = "";
	size_t used = 0;

	for (; rank; rank &= rank - 1)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? "," : "",
					 names[__builtin_ctzll(rank)]);
	return json_string(text);
}

/* Of the topology alone, as an engine has them whose config says nothing. */
static json_t *rank_rows(const struct otte_topo *topo)
{
	const char *names[OTTE_NIC_IDS], **gpus = calloc(topo->gpu_count + 1, sizeof(*gpus));
	struct otte_nic_priority_source source = {
		.nics = { .names = names, .count = name_devices(topo, names) },
		.topo = topo,
		.cuda = gpus,
		.cuda_count = gpus ? topo->gpu_count : 0,
	};
	struct otte_nic_priority priority = { 0 };
	char location[OTTE_LOCATION_TEXT];
	json_t *rows = json_array();
	size_t i;

	for (i = 0; i < source.cuda_count; i++)
		gpus[i] = topo->gpus[i].pci;
	if (source.nics.count && !otte_nic_priority_load(&source, &priority)) {
		for (i = 0; i < priority.count; i++) {
			const struct otte_nic_row *row = &priority.rows[i];

			json_array_append_new(
				rows, json_pack("{s:s, s:o, s:o, s:o}", "location",
						otte_location_text(location, row->location), "near",
						rank_text(row->ranks[0], names), "next",
						rank_text(row->ranks[1], names), "far",
						rank_text(row->ranks[2], names)));
		}
		otte_nic_priority_free(&priority);
	}
	free(gpus);
	return rows;
}

static void print_distances(const struct otte_topo *topo)
{
	size_t i, j, count = topo->node_count;

	if (!topo->distances || count < 2)
		return;
	puts("\ndistance between nodes");
	for (i = 0; i < count; i++) {
		printf("  node %d:", topo->nodes[i].id);
		for (j = 0; j < count; j++)
			printf(" %u", topo->distances[i * count + j]);
		putchar('\n');
	}
}

static void print_paths(const struct otte_topo *topo)
{
	size_t gpu, nic;

	if (!topo->paths)
		return;
	puts("\nGPU to NIC");
	for (gpu = 0; gpu < topo->gpu_count; gpu++) {
		printf("  GPU %zu:", gpu);
		for (nic = 0; nic < topo->nic_count; nic++)
			printf(" %s %s", topo->nics[nic].name,
			       otte_topo_path_text(topo->paths[gpu * topo->nic_count + nic]));
		putchar('\n');
	}
}

static void print_table(const char *none, const struct column *columns, size_t count,
			const json_t *rows)
{
	putchar('\n');
	if (json_array_size(rows))
		output_table(stdout, columns, count, rows);
	else
		puts(none);
}

static void print_verbs(const json_t *verbs)
{
	const char *error = json_string_value(json_object_get(verbs, "error")), *why;
	const json_t *rows = json_object_get(verbs, "nics"), *row;
	size_t i;

	if (json_is_null(verbs))
		return;
	if (error) {
		printf("\nno verbs: %s\n", error);
		return;
	}
	print_table("no verbs device", verbs_columns, ARRAY_SIZE(verbs_columns), rows);
	json_array_foreach(rows, i, row)
	{
		why = json_string_value(json_object_get(row, "why"));
		if (why)
			printf("  %zu: %s\n", i, why);
	}
}

static void print_topo(const struct otte_topo *topo, bool this_machine, bool json)
{
	json_t *all = json_pack("{s:o, s:o, s:o, s:o, s:o}", "nodes", node_rows(topo), "nics",
				nic_rows(topo), "gpus", gpu_rows(topo), "ranks", rank_rows(topo),
				"verbs", verbs_of(this_machine));

	if (json) {
		output_json(all);
		return;
	}
	output_table(stdout, node_columns, ARRAY_SIZE(node_columns), json_object_get(all, "nodes"));
	print_distances(topo);
	print_table("no NIC", nic_columns, ARRAY_SIZE(nic_columns), json_object_get(all, "nics"));
	print_verbs(json_object_get(all, "verbs"));
	print_table("no GPU", gpu_columns, ARRAY_SIZE(gpu_columns), json_object_get(all, "gpus"));
	print_paths(topo);
	if (json_array_size(json_object_get(all, "ranks")))
		print_table("", rank_columns, ARRAY_SIZE(rank_columns), json_object_get(all, "ranks"));
	json_decref(all);
}

int cmd_topo(int argc, char **argv)
{
	struct common common = COMMON_DEFAULTS;
	const char *xml = NULL;
	struct otte_topo *topo;
	int option, rc;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_OK;
		}
		if (option == OPT_XML)
			xml = optarg;
		else if (!common_option(&common, option, optarg))
			return EXIT_USAGE;
	}
	if (optind < argc)
		return complain(EXIT_USAGE, "unexpected argument \"%s\"", argv[optind]);
	common_log(&common);
	rc = otte_topo_read(xml, &topo);
	if (rc)
		return complain(EXIT_LOCAL, "%s", otte_error_text());
	print_topo(topo, !xml, common.json);
	otte_topo_free(topo);
	return EXIT_OK;
}
