/* SPDX-License-Identifier: Apache-2.0 */
/*
 * te_topo_svg.c - the topology of a machine as a drawing: layout, then SVG
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/te_topo.h"

struct tei_box {
	double x, y, w, h;
};

/* A GPU or a NIC: an index of the topology of the machine. */
struct tei_card {
	struct tei_box box;
	uint32_t index;
	int is_nic;
	uint32_t group;
};

/* Devices below one root port, or directly below one host bridge. */
struct card_group {
	struct tei_box box;
	char key[64];   /* path of the root port, "" without PCIe */
	int is_switch;  /* more lies between */
	int32_t node;   /* -1: unknown */
	uint32_t frame; /* of the node */
	uint32_t n_gpus, n_nics;
};

/* A NUMA node with its memory and groups, or a socket around nodes. */
struct outline {
	struct tei_box box, memory;
	int32_t number; /* -1: unknown */
	uint32_t outer; /* of a node: its socket */
	int has_memory;
};

struct tei_layout {
	struct tei_card *cards;
	struct card_group *groups;
	struct outline *nodes, *sockets;
	uint32_t n_cards, n_groups, n_nodes, n_sockets;
	int nodes_stacked, sockets_stacked; /* below each other */
	double w, h;
};

#define PAGE_WIDTH 1180.0
#define MARGIN     28.0
#define HEAD       66.0 /* title of the page */
#define PAD        14.0
#define GAP        12.0
#define LINK_GAP   54.0 /* between nodes: room for their distance */
#define TITLE      26.0 /* of a frame */
#define CARD_W     120.0
#define GPU_H      44.0
#define NIC_H      60.0
#define LINES_H    46.0 /* between GPUs and NICs */
#define MEMORY_W   252.0
#define MEMORY_H   50.0
#define TRUNK_H    40.0 /* between memory and groups */

/* ---- sorting into groups and frames ---- */

/* "pci0000:15/0000:15:01.0" of a longer path; "pci0000:00" of a shorter. */
static void key_of(const char *path, char key[64], int *is_switch)
{
	size_t parts = 1, i, len = strlen(path);
	size_t first = 0, second = 0;

	for (i = 0; i < len; i++) {
		if (path[i] != '/')
			continue;
		if (++parts == 2)
			first = i;
		else if (parts == 3)
			second = i;
	}
	if (second)
		len = second;
	else if (first)
		len = first;
	*is_switch = parts > 3;
	(void)snprintf(key, 64, "%.*s", (int)(len < 63 ? len : 63), path);
}

static uint32_t frame_of(struct tei_layout *l, int32_t node)
{
	uint32_t i;

	for (i = 0; i < l->n_nodes; i++) {
		if (l->nodes[i].number == node)
			return i;
	}
	l->nodes[i].number = node;
	l->nodes[i].outer = UINT32_MAX;
	l->n_nodes++;
	return i;
}

static uint32_t group_of(struct tei_layout *l, const char *path, int32_t node)
{
	char key[64];
	int is_switch;
	uint32_t i;

	key_of(path, key, &is_switch);
	for (i = 0; i < l->n_groups; i++) {
		if (l->groups[i].node == node && !strcmp(l->groups[i].key, key))
			break;
	}
	if (i == l->n_groups) {
		l->n_groups++;
		l->groups[i].node = node;
		l->groups[i].frame = frame_of(l, node);
		memcpy(l->groups[i].key, key, sizeof(key));
	}
	l->groups[i].is_switch |= is_switch;
	return i;
}

static void add_card(struct tei_layout *l, uint32_t index, int is_nic,
		     const char *path, int32_t node)
{
	struct tei_card *card = &l->cards[l->n_cards++];

	card->index = index;
	card->is_nic = is_nic;
	card->group = group_of(l, path, node);
	if (is_nic)
		l->groups[card->group].n_nics++;
	else
		l->groups[card->group].n_gpus++;
}

static void add_socket(struct tei_layout *l, struct outline *node,
		       int32_t package)
{
	uint32_t i;

	for (i = 0; i < l->n_sockets; i++) {
		if (l->sockets[i].number == package)
			break;
	}
	if (i == l->n_sockets)
		l->sockets[l->n_sockets++].number = package;
	node->outer = i;
}

static void sort_in(const struct te_topo *topo, struct tei_layout *l)
{
	struct te_topo_memory m;
	struct te_topo_node node;
	struct te_topo_nic nic;
	uint32_t i;

	for (i = 0; !te_topo_node(topo, i, &node); i++)
		add_socket(l, &l->nodes[frame_of(l, node.number)],
			   node.package);
	for (i = 0; !te_topo_memory(topo, i, &m); i++) {
		if (m.kind == TE_TOPO_HOST)
			l->nodes[frame_of(l, m.numa_node)].has_memory = 1;
		else
			add_card(l, i, 0, m.pci.path, m.numa_node);
	}
	for (i = 0; !te_topo_nic(topo, i, &nic); i++)
		add_card(l, i, 1, nic.pci.path, nic.numa_node);
	for (i = 0; i < l->n_nodes; i++) {
		if (l->nodes[i].outer == UINT32_MAX)
			add_socket(l, &l->nodes[i], -1);
	}
}

/* ---- sizes ---- */

static double row_width(uint32_t n)
{
	return n ? n * CARD_W + (n - 1) * GAP : 0;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void size_group(struct card_group *g)
{
	g->box.w = larger(row_width(g->n_gpus), row_width(g->n_nics)) + 2 * PAD;
	g->box.h = TITLE + PAD;
	if (g->n_gpus)
		g->box.h += GPU_H;
	if (g->n_gpus && g->n_nics)
		g->box.h += LINES_H;
	if (g->n_nics)
		g->box.h += NIC_H;
}

static void size_node(struct tei_layout *l, uint32_t at)
{
	struct outline *node = &l->nodes[at];
	double w = -GAP, h = 0;
	uint32_t i;

	for (i = 0; i < l->n_groups; i++) {
		if (l->groups[i].frame != at)
			continue;
		size_group(&l->groups[i]);
		w += l->groups[i].box.w + GAP;
		h = larger(h, l->groups[i].box.h);
	}
	node->box.w = larger(w, MEMORY_W) + 2 * PAD;
	node->box.h = TITLE + h + PAD;
	if (node->has_memory)
		node->box.h += MEMORY_H + (h > 0 ? TRUNK_H : 0);
}

/* Grows @outer by a box that is put into its row or column. */
static void grow_box(struct tei_box *outer, const struct tei_box *inner,
		     int first, int stacked)
{
	double gap = first ? 0 : LINK_GAP;

	if (stacked) {
		outer->w = larger(outer->w, inner->w);
		outer->h += inner->h + gap;
	} else {
		outer->w += inner->w + gap;
		outer->h = larger(outer->h, inner->h);
	}
}

static void size_socket(struct tei_layout *l, uint32_t at)
{
	struct outline *socket = &l->sockets[at];
	uint32_t i;
	int first = 1;

	socket->box = (struct tei_box){0};
	for (i = 0; i < l->n_nodes; i++) {
		if (l->nodes[i].outer != at)
			continue;
		grow_box(&socket->box, &l->nodes[i].box, first,
			 l->nodes_stacked);
		first = 0;
	}
	socket->box.w += 2 * PAD;
	socket->box.h += TITLE + PAD;
}

static void size_sockets(struct tei_layout *l)
{
	uint32_t i;

	for (i = 0; i < l->n_sockets; i++)
		size_socket(l, i);
	for (i = 0; !l->nodes_stacked && i < l->n_sockets; i++) {
		if (l->sockets[i].box.w > PAGE_WIDTH)
			l->nodes_stacked = 1;
	}
	for (i = 0; l->nodes_stacked && i < l->n_sockets; i++)
		size_socket(l, i);
}

static void size_page(struct tei_layout *l)
{
	struct tei_box page = {0};
	uint32_t i;

	for (i = 0; i < l->n_sockets; i++)
		grow_box(&page, &l->sockets[i].box, i == 0, 0);
	l->sockets_stacked = l->n_sockets == 1 || page.w > PAGE_WIDTH;
	page = (struct tei_box){0};
	for (i = 0; i < l->n_sockets; i++)
		grow_box(&page, &l->sockets[i].box, i == 0, l->sockets_stacked);
	l->w = larger(page.w, 720) + 2 * MARGIN;
	l->h = page.h + HEAD + MARGIN;
}

/* ---- places ---- */

static void place_cards(struct tei_layout *l, uint32_t at)
{
	const struct card_group *g = &l->groups[at];
	double gpu_x = g->box.x + (g->box.w - row_width(g->n_gpus)) / 2;
	double nic_x = g->box.x + (g->box.w - row_width(g->n_nics)) / 2;
	double y = g->box.y + TITLE;
	uint32_t i;

	for (i = 0; i < l->n_cards; i++) {
		struct tei_card *card = &l->cards[i];
		double *x = card->is_nic ? &nic_x : &gpu_x;

		if (card->group != at)
			continue;
		card->box = (struct tei_box){*x, y, CARD_W,
					     card->is_nic ? NIC_H : GPU_H};
		if (card->is_nic && g->n_gpus)
			card->box.y += GPU_H + LINES_H;
		*x += CARD_W + GAP;
	}
}

static void place_groups(struct tei_layout *l, uint32_t at)
{
	struct outline *node = &l->nodes[at];
	double w = -GAP, x, y = node->box.y + TITLE;
	uint32_t i;

	node->memory =
		(struct tei_box){node->box.x + (node->box.w - MEMORY_W) / 2, y,
				 MEMORY_W, MEMORY_H};
	if (node->has_memory)
		y += MEMORY_H + TRUNK_H;
	for (i = 0; i < l->n_groups; i++)
		w += l->groups[i].frame == at ? l->groups[i].box.w + GAP : 0;
	x = node->box.x + (node->box.w - w) / 2;
	for (i = 0; i < l->n_groups; i++) {
		struct card_group *g = &l->groups[i];

		if (g->frame != at)
			continue;
		g->box.x = x;
		g->box.y = y;
		x += g->box.w + GAP;
		place_cards(l, i);
	}
}

/* Extra width of each of the nodes that lie side by side. */
static double share_of(const struct tei_layout *l, uint32_t at)
{
	double w = -LINK_GAP;
	uint32_t i, n = 0;

	for (i = 0; i < l->n_nodes; i++) {
		if (l->nodes[i].outer != at)
			continue;
		w += l->nodes[i].box.w + LINK_GAP;
		n++;
	}
	return n ? (l->sockets[at].box.w - 2 * PAD - w) / n : 0;
}

static void place_nodes(struct tei_layout *l, uint32_t at)
{
	const struct tei_box *socket = &l->sockets[at].box;
	double x = socket->x + PAD, y = socket->y + TITLE;
	double more = share_of(l, at);
	uint32_t i;

	for (i = 0; i < l->n_nodes; i++) {
		struct tei_box *box = &l->nodes[i].box;

		if (l->nodes[i].outer != at)
			continue;
		if (l->nodes_stacked) { /* all as wide as the socket */
			box->w = socket->w - 2 * PAD;
		} else {
			box->w += more;
			box->h = socket->h - TITLE - PAD;
		}
		box->x = x;
		box->y = y;
		if (l->nodes_stacked)
			y += box->h + LINK_GAP;
		else
			x += box->w + LINK_GAP;
		place_groups(l, i);
	}
}

static void place_sockets(struct tei_layout *l)
{
	double x = MARGIN, y = HEAD, w = l->w - 2 * MARGIN;
	uint32_t i;

	for (i = 0; i < l->n_sockets; i++) {
		struct tei_box *box = &l->sockets[i].box;

		if (l->sockets_stacked)
			box->w = w;
		box->x = x;
		box->y = y;
		place_nodes(l, i);
		if (l->sockets_stacked)
			y += box->h + LINK_GAP;
		else
			x += box->w + LINK_GAP;
	}
}

/* 0, -ENOMEM; fini() in both cases. */
static int lay_out(const struct te_topo *topo, struct tei_layout *l)
{
	struct te_topo_machine m;
	size_t n;
	uint32_t i;

	te_topo_machine(topo, &m);
	n = m.n_nics + m.n_memories + m.n_nodes + 2;
	*l = (struct tei_layout){
		.cards = tei_calloc(n, sizeof(*l->cards)),
		.groups = tei_calloc(n, sizeof(*l->groups)),
		.nodes = tei_calloc(n, sizeof(*l->nodes)),
		.sockets = tei_calloc(n, sizeof(*l->sockets)),
	};
	if (!l->cards || !l->groups || !l->nodes || !l->sockets)
		return -ENOMEM;
	sort_in(topo, l);
	for (i = 0; i < l->n_nodes; i++)
		size_node(l, i);
	size_sockets(l);
	size_page(l);
	place_sockets(l);
	return 0;
}

/* 0, -ENOMEM; fini() in both cases. */
static void layout_fini(struct tei_layout *l)
{
	tei_free(l->cards);
	tei_free(l->groups);
	tei_free(l->nodes);
	tei_free(l->sockets);
}

#define INK       "#1f2933"
#define FAINT     "#66727f"
#define GPU_LINE  "#3d9a63"
#define GPU_FILL  "#eaf6ee"
#define NIC_LINE  "#d07f1f"
#define NIC_FILL  "#fff5e6"
#define HOST_LINE "#4a7fd4"
#define HOST_FILL "#ecf3fe"
#define DOWN_LINE "#b3bac2"
#define DOWN_FILL "#f3f4f6"
#define ALARM     "#c53a3a"
#define NEAR_LINE "stroke-width=\"2\""
#define FAR_LINE  "stroke-width=\"1.4\" stroke-dasharray=\"6 4\""
#define LEGEND_H  78.0
#define NOTE_H    20.0
#define NOTES_MAX 12u

struct drawing {
	FILE *f;
	const struct te_topo *topo;
	struct tei_layout l;
};

/* ---- shapes ---- */

static void escape(FILE *f, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			(void)fputs("&lt;", f);
			break;
		case '>':
			(void)fputs("&gt;", f);
			break;
		case '&':
			(void)fputs("&amp;", f);
			break;
		case '"':
			(void)fputs("&quot;", f);
			break;
		default:
			(void)fputc(*text, f);
		}
	}
}

static void box(FILE *f, const struct tei_box *b, double radius,
		const char *fill, const char *line, const char *more)
{
	(void)fprintf(f,
		      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
		      "height=\"%.1f\" rx=\"%.1f\" fill=\"%s\" stroke=\"%s\" "
		      "%s/>\n",
		      b->x, b->y, b->w, b->h, radius, fill, line, more);
}

/* @how: classes of the style sheet below. */
static void text(FILE *f, double x, double y, const char *how,
		 const char *words)
{
	(void)fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y,
		      how);
	escape(f, words);
	(void)fputs("</text>\n", f);
}

/* Cut to what fits, about. */
static const char *cut(const char *words, size_t max, char out[64])
{
	if (strlen(words) <= max)
		(void)snprintf(out, 64, "%s", words);
	else
		(void)snprintf(out, 64, "%.*s..", (int)max - 1, words);
	return out;
}

/* Draws from (x1, y1) down to (x2, y2), leaving and arriving upright. */
static void curve(FILE *f, double x1, double y1, double x2, double y2,
		  const char *line, double weight, const char *more)
{
	double bend = (y2 - y1) * 0.55;

	(void)fprintf(
		f,
		"<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" "
		"fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" %s/>\n",
		x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2, line, weight,
		more);
}

static double middle(const struct tei_box *b)
{
	return b->x + b->w / 2;
}

/* ---- frames ---- */

static void draw_sockets(const struct drawing *d)
{
	char title[64];
	uint32_t i;

	for (i = 0; i < d->l.n_sockets; i++) {
		const struct outline *socket = &d->l.sockets[i];

		box(d->f, &socket->box, 14, "#f6f7fa", "#d5dae1", "");
		if (socket->number >= 0)
			(void)snprintf(title, sizeof(title), "Socket %d",
				       socket->number);
		else
			(void)snprintf(title, sizeof(title), "%s",
				       d->l.n_sockets > 1 ? "Socket unknown"
							  : "");
		text(d->f, socket->box.x + 14, socket->box.y + 18, "frame",
		     title);
	}
}

static void draw_memory(const struct drawing *d, const struct outline *node)
{
	char line[TE_TOPO_LINE], bytes[32], words[TE_TOPO_LINE + 64], fit[64];
	struct te_topo_node n;
	struct te_topo_memory m = {.bytes = 0};
	uint32_t at, i;

	(void)snprintf(line, sizeof(line), "cpu:%d", node->number);
	if (!te_topo_find_memory(d->topo, line, &at))
		(void)te_topo_memory(d->topo, at, &m);
	(void)snprintf(words, sizeof(words), "%s%s%s", line,
		       m.bytes ? ", " : "",
		       m.bytes ? tei_topo_word_bytes(m.bytes, bytes) : "");
	box(d->f, &node->memory, 8, HOST_FILL, HOST_LINE,
	    "stroke-width=\"1.4\"");
	text(d->f, middle(&node->memory), node->memory.y + 21, "name mid",
	     words);
	words[0] = '\0';
	for (i = 0; !te_topo_node(d->topo, i, &n); i++) {
		if (n.number == node->number && n.n_cpus)
			(void)snprintf(words, sizeof(words),
				       "%u cores, CPUs %s", n.n_cores,
				       tei_topo_word_node_cpus(d->topo,
							       n.number, line));
	}
	text(d->f, middle(&node->memory), node->memory.y + 39, "small mid",
	     cut(words, 40, fit));
}

static void draw_nodes(const struct drawing *d)
{
	char title[64];
	uint32_t i;

	for (i = 0; i < d->l.n_nodes; i++) {
		const struct outline *node = &d->l.nodes[i];

		box(d->f, &node->box, 10, "#ffffff",
		    node->number < 0 ? ALARM : "#c3cad4",
		    node->number < 0 ? "stroke-dasharray=\"5 4\"" : "");
		if (node->number < 0)
			(void)snprintf(title, sizeof(title),
				       "NUMA node unknown");
		else
			(void)snprintf(title, sizeof(title), "NUMA node %d",
				       node->number);
		text(d->f, node->box.x + 12, node->box.y + 17, "frame", title);
		if (node->has_memory)
			draw_memory(d, node);
	}
}

/* Side by side or below each other: the line between two boxes. */
static void draw_link(const struct drawing *d, const struct tei_box *a,
		      const struct tei_box *b, uint32_t far, const char *how)
{
	bool below = b->y > a->y;
	double x1 = below ? middle(a) : a->x + a->w;
	double y1 = below ? a->y + a->h : a->y + 76;
	double x2 = below ? x1 : b->x, y2 = below ? b->y : y1;
	char label[24];

	(void)fprintf(d->f,
		      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
		      "stroke=\"" HOST_LINE "\" %s/>\n",
		      x1, y1, x2, y2, how);
	(void)snprintf(label, sizeof(label), far ? "%u" : "?", far);
	text(d->f, below ? x1 + 10 : (x1 + x2) / 2,
	     below ? (y1 + y2) / 2 + 4 : y1 - 8, below ? "small" : "small mid",
	     label);
}

/* Between nodes that lie beside each other in one socket. */
static void draw_node_links(const struct drawing *d)
{
	uint32_t i, k;

	for (i = 0; i < d->l.n_nodes; i++) {
		const struct outline *a = &d->l.nodes[i], *b = NULL;

		for (k = i + 1; !b && k < d->l.n_nodes; k++) {
			if (d->l.nodes[k].outer == a->outer)
				b = &d->l.nodes[k];
		}
		if (!b || a->number < 0 || b->number < 0)
			continue;
		draw_link(d, &a->box, &b->box,
			  te_topo_node_distance(d->topo, a->number, b->number),
			  NEAR_LINE);
	}
}

/* Distance of the first nodes of two sockets. */
static uint32_t socket_distance(const struct drawing *d, uint32_t a, uint32_t b)
{
	int32_t from = -1, to = -1;
	uint32_t i;

	for (i = d->l.n_nodes; i > 0; i--) {
		const struct outline *node = &d->l.nodes[i - 1];

		if (node->outer == a)
			from = node->number;
		if (node->outer == b)
			to = node->number;
	}
	return te_topo_node_distance(d->topo, from, to);
}

static void draw_socket_links(const struct drawing *d)
{
	uint32_t i;

	for (i = 0; i + 1 < d->l.n_sockets; i++) {
		if (d->l.sockets[i].number < 0 ||
		    d->l.sockets[i + 1].number < 0)
			continue;
		draw_link(d, &d->l.sockets[i].box, &d->l.sockets[i + 1].box,
			  socket_distance(d, i, i + 1), FAR_LINE);
	}
}

/* ---- groups and cards ---- */

static void title_of(const struct card_group *g, char out[96])
{
	const char *root = strrchr(g->key, '/');

	root = root ? root + 1 : g->key;
	if (!*root)
		(void)snprintf(out, 96, "no PCIe device");
	else if (g->is_switch)
		(void)snprintf(out, 96, "PCIe switch at %s", root);
	else if (root == g->key)
		(void)snprintf(out, 96, "PCIe bus %s",
			       strncmp(root, "pci", 3) ? root : root + 3);
	else
		(void)snprintf(out, 96, "PCIe %s", root);
}

/* Draws from the memory to the groups of its node. */
static void draw_trunk(const struct drawing *d, const struct card_group *g)
{
	const struct outline *node = &d->l.nodes[g->frame];

	if (!node->has_memory)
		return;
	curve(d->f, middle(&node->memory), node->memory.y + node->memory.h,
	      middle(&g->box), g->box.y, HOST_LINE, 2.6, "");
}

static void draw_groups(const struct drawing *d)
{
	char title[96], fit[64];
	uint32_t i;

	for (i = 0; i < d->l.n_groups; i++) {
		const struct card_group *g = &d->l.groups[i];

		draw_trunk(d, g);
		box(d->f, &g->box, 8, "#fafbfc", "#d5dae1", "");
		title_of(g, title);
		text(d->f, middle(&g->box), g->box.y + 17, "small mid",
		     cut(title, g->box.w > 200 ? 40 : 22, fit));
	}
}

static void draw_gpu(const struct drawing *d, const struct tei_card *card)
{
	struct te_topo_memory m;
	char fit[64], link[TE_TOPO_LINK];

	(void)te_topo_memory(d->topo, card->index, &m);
	(void)fprintf(d->f, "<g><title>");
	escape(d->f, m.name);
	(void)fprintf(d->f, "\n%s\n", m.pci.path);
	escape(d->f, m.model);
	(void)fprintf(d->f, "</title>\n");
	box(d->f, &card->box, 6, GPU_FILL, GPU_LINE, "stroke-width=\"1.4\"");
	text(d->f, middle(&card->box), card->box.y + 19, "name mid",
	     cut(m.name, 15, fit));
	(void)tei_topo_word_link(&m.pci, link);
	text(d->f, middle(&card->box), card->box.y + 35, "small mid",
	     cut(*m.model ? m.model : link, 18, fit));
	(void)fprintf(d->f, "</g>\n");
}

static void tip_of_nic(const struct drawing *d, const struct te_topo_nic *nic,
		       uint32_t index)
{
	char line[TE_TOPO_LINE];

	(void)fprintf(d->f, "<title>");
	escape(d->f, nic->name);
	(void)fputc(' ', d->f);
	escape(d->f, nic->interface);
	(void)fprintf(d->f, "\n%s\ndriven by CPUs %s\n", nic->pci.path,
		      tei_topo_word_worker(d->topo, index, line));
	escape(d->f, nic->model);
	(void)fprintf(d->f, "</title>\n");
}

static bool is_narrow(const struct te_topo_nic *nic)
{
	return nic->pci.width < nic->pci.max_width ||
	       nic->pci.mtps < nic->pci.max_mtps ||
	       (nic->pci.path_bps && nic->pci.path_bps < nic->speed_bps);
}

static void draw_nic(const struct drawing *d, const struct tei_card *card)
{
	struct te_topo_nic nic;
	char words[80], rate[32], link[TE_TOPO_LINK], fit[64];
	bool down;

	(void)te_topo_nic(d->topo, card->index, &nic);
	down = nic.state == TE_TOPO_DOWN;
	(void)fprintf(d->f, "<g>");
	tip_of_nic(d, &nic, card->index);
	box(d->f, &card->box, 6, down ? DOWN_FILL : NIC_FILL,
	    down ? DOWN_LINE : NIC_LINE,
	    down ? "stroke-dasharray=\"4 3\"" : "stroke-width=\"1.4\"");
	text(d->f, middle(&card->box), card->box.y + 19,
	     down ? "name mid off" : "name mid", cut(nic.name, 15, fit));
	(void)snprintf(words, sizeof(words), "%s %s",
		       tei_topo_word_kind(nic.kind),
		       down            ? "down"
		       : nic.speed_bps ? tei_topo_word_rate(nic.speed_bps, rate)
				       : tei_topo_word_state(nic.state));
	text(d->f, middle(&card->box), card->box.y + 36,
	     down ? "small mid off" : "small mid", words);
	text(d->f, middle(&card->box), card->box.y + 51,
	     down              ? "small mid off"
	     : is_narrow(&nic) ? "small mid bad"
			       : "small mid",
	     cut(tei_topo_word_link(&nic.pci, link), 19, fit));
	(void)fprintf(d->f, "</g>\n");
}

/* Every GPU to the NICs of its group: preferred ones heavier. */
static void draw_pairs(const struct drawing *d, const struct tei_card *gpu)
{
	struct te_topo_distance distance;
	uint32_t i;

	for (i = 0; i < d->l.n_cards; i++) {
		const struct tei_card *nic = &d->l.cards[i];

		if (!nic->is_nic || nic->group != gpu->group ||
		    te_topo_distance(d->topo, gpu->index, nic->index,
				     &distance))
			continue;
		curve(d->f, middle(&gpu->box), gpu->box.y + gpu->box.h,
		      middle(&nic->box), nic->box.y, GPU_LINE,
		      distance.preferred ? 4.2 : 1.2,
		      "stroke-opacity=\"0.75\"");
	}
}

static void draw_cards(const struct drawing *d)
{
	uint32_t i;

	for (i = 0; i < d->l.n_cards; i++) {
		if (!d->l.cards[i].is_nic)
			draw_pairs(d, &d->l.cards[i]);
	}
	for (i = 0; i < d->l.n_cards; i++) {
		if (d->l.cards[i].is_nic)
			draw_nic(d, &d->l.cards[i]);
		else
			draw_gpu(d, &d->l.cards[i]);
	}
}

/* ---- legend, notes ---- */

static double swatch(const struct drawing *d, double x, double y,
		     const char *fill, const char *line, const char *words)
{
	const struct tei_box b = {x, y - 11, 18, 13};

	box(d->f, &b, 3, fill, line, "");
	text(d->f, x + 25, y, "small", words);
	return x + 25 + (double)strlen(words) * 6.9 + 22;
}

static double sample(const struct drawing *d, double x, double y,
		     const char *line, const char *how, const char *words)
{
	(void)fprintf(d->f,
		      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
		      "stroke=\"%s\" %s/>\n",
		      x, y - 4, x + 30, y - 4, line, how);
	text(d->f, x + 37, y, "small", words);
	return x + 37 + (double)strlen(words) * 6.9 + 22;
}

static void draw_legend(const struct drawing *d, double y)
{
	double x = MARGIN + 4;

	x = swatch(d, x, y, HOST_FILL, HOST_LINE, "host memory");
	x = swatch(d, x, y, GPU_FILL, GPU_LINE, "GPU");
	x = swatch(d, x, y, NIC_FILL, NIC_LINE, "NIC");
	(void)swatch(d, x, y, DOWN_FILL, DOWN_LINE, "port down");
	y += 24;
	x = MARGIN + 4;
	x = sample(d, x, y, GPU_LINE, "stroke-width=\"4.2\"",
		   "same PCIe switch");
	x = sample(d, x, y, HOST_LINE, "stroke-width=\"2.6\"",
		   "same NUMA node");
	x = sample(d, x, y, HOST_LINE, NEAR_LINE, "same socket");
	(void)sample(d, x, y, HOST_LINE, FAR_LINE,
		     "other socket (NUMA distance; 10 is local)");
}

static uint32_t n_notes_shown(const struct te_topo *topo)
{
	struct te_topo_machine m;

	te_topo_machine(topo, &m);
	return m.n_notes < NOTES_MAX ? m.n_notes : NOTES_MAX;
}

static void draw_notes(const struct drawing *d, double y)
{
	struct te_topo_note note;
	uint32_t i, n = n_notes_shown(d->topo);

	for (i = 0; i < n && !te_topo_note(d->topo, i, &note); i++) {
		text(d->f, MARGIN + 6, y + i * NOTE_H, "name bad", "!");
		text(d->f, MARGIN + 22, y + i * NOTE_H, "small", note.text);
	}
}

/* ---- the page ---- */

static void draw_head(const struct drawing *d, double h)
{
	struct te_topo_machine m;
	char line[TE_TOPO_LINE];

	te_topo_machine(d->topo, &m);
	(void)fprintf(
		d->f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		"height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
		"<style>text{font-family:'DejaVu Sans','Segoe UI',Helvetica,"
		"Arial,sans-serif;font-size:11.5px;fill:" FAINT "}"
		".name{font-size:13.5px;font-weight:600;fill:" INK "}"
		".title{font-size:17px;font-weight:600;fill:" INK "}"
		".frame{font-size:12px;font-weight:600;fill:" FAINT "}"
		".mid{text-anchor:middle}.off{fill:#98a1ab}"
		".bad{fill:" ALARM "}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
		d->l.w, h, d->l.w, h);
	text(d->f, MARGIN, 32, "title", tei_topo_word_machine(d->topo, line));
	if (*m.model)
		text(d->f, MARGIN, 51, "small", m.model);
}

static void draw_all(const struct drawing *d)
{
	uint32_t n = n_notes_shown(d->topo);
	double h = d->l.h + LEGEND_H + n * NOTE_H;

	draw_head(d, h);
	draw_sockets(d);
	draw_nodes(d);
	draw_node_links(d);
	draw_socket_links(d);
	draw_groups(d);
	draw_cards(d);
	draw_notes(d, d->l.h + 6);
	draw_legend(d, d->l.h + n * NOTE_H + 22);
	(void)fputs("</svg>\n", d->f);
}

int tei_topo_draw(const struct te_topo *topo, const char *path)
{
	struct drawing d = {.topo = topo};
	int rc = lay_out(topo, &d.l);

	if (rc)
		goto fini;
	d.f = fopen(path, "we");
	if (!d.f) {
		rc = -errno;
		goto fini;
	}
	draw_all(&d);
	if (ferror(d.f))
		rc = -EIO;
	if (fclose(d.f) && !rc)
		rc = -errno;
fini:
	layout_fini(&d.l);
	return rc;
}
