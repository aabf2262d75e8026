/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "otte/otte.h"

#undef otte_fail
#undef otte_fail_within

static _Thread_local char text[OTTE_ERROR_BYTES];

const char *otte_error_text(void)
{
	return text;
}

/* Through a copy, because an argument may be the text that this one replaces. */
int otte_fail(int code, const char *format, ...)
{
	char next[sizeof(text)] = "";
	va_list args;

	va_start(args, format);
	vsnprintf(next, sizeof(next), format, args);
	va_end(args);
	memcpy(text, next, strlen(next) + 1);
	return code;
}

int otte_fail_within(int code, const char *format, ...)
{
	char prefix[sizeof(text)] = "";
	va_list args;

	va_start(args, format);
	vsnprintf(prefix, sizeof(prefix), format, args);
	va_end(args);
	return otte_fail(code, "%s%s", prefix, text);
}

void otte_error_keep(char kept[OTTE_ERROR_BYTES])
{
	memcpy(kept, text, sizeof(text));
}

const char *otte_strerror(int code)
{
	static const struct {
		int code;
		const char *text;
	} words[] = {
		{ 0, "success" },
		{ -EINVAL, "malformed argument" },
		{ -ENOENT, "unknown region" },
		{ -ERANGE, "outside a region" },
		{ -EACCES, "right not granted" },
		{ -ESTALE, "peer or memory is not the one it was prepared against" },
		{ -EKEYREVOKED, "revoked or fenced" },
		{ -EDQUOT, "a budget is full" },
		{ -EBUSY, "conflicts with live access" },
		{ -ECANCELED, "cancelled" },
		{ -ETIME, "deadline passed before dispatch" },
		{ -ETIMEDOUT, "deadline or time limit passed" },
		{ -ECONNRESET, "peer lost" },
		{ -EUCLEAN, "completion unproven, resources retained" },
		{ -ESHUTDOWN, "closed for that direction" },
		{ -EPROTO, "the peer broke the protocol" },
		{ -EPROTONOSUPPORT, "the peer or the module speaks another version" },
		{ -EKEYREJECTED, "the peer failed authentication" },
		{ -EOWNERDEAD, "handle belongs to the process before fork" },
		{ -E2BIG, "text or struct larger than the library takes" },
		{ -EEXIST, "that memory is known already" },
		{ -ENOSYS, "missing library" },
		{ -ENODEV, "missing device" },
		{ -ENOTCONN, "no listener, or a peer that the transport does not reach" },
		{ -EALREADY, "another thread is in that call" },
		{ -EOPNOTSUPP, "not with this ledger, or not with this memory" },
		{ -EUSERS, "as many other users borrow of that memory as can" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i].code == code)
			return words[i].text;
	return strerror(code < 0 ? (int)-(unsigned)code : code);
}

const char *otte_version(void)
{
	return OTTE_VERSION;
}
