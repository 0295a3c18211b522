/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - settings of te-perf, and engines made by them
 */
#include "perf/te-perf/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "perf/lib/backends.h"
#include "perf/lib/pattern.h"
#include "perf/lib/process.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"
#include "perf/lib/room.h"
#include "perf/te-perf/load.h"

static int set_config(struct te_config *config, const char *name,
		      const char *value)
{
	char error[256];
	int rc = te_config_set(config, name, value, error, sizeof(error));

	if (rc)
		fprintf(stderr, "te-perf: %s\n", error);
	return rc;
}

/* "tcp.lanes=2,slice_max=4m"; @list is cut up on the way. */
static int set_each(struct te_config *config, char *list)
{
	char *rest = list, *name, *value;
	int rc = 0;

	while (!rc && (name = strsep(&rest, ","))) {
		value = strchr(name, '=');
		if (!value) {
			fprintf(stderr,
				"te-perf: engine: \"%s\" is not of the form "
				"name=value\n",
				name);
			return -EINVAL;
		}
		*value++ = 0;
		rc = set_config(config, name, value);
	}
	return rc;
}

/* Adds the backend by which the engine looks into a GPU: itself. */
static int set_backends(struct te_config *config, const struct options *o)
{
	char both[256];

	if (!locations_have_gpu(&o->ours) || options_in_process(o))
		return set_config(config, "backends", o->backend);
	if (snprintf(both, sizeof(both), "%s,loop", o->backend) >=
	    (int)sizeof(both))
		return set_config(config, "backends", o->backend);
	return set_config(config, "backends", both);
}

static int fill_config(struct te_config *config, const struct options *o)
{
	char *list;
	int rc = 0;

	if (strcmp(o->backend, "auto"))
		rc = set_backends(config, o);
	if (!rc && o->insecure)
		rc = set_config(config, "insecure", "true");
	if (rc || !o->engine)
		return rc;
	list = tei_strdup(o->engine);
	if (!list)
		return -ENOMEM;
	rc = set_each(config, list);
	tei_free(list);
	return rc;
}

static int create_engine(const struct te_config *config,
			 const struct options *o, const char *host,
			 struct te_engine **out)
{
	int rc = te_engine_create(config, host, out);

	if (rc == -ENODEV) {
		fprintf(stderr, "te-perf: backend: \"%s\" is not to be had\n",
			o->backend);
		return -EINVAL;
	}
	if (rc)
		fprintf(stderr, "te-perf: engine: %s\n", te_strerror(rc));
	return rc;
}

int engine_open(const struct options *o, const char *host,
		struct te_engine **out)
{
	struct te_config *config;
	int rc = te_config_create(&config);

	if (rc)
		return rc;
	if (fill_config(config, o))
		rc = -EINVAL;
	else
		rc = create_engine(config, o, host, out);
	te_config_destroy(config);
	return rc;
}

/* ---- other roles ---- */

int role_args(struct role_args *a, const struct options *o, const char *role)
{
	int n = 4, len = 0;

	*a = (struct role_args){
		.pin = "--pin", .insecure = "--insecure", .spoil = "--spoil"};
	snprintf(a->role, sizeof(a->role), "--role=%s", role);
	snprintf(a->backend, sizeof(a->backend), "--backend=%s", o->backend);
	snprintf(a->set, sizeof(a->set), "--working-set=%" PRIu64,
		 o->working_set);
	a->argv[0] = a->exe;
	a->argv[1] = a->role;
	a->argv[2] = a->backend;
	a->argv[3] = a->set;
	if (o->engine) {
		len = snprintf(a->engine, sizeof(a->engine), "--engine=%s",
			       o->engine);
		a->argv[n++] = a->engine;
	}
	if (o->pin)
		a->argv[n++] = a->pin;
	if (o->insecure)
		a->argv[n++] = a->insecure;
	if (o->spoil)
		a->argv[n++] = a->spoil;
	if (o->host) {
		snprintf(a->host, sizeof(a->host), "--host=%s", o->host);
		a->argv[n++] = a->host;
	}
	if (len >= (int)sizeof(a->engine))
		return -ENAMETOOLONG;
	return tei_process_path(NULL, a->exe);
}

/* ---- what follows from the settings ---- */

static bool parse_list(const char *setting, const char *text, uint64_t max,
		       struct list *out)
{
	out->n = tei_sizes_parse("te-perf", setting, text, max, out->v);
	return out->n > 0;
}

static uint64_t greatest_of(const struct list *l)
{
	uint64_t max = 0;

	for (int i = 0; i < l->n; i++)
		if (l->v[i] > max)
			max = l->v[i];
	return max;
}

/*
 * Places that a side must have: for batches of all threads without overlap,
 * where hot ones overlap on purpose, and for threads that use all locations.
 */
static uint64_t places_needed(const struct options *o)
{
	uint64_t threads = greatest_of(&o->thread_counts);
	uint64_t batches = threads * (o->hot ? 1 : greatest_of(&o->batches));
	uint64_t n = o->ours.n > o->theirs.n ? o->ours.n : o->theirs.n;

	/* Each thread has as many, so threads - 1 may be of nobody. */
	if (!batches || batches > n + threads - 1)
		return batches;
	return n + threads - 1;
}

uint32_t options_count_hosts(const char *list)
{
	uint32_t n = 0;

	for (const char *at = list; at; n++) {
		size_t len = strcspn(at, ","), k;

		for (const char *b = list; b < at; b += k + 1) {
			k = strcspn(b, ",");
			if (k == len && !strncmp(at, b, len))
				return 0;
		}
		if (!len)
			return 0;
		at = at[len] ? at + len + 1 : NULL;
	}
	return n;
}

/* Derives the pairs of a scheme; bidirectional alone is a scheme of two. */
static bool derive_pairs(struct options *o)
{
	bool is_scheme = strcmp(o->scheme, "none") != 0;
	const char *wrong;

	if (o->listen || (!is_scheme && !o->bidirectional))
		return true;
	o->n_hosts = 2;
	if (is_scheme && o->connect)
		o->n_hosts = options_count_hosts(o->connect);
	else if (is_scheme)
		o->n_hosts = (uint32_t)o->processes;
	if (!o->n_hosts) {
		fprintf(stderr,
			"te-perf: connect: \"%s\" is wrong, give host:port, "
			"each once, separated by commas\n",
			o->connect);
		return false;
	}
	wrong = scheme_init(&o->pairs, is_scheme ? o->scheme : "pairs",
			    o->n_hosts, o->bidirectional);
	if (wrong)
		fprintf(stderr, "te-perf: scheme: %s %s\n", o->scheme, wrong);
	return !wrong;
}

/* Tells whether all that is asked for can be had with pairs of hosts. */
static bool pairs_fit(const struct options *o)
{
	const char *wrong = NULL;

	if (!o->pairs.n)
		return true;
	if (options_in_process(o))
		wrong = "backend";
	else if (o->reference || o->reference_at)
		wrong = "reference";
	else if (strcmp(o->fault, "none") != 0)
		wrong = "fault";
	else if (o->idle || o->connects)
		wrong = "idle, connects";
	else if (o->priority_probe)
		wrong = "priority_probe";
	else if (o->pin)
		wrong = "pin";
	else if (tei_path_given(o->svg))
		wrong = "svg";
	if (wrong)
		fprintf(stderr,
			"te-perf: %s: not together with scheme or "
			"bidirectional\n",
			wrong);
	return !wrong;
}

static bool places_fit(const struct options *o, const struct locations *l)
{
	uint64_t each = (places_needed(o) + l->n - 1) / l->n;
	uint64_t len = greatest_of(&o->sizes) + 8;

	if (o->unaligned)
		len += LOAD_SHIFTS;
	uint64_t shares = o->pairs.n ? o->pairs.shares : 1;

	return each &&
	       (side_span(o->walked, l->n) / shares & ~7ull) / each >= len;
}

static bool batches_fit(const struct options *o)
{
	char text[24];

	if (places_fit(o, &o->ours) && places_fit(o, &o->theirs))
		return true;
	fprintf(stderr,
		"te-perf: working_set: a batch of requests of %s for each "
		"thread does not fit, give more%s\n",
		tei_text_bytes(greatest_of(&o->sizes), text),
		o->ours.n > 1 || o->theirs.n > 1 ? ", or fewer locations" : "");
	return false;
}

/* Tells whether messages can be had as they are asked for. */
static bool messages_fit(const struct options *o)
{
	const char *wrong = NULL;

	if (strcmp(o->op, "notify") != 0)
		return true;
	if (greatest_of(&o->sizes) > TE_NOTIFY_MAX)
		wrong = "size: a message has 65536 bytes at most";
	else if (o->pairs.n || o->reference || strcmp(o->fault, "none") != 0)
		wrong = "op: notify is not together with scheme, "
			"bidirectional, reference or fault";
	else if (locations_have_gpu(&o->ours))
		wrong = "op: messages are of the host's memory, which location "
			"puts into a GPU";
	if (wrong)
		fprintf(stderr, "te-perf: %s\n", wrong);
	return !wrong;
}

/* Tells whether one request of each size fits into each part of a side. */
static bool greatest_fits(const struct options *o)
{
	char text[24];

	if (greatest_of(&o->sizes) <= side_span(o->walked, o->ours.n) &&
	    greatest_of(&o->sizes) <= side_span(o->walked, o->theirs.n))
		return true;
	fprintf(stderr, "te-perf: working_set: %s does not fit, give more\n",
		tei_text_bytes(greatest_of(&o->sizes), text));
	return false;
}

static bool is_cost(const struct options *o)
{
	return o->registration || o->first_request;
}

/* Tells whether what is asked for can be had with costs instead of rows. */
static bool costs_fit(const struct options *o)
{
	const char *wrong = NULL;

	if (!is_cost(o))
		return true;
	if (o->registration && o->first_request)
		wrong = "registration: not together with first_request";
	else if (o->pairs.n || o->reference || o->rate ||
		 tei_path_given(o->histogram) || strcmp(o->fault, "none") != 0)
		wrong = "registration, first_request: not together with scheme, "
			"bidirectional, reference, rate, histogram or fault";
	else if (tei_path_given(o->svg))
		wrong = "svg: draws rows, which registration and first_request "
			"do not have";
	else if (!o->duration)
		wrong = "duration: registration and first_request need an end";
	else if (o->ours.n > 1)
		wrong = "location: registration and first_request take one";
	else if (o->first_request && options_in_process(o))
		wrong = "backend: this one has no peers to connect";
	if (wrong)
		fprintf(stderr, "te-perf: %s\n", wrong);
	return !wrong;
}

/* Tells whether what is asked for can be had with peers instead of rows. */
static bool peers_fit(const struct options *o)
{
	const char *wrong = NULL;

	if (!o->idle && !o->connects)
		return true;
	if (o->idle && o->connects)
		wrong = "idle";
	else if (o->csv)
		wrong = "csv";
	else if (tei_path_given(o->histogram))
		wrong = "histogram";
	else if (tei_path_given(o->svg))
		wrong = "svg";
	else if (o->rate)
		wrong = "rate";
	else if (is_cost(o))
		wrong = "registration, first_request";
	if (wrong)
		fprintf(stderr, "te-perf: %s: not together with %s\n", wrong,
			o->connects ? "connects" : "idle");
	return !wrong;
}

static bool rows_fit(const struct options *o)
{
	int n = o->sizes.n * o->batches.n * o->thread_counts.n;

	if (!o->duration && (n > 1 || !strcmp(o->op, "both"))) {
		fprintf(stderr, "te-perf: duration: 0 has no end, give one op, "
				"size, batch and number of threads\n");
		return false;
	}
	if (!strcmp(o->op, "both"))
		n *= 2;
	if (n * ((int)o->pairs.n + 1) <= ROWS_MAX)
		return true;
	fprintf(stderr,
		"te-perf: size, batch, threads: %d rows are too many%s\n", n,
		o->pairs.n ? " for so many pairs" : "");
	return false;
}

bool options_in_process(const struct options *o)
{
	return !strcmp(o->backend, "loop");
}

static bool reports_fit(const struct options *o)
{
	const char *wrong = NULL;

	if (o->json && o->csv)
		wrong = "csv: not together with json";
	else if (o->rate && o->pause)
		wrong = "rate: not together with pause";
	else if (!o->duration && (o->reference || o->idle ||
				  strcmp(o->fault, "none") || o->rounds > 1))
		wrong = "duration: 0 has no end, which reference, idle, fault "
			"and rounds wait for";
	if (wrong)
		fprintf(stderr, "te-perf: %s\n", wrong);
	return !wrong;
}

static bool parse_locations(const char *setting, const char *text,
			    struct locations *out)
{
	const char *wrong = locations_parse(out, text);

	if (wrong)
		fprintf(stderr, "te-perf: %s: \"%s\": %s\n", setting, text,
			wrong);
	return !wrong;
}

static bool roles_fit(const struct options *o)
{
	const char *wrong = NULL;

	if (o->listen && o->connect)
		wrong = "listen: not together with connect";
	else if (options_in_process(o) && (o->listen || o->connect))
		wrong = "backend: this one does not leave a process";
	else if (options_in_process(o) && (o->idle || o->connects))
		wrong = "backend: this one has no peers to count";
	else if (strcmp(o->fault, "none") &&
		 (o->connect || options_in_process(o)))
		wrong = "fault: needs a target of te-perf's own";
	else if (strcmp(o->fault, "none") && locations_have_gpu(&o->ours))
		wrong = "fault: looks at our memory, which location puts into "
			"a GPU";
	else if (o->foreign && (o->location || o->remote_location))
		wrong = "foreign: memory of malloc's kind has no location";
	if (wrong)
		fprintf(stderr, "te-perf: %s\n", wrong);
	return !wrong;
}

/* Returns the bytes of a side's working set that are in memory of the host. */
static uint64_t bytes_of_host(const struct options *o,
			      const struct locations *l)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < l->n; i++)
		if (!location_is_gpu(l->name[i]))
			bytes += side_span(o->walked, l->n);
	return bytes;
}

/* Tells whether memory of both sides fits, as far as they are on this host. */
static bool memory_fits(const struct options *o)
{
	uint64_t need = bytes_of_host(o, &o->ours) +
			(o->connect ? 0 : bytes_of_host(o, &o->theirs));
	uint64_t here =
		o->connect ? strcmp(o->scheme, "none") == 0 : o->n_hosts;
	uint64_t set = o->working_set < REFERENCE_MEMORY_MAX
			       ? o->working_set
			       : REFERENCE_MEMORY_MAX;

	if (o->pairs.n) /* each has memory of either kind */
		need = here * (bytes_of_host(o, &o->ours) +
			       bytes_of_host(o, &o->theirs));
	if (o->reference)
		need += TEI_REFERENCE_SETS * set;
	return tei_room_fits("te-perf", "the working sets take", need,
			     "give a smaller --working-set");
}

bool options_derive(struct options *o)
{
	uint64_t unit;

	if (!parse_locations("location", o->location, &o->ours) ||
	    !parse_locations("remote_location", o->remote_location,
			     &o->theirs) ||
	    !tei_backends_given("te-perf", "backend", o->backend) ||
	    !roles_fit(o) || !reports_fit(o) || !derive_pairs(o) ||
	    !pairs_fit(o) || !peers_fit(o))
		return false;
	if (!o->duration && !o->interval)
		o->interval = 1000;
	if (o->listen || o->idle || o->connects) /* no rows */
		return true;
	/* Parts of either side are whole words, so both are as long. */
	unit = 8ull * o->ours.n * o->theirs.n;
	if (o->pairs.n) /* and so are their shares */
		unit *= o->pairs.shares;
	o->walked = o->working_set - o->working_set % unit;
	if (!parse_list("size", o->size, o->working_set, &o->sizes))
		return false;
	if (is_cost(o))
		return costs_fit(o) && greatest_fits(o) && memory_fits(o);
	return parse_list("batch", o->batch, LOAD_BATCH_MAX, &o->batches) &&
	       parse_list("threads", o->threads, LOAD_THREADS_MAX,
			  &o->thread_counts) &&
	       messages_fit(o) && batches_fit(o) && rows_fit(o) &&
	       memory_fits(o);
}
