# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What otte.ko costs, as instruction counts in a guest. The library's own benchmark is in mk/tools.mk.

CHECK_PARTS += kmod-bench
budget-kmod-bench := 1

# On a loaded machine of two cores a setting of a kernel takes some two minutes.
.PHONY: bench-kmod check-part-kmod-bench
bench-kmod: ## otte.ko beside what the kernel has without it, fails below the bars; BENCH_FLAGS adds options
	@tests/bench/kmod.sh $(BENCH_FLAGS)

# That every figure can be taken; judged by bench-kmod alone.
check-part-kmod-bench:
	@mkdir -p $(O)/bench
	@tests/bench/kmod.sh --quick --json --kernel 6.12 --setting stock >$(O)/bench/quick.json
	@awk '/"figure"/ { if (/"floor_ns":[1-9]/ && /"otte_ns":[1-9]/) good++; else { bad++; print } } \
		END { printf "%d passed, %d failed, 0 skipped\n", good, bad }' $(O)/bench/quick.json
