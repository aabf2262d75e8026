/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of rows, what the topology says without being told, and the choice of the source. */
#include "topo/priority.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/line.h"
#include "base/read.h"
#include "base/util.h"

#define SHOWN 64

/* ---- Locations ------------------------------------------------------------------------------- */

static int refuse_location(const char *text)
{
	char shown[SHOWN];

	otte_line_escape(shown, sizeof(shown), text);
	return otte_fail(-EINVAL, "'%s' is no location, allowed are cpu:N, cuda:N and *", shown);
}

/* As it is written back: no sign, no leading zero, so that two texts are two locations. */
static bool parse_index(const char *text, uint32_t *index)
{
	uint32_t value = 0;
	size_t i;

	if (!*text || (text[0] == '0' && text[1]))
		return false;
	for (i = 0; text[i]; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		value = value * 10 + (uint32_t)(text[i] - '0');
		if (value > OTTE_LOCATION_INDEX_MAX)
			return false;
	}
	*index = value;
	return true;
}

int otte_location_parse(const char *text, struct otte_location *location)
{
	*location = (struct otte_location){ .kind = OTTE_LOCATION_ANY };
	if (!strcmp(text, "*"))
		return 0;
	if (!strncmp(text, "cpu:", 4) && parse_index(text + 4, &location->index)) {
		location->kind = OTTE_LOCATION_CPU;
		return 0;
	}
	if (!strncmp(text, "cuda:", 5) && parse_index(text + 5, &location->index)) {
		location->kind = OTTE_LOCATION_CUDA;
		return 0;
	}
	return refuse_location(text);
}

const char *otte_location_text(char text[OTTE_LOCATION_TEXT], struct otte_location location)
{
	if (location.kind == OTTE_LOCATION_ANY)
		snprintf(text, OTTE_LOCATION_TEXT, "*");
	else
		snprintf(text, OTTE_LOCATION_TEXT, "%s:%" PRIu32,
			 location.kind == OTTE_LOCATION_CPU ? "cpu" : "cuda", location.index);
	return text;
}

static bool find_gpu(const struct otte_nic_priority_source *source, uint32_t index, size_t *gpu)
{
	const char *pci = index < source->cuda_count ? source->cuda[index] : NULL;
	size_t i;

	for (i = 0; pci && source->topo && i < source->topo->gpu_count; i++) {
		if (!strcasecmp(source->topo->gpus[i].pci, pci)) {
			*gpu = i;
			return true;
		}
	}
	return false;
}

int otte_location_node(const struct otte_nic_priority_source *source, struct otte_location location)
{
	size_t gpu;

	if (location.kind == OTTE_LOCATION_CPU)
		return (int)location.index;
	if (location.kind == OTTE_LOCATION_CUDA && find_gpu(source, location.index, &gpu))
		return source->topo->gpus[gpu].node;
	return OTTE_TOPO_NO_NODE;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
	const struct otte_location *x = &((const struct otte_nic_row *)a)->location;
	const struct otte_location *y = &((const struct otte_nic_row *)b)->location;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

int otte_nic_priority_add(struct otte_nic_priority *priority, const struct otte_nic_row *row)
{
	struct otte_nic_row *bigger;

	if (priority->count == OTTE_NIC_ROWS_MAX)
		return otte_fail(-EINVAL, "more than %d locations", OTTE_NIC_ROWS_MAX);
	bigger = reallocarray(priority->rows, priority->count + 1, sizeof(*bigger));
	if (!bigger)
		return otte_fail(-ENOMEM, "no memory for %zu locations", priority->count + 1);
	priority->rows = bigger;
	priority->rows[priority->count++] = *row;
	return 0;
}

static const struct otte_nic_row *find(const struct otte_nic_priority *priority,
				       struct otte_location location)
{
	struct otte_nic_row wanted = { .location = location };

	if (!priority->count)
		return NULL;
	return bsearch(&wanted, priority->rows, priority->count, sizeof(wanted), compare);
}

const struct otte_nic_row *otte_nic_priority_find(const struct otte_nic_priority *priority,
						  struct otte_location location)
{
	const struct otte_nic_row *row = find(priority, location);

	if (row)
		return row;
	return find(priority, (struct otte_location){ .kind = OTTE_LOCATION_ANY });
}

void otte_nic_priority_free(struct otte_nic_priority *priority)
{
	free(priority->rows);
	*priority = (struct otte_nic_priority){ 0 };
}

/* ---- The topology ---------------------------------------------------------------------------- */

/* The NIC's place in the topology, or -1: nothing is known of it. */
static ptrdiff_t find_nic(const struct otte_topo *topo, const char *name)
{
	size_t i;

	for (i = 0; topo && i < topo->nic_count; i++)
		if (!strcmp(topo->nics[i].rdma, name))
			return (ptrdiff_t)i;
	return -1;
}

static enum otte_topo_path path_to(const struct otte_topo *topo, size_t gpu, const char *name)
{
	ptrdiff_t nic = find_nic(topo, name);

	return nic < 0 ? OTTE_TOPO_SYSTEM :
			 (enum otte_topo_path)topo->paths[gpu * topo->nic_count + (size_t)nic];
}

static enum otte_topo_path nearest(const struct otte_nic_priority_source *source, size_t gpu)
{
	enum otte_topo_path best = OTTE_TOPO_SYSTEM, path;
	size_t id;

	for (id = 0; id < source->nics.count; id++) {
		path = source->nics.names[id] ? path_to(source->topo, gpu, source->nics.names[id]) :
						OTTE_TOPO_SYSTEM;
		if (path < best)
			best = path;
	}
	return best;
}

/* Only a bridge is near: at most the host's own. */
static unsigned gpu_rank(enum otte_topo_path path, enum otte_topo_path best)
{
	if (path <= OTTE_TOPO_ROOT && path == best)
		return 0;
	return path <= OTTE_TOPO_NODE ? 1 : 2;
}

static int node_of_nic(const struct otte_nic_priority_source *source, size_t id)
{
	ptrdiff_t nic;

	if (!source->nics.names[id])
		return OTTE_TOPO_NO_NODE;
	if (source->nodes)
		return source->nodes[id];
	if (!source->topo)
		return OTTE_TOPO_NO_NODE;
	nic = find_nic(source->topo, source->nics.names[id]);
	return nic < 0 ? OTTE_TOPO_NO_NODE : source->topo->nics[nic].node;
}

static unsigned rank_of(const struct otte_nic_priority_source *source,
			struct otte_location location, size_t id)
{
	const char *name = source->nics.names[id];
	size_t gpu;

	if (location.kind == OTTE_LOCATION_CPU)
		return node_of_nic(source, id) == (int)location.index ? 0 : 2;
	if (location.kind == OTTE_LOCATION_CUDA && find_gpu(source, location.index, &gpu))
		return gpu_rank(path_to(source->topo, gpu, name), nearest(source, gpu));
	return 2;
}

static int discover_row(const struct otte_nic_priority_source *source,
			struct otte_nic_priority *priority, struct otte_location location)
{
	struct otte_nic_row row = { .location = location };
	size_t id;

	for (id = 0; id < source->nics.count; id++)
		if (source->nics.names[id])
			row.ranks[rank_of(source, location, id)] |= 1ull << id;
	return otte_nic_priority_add(priority, &row);
}

/* The least one above `node` that the machine has, as far as is known, or -1. */
static int next_node(const struct otte_nic_priority_source *source, int node)
{
	int next = OTTE_TOPO_NO_NODE, each;
	size_t i;

	for (i = 0; source->topo && i < source->topo->node_count; i++) {
		each = source->topo->nodes[i].id;
		if (each > node && (next < 0 || each < next))
			next = each;
	}
	for (i = 0; i < source->nics.count; i++) {
		each = node_of_nic(source, i);
		if (each > node && (next < 0 || each < next))
			next = each;
	}
	return next;
}

static int discover(const struct otte_nic_priority_source *source,
		    struct otte_nic_priority *priority)
{
	struct otte_location location = { .kind = OTTE_LOCATION_ANY };
	int rc = discover_row(source, priority, location), node = OTTE_TOPO_NO_NODE;
	size_t i;

	location.kind = OTTE_LOCATION_CPU;
	while (!rc && (node = next_node(source, node)) >= 0) {
		location.index = (uint32_t)node;
		rc = discover_row(source, priority, location);
	}
	location.kind = OTTE_LOCATION_CUDA;
	for (i = 0; !rc && i < source->cuda_count; i++) {
		location.index = (uint32_t)i;
		rc = discover_row(source, priority, location);
	}
	return rc;
}

/* ---- The source ------------------------------------------------------------------------------ */

/* What is no regular file may have no end, or let who reads it wait for ever. */
static int read_open(int fd, char *text, size_t *length)
{
	struct stat status;
	ssize_t got;

	if (fstat(fd, &status))
		return otte_fail(-errno, "%m");
	if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
		return otte_fail(-EINVAL, "it is no regular file");
	got = otte_read_all(fd, text, OTTE_NIC_JSON_MAX + 1);
	if (got < 0)
		return otte_fail((int)got, "%s", strerror((int)-got));
	*length = (size_t)got;
	return 0;
}

static int read_file(const char *path, char *text, size_t *length)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), ret;

	if (fd < 0)
		return otte_fail(-errno, "%m");
	ret = read_open(fd, text, length);
	close(fd);
	return ret;
}

static int load_file(const struct otte_nic_priority_source *source,
		     struct otte_nic_priority *priority)
{
	char *text = malloc(OTTE_NIC_JSON_MAX + 1), shown[2 * SHOWN];
	size_t length = 0;
	int rc;

	otte_line_escape(shown, sizeof(shown), source->path);
	if (!text)
		return otte_fail(-ENOMEM, "%s: no memory to read it", shown);
	rc = read_file(source->path, text, &length);
	if (!rc)
		rc = otte_nic_priority_parse(text, length, &source->nics, priority);
	free(text);
	return rc ? otte_fail_within(rc, "%s: ", shown) : 0;
}

static int load_matrix(const struct otte_nic_priority_source *source,
		       struct otte_nic_priority *priority)
{
	return otte_nic_priority_parse_matrix(source->matrix, strlen(source->matrix), &source->nics,
					      priority);
}

int otte_nic_priority_load(const struct otte_nic_priority_source *source,
			   struct otte_nic_priority *priority)
{
	struct otte_nic_priority made = { 0 };
	int rc;

	if (source->nics.count > OTTE_NIC_IDS)
		return otte_fail(-EINVAL, "%zu NICs, allowed are %d", source->nics.count,
				 OTTE_NIC_IDS);
	if (source->matrix && *source->matrix)
		rc = load_matrix(source, &made);
	else if (source->path && *source->path)
		rc = load_file(source, &made);
	else
		rc = discover(source, &made);
	if (rc) {
		otte_nic_priority_free(&made);
		return rc;
	}
	qsort(made.rows, made.count, sizeof(*made.rows), compare);
	*priority = made;
	return 0;
}
