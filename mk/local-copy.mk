# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The copy kernel's image. It is committed; clang 14 makes it without a CUDA SDK, and the same from each machine: no
# SDK is looked for, which would choose PTX's version.

CLANG_PTX ?= clang-14
PTX_FLAGS := -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 --cuda-path=/nonexistent -nocudainc -nocudalib \
	-std=gnu++14 -O2 -Wall -Wextra -Werror -S -Xclang -target-feature -Xclang

.PHONY: copy-image
copy-image: ## the images of kernels anew, by clang 14
	$(CLANG_PTX) $(PTX_FLAGS) +ptx60 -o lib/cuda/kernel/copy.ptx lib/cuda/kernel/copy.cu
	$(CLANG_PTX) $(PTX_FLAGS) +ptx60 -o tools/otte/product.ptx tools/otte/product.cu
	$(CLANG_PTX) $(PTX_FLAGS) +ptx74 -o tests/gpu/copy_variants.ptx tests/gpu/copy_variants.cu

CHECK_PARTS += copy-image
budget-copy-image := 1

.PHONY: check-part-copy-image
check-part-copy-image:
	@CLANG_PTX=$(CLANG_PTX) tests/cuda/image.sh $(PTX_FLAGS) +ptx60 -- lib/cuda/kernel/copy.cu \
		tools/otte/product.cu

$(B)/lib/cuda/kernel/image.o: lib/cuda/kernel/copy.ptx
$(B)/tools/otte/bench_copy_product.o: tools/otte/product.ptx

# For a machine with a GPU; here it has to build.
STATIC_BUILD += $(B)/gpu/copy_probe
$(B)/gpu/copy_probe: $(B)/tests/gpu/copy_probe.o $(B)/libotte.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $^ $(LDLIBS_OTTE) -ldl
	@mv $@.tmp $@

-include $(B)/tests/gpu/copy_probe.d

# Over whichever libcuda.so.1 there is.
GPU_TESTS := copies kills
GPU_TEST_BIN := $(GPU_TESTS:%=$(B)/gpu/%)
STATIC_BUILD += $(GPU_TEST_BIN)
$(GPU_TEST_BIN): $(B)/gpu/%: $(B)/tests/gpu/%.o $(B)/tests/gpu/gpu.o $(B)/libotte.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $^ $(LDLIBS_OTTE) -lcmocka -ldl
	@mv $@.tmp $@
$(GPU_TESTS:%=$(B)/tests/gpu/%.o) $(B)/tests/gpu/gpu.o: CPPFLAGS_OTTE += -Itests -Itests/gpu

-include $(GPU_TESTS:%=$(B)/tests/gpu/%.d) $(B)/tests/gpu/gpu.d
