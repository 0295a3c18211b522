/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.c - the entries of one call, on their way to one peer
 */
#include "python/src/engine/transfer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_MS 1000000u

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / NS_PER_MS;
}

/* 0: none is left. */
static uint32_t left_ms(const struct py_transfer *t)
{
	uint64_t now = now_ms(), left = 0;

	if (now < t->deadline_ms)
		left = t->deadline_ms - now;
	return left < UINT32_MAX ? (uint32_t)left : UINT32_MAX - 1;
}

/* Why entry @i is refused, or NULL. */
static const char *fault(const struct py_engine *self,
			 const struct py_entries *e, size_t i, uint64_t *sure)
{
	uint64_t length = e->lengths.values[i];

	if (!length || length > TE_LENGTH_MAX)
		return "the length is 0 or too large";
	if (!py_is_there(self, e->buffers.values[i], length, e->op == TE_READ,
			 sure))
		return "buffer: no memory of this length is there, or it runs "
		       "past the end of what is registered";
	return NULL;
}

void py_entries_refuse(const struct py_entries *entries, const char *format,
		       ...)
{
	char why[400];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	if (entries->raises)
		PyErr_Format(PyExc_RuntimeError, "%s: %s", entries->method,
			     why);
	else
		py_warn(entries->method, "%s", why);
}

static int check_entries(const struct py_engine *self,
			 const struct py_entries *e)
{
	uint64_t sure = 0;

	if (e->buffers.n != e->peers.n || e->buffers.n != e->lengths.n) {
		py_entries_refuse(
			e,
			"buffers, peer_buffer_addresses and lengths are "
			"not equally many: %zu, %zu, %zu",
			e->buffers.n, e->peers.n, e->lengths.n);
		return PY_FAILED;
	}
	for (size_t i = 0; i < e->buffers.n; i++) {
		const char *why = fault(self, e, i, &sure);

		if (!why)
			continue;
		py_entries_refuse(e, "entry %zu, %llu bytes at %#llx: %s", i,
				  (unsigned long long)e->lengths.values[i],
				  (unsigned long long)e->buffers.values[i],
				  why);
		return PY_FAILED;
	}
	return 0;
}

static void fill_transfer(struct py_transfer *t, const struct py_entries *e)
{
	for (size_t i = 0; i < t->n; i++) {
		t->pieces[i] = (struct iovec){
			.iov_base = (void *)(uintptr_t)e->buffers.values[i],
			.iov_len = e->lengths.values[i],
		};
		t->requests[i] = (struct te_request){
			.op = e->op,
			.remote = e->peers.values[i],
			.pieces = &t->pieces[i],
			.n_pieces = 1,
		};
	}
}

static uint64_t total(const struct py_entries *e)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < e->lengths.n; i++)
		bytes += e->lengths.values[i];
	return bytes;
}

/* A batch for @n entries, with the GIL; one that was kept if it is enough. */
static int get_batch(struct py_engine *self, size_t n, struct te_batch **out)
{
	int rc;

	if (n <= PY_BATCH_SIZE && self->n_idle) {
		*out = self->idle[--self->n_idle];
		return 0;
	}
	Py_BEGIN_ALLOW_THREADS;
	rc = te_batch_create(
		self->te, n > PY_BATCH_SIZE ? (uint32_t)n : PY_BATCH_SIZE, out);
	Py_END_ALLOW_THREADS;
	return rc;
}

/* Entries of batch number @i. */
static size_t size_of(const struct py_transfer *t, size_t i)
{
	size_t left = t->n - i * PY_BATCH_MOST;

	return left < PY_BATCH_MOST ? left : PY_BATCH_MOST;
}

static int get_batches(struct py_engine *self, struct py_transfer *t)
{
	size_t n = (t->n + PY_BATCH_MOST - 1) / PY_BATCH_MOST;
	int rc = 0;

	while (!rc && t->n_batches < n) {
		rc = get_batch(self, size_of(t, t->n_batches),
			       &t->batches[t->n_batches]);
		t->n_batches += !rc;
	}
	return rc;
}

static struct py_transfer *allocate(const struct py_entries *e)
{
	size_t n = e->buffers.n;
	struct py_transfer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->method = e->method;
	t->n = n;
	t->target = strdup(e->target);
	t->requests = malloc((n + 1) * sizeof(*t->requests));
	t->pieces = malloc((n + 1) * sizeof(*t->pieces));
	t->batches = calloc(n / PY_BATCH_MOST + 1, sizeof(struct te_batch *));
	return t;
}

int py_transfer_create(struct py_engine *self, const struct py_entries *entries,
		       struct py_transfer **out)
{
	struct py_transfer *t;
	int rc = -ENOMEM;

	if (!self->te) {
		py_entries_refuse(entries, "the engine is not initialized");
		return PY_FAILED;
	}
	if (check_entries(self, entries))
		return PY_FAILED;
	t = allocate(entries);
	if (t && t->target && t->requests && t->pieces && t->batches) {
		t->deadline_ms = now_ms() + self->timeout_ms +
				 total(entries) / NS_PER_MS;
		fill_transfer(t, entries);
		rc = get_batches(self, t);
	}
	if (rc) {
		py_transfer_destroy(self, t);
		py_entries_refuse(entries, "%zu entries: %s",
				  entries->buffers.n, te_strerror(rc));
		return PY_FAILED;
	}
	*out = t;
	return 0;
}

/* Tells whether the batch is one that is kept; it is empty then. */
static bool keeps(struct py_engine *self, const struct py_transfer *t)
{
	return self->te && t->n <= PY_BATCH_SIZE && t->n_batches == 1 &&
	       self->n_idle < PY_IDLE_BATCHES && !te_batch_reset(t->batches[0]);
}

void py_transfer_destroy(struct py_engine *self, struct py_transfer *transfer)
{
	if (!transfer)
		return;
	if (keeps(self, transfer)) {
		self->idle[self->n_idle++] = transfer->batches[0];
		transfer->n_batches = 0;
	}
	if (transfer->n_batches) {
		Py_BEGIN_ALLOW_THREADS;
		for (size_t i = 0; i < transfer->n_batches; i++)
			te_batch_destroy(transfer->batches[i]);
		Py_END_ALLOW_THREADS;
	}
	free(transfer->batches);
	free(transfer->pieces);
	free(transfer->requests);
	free(transfer->target);
	free(transfer);
}

/* ---- sending ---- */

static int await_transfer(const struct py_transfer *t)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < t->n_batches; i++)
		rc = te_batch_wait(t->batches[i], UINT32_MAX);
	return rc;
}

/*
 * All of it into empty batches, without the GIL. What was sent is taken back.
 */
static int submit(struct py_transfer *t)
{
	uint32_t left = left_ms(t);
	int rc = left ? 0 : -ETIMEDOUT;
	size_t i;

	for (i = 0; i < t->n; i++) {
		t->requests[i].segment = t->segment;
		t->requests[i].timeout_ms = left;
	}
	for (i = 0; !rc && i < t->n_batches; i++)
		rc = te_batch_submit(t->batches[i],
				     &t->requests[i * PY_BATCH_MOST],
				     size_of(t, i));
	if (!rc)
		return 0;
	for (i = 0; i < t->n_batches; i++) {
		(void)te_batch_cancel(t->batches[i]);
		(void)te_batch_wait(t->batches[i], UINT32_MAX);
		(void)te_batch_reset(t->batches[i]);
	}
	return rc;
}

/* Find the peer and send, until that has worked or the time is over. */
static int send_all(struct py_engine *self, struct py_transfer *t)
{
	te_segment_id stale = t->is_stale ? t->segment : 0;
	int rc;

	t->n_seen = 0;
	t->error = 0;
	t->is_stale = false;
	if (!t->n)
		return 0;
	do {
		rc = py_segment_find(self, t->target, stale,
				     t->is_patient ? left_ms(t) : PY_NO_WAIT,
				     &t->segment);
		if (rc)
			return rc;
		stale = t->segment;
		Py_BEGIN_ALLOW_THREADS;
		rc = submit(t);
		if (!rc && t->is_patient)
			(void)await_transfer(
				t); /* while the GIL is not ours anyway */
		Py_END_ALLOW_THREADS;
		/* -ENOENT: somebody has just closed it, as stale. */
	} while (rc == -ENOENT && left_ms(t));
	return rc;
}

/* ---- in the order of a stream ---- */

/* Without the GIL. 0, or -errno and @why. */
static int submit_on_stream(struct py_transfer *t, uint64_t stream, char *why,
			    size_t why_len)
{
	uint32_t left = left_ms(t);
	int rc = 0;

	(void)snprintf(why, why_len, "%s", te_strerror(-ETIMEDOUT));
	if (!left)
		return -ETIMEDOUT;
	for (size_t i = 0; i < t->n; i++) {
		t->requests[i].segment = t->segment;
		t->requests[i].timeout_ms = left;
	}
	for (size_t i = 0; !rc && i < t->n_batches; i++)
		rc = te_batch_submit_on_stream(
			t->batches[i], &t->requests[i * PY_BATCH_MOST],
			size_of(t, i), "cuda", stream, why, why_len);
	return rc;
}

int py_transfer_on_stream(struct py_engine *self, struct py_transfer *transfer,
			  uint64_t stream)
{
	char why[256];
	int rc;

	do {
		rc = py_segment_fresh(self, transfer->target, left_ms(transfer),
				      &transfer->segment);
		if (rc) {
			PyErr_Format(PyExc_RuntimeError,
				     "Failed to open segment %s: %s",
				     transfer->target, te_strerror(rc));
			return -1;
		}
		Py_BEGIN_ALLOW_THREADS;
		rc = submit_on_stream(transfer, stream, why, sizeof(why));
		Py_END_ALLOW_THREADS;
		/*
		 * -ENOENT: somebody has just closed it, as stale. No batch has
		 * been submitted but by the first segment.
		 */
	} while (rc == -ENOENT && left_ms(transfer));
	if (!rc)
		return 0;
	PyErr_Format(PyExc_RuntimeError, "%s: %s", transfer->method, why);
	return -1;
}

static int complain_of(const struct py_transfer *t, int error)
{
	py_warn(t->method, "%zu entries to \"%s\": %s", t->n, t->target,
		te_strerror(error));
	return error;
}

int py_transfer_start(struct py_engine *self, struct py_transfer *transfer,
		      bool patient)
{
	int rc;

	transfer->is_patient = patient;
	rc = send_all(self, transfer);

	if (!rc)
		return 0;
	(void)complain_of(transfer, rc);
	return PY_FAILED;
}

/* ---- ending ---- */

int py_transfer_result(struct py_transfer *t)
{
	struct te_completion c;

	for (; t->n_seen < t->n; t->n_seen++) {
		int rc = te_batch_result(t->batches[t->n_seen / PY_BATCH_MOST],
					 (uint32_t)(t->n_seen % PY_BATCH_MOST),
					 &c);

		if (rc == -EAGAIN)
			return rc;
		if (rc ||
		    (c.error && c.error != -ESTALE && c.error != -ENOENT)) {
			if (!t->error)
				t->error = rc ? rc : c.error;
		} else if (c.error) {
			t->is_stale = true;
		}
	}
	if (t->error)
		return t->error;
	return t->is_stale ? -ESTALE : 0;
}

/* All that has ended goes once more, to the peer's new life. */
static int again(struct py_engine *self, struct py_transfer *t)
{
	for (size_t i = 0; i < t->n_batches; i++)
		(void)te_batch_reset(t->batches[i]);
	return send_all(self, t);
}

int py_transfer_look(struct py_engine *self, struct py_transfer *transfer)
{
	int rc = py_transfer_result(transfer);

	if (rc == -ESTALE && left_ms(transfer)) {
		rc = again(self, transfer);
		if (!rc)
			return -EAGAIN;
	}
	return rc && rc != -EAGAIN ? complain_of(transfer, rc) : rc;
}

int py_transfer_finish(struct py_engine *self, struct py_transfer *transfer)
{
	int rc;

	while ((rc = py_transfer_look(self, transfer)) == -EAGAIN) {
		Py_BEGIN_ALLOW_THREADS;
		rc = await_transfer(transfer);
		Py_END_ALLOW_THREADS;
		if (rc)
			return complain_of(transfer, rc);
	}
	return rc;
}

int py_notify_send(struct py_engine *self, const struct py_transfer *transfer,
		   PyObject *bytes)
{
	const struct iovec piece = {
		.iov_base = PyBytes_AsString(bytes),
		.iov_len = (size_t)PyBytes_Size(bytes),
	};
	const struct te_request request = {
		.op = TE_NOTIFY,
		.segment = transfer->segment,
		.pieces = &piece,
		.n_pieces = 1,
		.timeout_ms = left_ms(transfer) ? left_ms(transfer) : 1,
	};
	struct te_completion c = {.error = 0};
	struct te_batch *batch;
	int rc = get_batch(self, 1, &batch);

	if (rc)
		return complain_of(transfer, rc);
	Py_BEGIN_ALLOW_THREADS;
	rc = te_batch_submit(batch, &request, 1);
	if (!rc) {
		(void)te_batch_wait(batch, UINT32_MAX);
		rc = te_batch_result(batch, 0, &c);
	}
	te_batch_destroy(batch);
	Py_END_ALLOW_THREADS;
	rc = rc ? rc : c.error;
	return rc ? complain_of(transfer, rc) : 0;
}
