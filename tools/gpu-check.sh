#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What is shown on a machine with a GPU, in one go and well inside ten minutes: the programs of tests/gpu over its
# driver, the same under compute-sanitizer where that is there, and the figures of `otte bench --copy`.
#
#   tools/gpu-check.sh [--no-bench] [BUILD]      BUILD is build/gcc, or what `make gpu-bundle` made
#
# OUT is a folder for what it printed (gpu-check.out): machine.txt, tests.txt, sanitizer.txt, copy.txt, copy.json.
# Closing line: "N passed, N failed, N skipped".
set -uo pipefail

bench=1
if [ "${1:-}" = --no-bench ]; then
    bench=
    shift
fi
build=${1:-build/gcc}
out=${OUT:-gpu-check.out}
here=$(cd "$(dirname "$0")/.." && pwd)
[ ! -d "$build/lib" ] || export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
mkdir -p "$out" || exit 5
commit=$(git -C "$here" describe --always --dirty 2>/dev/null || cat "$build/commit" 2>/dev/null || echo unknown)
passed=0 failed=0 skipped=0

count() {
    local p f s
    read -r p f s < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$1" | tail -n 1)
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
}

{
    echo "commit $commit"
    uname -sr
    nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current \
        --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
    grep -m 1 'model name' /proc/cpuinfo
    nproc
} >"$out/machine.txt"
cat "$out/machine.txt"

programs=()
for program in "$build"/gpu/*; do
    case $program in *.tmp | */copy_probe) ;; *) [ -x "$program" ] && programs+=("$program") ;; esac
done
"$here/tests/run-programs.sh" "${programs[@]}" >"$out/tests.txt" 2>&1
tail -n $((${#programs[@]} + 1)) "$out/tests.txt"
count "$out/tests.txt"

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
: >"$out/sanitizer.txt"
for tool in memcheck initcheck; do
    if [ -z "$sanitizer" ]; then
        echo "skipped: compute-sanitizer --tool $tool: there is none"
        skipped=$((skipped + 1))
    elif "$sanitizer" --tool "$tool" --error-exitcode 9 "$build/gpu/copies" >>"$out/sanitizer.txt" 2>&1; then
        echo "passed: compute-sanitizer --tool $tool: $(grep 'ERROR SUMMARY' "$out/sanitizer.txt" | tail -n 1)"
        passed=$((passed + 1))
    else
        echo "FAILED: compute-sanitizer --tool $tool: $(tail -n 1 "$out/sanitizer.txt")"
        failed=$((failed + 1))
    fi
done

if [ -n "$bench" ]; then
    if "$build/otte" bench --copy --check --note "commit $commit" --report "$out/copy.json" >"$out/copy.txt" 2>&1; then
        echo "passed: otte bench --copy meets its bars"
        passed=$((passed + 1))
    else
        echo "FAILED: otte bench --copy, exit status $?"
        failed=$((failed + 1))
    fi
    cat "$out/copy.txt"
fi

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
