/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "progress.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "../common/command.h"
#include "../common/output.h"

#define REDRAW_NS (100 * NSEC_PER_MSEC)
#define BAR_MAX 30
#define FIXED_COLUMNS 52 /* what stands beside bar and label */

static struct progress *shown; /* on the terminal now, or NULL */

static void hide(void)
{
	if (!shown)
		return;
	fputs("\r\033[K", stderr);
	shown = NULL;
}

static void begin(struct progress *progress, const char *label, uint64_t total, bool counts)
{
	*progress = (struct progress){
		.label = label,
		.total = total,
		.counts = counts,
		.begin_ns = otte_now_ns(),
		.visible = total && isatty(STDERR_FILENO),
	};
	if (progress->visible)
		before_message = hide;
}

void progress_begin(struct progress *progress, const char *label, uint64_t total)
{
	begin(progress, label, total, false);
}

void progress_begin_count(struct progress *progress, const char *label, uint64_t total)
{
	begin(progress, label, total, true);
}

static int bar_width(void)
{
	struct winsize size;
	int columns = 80;

	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		columns = size.ws_col;
	columns -= FIXED_COLUMNS;
	return columns < 0 ? 0 : columns > BAR_MAX ? BAR_MAX : columns;
}

static void draw_amount(const struct progress *progress, uint64_t done, double rate)
{
	char bytes[32];

	if (progress->counts)
		fprintf(stderr, "%" PRIu64 " of %" PRIu64 ", %.0f/s", done, progress->total, rate);
	else
		fprintf(stderr, "%s %.2f GB/s", format_bytes(done, bytes), rate / 1e9);
}

static void draw(const struct progress *progress, uint64_t done, uint64_t elapsed_ns)
{
	double part = (double)done / (double)progress->total;
	double rate = (double)done / ((double)elapsed_ns / 1e9);
	uint64_t left = rate > 0 ? (uint64_t)((double)(progress->total - done) / rate) : 0;
	int width = bar_width(), filled = (int)(part * width), i;

	fprintf(stderr, "\r\033[K%.20s [", progress->label);
	for (i = 0; i < width; i++)
		fputc(i < filled ? '#' : '.', stderr);
	fprintf(stderr, "] %3.0f %% ", part * 100);
	draw_amount(progress, done, rate);
	fprintf(stderr, " %02u:%02u left", (unsigned)(left / 60), (unsigned)(left % 60));
	fflush(stderr);
}

void progress_update(struct progress *progress, uint64_t done)
{
	uint64_t now;

	if (!progress->visible)
		return;
	now = otte_now_ns();
	if (now - progress->shown_ns < REDRAW_NS || now == progress->begin_ns)
		return;
	progress->shown_ns = now;
	shown = progress;
	draw(progress, min_u64(done, progress->total), now - progress->begin_ns);
}

void progress_end(struct progress *progress)
{
	if (shown == progress)
		hide();
	if (progress->visible)
		before_message = NULL;
	progress->visible = false;
}
