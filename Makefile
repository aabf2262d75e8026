# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# otte: libotte, its tools, and otte.ko. `make help` lists what one can ask for.
#
# One fragment per part lives in mk/. A fragment adds its test parts with
#   CHECK_PARTS += name            and   budget-name := minutes
# and provides the target check-part-name, whose last line of output is
# "N passed, N failed, N skipped". CHECK_FAST_PARTS is the inner loop's subset; CHECK_LONG_PARTS are the
# open-ended and full-count forms. Packages that a fragment needs stand in a DEPS_name of its own.

SHELL := /bin/bash
O ?= build
VERSION := 0.1.0

CACHE := $(or $(OTTE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/otte)

CHECK_PARTS :=
CHECK_FAST_PARTS :=
CHECK_LONG_PARTS :=
# Look at what the other parts left behind, so they run at the end.
CHECK_LAST_PARTS :=

# Error codes that tests have seen (tests/seen.h), for the man pages' check.
export SEEN_ERRORS := $(abspath $(O))/seen-errors

.DEFAULT_GOAL := all
.PHONY: all check check-fast check-long help clean

include $(sort $(wildcard mk/*.mk))

all: lib tools man ## library, programs and man pages; what `make` alone does

check: deps ## every test but the named long forms; prints the time of each part
	@rm -f $(SEEN_ERRORS); mkdir -p $(dir $(SEEN_ERRORS))
	@tests/run-parts.sh $(foreach p,$(CHECK_PARTS) $(CHECK_LAST_PARTS),$(p):$(budget-$(p)))

check-fast: ## the inner loop, under three minutes
	@tests/run-parts.sh $(foreach p,$(CHECK_FAST_PARTS),$(p):$(budget-$(p)))

check-long: deps ## the long forms, each bounded: full counts, minutes of fuzzing, a bare machine
	@tests/run-parts.sh $(foreach p,$(CHECK_LONG_PARTS),$(p):$(budget-$(p)))

help: ## this list
	@grep -hE '^[a-z][a-zA-Z0-9_-]*:.*## ' $(filter %Makefile %.mk,$(MAKEFILE_LIST)) | sort | \
		sed -E 's/^([^:]+):.*## (.*)/\1|\2/' | awk -F'|' '{ printf "  %-22s %s\n", $$1, $$2 }'

clean: ## remove what was built here (caches outside the checkout stay)
	rm -rf $(O)
