# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# One guest: its initrd, its QEMU process, and the verdict on what it did. Sourced by `run`.
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

# guest_start DIR KERNEL [QEMU ARG...]: starts QEMU and sets guest_pid. Reads vm_root, vm_cpus, vm_mem,
# vm_icount, vm_timeout and vm_append. The command's output goes to descriptors 1 and 2 as it comes.
guest_start() {
	local dir=$1 kernel=$2 smp=$vm_cpus accel=tcg,thread=multi,tb-size=512
	local -a args=()
	shift 2
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
	cat <"$dir/out" &
	guest_cats=$!
	cat <"$dir/err" >&2 &
	guest_cats+=" $!"
	: >"$dir/ctl"
	: >"$dir/console"
	# If this script is killed, `timeout` goes with it and takes QEMU along.
	setpriv --pdeathsig TERM timeout -k 5 "$vm_timeout" \
		qemu-system-x86_64 -accel "$accel" -cpu Haswell-v4 -M q35 -smp "$smp" -m "$vm_mem" \
		-nodefaults -no-user-config -display none -no-reboot \
		-kernel "$kernel/vmlinux" -initrd "$dir/initrd" \
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

# guest_verdict DIR QEMU_STATUS: the exit status of the run, with a line on standard error for each
# status that is not the command's own.
guest_verdict() {
	local dir=$1 qemu=$2 verdict status bad
	verdict=$(tail -n 1 "$dir/ctl")
	if [ "$qemu" -eq 124 ] || [ "$qemu" -eq 137 ]; then
		tail -n 15 "$dir/console" >&2
		printf 'otte-vm: ended after %s s without a result\n' "$vm_timeout" >&2
		return 124
	fi
	case $verdict in
	"exit "*) status=${verdict#exit } ;;
	*)
		tail -n 40 "$dir/console" >&2
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
			printf 'otte-vm: the kernel complained (command: %s): %s\n' "$status" "$(head -n 1 <<<"$bad")" >&2
			[ "$status" -ne 0 ] || status=97
		fi
	fi
	return "$status"
}
