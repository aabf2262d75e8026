/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the choice of a back end. No state, no lock; called at engine create. */
#include "ledger/open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "ledger/ledger.h"
#include "otte/otte.h"

static int refuse_node(const char *path, int error)
{
	switch (error) {
	case ENOENT:
	case ENXIO:
	case ENODEV:
		return otte_fail(-ENODEV, "ledger: %s: no such device, is the otte module loaded?",
				 path);
	case EACCES:
	case EPERM:
		return otte_fail(-EACCES, "ledger: %s: no permission to read and write it", path);
	default:
		return otte_fail(-error, "ledger: %s: %s", path, strerror(error));
	}
}

int otte_ledger_node_open(const char *path)
{
	int fd = otte_fd_open(path, O_RDWR);
	struct stat st;

	if (fd < 0)
		return refuse_node(path, errno);
	if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode))
		return fd;
	otte_fd_close(fd);
	return otte_fail(-ENODEV, "ledger: %s: not a character device", path);
}

/*
 * The process ledger where there is no module: it keeps the rules in this process only. Who has a module that
 * refuses would not expect that.
 */
static int open_auto(const struct otte_ledger_limits *limits, struct otte_ledger **ledger)
{
	char why[OTTE_ERROR_BYTES];
	int rc, refused;

	refused = otte_ledger_kernel_open(limits, ledger);
	if (!refused) {
		otte_log(OTTE_LOG_INFO, "ledger: kernel (" OTTE_LEDGER_NODE ")");
		return 0;
	}
	snprintf(why, sizeof(why), "%s", otte_error_text());
	rc = otte_ledger_process_open(limits, ledger);
	if (!rc)
		otte_log(refused == -ENODEV ? OTTE_LOG_INFO : OTTE_LOG_WARNING,
			 "ledger: process, since %s", why);
	return rc;
}

int otte_ledger_open(uint32_t kind, const struct otte_ledger_limits *limits,
		     struct otte_ledger **ledger)
{
	switch (kind) {
	case OTTE_LEDGER_AUTO:
		return open_auto(limits, ledger);
	case OTTE_LEDGER_KERNEL:
		return otte_ledger_kernel_open(limits, ledger);
	case OTTE_LEDGER_PROCESS:
		return otte_ledger_process_open(limits, ledger);
	default:
		return otte_fail(-EINVAL, "ledger: kind %" PRIu32, kind);
	}
}
