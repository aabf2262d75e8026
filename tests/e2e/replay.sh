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

test_time_follows_the_trace() {
    printf '{"timestamp": %s, "input_length": 1, "output_length": 1, "hash_ids": [%s]}\n' \
        1000 1 101000 2 >"$scratch/trace"
    exits 0 "$OTTE" replay "$scratch/trace" --time-scale 200 --json
    jq -e '.seconds >= 0.5 and .seconds < 50' "$scratch/out" >/dev/null ||
        fail "a hundred seconds at 200 times the speed: $(cat "$scratch/out")"
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
