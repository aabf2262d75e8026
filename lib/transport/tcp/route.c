/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which interface packets to an address leave by: the kernel's own answer, for its routes are more
 * than the addresses of interfaces. No state, no lock.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/tcp/tcp.h"

struct question {
	struct nlmsghdr header;
	struct rtmsg route;
	uint8_t attributes[RTA_SPACE(sizeof(struct in6_addr)) + RTA_SPACE(sizeof(uint32_t))]
		__attribute__((aligned(RTA_ALIGNTO)));
};

union answer {
	struct nlmsghdr header;
	uint8_t bytes[2048];
};

static void put_attribute(struct question *question, unsigned short type, const void *data,
			  size_t length)
{
	size_t used = question->header.nlmsg_len - NLMSG_LENGTH(sizeof(question->route));
	struct rtattr *attribute = (struct rtattr *)(question->attributes + used);

	attribute->rta_type = type;
	attribute->rta_len = (unsigned short)RTA_LENGTH(length);
	memcpy(RTA_DATA(attribute), data, length);
	question->header.nlmsg_len += RTA_SPACE(length);
}

static void put_address(struct question *question, uint8_t family, const void *address,
			uint8_t length)
{
	question->route.rtm_family = family;
	question->route.rtm_dst_len = (unsigned char)(length * 8);
	put_attribute(question, RTA_DST, address, length);
}

static void put_address6(struct question *question, const struct sockaddr_in6 *to)
{
	const uint8_t *bytes = to->sin6_addr.s6_addr;

	if (IN6_IS_ADDR_V4MAPPED(&to->sin6_addr)) {
		put_address(question, AF_INET, bytes + 12, sizeof(struct in_addr));
		return;
	}
	put_address(question, AF_INET6, bytes, sizeof(to->sin6_addr));
	/* A link-local address is one of each interface. */
	if (to->sin6_scope_id)
		put_attribute(question, RTA_OIF, &to->sin6_scope_id, sizeof(to->sin6_scope_id));
}

static int put_question(struct question *question, const struct sockaddr_storage *to)
{
	question->header.nlmsg_type = RTM_GETROUTE;
	question->header.nlmsg_flags = NLM_F_REQUEST;
	question->header.nlmsg_len = NLMSG_LENGTH(sizeof(question->route));
	if (to->ss_family == AF_INET6)
		put_address6(question, (const struct sockaddr_in6 *)to);
	else if (to->ss_family == AF_INET)
		put_address(question, AF_INET, &((const struct sockaddr_in *)to)->sin_addr,
			    sizeof(struct in_addr));
	else
		return -EAFNOSUPPORT;
	return 0;
}

static int find_interface(const union answer *answer, size_t got)
{
	const struct nlmsghdr *header = &answer->header;
	const struct nlmsgerr *refusal = NLMSG_DATA(header);
	const struct rtattr *attribute;
	size_t left;

	if (!NLMSG_OK(header, got))
		return -EPROTO;
	if (header->nlmsg_type == NLMSG_ERROR)
		return header->nlmsg_len >= NLMSG_LENGTH(sizeof(*refusal)) && refusal->error < 0 ?
			       refusal->error :
			       -EPROTO;
	if (header->nlmsg_type != RTM_NEWROUTE ||
	    header->nlmsg_len < NLMSG_LENGTH(sizeof(struct rtmsg)))
		return -EPROTO;
	attribute = RTM_RTA(NLMSG_DATA(header));
	for (left = RTM_PAYLOAD(header); RTA_OK(attribute, left);
	     attribute = RTA_NEXT(attribute, left))
		if (attribute->rta_type == RTA_OIF && RTA_PAYLOAD(attribute) == sizeof(int))
			return *(const int *)RTA_DATA(attribute);
	return -ENOENT;
}

/* Number of the interface. The kernel answers before send() returns. */
static int ask(const struct question *question)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), ret;
	union answer answer;
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = send(fd, question, question->header.nlmsg_len, 0);
	if (got >= 0)
		got = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
	ret = got < 0 ? -errno : find_interface(&answer, (size_t)got);
	close(fd);
	return ret;
}

int tcp_route_interface(const struct sockaddr_storage *to, char name[IF_NAMESIZE])
{
	struct question question = { 0 };
	int ret = put_question(&question, to);

	if (!ret)
		ret = ask(&question);
	if (ret > 0)
		ret = if_indextoname((unsigned)ret, name) ? 0 : -errno;
	return ret ? otte_fail(ret, "the route to a peer: %s", strerror(-ret)) : 0;
}
