# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Fuzz targets: each tests/fuzz/NAME_fuzz.c is one libFuzzer program, with its corpus in
# tests/fuzz/corpus/NAME/ and, where there is one, its words in tests/fuzz/NAME.dict. The part `fuzz`
# gives each a fixed number of runs from a fixed seed; the part `fuzz-long` gives each FUZZ_LONG_SECONDS and
# another seed each time; `make fuzz-NAME` goes on until it finds something or for FUZZ_SECONDS. The last two
# keep what they learned in $(O)/fuzz/corpus/NAME/.

FUZZ_NAMES := $(patsubst tests/fuzz/%_fuzz.c,%,$(sort $(wildcard tests/fuzz/*_fuzz.c)))
FUZZ_BIN = $(FUZZ_NAMES:%=$(O)/fuzz/%)
FUZZ_CC ?= clang
FUZZ_SAN := address,undefined
FUZZ_SEED := 1
FUZZ_RUNS ?= 150000 # of each target, unless it has a FUZZ_RUNS_NAME
FUZZ_SECONDS ?= 0   # of `make fuzz-NAME`; 0: no end
FUZZ_LONG_SECONDS ?= 600 # of each target in `fuzz-long`

FUZZ_CFLAGS = -std=gnu11 -O1 -g -pthread $(WARN) -fno-sanitize-recover=all \
	-fsanitize=fuzzer-no-link,$(FUZZ_SAN) $(shell pkg-config --cflags $(PKGS))
FUZZ_OBJ := $(patsubst %.c,$(O)/fuzz/obj/%.o,$(sort $(shell find lib -name '*.c')))

$(O)/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	$(FUZZ_CC) $(CPPFLAGS_OTTE) $(FUZZ_CFLAGS) -MMD -MP -c -o $@ $<

$(O)/fuzz/libotte.a: $(FUZZ_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(FUZZ_BIN): $(O)/fuzz/%: $(O)/fuzz/obj/tests/fuzz/%_fuzz.o $(O)/fuzz/libotte.a
	$(FUZZ_CC) -fsanitize=fuzzer,$(FUZZ_SAN) -pthread -o $@ $^ $(LDLIBS_OTTE)

.PRECIOUS: $(O)/fuzz/obj/%.o

CHECK_PARTS += fuzz
budget-fuzz := 2

.PHONY: check-part-fuzz
check-part-fuzz: $(FUZZ_BIN)
	@O=$(O) SEED=$(FUZZ_SEED) tests/fuzz/run.sh \
		$(foreach n,$(FUZZ_NAMES),$(n):$(strip $(or $(FUZZ_RUNS_$(n)),$(FUZZ_RUNS))))

CHECK_LONG_PARTS += fuzz-long
budget-fuzz-long = $(shell echo $$(($(words $(FUZZ_NAMES)) * $(strip $(FUZZ_LONG_SECONDS)) / 60 + 3)))

.PHONY: check-part-fuzz-long
check-part-fuzz-long: $(FUZZ_BIN)
	@O=$(O) SEED=$${FUZZ_SEED:-$$RANDOM} tests/fuzz/run.sh \
		$(FUZZ_NAMES:%=%:$(strip $(FUZZ_LONG_SECONDS))s)

.PHONY: $(FUZZ_NAMES:%=fuzz-%)
$(FUZZ_NAMES:%=fuzz-%): fuzz-%: $(O)/fuzz/%
	@mkdir -p $(O)/fuzz/corpus/$*
	$(O)/fuzz/$* -max_total_time=$(strip $(FUZZ_SECONDS)) -artifact_prefix=$(O)/fuzz/$*- \
		$(addprefix -dict=,$(wildcard tests/fuzz/$*.dict)) \
		$(O)/fuzz/corpus/$* tests/fuzz/corpus/$*

-include $(FUZZ_OBJ:.o=.d) $(FUZZ_NAMES:%=$(O)/fuzz/obj/tests/fuzz/%_fuzz.d)
