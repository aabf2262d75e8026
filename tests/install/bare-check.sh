#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The README's promises to somebody whose machine has make and nothing else, each on a root of its own.
# Each has LIMIT seconds (900), most of which a slow mirror of Debian's may take; the time of each is shown.
# Closing line: "N passed, N failed, N skipped".
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
passed=0 failed=0 skipped=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# Into a file and not a pipe: whoever keeps a pipe open would be waited for.
try() {
    local what=$1 command=$2 begin=$SECONDS rc
    timeout -k 10 "${LIMIT:-900}" "$here/bare.sh" "$command" >"$said" 2>&1 </dev/null
    rc=$?
    case $rc in
    0) passed=$((passed + 1)) && printf 'passed: %s' "$what" ;;
    77) skipped=$((skipped + 1)) && printf 'skipped: %s: %s' "$what" "$(tail -n 1 "$said")" ;;
    124 | 137) failed=$((failed + 1)) && tail -n 40 "$said" && printf 'FAILED, out of time: %s' "$what" ;;
    *) failed=$((failed + 1)) && tail -n 40 "$said" && printf 'FAILED: %s' "$what" ;;
    esac
    printf ' (%d s)\n' $((SECONDS - begin))
}

try 'make help says nothing else' 'make help 2>&1 >/dev/null | (! grep .)'
try 'make demo' 'make demo'
try 'make install, and the tool runs' 'make install PREFIX=/usr && otte --version'
# shellcheck disable=SC2016 # expanded over there
try 'the first program, by its README' \
    'make install PREFIX=/usr && gcc examples/first.c -o first $(pkg-config --cflags --libs libotte) && ./first'
# shellcheck disable=SC2016
try 'make deps brings all that make check needs, whose short parts run' \
    'make deps && test -z "$(make -s deps)" && make check CHECK_PARTS="unit install" CHECK_LAST_PARTS='

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
