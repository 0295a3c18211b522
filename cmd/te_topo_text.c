/* SPDX-License-Identifier: Apache-2.0 */
/* te_topo_text.c - te-topo's words for values, and its tables */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/te_topo.h"

static const char *word_near(uint32_t near)
{
	static const char *const words[] = {"switch", "root", "node",
					    "socket", "far",  "?"};

	return words[near <= TE_TOPO_NEAR_UNKNOWN ? near
						  : TE_TOPO_NEAR_UNKNOWN];
}

const char *tei_topo_word_kind(uint32_t kind)
{
	static const char *const words[] = {"?",  "eth",  "roce",
					    "ib", "rdma", "?"};

	return words[kind <= TE_TOPO_OTHER ? kind : 0];
}

const char *tei_topo_word_state(uint32_t state)
{
	static const char *const words[] = {"?", "up", "down"};

	return words[state <= TE_TOPO_DOWN ? state : 0];
}

const char *tei_topo_word_bytes(uint64_t bytes, char out[32])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit < 4) {
		value /= 1024;
		unit++;
	}
	if (bytes)
		(void)snprintf(out, 32, "%.*f %s", value < 10, value,
			       units[unit]);
	else
		(void)snprintf(out, 32, "?");
	return out;
}

const char *tei_topo_word_rate(uint64_t bps, char out[32])
{
	if (bps >= 1000000000)
		(void)snprintf(out, 32, "%.4g Gb/s", (double)bps / 1e9);
	else if (bps)
		(void)snprintf(out, 32, "%.4g Mb/s", (double)bps / 1e6);
	else
		(void)snprintf(out, 32, "?");
	return out;
}

static unsigned int generation(uint32_t mtps)
{
	static const uint32_t rates[] = {2500, 5000, 8000, 16000, 32000, 64000};
	unsigned int i;

	for (i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		if (mtps <= rates[i])
			return i + 1;
	}
	return i + 1;
}

const char *tei_topo_word_link(const struct te_topo_pci *pci,
			       char out[TE_TOPO_LINK])
{
	char lanes[16] = "", most[16] = "";

	out[0] = '\0';
	if (!pci->mtps || !pci->width)
		return out;
	if (pci->max_width > pci->width)
		(void)snprintf(lanes, sizeof(lanes), " of %u", pci->max_width);
	if (pci->max_mtps > pci->mtps)
		(void)snprintf(most, sizeof(most), " of gen%u",
			       generation(pci->max_mtps));
	(void)snprintf(out, TE_TOPO_LINK, "gen%u%s x%u%s",
		       generation(pci->mtps), most, pci->width, lanes);
	return out;
}

/* "0-3,32" */
static const char *word_list(const uint32_t *numbers, size_t n,
			     char out[TE_TOPO_LINE])
{
	size_t i, last, len = 0;

	out[0] = '\0';
	for (i = 0; i < n; i = last + 1) {
		char part[32];
		size_t more;

		for (last = i;
		     last + 1 < n && numbers[last + 1] == numbers[last] + 1;)
			last++;
		more = (size_t)snprintf(
			part, sizeof(part), last > i ? "%s%u-%u" : "%s%u",
			i ? "," : "", numbers[i], numbers[last]);
		if (len + more + 4 >= TE_TOPO_LINE) {
			(void)snprintf(out + len, 4, "...");
			break;
		}
		memcpy(out + len, part, more + 1);
		len += more;
	}
	return out;
}

const char *tei_topo_word_machine(const struct te_topo *topo,
				  char out[TE_TOPO_LINE])
{
	struct te_topo_machine m;
	char bytes[32];

	te_topo_machine(topo, &m);
	(void)snprintf(out, TE_TOPO_LINE,
		       "%u socket%s, %u NUMA node%s, %u CPUs, %s, %u GPU%s, "
		       "%u NIC%s",
		       m.n_packages, m.n_packages == 1 ? "" : "s", m.n_nodes,
		       m.n_nodes == 1 ? "" : "s", m.n_cpus,
		       tei_topo_word_bytes(m.bytes, bytes), m.n_gpus,
		       m.n_gpus == 1 ? "" : "s", m.n_nics,
		       m.n_nics == 1 ? "" : "s");
	return out;
}

#define CPUS_SHOWN 1024

const char *tei_topo_word_node_cpus(const struct te_topo *topo, int32_t node,
				    char out[TE_TOPO_LINE])
{
	uint32_t cpus[CPUS_SHOWN];
	size_t n = CPUS_SHOWN;

	if (te_topo_node_cpus(topo, node, cpus, &n))
		n = 0;
	return word_list(cpus, n < CPUS_SHOWN ? n : CPUS_SHOWN, out);
}

const char *tei_topo_word_worker(const struct te_topo *topo, uint32_t nic,
				 char out[TE_TOPO_LINE])
{
	uint32_t cpus[CPUS_SHOWN];
	size_t n = CPUS_SHOWN;

	if (te_topo_worker_cpus(topo, nic, cpus, &n))
		n = 0;
	return word_list(cpus, n < CPUS_SHOWN ? n : CPUS_SHOWN, out);
}

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

/* How a GPU's memory gets to a NIC; "": it is the host's, or nobody knows. */
static const char *way_to(const struct te_topo *topo, uint32_t nic,
			  const struct te_topo_memory *m, const char *way)
{
	struct te_topo_nic to;

	if (m->kind != TE_TOPO_CUDA || te_topo_nic(topo, nic, &to))
		return "";
	return to.kind == TE_TOPO_ETH && *way ? "staged" : way;
}

static void distance_row(const struct te_topo *topo, uint32_t memory,
			 const char *way, uint32_t from, uint32_t to,
			 struct table *t)
{
	struct te_topo_distance d;
	struct te_topo_memory m;
	const char *by;
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
		by = way_to(topo, from, &m, way);
		cell(t, "%s%s%s%s", word_near(d.near), d.preferred ? "*" : "",
		     *by ? " " : "", by);
	}
}

static int print_distances(const struct te_topo *topo,
			   const struct te_topo_machine *m, const char *way,
			   uint32_t from, FILE *out)
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
		distance_row(topo, i, way, from, to, &t);
	print(&t, out);
	table_fini(&t);
	return 0;
}

static void print_notes(const struct te_topo *topo, bool ways, FILE *out)
{
	struct te_topo_note note;
	uint32_t i;

	(void)fputs("*: preferred for that memory. From near to far: switch "
		    "(same PCIe switch),\nroot (same host bridge), node, "
		    "socket, far.\n",
		    out);
	if (ways)
		(void)fputs("dma-buf, peermem: the NIC accesses the GPU's "
			    "memory. staged: the host copies it.\n?: te-doctor "
			    "says what does not tell.\n",
			    out);
	for (i = 0; !te_topo_note(topo, i, &note); i++)
		(void)fprintf(out, "%s  ! %s\n", i ? "" : "\n", note.text);
}

int tei_topo_print_text(const struct te_topo *topo, const char *way, FILE *out)
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
		rc = print_distances(topo, &m, way, from, out);
	if (rc)
		return rc;
	if (m.n_nics)
		print_notes(topo, m.n_gpus && *way, out);
	return ferror(out) ? -EIO : 0;
}
