/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - have each peer measure towards each other one */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cmd/doctor/engines.h"
#include "cmd/doctor/pairs.h"

#define OPEN_MS   5000
#define ANSWER_MS 30000 /* longer than it measures: connecting, time-outs */

/* ---- the matrix ---- */

int tei_matrix_init(struct tei_matrix *m, const char *const names[], size_t n,
		    const char *const backends[], size_t n_backends)
{
	*m = (struct tei_matrix){.names = names,
				 .backends = backends,
				 .n = n,
				 .n_backends = n_backends};
	m->cells = tei_calloc(n_backends * n * n + 1, sizeof(*m->cells));
	return m->cells ? 0 : -ENOMEM;
}

void tei_matrix_fini(struct tei_matrix *m)
{
	tei_free(m->cells);
	*m = (struct tei_matrix){.names = NULL};
}

struct tei_answer *tei_matrix_cell(const struct tei_matrix *m, size_t backend,
				   size_t from, size_t to)
{
	return &m->cells[(backend * m->n + from) * m->n + to];
}

/* ---- asking ---- */

struct asker {
	struct te_engine *engine;
	struct tei_matrix *m;
	uint64_t time_ms;
	uint64_t next_id;
	size_t done;
	tei_pair_fn *announce;
	void *arg;
};

/* Accept only answers of the incarnation of @segment that was asked. */
static bool is_from(struct te_engine *engine, te_segment_id segment,
		    const struct te_notify *notify)
{
	uint8_t life[TE_INCARNATION_LEN];

	return !te_segment_incarnation(engine, segment, life) &&
	       !memcmp(life, notify->incarnation, sizeof(life));
}

/* A message was taken; true: it was the answer. */
static bool take_answer(struct asker *a, te_segment_id segment,
			struct tei_answer *out)
{
	struct te_notify notify;
	struct tei_answer answer;
	bool found = false;

	while (!found && !te_notify_take(a->engine, &notify)) {
		found = is_from(a->engine, segment, &notify) &&
			tei_answer_decode(notify.bytes, notify.length,
					  &answer) &&
			answer.id == a->next_id;
		te_notify_free(&notify);
	}
	if (found)
		*out = answer;
	return found;
}

/* 0, -ETIMEDOUT, or why our engine cannot hear. */
static int hear(struct asker *a, te_segment_id segment, struct tei_answer *out)
{
	uint64_t until =
		tei_now_ns() + (ANSWER_MS + 2 * a->time_ms) * TEI_NS_PER_MS;
	struct pollfd fd = {.fd = te_notify_eventfd(a->engine),
			    .events = POLLIN};
	uint64_t now;

	if (fd.fd < 0)
		return fd.fd;
	while (!take_answer(a, segment, out)) {
		now = tei_now_ns();
		if (now >= until)
			return -ETIMEDOUT;
		(void)poll(&fd, 1, (int)((until - now) / TEI_NS_PER_MS) + 1);
	}
	return 0;
}

static int ask_pair(struct asker *a, te_segment_id segment, size_t backend,
		    size_t from, size_t to)
{
	struct tei_order order = {.id = ++a->next_id, .time_ms = a->time_ms};
	char *text;
	int rc;

	(void)snprintf(order.to, sizeof(order.to), "%s", a->m->names[to]);
	(void)snprintf(order.backends, sizeof(order.backends), "%s",
		       a->m->backends[backend]);
	text = tei_order_encode(&order);
	if (!text)
		return -ENOMEM;
	rc = tei_engine_tell(a->engine, segment, text);
	free(text);
	if (rc)
		return rc;
	return hear(a, segment, tei_matrix_cell(a->m, backend, from, to));
}

static void fail_cell(struct tei_answer *cell, int error)
{
	(void)snprintf(cell->failure, sizeof(cell->failure), "%s",
		       error == -ETIMEDOUT ? "no answer: is te-doctor listen "
					     "--pairs there, and can it reach "
					     "us by the setting name"
					   : te_strerror(error));
}

/*
 * Asks a row; after the first that is not answered no other is asked: @error
 * sticks.
 */
static int ask_row(struct asker *a, te_segment_id segment, size_t backend,
		   size_t from, int error)
{
	const struct tei_matrix *m = a->m;
	size_t to;

	for (to = 0; to < m->n; to++) {
		if (to == from)
			continue;
		if (!error && a->announce)
			a->announce(m->names[from], m->names[to], a->done,
				    m->n_backends * m->n * (m->n - 1), a->arg);
		if (!error)
			error = ask_pair(a, segment, backend, from, to);
		if (error)
			fail_cell(tei_matrix_cell(m, backend, from, to), error);
		a->done++;
	}
	return error;
}

static int ask_peer(struct asker *a, size_t from)
{
	te_segment_id segment;
	int error = te_segment_open(a->engine, a->m->names[from], OPEN_MS,
				    &segment);
	bool opened = !error;
	size_t backend;

	for (backend = 0; backend < a->m->n_backends; backend++)
		error = ask_row(a, segment, backend, from, error);
	if (opened)
		te_segment_close(a->engine, segment);
	return error == -ENOMEM || error == -EMFILE ? error : 0;
}

int tei_pairs_ask(struct te_engine *engine, struct tei_matrix *m,
		  uint64_t time_ms, tei_pair_fn *announce, void *arg)
{
	/* No number of an asker before us, which may have had our name. */
	struct asker a = {.engine = engine,
			  .m = m,
			  .time_ms = time_ms,
			  .next_id = tei_now_ns(),
			  .announce = announce,
			  .arg = arg};
	size_t from;
	int rc = 0;

	for (from = 0; !rc && from < m->n; from++)
		rc = ask_peer(&a, from);
	return rc;
}

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

/* A table of the matrix: of a backend and a direction. */
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

/* Counts the pairs with this peer at one end that are slow, or not. */
static size_t count_cells(const struct table *t, size_t peer, bool measures,
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
	return count_cells(t, peer, measures, true) > 1 &&
	       !count_cells(t, peer, measures, false);
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

/* Median of the pairs that were measured; 0: none was, or no memory. */
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

/* ---- text ---- */

static int widest(const struct tei_matrix *m)
{
	size_t i, width = 4;

	for (i = 0; i < m->n; i++)
		if (strlen(m->names[i]) > width)
			width = strlen(m->names[i]);
	return (int)width;
}

static void print_cell(const struct tei_answer *a, bool write, FILE *out)
{
	uint64_t bps = write ? a->write_bps : a->read_bps;

	if (*a->failure)
		(void)fprintf(out, " %8s", "fails");
	else if (!bps)
		(void)fprintf(out, " %8s", "?");
	else
		(void)fprintf(out, " %8.3g", (double)bps / 1e9);
}

static void print_table(const struct tei_matrix *m, size_t backend, bool write,
			FILE *out)
{
	const char *by = m->backends[backend];
	int width = widest(m);
	size_t from, to;

	(void)fprintf(out, "Gbit/s that the row %s the column%s%s\n\n",
		      write ? "writes to" : "reads from", *by ? ", by " : "",
		      by);
	(void)fprintf(out, "     %-*s", width, "");
	for (to = 0; to < m->n; to++)
		(void)fprintf(out, " %8zu", to + 1);
	for (from = 0; from < m->n; from++) {
		(void)fprintf(out, "\n%4zu %-*s", from + 1, width,
			      m->names[from]);
		for (to = 0; to < m->n; to++)
			if (from == to)
				(void)fprintf(out, " %8s", "-");
			else
				print_cell(
					tei_matrix_cell(m, backend, from, to),
					write, out);
	}
	(void)fprintf(out, "\n\n");
}

int tei_pairs_text(const struct tei_matrix *m, FILE *out)
{
	size_t backend;

	for (backend = 0; backend < m->n_backends; backend++) {
		print_table(m, backend, true, out);
		print_table(m, backend, false, out);
	}
	return ferror(out) ? -EIO : 0;
}

/* ---- JSON ---- */

static json_t *pack_rails(const struct tei_answer *a)
{
	json_t *rails = json_array();
	size_t i;

	for (i = 0; i < a->n_rails; i++)
		(void)json_array_append_new(
			rails,
			json_pack("{s:s, s:s, s:I, s:I}", "name",
				  a->rails[i].name, "state", a->rails[i].state,
				  "read_bps", (json_int_t)a->rails[i].read_bps,
				  "write_bps",
				  (json_int_t)a->rails[i].write_bps));
	return rails;
}

static json_t *pack_cell(const struct tei_matrix *m, size_t backend,
			 size_t from, size_t to)
{
	const struct tei_answer *a = tei_matrix_cell(m, backend, from, to);
	const char *why = a->why + strspn(a->why, "; ");

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o}",
			 "from", m->names[from], "to", m->names[to], "wanted",
			 m->backends[backend], "backend", a->backend, "why",
			 why, "failure", a->failure, "rtt_us",
			 (json_int_t)a->rtt_us, "read_bps",
			 (json_int_t)a->read_bps, "write_bps",
			 (json_int_t)a->write_bps, "rails", pack_rails(a));
}

json_t *tei_pairs_pack(const struct tei_matrix *m)
{
	json_t *all = json_array();
	size_t backend, from, to;
	int rc = all ? 0 : -1;

	for (backend = 0; backend < m->n_backends; backend++)
		for (from = 0; from < m->n; from++)
			for (to = 0; to < m->n && !rc; to++)
				if (from != to)
					rc = json_array_append_new(
						all, pack_cell(m, backend, from,
							       to));
	if (rc)
		json_decref(all);
	return rc ? NULL : all;
}
