/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "topo/topo.h"

#include <errno.h>
#include <hwloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"

#define PCI_CLASS_DISPLAY 0x03
#define VENDOR_NVIDIA 0x10de
#define VENDOR_AMD 0x1002
#define VENDOR_INTEL 0x8086

struct source {
	hwloc_obj_t object;
};

/* A snapshot while it is made: rows and the hwloc objects that they come from. */
struct reading {
	hwloc_topology_t hwloc;
	struct otte_topo *topo;
	struct source *nic_sources, *gpu_sources;
};

static void copy_name(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from ? from : "");
}

/* One more zeroed element at the end of an array, or NULL. */
static void *append(void **array, size_t *count, size_t element)
{
	char *bigger = reallocarray(*array, *count + 1, element);

	if (!bigger)
		return NULL;
	*array = bigger;
	memset(bigger + *count * element, 0, element);
	return bigger + (*count)++ * element;
}

static hwloc_obj_t pci_parent(hwloc_obj_t object)
{
	while (object && object->type != HWLOC_OBJ_PCI_DEVICE)
		object = object->parent;
	return object;
}

static void pci_text(hwloc_obj_t pci, char text[16])
{
	if (pci)
		snprintf(text, 16, "%04x:%02x:%02x.%01x", pci->attr->pcidev.domain & 0xffffu,
			 pci->attr->pcidev.bus, pci->attr->pcidev.dev & 0x1fu,
			 pci->attr->pcidev.func & 0x7u);
}

/* A device that is as near to several nodes belongs to none. */
static int node_of(struct reading *reading, hwloc_obj_t object)
{
	hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(reading->hwloc, object);

	if (!near || !near->nodeset || hwloc_bitmap_weight(near->nodeset) != 1)
		return OTTE_TOPO_NO_NODE;
	return hwloc_bitmap_first(near->nodeset);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static void read_cpus(hwloc_const_bitmap_t cpuset, cpu_set_t *cpus)
{
	int cpu;

	CPU_ZERO(cpus);
	for (cpu = hwloc_bitmap_first(cpuset); cpu >= 0 && cpu < CPU_SETSIZE;
	     cpu = hwloc_bitmap_next(cpuset, cpu))
		CPU_SET(cpu, cpus);
}

static int read_nodes(struct reading *reading)
{
	struct otte_topo *topo = reading->topo;
	struct otte_topo_node *node;
	hwloc_obj_t object = NULL;

	while ((object = hwloc_get_next_obj_by_type(reading->hwloc, HWLOC_OBJ_NUMANODE, object))) {
		node = append((void **)&topo->nodes, &topo->node_count, sizeof(*node));
		if (!node)
			return -ENOMEM;
		node->id = (int)object->os_index;
		node->memory_bytes = object->attr->numanode.local_memory;
		hwloc_bitmap_list_snprintf(node->cpus, sizeof(node->cpus), object->cpuset);
		read_cpus(object->cpuset, &node->cpu_set);
	}
	return 0;
}

static uint32_t distance_between(struct reading *reading, struct hwloc_distances_s *distances,
				 int from, int to)
{
	hwloc_obj_t one = hwloc_get_numanode_obj_by_os_index(reading->hwloc, (unsigned)from);
	hwloc_obj_t other = hwloc_get_numanode_obj_by_os_index(reading->hwloc, (unsigned)to);
	hwloc_uint64_t there = 0, back = 0;

	if (!one || !other || hwloc_distances_obj_pair_values(distances, one, other, &there, &back))
		return 0;
	return (uint32_t)there;
}

static int read_distances(struct reading *reading)
{
	struct hwloc_distances_s *distances = NULL;
	struct otte_topo *topo = reading->topo;
	size_t count = topo->node_count, i;
	unsigned wanted = 1;

	if (hwloc_distances_get_by_type(reading->hwloc, HWLOC_OBJ_NUMANODE, &wanted, &distances,
					HWLOC_DISTANCES_KIND_FROM_OS, 0) ||
	    !wanted)
		return 0;
	topo->distances = calloc(count * count, sizeof(*topo->distances));
	for (i = 0; topo->distances && i < count * count; i++)
		topo->distances[i] = distance_between(reading, distances, topo->nodes[i / count].id,
						      topo->nodes[i % count].id);
	hwloc_distances_release(reading->hwloc, distances);
	return topo->distances ? 0 : -ENOMEM;
}

/* ---- NICs ------------------------------------------------------------------------------------ */

/* The number at the start of a sysfs file, or -1. */
static double number_in(const char *format, const char *name)
{
	char path[256];
	double number;
	FILE *file;
	int got;

	if (snprintf(path, sizeof(path), format, name) >= (int)sizeof(path))
		return -1;
	file = fopen(path, "re");
	if (!file)
		return -1;
	got = fscanf(file, "%lf", &number);
	fclose(file);
	return got == 1 && number >= 0 ? number : -1;
}

/* An XML file is of another machine: sysfs says nothing about it. */
static void read_speed(struct reading *reading, struct otte_topo_nic *nic)
{
	double gbps;

	nic->speed_mbps = -1;
	if (!hwloc_topology_is_thissystem(reading->hwloc))
		return;
	nic->speed_mbps = (int64_t)number_in("/sys/class/net/%s/speed", nic->name);
	if (nic->speed_mbps < 0 && *nic->rdma) {
		gbps = number_in("/sys/class/infiniband/%s/ports/1/rate", nic->rdma);
		nic->speed_mbps = gbps < 0 ? -1 : (int64_t)(gbps * 1000);
	}
}

static struct otte_topo_nic *add_nic(struct reading *reading, hwloc_obj_t object)
{
	struct otte_topo *topo = reading->topo;
	struct otte_topo_nic *nic;
	struct source *source;
	size_t count = topo->nic_count;

	source = append((void **)&reading->nic_sources, &count, sizeof(*source));
	nic = source ? append((void **)&topo->nics, &topo->nic_count, sizeof(*nic)) : NULL;
	if (!nic)
		return NULL;
	source->object = object;
	copy_name(nic->name, sizeof(nic->name), object->name);
	pci_text(pci_parent(object), nic->pci);
	nic->node = node_of(reading, object);
	return nic;
}

static int read_interfaces(struct reading *reading)
{
	hwloc_obj_t object = NULL;

	while ((object = hwloc_get_next_osdev(reading->hwloc, object)))
		if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK &&
		    !add_nic(reading, object))
			return -ENOMEM;
	return 0;
}

/* A verbs device belongs to the interfaces of its PCI function; without one it is a NIC by itself. */
static int read_verbs_device(struct reading *reading, hwloc_obj_t object)
{
	hwloc_obj_t pci = pci_parent(object);
	struct otte_topo_nic *nic;
	bool found = false;
	size_t i;

	for (i = 0; i < reading->topo->nic_count; i++) {
		if (!pci || pci_parent(reading->nic_sources[i].object) != pci)
			continue;
		nic = &reading->topo->nics[i];
		copy_name(nic->rdma, sizeof(nic->rdma), object->name);
		found = true;
	}
	if (found)
		return 0;
	nic = add_nic(reading, object);
	if (!nic)
		return -ENOMEM;
	copy_name(nic->rdma, sizeof(nic->rdma), object->name);
	return 0;
}

static int read_nics(struct reading *reading)
{
	hwloc_obj_t object = NULL;
	int rc = read_interfaces(reading);
	size_t i;

	while (!rc && (object = hwloc_get_next_osdev(reading->hwloc, object)))
		if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
			rc = read_verbs_device(reading, object);
	for (i = 0; i < reading->topo->nic_count; i++)
		read_speed(reading, &reading->topo->nics[i]);
	return rc;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* Emulated display adapters are none. */
static bool is_gpu(hwloc_obj_t pci)
{
	unsigned vendor = pci->attr->pcidev.vendor_id;

	return pci->attr->pcidev.class_id >> 8 == PCI_CLASS_DISPLAY &&
	       (vendor == VENDOR_NVIDIA || vendor == VENDOR_AMD || vendor == VENDOR_INTEL);
}

/* "Model:  NVIDIA H200" in what the driver says about the device. */
static bool read_model(const struct otte_topo_gpu *gpu, char *model, size_t size)
{
	char path[64], line[128];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", gpu->pci);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "Model:", 6))
			continue;
		line[strcspn(line, "\n")] = '\0';
		copy_name(model, size, line + 6 + strspn(line + 6, " \t"));
		found = true;
	}
	fclose(file);
	return found;
}

static void name_gpu(struct reading *reading, struct otte_topo_gpu *gpu, hwloc_obj_t pci)
{
	const char *device = hwloc_obj_get_info_by_name(pci, "PCIDevice");

	if (hwloc_topology_is_thissystem(reading->hwloc) &&
	    read_model(gpu, gpu->name, sizeof(gpu->name)))
		return;
	copy_name(gpu->name, sizeof(gpu->name), device);
	if (!device)
		snprintf(gpu->name, sizeof(gpu->name), "%04x:%04x", pci->attr->pcidev.vendor_id,
			 pci->attr->pcidev.device_id);
}

static int add_gpu(struct reading *reading, hwloc_obj_t pci)
{
	struct otte_topo *topo = reading->topo;
	struct otte_topo_gpu *gpu;
	struct source *source;
	size_t count = topo->gpu_count;

	source = append((void **)&reading->gpu_sources, &count, sizeof(*source));
	gpu = source ? append((void **)&topo->gpus, &topo->gpu_count, sizeof(*gpu)) : NULL;
	if (!gpu)
		return -ENOMEM;
	source->object = pci;
	pci_text(pci, gpu->pci);
	name_gpu(reading, gpu, pci);
	gpu->node = node_of(reading, pci);
	return 0;
}

static int read_gpus(struct reading *reading)
{
	hwloc_obj_t object = NULL;
	int rc = 0;

	while (!rc && (object = hwloc_get_next_pcidev(reading->hwloc, object)))
		if (is_gpu(object))
			rc = add_gpu(reading, object);
	return rc;
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static hwloc_obj_t common_ancestor(hwloc_obj_t one, hwloc_obj_t other)
{
	hwloc_obj_t a, b;

	for (a = one; a; a = a->parent)
		for (b = other; b; b = b->parent)
			if (a == b)
				return a;
	return NULL;
}

static enum otte_topo_path path_between(hwloc_obj_t gpu, int gpu_node, hwloc_obj_t nic,
					int nic_node)
{
	hwloc_obj_t common = common_ancestor(gpu, nic);

	if (common && common->type == HWLOC_OBJ_PCI_DEVICE)
		return OTTE_TOPO_SWITCH;
	if (common && common->type == HWLOC_OBJ_BRIDGE)
		return common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI ?
			       OTTE_TOPO_SWITCH :
			       OTTE_TOPO_ROOT;
	if (gpu_node != OTTE_TOPO_NO_NODE && gpu_node == nic_node)
		return OTTE_TOPO_NODE;
	return OTTE_TOPO_SYSTEM;
}

static int read_paths(struct reading *reading)
{
	struct otte_topo *topo = reading->topo;
	size_t count = topo->gpu_count * topo->nic_count, i, gpu, nic;

	if (!count)
		return 0;
	topo->paths = calloc(count, sizeof(*topo->paths));
	if (!topo->paths)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		gpu = i / topo->nic_count;
		nic = i % topo->nic_count;
		topo->paths[i] = (uint8_t)path_between(reading->gpu_sources[gpu].object,
						       topo->gpus[gpu].node,
						       reading->nic_sources[nic].object,
						       topo->nics[nic].node);
	}
	return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/*
 * Without plugins that open a GPU's driver, which costs memory on it, and without libpciaccess, which
 * leaks: hwloc reads PCI from sysfs by itself. One that is not installed cannot be left out, and that
 * is fine.
 */
static void leave_plugins_out(hwloc_topology_t hwloc)
{
	static const char *const names[] = { "pci",  "opencl", "gl",	   "cuda",
					     "nvml", "rsmi",   "levelzero" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
					      names[i]);
}

static int load_hwloc(struct reading *reading, const char *xml_path)
{
	if (hwloc_topology_init(&reading->hwloc)) {
		reading->hwloc = NULL;
		return otte_fail(-ENOMEM, "hwloc: no memory");
	}
	leave_plugins_out(reading->hwloc);
	if (xml_path && strcmp(xml_path, "-") && access(xml_path, R_OK))
		return otte_fail(-errno, "%s: %s", xml_path, strerror(errno));
	if (xml_path && hwloc_topology_set_xml(reading->hwloc, xml_path))
		return otte_fail(-EINVAL, "%s: not a topology that hwloc can read", xml_path);
	if (hwloc_topology_set_io_types_filter(reading->hwloc, HWLOC_TYPE_FILTER_KEEP_ALL) ||
	    hwloc_topology_load(reading->hwloc))
		return otte_fail(-EINVAL, "%s: hwloc cannot load it: %s",
				 xml_path ? xml_path : "this machine", strerror(errno));
	return 0;
}

static int read_all(struct reading *reading)
{
	int rc = read_nodes(reading);

	if (!rc)
		rc = read_distances(reading);
	if (!rc)
		rc = read_nics(reading);
	if (!rc)
		rc = read_gpus(reading);
	if (!rc)
		rc = read_paths(reading);
	return rc ? otte_fail(rc, "topology: no memory") : 0;
}

int otte_topo_read(const char *xml_path, struct otte_topo **topo)
{
	struct reading reading = { .topo = calloc(1, sizeof(**topo)) };
	int rc;

	if (!reading.topo)
		return otte_fail(-ENOMEM, "topology: no memory");
	rc = load_hwloc(&reading, xml_path);
	if (!rc)
		rc = read_all(&reading);
	if (reading.hwloc)
		hwloc_topology_destroy(reading.hwloc);
	free(reading.nic_sources);
	free(reading.gpu_sources);
	if (rc)
		otte_topo_free(reading.topo);
	else
		*topo = reading.topo;
	return rc;
}

void otte_topo_free(struct otte_topo *topo)
{
	if (!topo)
		return;
	free(topo->nodes);
	free(topo->nics);
	free(topo->gpus);
	free(topo->distances);
	free(topo->paths);
	free(topo);
}

const char *otte_topo_path_text(enum otte_topo_path path)
{
	static const char *const texts[] = { "switch", "root", "node", "system" };

	return texts[path];
}
