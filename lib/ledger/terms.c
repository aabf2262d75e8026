/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ledger/terms.h"

#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "base/util.h"
#include "otte/otte.h"

#define FLAGS \
	(OTTE_LOAN_REVOCABLE | OTTE_LOAN_MAPPABLE | OTTE_LOAN_STANDING | OTTE_LOAN_BY_ADDRESS)
#define BIT(e) OTTE_EVIDENCE_BIT(OTTE_EVIDENCE_##e)
#define ACCEPTABLE (OTTE_EVIDENCE_DEFAULT | BIT(BORROWER_EXITED))
/* What the lender of a remote borrower can know by itself. */
#define ATTESTABLE (BIT(NEVER_EXPOSED) | BIT(RETURNED) | BIT(REVOKED) | BIT(BORROWER_EXITED))

const char *otte_evidence_name(uint32_t evidence)
{
	static const char *const names[] = {
		[OTTE_EVIDENCE_NEVER_EXPOSED] = "NEVER_EXPOSED",
		[OTTE_EVIDENCE_RETURNED] = "RETURNED",
		[OTTE_EVIDENCE_UNMAPPED] = "UNMAPPED",
		[OTTE_EVIDENCE_REVOKED] = "REVOKED",
		[OTTE_EVIDENCE_BORROWER_EXITED] = "BORROWER_EXITED",
		[OTTE_EVIDENCE_FORCED] = "FORCED",
	};

	return evidence && evidence < ARRAY_SIZE(names) ? names[evidence] : "?";
}

int otte_claim_check(const struct otte_region_claim *claim)
{
	if (!claim->length || claim->address + claim->length < claim->address)
		return otte_fail(-EINVAL, "region: length %" PRIu64 " at %" PRIx64, claim->length,
				 claim->address);
	if (claim->access & ~(OTTE_REMOTE_READ | OTTE_REMOTE_WRITE))
		return otte_fail(-EINVAL, "region: access %" PRIx32, claim->access);
	if (claim->backing > OTTE_BACKING_FILE)
		return otte_fail(-EINVAL, "region: backing %" PRIu32, claim->backing);
	return 0;
}

int otte_terms_check(const struct otte_loan_terms *terms)
{
	if (!terms->length || terms->reserved)
		return otte_fail(-EINVAL, "loan: length %" PRIu64 ", reserved %" PRIu32,
				 terms->length, terms->reserved);
	if (terms->right > OTTE_LOAN_WRITE)
		return otte_fail(-EINVAL, "loan: right %" PRIu32, terms->right);
	if (terms->flags & ~FLAGS)
		return otte_fail(-EINVAL, "loan: flags %" PRIx32, terms->flags);
	if (terms->flags & OTTE_LOAN_BY_ADDRESS && terms->borrower.client)
		return otte_fail(-EINVAL, "loan: by address, to client %" PRIu64 " of this host",
				 terms->borrower.client);
	if (terms->accepted & ~ACCEPTABLE)
		return otte_fail(-EINVAL, "loan: accepted evidence %" PRIx32 ", known is %x",
				 terms->accepted, ACCEPTABLE);
	return 0;
}

int otte_terms_check_region(const struct otte_loan_terms *terms,
			    const struct otte_region_claim *claim)
{
	uint32_t wanted = terms->right == OTTE_LOAN_WRITE ? OTTE_REMOTE_WRITE : OTTE_REMOTE_READ;

	if (!range_inside(terms->offset, terms->length, claim->length))
		return otte_fail(-ERANGE,
				 "region %" PRIu64 ": %" PRIu64 " bytes at %" PRIu64
				 " are outside its %" PRIu64,
				 terms->region, terms->length, terms->offset, claim->length);
	if (!(claim->access & wanted))
		return otte_fail(-EACCES, "region %" PRIu64 ": the right to %s is not granted",
				 terms->region, wanted == OTTE_REMOTE_WRITE ? "write" : "read");
	if (terms->flags & OTTE_LOAN_MAPPABLE && claim->backing == OTTE_BACKING_NONE)
		return otte_fail(-EOPNOTSUPP, "region %" PRIu64 ": has no backing to be mapped",
				 terms->region);
	return 0;
}

int otte_terms_check_attestation(const struct otte_loan_terms *terms, uint64_t loan, bool lender,
				 bool borrower, enum otte_evidence evidence)
{
	unsigned allowed;

	if (terms->borrower.client)
		allowed = borrower ? BIT(RETURNED) : 0;
	else
		allowed = lender ? ATTESTABLE : 0;
	if ((unsigned)evidence > OTTE_EVIDENCE_FORCED || !(allowed & OTTE_EVIDENCE_BIT(evidence)))
		return otte_fail(-EINVAL, "loan %" PRIu64 ": this client cannot attest %s", loan,
				 otte_evidence_name(evidence));
	return 0;
}

int otte_terms_check_accepted(const struct otte_loan_terms *terms, uint64_t loan,
			      enum otte_evidence evidence)
{
	if (terms->accepted & OTTE_EVIDENCE_BIT(evidence))
		return 0;
	return otte_fail(-EPERM, "loan %" PRIu64 ": its terms do not accept %s", loan,
			 otte_evidence_name(evidence));
}
