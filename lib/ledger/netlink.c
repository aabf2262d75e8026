/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns one generic netlink socket. Lock: netlink->lock, for one request and its answer. A reply
 * that belongs to an earlier request, which failed half-way, is passed over by its number.
 */
#include "ledger/netlink.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"

#define PATIENCE_S 10 /* for an answer of the kernel, which comes at once */
#define BUFFER_BYTES 32768 /* the kernel makes parts of at most this */
#define RESTARTS 4 /* of one dump */

static const char *payload(const struct nlattr *attr)
{
	return (const char *)attr + NLA_HDRLEN;
}

static size_t payload_bytes(const struct nlattr *attr)
{
	return attr->nla_len - NLA_HDRLEN;
}

/* The attribute at `at`, or NULL where none fits before `end`. */
static const struct nlattr *attr_at(const char *at, const char *end)
{
	const struct nlattr *attr = (const struct nlattr *)at;

	if (end - at < NLA_HDRLEN || attr->nla_len < NLA_HDRLEN || attr->nla_len > end - at)
		return NULL;
	return attr;
}

static const struct nlattr *attr_first(const struct nlmsghdr *head)
{
	return attr_at((const char *)NLMSG_DATA(head) + GENL_HDRLEN,
		       (const char *)head + head->nlmsg_len);
}

static const struct nlattr *attr_next(const struct nlattr *attr, const struct nlmsghdr *head)
{
	return attr_at((const char *)attr + NLA_ALIGN(attr->nla_len),
		       (const char *)head + head->nlmsg_len);
}

static void copy_payload(void *to, size_t room, const struct nlattr *attr)
{
	memcpy(to, payload(attr), min_u64(payload_bytes(attr), room));
}

static int request(struct otte_netlink *netlink, uint16_t type, uint8_t command, uint16_t flags,
		   const void *attrs, size_t bytes)
{
	struct {
		struct nlmsghdr head;
		struct genlmsghdr genl;
		char attrs[64];
	} message = {
		.head = { .nlmsg_len = (uint32_t)(NLMSG_LENGTH(GENL_HDRLEN) + bytes),
			  .nlmsg_type = type,
			  .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
			  .nlmsg_seq = ++netlink->seq },
		.genl = { .cmd = command, .version = 1 },
	};

	if (bytes)
		memcpy(message.attrs, attrs, bytes);
	return send(netlink->fd, &message, message.head.nlmsg_len, 0) < 0 ? -errno : 0;
}

static ssize_t receive(struct otte_netlink *netlink, void *buffer, size_t bytes)
{
	ssize_t n;

	do
		n = recv(netlink->fd, buffer, bytes, 0);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* ---- The family ------------------------------------------------------------------------------ */

static int resolve(struct otte_netlink *netlink)
{
	const struct {
		struct nlattr attr;
		char name[8];
	} ask = { { NLA_HDRLEN + sizeof(OTTE_NL_FAMILY), CTRL_ATTR_FAMILY_NAME }, OTTE_NL_FAMILY };
	union {
		struct nlmsghdr head;
		char bytes[8192];
	} answer;
	const struct nlattr *attr;
	ssize_t n;
	int rc;

	rc = request(netlink, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0, &ask, sizeof(ask));
	if (rc)
		return rc;
	n = receive(netlink, &answer, sizeof(answer));
	if (n < 0)
		return (int)n;
	if (!NLMSG_OK(&answer.head, (size_t)n))
		return -EPROTO;
	if (answer.head.nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
	for (attr = attr_first(&answer.head); attr; attr = attr_next(attr, &answer.head))
		if (attr->nla_type == CTRL_ATTR_FAMILY_ID)
			copy_payload(&netlink->family, sizeof(netlink->family), attr);
	return netlink->family ? 0 : -EPROTO;
}

static int connect_family(struct otte_netlink *netlink)
{
	const struct sockaddr_nl local = { .nl_family = AF_NETLINK };
	const struct timeval patience = { .tv_sec = PATIENCE_S };

	netlink->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	if (netlink->fd < 0)
		return -errno;
	if (bind(netlink->fd, (const struct sockaddr *)&local, sizeof(local)) ||
	    setsockopt(netlink->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		return -errno;
	return resolve(netlink);
}

void otte_netlink_open(struct otte_netlink *netlink)
{
	memset(netlink, 0, sizeof(*netlink));
	pthread_mutex_init(&netlink->lock, NULL);
	netlink->error = connect_family(netlink);
	if (!netlink->error)
		return;
	if (netlink->fd >= 0)
		close(netlink->fd);
	netlink->fd = -1;
}

void otte_netlink_close(struct otte_netlink *netlink)
{
	if (netlink->fd >= 0)
		close(netlink->fd);
	pthread_mutex_destroy(&netlink->lock);
}

/* ---- Dumps ----------------------------------------------------------------------------------- */

static void take_row(const struct nlmsghdr *head, const struct otte_netlink_sink *sink,
		     uint64_t *generation)
{
	struct otte_netlink_row row = { 0 };
	const struct nlattr *attr;
	unsigned type;

	for (attr = attr_first(head); attr; attr = attr_next(attr, head)) {
		type = attr->nla_type & NLA_TYPE_MASK;
		if (type == OTTE_A_PEER)
			copy_payload(row.peer, sizeof(row.peer), attr);
		else if (type == OTTE_A_COMM)
			copy_payload(row.comm, sizeof(row.comm) - 1, attr);
		else if (type < OTTE_A_COUNT)
			copy_payload(&row.num[type], sizeof(row.num[type]), attr);
	}
	*generation = row.num[OTTE_A_GENERATION];
	sink->row(sink->arg, &row);
}

struct progress {
	uint64_t first, last; /* generations of the first and the last row */
	bool interrupted, done;
	unsigned rows;
};

/* One buffer of the answer. */
static int take_part(struct otte_netlink *netlink, const struct otte_netlink_sink *sink,
		     struct progress *progress)
{
	union {
		struct nlmsghdr head;
		char bytes[BUFFER_BYTES];
	} part;
	ssize_t n = receive(netlink, &part, sizeof(part));
	struct nlmsghdr *head = &part.head;
	int left = (int)n;

	if (n < 0)
		return (int)n;
	for (; NLMSG_OK(head, (unsigned)left); head = NLMSG_NEXT(head, left)) {
		if (head->nlmsg_seq != netlink->seq)
			continue;
		progress->interrupted |= !!(head->nlmsg_flags & NLM_F_DUMP_INTR);
		if (head->nlmsg_type == NLMSG_ERROR)
			return ((const struct nlmsgerr *)NLMSG_DATA(head))->error;
		if (head->nlmsg_type == NLMSG_DONE) {
			progress->done = true;
			return *(const int *)NLMSG_DATA(head);
		}
		take_row(head, sink, &progress->last);
		if (!progress->rows++)
			progress->first = progress->last;
	}
	return 0;
}

static int dump_once(struct otte_netlink *netlink, uint8_t command,
		     const struct otte_netlink_sink *sink, bool *steady)
{
	struct progress progress = { 0 };
	int rc;

	rc = request(netlink, netlink->family, command, NLM_F_DUMP, NULL, 0);
	while (!rc && !progress.done)
		rc = take_part(netlink, sink, &progress);
	*steady = !progress.interrupted && progress.first == progress.last;
	return rc;
}

int otte_netlink_dump(struct otte_netlink *netlink, uint8_t command,
		      const struct otte_netlink_sink *sink)
{
	int rc = netlink->error, i;
	bool steady = false;

	pthread_mutex_lock(&netlink->lock);
	for (i = 0; !rc && !steady && i <= RESTARTS; i++) {
		sink->restart(sink->arg);
		rc = dump_once(netlink, command, sink, &steady);
	}
	pthread_mutex_unlock(&netlink->lock);
	if (rc)
		return otte_fail(rc, "ledger: dump of the netlink family " OTTE_NL_FAMILY ": %s",
				 strerror(-rc));
	return 0;
}
