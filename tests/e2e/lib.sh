# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034 # variables for those who source this
#
# For tests of the program: a test is a bash function named by the rule that it proves; it runs in a
# subshell with a scratch folder of its own as $scratch, and fails by returning non-zero. A script
# sources this, defines its tests, and ends with `run_tests`.
#
#   OTTE   the program

set -u
OTTE=${OTTE:-build/gcc/otte}
OTTE=$(realpath "$OTTE")
# What a user's environment has for the build and the laboratory the program would take for misspelt keys, and say so.
for variable in "${!OTTE_@}"; do
    [ "$variable" = OTTE_TRACE ] || unset "$variable"
done
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

# Say why, and fail: `expect TEST... || return 1` reads badly, so this ends the test's subshell.
fail() {
    printf '    %s\n' "$*" >&2
    exit 1
}

# With -e jq 1.6 takes a file that is empty for one in which everything holds.
jq() {
    [ "$1" != -e ] || [ -s "${!#}" ] || return 4
    command jq "$@"
}

# exits CODE COMMAND...: its output is in $scratch/out and $scratch/err
exits() {
    local wanted=$1 got
    shift
    "$@" >"$scratch/out" 2>"$scratch/err"
    got=$?
    [ "$got" -eq "$wanted" ] ||
        fail "exit status $got, not $wanted, of: $*; it said: $(tail -n 3 "$scratch/err")"
}

# says TEXT: the last command's complaint holds it
says() {
    grep -qF -- "$1" "$scratch/err" ||
        fail "no \"$1\" in what was said: $(tail -n 3 "$scratch/err")"
}

same_content() {
    [ "$(sha256sum <"$1")" = "$(sha256sum <"$2")" ] || fail "$1 and $2 differ"
}

# serve ARGUMENTS...: starts `otte serve`, sets $server and $endpoint
serve() {
    rm -f "$scratch/endpoint"
    "$OTTE" serve --port-file "$scratch/endpoint" "$@" >"$scratch/serve.out" 2>"$scratch/serve.err" &
    server=$!
    wait_for_file "$scratch/endpoint" || fail "the server did not start: $(cat "$scratch/serve.err")"
    endpoint=$(cat "$scratch/endpoint")
}

# End the server; its exit status is $server_status.
stop_serving() {
    kill -TERM "$server"
    wait "$server"
    server_status=$?
    server=
}

wait_for_file() {
    for _ in $(seq 600); do
        [ -e "$1" ] && return 0
        [ -z "${server:-}" ] || kill -0 "$server" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

# eventually COMMAND...: until it succeeds, for half a minute
eventually() {
    for _ in $(seq 600); do
        "$@" && return 0
        sleep 0.05
    done
    return 1
}

# is_content TEXT FILE: FILE holds that line and nothing else
is_content() {
    [ "$(cat "$2" 2>/dev/null)" = "$1" ]
}

# server_counts FILTER: its counters, now in $scratch/counts, are so
server_counts() {
    "$OTTE" stats "$server" --json >"$scratch/counts" && jq -e "$1" "$scratch/counts" >/dev/null
}

# stop_in_the_middle NAME FILE: starts a pull of the region NAME into FILE, and stops it while it holds
# FILE.partial: $puller. One that was over before it could be stopped is started again.
stop_in_the_middle() {
    for _ in $(seq 50); do
        rm -f "$2"
        "$OTTE" pull "$endpoint/$1" -o "$2" >/dev/null 2>"$scratch/err" &
        puller=$!
        until [ -e "$2.partial" ] || [ -e "$2" ] || ! kill -0 "$puller" 2>/dev/null; do
            sleep 0.005
        done
        kill -STOP "$puller" 2>/dev/null
        until [[ $(ps -o state= -p "$puller") != [RSD] ]]; do
            sleep 0.005
        done
        [ ! -e "$2.partial" ] || return 0
        kill -CONT "$puller" 2>/dev/null
        wait "$puller" || fail "the pull ended with $?: $(cat "$scratch/err")"
    done
    fail "no pull was to be stopped in the middle"
}

end_test() {
    [ -z "${server:-}" ] || { kill -KILL "$server" && wait "$server"; } 2>/dev/null
    [ -z "${puller:-}" ] || { kill -KILL "$puller" && wait "$puller"; } 2>/dev/null
    ! mountpoint -q "$scratch/mount" 2>/dev/null || umount "$scratch/mount"
    rm -rf "$scratch"
}

run_one() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/otte-e2e.XXXXXX")
    server=
    trap end_test EXIT
    "$1"
}

run_tests() {
    local passed=0 failed=0 skipped=0 name rc
    for name in $(declare -F | awk '{ print $3 }' | grep -E '^test_'); do
        (run_one "$name")
        rc=$?
        case $rc in
        0) passed=$((passed + 1)) && printf 'ok    %s\n' "${name#test_}" ;;
        77) skipped=$((skipped + 1)) && printf 'skip  %s\n' "${name#test_}" ;;
        *) failed=$((failed + 1)) && printf 'FAIL  %s\n' "${name#test_}" ;;
        esac
    done
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" -eq 0 ]
}
