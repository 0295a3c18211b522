/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - have each peer measure towards each other one */
#include "cmd/doctor/pairs.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cmd/doctor/engines.h"

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
	tei_pair_fn *told;
	void *arg;
};

/* Of the life of @segment that we have asked; others may say what they like. */
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

static int ask(struct asker *a, te_segment_id segment, size_t backend,
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

static void fail(struct tei_answer *cell, int error)
{
	(void)snprintf(cell->failure, sizeof(cell->failure), "%s",
		       error == -ETIMEDOUT ? "no answer: is te-doctor listen "
					     "--pairs there, and can it reach "
					     "us by the setting name"
					   : te_strerror(error));
}

/* After the first that is not answered no other is asked: @error sticks. */
static int ask_row(struct asker *a, te_segment_id segment, size_t backend,
		   size_t from, int error)
{
	const struct tei_matrix *m = a->m;
	size_t to;

	for (to = 0; to < m->n; to++) {
		if (to == from)
			continue;
		if (!error && a->told)
			a->told(m->names[from], m->names[to], a->done,
				m->n_backends * m->n * (m->n - 1), a->arg);
		if (!error)
			error = ask(a, segment, backend, from, to);
		if (error)
			fail(tei_matrix_cell(m, backend, from, to), error);
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
		  uint64_t time_ms, tei_pair_fn *told, void *arg)
{
	/* No number of an asker before us, which may have had our name. */
	struct asker a = {.engine = engine,
			  .m = m,
			  .time_ms = time_ms,
			  .next_id = tei_now_ns(),
			  .told = told,
			  .arg = arg};
	size_t from;
	int rc = 0;

	for (from = 0; !rc && from < m->n; from++)
		rc = ask_peer(&a, from);
	return rc;
}
