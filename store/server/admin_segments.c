/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_segments.c - the admin pages about segments
 *
 * Several mounts may bear one name: lists have them all, sums add them up.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>

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
	char id[TES_SERVER_ID_ROOM], client[TES_SERVER_ID_ROOM],
		size[TES_SERVER_BYTES_ROOM];
	char base[2 + 16 + 1];

	tes_server_id_text(segment->id, id);
	tes_server_id_text(segment->client_id, client);
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
		/* What is furthest from OK says most. */
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
