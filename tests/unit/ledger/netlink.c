/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Dumps, where what answers is this test, over a socket pair: no answer is trusted, and one that
 * breaks off is never taken for a whole one.
 */
#include "suite.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ledger/netlink.h"
#include "ledger/open.h"

#define FAMILY 77
#define SEQ 1u /* of the first request */
#define OTHER_SEQ 9u

/* What the kernel would send: one buffer of messages. */
struct part {
	size_t bytes;
	union {
		struct nlmsghdr head; /* for its alignment */
		uint8_t raw[4096];
	} as;
};

static struct nlmsghdr *put_head(struct part *part, uint16_t type, uint32_t seq)
{
	struct nlmsghdr *head = (struct nlmsghdr *)(part->as.raw + part->bytes);

	memset(head, 0, NLMSG_LENGTH(0));
	head->nlmsg_len = NLMSG_LENGTH(0);
	head->nlmsg_type = type;
	head->nlmsg_flags = NLM_F_MULTI;
	head->nlmsg_seq = seq;
	part->bytes += NLMSG_LENGTH(0);
	return head;
}

static void put_bytes(struct part *part, struct nlmsghdr *head, const void *bytes, size_t count)
{
	memcpy(part->as.raw + part->bytes, bytes, count);
	memset(part->as.raw + part->bytes + count, 0, NLMSG_ALIGN(count) - count);
	part->bytes += NLMSG_ALIGN(count);
	head->nlmsg_len += (uint32_t)NLMSG_ALIGN(count);
}

static struct nlattr *put_attr(struct part *part, struct nlmsghdr *head, uint16_t type,
			       const void *bytes, size_t count)
{
	struct nlattr attr = { (uint16_t)(NLA_HDRLEN + count), type };
	void *at = part->as.raw + part->bytes;

	put_bytes(part, head, &attr, sizeof(attr));
	put_bytes(part, head, bytes, count);
	return at;
}

static struct nlmsghdr *put_row(struct part *part, uint32_t seq, uint64_t id, uint64_t generation)
{
	struct nlmsghdr *head = put_head(part, FAMILY, seq);
	struct genlmsghdr genl = { .cmd = OTTE_NL_LOANS, .version = 1 };

	put_bytes(part, head, &genl, sizeof(genl));
	put_attr(part, head, OTTE_A_GENERATION, &generation, sizeof(generation));
	put_attr(part, head, OTTE_A_ID, &id, sizeof(id));
	return head;
}

static struct nlmsghdr *put_end(struct part *part, uint16_t type, int code)
{
	struct nlmsghdr *head = put_head(part, type, SEQ);

	put_bytes(part, head, &code, sizeof(code));
	return head;
}

/* ---- A dump of what was put ------------------------------------------------------------------ */

struct taken {
	unsigned restarts, count;
	struct otte_netlink_row row[8];
};

static void restart(void *arg)
{
	struct taken *taken = arg;

	taken->restarts++;
	taken->count = 0;
}

static void take(void *arg, const struct otte_netlink_row *row)
{
	struct taken *taken = arg;

	if (taken->count < ARRAY_SIZE(taken->row))
		taken->row[taken->count] = *row;
	taken->count++;
}

/* The socket that was talked over is closed after a failure: `kept` says whether it was not. */
static int dump(const struct part *parts, size_t count, struct taken *taken, int *kept)
{
	struct otte_netlink_sink sink = { restart, take, taken };
	struct otte_netlink netlink = { .family = FAMILY };
	struct timeval patience = { .tv_usec = 1000 };
	int pair[2], rc;
	size_t i;

	memset(taken, 0, sizeof(*taken));
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)),
			 0);
	for (i = 0; i < count; i++)
		assert_int_equal(send(pair[1], parts[i].as.raw, parts[i].bytes, 0), parts[i].bytes);
	pthread_mutex_init(&netlink.lock, NULL);
	netlink.fd = pair[0];
	rc = otte_netlink_dump(&netlink, OTTE_NL_LOANS, &sink);
	*kept = recv(pair[1], &netlink.seq, 0, MSG_DONTWAIT | MSG_PEEK) >= 0 &&
		send(pair[1], "", 1, MSG_NOSIGNAL) == 1;
	otte_netlink_close(&netlink);
	close(pair[1]);
	return rc;
}

static void rows_come_out_as_they_were_put(void **unused)
{
	struct part parts[2] = { { 0 } };
	struct nlmsghdr *head;
	struct taken taken;
	uint32_t half = 0x80000001;
	uint8_t peer[40];
	int kept;

	(void)unused;
	memset(peer, 0xab, sizeof(peer));
	put_row(&parts[0], OTHER_SEQ, 111, 1); /* of an earlier request */
	head = put_row(&parts[0], SEQ, 5, 3);
	put_attr(&parts[0], head, OTTE_A_STATE, &half, sizeof(half));
	put_attr(&parts[0], head, OTTE_A_PEER, peer, sizeof(peer)); /* longer than there is room */
	put_attr(&parts[0], head, OTTE_A_COMM, "a name that is much longer than a name is", 41);
	put_attr(&parts[0], head, OTTE_A_COUNT + 5, peer, sizeof(peer)); /* yet to come */
	put_attr(&parts[0], head, OTTE_A_BYTES, peer, 3); /* no number */
	put_row(&parts[1], SEQ, 6, 3);
	put_end(&parts[1], NLMSG_DONE, 0);
	assert_int_equal(dump(parts, 2, &taken, &kept), 0);
	assert_int_equal(taken.count, 2);
	assert_int_equal(taken.restarts, 1);
	assert_int_equal(taken.row[0].num[OTTE_A_ID], 5);
	assert_int_equal(taken.row[0].num[OTTE_A_STATE], half);
	assert_int_equal(taken.row[0].num[OTTE_A_BYTES], 0);
	assert_memory_equal(taken.row[0].peer, peer, sizeof(taken.row[0].peer));
	assert_string_equal(taken.row[0].comm, "a name that is much longer than");
	assert_int_equal(taken.row[1].num[OTTE_A_ID], 6);
	assert_int_equal(kept, 1);
}

/* ---- What is no answer ----------------------------------------------------------------------- */

/* Each puts one after a good row. */
static void cut_message(struct part *part)
{
	put_row(part, SEQ, 6, 1);
	part->bytes -= 4;
}

static void cut_head(struct part *part)
{
	put_head(part, FAMILY, SEQ);
	part->bytes -= 4;
}

static void message_of_no_length(struct part *part)
{
	put_row(part, SEQ, 6, 1)->nlmsg_len = 0;
}

static void message_longer_than_the_rest(struct part *part)
{
	put_row(part, SEQ, 6, 1)->nlmsg_len += 1;
}

static void message_that_wraps(struct part *part)
{
	put_row(part, SEQ, 6, 1)->nlmsg_len = UINT32_MAX;
}

/* Its padding is missing: a step by the padded length leads behind the buffer. */
static void message_without_its_padding(struct part *part)
{
	struct nlmsghdr *head = put_row(part, SEQ, 6, 1);

	head->nlmsg_len -= 1;
	part->bytes -= 1;
}

static void message_of_another_family(struct part *part)
{
	put_row(part, SEQ, 6, 1)->nlmsg_type = FAMILY + 1;
}

static void done_without_a_code(struct part *part)
{
	put_head(part, NLMSG_DONE, SEQ);
}

static void error_without_a_code(struct part *part)
{
	put_head(part, NLMSG_ERROR, SEQ);
}

static void acknowledgement(struct part *part)
{
	put_end(part, NLMSG_ERROR, 0);
}

static void error_that_is_none(struct part *part)
{
	put_end(part, NLMSG_ERROR, 5);
}

static void done_with_a_count(struct part *part)
{
	put_end(part, NLMSG_DONE, 5);
}

static void refusal(struct part *part)
{
	put_end(part, NLMSG_ERROR, -EBUSY);
}

static void done_with_an_error(struct part *part)
{
	put_end(part, NLMSG_DONE, -ENOMEM);
}

static void nothing_more(struct part *part)
{
	(void)part;
}

static void what_is_no_answer_is_refused(void **unused)
{
	static const struct {
		void (*put)(struct part *part);
		int rc;
		int kept; /* the kernel is through with it */
	} cases[] = {
		{ cut_message, -EPROTO, 0 },
		{ cut_head, -EPROTO, 0 },
		{ message_of_no_length, -EPROTO, 0 },
		{ message_longer_than_the_rest, -EPROTO, 0 },
		{ message_that_wraps, -EPROTO, 0 },
		{ message_without_its_padding, -EAGAIN, 0 },
		{ message_of_another_family, -EPROTO, 0 },
		{ done_without_a_code, -EPROTO, 1 },
		{ error_without_a_code, -EPROTO, 1 },
		{ acknowledgement, -EPROTO, 1 },
		{ error_that_is_none, -EPROTO, 1 },
		{ done_with_a_count, -EPROTO, 1 },
		{ refusal, -EBUSY, 1 },
		{ done_with_an_error, -ENOMEM, 1 },
		{ nothing_more, -EAGAIN, 0 },
	};
	struct taken taken;
	size_t i;
	int kept;

	(void)unused;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct part part = { 0 }, good = { 0 };

		put_row(&part, SEQ, 5, 1);
		cases[i].put(&part);
		/* What an earlier answer left in the buffer is a good end. */
		put_row(&good, SEQ, 5, 1);
		put_end(&good, NLMSG_DONE, 0);
		assert_int_equal(dump(&good, 1, &taken, &kept), 0);
		expect_refused(dump(&part, 1, &taken, &kept), cases[i].rc, "dump of the netlink");
		assert_int_equal(kept, cases[i].kept);
	}
}

static void attributes_end_where_their_message_does(void **unused)
{
	uint64_t number = UINT64_MAX;
	struct taken taken;
	unsigned length;
	int kept;

	(void)unused;
	for (length = 0; length < 64; length++) {
		struct part part = { 0 };
		struct nlmsghdr *head = put_row(&part, SEQ, 5, 1);
		struct nlattr *attr = put_attr(&part, head, OTTE_A_BYTES, &number, sizeof(number));

		attr->nla_len = (uint16_t)length;
		attr->nla_type = length % 2 ? OTTE_A_PEER : OTTE_A_BYTES;
		put_row(&part, SEQ, 6, 1);
		put_end(&part, NLMSG_DONE, 0);
		assert_int_equal(dump(&part, 1, &taken, &kept), 0);
		assert_int_equal(taken.count, 2);
		assert_int_equal(taken.row[0].num[OTTE_A_BYTES],
				 length == NLA_HDRLEN + 8 ? UINT64_MAX :
				 length == NLA_HDRLEN + 4 ? UINT32_MAX :
							    0);
		assert_int_equal(taken.row[0].peer[8], 0); /* of the next message */
		assert_int_equal(taken.row[1].num[OTTE_A_ID], 6);
	}
}

/* Changes between its parts, seen by the kernel or by the generations. It is taken in the end. */
static void a_dump_that_a_change_interrupts_starts_again(void **unused)
{
	struct part parts[10] = { { 0 } };
	struct taken taken;
	int kept, i;

	(void)unused;
	for (i = 0; i < 5; i++) {
		struct nlmsghdr *head;

		head = put_row(&parts[i], SEQ + (unsigned)i, 5, 1);
		if (i % 2)
			head->nlmsg_flags |= NLM_F_DUMP_INTR;
		put_row(&parts[i], SEQ + (unsigned)i, 6 + (unsigned)i, i % 2 ? 1 : 2);
		put_end(&parts[i], NLMSG_DONE, 0)->nlmsg_seq = SEQ + (unsigned)i;
	}
	assert_int_equal(dump(parts, 5, &taken, &kept), 0);
	assert_int_equal(taken.restarts, 5);
	assert_int_equal(taken.count, 2);
	assert_int_equal(taken.row[1].num[OTTE_A_ID], 10);
}

/* Whatever stands in an answer: an end, and nothing read beyond it (sanitizers look at that). */
static void random_answers_end(void **unused)
{
	const char *given = getenv("OTTE_TEST_SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
	int rounds = is_small() ? 200 : 2000, i, j, kept;
	struct taken taken;

	(void)unused;
	print_message("OTTE_TEST_SEED=%u\n", seed);
	for (i = 0; i < rounds; i++) {
		struct part part = { 0 };

		for (j = 0; j < 3; j++)
			put_row(&part, SEQ, (unsigned)j, 1);
		put_end(&part, NLMSG_DONE, 0);
		for (j = 0; j < 4; j++)
			part.as.raw[(size_t)rand_r(&seed) % part.bytes] = (uint8_t)rand_r(&seed);
		if (rand_r(&seed) % 2)
			part.bytes -= (size_t)rand_r(&seed) % part.bytes;
		assert_in_range(-dump(&part, 1, &taken, &kept), 0, 4095);
	}
}

/* ---- No socket ------------------------------------------------------------------------------- */

/* Where the module is not there, nor the family is; but that is another answer. */
static void what_kept_one_dump_from_its_socket_is_not_said_of_the_next(void **unused)
{
	struct taken taken = { 0 };
	const struct otte_netlink_sink sink = { restart, take, &taken };
	struct otte_netlink netlink;
	int i, rc;

	(void)unused;
	fail_socket(EMFILE);
	otte_netlink_open(&netlink);
	assert_int_equal(netlink.error, -EMFILE);
	for (i = 0; i < 2; i++) {
		fail_socket(ENOBUFS);
		expect_refused(otte_netlink_dump(&netlink, OTTE_NL_LOANS, &sink), -ENOBUFS,
			       "dump of the netlink");
	}
	rc = otte_netlink_dump(&netlink, OTTE_NL_LOANS, &sink);
	assert_int_equal(rc, access(OTTE_LEDGER_NODE, F_OK) ? -ENOENT : 0);
	assert_int_equal(netlink.error, rc);
	otte_netlink_close(&netlink);
}

const struct CMUnitTest netlink_tests[] = {
	cmocka_unit_test(what_kept_one_dump_from_its_socket_is_not_said_of_the_next),
	cmocka_unit_test(rows_come_out_as_they_were_put),
	cmocka_unit_test(what_is_no_answer_is_refused),
	cmocka_unit_test(attributes_end_where_their_message_does),
	cmocka_unit_test(a_dump_that_a_change_interrupts_starts_again),
	cmocka_unit_test(random_answers_end),
};
const size_t netlink_count = ARRAY_SIZE(netlink_tests);
