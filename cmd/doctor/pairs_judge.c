/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs_judge.c - which pairs are slow, and what they have in common
 *
 * A pair is slow that moves less than half of what the median of all pairs does,
 * by the same backends in the same direction. Where all of one peer's are slow, the
 * peer is the cause; where it is one pair, what lies between the two.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/doctor/pairs.h"

static const struct tei_rule reach = {
	"pairs.reach", "each peer can read and write each other one",
	"te-doctor listen --pairs on all, with names that the others know; ports "
	"open (firewall); --insecure where they are different hosts"};
static const struct tei_rule rate = {
	"pairs.rate", "half of the median of all pairs, or more",
	"te-doctor at both ends, te-doctor peer from one to the other; then "
	"cables and switches between them"};

enum direction { READ, WRITE };
static const char *const verbs[] = {"reads", "writes"};

/* One table of the matrix: a backend, a direction. */
struct table {
	const struct tei_matrix *m;
	size_t backend;
	enum direction direction;
	uint64_t median;
	const char *usual; /* the backend that most pairs went by */
};

static const struct tei_answer *cell(const struct table *t, size_t from,
				     size_t to)
{
	return tei_matrix_cell(t->m, t->backend, from, to);
}

/* Bits a second; 0: it was not measured. */
static uint64_t rate_of(const struct table *t, size_t from, size_t to)
{
	const struct tei_answer *a = cell(t, from, to);

	if (from == to || *a->failure)
		return 0;
	return t->direction == READ ? a->read_bps : a->write_bps;
}

static bool is_slow(const struct table *t, size_t from, size_t to)
{
	uint64_t bps = rate_of(t, from, to);

	return bps && bps < t->median / 2;
}

/* ---- causes ---- */

/* Of the pairs with this peer at one end how many are slow, or are not. */
static size_t count(const struct table *t, size_t peer, bool measures,
		    bool slow)
{
	size_t i, n = 0;

	for (i = 0; i < t->m->n; i++) {
		size_t from = measures ? peer : i, to = measures ? i : peer;

		n += rate_of(t, from, to) && is_slow(t, from, to) == slow;
	}
	return n;
}

static bool is_slow_with_all(const struct table *t, size_t peer, bool measures)
{
	return count(t, peer, measures, true) > 1 &&
	       !count(t, peer, measures, false);
}

static const char *usual_backend(const struct table *t)
{
	const char *best = "";
	size_t i, k, n, most = 0, all = t->m->n * t->m->n;

	for (i = 0; i < all; i++) {
		const char *name = cell(t, 0, 0)[i].backend;

		for (n = 0, k = 0; k < all; k++)
			n += *name && !strcmp(cell(t, 0, 0)[k].backend, name);
		if (n > most) {
			most = n;
			best = name;
		}
	}
	return best;
}

static const struct tei_answer_rail *idle_rail(const struct table *t,
					       const struct tei_answer *a)
{
	size_t i;

	for (i = 0; i < a->n_rails; i++)
		if (!(t->direction == READ ? a->rails[i].read_bps
					   : a->rails[i].write_bps))
			return &a->rails[i];
	return NULL;
}

static void cause(const struct table *t, size_t from, size_t to, char *out,
		  size_t room)
{
	const struct tei_answer *a = cell(t, from, to);
	const struct tei_answer_rail *idle = idle_rail(t, a);
	const char *const *names = t->m->names;

	if (strcmp(a->backend, t->usual) != 0)
		(void)snprintf(out, room, "by %s, most others by %s%s",
			       a->backend, t->usual, a->why);
	else if (idle)
		(void)snprintf(out, room, "rail %s (%s) carries nothing",
			       idle->name, idle->state);
	else if (is_slow_with_all(t, from, true))
		(void)snprintf(out, room,
			       "%s %s all others slowly: its own NIC or CPU",
			       names[from], verbs[t->direction]);
	else if (is_slow_with_all(t, to, false))
		(void)snprintf(out, room,
			       "slow for all that %s there: NIC or CPU of %s",
			       t->direction == READ ? "read" : "write",
			       names[to]);
	else if (rate_of(t, to, from) && !is_slow(t, to, from))
		(void)snprintf(
			out, room,
			"only this way: loss or congestion between them");
	else
		(void)snprintf(out, room,
			       "only these two: route, MTU, cable, switch");
}

/* ---- findings ---- */

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Of those that were measured; 0: none was, or no memory. */
static uint64_t median(const struct table *t)
{
	size_t from, to, n = 0;
	uint64_t *all = tei_calloc(t->m->n * t->m->n + 1, sizeof(*all));
	uint64_t found;

	if (!all)
		return 0;
	for (from = 0; from < t->m->n; from++)
		for (to = 0; to < t->m->n; to++)
			if (rate_of(t, from, to))
				all[n++] = rate_of(t, from, to);
	qsort(all, n, sizeof(*all), by_size);
	found = n ? all[n / 2] : 0;
	tei_free(all);
	return found;
}

static void name_pair(const struct table *t, size_t from, size_t to,
		      char out[64])
{
	(void)snprintf(out, 64, "%.30s > %.30s", t->m->names[from],
		       t->m->names[to]);
}

static void judge_table(const struct table *t, struct tei_report *r)
{
	const char *backend = t->m->backends[t->backend];
	char pair[64], why[192];
	size_t from, to, n = 0;

	for (from = 0; from < t->m->n; from++)
		for (to = 0; to < t->m->n; to++) {
			if (!is_slow(t, from, to))
				continue;
			n++;
			name_pair(t, from, to, pair);
			cause(t, from, to, why, sizeof(why));
			tei_report_add(r, TEI_MARK_WARN, &rate, pair,
				       "%s %.3g Gbit/s, the median %.3g; %s",
				       verbs[t->direction],
				       (double)rate_of(t, from, to) / 1e9,
				       (double)t->median / 1e9, why);
		}
	if (!n && t->median)
		tei_report_add(r, TEI_MARK_OK, &rate, backend,
			       "all %s near the median, %.3g Gbit/s",
			       verbs[t->direction], (double)t->median / 1e9);
}

static void judge_failures(const struct tei_matrix *m, size_t backend,
			   struct tei_report *r)
{
	const struct table t = {.m = m, .backend = backend};
	const char *by = m->backends[backend];
	size_t from, to, n = 0;
	char pair[64];

	for (from = 0; from < m->n; from++)
		for (to = 0; to < m->n; to++) {
			if (!*cell(&t, from, to)->failure)
				continue;
			n++;
			name_pair(&t, from, to, pair);
			tei_report_add(r, TEI_MARK_FAIL, &reach, pair, "%s%s%s",
				       by, *by ? ": " : "",
				       cell(&t, from, to)->failure);
		}
	if (!n)
		tei_report_add(r, TEI_MARK_OK, &reach, by, "all %zu pairs",
			       m->n * (m->n - 1));
}

void tei_pairs_judge(const struct tei_matrix *m, struct tei_report *r)
{
	struct table t = {.m = m};

	for (t.backend = 0; t.backend < m->n_backends; t.backend++) {
		judge_failures(m, t.backend, r);
		t.usual = usual_backend(&t);
		for (t.direction = READ; t.direction <= WRITE; t.direction++) {
			t.median = median(&t);
			judge_table(&t, r);
		}
	}
}
