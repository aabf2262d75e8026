/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "command.h"

bool option_number(const char *option, const char *text, uint64_t least, uint64_t most,
		   uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	if (isdigit((unsigned char)*text) && !*end && !errno && *number >= least && *number <= most)
		return true;
	complain(EXIT_USAGE, "%s: \"%s\" is not a number from %llu to %llu", option, text,
		 (unsigned long long)least, (unsigned long long)most);
	return false;
}

bool option_count(const char *option, const char *text, unsigned least, unsigned most,
		  unsigned *number)
{
	uint64_t value;

	if (!option_number(option, text, least, most, &value))
		return false;
	*number = (unsigned)value;
	return true;
}
