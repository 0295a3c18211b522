/* SPDX-License-Identifier: Apache-2.0 */
/* scheme.c - which hosts of a list move bytes to or from which others */
#include "perf/te-perf/scheme.h"

#include <string.h>

static uint32_t greater(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static void add_pair(struct scheme *s, uint32_t from, uint32_t to)
{
	struct pair *p = &s->pair[s->n];

	*p = (struct pair){.from = from, .to = to};
	for (uint32_t i = 0; i < s->n; i++) {
		p->out += s->pair[i].from == from;
		p->in += s->pair[i].to == to;
	}
	s->shares = greater(s->shares, greater(p->out, p->in) + 1);
	s->n++;
}

/* Tells whether host @from submits requests to host @to. */
static bool is_pair(const char *word, uint32_t from, uint32_t to)
{
	if (!strcmp(word, "manytoone"))
		return to == 0;
	if (!strcmp(word, "onetomany"))
		return from == 0;
	if (!strcmp(word, "all"))
		return true;
	return from % 2 == 0 && to == from + 1;
}

const char *scheme_init(struct scheme *s, const char *word, uint32_t n_hosts,
			bool bidirectional)
{
	*s = (struct scheme){.n = 0};
	if (n_hosts < 2)
		return "needs two hosts at least";
	if (n_hosts > HOSTS_MAX)
		return "takes 64 hosts at most";
	if (!strncmp(word, "pair", 4) && n_hosts % 2)
		return "needs an even number of hosts";
	for (uint32_t from = 0; from < n_hosts; from++)
		for (uint32_t to = 0; to < n_hosts; to++)
			if (from != to &&
			    (is_pair(word, from, to) ||
			     (bidirectional && is_pair(word, to, from))))
				add_pair(s, from, to);
	return NULL;
}
