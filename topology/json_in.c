/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_in.c - read a topology from JSON, in the full form or as a matrix
 *
 * A known key must have the right type and be within its limits; an unknown one
 * is passed over. Every refusal names the place: mems[2].rails[0][1].
 *
 * Which NICs serve a memory is said in one of two forms: two arrays of names
 * (preferred NICs, others), as Mooncake's matrix has them and our own "rails",
 * or TENT's "device_list", three ranks of indices into "nics".
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/topo.h"

struct json_reader {
	struct te_topo *t;
	struct tei_topo_error *e;
	const char *name; /* of the file */
};

/* ---- refusing ---- */

static int refuse_place(const struct json_reader *r, const char *place,
			const char *why)
{
	return tei_topo_fail(r->e, -EBADMSG, "%s: %s: %s", r->name, place, why);
}

static int refuse_key(const struct json_reader *r, const char *place,
		      const char *key, const char *why)
{
	return tei_topo_fail(r->e, -EBADMSG, "%s: %s.%s: %s", r->name, place,
			     key, why);
}

static int refuse_full(const struct json_reader *r, int rc, const char *what)
{
	if (rc == -E2BIG)
		return tei_topo_fail(r->e, -EBADMSG,
				     "%s: more %s than any machine has",
				     r->name, what);
	return tei_topo_fail(r->e, rc, "%s: out of memory", r->name);
}

/* ---- fields of an object; one that is absent leaves *@out as it is ---- */

/*
 * Reads a field of an object. Absent: *@out stays as it is. -EBADMSG: it is of
 * another type or out of bounds; the line names @place and @key.
 */
static int read_name(const struct json_reader *r, const json_t *from,
		     const char *place, const char *key,
		     char out[TEI_TOPO_NAME_MAX])
{
	const json_t *value = json_object_get(from, key);
	const char *text = json_string_value(value);

	if (!value || (text && !*text))
		return 0;
	if (!text || !tei_topo_is_name(text))
		return refuse_key(r, place, key,
				  "should be a name of up to 47 printable "
				  "characters");
	snprintf(out, TEI_TOPO_NAME_MAX, "%s", text);
	return 0;
}

/*
 * Reads a field of an object. Absent: *@out stays as it is. -EBADMSG: it is of
 * another type or out of bounds; the line names @place and @key.
 */
static int read_number(const struct json_reader *r, const json_t *from,
		       const char *place, const char *key, int64_t least,
		       int64_t most, int64_t *out)
{
	const json_t *value = json_object_get(from, key);
	char why[80];

	if (!value)
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < least ||
	    json_integer_value(value) > most) {
		snprintf(why, sizeof(why), "should be a number, %lld to %lld",
			 (long long)least, (long long)most);
		return refuse_key(r, place, key, why);
	}
	*out = json_integer_value(value);
	return 0;
}

static int read_u32(const struct json_reader *r, const json_t *from,
		    const char *place, const char *key, uint32_t *out)
{
	int64_t value = *out;
	int rc = read_number(r, from, place, key, 0, UINT32_MAX, &value);

	*out = (uint32_t)value;
	return rc;
}

static int read_u64(const struct json_reader *r, const json_t *from,
		    const char *place, const char *key, uint64_t *out)
{
	int64_t value = (int64_t)*out;
	int rc = read_number(r, from, place, key, 0, INT64_MAX, &value);

	*out = (uint64_t)value;
	return rc;
}

static int read_node(const struct json_reader *r, const json_t *from,
		     const char *place, const char *key, int32_t *out)
{
	int64_t value = *out;
	int rc = read_number(r, from, place, key, -1, TEI_TOPO_NODE_NUMBERS - 1,
			     &value);

	*out = (int32_t)value;
	return rc;
}

static int read_model(const struct json_reader *r, const json_t *from,
		      const char *place, const char *key, char *out,
		      size_t room)
{
	const json_t *value = json_object_get(from, key);

	if (!value)
		return 0;
	if (!json_is_string(value))
		return refuse_key(r, place, key, "should be text");
	tei_topo_copy_model(out, room, json_string_value(value));
	return 0;
}

/* Read a word of words[], whose place is the value. */
static int read_word(const struct json_reader *r, const json_t *from,
		     const char *place, const char *key,
		     const char *const words[], uint32_t *out)
{
	const json_t *value = json_object_get(from, key);
	const char *text = json_string_value(value);
	uint32_t i;

	if (!value)
		return 0;
	for (i = 0; text && words[i]; i++) {
		if (*words[i] && strcmp(words[i], text) == 0) {
			*out = i;
			return 0;
		}
	}
	return refuse_key(r, place, key, "no word that it may be");
}

static int read_pci(const struct json_reader *r, const json_t *from,
		    const char *place, struct tei_topo_pci *pci)
{
	const json_t *more = json_object_get(from, "pci");
	const char *path = json_string_value(json_object_get(more, "path"));
	const json_t *id = json_object_get(from, "pci_bus_id");
	const char *bus_id = json_string_value(id);
	char where[64];
	int rc;

	if (id && (!bus_id ||
		   (*bus_id && !tei_topo_is_bus_id(bus_id, strlen(bus_id)))))
		return refuse_key(r, place, "pci_bus_id",
				  "should be like 0000:3b:00.0");
	if (bus_id)
		snprintf(pci->bus_id, sizeof(pci->bus_id), "%s", bus_id);
	if (json_object_get(more, "path") &&
	    (!path || !tei_topo_pci_from_path(pci, path) ||
	     strcmp(pci->path, path) != 0 ||
	     (bus_id && strcmp(bus_id, pci->bus_id) != 0)))
		return refuse_key(r, place, "pci.path",
				  "should be like pci0000:3a/0000:3a:00.0/"
				  "0000:3b:00.0, ending in pci_bus_id");
	snprintf(where, sizeof(where), "%s.pci", place);
	rc = read_u32(r, more, where, "width", &pci->width);
	if (!rc)
		rc = read_u32(r, more, where, "max_width", &pci->max_width);
	if (!rc)
		rc = read_u32(r, more, where, "mtps", &pci->mtps);
	if (!rc)
		rc = read_u32(r, more, where, "max_mtps", &pci->max_mtps);
	return rc ? rc : read_u64(r, more, where, "path_bps", &pci->path_bps);
}

/* "cpu:3" says what it is and where. */
static void name_memory(struct tei_topo_memory *m)
{
	if (!strncmp(m->name, "cuda:", 5)) {
		m->kind = TE_TOPO_CUDA;
	} else if (!strncmp(m->name, "hip:", 4)) {
		m->kind = TE_TOPO_HIP;
	} else if (!strncmp(m->name, "cpu:", 4)) {
		const char *digits = m->name + 4;
		unsigned long n = strtoul(digits, NULL, 10);

		m->kind = TE_TOPO_HOST;
		if (*digits >= '0' && *digits <= '9' &&
		    n < TEI_TOPO_NODE_NUMBERS)
			m->numa_node = (int32_t)n;
	}
}

/* ---- CPUs ---- */

struct adding_cpus {
	const struct json_reader *r;
	int32_t node;
};

static int add_cpu(uint32_t number, void *arg)
{
	struct adding_cpus *a = arg;
	struct tei_topo_cpu *cpu;
	int rc;

	cpu = tei_topo_add_cpu(a->r->t, number, &rc);
	if (cpu)
		cpu->node = a->node;
	return cpu ? 0 : rc;
}

static int read_cpus(const struct json_reader *r, const json_t *from,
		     const char *place, int32_t node)
{
	const json_t *value = json_object_get(from, "cpus");
	struct adding_cpus a = {.r = r, .node = node};
	int rc;

	if (!value)
		return 0;
	if (!json_is_string(value))
		return refuse_key(r, place, "cpus",
				  "should be like \"0-15,32\"");
	rc = tei_topo_parse_list(json_string_value(value), TEI_TOPO_CPUS_MAX,
				 add_cpu, &a);
	if (rc == -ENOMEM)
		return tei_topo_fail(r->e, rc, "%s: out of memory", r->name);
	return rc ? refuse_key(r, place, "cpus", "should be like \"0-15,32\"")
		  : 0;
}

static struct tei_topo_cpu *cpu_of(const struct json_reader *r,
				   const json_t *value)
{
	uint32_t i;

	for (i = 0; json_is_integer(value) && i < r->t->n_cpus; i++) {
		if (r->t->cpus[i].number == json_integer_value(value))
			return &r->t->cpus[i];
	}
	return NULL;
}

/* [0, 64]: CPUs that are threads of one core. */
static bool read_core(const struct json_reader *r, const json_t *core)
{
	const struct tei_topo_cpu *first = cpu_of(r, json_array_get(core, 0));
	size_t i;

	if (!first)
		return false;
	for (i = 0; i < json_array_size(core); i++) {
		struct tei_topo_cpu *cpu = cpu_of(r, json_array_get(core, i));

		if (!cpu || cpu->core != cpu->number ||
		    cpu->number < first->number)
			return false;
		cpu->core = first->number;
	}
	return true;
}

static int read_cores(const struct json_reader *r, const json_t *from,
		      const char *place)
{
	const json_t *cores = json_object_get(from, "cores");
	size_t i;

	if (cores && !json_is_array(cores))
		return refuse_key(r, place, "cores", "should be an array");
	for (i = 0; i < json_array_size(cores); i++) {
		if (!read_core(r, json_array_get(cores, i)))
			return refuse_key(
				r, place, "cores",
				"should be lists of CPUs of this node, "
				"each once and ascending");
	}
	return 0;
}

/* ---- nodes ---- */

static int read_numa_node(const struct json_reader *r, const json_t *from,
			  const char *place)
{
	int64_t number = -1, package = -1, bytes = 0;
	struct tei_topo_node *node;
	int rc;

	if (!json_is_object(from))
		return tei_topo_fail(r->e, -EBADMSG,
				     "%s: %s: should be an object", r->name,
				     place);
	rc = read_number(r, from, place, "node", 0, TEI_TOPO_NODE_NUMBERS - 1,
			 &number);
	if (!rc && number < 0)
		rc = refuse_key(r, place, "node", "is missing");
	if (!rc)
		rc = read_number(r, from, place, "package", -1,
				 TEI_TOPO_NODE_NUMBERS - 1, &package);
	if (!rc)
		rc = read_number(r, from, place, "bytes", 0,
				 INT64_MAX / TEI_TOPO_NODES_MAX, &bytes);
	if (rc)
		return rc;
	node = tei_topo_add_node(r->t, (int32_t)number, &rc);
	if (!node)
		return tei_topo_fail(r->e, rc == -E2BIG ? -EBADMSG : rc,
				     "%s: %s: cannot be added", r->name, place);
	node->package = (int32_t)package;
	node->bytes = (uint64_t)bytes;
	rc = read_cpus(r, from, place, (int32_t)number);
	return rc ? rc : read_cores(r, from, place);
}

/* ---- distances ---- */

/* {"0": 10, "1": 21}: by the other node's number. */
static int read_row(const struct json_reader *r, const json_t *row,
		    const char *place, struct tei_topo_node *node)
{
	uint32_t i;
	int rc = 0;

	if (row && !json_is_object(row))
		return refuse_key(r, place, "distances", "should be an object");
	for (i = 0; !rc && row && i < r->t->n_nodes; i++) {
		int64_t value = 0;
		char key[16];

		snprintf(key, sizeof(key), "%d", r->t->nodes[i].number);
		rc = read_number(r, row, place, key, 0, 255, &value);
		node->distance[i] = (uint16_t)value;
	}
	return rc;
}

static int read_distances(const struct json_reader *r, const json_t *root)
{
	const json_t *nodes = json_object_get(root, "nodes");
	char place[48];
	size_t i;
	int rc = 0;

	for (i = 0; !rc && i < json_array_size(nodes); i++) {
		const json_t *from = json_array_get(nodes, i);
		int32_t number = (int32_t)json_integer_value(
			json_object_get(from, "node"));
		const struct tei_topo_node *node =
			tei_topo_node_of(r->t, number);

		snprintf(place, sizeof(place), "nodes[%zu].distances", i);
		rc = read_row(r, json_object_get(from, "distances"), place,
			      &r->t->nodes[node - r->t->nodes]);
	}
	return rc;
}

struct nic_list {
	uint16_t nics[TEI_TOPO_NICS_MAX];
	uint32_t n;
};

static int append_nic(const struct json_reader *r, const char *place,
		      struct nic_list *nic_list, uint32_t nic)
{
	char why[TEI_TOPO_NAME_MAX + 32];
	uint32_t i;

	for (i = 0; i < nic_list->n; i++) {
		if (nic_list->nics[i] != nic)
			continue;
		snprintf(why, sizeof(why), "NIC \"%s\" is listed twice",
			 r->t->nics[nic].name);
		return refuse_place(r, place, why);
	}
	nic_list->nics[nic_list->n++] = (uint16_t)nic;
	return 0;
}

/* ---- two arrays of names ---- */

/* The NIC of that name; in a matrix the name alone makes it. */
static int find_nic(const struct json_reader *r, const char *place,
		    const char *name, bool may_add, uint32_t *out)
{
	struct tei_topo_nic *nic = tei_topo_nic_named(r->t, name);
	char why[TEI_TOPO_NAME_MAX + 32];
	int rc;

	if (!nic && !may_add) {
		snprintf(why, sizeof(why), "there is no NIC \"%s\"", name);
		return refuse_place(r, place, why);
	}
	if (!nic) {
		nic = tei_topo_add_nic(r->t, &rc);
		if (!nic)
			return rc == -E2BIG
				       ? refuse_place(r, place, "too many NICs")
				       : refuse_place(r, place,
						      "out of memory");
		snprintf(nic->name, sizeof(nic->name), "%s", name);
	}
	*out = (uint32_t)(nic - r->t->nics);
	return 0;
}

static int read_names(const struct json_reader *r, const json_t *array,
		      const char *place, bool may_add,
		      struct nic_list *nic_list)
{
	uint32_t nic = 0;
	char where[160];
	size_t i;
	int rc = 0;

	for (i = 0; !rc && i < json_array_size(array); i++) {
		const char *name = json_string_value(json_array_get(array, i));

		snprintf(where, sizeof(where), "%s[%zu]", place, i);
		if (!name || !tei_topo_is_name(name))
			return refuse_place(r, where,
					    "should be the name of a NIC");
		rc = find_nic(r, where, name, may_add, &nic);
		if (!rc)
			rc = append_nic(r, where, nic_list, nic);
	}
	return rc;
}

static int read_two_arrays(const struct json_reader *r, const json_t *two,
			   const char *place, bool may_add,
			   struct tei_topo_memory *m)
{
	const json_t *first = json_array_get(two, 0);
	const json_t *second = json_array_get(two, 1);
	struct nic_list nic_list = {.n = 0};
	uint32_t n_preferred;
	char where[128];
	int rc;

	if (json_array_size(two) != 2 || !json_is_array(first) ||
	    !json_is_array(second))
		return refuse_place(r, place,
				    "should be two arrays of names of NICs");
	snprintf(where, sizeof(where), "%s[0]", place);
	rc = read_names(r, first, where, may_add, &nic_list);
	n_preferred = nic_list.n;
	snprintf(where, sizeof(where), "%s[1]", place);
	if (!rc)
		rc = read_names(r, second, where, may_add, &nic_list);
	if (rc)
		return rc;
	m->given = true;
	return tei_topo_give_rails(m, nic_list.nics, nic_list.n, n_preferred);
}

/* ---- TENT's ranks ---- */

static int read_rank(const struct json_reader *r, const json_t *array,
		     const char *place, struct nic_list *nic_list)
{
	char where[128];
	size_t i;
	int rc = 0;

	if (array && !json_is_array(array))
		return refuse_place(r, place, "should be an array");
	for (i = 0; !rc && i < json_array_size(array); i++) {
		const json_t *value = json_array_get(array, i);

		snprintf(where, sizeof(where), "%s[%zu]", place, i);
		if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		    json_integer_value(value) >= r->t->n_nics)
			return refuse_place(r, where,
					    "should be a place in nics[]");
		rc = append_nic(r, where, nic_list,
				(uint32_t)json_integer_value(value));
	}
	return rc;
}

/* The first rank that is not empty is what the memory prefers. */
static int read_ranks(const struct json_reader *r, const json_t *ranks,
		      const char *place, struct tei_topo_memory *m)
{
	struct nic_list nic_list = {.n = 0};
	uint32_t n_preferred = 0;
	char where[96], key[16];
	int rank, rc = 0;

	if (!json_is_object(ranks))
		return refuse_place(r, place, "should be an object of ranks");
	for (rank = 0; !rc && rank < TEI_TOPO_TENT_RANKS; rank++) {
		snprintf(key, sizeof(key), "rank%d", rank);
		snprintf(where, sizeof(where), "%s.%s", place, key);
		rc = read_rank(r, json_object_get(ranks, key), where,
			       &nic_list);
		if (!n_preferred)
			n_preferred = nic_list.n;
	}
	if (rc)
		return rc;
	m->given = true;
	return tei_topo_give_rails(m, nic_list.nics, nic_list.n, n_preferred);
}

/* Read which NICs serve a memory. */
static int read_rails(const struct json_reader *r, const json_t *from,
		      const char *place, struct tei_topo_memory *m)
{
	const json_t *rails = json_object_get(from, "rails");
	const json_t *ranks = json_object_get(from, "device_list");
	char where[64];

	if (rails) {
		snprintf(where, sizeof(where), "%s.rails", place);
		return read_two_arrays(r, rails, where, false, m);
	}
	if (!ranks)
		return 0;
	snprintf(where, sizeof(where), "%s.device_list", place);
	return read_ranks(r, ranks, where, m);
}

/* ---- the matrix ---- */

/* A NIC that one node alone prefers is taken to be in it. */
static void guess_nodes(struct te_topo *t)
{
	uint32_t i, k;

	for (i = 0; i < t->n_memories; i++) {
		const struct tei_topo_memory *m = &t->memories[i];

		for (k = 0; m->kind == TE_TOPO_HOST && k < m->n_preferred;
		     k++) {
			struct tei_topo_nic *nic = &t->nics[m->rails[k]];

			/* -2: of two, for now */
			nic->numa_node =
				nic->numa_node == -1 ? m->numa_node : -2;
		}
	}
	for (i = 0; i < t->n_nics; i++) {
		if (t->nics[i].numa_node < 0)
			t->nics[i].numa_node = -1;
	}
}

static int read_matrix(const struct json_reader *r, const json_t *root)
{
	struct tei_topo_memory *m;
	char place[TEI_TOPO_NAME_MAX + 2];
	const char *key;
	json_t *value;
	int rc;

	json_object_foreach((json_t *)(uintptr_t)root, key, value)
	{
		if (!tei_topo_is_name(key))
			return refuse_place(r, "top",
					    "a key is no name of a memory");
		m = tei_topo_add_memory(r->t, &rc);
		if (!m)
			return refuse_place(r, key,
					    rc == -E2BIG ? "too many memories"
							 : "out of memory");
		snprintf(m->name, sizeof(m->name), "%s", key);
		name_memory(m);
		snprintf(place, sizeof(place), "\"%s\"", key);
		rc = read_two_arrays(r, value, place, true, m);
		if (rc)
			return rc;
	}
	guess_nodes(r->t);
	return 0;
}

/* ---- NICs ---- */

/* TENT's number for what kind of NIC it is; "kind" says it better. */
static void guess_kind(const json_t *from, struct tei_topo_nic *nic)
{
	const json_t *type = json_object_get(from, "type");

	if (!json_is_integer(type))
		return;
	if (json_integer_value(type) == TEI_TOPO_TENT_RDMA)
		nic->kind = TE_TOPO_RDMA;
	else if (json_integer_value(type) == TEI_TOPO_TENT_TCP)
		nic->kind = TE_TOPO_ETH;
}

static int read_link(const struct json_reader *r, const json_t *from,
		     const char *place, struct tei_topo_nic *nic)
{
	int rc;

	guess_kind(from, nic);
	nic->is_virtual = json_is_true(json_object_get(from, "virtual"));
	rc = read_word(r, from, place, "kind", tei_topo_kinds, &nic->kind);
	if (!rc)
		rc = read_word(r, from, place, "state", tei_topo_states,
			       &nic->state);
	if (!rc)
		rc = read_node(r, from, place, "numa_node", &nic->numa_node);
	if (!rc)
		rc = read_u64(r, from, place, "speed_bps", &nic->speed_bps);
	return rc;
}

static int read_nic(const struct json_reader *r, const json_t *from,
		    const char *place)
{
	struct tei_topo_nic *nic;
	int rc;

	if (!json_is_object(from))
		return refuse_place(r, place, "should be an object");
	nic = tei_topo_add_nic(r->t, &rc);
	if (!nic)
		return refuse_full(r, rc, "NICs");
	rc = read_name(r, from, place, "name", nic->name);
	if (!rc && !*nic->name)
		rc = refuse_key(r, place, "name", "is missing");
	if (!rc)
		rc = read_name(r, from, place, "interface", nic->interface);
	if (!rc)
		rc = read_name(r, from, place, "rdma", nic->rdma);
	if (!rc)
		rc = read_u32(r, from, place, "rdma_port", &nic->rdma_port);
	if (!rc)
		rc = read_model(r, from, place, "model", nic->model,
				sizeof(nic->model));
	if (!rc)
		rc = read_link(r, from, place, nic);
	return rc ? rc : read_pci(r, from, place, &nic->pci);
}

/* ---- memories ---- */

static int read_memory(const struct json_reader *r, const json_t *from,
		       const char *place)
{
	struct tei_topo_memory *m;
	int rc;

	if (!json_is_object(from))
		return refuse_place(r, place, "should be an object");
	m = tei_topo_add_memory(r->t, &rc);
	if (!m)
		return refuse_full(r, rc, "memories");
	rc = read_name(r, from, place, "name", m->name);
	if (!rc && !*m->name)
		rc = refuse_key(r, place, "name", "is missing");
	if (rc)
		return rc;
	name_memory(m);
	rc = read_node(r, from, place, "numa_node", &m->numa_node);
	if (!rc)
		rc = read_u64(r, from, place, "bytes", &m->bytes);
	if (!rc)
		rc = read_model(r, from, place, "model", m->model,
				sizeof(m->model));
	if (!rc)
		rc = read_pci(r, from, place, &m->pci);
	return rc ? rc : read_rails(r, from, place, m);
}

/* ---- the document ---- */

static int read_each(const struct json_reader *r, const json_t *root,
		     const char *key,
		     int (*fn)(const struct json_reader *r, const json_t *from,
			       const char *place))
{
	const json_t *array = json_object_get(root, key);
	char place[32];
	size_t i;
	int rc = 0;

	if (array && !json_is_array(array))
		return refuse_place(r, key, "should be an array");
	for (i = 0; !rc && i < json_array_size(array); i++) {
		snprintf(place, sizeof(place), "%s[%zu]", key, i);
		rc = fn(r, json_array_get(array, i), place);
	}
	return rc;
}

static int read_full(const struct json_reader *r, const json_t *root)
{
	int rc = read_model(r, root, "top", "model", r->t->model,
			    sizeof(r->t->model));

	if (!rc)
		rc = read_each(r, root, "nodes", read_numa_node);
	if (rc)
		return rc;
	tei_topo_sort_nodes(r->t);
	rc = read_distances(r, root);
	if (!rc)
		rc = read_each(r, root, "nics", read_nic);
	return rc ? rc : read_each(r, root, "mems", read_memory);
}

int tei_topo_from_json(struct te_topo *t, const char *text, size_t len,
		       const char *name, struct tei_topo_error *e)
{
	const struct json_reader r = {.t = t, .e = e, .name = name};
	json_error_t error;
	json_t *root;
	int rc;

	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		return tei_topo_fail(e, -EBADMSG, "%s:%d:%d: %s", name,
				     error.line, error.column, error.text);
	if (!json_is_object(root))
		rc = refuse_place(&r, "top", "should be an object");
	else if (json_object_get(root, "nics") || json_object_get(root, "mems"))
		rc = read_full(&r, root);
	else
		rc = read_matrix(&r, root);
	json_decref(root);
	return rc;
}
