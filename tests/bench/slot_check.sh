#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Checks of the slot gate call the system never, where the clock does not: a run of many makes no more calls
# than a run of few, but for some by which an engine's threads wait for each other. Only the thread that checks
# is looked at.
#
#   slot_check.sh PROGRAM GATE...      last line: "N passed, N failed, N skipped"
set -u
program=$1
shift
many=1000000 few=1000
passed=0 failed=0 skipped=0
source=$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)
echo "clock source: $source"
table=$(mktemp -d)
trap 'rm -rf "$table"' EXIT

# calls GATE CHECKS: system calls, all together
calls() {
    strace -c -U calls,name -o "$table/out" "$program" "$1" "$2" >/dev/null || return 1
    awk '$2 == "total" { print $1 }' "$table/out"
}

if ! strace -c -o /dev/null true 2>/dev/null; then
    echo "no strace here"
    skipped=$#
    set --
fi
for gate in "$@"; do
    "$program" "$gate" "$many" || exit 1
    if [ "$source" != tsc ]; then
        echo "$gate: this clock may call the system, not judged"
        skipped=$((skipped + 1))
        continue
    fi
    before=$(calls "$gate" "$few") && after=$(calls "$gate" "$many") || exit 1
    echo "$gate: $before calls with $few checks, $after with $many"
    if [ "$after" -le $((before + 100)) ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        cat "$table/out"
    fi
done
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
