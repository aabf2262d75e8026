/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/attestor.h"

#include "engine/engine.h"
#include "engine/source_awaited.h"

_Static_assert(OTTE_MODULE_ID_BYTES == OTTE_ATTEST_MODULE_BYTES, "a load's id, on the wire");
_Static_assert(OTTE_NONCE_BYTES == OTTE_ATTEST_NONCE_BYTES, "a nonce, on the wire");

/* What the ledger has to know of it, it notes when it is read. At one go no more than others can have waiting there. */
#define DRAIN_MAX 8192

void otte_attestor_drain(struct otte_engine *engine)
{
	struct otte_event event;
	unsigned n;

	if (!engine->attestor.client)
		return;
	for (n = 0; n < DRAIN_MAX; n++)
		if (engine->ledger->ops->event_next(engine->client, &event))
			return;
		else
			otte_source_told(engine, &event);
}

static int await(void *arg, const uint8_t nonce[OTTE_NONCE_BYTES], void **wait)
{
	struct otte_engine *engine = arg;
	struct otte_attest *attest;
	int ret = engine->ledger->ops->attest_await(engine->client, nonce, &attest);

	if (!ret)
		*wait = attest;
	return ret;
}

static int heard(void *arg, void *wait, uint64_t *client, uint32_t *user)
{
	struct otte_engine *engine = arg;

	return engine->ledger->ops->attest_heard(engine->client, wait, client, user);
}

static void forget(void *arg, void *wait)
{
	struct otte_engine *engine = arg;

	engine->ledger->ops->attest_forget(engine->client, wait);
}

static int send_nonce(void *arg, uint64_t client, const uint8_t nonce[OTTE_NONCE_BYTES])
{
	struct otte_engine *engine = arg;

	return engine->ledger->ops->attest_send(engine->client, client, nonce);
}

void otte_attestor_fill(struct otte_engine *engine, struct otte_attestor *attestor)
{
	const struct otte_ledger_ops *ops = engine->ledger->ops;

	*attestor = (struct otte_attestor){ 0 };
	if (!ops->attest_send)
		return;
	*attestor = (struct otte_attestor){
		.arg = engine,
		.client = ops->client_id(engine->client),
		.lends = ops->loan_copy,
		.await = await,
		.heard = heard,
		.forget = forget,
		.send = send_nonce,
	};
	ops->attest_module(engine->client, attestor->module);
}
