#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Every rule of tests/man/check.sh over this tree's pages, then each rule over copies of them in which
# one thing is wrong. Closing line: "N passed, N failed, N skipped".
#
#   tests/man/run.sh BUILT-PAGES CONFIG-KEYS-PROGRAM
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
built=$(realpath "$1")
CONFIG_KEYS=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root" || exit 1
passed=0 failed=0
export PAGES=docs/man MAN=$built INCLUDE=include CONFIG_KEYS
export SEEN_ERRORS=${SEEN_ERRORS:-build/seen-errors}
export OTTE_PROGRAM=${OTTE_PROGRAM:+$(realpath "$OTTE_PROGRAM")}
export OTTECTL_PROGRAM=${OTTECTL_PROGRAM:+$(realpath "$OTTECTL_PROGRAM")}

if [ ! -s "$SEEN_ERRORS" ]; then
    echo "no $SEEN_ERRORS: the tests that record error codes (unit, e2e) run before this"
fi
[ -e "$SEEN_ERRORS" ] || : >"$SEEN_ERRORS"

for rule in $("$here/check.sh" list); do
    if found=$("$here/check.sh" "$rule" 2>&1); then
        passed=$((passed + 1))
        printf '%s: passed\n' "$rule"
    else
        failed=$((failed + 1))
        printf '%s\n%s: FAILED\n' "$found" "$rule"
    fi
done

# ---- The rules' own test -----------------------------------------------------------------------

unset OTTECTL_PROGRAM
export PAGES=$work/pages MAN=$work/man INCLUDE=$work/include SEEN_ERRORS=$work/seen
export RECORDER=$work/seen.h

# One function, one page, one code, one config key; all is as it should be.
fresh() {
    rm -rf "$work/pages" "$work/include"
    mkdir -p "$PAGES" "$INCLUDE/otte"
    cat >"$INCLUDE/otte/otte.h" <<'H'
struct otte_thing {
	int size; /* of it */
};
#define OTTE_API
OTTE_API int otte_do(struct otte_thing *thing);
OTTE_API const char *otte_say(void);
H
    cat >"$PAGES/otte_do.3.scd" <<'SCD'
otte_do(3)

# NAME

otte_do, otte_say - do and say

# SYNOPSIS

```
#include <otte/otte.h>

int otte_do(struct otte_thing *thing);
const char *otte_say(void);
```

# DESCRIPTION

```
struct otte_thing {
	int size;
};
```

Ownership: yours. Threads: any.

# RETURN VALUE

0.

# ERRORS

*EINVAL*
	Bad.

*EBUSY* otte_do
	Busy.

# SEE ALSO

*otte_say*(3)
SCD
    printf 'otte.json(5)\n\n# NAME\n\notte.json - keys\n\n# KEYS\n\n*a.b* = true or false; default true\n\tA.\n' \
        >"$PAGES/otte.json.5.scd"
    printf '#!/bin/sh\necho "*a.b* = true or false; default true"\n' >"$work/keys"
    chmod +x "$work/keys"
    CONFIG_KEYS=$work/keys
    printf 'otte(1)\n\n# NAME\n\notte - tool\n\n# COMMANDS\n\n*ls*\n\tList, *--json* as JSON.\n' >"$PAGES/otte.1.scd"
    printf '#!/bin/sh\necho "Commands:"; echo "  ls  list"; echo; echo "  -j, --json  JSON"\n' >"$work/tool"
    chmod +x "$work/tool"
    OTTE_PROGRAM=$work/tool
    printf 'otte_do EINVAL\notte_do EBUSY\n' >"$SEEN_ERRORS"
    printf '#define otte_do(...) \\\n' >"$RECORDER"
}

# wrong RULE WHAT: after `fresh` and a change, the rule finds something.
wrong() {
    local found
    docs/man/build.sh "$MAN" 1 "$PAGES"
    if found=$("$here/check.sh" "$1" 2>&1) || [ -z "$found" ]; then
        failed=$((failed + 1))
        printf 'not found by %s: %s\n' "$1" "$2"
    else
        passed=$((passed + 1))
    fi
    fresh
}

edit() {
    sed -i "$@"
}

fresh
docs/man/build.sh "$MAN" 1 "$PAGES"
for rule in $("$here/check.sh" list); do
    if found=$("$here/check.sh" "$rule" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'the right pages do not pass %s:\n%s\n' "$rule" "$found"
    fi
done

echo 'OTTE_API int otte_new(void);' >>"$INCLUDE/otte/otte.h"
wrong complete 'a function without a page'
edit '/otte_say/d' "$INCLUDE/otte/otte.h"
wrong complete 'a page without a function'
edit 's/^# RETURN VALUE/# RETURNS/' "$PAGES/otte_do.3.scd"
wrong headings 'a missing section'
edit 's/Threads: any\.//' "$PAGES/otte_do.3.scd"
wrong headings 'silence on threads'
printf '\n%0130d\n' 0 >>"$PAGES/otte_do.3.scd"
wrong lint 'a line that cannot be broken'
edit 's/\*otte_say\*(3)/*otte_shout*(3)/' "$PAGES/otte_do.3.scd"
wrong links 'a reference to nowhere'
edit 's/^int otte_do(struct otte_thing/int otte_do(const struct otte_thing/' "$PAGES/otte_do.3.scd"
wrong synopsis 'another prototype'
edit 's/^const char \*otte_say(void);//' "$PAGES/otte_do.3.scd"
wrong synopsis 'a prototype left out'
edit 's/^	int size;/	long size;/' "$PAGES/otte_do.3.scd"
wrong structs 'another member'
echo 'otte_do ENOMEM' >>"$SEEN_ERRORS"
wrong errors 'a code seen and not documented'
edit '/EBUSY/d' "$SEEN_ERRORS"
wrong errors 'a code documented and not seen'
edit 's/^\*EBUSY\* otte_do/*EBUSY* otte_done/' "$PAGES/otte_do.3.scd"
wrong errors 'a code of a function that is not of the page'
: >"$RECORDER"
wrong recorder 'a function that seen.h does not wrap'
edit 's/default true/default false/' "$PAGES/otte.json.5.scd"
wrong config 'another default'
edit '/^\*a\.b/d' "$PAGES/otte.json.5.scd"
wrong config 'a key left out'

edit 's/--json/--yaml/' "$PAGES/otte.1.scd"
wrong tool 'an option that the tool does not have'
edit '/^\*ls\*/d' "$PAGES/otte.1.scd"
wrong tool 'a command left out'

printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
