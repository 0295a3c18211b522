/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - names, lists of numbers, and the order of names */
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
static bool number(const char **at, uint32_t max, uint32_t *out)
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

static int run_of(uint32_t first, uint32_t last,
		  int (*fn)(uint32_t number, void *arg), void *arg)
{
	int rc = 0;

	for (; !rc && first <= last; first++)
		rc = fn(first, arg);
	return rc;
}

int tei_topo_parse_list(const char *text, uint32_t max,
			int (*fn)(uint32_t number, void *arg), void *arg)
{
	uint32_t first, last, least = 0;
	int rc;

	while (*text) {
		if (!number(&text, max, &first) || first < least)
			return -EBADMSG;
		last = first;
		if (*text == '-') {
			text++;
			if (!number(&text, max, &last) || last < first)
				return -EBADMSG;
		}
		rc = run_of(first, last, fn, arg);
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
