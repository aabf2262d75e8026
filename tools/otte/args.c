/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "../common/output.h"
#include "tool.h"

#define SIZE_LIMIT ((double)(1ull << 44)) /* 16 TiB: times batch and threads it still is a number */
#define DURATION_LIMIT_NS (1e6 * 3600 * 1e9)

static bool refuse(const char *option, const char *text, const char *wanted)
{
	complain(EXIT_USAGE, "%s: \"%s\" is not %s", option, text, wanted);
	return false;
}

bool args_file(const char *option, const char *text, const char **file)
{
	*file = text;
	if (*text)
		return true;
	complain(EXIT_USAGE, "%s: the name of the file is empty", option);
	return false;
}

/* A non-negative decimal number; *rest is what follows it. */
static bool leading_decimal(const char *text, double *value, const char **rest)
{
	char *end;

	if (!isdigit((unsigned char)*text) && *text != '.')
		return false;
	errno = 0;
	*value = strtod(text, &end);
	*rest = end;
	/* strtod() would take hexadecimal and exponents too. */
	return end == text + strspn(text, "0123456789.") && !errno && isfinite(*value);
}

static bool size_unit(const char *unit, double *factor)
{
	static const char letters[] = "KMGT";
	const char *letter;

	*factor = 1;
	if (!*unit || !strcasecmp(unit, "B"))
		return true;
	letter = strchr(letters, toupper((unsigned char)*unit));
	if (!letter || (unit[1] && strcasecmp(unit + 1, "B") && strcasecmp(unit + 1, "iB")))
		return false;
	*factor = ldexp(1, 10 * (int)(letter - letters + 1));
	return true;
}

/* It may be a fraction, 0, or beyond all limits. */
static bool any_size(const char *option, const char *text, double *bytes)
{
	const char *unit;
	double factor;

	if (!leading_decimal(text, bytes, &unit) || !size_unit(unit, &factor))
		return refuse(option, text, "a size (such as 4096, 64K, 1M or 1G)");
	*bytes *= factor;
	if (*bytes > 0 && *bytes < SIZE_LIMIT && *bytes != floor(*bytes))
		return refuse(option, text, "a whole number of bytes");
	return true;
}

bool args_size(const char *option, const char *text, uint64_t *bytes)
{
	double value;

	if (!any_size(option, text, &value))
		return false;
	if (value < 1 || value > SIZE_LIMIT)
		return refuse(option, text, "from 1 byte to 16T");
	*bytes = (uint64_t)value;
	return true;
}

bool args_size_within(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *bytes)
{
	char from[32], to[32];
	double value;

	if (!any_size(option, text, &value))
		return false;
	if (value >= (double)least && value <= (double)most) {
		*bytes = (uint64_t)value;
		return true;
	}
	complain(EXIT_USAGE, "%s: \"%s\" is out of range, allowed are %s to %s", option, text,
		 format_bytes(least, from), format_bytes(most, to));
	return false;
}

bool args_sizes(const char *option, const char *text, uint64_t *sizes, size_t capacity,
		size_t *count)
{
	char *copy = strdup(text), *at = copy, *one;
	bool good = copy != NULL;

	*count = 0;
	while (good && (one = strsep(&at, ","))) {
		if (*count == capacity)
			good = refuse(option, text, "a list that short");
		else
			good = args_size(option, one, &sizes[(*count)++]);
	}
	free(copy);
	return good;
}

bool args_duration(const char *option, const char *text, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "", NSEC_PER_SEC },	 { "s", NSEC_PER_SEC },	     { "ms", NSEC_PER_MSEC },
		{ "us", NSEC_PER_USEC }, { "m", 60 * NSEC_PER_SEC }, { "h", 3600 * NSEC_PER_SEC },
	};
	const char *unit;
	double value;
	size_t i;

	if (!leading_decimal(text, &value, &unit))
		unit = NULL;
	for (i = 0; unit && i < ARRAY_SIZE(units); i++) {
		if (strcmp(unit, units[i].name))
			continue;
		value *= (double)units[i].ns;
		if (value > DURATION_LIMIT_NS)
			return refuse(option, text, "from 0 to 1000000h");
		*ns = (uint64_t)value;
		return true;
	}
	return refuse(option, text, "a duration (such as 5, 5s, 250ms or 2m)");
}

bool args_decimal(const char *option, const char *text, double *value)
{
	const char *rest;

	if (leading_decimal(text, value, &rest) && !*rest)
		return true;
	return refuse(option, text, "a number from 0 on");
}

static bool allowed_cpu(const char *text, int *cpu)
{
	cpu_set_t cpus;
	char *end;
	long value;

	if (!isdigit((unsigned char)*text))
		return false;
	value = strtol(text, &end, 10);
	if (*end || value < 0 || value >= CPU_SETSIZE)
		return false;
	*cpu = (int)value;
	return !sched_getaffinity(0, sizeof(cpus), &cpus) && CPU_ISSET(*cpu, &cpus);
}

bool args_cpus(const char *option, const char *text, int *first, int *second)
{
	char copy[32], *comma;

	if (strlen(text) < sizeof(copy)) {
		memcpy(copy, text, strlen(text) + 1);
		comma = strchr(copy, ',');
		if (comma)
			*comma = '\0';
		if (allowed_cpu(copy, first) && allowed_cpu(comma ? comma + 1 : copy, second))
			return true;
	}
	return refuse(option, text, "a CPU, or two as A,B, that this process may use");
}
