/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of the module's events, where what tells them is this test, through a pipe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ledger/module.h"

#define TODAY 192u /* bytes of a record */

/* A record as the ABI has it, as far as this test looks; a later module's has more at its end. */
struct grown {
	uint32_t size;
	uint32_t type;
	uint64_t object, region, offset, length, tag;
	uint32_t flags, direction, evidence;
	uint32_t rest[(TODAY - 60) / 4];
	uint64_t more[8];
};

static void tell(int fd, uint64_t object, uint32_t says, size_t bytes)
{
	struct grown record = { .size = says,
				.type = OTTE_MODULE_SETTLED,
				.object = object,
				.evidence = OTTE_MODULE_EVIDENCE_BIT(4) };

	memset(record.more, 0xff, sizeof(record.more));
	assert_int_equal(write(fd, &record, bytes), bytes);
}

static void a_record_that_has_grown_is_read_whole_and_alone(void **unused)
{
	struct otte_module_event event;
	int ends[2], i;

	(void)unused;
	assert_int_equal(pipe(ends), 0);
	for (i = 0; i < 3; i++)
		tell(ends[1], 40 + (unsigned)i, sizeof(struct grown), sizeof(struct grown));
	for (i = 0; i < 3; i++) {
		assert_int_equal(otte_module_event(ends[0], sizeof(struct grown), &event), 0);
		assert_int_equal(event.type, OTTE_MODULE_SETTLED);
		assert_int_equal(event.object, 40 + i);
		assert_int_equal(event.evidence, 4); /* as ledger.h numbers REVOKED */
	}
	close(ends[0]);
	close(ends[1]);
}

static void a_record_of_another_size_is_refused(void **unused)
{
	struct otte_module_event event;
	int ends[2];

	(void)unused;
	assert_int_equal(pipe(ends), 0);
	tell(ends[1], 1, TODAY, sizeof(struct grown));
	assert_int_equal(otte_module_event(ends[0], sizeof(struct grown), &event), -EPROTO);
	tell(ends[1], 1, sizeof(struct grown), TODAY);
	assert_int_equal(otte_module_event(ends[0], sizeof(struct grown), &event), -EPROTO);
	close(ends[0]);
	close(ends[1]);
}

extern const struct CMUnitTest records_tests[];
extern const size_t records_count;

const struct CMUnitTest records_tests[] = {
	cmocka_unit_test(a_record_that_has_grown_is_read_whole_and_alone),
	cmocka_unit_test(a_record_of_another_size_is_refused),
};
const size_t records_count = sizeof(records_tests) / sizeof(records_tests[0]);
