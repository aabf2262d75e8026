# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# otte.ko: its build, its static checks and its tests in guests.

DEPS_KMOD := gcc-12 sparse perl libc6-dev

CHECK_PARTS += kmod-static kselftest-6.1 kselftest-6.12 kselftest-debug
budget-kmod-static := 2
budget-kselftest-6.1 := 5
budget-kselftest-6.12 := 5
budget-kselftest-debug := 5

# Long forms, on the debug kernel: all sizes, the whole storm, a million random calls; and KCSAN.
CHECK_LONG_PARTS += kselftest-long kselftest-kcsan
budget-kselftest-long := 60
budget-kselftest-kcsan := 20

KSELFTEST := tests/kselftest/run

# Reduced for an emulated kernel with KASAN and lockdep; the counts are printed.
KSELFTEST_DEBUG := --env OTTE_SWEEP_STEP=128 --env OTTE_FUZZ_CALLS=100000 \
	--env OTTE_STORM_CLIENTS=30 --env OTTE_STORM_LOANS=20 --env OTTE_STORM_SLOW=1 \
	--env OTTE_STALL_LOANS=10000

.PHONY: kmod check-part-kmod-static check-part-kselftest-6.1 check-part-kselftest-6.12
.PHONY: check-part-kselftest-debug check-part-kselftest-long check-part-kselftest-kcsan

kmod: ## otte.ko for the stock kernels
	@tests/vm/build-module --kernel 6.1 --w1
	@tests/vm/build-module --kernel 6.12 --w1

check-part-kmod-static:
	@tests/kselftest/static

check-part-kselftest-6.1 check-part-kselftest-6.12: check-part-kselftest-%:
	@$(KSELFTEST) --kernel $*

check-part-kselftest-debug:
	@$(KSELFTEST) --kernel debug --timeout 480 $(KSELFTEST_DEBUG)

# What the debug kernel has no minutes for in `make check`; its sweeps are full on the stock kernels.
check-part-kselftest-long:
	@$(KSELFTEST) --kernel debug --timeout 5400 --env OTTE_FUZZ_CALLS=1000000 \
		--env OTTE_STORM_SLOW=1 fuzz storm

check-part-kselftest-kcsan:
	@$(KSELFTEST) --kernel kcsan --timeout 1200 $(KSELFTEST_DEBUG) \
		slice loans memory map death fuzz
