#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The programs of this folder (HOSTS_BIN), for tests/run-scripts.sh.
# shellcheck disable=SC2086 # a list
exec "$(dirname "$0")/../run-programs.sh" ${HOSTS_BIN:?}
