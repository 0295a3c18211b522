/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.c - segments by number
 *
 * A number stays with its name for as long as the engine is there. Behind it is
 * the segment of one life of the peer; the next life's takes its place.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "compat/engine/engine.h"

static bool is_stale(struct mc_engine *e, te_segment_id id)
{
	size_t n = 0;

	return !id || te_segment_regions(e->te, id, NULL, &n) == -ESTALE;
}

/* Make @id, just opened, the one behind @number. */
static void settle_segment(struct mc_engine *e, int64_t number,
			   te_segment_id id)
{
	struct mc_segment *s;
	te_segment_id old;

	(void)pthread_mutex_lock(&e->mutex);
	s = &e->segments[number];
	old = s->id;
	s->id = id;
	(void)pthread_mutex_unlock(&e->mutex);
	if (old) /* opened twice, or another life's */
		te_segment_close(e->te, old);
}

/* The own segment is there before anybody asks. */
static int add_own(struct mc_engine *e)
{
	if (e->n_segments)
		return 0;
	e->segments = calloc(1, sizeof(*e->segments));
	if (!e->segments)
		return -ENOMEM;
	e->segments[0].name = strdup(te_engine_name(e->te));
	if (!e->segments[0].name) {
		free(e->segments);
		e->segments = NULL;
		return -ENOMEM;
	}
	e->n_segments = 1;
	return 0;
}

int mc_segment_find(struct mc_engine *engine, int64_t number,
		    uint32_t timeout_ms, te_segment_id *out)
{
	const char *name = NULL;
	te_segment_id id = 0;
	int rc;

	(void)pthread_mutex_lock(&engine->mutex);
	rc = add_own(engine);
	if (!rc && (number < 0 || (size_t)number >= engine->n_segments))
		rc = -ENOENT;
	if (!rc) {
		name = engine->segments[number].name; /* lasts */
		id = engine->segments[number].id;
	}
	(void)pthread_mutex_unlock(&engine->mutex);
	if (rc)
		return rc;
	if (is_stale(engine, id)) {
		rc = te_segment_open(engine->te, name, timeout_ms, &id);
		if (rc)
			return rc;
		settle_segment(engine, number, id);
	}
	*out = id;
	return 0;
}

/* The number of @name, or -1; called with the mutex. */
static int64_t number_of(const struct mc_engine *e, const char *name)
{
	for (size_t i = 0; i < e->n_segments; i++)
		if (!strcmp(e->segments[i].name, name))
			return (int64_t)i;
	return -1;
}

/* A number for @name, maybe a new one. -ENOMEM. */
static int64_t take_number(struct mc_engine *e, const char *name)
{
	struct mc_segment *more;
	int64_t number;
	char *copy;

	if (add_own(e))
		return -ENOMEM;
	number = number_of(e, name);
	if (number >= 0)
		return number;
	if (e->n_segments > INT32_MAX)
		return -ENOMEM;
	more = realloc(e->segments, (e->n_segments + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	e->segments = more;
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	more[e->n_segments] = (struct mc_segment){.name = copy};
	return (int64_t)e->n_segments++;
}

/* Names that nobody answers to get no number. */
static int64_t open_segment(struct mc_engine *e, const char *name)
{
	te_segment_id id;
	int64_t number;
	int rc;

	(void)pthread_mutex_lock(&e->mutex);
	number = add_own(e) ? -1 : number_of(e, name);
	(void)pthread_mutex_unlock(&e->mutex);
	if (number == LOCAL_SEGMENT)
		return number;
	/* The life that is known may be over: only an answer tells. */
	rc = number < 0 ? 0 : te_peer_probe(e->te, name, 0, NULL);
	if (!rc || rc == -ECONNREFUSED)
		rc = te_segment_open(e->te, name, 0, &id);
	if (rc)
		return rc;
	(void)pthread_mutex_lock(&e->mutex);
	number = take_number(e, name);
	(void)pthread_mutex_unlock(&e->mutex);
	if (number < 0)
		te_segment_close(e->te, id);
	else
		settle_segment(e, number, id);
	return number;
}

static segment_id_t open_by_name(transfer_engine_t engine, const char *name,
				 const char *function)
{
	struct mc_engine *e = mc_engine_pin(engine, function);
	int64_t number;

	if (!e)
		return -1;
	if (name && *name == '/')
		name++;
	number = name ? open_segment(e, name) : -EINVAL;
	if (number < 0) {
		mc_warn(function, "\"%s\": %s", name ? name : "",
			te_strerror((int)number));
		number = -1;
	}
	mc_engine_unpin(e);
	return (segment_id_t)number;
}

segment_id_t openSegment(transfer_engine_t engine, const char *segment_name)
{
	return open_by_name(engine, segment_name, __func__);
}

segment_id_t openSegmentNoCache(transfer_engine_t engine,
				const char *segment_name)
{
	return open_by_name(engine, segment_name, __func__);
}

int closeSegment(transfer_engine_t engine, segment_id_t segment_id)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	bool known;

	if (!e)
		return MC_ERROR_INVALID;
	(void)pthread_mutex_lock(&e->mutex);
	known = segment_id == LOCAL_SEGMENT ||
		(segment_id > 0 && (size_t)segment_id < e->n_segments);
	(void)pthread_mutex_unlock(&e->mutex);
	if (!known)
		mc_warn(__func__, "%d is no segment", segment_id);
	mc_engine_unpin(e);
	return known ? 0 : MC_ERROR_INVALID;
}

int removeLocalSegment(transfer_engine_t engine, const char *segment_name)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	int rc = MC_ERROR_INVALID;

	if (!e)
		return rc;
	if (segment_name && !strcmp(segment_name, te_engine_name(e->te)))
		rc = 0;
	else
		mc_warn(__func__, "\"%s\" is not the engine's own name",
			segment_name ? segment_name : "");
	mc_engine_unpin(e);
	return rc;
}

int warmupEfaSegment(transfer_engine_t engine, const char *segment_name)
{
	segment_id_t number = open_by_name(engine, segment_name, __func__);
	struct mc_engine *e;
	te_segment_id id;
	int rc;

	if (number < 0)
		return MC_ERROR_INVALID;
	e = mc_engine_pin(engine, __func__);
	if (!e)
		return MC_ERROR_INVALID;
	rc = mc_segment_find(e, number, 0, &id);
	if (!rc)
		rc = te_segment_warm_up(e->te, id, 0, NULL);
	if (rc)
		mc_warn(__func__, "\"%s\": %s", segment_name, te_strerror(rc));
	mc_engine_unpin(e);
	return rc ? MC_ERROR_ENDPOINT : 0;
}

/* The text is static. NULL: there is no such number. */
static const char *name_of(struct mc_engine *e, size_t number)
{
	const char *name = NULL;

	(void)pthread_mutex_lock(&e->mutex);
	if (number < e->n_segments)
		name = e->segments[number].name;
	(void)pthread_mutex_unlock(&e->mutex);
	return name;
}

int syncSegmentCache(transfer_engine_t engine)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	const char *name;
	int rc = 0;

	if (!e)
		return MC_ERROR_INVALID;
	for (size_t i = LOCAL_SEGMENT + 1; (name = name_of(e, i)); i++)
		if (open_segment(e, name) < 0)
			rc = MC_ERROR_ENDPOINT;
	mc_engine_unpin(e);
	return rc;
}

void mc_segments_free(struct mc_engine *engine)
{
	for (size_t i = 0; i < engine->n_segments; i++)
		free(engine->segments[i].name);
	free(engine->segments);
}
