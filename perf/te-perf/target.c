/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.c - the side of te-perf whose memory is written and read
 *
 * The target says "ready NAME" and ends when its input does. It never looks at
 * its memory, which belongs to the initiator's requests.
 */
#include "perf/te-perf/target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/lib/pattern.h"

#define READY_MS 60000 /* touching a large working set takes a while */
#define STOP_MS  5000
#define OPEN_MS  5000

/* ---- memory that peers may reach ---- */

static int memory_open(struct te_engine *engine, uint64_t len, void **memory,
		       te_region_id *region)
{
	struct te_region r = {
		.length = len,
		.access = TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE,
	};
	int rc = te_memory_alloc(engine, len, memory);

	if (rc)
		return rc;
	r.addr = *memory;
	tei_pattern_fill(*memory, len, 0, 0);
	rc = te_region_add(engine, &r, region);
	if (rc)
		te_memory_free(engine, *memory);
	return rc;
}

static void memory_close(struct te_engine *engine, void *memory,
			 te_region_id region)
{
	te_region_remove(engine, region);
	te_memory_free(engine, memory);
}

/* ---- the initiator's view ---- */

static int start_process(struct target *t, const struct options *o,
			 char name[TEI_PROCESS_LINE])
{
	char exe[PATH_MAX], role[] = "--role=target", pin[] = "--pin";
	char backend[64], set[48], engine[1024], line[TEI_PROCESS_LINE];
	char *argv[7] = {exe, role, backend, set};
	int n = 4, rc = tei_process_path(NULL, exe);

	snprintf(backend, sizeof(backend), "--backend=%s", o->backend);
	snprintf(set, sizeof(set), "--working-set=%" PRIu64, t->len);
	if (o->engine) {
		snprintf(engine, sizeof(engine), "--engine=%s", o->engine);
		argv[n++] = engine;
	}
	if (o->pin)
		argv[n++] = pin;
	if (!rc)
		rc = tei_process_start_helper(&t->process, "target", argv, -1);
	if (!rc)
		rc = tei_process_hear(&t->process, line, READY_MS);
	if (!rc && sscanf(line, "ready %s", name) != 1)
		rc = -EPROTO;
	return rc;
}

static int find_memory(struct target *t)
{
	struct te_segment_region region;
	size_t n = 1;
	int rc = te_segment_regions(t->engine, t->segment, &region, &n);

	if (rc)
		return rc;
	if (!n || region.length < t->len)
		return -EPROTO;
	t->remote = region.addr;
	return 0;
}

static int open_segment(struct target *t, const char *name)
{
	int rc = te_segment_open(t->engine, name, OPEN_MS, &t->segment);

	if (rc)
		return rc;
	rc = find_memory(t);
	if (rc)
		te_segment_close(t->engine, t->segment);
	return rc;
}

int target_open(struct target *t, const struct options *o,
		struct te_engine *engine)
{
	char name[TEI_PROCESS_LINE];
	int rc;

	*t = (struct target){.process = TEI_PROCESS_NONE,
			     .engine = engine,
			     .len = o->working_set};
	if (!strcmp(o->backend, "loop")) {
		rc = memory_open(engine, t->len, &t->memory, &t->region);
		snprintf(name, sizeof(name), "%s", te_engine_name(engine));
	} else {
		rc = start_process(t, o, name);
	}
	if (!rc)
		rc = open_segment(t, name);
	if (rc) {
		fprintf(stderr, "te-perf: target: %s\n", te_strerror(rc));
		target_close(t);
	}
	return rc;
}

uint64_t target_cpu_ns(const struct target *t)
{
	return tei_process_cpu_ns(&t->process);
}

int target_close(struct target *t)
{
	int code;

	if (t->segment)
		te_segment_close(t->engine, t->segment);
	if (t->region)
		memory_close(t->engine, t->memory, t->region);
	code = tei_process_stop(&t->process, STOP_MS);
	t->segment = t->region = 0;
	return code ? -EIO : 0;
}

/* ---- the target itself ---- */

static void await_end(void)
{
	while (getchar() != EOF)
		;
}

int target_main(const struct options *o)
{
	struct te_engine *engine;
	te_region_id region;
	void *memory;
	int rc;

	if (o->pin)
		tei_process_pin(1);
	if (engine_open(o, &engine))
		return 1;
	rc = memory_open(engine, o->working_set, &memory, &region);
	if (rc) {
		fprintf(stderr, "te-perf: target: %s\n", te_strerror(rc));
	} else {
		printf("ready %s\n", te_engine_name(engine));
		fflush(stdout);
		await_end();
		memory_close(engine, memory, region);
	}
	te_engine_destroy(engine);
	return rc ? 1 : 0;
}
