#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What a tenant at its quota costs its neighbours, in a guest; see quota.c.
#
#   tests/bench/quota.sh [--kernel NAME] [--cpus N] [--rounds N] [--reads N] [--only RESOURCE] PROGRAM
#
# One CPU unless --cpus says otherwise: on a clock of instructions, which no other work on the host moves, and on which
# neighbour and tenant take turns. With more the clock is the host's, which must be idle and have as many.
#
# Exit status 1 when the bar is missed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/../vm/lib.sh
. "$here/../vm/lib.sh"

kernel=6.12 cpus=1 rounds=7 reads=300
only=()
while [ $# -gt 1 ]; do
    case $1 in
    --kernel) kernel=$2 ;;
    --cpus) cpus=$2 ;;
    --rounds) rounds=$2 ;;
    --reads) reads=$2 ;;
    --only) only=(--only "$2") ;;
    *) lab_die "unknown option $1" ;;
    esac
    shift 2
done
program=${1:?usage: tests/bench/quota.sh [--kernel NAME] [--cpus N] [--rounds N] [--reads N] [--only RESOURCE] PROGRAM}
module=$("$lab_dir/build-module" --kernel "$kernel")
guest=(--cpus "$cpus")
[ "$cpus" -gt 1 ] || guest=(--icount)
printf '%s, CPUs: %s, stock mitigations\n' "$(cat "$(lab_kernel "$kernel")/release")" "$cpus"
# Vectors are what a CPU takes for memcpy(); see kmod.sh.
"$lab_dir/run" --quiet --kernel "$kernel" --root initrd "${guest[@]}" --module "$module" --unload --timeout 600 \
    --append mitigations=auto --env GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1073741824 \
    --file "$program:/t/quota" -- /t/quota --rounds "$rounds" --reads "$reads" \
    "${only[@]}"
