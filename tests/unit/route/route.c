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

static void where_there_is_no_route_there_is_no_interface(void **state)
{
	int status = 0;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid)
		_exit(alone());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_of_this_host_are_reached_through_loopback),
		cmocka_unit_test(what_is_no_address_has_no_interface),
		cmocka_unit_test(where_there_is_no_route_there_is_no_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
