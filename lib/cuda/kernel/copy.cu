/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The copy kernel for NVIDIA GPUs. `make copy-image` makes copy.ptx, which is committed beside it and is part of the
 * library; clang 14 needs no CUDA SDK for that. See copy.h.
 */
#include "copy.h"

#define FN static __attribute__((device, always_inline)) inline
#define UNROLL _Pragma("unroll")
#ifndef LOADS
#define LOADS 4
#endif
/* Nothing here is read twice: what is moved goes first where a cache wants room. Variants of it are measured. */
#ifndef LD
#define LD "ld.global.cs"
#define ST "st.global.cs"
#endif

struct unit {
	otte_copy_u32 x, y, z, w;
};

/* Volatile: in the order in which they stand, so that loads are under way before the first store waits for one. */
#define LOAD_1(p, u, at) asm volatile(p LD ".u8 %0, [%1];" : "=r"((u).x) : "l"(at))
#define LOAD_4(p, u, at) asm volatile(p LD ".u32 %0, [%1];" : "=r"((u).x) : "l"(at))
#define LOAD_8(p, u, at) asm volatile(p LD ".v2.u32 {%0, %1}, [%2];" : "=r"((u).x), "=r"((u).y) : "l"(at))
#define LOAD_16(p, u, at)                                                                                  \
	asm volatile(p LD ".v4.u32 {%0, %1, %2, %3}, [%4];"                                                \
		     : "=r"((u).x), "=r"((u).y), "=r"((u).z), "=r"((u).w)                                  \
		     : "l"(at))
#define LOAD(u, width, at) LOAD_##width("", u, at)
#define STORE_1(u, at) asm volatile(ST ".u8 [%1], %0;" : : "r"((u).x), "l"(at))
#define STORE_4(u, at) asm volatile(ST ".u32 [%1], %0;" : : "r"((u).x), "l"(at))
#define STORE_8(u, at) asm volatile(ST ".v2.u32 [%2], {%0, %1};" : : "r"((u).x), "r"((u).y), "l"(at))
#define STORE_16(u, at)                                                                                    \
	asm volatile(ST ".v4.u32 [%4], {%0, %1, %2, %3};"                                                  \
		     :                                                                                     \
		     : "r"((u).x), "r"((u).y), "r"((u).z), "r"((u).w), "l"(at))
#define STORE(u, width, at) STORE_##width(u, at)

/* A predicate, not a branch: a warp need not come together again between its loads. */
#define IF "{ .reg .pred p; setp.ne.u32 p, "
#define LOAD_IF_1(yes, u, at) \
	asm volatile(IF "%2, 0; @p " LD ".u8 %0, [%1]; }" : "=r"((u).x) : "l"(at), "r"(yes))
#define LOAD_IF_4(yes, u, at) \
	asm volatile(IF "%2, 0; @p " LD ".u32 %0, [%1]; }" : "=r"((u).x) : "l"(at), "r"(yes))
#define LOAD_IF_8(yes, u, at)                                          \
	asm volatile(IF "%3, 0; @p " LD ".v2.u32 {%0, %1}, [%2]; }"    \
		     : "=r"((u).x), "=r"((u).y)                        \
		     : "l"(at), "r"(yes))
#define LOAD_IF_16(yes, u, at)                                                 \
	asm volatile(IF "%5, 0; @p " LD ".v4.u32 {%0, %1, %2, %3}, [%4]; }"    \
		     : "=r"((u).x), "=r"((u).y), "=r"((u).z), "=r"((u).w)      \
		     : "l"(at), "r"(yes))
#define LOAD_IF(yes, u, width, at) LOAD_IF_##width((otte_copy_u32)(yes), u, at)
#define STORE_IF_1(yes, u, at) \
	asm volatile(IF "%2, 0; @p " ST ".u8 [%1], %0; }" : : "r"((u).x), "l"(at), "r"(yes))
#define STORE_IF_4(yes, u, at) \
	asm volatile(IF "%2, 0; @p " ST ".u32 [%1], %0; }" : : "r"((u).x), "l"(at), "r"(yes))
#define STORE_IF_8(yes, u, at)                                         \
	asm volatile(IF "%3, 0; @p " ST ".v2.u32 [%2], {%0, %1}; }"    \
		     :                                                 \
		     : "r"((u).x), "r"((u).y), "l"(at), "r"(yes))
#define STORE_IF_16(yes, u, at)                                                \
	asm volatile(IF "%5, 0; @p " ST ".v4.u32 [%4], {%0, %1, %2, %3}; }"    \
		     :                                                         \
		     : "r"((u).x), "r"((u).y), "r"((u).z), "r"((u).w), "l"(at), "r"(yes))
#define STORE_IF(yes, u, width, at) STORE_IF_##width((otte_copy_u32)(yes), u, at)

#include "body.h"

#ifndef ENTRY
#define ENTRY otte_copy_rows
#endif

extern "C" __attribute__((global, launch_bounds(OTTE_COPY_CTA_THREADS))) void
ENTRY(otte_copy_u64 rows, otte_copy_u64 ratio, otte_copy_u32 count, otte_copy_u32 pieces,
      otte_copy_u32 piece_bytes, otte_copy_u32 lanes, otte_copy_u32 to_host)
{
	struct otte_copy_launch launch = { rows, ratio, count, pieces, piece_bytes, lanes, to_host };
	otte_copy_u32 block = __nvvm_read_ptx_sreg_ntid_x();

	copy_share(&launch, __nvvm_read_ptx_sreg_ctaid_x() * block + __nvvm_read_ptx_sreg_tid_x(),
		   __nvvm_read_ptx_sreg_nctaid_x() * block);
}
