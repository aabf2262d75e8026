/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which error codes have tests seen from which public function?
 *
 * A test that includes this header, last, records them without doing more: every public function that
 * returns a code is wrapped by a macro of its own name. Each pair of function and code
 * becomes one line "otte_batch_submit EDQUOT" in the file that the environment variable SEEN_ERRORS
 * names (make sets it; without it nothing is recorded). tests/man/check.sh compares the lines with the
 * ERRORS of the man pages: a code that no test has seen may not be documented, a code that a test has
 * seen must be.
 *
 * seen(otte_batch_submit(...)) spells the same out, for a call that the macros cannot reach, e.g.
 * through a pointer: seen_as("otte_batch_submit", submit(...)). A test that defines SEEN_BY_HAND first
 * has that alone, where codes come that a page means and others that only a fault can make. The value
 * is returned unchanged and errno is kept. The name has no OTTE_ before it because the library warns about
 * variables that do.
 */
#ifndef OTTE_TESTS_SEEN_H
#define OTTE_TESTS_SEEN_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "otte/otte.h"
#include "otte/otte_copy.h"
#include "otte/otte_cuda.h"

/*
 * Opened before main(), once in each program: tests count descriptors and use them up. Far above the
 * low numbers, so that what a test expects to get next stays the same.
 */
__attribute__((weak)) int seen_fd = -1;

__attribute__((constructor, unused)) static void seen_open(void)
{
	const char *path = getenv("SEEN_ERRORS");
	int fd;

	if (!path || seen_fd >= 0)
		return;
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	seen_fd = fcntl(fd, F_DUPFD_CLOEXEC, 900);
	if (seen_fd >= 0)
		close(fd);
	else
		seen_fd = fd;
}

/* `text` starts with the function's name. One write() of one line: O_APPEND keeps lines whole. */
__attribute__((unused)) static int seen_as(const char *text, int code)
{
	static _Thread_local const char *last_text;
	static _Thread_local int last_code;
	int saved = errno;
	char line[128];
	const char *name;
	int length;

	if (code >= 0 || seen_fd < 0 || !text || (last_text == text && last_code == code))
		return code;
	last_text = text;
	last_code = code;
	name = strerrorname_np(-code);
	length = snprintf(line, sizeof(line), "%.*s %s\n", (int)strcspn(text, "( "), text,
			  name ? name : "?");
	if (length > 0 && (size_t)length < sizeof(line) && write(seen_fd, line, (size_t)length) < 0)
		seen_fd = -1;
	errno = saved;
	return code;
}

#define seen(call) seen_as(#call, (call))

#ifndef SEEN_BY_HAND
/* A macro does not expand within itself. The list is checked against the headers by check.sh. */
#define otte_batch_cancel(...) \
	seen_as("otte_batch_cancel", otte_batch_cancel(__VA_ARGS__))
#define otte_batch_create(...) \
	seen_as("otte_batch_create", otte_batch_create(__VA_ARGS__))
#define otte_batch_destroy(...) \
	seen_as("otte_batch_destroy", otte_batch_destroy(__VA_ARGS__))
#define otte_batch_eventfd(...) \
	seen_as("otte_batch_eventfd", otte_batch_eventfd(__VA_ARGS__))
#define otte_batch_failure(...) \
	seen_as("otte_batch_failure", otte_batch_failure(__VA_ARGS__))
#define otte_batch_poll(...) \
	seen_as("otte_batch_poll", otte_batch_poll(__VA_ARGS__))
#define otte_batch_reset(...) \
	seen_as("otte_batch_reset", otte_batch_reset(__VA_ARGS__))
#define otte_batch_run(...) \
	seen_as("otte_batch_run", otte_batch_run(__VA_ARGS__))
#define otte_batch_submit(...) \
	seen_as("otte_batch_submit", otte_batch_submit(__VA_ARGS__))
#define otte_batch_submit_blocks(...) \
	seen_as("otte_batch_submit_blocks", otte_batch_submit_blocks(__VA_ARGS__))
#define otte_batch_task(...) \
	seen_as("otte_batch_task", otte_batch_task(__VA_ARGS__))
#define otte_batch_wait(...) \
	seen_as("otte_batch_wait", otte_batch_wait(__VA_ARGS__))
#define otte_block_list_create(...) \
	seen_as("otte_block_list_create", otte_block_list_create(__VA_ARGS__))
#define otte_block_list_destroy(...) \
	seen_as("otte_block_list_destroy", otte_block_list_destroy(__VA_ARGS__))
#define otte_config_init(...) \
	seen_as("otte_config_init", otte_config_init(__VA_ARGS__))
#define otte_config_load_env(...) \
	seen_as("otte_config_load_env", otte_config_load_env(__VA_ARGS__))
#define otte_config_load_file(...) \
	seen_as("otte_config_load_file", otte_config_load_file(__VA_ARGS__))
#define otte_config_load_json(...) \
	seen_as("otte_config_load_json", otte_config_load_json(__VA_ARGS__))
#define otte_copier_bind(...) \
	seen_as("otte_copier_bind", otte_copier_bind(__VA_ARGS__))
#define otte_copier_close(...) \
	seen_as("otte_copier_close", otte_copier_close(__VA_ARGS__))
#define otte_copier_config_init(...) \
	seen_as("otte_copier_config_init", otte_copier_config_init(__VA_ARGS__))
#define otte_copier_destroy(...) \
	seen_as("otte_copier_destroy", otte_copier_destroy(__VA_ARGS__))
#define otte_copier_progress(...) \
	seen_as("otte_copier_progress", otte_copier_progress(__VA_ARGS__))
#define otte_copier_stats(...) \
	seen_as("otte_copier_stats", otte_copier_stats(__VA_ARGS__))
#define otte_copier_submit(...) \
	seen_as("otte_copier_submit", otte_copier_submit(__VA_ARGS__))
#define otte_copy_poll(...) \
	seen_as("otte_copy_poll", otte_copy_poll(__VA_ARGS__))
#define otte_copy_wait(...) \
	seen_as("otte_copy_wait", otte_copy_wait(__VA_ARGS__))
#define otte_cuda_adopt(...) \
	seen_as("otte_cuda_adopt", otte_cuda_adopt(__VA_ARGS__))
#define otte_cuda_alloc(...) \
	seen_as("otte_cuda_alloc", otte_cuda_alloc(__VA_ARGS__))
#define otte_cuda_alloc_host(...) \
	seen_as("otte_cuda_alloc_host", otte_cuda_alloc_host(__VA_ARGS__))
#define otte_cuda_pin(...) \
	seen_as("otte_cuda_pin", otte_cuda_pin(__VA_ARGS__))
#define otte_cuda_record(...) \
	seen_as("otte_cuda_record", otte_cuda_record(__VA_ARGS__))
#define otte_cuda_slot(...) \
	seen_as("otte_cuda_slot", otte_cuda_slot(__VA_ARGS__))
#define otte_cuda_unpin(...) \
	seen_as("otte_cuda_unpin", otte_cuda_unpin(__VA_ARGS__))
#define otte_engine_address(...) \
	seen_as("otte_engine_address", otte_engine_address(__VA_ARGS__))
#define otte_engine_close(...) \
	seen_as("otte_engine_close", otte_engine_close(__VA_ARGS__))
#define otte_engine_create(...) \
	seen_as("otte_engine_create", otte_engine_create(__VA_ARGS__))
#define otte_engine_descriptor(...) \
	seen_as("otte_engine_descriptor", otte_engine_descriptor(__VA_ARGS__))
#define otte_engine_destroy(...) \
	seen_as("otte_engine_destroy", otte_engine_destroy(__VA_ARGS__))
#define otte_engine_nics(...) \
	seen_as("otte_engine_nics", otte_engine_nics(__VA_ARGS__))
#define otte_engine_stats(...) \
	seen_as("otte_engine_stats", otte_engine_stats(__VA_ARGS__))
#define otte_log_set(...) \
	seen_as("otte_log_set", otte_log_set(__VA_ARGS__))
#define otte_mem_adopt(...) \
	seen_as("otte_mem_adopt", otte_mem_adopt(__VA_ARGS__))
#define otte_mem_alloc(...) \
	seen_as("otte_mem_alloc", otte_mem_alloc(__VA_ARGS__))
#define otte_mem_map_file(...) \
	seen_as("otte_mem_map_file", otte_mem_map_file(__VA_ARGS__))
#define otte_mem_release(...) \
	seen_as("otte_mem_release", otte_mem_release(__VA_ARGS__))
#define otte_notification_eventfd(...) \
	seen_as("otte_notification_eventfd", otte_notification_eventfd(__VA_ARGS__))
#define otte_notification_next(...) \
	seen_as("otte_notification_next", otte_notification_next(__VA_ARGS__))
#define otte_notify(...) \
	seen_as("otte_notify", otte_notify(__VA_ARGS__))
#define otte_region_register(...) \
	seen_as("otte_region_register", otte_region_register(__VA_ARGS__))
#define otte_region_unregister(...) \
	seen_as("otte_region_unregister", otte_region_unregister(__VA_ARGS__))
#define otte_segment_close(...) \
	seen_as("otte_segment_close", otte_segment_close(__VA_ARGS__))
#define otte_segment_describe(...) \
	seen_as("otte_segment_describe", otte_segment_describe(__VA_ARGS__))
#define otte_segment_open(...) \
	seen_as("otte_segment_open", otte_segment_open(__VA_ARGS__))
#define otte_segment_peer(...) \
	seen_as("otte_segment_peer", otte_segment_peer(__VA_ARGS__))
#define otte_segment_stats(...) \
	seen_as("otte_segment_stats", otte_segment_stats(__VA_ARGS__))
#endif

#endif
