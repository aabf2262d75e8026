/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "module.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/attestor.h"
#include "engine/engine.h"
#include "ledger/ledger.h"

#define CLIENTS 512

void __real_otte_attestor_fill(struct otte_engine *engine, struct otte_attestor *attestor);
void __wrap_otte_attestor_fill(struct otte_engine *engine, struct otte_attestor *attestor);

struct twist twist;
static uint64_t last;

bool module_is_real(void)
{
	const char *ledger = getenv("OTTE_TEST_LEDGER");

	return ledger && !strcmp(ledger, "kernel");
}

uint64_t module_last_client(void)
{
	return last;
}

/* ---- The simulated one: an id is an index, a nonce goes to whoever awaits it ---- */

struct wait {
	struct wait *next;
	uint64_t owner;
	uint8_t nonce[OTTE_NONCE_BYTES];
	uint64_t from;
	bool disputed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wait *waits;
static struct simulated {
	bool mute;
} clients[CLIENTS];
static uint64_t count = 1; /* 0 is nobody */
static bool filled; /* under lock */

static uint64_t id_of(const struct simulated *client)
{
	return (uint64_t)(client - clients);
}

static int await(void *arg, const uint8_t nonce[OTTE_NONCE_BYTES], void **out)
{
	struct wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return otte_fail(-ENOMEM, "no memory");
	wait->owner = id_of(arg);
	memcpy(wait->nonce, nonce, sizeof(wait->nonce));
	pthread_mutex_lock(&lock);
	wait->next = waits;
	waits = wait;
	pthread_mutex_unlock(&lock);
	*out = wait;
	return 0;
}

static int heard(void *arg, void *waiting, uint64_t *client, uint32_t *user)
{
	const struct wait *wait = waiting;

	(void)arg;
	pthread_mutex_lock(&lock);
	*client = wait->disputed ? 0 : wait->from;
	*user = 0;
	pthread_mutex_unlock(&lock);
	return *client ? 0 : -EAGAIN;
}

static void forget(void *arg, void *waiting)
{
	struct wait **at;

	(void)arg;
	pthread_mutex_lock(&lock);
	for (at = &waits; *at != waiting; at = &(*at)->next)
		;
	*at = (*at)->next;
	pthread_mutex_unlock(&lock);
	free(waiting);
}

static int send_nonce(void *arg, uint64_t to, const uint8_t nonce[OTTE_NONCE_BYTES])
{
	uint64_t from = id_of(arg);
	struct wait *wait;

	if (to >= count)
		return otte_fail(-ENOENT, "client unknown");
	if (clients[from].mute)
		return 0;
	pthread_mutex_lock(&lock);
	if (filled) {
		pthread_mutex_unlock(&lock);
		return otte_fail(-EDQUOT, "no more nonces");
	}
	for (wait = waits; wait; wait = wait->next) {
		if (wait->owner != to || memcmp(wait->nonce, nonce, sizeof(wait->nonce)) != 0)
			continue;
		wait->disputed |= wait->from && wait->from != from;
		wait->from = from;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

void module_fill(bool full)
{
	pthread_mutex_lock(&lock);
	filled = full;
	pthread_mutex_unlock(&lock);
}

unsigned module_awaited(void)
{
	const struct wait *wait;
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	for (wait = waits; wait; wait = wait->next)
		n++;
	pthread_mutex_unlock(&lock);
	return n;
}

static void simulate(struct otte_attestor *attestor)
{
	uint64_t id;

	pthread_mutex_lock(&lock);
	id = count++;
	pthread_mutex_unlock(&lock);
	if (id >= CLIENTS)
		abort();
	*attestor = (struct otte_attestor){
		.arg = &clients[id],
		.client = id,
		.module = { 7 },
		.await = await,
		.heard = heard,
		.forget = forget,
		.send = send_nonce,
	};
}

/* ---- The real one ---- */

static int send_nothing(void *arg, uint64_t to, const uint8_t nonce[OTTE_NONCE_BYTES])
{
	(void)arg;
	(void)to;
	(void)nonce;
	return 0;
}

static int send_refused(void *arg, uint64_t to, const uint8_t nonce[OTTE_NONCE_BYTES])
{
	(void)arg;
	(void)to;
	(void)nonce;
	return otte_fail(-EDQUOT, "no more nonces");
}

static int await_nothing(void *arg, const uint8_t nonce[OTTE_NONCE_BYTES], void **wait)
{
	(void)arg;
	(void)nonce;
	(void)wait;
	return otte_fail(-ENOMEM, "no memory for a nonce");
}

static _Atomic uint64_t heard_always;

static int hear_always(void *arg, void *wait, uint64_t *client, uint32_t *user)
{
	(void)arg;
	(void)wait;
	*client = atomic_load(&heard_always);
	*user = 0;
	return 0;
}

/* As much of an engine as its attestor needs. */
static void open_real(struct otte_attestor *attestor)
{
	struct otte_engine *shell = calloc(1, sizeof(*shell));

	if (!shell || otte_ledger_kernel_open(NULL, &shell->ledger) ||
	    shell->ledger->ops->client_open(shell->ledger, "raw", OTTE_CLIENT_NO_OFFERS,
					    &shell->client))
		abort();
	__real_otte_attestor_fill(shell, attestor);
}

static void close_real(struct otte_attestor *attestor)
{
	struct otte_engine *shell = attestor->arg;

	shell->ledger->ops->client_close(shell->client);
	shell->ledger->ops->close(shell->ledger);
	free(shell);
}

/* ---- Both ---- */

void module_client_open(struct otte_attestor *attestor)
{
	if (module_is_real())
		open_real(attestor);
	else
		simulate(attestor);
}

void module_client_close(struct otte_attestor *attestor)
{
	if (module_is_real())
		close_real(attestor);
}

void __wrap_otte_attestor_fill(struct otte_engine *engine, struct otte_attestor *attestor)
{
	if (module_is_real())
		__real_otte_attestor_fill(engine, attestor);
	else
		simulate(attestor);
	last = attestor->client;
	if (twist.mute && module_is_real())
		attestor->send = send_nothing;
	if (twist.mute && !module_is_real())
		clients[last].mute = true;
	if (twist.hears) {
		atomic_store(&heard_always, twist.hears);
		attestor->heard = hear_always;
	}
	if (twist.claims)
		attestor->client = twist.claims;
	if (twist.forgetful)
		attestor->await = await_nothing;
	if (twist.full)
		attestor->send = send_refused;
	if (twist.load)
		attestor->module[twist.load - 1] ^= 1;
	if (twist.none)
		attestor->client = 0;
	twist = (struct twist){ 0 };
}
