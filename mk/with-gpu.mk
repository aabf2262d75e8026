# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# On a machine with a GPU: tools/gpu-check.sh.

.PHONY: check-gpu gpu-bundle
check-gpu: $(GPU_TEST_BIN) $(OTTE_BIN) ## with a GPU: its tests, sanitized too, and the bars of copies
	@tools/gpu-check.sh $(B)

# For a machine on which nothing can be installed.
GPU_BUNDLE := .probe/gpu
gpu-bundle: $(GPU_TEST_BIN) $(OTTE_BIN) ## the same programs with the libraries they need, in .probe/gpu
	@rm -rf $(GPU_BUNDLE) && mkdir -p $(GPU_BUNDLE)/gpu $(GPU_BUNDLE)/lib
	@cp $(GPU_TEST_BIN) $(GPU_BUNDLE)/gpu && cp $(OTTE_BIN) $(GPU_BUNDLE)
	@git describe --always --dirty >$(GPU_BUNDLE)/commit
	@ldd $(GPU_TEST_BIN) $(OTTE_BIN) | sed -nE 's/.*=> (\/[^ ]+).*/\1/p' | sort -u | \
		grep -vE '/(libc|libm|libdl|libpthread|librt)\.so' | xargs -I{} cp -L {} $(GPU_BUNDLE)/lib
	@du -sh $(GPU_BUNDLE)
