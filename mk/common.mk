# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What both programs have: command line, messages, tables, files, signals.

TOOLS_COMMON_OBJ = $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tools/common/*.c)))
