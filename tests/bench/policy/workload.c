/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.c - accesses to simulate: of a trace, or made up
 */
#include "tests/bench/policy/workload.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/chance.h"
#include "base/mem.h"

#define ZIPF 0.9

static int alloc(struct tei_workload *w, size_t n, size_t n_keys)
{
	*w = (struct tei_workload){.n = n, .n_keys = n_keys};
	w->key = tei_malloc((n + 1) * sizeof(*w->key));
	w->size = tei_malloc((n_keys + 1) * sizeof(*w->size));
	if (w->key && w->size)
		return 0;
	tei_workload_free(w);
	return -ENOMEM;
}

void tei_workload_free(struct tei_workload *w)
{
	tei_free(w->key);
	tei_free(w->size);
	memset(w, 0, sizeof(*w));
}

static void set_sizes(struct tei_workload *w, uint64_t size)
{
	for (size_t i = 0; i < w->n_keys; i++)
		w->size[i] = size;
}

void tei_workload_mix_sizes(struct tei_workload *w, uint64_t size)
{
	for (size_t i = 0; i < w->n_keys; i++)
		w->size[i] = size / 4 << tei_chance_mix(i + 1) % 9;
}

double tei_workload_mean(const struct tei_workload *w)
{
	double sum = 0;

	for (size_t i = 0; i < w->n_keys; i++)
		sum += (double)w->size[i];
	return w->n_keys ? sum / (double)w->n_keys : 0;
}

int tei_workload_of_trace(const struct tei_trace *t, uint64_t size,
			  struct tei_workload *out)
{
	size_t n;
	uint64_t *ids = tei_trace_distinct(t, &n);
	int rc;

	if (!ids)
		return -ENOMEM;
	rc = alloc(out, t->n_ids, n);
	for (size_t i = 0; !rc && i < t->n_ids; i++)
		out->key[i] = (uint32_t)tei_trace_rank(ids, n, t->ids[i]);
	if (!rc)
		set_sizes(out, size);
	tei_free(ids);
	return rc;
}

/* ---- made up ---- */

struct zipf {
	double *sum; /* sum[n]: chance of the first keys */
	size_t n;
};

static int zipf_init(struct zipf *z, size_t n)
{
	double sum = 0;

	z->n = n;
	z->sum = tei_malloc(n * sizeof(*z->sum));
	if (!z->sum)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		z->sum[i] = sum += pow((double)i + 1, -ZIPF);
	return 0;
}

static size_t zipf_next(const struct zipf *z, uint64_t *chance)
{
	double x =
		(double)(tei_chance(chance) >> 11) * 0x1p-53 * z->sum[z->n - 1];
	size_t low = 0, high = z->n - 1;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (z->sum[mid] < x)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int make_loop(size_t n, size_t n_keys, struct tei_workload *out)
{
	int rc = alloc(out, n, n_keys);

	for (size_t i = 0; !rc && i < n; i++)
		out->key[i] = (uint32_t)(i % n_keys);
	return rc;
}

static int make_zipf(size_t n, size_t n_keys, bool shift,
		     struct tei_workload *out)
{
	size_t step = shift ? n_keys / 4 : 0;
	uint64_t chance = 1;
	struct zipf z;
	int rc = zipf_init(&z, n_keys);

	if (rc)
		return rc;
	rc = alloc(out, n, n_keys + 10 * step);
	for (size_t i = 0; !rc && i < n; i++) {
		size_t rank = zipf_next(&z, &chance);
		/* Another quarter is popular from each tenth on. */
		size_t turn = i * 10 / n, quarter = rank % 4;

		if (shift && quarter <= turn % 4)
			rank = n_keys + (turn - quarter) / 4 * step + rank / 4;
		out->key[i] = (uint32_t)(rank % out->n_keys);
	}
	tei_free(z.sum);
	return rc;
}

/* Ten times in all a tenth of the accesses so far are keys read just once. */
static int make_scan(size_t n, size_t n_keys, struct tei_workload *out)
{
	uint64_t chance = 1;
	struct zipf z;
	int rc = zipf_init(&z, n_keys);
	size_t once = n_keys;

	if (rc)
		return rc;
	rc = alloc(out, n, n_keys + n);
	for (size_t i = 0; !rc && i < n; i++)
		out->key[i] = (uint32_t)(i % (n / 10 + 1) > n / 20
						 ? once++
						 : zipf_next(&z, &chance));
	if (!rc)
		out->n_keys = once;
	tei_free(z.sum);
	return rc;
}

int tei_workload_make(const char *kind, size_t n, size_t n_keys, uint64_t size,
		      struct tei_workload *out)
{
	int rc = -EINVAL;

	if (!strcmp(kind, "loop"))
		rc = make_loop(n, n_keys, out);
	else if (!strcmp(kind, "zipf") || !strcmp(kind, "shift"))
		rc = make_zipf(n, n_keys, !strcmp(kind, "shift"), out);
	else if (!strcmp(kind, "scan"))
		rc = make_scan(n, n_keys, out);
	if (!rc)
		set_sizes(out, size);
	return rc;
}
