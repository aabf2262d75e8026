// SPDX-License-Identifier: GPL-2.0-only
/*
 * LOAN_COPY: bytes between the pinned pages of a loan and the borrower's buffer.
 *
 * No lock is held: the gate counts the copy, which keeps the pages pinned and the loan unsettled.
 * Nobody in there waits for the borrower, whose buffer may fault for as long as somebody likes
 * (userfaultfd, a file of FUSE): faults are disabled, and a copy that comes up short leaves the
 * gate, has the buffer faulted in where it holds nothing, and enters again if it is let in.
 *
 * After each chunk it looks at the gate, so that a revocation stops a long copy, and for fatal
 * signals, so that it can be killed. Pages that are lost to an owner that lives (region.c) are
 * copied no more, though they are pinned: it would not see what was written there, nor has it what
 * is read. What a dead owner left behind is good.
 */
#include <linux/highmem.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "client.h"
#include "gate.h"
#include "loan.h"
#include "region.h"

/* Between two looks at gate and signals; and what is faulted in at a time. */
#define COPY_CHUNK_BYTES	(64UL << 10)

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

/*
 * Copies @bytes from byte @at of the region on, page by page, up to where the buffer would fault;
 * returns what was copied. The caller is inside the gate.
 */
static size_t copy_chunk(struct otte_loan *loan, u64 at, size_t bytes, void __user *user)
{
	struct otte_region *region = loan->region;
	size_t done = 0, want, got;
	u64 in_pages;

	pagefault_disable();
	while (done < bytes) {
		in_pages = region->page_offset + at + done;
		want = min_t(size_t, bytes - done, PAGE_SIZE - offset_in_page(in_pages));
		got = copy_in_page(region->pages[in_pages >> PAGE_SHIFT], offset_in_page(in_pages),
				   want, loan->direction, user + done);
		done += got;
		if (got < want)
			break;
	}
	pagefault_enable();
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

/* Why the gate is shut, as the ABI words it. */
static int shut_reason(const struct otte_loan *loan)
{
	if (READ_ONCE(loan->state) == OTTE_LOAN_OFFERED)
		return -EBUSY;
	return READ_ONCE(loan->ending) ? -EACCES : -ENOENT;
}

/*
 * One stay inside the gate: copies from @done on until all @bytes are, the buffer would fault, or
 * the reason that is returned comes. Without bytes: no more than the look.
 */
static int copy_inside(struct otte_loan *loan, u64 at, size_t bytes, char __user *user,
		       size_t *done)
{
	size_t want, got;
	int err;

	if (otte_gate_enter_copy(&loan->gate))
		return shut_reason(loan);
	err = stop_reason(loan);
	while (!err && *done < bytes) {
		want = min(bytes - *done, COPY_CHUNK_BYTES);
		got = copy_chunk(loan, at + *done, want, user + *done);
		*done += got;
		if (got < want)
			break;
		cond_resched();
		err = stop_reason(loan);
	}
	if (otte_gate_leave_copy(&loan->gate))
		otte_loan_drained(loan);
	return err;
}

/*
 * Has the next @bytes of the buffer faulted in, as far as there are any, however long that takes.
 * The caller is outside the gate. The first byte decides, touched as a copy will touch it, which
 * fault_in_*() do not: they know no stack that grows, nor what forbids a write but not a fault.
 * After it one copies at least that byte, unless it is taken away again, and then whoever does that
 * to itself goes on until it is killed.
 *
 * The byte is written back as it was: behind the prefix nothing of the buffer is ours to change
 * (fault_in_writeable() would). Only who writes to a buffer while it is being filled can tell. And
 * it comes last, because reading it first would bring a page of zeroes, and have the write fault
 * once more.
 */
static int fault_in(u32 direction, char __user *user, size_t bytes)
{
	char byte;

	if (direction == OTTE_WRITE)
		fault_in_readable(user, bytes);
	else
		fault_in_safe_writeable(user, bytes);
	if (!get_user(byte, user) && (direction == OTTE_WRITE || !put_user(byte, user)))
		return 0;
	return fatal_signal_pending(current) ? -EINTR : -EFAULT;
}

static int loan_copy(struct otte_loan *loan, struct otte_loan_copy *copy)
{
	u64 at = otte_loan_offset(loan) + copy->offset;
	size_t bytes = min_t(u64, copy->length, OTTE_COPY_MAX_BYTES);
	char __user *user = u64_to_user_ptr(copy->addr);
	size_t done = 0;
	int err;

	err = copy_inside(loan, at, bytes, user, &done);
	while (!err && done < bytes) {
		err = fault_in(loan->direction, user + done, min(bytes - done, COPY_CHUNK_BYTES));
		cond_resched();
		if (!err)
			err = copy_inside(loan, at, bytes, user, &done);
	}
	copy->done = done;
	return done ? 0 : err;
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
	err = loan_copy(loan, copy);
put:
	otte_loan_put(loan);
	return err;
}
