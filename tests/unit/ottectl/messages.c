/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the module sends is taken as it is or refused by name; and it is described without loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>
#include <string.h>

#include "../../../tools/ottectl/describe.h"
#include "base/util.h"
#include "build.h"
#include "suites.h"

/* Takes the message apart and frees it; the fault's attribute, or -1 if it was good. */
static int fault_of(struct nl_msg *msg)
{
	struct message_fault fault = { 0 };
	struct message message;
	struct nlmsghdr *head = nlmsg_hdr(msg);
	int rc = message_parse(head, head->nlmsg_len, &message, &fault);

	nlmsg_free(msg);
	if (!rc)
		return -1;
	assert_int_equal(rc, -EBADMSG);
	assert_true(strlen(fault.text) > 0);
	return fault.attribute;
}

static void is_json(json_t *got, const char *wanted)
{
	json_t *expected = json_loads(wanted, 0, NULL);
	char *text = json_dumps(got, JSON_COMPACT);

	assert_non_null(expected);
	if (!json_equal(got, expected))
		fail_msg("%s", text);
	free(text);
	json_decref(expected);
	json_decref(got);
}

/* ---- Taking apart ---------------------------------------------------------------------------- */

static void every_message_of_the_module_is_taken(void **state)
{
	int command;

	(void)state;
	for (command = OTTE_NL_STATUS; command < OTTE_NL_COMMANDS; command++) {
		struct nl_msg *msg = build_begin((uint8_t)command);

		build_all(msg, (uint8_t)command, OTTE_A_UNSPEC);
		assert_int_equal(build_end(msg).command, command);
	}
}

static void each_attribute_that_is_missing_is_named(void **state)
{
	int command;
	int attribute, missed = 0;

	(void)state;
	for (command = OTTE_NL_STATUS; command < OTTE_NL_COMMANDS; command++)
		for (attribute = OTTE_A_GENERATION; attribute < OTTE_A_COUNT; attribute++) {
			struct nl_msg *whole = build_begin((uint8_t)command),
				      *less = build_begin((uint8_t)command);
			bool was_there;

			build_all(whole, (uint8_t)command, OTTE_A_UNSPEC);
			build_all(less, (uint8_t)command, attribute);
			was_there = nlmsg_hdr(whole)->nlmsg_len != nlmsg_hdr(less)->nlmsg_len;
			nlmsg_free(whole);
			/* A domain need not have a NIC. */
			if (was_there && attribute != OTTE_A_NIC) {
				assert_int_equal(fault_of(less), attribute);
				missed++;
			} else {
				assert_int_equal(fault_of(less), -1);
			}
		}
	assert_int_equal(missed, 6 + 9 + 11 + 10 + 12 + 11 + 5 + 3);
}

static void message_cut_off_anywhere_is_refused(void **state)
{
	int command;

	(void)state;
	for (command = OTTE_NL_STATUS; command < OTTE_NL_COMMANDS; command++) {
		struct nl_msg *msg = build_begin((uint8_t)command);
		struct nlmsghdr *head = nlmsg_hdr(msg);
		struct message_fault fault;
		struct message message;
		uint32_t whole, room;

		build_all(msg, (uint8_t)command, OTTE_A_UNSPEC);
		whole = head->nlmsg_len;
		for (room = 0; room < whole; room++) {
			/* Shorter than it says; then as long as it says, and too short. */
			head->nlmsg_len = whole;
			assert_int_equal(message_parse(head, room, &message, &fault), -EBADMSG);
			if (room < sizeof(*head) || command == OTTE_NL_DOMAINS)
				continue;
			head->nlmsg_len = room;
			assert_int_equal(message_parse(head, room, &message, &fault), -EBADMSG);
		}
		nlmsg_free(msg);
	}
}

static void bytes_behind_the_last_attribute_are_refused(void **state)
{
	static const uint8_t more[] = { 3, 0, 1, 0 }; /* shorter than its own head */
	struct nl_msg *msg = build_begin(OTTE_NL_CLIENTS);

	(void)state;
	build_all(msg, OTTE_NL_CLIENTS, OTTE_A_UNSPEC);
	assert_int_equal(nlmsg_append(msg, (void *)more, sizeof(more), 0), 0);
	assert_int_equal(fault_of(msg), OTTE_A_UNSPEC);
}

static void number_of_another_size_is_refused(void **state)
{
	struct nl_msg *msg = build_begin(OTTE_NL_CLIENTS);

	(void)state;
	build_all(msg, OTTE_NL_CLIENTS, OTTE_A_ID);
	build_u32(msg, OTTE_A_ID, 7);
	assert_int_equal(fault_of(msg), OTTE_A_ID);

	msg = build_begin(OTTE_NL_CLIENTS);
	build_all(msg, OTTE_NL_CLIENTS, OTTE_A_UID);
	build_u64(msg, OTTE_A_UID, 7);
	assert_int_equal(fault_of(msg), OTTE_A_UID);

	msg = build_begin(OTTE_NL_STATUS);
	build_all(msg, OTTE_NL_STATUS, OTTE_A_LOAD_ID);
	build_u64(msg, OTTE_A_LOAD_ID, 7);
	assert_int_equal(fault_of(msg), OTTE_A_LOAD_ID);
}

static void string_without_an_end_or_too_long_is_refused(void **state)
{
	static const char longer[] = "a name of more than sixteen bytes";
	struct nl_msg *msg = build_begin(OTTE_NL_CLIENTS);

	(void)state;
	build_all(msg, OTTE_NL_CLIENTS, OTTE_A_COMM);
	assert_int_equal(nla_put(msg, OTTE_A_COMM, 4, "name"), 0);
	assert_int_equal(fault_of(msg), OTTE_A_COMM);

	msg = build_begin(OTTE_NL_CLIENTS);
	build_all(msg, OTTE_NL_CLIENTS, OTTE_A_COMM);
	assert_int_equal(nla_put(msg, OTTE_A_COMM, sizeof(longer), longer), 0);
	assert_int_equal(fault_of(msg), OTTE_A_COMM);

	msg = build_begin(OTTE_NL_CLIENTS);
	build_all(msg, OTTE_NL_CLIENTS, OTTE_A_COMM);
	assert_int_equal(nla_put(msg, OTTE_A_COMM, 0, ""), 0);
	assert_int_equal(fault_of(msg), OTTE_A_COMM);
}

static void single_attribute_that_comes_twice_is_refused(void **state)
{
	struct nl_msg *msg = build_begin(OTTE_NL_CLIENTS);

	(void)state;
	build_all(msg, OTTE_NL_CLIENTS, OTTE_A_UNSPEC);
	build_u64(msg, OTTE_A_ID, 7);
	assert_int_equal(fault_of(msg), OTTE_A_ID);
}

static void what_a_later_module_adds_is_passed_over(void **state)
{
	struct nl_msg *msg = build_begin(OTTE_NL_STATUS);
	struct message message;

	(void)state;
	build_u64(msg, OTTE_A_COUNT, 1);
	build_u32(msg, OTTE_A_COUNT + 200, 1);
	build_all(msg, OTTE_NL_STATUS, OTTE_A_UNSPEC);
	build_u64(msg, OTTE_A_USAGE, 1); /* of one more resource */
	message = build_end(msg);
	assert_int_equal(message.usages, OTTE_RES_COUNT);
	assert_int_equal(message.number[OTTE_A_GENERATION], 1000 + OTTE_A_GENERATION);
}

static void unknown_kind_of_message_is_refused(void **state)
{
	(void)state;
	assert_int_equal(fault_of(build_begin(OTTE_NL_UNSPEC)), OTTE_A_UNSPEC);
	assert_int_equal(fault_of(build_begin(OTTE_NL_COMMANDS)), OTTE_A_UNSPEC);
	assert_int_equal(fault_of(build_begin(255)), OTTE_A_UNSPEC);
}

static void pattern_that_cannot_be_reckoned_with_is_refused(void **state)
{
	static const struct otte_slot_epoch bad[] = {
		{ .interval_ns = 100, .slots = 0 },
		{ .interval_ns = 0, .slots = 1 },
		{ .interval_ns = 100, .slots = OTTE_SLOTS_MAX + 1 },
		{ .interval_ns = 100, .slots = 2, .lowest = { 0, OTTE_PRIORITIES } },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		struct nl_msg *msg = build_begin(OTTE_NL_DOMAINS);

		build_all(msg, OTTE_NL_DOMAINS, OTTE_A_EPOCH);
		assert_int_equal(nla_put(msg, OTTE_A_EPOCH, sizeof(bad[i]), &bad[i]), 0);
		assert_int_equal(fault_of(msg), OTTE_A_EPOCH);
	}
}

static void lists_have_bounds(void **state)
{
	struct nl_msg *msg = build_begin(OTTE_NL_DOMAINS);
	int i;

	(void)state;
	build_all(msg, OTTE_NL_DOMAINS, OTTE_A_NIC);
	for (i = 0; i <= OTTE_NICS_MAX; i++)
		assert_int_equal(nla_put_string(msg, OTTE_A_NIC, "eth"), 0);
	assert_int_equal(fault_of(msg), OTTE_A_NIC);

	msg = build_begin(OTTE_NL_ACCOUNTS);
	build_all(msg, OTTE_NL_ACCOUNTS, OTTE_A_LIMIT);
	build_u64(msg, OTTE_A_LIMIT, 1);
	assert_int_equal(fault_of(msg), OTTE_A_LIMIT);
}

static void refusal_says_which_budget(void **state)
{
	struct nl_msg *msg = build_begin(OTTE_NL_NOTICE);

	(void)state;
	build_all(msg, OTTE_NL_NOTICE, OTTE_A_NOTICE);
	build_u32(msg, OTTE_A_NOTICE, OTTE_NL_NOTICE_QUOTA);
	assert_int_equal(fault_of(msg), OTTE_A_LEVEL);

	msg = build_begin(OTTE_NL_NOTICE);
	build_u32(msg, OTTE_A_NOTICE, OTTE_NL_NOTICE_QUOTA);
	build_u64(msg, OTTE_A_ID, 5);
	build_u64(msg, OTTE_A_GENERATION, 6);
	build_u32(msg, OTTE_A_LEVEL, OTTE_LEVEL_MEMLOCK);
	build_u64(msg, OTTE_A_KEY, 1001);
	build_u32(msg, OTTE_A_RESOURCE, OTTE_RES_PINNED_BYTES);
	build_u64(msg, OTTE_A_USAGE, 10);
	build_u64(msg, OTTE_A_LIMIT, 12);
	build_u64(msg, OTTE_A_REQUESTED, 3);
	{
		struct message message = build_end(msg);

		is_json(describe(&message),
			"{\"notice\":\"quota\",\"id\":5,\"generation\":6,\"level\":\"memlock\","
			"\"key\":1001,\"resource\":\"pinned_bytes\",\"usage\":10,\"limit\":12,"
			"\"requested\":3}");
	}
}

/* ---- Describing ------------------------------------------------------------------------------ */

static void loan_is_described_with_both_its_sides(void **state)
{
	struct message loan = build_loan(3, 4, OTTE_NL_LOAN_EXPOSED, 4096);
	json_t *described;

	(void)state;
	loan.number[OTTE_A_ID] = 9;
	loan.number[OTTE_A_FLAGS] = OTTE_LOAN_REVOCABLE | OTTE_LOAN_MAPPABLE;
	loan.number[OTTE_A_DIRECTION] = OTTE_WRITE;
	loan.number[OTTE_A_ACCEPTED] = OTTE_EVIDENCE_DEFAULT;
	loan.number[OTTE_A_EVIDENCE] = 0;
	loan.number[OTTE_A_TAG] = UINT64_MAX;
	is_json(describe(&loan),
		"{\"id\":9,\"lender\":3,\"borrower\":4,\"peer\":null,\"incarnation\":null,"
		"\"region\":null,\"offset\":null,\"bytes\":4096,\"direction\":\"write\","
		"\"state\":\"exposed\",\"flags\":\"revocable,mappable\","
		"\"accepted\":\"never_exposed,returned,unmapped,revoked\",\"evidence\":null,"
		"\"tag\":\"0xffffffffffffffff\"}");
	loan.number[OTTE_A_FLAGS] = OTTE_LOAN_STANDING | OTTE_LOAN_BY_ADDRESS;
	described = describe(&loan);
	assert_string_equal(json_string_value(json_object_get(described, "flags")),
			    "standing,by_address");
	json_decref(described);
}

/* Whoever reads it can tell which bytes it was of. */
static void command_name_of_any_bytes_can_be_had_back(void **state)
{
	struct message client = build_client(1, 1000, "y\xc3\xa9\xff\n\\x41\\");
	json_t *described = describe(&client);

	(void)state;
	assert_string_equal(json_string_value(json_object_get(described, "comm")),
			    "y\xc3\xa9\\xff\\x0a\\x5cx41\\");
	json_decref(described);
}

/* Incarnations are random: half of them are above what a number of JSON holds. */
static void incarnation_is_told_in_full(void **state)
{
	struct message loan = build_loan(3, 0, OTTE_NL_LOAN_EXPOSED, 4096);
	json_t *described;

	(void)state;
	loan.present |= UINT64_C(1) << OTTE_A_INCARNATION;
	loan.number[OTTE_A_INCARNATION] = 0xfedcba9876543210;
	described = describe(&loan);
	assert_string_equal(json_string_value(json_object_get(described, "incarnation")),
			    "0xfedcba9876543210");
	json_decref(described);
}

static void slot_that_runs_is_that_of_the_moment(void **state)
{
	static const struct {
		uint64_t now;
		const char *wanted;
	} cases[] = {
		{ 999, "null" },
		{ 1000, "{\"index\":0,\"lowest\":\"high\",\"left_ns\":100}" },
		{ 1199, "{\"index\":1,\"lowest\":\"medium\",\"left_ns\":1}" },
		{ 1250, "{\"index\":2,\"lowest\":\"low\",\"left_ns\":50}" },
		{ 1300, "{\"index\":0,\"lowest\":\"high\",\"left_ns\":100}" },
	};
	struct nl_msg *msg = build_begin(OTTE_NL_DOMAINS);
	struct message domain;
	json_t *object, *slot, *wanted;
	size_t i;

	(void)state;
	build_all(msg, OTTE_NL_DOMAINS, OTTE_A_UNSPEC);
	domain = build_end(msg);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		domain.number[OTTE_A_NOW_NS] = cases[i].now;
		object = describe(&domain);
		slot = json_object_get(object, "slot");
		wanted = json_loads(cases[i].wanted, JSON_DECODE_ANY, NULL);
		assert_true(json_equal(slot, wanted));
		json_decref(wanted);
		json_decref(object);
	}
}

static void limit_that_is_none_is_null(void **state)
{
	const uint64_t amounts[OTTE_RES_COUNT] = { 0, UINT64_MAX, INT64_MAX, (1ull << 63) };

	(void)state;
	is_json(describe_amounts(amounts, true),
		"{\"clients\":0,\"regions\":null,\"registered_bytes\":9223372036854775807,"
		"\"pinned_bytes\":null,\"lent_bytes\":0,\"loans\":0,\"retained_bytes\":0,"
		"\"holds\":0}");
}

static void enumerator_of_a_later_module_is_its_number(void **state)
{
	struct message record = build_record(1, 2, 3);
	json_t *object;

	(void)state;
	record.number[OTTE_A_KIND] = 77;
	object = describe(&record);
	assert_string_equal(json_string_value(json_object_get(object, "kind")), "77");
	json_decref(object);
}

int messages_suite(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_of_the_module_is_taken),
		cmocka_unit_test(each_attribute_that_is_missing_is_named),
		cmocka_unit_test(message_cut_off_anywhere_is_refused),
		cmocka_unit_test(bytes_behind_the_last_attribute_are_refused),
		cmocka_unit_test(number_of_another_size_is_refused),
		cmocka_unit_test(string_without_an_end_or_too_long_is_refused),
		cmocka_unit_test(single_attribute_that_comes_twice_is_refused),
		cmocka_unit_test(what_a_later_module_adds_is_passed_over),
		cmocka_unit_test(unknown_kind_of_message_is_refused),
		cmocka_unit_test(pattern_that_cannot_be_reckoned_with_is_refused),
		cmocka_unit_test(lists_have_bounds),
		cmocka_unit_test(refusal_says_which_budget),
		cmocka_unit_test(loan_is_described_with_both_its_sides),
		cmocka_unit_test(command_name_of_any_bytes_can_be_had_back),
		cmocka_unit_test(incarnation_is_told_in_full),
		cmocka_unit_test(slot_that_runs_is_that_of_the_moment),
		cmocka_unit_test(limit_that_is_none_is_null),
		cmocka_unit_test(enumerator_of_a_later_module_is_its_number),
	};

	return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
