#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# otte replay against an independent computation of what a cache of that size would have.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The real trace where it lies beside the checkout, else one of the same format.
find_trace() {
    local place
    for place in "${OTTE_TRACE:-}" "$root"/../shared/data/conversation_trace_1500.jsonl; do
        if [ -n "$place" ] && [ -e "$place" ]; then
            trace=$place
            return
        fi
    done
    trace=$scratch/trace
    "$OTTE" replay --generate 1500 --seed 7 --write "$trace" || fail "no trace"
}

# expected_hits TRACE BLOCKS: "hits accesses". A queue of all uses in order stands for the cache: an
# entry counts only if it is its block's latest use, and the oldest that counts is the one to go.
expected_hits() {
    sed -E 's/.*"hash_ids": *\[([^]]*)\].*/\1/; s/,/ /g' "$1" | awk -v room="$2" '
        BEGIN { head = uses = held = hits = 0 }
        {
            for (i = 1; i <= NF; i++) {
                block = $i
                if (block in latest) {
                    hits++
                } else {
                    if (held == room) {
                        while (latest[queue[head]] != head)
                            delete queue[head++]
                        delete latest[queue[head]]
                        delete queue[head++]
                        held--
                    }
                    held++
                }
                queue[uses] = block
                latest[block] = uses++
            }
        }
        END { printf "%d %d\n", hits, uses }'
}

hit_rate_is_that_of_an_independent_computation() {
    local blocks=$1 hits uses
    find_trace
    read -r hits uses < <(expected_hits "$trace" "$blocks")
    [ "$uses" -gt 0 ] || fail "the computation saw no block"
    exits 0 "$OTTE" replay "$trace" --cache-blocks "$blocks" --block-bytes 4K --json
    jq -e --argjson hits "$hits" --argjson uses "$uses" \
        '.hits == $hits and .accesses == $uses and .misses == $uses - $hits' "$scratch/out" \
        >/dev/null || fail "expected $hits hits of $uses, got: $(cat "$scratch/out")"
    jq -e '.verified_blocks >= .misses and .gb_moved > 0' "$scratch/out" >/dev/null ||
        fail "content was not checked: $(cat "$scratch/out")"
}

test_the_hit_rate_of_100_blocks_is_that_of_an_independent_computation() {
    hit_rate_is_that_of_an_independent_computation 100
}

test_the_hit_rate_of_1000_blocks_is_that_of_an_independent_computation() {
    hit_rate_is_that_of_an_independent_computation 1000
}

test_the_hit_rate_of_10000_blocks_is_that_of_an_independent_computation() {
    hit_rate_is_that_of_an_independent_computation 10000
}

test_a_cache_of_one_block_works() {
    "$OTTE" replay --generate 50 --seed 3 --write "$scratch/trace"
    read -r hits uses < <(expected_hits "$scratch/trace" 1)
    exits 0 "$OTTE" replay "$scratch/trace" --cache-blocks 1 --block-bytes 4K --json
    jq -e --argjson hits "$hits" '.hits == $hits' "$scratch/out" >/dev/null ||
        fail "expected $hits hits, got: $(cat "$scratch/out")"
}

test_what_is_made_up_depends_on_the_seed_alone() {
    "$OTTE" replay --generate 100 --seed 5 --write "$scratch/a"
    "$OTTE" replay --generate 100 --seed 5 --write "$scratch/b"
    "$OTTE" replay --generate 100 --seed 6 --write "$scratch/c"
    same_content "$scratch/a" "$scratch/b"
    ! cmp -s "$scratch/a" "$scratch/c" || fail "two seeds made the same"
    jq -e '.timestamp >= 0 and .input_length > 0 and .output_length > 0 and (.hash_ids | length > 0)' \
        "$scratch/a" >/dev/null || fail "not of the format"
    exits 0 "$OTTE" replay --generate 100 --seed 5 --block-bytes 4K --json
}

test_a_trace_that_does_not_fit_on_the_disk_is_named_and_not_left() {
    [ "$(id -u)" -eq 0 ] || fail "needs root to mount a small tmpfs"
    mkdir "$scratch/mount"
    mount -t tmpfs -o size=1m none "$scratch/mount" || fail "cannot mount a tmpfs"
    exits 5 "$OTTE" replay --generate 20000 --write "$scratch/mount/trace"
    says "$scratch/mount/trace: No space left"
    [ -z "$(ls -A "$scratch/mount")" ] || fail "left behind: $(ls -A "$scratch/mount")"
    # Only a file of that name is removed.
    ln -s "$scratch/mount/file" "$scratch/mount/link"
    exits 5 "$OTTE" replay --generate 20000 --write "$scratch/mount/link"
    [ -L "$scratch/mount/link" ] || fail "the link is gone"
    [ -e /dev/full ] && exits 5 "$OTTE" replay --generate 100 --write /dev/full && says /dev/full
    [ -c /dev/full ] || fail "the device is gone"
}

# ends_it SIGNAL TEXT: that ends $puller soon, with 2, and it says so
ends_it() {
    kill -"$1" "$puller" 2>/dev/null
    timeout 30 tail --pid="$puller" -f /dev/null || fail "SIG$1 does not end it"
    wait "$puller"
    [ $? -eq 2 ] || fail "it did not end with 2 on SIG$1: $(cat "$scratch/err")"
    puller=
    says "$2"
}

test_a_trace_whose_writing_is_interrupted_leaves_the_one_of_before() {
    local puller
    mkdir "$scratch/folder"
    echo before >"$scratch/folder/trace"
    "$OTTE" replay --generate 300000 --write "$scratch/folder/trace" >"$scratch/out" 2>"$scratch/err" &
    puller=$!
    eventually has_begun || fail "nothing is written: $(cat "$scratch/err")"
    ends_it TERM "$scratch/folder/trace: interrupted"
    is_content before "$scratch/folder/trace" || fail "it is: $(head -c 100 "$scratch/folder/trace")"
    [ "$(ls -A "$scratch/folder")" = trace ] || fail "left: $(ls -A "$scratch/folder")"
}

has_begun() {
    [ -n "$(find "$scratch/folder" -size +100k)" ]
}

test_a_signal_before_it_begins_is_an_interruption() {
    local puller
    mkfifo "$scratch/pipe"
    "$OTTE" replay "$scratch/pipe" >"$scratch/out" 2>"$scratch/err" &
    puller=$!
    eventually catches_signals "$puller" || fail "it heeds none"
    ends_it INT 'otte replay: interrupted'
    "$OTTE" replay --generate 300000 --write "$scratch/pipe" >"$scratch/out" 2>"$scratch/err" &
    puller=$!
    eventually catches_signals "$puller" || fail "it heeds none"
    ends_it TERM 'otte replay: interrupted'
}

# catches_signals PID: SIGTERM is not ignored, nor what the system does by itself
catches_signals() {
    local caught
    caught=$(sed -n 's/^SigCgt:\t//p' "/proc/$1/status" 2>/dev/null)
    [ -n "$caught" ] && (((0x$caught & 0x4000) != 0))
}

test_how_far_it_is_is_shown_on_a_terminal_unless_quiet() {
    local run="$OTTE replay $scratch/trace --time-scale 10 --block-bytes 4K"
    printf '{"timestamp": %s, "input_length": 1, "output_length": 1, "hash_ids": [%s]}\n' \
        0 1 3000 2 6000 3 >"$scratch/trace"
    script -qec "$run" "$scratch/terminal" >/dev/null </dev/null
    grep -q 'requests \[.* 67 % 2 of 3, ' "$scratch/terminal" ||
        fail "no bar: $(cat -v "$scratch/terminal")"
    script -qec "$run --quiet" "$scratch/terminal" >/dev/null </dev/null
    ! grep -q 'requests \[' "$scratch/terminal" || fail "a bar: $(cat -v "$scratch/terminal")"
    exits 0 "$OTTE" replay "$scratch/trace" --block-bytes 4K -q
    [ ! -s "$scratch/err" ] || fail "it said: $(cat "$scratch/err")"
}

test_time_follows_the_trace() {
    printf '{"timestamp": %s, "input_length": 1, "output_length": 1, "hash_ids": [%s]}\n' \
        1000 1 101000 2 >"$scratch/trace"
    exits 0 "$OTTE" replay "$scratch/trace" --time-scale 200 --json
    jq -e '.seconds >= 0.5 and .seconds < 50' "$scratch/out" >/dev/null ||
        fail "a hundred seconds at 200 times the speed: $(cat "$scratch/out")"
}

# engine_counts PID FILTER: the counters of its engine are so
engine_counts() {
    "$OTTE" stats "$1" --json >"$scratch/counts" 2>/dev/null && jq -e "$2" "$scratch/counts" >/dev/null
}

# follow_slowly ARGUMENTS...: 5,000 requests in about a hundred seconds: $puller, whose prefill is $prefill
follow_slowly() {
    "$OTTE" replay --generate 5000 --seed 11 --write "$scratch/trace" || fail "no trace"
    "$OTTE" replay "$scratch/trace" --time-scale 1 --cache-blocks 100 --block-bytes 4K "$@" \
        >"$scratch/out" 2>"$scratch/err" &
    puller=$!
    eventually engine_counts "$puller" '.completed > 0' || fail "it does not begin: $(cat "$scratch/err")"
    prefill=$(pgrep -P "$puller")
}

# is_interrupted SIGNAL PID: that ends $puller soon, with 2; it says how far it came
is_interrupted() {
    local begin status took
    begin=$(date +%s%N)
    kill -"$1" "$2"
    timeout 30 tail --pid="$puller" -f /dev/null || fail "SIG$1 does not end it"
    took=$((($(date +%s%N) - begin) / 1000000))
    wait "$puller"
    status=$?
    puller=
    [ "$status" -eq 2 ] || fail "exit status $status on SIG$1; it said: $(cat "$scratch/err")"
    [ "$took" -le 3000 ] || fail "SIG$1 took $took ms; it said: $(cat "$scratch/err")"
    grep -qE 'interrupted at request [0-9]+ of 5000$' "$scratch/err" || fail "it said: $(cat "$scratch/err")"
}

# The requests before are reported as if they had been the whole trace.
tells_what_was_followed() {
    local count hits uses blocks
    count=$(jq '.requests' "$scratch/out")
    [[ $count -gt 0 && $count -lt 5000 ]] || fail "of $count requests"
    says "interrupted at request $count of"
    head -n "$count" "$scratch/trace" >"$scratch/followed"
    read -r hits uses < <(expected_hits "$scratch/followed" 100)
    blocks=$(jq '.hash_ids[]' "$scratch/followed" | sort -u | wc -l)
    jq -e --argjson hits "$hits" --argjson uses "$uses" --argjson blocks "$blocks" \
        '.interrupted and .hits == $hits and .accesses == $uses and .misses == $uses - $hits and
         .blocks == $blocks and .routes.tcp == .misses * 4096' "$scratch/out" >/dev/null ||
        fail "expected $hits hits of $uses, $blocks blocks, got: $(cat "$scratch/out")"
}

test_a_signal_between_requests_ends_it_and_what_was_followed_is_told() {
    local puller prefill
    follow_slowly --json
    is_interrupted TERM "$puller"
    tells_what_was_followed
}

is_stopped() {
    [ "$(ps -o state= -p "$1")" = T ]
}

test_a_signal_while_the_other_process_does_not_answer_ends_it_soon() {
    local puller prefill
    follow_slowly --json
    kill -STOP "$prefill"
    # What is under way now stays so.
    eventually is_stopped "$prefill" || fail "it goes on"
    eventually engine_counts "$puller" '.requests > 0' || fail "nothing is under way"
    is_interrupted INT "$puller"
    tells_what_was_followed
    ! kill -0 "$prefill" 2>/dev/null || fail "the second process is left"
}

# As a terminal does. The other process may be the first to end.
test_a_signal_to_both_processes_is_an_interruption() {
    local puller prefill
    set -m
    follow_slowly
    set +m
    is_interrupted INT "-$puller"
    grep -q '^requests ' "$scratch/out" || fail "nothing is told: $(cat "$scratch/out")"
}

test_a_malformed_trace_is_named_with_its_line() {
    printf '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}\n{"x": 1}\n' \
        >"$scratch/trace"
    exits 5 "$OTTE" replay "$scratch/trace" && says "$scratch/trace: line 2"
    echo 'not json' >"$scratch/trace"
    exits 5 "$OTTE" replay "$scratch/trace" && says "line 1"
    : >"$scratch/trace"
    exits 5 "$OTTE" replay "$scratch/trace" && says "$scratch/trace"
}

run_tests
