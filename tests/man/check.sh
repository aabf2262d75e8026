#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The man pages against the headers, the formatter, each other, and what tests have seen.
#
#   tests/man/check.sh RULE        findings on stdout; exit status 0 means none
#   tests/man/check.sh list
#
# Environment: PAGES the sources, MAN the formatted pages, INCLUDE the headers' root, SEEN_ERRORS what
# tests/seen.h recorded, CC the compiler, CONFIG_KEYS the program that prints the config's table,
# OTTE_PROGRAM and OTTECTL_PROGRAM the tools.
set -euo pipefail
shopt -s nullglob

here=$(cd "$(dirname "$0")" && pwd)
rules=(complete headings lint links synopsis structs errors recorder config tool)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

page() {
    awk -v want="$1" -f "$here/page.awk" "$2"
}

declared() {
    awk -f "$here/../declared.awk" "$INCLUDE"/otte/*.h
}

none() {
    local found
    found=$(cat)
    [ -n "$found" ] || return 0
    printf '%s\n' "$found"
    return 1
}

# Every public function has a page, once, and every page of section 3 is of public functions.
rule_complete() {
    local source
    for source in "$PAGES"/*.3.scd; do
        page names "$source"
    done | sort >"$work/documented"
    declared | cut -f1 | sort >"$work/declared"
    {
        comm -13 "$work/documented" "$work/declared" | sed 's/$/: has no man page/'
        comm -23 "$work/documented" "$work/declared" | sed 's/$/: has a man page and no declaration, or two pages/'
        while read -r name; do
            man -M "$MAN" -w 3 "$name" >/dev/null 2>&1 || printf '%s: man does not find its page\n' "$name"
        done <"$work/declared"
    } | none
}

rule_headings() {
    local source
    for source in "$PAGES"/*.3.scd; do
        [ "$(page headings "$source" | tr '\n' ',')" = \
            'NAME,SYNOPSIS,DESCRIPTION,RETURN VALUE,ERRORS,SEE ALSO,' ] ||
            printf '%s: sections are not NAME, SYNOPSIS, DESCRIPTION, RETURN VALUE, ERRORS, SEE ALSO\n' "$source"
        tr '\n' ' ' <"$source" | grep -qE 'Ownership: .*Threads: |Threads: .*Ownership: ' ||
            printf '%s: says nothing of ownership and threads\n' "$source"
    done | none
}

# What groff has to say.
rule_lint() {
    local file
    cd "$MAN"
    for file in man*/*; do
        LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$file" \
            2>&1 >/dev/null | sed "s|^|$file: |"
    done | none
}

# Each reference to a page of ours resolves.
rule_links() {
    local source name section
    for source in "$PAGES"/*.scd; do
        page refs "$source" | sort -u | while read -r name section; do
            case $name in
            otte*) [ -e "$MAN/man$section/$name.$section" ] ||
                printf '%s: %s(%s) does not exist\n' "$source" "$name" "$section" ;;
            esac
        done
    done | none
}

# The C of each SYNOPSIS compiles with the headers, which declare the same, and names what NAME names.
rule_synopsis() {
    local source name
    for source in "$PAGES"/*.3.scd; do
        page synopsis "$source" >"$work/synopsis.c"
        "${CC:-gcc}" -std=gnu11 -Wall -Wextra -Werror -Wstrict-prototypes -fsyntax-only -I"$INCLUDE" \
            "$work/synopsis.c" 2>&1 | sed "s|^$work/synopsis.c|$source: SYNOPSIS|"
        for name in $(page names "$source"); do
            grep -qE "\b$name\(" "$work/synopsis.c" || printf '%s: SYNOPSIS lacks %s\n' "$source" "$name"
        done
    done | none
}

# Comments and white space aside.
squeeze() {
    tr '\n' ' ' | sed -E 's,/\*([^*]|\*+[^*/])*\*+/,,g; s/[ \t]+//g'
}

# A type that a page shows is as the headers have it.
rule_structs() {
    local source
    cat "$INCLUDE"/otte/*.h | squeeze >"$work/headers"
    for source in "$PAGES"/*.3.scd; do
        page structs "$source" | squeeze | sed -E 's/\};/};\n/g' | while read -r text; do
            grep -qF -- "$text" "$work/headers" ||
                printf '%s: not as in the header: %s\n' "$source" "${text:0:60}"
        done
    done | none
}

# ERRORS and what tests have seen are the same.
rule_errors() {
    local source name code function
    declared | awk -F'\t' '$2 == "int" { print $1 }' | sort >"$work/coded"
    for source in "$PAGES"/*.3.scd; do
        page names "$source" | sort | comm -12 - "$work/coded" >"$work/here"
        page errors "$source" | while read -r code function; do
            if [ "$function" = '*' ]; then
                sed "s/$/ $code/" "$work/here"
            elif grep -qx "$function" "$work/here"; then
                printf '%s %s\n' "$function" "$code"
            else
                printf '%s: %s is said of %s, which is not of this page\n' "$source" "$code" "$function" >&3
            fi
        done
    done 3>"$work/foreign" | sort -u >"$work/said"
    sed -E 's/ EWOULDBLOCK$/ EAGAIN/; s/ ENOTSUP$/ EOPNOTSUPP/' "$SEEN_ERRORS" | sort -u >"$work/seen"
    {
        cat "$work/foreign"
        comm -13 "$work/said" "$work/seen" | awk '{ print $1 ": its page lacks " $2 ", which tests have seen" }'
        comm -23 "$work/said" "$work/seen" |
            awk '{ print $1 ": its page says " $2 ", which no test has seen" }'
    } | none
}

# tests/seen.h wraps each public function that returns a code.
rule_recorder() {
    diff <(declared | awk -F'\t' '$2 == "int" { print $1 }' | sort) \
        <(sed -n 's/^#define \(otte_[a-z0-9_]*\)(\.\.\.).*/\1/p' "${RECORDER:-$here/../seen.h}" | sort) |
        sed -n 's/^</seen.h lacks:/p; s/^>/seen.h wraps what is not declared:/p' | none
}

# otte.json(5) lists each key with type, range and default as the library's table has them.
rule_config() {
    diff <("$CONFIG_KEYS") <(page keys "$PAGES/otte.json.5.scd") |
        sed -n 's/^</otte.json.5 lacks:/p; s/^>/otte.json.5 says:/p' | none
}

# tool PAGE PROGRAM: the page describes every command of the program, and names no option that the help does
# not have.
tool() {
    local page=$1 program=$2 command
    [ -n "$program" ] || return 0
    "$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' >"$work/commands"
    {
        "$program" --help
        while read -r command; do
            "$program" "$command" --help
        done <"$work/commands"
        # Which has options of its own.
        [ "$page" != otte.1 ] || "$program" bench --copy --help
    } | { grep -oE '\-\-[a-z0-9-]+' || true; } | sort -u >"$work/helped"
    { grep -oE '\*--[a-z0-9-]+' "$PAGES/$page.scd" || true; } | tr -d '*' | sort -u >"$work/paged"
    while read -r command; do
        grep -qx "\*$command\*" "$PAGES/$page.scd" || echo "$page does not describe $command"
    done <"$work/commands"
    comm -23 "$work/paged" "$work/helped" | sed "s/^/$page has, and the help has not, /"
}

rule_tool() {
    {
        tool otte.1 "${OTTE_PROGRAM:-}"
        tool ottectl.8 "${OTTECTL_PROGRAM:-}"
    } | none
}

if [ "${1:-}" = list ]; then
    printf '%s\n' "${rules[@]}"
    exit 0
fi
"rule_$1"
