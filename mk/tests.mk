# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Unit tests: each tests/unit/NAME/*.c makes one cmocka program, linked with libotte.a so that it can
# reach what the shared library hides. A program's own link options are in LDFLAGS_unit_NAME, objects of
# other folders that it needs in UNIT_WITH_NAME.

UNIT_NAMES := $(sort $(notdir $(patsubst %/,%,$(dir $(wildcard tests/unit/*/*.c)))))
# The ledger's tests fail allocations, calls of the module and sockets one by one, and hide what the module can.
LDFLAGS_unit_ledger := $(addprefix -Wl$(comma)--wrap=,malloc calloc ioctl socket otte_module_query \
	otte_module_event)
# Which node is the module's, and what stands behind it.
LDFLAGS_unit_errors := $(addprefix -Wl$(comma)--wrap=,otte_ledger_node_open otte_module_query \
	otte_module_client_init)
# When the kernel lets go of memory that it sends from is up to the test.
LDFLAGS_unit_zerocopy := $(addprefix -Wl$(comma)--wrap=,setsockopt send recv recvmsg \
	otte_sys_send otte_sys_recv otte_sys_recvmsg)

# Who sleeps in a receive, and for how long a source does not answer.
LDFLAGS_unit_alone := $(addprefix -Wl$(comma)--wrap=,recv recvmsg otte_sys_recv otte_sys_recvmsg \
	send otte_sys_send otte_loop_wake)

# The end of a request stops where the test wants it to, and so does who waits for a peer.
LDFLAGS_unit_ends := $(addprefix -Wl$(comma)--wrap=,otte_access_end otte_notify_send_list otte_batch_start \
	otte_peer_check_region otte_peer_wait_ready)

# What the module says, and which client a source takes a peer for.
LDFLAGS_unit_attest := -Wl,--wrap=otte_attestor_fill,--wrap=otte_source_opened

# The module, as far as it lends.
LDFLAGS_unit_lend := $(addprefix -Wl$(comma)--wrap=,otte_attestor_fill otte_ledger_open otte_engine_create \
	tcp_peer_start)

# Where a source stops, what it finds when it looks at its memory, and what the kernel finds that sends it.
LDFLAGS_unit_stale := $(addprefix -Wl$(comma)--wrap=,otte_source_begin otte_source_still tcp_peer_unplan \
	sendmsg otte_sys_sendmsg tcp_zerocopy_send)

# Whether a lone request was one exchange or moved in its call, what is so meanwhile, when a plan goes, and who is of
# another user.
LDFLAGS_unit_local := $(addprefix -Wl$(comma)--wrap=,local_copy_exchange local_copy_direct local_way_move \
	tcp_peer_unplan local_check_user)

# The slot gate beside the module's arithmetic, built against the few things that it takes from the kernel.
UNIT_WITH_slots := kmod/slot.o
$(B)/kmod/slot.o: CPPFLAGS_OTTE += -Itests/unit/slots/kernel

# Parts of the program that call the library, before which they are linked.
UNIT_WITH_tool := tools/otte/routes.o tools/common/output.o
# A file whose disk is full for a while.
LDFLAGS_unit_tool := -Wl,--wrap=fdopen

# What is queued, what the gate is asked before each post, and the posts.
LDFLAGS_unit_gate := $(addprefix -Wl$(comma)--wrap=,otte_queue_push otte_slots_admit otte_slots_take \
	tcp_peer_start tcp_peer_exchange)

# Which libibverbs a process finds; and one of the tests' own, of which they spoil copies.
LDFLAGS_unit_rdma := -Wl,--wrap=dlopen
UNIT_WITH_rdma = $(VERBS_SIM)
$(B)/unit/rdma: | $(B)/fake/libibverbs.so.1

$(B)/fake/libibverbs.so.1: tests/unit/rdma/library/libibverbs.c
	@mkdir -p $(@D)
	$(CC) -shared -fPIC $(WARN) -o $@ $<

# libibverbs over simulated devices, tests/sim/verbs/sim.h. A program over it: UNIT_WITH_name := $(VERBS_SIM).
VERBS_SIM := $(patsubst %.c,%.o,$(sort $(wildcard tests/sim/verbs/*.c)))
UNIT_WITH_verbs_sim := $(VERBS_SIM)
# Two hosts with NICs of it, on which engines run. A program over them wraps otte_verbs_open, too.
VERBS_ROOM := $(VERBS_SIM) $(addprefix tests/unit/engine/,nics.o pair.o)
UNIT_WITH_engine := $(VERBS_SIM)
UNIT_WITH_grants := $(VERBS_ROOM)
LDFLAGS_unit_grants := $(addprefix -Wl$(comma)--wrap=,otte_verbs_open otte_rdma_source_say otte_source_retain \
	otte_rdma_peer_start)
# What a source does about peers that keep what they get.
UNIT_WITH_limits := $(VERBS_ROOM)
LDFLAGS_unit_limits := $(addprefix -Wl$(comma)--wrap=,otte_verbs_open otte_rdma_source_say \
	otte_rdma_transfer_granted)
# Leases: what is said, and with which evidence they end.
UNIT_WITH_leases := $(VERBS_ROOM)
LDFLAGS_unit_leases := $(addprefix -Wl$(comma)--wrap=,otte_verbs_open otte_rdma_source_say otte_rdma_peer_say \
	otte_rdma_fill_paths otte_source_end_lent)
UNIT_WITH_multirail := $(VERBS_ROOM)
LDFLAGS_unit_multirail := -Wl,--wrap=otte_verbs_open -Wl,--wrap=otte_rdma_endpoint_pick \
	-Wl,--wrap=otte_rdma_budget_leave
UNIT_WITH_nics := $(VERBS_ROOM) tests/unit/multirail/room.o
LDFLAGS_unit_nics := -Wl,--wrap=otte_verbs_open,--wrap=otte_memory_node
# Payload in slots: what the gate says of it.
UNIT_WITH_posts := $(VERBS_ROOM)
LDFLAGS_unit_posts := -Wl,--wrap=otte_verbs_open,--wrap=otte_slots_admit
# What the config says of NICs.
UNIT_WITH_select := $(UNIT_WITH_nics)
LDFLAGS_unit_select := $(LDFLAGS_unit_nics)
UNIT_WITH_deadlines := $(UNIT_WITH_nics)
LDFLAGS_unit_deadlines := $(addprefix -Wl$(comma)--wrap=,otte_verbs_open otte_rdma_peer_say)
UNIT_WITH_staging := $(VERBS_ROOM)
LDFLAGS_unit_staging := $(addprefix -Wl$(comma)--wrap=,otte_verbs_open otte_rdma_source_say \
	otte_rdma_transfer_granted otte_rdma_qp_post otte_source_still otte_source_end_lent \
	otte_rdma_fill_paths otte_rdma_staging_make otte_rdma_staging_take calloc mmap)
# Several workers of an engine's NICs.
UNIT_WITH_workers := $(VERBS_ROOM)
LDFLAGS_unit_workers := $(addprefix -Wl$(comma)--wrap=,otte_verbs_open otte_rdma_source_say otte_loop_init \
	otte_loop_wake otte_rdma_transfer_granted otte_thread_start otte_topo_read sched_setaffinity \
	nanosleep)
UNIT_WITH_rdma := $(VERBS_SIM)
# The same, which break; and the queue pairs that they make, and what they say.
UNIT_WITH_rdma_faults := $(VERBS_ROOM)
LDFLAGS_unit_rdma_faults := $(addprefix -Wl$(comma)--wrap=,otte_verbs_open otte_rdma_pair_join \
	otte_rdma_fill_paths otte_rdma_line_say otte_rails_admit otte_rdma_endpoints_close \
	otte_rdma_parent_begin)

# The owners of lib/transport/rdma over them; each allocation fails once.
UNIT_WITH_owners := $(VERBS_SIM)
LDFLAGS_unit_owners := $(addprefix -Wl$(comma)--wrap=,malloc calloc mmap)

# How they are told of memory of a simulated GPU (sim-cuda.mk): whether there is a module for it, what is closed and
# logged.
UNIT_WITH_gpu_routes += $(VERBS_SIM)
LDFLAGS_unit_gpu_routes += $(addprefix -Wl$(comma)--wrap=,otte_rdma_peermem_is_there otte_gpudirect_close otte_log)

# Engines with both: which NICs are near a GPU, what is said, and what is heard of it.
UNIT_WITH_gpu_direct := $(VERBS_ROOM)
LDFLAGS_unit_gpu_direct += $(addprefix -Wl$(comma)--wrap=,otte_verbs_open otte_rdma_peermem_is_there otte_topo_read \
	otte_rdma_source_say otte_rdma_transfer_granted otte_rdma_transfer_answered)

# The monitor over them; what fails in its creation.
UNIT_WITH_monitor := $(VERBS_SIM)
LDFLAGS_unit_monitor := $(addprefix -Wl$(comma)--wrap=,calloc epoll_ctl)

# Each allocation fails once, and how much is taken.
LDFLAGS_unit_rails := $(addprefix -Wl$(comma)--wrap=,malloc calloc)
LDFLAGS_unit_keys := -Wl,--wrap=calloc

# How many allocations there are.
LDFLAGS_unit_devices := $(addprefix -Wl$(comma)--wrap=,malloc calloc)

# Which allocation fails.
LDFLAGS_unit_priority := $(addprefix -Wl$(comma)--wrap=,malloc reallocarray)

UNIT_BIN = $(UNIT_NAMES:%=$(B)/unit/%)

$(B)/tests/%.o: CPPFLAGS_OTTE += -Itests

define unit_rule
$$(B)/unit/$(1): $$(patsubst %.c,$$(B)/%.o,$$(wildcard tests/unit/$(1)/*.c)) \
		$$(UNIT_WITH_$(1):%=$$(B)/%) $$(B)/libotte.a
	@mkdir -p $$(@D)
	$$(CC) $$(LDFLAGS_OTTE) $$(LDFLAGS) $$(LDFLAGS_unit_$(1)) -o $$@.tmp $$^ $$(LDLIBS_OTTE) -lcmocka
	@mv $$@.tmp $$@
endef
$(foreach n,$(UNIT_NAMES),$(eval $(call unit_rule,$(n))))

CHECK_PARTS += unit
CHECK_FAST_PARTS += unit
budget-unit := 2

# The ledger's suite once more, over otte.ko in a guest; and the program with it.
CHECK_PARTS += ledger-kernel
budget-ledger-kernel := 5

.PHONY: unit-programs check-part-unit check-part-ledger-kernel
unit-programs: $(UNIT_BIN)

check-part-unit: $(UNIT_BIN)
	@JOBS=2 tests/run-programs.sh $(UNIT_BIN)

check-part-ledger-kernel: $(B)/unit/ledger $(B)/unit/attest $(B)/otte
check-part-ledger-kernel: $(addprefix $(B)/guest/,borrow dump unmap domain containers)
	@tests/vm/ledger --kernel 6.12 $(B)

# What is posted, and what the gate could know then.
SLOT_LOG := $(addprefix -Wl$(comma)--wrap=,otte_slots_admit otte_slots_take)
LDFLAGS_guest_domain := $(SLOT_LOG)
LDFLAGS_guest_containers := $(SLOT_LOG)
$(B)/guest/containers: $(B)/tests/e2e/guest/slot_log.o $(B)/tests/e2e/guest/lend.o
$(B)/guest/containers: $(B)/tests/unit/engine/pair.o
$(B)/guest/domain: $(B)/tests/e2e/guest/slot_log.o $(B)/tests/unit/engine/pair.o
$(B)/guest/borrow: $(STORM_COMMON:%=$(B)/tests/e2e/%.o) $(B)/tests/e2e/guest/forged.o
LDFLAGS_guest_borrow := -Wl,--wrap=otte_module_loan_offer

$(B)/guest/%: $(B)/tests/e2e/guest/%.o $(B)/libotte.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) $(LDFLAGS_guest_$*) -o $@.tmp $(filter %.o,$^) $(filter %.a,$^) \
		$(LDLIBS_OTTE) -Wl,--as-needed -lcmocka
	@mv $@.tmp $@

-include $(B)/kmod/slot.d
-include $(VERBS_SIM:%.o=$(B)/%.d)
-include $(patsubst %.c,$(B)/%.d,$(wildcard tests/e2e/guest/*.c))
-include $(foreach n,$(UNIT_NAMES),$(patsubst %.c,$(B)/%.d,$(wildcard tests/unit/$(n)/*.c)))
