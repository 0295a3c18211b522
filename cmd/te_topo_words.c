/* SPDX-License-Identifier: Apache-2.0 */
/* te_topo_words.c - quantities and kinds in words for people */
#include <string.h>

#include "cmd/te_topo.h"

const char *tei_topo_word_near(uint32_t near)
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

const char *tei_topo_word_list(const uint32_t *numbers, size_t n,
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
	return tei_topo_word_list(cpus, n < CPUS_SHOWN ? n : CPUS_SHOWN, out);
}

const char *tei_topo_word_worker(const struct te_topo *topo, uint32_t nic,
				 char out[TE_TOPO_LINE])
{
	uint32_t cpus[CPUS_SHOWN];
	size_t n = CPUS_SHOWN;

	if (te_topo_worker_cpus(topo, nic, cpus, &n))
		n = 0;
	return tei_topo_word_list(cpus, n < CPUS_SHOWN ? n : CPUS_SHOWN, out);
}
