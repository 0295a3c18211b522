/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c - request traces: which KV blocks each request reads
 *
 * Strict: a line that is not exactly what perf/traces/README.md describes ends
 * the load, because a replay of half a trace would give wrong figures.
 */
#include "perf/lib/trace.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chance.h"
#include "base/mem.h"

struct parser {
	struct tei_trace *trace;
	const char *reason;
	json_error_t json_error;
};

static int refuse_line(struct parser *p, const char *reason)
{
	p->reason = reason;
	return -EINVAL;
}

/* Room for one more in an array that doubles. */
static int grow_array(void **array, size_t *room, size_t n, size_t size)
{
	size_t new_room = *room ? *room * 2 : 1024;
	void *p;

	if (n < *room)
		return 0;
	p = tei_realloc(*array, new_room * size);
	if (!p)
		return -ENOMEM;
	*array = p;
	*room = new_room;
	return 0;
}

static int add_id(struct tei_trace *t, uint64_t id)
{
	int rc = grow_array((void **)&t->ids, &t->n_ids_room, t->n_ids,
			    sizeof(*t->ids));

	if (rc)
		return rc;
	t->ids[t->n_ids++] = id;
	return 0;
}

static int read_uint(struct parser *p, const json_t *line, const char *name,
		     const char *reason, uint64_t *out)
{
	const json_t *v = json_object_get(line, name);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return refuse_line(p, reason);
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

static int read_ids(struct parser *p, const json_t *line,
		    struct tei_trace_request *r)
{
	const json_t *ids = json_object_get(line, "hash_ids"), *id;
	size_t i;
	int rc;

	if (!json_is_array(ids))
		return refuse_line(p, "\"hash_ids\" must be an array");
	r->first = p->trace->n_ids;
	r->n_blocks = json_array_size(ids);
	json_array_foreach(ids, i, id)
	{
		if (!json_is_integer(id) || json_integer_value(id) < 0)
			return refuse_line(p, "\"hash_ids\" must hold integers "
					      "from 0 on");
		rc = add_id(p->trace, (uint64_t)json_integer_value(id));
		if (rc)
			return rc;
	}
	return 0;
}

static int read_request(struct parser *p, const json_t *line)
{
	struct tei_trace *t = p->trace;
	struct tei_trace_request r;
	int rc;

	if (!json_is_object(line))
		return refuse_line(p, "not a JSON object");
	rc = read_uint(p, line, "timestamp",
		       "\"timestamp\" must be an integer from 0 on",
		       &r.timestamp_ms);
	if (!rc)
		rc = read_uint(p, line, "input_length",
			       "\"input_length\" must be an integer from 0 on",
			       &r.input_tokens);
	if (!rc)
		rc = read_uint(p, line, "output_length",
			       "\"output_length\" must be an integer from 0 on",
			       &r.output_tokens);
	if (!rc)
		rc = read_ids(p, line, &r);
	if (!rc)
		rc = grow_array((void **)&t->requests, &t->n_requests_room,
				t->n_requests, sizeof(r));
	if (!rc)
		t->requests[t->n_requests++] = r;
	return rc;
}

static int read_line(struct parser *p, const char *text, size_t len)
{
	json_t *line;
	int rc;

	if (strspn(text, " \t\r\n") == len)
		return 0;
	line = json_loadb(text, len, JSON_REJECT_DUPLICATES, &p->json_error);
	if (!line)
		return refuse_line(p, p->json_error.text);
	rc = read_request(p, line);
	json_decref(line);
	return rc;
}

static int read_lines(struct parser *p, FILE *f, uint64_t limit,
		      unsigned long *n_line)
{
	char *text = NULL;
	size_t room = 0;
	ssize_t len;
	int rc = 0;

	while (!rc && (!limit || p->trace->n_requests < limit)) {
		errno = 0;
		len = getline(&text, &room, f);
		if (len < 0) {
			rc = errno ? -errno : 0;
			break;
		}
		++*n_line;
		rc = read_line(p, text, (size_t)len);
	}
	free(text); /* of getline(), not ours */
	if (!rc && !p->trace->n_requests)
		rc = refuse_line(p, "the file holds no request");
	return rc;
}

int tei_trace_load(const char *path, uint64_t limit, struct tei_trace *out,
		   char error[TEI_TRACE_ERROR_LEN])
{
	struct parser p = {.trace = out};
	unsigned long n_line = 0;
	FILE *f;
	int rc;

	memset(out, 0, sizeof(*out));
	f = fopen(path, "re");
	if (!f) {
		rc = -errno;
		snprintf(error, TEI_TRACE_ERROR_LEN, "trace %s: %s", path,
			 strerror(-rc));
		return rc;
	}
	rc = read_lines(&p, f, limit, &n_line);
	fclose(f);
	if (rc) {
		snprintf(error, TEI_TRACE_ERROR_LEN, "trace %s line %lu: %s",
			 path, n_line, p.reason ? p.reason : strerror(-rc));
		tei_trace_free(out);
	}
	return rc;
}

void tei_trace_free(struct tei_trace *t)
{
	tei_free(t->requests);
	tei_free(t->ids);
	memset(t, 0, sizeof(*t));
}

/* ---- what follows from one ---- */

uint64_t tei_trace_tokens(const struct tei_trace_request *r, uint64_t n)
{
	uint64_t tokens = n * TEI_TRACE_BLOCK_TOKENS;

	return n == r->n_blocks || tokens > r->input_tokens ? r->input_tokens
							    : tokens;
}

uint64_t tei_trace_tenant_id(uint64_t id, uint64_t tenant)
{
	return tenant ? tei_chance_mix(id + tei_chance_mix(tenant)) : id;
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

uint64_t *tei_trace_distinct(const struct tei_trace *t, size_t *n)
{
	uint64_t *ids = tei_malloc((t->n_ids + 1) * sizeof(*ids));

	if (!ids)
		return NULL;
	if (t->n_ids)
		memcpy(ids, t->ids, t->n_ids * sizeof(*ids));
	qsort(ids, t->n_ids, sizeof(*ids), compare_ids);
	*n = 0;
	for (size_t i = 0; i < t->n_ids; i++)
		if (!*n || ids[i] != ids[*n - 1])
			ids[(*n)++] = ids[i];
	return ids;
}

size_t tei_trace_rank(const uint64_t *distinct, size_t n, uint64_t id)
{
	const uint64_t *at = bsearch(&id, distinct, n, sizeof(id), compare_ids);

	return (size_t)(at - distinct);
}

uint64_t *tei_trace_deal(const struct tei_trace *t, uint64_t n)
{
	uint64_t *ids = tei_calloc(t->n_ids ? t->n_ids : 1, sizeof(*ids));

	for (size_t i = 0; ids && i < t->n_requests; i++) {
		const struct tei_trace_request *r = &t->requests[i];

		for (uint64_t k = r->first; k < r->first + r->n_blocks; k++)
			ids[k] = tei_trace_tenant_id(t->ids[k], i % n);
	}
	return ids;
}

#define ABSENT SIZE_MAX

struct lru {
	uint64_t *ids; /* ids[n]: distinct, sorted */
	size_t n;
	size_t *prev, *next; /* [n + 1]; prev ABSENT: not in the cache */
	uint64_t used;
};

static void lru_fini(struct lru *c)
{
	tei_free(c->ids);
	tei_free(c->prev);
	tei_free(c->next);
}

static int lru_init(struct lru *c, const struct tei_trace *t)
{
	memset(c, 0, sizeof(*c));
	c->ids = tei_trace_distinct(t, &c->n);
	c->prev = tei_malloc((c->n + 1) * sizeof(*c->prev));
	c->next = tei_malloc((c->n + 1) * sizeof(*c->next));
	if (!c->ids || !c->prev || !c->next) {
		lru_fini(c);
		return -ENOMEM;
	}
	for (size_t i = 0; i < c->n; i++)
		c->prev[i] = ABSENT;
	c->prev[c->n] = c->next[c->n] = c->n;
	return 0;
}

static void take_out(struct lru *c, size_t rank)
{
	c->next[c->prev[rank]] = c->next[rank];
	c->prev[c->next[rank]] = c->prev[rank];
	c->prev[rank] = ABSENT;
	c->used--;
}

static void put_first(struct lru *c, size_t rank)
{
	size_t head = c->n;

	c->next[rank] = c->next[head];
	c->prev[rank] = head;
	c->prev[c->next[head]] = rank;
	c->next[head] = rank;
	c->used++;
}

static bool lru_touch(struct lru *c, uint64_t id, uint64_t capacity)
{
	size_t rank = tei_trace_rank(c->ids, c->n, id);
	bool hit = c->prev[rank] != ABSENT;

	if (hit)
		take_out(c, rank);
	put_first(c, rank);
	if (c->used > capacity)
		take_out(c, c->prev[c->n]);
	return hit;
}

int tei_lru_hits(const struct tei_trace *t, uint64_t capacity,
		 uint64_t *out_hits)
{
	uint64_t hits = 0;
	struct lru c;
	int rc = lru_init(&c, t);

	if (rc)
		return rc;
	for (size_t i = 0; i < t->n_ids; i++)
		hits += lru_touch(&c, t->ids[i], capacity);
	lru_fini(&c);
	*out_hits = hits;
	return 0;
}
