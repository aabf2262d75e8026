#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Gives each fuzz target a fixed number of runs, or of seconds.
#
#   tests/fuzz/run.sh NAME:RUNS... | NAME:SECONDSs...
#
# Each target counts as one test. With RUNS what it learns goes to a directory that is emptied first, so
# that two runs from one SEED do the same; with seconds it is kept and built upon.
# Closing line: "N passed, N failed, N skipped".
set -u
O=${O:-build} SEED=${SEED:-1}
passed=0 failed=0

for target in "$@"; do
    name=${target%%:*} amount=${target##*:} log=$O/fuzz/$name.log
    if [ "${amount%s}" != "$amount" ]; then
        learned=$O/fuzz/corpus/$name limit=-max_total_time=${amount%s}
    else
        learned=$O/fuzz/learned/$name limit=-runs=$amount amount="$amount runs"
        rm -rf "$learned"
    fi
    mkdir -p "$learned"
    options=(-seed="$SEED" "$limit" -timeout=60 -rss_limit_mb=1024 -print_final_stats=1
        -artifact_prefix="$O/fuzz/$name-")
    [ ! -e "tests/fuzz/$name.dict" ] || options+=(-dict="tests/fuzz/$name.dict")
    if "$O/fuzz/$name" "${options[@]}" "$learned" "tests/fuzz/corpus/$name" >"$log" 2>&1 &&
        grep -q "^stat::number_of_executed_units: " "$log"; then
        passed=$((passed + 1)) verdict=passed
    else
        failed=$((failed + 1)) verdict=FAILED
        tail -n 40 "$log"
    fi
    printf '%s: %s (seed %s, %s, %s executions, %s)\n' "$name" "$verdict" "$SEED" "$amount" \
        "$(sed -n 's/^stat::number_of_executed_units: //p' "$log")" \
        "$(grep -aoE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$log" | tail -n 1)"
done
printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
