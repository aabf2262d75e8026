/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parts of ottectl that need no module. */
#include <stdarg.h>
#include <stdio.h>

#include "../../../tools/ottectl/ottectl.h"
#include "suites.h"

unsigned complaints;
char complaint[512];

/* These stand for those of main.c. */
int complain(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(complaint, sizeof(complaint), format, args);
	va_end(args);
	complaints++;
	return code;
}

void warn_user(const char *format, ...)
{
	(void)format;
}

int main(void)
{
	return messages_suite() + tally_suite() + files_suite();
}
