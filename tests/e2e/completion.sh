#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Completion offers what the program has.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tools/otte/otte.bash
. "$root/tools/otte/otte.bash"
# shellcheck source=tools/ottectl/ottectl.bash
. "$root/tools/ottectl/ottectl.bash"

# completes WANTED WORDS...: the last word is the one under the cursor
completes() {
    completed _otte "$OTTE" "$@"
}

admin_completes() {
    completed _ottectl "$(dirname "$OTTE")/ottectl" "$@"
}

completed() {
    local complete=$1 program=$2 wanted=$3
    shift 3
    COMP_WORDS=("$program" "$@")
    COMP_CWORD=$#
    "$complete" "$program" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
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
    completes '--quiet' replay --q
    completes '--product-size' bench --copy --prod
}

test_values_with_a_fixed_choice_are_completed() {
    completes 'read' bench --op r
    completes 'to-device to-host' bench --copy --directions to
    completes 'warning' ls --log-level w
}

test_the_administrators_commands_options_and_settings_are_completed() {
    admin_completes 'monitor metrics' m
    admin_completes '--release' retained --rel
    admin_completes 'get' limits g
    admin_completes 'user.pinned_bytes=' limits set user.pin
    admin_completes 'create' domains c
    admin_completes '--interval' domains create lab --int
}

# Who adds a resource to the module learns here where else it is named.
test_the_modules_resources_have_one_name_everywhere() {
    local wanted completed
    wanted=$(sed -n 's/^\t\[OTTE_RES_[A-Z_]*\] = "\(.*\)",$/\1/p' "$root/kmod/quota.c" | tr '\n' ' ')
    [ -n "$wanted" ] || fail "kmod/quota.c names none"
    completed=$(_ottectl_settings | sed -n 's/^user\.\(.*\)=$/\1/p' | tr '\n' ' ')
    [ "$completed" = "$wanted" ] || fail "completion has $completed, not $wanted"
    completed=$("$(dirname "$OTTE")/ottectl" limits --help | tr '\n' ' ' |
        sed -E 's/.*RESOURCE is (.*); AMOUNT.*/\1/; s/,? or |, /,/g' | tr ',' ' ')
    [ "$completed " = "$wanted" ] || fail "the help has $completed, not $wanted"
}

run_tests
