# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# CUDA is opened at run time, so that nothing of it is wanted here: its tests find a library of their own.

LDFLAGS_unit_cuda := -Wl,--wrap=dlopen
$(B)/unit/cuda: | $(B)/fake/libcuda.so.1

$(B)/fake/libcuda.so.1: tests/unit/cuda/library/libcuda.c
	@mkdir -p $(@D)
	$(CC) -shared -fPIC $(WARN) -o $@ $<

# A machine without it.
LDFLAGS_unit_cuda_missing := -Wl,--wrap=dlopen
