/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Peers of one host learn through the module which of its clients the other one is, and whoever claims to be
 * another is refused. Over a simulated module, or the real one in a guest (module.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/auth.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "module.h"
#include "otte/otte.h"
#include "relay.h"

#define SECOND 1000000000ll
#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"

int __real_otte_source_opened(void *arg, struct otte_session *session);
int __wrap_otte_source_opened(void *arg, struct otte_session *session);

/* Which client the source takes the last peer for that it let in. */
static _Atomic uint64_t let_in;

int __wrap_otte_source_opened(void *arg, struct otte_session *session)
{
	atomic_store(&let_in, session->attested);
	return __real_otte_source_opened(arg, session);
}

static uint64_t hello_limit_ns; /* of engines that are made; 0: the usual one */

static struct otte_engine *make_with(const char *key_file)
{
	struct otte_engine *engine = NULL;
	struct otte_config config;

	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	config.stats_socket = 0;
	config.ledger = module_is_real() ? OTTE_LEDGER_KERNEL : OTTE_LEDGER_PROCESS;
	config.reconnect_min_ns = 10000000;
	if (hello_limit_ns)
		config.control_timeout_ns = hello_limit_ns;
	snprintf(config.key_file, sizeof(config.key_file), "%s", key_file);
	if (otte_engine_create(&config, &engine))
		fail_msg("%s", otte_error_text());
	return engine;
}

/* With the twist that is set, which is then over. */
static struct otte_engine *make(void)
{
	return make_with("");
}

static void destroy(struct otte_engine *engine)
{
	if (otte_engine_destroy(engine))
		fail_msg("%s", otte_error_text());
}

static uint16_t port_of(struct otte_engine *engine)
{
	char address[OTTE_ADDRESS_MAX];

	assert_int_equal(otte_engine_address(engine, address, sizeof(address)), 0);
	return (uint16_t)atoi(strrchr(address, ':') + 1);
}

/* What opening comes to, and which client the requester then takes its peer for. */
static int opens_at(struct otte_engine *user, uint16_t port, uint64_t *client)
{
	struct otte_peer_info info = { .size = sizeof(info) };
	char address[OTTE_ADDRESS_MAX];
	struct otte_segment *segment;
	int ret;

	atomic_store(&let_in, UINT64_MAX);
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	ret = otte_segment_open(user, address, OTTE_EPOCH_ANY, 5 * SECOND, &segment);
	if (ret)
		return ret;
	assert_int_equal(otte_segment_peer(segment, &info), 0);
	*client = info.client;
	assert_int_equal(otte_segment_close(segment), 0);
	return 0;
}

static int opens(struct otte_engine *user, struct otte_engine *source, uint64_t *client)
{
	return opens_at(user, port_of(source), client);
}

static void expect_text(const char *part)
{
	if (!strstr(otte_error_text(), part))
		fail_msg("\"%s\" is not in \"%s\"", part, otte_error_text());
}

/* The last line in which a source says whom it cut off. Written by its thread before the peer hears of it. */
static char cut_off[OTTE_TEXT_MAX];

static void note_cut_off(void *arg, enum otte_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, "cut off"))
		snprintf(cut_off, sizeof(cut_off), "%s", line);
}

/* In the words of both sides: what the source says of who connects is true where it connected from, too. */
static void expect_source_refused(uint64_t claimed, const char *why)
{
	char said[OTTE_TEXT_MAX], text[2 * OTTE_TEXT_MAX];

	snprintf(said, sizeof(said), "who connects claims to be client %lu of this host's module, which %s",
		 (unsigned long)claimed, why);
	snprintf(text, sizeof(text), "the peer refuses: %s", said);
	expect_text(text);
	snprintf(text, sizeof(text), "a peer is cut off: %s", said);
	if (!strstr(cut_off, text))
		fail_msg("\"%s\" is not in \"%s\"", text, cut_off);
	cut_off[0] = '\0';
}

/* And what who connects says of the source stays with it. */
static void expect_requester_refused(uint64_t claimed, const char *why)
{
	char text[OTTE_TEXT_MAX];

	snprintf(text, sizeof(text), "the peer claims to be client %lu of this host's module, which %s",
		 (unsigned long)claimed, why);
	expect_text(text);
	assert_null(strstr(otte_error_text(), "refuses"));
	assert_string_equal(cut_off, "");
}

/* ---- Engines ---- */

static void each_side_learns_which_client_the_other_one_is(void **state)
{
	struct otte_engine *source, *user;
	uint64_t source_id, user_id, client = 0;

	(void)state;
	source = make();
	source_id = module_last_client();
	user = make();
	user_id = module_last_client();
	assert_int_not_equal(source_id, user_id);
	assert_int_equal(opens(user, source, &client), 0);
	assert_int_equal(client, source_id);
	assert_int_equal(atomic_load(&let_in), user_id);
	/* And the other way round. */
	assert_int_equal(opens(source, user, &client), 0);
	assert_int_equal(client, user_id);
	assert_int_equal(atomic_load(&let_in), source_id);
	/* Itself, too. */
	assert_int_equal(opens(user, user, &client), 0);
	assert_int_equal(client, user_id);
	destroy(user);
	destroy(source);
}

static void with_a_key_both_are_proven(void **state)
{
	char path[] = "/tmp/otte-attest-XXXXXX";
	struct otte_engine *source, *user;
	uint64_t source_id, user_id, client = 0;
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, KEY, strlen(KEY)), strlen(KEY));
	close(fd);
	source = make_with(path);
	source_id = module_last_client();
	user = make_with(path);
	user_id = module_last_client();
	assert_int_equal(opens(user, source, &client), 0);
	assert_int_equal(client, source_id);
	assert_int_equal(atomic_load(&let_in), user_id);
	destroy(user);
	twist.claims = source_id;
	user = make_with(path);
	assert_int_equal(opens(user, source, &client), -EKEYREJECTED);
	destroy(user);
	destroy(source);
	unlink(path);
}

static void a_requester_that_claims_anothers_id_is_refused(void **state)
{
	struct otte_engine *source, *user, *other;
	uint64_t client, other_id, user_id;
	char text[64];

	(void)state;
	otte_log_set(note_cut_off, NULL, OTTE_LOG_WARNING);
	source = make();
	other = make();
	other_id = module_last_client();
	twist.claims = other_id;
	user = make();
	user_id = module_last_client();
	assert_int_equal(opens(user, source, &client), -EKEYREJECTED);
	snprintf(text, sizeof(text), "says that it is %lu", (unsigned long)user_id);
	expect_source_refused(other_id, text);
	assert_int_equal(atomic_load(&let_in), UINT64_MAX);
	destroy(user);
	/* One whose proof never came. */
	twist.mute = true;
	user = make();
	assert_int_equal(opens(user, source, &client), -EKEYREJECTED);
	expect_source_refused(module_last_client(), "did not attest that");
	assert_int_equal(atomic_load(&let_in), UINT64_MAX);
	destroy(user);
	destroy(other);
	destroy(source);
	otte_log_set(NULL, NULL, OTTE_LOG_WARNING);
}

static void a_source_that_claims_anothers_id_is_refused(void **state)
{
	struct otte_engine *source, *user, *other;
	uint64_t client, user_id, other_id;
	char text[64];

	(void)state;
	otte_log_set(note_cut_off, NULL, OTTE_LOG_WARNING);
	user = make();
	user_id = module_last_client();
	other = make();
	other_id = module_last_client();
	/* It gets no proof of ours: that goes to whom it claims to be. */
	twist.claims = other_id;
	source = make();
	assert_int_equal(opens(user, source, &client), -EKEYREJECTED);
	expect_source_refused(user_id, "did not attest that");
	destroy(source);
	/* It does not look, and gives its own. */
	twist.claims = other_id;
	twist.hears = user_id;
	source = make();
	assert_int_equal(opens(user, source, &client), -EKEYREJECTED);
	snprintf(text, sizeof(text), "says that it is %lu", (unsigned long)module_last_client());
	expect_requester_refused(other_id, text);
	destroy(source);
	twist.mute = true;
	source = make();
	assert_int_equal(opens(user, source, &client), -EKEYREJECTED);
	expect_requester_refused(module_last_client(), "did not attest that");
	destroy(source);
	/* It shows us our own proof. */
	twist.claims = twist.hears = user_id;
	twist.mute = true;
	source = make();
	assert_int_equal(opens(user, source, &client), -EKEYREJECTED);
	expect_requester_refused(user_id, "did not attest that");
	destroy(source);
	/* The id of nobody, or of one that has died meanwhile. */
	twist.claims = UINT64_MAX;
	source = make();
	assert_int_equal(opens(user, source, &client), -ECONNRESET);
	expect_requester_refused(UINT64_MAX, "has left or never was");
	destroy(source);
	destroy(other);
	destroy(user);
	otte_log_set(NULL, NULL, OTTE_LOG_WARNING);
}

/* The module has no word on it: not known, and let in. */
static void peers_without_the_same_module_are_let_in_unattested(void **state)
{
	struct otte_engine *engine = make(), *other;
	unsigned way;

	(void)state;
	for (way = 0; way < 3; way++) {
		uint64_t client = 1;

		twist.none = way == 0;
		twist.load = way == 1 ? 1 : way == 2 ? 16 : 0;
		other = make();
		assert_int_equal(opens(other, engine, &client), 0);
		assert_int_equal(client, 0);
		assert_int_equal(atomic_load(&let_in), 0);
		client = 1;
		assert_int_equal(opens(engine, other, &client), 0);
		assert_int_equal(client, 0);
		assert_int_equal(atomic_load(&let_in), 0);
		destroy(other);
	}
	destroy(engine);
}

/* A container may be shown a boot id of its own. */
static void boot_ids_do_not_matter(void **state)
{
	struct otte_engine *source = make(), *user;
	uint64_t source_id = module_last_client(), client = 0;

	(void)state;
	user = make();
	user->identity.boot_id[0] ^= 1;
	assert_int_equal(opens(user, source, &client), 0);
	assert_int_equal(client, source_id);
	assert_int_equal(atomic_load(&let_in), module_last_client());
	destroy(user);
	destroy(source);
}

/* Whoever fills the queues keeps nobody out: both sides know the same of each other, nothing. */
static void without_room_for_a_nonce_both_go_on_unattested(void **state)
{
	struct otte_engine *source, *user;
	uint64_t client = 1;

	(void)state;
	twist.full = true;
	source = make();
	user = make();
	assert_int_equal(opens(user, source, &client), 0);
	assert_int_equal(client, 0);
	assert_int_equal(atomic_load(&let_in), 0);
	client = 1;
	assert_int_equal(opens(source, user, &client), 0);
	assert_int_equal(client, 0);
	assert_int_equal(atomic_load(&let_in), 0);
	assert_int_equal(atomic_load(&source->server.bad_frames), 0);
	assert_int_equal(atomic_load(&user->server.bad_frames), 0);
	destroy(user);
	destroy(source);
}

/* The addresses are those of each one's own loopback, and say nothing of the host. */
static void peers_in_different_network_namespaces_attest_each_other(void **state)
{
	struct otte_engine *source, *user;
	uint64_t source_id, user_id, client = 0;
	struct relay relay;

	(void)state;
	if (relay_enter(&relay)) {
		print_message("no namespaces for this user\n");
		skip();
	}
	source = make();
	source_id = module_last_client();
	relay.target = port_of(source);
	relay_leave(&relay);
	user = make();
	user_id = module_last_client();
	assert_int_equal(opens_at(user, relay.port, &client), 0);
	assert_int_equal(client, source_id);
	assert_int_equal(atomic_load(&let_in), user_id);
	destroy(user);
	destroy(source);
	relay_close(&relay);
}

/* ---- Peers of our own making ---- */

struct frame {
	struct otte_frame head;
	uint8_t payload[512];
};

static void say(int fd, uint16_t type, uint64_t id, const void *payload, size_t length)
{
	uint8_t bytes[OTTE_FRAME_HEADER + 512];
	struct otte_frame frame = { .type = type, .id = id, .length = (uint32_t)length };

	otte_frame_encode(&frame, bytes);
	if (length)
		memcpy(bytes + OTTE_FRAME_HEADER, payload, length);
	assert_int_equal(send(fd, bytes, OTTE_FRAME_HEADER + length, MSG_NOSIGNAL),
			 OTTE_FRAME_HEADER + length);
}

static void hear(int fd, struct frame *frame, uint16_t type)
{
	uint8_t header[OTTE_FRAME_HEADER];

	assert_int_equal(recv(fd, header, sizeof(header), MSG_WAITALL), sizeof(header));
	assert_int_equal(otte_frame_decode(header, sizeof(frame->payload), &frame->head), 0);
	if (frame->head.length)
		assert_int_equal(recv(fd, frame->payload, frame->head.length, MSG_WAITALL),
				 frame->head.length);
	if (frame->head.type != type)
		fail_msg("a frame of type %u, not %u: %d %.*s", frame->head.type, type,
			 frame->head.status, (int)frame->head.length, frame->payload);
}

static void hear_refusal(int fd, int code, const char *part)
{
	struct frame frame;

	hear(fd, &frame, OTTE_FRAME_ERROR);
	frame.payload[frame.head.length] = '\0';
	assert_int_equal(frame.head.status, code);
	if (!strstr((char *)frame.payload, part))
		fail_msg("\"%s\" is not in \"%s\"", part, (char *)frame.payload);
	assert_int_equal(recv(fd, &frame, 1, 0), 0);
	close(fd);
}

static int connect_to(struct otte_engine *source)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct timeval limit = { .tv_sec = 10 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_port = htons(port_of(source));
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* One that speaks as a requester. What it said can be said again by another. */
struct raw {
	struct otte_attestor attestor;
	uint8_t hello[OTTE_HELLO_BYTES], claim[OTTE_CLAIM_BYTES];
	struct frame welcome, theirs;
	struct otte_attestation attestation;
};

static void raw_open(struct raw *raw)
{
	struct otte_hello hello = { .nonce = { 1, 2, 3 } };
	struct otte_claim claim;

	memset(raw, 0, sizeof(*raw));
	module_client_open(&raw->attestor);
	assert_int_equal(otte_identity_init(&hello.identity, "raw"), 0);
	otte_hello_encode(&hello, raw->hello, sizeof(raw->hello));
	claim.client = raw->attestor.client;
	memcpy(claim.module, raw->attestor.module, sizeof(claim.module));
	otte_claim_encode(&claim, raw->claim, sizeof(raw->claim));
}

static void raw_close(struct raw *raw)
{
	otte_attest_end(&raw->attestation);
	module_client_close(&raw->attestor);
}

/* Up to the source's claim. */
static int raw_greet(struct raw *raw, struct otte_engine *source)
{
	int fd = connect_to(source);

	say(fd, OTTE_FRAME_HELLO, otte_attest_offer(&raw->attestor), raw->hello, sizeof(raw->hello));
	hear(fd, &raw->welcome, OTTE_FRAME_WELCOME);
	/* Over the real module it lends as well. */
	assert_int_equal(raw->welcome.head.id & ~(uint64_t)OTTE_CAN_LEND, OTTE_CAN_ATTEST);
	hear(fd, &raw->theirs, OTTE_FRAME_CLAIM);
	return fd;
}

/* The digests of this connection, and our proof. */
static void raw_prove(struct raw *raw)
{
	struct otte_claim theirs;

	otte_attest_end(&raw->attestation);
	otte_attest_begin(&raw->attestation, &raw->attestor, false, NULL, raw->hello,
			  raw->welcome.payload);
	assert_int_equal(otte_attest_await(&raw->attestation), 0);
	assert_int_equal(otte_claim_decode(raw->theirs.payload, OTTE_CLAIM_BYTES, &theirs), 0);
	assert_true(otte_attest_claimed(&raw->attestation, &theirs));
	assert_int_equal(otte_attest_give(&raw->attestation), 0);
}

static void what_one_said_and_proved_lets_no_other_in(void **state)
{
	struct otte_engine *source = make();
	struct raw raw, thief;
	struct frame frame;
	int fd, second;

	(void)state;
	raw_open(&raw);
	fd = raw_greet(&raw, source);
	raw_prove(&raw);
	say(fd, OTTE_FRAME_CLAIM, 0, raw.claim, sizeof(raw.claim));
	hear(fd, &frame, OTTE_FRAME_READY);
	assert_int_equal(otte_attest_check(&raw.attestation), 0);
	assert_int_equal(atomic_load(&let_in), raw.attestor.client);

	/* The same bytes on another connection, while the one whose they are is there. */
	raw_open(&thief);
	memcpy(thief.hello, raw.hello, sizeof(thief.hello));
	second = raw_greet(&thief, source);
	assert_memory_not_equal(thief.welcome.payload, raw.welcome.payload, OTTE_WELCOME_BYTES);
	say(second, OTTE_FRAME_CLAIM, 0, raw.claim, sizeof(raw.claim));
	hear_refusal(second, -EKEYREJECTED, "which did not attest that");

	/* With the nonce of the first, once more from its owner. */
	second = raw_greet(&thief, source);
	assert_int_equal(otte_attest_give(&raw.attestation), 0);
	say(second, OTTE_FRAME_CLAIM, 0, raw.claim, sizeof(raw.claim));
	hear_refusal(second, -EKEYREJECTED, "which did not attest that");

	/* With the right nonce, but the thief's. */
	second = raw_greet(&thief, source);
	raw_prove(&thief);
	say(second, OTTE_FRAME_CLAIM, 0, raw.claim, sizeof(raw.claim));
	hear_refusal(second, -EKEYREJECTED, "says that it is");

	/* With both: nobody can tell whose the connection is. */
	second = raw_greet(&thief, source);
	raw_prove(&thief);
	memcpy(raw.attestation.ours, thief.attestation.ours, sizeof(raw.attestation.ours));
	assert_int_equal(otte_attest_give(&raw.attestation), 0);
	say(second, OTTE_FRAME_CLAIM, 0, raw.claim, sizeof(raw.claim));
	hear_refusal(second, -EKEYREJECTED, "which did not attest that");

	/* The first is none the worse. */
	say(fd, OTTE_FRAME_PING, 5, NULL, 0);
	hear(fd, &frame, OTTE_FRAME_PONG);
	close(fd);
	raw_close(&thief);
	raw_close(&raw);
	destroy(source);
}

/* Someone on the path who is a client of the module himself, and has no key. */
struct splice {
	struct otte_attestor attestor;
	struct otte_engine *source;
	int listener;
	bool caught;
	bool strips; /* it lets the requester think that the source does not attest */
	char address[32];
	pthread_t thread;
};

static void *put_oneself_in(void *arg)
{
	struct splice *splice = arg;
	struct otte_attestation attestation;
	uint8_t hello[OTTE_HELLO_BYTES], out[OTTE_CLAIM_BYTES];
	struct otte_claim claim, theirs;
	struct frame frame, welcome;
	int down = accept(splice->listener, NULL, NULL), up = connect_to(splice->source);

	hear(down, &frame, OTTE_FRAME_HELLO);
	memcpy(hello, frame.payload, sizeof(hello));
	say(up, OTTE_FRAME_HELLO, frame.head.id, hello, sizeof(hello));
	hear(up, &welcome, OTTE_FRAME_WELCOME);
	say(down, OTTE_FRAME_WELCOME, splice->strips ? 0 : welcome.head.id, welcome.payload,
	    OTTE_WELCOME_BYTES);
	if (splice->strips) { /* it sees that, and hangs up */
		splice->caught = recv(down, out, 1, 0) == 0;
		goto close_both;
	}
	hear(down, &frame, OTTE_FRAME_PROOF);
	say(up, OTTE_FRAME_PROOF, 0, frame.payload, OTTE_PROOF_BYTES);
	hear(up, &frame, OTTE_FRAME_CLAIM);
	assert_int_equal(otte_claim_decode(frame.payload, OTTE_CLAIM_BYTES, &theirs), 0);
	otte_attest_begin(&attestation, &splice->attestor, false, NULL, hello, welcome.payload);
	assert_true(otte_attest_claimed(&attestation, &theirs));
	assert_int_equal(otte_attest_give(&attestation), 0);
	claim.client = splice->attestor.client;
	memcpy(claim.module, splice->attestor.module, sizeof(claim.module));
	otte_claim_encode(&claim, out, sizeof(out));
	say(up, OTTE_FRAME_CLAIM, 0, out, sizeof(out));
	splice->caught = recv(up, out, OTTE_FRAME_HEADER, MSG_WAITALL) == OTTE_FRAME_HEADER &&
			 !otte_frame_decode(out, 4096, &frame.head) &&
			 frame.head.type == OTTE_FRAME_ERROR && frame.head.status == -EKEYREJECTED;
close_both:
	close(up);
	close(down);
	return NULL;
}

static int listen_anywhere(char *address, size_t size, uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	socklen_t length = sizeof(at);

	at.sin_port = htons(port);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
	snprintf(address, size, "127.0.0.1:%u", ntohs(at.sin_port));
	return fd;
}

static void with_a_key_nobody_without_it_is_attested(void **state)
{
	char path[] = "/tmp/otte-attest-XXXXXX";
	struct otte_engine *source, *user;
	struct otte_segment *segment;
	struct splice splice = { 0 };
	int fd = mkstemp(path), way;

	(void)state;
	assert_int_equal(write(fd, KEY, strlen(KEY)), strlen(KEY));
	close(fd);
	source = make_with(path);
	user = make_with(path);
	module_client_open(&splice.attestor);
	splice.source = source;
	for (way = 0; way < 2; way++) {
		splice.strips = way;
		splice.caught = false;
		splice.listener = listen_anywhere(splice.address, sizeof(splice.address), 0);
		atomic_store(&let_in, UINT64_MAX);
		assert_int_equal(pthread_create(&splice.thread, NULL, put_oneself_in, &splice), 0);
		assert_int_not_equal(otte_segment_open(user, splice.address, 0, SECOND, &segment), 0);
		pthread_join(splice.thread, NULL);
		close(splice.listener);
		assert_true(splice.caught);
		assert_int_equal(atomic_load(&let_in), UINT64_MAX);
	}
	expect_text("does not have the key");
	module_client_close(&splice.attestor);
	destroy(user);
	destroy(source);
	unlink(path);
}

/* Both sides undo what they began, and say why. */
static void without_memory_to_await_a_nonce_nobody_is_let_in(void **state)
{
	struct otte_engine *forgetful, *other = make();
	uint64_t client = 0;

	(void)state;
	twist.forgetful = true;
	forgetful = make();
	assert_int_equal(opens(other, forgetful, &client), -ENOMEM);
	expect_text("the peer refuses: no memory for a nonce");
	assert_int_equal(opens(forgetful, other, &client), -ENOMEM);
	expect_text("no memory for a nonce");
	assert_int_equal(atomic_load(&let_in), UINT64_MAX);
	destroy(forgetful);
	/* And the other one goes on. */
	forgetful = make();
	assert_int_equal(opens(forgetful, other, &client), 0);
	assert_int_not_equal(client, 0);
	destroy(forgetful);
	destroy(other);
	if (!module_is_real())
		assert_int_equal(module_awaited(), 0);
}

/* A connection that ends between the claims leaves nothing behind, on either side. */
static void a_connection_cut_between_the_claims_leaves_nothing(void **state)
{
	struct otte_engine *source = make();
	struct raw raw;
	int i, fd;

	(void)state;
	raw_open(&raw);
	for (i = 0; i < 40; i++) { /* more than are asked at once */
		fd = raw_greet(&raw, source);
		if (i % 2)
			raw_prove(&raw);
		close(fd);
	}
	fd = raw_greet(&raw, source);
	raw_prove(&raw);
	for (i = 0; !module_is_real() && i < 5000 && module_awaited() > 2; i++)
		usleep(1000);
	if (!module_is_real())
		assert_int_equal(module_awaited(), 2); /* the source's and ours, of the last */
	close(fd);
	raw_close(&raw);
	destroy(source);
	if (!module_is_real())
		assert_int_equal(module_awaited(), 0);
}

/* Until the peer has been told `code`, or is READY with 0; which client it is then taken for. */
static uint64_t await_peer(struct otte_peer *peer, int code)
{
	uint64_t client = 0;
	bool there = false;
	int i;

	for (i = 0; i < 5000 && !there; i++) {
		pthread_mutex_lock(&peer->lock);
		there = code ? peer->state == OTTE_PEER_LOST && peer->code == code :
			       peer->state == OTTE_PEER_READY;
		client = peer->client;
		pthread_mutex_unlock(&peer->lock);
		usleep(1000);
	}
	assert_true(there);
	return client;
}

/* Whoever fills the module's queues cannot come in its place, nor have it given up. */
static void who_was_attested_does_not_come_back_unattested(void **state)
{
	struct otte_engine *source, *user;
	struct otte_segment *segment;
	char address[OTTE_ADDRESS_MAX];
	uint64_t source_id;

	(void)state;
	if (module_is_real())
		skip();
	source = make();
	source_id = module_last_client();
	user = make();
	assert_int_equal(otte_engine_address(source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(user, address, OTTE_EPOCH_ANY, 30 * SECOND, &segment), 0);
	assert_int_equal(await_peer(segment->peer, 0), source_id);
	module_fill(true);
	otte_control_client_stop(&segment->peer->control, -ECONNRESET);
	assert_int_equal(await_peer(segment->peer, -EDQUOT), source_id);
	module_fill(false);
	assert_int_equal(await_peer(segment->peer, 0), source_id);
	assert_int_equal(otte_segment_close(segment), 0);
	destroy(user);
	destroy(source);
}

#define CROWD 70 /* more than nonces of one user that the module keeps for one receiver */

static int greet_only(struct raw *raw, struct otte_engine *source)
{
	int fd = connect_to(source);

	say(fd, OTTE_FRAME_HELLO, otte_attest_offer(&raw->attestor), raw->hello, sizeof(raw->hello));
	hear(fd, &raw->welcome, OTTE_FRAME_WELCOME);
	return fd;
}

static bool is_asked(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* As many processes of one user that start together. */
static void many_that_come_at_once_are_asked_in_turn(void **state)
{
	struct otte_engine *source = make();
	static struct raw raw[CROWD];
	int fd[CROWD], i, asked = 0;
	struct frame frame;

	(void)state;
	for (i = 0; i < CROWD; i++) {
		raw_open(&raw[i]);
		fd[i] = greet_only(&raw[i], source);
	}
	usleep(100000);
	for (i = 0; i < CROWD; i++)
		asked += is_asked(fd[i]);
	assert_int_equal(asked, 32);
	for (i = 0; i < CROWD; i++) {
		hear(fd[i], &raw[i].theirs, OTTE_FRAME_CLAIM);
		raw_prove(&raw[i]);
		say(fd[i], OTTE_FRAME_CLAIM, 0, raw[i].claim, sizeof(raw[i].claim));
		hear(fd[i], &frame, OTTE_FRAME_READY);
		assert_int_equal(frame.head.status, 0);
		assert_int_equal(atomic_load(&let_in), raw[i].attestor.client);
		assert_int_equal(otte_attest_check(&raw[i].attestation), 0);
	}
	for (i = 0; i < CROWD; i++) {
		close(fd[i]);
		raw_close(&raw[i]);
	}
	destroy(source);
}

static void who_gets_no_turn_is_let_in_unattested(void **state)
{
	struct otte_engine *source, *user;
	struct raw raw[33];
	uint64_t client = 1;
	struct frame frame;
	int fd[33], i;

	(void)state;
	hello_limit_ns = 4 * SECOND;
	source = make();
	hello_limit_ns = 0;
	for (i = 0; i < 33; i++) {
		raw_open(&raw[i]);
		fd[i] = greet_only(&raw[i], source);
	}
	user = make();
	assert_int_equal(opens(user, source, &client), 0);
	assert_int_equal(client, 0);
	assert_int_equal(atomic_load(&let_in), 0);
	/* One that leaves while it waits, and one that is asked, are no harm to others. */
	close(fd[32]);
	close(fd[0]);
	hear(fd[1], &raw[1].theirs, OTTE_FRAME_CLAIM);
	raw_prove(&raw[1]);
	say(fd[1], OTTE_FRAME_CLAIM, 0, raw[1].claim, sizeof(raw[1].claim));
	hear(fd[1], &frame, OTTE_FRAME_READY);
	assert_int_equal(opens(user, source, &client), 0);
	assert_int_not_equal(client, 0);
	for (i = 0; i < 33; i++) {
		if (i && i < 32)
			close(fd[i]);
		raw_close(&raw[i]);
	}
	destroy(user);
	destroy(source);
}

static void peers_that_know_nothing_of_it_are_let_in_as_before(void **state)
{
	struct otte_engine *source = make();
	struct frame frame;
	struct raw raw;
	int fd;

	(void)state;
	raw_open(&raw);
	fd = connect_to(source);
	say(fd, OTTE_FRAME_HELLO, 0, raw.hello, sizeof(raw.hello));
	hear(fd, &frame, OTTE_FRAME_WELCOME);
	assert_int_equal(frame.head.id, 0);
	hear(fd, &frame, OTTE_FRAME_READY);
	assert_int_equal(atomic_load(&let_in), 0);
	close(fd);
	/* And those that can more than we know. */
	fd = connect_to(source);
	say(fd, OTTE_FRAME_HELLO, ~(uint64_t)OTTE_CAN_ATTEST, raw.hello, sizeof(raw.hello));
	hear(fd, &frame, OTTE_FRAME_WELCOME);
	assert_int_equal(frame.head.id, OTTE_CAN_CUT); /* which needs no module */
	hear(fd, &frame, OTTE_FRAME_READY);
	close(fd);
	raw_close(&raw);
	destroy(source);
}

static void nothing_is_served_before_the_claim_and_none_is_taken_twice(void **state)
{
	struct otte_engine *source = make();
	uint8_t after[8] = { 0 };
	struct frame frame;
	struct raw raw;
	int fd;

	(void)state;
	raw_open(&raw);
	fd = raw_greet(&raw, source);
	say(fd, OTTE_FRAME_DESCRIBE, 1, after, sizeof(after));
	hear_refusal(fd, -EPROTO, "out of order");
	fd = raw_greet(&raw, source);
	raw_prove(&raw);
	say(fd, OTTE_FRAME_CLAIM, 0, raw.claim, sizeof(raw.claim));
	hear(fd, &frame, OTTE_FRAME_READY);
	say(fd, OTTE_FRAME_CLAIM, 0, raw.claim, sizeof(raw.claim));
	hear_refusal(fd, -EPROTO, "in an open session");
	/* One that went away in the middle leaves nothing awaited. */
	close(raw_greet(&raw, source));
	fd = connect_to(source);
	say(fd, OTTE_FRAME_CLAIM, 0, raw.claim, sizeof(raw.claim));
	hear_refusal(fd, -EPROTO, "out of order");
	raw_close(&raw);
	destroy(source);
}

/* ---- Sources of our own making ---- */

struct liar {
	pthread_t thread;
	int listener;
	char address[32];
	bool silent; /* it takes up the claims and makes none */
	uint64_t epoch;
};

/* One connection after another, until the listener is shut. */
static void *lie(void *arg)
{
	struct liar *liar = arg;
	struct otte_welcome welcome = { .max_payload = 65536, .max_lanes = 1 };
	uint8_t bytes[OTTE_WELCOME_BYTES];
	struct frame frame;
	int fd;

	otte_identity_init(&welcome.identity, "liar");
	welcome.identity.epoch = liar->epoch;
	otte_welcome_encode(&welcome, bytes, sizeof(bytes));
	while ((fd = accept(liar->listener, NULL, NULL)) >= 0) {
		hear(fd, &frame, OTTE_FRAME_HELLO);
		say(fd, OTTE_FRAME_WELCOME, OTTE_CAN_ATTEST, bytes, sizeof(bytes));
		if (liar->silent)
			say(fd, OTTE_FRAME_READY, 0, NULL, 0);
		while (recv(fd, bytes + 1, 1, 0) > 0)
			;
		close(fd);
	}
	return NULL;
}

static void liar_open(struct liar *liar, uint16_t port)
{
	liar->listener = listen_anywhere(liar->address, sizeof(liar->address), port);
	if (!liar->epoch)
		liar->epoch = 5;
	assert_int_equal(pthread_create(&liar->thread, NULL, lie, liar), 0);
}

static void liar_close(struct liar *liar)
{
	shutdown(liar->listener, SHUT_RDWR);
	pthread_join(liar->thread, NULL);
	close(liar->listener);
}

static void a_source_that_breaks_the_exchange_is_no_peer(void **state)
{
	struct liar liar = { .silent = true };
	struct otte_segment *segment;
	struct otte_engine *user;

	(void)state;
	liar_open(&liar, 0);
	user = make();
	assert_int_equal(otte_segment_open(user, liar.address, 0, 5 * SECOND, &segment), -EPROTO);
	expect_text("does not say which client it is");
	destroy(user);
	twist.none = true;
	user = make();
	assert_int_equal(otte_segment_open(user, liar.address, 0, 5 * SECOND, &segment), -EPROTO);
	expect_text("takes up what it was not offered");
	destroy(user);
	liar_close(&liar);
}

/* An epoch can be repeated by whoever has seen it. */
static void another_client_in_a_peers_place_is_stale(void **state)
{
	struct otte_engine *source = make(), *user = make(), *other;
	char address[OTTE_ADDRESS_MAX];
	struct otte_segment *segment;
	uint16_t port = port_of(source);
	struct otte_config config;
	struct otte_mem *mem;
	struct otte_region *region;
	struct otte_region_desc desc = { .length = 4096 };
	struct otte_request request = { .op = OTTE_READ, .length = 64 };
	struct otte_batch *batch;
	uint64_t epoch = source->identity.epoch;
	int i, ret = 0;

	(void)state;
	assert_int_equal(otte_engine_address(source, address, sizeof(address)), 0);
	assert_int_equal(otte_segment_open(user, address, 0, 30 * SECOND, &segment), 0);
	assert_int_equal(otte_mem_alloc(user, 4096, 0, &mem), 0);
	desc.mem = mem;
	assert_int_equal(otte_region_register(user, &desc, 1, &region), 0);
	assert_int_equal(otte_batch_create(user, 1, &batch), 0);
	destroy(source);
	assert_int_equal(otte_config_init(&config, sizeof(config)), 0);
	config.stats_socket = 0;
	config.ledger = module_is_real() ? OTTE_LEDGER_KERNEL : OTTE_LEDGER_PROCESS;
	config.listen_port = port;
	assert_int_equal(otte_engine_create(&config, &other), 0);
	other->identity.epoch = epoch;
	request.segment = segment;
	request.local = region;
	request.remote_region = 1;
	for (i = 0; i < 1000 && ret != -ESTALE; i++) {
		ret = otte_batch_submit(batch, &request, 1);
		if (!ret) {
			otte_batch_wait(batch, 5 * SECOND);
			otte_batch_reset(batch);
		}
		usleep(10000);
	}
	assert_int_equal(ret, -ESTALE);
	expect_text("of the module answers there now, not");
	assert_int_equal(otte_batch_destroy(batch), 0);
	assert_int_equal(otte_segment_close(segment), 0);
	assert_int_equal(otte_region_unregister(&region, 1, SECOND, NULL), 0);
	assert_int_equal(otte_mem_release(mem), 0);
	destroy(other);
	destroy(user);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_side_learns_which_client_the_other_one_is),
		cmocka_unit_test(with_a_key_both_are_proven),
		cmocka_unit_test(a_requester_that_claims_anothers_id_is_refused),
		cmocka_unit_test(a_source_that_claims_anothers_id_is_refused),
		cmocka_unit_test(peers_without_the_same_module_are_let_in_unattested),
		cmocka_unit_test(boot_ids_do_not_matter),
		cmocka_unit_test(without_room_for_a_nonce_both_go_on_unattested),
		cmocka_unit_test(peers_in_different_network_namespaces_attest_each_other),
		cmocka_unit_test(what_one_said_and_proved_lets_no_other_in),
		cmocka_unit_test(with_a_key_nobody_without_it_is_attested),
		cmocka_unit_test(without_memory_to_await_a_nonce_nobody_is_let_in),
		cmocka_unit_test(a_connection_cut_between_the_claims_leaves_nothing),
		cmocka_unit_test(who_was_attested_does_not_come_back_unattested),
		cmocka_unit_test(many_that_come_at_once_are_asked_in_turn),
		cmocka_unit_test(who_gets_no_turn_is_let_in_unattested),
		cmocka_unit_test(peers_that_know_nothing_of_it_are_let_in_as_before),
		cmocka_unit_test(nothing_is_served_before_the_claim_and_none_is_taken_twice),
		cmocka_unit_test(a_source_that_breaks_the_exchange_is_no_peer),
		cmocka_unit_test(another_client_in_a_peers_place_is_stale),
	};

	return cmocka_run_group_tests_name("attest", tests, NULL, NULL);
}
