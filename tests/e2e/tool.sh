#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The program otte as its users meet it: what it moves, what it says, and how it ends.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

a_file() {
    head -c "$1" /dev/urandom >"$scratch/source"
}

test_what_is_pulled_is_what_is_served() {
    a_file 30000001
    serve --file "$scratch/source:data"
    exits 0 "$OTTE" pull "$endpoint/data" -o "$scratch/copy" --sha256
    same_content "$scratch/source" "$scratch/copy"
    grep -q "$(sha256sum <"$scratch/source" | cut -d' ' -f1)" "$scratch/out" ||
        fail "the SHA-256 that was printed is not the file's"
    [ ! -e "$scratch/copy.partial" ] || fail "copy.partial is left"
}

test_what_is_pushed_is_what_the_server_has() {
    a_file 20000003
    serve --anon room=20000003 --writable
    exits 0 "$OTTE" push "$scratch/source" "$endpoint/room" --sha256
    grep -q "$(sha256sum <"$scratch/source" | cut -d' ' -f1)" "$scratch/out" ||
        fail "the SHA-256 that was printed is not the file's"
    exits 0 "$OTTE" pull "$endpoint/room" -o "$scratch/copy"
    same_content "$scratch/source" "$scratch/copy"
}

test_a_push_into_a_served_file_changes_the_file() {
    a_file 5000000
    truncate -s 5000000 "$scratch/target"
    serve --file "$scratch/target" --writable
    exits 0 "$OTTE" push "$scratch/source" "$endpoint/target"
    stop_serving
    same_content "$scratch/source" "$scratch/target"
}

test_one_byte_and_odd_windows_are_moved() {
    head -c 1 /dev/urandom >"$scratch/source"
    serve --file "$scratch/source"
    exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/copy"
    same_content "$scratch/source" "$scratch/copy"
    stop_serving
    a_file 1234567
    serve --file "$scratch/source"
    exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/copy" --window 12345
    same_content "$scratch/source" "$scratch/copy"
}

test_a_pull_to_standard_output_is_only_the_content() {
    a_file 3000000
    serve --file "$scratch/source"
    "$OTTE" pull "$endpoint/source" -o - --sha256 >"$scratch/copy" 2>"$scratch/err" ||
        fail "pull failed: $(cat "$scratch/err")"
    same_content "$scratch/source" "$scratch/copy"
}

test_ipv6_loopback_works_like_ipv4() {
    a_file 2000000
    serve --listen '[::1]:0' --file "$scratch/source"
    [[ $endpoint == \[::1\]:* ]] || fail "the endpoint is $endpoint"
    exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/copy"
    same_content "$scratch/source" "$scratch/copy"
    exits 0 "$OTTE" ls "$endpoint"
}

test_ls_shows_names_lengths_and_rights() {
    a_file 4097
    serve --file "$scratch/source:weights" --anon blocks=64K
    exits 0 "$OTTE" ls "$endpoint" --json
    jq -e '.regions | length == 2' "$scratch/out" >/dev/null || fail "not two regions"
    jq -e '.regions[] | select(.name == "weights") | .length == 4097 and .rights == "read" and
        .memory == "host"' \
        "$scratch/out" >/dev/null || fail "weights is shown wrongly: $(cat "$scratch/out")"
    jq -e '.regions[] | select(.name == "blocks") | .length == 65536' "$scratch/out" >/dev/null ||
        fail "blocks is shown wrongly: $(cat "$scratch/out")"
    exits 0 "$OTTE" ls "$endpoint"
    grep -q 'weights' "$scratch/out" || fail "the table lacks weights"
}

test_a_region_can_be_named_by_its_id() {
    a_file 10000
    serve --file "$scratch/source"
    exits 0 "$OTTE" ls "$endpoint" --json
    exits 0 "$OTTE" pull "$endpoint/@$(jq '.regions[0].id' "$scratch/out")" -o "$scratch/copy"
    same_content "$scratch/source" "$scratch/copy"
}

test_stats_of_a_process_and_of_its_endpoint_agree() {
    a_file 1000000
    serve --file "$scratch/source"
    exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/copy"
    # What has left is counted after it.
    eventually server_counts '.served_read_bytes == 1000000'
    exits 0 "$OTTE" stats "$server" --json
    jq -e '.served_read_bytes == 1000000 and .regions == 1 and .threads > 0' "$scratch/out" >/dev/null ||
        fail "the process says: $(cat "$scratch/out")"
    exits 0 "$OTTE" stats "$endpoint" --json
    jq -e '.served_read_bytes == 1000000 and .regions == 1' "$scratch/out" >/dev/null ||
        fail "the endpoint says: $(cat "$scratch/out")"
    # Which a peer does not tell.
    jq -e 'has("threads") | not' "$scratch/out" >/dev/null || fail "the endpoint counts threads"
    exits 0 "$OTTE" stats "$server"
    grep -qE '^served_read_bytes +1000000$' "$scratch/out" || fail "the table lacks the bytes"
}

test_stats_are_openmetrics_too() {
    serve --anon a=4096
    exits 0 "$OTTE" stats "$server" --metrics
    [ "$(tail -n 1 "$scratch/out")" = '# EOF' ] || fail "the text does not end as it should"
    grep -qE '^otte_engine_regions\{engine="[^"]*",pid="'"$server"'"\} 1$' "$scratch/out" ||
        fail "no value of otte_engine_regions"
    ! grep -vE '^(# TYPE otte_[a-z_]+ gauge|# EOF|otte_[a-z_]+\{.*\} [0-9]+)$' "$scratch/out" ||
        fail "a line is none of OpenMetrics"
}

test_stats_are_for_the_own_user_and_root() {
    [ "$(id -u)" -eq 0 ] || exit 77
    serve --anon room=4K
    cp "$OTTE" "$scratch/otte" && chmod 755 "$scratch" "$scratch/otte"
    exits 4 setpriv --reuid 65534 --regid 65534 --clear-groups "$scratch/otte" stats "$server"
    says "process $server"
}

test_stats_without_an_engine_are_unreachable() {
    exits 3 "$OTTE" stats "$$"
    says "process $$"
    exits 3 "$OTTE" stats "$$.1" && says "process $$.1 has no stats socket"
}

test_everything_that_prints_numbers_has_json() {
    a_file 100000
    serve --file "$scratch/source" --anon room=100000 --writable --json
    jq -e '.endpoint and (.regions | length == 2)' "$scratch/serve.out" >/dev/null ||
        fail "serve says: $(cat "$scratch/serve.out")"
    exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/copy" --json --sha256
    jq -e '.bytes == 100000 and .gbps > 0 and (.sha256 | length == 64)' "$scratch/out" >/dev/null ||
        fail "pull says: $(cat "$scratch/out")"
    exits 0 "$OTTE" push "$scratch/source" "$endpoint/room" --json
    jq -e '.bytes == 100000' "$scratch/out" >/dev/null || fail "push says: $(cat "$scratch/out")"
    exits 0 "$OTTE" topo --json
    jq -e '.nodes | length >= 1' "$scratch/out" >/dev/null || fail "topo says: $(cat "$scratch/out")"
    exits 0 "$OTTE" bench --sizes 4K --iterations 10 --rounds 3 --floor --json
    jq -e '.interrupted == false and (.results | length == 4 and .[0].gbps > 0 and .[0].speed_ratio > 0)' \
        "$scratch/out" >/dev/null || fail "bench says: $(cat "$scratch/out")"
}

test_topo_says_why_it_shows_no_verbs_device() {
    mkdir "$scratch/lib"
    : >"$scratch/lib/libibverbs.so.1"
    exits 0 env LD_LIBRARY_PATH="$scratch/lib" "$OTTE" topo
    grep -q '^no verbs: libibverbs.so.1: cannot be loaded: .*file too short' "$scratch/out" ||
        fail "topo says: $(cat "$scratch/out")"
    exits 0 env LD_LIBRARY_PATH="$scratch/lib" "$OTTE" topo --json
    jq -e '.verbs.nics == [] and (.verbs.error | startswith("libibverbs.so.1: "))' "$scratch/out" \
        >/dev/null || fail "topo says: $(cat "$scratch/out")"
    exits 0 "$OTTE" topo --xml tests/unit/topo/two-nodes.xml --json
    jq -e '.verbs == null' "$scratch/out" >/dev/null || fail "verbs of another machine"
}

test_topo_shows_what_is_near_to_nodes_and_gpus() {
    exits 0 "$OTTE" topo --xml tests/unit/topo/two-nodes.xml --json
    jq -c '.ranks[] | [.location, .near, .next, .far]' "$scratch/out" >"$scratch/ranks"
    diff - "$scratch/ranks" <<'END' || fail "ranks"
["cpu:0","mlx5_0,mlx5_1","",""]
["cpu:1","","","mlx5_0,mlx5_1"]
["cuda:0","mlx5_0","mlx5_1",""]
["cuda:1","","","mlx5_0,mlx5_1"]
["*","","","mlx5_0,mlx5_1"]
END
}

test_a_bad_argument_is_named_and_exits_with_1() {
    exits 1 "$OTTE" frobnicate && says frobnicate
    exits 1 "$OTTE" bench --sizes 4Q && says 4Q && says --sizes
    exits 1 "$OTTE" bench --sizes 4K,,1M && says --sizes
    exits 1 "$OTTE" bench --frobnicate && says frobnicate
    exits 1 "$OTTE" bench --batch 0 && says --batch
    exits 1 "$OTTE" bench --pin 100000 && says 100000
    exits 1 "$OTTE" bench --duration 3parsecs && says 3parsecs
    exits 1 "$OTTE" bench --require 1M && says --require
    exits 1 "$OTTE" bench extra && says extra
    exits 1 "$OTTE" replay --time-scale -1 trace && says '--time-scale: "-1" is not a number from 0 on'
    exits 1 "$OTTE" bench --floor-only --peer 127.0.0.1:1/room && says --floor-only
    exits 1 "$OTTE" serve --anon room=4K --listen ::1 && says brackets
    exits 1 "$OTTE" serve --anon room=4K --listen '[::1' && says brackets
    exits 1 "$OTTE" serve && says --file
    exits 1 "$OTTE" serve --anon room && says room
    exits 1 "$OTTE" serve --anon room=none && says none
    exits 1 "$OTTE" serve --anon room=4K --listen 127.0.0.1:http && says http
    exits 1 "$OTTE" serve --anon "$(printf 'n%.0s' $(seq 64))=4K" && says --anon
    exits 1 "$OTTE" pull 127.0.0.1:1 -o "$scratch/copy" && says 127.0.0.1:1
    exits 1 "$OTTE" pull 127.0.0.1:1/data && says -o
    exits 1 "$OTTE" pull 127.0.0.1:1/data -o "" && says -o
    exits 1 "$OTTE" push onlyone && says FILE
    exits 1 "$OTTE" ls && says ENDPOINT
    exits 1 "$OTTE" ls 'no port/at:all' && says 'no port'
    for bad in 1. .1 1.x 1.1.1; do
        exits 1 "$OTTE" stats "$bad" && says "\"$bad\" is neither PID, PID.N nor HOST:PORT"
    done
    exits 1 "$OTTE" stats abc && says 'otte stats: "abc" is neither PID, PID.N nor HOST:PORT'
    exits 1 "$OTTE" replay && says TRACE
    exits 1 "$OTTE" replay --generate 0 && says --generate
    exits 1 "$OTTE" replay --generate 9 --block-bytes 2G && says --block-bytes
    exits 1 "$OTTE" ls 127.0.0.1:1 --log-level loud && says loud
    exits 1 "$OTTE" ls 127.0.0.1:1 --set tcp.lanes && says tcp.lanes
    exits 1 "$OTTE" ls 127.0.0.1:1 --set tcp.lanes=1000 && says tcp.lanes
    exits 1 "$OTTE" ls 127.0.0.1:1 --set tcp.nonesuch=1 && says tcp.nonesuch
    printf '{ "tcp": { "lanes": "many" } }' >"$scratch/config"
    exits 1 "$OTTE" ls 127.0.0.1:1 --config "$scratch/config" && says tcp.lanes
    exits 1 "$OTTE" ls 127.0.0.1:1 --config "$scratch/none" && says "$scratch/none"
}

test_the_route_that_bytes_took_is_told() {
    a_file 3000001
    serve --file "$scratch/source" --anon room=3000001 --writable --set local.trusted=true
    exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/copy"
    grep -q ' GB/s by tcp$' "$scratch/out" || fail "pull says: $(cat "$scratch/out")"
    exits 0 "$OTTE" push "$scratch/source" "$endpoint/room"
    grep -q ' GB/s by tcp$' "$scratch/out" || fail "push says: $(cat "$scratch/out")"
    exits 0 "$OTTE" push "$scratch/source" "$endpoint/room" --set local.trusted=true
    grep -q ' GB/s by local$' "$scratch/out" || fail "push says: $(cat "$scratch/out")"
    exits 0 "$OTTE" pull "$endpoint/room" -o "$scratch/copy" --set local.trusted=true
    grep -q ' GB/s by local$' "$scratch/out" || fail "pull says: $(cat "$scratch/out")"
    exits 0 "$OTTE" push "$scratch/source" "$endpoint/room" --json
    jq -e '.routes == { tcp: 3000001 }' "$scratch/out" >/dev/null || fail "push says: $(cat "$scratch/out")"
    exits 0 "$OTTE" pull "$endpoint/room" -o "$scratch/copy" --json --set local.trusted=true
    jq -e '.routes == { local: 3000001 }' "$scratch/out" >/dev/null || fail "pull says: $(cat "$scratch/out")"
    exits 0 "$OTTE" replay --generate 50 --block-bytes 4K --json --set local.trusted=true
    jq -e '.routes == { local: (.misses * 4096) }' "$scratch/out" >/dev/null ||
        fail "replay says: $(cat "$scratch/out")"
    exits 0 "$OTTE" replay --generate 50 --block-bytes 4K
    grep -q ' GB/s by tcp; ' "$scratch/out" || fail "replay says: $(cat "$scratch/out")"
}

test_topo_offers_no_option_that_it_would_not_heed() {
    local option
    exits 0 "$OTTE" topo --help && cp "$scratch/out" "$scratch/help"
    for option in --config --set --key-file; do
        exits 1 "$OTTE" topo "$option" tcp.nonesuch=1 && says "unrecognized option '$option'"
        ! grep -qF -- "$option" "$scratch/help" || fail "$option is in the help"
    done
    exits 1 "$OTTE" topo --log-level loud && says loud
    exits 0 "$OTTE" topo --log-level error
}

test_what_is_out_of_range_is_told_its_range() {
    exits 1 "$OTTE" serve --anon room=255T && says '--anon: "255T" is not from 1 byte to 16T'
    exits 1 "$OTTE" serve --anon room=0 && says '--anon: "0" is not from 1 byte to 16T'
    exits 1 "$OTTE" serve --anon room=1.5 && says '--anon: "1.5" is not a whole number of bytes'
    exits 1 "$OTTE" serve --anon room=4K --close-timeout 1000001h
    says '--close-timeout: "1000001h" is not from 0 to 1000000h'
    head -c 1048577 /dev/zero | tr '\0' ' ' >"$scratch/config"
    exits 1 "$OTTE" ls 127.0.0.1:1 --config "$scratch/config"
    says "--config: $scratch/config: longer than 1048576 bytes, the most for a configuration"
}

test_what_is_empty_is_told_so() {
    local key
    exits 1 "$OTTE" ls '' && says 'otte ls: the endpoint is empty, HOST:PORT is wanted'
    exits 1 "$OTTE" stats '' && says 'the endpoint is empty'
    exits 1 "$OTTE" ls 127.0.0.1:1 --config '' && says '--config: the name of the file is empty'
    exits 1 "$OTTE" ls 127.0.0.1:1 --key-file '' && says '--key-file: the name of the file is empty'
    exits 1 "$OTTE" replay --generate 5 --write '' && says '--write: the name of the file is empty'
    exits 1 timeout 10 "$OTTE" serve --anon room=4K --port-file ''
    says '--port-file: the name of the file is empty'
    for key in .lanes tcp. tcp..lanes; do
        exits 1 "$OTTE" ls 127.0.0.1:1 --set "$key=1" && says "--set: \"$key=1\": a part of the key is empty"
    done
    exits 1 "$OTTE" serve --file :name && says '--file: the path in ":name" is empty'
    exits 1 "$OTTE" push '' 127.0.0.1:1/room && says 'the name of FILE is empty'
    exits 1 "$OTTE" replay '' && says 'the name of TRACE is empty'
    : >"$scratch/empty" && chmod 600 "$scratch/empty"
    exits 5 "$OTTE" ls 127.0.0.1:1 --key-file "$scratch/empty"
    says "$scratch/empty is empty, a line of 64 hexadecimal digits is wanted"
    exits 1 "$OTTE" ls 127.0.0.1:1 --config "$scratch/empty"
    says "--config: $scratch/empty: line 1 column 0: no JSON, {} is the least"
}

test_without_a_command_the_usage_is_a_complaint() {
    local program
    for program in "$OTTE" "$(dirname "$OTTE")/ottectl"; do
        exits 1 "$program" && says 'Usage: '
        [ ! -s "$scratch/out" ] || fail "$program says on standard output: $(head -n 1 "$scratch/out")"
        exits 0 "$program" --help
        grep -q '^Usage: ' "$scratch/out" || fail "$program --help says nothing"
        [ ! -s "$scratch/err" ] || fail "$program --help complains: $(head -n 1 "$scratch/err")"
    done
}

test_a_seed_is_for_what_is_made_up() {
    "$OTTE" replay --generate 5 --write "$scratch/trace" || fail "no trace"
    exits 1 "$OTTE" replay "$scratch/trace" --seed 7 && says '--seed: needs --generate'
    exits 0 "$OTTE" replay --generate 5 --seed 7 --block-bytes 4K
}

test_more_memory_than_there_is_exits_with_5() {
    exits 5 "$OTTE" bench --sizes 64G --batch 1024 && says --sizes
    exits 5 "$OTTE" replay --generate 1000 --block-bytes 1G && says --block-bytes
}

test_help_and_version_exit_with_0() {
    local command
    exits 0 "$OTTE" --version
    grep -qE '^otte [0-9]+\.[0-9]+\.[0-9]+' "$scratch/out" || fail "the version is not one"
    exits 0 "$OTTE" --help
    for command in serve pull push ls stats bench calibrate replay topo; do
        grep -q "^  $command " "$scratch/out" || fail "otte --help lacks $command"
    done
    for command in serve pull push ls stats bench calibrate replay topo; do
        exits 0 "$OTTE" "$command" --help
        grep -q "^Usage: otte $command" "$scratch/out" || fail "$command --help lacks its usage"
    done
}

test_results_that_cannot_be_written_exit_with_5() {
    local rc=0
    "$OTTE" topo >/dev/full 2>"$scratch/err" || rc=$?
    [ "$rc" -eq 5 ] || fail "topo: exit status $rc"
    says "standard output"
    rc=0
    "$OTTE" --version >/dev/full 2>"$scratch/err" || rc=$?
    [ "$rc" -eq 5 ] || fail "--version: exit status $rc"
    rc=0
    timeout 10 "$OTTE" serve --anon room=4K --port-file "$scratch/port" >/dev/full 2>"$scratch/err" || rc=$?
    [ "$rc" -eq 5 ] || fail "serve: exit status $rc"
    says "standard output"
    rc=0
    timeout 10 "$OTTE" serve --anon room=4K --port-file "$scratch/port" >&- 2>"$scratch/err" || rc=$?
    [ "$rc" -eq 5 ] || fail "serve without: exit status $rc"
    says "standard output"
    [ -z "$(find "$scratch" -name 'port*')" ] || fail "a port file is left"
}

test_a_report_that_cannot_be_written_is_named_before_measuring() {
    exits 5 timeout 10 "$OTTE" bench --duration 1m --report "$scratch/no/such" && says "$scratch/no/such"
}

test_a_missing_file_is_named_and_exits_with_5() {
    exits 5 "$OTTE" serve --file "$scratch/none" && says "$scratch/none"
    : >"$scratch/empty"
    exits 5 "$OTTE" serve --file "$scratch/empty" && says "$scratch/empty"
    exits 5 "$OTTE" serve --file "$scratch:folder" && says "$scratch"
    exits 5 "$OTTE" topo --xml "$scratch/none" && says "$scratch/none: No such file"
    serve --anon room=4K --writable
    exits 5 "$OTTE" push "$scratch/none" "$endpoint/room" && says "$scratch/none"
    exits 5 "$OTTE" pull "$endpoint/room" -o "$scratch/no/such/folder" && says "$scratch/no/such"
    exits 5 "$OTTE" replay "$scratch/none" && says "$scratch/none"
}

test_what_is_no_file_is_not_served() {
    mkfifo "$scratch/pipe"
    exits 5 timeout -k 1 10 "$OTTE" serve --file "$scratch/pipe" && says "$scratch/pipe: not a regular file"
    exits 5 timeout -k 1 10 "$OTTE" serve --file "$scratch/pipe" --writable && says 'not a regular file'
    exits 5 timeout -k 1 10 "$OTTE" serve --file /dev/null && says '/dev/null: not a regular file'
    exits 5 timeout -k 1 10 "$OTTE" serve --file "$scratch:folder" && says "$scratch: not a regular file"
    serve --anon room=4K --writable
    exits 5 timeout -k 1 10 "$OTTE" push "$scratch/pipe" "$endpoint/room" && says "$scratch/pipe: not a regular file"
}

test_what_is_asked_for_and_not_there_is_told_by_its_name() {
    exits 5 "$OTTE" serve --anon room=4K --set ledger=process --set local.trusted=true --set local.pinned=true
    says 'local.pinned needs the module'
    says 'ledger = kernel'
    exits 5 "$OTTE" ls 127.0.0.1:1 --set tcp.congestion=foo
    says 'tcp.congestion "foo": not among net.ipv4.tcp_available_congestion_control'
}

test_an_unreachable_peer_is_named_and_exits_with_3() {
    serve --anon room=4K
    stop_serving
    exits 3 "$OTTE" ls "$endpoint" && says "otte ls: peer $endpoint: connect: Connection refused"
    exits 3 "$OTTE" pull "$endpoint/room" -o "$scratch/copy" && says "$endpoint"
    [ -z "$(find "$scratch" -name 'copy*')" ] || fail "a file is left"
    exits 3 "$OTTE" stats "$endpoint" && says "$endpoint"
}

test_an_unknown_region_is_named_and_exits_with_4() {
    serve --anon room=4K
    exits 4 "$OTTE" pull "$endpoint/cellar" -o "$scratch/copy" && says cellar
    [ ! -e "$scratch/copy.partial" ] || fail "a file is left"
    exits 4 "$OTTE" pull "$endpoint/@999999" -o "$scratch/copy" && says 999999
}

test_a_right_that_is_missing_exits_with_4() {
    a_file 4096
    serve --anon room=4K
    exits 4 "$OTTE" push "$scratch/source" "$endpoint/room" && says room
}

test_a_file_longer_than_its_target_exits_with_4_before_a_byte_moves() {
    a_file 4097
    serve --anon room=4K --writable
    exits 4 "$OTTE" push "$scratch/source" "$endpoint/room" && says 4097
    exits 0 "$OTTE" pull "$endpoint/room" -o "$scratch/copy"
    head -c 4096 /dev/zero >"$scratch/zeroes"
    same_content "$scratch/zeroes" "$scratch/copy"
}

a_key() {
    head -c 32 /dev/urandom | od -An -tx1 -v | tr -d ' \n' >"$1"
    echo >>"$1"
    chmod 600 "$1"
}

test_a_key_lets_its_holder_in_and_nobody_else() {
    a_key "$scratch/key"
    a_key "$scratch/other"
    serve --anon room=4K --key-file "$scratch/key"
    exits 0 "$OTTE" ls "$endpoint" --key-file "$scratch/key" --json
    jq -e '.peer.authenticated' "$scratch/out" >/dev/null || fail "not said to be authenticated"
    exits 4 "$OTTE" ls "$endpoint" --key-file "$scratch/other" && says "$endpoint"
    exits 4 "$OTTE" ls "$endpoint" && says "$endpoint"
    exits 0 "$OTTE" ls "$endpoint" --key-file "$scratch/key"
}

# Who lacks which key is read by both.
test_a_refusal_for_a_key_reads_right_at_both_sides() {
    local said
    a_key "$scratch/key"
    a_key "$scratch/other"
    serve --anon room=4K --key-file "$scratch/key"
    said='who listens does not have the key of who connects'
    exits 4 "$OTTE" ls "$endpoint" --key-file "$scratch/other" && says "the peer refuses: $said"
    eventually grep -qF "$said" "$scratch/serve.err" || fail "the log says: $(cat "$scratch/serve.err")"
    said='who listens wants a key, who connects has none'
    exits 4 "$OTTE" ls "$endpoint" && says "the peer refuses: $said"
    eventually grep -qF "$said" "$scratch/serve.err" || fail "the log says: $(cat "$scratch/serve.err")"
    stop_serving
    serve --anon room=4K
    said='who connects has a key, who listens has none'
    exits 4 "$OTTE" ls "$endpoint" --key-file "$scratch/key" && says "the peer refuses: $said"
    eventually grep -qF "$said" "$scratch/serve.err" || fail "the log says: $(cat "$scratch/serve.err")"
}

test_without_a_key_the_server_stays_on_loopback_and_says_so() {
    serve --anon room=4K
    [[ $endpoint == 127.* ]] || fail "the endpoint is $endpoint"
    grep -q 'without --listen .* loopback only' "$scratch/serve.err" ||
        fail "it does not say so: $(cat "$scratch/serve.err")"
    stop_serving
    serve --anon room=4K --listen 0.0.0.0:0
    grep -q 'no key' "$scratch/serve.err" || fail "no warning: $(cat "$scratch/serve.err")"
}

test_sigterm_while_serving_closes_cleanly() {
    serve --anon room=4K
    exits 0 "$OTTE" ls "$endpoint"
    stop_serving
    [ "$server_status" -eq 0 ] || fail "exit status $server_status: $(cat "$scratch/serve.err")"
    grep -q 'nothing retained' "$scratch/serve.err" || fail "it said: $(cat "$scratch/serve.err")"
}

test_sigterm_in_the_middle_of_a_pull_is_bounded_and_ends_the_pull() {
    local puller begin
    truncate -s 64G "$scratch/source"
    serve --file "$scratch/source" --close-timeout 2s
    "$OTTE" pull "$endpoint/source" -o /dev/null >"$scratch/out" 2>"$scratch/err" &
    puller=$!
    eventually server_counts '.served_read_bytes > 0' || fail "nothing is pulled: $(cat "$scratch/err")"
    begin=$SECONDS
    stop_serving
    [ $((SECONDS - begin)) -le 15 ] || fail "closing took $((SECONDS - begin)) s"
    wait "$puller"
    case $? in
    0 | 2) ;;
    *) fail "the pull ended with $?: $(cat "$scratch/err")" ;;
    esac
}

no_control_characters() {
    ! LC_ALL=C grep -q $'[\001-\010\013-\037\177]' "$1" || fail "control characters: $(cat -v "$1")"
}

test_names_are_shown_without_their_control_characters() {
    local name=$'evil\033[2Jname'
    echo content >"$scratch/$name"
    serve --file "$scratch/$name" --anon $'a\rb=4K'
    no_control_characters "$scratch/serve.out"
    grep -qF 'evil\x1b[2Jname' "$scratch/serve.out" || fail "it says: $(cat -v "$scratch/serve.out")"
    grep -qF 'a\x0db' "$scratch/serve.out" || fail "it says: $(cat -v "$scratch/serve.out")"
    exits 0 "$OTTE" ls "$endpoint"
    no_control_characters "$scratch/out"
    exits 0 "$OTTE" pull "$endpoint/@$("$OTTE" ls --json "$endpoint" | jq '.regions[0].id')" \
        -o "$scratch/$name" --sha256
    no_control_characters "$scratch/out"
    exits 5 "$OTTE" serve --file "$scratch/no"$'\033'such && says 'no\x1bsuch'
    no_control_characters "$scratch/err"
}

test_two_things_of_one_name_are_not_published() {
    a_file 4096
    exits 1 timeout 10 "$OTTE" serve --anon room=4K --anon room=8K && says '--anon: "room"'
    exits 1 timeout 10 "$OTTE" serve --file "$scratch/source:room" --anon room=4K && says '"room"'
    exits 1 timeout 10 "$OTTE" serve --file "$scratch/source" --file "$scratch/source" && says '--file: "source"'
}

test_the_end_of_the_terminal_ends_a_pull_cleanly() {
    local puller
    truncate -s 256M "$scratch/source"
    serve --file "$scratch/source"
    stop_in_the_middle source "$scratch/copy"
    kill -HUP "$puller"
    kill -CONT "$puller"
    wait "$puller"
    [ $? -eq 2 ] || fail "the pull did not end with 2: $(cat "$scratch/err")"
    says interrupted
    [ -z "$(find "$scratch" -name 'copy*')" ] || fail "a file is left"
    # Under nohup it goes on.
    nohup "$OTTE" pull "$endpoint/source" -o "$scratch/copy" >/dev/null 2>"$scratch/err" &
    puller=$!
    until [ -e "$scratch/copy.partial" ] || [ -e "$scratch/copy" ]; do sleep 0.005; done
    kill -HUP "$puller" 2>/dev/null
    wait "$puller" || fail "the pull ended with $?: $(cat "$scratch/err")"
    same_content "$scratch/source" "$scratch/copy"
    kill -HUP "$server"
    wait "$server" || fail "the server ended with $?"
    server=
    grep -q 'nothing retained' "$scratch/serve.err" || fail "it said: $(cat "$scratch/serve.err")"
}

# asleep PID: it has threads, takes signals into its own hands, and waits for something
asleep() {
    [ "$(find "/proc/$1/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)" -gt 1 ] &&
        [ $((0x$(awk '/^SigCgt:/ { print $2 }' "/proc/$1/status") & 0x4002)) -eq $((0x4002)) ] &&
        [ "$(ps -o state= -p "$1")" = S ]
}

# ends_at_once SIGNAL COMMAND...: once it waits, the signal ends it, with 2
ends_at_once() {
    local signal=$1 begin status
    shift
    "$@" >"$scratch/out" 2>"$scratch/err" &
    puller=$!
    eventually asleep "$puller" || fail "it does not wait: $*; it said: $(cat "$scratch/err")"
    sleep 0.2
    begin=$SECONDS
    kill -"$signal" "$puller"
    timeout 20 tail --pid="$puller" -f /dev/null || fail "$signal does not end: $*"
    wait "$puller"
    status=$?
    puller=
    [ $((SECONDS - begin)) -le 2 ] || fail "$signal took $((SECONDS - begin)) s: $*"
    [ "$status" -eq 2 ] || fail "exit status $status on $signal of: $*; it said: $(cat "$scratch/err")"
    says interrupted
}

test_a_signal_while_connecting_ends_at_once() {
    local puller
    a_file 4096
    serve --file "$scratch/source" --anon room=4K --writable
    kill -STOP "$server"
    ends_at_once INT "$OTTE" pull "$endpoint/source" -o "$scratch/copy" --set control.timeout_ms=30000
    ends_at_once TERM "$OTTE" pull "$endpoint/source" -o "$scratch/copy" --set control.timeout_ms=30000
    ends_at_once INT "$OTTE" push "$scratch/source" "$endpoint/room" --set control.timeout_ms=30000
    ends_at_once INT "$OTTE" ls "$endpoint" --set control.timeout_ms=30000
    ends_at_once TERM "$OTTE" stats "$endpoint" --set control.timeout_ms=30000
    ends_at_once TERM "$OTTE" bench --peer "$endpoint/room" --sizes 4K --set control.timeout_ms=30000
    [ -z "$(find "$scratch" -name 'copy*')" ] || fail "a file is left"
    kill -CONT "$server"
    exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/copy"
}

test_a_signal_ends_a_bench_with_one_message_and_no_report() {
    local status
    setsid "$OTTE" bench --sizes 4K --duration 1m --floor --report "$scratch/report" >"$scratch/out" 2>"$scratch/err" &
    puller=$!
    eventually grep -q '^who' "$scratch/out" || fail "it does not measure: $(cat "$scratch/err")"
    kill -INT -- "-$puller" # as a terminal does it, to all of its processes
    wait "$puller"
    status=$?
    puller=
    [ "$status" -eq 2 ] || fail "exit status $status: $(cat "$scratch/err")"
    is_content 'otte bench: interrupted' "$scratch/err" || fail "it said: $(cat "$scratch/err")"
    [ ! -e "$scratch/report" ] || fail "a report is left"
}

test_a_signal_ends_a_bench_for_programs_with_what_it_has() {
    local status sizes
    sizes=$(printf '4K,%.0s' $(seq 31))4K # half a minute
    setsid "$OTTE" bench --sizes "$sizes" --op read --floor --rounds 1 --duration 1s --json \
        --report "$scratch/report" >"$scratch/out" 2>"$scratch/err" &
    puller=$!
    sleep 4
    kill -INT -- "-$puller"
    wait "$puller"
    status=$?
    puller=
    [ "$status" -eq 2 ] || fail "exit status $status: $(cat "$scratch/err")"
    is_content 'otte bench: interrupted' "$scratch/err" || fail "it said: $(cat "$scratch/err")"
    jq -e '.interrupted and .version and (.results | length | . > 0 and . < 62) and
        (.results | all(.block == 4096 and .gbps > 0))' \
        "$scratch/out" >/dev/null || fail "bench says: $(cat "$scratch/out")"
    [ ! -e "$scratch/report" ] || fail "a report is left"
    # Also where the peer does not answer, and no line is done.
    serve --anon room=4K --writable
    setsid "$OTTE" bench --peer "$endpoint/room" --sizes 4K --duration 1m --json >"$scratch/out" 2>"$scratch/err" &
    puller=$!
    sleep 1
    kill -STOP "$server"
    sleep 0.2
    kill -TERM "$puller"
    timeout 5 tail --pid="$puller" -f /dev/null || fail "it does not end"
    wait "$puller"
    status=$?
    puller=
    kill -CONT "$server"
    [ "$status" -eq 2 ] || fail "exit status $status: $(cat "$scratch/err")"
    jq -e '.interrupted and .results == []' "$scratch/out" >/dev/null || fail "bench says: $(cat "$scratch/out")"
}

test_a_signal_ends_a_pull_into_a_pipe_that_nobody_reads() {
    local puller reader
    a_file 3000000
    serve --file "$scratch/source"
    mkfifo "$scratch/pipe"
    ends_at_once INT "$OTTE" pull "$endpoint/source" -o "$scratch/pipe"
    # Nor goes on reading.
    sleep 100 <>"$scratch/pipe" &
    reader=$!
    ends_at_once INT "$OTTE" pull "$endpoint/source" -o "$scratch/pipe"
    kill "$reader"
    wait "$reader" 2>/dev/null
    exits 0 "$OTTE" ls "$endpoint"
}

test_a_folder_is_no_port_file() {
    mkdir "$scratch/folder"
    exits 5 timeout 10 "$OTTE" serve --anon room=4K --port-file "$scratch/folder"
    says "--port-file: $scratch/folder is a directory"
    [ ! -e "$scratch/folder.new" ] || fail "folder.new is left"
    exits 5 timeout 10 "$OTTE" serve --anon room=4K --port-file "$scratch/no/such"
    says "--port-file: $scratch/no/such"
    [ ! -s "$scratch/out" ] || fail "it announces: $(cat "$scratch/out")"
}

# serves_to FILE: serve takes it as its --port-file; ends
serves_to() {
    "$OTTE" serve --anon room=4K --port-file "$1" >"$scratch/serve.out" 2>"$scratch/serve.err" &
    server=$!
    eventually grep -q '^region ' "$scratch/serve.out" || fail "it does not start: $(cat "$scratch/serve.err")"
    eventually "$OTTE" ls "$(sed -n 's/^endpoint //p' "$scratch/serve.out")" >"$scratch/out" 2>&1
    stop_serving
    [ "$server_status" -eq 0 ] || fail "exit status $server_status: $(cat "$scratch/serve.err")"
}

test_a_port_file_replaces_a_file_and_nothing_else() {
    [ "$(id -u)" -eq 0 ] || fail "needs root to make a device like /dev/null"
    local reader
    mknod "$scratch/null" c 1 3
    serves_to "$scratch/null"
    [ -c "$scratch/null" ] || fail "the device is gone"
    # What others put where it might be written on the way.
    echo precious >"$scratch/victim" && ln -s victim "$scratch/port.new"
    serves_to "$scratch/port"
    is_content precious "$scratch/victim" || fail "the victim holds $(cat "$scratch/victim")"
    [ -z "$(find "$scratch" -name 'port.*' ! -name port.new)" ] || fail "a file is left"
    mkfifo "$scratch/pipe"
    timeout 30 cat "$scratch/pipe" >"$scratch/read" &
    reader=$!
    serves_to "$scratch/pipe"
    wait "$reader" || fail "nothing was read"
    is_content "$(sed -n 's/^endpoint //p' "$scratch/serve.out")" "$scratch/read" ||
        fail "a pipe holds $(cat "$scratch/read")"
}

test_a_port_file_goes_with_its_server_and_no_other_does() {
    local signal
    for signal in TERM INT; do
        set -m
        serve --anon room=4K
        set +m
        kill -"$signal" "$server"
        wait "$server" || fail "exit status $? on $signal"
        [ ! -e "$scratch/endpoint" ] || fail "it is left on $signal"
    done
    serve --anon room=4K
    echo 'of another' >"$scratch/other" && mv "$scratch/other" "$scratch/endpoint"
    stop_serving
    is_content 'of another' "$scratch/endpoint" || fail "the other one is gone"
}

test_a_port_file_is_what_a_link_leads_to() {
    echo before >"$scratch/target" && chmod 600 "$scratch/target" && ln -s target "$scratch/link"
    "$OTTE" serve --anon room=4K --port-file "$scratch/link" >"$scratch/serve.out" 2>"$scratch/serve.err" &
    server=$!
    eventually grep -q '^127' "$scratch/target" || fail "the target holds $(cat "$scratch/target")"
    [ -L "$scratch/link" ] || fail "the link is gone"
    [ "$(stat -c %a "$scratch/target")" = 600 ] || fail "600 is now $(stat -c %a "$scratch/target")"
    stop_serving
}

test_a_pipe_that_nobody_reads_does_not_keep_a_server() {
    local puller
    mkfifo "$scratch/pipe"
    ends_at_once TERM "$OTTE" serve --anon room=4K --port-file "$scratch/pipe"
}

test_standard_output_is_written_by_whichever_name() {
    local name
    a_file 3000000
    serve --file "$scratch/source"
    for name in /dev/fd/1 /proc/self/fd/1 /dev/stdout; do
        rm -f "$scratch/copy"
        "$OTTE" pull "$endpoint/source" -o "$name" >"$scratch/copy" 2>"$scratch/err" ||
            fail "$name, a file: $(cat "$scratch/err")"
        same_content "$scratch/source" "$scratch/copy"
        "$OTTE" pull "$endpoint/source" -o "$name" 2>"$scratch/err" | cat >"$scratch/copy"
        same_content "$scratch/source" "$scratch/copy"
        says 'GB/s'
    done
    "$OTTE" pull "$endpoint/source" -o /dev/fd/5 5>"$scratch/copy" >"$scratch/out" ||
        fail "another descriptor"
    same_content "$scratch/source" "$scratch/copy"
    [ -z "$(find /dev -maxdepth 1 -name '*.partial')" ] || fail "a file is left in /dev"
}

test_an_unknown_option_is_not_called_a_command() {
    exits 1 "$OTTE" --frob && says 'otte: unknown option "--frob"; see otte --help'
    exits 1 "$OTTE" -x && says 'unknown option "-x"'
    exits 1 "$OTTE" frob && says 'unknown command "frob"'
    exits 1 "$OTTE" ls --frob && says "unrecognized option '--frob'"
}

test_a_folder_that_is_not_there_is_named_and_no_file_of_ours() {
    a_file 4096
    serve --file "$scratch/source"
    exits 5 "$OTTE" pull "$endpoint/source" -o "$scratch/none/copy"
    says "otte pull: -o: the folder $scratch/none: No such file or directory"
    exits 5 "$OTTE" pull "$endpoint/source" -o "$scratch/source/copy"
    says "otte pull: -o: the folder $scratch/source: Not a directory"
    ! grep -q partial "$scratch/err" || fail "it said: $(cat "$scratch/err")"
    exits 5 "$OTTE" serve --anon room=4K --port-file "$scratch/none/port"
    says "--port-file: $scratch/none/port: No such file"
}

test_names_that_are_not_utf8_are_in_the_json() {
    local name=$'a\xff\xe9b' shown='a\xff\xe9b'
    echo content >"$scratch/$name"
    serve --json --file "$scratch/$name" --anon "plain=4K"
    jq -e --arg name "$shown" '[.regions[].name] == [$name, "plain"]' "$scratch/serve.out" >/dev/null ||
        fail "it says: $(cat "$scratch/serve.out")"
    exits 0 "$OTTE" pull "$endpoint/plain" -o "$scratch/c$name" --json
    jq -e --arg name "$scratch/c$shown" '.output == $name and .bytes == 4096' "$scratch/out" >/dev/null ||
        fail "it says: $(cat "$scratch/out")"
    stop_serving
    serve --anon plain=4K --writable
    exits 0 "$OTTE" push "$scratch/$name" "$endpoint/plain" --json
    jq -e --arg name "$scratch/$shown" '.file == $name and .bytes == 8' "$scratch/out" >/dev/null ||
        fail "it says: $(cat "$scratch/out")"
}

test_a_name_of_any_bytes_can_be_asked_for() {
    local name=$'a\xff\xe9b'
    a_file 5000 && cp "$scratch/source" "$scratch/$name"
    serve --file "$scratch/$name" --anon $'\xc3\xa4=4K'
    exits 0 "$OTTE" ls "$endpoint" --json
    jq -e '[.regions[].name] == ["a\\xff\\xe9b", "ä"]' "$scratch/out" >/dev/null ||
        fail "peers see: $(cat "$scratch/out")"
    exits 0 "$OTTE" pull "$endpoint/a\xff\xe9b" -o "$scratch/copy"
    same_content "$scratch/source" "$scratch/copy"
    exits 0 "$OTTE" pull "$endpoint/$name" -o "$scratch/other"
    same_content "$scratch/source" "$scratch/other"
    stop_serving
    # One that looks as if bytes of it were escaped is told from the one of those bytes.
    serve --file "$scratch/source:a\xff" --anon $'a\xff=4K'
    exits 0 "$OTTE" ls "$endpoint" --json
    jq -e '[.regions[].name] == ["a\\x5cxff", "a\\xff"]' "$scratch/out" >/dev/null ||
        fail "peers see: $(cat "$scratch/out")"
    grep -qF ' a\x5cxff ' "$scratch/serve.out" || fail "it says: $(cat "$scratch/serve.out")"
    exits 0 "$OTTE" pull "$endpoint/a\x5cxff" -o "$scratch/third" --json
    same_content "$scratch/source" "$scratch/third"
    # 20 bytes that become 80.
    exits 1 timeout 10 "$OTTE" serve --anon "$(printf '\xff%.0s' $(seq 20))=4K"
    says 'has 80 bytes where unprintable ones are "\xNN", allowed are 63'
}

test_a_key_file_without_a_key_is_named_and_exits_with_5() {
    echo 'no key at all' >"$scratch/key" && chmod 600 "$scratch/key"
    exits 5 "$OTTE" ls 127.0.0.1:1 --key-file "$scratch/key" && says "auth.key_file: $scratch/key line 1"
    exits 5 "$OTTE" serve --anon room=4K --key-file "$scratch/key" && says "$scratch/key line 1"
    exits 5 "$OTTE" ls 127.0.0.1:1 --key-file "$scratch/none" && says "$scratch/none"
}

test_what_would_crawl_is_refused_with_its_range() {
    exits 1 "$OTTE" pull 127.0.0.1:1/room -o "$scratch/copy" --window 1
    says '--window: "1" is out of range, allowed are 4 KiB to 1 GiB'
    exits 1 "$OTTE" push "$OTTE" 127.0.0.1:1/room --window 2G && says '4 KiB to 1 GiB'
    exits 1 "$OTTE" push "$OTTE" 127.0.0.1:1/room --window 0
    says '--window: "0" is out of range, allowed are 4 KiB to 1 GiB'
    exits 1 "$OTTE" push "$OTTE" 127.0.0.1:1/room --window 4097.5 && says 'a whole number of bytes'
    exits 1 "$OTTE" ls 127.0.0.1:1 --set tcp.receive_buffer_bytes=1
    says 'tcp.receive_buffer_bytes: 1 is out of range, allowed are 0 or 65536 to 1073741824'
    exits 1 "$OTTE" ls 127.0.0.1:1 --set control.reconnect_min_ms=9000
    says 'control.reconnect_min_ms: 9 s, allowed is at most control.reconnect_max_ms, 5 s'
}

test_a_line_of_a_trace_that_is_no_request_is_named() {
    printf '\n[1,2]\n' >"$scratch/trace"
    exits 5 "$OTTE" replay "$scratch/trace" && says "$scratch/trace: line 2: an object is wanted"
    echo '{"timestamp": 1,' >"$scratch/trace"
    exits 5 "$OTTE" replay "$scratch/trace" && says "$scratch/trace: line 1: "
}

test_a_server_that_stands_still_is_lost_for_a_reason() {
    local puller
    truncate -s 64G "$scratch/source"
    serve --file "$scratch/source"
    "$OTTE" pull "$endpoint/source" -o /dev/null --set tcp.stall_timeout_ms=300 \
        >"$scratch/out" 2>"$scratch/err" &
    puller=$!
    eventually server_counts '.served_read_bytes > 0' || fail "nothing is pulled: $(cat "$scratch/err")"
    kill -STOP "$server"
    wait "$puller"
    [ $? -eq 2 ] || fail "the pull did not end with 2: $(cat "$scratch/err")"
    says "peer lost: no byte moved for 300 ms (tcp.stall_timeout_ms)"
    exits 3 "$OTTE" ls "$endpoint" --set control.timeout_ms=300
    says "did not answer" && says "within 300 ms"
    kill -CONT "$server"
    exits 0 "$OTTE" ls "$endpoint"
}

test_a_peer_too_many_is_told_so_and_exits_with_4() {
    local puller
    truncate -s 256M "$scratch/source"
    serve --file "$scratch/source" --set control.connections=1
    stop_in_the_middle source "$scratch/copy"
    exits 4 "$OTTE" ls "$endpoint" && says "control.connections (1) is full"
    kill -KILL "$puller"
    wait "$puller" 2>/dev/null
    for _ in $(seq 100); do
        "$OTTE" ls "$endpoint" >"$scratch/out" 2>"$scratch/err" && return
        sleep 0.05
    done
    fail "never let in again: $(cat "$scratch/err")"
}

test_a_full_disk_is_named_and_leaves_no_partial_file() {
    [ "$(id -u)" -eq 0 ] || fail "needs root to mount a small tmpfs"
    mkdir "$scratch/mount"
    mount -t tmpfs -o size=1m none "$scratch/mount" || fail "cannot mount a tmpfs"
    a_file 8000000
    serve --file "$scratch/source"
    exits 5 "$OTTE" pull "$endpoint/source" -o "$scratch/mount/copy"
    says "$scratch/mount/copy" && says "No space left"
    [ -z "$(ls -A "$scratch/mount")" ] || fail "left behind: $(ls -A "$scratch/mount")"
    exits 5 "$OTTE" pull "$endpoint/source" -o "$scratch/mount/copy" --keep
    [ -e "$scratch/mount/copy.partial" ] || fail "--keep kept nothing"
    exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/copy"
    same_content "$scratch/source" "$scratch/copy"
}

test_a_disk_that_fills_later_is_named_and_leaves_no_partial_file() {
    [ "$(id -u)" -eq 0 ] || fail "needs root to mount /dev/full's like"
    a_file 8000000
    serve --file "$scratch/source"
    exits 5 "$OTTE" pull "$endpoint/source" -o /dev/full
    says /dev/full && says "No space left"
    exits 0 "$OTTE" ls "$endpoint"
}

test_a_file_that_may_not_become_as_large_is_named() {
    a_file 3000000
    serve --file "$scratch/source"
    (
        ulimit -f 1000
        exits 5 "$OTTE" pull "$endpoint/source" -o "$scratch/copy"
        says "$scratch/copy.partial: no room for 2.9 MiB: File too large"
        exits 5 "$OTTE" replay --generate 100000 --write "$scratch/trace"
        says "$scratch/trace" && says "File too large"
    ) || return 1
    [ -z "$(find "$scratch" -name 'copy*')" ] || fail "a file is left"
}

test_a_failed_pull_leaves_the_file_of_before() {
    a_file 100000
    cp "$scratch/source" "$scratch/before"
    serve --file "$scratch/source:data"
    exits 4 "$OTTE" pull "$endpoint/nothing" -o "$scratch/source"
    same_content "$scratch/source" "$scratch/before"
}

test_two_pulls_into_one_file_do_not_mix() {
    local puller
    a_file 1000 && cp "$scratch/source" "$scratch/small"
    truncate -s 256M "$scratch/source"
    serve --file "$scratch/source:big" --file "$scratch/small"
    # A pull that stands still in the middle holds FILE.partial.
    stop_in_the_middle big "$scratch/copy"
    exits 5 "$OTTE" pull "$endpoint/small" -o "$scratch/copy"
    says "$scratch/copy.partial: another pull"
    [ -e "$scratch/copy.partial" ] || fail "the first pull's file is gone"
    kill -CONT "$puller"
    wait "$puller" || fail "the first pull ended with $?"
    same_content "$scratch/source" "$scratch/copy"
    [ ! -e "$scratch/copy.partial" ] || fail "copy.partial is left"
}

test_a_partial_file_of_before_is_written_anew() {
    a_file 1000
    head -c 5000 /dev/zero >"$scratch/copy.partial"
    serve --file "$scratch/source"
    exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/copy"
    same_content "$scratch/source" "$scratch/copy"
}

test_a_file_that_is_replaced_keeps_its_mode() {
    local mode puller
    a_file 1000
    serve --file "$scratch/source"
    for mode in 600 640 400 666; do
        printf 'before' >"$scratch/other"
        chmod "$mode" "$scratch/other"
        exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/other"
        [ "$(stat -c %a "$scratch/other")" = "$mode" ] || fail "$mode is now $(stat -c %a "$scratch/other")"
        rm -f "$scratch/copy" "$scratch/other"
        printf 'before' >"$scratch/copy"
        chmod "$mode" "$scratch/copy"
        # Wider than that, and of a pull before.
        : >"$scratch/copy.partial" && chmod 666 "$scratch/copy.partial"
        exits 0 "$OTTE" pull "$endpoint/source" -o "$scratch/copy"
        same_content "$scratch/source" "$scratch/copy"
        [ "$(stat -c %a "$scratch/copy")" = "$mode" ] || fail "$mode is now $(stat -c %a "$scratch/copy")"
    done
    rm -f "$scratch/copy"
    (umask 027 && "$OTTE" pull "$endpoint/source" -o "$scratch/copy" >"$scratch/out") || fail "pull failed"
    [ "$(stat -c %a "$scratch/copy")" = 640 ] || fail "umask 027 gives $(stat -c %a "$scratch/copy")"
    stop_serving
    # Nor is it wider while it grows.
    truncate -s 256M "$scratch/source"
    serve --file "$scratch/source"
    for _ in $(seq 50); do
        printf 'before' >"$scratch/copy" && chmod 600 "$scratch/copy"
        "$OTTE" pull "$endpoint/source" -o "$scratch/copy" >/dev/null 2>"$scratch/err" &
        puller=$!
        until mode=$(stat -c %a "$scratch/copy.partial" 2>/dev/null) || ! kill -0 "$puller" 2>/dev/null; do
            sleep 0.005
        done
        wait "$puller" || fail "the pull ended with $?: $(cat "$scratch/err")"
        puller=
        [ -z "$mode" ] || break
    done
    [ "$mode" = 600 ] || fail "copy.partial had $mode"
}

test_what_is_in_the_way_of_a_partial_file_is_not_written_to() {
    local way

    a_file 1000
    serve --file "$scratch/source"
    for way in symlink link pipe; do
        printf 'precious' >"$scratch/victim"
        rm -f "$scratch/copy.partial"
        case $way in
        symlink) ln -s victim "$scratch/copy.partial" ;;
        link) ln "$scratch/victim" "$scratch/copy.partial" ;;
        pipe) mkfifo "$scratch/copy.partial" ;;
        esac
        exits 5 timeout 10 "$OTTE" pull "$endpoint/source" -o "$scratch/copy"
        says "copy.partial is in the way"
        [ "$(cat "$scratch/victim")" = precious ] || fail "$way: it was written to"
        [ ! -e "$scratch/copy" ] || fail "$way: a copy is there"
    done
}

test_no_progress_bar_in_a_pipe_and_one_on_a_terminal() {
    truncate -s 1G "$scratch/source"
    serve --file "$scratch/source"
    exits 0 "$OTTE" pull "$endpoint/source" -o /dev/null
    ! grep -q $'\r' "$scratch/err" "$scratch/out" || fail "a bar in a pipe"
    script -qec "$OTTE pull $endpoint/source -o /dev/null" "$scratch/terminal" >/dev/null </dev/null
    grep -q $'\r' "$scratch/terminal" || fail "no bar on a terminal"
    grep -q 'GB/s' "$scratch/terminal" || fail "no rate on a terminal"
}

test_a_message_takes_the_place_of_the_bar() {
    local puller
    truncate -s 64G "$scratch/source"
    serve --file "$scratch/source"
    script -qfec "$OTTE pull $endpoint/source -o /dev/null --set tcp.stall_timeout_ms=300" \
        "$scratch/terminal" >/dev/null </dev/null &
    puller=$!
    eventually grep -qs 'left' "$scratch/terminal" || fail "no bar: $(cat -v "$scratch/terminal")"
    kill -STOP "$server"
    wait "$puller"
    puller=
    grep -q $'\r\033\\[Kotte pull: .*peer lost: no byte moved' "$scratch/terminal" ||
        fail "it said: $(tail -n 3 "$scratch/terminal" | tail -c 300 | cat -v)"
}

test_colours_are_for_terminals_only() {
    exits 0 "$OTTE" topo
    ! grep -q $'\033' "$scratch/out" || fail "an escape sequence in a pipe"
}

# on_a_terminal COMMAND: what it shows is $scratch/terminal
on_a_terminal() {
    script -qec "$1" "$scratch/terminal" >/dev/null </dev/null
}

test_who_wants_no_colours_gets_none() {
    local without open="timeout 1 $OTTE serve --anon room=4K --listen 0.0.0.0:0"
    on_a_terminal "env -u NO_COLOR TERM=xterm $OTTE topo"
    grep -q $'\033\\[1m' "$scratch/terminal" || fail "no bold heading: $(cat -v "$scratch/terminal")"
    on_a_terminal "env -u NO_COLOR TERM=xterm $open"
    grep -q $'\033\\[33mwarning' "$scratch/terminal" || fail "no colour: $(cat -v "$scratch/terminal")"
    on_a_terminal "env NO_COLOR= TERM=xterm $OTTE topo"
    grep -q $'\033\\[1m' "$scratch/terminal" || fail "an empty NO_COLOR counts"
    for without in 'NO_COLOR=1 TERM=xterm' '-u NO_COLOR TERM=dumb'; do
        on_a_terminal "env $without $OTTE topo"
        ! grep -q $'\033' "$scratch/terminal" || fail "$without: $(cat -v "$scratch/terminal")"
        on_a_terminal "env $without $open"
        ! grep -q $'\033' "$scratch/terminal" || fail "$without: $(cat -v "$scratch/terminal")"
    done
}

test_the_ready_descriptor_gets_the_endpoint() {
    exec {ready}> >(cat >"$scratch/ready")
    serve --anon room=4K --ready-fd "$ready"
    exec {ready}>&-
    eventually is_content "$endpoint" "$scratch/ready" || fail "it got \"$(cat "$scratch/ready")\""
    exits 1 "$OTTE" serve --anon room=4K --ready-fd 199 && says 199
}

test_bench_against_a_peer_checks_content() {
    serve --anon room=1M --writable
    exits 0 "$OTTE" bench --peer "$endpoint/room" --sizes 4K,64K --batch 4 --threads 2 \
        --iterations 20 --rounds 2 --json
    jq -e '.verified and (.results | length == 4) and .route == "tcp"' "$scratch/out" >/dev/null ||
        fail "it said: $(cat "$scratch/out")"
    exits 4 "$OTTE" bench --peer "$endpoint/room" --sizes 2M && says 1048576
}

test_a_bench_that_reads_leaves_the_peer_as_it_is() {
    a_file 65536
    cp "$scratch/source" "$scratch/before"
    serve --file "$scratch/source" --writable
    for how in --no-verify --json; do
        exits 0 "$OTTE" bench --peer "$endpoint/source" --op read --sizes 4K --iterations 20 --rounds 2 $how
        same_content "$scratch/source" "$scratch/before"
    done
    jq -e '.verified == false and (.results | length == 1)' "$scratch/out" >/dev/null ||
        fail "it said: $(cat "$scratch/out")"
    exits 0 "$OTTE" bench --peer "$endpoint/source" --op write --sizes 4K --iterations 20 --rounds 2 --json
    jq -e '.verified' "$scratch/out" >/dev/null || fail "it said: $(cat "$scratch/out")"
    ! cmp -s "$scratch/source" "$scratch/before" || fail "nothing was written"
}

test_a_bar_that_is_missed_exits_with_7_and_is_named() {
    exits 7 "$OTTE" bench --sizes 4K --op read --iterations 20 --rounds 3 --floor --require 4K=1000
    says 'otte bench: 1 bar missed'
    grep -q 'MISSED: READ 4 KiB' "$scratch/out" || fail "it said: $(cat "$scratch/out")"
    exits 0 "$OTTE" bench --sizes 4K --op read --iterations 20 --rounds 3 --floor --require 4K=0.0001
    exits 7 "$OTTE" bench --sizes 4K --op read --iterations 20 --rounds 3 --floor --require 8K=0.0001
    grep -q 'MISSED: READ 8 KiB was not measured' "$scratch/out" || fail "it said: $(cat "$scratch/out")"
}

test_the_report_is_appended_as_a_table() {
    echo before >"$scratch/report"
    exits 0 "$OTTE" bench --sizes 4K --iterations 20 --rounds 3 --floor --report "$scratch/report"
    [ "$(head -n 1 "$scratch/report")" = before ] || fail "the file was not appended to"
    [ "$(grep -c '^| otte |' "$scratch/report")" -eq 2 ] || fail "it holds: $(cat "$scratch/report")"
}

run_tests
