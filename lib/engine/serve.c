/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/serve.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"
#include "control/endpoint.h"
#include "engine/attestor.h"
#include "engine/engine.h"
#include "engine/notify.h"
#include "engine/source.h"
#include "engine/source_grant.h"
#include "engine/stats_socket.h"

#define BACKLOG 256
/* Stalls are looked for this often while a loop has something to do. */
#define TICK_MS 1000

/* ---- The listener ---- */

static int listen_on(const struct otte_sockaddr *address)
{
	int fd, one = 1, ret;

	fd = otte_fd_socket(address->storage.ss_family, SOCK_STREAM);
	if (fd < 0)
		return otte_fail(-errno, "socket: %m");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)&address->storage, address->length) < 0 ||
	    listen(fd, BACKLOG) < 0) {
		ret = -errno;
		otte_fd_close(fd);
		errno = -ret;
		return ret;
	}
	return fd;
}

/*
 * What peers are told to open: the advertised host and port, as far as given, else the bound ones. Nobody
 * can open "every interface", so a listener on it goes by this machine's name.
 */
static int advertise(struct otte_engine *engine, int fd)
{
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);
	struct otte_endpoint bound, told;
	char wanted[OTTE_ADDRESS_MAX];
	int ret;

	if (getsockname(fd, (struct sockaddr *)&address, &length) < 0)
		return otte_fail(-errno, "getsockname: %m");
	ret = otte_sockaddr_format((struct sockaddr *)&address, length, engine->address,
				   sizeof(engine->address));
	if (!ret)
		ret = otte_endpoint_parse(engine->address, 0, &bound);
	if (ret)
		return ret;
	memcpy(wanted, engine->config.advertise, sizeof(wanted));
	if (!wanted[0] && (!strcmp(bound.host, "0.0.0.0") || !strcmp(bound.host, "::"))) {
		if (gethostname(wanted, sizeof(wanted)) < 0)
			return otte_fail(-errno, "gethostname: %m");
		otte_log(OTTE_LOG_WARNING, "listening on every interface without listen.advertise: "
			 "peers are told \"%s\"", wanted);
	}
	if (!wanted[0])
		return 0;
	ret = otte_endpoint_parse(wanted, bound.port, &told);
	if (ret)
		return otte_fail_within(ret, "listen.advertise: ");
	return otte_endpoint_format(&told, engine->address, sizeof(engine->address));
}

static int open_listener(struct otte_engine *engine, int *out)
{
	struct otte_endpoint endpoint = { .port = (uint16_t)engine->config.listen_port };
	struct otte_addresses addresses;
	unsigned i;
	int fd = -1, ret;

	*out = -1;
	if (!engine->config.listen_address[0])
		return 0;
	snprintf(endpoint.host, sizeof(endpoint.host), "%s", engine->config.listen_address);
	ret = otte_endpoint_resolve(&endpoint, true, &addresses);
	if (ret)
		return otte_fail_within(ret, "listen.address: ");
	for (i = 0; i < addresses.count && fd < 0; i++)
		fd = listen_on(&addresses.list[i]);
	if (fd < 0)
		return otte_fail(fd, "listen.address %s, listen.port %u: %m",
				 engine->config.listen_address, engine->config.listen_port);
	ret = advertise(engine, fd);
	if (ret) {
		otte_fd_close(fd);
		return ret;
	}
	*out = fd;
	return 0;
}

/* ---- Handlers ---- */

static int describe(void *arg, uint64_t after, struct otte_region_info *rows, size_t capacity,
		    struct otte_regions *regions)
{
	return otte_region_describe(arg, after, rows, capacity, regions);
}

static void stats(void *arg, struct otte_stats *out)
{
	otte_engine_tell_stats(arg, out);
}

static void fill_server(struct otte_engine *engine)
{
	struct otte_control_server *server = &engine->server;

	server->loop = &engine->serve_loops[0];
	server->identity = &engine->identity;
	server->keys = &engine->keys;
	server->attestor = &engine->attestor;
	server->max_connections = engine->config.control_connections;
	server->max_payload = engine->config.control_frame_bytes;
	server->max_lanes = OTTE_SOURCE_LANES_MAX;
	server->timeout_ns = engine->config.control_timeout_ns;
	server->handlers = (struct otte_control_handlers){
		.arg = engine,
		.opened = otte_source_opened,
		.closed = otte_source_closed,
		.lane = otte_source_lane,
		.describe = describe,
		.stats = stats,
		.notify = otte_notify_receive,
	};
}

/* ---- Threads ---- */

static void tick(struct otte_engine *engine, unsigned index, uint64_t now_ns)
{
	engine->transport->ops->source_tick(engine->transport, index, now_ns);
	if (index)
		return;
	otte_attestor_drain(engine);
	otte_source_tick(engine);
	if (atomic_exchange(&engine->serve_bye, false))
		otte_control_server_bye(&engine->server);
	otte_control_server_tick(&engine->server, now_ns);
	otte_stats_socket_tick(engine->stats_socket);
}

static void timer_ready(struct otte_watch *watch, uint32_t events)
{
	struct otte_serve_thread *self = container_of(watch, struct otte_serve_thread, timer);
	uint64_t count;

	(void)events;
	self->due = read(watch->fd, &count, sizeof(count)) > 0;
}

/* A timer set once a tick, and not a limit to each wait: that would cost every request one. */
static void set_timer(struct otte_serve_thread *self, uint64_t at_ns)
{
	const struct itimerspec when = {
		.it_value = { (time_t)(at_ns / NSEC_PER_SEC), (long)(at_ns % NSEC_PER_SEC) },
	};

	self->due = false;
	self->timer_ns = at_ns;
	timerfd_settime(self->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void *serve_main(void *arg)
{
	struct otte_serve_thread *self = arg;
	struct otte_engine *engine = self->engine;

	self->due = true;
	while (!atomic_load(&engine->serve_stop)) {
		if (self->due || (!self->index && atomic_load(&engine->serve_bye))) {
			uint64_t now_ns = otte_now_ns();

			tick(engine, self->index, now_ns);
			set_timer(self, now_ns + TICK_MS * NSEC_PER_MSEC);
		}
		/* What came in since may have a limit of its own. */
		if (!self->index && engine->server.due_ns < self->timer_ns)
			set_timer(self, engine->server.due_ns);
		otte_loop_run(&engine->serve_loops[self->index], -1);
	}
	return NULL;
}

static int open_loop(struct otte_engine *engine, unsigned index)
{
	struct otte_serve_thread *self = &engine->serve_threads[index];
	struct otte_loop *loop = &engine->serve_loops[index];
	int ret;

	self->engine = engine;
	self->index = index;
	self->timer.ready = timer_ready;
	ret = otte_loop_init(loop);
	if (ret)
		return ret;
	self->timer.fd = otte_fd_timer();
	if (self->timer.fd < 0)
		ret = otte_fail(-errno, "timerfd_create: %m");
	else
		ret = otte_loop_add(loop, &self->timer, EPOLLIN);
	if (ret) {
		otte_fd_close(self->timer.fd);
		otte_loop_fini(loop);
	}
	return ret;
}

static void close_loop(struct otte_engine *engine, unsigned index)
{
	otte_fd_close(engine->serve_threads[index].timer.fd);
	otte_loop_fini(&engine->serve_loops[index]);
}

int otte_serve_open(struct otte_engine *engine)
{
	unsigned i, count = engine->config.tcp_workers;
	int fd, ret = 0;

	for (i = 0; i < count; i++) {
		ret = open_loop(engine, i);
		if (ret)
			goto fini_loops;
	}
	engine->serve_count = count;
	ret = open_listener(engine, &fd);
	if (ret)
		goto fini_loops;
	fill_server(engine);
	ret = otte_control_server_open(&engine->server, fd);
	if (ret)
		goto close_listener;
	ret = otte_stats_socket_open(engine, &engine->stats_socket);
	if (ret)
		goto close_server;
	return 0;

close_server:
	fd = -1;
	otte_control_server_close(&engine->server);
close_listener:
	if (fd >= 0)
		otte_fd_close(fd);
fini_loops:
	while (i)
		close_loop(engine, --i);
	return ret;
}

int otte_serve_start(struct otte_engine *engine)
{
	unsigned i;
	int ret;

	for (i = 0; i < engine->serve_count; i++) {
		struct otte_serve_thread *self = &engine->serve_threads[i];

		ret = otte_thread_start(&self->thread, "otte-serve", serve_main, self);
		if (ret) {
			engine->serve_count = i;
			otte_serve_stop(engine);
			engine->serve_count = engine->config.tcp_workers;
			return ret;
		}
	}
	return 0;
}

void otte_serve_stop(struct otte_engine *engine)
{
	unsigned i;

	atomic_store(&engine->serve_stop, true);
	for (i = 0; i < engine->serve_count; i++)
		otte_loop_wake(&engine->serve_loops[i]);
	for (i = 0; i < engine->serve_count; i++)
		pthread_join(engine->serve_threads[i].thread, NULL);
}

void otte_serve_close(struct otte_engine *engine)
{
	unsigned i;

	otte_stats_socket_close(engine->stats_socket);
	for (i = 0; i < engine->config.tcp_workers; i++)
		close_loop(engine, i);
}

void otte_serve_say_bye(struct otte_engine *engine)
{
	atomic_store(&engine->serve_bye, true);
	otte_loop_wake(&engine->serve_loops[0]);
}
