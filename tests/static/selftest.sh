#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The rules' own test: a small clean tree passes every rule; each violation, planted alone, is found by
# the rule that is meant to find it, at the file it stands in.
# Closing line: "N passed, N failed, N skipped".
# shellcheck disable=SC2016 # planted text, not for expansion
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
export O=$work/build
passed=0 failed=0

dual='GPL-2.0-only OR BSD-2-Clause'

# put FILE LICENCE [LINE...]: a file with its SPDX line.
put() {
    local file=$tree/$1 licence=$2
    shift 2
    mkdir -p "$(dirname "$file")"
    case $file in
    *.[ch]) printf '/* SPDX-License-Identifier: %s */\n' "$licence" ;;
    *) printf '#!/bin/bash\n# SPDX-License-Identifier: %s\n' "$licence" ;;
    esac >"$file"
    [ $# -eq 0 ] || printf '%s\n' "$@" >>"$file"
}

clean_tree() {
    rm -rf "$tree"
    mkdir -p "$tree"
    cp "$here/../../.clang-tidy" "$tree/"
    put include/uapi/linux/otte.h 'GPL-2.0 WITH Linux-syscall-note' '#define OTTE_IOC 1'
    put include/otte/otte.h "$dual" '#include <stdint.h>' 'int otte_one(void);'
    put lib/base/util.h "$dual" '#define ONE 1'
    put lib/control/wire.h "$dual" '#include "base/util.h"' '#define FRAME ONE'
    put lib/topo/topo.h "$dual" '#define NODES 1'
    put lib/ledger/kernel.c "$dual" '#include <linux/otte.h>' '#include "base/util.h"'
    put lib/sched/slot.c "$dual" '#include "linux/otte.h"' '#include "topo/topo.h"'
    put lib/transport/transport.h "$dual" '#include "control/wire.h"'
    put lib/transport/tcp/lane.h "$dual" '#include "transport/transport.h"'
    put lib/transport/rdma/qp.h "$dual" '#include "transport/transport.h"'
    put lib/engine/engine.c "$dual" '#include "otte/otte.h"' '#include "base/util.h"' \
        '#include "transport/tcp/lane.h"' '' '/* printf("no") */' 'int otte_one(void)' '{' \
        '	const char *words = "printf(";' '' "	return words[0] == 'p' ? ONE : 0;" '}'
    put kmod/loan.c GPL-2.0-only '#include <linux/otte.h>' '#include "loan.h"'
    put kmod/loan.h GPL-2.0-only '#define LOAN 1'
    put tools/otte/main.c "$dual" '#include <stdio.h>' '#include "base/util.h"' '#include "otte/otte.h"' '' \
        'int main(void)' '{' '	return printf("%d\n", otte_one()) < 0;' '}'
    put tests/run.sh "$dual" 'echo "$1"'
}

# expect RULE FILE: the rule fails and says where.
expect() {
    local rule=$1 file=$2 found
    if ! found=$("$here/rules.sh" "$rule" "$tree" 2>&1) && grep -qF "$file" <<<"$found"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'not found by %s: %s: %s\n%s\n' "$rule" "$file" "$violation" "$found"
    fi
    clean_tree
}

violation=none
clean_tree
for rule in $("$here/rules.sh" list); do
    if found=$("$here/rules.sh" "$rule" "$tree" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'the clean tree does not pass %s:\n%s\n' "$rule" "$found"
    fi
done

violation='base includes control'
put lib/base/log.c "$dual" '#include "control/wire.h"'
expect includes lib/base/log.c

violation='control includes a transport, by a relative path'
put lib/control/server.c "$dual" '#include "../transport/transport.h"'
expect includes lib/control/server.c

violation='transport includes engine'
put lib/engine/engine.h "$dual"
put lib/transport/tcp/tcp.c "$dual" '#include "engine/engine.h"'
expect includes lib/transport/tcp/tcp.c

violation='siblings'
put lib/control/server.c "$dual" '#include "topo/topo.h"'
expect includes lib/control/server.c

violation='one transport includes another'
put lib/transport/rdma/rdma.c "$dual" '#include "transport/tcp/lane.h"'
expect includes lib/transport/rdma/rdma.c

violation='the common part of the transports includes one of them'
put lib/transport/table.c "$dual" '#include "transport/tcp/lane.h"'
expect includes lib/transport/table.c

violation='the ABI in the engine'
put lib/engine/stats.c "$dual" '#include <linux/otte.h>'
expect includes lib/engine/stats.c

violation='the ABI elsewhere in the scheduler'
put lib/sched/queue.c "$dual" '#include <linux/otte.h>'
expect includes lib/sched/queue.c

violation='a tool reaches into the library'
put tools/otte/pull.c "$dual" '#include "control/wire.h"'
expect includes tools/otte/pull.c

violation='a tool reaches into a transport'
put tools/otte/topo.c "$dual" '#include "transport/rdma/qp.h"'
expect includes tools/otte/topo.c

violation='an example reaches into the library'
put examples/first.c "$dual" '#include "../lib/base/util.h"'
expect includes examples/first.c

violation='the module includes user space'
put kmod/main.c GPL-2.0-only '#include "../lib/base/util.h"'
expect includes kmod/main.c

violation='a public header includes a private one'
put include/otte/otte_copy.h "$dual" '#include "base/util.h"'
expect includes include/otte/otte_copy.h

violation='a folder that is no layer'
put lib/misc/misc.c "$dual" '#include "base/util.h"'
expect includes lib/misc/misc.c

violation='a header that does not exist'
put lib/engine/stats.c "$dual" '#include "engine/gone.h"'
expect includes lib/engine/stats.c

violation='no SPDX line'
echo 'int x;' >"$tree/lib/base/x.c"
expect spdx lib/base/x.c

violation='the licence of the library in the module'
put kmod/main.c "$dual"
expect spdx kmod/main.c

violation='the licence of the module in the library'
put lib/base/x.c GPL-2.0-only
expect spdx lib/base/x.c

violation='the ABI header without the note'
put include/uapi/linux/otte.h GPL-2.0-only
expect spdx include/uapi/linux/otte.h

violation='a script without a licence'
printf '#!/bin/sh\ntrue\n' >"$tree/tests/go"
expect spdx tests/go

violation='printf in the library'
put lib/base/x.c "$dual" 'static int f(void)' '{' '	return printf("x");' '}'
expect prints lib/base/x.c:4

violation='fprintf(stderr) in the library'
put lib/base/x.c "$dual" 'static int f(void)' '{' '	return fprintf(stderr, "x");' '}'
expect prints lib/base/x.c:4

violation='puts in the module'
put kmod/main.c GPL-2.0-only 'static int f(void)' '{' '	return puts("x");' '}'
expect prints kmod/main.c:4

violation='a call of libibverbs beside the table'
put lib/transport/rdma/x.c "$dual" 'int f(void *qp)' '{' '	return ibv_post_send(qp, 0, 0);' '}'
expect verbs lib/transport/rdma/x.c:4

violation='a call of libcuda beside the table'
put lib/cuda/x.c "$dual" 'int f(void *stream)' '{' '	return cuStreamQuery(stream);' '}'
expect cuda lib/cuda/x.c:4

violation='the header of CUDA'
put lib/cuda/driver.c "$dual" '#include <cuda.h>'
expect cuda lib/cuda/driver.c:2

violation='blanks instead of tabs'
put lib/base/x.c "$dual" 'int f(void)' '{' '        return 0;' '}'
expect layout lib/base/x.c:4

violation='a trailing blank'
put lib/base/x.c "$dual" 'int x; '
expect layout lib/base/x.c:2

violation='a long line'
put lib/base/x.c "$dual" "/* $(printf '%0120d' 0) */"
expect layout lib/base/x.c:2

violation='no newline at the end'
printf '#!/bin/bash\n# SPDX-License-Identifier: %s\ntrue' "$dual" >"$tree/tests/go.sh"
expect layout tests/go.sh

violation='a link to a page that is not there'
printf '# A page\n[that](docs/that.md) and [here](#a-page)\n' >"$tree/README.md"
expect links README.md:2

violation='a link to a heading that is not there, in a page without others'
printf 'Nothing\n' >"$tree/A.md"
mkdir -p "$tree/docs"
printf '# One `thing`, and more\n' >"$tree/docs/that.md"
printf '[good](docs/that.md#one-thing-and-more)\n[bad](docs/that.md#two)\n' >"$tree/README.md"
expect links README.md:2

violation='an unquoted variable'
put tests/go.sh "$dual" 'rm $1'
expect shell tests/go.sh

violation='a script without a suffix'
put tests/go "$dual" 'rm $1'
expect shell tests/go

violation='a null pointer followed'
put lib/base/x.c "$dual" 'int f(const int *p);' 'int f(const int *p)' '{' '	if (p)' '		return 0;' \
    '	return *p;' '}'
expect tidy lib/base/x.c:7

violation='sizeof of a pointer'
put lib/base/x.c "$dual" '#include <string.h>' 'void f(char *p);' 'void f(char *p)' '{' \
    '	memset(p, 0, sizeof(p));' '}'
expect tidy lib/base/x.c:6

violation='an array read past its end'
put lib/base/x.c "$dual" 'int f(void);' 'int f(void)' '{' '	int a[4] = { 0 };' '	return a[4];' '}'
expect cppcheck lib/base/x.c:6

violation='a leak'
put lib/base/x.c "$dual" '#include <stdlib.h>' 'int f(void);' 'int f(void)' '{' \
    '	char *p = malloc(4);' '	if (!p)' '		return 1;' '	p[0] = 1;' '	return 0;' '}'
expect cppcheck lib/base/x.c:10

printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
