/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "netns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "e2e/process.h"

#define LINK "otte0"

static int space[2] = { -1, -1 };
static enum host now;

/* True: a namespace of its own for each host, its loopback up. */
static bool make_spaces(void)
{
	int i;

	for (i = HERE; i <= THERE; i++) {
		if (unshare(CLONE_NEWNET) < 0)
			return false;
		space[i] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		MUST(space[i] >= 0, "%m");
		now = (enum host)i;
		MUST(system("ip link set lo up") == 0, "ip does not work");
	}
	return true;
}

bool hosts_make(void)
{
	if (!make_spaces())
		return false;
	hosts_enter(HERE);
	if (system("ip link add " LINK " type veth peer name otte1 2>/dev/null") != 0)
		return false;
	MUST(system("ip link del " LINK) == 0, "veth");
	link_make();
	return true;
}

void hosts_enter(enum host host)
{
	MUST(setns(space[host], CLONE_NEWNET) == 0, "%m");
	now = host;
}

int host_runs(enum host host, const char *command)
{
	enum host before = now;
	int status;

	hosts_enter(host);
	status = system(command);
	hosts_enter(before);
	return status;
}

static void must_run(enum host host, const char *command)
{
	MUST(host_runs(host, command) == 0, "%s", command);
}

void link_make(void)
{
	char command[160];

	/* The other's namespace by a descriptor that ip inherits. */
	snprintf(command, sizeof(command), "ip link add " LINK " type veth peer name " LINK
		 " netns /proc/%d/fd/%d", getpid(), space[THERE]);
	must_run(HERE, command);
	must_run(HERE, "ip addr add 10.77.7.1/24 dev " LINK " && "
		       "ip addr add fd77:7::1/64 dev " LINK " nodad && ip link set " LINK " up");
	must_run(THERE, "ip addr add 10.77.7.2/24 dev " LINK " && "
			"ip addr add fd77:7::2/64 dev " LINK " nodad && ip link set " LINK " up && "
			"ip addr replace 10.77.9.2/32 dev lo");
	must_run(HERE, "ip route add 10.77.9.2/32 via 10.77.7.2");
}

void link_delete(void)
{
	must_run(HERE, "ip link del " LINK);
}

/* At once: a transfer would be over before a program had started. */
static void set_up(bool up)
{
	struct ifreq request = { .ifr_name = LINK };
	enum host before = now;
	int fd;

	hosts_enter(THERE);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	MUST(fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0, "%m");
	request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
	MUST(ioctl(fd, SIOCSIFFLAGS, &request) == 0, "%m");
	close(fd);
	hosts_enter(before);
}

void link_cut(void)
{
	set_up(false);
}

void link_join(void)
{
	set_up(true);
	/* Going down has taken it. */
	must_run(THERE, "ip addr replace fd77:7::2/64 dev " LINK " nodad");
}

unsigned busy_connections(enum host host, bool in, unsigned long long bytes)
{
	const char *what = in ? "bytes_received:" : "bytes_acked:", *at;
	enum host before = now;
	unsigned count = 0;
	char line[4096];
	FILE *list;

	hosts_enter(host);
	list = popen("ss -tinHO state established", "r");
	hosts_enter(before);
	MUST(list, "%m");
	while (fgets(line, sizeof(line), list)) {
		at = strstr(line, what);
		count += at && strtoull(at + strlen(what), NULL, 10) >= bytes;
	}
	MUST(pclose(list) == 0, "ss");
	return count;
}
