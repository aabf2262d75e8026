/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The first program: one engine publishes a block of memory, another one reads it and writes it back.
 *
 *   cc first.c -o first $(pkg-config --cflags --libs libotte) && ./first
 *
 * Both engines live in this process to keep the example in one file. In earnest they are two programs,
 * on one host or two; all that passes between them is the text of otte_engine_descriptor().
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <otte/otte.h>

#define BLOCK_BYTES (1u << 20)
#define SECOND_NS 1000000000ll

static void must(int code, const char *what)
{
	if (code == 0)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, otte_strerror(code), otte_error_text());
	exit(1);
}

/* An engine with one block of memory that peers may use as `access` says. */
static void *publish(struct otte_engine *engine, uint32_t access, struct otte_mem **mem,
		     struct otte_region **region)
{
	struct otte_region_desc desc = { .length = BLOCK_BYTES, .access = access, .name = "block" };

	must(otte_mem_alloc(engine, BLOCK_BYTES, 0, mem), "memory");
	desc.mem = *mem;
	must(otte_region_register(engine, &desc, 1, region), "region");
	return otte_mem_address(*mem);
}

static void move(struct otte_batch *batch, const struct otte_request *request)
{
	struct otte_task task;

	must(otte_batch_submit(batch, request, 1), "submit");
	must(otte_batch_wait(batch, 10 * SECOND_NS), "wait");
	must(otte_batch_task(batch, 0, &task), "task");
	must(task.code, "transfer");
	must(otte_batch_reset(batch), "reset");
	printf("%s %u KiB in %.0f us\n", request->op == OTTE_READ ? "read" : "wrote",
	       BLOCK_BYTES / 1024, (double)task.latency_ns / 1000);
}

int main(void)
{
	struct otte_engine *source, *user;
	struct otte_mem *there, *here;
	struct otte_region *shared, *local;
	struct otte_segment *segment;
	struct otte_region_info published;
	struct otte_request request;
	struct otte_batch *batch;
	char descriptor[OTTE_DESCRIPTOR_MAX];
	unsigned char *far, *near;
	size_t count;

	/* The side that owns the bytes. NULL: default configuration, a free port on loopback. */
	must(otte_engine_create(NULL, &source), "source");
	far = publish(source, OTTE_REMOTE_READ | OTTE_REMOTE_WRITE, &there, &shared);
	memset(far, 'k', BLOCK_BYTES);
	must(otte_engine_descriptor(source, descriptor, sizeof(descriptor)), "descriptor");

	/* The side that wants them. */
	must(otte_engine_create(NULL, &user), "user");
	near = publish(user, OTTE_LOCAL_ONLY, &here, &local);
	must(otte_segment_open(user, descriptor, OTTE_EPOCH_ANY, 5 * SECOND_NS, &segment), "segment");
	must(otte_segment_describe(segment, 5 * SECOND_NS, &published, 1, &count), "describe");
	must(otte_batch_create(user, 1, &batch), "batch");

	request = (struct otte_request){
		.segment = segment,
		.local = local,
		.remote_region = published.id,
		.length = BLOCK_BYTES,
		.op = OTTE_READ,
	};
	move(batch, &request);
	if (memcmp(near, far, BLOCK_BYTES) != 0)
		return 1;

	memset(near, 'v', BLOCK_BYTES);
	request.op = OTTE_WRITE;
	move(batch, &request);
	if (memcmp(near, far, BLOCK_BYTES) != 0)
		return 1;

	/* Everything is given back in the opposite order. */
	must(otte_batch_destroy(batch), "batch");
	must(otte_segment_close(segment), "segment");
	must(otte_region_unregister(&local, 1, SECOND_NS, NULL), "region");
	must(otte_mem_release(here), "memory");
	must(otte_engine_destroy(user), "user");
	must(otte_region_unregister(&shared, 1, SECOND_NS, NULL), "region");
	must(otte_mem_release(there), "memory");
	must(otte_engine_destroy(source), "source");
	puts("both blocks are equal");
	return 0;
}
