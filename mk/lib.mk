# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# libotte.so and libotte.a from every .c below lib/. SAN=address,undefined or SAN=thread builds an
# instrumented copy in a directory of its own; CC=clang works as well as gcc.

ifeq ($(origin CC),default)
CC := gcc
endif
comma := ,
SONAME := libotte.so.1
PKGS := jansson libsodium hwloc
# Asked once, by the first recipe that compiles: `make deps` and `make help` work where these are missing.
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(shell pkg-config --cflags $(PKGS)))$(PKG_CFLAGS)
PKG_LIBS = $(eval PKG_LIBS := $$(shell pkg-config --libs $(PKGS)))$(PKG_LIBS)

B := $(O)/$(if $(SAN),san-$(subst $(comma),-,$(SAN)),$(notdir $(CC)))

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
CPPFLAGS_OTTE := -D_GNU_SOURCE -DOTTE_VERSION='"$(VERSION)"' -Iinclude -Ilib
CFLAGS ?= -O2 -g
CFLAGS_OTTE = -std=gnu11 -fPIC -fvisibility=hidden -pthread $(WARN) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -O1) $(PKG_CFLAGS)
LDFLAGS_OTTE = -pthread $(if $(SAN),-fsanitize=$(SAN))
LDLIBS_OTTE = $(PKG_LIBS)

LIB_SRC := $(sort $(shell find lib -name '*.c' 2>/dev/null))
LIB_OBJ = $(LIB_SRC:%.c=$(B)/%.o)

.PHONY: lib
lib: $(B)/libotte.a $(B)/libotte.so ## libotte.so and libotte.a

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_OTTE) $(CFLAGS) $(CFLAGS_OTTE) $(CFLAGS_$(subst /,_,$*)) -MMD -MP -c -o $@ $<

$(B)/libotte.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/$(SONAME): $(LIB_OBJ) lib/libotte.map
	$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=lib/libotte.map -Wl,-z,defs \
		$(LDFLAGS_OTTE) $(LDFLAGS) -o $@ $(LIB_OBJ) $(LDLIBS_OTTE)

$(B)/libotte.so: $(B)/$(SONAME)
	ln -sf $(SONAME) $@

-include $(LIB_OBJ:.o=.d)
