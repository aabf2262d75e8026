#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs in a guest (busybox): system calls of one request, those of COUNT more requests divided by COUNT, so that what
# begins and ends a process is not among them. A line for each ledger, memory, operation and size:
# "kernel owned read 4096: 4.00 epoll_wait 0.50 recvmsg 1.00 ..."
#
#   ledger_calls.sh COUNT          /t/ledger and /t/strace are there

count=$1

# calls N ...: "NAME CALLS" a line
calls() {
    /t/strace -f -c -U name,calls -o /tmp/calls /t/ledger --steps "$@" || exit 1
    awk '$2 ~ /^[0-9]+$/ && $1 != "total" { print $1, $2 }' /tmp/calls
}

for memory in owned adopted; do
    for op in read write; do
        for size in 4096 65536 1048576; do
            for ledger in process kernel; do
                calls "$count" "$ledger" "$memory" "$op" "$size" >/tmp/few || exit 1
                calls $((2 * count)) "$ledger" "$memory" "$op" "$size" >/tmp/many || exit 1
                awk -v n="$count" -v what="$ledger $memory $op $size" '
                    NR == FNR { few[$1] = $2; next }
                    { d = ($2 - few[$1]) / n; sum += d; if (d >= 0.005) line = line sprintf(" %s %.2f", $1, d) }
                    END { printf "%s: %.2f%s\n", what, sum, line }' /tmp/few /tmp/many
            done
        done
    done
done
