# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# One guest: its options, its initrd, its QEMU process, and the verdict on what it did. Sourced by `run`
# and `two`.
#
# A guest has a folder of its own on the host:
#   tree/            what its initrd adds to busybox (/lab: conf, cmd, init, boot/, ko/)
#   console, log     the kernel's console, and its messages from beginning to end
#   ctl              one line when the command is over: "exit N", "lab WHY", or "late" where it is not
#   qemu             what QEMU itself said
#   monitor.in, .out QEMU's monitor
#   fate             why the guard ended it: "boot", "late" or "off"; empty where it did not
#   state            what the monitor told of its processors before a guest was ended
#
# Every wait has an end. A guest has vm_boot seconds to come to its init and vm_timeout from then on to have
# a result, however long its boot took; then it says itself what it is waiting for and switches itself off,
# within vm_grace more. What it does not do itself the guard does, and `timeout` ends QEMU should the guard
# fail.

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
vm_boot='' vm_append_first='' vm_wait=${OTTE_GUEST_WAIT:-300}
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
	  --timeout SECONDS  default 120, counted from when it has come to its init
	  --boot SECONDS     for coming to its init; default 90 for stock kernels, 240 for others
	  --append WORDS     more kernel parameters
	  --append-first WORDS  the same for the first boot alone: makes it fail, for the selftest
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
	--boot) vm_boot=$2 ;;
	--append) vm_append+=" $2" ;;
	--append-first) vm_append_first+=" $2" ;;
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
	local boot=240 grace=60
	case $vm_kernel in
	6.1 | 6.12) boot=90 grace=20 ;;
	esac
	vm_boot=${vm_boot:-$boot}
	vm_grace=$grace
}

# guest_lock: one guest at a time on a machine, since QEMU's threads fill it. Descriptor 9 holds the lock,
# and no child keeps it: what is left of a guest must not hold up the next one.
guest_lock() {
	local lock=$lab_cache/guest.lock
	mkdir -p "$lab_cache"
	exec 9>>"$lock"
	flock -w "$vm_wait" 9 ||
		lab_die "the machine is not free after $vm_wait s (OTTE_GUEST_WAIT): $(cat "$lock")"
	printf 'process %d, %s, since %s\n' $$ "$0" "$(date +%T)" >"$lock"
}

guest_unlock() {
	: >"$lab_cache/guest.lock"
	exec 9>&-
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
		deadline=$([ -n "$vm_icount" ] || echo "$vm_timeout")
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

# guest_start DIR [QEMU ARG...]: starts QEMU and its guard, and sets guest_pid, guest_guard and guest_cats
# to who carries the output. The command's output goes to descriptors 1 and 2 as it comes, each line after
# guest_prefix.
guest_start() {
	local dir=$1 file smp=$vm_cpus accel=tcg,thread=multi,tb-size=512
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
	rm -f "$dir"/{out,err,monitor.in,monitor.out,log}
	mkfifo "$dir"/{out,err,monitor.in,monitor.out}
	for file in ctl console fate state; do
		: >"$dir/$file"
	done
	"${carry[@]}" <"$dir/out" 9>&- &
	guest_cats=$!
	"${carry[@]}" <"$dir/err" >&2 9>&- &
	guest_cats+=" $!"
	# If this script is killed, `timeout` goes with it and takes QEMU along.
	setpriv --pdeathsig TERM timeout -k 5 $((vm_boot + 60 + vm_timeout + vm_grace + 30)) \
		qemu-system-x86_64 -accel "$accel" -cpu Haswell-v4 -M q35 -smp "$smp" -m "$vm_mem" \
		-nodefaults -no-user-config -display none -no-reboot \
		-kernel "$guest_kernel/vmlinux" -initrd "$dir/initrd" \
		-append "$guest_words $vm_append$vm_append_first" \
		-device virtio-rng-pci \
		-chardev "file,id=console,path=$dir/console" -serial chardev:console \
		-chardev "pipe,id=monitor,path=$dir/monitor" -mon chardev=monitor,mode=readline \
		-device virtio-serial-pci \
		-chardev "file,id=out,path=$dir/out" -device virtserialport,chardev=out,nr=1 \
		-chardev "file,id=err,path=$dir/err" -device virtserialport,chardev=err,nr=2 \
		-chardev "file,id=log,path=$dir/log" -device virtserialport,chardev=log,nr=3 \
		-chardev "file,id=ctl,path=$dir/ctl" -device virtserialport,chardev=ctl,nr=4 \
		"${args[@]}" "$@" >"$dir/qemu" 2>&1 </dev/null 9>&- &
	guest_pid=$!
	guest_watch "$dir" "$guest_pid" "${1:+pair}" >/dev/null 2>&1 </dev/null 9>&- &
	guest_guard=$!
	vm_append_first=
}

# An NMI, which the guard sends to a guest that no longer reacts, makes the kernel say where it is.
guest_words='console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off random.trust_cpu=on'
guest_words+=' unknown_nmi_panic'

# guest_monitor DIR COMMAND: to QEMU's monitor; to nobody where QEMU is gone. Open for both ways, a FIFO
# neither blocks nor ends the writer.
guest_monitor() {
	printf '%s\n' "$2" 1<>"$1/monitor.in"
}

# guest_begun DIR: its init has come to the command, or has said why not.
guest_begun() {
	[ -s "$1/ctl" ] || grep -qaF 'otte-vm: begin' "$1/console"
}

guest_result() {
	grep -qE '^(exit|lab|late)' "$1/ctl"
}

# guest_watch DIR PID HOW: ends a guest that oversteps its time, once it has been asked for its state. A
# pair's guests look for each other for up to a minute before they begin.
guest_watch() {
	local dir=$1 pid=$2 since=$SECONDS boot=$vm_boot begun='' over='' now
	[ -z "$3" ] || boot=$((boot + 60))
	while sleep 1 && kill -0 "$pid"; do
		now=$((SECONDS - since))
		if [ -z "$begun" ] && ! guest_begun "$dir"; then
			[ "$now" -ge "$boot" ] || continue
			echo boot >"$dir/fate"
			break
		fi
		begun=${begun:-$now}
		if [ -z "$over" ] && guest_result "$dir"; then
			over=$now
		fi
		if [ -n "$over" ] && [ "$now" -ge $((over + vm_grace)) ]; then
			echo off >"$dir/fate"
			break
		fi
		if [ -z "$over" ] && [ "$now" -ge $((begun + vm_timeout + vm_grace)) ]; then
			echo late >"$dir/fate"
			break
		fi
	done
	[ -s "$dir/fate" ] || return 0
	guest_ask "$dir"
	kill "$pid"
}

# Registers twice: who is at the same place again may be stuck there.
guest_ask() {
	local dir=$1 reader
	timeout 6 cat "$dir/monitor.out" >"$dir/state" &
	reader=$!
	guest_monitor "$dir" 'info status'
	guest_monitor "$dir" 'info registers -a'
	sleep 1
	guest_monitor "$dir" 'info registers -a'
	guest_monitor "$dir" nmi
	wait "$reader" || true
}

# guest_wait DIR: until it is gone, and all of its output is here. Sets guest_status to QEMU's.
guest_wait() {
	local dir=$1 pid tries
	guest_status=0
	wait "$guest_pid" || guest_status=$?
	guest_pid=
	# While it asks for the state, it ends by itself.
	[ -s "$dir/fate" ] || kill "$guest_guard" 2>/dev/null || true
	wait "$guest_guard" 2>/dev/null || true
	# Who still waits for QEMU to open the other end need not: it died before.
	: <>"$dir/out" <>"$dir/err"
	for pid in $guest_cats; do
		for ((tries = 0; tries < 1500; tries++)); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.02
		done
		kill "$pid" 2>/dev/null || true
	done
}

# guest_last_words CONSOLE: what a dead guest said since its command began. One that died before has said
# much that is no matter; there it is what it said since it first complained, whatever the length of the
# call trace that follows, or its last lines where it did not.
guest_last_words() {
	local words
	words=$(tr -d '\r' <"$1" | sed -n '/otte-vm: begin/,$p')
	[ -n "$words" ] || words=$(tr -d '\r' <"$1" | sed -nE "/$guest_bad/,\$p")
	[ -n "$words" ] || words=$(tail -n 40 "$1")
	if [ "$(wc -l <<<"$words")" -gt 90 ]; then
		words="$(head -n 60 <<<"$words")
[...]
$(tail -n 25 <<<"$words")"
	fi
	printf '%s\n' "$words"
}

# guest_why_late DIR: what a guest without a result was doing. It tells itself, in its messages, what its
# tasks wait for; where it could not, there is QEMU's word on its processors.
guest_why_late() {
	local dir=$1
	if [ -s "$dir/log" ]; then
		echo '--- the guest on what it waits for:'
		tr -d '\r' <"$dir/log" | sed -n '/otte-vm: late/,$p' | sed '/otte-vm: all tasks/,$d' |
			head -n 300
	fi
	if [ -s "$dir/state" ]; then
		echo '--- QEMU on its processors, and a second later:'
		tr -d '\r' <"$dir/state" | grep -aoE '^VM status.*|^CPU#.*|RIP=.*' || true
	fi
}

# guest_verdict DIR QEMU_STATUS: the exit status of the run, with a line on standard error for each
# status that is not the command's own.
guest_verdict() {
	local dir=$1 qemu=$2 verdict status bad fate
	verdict=$(grep -E '^(exit|lab|late)' "$dir/ctl" | tail -n 1 || true)
	fate=$(cat "$dir/fate")
	if [ "$verdict" = late ] || [ "$fate" = late ] ||
		{ [ -z "$verdict" ] && { [ "$qemu" -eq 124 ] || [ "$qemu" -eq 137 ]; }; }; then
		guest_last_words "$dir/console" >&2
		guest_why_late "$dir" >&2
		printf 'otte-vm: ended after %s s without a result\n' "$vm_timeout" >&2
		return 124
	fi
	[ "$fate" != off ] || {
		guest_last_words "$dir/console" >&2
		guest_why_late "$dir" >&2
		verdict='lab the guest had a result and did not switch itself off'
	}
	[ "$fate" != boot ] || {
		guest_why_late "$dir" >&2
		verdict="lab the guest has not come to its init within $vm_boot s"
	}
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
