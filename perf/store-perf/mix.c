/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mix.c - mixed load: what all its processes know and count
 */
#include "perf/store-perf/mix.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/chance.h"
#include "base/clock.h"
#include "perf/lib/cluster.h"
#include "perf/lib/process.h"

static const char *const names[MIX_OPS] = {
	[MIX_GET] = "get",       [MIX_PUT] = "put",       [MIX_EXIST] = "exist",
	[MIX_UPSERT] = "upsert", [MIX_REMOVE] = "remove", [MIX_FILL] = "fill",
};

const char *mix_op_name(enum mix_op op)
{
	return names[op];
}

/* ---- the plan ---- */

static int refuse_setting(const char *setting, const char *text,
			  const char *wanted)
{
	fprintf(stderr, "store-perf: %s: \"%s\" is wrong, give %s\n", setting,
		text, wanted);
	return -EINVAL;
}

static int plan_ops(const char *text, struct mix_plan *plan)
{
	static const char wanted[] =
		"shares of get, put, exist, upsert, remove as in "
		"get:80,put:15,exist:5";

	if (tei_weights_parse(text, &plan->ops))
		return refuse_setting("mix", text, wanted);
	for (uint32_t i = 0; i < plan->ops.n; i++) {
		unsigned int op = 0;

		while (op < MIX_FILL &&
		       strcmp(names[op], plan->ops.each[i].name) != 0)
			op++;
		if (op == MIX_FILL)
			return refuse_setting("mix", plan->ops.each[i].name,
					      wanted);
		plan->op_of[i] = op;
	}
	return 0;
}

static int plan_sizes(const char *text, struct mix_plan *plan)
{
	static const char wanted[] =
		"a size, or several with their shares as in 4k:70,256k:30";

	if (tei_weights_parse(text, &plan->sizes))
		return refuse_setting("value_size", text, wanted);
	for (uint32_t i = 0; i < plan->sizes.n; i++) {
		const char *name = plan->sizes.each[i].name;

		if (tei_parse_size(name, &plan->size[i]) || !plan->size[i] ||
		    plan->size[i] > OPTIONS_VALUE_MAX)
			return refuse_setting("value_size", name, wanted);
		if (plan->size[i] > plan->max_size)
			plan->max_size = plan->size[i];
	}
	return 0;
}

static int plan_popularity(const struct options *o, struct mix_plan *plan)
{
	double theta = 0;

	if (!strcmp(o->popularity, "zipf"))
		theta = o->theta;
	plan->n_keys = o->keys;
	tei_popularity_init(&plan->popularity, o->keys ? o->keys : 1, theta);
	return 0;
}

static void plan_numbers(const struct options *o, struct mix_plan *plan)
{
	plan->seed = o->seed;
	plan->batch = o->batch;
	plan->processes = o->processes;
	plan->clients = o->clients < o->processes ? o->processes : o->clients;
	plan->threads = o->threads;
	plan->retries = o->retries;
	plan->count = o->count;
	plan->rate = o->rate;
	plan->paced = o->interval > 0;
	plan->unaligned = o->unaligned;
	plan->node = o->node;
	plan->warm_up_ns = o->warm_up * TEI_NS_PER_MS;
	plan->duration_ns = o->duration * TEI_NS_PER_MS;
	plan->prefill = o->prefill;
	plan->fill = o->fill;
	plan->verify = o->verify;
}

int mix_plan_make(const struct options *o, struct mix_plan *out)
{
	int rc;

	memset(out, 0, sizeof(*out));
	plan_numbers(o, out);
	if (o->backends && strlen(o->backends) >= sizeof(out->backends))
		return refuse_setting("backends", o->backends, "fewer");
	snprintf(out->host, sizeof(out->host), "%s", o->host);
	snprintf(out->backends, sizeof(out->backends), "%s",
		 o->backends ? o->backends : "");
	if (mix_workers(out) > MIX_WORKERS_MAX) {
		fprintf(stderr,
			"store-perf: threads: %d clients of %d are more than "
			"%d\n",
			(int)out->clients, (int)out->threads, MIX_WORKERS_MAX);
		return -EINVAL;
	}
	rc = plan_ops(o->mix, out);
	if (!rc)
		rc = plan_sizes(o->value_size, out);
	return rc ? rc : plan_popularity(o, out);
}

uint64_t mix_value_size(const struct mix_plan *plan, uint64_t number)
{
	if (plan->sizes.n == 1)
		return plan->size[0];
	return plan->size[tei_weights_pick(
		&plan->sizes, tei_chance_mix(number + plan->seed) >> 8)];
}

double mix_mean_size(const struct mix_plan *plan)
{
	double sum = 0;

	for (uint32_t i = 0; i < plan->sizes.n; i++)
		sum += (double)plan->size[i] * plan->sizes.each[i].weight;
	return sum / plan->sizes.total;
}

/* ---- sharing ---- */

int mix_share_create(const struct mix_plan *plan, struct mix_share **out,
		     int *out_fd)
{
	uint64_t len =
		sizeof(**out) + mix_workers(plan) * sizeof((*out)->tally[0]);
	void *at;
	int rc = tei_shared_create("store-perf", len, &at, out_fd);

	if (rc)
		return rc;
	*out = at;
	(*out)->len = len;
	(*out)->plan = *plan;
	return 0;
}

int mix_share_open(int fd, struct mix_share **out)
{
	void *at;
	int rc = tei_shared_open(fd, sizeof(**out), &at);

	if (!rc)
		*out = at;
	return rc;
}

void mix_share_close(struct mix_share *s)
{
	if (s)
		munmap(s, s->len);
}

/* ---- counting ---- */

void mix_count_code(struct mix_figures *f, int code, uint64_t n)
{
	unsigned int i = 0;

	while (i < MIX_CODES - 1 && f->code[i].n && f->code[i].code != code)
		i++;
	f->code[i].code = code;
	f->code[i].n += n;
}

static void add_figures(struct mix_figures *sum, const struct mix_figures *f)
{
	sum->calls += f->calls;
	sum->keys += f->keys;
	sum->good += f->good;
	sum->missed += f->missed;
	sum->failed += f->failed;
	sum->bytes += f->bytes;
	for (unsigned int i = 0; i < MIX_CODES; i++)
		if (f->code[i].n)
			mix_count_code(sum, f->code[i].code, f->code[i].n);
	tei_histogram_merge(&sum->latency, &f->latency);
}

void mix_tally_add(struct mix_tally *sum, const struct mix_tally *t)
{
	for (unsigned int i = 0; i < MIX_OPS; i++)
		add_figures(&sum->op[i], &t->op[i]);
	sum->wrong_bytes += t->wrong_bytes;
	sum->retried += t->retried;
	sum->behind += t->behind;
	if (!sum->start_ns || t->start_ns < sum->start_ns)
		sum->start_ns = t->start_ns;
	if (t->end_ns > sum->end_ns)
		sum->end_ns = t->end_ns;
}
