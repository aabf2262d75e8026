#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The program ottectl where no module is loaded: what is wrong with a command line is said by name, before
# anything is asked. tests/ottectl has it beside the module.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ctl=$(dirname "$OTTE")/ottectl

test_an_unknown_option_and_an_unknown_command_are_told_apart() {
    exits 1 "$ctl" --frob && says 'ottectl: unknown option "--frob"; see ottectl --help'
    exits 1 "$ctl" -x && says 'unknown option "-x"'
    exits 1 "$ctl" frob && says 'unknown command "frob"'
    exits 1 "$ctl" status --frob && says "unrecognized option '--frob'"
}

test_a_file_of_limits_that_is_named_has_to_be_there() {
    exits 5 "$ctl" limits apply --file "$scratch/typo"
    says "ottectl limits: $scratch/typo: No such file or directory"
    exits 5 "$ctl" limits apply --file "$scratch" && says "$scratch"
    exits 5 "$ctl" limits get --file "$scratch/typo"
    says "ottectl limits: $scratch/typo: No such file or directory"
    echo '{"user": {"holds": 9}}' >"$scratch/limits"
    [ -e /sys/class/misc/otte ] || exits 2 "$ctl" limits apply --file "$scratch/limits"
    # The usual file is the one that a machine without limits does not have.
    [ -e /etc/otte/limits.json ] || [ -e /sys/class/misc/otte ] || exits 2 "$ctl" limits apply
}

test_options_of_set_are_refused_by_name_elsewhere() {
    exits 1 "$ctl" limits apply --volatile && says 'apply: --volatile is for set'
    exits 1 "$ctl" limits --file-only && says 'get: --file-only is for set'
    exits 1 "$ctl" limits apply user.holds=9 && says '"user.holds=9"'
}

test_what_a_domain_shall_be_is_refused_by_name_where_none_is_made_or_changed() {
    exits 1 "$ctl" domains --interval 5 && says 'list: --interval is for create and set'
    exits 1 "$ctl" domains list --pattern low && says 'list: --pattern is for create and set'
    exits 1 "$ctl" domains delete lab --mode 0111 && says 'delete: --mode is for create and set'
    exits 1 "$ctl" domains delete lab --uid 5 && says '--uid'
    exits 1 "$ctl" domains delete lab --gid 5 && says '--gid'
    exits 1 "$ctl" domains --frob && says "unrecognized option '--frob'"
}

test_words_that_domains_does_not_know_are_named() {
    exits 1 "$ctl" domains create && says 'create: give the NAME'
    exits 1 "$ctl" domains remove lab && says '"remove" is none of list, create, set, delete'
    exits 1 "$ctl" domains remove && says '"remove" is none of'
    exits 1 "$ctl" domains set lab low && says 'set: "low": one NAME, and no more'
    exits 1 "$ctl" domains list lab && says 'list: "lab"'
    exits 1 "$ctl" domains create this-name-is-longer-than-any-domain-has && says 'is longer than 31 bytes'
}

test_metrics_replace_a_file_and_nothing_else() {
    [ "$(id -u)" -eq 0 ] || fail "needs root to make a device like /dev/full"
    local reader
    exits 1 "$ctl" metrics -o '' && says 'ottectl metrics: -o: the name of the file is empty'
    exits 0 "$ctl" metrics -o "$scratch/new.prom"
    [ "$(stat -c %a "$scratch/new.prom")" = 644 ] || fail "a new file has $(stat -c %a "$scratch/new.prom")"
    cp "$scratch/new.prom" "$scratch/wanted"
    echo old >"$scratch/target" && chmod 600 "$scratch/target" && ln -s target "$scratch/link"
    exits 0 "$ctl" metrics -o "$scratch/link"
    [ -L "$scratch/link" ] || fail "the link is gone"
    same_content "$scratch/target" "$scratch/wanted"
    [ "$(stat -c %a "$scratch/target")" = 600 ] || fail "600 is now $(stat -c %a "$scratch/target")"
    ln -s later "$scratch/ahead"
    exits 0 "$ctl" metrics -o "$scratch/ahead"
    same_content "$scratch/later" "$scratch/wanted"
    mknod "$scratch/full" c 1 7
    exits 5 "$ctl" metrics -o "$scratch/full" && says "$scratch/full: No space left on device"
    [ -c "$scratch/full" ] || fail "the device is gone"
    mkfifo "$scratch/pipe"
    cat "$scratch/pipe" >"$scratch/read" &
    reader=$!
    exits 0 timeout 10 "$ctl" metrics -o "$scratch/pipe"
    [ -p "$scratch/pipe" ] || { kill "$reader" && fail "the pipe is gone"; }
    wait "$reader"
    same_content "$scratch/read" "$scratch/wanted"
    [ -z "$(find "$scratch" -name '*.prom.*' -o -name 'target.*')" ] || fail "a file is left"
}

run_tests
