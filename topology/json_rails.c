/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_rails.c - which NICs serve a memory: two arrays of names, or TENT's
 * three ranks of places in "nics"
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "topology/json.h"

struct list {
	uint16_t nics[TEI_TOPO_NICS_MAX];
	uint32_t n;
};

static int refuse(const struct tei_topo_reader *r, const char *place,
		  const char *why)
{
	return tei_topo_fail(r->e, -EBADMSG, "%s: %s: %s", r->name, place, why);
}

static int append(const struct tei_topo_reader *r, const char *place,
		  struct list *list, uint32_t nic)
{
	char why[TEI_TOPO_NAME_MAX + 32];
	uint32_t i;

	for (i = 0; i < list->n; i++) {
		if (list->nics[i] != nic)
			continue;
		snprintf(why, sizeof(why), "NIC \"%s\" is listed twice",
			 r->t->nics[nic].name);
		return refuse(r, place, why);
	}
	list->nics[list->n++] = (uint16_t)nic;
	return 0;
}

/* ---- two arrays of names ---- */

/* The NIC of that name; in a matrix the name alone makes it. */
static int find_nic(const struct tei_topo_reader *r, const char *place,
		    const char *name, bool may_add, uint32_t *out)
{
	struct tei_topo_nic *nic = tei_topo_nic_named(r->t, name);
	char why[TEI_TOPO_NAME_MAX + 32];
	int rc;

	if (!nic && !may_add) {
		snprintf(why, sizeof(why), "there is no NIC \"%s\"", name);
		return refuse(r, place, why);
	}
	if (!nic) {
		nic = tei_topo_add_nic(r->t, &rc);
		if (!nic)
			return rc == -E2BIG ? refuse(r, place, "too many NICs")
					    : refuse(r, place, "out of memory");
		snprintf(nic->name, sizeof(nic->name), "%s", name);
	}
	*out = (uint32_t)(nic - r->t->nics);
	return 0;
}

static int read_names(const struct tei_topo_reader *r, const json_t *array,
		      const char *place, bool may_add, struct list *list)
{
	uint32_t nic = 0;
	char where[160];
	size_t i;
	int rc = 0;

	for (i = 0; !rc && i < json_array_size(array); i++) {
		const char *name = json_string_value(json_array_get(array, i));

		snprintf(where, sizeof(where), "%s[%zu]", place, i);
		if (!name || !tei_topo_is_name(name))
			return refuse(r, where, "should be the name of a NIC");
		rc = find_nic(r, where, name, may_add, &nic);
		if (!rc)
			rc = append(r, where, list, nic);
	}
	return rc;
}

static int read_two_arrays(const struct tei_topo_reader *r, const json_t *two,
			   const char *place, bool may_add,
			   struct tei_topo_memory *m)
{
	const json_t *first = json_array_get(two, 0);
	const json_t *second = json_array_get(two, 1);
	struct list list = {.n = 0};
	uint32_t n_preferred;
	char where[128];
	int rc;

	if (json_array_size(two) != 2 || !json_is_array(first) ||
	    !json_is_array(second))
		return refuse(r, place,
			      "should be two arrays of names of NICs");
	snprintf(where, sizeof(where), "%s[0]", place);
	rc = read_names(r, first, where, may_add, &list);
	n_preferred = list.n;
	snprintf(where, sizeof(where), "%s[1]", place);
	if (!rc)
		rc = read_names(r, second, where, may_add, &list);
	if (rc)
		return rc;
	m->given = true;
	return tei_topo_give_rails(m, list.nics, list.n, n_preferred);
}

/* ---- TENT's ranks ---- */

static int read_rank(const struct tei_topo_reader *r, const json_t *array,
		     const char *place, struct list *list)
{
	char where[128];
	size_t i;
	int rc = 0;

	if (array && !json_is_array(array))
		return refuse(r, place, "should be an array");
	for (i = 0; !rc && i < json_array_size(array); i++) {
		const json_t *value = json_array_get(array, i);

		snprintf(where, sizeof(where), "%s[%zu]", place, i);
		if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		    json_integer_value(value) >= r->t->n_nics)
			return refuse(r, where, "should be a place in nics[]");
		rc = append(r, where, list,
			    (uint32_t)json_integer_value(value));
	}
	return rc;
}

/* The first rank that is not empty is what the memory prefers. */
static int read_ranks(const struct tei_topo_reader *r, const json_t *ranks,
		      const char *place, struct tei_topo_memory *m)
{
	struct list list = {.n = 0};
	uint32_t n_preferred = 0;
	char where[96], key[16];
	int rank, rc = 0;

	if (!json_is_object(ranks))
		return refuse(r, place, "should be an object of ranks");
	for (rank = 0; !rc && rank < TEI_TOPO_TENT_RANKS; rank++) {
		snprintf(key, sizeof(key), "rank%d", rank);
		snprintf(where, sizeof(where), "%s.%s", place, key);
		rc = read_rank(r, json_object_get(ranks, key), where, &list);
		if (!n_preferred)
			n_preferred = list.n;
	}
	if (rc)
		return rc;
	m->given = true;
	return tei_topo_give_rails(m, list.nics, list.n, n_preferred);
}

int tei_topo_read_rails(const struct tei_topo_reader *r, const json_t *from,
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

int tei_topo_read_matrix(const struct tei_topo_reader *r, const json_t *root)
{
	struct tei_topo_memory *m;
	char place[TEI_TOPO_NAME_MAX + 2];
	const char *key;
	json_t *value;
	int rc;

	json_object_foreach((json_t *)(uintptr_t)root, key, value)
	{
		if (!tei_topo_is_name(key))
			return refuse(r, "top", "a key is no name of a memory");
		m = tei_topo_add_memory(r->t, &rc);
		if (!m)
			return refuse(r, key,
				      rc == -E2BIG ? "too many memories"
						   : "out of memory");
		snprintf(m->name, sizeof(m->name), "%s", key);
		tei_topo_name_memory(m);
		snprintf(place, sizeof(place), "\"%s\"", key);
		rc = read_two_arrays(r, value, place, true, m);
		if (rc)
			return rc;
	}
	guess_nodes(r->t);
	return 0;
}
