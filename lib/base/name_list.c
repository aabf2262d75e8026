/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/name_list.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

int otte_name_list_check(const char *text)
{
	size_t length, i;
	unsigned count;

	if (!*text)
		return 0;
	for (count = 1;; count++, text += length + 1) {
		length = strcspn(text, ",");
		if (!length)
			return otte_fail(-EINVAL, "name %u is empty", count);
		for (i = 0; i < length; i++)
			if (!isgraph((unsigned char)text[i]) || text[i] == '/')
				return otte_fail(-EINVAL, "name %u has what no name has", count);
		if (!text[length])
			return 0;
	}
}

void otte_name_list_split(struct otte_name_list *list, const char *text)
{
	char *name, *rest;

	snprintf(list->text, sizeof(list->text), "%s", text);
	list->count = 0;
	for (name = strtok_r(list->text, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
		list->names[list->count++] = name;
}
