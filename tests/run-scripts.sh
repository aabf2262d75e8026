#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs scripts that each end with "N passed, N failed, N skipped", and sums the counts. A script that
# ends without such a line counts as one failure.
set -u
p=0 f=0 s=0
for script in "$@"; do
    printf '%s\n' "-- $script"
    out=$(mktemp)
    "$script" 2>&1 | tee "$out"
    rc=${PIPESTATUS[0]}
    if read -r pp _ ff _ ss _ < <(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$out" |
        tail -n 1); then
        [ "$rc" -eq 0 ] || [ "$ff" -ne 0 ] || ff=1
        p=$((p + pp)) f=$((f + ff)) s=$((s + ss))
    else
        f=$((f + 1))
    fi
    rm -f "$out"
done
printf '%d passed, %d failed, %d skipped\n' "$p" "$f" "$s"
[ "$f" -eq 0 ]
