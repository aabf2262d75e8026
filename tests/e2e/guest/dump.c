/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Prints what the module's dumps show of all processes, a line for each loan and each record. Knows
 * nothing of those who lend: what it prints is the module's word.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ledger/ledger.h"
#include "otte/otte.h"

#define ROWS 256

static const char *const states[] = { "offered", "exposed", "settled", "withdrawn" };
static const char *const kinds[] = { "?", "region", "hold", "loan" };

static int complain(void)
{
	fprintf(stderr, "%s\n", otte_error_text());
	return 1;
}

int main(void)
{
	static struct otte_retained_info records[ROWS];
	static struct otte_loan_info loans[ROWS];
	struct otte_ledger *ledger;
	ssize_t count, i;

	if (otte_ledger_kernel_open(NULL, &ledger))
		return complain();
	count = ledger->ops->dump_loans(ledger, loans, ROWS);
	if (count < 0)
		return complain();
	for (i = 0; i < count && i < ROWS; i++)
		printf("loan %s %s %" PRIu64 " of region %" PRIu64 "\n", states[loans[i].state & 3],
		       loans[i].terms.right == OTTE_LOAN_WRITE ? "write" : "read",
		       loans[i].terms.length, loans[i].terms.region);
	count = ledger->ops->dump_retained(ledger, records, ROWS);
	if (count < 0)
		return complain();
	for (i = 0; i < count && i < ROWS; i++)
		printf("retained %s %" PRIu64 " with %" PRIu32 " loans: %s\n",
		       kinds[records[i].kind & 3], records[i].bytes, records[i].loans,
		       records[i].reason);
	ledger->ops->close(ledger);
	return 0;
}
