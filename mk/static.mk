# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Checks that run nothing of ours: tests/static/rules.sh has them all. `make static` shows each finding
# of one rule or of all: make static RULE=includes.

CHECK_PARTS += static
CHECK_FAST_PARTS += static
budget-static := 5

.PHONY: static static-build check-part-static compile_commands.json format
check-part-static:
	@tests/static/run.sh

RULE ?= $(shell tests/static/rules.sh list)
static: ## findings of one static rule (RULE=includes) or of all
	@rc=0; for r in $(RULE); do O=$(O) tests/static/rules.sh $$r . || rc=1; done; exit $$rc

# What a second compiler has to accept without a warning. STATIC_BUILD grows in other fragments.
STATIC_BUILD += $(UNIT_BIN)
static-build: lib
	@$(MAKE) --no-print-directory $(STATIC_BUILD)

compile_commands.json: ## for editors and clang tools: how each file is compiled
	@$(MAKE) --no-print-directory -Bn lib $(STATIC_BUILD) | grep -E ' -c -o [^ ]+ [^ ]+\.c$$' | \
		jq -Rn --arg dir "$(CURDIR)" \
		'[inputs | { directory: $$dir, file: (split(" ") | last), command: . }]' >$@.tmp
	@mv $@.tmp $@

# Hand-written alignment of comments in headers is kept, so this is an aid and not a check.
format: ## clang-format the .c files that differ from git's HEAD
	@git diff --name-only --diff-filter=d HEAD -- '*.c' | xargs -r clang-format -i
