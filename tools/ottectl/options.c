/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ottectl.h"

#define YEAR_SECONDS (366 * 86400.0)

bool option_seconds(const char *option, const char *text, uint64_t *ns)
{
	double value;
	char *end;

	/* strtod() would take signs, exponents and names too. */
	value = strtod(text, &end);
	if (*text && strspn(text, "0123456789.") == strlen(text) && !*end &&
	    value <= YEAR_SECONDS) {
		*ns = (uint64_t)(value * 1e9);
		return true;
	}
	complain(EXIT_USAGE, "%s: \"%s\" is not a number of seconds", option, text);
	return false;
}

bool parse_amount(const char *text, uint64_t *amount)
{
	static const char letters[] = "KMGTP";
	const char *letter = NULL;
	unsigned shift = 0;
	char *end;

	if (!strcmp(text, "max")) {
		*amount = UINT64_MAX;
		return true;
	}
	errno = 0;
	*amount = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || errno)
		return false;
	if (*end) {
		letter = strchr(letters, toupper((unsigned char)*end));
		if (!letter || (end[1] && strcmp(end + 1, "iB") != 0))
			return false;
		shift = 10 * (unsigned)(letter - letters + 1);
	}
	if (*amount > UINT64_MAX >> shift)
		return false;
	*amount <<= shift;
	return true;
}

bool option_amount(const char *option, const char *text, uint64_t *amount)
{
	if (parse_amount(text, amount))
		return true;
	complain(EXIT_USAGE, "%s: \"%s\" is not an amount (such as 4096, 64K, 1G or max)", option,
		 text);
	return false;
}

bool no_more_words(int argc, char **argv)
{
	if (optind == argc)
		return true;
	complain(EXIT_USAGE, "\"%s\": there is nothing for it here", argv[optind]);
	return false;
}
