#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Every static rule over this tree, then the rules' own test. One rule, one test.
# Closing line: "N passed, N failed, N skipped".
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
passed=0 failed=0

for rule in $("$here/rules.sh" list); do
    start=$(date +%s)
    if found=$("$here/rules.sh" "$rule" "$root" 2>&1); then
        passed=$((passed + 1)) verdict=passed
    else
        failed=$((failed + 1)) verdict=FAILED
        head -n 200 <<<"$found"
    fi
    printf '%s: %s (%d s)\n' "$rule" "$verdict" $(($(date +%s) - start))
done

# Same sources, the other compiler: its warnings are errors too.
if found=$(make --no-print-directory -C "$root" CC=clang static-build 2>&1); then
    passed=$((passed + 1))
    echo 'clang: passed'
else
    failed=$((failed + 1))
    printf '%s\n' "$found" | tail -n 60
    echo 'clang: FAILED'
fi

if counts=$("$here/selftest.sh"); then
    :
else
    printf '%s\n' "$counts"
fi
read -r p f < <(tail -n 1 <<<"$counts" | sed -E 's/^([0-9]+) passed, ([0-9]+) failed.*/\1 \2/')
printf 'selftest: %d violations found as planted, %d not\n' "$p" "$f"
passed=$((passed + p)) failed=$((failed + f))

printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
