/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "link.h"

#include <errno.h>
#include <netlink/errno.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "ottectl.h"
#include "sysfs.h"

#define ANSWER_SECONDS 10
#define BUFFER_BYTES (64 * 1024) /* the kernel makes parts of a dump no larger than 32 KiB */
#define EVENTS_BUFFER_BYTES (1024 * 1024)
#define DUMP_TRIES 8

/* What came in while one answer was read. */
struct answer {
	int (*take)(void *arg, const struct message *message);
	void *arg;
	unsigned messages;
	uint64_t first_generation, last_generation;
	int taken; /* 0, or what `take` said */
	int error; /* 0, or the kernel's negative errno */
	bool faulty;
	struct message_fault fault;
};

/* ---- Messages as they come ------------------------------------------------------------------- */

static int on_message(struct nl_msg *msg, void *arg)
{
	struct nlmsghdr *head = nlmsg_hdr(msg);
	struct answer *answer = arg;
	struct message message;
	uint64_t generation;

	if (answer->faulty || answer->taken)
		return NL_SKIP;
	if (message_parse(head, head->nlmsg_len, &message, &answer->fault)) {
		answer->faulty = true;
		return NL_SKIP;
	}
	generation = message.number[OTTE_A_GENERATION];
	if (!answer->messages++)
		answer->first_generation = generation;
	answer->last_generation = generation;
	answer->taken = answer->take(answer->arg, &message);
	return NL_OK;
}

/* The end of a dump carries the error that it ended with. */
static int on_finish(struct nl_msg *msg, void *arg)
{
	struct nlmsghdr *head = nlmsg_hdr(msg);
	struct answer *answer = arg;
	int error = 0;

	if (nlmsg_datalen(head) >= (int)sizeof(error))
		memcpy(&error, nlmsg_data(head), sizeof(error));
	if (error < 0)
		answer->error = error;
	return NL_STOP;
}

static int on_error(struct sockaddr_nl *from, struct nlmsgerr *error, void *arg)
{
	struct answer *answer = arg;

	(void)from;
	answer->error = error->error;
	return NL_STOP;
}

/* Reads one whole answer. 0, or libnl's error. */
static int receive(struct link *link, struct answer *answer)
{
	struct nl_cb *callbacks = nl_cb_alloc(NL_CB_DEFAULT);
	int rc;

	if (!callbacks)
		return -NLE_NOMEM;
	nl_cb_set(callbacks, NL_CB_VALID, NL_CB_CUSTOM, on_message, answer);
	nl_cb_set(callbacks, NL_CB_FINISH, NL_CB_CUSTOM, on_finish, answer);
	nl_cb_err(callbacks, NL_CB_CUSTOM, on_error, answer);
	rc = nl_recvmsgs(link->sock, callbacks);
	nl_cb_put(callbacks);
	return rc < 0 ? rc : 0;
}

/* What is wrong with an answer, or EXIT_OK. */
static int judge(int rc, const struct answer *answer)
{
	if (answer->faulty && answer->fault.attribute)
		return complain(EXIT_GARBLED,
				"the module's answer cannot be read: attribute %d: %s",
				answer->fault.attribute, answer->fault.text);
	if (answer->faulty)
		return complain(EXIT_GARBLED, "the module's answer cannot be read: %s",
				answer->fault.text);
	if (answer->taken)
		return complain(EXIT_LOCAL, "%s", strerror(-answer->taken));
	if (answer->error == -EPERM || answer->error == -EACCES)
		return complain(EXIT_DENIED, "the module says: %s", strerror(-answer->error));
	/*
	 * Said by generic netlink itself: the family went, and a new load has another number; or it
	 * is about to go, and its module takes no more users.
	 */
	if (answer->error == -ENOENT || answer->error == -EPROTONOSUPPORT)
		return complain(EXIT_ABSENT, "the module was unloaded");
	if (answer->error)
		return complain(EXIT_REFUSED, "the module says: %s", strerror(-answer->error));
	if (rc == -NLE_AGAIN)
		return complain(EXIT_LOCAL, "no answer within %d s", ANSWER_SECONDS);
	if (rc && rc != -NLE_DUMP_INTR)
		return complain(EXIT_LOCAL, "netlink: %s", nl_geterror(rc));
	return EXIT_OK;
}

static int ask(struct link *link, uint8_t command, int flags)
{
	int rc = genl_send_simple(link->sock, link->family, command, OTTE_NL_VERSION, flags);

	return rc < 0 ? complain(EXIT_LOCAL, "netlink: %s", nl_geterror(rc)) : EXIT_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_socket(struct link *link)
{
	struct timeval patience = { .tv_sec = ANSWER_SECONDS };
	int rc;

	link->sock = nl_socket_alloc();
	if (!link->sock)
		return complain(EXIT_LOCAL, "%s", strerror(ENOMEM));
	rc = genl_connect(link->sock);
	if (rc < 0)
		return complain(EXIT_LOCAL, "netlink: %s", nl_geterror(rc));
	nl_socket_disable_msg_peek(link->sock);
	nl_socket_set_msg_buf_size(link->sock, BUFFER_BYTES);
	if (setsockopt(nl_socket_get_fd(link->sock), SOL_SOCKET, SO_RCVTIMEO, &patience,
		       sizeof(patience)))
		return complain(EXIT_LOCAL, "netlink: %s", strerror(errno));
	return EXIT_OK;
}

static int find_family(struct link *link)
{
	link->family = genl_ctrl_resolve(link->sock, OTTE_NL_FAMILY);
	if (link->family >= 0)
		return EXIT_OK;
	if (link->family != -NLE_OBJ_NOTFOUND)
		return complain(EXIT_LOCAL, "netlink: %s", nl_geterror(link->family));
	if (sysfs_present())
		return complain(EXIT_ABSENT,
				"the module is loaded, but its family \"" OTTE_NL_FAMILY
				"\" of generic netlink lives in the host's network namespace "
				"alone: run this there");
	return complain_absent();
}

/* The first question is also the test of whether the answers can be understood. */
static int check_revision(struct link *link)
{
	struct message status;
	int rc = link_status(link, &status);

	if (rc)
		return rc;
	if (status.number[OTTE_A_REVISION] == OTTE_ABI_REVISION)
		return EXIT_OK;
	return complain(EXIT_ABI, "the module has revision %llu, this program speaks revision %d",
			(unsigned long long)status.number[OTTE_A_REVISION], OTTE_ABI_REVISION);
}

int link_open(struct link *link)
{
	int rc = open_socket(link);

	if (!rc)
		rc = find_family(link);
	if (!rc)
		rc = check_revision(link);
	if (rc)
		link_close(link);
	return rc;
}

void link_close(struct link *link)
{
	nl_socket_free(link->sock);
	link->sock = NULL;
}

/* ---- Questions ------------------------------------------------------------------------------- */

static int keep(void *arg, const struct message *message)
{
	memcpy(arg, message, sizeof(*message));
	return 0;
}

int link_status(struct link *link, struct message *status)
{
	struct answer answer = { .take = keep, .arg = status };
	int rc = ask(link, OTTE_NL_STATUS, 0);

	if (rc)
		return rc;
	rc = judge(receive(link, &answer), &answer);
	if (!rc && (!answer.messages || status->command != OTTE_NL_STATUS))
		rc = complain(EXIT_GARBLED, "the module did not answer for its status");
	/* The acknowledgement behind it. */
	if (!rc)
		nl_wait_for_ack(link->sock);
	return rc;
}

static int dump_once(struct link *link, uint8_t command, const struct link_taker *taker,
		     struct link_dump *dump)
{
	struct answer answer = { .take = taker->take, .arg = taker->arg };
	int rc = ask(link, command, NLM_F_DUMP), received;

	if (rc)
		return rc;
	received = receive(link, &answer);
	rc = judge(received, &answer);
	dump->generation = answer.last_generation;
	dump->consistent = received != -NLE_DUMP_INTR &&
			   answer.first_generation == answer.last_generation;
	return rc;
}

int link_dump(struct link *link, uint8_t command, const struct link_taker *taker,
	      struct link_dump *dump)
{
	unsigned i;
	int rc;

	for (i = 0; i < DUMP_TRIES; i++) {
		taker->restart(taker->arg);
		rc = dump_once(link, command, taker, dump);
		if (rc || dump->consistent)
			return rc;
	}
	return EXIT_OK;
}

/* ---- Notices --------------------------------------------------------------------------------- */

int link_listen(struct link *link)
{
	int rc = open_socket(link), group;

	if (!rc)
		rc = find_family(link);
	if (rc)
		goto fail;
	group = genl_ctrl_resolve_grp(link->sock, OTTE_NL_FAMILY, OTTE_NL_GROUP_EVENTS);
	if (group < 0) {
		rc = complain(EXIT_GARBLED, "the family has no group \"" OTTE_NL_GROUP_EVENTS "\"");
		goto fail;
	}
	/* Notices answer nothing: their number is 0, which libnl would take for a wrong one. */
	nl_socket_disable_auto_ack(link->sock);
	nl_socket_set_buffer_size(link->sock, EVENTS_BUFFER_BYTES, 0);
	nl_socket_set_nonblocking(link->sock);
	rc = nl_socket_add_membership(link->sock, group);
	if (!rc)
		return EXIT_OK;
	if (rc == -NLE_PERM || rc == -NLE_NOACCESS)
		rc = complain(EXIT_DENIED, "notices are for administrators (CAP_SYS_ADMIN)");
	else
		rc = complain(EXIT_LOCAL, "netlink: %s", nl_geterror(rc));
fail:
	link_close(link);
	return rc;
}

int link_descriptor(const struct link *link)
{
	return nl_socket_get_fd(link->sock);
}

int link_notices(struct link *link, int (*take)(void *arg, const struct message *message),
		 void *arg, bool *lost)
{
	struct answer answer = { .take = take, .arg = arg };
	int rc;

	*lost = false;
	rc = receive(link, &answer);
	/* A full receive buffer: libnl makes ENOBUFS this. */
	if (rc == -NLE_NOMEM) {
		*lost = true;
		rc = 0;
	}
	return rc == -NLE_AGAIN ? EXIT_OK : judge(rc, &answer);
}
