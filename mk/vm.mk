# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The laboratory: guests under QEMU, the module built for several kernels, KUnit. See tests/vm/README.md.

# Debian packages that the laboratory needs; kernels, headers and sources are fetched into the cache.
DEPS_VM := qemu-system-x86 busybox-static cpio kmod xz-utils zstd util-linux coreutils \
	gcc gcc-12 libc6-dev make flex bison bc libelf-dev perl pahole sparse \
	mmdebstrap iproute2 iputils-ping rdma-core strace

# The first part fills the cache where it is cold: on two cores some fifteen minutes, most of them for
# the debug kernel. All other parts then find it warm.
CHECK_PARTS := vm-cache $(CHECK_PARTS)
CHECK_PARTS += vm-selftest vm-selftest-debug
budget-vm-cache := 20
budget-vm-selftest := 6
budget-vm-selftest-debug := 3

# Suites there are, once there is a module.
ifneq ($(wildcard kmod/*_kunit.c),)
CHECK_PARTS += kunit kunit-debug
endif
budget-kunit := 1
budget-kunit-debug := 2

# The floor, the newest, and DKMS: roots of other Debian releases are fetched for these.
CHECK_KERNELS_PARTS += kernels-build dkms-selftest
budget-kernels-build := 10
budget-dkms-selftest := 8
ifneq ($(wildcard dkms.conf),)
CHECK_KERNELS_PARTS += dkms
endif
budget-dkms := 4

CHECK_LONG_PARTS += vm-selftest-kcsan
budget-vm-selftest-kcsan := 20

KERNEL ?= 6.1
VM := tests/vm

.PHONY: vm check-kernels check-part-vm-cache check-part-vm-selftest check-part-vm-selftest-debug
.PHONY: check-part-vm-selftest-kcsan check-part-kunit check-part-kunit-debug
.PHONY: check-part-kernels-build check-part-dkms check-part-dkms-selftest

vm: ## run CMD='...' in a guest; KERNEL is 6.1, 6.12 or debug, VMFLAGS are for tests/vm/run
	@$(VM)/run --kernel $(KERNEL) $(VMFLAGS) -- sh -c '$(subst ','\'',$(CMD))'

check-kernels: ## builds for the oldest and newest kernel, and DKMS's life of the module
	@tests/run-parts.sh $(foreach p,$(CHECK_KERNELS_PARTS),$(p):$(budget-$(p)))

check-part-vm-cache:
	@$(VM)/cache 6.1 6.12 uml debug

check-part-vm-selftest:
	@$(VM)/selftest vm kunit two

check-part-vm-selftest-debug:
	@$(VM)/selftest debug

check-part-vm-selftest-kcsan:
	@$(VM)/selftest kcsan

check-part-kunit:
	@$(VM)/kunit

check-part-kunit-debug:
	@$(VM)/kunit --kernel debug

check-part-kernels-build:
	@$(VM)/selftest kernels

check-part-dkms-selftest:
	@$(VM)/selftest dkms

check-part-dkms:
	@$(VM)/dkms
