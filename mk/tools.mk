# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The program otte, linked with libotte.a so that it runs from the build folder as it is.

OTTE_SRC := $(sort $(wildcard tools/otte/*.c))
OTTE_OBJ = $(OTTE_SRC:%.c=$(B)/%.o)
OTTE_BIN = $(B)/otte

DEPS_DEMO := util-linux
STATIC_BUILD += tools
INSTALL_BIN += $(OTTE_BIN)
INSTALL_COMPLETIONS += tools/otte/otte.bash

.PHONY: tools
tools: $(OTTE_BIN) ## the programs otte and ottectl

$(OTTE_BIN): $(OTTE_OBJ) $(TOOLS_COMMON_OBJ) $(B)/libotte.a
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $^ $(LDLIBS_OTTE)
	@mv $@.tmp $@

-include $(OTTE_OBJ:.o=.d) $(TOOLS_COMMON_OBJ:.o=.d)

# Its unit tests take those objects that stand alone.
$(B)/unit/tool: $(addprefix $(B)/tools/,otte/args.o otte/lru.o otte/pattern.o otte/samples.o \
	otte/stats_text.o otte/trace.o common/number.o common/output.o common/stopping.o common/whole.o)
$(OTTE_BIN) $(B)/unit/tool: LDLIBS_OTTE += -lm

.PHONY: demo
demo: deps-demo ## two processes move a real file there and back, checked; a short benchmark
	@$(MAKE) --no-print-directory -s tools
	@tools/demo.sh $(OTTE_BIN)

# The bars of docs/performance.md. REPORT=FILE appends the table there; BENCH_FLAGS adds options.
BENCH_CPU ?= $(shell taskset -cp $$$$ | sed -E 's/.*: *([0-9]+).*/\1/')

.PHONY: bench
bench: tools ## speed and latency beside plain sockets, fails below the bars; REPORT=FILE keeps a table
	$(OTTE_BIN) bench --floor --op both --sizes 4K,64K,1M,16M --pin $(BENCH_CPU) --congestion reno \
		--duration 6s --rounds 31 --require 64K=0.90,1M=0.95,16M=0.95 --require-latency 4K=1.25 \
		--note "commit $$(git describe --always --dirty)" \
		$(if $(REPORT),--report $(REPORT)) $(BENCH_FLAGS)

# Two pairs of engines in one guest, one with each ledger.
.PHONY: bench-ledger
bench-ledger: $(B)/bench/ledger ## the kernel ledger beside the process ledger over TCP, fails below its bar
	@tests/bench/ledger.sh $(BENCH_FLAGS) $<

# A neighbour's requests beside a tenant that is refused in a loop.
.PHONY: bench-quota
bench-quota: $(B)/bench/quota ## READs over TCP beside a tenant at its quota, in a guest, fails above its bar
	@tests/bench/quota.sh $(BENCH_FLAGS) $<

# Transport local beside TCP, process_vm_readv() and memcpy() from shared memory.
.PHONY: bench-local
bench-local: $(B)/bench/local ## READs within this host beside memcpy() and the others, fails below the bars
	@$(B)/bench/local --check

$(B)/bench/ledger: $(B)/tests/bench/ledger.o $(B)/libotte.a
$(B)/bench/local: $(B)/tests/bench/local.o $(B)/libotte.a
$(B)/bench/quota: $(B)/tests/bench/quota.o $(B)/libotte.a
$(B)/bench/ledger $(B)/bench/local $(B)/bench/quota:
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $^ $(LDLIBS_OTTE)
	@mv $@.tmp $@

.PHONY: bench-lend
bench-lend: $(B)/bench/local ## the same in a guest over the module: what it copies, and what is mapped
	@tests/vm/run --kernel 6.12 --root initrd --module "$$(tests/vm/build-module --kernel 6.12)" --unload \
		--env GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1073741824 \
		--timeout 400 --file $(B)/bench/local:/t/local -- /t/local --module

-include $(B)/tests/bench/ledger.d $(B)/tests/bench/local.d $(B)/tests/bench/quota.d
