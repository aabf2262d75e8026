# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Transport rdma beside perftest. That package is wanted here alone: it is no DEPS_, and named where it is missing.

.PHONY: bench-rdma
bench-rdma: $(B)/bench/rdma ## transport rdma beside perftest over rxe, in a guest, fails below the bars
	@tests/bench/rdma.sh $(BENCH_FLAGS) $(B)

$(B)/bench/rdma: $(B)/tests/bench/rdma.o $(B)/libotte.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $^ $(LDLIBS_OTTE)
	@mv $@.tmp $@

-include $(B)/tests/bench/rdma.d
