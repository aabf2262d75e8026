/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which interface a peer's bytes leave by, as the kernel's routes have it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/tcp/tcp.h"

#define SKIPPED 77

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage to = { 0 };

	if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&to)->sin_addr) == 1)
		to.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&to)->sin6_addr) == 1)
		to.ss_family = AF_INET6;
	return to;
}

static int ask(const char *text, char name[IF_NAMESIZE])
{
	struct sockaddr_storage to = address(text);

	memset(name, 0, IF_NAMESIZE);
	return tcp_route_interface(&to, name);
}

static void addresses_of_this_host_are_reached_through_loopback(void **state)
{
	char name[IF_NAMESIZE];

	(void)state;
	assert_int_equal(ask("127.0.0.1", name), 0);
	assert_string_equal(name, "lo");
	assert_int_equal(ask("127.9.8.7", name), 0);
	assert_string_equal(name, "lo");
	if (!ask("::1", name))
		assert_string_equal(name, "lo");
}

/* As a socket that is bound to both families has them. */
static void an_ipv4_address_in_ipv6_dress_is_an_ipv4_address(void **state)
{
	char name[IF_NAMESIZE];

	(void)state;
	assert_int_equal(ask("::ffff:127.9.8.7", name), 0);
	assert_string_equal(name, "lo");
}

static void what_is_no_address_has_no_interface(void **state)
{
	char name[IF_NAMESIZE];

	(void)state;
	assert_int_equal(ask("nowhere", name), -EAFNOSUPPORT);
	assert_string_equal(otte_error_text(),
			    "the route to a peer: Address family not supported by protocol");
}

static int set_up_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), ret;

	ret = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return ret;
}

/* In a network of its own, which has but loopback, and that only after a while. */
static int alone(void)
{
	char name[IF_NAMESIZE];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return SKIPPED;
	if (ask("192.0.2.1", name) != -ENETUNREACH)
		return 1;
	if (set_up_loopback())
		return 2;
	if (ask("127.0.0.1", name) || strcmp(name, "lo"))
		return 3;
	return ask("192.0.2.1", name) == -ENETUNREACH ? 0 : 4;
}

/* One of each link: which is meant, its scope says. */
static bool leaves_by_its_scope(const char *scope)
{
	struct sockaddr_storage to = address("fe80::7");
	char name[IF_NAMESIZE];
	int tries;

	((struct sockaddr_in6 *)&to)->sin6_scope_id = if_nametoindex(scope);
	/* The kernel gives a link its routes a little after it is up. */
	for (tries = 0; tries < 500; tries++, usleep(10000))
		if (!tcp_route_interface(&to, name))
			return !strcmp(name, scope);
	return false;
}

static int between_two_links(void)
{
	if (unshare(CLONE_NEWNET) ||
	    system("{ ip link add left type veth peer name right && ip link set left up && "
		   "ip link set right up; } 2>/dev/null"))
		return SKIPPED;
	return leaves_by_its_scope("left") && leaves_by_its_scope("right") ? 0 : 1;
}

static void expect_of_a_child(int (*child)(void))
{
	int status = 0;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_link_local_address_leaves_by_the_link_that_it_names(void **state)
{
	(void)state;
	expect_of_a_child(between_two_links);
}

static void where_there_is_no_route_there_is_no_interface(void **state)
{
	(void)state;
	expect_of_a_child(alone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_of_this_host_are_reached_through_loopback),
		cmocka_unit_test(an_ipv4_address_in_ipv6_dress_is_an_ipv4_address),
		cmocka_unit_test(a_link_local_address_leaves_by_the_link_that_it_names),
		cmocka_unit_test(what_is_no_address_has_no_interface),
		cmocka_unit_test(where_there_is_no_route_there_is_no_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
