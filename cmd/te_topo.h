/* SPDX-License-Identifier: Apache-2.0 */
/* te_topo.h - the parts of te-topo: words, tables and drawing */
#ifndef CMD_TE_TOPO_H
#define CMD_TE_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <te/topo.h>

#define TE_TOPO_LINE 128
#define TE_TOPO_LINK 80

/* ---- words (te_topo_text.c); each returns @out ---- */

const char *tei_topo_word_kind(uint32_t kind);
const char *tei_topo_word_state(uint32_t state);
/* "1.0 TiB", "?" */
const char *tei_topo_word_bytes(uint64_t bytes, char out[32]);
/* "400 Gb/s", "?" */
const char *tei_topo_word_rate(uint64_t bps, char out[32]);
/* "gen5 x16", "gen4 x4 of 16", "" */
const char *tei_topo_word_link(const struct te_topo_pci *pci,
			       char out[TE_TOPO_LINK]);
/* "2 sockets, 2 NUMA nodes, 64 CPUs, 2.0 TiB, 8 GPUs, 10 NICs" */
const char *tei_topo_word_machine(const struct te_topo *topo,
				  char out[TE_TOPO_LINE]);
/* CPUs of a node, and those that should drive a NIC. */
const char *tei_topo_word_node_cpus(const struct te_topo *topo, int32_t node,
				    char out[TE_TOPO_LINE]);
const char *tei_topo_word_worker(const struct te_topo *topo, uint32_t nic,
				 char out[TE_TOPO_LINE]);

/* ---- tables (te_topo_text.c) ---- */

/*
 * @way: of GPUs' memory to RDMA devices, as tei_gpu_way() says; "": of another
 * machine, nothing is said. -ENOMEM, -EIO.
 */
int tei_topo_print_text(const struct te_topo *topo, const char *way, FILE *out);

/* ---- the drawing (te_topo_svg.c) ---- */

/* -ENOMEM, or errno of writing. */
int tei_topo_draw(const struct te_topo *topo, const char *path);

#endif
