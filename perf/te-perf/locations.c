/* SPDX-License-Identifier: Apache-2.0 */
/* locations.c - locations of one side's memory */
#include "perf/te-perf/locations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANYWHERE   "*"
#define NUMBER_LEN 6 /* digits, the most */
_Static_assert(LOCATIONS_MAX == 16, "words below");

static const struct kind {
	const char *prefix;
	bool is_gpu;
} kinds[] = {{"cpu:", false}, {"cuda:", true}};

static const struct kind *kind_of(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strncmp(name, kinds[i].prefix, strlen(kinds[i].prefix)))
			return &kinds[i];
	return NULL;
}

/* Writes a word in one spelling: "cuda:00" is "cuda:0". False: it is none. */
static bool read_name(char out[LOCATION_LEN], const char *word, size_t len)
{
	const struct kind *kind = kind_of(word);
	const char *number = kind ? word + strlen(kind->prefix) : NULL;
	size_t n_digits = number ? strspn(number, "0123456789") : 0;

	if (len == strlen(ANYWHERE) && *word == *ANYWHERE) {
		(void)snprintf(out, LOCATION_LEN, "%s", ANYWHERE);
		return true;
	}
	if (!n_digits || n_digits > NUMBER_LEN ||
	    number + n_digits != word + len)
		return false;
	(void)snprintf(out, LOCATION_LEN, "%s%lu", kind->prefix,
		       strtoul(number, NULL, 10));
	return true;
}

static bool is_in(const struct locations *l, const char *name)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (!strcmp(l->name[i], name))
			return true;
	return false;
}

const char *locations_parse(struct locations *out, const char *text)
{
	const char *at = text ? text : ANYWHERE;
	char name[LOCATION_LEN];
	size_t len;

	*out = (struct locations){.n = 0};
	do {
		len = strcspn(at, ",");
		if (!len)
			return "a name is missing";
		if (!read_name(name, at, len))
			return "each should be cuda:N, cpu:N or *";
		if (is_in(out, name))
			return "a name is there twice";
		if (out->n == LOCATIONS_MAX)
			return "there may be 16 at most";
		memcpy(out->name[out->n++], name, sizeof(name));
		at += len;
	} while (*at++ == ',');
	return NULL;
}

bool location_is_gpu(const char *name)
{
	const struct kind *kind = kind_of(name);

	return kind && kind->is_gpu;
}

bool locations_have_gpu(const struct locations *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (location_is_gpu(l->name[i]))
			return true;
	return false;
}

void locations_text(const struct locations *l, char out[LOCATIONS_LEN])
{
	size_t len = 0;

	*out = 0;
	for (uint32_t i = 0; i < l->n; i++)
		len += (size_t)snprintf(out + len, LOCATIONS_LEN - len, "%s%s",
					i ? "," : "", l->name[i]);
}

struct side side_share(const struct side *s, uint32_t i, uint32_t n)
{
	struct side share = {.n = s->n, .span = s->span / n & ~7ull};

	for (uint32_t k = 0; k < s->n; k++)
		share.at[k] = s->at[k] + i * share.span;
	return share;
}
