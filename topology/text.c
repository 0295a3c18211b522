/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - names, lists of numbers, bus ids and PCI paths */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/topo.h"

static bool is_printable(char c)
{
	return c >= 0x20 && c < 0x7f;
}

bool tei_topo_is_name(const char *text)
{
	size_t len = strnlen(text, TEI_TOPO_NAME_MAX);
	size_t i;

	for (i = 0; i < len; i++) {
		if (!is_printable(text[i]) || text[i] == ' ')
			return false;
	}
	return len > 0 && len < TEI_TOPO_NAME_MAX;
}

void tei_topo_copy_model(char *out, size_t room, const char *text)
{
	size_t n = 0;

	text += strspn(text, " \t\n");
	for (; *text && n + 1 < room; text++) {
		if (is_printable(*text))
			out[n++] = *text;
	}
	while (n && out[n - 1] == ' ')
		n--;
	out[n] = '\0';
}

/* A decimal number below @max at *@at. */
static bool read_number_below(const char **at, uint32_t max, uint32_t *out)
{
	unsigned long value;
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	value = strtoul(*at, &end, 10);
	if (errno || value >= max)
		return false;
	*out = (uint32_t)value;
	*at = end;
	return true;
}

static int call_for_range(uint32_t first, uint32_t last,
			  int (*fn)(uint32_t read_number_below, void *arg),
			  void *arg)
{
	int rc = 0;

	for (; !rc && first <= last; first++)
		rc = fn(first, arg);
	return rc;
}

int tei_topo_parse_list(const char *text, uint32_t max,
			int (*fn)(uint32_t read_number_below, void *arg),
			void *arg)
{
	uint32_t first, last, least = 0;
	int rc;

	while (*text) {
		if (!read_number_below(&text, max, &first) || first < least)
			return -EBADMSG;
		last = first;
		if (*text == '-') {
			text++;
			if (!read_number_below(&text, max, &last) ||
			    last < first)
				return -EBADMSG;
		}
		rc = call_for_range(first, last, fn, arg);
		if (rc)
			return rc;
		least = last + 1;
		if (*text == ',' && text[1])
			text++;
		else if (*text)
			return -EBADMSG;
	}
	return 0;
}

void tei_topo_print_cpus(const struct te_topo *t, int32_t node, char *out,
			 size_t room)
{
	size_t n = 0;
	uint32_t i, last;

	out[0] = '\0';
	for (i = 0; i < t->n_cpus && n + 1 < room; i++) {
		uint32_t first = t->cpus[i].number;
		int len;

		if (t->cpus[i].node != node)
			continue;
		last = first;
		while (i + 1 < t->n_cpus && t->cpus[i + 1].node == node &&
		       t->cpus[i + 1].number == last + 1) {
			last++;
			i++;
		}
		len = snprintf(out + n, room - n,
			       last > first ? "%s%u-%u" : "%s%u", n ? "," : "",
			       first, last);
		n += len > 0 ? (size_t)len : 0;
	}
}

int tei_topo_compare_names(const char *a, const char *b)
{
	return strverscmp(a, b);
}

/* @min .. @max hexadecimal digits at @text; how many, or 0. */
static size_t count_hex(const char *text, size_t len, size_t min, size_t max)
{
	size_t n = 0;

	while (n < len && n < max && isxdigit((unsigned char)text[n]))
		n++;
	return n >= min ? n : 0;
}

bool tei_topo_is_bus_id(const char *text, size_t len)
{
	size_t domain = count_hex(text, len, 4, 8);

	if (!domain || len != domain + 8 || len >= TEI_TOPO_BUS_MAX)
		return false;
	text += domain;
	return text[0] == ':' && count_hex(text + 1, 2, 2, 2) &&
	       text[3] == ':' && count_hex(text + 4, 2, 2, 2) &&
	       text[6] == '.' && count_hex(text + 7, 1, 1, 1);
}

/* "pci0000:3a", the bus behind a host bridge. */
static bool is_host_bridge(const char *text, size_t len)
{
	size_t domain;

	if (len < 10 || strncmp(text, "pci", 3) != 0)
		return false;
	domain = count_hex(text + 3, len - 3, 4, 8);
	return domain && len == domain + 6 && text[3 + domain] == ':' &&
	       count_hex(text + 4 + domain, 2, 2, 2);
}

/* The component at *@at, which moves behind it; NULL: there is none left. */
static const char *next_component(const char **at, size_t *len)
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

	while ((part = next_component(&at, &len))) {
		if (is_host_bridge(part, len)) {
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
 * Converts to bits a second. Up to gen 2 a byte is sent as 10 bits, from gen 3
 * on 16 bytes as 130; gen 6 sends 242 of 256 bytes. What packets' headers cost
 * is not taken off.
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
		part_a = next_component(&a, &len_a);
		part_b = next_component(&b, &len_b);
		if (!part_a || !part_b || len_a != len_b ||
		    memcmp(part_a, part_b, len_a) != 0)
			break;
		++*common;
	}
	for (; part_a; part_a = next_component(&a, &len_a))
		++*differ;
	for (; part_b; part_b = next_component(&b, &len_b))
		++*differ;
}
