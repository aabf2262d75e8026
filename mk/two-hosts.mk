# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Two hosts on this machine: network namespaces that the tests make themselves (wants root; without the
# right to make them each test counts as skipped). tests/hosts/NAME.c makes one cmocka program,
# tests/hosts/*.sh drives the program otte.

HOSTS_BIN = $(B)/hosts/link
HOSTS_OBJ = $(B)/tests/hosts/netns.o $(B)/tests/e2e/process.o $(B)/tests/e2e/side.o
HOSTS_SCRIPTS := $(sort $(wildcard tests/hosts/*.sh))

DEPS_HOSTS := iproute2 util-linux jq

$(B)/tests/hosts/%.o: CPPFLAGS_OTTE += -Itests/e2e

$(HOSTS_BIN): $(B)/hosts/%: $(B)/tests/hosts/%.o $(HOSTS_OBJ) $(B)/libotte.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $^ $(LDLIBS_OTTE) -lcmocka
	@mv $@.tmp $@

-include $(HOSTS_BIN:$(B)/hosts/%=$(B)/tests/hosts/%.d) $(B)/tests/hosts/netns.d

STATIC_BUILD += $(HOSTS_BIN)

CHECK_PARTS += hosts
budget-hosts := 2

.PHONY: check-part-hosts
check-part-hosts: tools $(HOSTS_BIN)
	@OTTE=$(OTTE_BIN) HOSTS_BIN="$(HOSTS_BIN)" tests/run-scripts.sh $(HOSTS_SCRIPTS)
