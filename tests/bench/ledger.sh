#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What the kernel ledger costs TCP beside the process ledger, in a guest of one CPU: instructions (one is one
# nanosecond of its clock), and system calls of a request, where strace is installed.
#
#   tests/bench/ledger.sh [--kernel NAME] [--rounds N] [--calls N] PROGRAM
#
# --calls 0 counts none. Exit status 1 when a bar is missed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/../vm/lib.sh
. "$here/../vm/lib.sh"

kernel=6.12 rounds=7 calls=50
while [ $# -gt 1 ]; do
    case $1 in
    --kernel) kernel=$2 ;;
    --rounds) rounds=$2 ;;
    --calls) calls=$2 ;;
    *) lab_die "unknown option $1" ;;
    esac
    shift 2
done
program=${1:?usage: tests/bench/ledger.sh [--kernel NAME] [--rounds N] [--calls N] PROGRAM}
module=$("$lab_dir/build-module" --kernel "$kernel" --w1 --werror)
printf '%s, stock mitigations\n' "$(cat "$(lab_kernel "$kernel")/release")"

files=(--file "$program:/t/ledger")
# First the control, so that what a guest still does after its boot falls on that.
command="echo 'control: the process ledger twice'; /t/ledger --control $rounds"
command="$command; echo 'the kernel ledger'; /t/ledger --rounds $rounds; bad=\$?"
if [ "$calls" -gt 0 ] && strace=$(command -v strace); then
    files+=(--file "$strace:/t/strace" --file "$here/ledger_calls.sh:/t/calls.sh")
    command="$command; sh /t/calls.sh $calls || exit 2"
fi
# Vectors are what a CPU takes for memcpy(); see kmod.sh.
"$lab_dir/run" --quiet --kernel "$kernel" --root initrd --icount --module "$module" --timeout 900 \
    --append mitigations=auto --env GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1073741824 \
    "${files[@]}" -- sh -c "$command; exit \$bad"
