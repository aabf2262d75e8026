/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ledger's attestation as control connections use it: attest.h there says what for. */
#ifndef OTTE_ENGINE_ATTESTOR_H
#define OTTE_ENGINE_ATTESTOR_H

struct otte_attestor;
struct otte_engine;

/* For the engine's client of its ledger; one whose client is 0 where the ledger attests nobody. */
void otte_attestor_fill(struct otte_engine *engine, struct otte_attestor *attestor);

#endif
