#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The README's promises to somebody whose machine has make and nothing else, each on a root of its own.
# Closing line: "N passed, N failed, N skipped".
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
passed=0 failed=0 skipped=0

try() {
    local what=$1 command=$2 out rc
    out=$("$here/bare.sh" "$command" 2>&1)
    rc=$?
    case $rc in
    0) passed=$((passed + 1)) && printf 'passed: %s\n' "$what" ;;
    77) skipped=$((skipped + 1)) && printf 'skipped: %s\n%s\n' "$what" "$out" ;;
    *) failed=$((failed + 1)) && printf 'FAILED: %s\n%s\n' "$what" "$out" | tail -n 40 ;;
    esac
}

try 'make help says nothing else' 'make help 2>&1 >/dev/null | (! grep .)'
try 'make demo' 'make demo'
try 'make install, and the tool runs' 'make install PREFIX=/usr && otte --version'
# shellcheck disable=SC2016 # expanded over there
try 'the first program, by its README' \
    'make install PREFIX=/usr && gcc examples/first.c -o first $(pkg-config --cflags --libs libotte) && ./first'

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
