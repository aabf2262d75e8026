# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The program in two processes, as its users run it. Each tests/e2e/*.sh but lib.sh counts its tests.

E2E_SCRIPTS := $(filter-out tests/e2e/lib.sh,$(sort $(wildcard tests/e2e/*.sh)))

CHECK_PARTS += e2e
CHECK_FAST_PARTS += e2e
budget-e2e := 4

DEPS_E2E := jq util-linux bsdutils mount

.PHONY: check-part-e2e
check-part-e2e: tools # and the simulated GPU, sim-cuda.mk
	@OTTE=$(OTTE_BIN) CUDA_SIM=$(B)/sim/cuda tests/run-scripts.sh $(E2E_SCRIPTS)
