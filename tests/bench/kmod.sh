#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What the module costs, counted in instructions: one guest for each kernel and setting, one CPU,
# one instruction is one nanosecond. Bars are those of docs/performance.md.
#
#   tests/bench/kmod.sh [--quick] [--json] [--kernel NAME]... [--setting NAME]...
#
# Settings: stock (the kernel's own defaults), unmitigated (mitigations=off), words (no fast string
# operations, so that a copy is counted by words and not by bytes). All kernels and settings by
# default. Exit status 1 when a bar is missed in any of them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/../vm/lib.sh
. "$here/../vm/lib.sh"

kernels=() settings=() options=()
while [ $# -gt 0 ]; do
    case $1 in
    --kernel) kernels+=("$2"); shift ;;
    --setting) settings+=("$2"); shift ;;
    --quick | --json) options+=("$1") ;;
    *) lab_die "unknown option $1" ;;
    esac
    shift
done
[ ${#kernels[@]} -gt 0 ] || kernels=(6.1 6.12)
[ ${#settings[@]} -gt 0 ] || settings=(stock unmitigated words)

# The guest's own default is mitigations=off, which is quicker; the last word counts.
parameters() {
    case $1 in
    stock) echo mitigations=auto ;;
    unmitigated) echo mitigations=off ;;
    words) echo mitigations=auto clearcpuid=erms,fsrm ;;
    *) lab_die "unknown setting $1" ;;
    esac
}

for setting in "${settings[@]}"; do
    parameters "$setting" >/dev/null
done
out=$lab_top/${O:-build}/bench
mkdir -p "$out"
gcc-12 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wno-missing-field-initializers -Werror -static -pthread \
    -o "$out/kmod" "$here/kmod.c"

missed=0
for kernel in "${kernels[@]}"; do
    # A copy: another build for this kernel takes its own away.
    mkdir -p "$out/$kernel"
    cp "$("$lab_dir/build-module" --kernel "$kernel" --w1 --werror)" "$out/$kernel/otte.ko"
    for setting in "${settings[@]}"; do
        if [[ " ${options[*]} " == *' --json '* ]]; then
            printf '{"kernel":"%s","setting":"%s"}\n' "$(cat "$(lab_kernel "$kernel")/release")" "$setting"
        else
            printf '\n%s, %s\n' "$(cat "$(lab_kernel "$kernel")/release")" "$setting"
        fi
        # glibc's choice would be rep movsb, which is counted by bytes: vectors are what a CPU
        # takes.
        status=0
        "$lab_dir/run" --quiet --kernel "$kernel" --root initrd --icount --module "$out/$kernel/otte.ko" \
            --timeout 600 --append "$(parameters "$setting")" \
            --env GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1073741824 \
            "$out/kmod" "${options[@]}" || status=$?
        [ "$status" -le 1 ] || exit "$status"
        [ "$status" -eq 0 ] || missed=1
    done
done
exit "$missed"
