/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where a peer listens: "host:port", "[v6]:port", or with a default port "host" or "[v6]". A host is
 * a name, a dotted quad, or an IPv6 address in brackets, with a zone if it is link-local.
 */
#ifndef OTTE_CONTROL_ENDPOINT_H
#define OTTE_CONTROL_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "otte/otte.h"

struct otte_endpoint {
	char host[OTTE_ADDRESS_MAX]; /* without brackets */
	uint16_t port;
};

/* `default_port` 0: the text must have a port. -EINVAL says what is wrong with which part. */
int otte_endpoint_parse(const char *text, uint16_t default_port, struct otte_endpoint *endpoint);

/* What parse takes: with brackets where needed, and always with the port. -ENOSPC if `size` is short. */
int otte_endpoint_format(const struct otte_endpoint *endpoint, char *text, size_t size);

#define OTTE_ADDRESSES_MAX 16

struct otte_sockaddr {
	socklen_t length;
	struct sockaddr_storage storage;
};

struct otte_addresses {
	unsigned count;
	struct otte_sockaddr list[OTTE_ADDRESSES_MAX];
};

/*
 * The endpoint's addresses, each once, in the resolver's order of preference and no more than
 * OTTE_ADDRESSES_MAX: 0 with at least one, or a negative errno (-EHOSTUNREACH where the resolver
 * knows no address). `passive`: to listen on; the host may then be "", which means every interface.
 * Asks name servers and has no time limit: never call it with a lock or on a thread that serves peers.
 */
int otte_endpoint_resolve(const struct otte_endpoint *endpoint, bool passive,
			  struct otte_addresses *addresses);

/* "1.2.3.4:port" or "[v6%zone]:port". -EAFNOSUPPORT for other families, -ENOSPC if `size` is short. */
int otte_sockaddr_format(const struct sockaddr *address, socklen_t length, char *text, size_t size);

#endif
