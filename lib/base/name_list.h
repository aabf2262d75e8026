/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names in one text, by commas: "mlx5_0,mlx5_1". */
#ifndef OTTE_BASE_NAME_LIST_H
#define OTTE_BASE_NAME_LIST_H

#include <stddef.h>

#define OTTE_NAME_LIST_BYTES 1024 /* of the text with its terminator */
#define OTTE_NAME_LIST_MAX (OTTE_NAME_LIST_BYTES / 2)

struct otte_name_list {
	char text[OTTE_NAME_LIST_BYTES]; /* which the names are of */
	const char *names[OTTE_NAME_LIST_MAX];
	size_t count;
};

/* 0: a list that can be split; "" is one of no names. -EINVAL with a text. */
int otte_name_list_check(const char *text);
/* Of a text that was checked, and is no longer than it may be. */
void otte_name_list_split(struct otte_name_list *list, const char *text);

#endif
