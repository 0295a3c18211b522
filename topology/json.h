/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - what the files that read and write JSON share */
#ifndef TOPOLOGY_JSON_H
#define TOPOLOGY_JSON_H

#include <jansson.h>

#include "topology/topo.h"

/* TENT's numbers in the field "type". */
enum { TEI_TOPO_TENT_RDMA = 0, TEI_TOPO_TENT_TCP = 1 };
#define TEI_TOPO_TENT_RANKS 3

struct tei_topo_reader {
	struct te_topo *t;
	struct tei_topo_error *e;
	const char *name; /* of the file */
};

/* Words for enum te_topo_nic_kind and te_topo_state; NULL at the end. */
extern const char *const tei_topo_kinds[];
extern const char *const tei_topo_states[];

/*
 * One field of an object. Absent: *@out stays as it is. -EBADMSG: it is of
 * another type or out of bounds; the line names @place and @key.
 */
int tei_topo_read_name(const struct tei_topo_reader *r, const json_t *from,
		       const char *place, const char *key,
		       char out[TEI_TOPO_NAME_MAX]);
int tei_topo_read_number(const struct tei_topo_reader *r, const json_t *from,
			 const char *place, const char *key, int64_t least,
			 int64_t most, int64_t *out);

/* Kind, and for host memory the node, by the name. */
void tei_topo_name_memory(struct tei_topo_memory *m);

/* Nodes, CPUs and distances (json_nodes.c). */
int tei_topo_read_node(const struct tei_topo_reader *r, const json_t *from,
		       const char *place);
int tei_topo_read_distances(const struct tei_topo_reader *r,
			    const json_t *root);

/* Which NICs serve a memory (json_rails.c). */
int tei_topo_read_rails(const struct tei_topo_reader *r, const json_t *from,
			const char *place, struct tei_topo_memory *m);
int tei_topo_read_matrix(const struct tei_topo_reader *r, const json_t *root);

#endif
