/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* uthash, with a failed allocation reported (the element's hh.tbl is NULL) instead of exit(). */
#ifndef OTTE_BASE_HASH_H
#define OTTE_BASE_HASH_H

#define HASH_NONFATAL_OOM 1
#ifdef __clang_analyzer__
/* The real one reads keys in a way that the analyser takes for reading what was never set. */
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = (unsigned)(keylen))
#endif
#include <uthash.h>

#endif
