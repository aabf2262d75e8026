#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What a tenant at its quota costs its neighbours, in a guest: the neighbour has one CPU, the tenant a process on each
# other; see quota.c.
#
#   tests/bench/quota.sh [--kernel NAME] [--cpus N] [--rounds N] [--reads N] PROGRAM
#
# Exit status 1 when the bar is missed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/../vm/lib.sh
. "$here/../vm/lib.sh"

kernel=6.12 cpus=2 rounds=15 reads=500
while [ $# -gt 1 ]; do
    case $1 in
    --kernel) kernel=$2 ;;
    --cpus) cpus=$2 ;;
    --rounds) rounds=$2 ;;
    --reads) reads=$2 ;;
    *) lab_die "unknown option $1" ;;
    esac
    shift 2
done
program=${1:?usage: tests/bench/quota.sh [--kernel NAME] [--cpus N] [--rounds N] [--reads N] PROGRAM}
module=$("$lab_dir/build-module" --kernel "$kernel")
printf '%s, %s CPUs, stock mitigations\n' "$(cat "$(lab_kernel "$kernel")/release")" "$cpus"
"$lab_dir/run" --quiet --kernel "$kernel" --root initrd --cpus "$cpus" --module "$module" --unload --timeout 600 \
    --append mitigations=auto --file "$program:/t/quota" -- /t/quota --rounds "$rounds" --reads "$reads"
