/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many CTAs local copies take on a device, as it was measured there: `otte calibrate` writes a
 * file, and a copier that is bound reads it. The user's own, $XDG_CACHE_HOME/otte/copy-DEVICE.json
 * ($HOME/.cache without that), goes before the machine's, /var/cache/otte/copy-DEVICE.json; DEVICE is
 * the device's name with a hyphen for what is no letter or digit. Without either, what was measured
 * on an H200 is taken for all. A file that is not understood, or is of another driver, is named in a
 * warning and not used.
 *
 * The file is JSON, all of its sizes in bytes:
 *
 *	{ "device": "NVIDIA H200", "driver": 13000, "long_bytes": 393216,
 *	  "rows": [ { "bytes": 1023, "to_device": 8, "to_host": 4 }, { "to_device": 2, "to_host": 2 } ] }
 *
 * `rows` ascend, at most OTTE_TABLE_ROWS of them; the last has no `bytes` and holds for all that are
 * longer. Rows of `long_bytes` and more, on the average, are the driver's; without it none are.
 */
#ifndef OTTE_CUDA_TABLE_H
#define OTTE_CUDA_TABLE_H

#include <stddef.h>

#include "cuda/driver.h"
#include "cuda/policy.h"

#define OTTE_TABLE_ROWS 16
#define OTTE_TABLE_DEVICE_BYTES 128 /* of a device's name, with its NUL */

struct otte_table {
	struct otte_policy_table policy; /* points into the same struct */
	struct otte_policy_row rows[OTTE_TABLE_ROWS];
	char device[OTTE_TABLE_DEVICE_BYTES];
};

/* From the text of a file. -EINVAL: what is wrong in it, or that it is of another device or driver. */
int otte_table_parse(const char *text, size_t size, const char *device, int driver, struct otte_table *table);

/* The user's file for a device, or, `machine`, the machine's. -ENOENT: the user has no home; -ERANGE. */
int otte_table_path(const char *device, bool machine, char *path, size_t size);

/* What holds for a device, as long as the process lives: files are read once. Never NULL. */
const struct otte_policy_table *otte_table_of(const struct otte_cuda *cuda, int device);

#endif
