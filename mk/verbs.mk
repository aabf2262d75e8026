# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Verbs and the module's mappings, in a guest with an rxe device.

DEPS_VERBS := libibverbs-dev ibverbs-providers iproute2

CHECK_PARTS += verbs
budget-verbs := 1

.PHONY: check-part-verbs
check-part-verbs:
	@tests/verbs/run
