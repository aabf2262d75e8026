/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Texts are judged here, before a resolver sees them: getaddrinfo() takes "1.2.3" for an address and
 * asks the network about a mistyped one.
 */
#include "control/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"

#define NAME_BYTES_MAX 253 /* RFC 1035, without the root's dot */
#define LABEL_BYTES_MAX 63
#define PORT_MAX 65535
#define PORT_DIGITS 5

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Of ASCII only, in every locale. '_' is not a host's by the RFC, but container names have it. */
static bool is_name_byte(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
	       c == '_';
}

/* Bytes at the start of `zone` that an interface's name can have. */
static size_t zone_length(const char *zone)
{
	size_t length = 0;

	while (is_name_byte(zone[length]) || zone[length] == '.')
		length++;
	return length;
}

/* An IPv6 address with an optional "%zone". */
static int check_ipv6(const char *host)
{
	size_t length = strcspn(host, "%");
	char literal[INET6_ADDRSTRLEN];
	struct in6_addr address;
	const char *zone;

	if (length >= sizeof(literal))
		return otte_fail(-EINVAL, "\"%s\" is not an IPv6 address", host);
	memcpy(literal, host, length);
	literal[length] = '\0';
	if (inet_pton(AF_INET6, literal, &address) != 1)
		return otte_fail(-EINVAL, "\"%s\" is not an IPv6 address", host);
	if (!host[length])
		return 0;
	zone = host + length + 1;
	length = zone_length(zone);
	if (!length || length >= IF_NAMESIZE || zone[length])
		return otte_fail(-EINVAL, "\"%s\": the zone is not an interface's name", host);
	return 0;
}

static int check_name(const char *host)
{
	size_t length = strlen(host), label = 0, i;
	bool numeric = true; /* of the label that we are in */
	struct in_addr address;

	for (i = 0; i < length; i++) {
		if (host[i] == '.') {
			if (!label)
				return otte_fail(-EINVAL, "\"%s\": empty label in the host", host);
			if (i + 1 < length) {
				label = 0;
				numeric = true;
			}
			continue;
		}
		if (!is_name_byte(host[i]))
			return otte_fail(-EINVAL, "\"%s\": byte %zu cannot be in a host", host, i);
		if (++label > LABEL_BYTES_MAX)
			return otte_fail(-EINVAL, "\"%s\": label above %d bytes", host,
					 LABEL_BYTES_MAX);
		numeric = numeric && is_digit(host[i]);
	}
	if (length - (length && host[length - 1] == '.') > NAME_BYTES_MAX)
		return otte_fail(-EINVAL, "host of %zu bytes, at most %d", length, NAME_BYTES_MAX);
	if (numeric && inet_pton(AF_INET, host, &address) != 1)
		return otte_fail(-EINVAL, "\"%s\" is not an IPv4 address", host);
	return 0;
}

/* Decimal, without sign and leading zero, so that a port has one spelling. */
static int parse_port(const char *text, uint16_t *port)
{
	unsigned value = 0;
	size_t i;

	for (i = 0; i < PORT_DIGITS && is_digit(text[i]); i++)
		value = value * 10 + (unsigned)(text[i] - '0');
	if (!i || text[i] || text[0] == '0' || value > PORT_MAX)
		return otte_fail(-EINVAL, "port \"%s\" is not 1 to %d", text, PORT_MAX);
	*port = (uint16_t)value;
	return 0;
}

/* Splits text into a host without brackets and what follows it: "" or ":port". */
static int split(const char *text, char *host, const char **rest, bool *bracketed)
{
	const char *from = text, *end;

	*bracketed = *text == '[';
	if (*bracketed) {
		from = text + 1;
		end = strchr(from, ']');
		if (!end)
			return otte_fail(-EINVAL, "\"%s\": no ']' after '['", text);
		*rest = end + 1;
	} else {
		end = text + strcspn(text, ":");
		*rest = end;
		if (*end && strchr(end + 1, ':'))
			return otte_fail(-EINVAL, "\"%s\": an IPv6 address needs brackets", text);
	}
	if (end == from)
		return otte_fail(-EINVAL, "\"%s\": no host", text);
	if (**rest && **rest != ':')
		return otte_fail(-EINVAL, "\"%s\": \"%s\" after ']'", text, *rest);
	memcpy(host, from, (size_t)(end - from));
	host[end - from] = '\0';
	return 0;
}

int otte_endpoint_parse(const char *text, uint16_t default_port, struct otte_endpoint *endpoint)
{
	struct otte_endpoint got = { .port = default_port };
	const char *rest = "";
	bool bracketed = false;
	int rc;

	if (strnlen(text, OTTE_ADDRESS_MAX) == OTTE_ADDRESS_MAX)
		return otte_fail(-EINVAL, "endpoint longer than %d bytes", OTTE_ADDRESS_MAX - 1);
	rc = split(text, got.host, &rest, &bracketed);
	if (rc)
		return rc;
	rc = bracketed ? check_ipv6(got.host) : check_name(got.host);
	if (rc)
		return rc;
	if (*rest)
		rc = parse_port(rest + 1, &got.port);
	else if (!default_port)
		rc = otte_fail(-EINVAL, "\"%s\": no port", text);
	if (!rc)
		*endpoint = got;
	return rc;
}

int otte_endpoint_format(const struct otte_endpoint *endpoint, char *text, size_t size)
{
	const char *format = strchr(endpoint->host, ':') ? "[%s]:%u" : "%s:%u";
	int length = snprintf(NULL, 0, format, endpoint->host, endpoint->port);

	if ((size_t)length >= size)
		return otte_fail(-ENOSPC, "address: %d bytes do not fit in %zu", length + 1, size);
	snprintf(text, size, format, endpoint->host, endpoint->port);
	return 0;
}

static int resolver_error(const char *host, int code)
{
	if (code == EAI_SYSTEM)
		return otte_fail(-errno, "resolving \"%s\": %s", host, strerror(errno));
	return otte_fail(code == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH, "resolving \"%s\": %s", host,
			 gai_strerror(code));
}

static void add_address(struct otte_addresses *addresses, const struct addrinfo *info)
{
	struct otte_sockaddr *next;
	unsigned i;

	if (addresses->count == OTTE_ADDRESSES_MAX || info->ai_addrlen > sizeof(next->storage))
		return;
	for (i = 0; i < addresses->count; i++)
		if (addresses->list[i].length == info->ai_addrlen &&
		    !memcmp(&addresses->list[i].storage, info->ai_addr, info->ai_addrlen))
			return;
	next = &addresses->list[addresses->count++];
	next->length = info->ai_addrlen;
	memcpy(&next->storage, info->ai_addr, info->ai_addrlen);
}

int otte_endpoint_resolve(const struct otte_endpoint *endpoint, bool passive,
			  struct otte_addresses *addresses)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0),
	};
	struct otte_addresses found = { 0 };
	struct addrinfo *infos, *info;
	const char *host = endpoint->host;
	char service[PORT_DIGITS + 1];
	int code;

	if (!*host && !passive)
		return otte_fail(-EINVAL, "no host to connect to");
	snprintf(service, sizeof(service), "%u", endpoint->port);
	code = getaddrinfo(*host ? host : NULL, service, &hints, &infos);
	if (code)
		return resolver_error(host, code);
	for (info = infos; info; info = info->ai_next)
		add_address(&found, info);
	freeaddrinfo(infos);
	if (!found.count)
		return resolver_error(host, EAI_NONAME);
	*addresses = found;
	return 0;
}

int otte_sockaddr_format(const struct sockaddr *address, socklen_t length, char *text, size_t size)
{
	struct otte_endpoint endpoint;
	char service[PORT_DIGITS + 1];
	const void *port;
	int code;

	if (length >= sizeof(struct sockaddr_in) && address->sa_family == AF_INET)
		port = &((const struct sockaddr_in *)address)->sin_port;
	else if (length >= sizeof(struct sockaddr_in6) && address->sa_family == AF_INET6)
		port = &((const struct sockaddr_in6 *)address)->sin6_port;
	else
		return otte_fail(-EAFNOSUPPORT, "address of %u bytes is neither IPv4 nor IPv6",
				 (unsigned)length);
	memcpy(&endpoint.port, port, sizeof(endpoint.port));
	endpoint.port = ntohs(endpoint.port);
	code = getnameinfo(address, length, endpoint.host, sizeof(endpoint.host), service,
			   sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV);
	if (code)
		return otte_fail(code == EAI_MEMORY ? -ENOMEM : -EINVAL, "address: %s",
				 gai_strerror(code));
	return otte_endpoint_format(&endpoint, text, size);
}
