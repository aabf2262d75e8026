/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stats_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../common/output.h"

#define NICS "rdma_nics"

/* ---- For people ------------------------------------------------------------------------------ */

static void print_value(FILE *to, const char *before, const char *key, const json_t *value)
{
	char *text = json_is_string(value) ? strdup(json_string_value(value)) :
					     json_dumps(value, JSON_ENCODE_ANY);
	int width = 24 - (int)strlen(before);

	fprintf(to, "%s%-*s %s\n", before, width > 0 ? width : 0, key, text ? text : "-");
	free(text);
}

static void print_nic(FILE *to, json_t *nic)
{
	char before[32];
	const char *key;
	json_t *value;

	snprintf(before, sizeof(before), "nic%lld.",
		 (long long)json_integer_value(json_object_get(nic, "nic")));
	json_object_foreach(nic, key, value)
		if (strcmp(key, "nic"))
			print_value(to, before, key, value);
}

void stats_print(FILE *to, const json_t *stats)
{
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach((json_t *)stats, key, value)
		if (!json_is_array(value))
			print_value(to, "", key, value);
	json_array_foreach(json_object_get(stats, NICS), i, value) {
		print_nic(to, value);
	}
}

/* ---- For collectors -------------------------------------------------------------------------- */

static bool is_number(const json_t *value)
{
	return json_is_integer(value) || json_is_boolean(value);
}

static long long number(const json_t *value)
{
	return json_is_boolean(value) ? json_is_true(value) : (long long)json_integer_value(value);
}

/* Whose engine it is, as far as it says so: a peer does not. */
static void engine_labels(FILE *to, const json_t *stats)
{
	const char *name = json_string_value(json_object_get(stats, "name"));
	const json_t *pid = json_object_get(stats, "pid");

	if (name) {
		output_label(to, "engine", name);
		fputc(',', to);
	}
	if (pid)
		fprintf(to, "pid=\"%lld\"", number(pid));
}

static void engine_family(FILE *to, const json_t *stats, const char *key, const json_t *value)
{
	fprintf(to, "# TYPE otte_engine_%s gauge\notte_engine_%s{", key, key);
	engine_labels(to, stats);
	fprintf(to, "} %lld\n", number(value));
}

static void nic_family(FILE *to, const json_t *stats, const char *key)
{
	json_t *nic;
	size_t i;

	fprintf(to, "# TYPE otte_nic_%s gauge\n", key);
	json_array_foreach(json_object_get(stats, NICS), i, nic)
	{
		fprintf(to, "otte_nic_%s{", key);
		engine_labels(to, stats);
		fputc(',', to);
		output_label(to, "device", json_string_value(json_object_get(nic, "name")));
		fprintf(to, ",port=\"%lld\"} %lld\n", number(json_object_get(nic, "port")),
			number(json_object_get(nic, key)));
	}
}

/* Those are labels. */
static bool is_label(const char *key)
{
	return !strcmp(key, "pid") || !strcmp(key, "nic") || !strcmp(key, "port");
}

void stats_print_metrics(FILE *to, const json_t *stats)
{
	json_t *value, *first = json_array_get(json_object_get(stats, NICS), 0);
	const char *key;

	json_object_foreach((json_t *)stats, key, value)
		if (is_number(value) && !is_label(key))
			engine_family(to, stats, key, value);
	json_object_foreach(first, key, value)
		if (is_number(value) && !is_label(key))
			nic_family(to, stats, key);
	fputs("# EOF\n", to);
}
