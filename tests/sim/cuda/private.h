/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the simulated driver consists of. One lock, sim.lock, is over all of it; it is held in every entry point from
 * sim_begin() to sim_end(), and let go of by a sleep and by the thread that does the work, while it moves bytes.
 *
 * Handles are pointers to the structs here, and are looked for in the lists before they are followed: one that is
 * not there is an error, as with the driver.
 */
#ifndef OTTE_TESTS_SIM_CUDA_PRIVATE_H
#define OTTE_TESTS_SIM_CUDA_PRIVATE_H

#include <pthread.h>
#include <sys/types.h>

#include "sim/cuda/sim.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEVICES 8
/* Where a device reaches pinned memory, relative to where the CPU does. */
#define ALIAS_OFFSET (1ull << 56)

struct sim_settings {
	uint64_t devices, version, memory_mib, multiprocessors, delay_us, seed, alias, unreachable,
		dma_buf, ipc;
};

/* A context: a device's primary one, which is there while it is retained, or one of a test's. */
struct sim_context {
	struct sim_context *next;
	CUdevice device;
	bool primary;
	unsigned int retained;
	CUresult spoiled; /* what each call in it comes to; 0: it is well */
};

/* Bytes of a device or of the host that the driver knows of. */
enum sim_block_kind {
	SIM_DEVICE,
	SIM_MANAGED,
	SIM_MAPPED, /* by handles */
	SIM_IMPORTED, /* of another process */
	SIM_HOST,
	SIM_REGISTERED,
};

struct sim_block {
	struct sim_block *next;
	enum sim_block_kind kind;
	CUdevice device;
	struct sim_context *context; /* NULL: none's */
	uint64_t address; /* as programs see it */
	size_t size; /* asked for */
	size_t span; /* of its mappings */
	uint8_t *bytes; /* where the simulator reaches them */
	int fd; /* memfd behind a device's; -1 */
	int access; /* CUmemAccess_flags */
	unsigned int opened; /* imports: how often */
	char identity[64]; /* and by which handle */
	unsigned long long id;
	unsigned int busy; /* work that moves bytes of it right now */
	bool sync_memops;
};

/*
 * A stream: its work in order. Destroyed ones are there until their work is done, but no longer found. A blocking one
 * and the legacy one of a context wait for each other.
 */
enum sim_stream_kind {
	SIM_STREAM_BLOCKING,
	SIM_STREAM_NON_BLOCKING,
	SIM_STREAM_LEGACY,
	SIM_STREAM_THREAD,
};

struct sim_stream {
	struct sim_stream *next;
	struct sim_context *context;
	enum sim_stream_kind kind;
	uint64_t thread; /* whose, of a thread's own */
	bool destroyed, capturing, held;
	unsigned int steps; /* that a held one may go */
	struct sim_work *first, **last;
};

/* An event; it is there until nobody's work names it. */
struct sim_event {
	struct sim_event *next;
	struct sim_context *context;
	unsigned int flags;
	uint64_t recorded, passed; /* how often */
	uint64_t passed_ns; /* when it was last */
	unsigned int named; /* by work */
	bool destroyed;
};

enum sim_work_kind {
	SIM_COPY,
	SIM_KERNEL,
	SIM_RECORD,
	SIM_WAIT,
};

struct sim_work {
	struct sim_work *next;
	enum sim_work_kind kind;
	uint64_t number; /* in the order of the calls */
	/* SIM_COPY: `rows` of `bytes`. */
	uint64_t to, from, to_pitch, from_pitch;
	size_t bytes, rows;
	bool to_pageable, from_pageable; /* memory that the driver does not know */
	/* SIM_KERNEL */
	struct sim_launch *launch;
	unsigned int ctas;
	/* SIM_RECORD, SIM_WAIT */
	struct sim_event *event;
	uint64_t count; /* that `passed` is to reach */
};

struct sim {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* work was done, or can be */
	pid_t pid; /* that initialised it; 0 */
	struct sim_settings settings;
	struct sim_context *contexts;
	struct sim_block *blocks;
	struct sim_stream *streams;
	struct sim_event *events;
	unsigned int modules;
	unsigned int handles, reserved;
	uint64_t ids, numbers; /* given so far */
	bool held; /* all streams */
	bool worker; /* the thread runs */
	bool moving; /* it is moving bytes, without the lock */
	unsigned int work; /* under way */
	unsigned int not_ready;
	unsigned int fail_work_in; /* 1: the next; 0: none */
	CUresult fail_work_with;
	bool fail_batch;
	size_t fail_batch_at;
	CUresult fail_batch_with;
	unsigned int violations;
	char violation[128];
	unsigned long pageable;
};

extern struct sim sim;

/* ---- Calls (calls.c) ------------------------------------------------------------------------- */

enum sim_needs {
	SIM_NOTHING, /* not even cuInit() */
	SIM_INIT,
	SIM_CONTEXT, /* a current one that is well */
};

/* 0, with the lock; else what the call comes to, without it. */
CUresult sim_begin(const char *name, enum sim_needs needs);
/* Of this call, for the log. */
struct sim_cuda_call *sim_call(void);
CUresult sim_end(CUresult result);
void sim_calls_reset(void);
void sim_violate(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Settings (settings.c) ------------------------------------------------------------------- */

void sim_settings_read(void);
bool sim_attribute_given(CUdevice_attribute attribute, int *value);
void sim_attributes_reset(void);

/* ---- Contexts (context.c) -------------------------------------------------------------------- */

struct sim_context *sim_context_find(CUcontext handle);
/* The one that is current in the calling thread; NULL. */
struct sim_context *sim_context_current(void);
uint64_t sim_thread_number(void);

/* ---- Memory (memory.c, pinned.c) ------------------------------------------------------------- */

/* Of a device or the host, which holds all of [address, +size); NULL. */
struct sim_block *sim_block_find(uint64_t address, size_t size);
struct sim_block *sim_block_at(uint64_t address);
/* Memory of a device from `fd`, at an address that the CPU cannot touch. */
CUresult sim_block_map(struct sim_context *context, CUdevice device, enum sim_block_kind kind,
		       size_t size, int fd, struct sim_block **block);
/* As sim_block_map(), at an address that was reserved; the descriptor stays the caller's. */
CUresult sim_block_map_at(CUdevice device, uint64_t address, size_t size, size_t offset, int fd);
/* A memfd of so many bytes that says what it is to who imports it; -1. */
int sim_file_make(CUdevice device, size_t size);
/* What a descriptor says of itself: false, it is none of these. */
bool sim_file_read(int fd, CUdevice *device, size_t *size, unsigned long long *id);
void sim_block_unlink(struct sim_block *block);
/* Whoever moves bytes of it is done; then it goes, with its mappings. */
void sim_block_drop(struct sim_block *block);
uint64_t sim_device_bytes(CUdevice device);
/* Whether work names [address, +size). */
bool sim_work_names(uint64_t address, size_t size);
/* Where the simulator reaches an address, the device's alias of pinned memory too; `*block`: that it is in. */
uint8_t *sim_reach(uint64_t address, size_t size, struct sim_block **block);
bool sim_is_pinned(uint64_t address, size_t size);

/* ---- Streams, events and work (stream.c, event.c, work.c) ------------------------------------ */

/* What a handle means in the calling thread; NULL: none. */
struct sim_stream *sim_stream_find(CUstream handle);
/* A stream of the context that is current which takes work; else why not. */
CUresult sim_stream_for_work(CUstream handle, struct sim_stream **stream);
/* What it still has to do is not done. */
void sim_stream_forget(struct sim_stream *stream);
void sim_streams_drop(struct sim_context *context);
void sim_stream_drained(struct sim_stream *stream);
struct sim_event *sim_event_find(CUevent handle);
void sim_event_unname(struct sim_event *event);

/* Puts a copy of *work on the stream. The lock is held. */
CUresult sim_work_put(struct sim_stream *stream, const struct sim_work *work);
/* Sleeps until the stream has done all that it has now, or its context is spoiled. */
CUresult sim_stream_wait(struct sim_stream *stream);

/* ---- The kernel (kernel.c) ------------------------------------------------------------------- */

/* What of the launch's memory is there: reads its rows. 0, or what spoils the context. */
CUresult sim_launch_run(struct sim_launch *launch, unsigned int ctas);
void sim_launch_free(struct sim_launch *launch);
bool sim_launch_names(const struct sim_launch *launch, uint64_t address, size_t size);

#endif
