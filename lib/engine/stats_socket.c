/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "engine/stats_socket.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/stats.h"

#define NAMES_TRIED 16

struct otte_stats_socket {
	struct otte_watch watch;
	struct otte_engine *engine;
	bool paused; /* not in the loop: there was no descriptor for a caller */
};

static bool may_see(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
		return false;
	return peer.uid == 0 || peer.uid == geteuid();
}

static void answer(struct otte_stats_socket *self, int fd)
{
	struct otte_stats stats = { .size = sizeof(stats) };
	char *text;

	otte_engine_fill_stats(self->engine, &stats);
	text = otte_stats_json(self->engine, &stats);
	/* A text of this size fits a fresh socket's buffer; one who does not read loses it. */
	if (text && send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		otte_log(OTTE_LOG_DEBUG, "stats socket: %m");
	free(text);
}

static void accept_ready(struct otte_watch *watch, uint32_t events)
{
	struct otte_stats_socket *self = container_of(watch, struct otte_stats_socket, watch);
	int fd;

	(void)events;
	fd = otte_fd_accept(watch->fd);
	if (fd < 0) {
		/* The caller still waits; asking again at once would only turn the loop. */
		self->paused = errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			       errno == ENOMEM;
		if (self->paused)
			otte_loop_remove(&self->engine->serve_loops[0], watch);
		return;
	}
	if (may_see(fd))
		answer(self, fd);
	otte_fd_close(fd);
}

void otte_stats_socket_tick(struct otte_stats_socket *self)
{
	if (self && self->paused)
		self->paused = otte_loop_add(&self->engine->serve_loops[0], &self->watch, EPOLLIN) != 0;
}

static int bind_name(int fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int i, n;

	for (i = 0; i < NAMES_TRIED; i++) {
		n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			     i ? "otte/%d.%d" : "otte/%d", (int)getpid(), i);
		if (bind(fd, (struct sockaddr *)&address,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
			return listen(fd, 8) < 0 ? otte_fail(-errno, "stats socket: listen: %m") : 0;
		if (errno != EADDRINUSE)
			return otte_fail(-errno, "stats socket: bind: %m");
	}
	return -EADDRINUSE;
}

int otte_stats_socket_open(struct otte_engine *engine, struct otte_stats_socket **out)
{
	struct otte_stats_socket *self;
	int ret;

	*out = NULL;
	if (!engine->config.stats_socket)
		return 0;
	self = calloc(1, sizeof(*self));
	if (!self)
		return otte_fail(-ENOMEM, "no memory for the stats socket");
	self->engine = engine;
	self->watch.ready = accept_ready;
	self->watch.fd = otte_fd_socket(AF_UNIX, SOCK_STREAM);
	if (self->watch.fd < 0) {
		ret = otte_fail(-errno, "stats socket: %m");
		goto free_self;
	}
	ret = bind_name(self->watch.fd);
	if (ret == -EADDRINUSE) {
		/* So many engines in one process: the others answer for themselves. */
		otte_log(OTTE_LOG_INFO, "no name is left for a stats socket");
		otte_fd_close(self->watch.fd);
		free(self);
		return 0;
	}
	if (!ret)
		ret = otte_loop_add(&engine->serve_loops[0], &self->watch, EPOLLIN);
	if (ret)
		goto close_fd;
	*out = self;
	return 0;

close_fd:
	otte_fd_close(self->watch.fd);
free_self:
	free(self);
	return ret;
}

void otte_stats_socket_close(struct otte_stats_socket *self)
{
	if (!self)
		return;
	otte_loop_remove(&self->engine->serve_loops[0], &self->watch);
	otte_fd_close(self->watch.fd);
	free(self);
}
