#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# make demo: two processes, a real file pulled and pushed back through registered memory, checked,
# and a short benchmark. Shows each command that it runs.
#
#   tools/demo.sh PROGRAM
set -u
otte=$(realpath "${1:?the program otte}")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/otte-demo.XXXXXX")
server=

cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null
    rm -rf "$scratch"
}
trap cleanup EXIT

die() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

# show COMMAND...: print it as a user would type it, and run it
show() {
    printf '\n$ otte %s\n' "$*" | sed "s|$scratch/||g"
    "$otte" "$@" | sed "s|$scratch/||g"
    [ "${PIPESTATUS[0]}" -eq 0 ] || die "otte $1 failed"
}

# A real file of tens of MB: the compiler proper, or the largest thing that is at hand.
find_file() {
    local compiler candidate
    compiler=$(gcc -print-prog-name=cc1 2>/dev/null)
    for candidate in "$compiler" "$(command -v gdb)" "$(command -v clang)" "$otte"; do
        [ -f "$candidate" ] && realpath "$candidate" && return
    done
}

sum_of() {
    sha256sum <"$1" | cut -d' ' -f1
}

check() {
    [ "$(sum_of "$1")" = "$wanted" ] || die "$1 is not what it must be"
    printf '%-34s SHA-256 %s...  right\n' "$2" "${wanted:0:16}"
}

file=$(find_file) || die "no file to move"
bytes=$(stat -c %s "$file")
wanted=$(sum_of "$file")
printf 'The file: %s, %d MB\n' "$file" $((bytes / 1000000))

# The second process: publishes the file for reading and room to write it back to.
cp "$file" "$scratch/weights"
truncate -s "$bytes" "$scratch/returned"
printf '\n$ otte serve --writable --file weights --file returned &\n'
"$otte" serve --writable --quiet --file "$scratch/weights" --file "$scratch/returned" \
    --port-file "$scratch/port" &
server=$!
for _ in $(seq 200); do
    [ -e "$scratch/port" ] && break
    kill -0 "$server" 2>/dev/null || die "the server ended"
    sleep 0.05
done
endpoint=$(cat "$scratch/port") || die "the server did not start"

show ls "$endpoint"
show pull "$endpoint/weights" -o "$scratch/copy"
show push "$scratch/copy" "$endpoint/returned"
kill -TERM "$server"
wait "$server" || die "the server did not end cleanly"
server=

printf '\nWhat was moved, by sha256sum:\n'
check "$scratch/copy" "pulled from the other process"
check "$scratch/returned" "pushed back into its file"

printf '\nHow fast, beside two processes with plain sockets (a ratio of 1 is as fast as those):\n'
"$otte" bench --sizes 4K,64K,1M,16M --op read --congestion reno --pin "$(taskset -cp $$ |
    sed -E 's/.*: *([0-9]+).*/\1/')" --floor --duration 1s --rounds 5 --json >"$scratch/bench" ||
    die "the benchmark failed"
printf '\n  %-10s %14s %16s %12s %10s\n' "block" "otte GB/s" "sockets GB/s" "otte us" "ratio"
awk -F'[:,]' '
    /"side"/ { gsub(/[ "]/, "", $2); side = $2 }
    /"block"/ { block = $2 + 0 }
    /"gbps"/ { gbps[side, block] = $2; if (side == "otte") order[++n] = block }
    /"p50_us"/ { us[side, block] = $2 }
    /"speed_ratio"/ { ratio[block] = $2 }
    END {
        for (i = 1; i <= n; i++) {
            b = order[i]
            name = b >= 1048576 ? b / 1048576 " MiB" : b / 1024 " KiB"
            printf "  %-10s %14.2f %16.2f %12.1f %10.2f\n", name, gbps["otte", b],
                gbps["floor", b], us["otte", b], ratio[b]
        }
    }' "$scratch/bench"
printf '\nGB is 1e9 bytes. Both processes ran on one CPU with congestion control reno; medians of 5.\n'
printf 'More: otte --help, otte bench --help, make check, make bench.\n'
