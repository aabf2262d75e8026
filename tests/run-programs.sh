#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs cmocka programs and counts their tests from cmocka's own closing lines. A program that dies
# without them counts as one failure. RUN_WITH, e.g. valgrind and its options, goes before each.
# Closing line: "N passed, N failed, N skipped".
set -u

# cmocka names a failed or skipped test twice: where it ran, and in a list at the end of its group.
count() {
    awk -v word="$1" '/listed below:$/ { list = 1 } /^\[=====/ { list = 0 }
        !list && $0 ~ "^\\[ +" word " *\\] [A-Za-z_0-9]+$" { n++ } END { print n + 0 }'
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# JOBS of them beside each other, 1 where it is not said: most of their time they wait. They are told in their order.
run() {
    ${RUN_WITH:-} "$2" >"$out/$1" 2>&1
    echo $? >"$out/$1.rc"
}
i=0
for program in "$@"; do
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-1}" ]; do
        wait -n
    done
    i=$((i + 1))
    run "$i" "$program" &
done
wait

p=0 f=0 s=0 i=0
for program in "$@"; do
    i=$((i + 1))
    said=$out/$i rc=$(cat "$out/$i.rc" || echo 255)
    pp=$(count OK <"$said") ff=$(count FAILED <"$said") ss=$(count SKIPPED <"$said")
    if [ "$rc" -ne 0 ] || [ "$ff" -ne 0 ]; then
        [ "$ff" -ne 0 ] || ff=1
        # What failed first may stand far above the report of a sanitizer that followed from it.
        grep -aE '^Could not run test|^\[ +(LINE|ERROR) +\]' "$said" | head -n 20
        tail -n 60 "$said"
    fi
    printf '%s: %d passed, %d failed, %d skipped (exit status %d)\n' \
        "$(basename "$program")" "$pp" "$ff" "$ss" "$rc"
    p=$((p + pp)) f=$((f + ff)) s=$((s + ss))
done
printf '%d passed, %d failed, %d skipped\n' "$p" "$f" "$s"
[ "$f" -eq 0 ]
