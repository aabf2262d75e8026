// SPDX-License-Identifier: GPL-2.0-only
/*
 * The states of a loan and the rules of evidence, free of everything else.
 *
 *	OFFERED --accept--> EXPOSED --evidence--> SETTLED
 *	   \--withdraw, decline, death of either--> WITHDRAWN
 *
 * SETTLED and WITHDRAWN are final: a withdrawn offer can never be accepted later, and a settled
 * loan never exposes again. A loan to a remote peer is moved to EXPOSED under the ledger that
 * publishes it, so nobody sees it OFFERED.
 */
#include "loan.h"

const char *const otte_loan_state_names[OTTE_LOAN_STATES] = {
	[OTTE_LOAN_OFFERED] = "offered",
	[OTTE_LOAN_EXPOSED] = "exposed",
	[OTTE_LOAN_SETTLED] = "settled",
	[OTTE_LOAN_WITHDRAWN] = "withdrawn",
};

int otte_loan_state_check(enum otte_loan_state from, enum otte_loan_state to)
{
	switch (from) {
	case OTTE_LOAN_OFFERED:
		return to == OTTE_LOAN_EXPOSED || to == OTTE_LOAN_WITHDRAWN ? 0 : -EBUSY;
	case OTTE_LOAN_EXPOSED:
		return to == OTTE_LOAN_SETTLED ? 0 : -EBUSY;
	default:
		return -EBUSY;
	}
}

bool otte_evidence_accepted(u32 accepted, u32 evidence)
{
	return evidence & (accepted | OTTE_EVIDENCE_FORCED | OTTE_EVIDENCE_NEVER_EXPOSED);
}
