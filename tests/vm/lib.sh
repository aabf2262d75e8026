# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What every script of the laboratory shares: the cache, its locks, packages fetched into it, and the
# stock kernels unpacked from them. Sourced, never run.
#
# The cache lives outside the checkout, because CI starts from a fresh clone each time. Every entry is
# a folder named after all that it depends on (package version, config, compiler) and appears by one
# rename when it is complete, so that an entry that exists is whole and is never written again. Who
# makes an entry holds <entry>.lock meanwhile; a second caller waits and finds it made.

lab_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab_top=$(cd "$lab_dir/../.." && pwd)
lab_cache=${OTTE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/otte}/lab
lab_jobs=${OTTE_JOBS:-$(nproc)}
lab_started=$(date +%s)

lab_die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 125
}

# Progress of long work, with the seconds since the script began; the inner loop stays silent.
lab_say() {
	printf '[%4d s] %s\n' $(($(date +%s) - lab_started)) "$*" >&2
}

# The programs a script needs, each with the Debian package that brings it.
lab_need() {
	local pair
	for pair in "$@"; do
		PATH=$PATH:/sbin:/usr/sbin command -v "${pair%%=*}" >/dev/null ||
			lab_die "${pair%%=*} is missing: apt-get install ${pair#*=}"
	done
}

# lab_entry PATH MAKER [ARG...]: the cache entry PATH (relative), made by `MAKER DIR ARG...` if absent.
# Prints its absolute path. The maker sees the lab_ variables and functions, and nothing else: it runs in
# a shell of its own, because bash forgets `set -e` in all that is called below a condition. Its output
# goes to <entry>.log, whose end is shown when it fails.
lab_entry() {
	local name=$1 path=$lab_cache/$1 maker=$2
	shift 2
	if [ ! -d "$path" ]; then
		mkdir -p "$(dirname "$path")"
		(
			flock 8
			[ ! -d "$path" ] || exit 0
			rm -rf "$path.making"
			mkdir "$path.making"
			lab_say "making $name"
			if ! bash -euo pipefail -c "$(declare -p "${!lab_@}"; declare -f); \"\$@\"" "$0" \
				"$maker" "$path.making" "$@" >"$path.log" 2>&1 8>&-; then
				tail -n 40 "$path.log" >&2
				rm -rf "$path.making"
				lab_die "could not make $name (the whole log: $path.log)"
			fi
			mv "$path.making" "$path"
			lab_say "made $name ($(du -sh "$path" | cut -f1))"
		) 8>"$path.lock" || exit $?
	fi
	printf '%s\n' "$path"
}

# ---- packages -------------------------------------------------------------------------------------

# Debian suites that the host itself does not follow, each with its own lists in the cache.
lab_suites_bullseye='bullseye bullseye-security'
lab_suites_trixie='trixie trixie-backports'

# lab_apt SUITE COMMAND...: apt-get or apt-cache over the host's own sources, or over another suite's.
lab_apt() {
	local suite=$1 tool=$2 root
	shift 2
	if [ "$suite" = host ]; then
		"$tool" "$@"
		return
	fi
	root=$(lab_apt_root "$suite")
	# Without a default release apt prefers the older of two where one is a backport.
	"$tool" -o APT::Default-Release="$(tail -n 1 "$root/suites")" \
		-o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::State="$root/state" -o Dir::State::status="$root/status" \
		-o Dir::Cache="$root/cache" -o APT::Sandbox::User=root "$@"
}

# The folder of another suite's lists, fetched at most once a day.
lab_apt_root() {
	local suite=$1 root=$lab_cache/apt/$1 names name
	(
		mkdir -p "$root/state/lists/partial" "$root/cache/archives/partial"
		flock 8
		[ -z "$(find "$root/fresh" -mtime -1 2>/dev/null)" ] || exit 0
		names=lab_suites_$suite
		# shellcheck disable=SC2086
		printf '%s\n' ${!names} >"$root/suites"
		for name in ${!names}; do
			case $name in
			*-security) echo "deb http://deb.debian.org/debian-security $name main" ;;
			*) echo "deb http://deb.debian.org/debian $name main" ;;
			esac
		done >"$root/sources.list"
		: >"$root/status"
		apt-get -q -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=- \
			-o Dir::State="$root/state" -o Dir::State::status="$root/status" \
			-o Dir::Cache="$root/cache" -o APT::Sandbox::User=root \
			-o Acquire::Check-Valid-Until=false update >"$root/log" 2>&1 ||
			{ cat "$root/log" >&2; lab_die "cannot fetch the package lists of $suite"; }
		touch "$root/fresh"
	) 8>"$lab_cache/apt.$suite.lock"
	printf '%s\n' "$root"
}

# lab_field SUITE PACKAGE FIELD: a field of the newest version of a package. apt takes most of a second to
# say, so its answers are kept for as long as its lists stay as they are.
lab_field() {
	local suite=$1 package=$2 lists=/var/lib/apt/lists known
	[ "$suite" = host ] || lists=$(lab_apt_root "$suite")/state/lists
	known=$lab_cache/known/$suite.$(stat -c %Y "$lists")/$package
	if [ ! -s "$known" ]; then
		mkdir -p "$(dirname "$known")"
		lab_apt "$suite" apt-cache show --no-all-versions "$package" >"$known.$$" 2>/dev/null || true
		grep -q '^Version: ' "$known.$$" || {
			rm -f "$known.$$"
			lab_die "apt knows no package $package: run apt-get update (suite: $suite)"
		}
		mv "$known.$$" "$known"
	fi
	sed -n "0,/^$/s/^$3: //p" "$known" | sed -n 1p
}

# lab_unpack DIR SUITE PACKAGE...: fetch packages and unpack them into DIR. Nothing is installed.
lab_unpack() {
	local dir=$1 suite=$2 deb fetch
	shift 2
	fetch=$(mktemp -d "$dir.fetch.XXXXXX")
	(cd "$fetch" && lab_apt "$suite" apt-get -q download "$@")
	for deb in "$fetch"/*.deb; do
		dpkg -x "$deb" "$dir"
	done
	rm -rf "$fetch"
}

# ---- kernels --------------------------------------------------------------------------------------

# What a guest needs before it can see its root and its link; built-in ones are passed over.
lab_boot_modules='virtio_pci virtio_console 9pnet_virtio 9p overlay virtio_net'

# lab_kernel NAME: the folder of a bootable kernel: vmlinux, release, lib/modules/<release>, boot/
# (the modules above, uncompressed, in load order). NAME is 6.1, 6.12, debug, kcsan, or such a folder.
lab_kernel() {
	local meta image version
	case $1 in
	6.1) meta=linux-image-amd64 ;;
	6.12) meta=linux-image-6.12-amd64 ;;
	debug | kcsan)
		"$lab_dir/build-kernel" "$1"
		return
		;;
	*/*)
		[ -f "$1/vmlinux" ] && [ -f "$1/release" ] ||
			lab_die "$1 is no kernel folder (it lacks vmlinux or release)"
		(cd "$1" && pwd)
		return
		;;
	*) lab_die "unknown kernel '$1' (6.1, 6.12, debug, kcsan, or a folder)" ;;
	esac
	image=$(lab_field host "$meta" Depends | sed -E 's/[ ,].*//') || exit
	version=$(lab_field host "$meta" Version) || exit
	lab_need depmod=kmod unxz=xz-utils unzstd=zstd
	lab_entry "kernel/${image}_$version" lab_make_kernel "$image"
}

lab_make_kernel() {
	local dir=$1 image=$2 release file name
	lab_unpack "$dir" host "$image"
	release=$(ls "$dir/lib/modules")
	printf '%s\n' "$release" >"$dir/release"
	/sbin/depmod -b "$dir" -F "$dir/boot/System.map-$release" "$release"
	lab_extract_vmlinux "$dir/boot/vmlinuz-$release" "$dir/vmlinux"
	rm -rf "${dir:?}/usr"
	mv "$dir/boot" "$dir/image"
	mkdir "$dir/boot"
	for name in $lab_boot_modules; do
		/sbin/modprobe -d "$dir" -S "$release" --show-depends "$name"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
		name=$(basename "$file")
		case $file in
		*.xz) unxz <"$file" >"$dir/boot/${name%.xz}" ;;
		*.zst) unzstd -q <"$file" >"$dir/boot/${name%.zst}" ;;
		*) cp "$file" "$dir/boot/$name" ;;
		esac
		name=${name%.xz}
		printf '%s\n' "${name%.zst}" >>"$dir/boot/order"
	done
}

# QEMU starts an uncompressed kernel at its PVH entry. Decompressing under TCG would cost each boot of
# 6.1 four seconds of its six.
lab_extract_vmlinux() {
	local image=$1 out=$2 magic tool position
	while read -r magic tool; do
		for position in $(LC_ALL=C grep -aobP "$magic" "$image" | cut -d: -f1); do
			tail -c +$((position + 1)) "$image" | $tool >"$out" 2>/dev/null || true
			[ "$(head -c 4 "$out" | tail -c 3)" != ELF ] || return 0
		done
	done <<-'END'
		\xfd7zXZ\x00 unxz -q
		\x28\xb5\x2f\xfd unzstd -q
		\x1f\x8b\x08 gunzip -q
	END
	lab_die "found no kernel inside $image"
}

# lab_source: the unpacked kernel source, without other architectures and the largest generated headers.
# Nobody writes into it: every build has its own output folder.
lab_source() {
	local version
	version=$(lab_field host linux-source-6.1 Version) || exit
	lab_need xz=xz-utils
	lab_entry "source/linux-source-6.1_$version" lab_make_source
}

lab_make_source() {
	local dir=$1
	lab_unpack "$dir/package" host linux-source-6.1
	tar -C "$dir" --strip-components=1 --anchored --wildcards \
		--exclude='*/arch/[a-tv-wyz]*/*.[a-z]*' --exclude='*/drivers/gpu/drm/amd/include/asic_reg' \
		-xf "$dir/package/usr/src/linux-source-6.1.tar.xz"
	rm -rf "$dir/package"
}

# ---- headers --------------------------------------------------------------------------------------

# lab_headers NAME: the folder against which modules for that kernel are built. Unpacked from packages
# for stock kernels (5.10 is bullseye's), the output folder of our own build for the others.
lab_headers() {
	local suite=host meta=linux-headers-amd64 package version
	case $1 in
	6.1) ;;
	6.12) meta=linux-headers-6.12-amd64 ;;
	5.10) suite=bullseye ;;
	debug | kcsan | uml)
		version=$("$lab_dir/build-kernel" "$1") || exit
		printf '%s\n' "$version/build"
		return
		;;
	*) lab_die "no headers for kernel '$1' (5.10, 6.1, 6.12, 7.3, debug, kcsan, uml)" ;;
	esac
	package=$(lab_headers_package "$suite" "$meta") || exit
	version=$(lab_field "$suite" "$package" Version) || exit
	lab_entry "headers/${package}_$version" lab_make_headers "$suite" "$package" >/dev/null || exit
	printf '%s\n' "$lab_cache/headers/${package}_$version/usr/src/$package"
}

# lab_headers_package SUITE META: the package with the headers proper.
lab_headers_package() {
	local depends
	depends=$(lab_field "$1" "$2" Depends) || exit
	grep -oE 'linux-headers-[0-9][^ ,]*' <<<"$depends" | sed -n 1p
}

lab_make_headers() {
	local dir=$1 suite=$2 package=$3 final=${1%.making} depends
	depends=$(lab_field "$suite" "$package" Depends |
		grep -oE 'linux-(headers-[0-9][^ ,]*-common|kbuild-[0-9][^ ,]*)' | sort -u)
	# shellcheck disable=SC2086
	lab_unpack "$dir" "$suite" "$package" $depends
	# The packages expect to lie in /usr/src, and bullseye's to be used with a compiler of its own age.
	sed -i "s|/usr/src/|$final/usr/src/|" "$dir/usr/src/$package/Makefile"
	sed -i 's|gcc-10|gcc-12|' "$dir/usr/src/$package/.kernelvariables"
}

# lab_trixie: a Debian 13 root with the compiler and the headers of its newest backported kernel, which
# Debian 12's gcc cannot build for.
lab_trixie() {
	local package version
	package=$(lab_headers_package trixie linux-headers-amd64) || exit
	version=$(lab_field trixie "$package" Version) || exit
	lab_need mmdebstrap=mmdebstrap
	lab_entry "root/trixie_${package}_$version" lab_make_trixie "$package"
}

lab_make_trixie() {
	local dir=$1 package=$2 tree=$1/tree
	# mmdebstrap refuses a folder that others may not enter, and wants to make it.
	nice -n 15 mmdebstrap --variant=apt --include="make,gcc-14,binutils,$package" \
		--aptopt='APT::Default-Release "trixie-backports"' \
		--aptopt='APT::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/doc/*' \
		--keyring=/usr/share/keyrings trixie "$tree" \
		'deb http://deb.debian.org/debian trixie main' \
		'deb http://deb.debian.org/debian trixie-backports main'
	rm -rf "$tree"/var/cache/apt/*.bin "$tree"/var/lib/apt/lists/*
	printf '%s\n' "/usr/src/$package" >"$dir/headers"
}

# lab_dkms_root: a Debian 12 root with DKMS and a compiler; headers are bound into it by who uses it.
lab_dkms_root() {
	local version
	version=$(lab_field host dkms Version) || exit
	lab_need mmdebstrap=mmdebstrap
	lab_entry "root/dkms_$version" lab_make_dkms_root
}

lab_make_dkms_root() {
	nice -n 15 mmdebstrap --variant=apt --include=dkms,make,gcc-12,gcc,libc6-dev,libelf1,kmod,pahole \
		--aptopt='APT::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/doc/*' \
		bookworm "$1/tree" \
		'deb http://deb.debian.org/debian bookworm main' \
		'deb http://deb.debian.org/debian-security bookworm-security main'
	rm -rf "$1"/tree/var/cache/apt/*.bin "$1"/tree/var/lib/apt/lists/*
}

# ---- reports --------------------------------------------------------------------------------------

# lab_count FILE: the closing line of a report with "ok" and "not ok" lines. A skip is no pass, and a
# report in which nothing passed is a failure.
lab_count() {
	local passed failed skipped
	skipped=$(grep -cE '^ok .*# SKIP' "$1" || true)
	passed=$(($(grep -cE '^ok ' "$1" || true) - skipped))
	failed=$(grep -cE '^not ok ' "$1" || true)
	if [ $((passed + failed)) -eq 0 ]; then
		echo 'not ok - nothing has passed'
		failed=1
	fi
	printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
	[ "$failed" -eq 0 ]
}
