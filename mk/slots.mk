# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Processes that share a link by slots. A repetition takes a minute: four or five phases behind each of three gates.
CHECK_PARTS += slots
budget-slots := 1

.PHONY: bench-slots check-part-slots
bench-slots: $(B)/bench/slots $(B)/bench/slot_check ## slots over a shaped link, in a guest, fails below the bars
	@tests/bench/slots.sh $(BENCH_FLAGS) $(B)

# That every post obeys the gate; speed is judged by bench-slots alone.
check-part-slots: $(B)/bench/slots $(B)/bench/slot_check
	@tests/bench/slots.sh --quick $(B)

$(B)/bench/slots: $(B)/tests/bench/slots.o $(B)/tests/e2e/guest/slot_log.o $(B)/libotte.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) $(SLOT_LOG) -o $@.tmp $^ $(LDLIBS_OTTE)
	@mv $@.tmp $@

$(B)/bench/slot_check: $(B)/tests/bench/slot_check.o $(B)/libotte.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $^ $(LDLIBS_OTTE)
	@mv $@.tmp $@

-include $(B)/tests/bench/slots.d $(B)/tests/bench/slot_check.d
