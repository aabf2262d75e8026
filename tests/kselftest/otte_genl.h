/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Just enough of generic netlink to ask the family "otte", without a library: a dump becomes an
 * array of rows, so that a test reads as comparisons.
 */
#ifndef OTTE_GENL_H
#define OTTE_GENL_H

#include <linux/genetlink.h>
#include <linux/netlink.h>

#include "otte_test.h"
#include "../../include/uapi/linux/otte_netlink.h"

/**
 * struct genl - a socket that found the family
 * @fd: it
 * @family: number of the family
 * @group: number of its multicast group
 * @seq: of the last request
 */
struct genl {
	int fd;
	uint16_t family;
	uint32_t group;
	uint32_t seq;
};

/**
 * struct row - one message
 * @has: how often each attribute was there
 * @num: numbers, the last one of each attribute
 * @name: OTTE_A_NAME or OTTE_A_COMM
 * @nic: OTTE_A_NIC
 * @load_id: OTTE_A_LOAD_ID
 * @peer: OTTE_A_PEER
 * @usage: OTTE_A_USAGE
 * @limit: OTTE_A_LIMIT
 * @epoch: OTTE_A_EPOCH
 */
struct row {
	uint8_t has[OTTE_A_COUNT];
	uint64_t num[OTTE_A_COUNT];
	char name[OTTE_NAME_LEN];
	char nic[OTTE_NICS_MAX][OTTE_NAME_LEN];
	uint8_t load_id[16];
	uint8_t peer[OTTE_PEER_LEN];
	uint64_t usage[OTTE_RES_COUNT];
	uint64_t limit[OTTE_RES_COUNT];
	struct otte_slot_epoch epoch[2];
};

#define GENL_ROWS_MAX	16384

/**
 * struct rows - one dump
 * @count: messages
 * @interrupted: NLM_F_DUMP_INTR was set
 * @parts: buffers that it took
 * @row: each message
 */
struct rows {
	unsigned int count;
	bool interrupted;
	unsigned int parts;
	struct row row[GENL_ROWS_MAX];
};

#define GENL_DATA(attr)	((const char *)(attr) + NLA_HDRLEN)
#define GENL_LEN(attr)	((attr)->nla_len - NLA_HDRLEN)

static inline void row_copy(void *to, size_t room, const struct nlattr *attr)
{
	size_t n = GENL_LEN(attr);

	memcpy(to, GENL_DATA(attr), n < room ? n : room);
}

static inline void row_take(struct row *row, const struct nlattr *attr)
{
	unsigned int type = attr->nla_type & NLA_TYPE_MASK, nth;

	if (type >= OTTE_A_COUNT)
		return;
	nth = row->has[type]++;
	switch (type) {
	case OTTE_A_NAME:
	case OTTE_A_COMM:
		row_copy(row->name, sizeof(row->name) - 1, attr);
		break;
	case OTTE_A_NIC:
		if (nth < OTTE_NICS_MAX)
			row_copy(row->nic[nth], sizeof(row->nic[0]) - 1, attr);
		break;
	case OTTE_A_LOAD_ID:
		row_copy(row->load_id, sizeof(row->load_id), attr);
		break;
	case OTTE_A_PEER:
		row_copy(row->peer, sizeof(row->peer), attr);
		break;
	case OTTE_A_EPOCH:
		if (nth < 2)
			row_copy(&row->epoch[nth], sizeof(row->epoch[0]), attr);
		break;
	default:
		row_copy(&row->num[type], sizeof(row->num[0]), attr);
		if (type == OTTE_A_USAGE && nth < OTTE_RES_COUNT)
			row->usage[nth] = row->num[type];
		if (type == OTTE_A_LIMIT && nth < OTTE_RES_COUNT)
			row->limit[nth] = row->num[type];
	}
}

static inline const struct nlattr *attr_next(const struct nlattr *attr)
{
	return (const void *)((const char *)attr + NLA_ALIGN(attr->nla_len));
}

static inline void row_parse(struct row *row, const struct nlmsghdr *head)
{
	const struct nlattr *attr = (const void *)((const char *)NLMSG_DATA(head) + GENL_HDRLEN);
	const char *end = (const char *)head + head->nlmsg_len;

	memset(row, 0, sizeof(*row));
	for (; (const char *)attr + NLA_HDRLEN <= end; attr = attr_next(attr))
		row_take(row, attr);
}

static inline int genl_send(struct genl *genl, uint16_t type, uint8_t cmd, uint16_t flags,
			    const void *attrs, size_t attrs_len)
{
	char buf[256] = {};
	struct nlmsghdr *head = (void *)buf;
	struct genlmsghdr *genl_head = NLMSG_DATA(head);

	head->nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN + attrs_len);
	head->nlmsg_type = type;
	head->nlmsg_flags = NLM_F_REQUEST | flags;
	head->nlmsg_seq = ++genl->seq;
	genl_head->cmd = cmd;
	genl_head->version = 1;
	memcpy((char *)genl_head + GENL_HDRLEN, attrs, attrs_len);
	return send(genl->fd, buf, head->nlmsg_len, 0) < 0 ? -errno : 0;
}

/* One message of @row, or the error in it. */
static inline int genl_answer(const struct nlmsghdr *head, struct row *row)
{
	if (head->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(head))->error;
	row_parse(row, head);
	return 0;
}

/* Finds the ids of family and group; -ENOENT where there is no such family. */
static inline int genl_resolve(struct genl *genl)
{
	struct {
		struct nlattr attr;
		char name[8];
	} ask = { { NLA_HDRLEN + sizeof(OTTE_NL_FAMILY), CTRL_ATTR_FAMILY_NAME },
		  OTTE_NL_FAMILY };
	static char buf[16384];
	struct nlmsghdr *head = (void *)buf;
	const struct nlattr *attr, *in;
	const char *end;
	ssize_t n;
	int err;

	err = genl_send(genl, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0, &ask, sizeof(ask));
	if (err)
		return err;
	n = recv(genl->fd, buf, sizeof(buf), 0);
	if (n < 0)
		return -errno;
	if (head->nlmsg_type == NLMSG_ERROR)
		return ((struct nlmsgerr *)NLMSG_DATA(head))->error;
	end = buf + head->nlmsg_len;
	attr = (void *)((char *)NLMSG_DATA(head) + GENL_HDRLEN);
	for (; (const char *)attr + NLA_HDRLEN <= end; attr = attr_next(attr)) {
		if (attr->nla_type == CTRL_ATTR_FAMILY_ID)
			memcpy(&genl->family, GENL_DATA(attr), sizeof(genl->family));
		if ((attr->nla_type & NLA_TYPE_MASK) != CTRL_ATTR_MCAST_GROUPS)
			continue;
		/* A list of one: the group's name and number. */
		in = (const void *)(GENL_DATA(attr) + NLA_HDRLEN);
		for (; (const char *)in < GENL_DATA(attr) + GENL_LEN(attr); in = attr_next(in)) {
			if (in->nla_type == CTRL_ATTR_MCAST_GRP_ID)
				memcpy(&genl->group, GENL_DATA(in), sizeof(genl->group));
		}
	}
	return genl->family && genl->group ? 0 : -EPROTO;
}

static inline int genl_open(struct genl *genl)
{
	struct sockaddr_nl local = { .nl_family = AF_NETLINK };
	struct timeval patience = { .tv_sec = 10 };
	int err;

	memset(genl, 0, sizeof(*genl));
	genl->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	if (genl->fd < 0 || bind(genl->fd, (struct sockaddr *)&local, sizeof(local)) ||
	    setsockopt(genl->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		return -errno;
	err = genl_resolve(genl);
	if (err)
		close(genl->fd);
	return err;
}

static inline int genl_ask_dump(struct genl *genl, uint8_t cmd)
{
	return genl_send(genl, genl->family, cmd, NLM_F_DUMP, NULL, 0);
}

/* One buffer of a dump: 1 if more comes, 0 at the end, -errno. */
static inline int genl_part(struct genl *genl, struct rows *rows)
{
	static char buf[65536];
	struct nlmsghdr *head;
	unsigned int left;
	ssize_t n;
	int err;

	n = recv(genl->fd, buf, sizeof(buf), 0);
	if (n < 0)
		return -errno;
	left = n;
	rows->parts++;
	for (head = (void *)buf; NLMSG_OK(head, left); head = NLMSG_NEXT(head, left)) {
		rows->interrupted |= !!(head->nlmsg_flags & NLM_F_DUMP_INTR);
		if (head->nlmsg_type == NLMSG_DONE) {
			memcpy(&err, NLMSG_DATA(head), sizeof(err));
			return err;
		}
		if (rows->count == GENL_ROWS_MAX)
			return -E2BIG;
		err = genl_answer(head, &rows->row[rows->count]);
		if (err)
			return err;
		rows->count++;
	}
	return 1;
}

static inline int genl_dump(struct genl *genl, uint8_t cmd, struct rows *rows)
{
	int err;

	rows->count = 0;
	rows->interrupted = false;
	rows->parts = 0;
	err = genl_ask_dump(genl, cmd);
	if (err)
		return err;
	do {
		err = genl_part(genl, rows);
	} while (err > 0);
	return err;
}

/* The next message that is no part of a dump: an answer, or a notice. */
static inline int genl_next(struct genl *genl, struct row *row)
{
	static char buf[16384];
	ssize_t n = recv(genl->fd, buf, sizeof(buf), 0);

	return n < 0 ? -errno : genl_answer((void *)buf, row);
}

static inline int genl_status(struct genl *genl, struct row *row)
{
	int err = genl_send(genl, genl->family, OTTE_NL_STATUS, 0, NULL, 0);

	return err ?: genl_next(genl, row);
}

/* The row with @id, or NULL. */
static inline const struct row *row_find(const struct rows *rows, uint64_t id)
{
	unsigned int i;

	for (i = 0; i < rows->count; i++) {
		if (rows->row[i].num[OTTE_A_ID] == id)
			return &rows->row[i];
	}
	return NULL;
}

#endif /* OTTE_GENL_H */
