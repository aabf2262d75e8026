#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The committed images are what clang 14 makes of their sources: tests/cuda/image.sh FLAGS -- SOURCE...
# Closing line: "N passed, N failed, N skipped".
set -uo pipefail

flags=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    flags+=("$1")
    shift
done
shift
clang=${CLANG_PTX:-clang-14}
passed=0 failed=0 skipped=0
made=$(mktemp)
trap 'rm -f "$made"' EXIT

for source in "$@"; do
    image=${source%.cu}.ptx
    if ! command -v "$clang" >/dev/null; then
        echo "skipped: $image: there is no $clang"
        skipped=$((skipped + 1))
    elif "$clang" "${flags[@]}" -o "$made" "$source" && diff -u "$image" "$made"; then
        echo "passed: $image is made of $source"
        passed=$((passed + 1))
    else
        echo "FAILED: $image is not what $clang makes of $source: make copy-image"
        failed=$((failed + 1))
    fi
done

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
