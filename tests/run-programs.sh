#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs cmocka programs and counts their tests from cmocka's own closing lines. A program that dies
# without them counts as one failure. Closing line: "N passed, N failed, N skipped".
set -u
p=0 f=0 s=0
for program in "$@"; do
    out=$("$program" 2>&1)
    rc=$?
    pp=$(grep -cE '^\[       OK \]' <<<"$out") ss=$(grep -cE '^\[  SKIPPED \] [a-z_0-9]+$' <<<"$out")
    ff=$(grep -cE '^\[  FAILED  \] (GROUP|[a-z_0-9]+)$' <<<"$out")
    if [ "$rc" -ne 0 ] || [ "$ff" -ne 0 ]; then
        [ "$ff" -ne 0 ] || ff=1
        printf '%s\n' "$out" | tail -n 60
    fi
    printf '%s: %d passed, %d failed, %d skipped (exit status %d)\n' \
        "$(basename "$program")" "$pp" "$ff" "$ss" "$rc"
    p=$((p + pp)) f=$((f + ff)) s=$((s + ss))
done
printf '%d passed, %d failed, %d skipped\n' "$p" "$f" "$s"
[ "$f" -eq 0 ]
