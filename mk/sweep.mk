# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The n-th allocation, then the n-th system call, of each public call fails: tests/sweep/. The calls that
# can fail are those that the linker turns over to tests/sweep/fault.c.

SWEEP_MEMORY := malloc calloc realloc reallocarray free
SWEEP_CALLS := socket bind listen connect accept4 getsockname getpeername getsockopt setsockopt \
	epoll_create1 epoll_ctl epoll_wait eventfd timerfd_create read send recv sendmsg recvmsg ioctl open fstat mmap \
	madvise getaddrinfo getnameinfo pthread_create pthread_atfork \
	$(addprefix otte_sys_,send recv sendmsg recvmsg epoll_wait)
# The simulated module, which lends.
SWEEP_MODULE := otte_attestor_fill otte_ledger_open otte_engine_create
SWEEP_BIN = $(B)/sweep/sweep
SWEEP_OBJ = $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/sweep/*.c))) $(B)/tests/e2e/process.o \
	$(B)/tests/unit/lend/module.o

STATIC_BUILD += $(SWEEP_BIN)

$(SWEEP_BIN): $(SWEEP_OBJ) $(B)/libotte.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) $(addprefix -Wl$(comma)--wrap=,$(SWEEP_MEMORY) $(SWEEP_CALLS) \
		$(SWEEP_MODULE)) \
		-o $@.tmp $^ $(LDLIBS_OTTE) -lcmocka
	@mv $@.tmp $@

-include $(SWEEP_OBJ:.o=.d)

CHECK_PARTS += sweep
budget-sweep := 3

.PHONY: check-part-sweep sweep-program
sweep-program: $(SWEEP_BIN)

check-part-sweep: $(SWEEP_BIN)
	@tests/run-programs.sh $(SWEEP_BIN)

.PHONY: bench-regions
bench-regions: $(B)/unit/regions ## 100 rounds of 10,000 regions: the last ones cost what the first did
	@$(B)/unit/regions bench

.PHONY: bench-guard
bench-guard: $(B)/unit/engine ## what it costs that a verdict follows a READ of adopted memory
	@$(B)/unit/engine bench

# Unit programs that work on the engine's pair.
$(foreach n,alone batch ends gate lend local peers stale threads zerocopy,\
	$(eval UNIT_WITH_$(n) := tests/unit/engine/pair.o))

# The same under the sanitizers, every fifth fault in the library's threads.
CHECK_LONG_PARTS += sweep-san
budget-sweep-san := 6

.PHONY: check-part-sweep-san
check-part-sweep-san:
	@$(MAKE) --no-print-directory -j$$(nproc) SAN=address,undefined sweep-program >/dev/null
	@$(MAKE) --no-print-directory -j$$(nproc) SAN=thread sweep-program >/dev/null
	@ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 \
		TSAN_OPTIONS=halt_on_error=1:suppressions=$(CURDIR)/tests/tsan.supp \
		tests/run-programs.sh $(O)/san-address-undefined/sweep/sweep $(O)/san-thread/sweep/sweep
