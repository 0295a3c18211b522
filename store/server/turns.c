/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.c - who is served when: clients take turns
 *
 * The master is one thread, so what one client asks for others wait for. A turn
 * of the loop serves what has come in, until it has lasted DIRECT_NS, or one
 * client has had its share of that. From then on clients queue, each with those
 * of its connections that have read a frame, and the loop's next turns serve
 * QUEUE_NS of the queue each: one frame or part of a client, then the next
 * client. All time is booked on whom it was spent, so who has cost much is
 * passed over until others have had as much. A client is a session, with all
 * its connections; connections without one share by where they come from.
 *
 * A batch of many keys, or of some with many replicas, is a job: it is decoded
 * at once, and then handled in parts, one each time its connection comes to
 * the front of the queue. Until it is answered the connection delivers nothing
 * more, so a client's requests are handled in the order in which they were
 * sent, and a client has one job. Jobs are few, and none is let in while those
 * that have begun take JOBS_BYTES: batches for which there is no room stay
 * with their connections, which read no more, in the order in which they came.
 * So do the frames of a connection that is owed many answers, for which owners
 * have to confirm something.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/core/core.h"
#include "store/proto/store.pb-c.h"
#include "store/proto/strings.h"
#include "store/server/rpc.h"
#include "store/server/state.h"

#define DIRECT_NS (TEI_NS_PER_MS / 2)
#define SHARE_NS  (TEI_NS_PER_MS / 4) /* of one client */
#define QUEUE_NS  (TEI_NS_PER_MS / 3)
#define ROUND_NS  (TEI_NS_PER_MS / 20) /* of the queue, for each in it */
/* What it may owe: a turn is longer where the machine has other work. */
#define DEBT_NS   (2 * TEI_NS_PER_MS)
#define PART_KEYS (8 * TES_CORE_PART)
#define PART_NS   (TEI_NS_PER_MS / 5)
/* Replicas that one step places, or is told of: 0.6 us each. */
#define PART_REPLICAS ((size_t)TES_CORE_PART * TES_CORE_REPLICAS_MAX)
#define JOBS_MAX      16u
#define JOBS_BYTES    ((size_t)32 << 20)
#define OUT_MAX       (32u << 20)

/* A batch that is handled in parts. */
struct tes_server_job {
	struct tes_server_link *link; /* NULL: it has gone */
	struct tei_frame frame;       /* its header */
	struct tes_event event;
	struct tes_core_part part;
	struct tei_arena in, out; /* the event's, the reply's */
	struct tes_actions actions;
	void *body;     /* keys lie in it; NULL: they are in `in` */
	size_t keys;    /* in a part */
	size_t n_names; /* of the reply, that are copies */
	size_t bytes;   /* in the server's job_bytes */
	bool running;
};

/* ---- the queue ---- */

void tes_server_share_init(struct tes_server_share *share)
{
	*share = (struct tes_server_share){.turn = 0};
	tei_list_init(&share->link);
	tei_list_init(&share->links);
}

static struct tes_server_share *share_of(struct tes_server_link *link)
{
	uint64_t source;

	if (link->session)
		return &link->session->share;
	source = tei_frame_source(link->conn);
	return &link->server->strangers[source % TES_SERVER_STRANGERS];
}

void tes_server_turns_go_on(struct tes_server *s)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_alarm_set(&s->turns, 0) && tei_log_allowed(&limit))
		LOG_WARN("master: out of memory for a timer: clients that "
			 "queue wait for the next tick");
}

/* Heartbeats go first: no client is to seem dead for its own batches. */
static void queue_link(struct tes_server_link *link)
{
	struct tes_server *s = link->server;
	struct tes_server_share *share = share_of(link);

	if (!tei_list_empty(&link->queued))
		return;
	if (tei_list_empty(&s->queue))
		tes_server_turns_go_on(s);
	if (tei_list_empty(&share->links))
		tei_list_add_tail(&s->queue, &share->link);
	if (link->role == TES_SERVER_HEART)
		tei_list_add_head(&share->links, &link->queued);
	else
		tei_list_add_tail(&share->links, &link->queued);
	link->share = share;
}

static void unqueue_link(struct tes_server_link *link)
{
	struct tes_server_share *share = link->share;

	tei_list_del(&link->queued);
	link->share = NULL;
	if (share && tei_list_empty(&share->links))
		tei_list_del(&share->link);
}

/* ---- room for jobs ---- */

static bool has_room(const struct tes_server *s)
{
	return s->n_jobs + s->n_let_in < JOBS_MAX && s->job_bytes < JOBS_BYTES;
}

/* There may be room for more. */
static void let_in(struct tes_server *s)
{
	while (!tei_list_empty(&s->crowd) && has_room(s)) {
		struct tes_server_link *link =
			TEI_CONTAINER(tei_list_pop(&s->crowd),
				      struct tes_server_link, queued);

		link->let_in = true;
		s->n_let_in++;
		queue_link(link);
	}
}

static void give_up_room(struct tes_server_link *link)
{
	link->server->n_let_in -= link->let_in;
	link->let_in = false;
}

/* Puts may be, by their replicas, which are counted when it is decoded. */
static bool may_be_large(const struct tei_frame *f)
{
	bool is_offer = f->type == STORE__STORE_TYPE__STORE_OFFER;
	bool is_put = f->type == STORE__STORE_TYPE__STORE_PUT_START ||
		      f->type == STORE__STORE_TYPE__STORE_PUT_END;
	size_t most = is_put ? TES_CORE_PART : PART_KEYS;

	return f->len > most &&
	       tes_has_more_keys(f->body, f->len, is_offer, most);
}

/* Requests that wait for owners which a link may have though all places of them
 * are taken: so who has taken most leaves the others theirs. */
static size_t share_of_laters(const struct tes_server *s)
{
	size_t share = TES_SERVER_LATERS / (s->n_links ? s->n_links : 1);

	return share ? share : 1;
}

/* So many of its requests wait for owners that it may not ask for more. */
static bool is_owed_much(const struct tes_server_link *link)
{
	const struct tes_server *s = link->server;

	return link->late_keys >= TES_SERVER_LATE_KEYS ||
	       (s->laters.n_nodes >= TES_SERVER_LATERS &&
		link->n_laters >= share_of_laters(s));
}

/* The link has read a frame, and its connection keeps it. */
static void queue_frame(struct tes_server_link *link)
{
	link->stalled = is_owed_much(link);
	if (link->stalled)
		return;
	if (!link->large || link->let_in) {
		queue_link(link);
		return;
	}
	if (tei_list_empty(&link->queued))
		tei_list_add_tail(&link->server->crowd, &link->queued);
	let_in(link->server);
}

void tes_server_turns_answered(struct tes_server_link *link)
{
	if (link->stalled)
		queue_frame(link);
}

/* ---- whose turn it is ---- */

static uint64_t sum_ns(uint64_t used, uint64_t more)
{
	return used + more < DEBT_NS ? used + more : DEBT_NS;
}

/*
 * Books the time until now on who was served, and that @next (NULL: nobody) is
 * served from now on. If that is another one, a connection may have read in
 * between: nobody knows whose time it was. Returns the time of this turn.
 */
static uint64_t serve(struct tes_server *s, struct tes_server_share *next)
{
	uint64_t turn = tei_loop_turn(s->loop);
	uint64_t now = tei_loop_turn_ns(s->loop);

	if (s->served && s->turn == turn && (next == s->served || !next))
		s->served->used_ns =
			sum_ns(s->served->used_ns, now - s->served_ns);
	s->turn = turn;
	s->served = next;
	s->served_ns = now;
	if (next && next->turn != turn) {
		next->turn = turn;
		next->used_ns -=
			next->used_ns < SHARE_NS ? next->used_ns : SHARE_NS;
	}
	return now;
}

void tes_server_turns_book(struct tes_server *s)
{
	(void)serve(s, s->served);
}

bool tes_server_ready(struct tei_frame_conn *conn, const struct tei_frame *f,
		      void *arg)
{
	struct tes_server_link *link = arg;
	struct tes_server *s = link->server;
	struct tes_server_share *share = share_of(link);
	bool now = serve(s, share) < DIRECT_NS && share->used_ns < SHARE_NS;

	(void)conn;
	now = now && !is_owed_much(link);
	if (now && !link->job && has_room(s))
		return true;
	link->large = may_be_large(f);
	if (link->job)
		return false; /* its end queues the link */
	if (now && !link->large)
		return true;
	queue_frame(link);
	return false;
}

/* ---- jobs ---- */

static void free_job(struct tes_server *s, struct tes_server_job *job)
{
	tes_core_part_abort(s->core, &job->part);
	tei_arena_fini(&job->in);
	tei_arena_fini(&job->out);
	tei_free(job->body);
	s->n_jobs--;
	s->job_bytes -= job->bytes;
	tei_free(job);
	let_in(s);
}

static void count_job(struct tes_server *s, struct tes_server_job *job)
{
	size_t bytes = sizeof(*job) + job->in.total + job->out.total +
		       (job->body ? job->frame.len : 0);

	s->job_bytes += bytes - job->bytes;
	job->bytes = bytes;
}

void tes_server_turns_drop(struct tes_server_link *link)
{
	struct tes_server *s = link->server;
	struct tes_server_job *job = link->job;

	if (s->served == share_of(link))
		s->served = NULL; /* it may go with its last link */
	unqueue_link(link);
	give_up_room(link);
	link->job = NULL;
	if (job && job->running)
		job->link = NULL;
	else if (job)
		free_job(s, job);
	else
		let_in(s);
}

/* Of a look-up or a removal nobody knows: they take a fifth as long. */
static size_t count_replicas(const struct tes_event *ev)
{
	size_t n = 0;

	if (ev->type == TES_EVENT_PUT_START && ev->u.put_start.how)
		return ev->n * ev->u.put_start.how->replica_num;
	if (ev->type != TES_EVENT_PUT_END || !ev->u.put_end.extents)
		return ev->n;
	for (size_t i = 0; i < ev->n; i++)
		n += ev->u.put_end.extents[i];
	return n;
}

bool tes_server_is_large(const struct tes_event *ev)
{
	return ev->n > PART_KEYS ||
	       (ev->n > TES_CORE_PART && count_replicas(ev) > PART_REPLICAS);
}

/* How many keys of @ev its first part has. */
static size_t first_part(const struct tes_event *ev)
{
	size_t keys = PART_KEYS / 2, replicas = count_replicas(ev) / ev->n;

	while (keys > TES_CORE_PART && keys * replicas > PART_REPLICAS)
		keys /= 2;
	return keys;
}

/* NULL: no memory. */
static struct tes_server_job *create_job(struct tes_server_link *link,
					 const struct tei_frame *f)
{
	struct tes_server_job *job = tei_calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->link = link;
	job->frame = *f;
	job->frame.body = NULL;
	if (f->len < TES_SERVER_RPC_LENT)
		return job;
	job->body = tei_frame_take_body(link->conn);
	if (!job->body) { /* cannot be: it is too long for what is shared */
		tei_free(job);
		return NULL;
	}
	return job;
}

void tes_server_job_begin(struct tes_server_link *link,
			  const struct tei_frame *f, const struct tes_event *ev)
{
	struct tes_server *s = link->server;
	struct tes_server_job *job = create_job(link, f);

	if (!job) {
		tei_frame_refuse_for_now(link->conn, "out of memory");
		return;
	}
	job->event = *ev;
	job->event.part = &job->part;
	job->keys = first_part(ev);
	job->event.cookie = ++s->cookie;
	tei_arena_move(&job->in, &s->in);
	tei_arena_init(&job->out, OUT_MAX);
	job->actions.arena = &job->out;
	s->n_jobs++;
	count_job(s, job);
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
	part->to = n - part->from > job->keys ? part->from + job->keys : n;
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

/* A key costs 50 ns, or 20 us where it is put to 32 owners. */
static void suit_part(struct tes_server_job *job, uint64_t took_ns)
{
	if (took_ns > PART_NS && job->keys > TES_CORE_PART)
		job->keys /= 2;
	else if (took_ns < PART_NS / 4 && job->keys < PART_KEYS)
		job->keys *= 2;
}

static void run_job(struct tes_server *s, struct tes_server_job *job)
{
	uint64_t since = tei_now_ns();
	bool over;

	job->running = true;
	over = run_part(s, job);
	job->running = false;
	suit_part(job, tei_now_ns() - since);
	count_job(s, job);
	if (over && job->link) {
		job->link->job = NULL;
		queue_frame(job->link); /* the next one may be there */
	} else if (job->link) {
		queue_link(job->link);
	}
	if (over || !job->link)
		free_job(s, job);
}

/* ---- the queue is served ---- */

static void serve_link(struct tes_server *s, struct tes_server_link *link)
{
	(void)serve(s, link->share);
	unqueue_link(link);
	if (link->job) {
		run_job(s, link->job);
	} else {
		give_up_room(link);
		link->large = false;
		tei_frame_resume(link->conn);
		let_in(s);
	}
	(void)serve(s, NULL);
}

/* The first one in the queue goes behind the others. */
static void serve_first(struct tes_server *s)
{
	struct tes_server_share *share = TEI_CONTAINER(
		tei_list_pop(&s->queue), struct tes_server_share, link);

	tei_list_add_tail(&s->queue, &share->link);
	if (share->used_ns > ROUND_NS)
		share->used_ns -= ROUND_NS;
	else
		serve_link(s, TEI_CONTAINER(share->links.next,
					    struct tes_server_link, queued));
}

static void on_turns(void *arg)
{
	struct tes_server *s = arg;
	uint64_t since = tei_now_ns();

	while (!tei_list_empty(&s->queue)) {
		serve_first(s);
		if (tei_now_ns() - since < QUEUE_NS)
			continue;
		if (!tei_list_empty(&s->queue))
			tes_server_turns_go_on(s);
		return;
	}
}

void tes_server_turns_init(struct tes_server *s,
			   const struct tes_server_steps *steps)
{
	s->steps = steps;
	tei_list_init(&s->queue);
	tei_list_init(&s->crowd);
	for (size_t i = 0; i < TES_SERVER_STRANGERS; i++)
		tes_server_share_init(&s->strangers[i]);
	tei_alarm_init(&s->turns, s->loop, on_turns, s);
}
