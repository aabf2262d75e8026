#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Completion offers what the program has.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tools/otte/otte.bash
. "$root/tools/otte/otte.bash"

# completes WANTED WORDS...: the last word is the one under the cursor
completes() {
    local wanted=$1
    shift
    COMP_WORDS=("$OTTE" "$@")
    COMP_CWORD=$#
    _otte "$OTTE" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
    [ "${COMPREPLY[*]}" = "$wanted" ] || fail "\"$*\" gives \"${COMPREPLY[*]}\", not \"$wanted\""
}

test_commands_are_completed() {
    completes 'pull push' pu
    completes replay rep
}

test_options_are_those_of_the_help() {
    completes '--floor --floor-only' bench --fl
    completes '--close-timeout' serve --clo
    completes '--anon' serve --an
}

test_values_with_a_fixed_choice_are_completed() {
    completes 'read' bench --op r
    completes 'warning' ls --log-level w
}

run_tests
