#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The static rules, one function each. tests/static/run.sh runs all of them over this tree, and
# tests/static/selftest.sh over small trees in which each is broken.
#
#   tests/static/rules.sh RULE ROOT     findings on stdout; exit status 0 means none
#   tests/static/rules.sh list
#
# O is the build directory.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
rules=(includes spdx prints verbs cuda layout links shell tidy cppcheck)

# Files below the given folders of $root that match the given pattern; nothing built, nothing of git.
files() {
    local pattern=$1 dir
    shift
    for dir in "$@"; do
        [ ! -e "$root/$dir" ] || (cd "$root" && find "$dir" -type d \( -name build -o -name .git \) -prune \
            -o -type f -regextype posix-extended -regex "$pattern" -print)
    done | sed 's|^\./||' | sort -u
}

c_source='.*\.[ch]'

# By name or by first line.
scripts() {
    local file
    files '.*' . | while IFS= read -r file; do
        case $file in
        .ci/*) ;;
        *.sh | *.bash) printf '%s\n' "$file" ;;
        *)
            if head -c 40 "$root/$file" | tr -d '\0' | LC_ALL=C grep -aqE '^#!.*\b(ba)?sh\b'; then
                printf '%s\n' "$file"
            fi
            ;;
        esac
    done
}

# Fails, with the findings, if there are any on stdin.
none() {
    local found
    found=$(cat)
    [ -n "$found" ] || return 0
    printf '%s\n' "$found"
    return 1
}

# What #include "x" and #include <x> name, as files of the tree: beside the including file, then in the
# roots that the compiler gets. A quoted name that is nowhere is a finding too; <...> may be the system's.
rule_includes() {
    local file line form name dir found
    files "$c_source" lib tools include kmod examples tests | while IFS= read -r file; do
        awk '/^[ \t]*#[ \t]*include[ \t]*["<]/ {
            form = /include[ \t]*"/ ? "quoted" : "angle"
            sub(/^[^"<]*["<]/, ""); sub(/[">].*/, ""); print FNR, form, $0 }' "$root/$file" |
            while read -r line form name; do
                found=
                for dir in $([ "$form" = angle ] || dirname "$file") lib include include/uapi tests tools; do
                    if [ -f "$root/$dir/$name" ]; then
                        found=$(realpath -s --relative-to="$root" "$root/$dir/$name")
                        break
                    fi
                done
                case $found,$name,$form,$file in
                ,*,quoted,lib/* | ,*,quoted,include/*)
                    printf '%s:%s:?/%s\n' "$file" "$line" "$name" ;;
                ,linux/otte.h,*) printf '%s:%s:include/uapi/linux/otte.h\n' "$file" "$line" ;;
                ,*) ;;
                *) printf '%s:%s:%s\n' "$file" "$line" "$found" ;;
                esac
            done
    done | awk -f "$here/includes.awk" | none
}

# Each source file names the licence of its folder within its first five lines.
rule_spdx() {
    local file want
    {
        files '.*(\.([chS]|sh|mk|map|awk|scd|py|scr)|Makefile|Kbuild)' .
        scripts
    } | sort -u | while IFS= read -r file; do
        case $file in
        include/uapi/*) want='GPL-2\.0(-only)? WITH Linux-syscall-note' ;;
        kmod/*) want='GPL-2\.0-only' ;;
        tests/kselftest/* | tests/vm/*) want='GPL-2\.0-only( OR BSD-2-Clause)?' ;;
        *) want='GPL-2\.0-only OR BSD-2-Clause' ;;
        esac
        head -n 5 "$root/$file" | LC_ALL=C grep -aqE "SPDX-License-Identifier: $want( \*/| -->)?\$" ||
            printf '%s:1: spdx: wants "SPDX-License-Identifier: %s"\n' "$file" "${want//\\/}"
    done | none
}

# The library and the module print nothing: the one logs through its hook, the other through pr_*().
# Comments and strings are blanked first.
rule_prints() {
    local file
    files "$c_source" lib kmod | while IFS= read -r file; do
        gcc -fpreprocessed -dD -E -w "$root/$file" | sed -E 's/"([^"\\]|\\.)*"/""/g' |
            awk -v file="$file" '
                /^# [0-9]+ / { line = $2 - 1; next }
                { line++ }
                /(^|[^a-zA-Z0-9_])(v?printf|puts|putchar|perror|psignal|v?warnx?|v?errx?)[ \t]*\(/ ||
                /(^|[^a-zA-Z0-9_])(v?fprintf|fputs|fputc|putc|fwrite)[ \t]*\(.*\<?std(out|err)/ {
                    printf "%s:%d: prints: %s\n", file, line, $0 }'
    done | none
}

# libibverbs and what its header has inline are called through the table alone.
rule_verbs() {
    local file
    files "$c_source" lib | grep -vxF lib/transport/rdma/verbs.c | while IFS= read -r file; do
        awk -v file="$file" '/(^|[^a-zA-Z0-9_"])_?ibv_[a-z0-9_]+[ \t]*\(/ {
            printf "%s:%d: verbs: not through the table: %s\n", file, FNR, $0 }' "$root/$file"
    done | none
}

# Nothing of CUDA's is included, linked or opened; libcuda is called through the table alone.
rule_cuda() {
    local file
    files "$c_source" lib | while IFS= read -r file; do
        [ "$file" = lib/cuda/driver.c ] || awk -v file="$file" '
            /(^|[^a-zA-Z0-9_"])cu[A-Z][a-zA-Z0-9_]+[ \t]*\(/ || /"libcuda\.so/ {
                printf "%s:%d: cuda: not through the table: %s\n", file, FNR, $0 }' "$root/$file"
        awk -v file="$file" '/^[ \t]*#[ \t]*include[ \t]*[<"](cuda|cuda_runtime|cuda_runtime_api)\.h/ {
            printf "%s:%d: cuda: building needs nothing of CUDA: %s\n", file, FNR, $0 }' "$root/$file"
    done | none
}

# What .editorconfig says, where an editor did not: tabs in C, no trailing blanks, no line far over 100
# columns, a newline at the end.
rule_layout() {
    local file
    {
        files '.*(\.([ch]|sh|mk|awk)|Makefile|Kbuild)' .
        scripts
    } | sort -u | while IFS= read -r file; do
        expand -t 8 "$root/$file" | awk -v file="$file" '
            / $/ { printf "%s:%d: layout: trailing blank\n", file, FNR }
            { bytes = $0; gsub(/[\200-\277]/, "", bytes) }
            length(bytes) > 120 {
                printf "%s:%d: layout: far over 100 columns\n", file, FNR }'
        case $file in
        *.[ch]) awk -v file="$file" '/^        / && !/^ +\\?$/ {
            printf "%s:%d: layout: indented with blanks\n", file, FNR }' "$root/$file" ;;
        esac
        [ -z "$(tail -c 1 "$root/$file")" ] || printf '%s:1: layout: no newline at the end\n' "$file"
    done | none
}

# Headings of a page as links name them.
headings() {
    sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9_ -]//g; s/ /-/g'
}

# What a page links to within the tree is there: the file, and the heading where one is named.
rule_links() {
    local page line link target
    files '.*\.md' . | while IFS= read -r page; do
        { grep -noE '\]\([^) ]+\)' "$root/$page" || true; } | sed -E 's/^([0-9]+):\]\((.*)\)$/\1 \2/' |
            while read -r line link; do
                [[ $link != *://* ]] || continue
                target=$root/$page
                [[ $link == '#'* ]] || target=$root/$(dirname "$page")/${link%%#*}
                if [ ! -e "$target" ] ||
                    { [[ $link == *#* ]] && ! headings "$target" | grep -qxF "${link#*#}"; }; then
                    printf '%s:%s: links: there is no %s\n' "$page" "$line" "$link"
                fi
            done
    done | none
}

rule_shell() {
    local list
    mapfile -t list < <(scripts)
    [ ${#list[@]} -eq 0 ] || (cd "$root" && shellcheck --format=gcc -x "${list[@]}")
}

# The user-space C files: what the module and its tests include is of another world.
user_c() {
    files '.*\.c' lib tools examples tests | grep -vE '^tests/(kselftest|vm|static|fuzz|ottectl)/' || true
}

c_flags=(-std=gnu11 -D_GNU_SOURCE '-DOTTE_VERSION="0"' -Iinclude -Iinclude/uapi -Ilib -Itests
    -I/usr/include/libnl3 -pthread)

# A file that came out clean is not looked at again until it, what it includes, or .clang-tidy changes. That is
# kept outside the checkout, since a fresh clone is the usual case.
tidy_one() {
    local file=$1 key
    key=$({
        clang-tidy --version
        cat .clang-tidy
        gcc -E -C "${c_flags[@]}" "$file" 2>&1
    } | sha256sum | cut -d' ' -f1)
    [ ! -e "$kept/$key" ] || return 0
    if clang-tidy --quiet "$file" -- "${c_flags[@]}" 2>"$kept/$key.err" >"$kept/$key.out"; then
        mv "$kept/$key.out" "$kept/$key"
        rm -f "$kept/$key.err"
    else
        grep -vE 'warnings? (generated|treated as)|^Suppressed|^Use -header' \
            "$kept/$key.out" "$kept/$key.err" -h
        rm -f "$kept/$key.out" "$kept/$key.err"
        return 1
    fi
}

rule_tidy() {
    kept=${OTTE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/otte}/tidy
    mkdir -p "$kept"
    cd "$root"
    export -f tidy_one
    export kept flags_text
    flags_text=$(declare -p c_flags)
    # shellcheck disable=SC2016 # expanded by the inner shell
    user_c | xargs -r -P "$(nproc)" -n 1 bash -c 'eval "$flags_text"; tidy_one "$1"' tidy
}

rule_cppcheck() {
    local list keep
    mapfile -t list < <(user_c)
    [ ${#list[@]} -ne 0 ] || return 0
    keep=$(realpath -m "${O:-build}")/static/cppcheck
    [ "$root" = "$(pwd)" ] || keep=$(mktemp -d)
    # Macros that declare things: without them it does not understand the files that use them.
    mkdir -p "$keep" "$keep.include/sys"
    ln -sf /usr/include/ut*.h /usr/include/jansson*.h /usr/include/libnl3/netlink "$keep.include/"
    ln -sf "/usr/include/$(gcc -print-multiarch)/sys/queue.h" "$keep.include/sys/"
    cd "$root"
    cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
        --suppressions-list="$here/cppcheck-suppressions.txt" --error-exitcode=1 -j "$(nproc)" \
        --cppcheck-build-dir="$keep" --template='{file}:{line}: cppcheck: {message} [{id}]' \
        -D__x86_64__ -D__linux__ -D_GNU_SOURCE -Iinclude -Iinclude/uapi -Ilib -Itests \
        -I"$keep.include" "${list[@]}" 2>&1
}

if [ "${1:-}" = list ]; then
    printf '%s\n' "${rules[@]}"
    exit 0
fi
rule=$1
root=$(cd "$2" && pwd)
"rule_$rule"
