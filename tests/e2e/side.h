/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One side of a transfer: an engine with one region, and perhaps a segment on another one's.
 *
 * The same object serves a test's own process and a child in the role "side", which does what it is told:
 *
 *   open ADDRESS REGION            ok 0 | error CODE
 *   run OP LOCAL REMOTE LENGTH N   N requests, LENGTH apart, in one batch: see side_run()
 *   submit (as run)                the same without waiting; wait MS
 *   stats                          counters, fds
 *   close DIRECTIONS MS            code N
 *   exhaust N                      all descriptors but N are taken: "code 0"
 *   release                        and given back
 *   cpu                            "cpu MS" used by the process so far
 *   quit                           everything is given back: ended CODE
 */
#ifndef OTTE_TESTS_SIDE_H
#define OTTE_TESTS_SIDE_H

#include "otte/otte.h"
#include "process.h"

struct side {
	struct otte_engine *engine;
	struct otte_mem *mem;
	struct otte_region *region;
	uint8_t *bytes;
	uint64_t size;
	char address[OTTE_ADDRESS_MAX];
	struct otte_segment *segment;
	uint64_t remote;             /* the region there */
	struct otte_batch *batch;
	int64_t due_ns;              /* after its submission a batch is overdue; 0: as the keys say */
};

/* What became of a batch. */
struct outcome {
	struct otte_batch_status status;
	struct otte_failure failure; /* of the first that failed; code 0: none */
	int code;                    /* of the submission, or of the wait */
};

/*
 * `keys` are words "group.key=value" and "ledger=KIND" on top of the defaults, and "deaf": without a
 * listener; "adopted": memory is mapped here and not by the engine, which may lease it then. fd -1: memory of the
 * engine's own.
 */
int side_open(struct side *side, const char *keys, int fd, uint64_t size);
int side_connect(struct side *side, const char *address, uint64_t epoch, uint64_t region);
void side_disconnect(struct side *side);
/* Gives everything back; the first error, 0 if none. */
int side_close(struct side *side);

struct otte_request side_request(const struct side *side, uint8_t op, uint64_t local,
				 uint64_t remote, uint64_t length);
int side_submit(struct side *side, uint8_t op, uint64_t local, uint64_t remote, uint64_t length,
		unsigned count);
struct outcome side_wait(struct side *side, int64_t timeout_ns);
struct outcome side_run(struct side *side, uint8_t op, uint64_t local, uint64_t remote,
			uint64_t length, unsigned count);
struct otte_stats side_stats(const struct side *side);
/* A write, a read back and a comparison of 64 KiB at the start of the region. */
bool side_probe(struct side *side);

/* Bytes that say where they are. */
void fill(uint8_t *bytes, uint64_t size, uint8_t salt);
bool filled(const uint8_t *bytes, uint64_t size, uint8_t salt);

/* A child in the role "side" that has opened; where it is reached. */
struct remote {
	struct child child;
	char address[OTTE_ADDRESS_MAX];
	uint64_t region, epoch;
};

void remote_start(struct remote *remote, const char *keys, int fd, uint64_t size);
/* For main(): true if this process is a child in a role of this file; *status is its exit status. */
bool side_role(int argc, char **argv, int *status);

#endif
