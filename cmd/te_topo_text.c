/* SPDX-License-Identifier: Apache-2.0 */
/* te_topo_text.c - the machine as tables */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/te_topo.h"

#define CELL       TE_TOPO_LINE
#define COLUMNS    12
#define NICS_A_ROW 8 /* columns of NICs before a table is continued below */

/* ---- a table; its last column is as long as it likes ---- */

struct table {
	char (*cell)[COLUMNS][CELL]; /* cell[room] */
	size_t n, room, column;
};

static int table_init(struct table *t, size_t room)
{
	*t = (struct table){.room = room + 1};
	t->cell = tei_calloc(t->room, sizeof(*t->cell));
	return t->cell ? 0 : -ENOMEM;
}

static void table_fini(struct table *t)
{
	tei_free(t->cell);
}

static void row(struct table *t)
{
	if (t->n < t->room)
		t->n++;
	t->column = 0;
}

static void cell(struct table *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void cell(struct table *t, const char *format, ...)
{
	char *at = t->cell[t->n - 1][t->column];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(at, CELL, format, args);
	va_end(args);
	if (t->column + 1 < COLUMNS)
		t->column++;
}

static int width_of(const struct table *t, size_t column)
{
	size_t i, width = 0;

	for (i = 0; i < t->n; i++) {
		size_t len = strlen(t->cell[i][column]);

		if (len > width)
			width = len;
	}
	return (int)width;
}

static void print(const struct table *t, FILE *out)
{
	size_t i, k, last;

	for (i = 0; i < t->n; i++) {
		for (last = COLUMNS; last && !*t->cell[i][last - 1];)
			last--;
		for (k = 0; k < last; k++)
			(void)fprintf(out, k + 1 < last ? "%-*s  " : "%-*s",
				      k + 1 < last ? width_of(t, k) : 0,
				      t->cell[i][k]);
		(void)fputc('\n', out);
	}
	(void)fputc('\n', out);
}

/* ---- nodes ---- */

static void node_row(const struct te_topo *topo, const struct te_topo_node *n,
		     uint32_t n_nodes, struct table *t)
{
	char line[TE_TOPO_LINE], bytes[32], distances[TE_TOPO_LINE] = "";
	struct te_topo_node other;
	size_t len = 0;
	uint32_t i;

	for (i = 0; i < n_nodes && len + 8 < sizeof(distances); i++) {
		(void)te_topo_node(topo, i, &other);
		len += (size_t)snprintf(
			distances + len, sizeof(distances) - len, "%s%u",
			i ? " " : "",
			te_topo_node_distance(topo, n->number, other.number));
	}
	row(t);
	cell(t, "%d", n->number);
	if (n->package >= 0)
		cell(t, "%d", n->package);
	else
		cell(t, "?");
	cell(t, "%u", n->n_cores);
	cell(t, "%s", tei_topo_word_node_cpus(topo, n->number, line));
	cell(t, "%s", tei_topo_word_bytes(n->bytes, bytes));
	cell(t, "%s", distances);
}

static int print_nodes(const struct te_topo *topo,
		       const struct te_topo_machine *m, FILE *out)
{
	struct te_topo_node node;
	struct table t;
	uint32_t i;

	if (table_init(&t, m->n_nodes))
		return -ENOMEM;
	row(&t);
	cell(&t, "NODE");
	cell(&t, "SOCKET");
	cell(&t, "CORES");
	cell(&t, "CPUS");
	cell(&t, "MEMORY");
	cell(&t, "DISTANCE TO NODES");
	for (i = 0; !te_topo_node(topo, i, &node); i++)
		node_row(topo, &node, m->n_nodes, &t);
	print(&t, out);
	table_fini(&t);
	return 0;
}

/* ---- NICs ---- */

static void nic_row(const struct te_topo *topo, uint32_t index,
		    const struct te_topo_nic *nic, struct table *t)
{
	char line[TE_TOPO_LINE], rate[32], link[TE_TOPO_LINK];

	row(t);
	cell(t, "%s", nic->name);
	cell(t, "%s", *nic->interface ? nic->interface : "-");
	cell(t, "%s", tei_topo_word_kind(nic->kind));
	cell(t, "%s", tei_topo_word_state(nic->state));
	cell(t, "%s", tei_topo_word_rate(nic->speed_bps, rate));
	if (nic->numa_node >= 0)
		cell(t, "%d", nic->numa_node);
	else
		cell(t, "?");
	cell(t, "%s", *nic->pci.bus_id ? nic->pci.bus_id : "-");
	cell(t, "%s", tei_topo_word_link(&nic->pci, link));
	cell(t, "%s", tei_topo_word_worker(topo, index, line));
	cell(t, "%s", nic->model);
}

static int print_nics(const struct te_topo *topo,
		      const struct te_topo_machine *m, FILE *out)
{
	static const char *const heads[] = {
		"NIC",  "INTERFACE", "KIND", "STATE",     "SPEED",
		"NODE", "PCI",       "LINK", "DRIVEN BY", "MODEL"};
	struct te_topo_nic nic;
	struct table t;
	uint32_t i;

	if (!m->n_nics) {
		(void)fputs("No NIC is seen here.\n\n", out);
		return 0;
	}
	if (table_init(&t, m->n_nics))
		return -ENOMEM;
	row(&t);
	for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		cell(&t, "%s", heads[i]);
	for (i = 0; !te_topo_nic(topo, i, &nic); i++)
		nic_row(topo, i, &nic, &t);
	print(&t, out);
	table_fini(&t);
	return 0;
}

/* ---- memories by NICs ---- */

static void distance_row(const struct te_topo *topo, uint32_t memory,
			 uint32_t from, uint32_t to, struct table *t)
{
	struct te_topo_distance d;
	struct te_topo_memory m;
	char bytes[32];

	(void)te_topo_memory(topo, memory, &m);
	row(t);
	cell(t, "%s", m.name);
	if (m.bytes)
		cell(t, "%s", tei_topo_word_bytes(m.bytes, bytes));
	else
		cell(t, "%s", *m.model ? m.model : m.pci.bus_id);
	for (; from < to; from++) {
		(void)te_topo_distance(topo, memory, from, &d);
		cell(t, "%s%s", tei_topo_word_near(d.near),
		     d.preferred ? "*" : "");
	}
}

static int print_distances(const struct te_topo *topo,
			   const struct te_topo_machine *m, uint32_t from,
			   FILE *out)
{
	uint32_t to =
		from + NICS_A_ROW < m->n_nics ? from + NICS_A_ROW : m->n_nics;
	struct te_topo_nic nic;
	struct table t;
	uint32_t i;

	if (table_init(&t, m->n_memories))
		return -ENOMEM;
	row(&t);
	cell(&t, "MEMORY");
	cell(&t, "%s", "");
	for (i = from; i < to; i++) {
		(void)te_topo_nic(topo, i, &nic);
		cell(&t, "%s", nic.name);
	}
	for (i = 0; i < m->n_memories; i++)
		distance_row(topo, i, from, to, &t);
	print(&t, out);
	table_fini(&t);
	return 0;
}

static void print_notes(const struct te_topo *topo, FILE *out)
{
	struct te_topo_note note;
	uint32_t i;

	(void)fputs("*: preferred for that memory. From near to far: switch "
		    "(same PCIe switch),\nroot (same host bridge), node, "
		    "socket, far.\n",
		    out);
	for (i = 0; !te_topo_note(topo, i, &note); i++)
		(void)fprintf(out, "%s  ! %s\n", i ? "" : "\n", note.text);
}

int tei_topo_print_text(const struct te_topo *topo, FILE *out)
{
	struct te_topo_machine m;
	char line[TE_TOPO_LINE];
	uint32_t from;
	int rc;

	te_topo_machine(topo, &m);
	(void)fprintf(out, "%s\n", tei_topo_word_machine(topo, line));
	if (*m.model)
		(void)fprintf(out, "%s\n", m.model);
	(void)fputc('\n', out);
	rc = m.n_nodes ? print_nodes(topo, &m, out) : 0;
	if (!rc)
		rc = print_nics(topo, &m, out);
	for (from = 0; !rc && from < m.n_nics; from += NICS_A_ROW)
		rc = print_distances(topo, &m, from, out);
	if (rc)
		return rc;
	if (m.n_nics)
		print_notes(topo, out);
	return ferror(out) ? -EIO : 0;
}
