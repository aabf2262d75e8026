# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The Debian packages of debian/. Their tools are wanted here alone, so they are no DEPS_.

DEB_TOOLS := dpkg-dev debhelper dh-dkms lintian mmdebstrap fakeroot

CHECK_KERNELS_PARTS += deb
budget-deb := 10

.PHONY: deb check-part-deb
deb: deps-demo ## Debian packages of this tree, in the folder above it
	@tools/deps.sh $(DEB_TOOLS)
	dpkg-buildpackage -us -uc -b

check-part-deb:
	@tools/deps.sh $(DEB_TOOLS)
	@tests/install/deb.sh
