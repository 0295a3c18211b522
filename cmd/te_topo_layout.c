/* SPDX-License-Identifier: Apache-2.0 */
/*
 * te_topo_layout.c - where everything of the drawing goes
 *
 *   socket  [ node [ memory ]              node ... ]
 *                  [ group ] [ group ] ...
 *                    GPUs above NICs
 *
 * Sizes are found from the inside out, places from the outside in. Sockets,
 * and nodes within them, lie side by side while the page is wide enough.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/te_topo.h"

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

static void add_socket(struct tei_layout *l, struct tei_frame *node,
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

static void size_group(struct tei_group *g)
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
	struct tei_frame *node = &l->nodes[at];
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

/* Boxes in a row or a column, and what is around them. */
static void grow(struct tei_box *outer, const struct tei_box *inner, int first,
		 int stacked)
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
	struct tei_frame *socket = &l->sockets[at];
	uint32_t i;
	int first = 1;

	socket->box = (struct tei_box){0};
	for (i = 0; i < l->n_nodes; i++) {
		if (l->nodes[i].outer != at)
			continue;
		grow(&socket->box, &l->nodes[i].box, first, l->nodes_stacked);
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
		grow(&page, &l->sockets[i].box, i == 0, 0);
	l->sockets_stacked = l->n_sockets == 1 || page.w > PAGE_WIDTH;
	page = (struct tei_box){0};
	for (i = 0; i < l->n_sockets; i++)
		grow(&page, &l->sockets[i].box, i == 0, l->sockets_stacked);
	l->w = larger(page.w, 720) + 2 * MARGIN;
	l->h = page.h + HEAD + MARGIN;
}

/* ---- places ---- */

static void place_cards(struct tei_layout *l, uint32_t at)
{
	const struct tei_group *g = &l->groups[at];
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
	struct tei_frame *node = &l->nodes[at];
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
		struct tei_group *g = &l->groups[i];

		if (g->frame != at)
			continue;
		g->box.x = x;
		g->box.y = y;
		x += g->box.w + GAP;
		place_cards(l, i);
	}
}

/* What each of the nodes that lie side by side may have more. */
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

int tei_topo_lay_out(const struct te_topo *topo, struct tei_layout *l)
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

void tei_topo_layout_fini(struct tei_layout *l)
{
	tei_free(l->cards);
	tei_free(l->groups);
	tei_free(l->nodes);
	tei_free(l->sockets);
}
