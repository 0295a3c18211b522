/* SPDX-License-Identifier: Apache-2.0 */
/* build.c - putting a picture together, and taking it apart */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/topo.h"

int tei_topo_fail(struct tei_topo_error *e, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(e->text, sizeof(e->text), format, args);
	va_end(args);
	return rc;
}

struct te_topo *tei_topo_make(void)
{
	return tei_calloc(1, sizeof(struct te_topo));
}

void te_topo_destroy(struct te_topo *t)
{
	uint32_t i;

	if (!t)
		return;
	for (i = 0; i < t->n_memories; i++)
		tei_free(t->memories[i].rails);
	for (i = 0; i < t->n_notes; i++)
		tei_free((void *)(uintptr_t)t->notes[i].text);
	tei_free(t->nodes);
	tei_free(t->cpus);
	tei_free(t->nics);
	tei_free(t->memories);
	tei_free(t->notes);
	tei_free(t);
}

/* ---- adding ---- */

/* Room for one more in *@array, zeroed; NULL: *rc says why not. */
static void *grow(void **array, uint32_t *n, uint32_t *room, size_t size,
		  uint32_t max, int *rc)
{
	char *at = *array;

	*rc = -E2BIG;
	if (*n == max)
		return NULL;
	*rc = -ENOMEM;
	if (*n == *room) {
		uint32_t more = *room ? *room * 2 : 8;

		at = tei_realloc(at, more * size);
		if (!at)
			return NULL;
		*array = at;
		*room = more;
	}
	*rc = 0;
	at += *n * size;
	memset(at, 0, size);
	++*n;
	return at;
}

#define GROW(t, what, max, rc)                                       \
	grow((void **)&(t)->what, &(t)->n_##what, &(t)->room_##what, \
	     sizeof(*(t)->what), max, rc)

struct tei_topo_node *tei_topo_add_node(struct te_topo *t, int32_t number,
					int *rc)
{
	struct tei_topo_node *node = GROW(t, nodes, TEI_TOPO_NODES_MAX, rc);

	if (node) {
		node->number = number;
		node->package = -1;
	}
	return node;
}

struct tei_topo_cpu *tei_topo_add_cpu(struct te_topo *t, uint32_t number,
				      int *rc)
{
	struct tei_topo_cpu *cpu = GROW(t, cpus, TEI_TOPO_CPUS_MAX, rc);

	if (cpu) {
		cpu->number = number;
		cpu->core = number;
		cpu->node = -1;
		cpu->allowed = true;
	}
	return cpu;
}

struct tei_topo_nic *tei_topo_add_nic(struct te_topo *t, int *rc)
{
	struct tei_topo_nic *nic = GROW(t, nics, TEI_TOPO_NICS_MAX, rc);

	if (nic) {
		nic->kind = TE_TOPO_OTHER;
		nic->numa_node = -1;
	}
	return nic;
}

struct tei_topo_memory *tei_topo_add_memory(struct te_topo *t, int *rc)
{
	struct tei_topo_memory *m =
		GROW(t, memories, TEI_TOPO_MEMORIES_MAX, rc);

	if (m) {
		m->kind = TE_TOPO_DEVICE;
		m->numa_node = -1;
	}
	return m;
}

int tei_topo_give_rails(struct tei_topo_memory *m, const uint16_t *list,
			uint32_t n, uint32_t n_preferred)
{
	uint16_t *rails = tei_calloc(n + 1, sizeof(*rails));

	if (!rails)
		return -ENOMEM;
	if (n)
		memcpy(rails, list, n * sizeof(*rails));
	tei_free(m->rails);
	m->rails = rails;
	m->n_rails = n;
	m->n_preferred = n_preferred;
	return 0;
}

void tei_topo_add_note(struct te_topo *t, uint32_t kind, const char *format,
		       ...)
{
	char line[TEI_TOPO_NOTE_MAX];
	struct te_topo_note *note;
	char *text;
	va_list args;
	int rc;

	va_start(args, format);
	(void)vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	text = tei_strdup(line);
	if (!text)
		return;
	note = GROW(t, notes, TEI_TOPO_NOTES_MAX, &rc);
	if (!note) {
		tei_free(text);
		return;
	}
	note->kind = kind;
	note->text = text;
}

/* ---- looking up ---- */

const struct tei_topo_node *tei_topo_node_of(const struct te_topo *t,
					     int32_t number)
{
	uint32_t i;

	for (i = 0; i < t->n_nodes; i++) {
		if (t->nodes[i].number == number)
			return &t->nodes[i];
	}
	return NULL;
}

static bool is_named(const char *have, const char *name)
{
	return *have && strcmp(have, name) == 0;
}

struct tei_topo_nic *tei_topo_nic_named(const struct te_topo *t,
					const char *name)
{
	uint32_t i;

	for (i = 0; i < t->n_nics; i++) {
		if (is_named(t->nics[i].name, name))
			return &t->nics[i];
	}
	for (i = 0; i < t->n_nics; i++) {
		if (is_named(t->nics[i].interface, name) ||
		    is_named(t->nics[i].rdma, name))
			return &t->nics[i];
	}
	return NULL;
}

/* ---- finishing ---- */

static int by_node(const void *a, const void *b)
{
	const struct tei_topo_node *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

void tei_topo_sort_nodes(struct te_topo *t)
{
	if (t->n_nodes)
		qsort(t->nodes, t->n_nodes, sizeof(*t->nodes), by_node);
}

static int by_cpu(const void *a, const void *b)
{
	const struct tei_topo_cpu *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static int by_nic(const void *a, const void *b)
{
	const struct tei_topo_nic *x = a, *y = b;

	if (!*x->rdma != !*y->rdma)
		return *x->rdma ? -1 : 1; /* those with RDMA first */
	return tei_topo_compare_names(x->name, y->name);
}

static int by_memory(const void *a, const void *b)
{
	const struct tei_topo_memory *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return tei_topo_compare_names(x->name, y->name);
}

static bool rails_are_given(const struct te_topo *t)
{
	uint32_t i;

	for (i = 0; i < t->n_memories; i++) {
		if (t->memories[i].given)
			return true;
	}
	return false;
}

static void sort(struct te_topo *t)
{
	/* Indices in given lists are places: what a file orders stays so. */
	if (t->n_nics && !rails_are_given(t))
		qsort(t->nics, t->n_nics, sizeof(*t->nics), by_nic);
	if (t->n_cpus)
		qsort(t->cpus, t->n_cpus, sizeof(*t->cpus), by_cpu);
	if (t->n_memories)
		qsort(t->memories, t->n_memories, sizeof(*t->memories),
		      by_memory);
}

static int check_names(const struct te_topo *t, struct tei_topo_error *e)
{
	uint32_t i, k;

	for (i = 0; i < t->n_nics; i++) {
		for (k = 0; k < i; k++) {
			if (!strcmp(t->nics[i].name, t->nics[k].name))
				return tei_topo_fail(
					e, -EBADMSG,
					"two NICs are named \"%s\"",
					t->nics[i].name);
		}
	}
	for (i = 1; i < t->n_memories; i++) {
		if (!strcmp(t->memories[i].name, t->memories[i - 1].name))
			return tei_topo_fail(e, -EBADMSG,
					     "two memories are named \"%s\"",
					     t->memories[i].name);
	}
	return 0;
}

static int check_nodes(const struct te_topo *t, struct tei_topo_error *e)
{
	uint32_t i;

	for (i = 1; i < t->n_nodes; i++) {
		if (t->nodes[i].number == t->nodes[i - 1].number)
			return tei_topo_fail(e, -EBADMSG,
					     "two NUMA nodes are number %d",
					     t->nodes[i].number);
	}
	return 0;
}

static int check_cpus(const struct te_topo *t, struct tei_topo_error *e)
{
	uint32_t i;

	for (i = 1; i < t->n_cpus; i++) {
		if (t->cpus[i].number == t->cpus[i - 1].number)
			return tei_topo_fail(e, -EBADMSG,
					     "CPU %u is in two NUMA nodes",
					     t->cpus[i].number);
	}
	return 0;
}

static void count_cpus(struct te_topo *t)
{
	uint32_t i, k;

	for (i = 0; i < t->n_nodes; i++) {
		struct tei_topo_node *node = &t->nodes[i];

		node->n_cpus = node->n_cores = 0;
		for (k = 0; k < t->n_cpus; k++) {
			if (t->cpus[k].node != node->number)
				continue;
			node->n_cpus++;
			if (t->cpus[k].core == t->cpus[k].number)
				node->n_cores++;
		}
	}
}

/*
 * A node that does not exist is none. A device of a machine with one node is
 * at that one, whatever its firmware failed to say.
 */
static void settle_node(struct te_topo *t, int32_t *node, const char *name)
{
	if (!t->n_nodes || tei_topo_node_of(t, *node))
		return;
	if (*node >= 0)
		tei_topo_add_note(
			t, TE_TOPO_NOTE_AFFINITY,
			"%s: says NUMA node %d, which does not exist; "
			"its distances are guesses",
			name, *node);
	else if (t->n_nodes > 1)
		tei_topo_add_note(t, TE_TOPO_NOTE_AFFINITY,
				  "%s: its NUMA node is unknown; its distances "
				  "are guesses",
				  name);
	*node = t->n_nodes == 1 ? t->nodes[0].number : -1;
}

static void settle_nodes(struct te_topo *t)
{
	uint32_t i;

	for (i = 0; i < t->n_nics; i++)
		settle_node(t, &t->nics[i].numa_node, t->nics[i].name);
	for (i = 0; i < t->n_memories; i++)
		settle_node(t, &t->memories[i].numa_node, t->memories[i].name);
}

int tei_topo_finish(struct te_topo *t, struct tei_topo_error *e)
{
	int rc;

	sort(t);
	rc = check_names(t, e);
	if (!rc)
		rc = check_nodes(t, e);
	if (!rc)
		rc = check_cpus(t, e);
	if (rc)
		return rc;
	count_cpus(t);
	settle_nodes(t);
	rc = tei_topo_rank(t);
	if (rc)
		return tei_topo_fail(e, rc, "out of memory");
	tei_topo_write_notes(t);
	return 0;
}
