# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Man pages from docs/man/*.scd. Their check comes last: it compares the ERRORS sections with the codes
# that the tests before it have seen.

CHECK_LAST_PARTS += man
budget-man := 1

.PHONY: man check-part-man
man: $(O)/man.made ## man pages, below $(O)/man

$(O)/man.made: docs/man/build.sh $(wildcard docs/man/*.scd)
	@docs/man/build.sh $(O)/man $(VERSION)
	@touch $@

# Prints the table of config keys that otte.json(5) is compared with.
CONFIG_KEYS := $(B)/tests/man/config_keys
STATIC_BUILD += $(CONFIG_KEYS)

$(CONFIG_KEYS): $(CONFIG_KEYS).o $(B)/libotte.a
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@ $^ $(LDLIBS_OTTE)

check-part-man: man $(CONFIG_KEYS)
	@$(if $(OTTE_BIN),$(MAKE) --no-print-directory -s $(OTTE_BIN) $(OTTECTL_BIN))
	@OTTE_PROGRAM=$(OTTE_BIN) OTTECTL_PROGRAM=$(OTTECTL_BIN) tests/man/run.sh $(O)/man $(CONFIG_KEYS)
