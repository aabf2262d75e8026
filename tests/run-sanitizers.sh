#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Builds and runs the unit programs under each sanitizer named, and those of VALGRIND_UNITS under
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

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# series NAME COMMAND...: its output is counted at the end. Two go on beside each other, since the programs of a
# series run one by one, and wait about as much as they compute.
names=()
series() {
    local name=$1
    shift
    names+=("$name")
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do
        wait -n
    done
    "$@" >"$out/$name" 2>&1 &
}

broken() {
    printf '%s: does not build\n%s\n' "$1" "$2"
    failed=$((failed + 1))
}

under_valgrind() {
    local unit programs=()
    for unit in $VALGRIND_UNITS; do
        programs+=("$O/gcc/unit/$unit")
    done
    OTTE_TEST_SMALL=1 RUN_WITH="valgrind -q --error-exitcode=99 --leak-check=full \
        --errors-for-leak-kinds=definite,indirect --fair-sched=yes" tests/run-programs.sh "${programs[@]}"
}

# Built before anything runs: a compiler beside them would take the time that tests count on.
ready=()
for san in "$@"; do
    if errors=$(build SAN="$san"); then
        ready+=("$san")
    else
        broken "$san" "$errors"
    fi
done
if errors=$(build CC=gcc); then
    valgrind=1
else
    valgrind=
    broken valgrind "$errors"
fi

for san in "${ready[@]}"; do
    series "$san" tests/run-programs.sh "$O/san-${san//,/-}"/unit/*
done
[ -z "$valgrind" ] || series valgrind under_valgrind
wait
for name in "${names[@]}"; do
    count "$name" "$(cat "$out/$name")"
done
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
