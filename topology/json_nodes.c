/* SPDX-License-Identifier: Apache-2.0 */
/* json_nodes.c - nodes, their CPUs and their distances, from JSON */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/json.h"

static int refuse(const struct tei_topo_reader *r, const char *place,
		  const char *key, const char *why)
{
	return tei_topo_fail(r->e, -EBADMSG, "%s: %s.%s: %s", r->name, place,
			     key, why);
}

/* ---- CPUs ---- */

struct adding {
	const struct tei_topo_reader *r;
	int32_t node;
};

static int add_cpu(uint32_t number, void *arg)
{
	struct adding *a = arg;
	struct tei_topo_cpu *cpu;
	int rc;

	cpu = tei_topo_add_cpu(a->r->t, number, &rc);
	if (cpu)
		cpu->node = a->node;
	return cpu ? 0 : rc;
}

static int read_cpus(const struct tei_topo_reader *r, const json_t *from,
		     const char *place, int32_t node)
{
	const json_t *value = json_object_get(from, "cpus");
	struct adding a = {.r = r, .node = node};
	int rc;

	if (!value)
		return 0;
	if (!json_is_string(value))
		return refuse(r, place, "cpus", "should be like \"0-15,32\"");
	rc = tei_topo_parse_list(json_string_value(value), TEI_TOPO_CPUS_MAX,
				 add_cpu, &a);
	if (rc == -ENOMEM)
		return tei_topo_fail(r->e, rc, "%s: out of memory", r->name);
	return rc ? refuse(r, place, "cpus", "should be like \"0-15,32\"") : 0;
}

static struct tei_topo_cpu *cpu_of(const struct tei_topo_reader *r,
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
static bool read_core(const struct tei_topo_reader *r, const json_t *core)
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

static int read_cores(const struct tei_topo_reader *r, const json_t *from,
		      const char *place)
{
	const json_t *cores = json_object_get(from, "cores");
	size_t i;

	if (cores && !json_is_array(cores))
		return refuse(r, place, "cores", "should be an array");
	for (i = 0; i < json_array_size(cores); i++) {
		if (!read_core(r, json_array_get(cores, i)))
			return refuse(r, place, "cores",
				      "should be lists of CPUs of this node, "
				      "each once and ascending");
	}
	return 0;
}

/* ---- nodes ---- */

int tei_topo_read_node(const struct tei_topo_reader *r, const json_t *from,
		       const char *place)
{
	int64_t number = -1, package = -1, bytes = 0;
	struct tei_topo_node *node;
	int rc;

	if (!json_is_object(from))
		return tei_topo_fail(r->e, -EBADMSG,
				     "%s: %s: should be an object", r->name,
				     place);
	rc = tei_topo_read_number(r, from, place, "node", 0,
				  TEI_TOPO_NODE_NUMBERS - 1, &number);
	if (!rc && number < 0)
		rc = refuse(r, place, "node", "is missing");
	if (!rc)
		rc = tei_topo_read_number(r, from, place, "package", -1,
					  TEI_TOPO_NODE_NUMBERS - 1, &package);
	if (!rc)
		rc = tei_topo_read_number(r, from, place, "bytes", 0,
					  INT64_MAX / TEI_TOPO_NODES_MAX,
					  &bytes);
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
static int read_row(const struct tei_topo_reader *r, const json_t *row,
		    const char *place, struct tei_topo_node *node)
{
	uint32_t i;
	int rc = 0;

	if (row && !json_is_object(row))
		return refuse(r, place, "distances", "should be an object");
	for (i = 0; !rc && row && i < r->t->n_nodes; i++) {
		int64_t value = 0;
		char key[16];

		snprintf(key, sizeof(key), "%d", r->t->nodes[i].number);
		rc = tei_topo_read_number(r, row, place, key, 0, 255, &value);
		node->distance[i] = (uint16_t)value;
	}
	return rc;
}

int tei_topo_read_distances(const struct tei_topo_reader *r, const json_t *root)
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
