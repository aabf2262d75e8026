/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "endpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/line.h"
#include "tool.h"

#define FIRST_ROWS 64
#define DESCRIBE_ATTEMPTS 8

static int peer_exit_code(int code)
{
	switch (code) {
	case -EINVAL:
		return EXIT_USAGE;
	case -EKEYREJECTED:
	case -EPROTONOSUPPORT:
	case -EPROTO:
	case -ESTALE:
	case -ENOENT:
	case -EACCES:
	case -ERANGE:
	case -EKEYREVOKED:
		return EXIT_REFUSED;
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
	case -EDQUOT:
		return EXIT_LOCAL;
	default:
		return EXIT_UNREACHABLE;
	}
}

/* What the library says of a peer may begin with its address. */
static int complain_of(int exit_code, int code, const char *endpoint)
{
	const char *text = otte_error_text();

	if (!strncmp(text, "peer ", 5) && !strncmp(text + 5, endpoint, strlen(endpoint)))
		return complain(exit_code, "%s", text);
	return complain(exit_code, "%s: %s", endpoint, *text ? text : otte_strerror(code));
}

int complain_peer(int code, const char *endpoint)
{
	/* Here the full budget is the peer's, which has no room for us. */
	return complain_of(code == -EDQUOT ? EXIT_REFUSED : peer_exit_code(code), code, endpoint);
}

int complain_transfer(int code, const char *endpoint)
{
	int exit_code = peer_exit_code(code);

	if (exit_code == EXIT_UNREACHABLE)
		exit_code = EXIT_TRANSFER;
	return complain_of(exit_code, code, endpoint);
}

int endpoint_open(struct otte_engine *engine, const struct otte_config *config,
		  const char *endpoint, struct otte_segment **segment)
{
	int rc;

	if (!*endpoint)
		return complain(EXIT_USAGE, "the endpoint is empty, HOST:PORT is wanted");
	rc = otte_segment_open(engine, endpoint, OTTE_EPOCH_ANY,
			       (int64_t)config->control_timeout_ns, segment);
	return rc ? complain_peer(rc, endpoint) : EXIT_OK;
}

int endpoint_regions(struct otte_segment *segment, const char *endpoint, int64_t timeout_ns,
		     struct otte_region_info **rows, size_t *count)
{
	size_t capacity = FIRST_ROWS, wanted = 0;
	int attempt, rc;

	*count = 0;
	/* The peer may publish more between two questions. */
	for (attempt = 0; attempt < DESCRIBE_ATTEMPTS; attempt++) {
		*rows = calloc(capacity, sizeof(**rows));
		if (!*rows)
			return complain(EXIT_LOCAL, "no memory for %zu regions", capacity);
		rc = otte_segment_describe(segment, timeout_ns, *rows, capacity, &wanted);
		if (!rc && wanted <= capacity) {
			*count = wanted;
			return EXIT_OK;
		}
		free(*rows);
		*rows = NULL;
		if (rc)
			return complain_peer(rc, endpoint);
		capacity = wanted + FIRST_ROWS;
	}
	return complain(EXIT_TRANSFER, "%s: its regions change too fast to be listed", endpoint);
}

/* By its bytes, too, where the peer has put "\xNN" for some of them. */
static bool is_named(const struct otte_region_info *row, const char *name)
{
	char id[32], shown[OTTE_NAME_MAX + 4];

	if (*name != '@') {
		otte_name_escape(shown, sizeof(shown), name);
		return !strcmp(row->name, name) || !strcmp(row->name, shown);
	}
	snprintf(id, sizeof(id), "@%" PRIu64, row->id);
	return !strcmp(id, name);
}

static int find_region(struct remote *remote)
{
	struct otte_region_info *rows;
	size_t count, i, found = 0;
	int rc;

	rc = endpoint_regions(remote->segment, remote->endpoint, remote->timeout_ns, &rows, &count);
	if (rc)
		return rc;
	for (i = 0; i < count; i++) {
		if (!is_named(&rows[i], remote->name))
			continue;
		remote->region = rows[i];
		found++;
	}
	free(rows);
	if (!found)
		return complain(EXIT_REFUSED, "%s publishes no region \"%s\"; see otte ls %s",
				remote->endpoint, remote->name, remote->endpoint);
	if (found > 1)
		return complain(EXIT_REFUSED,
				"%s publishes %zu regions \"%s\"; name one as @ID, see otte ls %s",
				remote->endpoint, found, remote->name, remote->endpoint);
	return EXIT_OK;
}

int remote_open(struct otte_engine *engine, const struct otte_config *config, const char *argument,
		struct remote *remote)
{
	const char *slash = strchr(argument, '/');
	int rc;

	memset(remote, 0, sizeof(*remote));
	if (!slash || slash == argument || !slash[1])
		return complain(EXIT_USAGE, "\"%s\" is not ENDPOINT/NAME", argument);
	if ((size_t)(slash - argument) >= sizeof(remote->endpoint))
		return complain(EXIT_USAGE, "the endpoint in \"%s\" is too long", argument);
	memcpy(remote->endpoint, argument, (size_t)(slash - argument));
	remote->name = slash + 1;
	remote->timeout_ns = (int64_t)config->control_timeout_ns;
	rc = endpoint_open(engine, config, remote->endpoint, &remote->segment);
	return rc ? rc : find_region(remote);
}

void remote_close(struct remote *remote)
{
	if (remote->segment)
		otte_segment_close(remote->segment);
	remote->segment = NULL;
}
