/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns one generic netlink socket. Lock: netlink->lock, for one request and its answer. What comes
 * from another process is passed over. An answer that fails half-way leaves its rest in the socket,
 * and the kernel busy with it: the next request gets a socket of its own.
 *
 * Nothing in an answer is taken for well-formed: what does not fit is -EPROTO, whatever was
 * taken before.
 */
#include "ledger/netlink.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/util.h"

#define PATIENCE_S 10 /* for an answer of the kernel, which comes at once */
#define BUFFER_BYTES 32768 /* the kernel makes parts of at most this */
#define RESTARTS 4 /* of one dump */
#define ERRNO_MAX 4095 /* the kernel's */

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

/* Of 4 or 8 bytes; 0 of any other length. */
static uint64_t number(const struct nlattr *attr)
{
	uint64_t whole = 0;
	uint32_t half = 0;

	if (payload_bytes(attr) == sizeof(whole))
		copy_payload(&whole, sizeof(whole), attr);
	else if (payload_bytes(attr) == sizeof(half))
		copy_payload(&half, sizeof(half), attr);
	return whole + half;
}

/* Whether a message stands at `head`, where `left` bytes were received. */
static bool is_message(const struct nlmsghdr *head, size_t left)
{
	return left >= sizeof(*head) && head->nlmsg_len >= NLMSG_LENGTH(0) &&
	       head->nlmsg_len <= left;
}

/* What a message of type ERROR or DONE ends with. */
static int code_of(const struct nlmsghdr *head)
{
	int code;

	if (head->nlmsg_len < NLMSG_LENGTH(sizeof(code)))
		return -EPROTO;
	memcpy(&code, NLMSG_DATA(head), sizeof(code));
	return code > 0 || code < -ERRNO_MAX ? -EPROTO : code;
}

/* An acknowledgement, which nobody asked for, is no answer. */
static int error_of(const struct nlmsghdr *head)
{
	int code = code_of(head);

	return code ? code : -EPROTO;
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

/* From the kernel, which is port 0. */
static ssize_t receive(struct otte_netlink *netlink, void *buffer, size_t bytes)
{
	struct iovec part = { buffer, bytes };
	struct sockaddr_nl from = { 0 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_name = &from };
	ssize_t n;

	do {
		message.msg_namelen = sizeof(from);
		n = recvmsg(netlink->fd, &message, 0);
	} while ((n < 0 && errno == EINTR) || (n >= 0 && from.nl_pid));
	if (n < 0)
		return -errno;
	return n == 0 || message.msg_flags & MSG_TRUNC ? -EPROTO : n;
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
	if (!is_message(&answer.head, (size_t)n))
		return -EPROTO;
	if (answer.head.nlmsg_type == NLMSG_ERROR)
		return error_of(&answer.head);
	netlink->family = 0;
	for (attr = attr_first(&answer.head); attr; attr = attr_next(attr, &answer.head))
		if (attr->nla_type == CTRL_ATTR_FAMILY_ID)
			copy_payload(&netlink->family, sizeof(netlink->family), attr);
	return netlink->family ? 0 : -EPROTO;
}

static int connect_family(struct otte_netlink *netlink)
{
	const struct sockaddr_nl local = { .nl_family = AF_NETLINK };
	const struct timeval patience = { .tv_sec = PATIENCE_S };

	netlink->fd = otte_fd_netlink(NETLINK_GENERIC);
	if (netlink->fd < 0)
		return -errno;
	if (bind(netlink->fd, (const struct sockaddr *)&local, sizeof(local)) ||
	    setsockopt(netlink->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		return -errno;
	return resolve(netlink);
}

static void disconnect(struct otte_netlink *netlink)
{
	otte_fd_close(netlink->fd);
	netlink->fd = -1;
}

static void reconnect(struct otte_netlink *netlink)
{
	disconnect(netlink);
	netlink->error = connect_family(netlink);
	if (netlink->error)
		disconnect(netlink);
}

void otte_netlink_open(struct otte_netlink *netlink)
{
	memset(netlink, 0, sizeof(*netlink));
	netlink->fd = -1;
	pthread_mutex_init(&netlink->lock, NULL);
	reconnect(netlink);
}

void otte_netlink_close(struct otte_netlink *netlink)
{
	disconnect(netlink);
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
			row.num[type] = number(attr);
	}
	*generation = row.num[OTTE_A_GENERATION];
	sink->row(sink->arg, &row);
}

struct progress {
	uint64_t first, last; /* generations of the first and the last row */
	bool interrupted;
	bool ended; /* by the kernel's word: nothing more comes */
	unsigned rows;
};

/* One message of the answer. */
static int take_message(const struct otte_netlink *netlink, const struct nlmsghdr *head,
			const struct otte_netlink_sink *sink, struct progress *progress)
{
	if (head->nlmsg_seq != netlink->seq)
		return 0;
	progress->interrupted |= !!(head->nlmsg_flags & NLM_F_DUMP_INTR);
	if (head->nlmsg_type == NLMSG_ERROR || head->nlmsg_type == NLMSG_DONE) {
		progress->ended = true;
		return head->nlmsg_type == NLMSG_DONE ? code_of(head) : error_of(head);
	}
	if (head->nlmsg_type != netlink->family)
		return -EPROTO;
	take_row(head, sink, &progress->last);
	if (!progress->rows++)
		progress->first = progress->last;
	return 0;
}

/* One buffer of the answer. */
static int take_part(struct otte_netlink *netlink, const struct otte_netlink_sink *sink,
		     struct progress *progress)
{
	union {
		struct nlmsghdr head;
		char bytes[BUFFER_BYTES];
	} part;
	ssize_t n = receive(netlink, &part, sizeof(part));
	const struct nlmsghdr *head;
	size_t at, left;
	int rc = 0;

	if (n < 0)
		return (int)n;
	for (at = 0; !rc && !progress->ended && at < (size_t)n;
	     at += NLMSG_ALIGN(head->nlmsg_len)) {
		head = (const struct nlmsghdr *)(part.bytes + at);
		left = (size_t)n - at;
		if (!is_message(head, left))
			return -EPROTO;
		rc = take_message(netlink, head, sink, progress);
	}
	return rc;
}

static int dump_once(struct otte_netlink *netlink, uint8_t command,
		     const struct otte_netlink_sink *sink, bool *steady)
{
	struct progress progress = { 0 };
	int rc;

	rc = request(netlink, netlink->family, command, NLM_F_DUMP, NULL, 0);
	while (!rc && !progress.ended)
		rc = take_part(netlink, sink, &progress);
	*steady = !progress.interrupted && progress.first == progress.last;
	if (!progress.ended)
		reconnect(netlink);
	return rc;
}

int otte_netlink_dump(struct otte_netlink *netlink, uint8_t command,
		      const struct otte_netlink_sink *sink)
{
	bool steady = false;
	int rc, i;

	pthread_mutex_lock(&netlink->lock);
	if (netlink->fd < 0) /* what was in the way, a descriptor or memory, may be there again */
		reconnect(netlink);
	rc = netlink->error;
	for (i = 0; !rc && !steady && i <= RESTARTS; i++) {
		sink->restart(sink->arg);
		rc = dump_once(netlink, command, sink, &steady);
	}
	pthread_mutex_unlock(&netlink->lock);
	if (!rc)
		return 0;
	return otte_fail(rc, "ledger: dump of the netlink family " OTTE_NL_FAMILY ": %s",
			 strerror(-rc));
}
