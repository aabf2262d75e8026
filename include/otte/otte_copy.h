/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies of many rows between a GPU and pinned host memory, on a stream of the caller's.
 *
 *   otte_copier   one worker, bound to one stream: its budget, its slots, its counters
 *   otte_copy     the completion of one submission
 *
 * A copier decides by itself how rows are moved: those that lie one behind the other are joined to
 * few copies of the driver's (1D, 2D, many in one call); many that do not are moved by one kernel,
 * which reads and writes the host's memory itself and leaves all but a few CTAs of the GPU to
 * others. Nothing of CUDA is wanted to build or run but libcuda.so.1.
 *
 * Conventions are those of otte.h and otte_cuda.h. Work that was queued on the stream before a
 * submission comes before it, and work that is queued after, behind it: the bytes may be read there
 * without waiting for the completion here. Who touches them elsewhere waits for the completion.
 * Conflicts with requests over the network are the caller's to avoid.
 */
#ifndef OTTE_OTTE_COPY_H
#define OTTE_OTTE_COPY_H

#include <otte/otte.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct CUevent_st;

struct otte_copier;
struct otte_copy;

enum otte_copy_direction {
	OTTE_COPY_TO_DEVICE = 0,
	OTTE_COPY_TO_HOST = 1,
};

enum otte_copy_mode {
	OTTE_COPY_AUTO = 0,
	OTTE_COPY_DMA = 1,    /* copies of the driver's alone */
	OTTE_COPY_KERNEL = 2, /* or fail */
};

/* What a submission was carried out by. */
enum otte_copy_backend {
	OTTE_COPY_NOTHING = 0, /* no bytes: a marker on the stream is all */
	OTTE_COPY_BY_DMA = 1,
	OTTE_COPY_BY_KERNEL = 2,
};

/* Why one that was free to choose was not the kernel's: the first that holds. */
enum otte_copy_reason {
	OTTE_COPY_NO_REASON = 0,
	OTTE_COPY_BELOW_THRESHOLD = 1,
	OTTE_COPY_BACKGROUND = 2, /* enough operations for others, not for who can wait */
	OTTE_COPY_LONG_ROWS = 3,
	OTTE_COPY_OVERLAP = 4,    /* destinations meet: they are written in order */
	OTTE_COPY_NO_IMAGE = 5,   /* the driver did not load the kernel */
	OTTE_COPY_NO_MAPPING = 6, /* the device does not reach the host memory */
	OTTE_COPY_NO_ROOM = 7,    /* for the rows' upload, in the budget of bytes */
};

#define OTTE_COPY_NEVER UINT64_MAX

/* Set `size`, or call otte_copier_config_init(), which also sets what is said here. */
struct otte_copier_config {
	uint32_t size;
	uint32_t mode;                 /* OTTE_COPY_AUTO; enum otte_copy_mode */
	/*
	 * The kernel takes what comes to so many of the driver's operations; of copies to the host
	 * that nobody waits for (checkpoint, migration, background prefetch) what comes to
	 * threshold_background, which is above the other.
	 */
	uint64_t threshold;            /* 128 operations */
	uint64_t threshold_background; /* OTTE_COPY_NEVER */
	uint64_t max_bytes;            /* 256 MiB under way, with 48 bytes a row that a kernel may have */
	uint32_t max_rows;             /* 4,096 a submission, and as many descriptors; 1 .. 2^20 */
	uint32_t slots;                /* 4 submissions under way; 1 .. 1024 */
	/*
	 * CTAs of a kernel, at most: 1 .. 65,535 or what the device's grid can have; 0: as many as
	 * reach what the link gives on such a device, by measurement.
	 */
	uint32_t cta_limit;            /* 0 */
	uint32_t wide;                 /* 0; 1: four CTAs for each multiprocessor, within cta_limit */
};

/* Defaults for all of the first `size` bytes. -EINVAL: `size` does not cover itself. */
OTTE_API int otte_copier_config_init(struct otte_copier_config *config, uint32_t size);

/*
 * Bind a worker to `stream`, of the context that the device memory `mem` is of, and whose owner
 * keeps it until the copier is destroyed. NULL, legacy and per-thread streams are those of the
 * context that is current; a per-thread stream is submitted to by the thread that bound it alone.
 * `config` may be NULL. -EINVAL: a value of the config, by name, or another context's stream;
 * -ERANGE: cta_limit; -EBUSY: the stream is capturing; -ENOSYS: the kernel is forced, and the
 * driver does not load it; -EOPNOTSUPP: `mem` is not a device's. What a bind waits for is memory
 * alone: nothing is put on the stream.
 */
OTTE_API int otte_copier_bind(struct otte_mem *mem, struct CUstream_st *stream,
			      const struct otte_copier_config *config, struct otte_copier **copier);

/*
 * `rows` rows of `bytes`, the first at the offsets into two registered views, each row a pitch
 * behind the one before. Pitches are unused with one row, and may be less than `bytes`: rows may
 * overlap, and are copied in order. No rows, or no bytes, are nothing.
 */
struct otte_copy_desc {
	struct otte_region *device, *host;
	uint64_t device_offset, host_offset;
	uint64_t bytes, rows;
	uint64_t device_pitch, host_pitch;
};

/* All zero is the default. */
struct otte_copy_options {
	uint32_t intent;           /* enum otte_intent */
	uint32_t priority;         /* enum otte_priority: a label for counters, no order */
	struct CUevent_st *ready;  /* the copies wait for what it was recorded for; or NULL */
};

/*
 * Put `count` descriptors on the stream, as if each row were copied after the other, and behind
 * what producers of the views were recorded for (otte_cuda_record()). The views stay registered
 * until the completion: who unregisters one waits. `options` and `copy` may be NULL; without `copy`
 * nobody is told of the completion.
 *
 * 0: all of it is on the stream. -EINVAL: a view of another engine, not of this copier's context,
 * or not of pinned host memory; a row is copied onto a part of itself; an intent or priority that
 * is none; a per-thread stream of another thread; a forced kernel and rows that meet, or memory
 * that it does not reach. -ENOENT: a view is unregistered; -ESTALE: its memory was unmapped.
 * -ERANGE: a row is not within its views. -EDQUOT: rows, bytes or slots, by name. -EBUSY: the
 * stream is capturing. -ESHUTDOWN: closed. With all of these nothing was put on the stream. What
 * the driver refuses in the middle is an error here, too; some bytes may have moved then, and *copy
 * completes with that error, once the stream has passed what was put there. -EUCLEAN: what
 * this or an earlier submission put on the stream cannot be proven done any more: this copier takes
 * nothing further.
 */
OTTE_API int otte_copier_submit(struct otte_copier *copier, enum otte_copy_direction direction,
				const struct otte_copy_desc *descs, size_t count,
				const struct otte_copy_options *options, struct otte_copy **copy);

/* Look after submissions whose handles were put before they were done. 0, or -EUCLEAN. */
OTTE_API int otte_copier_progress(struct otte_copier *copier);

/* 0: the bytes are there; -EAGAIN: not yet; the error of a submission that failed; -EUCLEAN. */
OTTE_API int otte_copy_poll(struct otte_copy *copy);
/* The same, after at most `timeout_ns` (negative: for ever); -ETIMEDOUT instead of -EAGAIN. */
OTTE_API int otte_copy_wait(struct otte_copy *copy, int64_t timeout_ns);
/* Give the handle back, done or not, before or after the copier. NULL is allowed. */
OTTE_API void otte_copy_put(struct otte_copy *copy);

/*
 * Admit nothing more and wait until everything is done, at most `timeout_ns`. -ETIMEDOUT: call
 * again. -EUCLEAN: drained but for what cannot be proven done.
 */
OTTE_API int otte_copier_close(struct otte_copier *copier, int64_t timeout_ns);

/*
 * Close, wait as otte_copier_close() does, and free the copier. -EUCLEAN: what is not proven done
 * by then keeps its views, its events and its rows for as long as the process lives, listed in the
 * ledger as retained; the copier is gone all the same, and handles say -EUCLEAN. NULL is allowed.
 */
OTTE_API int otte_copier_destroy(struct otte_copier *copier, int64_t timeout_ns);

/* What was decided for one direction, intent and priority; and the latest submission of it. */
struct otte_copy_class {
	uint64_t dma, kernel, empty; /* submissions */
	uint64_t batches;            /* calls of the driver's that took many copies */
	uint64_t ctas;               /* launched */
	uint32_t last_backend;       /* enum otte_copy_backend */
	uint32_t last_reason;        /* enum otte_copy_reason */
	uint32_t last_ctas;
	uint32_t reserved;
};

#define OTTE_COPY_DIRECTIONS 2
#define OTTE_COPY_INTENTS 7
#define OTTE_COPY_PRIORITIES 3

struct otte_copier_stats {
	uint32_t size;
	uint32_t slots_used;
	uint64_t bytes_charged;      /* of max_bytes */
	uint64_t submitted, completed, failed;
	uint32_t unquiesced;         /* submissions that cannot be proven done */
	uint32_t reserved;
	struct otte_copy_class classes[OTTE_COPY_DIRECTIONS][OTTE_COPY_INTENTS][OTTE_COPY_PRIORITIES];
};

/* Fills the first stats->size bytes. Calls nothing of CUDA's. */
OTTE_API int otte_copier_stats(struct otte_copier *copier, struct otte_copier_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
