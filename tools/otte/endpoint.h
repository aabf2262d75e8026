/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Peers and what they publish, as a user names them: HOST:PORT, HOST:PORT/NAME, HOST:PORT/@ID. */
#ifndef OTTE_TOOL_ENDPOINT_H
#define OTTE_TOOL_ENDPOINT_H

#include "otte/otte.h"

struct remote {
	struct otte_segment *segment;
	struct otte_region_info region;
	char endpoint[OTTE_DESCRIPTOR_MAX];
	const char *name; /* in the argument */
	int64_t timeout_ns;
};

/* All of these: EXIT_OK, or the exit code after a complaint that names the peer. */

int endpoint_open(struct otte_engine *engine, const struct otte_config *config,
		  const char *endpoint, struct otte_segment **segment);

/* Open the peer of "ENDPOINT/NAME" and find the region of that name, or of that "@ID". */
int remote_open(struct otte_engine *engine, const struct otte_config *config, const char *argument,
		struct remote *remote);

/* Close what is open; may be called on a zeroed struct. */
void remote_close(struct remote *remote);

/* Everything that the peer publishes; the caller frees *rows. */
int endpoint_regions(struct otte_segment *segment, const char *endpoint, int64_t timeout_ns,
		     struct otte_region_info **rows, size_t *count);

/* As complain_peer(), once something was to be moved: what is then unreachable has failed. */
int complain_transfer(int code, const char *endpoint);

/* Exit code for a failed call that concerns a peer, after a complaint. */
int complain_peer(int code, const char *endpoint);

#endif
