/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The library's long-lived descriptors, so that a forked child does not keep them open.
 *
 * A socket lives until its last copy is closed. A child that knew nothing of its parent's connections
 * would keep them up after the parent's death, and peers would wait for an answer that nobody gives. So
 * every descriptor that outlasts a call is opened and closed here: a child closes them all before
 * fork() returns in it. Opening and marking are one step under one lock, which fork() takes as well;
 * no fork sees a descriptor that is open and not marked, or marked and another file by now.
 *
 * Those that another library opens and closes are marked while they are open: a fork in between does not see them.
 *
 * All descriptors are close-on-exec, and all but epoll sets and netlink sockets are non-blocking. On failure:
 * -1 and errno.
 */
#ifndef OTTE_BASE_FD_H
#define OTTE_BASE_FD_H

#include <stdint.h>

int otte_fd_socket(int domain, int type);
int otte_fd_accept(int listener);
int otte_fd_eventfd(unsigned count);
int otte_fd_epoll(void);
/* On CLOCK_MONOTONIC. */
int otte_fd_timer(void);
/* A memfd of `length` bytes that can neither shrink nor grow. */
int otte_fd_memfd(const char *name, uint64_t length);
/* The process that opened the other end of a UNIX socket: readable once it has ended. */
int otte_fd_peer_pid(int socket);
int otte_fd_dup(int fd);
int otte_fd_open(const char *path, int flags);
/* Of a netlink protocol; who asks limits its waiting. */
int otte_fd_netlink(int protocol);
void otte_fd_close(int fd);
/* Another library's. -ENOMEM: it is not marked. Forgotten before it is closed there; one that is not marked may be. */
int otte_fd_mark(int fd);
void otte_fd_forget(int fd);

/* Around fork(); who forks calls them, see engine/fork.c. */
void otte_fd_before_fork(void);
void otte_fd_after_fork_in_parent(void);
void otte_fd_after_fork_in_child(void);

#endif
