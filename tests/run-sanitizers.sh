#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Builds and runs the unit programs under each sanitizer named, then those of VALGRIND_UNITS under
# valgrind with OTTE_TEST_SMALL=1, which the slow ones take as a wish for their small form.
#
#   tests/run-sanitizers.sh SAN...
#
# Any report is a failure of the program that made it. Closing line: "N passed, N failed, N skipped".
set -u
O=${O:-build}
passed=0 failed=0 skipped=0

export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/tsan.supp

# Takes the counts off the last line of a run; the rest of it is shown under this name.
count() {
    local name=$1 line p f s
    line=$(tail -n 1 <<<"$2")
    sed '$d' <<<"$2" | sed "s/^/$name: /"
    if ! read -r p f s < <(sed -nE \
        's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' <<<"$line"); then
        printf '%s: no result: %s\n' "$name" "$line"
        p=0 f=1 s=0
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

build() {
    { make --no-print-directory -j"$(nproc)" "$@" unit-programs >/dev/null; } 2>&1
}

for san in "$@"; do
    if ! errors=$(build SAN="$san"); then
        printf '%s: does not build\n%s\n' "$san" "$errors"
        failed=$((failed + 1))
        continue
    fi
    count "$san" "$(tests/run-programs.sh "$O/san-${san//,/-}"/unit/*)"
done

if ! errors=$(build CC=gcc); then
    printf 'valgrind: does not build\n%s\n' "$errors"
    failed=$((failed + 1))
else
    programs=()
    for unit in $VALGRIND_UNITS; do
        programs+=("$O/gcc/unit/$unit")
    done
    count valgrind "$(OTTE_TEST_SMALL=1 RUN_WITH="valgrind -q --error-exitcode=99 \
        --leak-check=full --errors-for-leak-kinds=definite,indirect --fair-sched=yes" \
        tests/run-programs.sh "${programs[@]}")"
fi
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
