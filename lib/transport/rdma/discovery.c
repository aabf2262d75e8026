/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "transport/rdma/discovery.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "sched/rate.h"
#include "topo/topo.h"
#include "transport/rdma/port.h"
#include "transport/rdma/rate.h"
#include "transport/rdma/verbs.h"

/* What is looked for, with UNSET resolved. */
struct search {
	const struct otte_verbs *verbs;
	const struct otte_rdma_select *select;
	int port, gid_index; /* or OTTE_RDMA_CHOOSE */
	struct otte_rdma_nics *nics;
};

/* ---- What sysfs says of a device ------------------------------------------------------------- */

static bool is_pci_address(const char *text)
{
	unsigned int domain, bus, device, function;
	int end = 0;

	return sscanf(text, "%x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) == 4 &&
	       !text[end];
}

/* A device of software has none. */
static void read_pci(const char *sysfs, struct otte_rdma_nic *nic)
{
	char path[PATH_MAX], real[PATH_MAX];
	const char *last;

	if (snprintf(path, sizeof(path), "%s/device", sysfs) >= (int)sizeof(path) ||
	    !realpath(path, real))
		return;
	last = strrchr(real, '/');
	if (last && strlen(last + 1) < sizeof(nic->pci) && is_pci_address(last + 1))
		memcpy(nic->pci, last + 1, strlen(last + 1));
}

static int read_node(const char *sysfs)
{
	int node = OTTE_TOPO_NO_NODE;
	char path[PATH_MAX];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/device/numa_node", sysfs) >= (int)sizeof(path))
		return OTTE_TOPO_NO_NODE;
	file = fopen(path, "re");
	if (!file)
		return OTTE_TOPO_NO_NODE;
	if (fscanf(file, "%d", &node) != 1 || node < 0)
		node = OTTE_TOPO_NO_NODE;
	fclose(file);
	return node;
}

/* How many ids a device takes that does not open; 1 where sysfs does not say. */
static unsigned int count_ports(const char *sysfs)
{
	struct dirent *entry;
	char path[PATH_MAX];
	unsigned int count = 0;
	DIR *folder;

	if (snprintf(path, sizeof(path), "%s/ports", sysfs) >= (int)sizeof(path))
		return 1;
	folder = opendir(path);
	if (!folder)
		return 1;
	while ((entry = readdir(folder)))
		count += isdigit((unsigned char)entry->d_name[0]) != 0;
	closedir(folder);
	return count ? count : 1;
}

/* ---- One NIC --------------------------------------------------------------------------------- */

static int call_failed(const struct otte_rdma_nic *nic, const char *call, int error)
{
	if (error <= 0)
		error = EIO;
	return otte_fail(-error, "%s port %u: %s: %s", nic->name, nic->port, call, strerror(error));
}

static void close_context(const struct otte_verbs *verbs, struct otte_rdma_nic *nic)
{
	if (nic->context && verbs->close_device(nic->context))
		otte_log(OTTE_LOG_WARNING, "rdma: %s: ibv_close_device failed", nic->name);
	nic->context = NULL;
}

static void set_rate(const struct search *search, const union otte_verbs_port *attr,
		     struct otte_rdma_nic *nic)
{
	if (search->select->link_rate_mbps) {
		nic->bytes_per_s = search->select->link_rate_mbps * 125000ull;
		nic->rate_source = OTTE_RDMA_RATE_CONFIGURED;
		return;
	}
	nic->bytes_per_s = otte_rdma_port_rate(search->verbs, nic->context, nic->port, attr);
	nic->rate_source = OTTE_RDMA_RATE_REPORTED;
	if (nic->bytes_per_s)
		return;
	nic->bytes_per_s = OTTE_UNKNOWN_RATE;
	nic->rate_source = OTTE_RDMA_RATE_ASSUMED;
}

static int query_port(const struct search *search, struct ibv_device *device,
		      struct otte_rdma_nic *nic)
{
	const struct otte_rdma_port port = {
		.verbs = search->verbs,
		.context = nic->context,
		.sysfs = device->ibdev_path,
		.number = nic->port,
	};
	struct otte_rdma_address address;
	union otte_verbs_port attr;
	int rc = otte_rdma_port_query(&port, &attr);

	if (!rc)
		rc = otte_rdma_port_address(&port, &attr.attr, search->gid_index, &address);
	if (rc)
		return otte_fail_within(rc, "%s port %u: ", nic->name, nic->port);
	nic->gid = address.gid;
	nic->mtu_bytes = address.mtu_bytes;
	nic->lid = address.lid;
	nic->ethernet = address.ethernet;
	set_rate(search, &attr, nic);
	nic->state = attr.attr.state == IBV_PORT_ACTIVE ? OTTE_RDMA_ACTIVE : OTTE_RDMA_PAUSED;
	return 0;
}

/* `ports`: how many the device has, once that is known. */
static int query_nic(const struct search *search, struct ibv_device *device,
		     struct otte_rdma_nic *nic, unsigned int *ports)
{
	struct ibv_device_attr attr = {};
	int rc = search->verbs->query_device(nic->context, &attr);

	if (rc)
		return call_failed(nic, "ibv_query_device", rc);
	*ports = attr.phys_port_cnt;
	if (nic->port > *ports)
		return otte_fail(-ENODEV, "%s: no port %u, it has %u", nic->name, nic->port,
				 *ports);
	return query_port(search, device, nic);
}

/* Reliable connections that are set up without a connection manager: no iWARP, no EFA. */
static int open_nic(const struct search *search, struct ibv_device *device,
		    struct otte_rdma_nic *nic, unsigned int *ports)
{
	int rc;

	if (device->transport_type != IBV_TRANSPORT_IB)
		return otte_fail(-EOPNOTSUPP, "%s: neither InfiniBand nor RoCE", nic->name);
	errno = 0;
	nic->context = search->verbs->open_device(device);
	if (!nic->context)
		return call_failed(nic, "ibv_open_device", errno);
	rc = query_nic(search, device, nic, ports);
	if (rc)
		close_context(search->verbs, nic);
	return rc;
}

static void add_nic(const struct search *search, struct ibv_device *device, unsigned int port,
		    unsigned int *ports)
{
	struct otte_rdma_nics *nics = search->nics;
	struct otte_rdma_nic *nic;

	if (nics->count == OTTE_NIC_IDS) {
		nics->left_out++;
		return;
	}
	nic = &nics->list[nics->count++];
	snprintf(nic->name, sizeof(nic->name), "%s", search->verbs->get_device_name(device));
	nic->port = (uint8_t)port;
	read_pci(device->ibdev_path, nic);
	nic->node = read_node(device->ibdev_path);
	nic->code = open_nic(search, device, nic, ports);
	if (nic->code)
		snprintf(nic->why, sizeof(nic->why), "%s", otte_error_text());
}

static void add_device(const struct search *search, struct ibv_device *device)
{
	unsigned int ports = count_ports(device->ibdev_path), port;

	if (search->port != OTTE_RDMA_CHOOSE) {
		add_nic(search, device, (unsigned int)search->port, &ports);
		return;
	}
	for (port = 1; port <= ports && port <= UINT8_MAX; port++)
		add_nic(search, device, port, &ports);
}

/* ---- Which devices --------------------------------------------------------------------------- */

static bool is_listed(const char *const *list, size_t count, const char *name)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(list[i], name))
			return true;
	return false;
}

static bool is_permitted(const struct otte_rdma_select *select, const char *name)
{
	if (select->whitelist_count)
		return is_listed(select->whitelist, select->whitelist_count, name);
	return !is_listed(select->blacklist, select->blacklist_count, name);
}

static bool is_wanted(const struct otte_rdma_select *select, const char *name)
{
	return is_permitted(select, name) && (!select->device || !strcmp(select->device, name));
}

static int resolve(int number, int when_pinned, const char *device)
{
	if (number != OTTE_RDMA_UNSET)
		return number;
	return device ? when_pinned : OTTE_RDMA_CHOOSE;
}

static int check(const struct search *search)
{
	const struct otte_rdma_select *select = search->select;

	if (search->port != OTTE_RDMA_CHOOSE && (search->port < 1 || search->port > UINT8_MAX))
		return otte_fail(-EINVAL, "rdma: port %d", search->port);
	if (search->gid_index != OTTE_RDMA_CHOOSE && search->gid_index < 0)
		return otte_fail(-EINVAL, "rdma: GID %d", search->gid_index);
	if (select->device && !is_permitted(select, select->device))
		return otte_fail(-EINVAL, "rdma: %s is fixed, and excluded by the %s",
				 select->device,
				 select->whitelist_count ? "whitelist" : "blacklist");
	return 0;
}

static int by_name(const void *one, const void *other, void *arg)
{
	struct ibv_device *const *a = one, *const *b = other;
	const struct otte_verbs *verbs = arg;

	return strverscmp(verbs->get_device_name(*a), verbs->get_device_name(*b));
}

static int cannot_list(int error)
{
	return otte_fail(-error, "rdma: ibv_get_device_list: %s%s", strerror(error),
			 error == ENOSYS ? " (is ib_uverbs loaded?)" : "");
}

static bool is_there(const struct otte_verbs *verbs, struct ibv_device *const *list, int count,
		     const char *name)
{
	int i;

	for (i = 0; i < count; i++)
		if (!strcmp(verbs->get_device_name(list[i]), name))
			return true;
	return false;
}

/*
 * What is wanted by name is there. What is not wanted need not be, but may be misspelt, and its NIC
 * used.
 */
static int check_named(const struct search *search, struct ibv_device *const *list, int count)
{
	const struct otte_rdma_select *select = search->select;
	size_t i;

	for (i = 0; i < select->whitelist_count; i++)
		if (!is_there(search->verbs, list, count, select->whitelist[i]))
			return otte_fail(-ENODEV, "rdma.whitelist: there is no device %s",
					 select->whitelist[i]);
	for (i = 0; !select->whitelist_count && i < select->blacklist_count; i++)
		if (!is_there(search->verbs, list, count, select->blacklist[i]))
			otte_log(OTTE_LOG_WARNING, "rdma.blacklist: there is no device %s",
				 select->blacklist[i]);
	return 0;
}

static int add_devices(const struct search *search)
{
	const struct otte_verbs *verbs = search->verbs;
	struct ibv_device **list;
	int i, rc, count = 0;

	errno = 0;
	list = verbs->get_device_list(&count);
	if (!list)
		return cannot_list(errno > 0 ? errno : EIO);
	qsort_r(list, (size_t)count, sizeof(*list), by_name, (void *)verbs);
	rc = check_named(search, list, count);
	for (i = 0; !rc && i < count; i++)
		if (is_wanted(search->select, verbs->get_device_name(list[i])))
			add_device(search, list[i]);
	verbs->free_device_list(list);
	return rc;
}

/* A device that is fixed is there, and one of its NICs can be used. */
static int check_pinned(const struct search *search)
{
	const struct otte_rdma_nics *nics = search->nics;
	size_t i;

	if (!search->select->device)
		return 0;
	if (!nics->count)
		return otte_fail(-ENODEV, "rdma: no device %s", search->select->device);
	for (i = 0; i < nics->count; i++)
		if (!nics->list[i].code)
			return 0;
	return otte_fail(nics->list[0].code, "rdma: %s", nics->list[0].why);
}

/* ---- All of it ------------------------------------------------------------------------------- */

int otte_rdma_discover(const struct otte_verbs *verbs, const struct otte_rdma_select *select,
		       struct otte_rdma_nics *nics)
{
	const struct search search = {
		.verbs = verbs,
		.select = select,
		.port = resolve(select->port, 1, select->device),
		.gid_index = resolve(select->gid_index, 0, select->device),
		.nics = nics,
	};
	int rc;

	memset(nics, 0, sizeof(*nics));
	rc = check(&search);
	if (!rc)
		rc = add_devices(&search);
	if (!rc)
		rc = check_pinned(&search);
	if (rc)
		otte_rdma_nics_close(verbs, nics);
	else if (nics->left_out)
		otte_log(OTTE_LOG_WARNING, "rdma: %zu NICs are left out, the first %d are used",
			 nics->left_out, OTTE_NIC_IDS);
	return rc;
}

void otte_rdma_nics_close(const struct otte_verbs *verbs, struct otte_rdma_nics *nics)
{
	size_t i;

	for (i = 0; i < nics->count; i++)
		close_context(verbs, &nics->list[i]);
	nics->count = 0;
}

/* ---- Words ----------------------------------------------------------------------------------- */

const char *otte_rdma_state_text(enum otte_rdma_state state)
{
	static const char *const texts[] = { "unusable", "paused", "active" };

	return texts[state];
}

const char *otte_rdma_gid_type_text(enum otte_rdma_gid_type type)
{
	static const char *const texts[] = { "IB", "RoCE v1", "RoCE v2" };

	return texts[type];
}

const char *otte_rdma_rate_source_text(enum otte_rdma_rate_source source)
{
	static const char *const texts[] = { "assumed", "reported", "configured" };

	return texts[source];
}

const char *otte_rdma_gid_text(const struct otte_rdma_gid *gid, char text[OTTE_RDMA_GID_TEXT])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (!memcmp(gid->bytes, mapped, sizeof(mapped)))
		inet_ntop(AF_INET, gid->bytes + 12, text, OTTE_RDMA_GID_TEXT);
	else
		inet_ntop(AF_INET6, gid->bytes, text, OTTE_RDMA_GID_TEXT);
	return text;
}
