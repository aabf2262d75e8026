# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Processes that are killed, stopped, forked, cut off, restarted or lied to: tests/e2e/NAME.c makes one
# cmocka program, which starts itself again for the other processes that it needs.

STORM_NAMES := storm fork cancel restart close hostile descriptors notify local
STORM_COMMON := process side proxy
STORM_WITH_storm := witness
STORM_BIN = $(STORM_NAMES:%=$(B)/e2e/%)

define storm_rule
$$(B)/e2e/$(1): $$(B)/tests/e2e/$(1).o $$(STORM_COMMON:%=$$(B)/tests/e2e/%.o) \
		$$(STORM_WITH_$(1):%=$$(B)/tests/e2e/%.o) $$(B)/libotte.a
	@mkdir -p $$(@D)
	$$(CC) $$(LDFLAGS_OTTE) $$(LDFLAGS) -o $$@.tmp $$^ $$(LDLIBS_OTTE) -lcmocka
	@mv $$@.tmp $$@
endef
$(foreach n,$(STORM_NAMES),$(eval $(call storm_rule,$(n))))
-include $(STORM_NAMES:%=$(B)/tests/e2e/%.d) $(STORM_COMMON:%=$(B)/tests/e2e/%.d) $(B)/tests/e2e/witness.d

CHECK_PARTS += storm
budget-storm := 2

# The full count of kills.
CHECK_LONG_PARTS += storm-long
budget-storm-long := 5
STORM_KILLS := 300

.PHONY: check-part-storm check-part-storm-long
check-part-storm: $(STORM_BIN)
	@tests/run-programs.sh $(STORM_BIN)

check-part-storm-long: $(B)/e2e/storm
	@echo "$(STORM_KILLS) kills"
	@OTTE_STORM_KILLS=$(STORM_KILLS) tests/run-programs.sh $(B)/e2e/storm

# The same over the module, in a guest: what is left is settled or retained, and ottectl shows it.
CHECK_PARTS += kills
budget-kills := 3
CHECK_LONG_PARTS += kills-long
budget-kills-long := 30
KILLS := 20

.PHONY: check-part-kills check-part-kills-long
check-part-kills: $(B)/e2e/storm $(OTTECTL_BIN)
	@tests/vm/kills --kills $(KILLS) $(B)

check-part-kills-long: $(B)/e2e/storm $(OTTECTL_BIN)
	@tests/vm/kills --kills $(STORM_KILLS) $(B)
