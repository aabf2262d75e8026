/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "rows.h"

#include <errno.h>
#include <inttypes.h>

#include "describe.h"
#include "ottectl.h"

static int take(void *arg, const struct message *message)
{
	struct rows *rows = arg;

	if (rows->wanted && !rows->wanted(rows, message))
		return 0;
	if (json_array_size(rows->array) >= rows->most) {
		rows->left_out++;
		return 0;
	}
	return json_array_append_new(rows->array, describe(message)) ? -ENOMEM : 0;
}

static void restart(void *arg)
{
	struct rows *rows = arg;

	json_array_clear(rows->array);
	rows->left_out = 0;
}

int rows_dump(struct rows *rows, struct link *link, uint8_t command)
{
	struct link_taker taker = { .take = take, .restart = restart, .arg = rows };

	if (!rows->most)
		rows->most = ROWS_MAX;
	rows->array = json_array();
	return link_dump(link, command, &taker, &rows->dump);
}

void rows_warn(const struct rows *rows)
{
	if (rows->left_out)
		warn_user("%" PRIu64 " more are not shown (--rows)", rows->left_out);
	if (!rows->dump.consistent)
		warn_user("the ledger changed all the time: what is shown was never there at once");
}

json_t *rows_json(struct rows *rows, const char *name)
{
	json_t *object = json_pack("{s:I, s:b, s:I, s:o}", "generation",
				   (json_int_t)rows->dump.generation, "consistent",
				   rows->dump.consistent, "left_out", (json_int_t)rows->left_out,
				   name, rows->array);

	rows->array = NULL;
	return object;
}

void rows_free(struct rows *rows)
{
	json_decref(rows->array);
	rows->array = NULL;
}
