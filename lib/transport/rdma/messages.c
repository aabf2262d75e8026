/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/messages.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/error.h"
#include "transport/rdma/binding.h"

/* A place: whole cache lines, so that none is written by the device and read by us. */
#define PLACE_BYTES 192

_Static_assert(PLACE_BYTES >= OTTE_RDMA_BINDING_BYTES && PLACE_BYTES % 64 == 0, "a place");

static int no_memory(size_t bytes)
{
	return otte_fail(-ENOMEM, "rdma: no memory for %zu bytes of messages", bytes);
}

/* A child of fork() has no copy of them, so the device's stay the parent's. */
static int map(struct otte_rdma_messages *messages)
{
	void *pages = mmap(NULL, messages->bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return no_memory(messages->bytes);
	if (madvise(pages, messages->bytes, MADV_DONTFORK)) {
		munmap(pages, messages->bytes);
		return no_memory(messages->bytes);
	}
	messages->pages = pages;
	return 0;
}

static void unmap(struct otte_rdma_messages *messages)
{
	munmap(messages->pages, messages->bytes);
	*messages = (struct otte_rdma_messages){};
}

int otte_rdma_messages_open(struct otte_rdma_messages *messages, struct otte_rdma_context *context,
			    struct ibv_pd *pd, uint32_t places)
{
	struct otte_rdma_mr_spec spec = { .access = IBV_ACCESS_LOCAL_WRITE, .pd = pd };
	int rc;

	*messages = (struct otte_rdma_messages){ .bytes = (size_t)places * PLACE_BYTES };
	if (!places)
		return 0;
	rc = map(messages);
	if (rc)
		return rc;
	spec.at = messages->pages;
	spec.bytes = messages->bytes;
	rc = otte_rdma_mr_make(context, &spec, &messages->mr);
	if (rc)
		unmap(messages);
	return rc;
}

int otte_rdma_messages_close(struct otte_rdma_messages *messages)
{
	int rc = otte_rdma_mr_release(&messages->mr);

	if (!rc && messages->pages)
		unmap(messages);
	return rc;
}

uint8_t *otte_rdma_messages_at(const struct otte_rdma_messages *messages, uint32_t place)
{
	return messages->pages + (size_t)place * PLACE_BYTES;
}

struct ibv_sge otte_rdma_messages_sge(const struct otte_rdma_messages *messages, uint32_t place)
{
	return (struct ibv_sge){
		.addr = (uint64_t)(uintptr_t)otte_rdma_messages_at(messages, place),
		.length = OTTE_RDMA_BINDING_BYTES,
		.lkey = messages->mr.native->lkey,
	};
}
