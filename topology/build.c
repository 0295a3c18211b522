/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.c - load a topology: fill it from a source, sort, rank the NICs, note
 *
 * A GPU is near a NIC when their PCIe paths meet early: then bytes go from one
 * to the other without the CPU's memory. All else is a matter of NUMA nodes.
 * PCIe hops count only below one host bridge; beyond it they say nothing.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "topology/topo.h"

#define SLOW_SHARE   8 /* slower than the fastest NIC by this: not preferred */
#define FLAGS_ALL    (TE_TOPO_DETAIL | TE_TOPO_VIRTUAL)
#define JSON_MAX_LEN ((size_t)4 << 20)

int tei_topo_fail(struct tei_topo_error *e, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(e->text, sizeof(e->text), format, args);
	va_end(args);
	return rc;
}

static struct te_topo *make_topo(void)
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

/* Makes room for one more in *@array, zeroed; NULL: *rc says why not. */
static void *grow_array(void **array, uint32_t *n, uint32_t *room, size_t size,
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

#define GROW(t, what, max, rc)                                             \
	grow_array((void **)&(t)->what, &(t)->n_##what, &(t)->room_##what, \
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

/* ---- distance of one memory and one NIC ---- */

static uint32_t near_of_nodes(const struct te_topo *t, int32_t a, int32_t b)
{
	const struct tei_topo_node *x, *y;

	if (a < 0 || b < 0)
		return TE_TOPO_NEAR_UNKNOWN;
	if (a == b)
		return TE_TOPO_NEAR_NODE;
	x = tei_topo_node_of(t, a);
	y = tei_topo_node_of(t, b);
	if (x && y && x->package >= 0 && x->package == y->package)
		return TE_TOPO_NEAR_SOCKET;
	return TE_TOPO_NEAR_FAR;
}

static uint64_t lesser_known(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b; /* 0 is unknown */
	return a < b ? a : b;
}

static uint64_t rate_of(const struct tei_topo_memory *m,
			const struct tei_topo_nic *nic)
{
	uint64_t rate = lesser_known(nic->speed_bps, nic->pci.path_bps);

	return rate ? lesser_known(rate, m->pci.path_bps) : 0;
}

void tei_topo_measure(const struct te_topo *t, const struct tei_topo_memory *m,
		      const struct tei_topo_nic *nic,
		      struct te_topo_distance *out)
{
	uint32_t common = 0;

	*out = (struct te_topo_distance){
		.near = near_of_nodes(t, m->numa_node, nic->numa_node),
		.numa = te_topo_node_distance(t, m->numa_node, nic->numa_node),
		.rate_bps = rate_of(m, nic),
	};
	if (*m->pci.path && *nic->pci.path)
		tei_topo_pci_compare(m->pci.path, nic->pci.path, &common,
				     &out->pci_hops);
	if (common)
		out->near =
			common > 1 ? TE_TOPO_NEAR_SWITCH : TE_TOPO_NEAR_ROOT;
}

/* ---- all NICs of one memory ---- */

struct candidate {
	struct te_topo_distance d;
	uint64_t speed_bps;
	uint16_t nic;
	bool minor; /* virtual or slow: never preferred while others are up */
};

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Order of two candidates by distance alone; 0: equally near. */
static int by_distance(const struct candidate *x, const struct candidate *y)
{
	int order = compare(x->d.near, y->d.near);

	if (!order && x->d.near == TE_TOPO_NEAR_SWITCH)
		order = compare(x->d.pci_hops, y->d.pci_hops);
	if (!order && x->d.near > TE_TOPO_NEAR_NODE)
		order = compare(x->d.numa, y->d.numa);
	return order;
}

static int by_rank(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	int order = compare(x->minor, y->minor);

	if (!order)
		order = by_distance(x, y);
	if (!order) /* the faster first */
		order = compare(y->speed_bps, x->speed_bps);
	return order ? order : compare(x->nic, y->nic);
}

uint64_t tei_topo_fastest(const struct te_topo *t)
{
	uint64_t best = 0;
	uint32_t i;

	for (i = 0; i < t->n_nics; i++) {
		if (t->nics[i].state != TE_TOPO_DOWN &&
		    t->nics[i].speed_bps > best)
			best = t->nics[i].speed_bps;
	}
	return best;
}

bool tei_topo_is_minor(const struct tei_topo_nic *nic, uint64_t best)
{
	return nic->is_virtual ||
	       (nic->speed_bps && nic->speed_bps < best / SLOW_SHARE);
}

/* Fills places[] with the NICs that are not down, best first. */
static uint32_t list_candidates(const struct te_topo *t,
				const struct tei_topo_memory *m, uint64_t best,
				struct candidate *candidates)
{
	uint32_t i, n = 0;

	for (i = 0; i < t->n_nics; i++) {
		const struct tei_topo_nic *nic = &t->nics[i];
		struct candidate *candidate = &candidates[n];

		if (nic->state == TE_TOPO_DOWN)
			continue;
		n++;
		tei_topo_measure(t, m, nic, &candidate->d);
		candidate->nic = (uint16_t)i;
		candidate->speed_bps = nic->speed_bps;
		candidate->minor = tei_topo_is_minor(nic, best);
	}
	qsort(candidates, n, sizeof(*candidates), by_rank);
	return n;
}

static int rank_one(const struct te_topo *t, struct tei_topo_memory *m,
		    uint64_t best, struct candidate *candidates)
{
	uint16_t list[TEI_TOPO_NICS_MAX];
	uint32_t n = list_candidates(t, m, best, candidates), preferred = 0, i;

	for (i = 0; i < n; i++) {
		list[i] = candidates[i].nic;
		if (preferred == i &&
		    candidates[i].minor == candidates[0].minor &&
		    by_distance(&candidates[0], &candidates[i]) == 0)
			preferred = i + 1;
	}
	return tei_topo_give_rails(m, list, n, preferred);
}

/* Fill m->rails for every memory that was given none. -ENOMEM. */
static int rank_nics(struct te_topo *t)
{
	uint64_t best = tei_topo_fastest(t);
	struct candidate *candidates =
		tei_calloc(t->n_nics + 1, sizeof(*candidates));
	int rc = candidates ? 0 : -ENOMEM;
	uint32_t i;

	for (i = 0; !rc && i < t->n_memories; i++) {
		if (!t->memories[i].given)
			rc = rank_one(t, &t->memories[i], best, candidates);
	}
	tei_free(candidates);
	return rc;
}

/* ---- notes: faults and contradictions, as text ---- */

static double gbit(uint64_t bps)
{
	return (double)bps / 1e9;
}

static void note_link(struct te_topo *t, const struct tei_topo_nic *nic)
{
	if (nic->state == TE_TOPO_DOWN && !nic->is_virtual)
		tei_topo_add_note(t, TE_TOPO_NOTE_LINK, "%s: the port is down",
				  nic->name);
}

static void note_pcie(struct te_topo *t, const struct tei_topo_nic *nic)
{
	const struct tei_topo_pci *pci = &nic->pci;

	if (nic->state == TE_TOPO_DOWN)
		return;
	if (pci->width && pci->width < pci->max_width)
		tei_topo_add_note(t, TE_TOPO_NOTE_PCIE,
				  "%s: PCIe runs with x%u of x%u lanes",
				  nic->name, pci->width, pci->max_width);
	if (pci->mtps && pci->mtps < pci->max_mtps)
		tei_topo_add_note(t, TE_TOPO_NOTE_PCIE,
				  "%s: PCIe runs at %g of %g GT/s", nic->name,
				  pci->mtps / 1e3, pci->max_mtps / 1e3);
	if (pci->path_bps && nic->speed_bps > pci->path_bps)
		tei_topo_add_note(t, TE_TOPO_NOTE_PCIE,
				  "%s: PCIe carries %.0f of the port's %.0f "
				  "Gbit/s",
				  nic->name, gbit(pci->path_bps),
				  gbit(nic->speed_bps));
}

/* Devices of one host bridge are in one node: two nodes cannot be right. */
static void note_contradiction(struct te_topo *t, const char *name_a,
			       const struct tei_topo_pci *a, int32_t node_a,
			       const char *name_b, const struct tei_topo_pci *b,
			       int32_t node_b)
{
	uint32_t common = 0, differ;

	if (node_a < 0 || node_b < 0 || node_a == node_b || !*a->path ||
	    !*b->path)
		return;
	tei_topo_pci_compare(a->path, b->path, &common, &differ);
	if (common)
		tei_topo_add_note(t, TE_TOPO_NOTE_AFFINITY,
				  "%s and %s: one PCIe host bridge, but NUMA "
				  "nodes %d and %d",
				  name_a, name_b, node_a, node_b);
}

static void note_contradictions(struct te_topo *t)
{
	uint32_t i, k;

	for (i = 0; i < t->n_nics; i++) {
		const struct tei_topo_nic *nic = &t->nics[i];

		for (k = 0; k < i; k++)
			note_contradiction(t, t->nics[k].name, &t->nics[k].pci,
					   t->nics[k].numa_node, nic->name,
					   &nic->pci, nic->numa_node);
		for (k = 0; k < t->n_memories; k++)
			note_contradiction(t, t->memories[k].name,
					   &t->memories[k].pci,
					   t->memories[k].numa_node, nic->name,
					   &nic->pci, nic->numa_node);
	}
}

/* Only where every distance is known can a GPU be said to lack a NIC. */
static void note_lonely(struct te_topo *t, const struct tei_topo_memory *m)
{
	struct te_topo_distance d;

	if (m->kind == TE_TOPO_HOST || m->given || !m->n_preferred)
		return;
	tei_topo_measure(t, m, &t->nics[m->rails[0]], &d);
	if (d.near == TE_TOPO_NEAR_FAR)
		tei_topo_add_note(t, TE_TOPO_NOTE_AFFINITY,
				  "%s: no NIC that is up is in its socket",
				  m->name);
}

static void write_notes(struct te_topo *t)
{
	uint32_t i;

	for (i = 0; i < t->n_nics; i++) {
		note_link(t, &t->nics[i]);
		note_pcie(t, &t->nics[i]);
	}
	for (i = 0; i < t->n_memories; i++)
		note_lonely(t, &t->memories[i]);
	note_contradictions(t);
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

static void sort_all(struct te_topo *t)
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

/*
 * Sort, complete, rank, note. -ENOMEM, -EBADMSG (two things of one name; @e
 * says which). NICs keep their order where a list of rails was given.
 */
static int finish_topo(struct te_topo *t, struct tei_topo_error *e)
{
	int rc;

	sort_all(t);
	rc = check_names(t, e);
	if (!rc)
		rc = check_nodes(t, e);
	if (!rc)
		rc = check_cpus(t, e);
	if (rc)
		return rc;
	count_cpus(t);
	settle_nodes(t);
	rc = rank_nics(t);
	if (rc)
		return tei_topo_fail(e, rc, "out of memory");
	write_notes(t);
	return 0;
}

/* ---- sources ---- */

static int read_all(int fd, char *out, size_t room, size_t *len)
{
	ssize_t n = 1;

	for (*len = 0; n > 0 && *len<room; *len += n> 0 ? (size_t)n : 0)
		n = read(fd, out + *len, room - *len);
	return n < 0 ? -errno : 0;
}

static int read_file(const char *path, char **out, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = NULL;
	struct stat st;
	int rc;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) ? -errno : 0;
	if (!rc && !S_ISREG(st.st_mode))
		rc = S_ISDIR(st.st_mode) ? -EISDIR : -EBADMSG;
	if (!rc && (size_t)st.st_size > JSON_MAX_LEN)
		rc = -EFBIG;
	if (!rc) {
		text = tei_malloc((size_t)st.st_size + 1);
		rc = text ? read_all(fd, text, (size_t)st.st_size + 1, len)
			  : -ENOMEM;
	}
	close(fd);
	if (rc)
		tei_free(text);
	else
		*out = text;
	return rc;
}

static int from_file(struct te_topo *t, const char *path,
		     struct tei_topo_error *e)
{
	size_t len = 0;
	char *text = NULL;
	int rc = read_file(path, &text, &len);

	if (rc)
		return tei_topo_fail(e, rc, "%s: %s", path, strerror(-rc));
	rc = tei_topo_from_json(t, text, len, path, e);
	tei_free(text);
	return rc;
}

static int from_machine(struct te_topo *t, const struct te_topo_source *s,
			struct tei_topo_error *e)
{
	struct tei_topo_error ignored = {""};
	int rc;

	if (s->hwloc_xml && !s->sysfs_root)
		return tei_topo_from_hwloc(t, s->hwloc_xml, false, e);
	rc = tei_topo_from_sysfs(t, s->sysfs_root, s->flags, e);
	if (rc)
		return rc;
	if (s->hwloc_xml)
		return tei_topo_from_hwloc(t, s->hwloc_xml, true, e);
	/* Names are a courtesy: the topology is right without them. */
	if (!s->sysfs_root && s->flags & TE_TOPO_DETAIL)
		(void)tei_topo_from_hwloc(t, NULL, true, &ignored);
	return 0;
}

static int check_source(const struct te_topo_source *s)
{
	return s->flags & ~(uint32_t)FLAGS_ALL || s->reserved_0 ||
			       s->reserved[0] || s->reserved[1] ||
			       s->reserved[2] || s->reserved[3]
		       ? -EINVAL
		       : 0;
}

static int finish_load(struct te_topo *t, int rc, struct tei_topo_error *e,
		       struct te_topo **out, char *error, size_t error_len)
{
	if (!rc)
		rc = finish_topo(t, e);
	if (rc) {
		te_topo_destroy(t);
		if (error && error_len)
			snprintf(error, error_len, "%s", e->text);
		return rc;
	}
	*out = t;
	return 0;
}

int te_topo_load(const struct te_topo_source *source, struct te_topo **out,
		 char *error, size_t error_len)
{
	static const struct te_topo_source here;
	struct tei_topo_error e = {"out of memory"};
	const struct te_topo_source *s = source ? source : &here;
	struct te_topo *t = NULL;
	int rc = -EINVAL;

	if (!out || check_source(s)) {
		tei_topo_fail(&e, rc, "a flag or reserved field is unknown");
		return finish_load(t, rc, &e, out, error, error_len);
	}
	t = make_topo();
	if (!t)
		rc = -ENOMEM;
	else if (s->json)
		rc = from_file(t, s->json, &e);
	else
		rc = from_machine(t, s, &e);
	return finish_load(t, rc, &e, out, error, error_len);
}

int te_topo_parse(const char *text, size_t len, struct te_topo **out,
		  char *error, size_t error_len)
{
	struct tei_topo_error e = {"out of memory"};
	struct te_topo *t = make_topo();
	int rc = -ENOMEM;

	if (t && len > JSON_MAX_LEN)
		rc = tei_topo_fail(&e, -EBADMSG, "topology: longer than 4 MiB");
	else if (t)
		rc = tei_topo_from_json(t, text, len, "topology", &e);
	return finish_load(t, rc, &e, out, error, error_len);
}
