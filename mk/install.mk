# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# make install [PREFIX=/usr/local] [DESTDIR=/staging] [LIBDIR=...]   and make uninstall with the same.
#
# A fragment that builds a program adds it with  INSTALL_BIN += path  and a completion for bash, named
# PROGRAM.bash, with  INSTALL_COMPLETIONS += path.  The headers are those of include/otte.

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
LIB_FILE = $(SONAME).$(VERSION)

# The libraries' names are the linker's: Debian's hwloc.pc would ask for static libraries nobody has.
define libotte_pc
sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	-e 's|@VERSION@|$(VERSION)|; s|@PRIVATE@|$(strip $(LDLIBS_OTTE) -pthread)|' lib/libotte.pc.in
endef

.PHONY: install uninstall
install: deps-demo ## library, headers, programs, man pages, completion below DESTDIR and PREFIX
	@$(MAKE) --no-print-directory lib man $(INSTALL_BIN)
	install -d $(addprefix $(DESTDIR),$(BINDIR) $(LIBDIR)/pkgconfig $(INCLUDEDIR)/otte $(COMPLETIONDIR))
	install -m 755 $(B)/$(SONAME) $(DESTDIR)$(LIBDIR)/$(LIB_FILE)
	ln -sf $(LIB_FILE) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libotte.so
	install -m 644 $(B)/libotte.a $(DESTDIR)$(LIBDIR)/libotte.a
	@$(libotte_pc) >$(B)/libotte.pc
	install -m 644 $(B)/libotte.pc $(DESTDIR)$(LIBDIR)/pkgconfig/libotte.pc
	install -m 644 $(wildcard include/otte/*.h) $(DESTDIR)$(INCLUDEDIR)/otte/
	@for f in $(INSTALL_BIN); do set -x; install -m 755 $$f $(DESTDIR)$(BINDIR)/ || exit 1; done
	@for f in $(INSTALL_COMPLETIONS); do set -x; \
		install -m 644 $$f $(DESTDIR)$(COMPLETIONDIR)/$$(basename $$f .bash) || exit 1; done
	@cd $(O)/man && find . -type f | while read -r f; do \
		install -D -m 644 $$f $(DESTDIR)$(MANDIR)/$$f || exit 1; done
	@echo "man pages: $(DESTDIR)$(MANDIR)"

uninstall: man ## remove exactly what install put there
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(LIB_FILE) $(SONAME) libotte.so libotte.a pkgconfig/libotte.pc)
	rm -f $(addprefix $(DESTDIR)$(INCLUDEDIR)/otte/,$(notdir $(wildcard include/otte/*.h)))
	rm -f $(addprefix $(DESTDIR)$(BINDIR)/,$(notdir $(INSTALL_BIN)))
	rm -f $(addprefix $(DESTDIR)$(COMPLETIONDIR)/,$(basename $(notdir $(INSTALL_COMPLETIONS))))
	@cd $(O)/man && find . -type f | while read -r f; do rm -f $(DESTDIR)$(MANDIR)/$$f; done
	@rmdir $(DESTDIR)$(INCLUDEDIR)/otte 2>/dev/null || true

CHECK_PARTS += install
budget-install := 2

.PHONY: check-part-install
check-part-install:
	@tests/install/run.sh

CHECK_LONG_PARTS += bare
budget-bare := 15

.PHONY: check-part-bare
check-part-bare:
	@tests/install/bare-check.sh
