/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_segments.c - the admin pages about segments
 *
 * Several mounts may bear one name: lists have them all, sums add them up.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/core/codes.h"
#include "store/server/admin.h"
#include "store/server/admin_reply.h"
#include "store/server/state.h"

#define STATUS_UNKNOWN 0 /* Mooncake has no number for a silent owner */

static const char *status_of(const struct tes_core_segment *segment)
{
	static const char *const names[] = {
		[TES_CORE_SEGMENT_OK] = "OK",
		[TES_CORE_SEGMENT_DRAINING] = "DRAINING",
		[TES_CORE_SEGMENT_DRAINED] = "DRAINED",
		[TES_CORE_SEGMENT_GRACEFULLY_UNMOUNTING] =
			"GRACEFULLY_UNMOUNTING",
		[TES_CORE_SEGMENT_UNMOUNTING] = "UNMOUNTING",
	};

	return segment->suspect ? "SUSPECT" : names[segment->status];
}

/* Lists are made in pieces: there may be thousands. */
#define PIECE 64

struct listing {
	const struct tes_server *server;
	size_t cursor;
	uint64_t n; /* so far */
};

/* Answer with what @more tells of all segments. */
static int list(const struct tes_server *s, struct tei_http_reply *reply,
		int (*more)(struct evbuffer *out, void *state))
{
	struct listing *l = tei_calloc(1, sizeof(*l));

	if (!l)
		return 500;
	l->server = s;
	reply->more = more;
	reply->done = tei_free;
	reply->state = l;
	return 200;
}

static int more_names(struct evbuffer *out, void *state)
{
	struct tes_core_segment segment;
	struct listing *l = state;

	for (int i = 0; i < PIECE; i++) {
		if (!tes_core_segment_next(l->server->core, &l->cursor,
					   &segment))
			return 0;
		if (!segment.suspect)
			evbuffer_add_printf(out, "%s\n", segment.name);
	}
	return 1;
}

int tes_server_admin_segment_names(const struct tei_http_request *request,
				   struct tei_http_reply *reply, void *arg)
{
	(void)request;
	return list(arg, reply, more_names);
}

static json_t *detail(const struct tes_core_segment *segment)
{
	char id[TEI_ID_ROOM], client[TEI_ID_ROOM], size[TES_SERVER_BYTES_ROOM];
	char base[2 + 16 + 1];

	tei_id_text(segment->id, id);
	tei_id_text(segment->client_id, client);
	tes_server_bytes(segment->size, size);
	snprintf(base, sizeof(base), "0x%" PRIx64, segment->base);
	return json_pack("{s:o,s:s,s:s,s:s,s:I,s:s,s:o,s:s,s:s,s:I,s:I,s:f}",
			 "segment_name", tes_server_admin_string(segment->name),
			 "segment_id", id, "client_id", client, "base_address",
			 base, "size_bytes", (json_int_t)segment->size,
			 "size_human", size, "te_endpoint",
			 tes_server_admin_string(segment->engine), "protocol",
			 "tcp", "status", status_of(segment),
			 "allocator_used_bytes", (json_int_t)segment->used,
			 "allocator_capacity_bytes", (json_int_t)segment->size,
			 "allocator_usage_percent",
			 100.0 * (double)segment->used / (double)segment->size);
}

static int more_details(struct evbuffer *out, void *state)
{
	struct tes_core_segment segment;
	struct listing *l = state;

	for (int i = 0; i < PIECE; i++) {
		json_t *one;

		if (!tes_core_segment_next(l->server->core, &l->cursor,
					   &segment)) {
			evbuffer_add_printf(
				out, "],\"total_segments\":%" PRIu64 "}\n",
				l->n);
			return 0;
		}
		one = detail(&segment);
		if (!one)
			return -ENOMEM;
		if (l->n++)
			evbuffer_add(out, ",", 1);
		if (tes_server_admin_print(out, one))
			return -ENOMEM;
	}
	return 1;
}

int tes_server_admin_segments_detail(const struct tei_http_request *request,
				     struct tei_http_reply *reply, void *arg)
{
	int status = list(arg, reply, more_details);

	(void)request;
	if (status != 200)
		return status;
	reply->type = "application/json";
	evbuffer_add_printf(reply->body, "{\"segments\":[");
	return status;
}

/* Mounts called @name, added up; suspect if one is. False: none. */
static bool sum_of(const struct tes_server *s, const char *name,
		   struct tes_core_segment *sum)
{
	struct tes_core_segment segment;
	size_t cursor = 0;
	bool any = false;

	*sum = (struct tes_core_segment){
		.name = name,
		.status = TES_CORE_SEGMENT_OK,
	};
	while (tes_core_segment_next(s->core, &cursor, &segment)) {
		if (strcmp(segment.name, name))
			continue;
		any = true;
		sum->used += segment.used;
		sum->size += segment.size;
		sum->suspect = sum->suspect || segment.suspect;
		/* Several mounts have one name: shows the worst status. */
		if (segment.status > sum->status)
			sum->status = segment.status;
	}
	return any;
}

/* The same of what the parameter segment names. 0, or the status of an answer
 * that says why not. */
static int sum_asked(const struct tes_server *s,
		     const struct tei_http_request *request,
		     struct tei_http_reply *reply, struct tes_core_segment *sum)
{
	const char *name = tes_server_admin_text(request, "segment", reply);

	if (!name)
		return 400;
	return sum_of(s, name, sum)
		       ? 0
		       : tes_server_admin_code(reply, CODE_NO_SEGMENT);
}

int tes_server_admin_segment(const struct tei_http_request *request,
			     struct tei_http_reply *reply, void *arg)
{
	struct tes_core_segment sum;
	int status = sum_asked(arg, request, reply, &sum);

	if (status)
		return status;
	evbuffer_add_printf(reply->body,
			    "%s\nUsed(bytes): %" PRIu64
			    "\nCapacity(bytes): %" PRIu64 "\n",
			    sum.name, sum.used, sum.size);
	return 200;
}

int tes_server_admin_segment_status(const struct tei_http_request *request,
				    struct tei_http_reply *reply, void *arg)
{
	struct tes_core_segment sum;
	int status = sum_asked(arg, request, reply, &sum);

	if (status)
		return status;
	return tes_server_admin_json(
		reply, 200,
		json_pack("{s:b,s:o,s:i,s:s,s:i,s:s}", "success", 1, "segment",
			  tes_server_admin_string(sum.name), "status",
			  sum.suspect ? STATUS_UNKNOWN : (int)sum.status,
			  "status_name", status_of(&sum), "error_code", 0,
			  "error_message", ""));
}

/*
 * The admin pages about drain jobs.
 *
 * The core decides; here its answers are put into words, and what is wrong with
 * a request is named.
 */

#define TYPE_DRAIN 0 /* of jobs; Mooncake's number */

/* Answer of the core to a drain request. */
struct tes_server_drained {
	int32_t code;
	struct tes_core_drain drain; /* its names: until the next step */
};

void tes_server_admin_drained(struct tes_server *s,
			      const struct tes_action *action)
{
	s->drained->code = action->u.reply.code;
	if (!s->drained->code)
		s->drained->drain = *action->u.reply.drain;
}

/* Returns the code; with 0 *out is filled in. */
static int32_t ask_core(struct tes_server *s, struct tes_event *ev,
			struct tes_core_drain *out)
{
	struct tes_server_drained drained = {.code = CODE_INTERNAL};

	s->drained = &drained;
	(void)tes_server_step(s, ev, NULL, NULL); /* no memory: no answer */
	s->drained = NULL;
	*out = drained.drain;
	return drained.code;
}

static const char *state_name(enum tes_drain_state state)
{
	static const char *const names[] = {
		[TES_DRAIN_CREATED] = "CREATED",
		[TES_DRAIN_PLANNING] = "PLANNING",
		[TES_DRAIN_RUNNING] = "RUNNING",
		[TES_DRAIN_SUCCEEDED] = "SUCCEEDED",
		[TES_DRAIN_FAILED] = "FAILED",
		[TES_DRAIN_CANCELED] = "CANCELED",
	};

	return names[state];
}

/* Answers the creation or the cancellation of a drain. */
static int answer_code(struct tei_http_reply *reply,
		       const struct tes_core_drain *drain)
{
	char id[TEI_ID_ROOM];

	tei_id_text(drain->id, id);
	return tes_server_admin_json(
		reply, 200,
		json_pack("{s:b,s:s,s:s,s:i,s:s}", "success", 1, "job_id", id,
			  "status", state_name(drain->state), "error_code", 0,
			  "error_message", ""));
}

/* ---- creation ---- */

struct wanted {
	const char *segments[TES_CORE_DRAIN_MAX];
	const char *targets[TES_CORE_DRAIN_MAX];
	size_t n_segments, n_targets;
	uint32_t at_a_time;
};

/* The list of names at @member of @root, if it is there; false: or 400. */
static bool take_names(json_t *root, const char *member, const char **names,
		       size_t *n, struct tei_http_reply *reply)
{
	json_t *list = json_object_get(root, member), *one;
	size_t i;

	*n = 0;
	if (list && (!json_is_array(list) ||
		     json_array_size(list) > TES_CORE_DRAIN_MAX)) {
		tes_server_admin_wrong(reply,
				       "%s is a list of up to %d names of "
				       "segments",
				       member, TES_CORE_DRAIN_MAX);
		return false;
	}
	json_array_foreach(list, i, one)
	{
		const char *name = json_string_value(one);

		if (!name || !*name) {
			tes_server_admin_wrong(
				reply, "%s: the one at %zu is not a name",
				member, i);
			return false;
		}
		if (tes_server_among(name, names, i)) {
			tes_server_admin_wrong(reply,
					       "%s: %.255s is there "
					       "twice",
					       member, name);
			return false;
		}
		names[(*n)++] = name;
	}
	return true;
}

static bool take_at_a_time(json_t *root, struct wanted *w,
			   struct tei_http_reply *reply)
{
	const json_t *value = json_object_get(root, "max_concurrency");
	json_int_t n = json_integer_value(value);

	w->at_a_time = 0;
	if (!value)
		return true;
	if (!json_is_integer(value) || n < 1 || n > TES_CORE_AT_A_TIME_MAX) {
		tes_server_admin_wrong(reply,
				       "max_concurrency is a whole number, 1 "
				       "to %d",
				       TES_CORE_AT_A_TIME_MAX);
		return false;
	}
	w->at_a_time = (uint32_t)n;
	return true;
}

/* Decodes @root; strings stay its own. False: answered with 400. */
static bool decode_wanted(json_t *root, struct wanted *w,
			  struct tei_http_reply *reply)
{
	static const char *const members[] = {"segments", "target_segments",
					      "max_concurrency"};

	if (!tes_server_admin_members(root, members, 3, reply) ||
	    !take_names(root, "segments", w->segments, &w->n_segments, reply) ||
	    !take_names(root, "target_segments", w->targets, &w->n_targets,
			reply) ||
	    !take_at_a_time(root, w, reply))
		return false;
	if (!w->n_segments) {
		tes_server_admin_wrong(reply, "segments: there is none");
		return false;
	}
	for (size_t i = 0; i < w->n_targets; i++) {
		if (!tes_server_among(w->targets[i], w->segments,
				      w->n_segments))
			continue;
		tes_server_admin_wrong(reply,
				       "target_segments: %.255s is to be "
				       "drained itself",
				       w->targets[i]);
		return false;
	}
	return true;
}

/* The first name that no mount bears; NULL: all are mounted. */
static const char *unknown(const struct tes_server *s, const struct wanted *w)
{
	bool known[2 * TES_CORE_DRAIN_MAX] = {false};
	struct tes_core_segment segment;
	size_t cursor = 0;

	while (tes_core_segment_next(s->core, &cursor, &segment)) {
		for (size_t i = 0; i < w->n_segments; i++)
			known[i] |= !strcmp(segment.name, w->segments[i]);
		for (size_t i = 0; i < w->n_targets; i++)
			known[w->n_segments + i] |=
				!strcmp(segment.name, w->targets[i]);
	}
	for (size_t i = 0; i < w->n_segments + w->n_targets; i++)
		if (!known[i])
			return i < w->n_segments
				       ? w->segments[i]
				       : w->targets[i - w->n_segments];
	return NULL;
}

static int refuse_wanted(const struct tes_server *s, const struct wanted *w,
			 int32_t code, struct tei_http_reply *reply)
{
	const char *name;
	char words[300];

	switch (code) {
	case CODE_NO_SEGMENT:
		name = unknown(s, w);
		snprintf(words, sizeof(words), "SEGMENT_NOT_FOUND: %.255s",
			 name ? name : "");
		return tes_server_admin_error(reply, 404, code, words);
	case CODE_NOT_NOW:
		return tes_server_admin_error(
			reply, 409, code,
			"UNAVAILABLE_IN_CURRENT_STATUS: a segment is being "
			"drained, about to go, or its owner is silent");
	case CODE_TASKS_FULL:
		return tes_server_admin_error(reply, 503, code,
					      "there are too many drain jobs");
	default:
		return tes_server_admin_code(reply, code);
	}
}

static int create(struct tes_server *s, const struct wanted *w,
		  struct tei_http_reply *reply)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct tes_event ev = {.type = TES_EVENT_DRAIN_CREATE};
	struct tes_core_drain drain;
	int32_t code;

	ev.u.drain_create.segments = w->segments;
	ev.u.drain_create.n_segments = w->n_segments;
	ev.u.drain_create.targets = w->targets;
	ev.u.drain_create.n_targets = w->n_targets;
	ev.u.drain_create.at_a_time = w->at_a_time;
	code = ask_core(s, &ev, &drain);
	if (code)
		return refuse_wanted(s, w, code, reply);
	if (tei_log_info_allowed(&limit))
		LOG_INFO("master: segment %s%s is to be drained",
			 w->segments[0],
			 w->n_segments > 1 ? " and others" : "");
	return answer_code(reply, &drain);
}

int tes_server_admin_drain(const struct tei_http_request *request,
			   struct tei_http_reply *reply, void *arg)
{
	struct wanted w;
	int status = 400;
	json_t *root;

	if (!tes_server_admin_params(request, NULL, 0, reply))
		return 400;
	root = tes_server_admin_body(request, reply);
	if (!root)
		return 400;
	if (decode_wanted(root, &w, reply))
		status = create(arg, &w, reply);
	json_decref(root);
	return status;
}

/* ---- one that there is ---- */

/* The parameter job_id; false: or 400. */
static bool take_id(const struct tei_http_request *request,
		    uint8_t id[TES_CORE_ID_LEN], struct tei_http_reply *reply)
{
	const char *text = tes_server_admin_text(request, "job_id", reply);

	if (!text)
		return false;
	if (tei_id_parse(text, id))
		return true;
	tes_server_admin_wrong(reply, "job_id is 32 hex digits with dashes, as "
				      "a creation answers");
	return false;
}

static json_t *names_json(const struct tes_core_drain *drain)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < drain->n_segments; i++)
		if (json_array_append_new(list, tes_server_admin_string(
							drain->segments[i]))) {
			json_decref(list);
			list = NULL;
		}
	return list;
}

static json_t *drain_json(const struct tes_core_drain *d)
{
	char id[TEI_ID_ROOM];

	tei_id_text(d->id, id);
	return json_pack(
		"{s:b,s:s,s:i,s:s,s:i,s:s,s:I,s:I,s:o,s:I,s:I,s:I,s:I,s:I,s:s,"
		"s:i,s:s}",
		"success", 1, "job_id", id, "type", TYPE_DRAIN, "type_name",
		"DRAIN", "status", (int)d->state, "status_name",
		state_name(d->state), "created_at_ms_epoch",
		(json_int_t)tes_server_wall_ms(d->created_ms),
		"last_updated_at_ms_epoch",
		(json_int_t)tes_server_wall_ms(d->updated_ms), "segments",
		names_json(d), "succeeded_units", (json_int_t)d->moved,
		"failed_units", (json_int_t)d->failed, "blocked_units",
		(json_int_t)d->blocked, "active_units", (json_int_t)d->active,
		"migrated_bytes", (json_int_t)d->moved_bytes, "message",
		d->message, "error_code", 0, "error_message", "");
}

int tes_server_admin_query_drain(const struct tei_http_request *request,
				 struct tei_http_reply *reply, void *arg)
{
	struct tes_event ev = {.type = TES_EVENT_DRAIN_QUERY};
	uint8_t id[TES_CORE_ID_LEN];
	struct tes_core_drain drain;
	int32_t code;

	if (!take_id(request, id, reply))
		return 400;
	ev.u.drain.id = id;
	code = ask_core(arg, &ev, &drain);
	if (code)
		return tes_server_admin_code(reply, code);
	return tes_server_admin_json(reply, 200, drain_json(&drain));
}

int tes_server_admin_cancel_drain(const struct tei_http_request *request,
				  struct tei_http_reply *reply, void *arg)
{
	struct tes_event ev = {.type = TES_EVENT_DRAIN_CANCEL};
	static const char *const params[] = {"job_id"};
	uint8_t id[TES_CORE_ID_LEN];
	struct tes_core_drain drain;
	int32_t code;

	if (!tes_server_admin_params(request, params, 1, reply) ||
	    !take_id(request, id, reply))
		return 400;
	if (request->len)
		return tes_server_admin_wrong(reply, "no body is expected");
	ev.u.drain.id = id;
	code = ask_core(arg, &ev, &drain);
	if (code == CODE_NOT_NOW)
		return tes_server_admin_error(
			reply, 409, code,
			"UNAVAILABLE_IN_CURRENT_STATUS: it has ended");
	if (code)
		return tes_server_admin_code(reply, code);
	return answer_code(reply, &drain);
}
