#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck disable=SC2317 # tests are called by name
#
# Runs in a guest with the module loaded (busybox): two processes move memory over loopback with
# `ledger = kernel`, and each is killed while memory is lent. Each test is a function named by its rule.
#
#   /t/otte   the program        /t/dump   prints the module's dumps

sysfs=/sys/class/misc/otte
size=67108864
server='' puller=''

fail() {
    echo "    $*" >&2
    echo "    the module: $(/t/dump | tr '\n' ';') $(cd "$sysfs/usage" && grep . ./* | tr '\n' ' ')" >&2
    exit 1
}

usage() {
    cat "$sysfs/usage/$1"
}

# until COMMAND...: within ten seconds
until_true() {
    for _ in $(seq 1000); do
        "$@" && return 0
        usleep 10000
    done
    return 1
}

uses() {
    [ "$(usage "$1")" = "$2" ]
}

records() {
    [ "$(cat "$sysfs/retained_records")" = "$1" ]
}

serve() {
    rm -f /tmp/endpoint
    /t/otte serve --set ledger=kernel --port-file /tmp/endpoint --anon blocks="$size" --writable \
        >/tmp/serve.out 2>/tmp/serve.err &
    server=$!
    until_true [ -s /tmp/endpoint ] || fail "no server: $(cat /tmp/serve.err)"
    endpoint=$(cat /tmp/endpoint)
}

# A pull that stands still while what it reads is lent to it.
pull_and_stop() {
    /t/otte pull --set ledger=kernel --window 64K "$endpoint/blocks" -o /tmp/out 2>/tmp/pull.err &
    puller=$!
    for _ in $(seq 100000); do
        [ "$(usage loans)" -gt 0 ] && break
    done
    kill -STOP "$puller"
    [ "$(usage loans)" -eq 1 ] || fail "$(usage loans) loans: $(cat /tmp/pull.err)"
}

nothing_left() {
    for resource in clients regions registered_bytes pinned_bytes lent_bytes loans retained_bytes holds; do
        until_true uses "$resource" 0 || fail "$resource: $(usage "$resource") left"
    done
    [ -z "$(/t/dump)" ] || fail "the dump is not empty"
}

stop_serving() {
    kill -TERM "$server"
    wait "$server" || fail "the server ended with $?: $(cat /tmp/serve.err)"
}

content_goes_there_and_back_and_nothing_is_left() {
    serve
    dd if=/dev/urandom of=/tmp/in bs=1M count=8 2>/dev/null
    /t/otte push --set ledger=kernel /tmp/in "$endpoint/blocks" || fail "push: $?"
    /t/otte pull --set ledger=kernel "$endpoint/blocks" -o /tmp/out || fail "pull: $?"
    head -c 8388608 /tmp/out | cmp - /tmp/in || fail "content differs"
    until_true uses loans 0 || fail "loans of a peer that left"
    uses regions 1 || fail "regions"
    stop_serving
    nothing_left
}

the_dump_shows_the_standing_loan_while_it_lives() {
    serve
    pull_and_stop
    /t/dump | grep -q "^loan exposed read $size of region" || fail "not in the dump"
    kill -CONT "$puller"
    wait "$puller" || fail "pull: $(cat /tmp/pull.err)"
    until_true uses loans 0 || fail "still lent"
    stop_serving
    nothing_left
}

several_peers_read_and_write_one_region_at_a_time() {
    serve
    pull_and_stop
    dd if=/dev/urandom of=/tmp/in bs=1M count=1 2>/dev/null
    /t/otte push --set ledger=kernel /tmp/in "$endpoint/blocks" || fail "push: $?"
    until_true uses loans 1 || fail "loans"
    kill -CONT "$puller"
    wait "$puller" || fail "pull: $(cat /tmp/pull.err)"
    stop_serving
    nothing_left
}

# A peer's death says nothing, but this process can attest that its side is over.
a_requester_that_is_killed_leaves_nothing() {
    serve
    pull_and_stop
    kill -KILL "$puller"
    wait "$puller"
    until_true uses loans 0 || fail "still lent"
    records 0 || fail "retained"
    stop_serving
    nothing_left
}

# Its peer may still hold what it was lent, as far as anybody can prove: one record, for an administrator.
a_source_that_is_killed_leaves_the_lent_region_as_a_record() {
    serve
    pull_and_stop
    kill -KILL "$server"
    wait "$server"
    until_true records 1 || fail "not one record"
    /t/dump | grep -q "^retained region $size with 1 loans: otte left before its loans had evidence" ||
        fail "another record"
    kill -CONT "$puller"
    wait "$puller" && fail "the pull succeeded"
    records 1 || fail "the record went by itself"
    uses clients 1 || fail "clients"
    uses lent_bytes "$size" || fail "lent bytes"
    uses retained_bytes "$size" || fail "retained bytes"
    for record in "$sysfs"/retained/*; do
        [ "$(cat "$record/owner_gone")" -eq 1 ] || fail "its owner is there"
        echo 1 >"$record/release"
    done
    nothing_left
}

failed=0
for test in "$@"; do
    if ("$test"); then
        echo "[       OK ] $test"
    else
        echo "[  FAILED  ] $test"
        failed=1
        # What a failed test started.
        killall -KILL otte 2>/dev/null
    fi
done
exit $failed
