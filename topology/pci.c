/* SPDX-License-Identifier: Apache-2.0 */
/* pci.c - paths, bus ids and the rates of PCIe links */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "topology/topo.h"

/* @min .. @max hexadecimal digits at @text; how many, or 0. */
static size_t hex(const char *text, size_t len, size_t min, size_t max)
{
	size_t n = 0;

	while (n < len && n < max && isxdigit((unsigned char)text[n]))
		n++;
	return n >= min ? n : 0;
}

bool tei_topo_is_bus_id(const char *text, size_t len)
{
	size_t domain = hex(text, len, 4, 8);

	if (!domain || len != domain + 8 || len >= TEI_TOPO_BUS_MAX)
		return false;
	text += domain;
	return text[0] == ':' && hex(text + 1, 2, 2, 2) && text[3] == ':' &&
	       hex(text + 4, 2, 2, 2) && text[6] == '.' &&
	       hex(text + 7, 1, 1, 1);
}

/* "pci0000:3a", the bus behind a host bridge. */
static bool is_root(const char *text, size_t len)
{
	size_t domain;

	if (len < 10 || strncmp(text, "pci", 3) != 0)
		return false;
	domain = hex(text + 3, len - 3, 4, 8);
	return domain && len == domain + 6 && text[3 + domain] == ':' &&
	       hex(text + 4 + domain, 2, 2, 2);
}

/* The component at *@at, which moves behind it; NULL: there is none left. */
static const char *next(const char **at, size_t *len)
{
	const char *here = *at;

	if (!*here)
		return NULL;
	*len = strcspn(here, "/");
	*at = here + *len;
	if (**at)
		(*at)++;
	return here;
}

bool tei_topo_pci_from_path(struct tei_topo_pci *pci, const char *path)
{
	const char *at = path, *part, *first = NULL, *last = NULL;
	size_t len, last_len = 0, total;

	while ((part = next(&at, &len))) {
		if (is_root(part, len)) {
			if (!first)
				first = part;
		} else if (first && tei_topo_is_bus_id(part, len)) {
			last = part;
			last_len = len;
		} else if (first) {
			break;
		}
	}
	if (!last || last_len >= sizeof(pci->bus_id))
		return false;
	total = (size_t)(last - first) + last_len;
	if (total >= sizeof(pci->path))
		return false;
	memcpy(pci->path, first, total);
	pci->path[total] = '\0';
	memcpy(pci->bus_id, last, last_len);
	pci->bus_id[last_len] = '\0';
	return true;
}

/*
 * Up to gen 2 a byte is sent as 10 bits, from gen 3 on 16 bytes as 130; gen 6
 * sends 242 of 256 bytes. What packets' headers cost is not taken off.
 */
uint64_t tei_topo_link_bps(uint32_t mtps, uint32_t width)
{
	uint64_t raw = (uint64_t)mtps * 1000000 * width;

	if (mtps <= 5000)
		return raw / 10 * 8;
	if (mtps < 64000)
		return raw / 130 * 128;
	return raw / 256 * 242;
}

void tei_topo_pci_compare(const char *a, const char *b, uint32_t *common,
			  uint32_t *differ)
{
	const char *part_a = NULL, *part_b = NULL;
	size_t len_a = 0, len_b = 0;

	*common = *differ = 0;
	for (;;) {
		part_a = next(&a, &len_a);
		part_b = next(&b, &len_b);
		if (!part_a || !part_b || len_a != len_b ||
		    memcmp(part_a, part_b, len_a) != 0)
			break;
		++*common;
	}
	for (; part_a; part_a = next(&a, &len_a))
		++*differ;
	for (; part_b; part_b = next(&b, &len_b))
		++*differ;
}
