# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The laboratory: guests under QEMU, the module built for several kernels, KUnit. See tests/vm/README.md.

# Debian packages that the laboratory needs; kernels, headers and sources are fetched into the cache.
DEPS_VM := qemu-system-x86 busybox-static cpio kmod xz-utils zstd util-linux

KERNEL ?= 6.1

.PHONY: vm
vm: ## run CMD='...' in a guest: KERNEL=6.1|6.12|debug, VMFLAGS for tests/vm/run
	@tests/vm/run --kernel $(KERNEL) $(VMFLAGS) -- sh -c '$(subst ','\'',$(CMD))'
