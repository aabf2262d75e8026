# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The program ottectl, the administrator's view of otte.ko. It shares tools/common with the program otte, and
# nothing of the engine.

OTTECTL_SRC := $(sort $(wildcard tools/ottectl/*.c))
OTTECTL_OBJ = $(OTTECTL_SRC:%.c=$(B)/%.o)
OTTECTL_BIN = $(B)/ottectl

DEPS_BUILD += libnl-genl-3-dev
STATIC_BUILD += $(OTTECTL_BIN)
INSTALL_BIN += $(OTTECTL_BIN)
INSTALL_COMPLETIONS += tools/ottectl/ottectl.bash

NL_CFLAGS = $(eval NL_CFLAGS := $$(shell pkg-config --cflags libnl-genl-3.0))$(NL_CFLAGS)
NL_LIBS = $(eval NL_LIBS := $$(shell pkg-config --libs libnl-genl-3.0))$(NL_LIBS)

OTTECTL_CPPFLAGS = -Iinclude/uapi $(NL_CFLAGS)

tools: $(OTTECTL_BIN)

$(B)/tools/ottectl/%.o $(B)/tests/unit/ottectl/%.o: CPPFLAGS_OTTE += $(OTTECTL_CPPFLAGS)

$(OTTECTL_BIN): $(OTTECTL_OBJ) $(TOOLS_COMMON_OBJ) $(B)/libotte.a
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $^ $(LDLIBS_OTTE) $(NL_LIBS) -lm
	@mv $@.tmp $@

-include $(OTTECTL_OBJ:.o=.d)

# Beside real clients, in a guest.
DEPS_OTTECTL := jq
CHECK_PARTS += ottectl
budget-ottectl := 3

.PHONY: check-part-ottectl
check-part-ottectl: $(OTTECTL_BIN)
	@tests/ottectl/run $(OTTECTL_BIN)

# What needs no module.
UNIT_WITH_ottectl := $(addprefix tools/ottectl/,describe.o limits_file.o link.o message.o options.o sysfs.o tally.o) \
	$(addprefix tools/common/,number.o output.o)
$(B)/unit/ottectl: LDLIBS_OTTE += $(NL_LIBS)

$(O)/fuzz/obj/tools/ottectl/%.o $(O)/fuzz/obj/tests/fuzz/ottectl_fuzz.o: CPPFLAGS_OTTE += $(OTTECTL_CPPFLAGS)
$(O)/fuzz/ottectl: $(addprefix $(O)/fuzz/obj/,tools/ottectl/message.o tools/ottectl/describe.o tools/common/output.o \
	lib/base/line.o)
$(O)/fuzz/ottectl: LDLIBS_OTTE += $(NL_LIBS)
