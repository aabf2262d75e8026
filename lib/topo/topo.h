/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a machine has that transfers care about: memory nodes, NICs, GPUs, and how near they are to
 * each other. A snapshot, read once through hwloc and sysfs; it changes nothing and keeps nothing
 * open. A machine without any of them gives empty tables.
 */
#ifndef OTTE_TOPO_TOPO_H
#define OTTE_TOPO_TOPO_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>

#define OTTE_TOPO_NO_NODE (-1)
#define OTTE_TOPO_NAME_MAX 64

struct otte_topo_node {
	int id; /* as the kernel numbers it */
	uint64_t memory_bytes;
	char cpus[OTTE_TOPO_NAME_MAX]; /* "0-15,32-47" */
	cpu_set_t cpu_set; /* the same, but for CPUs that it has no room for */
};

struct otte_topo_nic {
	char name[OTTE_TOPO_NAME_MAX]; /* network interface, or verbs device if it has none */
	char rdma[OTTE_TOPO_NAME_MAX]; /* verbs device of the same function; "" */
	char pci[16]; /* 0000:00:00.0; "" */
	int64_t speed_mbps; /* -1: unknown */
	int node; /* or OTTE_TOPO_NO_NODE */
};

struct otte_topo_gpu {
	char name[OTTE_TOPO_NAME_MAX];
	char pci[16];
	int node;
};

/* How a GPU and a NIC reach each other, nearest first. */
enum otte_topo_path {
	OTTE_TOPO_SWITCH = 0, /* below one PCI bridge */
	OTTE_TOPO_ROOT = 1, /* below one host bridge */
	OTTE_TOPO_NODE = 2, /* at one memory node */
	OTTE_TOPO_SYSTEM = 3, /* across nodes, or unknown */
};

struct otte_topo {
	struct otte_topo_node *nodes;
	struct otte_topo_nic *nics;
	struct otte_topo_gpu *gpus;
	size_t node_count, nic_count, gpu_count;
	uint32_t *distances; /* node_count x node_count in the order of nodes; NULL: not stated */
	uint8_t *paths; /* gpu_count x nic_count of enum otte_topo_path */
};

/* Of this machine, or, for tests, of one that hwloc described as XML. 0 or a negative errno. */
int otte_topo_read(const char *xml_path, struct otte_topo **topo);

/* NULL is allowed. */
void otte_topo_free(struct otte_topo *topo);

const char *otte_topo_path_text(enum otte_topo_path path);

#endif
