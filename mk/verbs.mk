# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Verbs in a guest with two rxe devices: the module's mappings, discovery, `otte topo`; and transport rdma.

DEPS_VERBS := libibverbs-dev ibverbs-providers iproute2 jq

CHECK_PARTS += verbs
budget-verbs := 1

.PHONY: check-part-verbs
check-part-verbs: $(B)/verbs/discover $(B)/verbs/owners $(OTTE_BIN)
	@tests/verbs/run $(B)

VERBS_HOSTILE := authority incarnation
VERBS_HOSTILE_COMMON := parties hostile
VERBS_HOSTILE_WRAPS := $(addprefix -Wl$(comma)--wrap=,otte_rdma_qp_post otte_rdma_window_bind otte_rdma_peer_say)
VERBS_HOSTILE_BIN = $(VERBS_HOSTILE:%=$(B)/verbs/%)
VERBS_RDMA_BIN = $(B)/verbs/transfer $(B)/verbs/crowd $(B)/verbs/flap $(VERBS_HOSTILE_BIN)

CHECK_PARTS += rdma
budget-rdma := 7
# 64 threads for five minutes; a rail that is lost 20 times, by an event of its port and in silence.
CHECK_LONG_PARTS += rdma-crowd-long rdma-flap-long
budget-rdma-crowd-long := 10
budget-rdma-flap-long := 40

.PHONY: check-part-rdma check-part-rdma-crowd-long check-part-rdma-flap-long
check-part-rdma: $(VERBS_RDMA_BIN)
	@tests/verbs/run-rdma --kernel 6.1 --kernel 6.12 $(B)

check-part-rdma-crowd-long: $(VERBS_RDMA_BIN)
	@tests/verbs/run-rdma --kernel 6.12 --long crowd $(B)

check-part-rdma-flap-long: $(VERBS_RDMA_BIN)
	@tests/verbs/run-rdma --kernel 6.1 --kernel 6.12 --long flap $(B)

# Processes that are killed at random points: the storm of mk/storm.mk, over rxe, by grants and then by leases.
CHECK_PARTS += kills-rdma
budget-kills-rdma := 3
CHECK_LONG_PARTS += kills-rdma-long
budget-kills-rdma-long := 45
RDMA_KILLS := 10

.PHONY: check-part-kills-rdma check-part-kills-rdma-long
check-part-kills-rdma: $(B)/e2e/storm $(OTTECTL_BIN)
	@tests/verbs/run-kills --kills $(RDMA_KILLS) $(B)

check-part-kills-rdma-long: $(B)/e2e/storm $(OTTECTL_BIN)
	@tests/verbs/run-kills --kills $(STORM_KILLS) $(B)

# Two guests, one of which loses its power.
CHECK_PARTS += rdma-hosts
budget-rdma-hosts := 4

.PHONY: check-part-rdma-hosts
check-part-rdma-hosts: $(B)/verbs/hosts
	@tests/verbs/run-hosts $(B)

$(B)/verbs/%: $(B)/tests/verbs/%.o $(B)/libotte.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS_OTTE)
	@mv $@.tmp $@

$(B)/verbs/crowd $(B)/verbs/flap: $(B)/tests/verbs/parties.o
$(B)/verbs/flap: $(B)/tests/verbs/nodes.o

# These post what the library would not: the calls of its own that they stand before.
$(VERBS_HOSTILE_BIN): $(B)/verbs/%: $(B)/tests/verbs/%.o $(VERBS_HOSTILE_COMMON:%=$(B)/tests/verbs/%.o) $(B)/libotte.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) $(VERBS_HOSTILE_WRAPS) -o $@.tmp $^ $(LDLIBS_OTTE)
	@mv $@.tmp $@

STATIC_BUILD += $(VERBS_HOSTILE_BIN)
-include $(VERBS_HOSTILE:%=$(B)/tests/verbs/%.d) $(VERBS_HOSTILE_COMMON:%=$(B)/tests/verbs/%.d)

STATIC_BUILD += $(addprefix $(B)/verbs/,discover owners transfer hosts crowd flap)

-include $(addprefix $(B)/tests/verbs/,discover.d owners.d transfer.d hosts.d crowd.d flap.d nodes.d)
