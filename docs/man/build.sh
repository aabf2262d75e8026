#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Makes the man pages: docs/man/NAME.SECTION.scd becomes OUT/manSECTION/NAME.SECTION, and each further
# name in its NAME section becomes a page that says "see there".
#
#   docs/man/build.sh OUT VERSION [SOURCE-FOLDER]
set -euo pipefail

out=$1 version=$2
from=${3:-$(dirname "$0")}

rm -rf "$out"
for source in "$from"/*.scd; do
    page=$(basename "$source" .scd)
    section=${page##*.}
    mkdir -p "$out/man$section"
    sed "s/@VERSION@/$version/" "$source" | scdoc >"$out/man$section/$page"
    awk '/^# / { in_name = $0 == "# NAME"; next } in_name && / - / { sub(/ - .*/, ""); gsub(/,/, ""); print }' \
        "$source" | tr ' ' '\n' | while read -r name; do
        [ "$name.$section" = "$page" ] ||
            printf '.so man%s/%s\n' "$section" "$page" >"$out/man$section/$name.$section"
    done
done
