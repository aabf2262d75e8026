#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs in a guest: one link, shaped, to a network of its own with the source; then the processes that share it.
#
#   slots-guest.sh MBIT ARGUMENT...     ARGUMENTs are for the program `slots`, beside this file as is slot_check
set -eu
here=$(dirname "$0")
program=$here/slots mbit=$1
shift

ip netns add far
ip link add near0 type veth peer name far0 netns far
ip addr add 192.0.2.1/24 dev near0
ip link set near0 up
ip -n far addr add 192.0.2.2/24 dev far0
ip -n far link set far0 up
ip -n far link set lo up
# No larger packets than a NIC would send; a queue that holds all that may be under way, so that nothing is dropped.
ethtool -K near0 tso off gso off >/dev/null 2>&1 || ip link set near0 gso_max_size 1500 gso_max_segs 1
tc qdisc add dev near0 root tbf rate "${mbit}mbit" burst 16kb limit 16mb

rm -f /tmp/source
ip netns exec far "$program" source >/tmp/source &
source=$!
for _ in $(seq 300); do
    [ -s /tmp/source ] && break
    sleep 0.1
done
read -r address region </tmp/source
status=0
{
    "$program" run "$address" "$region" -m "$mbit" "$@" || echo failed
    kill "$source"
    tc -s qdisc show dev near0 | grep -o 'dropped [0-9]*'
    # In the domain, too, a check is no system call.
    "$here/slot_check.sh" "$here/slot_check" clock alone ruled || echo failed
} | tee /tmp/all
grep -qx failed /tmp/all && status=1
awk '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p += $1; f += $3; s += $5 }
    END { printf "%d passed, %d failed, %d skipped\n", p, f, s }' /tmp/all
exit "$status"
