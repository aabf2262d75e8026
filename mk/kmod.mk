# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# otte.ko: its build, its static checks and its tests in guests.

DEPS_KMOD := gcc-12 sparse perl libc6-dev

CHECK_PARTS += kmod-static kselftest-6.1 kselftest-6.12
budget-kmod-static := 2
budget-kselftest-6.1 := 2
budget-kselftest-6.12 := 2

.PHONY: kmod check-part-kmod-static check-part-kselftest-6.1 check-part-kselftest-6.12

kmod: ## otte.ko for the stock kernels
	@tests/vm/build-module --kernel 6.1
	@tests/vm/build-module --kernel 6.12

check-part-kmod-static:
	@tests/kselftest/static

check-part-kselftest-6.1 check-part-kselftest-6.12: check-part-kselftest-%:
	@tests/kselftest/run --kernel $*
