#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The program otte between two hosts: network namespaces without a name, which a holder keeps, and which
# go with it. Everything that is started dies with the test, so that a test that is killed leaves nothing.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"

hosts=()

# on HOST COMMAND...: in its namespace, in place of the caller
on() {
    local host=$1
    shift
    exec nsenter --net="/proc/${hosts[host]}/ns/net" setpriv --pdeathsig KILL "$@"
}

# Hosts 0 and 1, joined by a link; 77 where this machine does not let us.
make_hosts() {
    local i
    for i in 0 1; do
        setpriv --pdeathsig KILL unshare --net sleep 600 2>/dev/null &
        hosts[i]=$!
    done
    for i in 0 1; do
        for _ in $(seq 100); do
            [ "$(readlink "/proc/${hosts[i]}/ns/net")" = "$(readlink /proc/$$/ns/net)" ] || break
            kill -0 "${hosts[i]}" 2>/dev/null || exit 77
            sleep 0.02
        done
        (on "$i" ip link set lo up) || exit 77
    done
    (on 0 ip link add otte0 type veth peer name otte0 netns "${hosts[1]}") || exit 77
    for i in 0 1; do
        (on "$i" ip addr add "10.77.7.$((i + 1))/24" dev otte0)
        (on "$i" ip addr add "fd77:7::$((i + 1))/64" dev otte0 nodad)
        (on "$i" ip link set otte0 up)
    done
}

# serve_there ARGUMENTS...: otte serve on host 1
serve_there() {
    rm -f "$scratch/endpoint"
    (on 1 "$OTTE" serve --quiet --port-file "$scratch/endpoint" "$@" \
        >"$scratch/serve.out" 2>"$scratch/serve.err") &
    server=$!
    wait_for_file "$scratch/endpoint" || fail "the server did not start: $(cat "$scratch/serve.err")"
    endpoint=$(cat "$scratch/endpoint")
}

# here COMMAND...: on host 0, as a command that exits() can run
here() {
    (on 0 timeout 60 "$@")
}

# server_there_counts FILTER: the counters of the server on host 1, now in $scratch/counts, are so
server_there_counts() {
    (on 1 "$OTTE" stats "$server" --json) >"$scratch/counts" && jq -e "$1" "$scratch/counts" >/dev/null
}

moves_a_file_both_ways() {
    make_hosts
    head -c 50000001 /dev/urandom >"$scratch/source"
    serve_there --listen "$1" --file "$scratch/source:data" --anon room=50000001 --writable
    exits 0 here "$OTTE" ls "$endpoint"
    exits 0 here "$OTTE" pull "$endpoint/data" -o "$scratch/copy"
    same_content "$scratch/source" "$scratch/copy"
    exits 0 here "$OTTE" push "$scratch/source" "$endpoint/room"
    exits 0 here "$OTTE" pull "$endpoint/room" -o "$scratch/again"
    same_content "$scratch/source" "$scratch/again"
    stop_serving
    [ "$server_status" -eq 0 ] || fail "serve ended with $server_status"
}

test_a_file_is_pulled_and_pushed_between_hosts_over_ipv4() {
    moves_a_file_both_ways 10.77.7.2:0
}

test_a_file_is_pulled_and_pushed_between_hosts_over_ipv6() {
    moves_a_file_both_ways '[fd77:7::2]:0'
}

test_bench_between_hosts_checks_content() {
    make_hosts
    serve_there --listen 10.77.7.2:0 --anon room=8M --writable
    exits 0 here "$OTTE" bench --peer "$endpoint/room" --sizes 4K,8M --lanes 4 --iterations 10 \
        --rounds 2 --json
    jq -e '.verified and (.results | length == 4)' "$scratch/out" >/dev/null ||
        fail "it said: $(cat "$scratch/out")"
}

test_a_pull_over_a_link_that_is_cut_fails_in_time_and_the_next_one_works() {
    local limits=(--set deadline.default_ms=2000 --set tcp.stall_timeout_ms=1000
        --set control.timeout_ms=1000)
    make_hosts
    truncate -s 64G "$scratch/source"
    serve_there --listen 10.77.7.2:0 --file "$scratch/source:data" --anon small=1M "${limits[@]}"
    here "$OTTE" pull "$endpoint/data" -o /dev/null "${limits[@]}" 2>"$scratch/err" &
    local puller=$!
    eventually server_there_counts '.served_read_bytes > 0' || fail "nothing is pulled: $(cat "$scratch/err")"
    (on 1 ip link set otte0 down)
    local cut=$SECONDS status=0
    wait "$puller" || status=$?
    [ "$status" -eq 2 ] || [ "$status" -eq 3 ] || fail "pull: status $status: $(cat "$scratch/err")"
    [ $((SECONDS - cut)) -le 20 ] || fail "it took $((SECONDS - cut)) s"
    (on 1 ip link set otte0 up)
    exits 0 here "$OTTE" pull "$endpoint/small" -o "$scratch/copy"
    eventually server_there_counts '.peers_in == 0 and .lanes == 0 and .retained == 0' ||
        fail "the server keeps: $(cat "$scratch/counts")"
}

test_a_test_that_is_killed_leaves_no_namespace() {
    local holder=$scratch/holder
    (
        make_hosts
        printf '%s %s' "${hosts[@]}" >"$holder.tmp" && mv "$holder.tmp" "$holder"
        setpriv --pdeathsig KILL sleep 60 &
        wait
    ) &
    local victim=$!
    wait_for_file "$holder" || exit 77
    read -r -a hosts <"$holder"
    kill -KILL "$victim"
    wait "$victim" 2>/dev/null
    for _ in $(seq 100); do
        kill -0 "${hosts[0]}" 2>/dev/null || kill -0 "${hosts[1]}" 2>/dev/null || return 0
        sleep 0.05
    done
    fail "the holder of a namespace is alive"
}

run_tests
