/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.c - who is served when: clients take turns
 *
 * The master is one thread, so what one client asks for others wait for. A turn
 * of the loop serves what has come in, until it has lasted DIRECT_NS, or one
 * connection has had its share of that. From then on connections queue, with
 * the frame that they have read, and the loop's next turns serve them one after
 * the other, QUEUE_NS in each.
 *
 * A batch of many keys is a job: it is decoded at once, and then handled in
 * parts, one each time its connection comes to the front of the queue. Until it
 * is answered the connection delivers nothing more, so a client's requests are
 * handled in the order in which they were sent. Frames that wait are kept by
 * their connections; few large ones are decoded at a time.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/core/core.h"
#include "store/server/state.h"

#define DIRECT_NS  (TEI_NS_PER_MS / 2)
#define SHARE_NS   (TEI_NS_PER_MS / 4) /* of one connection */
#define QUEUE_NS   (TEI_NS_PER_MS / 3)
#define PART_KEYS  (8 * TES_CORE_PART)
#define LARGE_LEN  (16u << 10) /* bytes of a frame; most are smaller */
#define LARGES_MAX 16u
#define OUT_MAX    (32u << 20)

/* A batch that is handled in parts. */
struct tes_server_job {
	struct tes_server_link *link; /* NULL: it has gone */
	struct tei_frame frame;       /* its header */
	struct tes_event event;
	struct tes_core_part part;
	struct tei_arena in, out; /* the event's, the reply's */
	struct tes_actions actions;
	size_t n_names; /* of the reply, that are copies */
	bool large, running;
};

/* ---- the queue ---- */

void tes_server_turns_go_on(struct tes_server *s)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_alarm_set(&s->turns, 0) && tei_log_allowed(&limit))
		LOG_WARN("master: out of memory for a timer: clients that "
			 "queue wait for the next tick");
}

static void queue_link(struct tes_server_link *link)
{
	struct tes_server *s = link->server;

	if (!tei_list_empty(&link->queued))
		return;
	if (tei_list_empty(&s->queue))
		tes_server_turns_go_on(s);
	tei_list_add_tail(&s->queue, &link->queued);
}

/* True: @link has used up its share of this turn. */
static bool has_had_its_share(struct tes_server_link *link, uint64_t turn_ns)
{
	struct tes_server *s = link->server;

	if (s->served != link || turn_ns < s->served_ns) {
		s->served = link;
		s->served_ns = turn_ns;
	}
	return turn_ns - s->served_ns >= SHARE_NS;
}

static bool waits_for_room(const struct tes_server_link *link, size_t len)
{
	return len > LARGE_LEN && link->server->n_large >= LARGES_MAX;
}

bool tes_server_ready(struct tei_frame_conn *conn, const struct tei_frame *f,
		      void *arg)
{
	struct tes_server_link *link = arg;
	uint64_t turn_ns;

	(void)conn;
	link->waiting_len = f->len;
	if (link->job)
		return false; /* its end queues the link */
	turn_ns = tei_loop_turn_ns(link->server->loop);
	if (turn_ns < DIRECT_NS && !has_had_its_share(link, turn_ns) &&
	    !waits_for_room(link, f->len))
		return true;
	queue_link(link);
	return false;
}

/* ---- jobs ---- */

static void free_job(struct tes_server *s, struct tes_server_job *job)
{
	tes_core_part_abort(&job->part);
	s->n_large -= job->large;
	tei_arena_fini(&job->in);
	tei_arena_fini(&job->out);
	tei_free(job);
}

void tes_server_turns_drop(struct tes_server_link *link)
{
	struct tes_server_job *job = link->job;

	tei_list_del(&link->queued);
	if (link->server->served == link)
		link->server->served = NULL;
	link->job = NULL;
	if (job && job->running)
		job->link = NULL;
	else if (job)
		free_job(link->server, job);
}

bool tes_server_is_large(const struct tes_event *ev)
{
	return ev->n > PART_KEYS;
}

void tes_server_job_begin(struct tes_server_link *link,
			  const struct tei_frame *f, const struct tes_event *ev)
{
	struct tes_server *s = link->server;
	struct tes_server_job *job = tei_calloc(1, sizeof(*job));

	if (!job) {
		tei_frame_refuse_for_now(link->conn, "out of memory");
		return;
	}
	job->link = link;
	job->frame = *f;
	job->frame.body = NULL;
	job->event = *ev;
	job->event.part = &job->part;
	job->event.cookie = ++s->cookie;
	tei_arena_move(&job->in, &s->in);
	tei_arena_init(&job->out, OUT_MAX);
	job->actions.arena = &job->out;
	job->large = f->len > LARGE_LEN;
	s->n_large += job->large;
	link->job = job;
	queue_link(link);
}

static bool has_reply(const struct tes_server_job *job)
{
	const struct tes_actions *a = &job->actions;

	return a->n && a->at[0].type == TES_ACTION_REPLY &&
	       a->at[0].cookie == job->event.cookie;
}

/* Owners that the reply names may go before it is sent. -ENOMEM. */
static int keep_names(struct tes_server_job *job)
{
	struct tes_action *reply = &job->actions.at[0];
	/* The array is in our arena. */
	struct tes_core_segment_name *names =
		(struct tes_core_segment_name *)(uintptr_t)
			reply->u.reply.segments;

	for (; job->n_names < reply->u.reply.n_segments; job->n_names++) {
		struct tes_core_segment_name *at = &names[job->n_names];
		size_t len = strlen(at->engine) + 1;
		char *copy = tei_arena_alloc(&job->out, len + TES_CORE_ID_LEN);

		if (!copy)
			return -ENOMEM;
		memcpy(copy, at->engine, len);
		memcpy(copy + len, at->incarnation, TES_CORE_ID_LEN);
		at->engine = copy;
		at->incarnation = (const uint8_t *)copy + len;
	}
	return 0;
}

/* Handles the next part. True: that was the last, and all is answered. */
static bool run_part(struct tes_server *s, struct tes_server_job *job)
{
	struct tes_core_part *part = &job->part;
	size_t n = job->event.n;
	bool last;
	int rc, kept = 0;

	part->from = part->to;
	part->to = n - part->from > PART_KEYS ? part->from + PART_KEYS : n;
	last = part->to == n;
	s->steps->begin(s, &job->event, job->link, &job->frame);
	rc = tes_core_step(s->core, &job->event, tei_now_ms(), &job->actions);
	if (!rc && !last && has_reply(job)) {
		last = job->actions.at[0].u.reply.code != 0;
		kept = last ? 0 : keep_names(job);
	}
	if ((rc < 0 || kept < 0) && job->link)
		tei_frame_refuse_for_now(job->link->conn, "out of memory");
	/* What the step has done is carried out, also without a reply. */
	s->steps->end(s, rc, &job->actions, !last && has_reply(job));
	return last || rc < 0 || kept < 0;
}

static void run_job(struct tes_server *s, struct tes_server_job *job)
{
	bool over;

	job->running = true;
	over = run_part(s, job);
	job->running = false;
	if (!job->link) {
		free_job(s, job);
		return;
	}
	if (over) {
		job->link->job = NULL;
		queue_link(job->link); /* the next frame may be there */
		free_job(s, job);
	} else {
		queue_link(job->link);
	}
}

/* ---- the queue is served ---- */

static void serve_first(struct tes_server *s)
{
	struct tes_server_link *link = TEI_CONTAINER(
		tei_list_pop(&s->queue), struct tes_server_link, queued);

	if (link->job) {
		run_job(s, link->job);
	} else if (waits_for_room(link, link->waiting_len)) {
		queue_link(link);
	} else {
		s->served = NULL;
		tei_frame_resume(link->conn);
	}
}

static void on_turns(void *arg)
{
	struct tes_server *s = arg;
	uint64_t since = tei_now_ns();

	do {
		if (tei_list_empty(&s->queue))
			return;
		serve_first(s);
	} while (tei_now_ns() - since < QUEUE_NS);
	if (!tei_list_empty(&s->queue))
		tes_server_turns_go_on(s);
}

void tes_server_turns_init(struct tes_server *s,
			   const struct tes_server_steps *steps)
{
	s->steps = steps;
	tei_list_init(&s->queue);
	tei_alarm_init(&s->turns, s->loop, on_turns, s);
}
