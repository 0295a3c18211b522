/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_out.c - write a topology as JSON
 *
 * The full form has the fields that TENT reads (name, pci_bus_id, type,
 * numa_node, device_list) and ours beside them. A value that could not be made
 * for want of memory is NULL; setting it fails, and so does the whole.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/topo.h"

const char *const tei_topo_kinds[] = {
	[0] = "",
	[TE_TOPO_ETH] = "eth",
	[TE_TOPO_ROCE] = "roce",
	[TE_TOPO_IB] = "ib",
	[TE_TOPO_RDMA] = "rdma",
	[TE_TOPO_OTHER] = "other",
	NULL,
};

const char *const tei_topo_states[] = {
	[TE_TOPO_STATE_UNKNOWN] = "unknown",
	[TE_TOPO_UP] = "up",
	[TE_TOPO_DOWN] = "down",
	NULL,
};

/* Sets key to value, which is taken; counts failures. */
static void set_value(json_t *object, const char *key, json_t *value,
		      int *failed)
{
	if (json_object_set_new(object, key, value))
		++*failed;
}

static void append(json_t *array, json_t *value, int *failed)
{
	if (json_array_append_new(array, value))
		++*failed;
}

static void set_text(json_t *object, const char *key, const char *text,
		     int *failed)
{
	if (*text)
		set_value(object, key, json_string(text), failed);
}

static void set_number(json_t *object, const char *key, uint64_t value,
		       int *failed)
{
	if (value)
		set_value(object, key, json_integer((json_int_t)value), failed);
}

/* ---- rails ---- */

static json_t *names(const struct te_topo *t, const struct tei_topo_memory *m,
		     uint32_t from, uint32_t to, int *failed)
{
	json_t *array = json_array();

	for (; from < to; from++)
		append(array, json_string(t->nics[m->rails[from]].name),
		       failed);
	return array;
}

static json_t *two_arrays(const struct te_topo *t,
			  const struct tei_topo_memory *m, int *failed)
{
	json_t *two = json_array();

	append(two, names(t, m, 0, m->n_preferred, failed), failed);
	append(two, names(t, m, m->n_preferred, m->n_rails, failed), failed);
	return two;
}

/* TENT's ranks: preferred, others of the same node, the rest. */
static int rank_of(const struct te_topo *t, const struct tei_topo_memory *m,
		   uint32_t i)
{
	struct te_topo_distance d;

	if (i < m->n_preferred)
		return 0;
	tei_topo_measure(t, m, &t->nics[m->rails[i]], &d);
	return d.near <= TE_TOPO_NEAR_NODE ? 1 : 2;
}

static json_t *ranks(const struct te_topo *t, const struct tei_topo_memory *m,
		     int *failed)
{
	json_t *object = json_object();
	char key[16];
	uint32_t i;
	int rank;

	for (rank = 0; rank < TEI_TOPO_TENT_RANKS; rank++) {
		json_t *array = json_array();

		for (i = 0; i < m->n_rails; i++) {
			if (rank_of(t, m, i) == rank)
				append(array, json_integer(m->rails[i]),
				       failed);
		}
		snprintf(key, sizeof(key), "rank%d", rank);
		set_value(object, key, array, failed);
	}
	return object;
}

/* ---- nodes ---- */

static json_t *cores(const struct te_topo *t, int32_t node, int *failed)
{
	json_t *array = json_array();
	uint32_t i, k;

	for (i = 0; i < t->n_cpus; i++) {
		json_t *core = NULL;

		if (t->cpus[i].node != node ||
		    t->cpus[i].core != t->cpus[i].number)
			continue;
		for (k = i + 1; k < t->n_cpus; k++) {
			if (t->cpus[k].core != t->cpus[i].number)
				continue;
			if (!core) {
				core = json_array();
				append(core, json_integer(t->cpus[i].number),
				       failed);
			}
			append(core, json_integer(t->cpus[k].number), failed);
		}
		if (core)
			append(array, core, failed);
	}
	return array;
}

static json_t *distances(const struct te_topo *t,
			 const struct tei_topo_node *node, int *failed)
{
	json_t *object = json_object();
	char key[16];
	uint32_t i;

	for (i = 0; i < t->n_nodes; i++) {
		snprintf(key, sizeof(key), "%d", t->nodes[i].number);
		set_number(object, key, node->distance[i], failed);
	}
	return object;
}

static json_t *show_node(const struct te_topo *t, uint32_t i, int *failed)
{
	const struct tei_topo_node *node = &t->nodes[i];
	json_t *object = json_object(), *array;
	char list[4096];

	set_value(object, "node", json_integer(node->number), failed);
	set_value(object, "package", json_integer(node->package), failed);
	set_number(object, "bytes", node->bytes, failed);
	tei_topo_print_cpus(t, node->number, list, sizeof(list));
	set_value(object, "cpus", json_string(list), failed);
	array = cores(t, node->number, failed);
	if (json_array_size(array))
		set_value(object, "cores", array, failed);
	else
		json_decref(array);
	set_value(object, "distances", distances(t, node, failed), failed);
	return object;
}

/* ---- NICs and memories ---- */

static void set_pci(json_t *object, const struct tei_topo_pci *pci, int *failed)
{
	json_t *more;

	set_value(object, "pci_bus_id", json_string(pci->bus_id), failed);
	if (!*pci->path)
		return;
	more = json_object();
	set_text(more, "path", pci->path, failed);
	set_number(more, "width", pci->width, failed);
	set_number(more, "max_width", pci->max_width, failed);
	set_number(more, "mtps", pci->mtps, failed);
	set_number(more, "max_mtps", pci->max_mtps, failed);
	set_number(more, "path_bps", pci->path_bps, failed);
	set_value(object, "pci", more, failed);
}

static json_t *show_nic(const struct te_topo *t, uint32_t i, int *failed)
{
	const struct tei_topo_nic *nic = &t->nics[i];
	json_t *object = json_object();
	bool rdma = nic->kind == TE_TOPO_ROCE || nic->kind == TE_TOPO_IB ||
		    nic->kind == TE_TOPO_RDMA;

	set_value(object, "name", json_string(nic->name), failed);
	set_text(object, "interface", nic->interface, failed);
	set_text(object, "rdma", nic->rdma, failed);
	set_number(object, "rdma_port", nic->rdma_port, failed);
	set_text(object, "model", nic->model, failed);
	set_value(object, "type",
		  json_integer(rdma ? TEI_TOPO_TENT_RDMA : TEI_TOPO_TENT_TCP),
		  failed);
	set_value(object, "kind", json_string(tei_topo_kinds[nic->kind]),
		  failed);
	set_value(object, "state", json_string(tei_topo_states[nic->state]),
		  failed);
	set_value(object, "numa_node", json_integer(nic->numa_node), failed);
	set_number(object, "speed_bps", nic->speed_bps, failed);
	set_pci(object, &nic->pci, failed);
	if (nic->is_virtual)
		set_value(object, "virtual", json_true(), failed);
	return object;
}

static json_t *show_memory(const struct te_topo *t, uint32_t i, int *failed)
{
	const struct tei_topo_memory *m = &t->memories[i];
	static const int tent[] = {[TE_TOPO_HOST] = 0,
				   [TE_TOPO_CUDA] = 1,
				   [TE_TOPO_HIP] = 2,
				   [TE_TOPO_DEVICE] = 4};
	json_t *object = json_object();

	set_value(object, "name", json_string(m->name), failed);
	set_text(object, "model", m->model, failed);
	set_value(object, "type", json_integer(tent[m->kind]), failed);
	set_value(object, "numa_node", json_integer(m->numa_node), failed);
	set_number(object, "bytes", m->bytes, failed);
	set_pci(object, &m->pci, failed);
	set_value(object, "rails", two_arrays(t, m, failed), failed);
	set_value(object, "device_list", ranks(t, m, failed), failed);
	return object;
}

/* ---- the whole ---- */

/*
 * Prints a line per node, NIC and memory: short enough to be read, and for diff
 * to show how machines differ.
 */
static void print_array(FILE *out, const char *key, uint32_t n,
			json_t *(*show)(const struct te_topo *t, uint32_t i,
					int *failed),
			const struct te_topo *t, int *failed)
{
	uint32_t i;

	fprintf(out, "  \"%s\": [", key);
	for (i = 0; i < n; i++) {
		json_t *line = show(t, i, failed);

		fputs(i ? ",\n    " : "\n    ", out);
		if (json_dumpf(line, out, 0))
			++*failed;
		json_decref(line);
	}
	fputs(n ? "\n  ]" : "]", out);
}

static void print_full(const struct te_topo *t, FILE *out, int *failed)
{
	json_t *model = json_string(t->model);

	fputs("{\n  \"model\": ", out);
	if (json_dumpf(model, out, JSON_ENCODE_ANY))
		++*failed;
	json_decref(model);
	fputs(",\n", out);
	print_array(out, "nodes", t->n_nodes, show_node, t, failed);
	fputs(",\n", out);
	print_array(out, "nics", t->n_nics, show_nic, t, failed);
	fputs(",\n", out);
	print_array(out, "mems", t->n_memories, show_memory, t, failed);
	fputs("\n}\n", out);
}

static void print_matrix(const struct te_topo *t, FILE *out, int *failed)
{
	uint32_t i;

	fputs("{", out);
	for (i = 0; i < t->n_memories; i++) {
		json_t *name = json_string(t->memories[i].name);
		json_t *two = two_arrays(t, &t->memories[i], failed);

		fputs(i ? ",\n  " : "\n  ", out);
		if (json_dumpf(name, out, JSON_ENCODE_ANY) ||
		    fputs(": ", out) < 0 || json_dumpf(two, out, 0))
			++*failed;
		json_decref(name);
		json_decref(two);
	}
	fputs(t->n_memories ? "\n}\n" : "}\n", out);
}

static int deliver_text(const char *text, size_t n, char *out, size_t *len)
{
	size_t room = *len;

	*len = n + 1;
	if (n + 1 > room)
		return -ENOBUFS;
	memcpy(out, text, n + 1);
	return 0;
}

int te_topo_format(const struct te_topo *t, enum te_topo_form form, char *out,
		   size_t *len)
{
	char *text = NULL;
	size_t n = 0;
	FILE *file;
	int failed = 0, rc;

	if (form != TE_TOPO_FULL && form != TE_TOPO_MATRIX)
		return -EINVAL;
	file = open_memstream(&text, &n);
	if (!file)
		return -ENOMEM;
	if (form == TE_TOPO_FULL)
		print_full(t, file, &failed);
	else
		print_matrix(t, file, &failed);
	if (fclose(file))
		failed++;
	rc = failed || !text ? -ENOMEM : deliver_text(text, n, out, len);
	free(text);
	return rc;
}
