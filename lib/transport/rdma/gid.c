/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/gid.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "otte/otte.h"

/* More than any device has; a bound on what a broken one has us look at. */
#define TABLE_MAX 4096

static int call_failed(const char *call, int index, int error)
{
	return otte_fail(error > 0 ? -error : -EIO, "GID %d: %s: %s", index, call,
			 strerror(error > 0 ? error : EIO));
}

static int is_empty(int index)
{
	return otte_fail(-ENODATA, "GID %d is empty", index);
}

/* ---- One entry ------------------------------------------------------------------------------- */

static int take_type(uint32_t native, int index, enum otte_rdma_gid_type *type)
{
	switch (native) {
	case IBV_GID_TYPE_IB:
		*type = OTTE_RDMA_GID_IB;
		return 0;
	case IBV_GID_TYPE_ROCE_V1:
		*type = OTTE_RDMA_GID_ROCE_V1;
		return 0;
	case IBV_GID_TYPE_ROCE_V2:
		*type = OTTE_RDMA_GID_ROCE_V2;
		return 0;
	default:
		return otte_fail(-EOPNOTSUPP, "GID %d is of unknown type %u", index, native);
	}
}

static int read_entry(const struct otte_rdma_gid_table *table, int index, struct otte_rdma_gid *gid)
{
	struct ibv_gid_entry entry = {};
	int error = table->verbs->query_gid_ex(table->context, table->port, (uint32_t)index, &entry,
					       0, sizeof(entry));

	if (error == ENODATA)
		return is_empty(index);
	if (error)
		return call_failed("ibv_query_gid_ex", index, error);
	memcpy(gid->bytes, entry.gid.raw, sizeof(gid->bytes));
	return take_type(entry.gid_type, index, &gid->type);
}

/* The kernel fails to read the type of an entry that is empty. */
static int read_type(const struct otte_rdma_gid_table *table, int index,
		     enum otte_rdma_gid_type *type)
{
	char path[512], word[32] = "";
	FILE *file;

	if (!table->ethernet)
		return take_type(IBV_GID_TYPE_IB, index, type);
	if (snprintf(path, sizeof(path), "%s/ports/%u/gid_attrs/types/%d", table->sysfs,
		     table->port, index) >= (int)sizeof(path))
		return otte_fail(-ENAMETOOLONG, "GID %d: %s: too long", index, table->sysfs);
	file = fopen(path, "re");
	if (!file)
		return otte_fail(-errno, "GID %d: %s: %s", index, path, strerror(errno));
	if (!fgets(word, sizeof(word), file))
		*word = '\0';
	fclose(file);
	word[strcspn(word, "\n")] = '\0';
	if (!*word)
		return is_empty(index);
	if (!strcmp(word, "RoCE v2"))
		return take_type(IBV_GID_TYPE_ROCE_V2, index, type);
	if (!strcmp(word, "IB/RoCE v1"))
		return take_type(IBV_GID_TYPE_ROCE_V1, index, type);
	return otte_fail(-EOPNOTSUPP, "GID %d is of unknown type \"%s\"", index, word);
}

/* Libraries before rdma-core 31, which say nothing of types. */
static int read_entry_and_type(const struct otte_rdma_gid_table *table, int index,
			       struct otte_rdma_gid *gid)
{
	union ibv_gid native = {};

	errno = 0;
	if (table->verbs->query_gid(table->context, table->port, index, &native))
		return call_failed("ibv_query_gid", index, errno);
	memcpy(gid->bytes, native.raw, sizeof(gid->bytes));
	return read_type(table, index, &gid->type);
}

int otte_rdma_gid_read(const struct otte_rdma_gid_table *table, int index,
		       struct otte_rdma_gid *gid)
{
	static const uint8_t zero[sizeof(gid->bytes)];
	int rc;

	if (index < 0 || index >= table->length)
		return otte_fail(-ENODATA, "no GID %d, there are %d", index, table->length);
	*gid = (struct otte_rdma_gid){ .index = index };
	rc = table->verbs->query_gid_ex ? read_entry(table, index, gid) :
					  read_entry_and_type(table, index, gid);
	if (!rc && !memcmp(gid->bytes, zero, sizeof(zero)))
		rc = is_empty(index);
	return rc;
}

/* ---- The best one ---------------------------------------------------------------------------- */

static bool is_routable4(const uint8_t address[4])
{
	return address[0] != 0 && address[0] != 127 && address[0] < 224 &&
	       !(address[0] == 169 && address[1] == 254);
}

static bool is_routable(const struct otte_rdma_gid *gid)
{
	struct in6_addr address;

	memcpy(&address, gid->bytes, sizeof(address));
	if (IN6_IS_ADDR_V4MAPPED(&address))
		return is_routable4(gid->bytes + 12);
	return !IN6_IS_ADDR_UNSPECIFIED(&address) && !IN6_IS_ADDR_LOOPBACK(&address) &&
	       !IN6_IS_ADDR_LINKLOCAL(&address) && !IN6_IS_ADDR_MULTICAST(&address);
}

static int rank(const struct otte_rdma_gid *gid)
{
	if (gid->type != OTTE_RDMA_GID_ROCE_V2)
		return 1;
	return is_routable(gid) ? 3 : 2;
}

int otte_rdma_gid_choose(const struct otte_rdma_gid_table *table, struct otte_rdma_gid *gid)
{
	int i, rc, best = 0, failed = 0, length = table->length;
	char why[OTTE_ERROR_BYTES] = "no valid GID";
	struct otte_rdma_gid next;

	if (length > TABLE_MAX)
		length = TABLE_MAX;
	for (i = 0; i < length; i++) {
		rc = otte_rdma_gid_read(table, i, &next);
		if (rc && rc != -ENODATA && !failed) {
			failed = rc;
			snprintf(why, sizeof(why), "%s", otte_error_text());
		}
		if (rc || rank(&next) <= best)
			continue;
		best = rank(&next);
		*gid = next;
	}
	return best ? 0 : otte_fail(failed ? failed : -ENODATA, "%s", why);
}
