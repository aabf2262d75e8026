#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The Debian packages: built in a copy of this tree, looked at by lintian, installed, upgraded
# while a module is loaded, and purged in a scratch root; the module that was built there is loaded
# in guests.
#
#   tests/install/deb.sh      last line: "N passed, N failed, N skipped"
#
# Needs root, or a kernel that lets users make namespaces; and the packages of DEB_TOOLS in
# mk/deb.mk.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/../vm/lib.sh
. "$here/../vm/lib.sh"

kernels=(6.1 6.12)
lab_need dpkg-buildpackage=dpkg-dev dh=debhelper dh_dkms=dh-dkms lintian=lintian mmdebstrap=mmdebstrap
work=$(mktemp -d "${TMPDIR:-/tmp}/otte-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
report=$work/report
: >"$report"

# step RULE COMMAND...: with the end of its output where it fails.
step() {
    local rule=$1
    shift
    if "$@" >"$work/step.log" 2>&1 </dev/null; then
        echo "ok - $rule"
    else
        echo "not ok - $rule"
        tail -n 40 "$work/step.log"
    fi | tee -a "$report"
}

build() {
    mkdir "$work/otte"
    (cd "$lab_top" && git ls-files -z | xargs -0 tar c) | tar x -C "$work/otte"
    (cd "$work/otte" && nice -n 10 dpkg-buildpackage -us -uc -b)
}

# What the packages need in a root, and what their users have: a compiler and the kernel's headers.
lab_make_deb_root() {
    nice -n 15 mmdebstrap --variant=apt --aptopt='APT::Install-Recommends "false"' \
        --include=dkms,make,gcc-12,gcc,libc6-dev,libelf1,kmod,pahole,pkg-config,systemd-standalone-sysusers \
        --include=libhwloc-dev,libjansson-dev,libnl-genl-3-200,libsodium-dev \
        bookworm "$1/tree" \
        'deb http://deb.debian.org/debian bookworm main' \
        'deb http://deb.debian.org/debian-security bookworm-security main'
    rm -rf "$1"/tree/var/cache/apt/*.bin "$1"/tree/var/lib/apt/lists/*
}

step "the packages build" build
step "lintian finds no error and no warning" \
    lintian --allow-root --fail-on error,warning "$work"/otte_*.changes

root=$(lab_entry "root/deb_nl_$(lab_field host dkms Version)" lab_make_deb_root)
mkdir -p "$work/over" "$work/modules" "$work/result"
releases=()
for kernel in "${kernels[@]}"; do
    headers=$(lab_headers "$kernel")
    release=${headers##*/linux-headers-}
    releases+=("$release")
    mkdir "$work/modules/$release"
    ln -s "$headers" "$work/modules/$release/build"
done
mv "$work"/*.deb "$work/result/"
rm -f "$work"/result/*-dbgsym_*

cat >"$work/steps" <<'END'
    # Inside the root, with the kernels' releases as arguments.
    export DEBIAN_FRONTEND=noninteractive
    step() {
        rule=$1
        shift
        if "$@" >/result/step.log 2>&1; then
            echo "ok - $rule"
        else
            echo "not ok - $rule"
            tail -n 40 /result/step.log
        fi
    }
    # Nothing may load or unload a module on its own. dkms asks modprobe for nothing else than -r.
    for tool in rmmod insmod modprobe; do
        printf '#!/bin/sh\necho "%s $*" >>/result/modules.log\n' "$tool" >"/usr/local/sbin/$tool"
        chmod 755 "/usr/local/sbin/$tool"
    done
    : >/result/modules.log
    # What may change: dpkg's own records, logs, and indexes that others keep.
    files() {
        find / -xdev \( -path /proc -o -path /result -o -path /dev -o -path /sys -o -path /tmp \
            -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache \) -prune -o -print | sort
    }
    built_for() {
        [ "$(modinfo -F vermagic /lib/modules/"$1"/updates/dkms/otte.ko | cut -d' ' -f1)" = "$1" ]
    }
    installed() { dkms status otte -k "$1" | grep -q installed; }
    in_place() {
        grep -q 'GROUP="otte", MODE="0660"' /lib/udev/rules.d/60-otte.rules &&
            grep -qx otte /usr/lib/modules-load.d/otte.conf && getent group otte
    }
    tool_runs() { otte --version | grep -qF 0.1.0 && ottectl --version | grep -qF 0.1.0; }
    # shellcheck disable=SC2046
    example() {
        gcc -o /tmp/first /usr/share/doc/libotte-dev/examples/first.c $(pkg-config --cflags --libs libotte) &&
            ldd /tmp/first | grep -F libotte.so.1
    }
    documented() {
        [ -e /usr/share/doc/otte-dkms/kernel-operations.md.gz ] && [ -e /usr/share/doc/otte-dkms/containers.md.gz ] &&
            [ -e /usr/share/doc/otte-dkms/examples/otte.json ] && [ -e /usr/share/doc/otte-tools/operations.md.gz ]
    }
    says() {
        grep -qE "$1" /result/said.log || { cat /result/said.log; false; }
    }
    untouched() { [ ! -s /result/modules.log ] || { cat /result/modules.log; false; }; }

    files >/result/before
    step "the packages install" dpkg -i /result/*.deb
    newest=$(printf '%s\n' "$@" | sort -V | tail -n 1)
    step "installing built the module for the newest kernel" installed "$newest"
    for release in "$@"; do
        step "dkms installs for $release" dkms install otte/0.1.0 -k "$release"
        step "what is installed is for $release" built_for "$release"
        mkdir "/result/$release"
        cp /lib/modules/"$release"/updates/dkms/otte.ko "/result/$release/" || true
    done
    step "udev rule, group and modules-load entry are there" in_place
    step "the tool runs" tool_runs
    step "pages on running it and on containers are there" documented
    step "the example compiles against the packaged library" example

    # As on a machine that runs an older module.
    mkdir -p /sys/module/otte
    echo 0.0.9 >/sys/module/otte/version
    dpkg -i /result/otte-dkms_*.deb >/result/said.log 2>&1
    step "an upgrade beside a loaded module says that it goes on" says 'version 0.0.9 .* goes on unchanged'
    step "and names drain, unload and load" says 'rmmod otte \(refused while it is in use\)'
    step "the new module is built for the next load" installed "$newest"
    dpkg -r otte-dkms >/result/said.log 2>&1
    step "a removal beside a loaded module says that it stays" says 'loaded and stays so'
    step "no script loads or unloads a module" untouched
    dpkg -P otte-dkms >/dev/null 2>&1
    step "the group outlives a purge while the module is loaded" getent group otte
    rm -r /sys/module
    dpkg -i /result/otte-dkms_*.deb >/dev/null 2>&1
    step "purge" dpkg -P otte-dkms otte-tools libotte-dev libotte1
    rm -f /tmp/first
    files >/result/after
    # Indexes of depmod, account files' backups, and folders of others that were empty.
    left() {
        diff /result/before /result/after | grep -E '^[<>]' |
            grep -vE '/lib/modules/[^/]+/modules\.|/etc/(group|gshadow|passwd|shadow)-$|/updates(/dkms)?$'
    }
    nothing_left() { ! left && ! getent group otte && [ -z "$(dkms status otte)" ]; }
    step "nothing is left" nothing_left
END

as=()
[ "$(id -u)" -eq 0 ] || as=(--map-root-user)
# shellcheck disable=SC2016 # expanded by the inner shell
nice -n 10 unshare "${as[@]}" --mount --pid --fork --kill-child bash -euc '
    tree=$1/tree scratch=$2 cache=$3
    shift 3
    mount -t tmpfs tmpfs "$scratch/over"
    cd "$scratch/over"
    mkdir upper work root
    mount -t overlay -o "lowerdir=$tree,upperdir=$PWD/upper,workdir=$PWD/work" overlay root
    mkdir -p "root/$cache" root/result
    mount --bind "$cache" "root/$cache"
    mount --bind "$scratch/result" root/result
    mount --rbind /dev root/dev
    mount -t proc proc root/proc
    mkdir -p root/usr/lib/modules
    cp -r "$scratch/modules/." root/usr/lib/modules/
    exec chroot root bash -s -- "$@"' deb "$root" "$work" "$lab_cache" "${releases[@]}" \
    <"$work/steps" | tee -a "$report"

for i in "${!kernels[@]}"; do
    step "the packaged module loads and unloads on ${kernels[i]}" \
        "$lab_dir/run" --quiet --kernel "${kernels[i]}" --root initrd --unload \
        --module "$work/result/${releases[i]}/otte.ko" true
done
lab_count "$report"
