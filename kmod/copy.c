// SPDX-License-Identifier: GPL-2.0-only
/*
 * LOAN_COPY: bytes between the pinned pages of a loan and the borrower's buffer.
 *
 * No lock is held: the gate counts the copy, which keeps the pages pinned and the loan unsettled,
 * and the user's buffer may fault as it likes. After each chunk it looks at the gate, so that a
 * revocation stops a long copy, and for fatal signals, so that it can be killed. Pages that are
 * lost to an owner that lives (region.c) are copied no more, though they are pinned: it would not
 * see what was written there, nor has it what is read. What a dead owner left behind is good.
 */
#include <linux/highmem.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "client.h"
#include "gate.h"
#include "loan.h"
#include "region.h"

#define COPY_CHUNK_BYTES	(64UL << 10)	/* between two looks at gate and signals */

/* Copies up to the end of one page; returns what was copied. */
static size_t copy_in_page(struct page *page, unsigned int at, size_t bytes, u32 direction,
			   void __user *user)
{
	struct iovec iov = { .iov_base = user, .iov_len = bytes };
	struct iov_iter from;
	void *kernel;
	size_t left;

	if (direction == OTTE_WRITE) {
		/* Not copy_from_user(): it zeroes, in the lender's memory, what it cannot copy. */
		iov_iter_init(&from, WRITE, &iov, 1, bytes);
		return copy_page_from_iter(page, at, bytes, &from);
	}
	kernel = kmap_local_page(page);
	left = copy_to_user(user, kernel + at, bytes);
	kunmap_local(kernel);
	return bytes - left;
}

/* Copies @bytes from byte @at of the region on, page by page; returns what was copied. */
static size_t copy_chunk(struct otte_loan *loan, u64 at, size_t bytes, void __user *user)
{
	struct otte_region *region = loan->region;
	size_t done = 0, want, got;
	u64 in_pages;

	while (done < bytes) {
		in_pages = region->page_offset + at + done;
		want = min_t(size_t, bytes - done, PAGE_SIZE - offset_in_page(in_pages));
		got = copy_in_page(region->pages[in_pages >> PAGE_SHIFT], offset_in_page(in_pages),
				   want, loan->direction, user + done);
		done += got;
		if (got < want)
			break;
	}
	return done;
}

/* Why no more is to be copied. */
static int stop_reason(struct otte_loan *loan)
{
	if (fatal_signal_pending(current))
		return -EINTR;
	if (!otte_gate_is_open(&loan->gate))
		return -EACCES;
	return READ_ONCE(loan->region->lost) ? -ESTALE : 0;
}

static int loan_copy(struct otte_loan *loan, struct otte_loan_copy *copy)
{
	u64 at = otte_loan_offset(loan) + copy->offset;
	size_t bytes = min_t(u64, copy->length, OTTE_COPY_MAX_BYTES);
	size_t done = 0, want, got;
	int err;

	/* Without bytes: no more than the look. */
	err = stop_reason(loan);
	while (!err && done < bytes) {
		want = min(bytes - done, COPY_CHUNK_BYTES);
		got = copy_chunk(loan, at + done, want, u64_to_user_ptr(copy->addr) + done);
		done += got;
		if (got < want) {
			err = -EFAULT;
			break;
		}
		cond_resched();
		err = stop_reason(loan);
	}
	copy->done = done;
	return done ? 0 : err;
}

/* Why the gate is shut, as the ABI words it. */
static int shut_reason(const struct otte_loan *loan)
{
	if (READ_ONCE(loan->state) == OTTE_LOAN_OFFERED)
		return -EBUSY;
	return READ_ONCE(loan->ending) ? -EACCES : -ENOENT;
}

int otte_loan_copy_ioctl(struct otte_client *client, void *arg)
{
	struct otte_loan_copy *copy = arg;
	struct otte_loan *loan;
	u64 end;
	int err;

	if (copy->done)
		return -EINVAL;
	loan = otte_loan_get_borrowed(client, copy->loan);
	if (!loan)
		return -ENOENT;
	err = -EACCES;
	if (loan->region->backing != OTTE_BACKING_PAGES)
		goto put;
	err = -ERANGE;
	if (check_add_overflow(copy->offset, copy->length, &end) || end > otte_loan_length(loan))
		goto put;
	if (otte_gate_enter_copy(&loan->gate)) {
		err = shut_reason(loan);
		goto put;
	}
	err = loan_copy(loan, copy);
	if (otte_gate_leave_copy(&loan->gate))
		otte_loan_drained(loan);
put:
	otte_loan_put(loan);
	return err;
}
