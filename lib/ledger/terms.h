/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is malformed in itself: the same answers from every back end. No state, no lock. */
#ifndef OTTE_LEDGER_TERMS_H
#define OTTE_LEDGER_TERMS_H

#include <stdbool.h>

#include "ledger/ledger.h"

/* -EINVAL. Whether a back end has that backing is for it to say. */
int otte_claim_check(const struct otte_region_claim *claim);
/* -EINVAL. */
int otte_terms_check(const struct otte_loan_terms *terms);
/* Against the region that they name: -ERANGE, -EACCES right, -EOPNOTSUPP flag. */
int otte_terms_check_region(const struct otte_loan_terms *terms,
			    const struct otte_region_claim *claim);
/*
 * Whether this side of a loan can give this evidence: -EINVAL. `lender`, `borrower`: what the
 * caller is, perhaps both.
 */
int otte_terms_check_attestation(const struct otte_loan_terms *terms, uint64_t loan, bool lender,
				 bool borrower, enum otte_evidence evidence);
/* -EPERM where the lender's terms do not accept it. */
int otte_terms_check_accepted(const struct otte_loan_terms *terms, uint64_t loan,
			      enum otte_evidence evidence);

#endif
