#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Processes that share a link by slots, in a guest; see slots.c.
#
#   tests/bench/slots.sh [--kernel NAME] [--quick] [--repetitions N] [--mbit N] BUILD    BUILD has bench/slots
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/../vm/lib.sh
. "$here/../vm/lib.sh"

kernel=6.12 mbit=80 timeout=900 options=()
while [ $# -gt 1 ]; do
    case $1 in
    --kernel) kernel=$2; shift ;;
    --mbit) mbit=$2; shift ;;
    --repetitions) options+=(-r "$2"); shift ;;
    --quick) options+=(-q) timeout=180 ;;
    *) lab_die "unknown option $1" ;;
    esac
    shift
done
build=${1:?usage: tests/bench/slots.sh [OPTION...] BUILD}
out=$lab_top/${O:-build}/bench/slots
mkdir -p "$out"
# Copies: what a running guest uses is not built anew.
install "$build/bench/slots" "$build/bench/slot_check" "$here/slots-guest.sh" "$here/slot_check.sh" "$out/"
cp "$("$lab_dir/build-module" --kernel "$kernel" --w1 --werror)" "$out/otte.ko"
# The clock-only gate needs no module: here, too.
"$here/slot_check.sh" "$build/bench/slot_check" clock
exec "$lab_dir/run" --quiet --kernel "$kernel" --root 9p --modprobe veth --modprobe sch_tbf \
    --module "$out/otte.ko" --unload --timeout "$timeout" -- \
    "$out/slots-guest.sh" "$mbit" "${options[@]}"
