/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The resolver is replaced for hosts that end in ".test", so that its failures and long answers can
 * be had without a name server; other hosts go to the real one.
 */
#include "suites.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/util.h"
#include "control/endpoint.h"

enum { ANSWERS = 60 };

static struct addrinfo answers[ANSWERS];
static struct sockaddr_in answer_addresses[ANSWERS];
static unsigned freed;

/* 60 answers, each address three times in a row. */
static struct addrinfo *many_answers(void)
{
	int i;

	for (i = 0; i < ANSWERS; i++) {
		answer_addresses[i] = (struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_port = htons(7),
			.sin_addr.s_addr = htonl(0x0a000000u + (unsigned)i / 3),
		};
		answers[i] = (struct addrinfo){
			.ai_family = AF_INET,
			.ai_addrlen = sizeof(answer_addresses[i]),
			.ai_addr = (struct sockaddr *)&answer_addresses[i],
			.ai_next = i + 1 < ANSWERS ? &answers[i + 1] : NULL,
		};
	}
	return answers;
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		struct addrinfo **result)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	if (host && !strcmp(host, "many.test")) {
		*result = many_answers();
		return 0;
	}
	if (host && !strcmp(host, "again.test"))
		return EAI_AGAIN;
	if (host && !strcmp(host, "memory.test"))
		return EAI_MEMORY;
	if (host && !strcmp(host, "system.test")) {
		errno = EMFILE;
		return EAI_SYSTEM;
	}
	real = (__typeof__(real))dlsym(RTLD_NEXT, "getaddrinfo");
	return real(host, service, hints, result);
}

void freeaddrinfo(struct addrinfo *result)
{
	void (*real)(struct addrinfo *);

	freed++;
	if (result == answers)
		return;
	real = (__typeof__(real))dlsym(RTLD_NEXT, "freeaddrinfo");
	real(result);
}

static void assert_parses(const char *text, uint16_t default_port, const char *host, unsigned port)
{
	struct otte_endpoint endpoint;

	memset(&endpoint, 0xa5, sizeof(endpoint));
	if (otte_endpoint_parse(text, default_port, &endpoint))
		fail_msg("%s: %s", text, otte_error_text());
	assert_string_equal(endpoint.host, host);
	assert_int_equal(endpoint.port, port);
}

static void assert_refused(const char *text, uint16_t default_port, const char *why)
{
	struct otte_endpoint endpoint, poison;

	memset(&endpoint, 0xa5, sizeof(endpoint));
	memcpy(&poison, &endpoint, sizeof(poison));
	if (otte_endpoint_parse(text, default_port, &endpoint) != -EINVAL)
		fail_msg("%s: accepted", text);
	assert_string_equal(otte_error_text(), why);
	assert_memory_equal(&endpoint, &poison, sizeof(poison));
}

static void an_endpoint_is_a_host_and_a_port(void **state)
{
	(void)state;
	assert_parses("node-3.rack_7:7000", 0, "node-3.rack_7", 7000);
	assert_parses("10.0.0.1:1", 0, "10.0.0.1", 1);
	assert_parses("[::1]:65535", 0, "::1", 65535);
	assert_parses("[fe80::1%eth0.100]:7000", 0, "fe80::1%eth0.100", 7000);
	assert_parses("[::ffff:10.0.0.1]:7000", 0, "::ffff:10.0.0.1", 7000);
	assert_parses("example.:80", 0, "example.", 80);
	assert_parses("1.2.3.4.example:80", 0, "1.2.3.4.example", 80);
}

static void a_default_port_stands_in_for_a_missing_one(void **state)
{
	(void)state;
	assert_parses("node", 7, "node", 7);
	assert_parses("[::1]", 7, "::1", 7);
	assert_parses("node:8", 7, "node", 8);
	assert_refused("node", 0, "\"node\": no port");
	assert_refused("[::1]", 0, "\"[::1]\": no port");
}

static void a_port_is_1_to_65535_in_one_spelling(void **state)
{
	(void)state;
	assert_refused("h:", 7, "port \"\" is not 1 to 65535");
	assert_refused("h:0", 7, "port \"0\" is not 1 to 65535");
	assert_refused("h:080", 7, "port \"080\" is not 1 to 65535");
	assert_refused("h:65536", 7, "port \"65536\" is not 1 to 65535");
	assert_refused("h:4294967297", 7, "port \"4294967297\" is not 1 to 65535");
	assert_refused("h:+1", 7, "port \"+1\" is not 1 to 65535");
	assert_refused("h: 1", 7, "port \" 1\" is not 1 to 65535");
	assert_refused("h:1x", 7, "port \"1x\" is not 1 to 65535");
}

static void what_is_no_host_is_refused_before_a_resolver_sees_it(void **state)
{
	(void)state;
	assert_refused("", 7, "\"\": no host");
	assert_refused(":80", 7, "\":80\": no host");
	assert_refused("[]:80", 7, "\"[]:80\": no host");
	assert_refused("a b:80", 7, "\"a b\": byte 1 cannot be in a host");
	assert_refused("caf\xc3\xa9:80", 7, "\"caf\xc3\xa9\": byte 3 cannot be in a host");
	assert_refused("a..b:80", 7, "\"a..b\": empty label in the host");
	assert_refused(".:80", 7, "\".\": empty label in the host");
	assert_refused("256.0.0.1:80", 7, "\"256.0.0.1\" is not an IPv4 address");
	assert_refused("1.2.3:80", 7, "\"1.2.3\" is not an IPv4 address");
	assert_refused("2130706433:80", 7, "\"2130706433\" is not an IPv4 address");
}

static void an_ipv6_address_stands_in_brackets(void **state)
{
	(void)state;
	assert_refused("::1", 7, "\"::1\": an IPv6 address needs brackets");
	assert_refused("fe80::1:80", 7, "\"fe80::1:80\": an IPv6 address needs brackets");
	assert_refused("[::1", 7, "\"[::1\": no ']' after '['");
	assert_refused("[::1]80", 7, "\"[::1]80\": \"80\" after ']'");
	assert_refused("[node]:80", 7, "\"node\" is not an IPv6 address");
	assert_refused("[10.0.0.1]:80", 7, "\"10.0.0.1\" is not an IPv6 address");
	assert_refused("[::1%]:80", 7, "\"::1%\": the zone is not an interface's name");
	assert_refused("[::1%a b]:80", 7, "\"::1%a b\": the zone is not an interface's name");
	assert_refused("[::1%0123456789abcdef]:80", 7,
		       "\"::1%0123456789abcdef\": the zone is not an interface's name");
	assert_refused("[00000000000000000000000000000000000000000000000::1]:80", 7,
		       "\"00000000000000000000000000000000000000000000000::1\" is not an IPv6 address");
}

static void a_host_has_at_most_253_bytes_in_labels_of_63(void **state)
{
	char text[OTTE_ADDRESS_MAX + 1] = "", host[OTTE_ADDRESS_MAX];
	struct otte_endpoint endpoint;
	int i;

	(void)state;
	memset(text, 'a', 63);
	assert_int_equal(otte_endpoint_parse(text, 7, &endpoint), 0);
	text[63] = 'a';
	assert_int_equal(otte_endpoint_parse(text, 7, &endpoint), -EINVAL);

	memset(text, 'a', 254);
	for (i = 49; i < 254; i += 50)
		text[i] = '.';
	text[253] = '\0';
	memcpy(host, text, 254);
	assert_parses(text, 7, host, 7);
	memcpy(text + 253, "a", 2);
	assert_refused(text, 7, "host of 254 bytes, at most 253");
	memcpy(text + 253, "aaa", 4);
	assert_refused(text, 7, "endpoint longer than 255 bytes");
}

static void a_formatted_endpoint_parses_to_itself(void **state)
{
	static const char *const texts[] = {
		"node:1", "10.0.0.1:65535", "[::1]:80", "[fe80::1%lo]:7000",
	};
	struct otte_endpoint endpoint;
	char text[OTTE_ADDRESS_MAX], poison[OTTE_ADDRESS_MAX];
	size_t i, size;

	(void)state;
	memset(poison, 0xa5, sizeof(poison));
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(otte_endpoint_parse(texts[i], 0, &endpoint), 0);
		for (size = 0; size <= strlen(texts[i]); size++) {
			memcpy(text, poison, sizeof(text));
			assert_int_equal(otte_endpoint_format(&endpoint, text, size), -ENOSPC);
			assert_memory_equal(text, poison, sizeof(text));
		}
		assert_int_equal(otte_endpoint_format(&endpoint, text, size), 0);
		assert_string_equal(text, texts[i]);
	}
}

static void assert_resolves(const char *text, const char *expected)
{
	struct otte_addresses addresses;
	struct otte_endpoint endpoint;
	char back[OTTE_ADDRESS_MAX];

	memset(&addresses, 0xa5, sizeof(addresses));
	assert_int_equal(otte_endpoint_parse(text, 0, &endpoint), 0);
	if (otte_endpoint_resolve(&endpoint, false, &addresses))
		fail_msg("%s: %s", text, otte_error_text());
	assert_int_equal(addresses.count, 1);
	assert_int_equal(otte_sockaddr_format((struct sockaddr *)&addresses.list[0].storage,
					      addresses.list[0].length, back, sizeof(back)),
			 0);
	assert_string_equal(back, expected);
}

static void an_address_resolves_to_itself(void **state)
{
	(void)state;
	assert_resolves("127.0.0.1:7000", "127.0.0.1:7000");
	assert_resolves("[::1]:65535", "[::1]:65535");
	assert_resolves("[fe80::1%lo]:256", "[fe80::1%lo]:256");
	assert_resolves("[2001:DB8:0:0::1]:1", "[2001:db8::1]:1");
}

static void a_long_answer_is_cut_and_repeats_are_dropped(void **state)
{
	struct otte_endpoint endpoint = { .host = "many.test", .port = 7 };
	struct otte_addresses addresses;
	char text[OTTE_ADDRESS_MAX], expected[OTTE_ADDRESS_MAX];
	unsigned before = freed, i;

	(void)state;
	assert_int_equal(otte_endpoint_resolve(&endpoint, false, &addresses), 0);
	assert_int_equal(addresses.count, OTTE_ADDRESSES_MAX);
	assert_int_equal(freed, before + 1);
	for (i = 0; i < addresses.count; i++) {
		otte_sockaddr_format((struct sockaddr *)&addresses.list[i].storage,
				     addresses.list[i].length, text, sizeof(text));
		snprintf(expected, sizeof(expected), "10.0.0.%u:7", i);
		assert_string_equal(text, expected);
	}
}

static void assert_unresolved(const char *host, int code, const char *why)
{
	struct otte_endpoint endpoint = { .port = 7 };
	struct otte_addresses addresses, poison;

	snprintf(endpoint.host, sizeof(endpoint.host), "%s", host);
	memset(&addresses, 0xa5, sizeof(addresses));
	memcpy(&poison, &addresses, sizeof(poison));
	assert_int_equal(otte_endpoint_resolve(&endpoint, false, &addresses), code);
	assert_string_equal(otte_error_text(), why);
	assert_memory_equal(&addresses, &poison, sizeof(poison));
}

static void a_failed_resolution_names_the_host_and_the_reason(void **state)
{
	(void)state;
	assert_unresolved("again.test", -EHOSTUNREACH,
			  "resolving \"again.test\": Temporary failure in name resolution");
	assert_unresolved("memory.test", -ENOMEM,
			  "resolving \"memory.test\": Memory allocation failure");
	assert_unresolved("system.test", -EMFILE, "resolving \"system.test\": Too many open files");
	assert_unresolved("::1%nosuchif0", -EHOSTUNREACH,
			  "resolving \"::1%nosuchif0\": Name or service not known");
	assert_unresolved("", -EINVAL, "no host to connect to");
}

static void a_listener_without_a_host_listens_on_every_interface(void **state)
{
	struct otte_endpoint endpoint = { .port = 0 };
	struct otte_addresses addresses;
	char text[OTTE_ADDRESS_MAX];
	unsigned i;

	(void)state;
	assert_int_equal(otte_endpoint_resolve(&endpoint, true, &addresses), 0);
	assert_true(addresses.count > 0);
	for (i = 0; i < addresses.count; i++) {
		otte_sockaddr_format((struct sockaddr *)&addresses.list[i].storage,
				     addresses.list[i].length, text, sizeof(text));
		assert_true(!strcmp(text, "0.0.0.0:0") || !strcmp(text, "[::]:0"));
	}
}

static void only_internet_addresses_have_a_text(void **state)
{
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct sockaddr_in6 short_one = { .sin6_family = AF_INET6 };
	char text[OTTE_ADDRESS_MAX];

	(void)state;
	assert_int_equal(otte_sockaddr_format((struct sockaddr *)&local, sizeof(local), text,
					      sizeof(text)),
			 -EAFNOSUPPORT);
	assert_int_equal(otte_sockaddr_format((struct sockaddr *)&short_one,
					      sizeof(struct sockaddr_in), text, sizeof(text)),
			 -EAFNOSUPPORT);
	assert_string_equal(otte_error_text(), "address of 16 bytes is neither IPv4 nor IPv6");
	assert_int_equal(otte_sockaddr_format((struct sockaddr *)&short_one, sizeof(short_one),
					      text, 6),
			 -ENOSPC);
	assert_int_equal(otte_sockaddr_format((struct sockaddr *)&short_one, sizeof(short_one),
					      text, 7),
			 0);
	assert_string_equal(text, "[::]:0");
}

int run_endpoint_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_endpoint_is_a_host_and_a_port),
		cmocka_unit_test(a_default_port_stands_in_for_a_missing_one),
		cmocka_unit_test(a_port_is_1_to_65535_in_one_spelling),
		cmocka_unit_test(what_is_no_host_is_refused_before_a_resolver_sees_it),
		cmocka_unit_test(an_ipv6_address_stands_in_brackets),
		cmocka_unit_test(a_host_has_at_most_253_bytes_in_labels_of_63),
		cmocka_unit_test(a_formatted_endpoint_parses_to_itself),
		cmocka_unit_test(an_address_resolves_to_itself),
		cmocka_unit_test(a_long_answer_is_cut_and_repeats_are_dropped),
		cmocka_unit_test(a_failed_resolution_names_the_host_and_the_reason),
		cmocka_unit_test(a_listener_without_a_host_listens_on_every_interface),
		cmocka_unit_test(only_internet_addresses_have_a_text),
	};

	return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
