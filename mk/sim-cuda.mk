# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# A libcuda.so.1 without a GPU: tests/sim/cuda/sim.h. Programs of tests/gpu run over it as over the
# driver's; a unit test that is linked with it, by $(CUDA_SIM_LINK), finds this one.

CUDA_SIM := $(B)/sim/cuda/libcuda.so.1
CUDA_SIM_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/sim/cuda/*.c))) $(B)/lib/cuda/kernel/run.o
CUDA_SIM_LINK = -L$(B)/sim/cuda -Wl,--no-as-needed,-l:libcuda.so.1,--as-needed -Wl,-rpath,$(abspath $(B)/sim/cuda)

STATIC_BUILD += $(CUDA_SIM)
$(CUDA_SIM): $(CUDA_SIM_OBJ)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libcuda.so.1 $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $^
	@mv $@.tmp $@

-include $(CUDA_SIM_OBJ:.o=.d)

# The programs of tests/gpu over it; and as over another driver, with all of its work late.
CHECK_PARTS += cuda-sim cuda-sim-late
budget-cuda-sim := 2
budget-cuda-sim-late := 2

.PHONY: check-part-cuda-sim check-part-cuda-sim-late
check-part-cuda-sim: $(CUDA_SIM) $(GPU_TEST_BIN)
	@LD_LIBRARY_PATH=$(B)/sim/cuda tests/run-programs.sh $(GPU_TEST_BIN)

check-part-cuda-sim-late: $(CUDA_SIM) $(GPU_TEST_BIN)
	@OTTE_SIM_CUDA=version=12080,delay_us=200,alias=0 LD_LIBRARY_PATH=$(B)/sim/cuda \
		tests/run-programs.sh $(GPU_TEST_BIN)

check-part-e2e: $(CUDA_SIM)

# Units over it.
CUDA_SIM_UNITS := copier copy_table cuda_memory cuda_sim gpu_direct gpu_routes gpudirect
$(foreach n,$(CUDA_SIM_UNITS),$(eval UNIT_WITH_$(n) := tests/gpu/gpu.o))
$(foreach n,$(CUDA_SIM_UNITS),$(eval LDFLAGS_unit_$(n) = $$(CUDA_SIM_LINK)))
$(CUDA_SIM_UNITS:%=$(B)/unit/%): | $(CUDA_SIM)
