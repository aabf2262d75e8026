/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What ottectl takes from the module: any bytes as one message. What is taken is described, and the
 * description is valid JSON with an id for each kind of object; what is not has a fault in words.
 */
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/ottectl/describe.h"
#include "../../tools/ottectl/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct message *message)
{
	json_t *object = describe(message), *again;
	char *text = object ? json_dumps(object, 0) : NULL;

	again = text ? json_loads(text, 0, NULL) : NULL;
	if (!again || !json_equal(object, again))
		abort();
	json_decref(again);
	json_decref(object);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct message_fault fault = { .attribute = -1 };
	struct message message;
	/* Exactly as long as the input, so that a byte too many shows. */
	void *copy = malloc(size + !size);
	int rc;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	rc = message_parse(copy, size, &message, &fault);
	if (!rc)
		check(&message);
	else if (rc != -EBADMSG || fault.attribute < 0 || fault.attribute >= OTTE_A_COUNT ||
		 !*fault.text)
		abort();
	free(copy);
	return 0;
}
