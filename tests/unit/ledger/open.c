/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which back end one gets, and how the kernel's is refused by name. */
#include "suite.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "ledger/module.h"
#include "ledger/open.h"

static char logged[256];

static void keep(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	snprintf(logged, sizeof(logged), "%s", line);
}

static void auto_takes_the_process_ledger_where_no_module_is_and_says_why(void **unused)
{
	struct otte_ledger *ledger;

	(void)unused;
	if (!access(OTTE_LEDGER_NODE, F_OK))
		skip();
	otte_log_set(keep, NULL, OTTE_LOG_INFO);
	assert_int_equal(otte_ledger_open(OTTE_LEDGER_AUTO, NULL, &ledger), 0);
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	assert_string_equal(ledger->ops->name, "process");
	assert_non_null(strstr(logged, "ledger: process, since ledger: /dev/otte: no such"));
	ledger->ops->close(ledger);
	assert_int_equal(otte_ledger_open(OTTE_LEDGER_PROCESS, NULL, &ledger), 0);
	assert_string_equal(ledger->ops->name, "process");
	ledger->ops->close(ledger);
	expect_refused(otte_ledger_open(3, NULL, &ledger), -EINVAL, "ledger: kind 3");
}

static void kernel_is_refused_where_the_node_is_missing(void **unused)
{
	struct otte_ledger *ledger;

	(void)unused;
	if (!access(OTTE_LEDGER_NODE, F_OK))
		skip();
	expect_refused(otte_ledger_open(OTTE_LEDGER_KERNEL, NULL, &ledger), -ENODEV,
		       "ledger: /dev/otte: no such device");
}

static void a_module_that_does_not_fit_is_refused_by_name(void **unused)
{
	struct otte_module_facts facts = { .revision = OTTE_MODULE_REVISION,
					   .event_bytes = 192,
					   .features = 0x2b };

	(void)unused;
	assert_int_equal(otte_module_check(&facts, 0), 0);
	assert_int_equal(otte_module_check(&facts, 0x2b), 0);
	expect_refused(otte_module_check(&facts, 1u << 4), -EPROTONOSUPPORT,
		       "ledger: the module lacks feature DOMAIN (bit 4): it has 0x2b of revision 1, "
		       "this library needs 0x10 of revision 1");
	expect_refused(otte_module_check(&facts, 1u << 2 | 1u << 20), -EPROTONOSUPPORT,
		       "lacks feature CGROUP (bit 2)");
	expect_refused(otte_module_check(&facts, 1u << 20), -EPROTONOSUPPORT, "? (bit 20)");
	expect_refused(otte_module_check(&facts, 1ull << 40), -EPROTONOSUPPORT, "? (bit 40)");
	facts.event_bytes = OTTE_MODULE_EVENT_MAX;
	assert_int_equal(otte_module_check(&facts, 0), 0);
	facts.event_bytes++;
	expect_refused(otte_module_check(&facts, 0), -EPROTONOSUPPORT,
		       "the module's events have 1025 bytes, this library reads 192 to 1024");
	facts.event_bytes = 191;
	expect_refused(otte_module_check(&facts, 0), -EPROTONOSUPPORT, "events have 191 bytes");
	facts.revision = 7;
	expect_refused(otte_module_check(&facts, 0), -EPROTONOSUPPORT,
		       "the module speaks revision 7 of the ABI, this library 1");
}

static void a_node_that_is_no_device_is_refused(void **unused)
{
	char path[] = "/tmp/otte-node-XXXXXX";
	int fd = mkstemp(path);

	(void)unused;
	assert_true(fd >= 0);
	close(fd);
	expect_refused(otte_ledger_node_open(path), -ENODEV, "not a character device");
	unlink(path);
	expect_refused(otte_ledger_node_open(path), -ENODEV, path);
	expect_refused(otte_ledger_node_open("/"), -EISDIR, "ledger: /: ");
	fd = otte_ledger_node_open("/dev/null");
	assert_true(fd >= 0);
	close(fd);
}

static void a_node_without_permission_is_refused(void **unused)
{
	char path[] = "/tmp/otte-node-XXXXXX";
	int fd = mkstemp(path), rc;

	(void)unused;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(chmod(path, 0), 0);
	if (!geteuid())
		assert_int_equal(seteuid(65534), 0);
	rc = otte_ledger_node_open(path);
	assert_int_equal(seteuid(getuid()), 0);
	unlink(path);
	expect_refused(rc, -EACCES, "no permission to read and write it");
}

static void closing_with_something_retained_is_logged(void **unused)
{
	struct otte_ledger_client *client;
	struct otte_ledger *ledger;
	uint64_t hold;

	(void)unused;
	assert_int_equal(otte_ledger_process_open(NULL, &ledger), 0);
	assert_int_equal(ledger->ops->client_open(ledger, NULL, 0, &client), 0);
	assert_int_equal(ledger->ops->hold(client, 10, "held", &hold), 0);
	otte_log_set(keep, NULL, OTTE_LOG_WARNING);
	ledger->ops->close(ledger); /* with a client still open */
	otte_log_set(NULL, NULL, OTTE_LOG_ERROR);
	assert_string_equal(logged, "ledger: closed with 1 retained records of 10 bytes");
}

const struct CMUnitTest open_tests[] = {
	cmocka_unit_test(auto_takes_the_process_ledger_where_no_module_is_and_says_why),
	cmocka_unit_test(a_module_that_does_not_fit_is_refused_by_name),
	cmocka_unit_test(kernel_is_refused_where_the_node_is_missing),
	cmocka_unit_test(a_node_that_is_no_device_is_refused),
	cmocka_unit_test(a_node_without_permission_is_refused),
	cmocka_unit_test(closing_with_something_retained_is_logged),
};
const size_t open_count = ARRAY_SIZE(open_tests);
