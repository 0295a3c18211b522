/* SPDX-License-Identifier: Apache-2.0 */
/* te_topo.h - the parts of te-topo: words, tables, layout and drawing */
#ifndef CMD_TE_TOPO_H
#define CMD_TE_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <te/topo.h>

#define TE_TOPO_LINE 128
#define TE_TOPO_LINK 80

/* ---- words (te_topo_words.c); each returns @out ---- */

const char *tei_topo_word_near(uint32_t near);
const char *tei_topo_word_kind(uint32_t kind);
const char *tei_topo_word_state(uint32_t state);
/* "1.0 TiB", "?" */
const char *tei_topo_word_bytes(uint64_t bytes, char out[32]);
/* "400 Gb/s", "?" */
const char *tei_topo_word_rate(uint64_t bps, char out[32]);
/* "gen5 x16", "gen4 x4 of 16", "" */
const char *tei_topo_word_link(const struct te_topo_pci *pci,
			       char out[TE_TOPO_LINK]);
/* "0-3,32" */
const char *tei_topo_word_list(const uint32_t *numbers, size_t n,
			       char out[TE_TOPO_LINE]);
/* "2 sockets, 2 NUMA nodes, 64 CPUs, 2.0 TiB, 8 GPUs, 10 NICs" */
const char *tei_topo_word_machine(const struct te_topo *topo,
				  char out[TE_TOPO_LINE]);
/* CPUs of a node, and those that should drive a NIC. */
const char *tei_topo_word_node_cpus(const struct te_topo *topo, int32_t node,
				    char out[TE_TOPO_LINE]);
const char *tei_topo_word_worker(const struct te_topo *topo, uint32_t nic,
				 char out[TE_TOPO_LINE]);

/* ---- tables (te_topo_text.c) ---- */

/* -ENOMEM, -EIO. */
int tei_topo_print_text(const struct te_topo *topo, FILE *out);

/* ---- the picture (te_topo_layout.c, te_topo_svg.c) ---- */

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

/* What hangs on one root port, or directly on one host bridge. */
struct tei_group {
	struct tei_box box;
	char key[64];   /* path of the root port, "" without PCIe */
	int is_switch;  /* more lies between */
	int32_t node;   /* -1: unknown */
	uint32_t frame; /* of the node */
	uint32_t n_gpus, n_nics;
};

/* A NUMA node with its memory and groups, or a socket around nodes. */
struct tei_frame {
	struct tei_box box, memory;
	int32_t number; /* -1: unknown */
	uint32_t outer; /* of a node: its socket */
	int has_memory;
};

struct tei_layout {
	struct tei_card *cards;
	struct tei_group *groups;
	struct tei_frame *nodes, *sockets;
	uint32_t n_cards, n_groups, n_nodes, n_sockets;
	int nodes_stacked, sockets_stacked; /* below each other */
	double w, h;
};

/* 0, -ENOMEM; fini() in both cases. */
int tei_topo_lay_out(const struct te_topo *topo, struct tei_layout *out);
void tei_topo_layout_fini(struct tei_layout *l);

/* -ENOMEM, or errno of writing. */
int tei_topo_draw(const struct te_topo *topo, const char *path);

#endif
