#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs a command on a bare Debian 12, in a fresh copy of what git tracks here.
#
#   tests/install/bare.sh COMMAND...
#
# The root is what mmdebstrap --variant=minbase gives, with make and nothing else: no compiler, no
# headers. It is kept as a tar file in the cache, and so are the packages that were fetched, since a mirror
# can take minutes for them; each run unpacks a new root and drops it afterwards.
# Wants root and mmdebstrap. Exit status: the command's; 77 where this cannot be tried.
set -euo pipefail

here=$(cd "$(dirname "$0")/../.." && pwd)
cache=${OTTE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/otte}
root_tar=$cache/bare-bookworm.tar

if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap >/dev/null; then
    echo "bare: wants root and the package mmdebstrap" >&2
    exit 77
fi
if [ ! -f "$root_tar" ]; then
    mkdir -p "$cache"
    mmdebstrap --quiet --variant=minbase --include=make,ca-certificates bookworm "$root_tar.$$.tar"
    mv "$root_tar.$$.tar" "$root_tar"
fi

mkdir -p "$cache/bare-packages/partial"
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
tar -C "$root" -xf "$root_tar" --exclude='./dev/*'
mkdir -p "$root/src"
git -C "$here" ls-files -z --cached --others --exclude-standard |
    (cd "$here" && tar --null --files-from=- --ignore-failed-read -cf -) | tar -C "$root/src" -xf -
cp /etc/resolv.conf "$root/etc/resolv.conf"
# Every installed Debian has this; a root that mmdebstrap made has not.
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost\n' >"$root/etc/hosts"
# A root that is dropped need not reach the disk.
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"

# Its own mount and process namespaces: nothing stays mounted, nothing stays running.
# shellcheck disable=SC2016 # expanded by the inner shell
unshare --mount --pid --fork --kill-child bash -c '
    set -e
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount --rbind /sys "$1/sys"
    mount -t tmpfs tmpfs "$1/tmp"
    mount --bind "$2" "$1/var/cache/apt/archives"
    root=$1
    shift 2
    exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        bash -c "cd /src && $*"' bare "$root" "$cache/bare-packages" "$@"
