#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Gives each fuzz target a fixed number of runs from a fixed seed.
#
#   tests/fuzz/run.sh NAME:RUNS...
#
# Each target counts as one test. What it learns goes to a directory that is emptied first, so that
# two runs do the same. Closing line: "N passed, N failed, N skipped".
set -u
O=${O:-build} SEED=${SEED:-1}
passed=0 failed=0

for target in "$@"; do
    name=${target%%:*} runs=${target##*:}
    learned=$O/fuzz/learned/$name log=$O/fuzz/$name.log
    rm -rf "$learned"
    mkdir -p "$learned"
    options=(-seed="$SEED" -runs="$runs" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1
        -artifact_prefix="$O/fuzz/$name-")
    [ ! -e "tests/fuzz/$name.dict" ] || options+=(-dict="tests/fuzz/$name.dict")
    if "$O/fuzz/$name" "${options[@]}" "$learned" "tests/fuzz/corpus/$name" >"$log" 2>&1 &&
        grep -q "^stat::number_of_executed_units: " "$log"; then
        passed=$((passed + 1)) verdict=passed
    else
        failed=$((failed + 1)) verdict=FAILED
        tail -n 40 "$log"
    fi
    printf '%s: %s (seed %s, %s runs, %s)\n' "$name" "$verdict" "$SEED" "$runs" \
        "$(grep -aoE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$log" | tail -n 1)"
done
printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
