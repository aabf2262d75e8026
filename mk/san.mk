# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The unit programs once more under each sanitizer and, in the small form of the slow ones, under
# valgrind; and the library and the programs through clang, warnings being errors.

SANITIZERS := address,undefined thread
# Programs that start no thread of the library's and finish under valgrind in seconds.
VALGRIND_UNITS := base config control ledger

CHECK_PARTS += san clang
budget-san := 8
budget-clang := 2

.PHONY: check-part-san
check-part-san:
	@VALGRIND_UNITS="$(VALGRIND_UNITS)" O=$(O) tests/run-sanitizers.sh $(SANITIZERS)

.PHONY: check-part-clang
check-part-clang:
	@$(MAKE) --no-print-directory -j$$(nproc) CC=clang lib unit-programs >/dev/null
	@$(MAKE) --no-print-directory CC=clang check-part-unit
