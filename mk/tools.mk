# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The program otte, linked with libotte.a so that it runs from the build folder as it is.

OTTE_SRC := $(sort $(wildcard tools/otte/*.c))
OTTE_OBJ = $(OTTE_SRC:%.c=$(B)/%.o)
OTTE_BIN = $(B)/otte

DEPS_DEMO := util-linux
STATIC_BUILD += tools

.PHONY: tools
tools: $(OTTE_BIN) ## the program otte

$(OTTE_BIN): $(OTTE_OBJ) $(B)/libotte.a
	$(CC) $(LDFLAGS_OTTE) $(LDFLAGS) -o $@.tmp $^ $(LDLIBS_OTTE) -lm
	@mv $@.tmp $@

-include $(OTTE_OBJ:.o=.d)
