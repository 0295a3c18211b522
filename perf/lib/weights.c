/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.c - "get:80,put:20": names with their shares
 */
#include "perf/lib/weights.h"

#include <errno.h>
#include <string.h>

#include "base/conf.h"

#define NUMBER_LEN 8

static int parse_number(const char *text, size_t len, uint32_t *out)
{
	char number[NUMBER_LEN];
	uint64_t value;

	if (!len || len >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, len);
	number[len] = 0;
	if (tei_parse_uint(number, &value) || value > TEI_WEIGHT_MOST)
		return -EINVAL;
	*out = (uint32_t)value;
	return 0;
}

static int parse_one(const char *text, size_t len, struct tei_weight *out)
{
	const char *colon = memchr(text, ':', len);
	size_t name = colon ? (size_t)(colon - text) : len;

	if (!name || name >= sizeof(out->name))
		return -EINVAL;
	memcpy(out->name, text, name);
	out->name[name] = 0;
	out->weight = 1;
	return colon ? parse_number(colon + 1, len - name - 1, &out->weight)
		     : 0;
}

static int add_weight(struct tei_weights *w, const char *text, size_t len)
{
	struct tei_weight *one = &w->each[w->n];

	if (w->n == TEI_WEIGHTS_MAX || parse_one(text, len, one))
		return -EINVAL;
	for (uint32_t i = 0; i < w->n; i++)
		if (!strcmp(w->each[i].name, one->name))
			return -EINVAL;
	w->total += one->weight;
	w->n++;
	return 0;
}

int tei_weights_parse(const char *text, struct tei_weights *out)
{
	size_t len;

	memset(out, 0, sizeof(*out));
	do {
		len = strcspn(text, ",");
		if (add_weight(out, text, len))
			return -EINVAL;
		text += len;
	} while (*text++ == ',');
	return out->total ? 0 : -EINVAL;
}

uint32_t tei_weights_pick(const struct tei_weights *w, uint64_t chance)
{
	uint64_t at = chance % w->total;
	uint32_t i = 0;

	while (at >= w->each[i].weight)
		at -= w->each[i++].weight;
	return i;
}
