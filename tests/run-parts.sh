#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs test parts in order and sums their counts.
#
#   tests/run-parts.sh NAME:MINUTES...
#
# Each part is `make check-part-NAME`; its last line "N passed, N failed, N skipped" is its count.
# A part that exits non-zero without counting a failure counts as one failure; so does a part that
# counts nothing at all, because an empty run proves nothing. A part that outlives three times its
# budget is ended and counts as failed.
set -u

passed=0 failed=0 skipped=0
table=()
bad=()
logs=${O:-build}/logs
mkdir -p "$logs"

# What of a part failed, in a few lines: they stand at the very end, which is what is kept of a long log.
failure='(^|[[:space:]]|\[ *)(not ok|FAIL|FAILED|ERROR)([]: ]|$)|Failure!|Sanitizer:'
failure+='|[ ,][1-9][0-9]* failed|error:|Could not run test'
tell() {
    grep -aE "$failure" "$logs/$1.log" | tail -n 15 | cut -c 1-300 | sed "s/^/  $1: /"
}

for part in "$@"; do
    name=${part%%:*} budget=${part##*:}
    [ "$budget" != "$part" ] && [ -n "$budget" ] || budget=5
    printf '=== %s (budget %s min)\n' "$name" "$budget"
    start=$(date +%s)
    timeout -k 10 $((budget * 180)) make --no-print-directory "check-part-$name" 2>&1 |
        tee "$logs/$name.log"
    rc=${PIPESTATUS[0]}
    secs=$(($(date +%s) - start))
    line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$logs/$name.log" | tail -n 1)
    read -r p f s < <(sed -E 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/' \
        <<<"${line:-0 passed, 0 failed, 0 skipped}")
    s=${s:-0}
    note=
    if [ "$rc" -eq 124 ] || [ "$rc" -eq 137 ]; then
        f=$((f + 1)) note=" (ended: over three times its budget)"
        printf '=== %s was ended; the last that it said (%s):\n' "$name" "$logs/$name.log"
        tail -n 40 "$logs/$name.log"
    elif [ "$rc" -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1 note=" (exit status $rc)"
    elif [ $((p + f)) -eq 0 ]; then
        f=1 note=" (counted nothing)"
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    [ "$f" -eq 0 ] || bad+=("$name")
    table+=("$(printf '%-20s %5d passed %3d failed %3d skipped %4d:%02d of %d min%s' \
        "$name" "$p" "$f" "$s" $((secs / 60)) $((secs % 60)) "$budget" "$note")")
done

printf '\n'
printf '%s\n' "${table[@]}"
for name in "${bad[@]}"; do
    tell "$name"
done
[ ${#bad[@]} -eq 0 ] || printf 'failed parts: %s\n' "${bad[*]}"
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
