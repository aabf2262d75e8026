#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Makes sure that Debian packages are installed.
#
#   tools/deps.sh PACKAGE...
#
# Exit status: 0 all are there (now), 1 apt failed or may not be used (the missing names are printed),
# 2 no apt on this machine.
set -euo pipefail

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    printf 'deps: no apt here; the Debian names of what is needed (docs/install.md has others):\n' >&2
    printf '  %s\n' "$@" >&2
    exit 2
fi

# Names among "$@" that are not installed. dpkg-query fails for names it has never heard of.
missing() {
    local installed
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
        awk '$1 == "installed" { print $2 }' || true)
    printf '%s\n' "$@" | sort -u | grep -vxF -f <(printf '%s\n' "$installed" | sed '/^$/d') || true
}

mapfile -t need < <(missing "$@")
if [ ${#need[@]} -eq 0 ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    printf 'deps: missing: %s\n' "${need[*]}" >&2
    printf 'deps: as root: apt-get install --no-install-recommends %s\n' "${need[*]}" >&2
    exit 1
fi

printf 'deps: installing %s\n' "${need[*]}"
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends "${need[@]}"

mapfile -t need < <(missing "${need[@]}")
if [ ${#need[@]} -ne 0 ]; then
    printf 'deps: still missing after apt: %s\n' "${need[*]}" >&2
    exit 1
fi
