/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "control/descriptor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "base/error.h"

#define FORM 1
#define PREFIX "otte"
#define ID_BYTES 16
#define EPOCH_DIGITS 16

/* "otte1 " address " boot=" " incarnation=" " epoch=" with their digits and the terminator */
_Static_assert(6 + (OTTE_ADDRESS_MAX - 1) + 6 + 2 * ID_BYTES + 13 + 2 * ID_BYTES + 7 + EPOCH_DIGITS +
		       1 <= OTTE_DESCRIPTOR_MAX,
	       "OTTE_DESCRIPTOR_MAX always suffices");

int otte_descriptor_encode(const struct otte_descriptor *descriptor, char *text, size_t size)
{
	char boot[2 * ID_BYTES + 1], incarnation[2 * ID_BYTES + 1];
	char address[OTTE_ADDRESS_MAX], line[OTTE_DESCRIPTOR_MAX];
	int rc, length;

	rc = otte_endpoint_format(&descriptor->endpoint, address, sizeof(address));
	if (rc)
		return rc;
	sodium_bin2hex(boot, sizeof(boot), descriptor->boot_id, ID_BYTES);
	sodium_bin2hex(incarnation, sizeof(incarnation), descriptor->incarnation, ID_BYTES);
	length = snprintf(line, sizeof(line),
			  PREFIX "%d %s boot=%s incarnation=%s epoch=%016" PRIx64, FORM, address,
			  boot, incarnation, descriptor->epoch);
	if ((size_t)length >= size)
		return otte_fail(-ENOSPC, "descriptor: %d bytes do not fit in %zu", length + 1, size);
	memcpy(text, line, (size_t)length + 1);
	return 0;
}

/* Bytes of "otteNUMBER" at the start of a descriptor, or 0. */
static size_t prefix_length(const char *text)
{
	size_t digits;

	if (strncmp(text, PREFIX, strlen(PREFIX)))
		return 0;
	digits = strspn(text + strlen(PREFIX), "0123456789");
	if (!digits || text[strlen(PREFIX) + digits] != ' ')
		return 0;
	return strlen(PREFIX) + digits;
}

/* No endpoint has a space in it. */
bool otte_descriptor_is(const char *text)
{
	return prefix_length(text) != 0;
}

static int decode_form(const char **at)
{
	size_t length = prefix_length(*at);
	const char *form = *at + strlen(PREFIX);
	int digits = (int)(length - strlen(PREFIX));

	if (!length)
		return otte_fail(-EINVAL, "descriptor: does not start with \"%s%d \"", PREFIX, FORM);
	if (digits != 1 || *form != '0' + FORM)
		return otte_fail(-EPROTONOSUPPORT, "descriptor of form %.*s, this library reads %d",
				 digits > 20 ? 20 : digits, form, FORM);
	*at += length + 1;
	return 0;
}

static int decode_address(const char **at, struct otte_endpoint *endpoint)
{
	size_t length = strcspn(*at, " ");
	char address[OTTE_ADDRESS_MAX];
	int rc;

	if (length >= sizeof(address))
		return otte_fail(-EINVAL, "descriptor: address of %zu bytes, at most %d", length,
				 OTTE_ADDRESS_MAX - 1);
	memcpy(address, *at, length);
	address[length] = '\0';
	rc = otte_endpoint_parse(address, 0, endpoint);
	if (rc)
		return otte_fail_within(rc, "descriptor: address: ");
	*at += length;
	return 0;
}

/* " FIELD=" and exactly 2 * count lower-case digits. */
static int decode_hex(const char **at, const char *field, uint8_t *out, size_t count)
{
	size_t name = strlen(field), bytes;
	const char *digits;

	if (**at != ' ' || strncmp(*at + 1, field, name) || (*at)[name + 1] != '=')
		return otte_fail(-EINVAL, "descriptor: no \" %s=\" where it belongs", field);
	digits = *at + name + 2;
	if (strspn(digits, "0123456789abcdef") < 2 * count ||
	    sodium_hex2bin(out, count, digits, 2 * count, NULL, &bytes, NULL))
		return otte_fail(-EINVAL, "descriptor: %s is not %zu lower-case hexadecimal digits",
				 field, 2 * count);
	*at = digits + 2 * count;
	return 0;
}

static int decode_epoch(const char **at, uint64_t *epoch)
{
	uint8_t bytes[EPOCH_DIGITS / 2] = { 0 };
	size_t i;
	int rc = decode_hex(at, "epoch", bytes, sizeof(bytes));

	if (rc)
		return rc;
	*epoch = 0;
	for (i = 0; i < sizeof(bytes); i++)
		*epoch = *epoch << 8 | bytes[i];
	if (!*epoch)
		return otte_fail(-EINVAL, "descriptor: epoch is 0");
	return 0;
}

int otte_descriptor_decode(const char *text, struct otte_descriptor *descriptor)
{
	struct otte_descriptor got;
	const char *at = text;
	int rc;

	if (strnlen(text, OTTE_DESCRIPTOR_MAX) == OTTE_DESCRIPTOR_MAX)
		return otte_fail(-EINVAL, "descriptor longer than %d bytes", OTTE_DESCRIPTOR_MAX - 1);
	rc = decode_form(&at);
	if (!rc)
		rc = decode_address(&at, &got.endpoint);
	if (!rc)
		rc = decode_hex(&at, "boot", got.boot_id, sizeof(got.boot_id));
	if (!rc)
		rc = decode_hex(&at, "incarnation", got.incarnation, sizeof(got.incarnation));
	if (!rc)
		rc = decode_epoch(&at, &got.epoch);
	if (!rc && *at)
		rc = otte_fail(-EINVAL, "descriptor: %zu bytes behind the epoch", strlen(at));
	if (!rc)
		*descriptor = got;
	return rc;
}

bool otte_descriptor_names(const struct otte_descriptor *descriptor,
			   const struct otte_identity *identity)
{
	return descriptor->epoch == identity->epoch &&
	       !memcmp(descriptor->boot_id, identity->boot_id, ID_BYTES) &&
	       !memcmp(descriptor->incarnation, identity->incarnation, ID_BYTES);
}
