/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topo.h - the topology of a machine: memories, NICs and their distances
 *
 * A topology holds the NICs with their links, the memories (one per NUMA node,
 * one per GPU), the CPUs, and how near each memory is to each NIC. It is read
 * once and does not change. It comes from the running system, from a recording
 * of one (a copy of its /sys, or hwloc's XML), or from a JSON file. An engine
 * reads one by itself (setting "topology"); te-topo displays it.
 *
 * NICs and memories have an index, 0 .. number - 1, in an order that is the
 * same on each read of a machine, and a name. NUMA nodes have the kernel's
 * numbers, which are not indexes into a list of nodes.
 *
 * Functions return 0 or a negative errno unless they say otherwise. Strings in
 * the structs that they fill in are never NULL and live as long as the
 * topology. Threads: any. Blocks: te_topo_load() only.
 */
#ifndef TE_TOPO_H
#define TE_TOPO_H

#include <stddef.h>
#include <stdint.h>

#include <te/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct te_topo;

/* ---- reading a topology ---- */

enum te_topo_flags {
	/*
	 * Asks hwloc too, for names of CPUs and devices, which takes tens of
	 * milliseconds on a large machine. Without it only /sys is read.
	 */
	TE_TOPO_DETAIL = 1 << 0,
	/* Includes network interfaces without a device of their own. */
	TE_TOPO_VIRTUAL = 1 << 1,
};

struct te_topo_source {
	const char *json; /* file of te_topo_parse(), instead of the rest */
	const char *sysfs_root; /* copy of /sys; NULL: /sys itself */
	const char *hwloc_xml;  /* file of lstopo; alone: instead of /sys */
	uint32_t flags;         /* TE_TOPO_DETAIL, TE_TOPO_VIRTUAL */
	uint32_t reserved_0;    /* must be 0 */
	uint64_t reserved[4];   /* must be 0 */
};

/**
 * te_topo_load - read the topology of a machine
 * @source: borrowed for the call; NULL: this machine, from its /sys
 * @error:  error[error_len] or NULL; on failure one line that names the file,
 *          the place in it and the fault
 *
 * Values that a recording lacks are unknown and no error; te_topo_note() lists
 * them. If both sysfs_root and hwloc_xml are given, the first decides and the
 * second adds names.
 *
 * Blocks: reads files. Returns 0, or *out is untouched and:
 *   -EINVAL    a reserved field is not 0, or a flag is unknown
 *   -ENOENT    there is no such file, or sysfs_root is no copy of /sys
 *   -EBADMSG   a file cannot be understood
 *   -ENOMEM, or the error with which reading failed
 */
TE_API int te_topo_load(const struct te_topo_source *source,
			struct te_topo **out, char *error, size_t error_len);

/**
 * te_topo_parse - read a topology from JSON text
 * @text: text[len], in one of two forms:
 *
 *   {"cpu:0": [["mlx5_0"], ["mlx5_1"]], "cuda:0": [["mlx5_1"], []]}
 *     lists per memory the preferred and the other NICs, best first;
 *
 *   {"nics": [{"name": "mlx5_0", "numa_node": 0, "pci_bus_id": ...}],
 *    "mems": [{"name": "cpu:0", "numa_node": 0, "rails": [[..], [..]],
 *              "device_list": {"rank0": [0], "rank1": [], "rank2": [1]}}],
 *    "nodes": [{"node": 0, "package": 0, "cpus": "0-15", ...}]}
 *     is the form of te_topo_format(). Only names are required. "rails", or
 *     else "device_list", decides which NICs serve a memory; without both the
 *     distances decide.
 *
 * Unknown fields are ignored. Returns as te_topo_load().
 */
TE_API int te_topo_parse(const char *text, size_t len, struct te_topo **out,
			 char *error, size_t error_len);
TE_API void te_topo_destroy(struct te_topo *topo); /* NULL is fine */

enum te_topo_form {
	TE_TOPO_FULL = 1,   /* everything; Mooncake's TENT reads it too */
	TE_TOPO_MATRIX = 2, /* Mooncake's two arrays per memory */
};

/**
 * te_topo_format - write a topology as JSON
 * @out: out[*len], or NULL with *len 0 to ask for the length
 * @len: in: room; out: bytes needed, final NUL included
 *
 * Returns 0, -ENOBUFS (the room is too small), -EINVAL (no such form), -ENOMEM.
 */
TE_API int te_topo_format(const struct te_topo *topo, enum te_topo_form form,
			  char *out, size_t *len);

/* ---- the machine ---- */

struct te_topo_machine {
	const char *model; /* of the CPUs; "": unknown */
	uint32_t n_packages, n_nodes, n_cores, n_cpus;
	uint32_t n_nics, n_memories, n_gpus, n_notes;
	uint64_t bytes; /* of host memory; 0: unknown */
	uint64_t reserved[4];
};

TE_API void te_topo_machine(const struct te_topo *topo,
			    struct te_topo_machine *out);

struct te_topo_node {
	int32_t number;  /* the kernel's, as in "cpu:0" */
	int32_t package; /* socket; -1: unknown */
	uint64_t bytes;  /* of memory; 0: unknown */
	uint32_t n_cores, n_cpus;
	uint64_t reserved[4];
};

/* Copies node @index, 0 .. n_nodes - 1. Returns 0, -ENOENT (no such index). */
TE_API int te_topo_node(const struct te_topo *topo, uint32_t index,
			struct te_topo_node *out);
/*
 * Returns the kernel's cost of access from CPUs of node number @from to memory
 * of node number @to: 10 is local, 20 twice as far. 0: unknown.
 */
TE_API uint32_t te_topo_node_distance(const struct te_topo *topo, int32_t from,
				      int32_t to);
/*
 * Lists the CPUs of a node number, ascending, in cpus[*n]. @n: in: room (@cpus
 * may be NULL with 0); out: number of CPUs. Returns 0, -ENOENT (no such node).
 */
TE_API int te_topo_node_cpus(const struct te_topo *topo, int32_t number,
			     uint32_t *cpus, size_t *n);

/* ---- NICs and memories ---- */

struct te_topo_pci {
	const char *bus_id; /* "0000:3b:00.0"; "": no PCI device */
	const char *path;   /* "pci0000:3a/0000:3a:00.0/0000:3b:00.0" */
	/* Link of the device: as it runs, and at most; 0: unknown. */
	uint32_t width, max_width; /* lanes */
	uint32_t mtps, max_mtps; /* 10^6 transfers/s per lane: gen 4 is 16000 */
	/* Payload rate of the narrowest link up to the CPU, bits/s. */
	uint64_t path_bps;
};

enum te_topo_nic_kind {
	TE_TOPO_ETH = 1, /* Ethernet without RDMA */
	TE_TOPO_ROCE,    /* RDMA over Ethernet */
	TE_TOPO_IB,      /* InfiniBand */
	TE_TOPO_RDMA,    /* RDMA over something else */
	TE_TOPO_OTHER,   /* unknown */
};

enum te_topo_state {
	TE_TOPO_STATE_UNKNOWN,
	TE_TOPO_UP,
	TE_TOPO_DOWN,
};

struct te_topo_nic {
	const char *name;      /* rdma, libfabric's ("cxi0"), or interface */
	const char *interface; /* "eth0"; "": none */
	const char *rdma;      /* of verbs: "mlx5_0"; "": none */
	const char *model;     /* "": unknown */
	uint32_t rdma_port;    /* from 1; 0: none */
	uint32_t kind;         /* enum te_topo_nic_kind */
	uint32_t state;        /* enum te_topo_state */
	int32_t numa_node;     /* -1: unknown */
	uint64_t speed_bps;    /* of the port; 0: unknown */
	struct te_topo_pci pci;
	uint32_t is_virtual; /* no device, or a virtual function of this host */
	uint32_t reserved_0;
	uint64_t reserved[4];
};

enum te_topo_memory_kind {
	TE_TOPO_HOST = 1, /* "cpu:0" */
	TE_TOPO_CUDA,     /* "cuda:0": NVIDIA, counted by PCI bus id */
	TE_TOPO_HIP,      /* "hip:0": AMD, counted by PCI bus id */
	TE_TOPO_DEVICE,   /* of a JSON file, with a name of its own */
};

struct te_topo_memory {
	const char *name; /* a region's location: "cpu:0", "cuda:1" */
	const char *model;
	uint32_t kind;     /* enum te_topo_memory_kind */
	int32_t numa_node; /* -1: unknown */
	uint64_t bytes;    /* 0: unknown */
	struct te_topo_pci pci;
	uint64_t reserved[4];
};

/* Copies NIC or memory @index. Returns 0, -ENOENT (no such index). */
TE_API int te_topo_nic(const struct te_topo *topo, uint32_t index,
		       struct te_topo_nic *out);
TE_API int te_topo_memory(const struct te_topo *topo, uint32_t index,
			  struct te_topo_memory *out);
/*
 * Finds the NIC that has this name, interface or RDMA device, or the memory at
 * this location. Returns 0, or *index is untouched and -ENOENT (none).
 */
TE_API int te_topo_find_nic(const struct te_topo *topo, const char *name,
			    uint32_t *index);
TE_API int te_topo_find_memory(const struct te_topo *topo, const char *location,
			       uint32_t *index);

/* ---- distances ---- */

/* Distance between a memory and a NIC, from near to far. */
enum te_topo_near {
	TE_TOPO_NEAR_SWITCH, /* GPU behind the same PCIe switch */
	TE_TOPO_NEAR_ROOT,   /* GPU at the same PCIe host bridge */
	TE_TOPO_NEAR_NODE,   /* in the same NUMA node */
	TE_TOPO_NEAR_SOCKET, /* in another NUMA node of the same socket */
	TE_TOPO_NEAR_FAR,    /* in another socket */
	TE_TOPO_NEAR_UNKNOWN,
};

struct te_topo_distance {
	uint32_t near;      /* enum te_topo_near */
	uint32_t numa;      /* te_topo_node_distance(); 0: unknown */
	uint32_t pci_hops;  /* components that differ in the PCIe paths */
	uint32_t preferred; /* 1: te_topo_rails() prefers the NIC */
	uint64_t rate_bps;  /* min of port and PCIe links; 0: unknown */
	uint64_t reserved[2];
};

/* Copies a distance. Returns 0, -ENOENT (no such memory or NIC). */
TE_API int te_topo_distance(const struct te_topo *topo, uint32_t memory,
			    uint32_t nic, struct te_topo_distance *out);

/**
 * te_topo_rails - list the NICs that should serve a memory, best first
 * @nics: nics[*n], or NULL with *n 0 to ask for the number
 * @n:    in: room; out: number of NICs
 * @n_preferred: number of preferred NICs, which come first. The others serve
 *        when those fail, or where measurements show that they help
 *
 * The nearest NICs are preferred, except those that are down, virtual, or
 * slower than an eighth of the fastest NIC of the machine. Returns 0, -ENOENT
 * (no such memory).
 */
TE_API int te_topo_rails(const struct te_topo *topo, uint32_t memory,
			 uint32_t *nics, size_t *n, size_t *n_preferred);

/**
 * te_topo_worker_cpus - list the CPUs that should drive a NIC
 * @cpus: cpus[*n], ascending, or NULL with *n 0 to ask for the number
 * @n:    in: room; out: number of CPUs, 0: unknown
 *
 * The list has whole cores of the NIC's NUMA node, which are divided among the
 * NICs of the node, or every CPU if the node is unknown. For the running
 * machine it has only CPUs that this process could use when the topology was
 * read. Returns 0, -ENOENT (no such NIC).
 */
TE_API int te_topo_worker_cpus(const struct te_topo *topo, uint32_t nic,
			       uint32_t *cpus, size_t *n);

/* ---- faults of the topology ---- */

enum te_topo_note_kind {
	TE_TOPO_NOTE_AFFINITY = 1, /* NUMA node unknown or contradictory */
	TE_TOPO_NOTE_LINK,         /* port down */
	TE_TOPO_NOTE_PCIE,         /* a PCIe link limits a NIC */
	TE_TOPO_NOTE_SKIPPED,      /* input that could not be understood */
};

struct te_topo_note {
	uint32_t kind; /* enum te_topo_note_kind */
	uint32_t reserved_0;
	const char *text; /* one line, object first */
	uint64_t reserved[2];
};

/* Copies note @index, 0 .. n_notes - 1. Returns 0, -ENOENT (no such index). */
TE_API int te_topo_note(const struct te_topo *topo, uint32_t index,
			struct te_topo_note *out);

#ifdef __cplusplus
}
#endif

#endif
