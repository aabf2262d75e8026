/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A peer as one line of text, for an application's own discovery:
 *
 *   otte1 HOST:PORT boot=32HEX incarnation=32HEX epoch=16HEX
 *
 * The number is that of the line's form. Strict: one space between fields, lower-case digits, nothing
 * before or behind, so that a peer has one spelling and lines can be compared.
 */
#ifndef OTTE_CONTROL_DESCRIPTOR_H
#define OTTE_CONTROL_DESCRIPTOR_H

#include "control/endpoint.h"
#include "control/identity.h"

struct otte_descriptor {
	struct otte_endpoint endpoint; /* with a port */
	uint8_t boot_id[16];
	uint8_t incarnation[16];
	uint64_t epoch; /* never 0 */
};

/* -ENOSPC if `size` is short; OTTE_DESCRIPTOR_MAX always suffices. */
int otte_descriptor_encode(const struct otte_descriptor *descriptor, char *text, size_t size);

/* -EINVAL names the field; -EPROTONOSUPPORT for another form names both numbers. */
int otte_descriptor_decode(const char *text, struct otte_descriptor *descriptor);

/* Whether `text` is meant as a descriptor, of any form and however broken, and not as an endpoint. */
bool otte_descriptor_is(const char *text);

/* Whether the line means this very engine: same boot, process and epoch. */
bool otte_descriptor_names(const struct otte_descriptor *descriptor,
			   const struct otte_identity *identity);

#endif
