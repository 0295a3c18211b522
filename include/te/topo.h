/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topo.h - what this machine looks like: memories, NICs and their distances
 *
 * A topology is read once and does not change: NICs with their links, memories
 * (one per NUMA node, one per GPU), CPUs, and how far each memory is from each
 * NIC. It comes from the running system, from a recording of one (a copy of
 * its /sys, or hwloc's XML), or from a JSON file. An engine reads one by itself
 * (setting "topology"); te-topo shows it.
 *
 * NICs and memories are known by index, 0 .. number - 1, in an order that the
 * same machine always gives, and by name. NUMA nodes are known by the number
 * that the kernel gives them; the places of a list of nodes are not numbers.
 *
 * Functions return 0 or a negative errno unless they say otherwise. Strings in
 * what they fill in are never NULL and live as long as the topology. Threads:
 * any; nothing blocks but te_topo_load().
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
	 * Ask hwloc too, for names of CPUs and devices: tens of milliseconds on
	 * a large machine. Without it /sys alone is read.
	 */
	TE_TOPO_DETAIL = 1 << 0,
	/* Also network interfaces without a device of their own. */
	TE_TOPO_VIRTUAL = 1 << 1,
};

struct te_topo_source {
	const char *json;       /* a file in either form, instead of the rest */
	const char *sysfs_root; /* a copy of /sys; NULL: /sys itself */
	const char *hwloc_xml;  /* a file of lstopo; alone, instead of /sys */
	uint32_t flags;         /* TE_TOPO_DETAIL, TE_TOPO_VIRTUAL */
	uint32_t reserved_0;    /* must be 0 */
	uint64_t reserved[4];   /* must be 0 */
};

/**
 * te_topo_load - read the topology of a machine
 * @source: borrowed for the call; NULL: this machine by its /sys
 * @error:  error[error_len] or NULL; on failure one line that names the file,
 *          the place in it and what is wrong there
 *
 * What a recording lacks is unknown, not an error; te_topo_note() tells of it.
 * With sysfs_root and hwloc_xml the first has the say, the second adds names.
 *
 * Blocks: reads files. Returns 0, or *out is untouched and:
 *   -EINVAL    a reserved field or an unknown flag
 *   -ENOENT    there is no such file, or sysfs_root is no copy of /sys
 *   -EBADMSG   a file that cannot be understood
 *   -ENOMEM, or what reading failed with
 */
TE_API int te_topo_load(const struct te_topo_source *source,
			struct te_topo **out, char *error, size_t error_len);

/**
 * te_topo_parse - read a topology from JSON text
 * @text: text[len], in one of two forms:
 *
 *   {"cpu:0": [["mlx5_0"], ["mlx5_1"]], "cuda:0": [["mlx5_1"], []]}
 *     per memory the preferred and the other NICs, best first;
 *
 *   {"nics": [{"name": "mlx5_0", "numa_node": 0, "pci_bus_id": ...}],
 *    "mems": [{"name": "cpu:0", "numa_node": 0, "rails": [[..], [..]],
 *              "device_list": {"rank0": [0], "rank1": [], "rank2": [1]}}],
 *    "nodes": [{"node": 0, "package": 0, "cpus": "0-15", ...}]}
 *     as te_topo_format() writes it. Only names are needed. "rails", or else
 *     "device_list", decides which NICs serve a memory; without both the
 *     distances do.
 *
 * Unknown fields are ignored. Returns as te_topo_load().
 */
TE_API int te_topo_parse(const char *text, size_t len, struct te_topo **out,
			 char *error, size_t error_len);
TE_API void te_topo_destroy(struct te_topo *topo); /* NULL is fine */

enum te_topo_form {
	TE_TOPO_FULL = 1,   /* everything; also what Mooncake's TENT reads */
	TE_TOPO_MATRIX = 2, /* Mooncake's two arrays per memory */
};

/**
 * te_topo_format - write a topology as JSON
 * @out: out[*len], or NULL with *len 0 to ask for the length
 * @len: in: room; out: bytes needed, final 0 included
 *
 * Returns 0, -ENOBUFS (more room is needed), -EINVAL (no such form), -ENOMEM.
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
	int32_t number;  /* of the kernel, as in "cpu:0" */
	int32_t package; /* socket; -1: unknown */
	uint64_t bytes;  /* of memory; 0: unknown */
	uint32_t n_cores, n_cpus;
	uint64_t reserved[4];
};

/* @index: 0 .. n_nodes - 1. 0, -ENOENT. */
TE_API int te_topo_node(const struct te_topo *topo, uint32_t index,
			struct te_topo_node *out);
/*
 * The kernel's cost of memory of node number @to for CPUs of node number
 * @from: 10 is local, 20 twice as far. 0: unknown.
 */
TE_API uint32_t te_topo_node_distance(const struct te_topo *topo, int32_t from,
				      int32_t to);
/*
 * CPUs of a node number, ascending. @n in: room in @cpus (may be NULL with 0);
 * out: how many there are. 0, -ENOENT.
 */
TE_API int te_topo_node_cpus(const struct te_topo *topo, int32_t number,
			     uint32_t *cpus, size_t *n);

/* ---- NICs and memories ---- */

struct te_topo_pci {
	const char *bus_id; /* "0000:3b:00.0"; "": no PCI device */
	const char *path;   /* "pci0000:3a/0000:3a:00.0/0000:3b:00.0" */
	/* The device's own link as it runs, and as it could; 0: unknown. */
	uint32_t width, max_width; /* lanes */
	uint32_t mtps, max_mtps; /* 10^6 transfers/s per lane: 16000 is gen 4 */
	/* Payload of the narrowest link on the way to the CPU, bits/s. */
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
	const char *name;      /* rdma if it has one, else interface */
	const char *interface; /* "eth0"; "": none */
	const char *rdma;      /* "mlx5_0"; "": none */
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

/* 0, -ENOENT (no such index). */
TE_API int te_topo_nic(const struct te_topo *topo, uint32_t index,
		       struct te_topo_nic *out);
TE_API int te_topo_memory(const struct te_topo *topo, uint32_t index,
			  struct te_topo_memory *out);
/*
 * Index of the NIC that has this name, interface or RDMA device; of the memory
 * at this location. -ENOENT.
 */
TE_API int te_topo_find_nic(const struct te_topo *topo, const char *name,
			    uint32_t *index);
TE_API int te_topo_find_memory(const struct te_topo *topo, const char *location,
			       uint32_t *index);

/* ---- distances ---- */

/* From near to far; what is between a memory and a NIC. */
enum te_topo_near {
	TE_TOPO_NEAR_SWITCH, /* a GPU behind the same PCIe switch */
	TE_TOPO_NEAR_ROOT,   /* a GPU at the same PCIe host bridge */
	TE_TOPO_NEAR_NODE,   /* in the same NUMA node */
	TE_TOPO_NEAR_SOCKET, /* in another NUMA node of the same socket */
	TE_TOPO_NEAR_FAR,    /* in another socket */
	TE_TOPO_NEAR_UNKNOWN,
};

struct te_topo_distance {
	uint32_t near;     /* enum te_topo_near */
	uint32_t numa;     /* te_topo_node_distance(); 0: unknown */
	uint32_t pci_hops; /* components in which the PCIe paths differ; 0: - */
	uint32_t preferred; /* 1: of the preferred rails of the memory */
	uint64_t rate_bps;  /* min of port and PCIe links; 0: unknown */
	uint64_t reserved[2];
};

/* 0, -ENOENT (no such memory or NIC). */
TE_API int te_topo_distance(const struct te_topo *topo, uint32_t memory,
			    uint32_t nic, struct te_topo_distance *out);

/**
 * te_topo_rails - which NICs should serve a memory, best first
 * @nics: nics[*n], or NULL with *n 0 to ask for the number
 * @n:    in: room; out: how many there are
 * @n_preferred: how many of them, from the first, are preferred; the others
 *        are for when those fail, or were measured to help
 *
 * Preferred are the nearest that are not down, nor virtual, nor slower than an
 * eighth of the fastest NIC of the machine. Returns 0, -ENOENT.
 */
TE_API int te_topo_rails(const struct te_topo *topo, uint32_t memory,
			 uint32_t *nics, size_t *n, size_t *n_preferred);

/**
 * te_topo_worker_cpus - the CPUs that should drive a NIC
 * @cpus: cpus[*n], ascending, or NULL with *n 0 to ask for the number
 * @n:    in: room; out: how many there are, 0: nothing is known
 *
 * Whole cores of the NIC's NUMA node, shared out among the NICs of the node.
 * Where the node is unknown: every CPU. Of this machine only those that this
 * process could use when the topology was read. Returns 0, -ENOENT.
 */
TE_API int te_topo_worker_cpus(const struct te_topo *topo, uint32_t nic,
			       uint32_t *cpus, size_t *n);

/* ---- what is wrong with it ---- */

enum te_topo_note_kind {
	TE_TOPO_NOTE_AFFINITY = 1, /* a NUMA node is unknown or contradictory */
	TE_TOPO_NOTE_LINK,         /* a port is down */
	TE_TOPO_NOTE_PCIE,         /* a PCIe link is what limits a NIC */
	TE_TOPO_NOTE_SKIPPED,      /* something could not be understood */
};

struct te_topo_note {
	uint32_t kind; /* enum te_topo_note_kind */
	uint32_t reserved_0;
	const char *text; /* one line, object first */
	uint64_t reserved[2];
};

/* @index: 0 .. n_notes - 1. 0, -ENOENT. */
TE_API int te_topo_note(const struct te_topo *topo, uint32_t index,
			struct te_topo_note *out);

#ifdef __cplusplus
}
#endif

#endif
