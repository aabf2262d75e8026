/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The module's node. */
#ifndef OTTE_LEDGER_OPEN_H
#define OTTE_LEDGER_OPEN_H

#define OTTE_LEDGER_NODE "/dev/otte"

/*
 * A descriptor of the character device at `path`, or -ENODEV, -EACCES … with its name in the text.
 */
int otte_ledger_node_open(const char *path);

#endif
