#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# In the guest of rdma.sh: makes an rxe device, and measures with perftest and with the program `rdma`, in turn.
#
#   rdma-guest.sh MTU DEPTH ROUNDS events|poll [PROGRAM]     without PROGRAM perftest alone
#
# A line for each: FIGURE perftest|send|otte|lease VALUE, which is bytes a second or, of a latency, ns. `send` is
# ib_send_bw: perftest cannot sleep over WRITEs, and what it polls away rxe does not have; the SEND of as many
# bytes can be slept over.
set -euo pipefail
mtu=$1 depth=$2 rounds=$3 completion=$4 program=${5-}
port=18515 gid=1

# RDMA's MTU is the largest of 256 to 4096 that fits into a packet of the interface.
ip link set dummy0 mtu $((mtu + 476))
ip addr add 192.0.2.1/24 dev dummy0
ip link set dummy0 up
rdma link add rxe0 type rxe netdev dummy0

# One queue pair (perftest's own choice), a completion for each request, as many outstanding READs as the library has.
common=(--ib-dev rxe0 --gid-index "$gid" --mtu "$mtu" --CPU-freq)
# Not of ib_write_bw, which refuses it.
events=()
[ "$completion" = poll ] || events=(--events)

# Whether somebody listens on the port.
listens() {
    grep -qi ":$(printf %04X "$port") 00000000:0000 0A" /proc/net/tcp
}

# perftest PROGRAM OPTION...: what the client printed is in /tmp/client. Who finds no server gives up at once.
perftest() {
    local server status=0 end=$((SECONDS + 60))
    timeout 120 "$@" "${common[@]}" >/tmp/server 2>&1 &
    server=$!
    until listens || [ "$SECONDS" -ge "$end" ] || ! kill -0 "$server"; do
        sleep 0.05
    done
    for _ in 1 2 3; do
        status=0
        timeout 120 "$@" "${common[@]}" 127.0.0.1 >/tmp/client 2>&1 || status=$?
        grep -q "Couldn't connect" /tmp/client || break
        { echo "$1 found no server"; cat /proc/net/tcp; } >&2
        sleep 1
    done
    [ "$status" -eq 0 ] || kill "$server" || true
    wait "$server" || status=$?
    [ "$status" -eq 0 ] || { cat /tmp/server /tmp/client; return "$status"; } >&2
}

# perftest_rate read|write|send LENGTH COUNT: bytes a second; perftest's are MiB.
perftest_rate() {
    local options=(--size "$2" --iters "$3" --tx-depth "$depth" --cq-mod 1 --noPeak)
    case $1 in
    read) options+=(--outs 16 "${events[@]}") ;;
    send) options+=("${events[@]}") ;;
    esac
    perftest "ib_$1_bw" "${options[@]}"
    awk -v size="$2" '$1 == size { rate = $4 } END { if (!rate) exit 1; printf "%.0f\n", rate * 1048576 }' /tmp/client
}

# perftest_latency LENGTH COUNT: the median, in ns.
perftest_latency() {
    perftest ib_read_lat --size "$1" --iters "$2" --outs 1 "${events[@]}"
    awk -v size="$1" '$1 == size { us = $5 } END { if (!us) exit 1; printf "%.0f\n", us * 1000 }' /tmp/client
}

otte() {
    timeout 120 "$program" rxe0 "$gid" "$@"
}

# measure FIGURE perftest|send|otte|lease
measure() {
    local value
    case $1-$2 in
    read-64K-perftest) value=$(perftest_rate read 65536 512) ;;
    read-1M-perftest) value=$(perftest_rate read 1048576 64) ;;
    write-64K-perftest) value=$(perftest_rate write 65536 512) ;;
    write-1M-perftest) value=$(perftest_rate write 1048576 64) ;;
    write-64K-send) value=$(perftest_rate send 65536 512) ;;
    write-1M-send) value=$(perftest_rate send 1048576 64) ;;
    latency-4K-perftest) value=$(perftest_latency 4096 1000) ;;
    read-64K-otte) value=$(otte read 65536 "$depth" 512) ;;
    read-1M-otte) value=$(otte read 1048576 "$depth" 64) ;;
    write-64K-otte) value=$(otte write 65536 "$depth" 512) ;;
    write-1M-otte) value=$(otte write 1048576 "$depth" 64) ;;
    latency-4K-otte) value=$(otte read 4096 1 1000) value=${value#* } ;;
    read-64K-lease) value=$(otte read 65536 "$depth" 512 lease) ;;
    read-1M-lease) value=$(otte read 1048576 "$depth" 64 lease) ;;
    write-64K-lease) value=$(otte write 65536 "$depth" 512 lease) ;;
    write-1M-lease) value=$(otte write 1048576 "$depth" 64 lease) ;;
    latency-4K-lease) value=$(otte read 4096 1 1000 lease) value=${value#* } ;;
    esac
    echo "$1 $2 ${value%% *}"
}

for round in $(seq "$rounds"); do
    order=(perftest lease otte)
    [ $((round % 2)) -eq 1 ] || order=(otte lease perftest)
    for figure in read-64K read-1M write-64K write-1M latency-4K; do
        for who in "${order[@]}"; do
            [ "$who" = perftest ] || [ -n "$program" ] || continue
            measure "$figure" "$who"
        done
        case $figure in
        write-*) measure "$figure" send ;;
        esac
    done
done
