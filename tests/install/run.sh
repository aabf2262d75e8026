#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What `make install` puts on a machine, used as an application would use it.
# Closing line: "N passed, N failed, N skipped".
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
cd "$root" || exit 1

prefix=$work/prefix
lib=$prefix/lib
export PKG_CONFIG_PATH=$lib/pkgconfig
make=(make --no-print-directory -s)
cc=${CC:-gcc}

# Each test is a function; its name is the sentence that it proves.
try() {
    local name=$1 out
    out=$(set -e; "$name" 2>&1)
    # shellcheck disable=SC2181 # as a condition of if, the shell would ignore set -e in it
    if [ $? -eq 0 ]; then
        passed=$((passed + 1))
        printf 'passed: %s\n' "${name//_/ }"
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n%s\n' "${name//_/ }" "$out" | tail -n 40
    fi
}

declared() {
    awk -f tests/declared.awk "$prefix"/include/otte/*.h | cut -f1 | sort
}

# The shell ends a test at a command that fails, but not at one that should fail and does not.
refute() {
    if "$@"; then
        echo "should have failed: $*"
        return 1
    fi
}

installing_into_a_prefix_works() {
    "${make[@]}" install PREFIX="$prefix"
}

a_staged_install_has_the_same_files_and_no_trace_of_the_stage() {
    "${make[@]}" install PREFIX=/usr DESTDIR="$work/stage"
    diff <(cd "$prefix" && find . ! -type d | sort) <(cd "$work/stage/usr" && find . ! -type d | sort)
    [ "$(ls "$work/stage")" = usr ]
    refute grep -rF "$work" "$work/stage/usr/lib/pkgconfig" "$work/stage/usr/share"
    grep -qx 'prefix=/usr' "$work/stage/usr/lib/pkgconfig/libotte.pc"
}

by_the_exports_of_the_readme_all_of_it_is_found() {
    mkdir "$work/home"
    ln -s "$prefix" "$work/home/otte"
    (
        # shellcheck disable=SC2030 # for the exports alone
        HOME=$work/home
        eval "$(grep '^export ' README.md)"
        [ "$(command -v otte)" = "$HOME/otte/bin/otte" ]
        otte --version
        [ "$(man -w otte)" = "$HOME/otte/share/man/man1/otte.1" ]
        # What was found before is still.
        man -w ls
        # shellcheck disable=SC2046 # flags are words
        "$cc" examples/first.c -o "$work/home/first" $(pkg-config --cflags --libs libotte)
        "$work/home/first"
    )
}

the_library_is_found_by_its_soname() {
    local version
    version=$(pkg-config --modversion libotte)
    [ "$(readlink "$lib/libotte.so")" = libotte.so.1 ]
    [ "$(readlink "$lib/libotte.so.1")" = "libotte.so.1.$version" ]
    grep 'SONAME.*\[libotte.so.1\]' <(readelf -d "$lib/libotte.so.1.$version")
    refute grep -E 'RPATH|RUNPATH|TEXTREL' <(readelf -d "$lib/libotte.so.1.$version")
    refute grep -E 'not found|undefined symbol' <(ldd -r "$lib/libotte.so" 2>&1)
}

exactly_the_functions_of_the_headers_are_exported_at_version_OTTE_0() {
    diff <(declared | sed 's/$/@@OTTE_0/') \
        <(nm -D --defined-only --with-symbol-versions "$lib/libotte.so" |
            awk '$2 != "A" { print $3 }' | sort)
}

the_package_lists_the_functions_of_the_headers_and_names_the_soname() {
    diff <(declared) <(sed -n 's/^ \(otte_[a-z0-9_]*\)@OTTE_0 .*/\1/p' debian/libotte1.symbols)
    head -n 1 debian/libotte1.symbols | grep -qx 'libotte.so.1 libotte1 #MINVER#'
    grep -qx 'Package: libotte1' debian/control
}

each_header_compiles_alone_as_C99_and_as_Cpp11() {
    local header
    for header in "$prefix"/include/otte/*.h; do
        echo "#include <otte/$(basename "$header")>" >"$work/h.c"
        "$cc" -std=c99 -pedantic -Wall -Wextra -Werror -Wstrict-prototypes -fsyntax-only \
            -I"$prefix/include" "$work/h.c"
        g++ -std=c++11 -x c++ -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include" "$work/h.c"
    done
}

the_first_program_runs_with_the_shared_library() {
    # shellcheck disable=SC2046 # words are wanted
    "$cc" -Wall -Wextra -Werror examples/first.c -o "$work/first" $(pkg-config --cflags --libs libotte)
    grep 'NEEDED.*libotte.so.1' <(readelf -d "$work/first")
    LD_LIBRARY_PATH=$lib timeout 60 "$work/first"
}

the_first_program_runs_with_the_static_library() {
    # shellcheck disable=SC2046 # words are wanted
    "$cc" -Wall -Wextra -Werror examples/first.c -o "$work/first-static" $(pkg-config --cflags libotte) \
        $(pkg-config --static --libs libotte | sed 's/-lotte\b/-l:libotte.a/')
    refute grep libotte <(readelf -d "$work/first-static")
    timeout 60 "$work/first-static"
}

a_Cpp_program_links() {
    cat >"$work/v.cpp" <<'CPP'
#include <cstring>
#include <otte/otte.h>
int main() { return std::strcmp(otte_version(), VERSION) != 0; }
CPP
    # shellcheck disable=SC2046 # words are wanted
    g++ -std=c++11 -DVERSION="\"$(pkg-config --modversion libotte)\"" "$work/v.cpp" -o "$work/v" \
        $(pkg-config --cflags --libs libotte)
    LD_LIBRARY_PATH=$lib "$work/v"
}

header_library_and_pkg_config_agree_on_the_version() {
    local macro
    macro=$(echo 'OTTE_VERSION_MAJOR.OTTE_VERSION_MINOR.OTTE_VERSION_PATCH' |
        "$cc" -E -P -include "$prefix/include/otte/otte.h" - | tail -n 1 | tr -d ' ')
    [ "$macro" = "$(pkg-config --modversion libotte)" ]
}

the_programs_run_from_where_they_are_installed() {
    local program
    for program in "$prefix"/bin/*; do
        env -i "$program" --version
        env -i "$program" --help >/dev/null
        MANPATH=$prefix/share/man man -w -S 1:8 "$(basename "$program")"
    done
}

every_public_function_has_an_installed_man_page() {
    local name
    for name in $(declared); do
        MANPATH=$prefix/share/man man -w 3 "$name" >/dev/null
    done
}

# Of docs/containers.md: blocks of one language, one after the other.
fenced() {
    sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/!p}" docs/containers.md
}

# What the specification of CDI asks for: its loaders refuse a file with a key that they do not know.
cdi_is_sound() {
    jq -e '(keys - ["cdiVersion", "kind", "devices"] == []) and
        (.cdiVersion | test("^[0-9]+\\.[0-9]+\\.[0-9]+$")) and
        (.kind | test("^[a-z]([a-z0-9.-]*[a-z0-9])?/[a-zA-Z]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?$")) and
        (.devices | length == 1) and (.devices[] |
            (keys - ["name", "containerEdits"] == []) and .name == "node" and (.containerEdits |
                (keys - ["deviceNodes", "additionalGids"] == []) and
                (.deviceNodes | length == 1) and (.deviceNodes[] |
                    (keys - ["path", "type", "permissions"] == []) and
                    .path == "/dev/otte" and .type == "c" and .permissions == "rw")))' "$1" >/dev/null
}

the_documented_CDI_file_is_the_shipped_one_and_sound() {
    local command
    diff packaging/cdi/otte.json <(fenced json)
    cdi_is_sound packaging/cdi/otte.json
    # The command beside it, whose group and paths are not this machine's.
    # shellcheck disable=SC2016 # not to be expanded here
    command=$(fenced sh | sed -e 's|\$(getent group otte .*)|\$gid|' -e 's|"\$gid"|4711|' \
        -e "s|/usr/share/doc/otte-dkms/examples/otte.json|packaging/cdi/otte.json|" \
        -e "s|/etc/cdi/otte.json|$work/cdi.json|")
    bash -c "$command"
    cdi_is_sound "$work/cdi.json"
    jq -e '.cdiVersion == "0.7.0" and .devices[0].containerEdits.additionalGids == [4711]' "$work/cdi.json"
}

nothing_that_only_the_build_needs_is_installed() {
    [ -z "$(find "$prefix" -name '.*')" ]
}

plain_make_builds_library_program_and_man_pages() {
    "${make[@]}" -n O="$work/build" >"$work/steps"
    grep -q 'libotte.so.1' "$work/steps"
    grep -q 'otte.tmp' "$work/steps"
    grep -q 'docs/man/build.sh' "$work/steps"
}

uninstalling_leaves_no_file() {
    "${make[@]}" uninstall PREFIX="$prefix"
    [ -z "$(find "$prefix" ! -type d)" ]
}

installing_packages_says_what_is_missing_where_it_may_not_install() {
    local out rc=0
    out=$(setpriv --reuid=65534 --clear-groups tools/deps.sh bash otte-no-such-package 2>&1) || rc=$?
    [ "$rc" -eq 1 ]
    grep -q 'missing: otte-no-such-package$' <<<"$out"
    mkdir "$work/no-apt"
    rc=0
    out=$(PATH=$work/no-apt /bin/bash tools/deps.sh bash 2>&1) || rc=$?
    [ "$rc" -eq 2 ]
    tools/deps.sh bash
}

try installing_into_a_prefix_works
try a_staged_install_has_the_same_files_and_no_trace_of_the_stage
try by_the_exports_of_the_readme_all_of_it_is_found
try the_library_is_found_by_its_soname
try exactly_the_functions_of_the_headers_are_exported_at_version_OTTE_0
try the_package_lists_the_functions_of_the_headers_and_names_the_soname
try each_header_compiles_alone_as_C99_and_as_Cpp11
try the_first_program_runs_with_the_shared_library
try the_first_program_runs_with_the_static_library
try a_Cpp_program_links
try header_library_and_pkg_config_agree_on_the_version
try the_programs_run_from_where_they_are_installed
try every_public_function_has_an_installed_man_page
try the_documented_CDI_file_is_the_shipped_one_and_sound
try nothing_that_only_the_build_needs_is_installed
try plain_make_builds_library_program_and_man_pages
try uninstalling_leaves_no_file
try installing_packages_says_what_is_missing_where_it_may_not_install

printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
