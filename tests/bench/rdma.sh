#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Transport rdma beside perftest on the same rxe device, in turn, in one boot of a guest. Bars are those of
# docs/performance.md.
#
#   tests/bench/rdma.sh [OPTION...] BUILD        BUILD has bench/rdma
#
#   --kernel NAME   6.12 (default), 6.1, ...
#   --rounds N      3
#   --mtu BYTES     1024 (default), 2048, 4096
#   --depth N       16: requests of a batch, and of perftest under way
#   --poll          perftest polls; without, it sleeps until a completion, as the library does; ib_write_bw
#                   always polls
#   --cpus N        1 (default): a clock of instructions, which no other work on the host moves; with more
#                   it is the host's
#   --module        with otte.ko, so that the library's ledger is the kernel's
#   --floors        perftest alone; nothing is judged
#   --append WORDS  more kernel parameters
#   --json          one object
#
# Exit status 1 when a bar is missed, 2 and more when something could not be measured.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/../vm/lib.sh
. "$here/../vm/lib.sh"

kernel=6.12 rounds=3 mtu=1024 depth=16 completion=events cpus=1 module='' floors='' append='' json='' build=''
while [ $# -gt 0 ]; do
    case $1 in
    --kernel) kernel=$2; shift ;;
    --rounds) rounds=$2; shift ;;
    --mtu) mtu=$2; shift ;;
    --depth) depth=$2; shift ;;
    --cpus) cpus=$2; shift ;;
    --append) append=$2; shift ;;
    --poll) completion=poll ;;
    --module) module=1 ;;
    --floors) floors=1 ;;
    --json) json=1 ;;
    -*) lab_die "unknown option $1" ;;
    *) build=$1 ;;
    esac
    shift
done
[ -n "$build" ] || lab_die "no build folder"
lab_need ib_read_bw=perftest rdma=iproute2 jq=jq

out=$lab_top/${O:-build}/bench/rdma-guest
mkdir -p "$out"
# Copies: what a running guest uses is not built anew.
install "$build/bench/rdma" "$here/rdma-guest.sh" "$out/"
guest=(--kernel "$kernel" --cpus "$cpus" --timeout $((120 + rounds * 400)))
# On the host's clock the emulator takes far longer to empty its TLB, as page-table isolation has it do at each system
# call, than for the call: without it there.
mitigations=off
[ "$cpus" -gt 1 ] || { guest+=(--icount); mitigations=auto; }
if [ -n "$module" ]; then
    cp "$("$lab_dir/build-module" --kernel "$kernel" --w1 --werror)" "$out/otte.ko"
    guest+=(--module "$out/otte.ko")
fi
program=$out/rdma
[ -z "$floors" ] || program=
# rxe finds its checksum by name only if that is loaded; dummy makes the interface dummy0.
if ! "$lab_dir/run" --quiet --root 9p "${guest[@]}" --append "mitigations=$mitigations $append" \
    --modprobe crc32_generic --modprobe dummy --modprobe ib_uverbs --modprobe rdma_rxe \
    -- "$out/rdma-guest.sh" "$mtu" "$depth" "$rounds" "$completion" ${program:+"$program"} >"$out/lines"; then
    cat "$out/lines" >&2
    exit 2
fi
jq -nR --arg kernel "$(cat "$(lab_kernel "$kernel")/release")" --argjson rounds "$rounds" --argjson mtu "$mtu" \
    --argjson depth "$depth" --argjson cpus "$cpus" --arg completion "$completion" \
    --arg ledger "${module:+kernel}" --arg floors "$floors" -f "$here/rdma.jq" "$out/lines" >"$out/result.json"
if [ -n "$json" ]; then
    jq -c . "$out/result.json"
else
    jq -r '
        def told($unit): if $unit == "ns" then "\(. / 100 | round / 10) us" else "\(. / 1e5 | round / 10) MB/s" end;
        def range_told($unit): map(told($unit)) | join(" to ");
        "Linux \(.kernel), \(if .cpus == 1 then "one CPU, by instructions" else "\(.cpus) CPUs" end); " +
        "MTU \(.mtu), one queue pair, depth \(.depth); perftest: \(.completion); ledger: \(.ledger); " +
        "medians of \(.rounds) rounds", "",
        "| | by | beside | the floor | its range | otte | its range | ratio | bar | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        (.figures[] | .unit as $u | [.figure, .mode, .beside, (.floor | told($u)), (.floor_range | range_told($u))] +
            (if .otte then [(.otte | told($u)), (.otte_range | range_told($u)), (.ratio * 1000 | round / 1000)]
             else ["", "", ""] end) + [.bar // "", .verdict] | "| \(map(tostring) | join(" | ")) |")' "$out/result.json"
fi
jq -e 'all(.figures[]; .verdict != "missed")' "$out/result.json" >/dev/null
