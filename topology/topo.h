/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topo.h - the inside of a machine's topology, and how it is put together
 *
 * Sources (sysfs, hwloc, JSON) add nodes, CPUs, NICs and memories in any order;
 * finish_topo() in build.c sorts them, ranks the NICs for each memory, and
 * writes the notes. After that a topology never changes.
 *
 * All text is checked as it is added, whatever the source: printable ASCII
 * without blanks for names, printable ASCII for models, of bounded length.
 */
#ifndef TOPOLOGY_TOPO_H
#define TOPOLOGY_TOPO_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/topo.h>

#define TEI_TOPO_NAME_MAX  48
#define TEI_TOPO_MODEL_MAX 80
#define TEI_TOPO_PATH_MAX  256
#define TEI_TOPO_BUS_MAX   16
#define TEI_TOPO_NOTE_MAX  160

/* More than any machine has; a source with more is refused. */
#define TEI_TOPO_NICS_MAX     256u
#define TEI_TOPO_MEMORIES_MAX 256u
#define TEI_TOPO_NODES_MAX    128u
#define TEI_TOPO_CPUS_MAX     8192u
#define TEI_TOPO_NOTES_MAX    256u
#define TEI_TOPO_NODE_NUMBERS 1024 /* node numbers are below */

struct tei_topo_pci {
	char bus_id[TEI_TOPO_BUS_MAX];
	char path[TEI_TOPO_PATH_MAX];
	uint32_t width, max_width, mtps, max_mtps;
	uint64_t path_bps;
};

struct tei_topo_nic {
	char name[TEI_TOPO_NAME_MAX];
	char interface[TEI_TOPO_NAME_MAX];
	char rdma[TEI_TOPO_NAME_MAX];
	char model[TEI_TOPO_MODEL_MAX];
	uint32_t rdma_port, kind, state;
	int32_t numa_node;
	uint64_t speed_bps;
	struct tei_topo_pci pci;
	bool is_virtual;
};

struct tei_topo_memory {
	char name[TEI_TOPO_NAME_MAX];
	char model[TEI_TOPO_MODEL_MAX];
	uint32_t kind;
	int32_t numa_node;
	uint64_t bytes;
	struct tei_topo_pci pci;
	/* NICs that serve it, best first. given: the source has said which. */
	uint16_t *rails;
	uint32_t n_rails, n_preferred;
	bool given;
};

struct tei_topo_node {
	int32_t number, package;
	uint64_t bytes;
	uint32_t n_cores, n_cpus;
	uint16_t distance[TEI_TOPO_NODES_MAX]; /* to the i-th node; 0 unknown */
};

struct tei_topo_cpu {
	uint32_t number;
	uint32_t core; /* the lowest CPU number of its core */
	int32_t node;
	bool allowed; /* this process may run on it */
};

struct te_topo {
	char model[TEI_TOPO_MODEL_MAX];
	struct tei_topo_node *nodes;      /* by number */
	struct tei_topo_cpu *cpus;        /* by number */
	struct tei_topo_nic *nics;        /* in natural order of their names */
	struct tei_topo_memory *memories; /* host first, then by name */
	struct te_topo_note *notes;       /* text is owned */
	uint32_t n_nodes, n_cpus, n_nics, n_memories, n_notes;
	uint32_t room_nodes, room_cpus, room_nics, room_memories, room_notes;
};

/* Message of a source about what it could not understand. */
struct tei_topo_error {
	char text[512];
};

/* Writes the line, and returns @rc. */
int tei_topo_fail(struct tei_topo_error *e, int rc, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- putting it together (build.c) ---- */

/*
 * A new entry with everything unknown, or NULL: out of memory or too many
 * (*rc says which: -ENOMEM, -E2BIG). The pointer is good until the next add.
 */
struct tei_topo_node *tei_topo_add_node(struct te_topo *t, int32_t number,
					int *rc);
struct tei_topo_cpu *tei_topo_add_cpu(struct te_topo *t, uint32_t number,
				      int *rc);
struct tei_topo_nic *tei_topo_add_nic(struct te_topo *t, int *rc);
struct tei_topo_memory *tei_topo_add_memory(struct te_topo *t, int *rc);
/* Sorts by number, before distances, which go by place, are filled in. */
void tei_topo_sort_nodes(struct te_topo *t);
/* The list of NICs that serve a memory, from indices: list[n]. -ENOMEM. */
int tei_topo_give_rails(struct tei_topo_memory *m, const uint16_t *list,
			uint32_t n, uint32_t n_preferred);
/* Notes are advice: what cannot be kept is dropped. */
void tei_topo_add_note(struct te_topo *t, uint32_t kind, const char *format,
		       ...) __attribute__((format(printf, 3, 4)));

/* The same by number or name; NULL: there is none. */
const struct tei_topo_node *tei_topo_node_of(const struct te_topo *t,
					     int32_t number);
struct tei_topo_nic *tei_topo_nic_named(const struct te_topo *t,
					const char *name);

/* ---- text (text.c) ---- */

/* Printable ASCII, no blank, 1 .. TEI_TOPO_NAME_MAX - 1 bytes. */
bool tei_topo_is_name(const char *text);
/* Copy what is printable, cut off at the room; blanks at the ends go. */
void tei_topo_copy_model(char *out, size_t room, const char *text);
/* "0-3,8" with ascending numbers below @max: calls @fn for each. -EBADMSG. */
int tei_topo_parse_list(const char *text, uint32_t max,
			int (*fn)(uint32_t number, void *arg), void *arg);
/* The opposite, for the CPUs of a node; cut off at the room. */
void tei_topo_print_cpus(const struct te_topo *t, int32_t node, char *out,
			 size_t room);
/* "a2" before "a10". */
int tei_topo_compare_names(const char *a, const char *b);

/* ---- PCI (text.c) ---- */

/* "0000:3b:00.0", of any length of domain. */
bool tei_topo_is_bus_id(const char *text, size_t len);
/*
 * Cut a device's path ("pci0000:00/0000:00:03.0/virtio2") down to what is PCI
 * and take bus id and path from it. False: nothing of it is PCI.
 */
bool tei_topo_pci_from_path(struct tei_topo_pci *pci, const char *path);
/* Payload bits/s of a link. 0: unknown. */
uint64_t tei_topo_link_bps(uint32_t mtps, uint32_t width);
/* Count the components that two paths have in common, and those that differ. */
void tei_topo_pci_compare(const char *a, const char *b, uint32_t *common,
			  uint32_t *differ);

/* ---- distances (build.c) ---- */

void tei_topo_measure(const struct te_topo *t, const struct tei_topo_memory *m,
		      const struct tei_topo_nic *nic,
		      struct te_topo_distance *out);
/* Rate of the fastest NIC that is not down. */
uint64_t tei_topo_fastest(const struct te_topo *t);
/* Virtual, or slow beside a NIC of rate @best: not preferred. */
bool tei_topo_is_minor(const struct tei_topo_nic *nic, uint64_t best);

/* ---- sources; each leaves finishing to the caller ---- */

int tei_topo_from_sysfs(struct te_topo *t, const char *root, uint32_t flags,
			struct tei_topo_error *e);
/*
 * @xml: a file, NULL: this machine. @names_only: leave what is there and add
 * names that hwloc alone knows.
 */
int tei_topo_from_hwloc(struct te_topo *t, const char *xml, bool names_only,
			struct tei_topo_error *e);
/* @name: of the file, for errors. */
int tei_topo_from_json(struct te_topo *t, const char *text, size_t len,
		       const char *name, struct tei_topo_error *e);

/* ---- shared by json_in.c and json_out.c ---- */

/* TENT's numbers in the field "type". */
enum { TEI_TOPO_TENT_RDMA = 0, TEI_TOPO_TENT_TCP = 1 };
#define TEI_TOPO_TENT_RANKS 3

/* Words for enum te_topo_nic_kind and te_topo_state; NULL at the end. */
extern const char *const tei_topo_kinds[];
extern const char *const tei_topo_states[];

/* ---- where memory is (query.c) ---- */

/*
 * NUMA node of the page at @addr; of an untouched one the node where it is to
 * be, or else where the calling thread runs. Never fails: 0 when in doubt.
 */
int32_t tei_topo_node_at(const void *addr);

#endif
