/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bound.c - for each row, what the bare system does of the same work
 *
 * Two figures of the same unit: *raw* is the row's own shape done by hand (for
 * tcp a closed loop of sendmsg() and an answer, for memory a copy block by
 * block); *bound* is the most that this way of moving bytes allows (for tcp
 * one uninterrupted stream, for memory of the same kind the fastest copy). Cold
 * rows walk over all of the reference's memory, hot ones over what ours walk
 * over.
 */
#include "perf/te-perf/bound.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "perf/lib/bare.h"
#include "perf/lib/copy.h"
#include "perf/lib/reference.h"

#define SECONDS    1.0
#define PINGPONG_S 0.2
#define PAUSED_S   0.6 /* of a ping-pong with pauses */
#define COPY_S     0.2
#define STOP_MS    30000
#define BULK_MIN   65536 /* bytes in flight that are bulk */
#define BALL_MAX   4096  /* requests up to here are held against a ping-pong */

/* ---- open and close ---- */

/* "10.0.0.2,10.0.1.2": other addresses of the same peer. */
static int replace_addresses(struct tei_bare_peer *peer, const char *list)
{
	uint16_t port = tei_address_port(&peer->at[0]);
	char host[TEI_HOST_LEN_MAX + 1];
	size_t len;
	int rc;

	peer->n_at = 0;
	for (;; list += len + 1) {
		len = strcspn(list, ",");
		if (!len || len >= sizeof(host) || peer->n_at == TEI_BARE_RAILS)
			return -EINVAL;
		snprintf(host, sizeof(host), "%.*s", (int)len, list);
		rc = tei_resolve(host, port, &peer->at[peer->n_at], 1);
		if (rc < 0)
			return rc;
		peer->n_at++;
		if (!list[len])
			return 0;
	}
}

static int open_peer(struct bound *b, struct target *t, uint64_t len)
{
	const struct options *o = b->options;
	int rc = t->remote_host
			 ? target_reference(t, len, &b->peer)
			 : tei_reference_peer_start(&b->process, &b->peer, len,
						    o->pin, o->insecure);

	if (!rc && o->reference_at && *o->reference_at)
		rc = replace_addresses(&b->peer, o->reference_at);
	return rc;
}

int bound_open(struct bound *b, const struct options *o, struct target *t)
{
	uint64_t len = o->working_set < REFERENCE_MEMORY_MAX
			       ? o->working_set
			       : REFERENCE_MEMORY_MAX;
	double seconds = (double)o->duration / 1e3;
	int rc;

	*b = (struct bound){.options = o, .process = TEI_PROCESS_NONE};
	if (!o->reference)
		return 0;
	b->seconds = seconds < SECONDS ? seconds : SECONDS;
	snprintf(b->peer.congestion, sizeof(b->peer.congestion), "%s",
		 o->congestion ? o->congestion : "");
	rc = open_peer(b, t, len);
	if (!rc)
		rc = tei_reference_memory(&b->peer, len, false);
	if (rc) {
		fprintf(stderr, "te-perf: reference: %s\n", te_strerror(rc));
		bound_close(b);
	}
	return rc;
}

void bound_close(struct bound *b)
{
	tei_process_stop(&b->process, STOP_MS);
	tei_reference_memory_free(&b->peer);
}

/* ---- one row ---- */

static struct tei_bare_shape shape_of(const struct bound *b,
				      const struct row *row)
{
	struct tei_bare_shape s = {
		.read = row->read_share >= 50,
		.batch = row->batch < TEI_BARE_BATCH ? row->batch
						     : TEI_BARE_BATCH,
		.size = row->size < b->peer.len ? row->size : b->peer.len,
		.seconds = b->seconds,
	};

	if (!b->options->hot)
		return s;
	s.span = s.size * s.batch < LOAD_HOT_LEN ? s.size * s.batch
						 : LOAD_HOT_LEN;
	if (s.span < s.size)
		s.span = s.size;
	return s;
}

static int measure_stream(struct bound *b, const struct tei_bare_shape *shape,
			  double v[N_FIGURES])
{
	struct tei_bare_shape s = *shape;
	struct tei_bare_figure figure;
	int rc;

	if (s.span) /* hot: one buffer of a write's length, as iperf3 has it */
		s.span = LOAD_HOT_LEN;
	rc = tei_bare_best(tei_stream_run, &b->peer, &s, &figure);
	v[STREAM_GB_PER_S] = figure.gb_per_s;
	v[STREAM_CPU_S_PER_GB] = figure.cpu_s_per_gb;
	return rc;
}

static int measure_exchange(struct bound *b, const struct tei_bare_shape *s,
			    double v[N_FIGURES])
{
	struct tei_bare_figure figure;
	int rc = tei_bare_best(tei_exchange_run, &b->peer, s, &figure);

	v[EXCHANGE_GB_PER_S] = figure.gb_per_s;
	v[EXCHANGE_CPU_S_PER_GB] = figure.cpu_s_per_gb;
	v[EXCHANGE_P50_US] = figure.p50_us;
	return rc;
}

static int measure_pingpong(struct bound *b, double v[N_FIGURES])
{
	struct tei_bare_shape s = {
		.seconds = b->seconds < PINGPONG_S ? b->seconds : PINGPONG_S,
		.spin = true,
	};
	struct tei_bare_figure figure;
	int rc = tei_pingpong_run(&b->peer, &s, &figure);

	v[PINGPONG_SPINNING_US] = figure.p50_us;
	s.spin = false;
	/* After the same pauses as ours. */
	s.pause_ns = b->options->pause * 1000000;
	if (s.pause_ns)
		s.seconds = b->seconds < PAUSED_S ? b->seconds : PAUSED_S;
	if (!rc)
		rc = tei_pingpong_run(&b->peer, &s, &figure);
	v[PINGPONG_BLOCKING_US] = figure.p50_us;
	return rc;
}

static int measure_tcp(struct bound *b, struct row *row,
		       const struct tei_bare_shape *s, double v[N_FIGURES])
{
	int rc = measure_stream(b, s, v);

	if (!rc)
		rc = measure_exchange(b, s, v);
	if (!rc && row->batch == 1 && row->size <= BALL_MAX)
		rc = measure_pingpong(b, v);
	row->raw = "exchange";
	row->bound = "stream";
	v[RAW_GB_PER_S] = v[EXCHANGE_GB_PER_S];
	v[BOUND_GB_PER_S] = v[STREAM_GB_PER_S];
	return rc;
}

static uint32_t count_copiers(const struct row *row)
{
	uint32_t cores = tei_process_cores();

	return row->threads < cores ? row->threads : cores;
}

/* Has the memory be of the kind that the row's is of. -ENOMEM. */
static int fit_memory(struct bound *b, bool shared)
{
	if (b->shared == shared)
		return 0;
	tei_reference_memory_free(&b->peer);
	b->shared = shared;
	return tei_reference_memory(&b->peer, b->peer.len, shared);
}

static int measure_copies(struct bound *b, struct row *row,
			  struct tei_bare_shape *s, double v[N_FIGURES])
{
	const struct tei_copier *best;
	uint32_t n = count_copiers(row);
	int rc = fit_memory(b, !b->options->foreign);

	if (rc)
		return rc;
	s->seconds = b->seconds < COPY_S ? b->seconds : COPY_S;
	best = tei_copy_best(&b->peer, s);
	row->kernel = best->name;
	rc = tei_copy_rate(&b->peer, s, TEI_MOVER_MEMCPY, NULL, n,
			   &v[MEMCPY_GB_PER_S]);
	if (!rc)
		rc = tei_copy_rate(&b->peer, s, TEI_MOVER_KERNEL, best, n,
				   &v[BEST_COPY_GB_PER_S]);
	row->raw = "memcpy";
	row->bound = "copy";
	v[RAW_GB_PER_S] = v[MEMCPY_GB_PER_S];
	v[BOUND_GB_PER_S] = fmax(v[MEMCPY_GB_PER_S], v[BEST_COPY_GB_PER_S]);
	return rc;
}

/*
 * Measures process_vm_writev(). Not being allowed to is no failure: then ours
 * is not either.
 */
static int measure_process_vm(struct bound *b, struct row *row,
			      struct tei_bare_shape *s, double v[N_FIGURES])
{
	double rate;
	int rc;

	if (!b->peer.pid)
		return 0;
	s->seconds = b->seconds < COPY_S ? b->seconds : COPY_S;
	rc = tei_copy_rate(&b->peer, s,
			   s->read ? TEI_MOVER_VM_READ : TEI_MOVER_VM_WRITE,
			   NULL, count_copiers(row), &rate);
	if (rc == -EPERM || rc == -ENOSYS)
		return 0;
	row->raw = row->bound = "process_vm";
	v[PROCESS_VM_GB_PER_S] = v[RAW_GB_PER_S] = v[BOUND_GB_PER_S] = rate;
	return rc;
}

static void take_shares(const struct row *row, double v[N_FIGURES])
{
	double bytes = (double)row->size * row->batch * row->threads;

	v[OF_RAW] = v[GB_PER_S] / v[RAW_GB_PER_S];
	v[OF_BOUND] = v[GB_PER_S] / v[BOUND_GB_PER_S];
	v[OF_PINGPONG_SPINNING] = v[P50_US] / v[PINGPONG_SPINNING_US];
	v[OF_PINGPONG_BLOCKING] = v[P50_US] / v[PINGPONG_BLOCKING_US];
	/* Small requests cost more than their bytes. */
	if (bytes < BULK_MIN)
		return;
	v[CPU_OF_STREAM] = v[CPU_S_PER_GB] / v[STREAM_CPU_S_PER_GB];
	v[P99_OF_IDEAL] = v[P99_US] * 1e3 * v[BOUND_GB_PER_S] / bytes;
}

int bound_round(struct bound *b, struct row *row, double v[N_FIGURES])
{
	struct tei_bare_shape s = shape_of(b, row);
	int rc = 0;

	if (!strcmp(row->carrier, "tcp"))
		rc = fit_memory(b, false);
	if (!rc && !strcmp(row->carrier, "tcp"))
		rc = measure_tcp(b, row, &s, v);
	else if (!strcmp(row->carrier, "shm") && b->options->foreign)
		rc = measure_process_vm(b, row, &s, v);
	else if (!strcmp(row->carrier, "shm") || !strcmp(row->carrier, "loop"))
		rc = measure_copies(b, row, &s, v);
	if (rc)
		fprintf(stderr, "te-perf: reference: %s\n", te_strerror(rc));
	take_shares(row, v);
	return rc;
}
