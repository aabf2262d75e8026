# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# One guest: its options, its initrd, its QEMU process, and the verdict on what it did. Sourced by `run`
# and `two`.
#
# A guest has a folder of its own on the host:
#   tree/            what its initrd adds to busybox (/lab: conf, cmd, init, boot/, ko/)
#   console, log     the kernel's console, and its messages from beginning to end
#   ctl              one line when the command is over: "exit N" or "lab WHY"
#   qemu             what QEMU itself said

# What makes a run fail though its command succeeded. Only lines after "otte-vm: begin" count.
# shellcheck disable=SC2034
guest_bad='WARNING: |BUG: |BUG at |Oops|KASAN|KCSAN|UBSAN|kernel BUG|general protection fault'
guest_bad+='|possible (recursive|circular|irq|invalid)|possible .* deadlock|inconsistent lock state'
guest_bad+='|held lock freed|lock held when returning|suspicious RCU|sleeping function called'
guest_bad+='|scheduling while atomic|refcount_t: |unreferenced object|kobject .* is not initialized'
guest_bad+='|INFO: task .* blocked|self-detected stall|detected stalls|soft lockup|Bad (page|rss)'
guest_bad+='|list_(add|del) corruption|ODEBUG|Kernel panic|nobody cared|kmem_cache_destroy|objects remaining'

vm_kernel=6.1 vm_root=9p vm_cpus=2 vm_mem=1024M vm_icount='' vm_timeout=120 vm_append=''
vm_dmesg='' vm_no_check='' vm_allow='' vm_kmemleak='' vm_unload='' vm_keep='' vm_quiet=''
vm_modules=() vm_modprobe=() vm_files=() vm_env=()

guest_options_help() {
	cat <<-'END'
	  --kernel NAME      6.1 (default), 6.12, debug, kcsan, or a folder with vmlinux and release
	  --module FILE      load a module before the command; "FILE name=value ..." passes parameters
	  --modprobe NAME    load one of the kernel's own modules first (needs --root 9p)
	  --unload           unload the modules when the command succeeded; failure to is a failure
	  --root 9p          the host's root, read-only under a scratch layer; same working folder (default)
	  --root initrd      busybox, and what --file adds; the command's own program is added by itself
	  --file SRC[:DEST]  add a file to the initrd, with its shared libraries
	  --env NAME=VALUE   set in the command's environment
	  --cpus N           default 2
	  --mem SIZE         default 1024M
	  --icount           one CPU on a virtual clock: one instruction is one nanosecond
	  --timeout SECONDS  default 120, counted from the start of QEMU
	  --append WORDS     more kernel parameters
	  --dmesg            print the kernel's messages since the command began
	  --no-dmesg-check   a warning from the kernel is not a failure
	  --allow-dmesg RE   lines that are not a failure
	  --kmemleak         scan for leaks after the command (debug kernel)
	  --keep DIR         leave console, messages and the initrd's tree there
	  --quiet            no closing line with the times
	END
}

# guest_option WORD...: takes one option off the front and sets guest_taken to the number of words; 0 when
# the first word is no option of a guest.
guest_option() {
	guest_taken=2
	case $1 in
	--kernel) vm_kernel=$2 ;;
	--module) vm_modules+=("$2") ;;
	--modprobe) vm_modprobe+=("$2") ;;
	--root) vm_root=$2 ;;
	--file) vm_files+=("$2") ;;
	--env) vm_env+=("$2") ;;
	--cpus) vm_cpus=$2 ;;
	--mem) vm_mem=$2 ;;
	--timeout) vm_timeout=$2 ;;
	--append) vm_append+=" $2" ;;
	--allow-dmesg) vm_allow=$2 ;;
	--keep) vm_keep=$2 ;;
	*)
		guest_taken=1
		case $1 in
		--unload) vm_unload=1 ;;
		--icount) vm_icount=1 ;;
		--dmesg) vm_dmesg=1 ;;
		--no-dmesg-check) vm_no_check=1 ;;
		--kmemleak) vm_kmemleak=1 ;;
		--quiet) vm_quiet=1 ;;
		*) guest_taken=0 ;;
		esac
		;;
	esac
}

# guest_check: what must hold before a guest can start; sets guest_kernel and guest_release.
guest_check() {
	[ "$vm_root" = 9p ] || [ "$vm_root" = initrd ] || lab_die "--root is 9p or initrd, not $vm_root"
	lab_need qemu-system-x86_64=qemu-system-x86 busybox=busybox-static cpio=cpio setpriv=util-linux
	guest_kernel=$(lab_kernel "$vm_kernel")
	guest_release=$(cat "$guest_kernel/release")
}

# guest_quote WORD...: words as a POSIX shell reads them back.
guest_quote() {
	local word
	for word in "$@"; do
		printf "'%s' " "${word//\'/\'\\\'\'}"
	done
}

# guest_add TREE FILE DEST: a file into an initrd, with the shared libraries it wants.
guest_add() {
	local tree=$1 file=$2 dest=$3 library
	mkdir -p "$tree$(dirname "$dest")"
	cp -L "$file" "$tree$dest"
	while read -r library; do
		[ -e "$tree$library" ] || {
			mkdir -p "$tree$(dirname "$library")"
			cp -L "$library" "$tree$library"
		}
	done < <(ldd "$file" 2>/dev/null | grep -oE '/[^ ]+' | sort -u)
}

# guest_pack TREE OUT: an uncompressed initrd; the kernel unpacks it faster than any other.
guest_pack() {
	(cd "$1" && find . -print0 | cpio --quiet -0 -o -H newc -R 0:0) >"$2"
}

# guest_initrd DIR NAME ADDRESSES WORD...: makes DIR/initrd for a guest of that name that runs a command.
# ADDRESSES are its own and its peer's, or nothing.
guest_initrd() {
	local dir=$1 name=$2 address=$3 tree=$1/tree module file parameters module_dir='' pair
	local -a unload=()
	shift 3
	mkdir -p "$tree/bin" "$tree/lab/ko"
	cp "$(command -v busybox)" "$tree/bin/busybox"
	cp "$lab_dir/guest-init" "$tree/init"
	cp "$lab_dir/guest-init" "$tree/lab/init"
	chmod 755 "$tree/init"
	guest_boot_modules "$tree/lab/boot" "$address"
	for module in "${vm_modules[@]}"; do
		read -r file parameters <<<"$module"
		[ -f "$file" ] || lab_die "no module $file"
		cp "$file" "$tree/lab/ko/"
		printf '%s %s\n' "$(basename "$file")" "$parameters" >>"$tree/lab/ko/order"
		unload=("$(basename "$file" .ko)" "${unload[@]}")
	done
	if [ "$vm_root" = initrd ]; then
		for file in $(busybox --list); do
			[ "$file" = busybox ] || ln -s busybox "$tree/bin/$file"
		done
		for file in "${vm_files[@]}"; do
			guest_add "$tree" "${file%%:*}" "$(realpath -m "${file##*:}")"
		done
		if [[ $1 == */* && -f $1 ]]; then
			guest_add "$tree" "$1" "$(realpath "$1")"
			set -- "$(realpath "$1")" "${@:2}"
		fi
	elif [ -d "$guest_kernel/lib/modules/$guest_release" ]; then
		module_dir=$guest_kernel/lib/modules/$guest_release
	fi
	cat >"$tree/lab/conf" <<-END
		root=$vm_root
		release=$guest_release
		modules=$(guest_quote "$module_dir")
		modprobe='${vm_modprobe[*]}'
		unload=$(guest_quote "${vm_unload:+${unload[*]}}")
		kmemleak=$vm_kmemleak
		hostname=$name
		address=${address% *}
		peer=${address#* }
	END
	{
		for pair in "${vm_env[@]}"; do
			printf 'export %s=%s\n' "${pair%%=*}" "$(guest_quote "${pair#*=}")"
		done
		[ "$vm_root" != 9p ] || printf 'cd %s\n' "$(guest_quote "$PWD")"
		printf 'exec %s\n' "$(guest_quote "$@")"
	} >"$tree/lab/cmd"
	guest_pack "$tree" "$dir/initrd"
}

# guest_boot_modules TO ADDRESS: of the kernel's boot modules those that this guest has a use for.
guest_boot_modules() {
	local file
	[ -f "$guest_kernel/boot/order" ] || return 0
	mkdir "$1"
	while read -r file; do
		case $file in
		9p* | netfs.ko | fscache.ko | overlay.ko) [ "$vm_root" = 9p ] || continue ;;
		virtio_net.ko | *failover.ko) [ -n "$2" ] || continue ;;
		esac
		cp "$guest_kernel/boot/$file" "$1/"
		printf '%s\n' "$file" >>"$1/order"
	done <"$guest_kernel/boot/order"
}

# guest_start DIR [QEMU ARG...]: starts QEMU and sets guest_pid, and guest_cats to who carries the output.
# The command's output goes to descriptors 1 and 2 as it comes, each line after guest_prefix.
guest_start() {
	local dir=$1 smp=$vm_cpus accel=tcg,thread=multi,tb-size=512
	local -a args=() carry=(cat)
	shift
	[ -z "${guest_prefix:-}" ] || carry=(sed -u "s/^/$guest_prefix/")
	if [ -n "$vm_icount" ]; then
		# One instruction is one nanosecond of guest time, idle time is skipped.
		accel=tcg,thread=single
		smp=1
		args+=(-icount "shift=0,sleep=off,align=off")
	fi
	if [ "$vm_root" = 9p ]; then
		args+=(-virtfs "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap")
	fi
	mkfifo "$dir/out" "$dir/err"
	"${carry[@]}" <"$dir/out" &
	guest_cats=$!
	"${carry[@]}" <"$dir/err" >&2 &
	guest_cats+=" $!"
	: >"$dir/ctl"
	: >"$dir/console"
	# If this script is killed, `timeout` goes with it and takes QEMU along.
	setpriv --pdeathsig TERM timeout -k 5 "$vm_timeout" \
		qemu-system-x86_64 -accel "$accel" -cpu Haswell-v4 -M q35 -smp "$smp" -m "$vm_mem" \
		-nodefaults -no-user-config -display none -no-reboot \
		-kernel "$guest_kernel/vmlinux" -initrd "$dir/initrd" \
		-append "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off random.trust_cpu=on $vm_append" \
		-device virtio-rng-pci \
		-chardev "file,id=console,path=$dir/console" -serial chardev:console \
		-device virtio-serial-pci \
		-chardev "file,id=out,path=$dir/out" -device virtserialport,chardev=out,nr=1 \
		-chardev "file,id=err,path=$dir/err" -device virtserialport,chardev=err,nr=2 \
		-chardev "file,id=log,path=$dir/log" -device virtserialport,chardev=log,nr=3 \
		-chardev "file,id=ctl,path=$dir/ctl" -device virtserialport,chardev=ctl,nr=4 \
		"${args[@]}" "$@" >"$dir/qemu" 2>&1 </dev/null &
	guest_pid=$!
}

# guest_last_words CONSOLE: what a dead guest said since its command began, or since it booted: the first
# lines name the cause.
guest_last_words() {
	local words
	words=$(tr -d '\r' <"$1" | sed -n '/otte-vm: begin/,$p')
	[ -n "$words" ] || words=$(tail -n 40 "$1")
	if [ "$(wc -l <<<"$words")" -gt 90 ]; then
		words="$(head -n 60 <<<"$words")
[...]
$(tail -n 25 <<<"$words")"
	fi
	printf '%s\n' "$words"
}

# guest_verdict DIR QEMU_STATUS: the exit status of the run, with a line on standard error for each
# status that is not the command's own.
guest_verdict() {
	local dir=$1 qemu=$2 verdict status bad
	verdict=$(tail -n 1 "$dir/ctl")
	if [ "$qemu" -eq 124 ] || [ "$qemu" -eq 137 ]; then
		guest_last_words "$dir/console" >&2
		printf 'otte-vm: ended after %s s without a result\n' "$vm_timeout" >&2
		return 124
	fi
	case $verdict in
	"exit "*) status=${verdict#exit } ;;
	*)
		guest_last_words "$dir/console" >&2
		[ "$qemu" -eq 0 ] || cat "$dir/qemu" >&2
		printf 'otte-vm: %s\n' "${verdict:-the guest went away without a result}" >&2
		return 125
		;;
	esac
	tr -d '\r' <"$dir/log" | sed -n '/otte-vm: begin/,$p' >"$dir/messages"
	[ -z "$vm_dmesg" ] || cat "$dir/messages" >&2
	if [ -z "$vm_no_check" ]; then
		bad=$(grep -aE "$guest_bad" "$dir/messages" | { grep -avE "${vm_allow:-^$}" || true; })
		if [ -n "$bad" ]; then
			[ -n "$vm_dmesg" ] || tail -n 80 "$dir/messages" >&2
			printf 'otte-vm: the kernel complained (command: %s): %s\n' "$status" \
				"$(head -n 1 <<<"$bad")" >&2
			[ "$status" -ne 0 ] || status=97
		fi
	fi
	return "$status"
}
