# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Debian packages. Every variable named DEPS_* in any fragment is a list of them: a fragment that needs
# more names it beside its own targets. docs/install.md has the names for other distributions.

DEPS_BUILD := gcc libc6-dev make pkg-config libjansson-dev libsodium-dev libhwloc-dev libhwloc-plugins \
	libibverbs-dev uthash-dev scdoc
DEPS_MAN := man-db
DEPS_TEST := g++ clang libclang-rt-14-dev libcmocka-dev valgrind jq iproute2 procps file
DEPS_STATIC := clang-tidy clang-format cppcheck shellcheck

# Read when a recipe runs, so that fragments after this one count too.
DEPS_ALL = $(sort $(foreach v,$(filter DEPS_%,$(filter-out DEPS_ALL DEPS_DEMO_ALL,$(.VARIABLES))),$($(v))))
DEPS_DEMO_ALL = $(sort $(DEPS_BUILD) $(DEPS_DEMO))

.PHONY: deps deps-demo deps-list
deps: ## install the Debian packages that build and tests need (prints their names where not root)
	@tools/deps.sh $(DEPS_ALL)

deps-demo: ## the same, only what `make demo` and `make install` need
	@tools/deps.sh $(DEPS_DEMO_ALL)

deps-list: ## names of all these packages, one a line
	@printf '%s\n' $(DEPS_ALL)

# CMD on a Debian 12 that has make and nothing else. Wants root and mmdebstrap.
CMD ?= make deps && make check
.PHONY: bare
bare: ## CMD='...' in a bare Debian 12 root with a copy of this tree (wants root, mmdebstrap)
	@tests/install/bare.sh '$(subst ','\'',$(CMD))'
