/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Other forms of the copy kernel, which copy_probe.c measures beside it: what its loads and stores say to the
 * caches, and how many loads are in flight. `make copy-image` makes copy_variants.ptx. Not part of the library.
 */
#include "../../lib/cuda/kernel/copy.h"

#define ENTRY copy_plain
#define LD "ld.global"
#define ST "st.global"
namespace plain {
#include "../../lib/cuda/kernel/copy.cu"
}

#undef ENTRY
#undef LD
#undef ST
#define ENTRY copy_volatile
#define LD "ld.volatile.global"
#define ST "st.volatile.global"
namespace strong {
#include "../../lib/cuda/kernel/copy.cu"
}

#undef ENTRY
#undef LD
#undef ST
#define ENTRY copy_cv
#define LD "ld.global.cv"
#define ST "st.global.wt"
namespace cv {
#include "../../lib/cuda/kernel/copy.cu"
}

#undef ENTRY
#undef LD
#undef ST
#define ENTRY copy_no_l1
#define LD "ld.global.L1::no_allocate"
#define ST "st.global.L1::no_allocate"
namespace no_l1 {
#include "../../lib/cuda/kernel/copy.cu"
}

#undef ENTRY
#undef LD
#undef ST
#undef LOADS
#define ENTRY copy_two
#define LOADS 2
namespace two {
#include "../../lib/cuda/kernel/copy.cu"
}

#undef ENTRY
#undef LOADS
#define ENTRY copy_six
#define LOADS 6
namespace six {
#include "../../lib/cuda/kernel/copy.cu"
}
