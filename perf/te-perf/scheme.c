/* SPDX-License-Identifier: Apache-2.0 */
/* scheme.c - which hosts of a list move bytes to or from which others */
#include "perf/te-perf/scheme.h"

#include <string.h>

static uint32_t greater_of(uint32_t a, uint32_t b)
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
	s->shares = greater_of(s->shares, greater_of(p->out, p->in) + 1);
	s->n++;
}

/* Each tells whether host @from submits requests to host @to. */

static bool is_neighbour(uint32_t from, uint32_t to)
{
	return from % 2 == 0 && to == from + 1;
}

static bool goes_to_first(uint32_t from, uint32_t to)
{
	return from != to && to == 0;
}

static bool comes_from_first(uint32_t from, uint32_t to)
{
	return from != to && from == 0;
}

static bool is_other(uint32_t from, uint32_t to)
{
	return from != to;
}

static const struct kind {
	const char *word;
	bool (*is_pair)(uint32_t from, uint32_t to);
} kinds[] = {
	{"pairs", is_neighbour},
	{"pairwise", is_neighbour},
	{"manytoone", goes_to_first},
	{"onetomany", comes_from_first},
	{"all", is_other},
};

static const struct kind *find_kind(const char *word)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(word, kinds[i].word))
			return &kinds[i];
	return NULL;
}

const char *scheme_init(struct scheme *s, const char *word, uint32_t n_hosts,
			bool bidirectional)
{
	const struct kind *kind = find_kind(word);

	*s = (struct scheme){.n = 0};
	if (!kind)
		return "is no scheme";
	if (n_hosts < 2)
		return "needs two hosts at least";
	if (n_hosts > HOSTS_MAX)
		return "takes 64 hosts at most";
	if (kind->is_pair == is_neighbour && n_hosts % 2)
		return "needs an even number of hosts";
	for (uint32_t from = 0; from < n_hosts; from++)
		for (uint32_t to = 0; to < n_hosts; to++)
			if (kind->is_pair(from, to) ||
			    (bidirectional && kind->is_pair(to, from)))
				add_pair(s, from, to);
	return NULL;
}
