/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's image as a part of the library. The path is of the tree's root, where make compiles. */
#include "cuda/kernel/copy.h"

__asm__(".pushsection .rodata\n"
	".hidden otte_copy_ptx\n"
	".globl otte_copy_ptx\n"
	".type otte_copy_ptx, @object\n"
	"otte_copy_ptx:\n"
	".incbin \"lib/cuda/kernel/copy.ptx\"\n"
	".byte 0\n"
	".size otte_copy_ptx, . - otte_copy_ptx\n"
	".popsection\n");

extern const char otte_copy_ptx[];

const char *otte_copy_image(void)
{
	return otte_copy_ptx;
}
