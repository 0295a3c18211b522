/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - one dummy: its memory, its connections, its calls under way
 *
 * A session ends when the process is dead (its pidfd says so, whoever else may
 * hold its sockets) or has closed its last connection.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <event2/event.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/daemon/agent_private.h"

#define ARENA_MAX (16u << 20) /* of a job: request, columns and answer */
#define EXITING   0x4u        /* PF_EXITING, of the flags in /proc/PID/stat */

/* ---- jobs ---- */

static void free_job(struct tes_agent_job *job)
{
	tei_arena_fini(&job->arena);
	tei_free(job->body);
	tei_free(job);
}

void tes_session_unmap(struct tes_agent_session *s)
{
	tes_agent_memory_unmap(s->agent->store, &s->memory);
	tes_agent_buffers_destroy(s->buffers);
	s->buffers = NULL;
}

void tes_session_unmapped(struct tes_agent_session *s)
{
	struct tes_agent *agent = s->agent;

	agent->memory_bytes -= s->memory.length;
	agent->n_sessions--;
	tei_list_del(&s->link);
	tei_free(s);
}

/* It counts until its memory is unmapped, which is not for the loop to do. */
static void free_session(struct tes_agent_session *s)
{
	if (tes_workers_unmap(s))
		return;
	tes_session_unmap(s);
	tes_session_unmapped(s);
}

void tes_sessions_clear(struct tes_agent *agent)
{
	tei_list_for_each_safe (pos, tmp, &agent->sessions) {
		struct tes_agent_session *s =
			tei_list_entry(pos, struct tes_agent_session, link);

		if (!s->ended) {
			tes_session_end(s);
			continue;
		}
		/* The workers were told of it, and have ended before. */
		tei_list_del(&s->turn);
		tes_session_unmap(s);
		tes_session_unmapped(s);
	}
}

static void forget_job(struct tes_agent_job *job)
{
	struct tes_agent_session *s = job->session;

	if (job->conn) {
		tei_list_del(&job->of_conn);
		job->conn->n_jobs--;
	}
	s->queued_bytes -= job->len;
	s->agent->queued_bytes -= job->len;
	s->n_jobs--;
	free_job(job);
	if (s->ended && !s->n_jobs)
		free_session(s);
}

void tes_session_job_over(struct tes_agent_job *job)
{
	struct tes_agent_conn *conn = job->conn;
	bool sent;

	sent = conn && job->answer &&
	       !tei_frame_reply(conn->frames, &job->frame, job->answer);
	/* Who gets no answer must not wait for it. */
	if (conn && !sent)
		tei_frame_refuse_for_now(conn->frames, "out of memory");
	if (!sent && job->n_cut)
		tes_agent_buffers_give_back(job->buffers, job->cut, job->n_cut);
	forget_job(job);
}

static struct tes_agent_job *create_job(struct tes_agent_conn *conn,
					const struct tei_frame *f)
{
	struct tes_agent_job *job = tei_calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->body = tei_malloc(f->len ? f->len : 1);
	if (!job->body) {
		tei_free(job);
		return NULL;
	}
	if (f->len)
		memcpy(job->body, f->body, f->len);
	job->len = f->len;
	job->session = conn->session;
	job->buffers = conn->session->buffers;
	job->conn = conn;
	job->frame.type = f->type;
	job->frame.id = f->id;
	job->since_ns = tei_now_ns();
	tei_arena_init(&job->arena, ARENA_MAX);
	tei_list_init(&job->of_queue);
	return job;
}

/* ---- connections ---- */

static bool has_room(const struct tes_agent_conn *conn, size_t len)
{
	const struct tes_agent_session *s = conn->session;

	return conn->n_jobs < TES_AGENT_JOBS_MAX &&
	       s->queued_bytes + len <= TES_AGENT_QUEUE_MAX &&
	       s->agent->queued_bytes + len <= TES_AGENT_QUEUE_ALL_MAX;
}

static void on_frame(struct tei_frame_conn *frames, const struct tei_frame *f,
		     void *arg)
{
	struct tes_agent_conn *conn = arg;
	struct tes_agent_session *s = conn->session;
	struct tes_agent_job *job;

	if (f->flags || !f->id) {
		tei_frame_bad(frames, "only calls are known here");
		return;
	}
	job = has_room(conn, f->len) ? create_job(conn, f) : NULL;
	if (!job) {
		tei_frame_refuse_for_now(frames, "too many calls at a time");
		return;
	}
	tei_list_add_tail(&conn->jobs, &job->of_conn);
	conn->n_jobs++;
	s->n_jobs++;
	s->queued_bytes += job->len;
	s->agent->queued_bytes += job->len;
	tes_workers_add(job);
}

/* What waits is dropped; what runs will find nobody to answer. */
static void close_conn(struct tes_agent_conn *conn)
{
	struct tei_list *node;

	tei_list_del(&conn->link);
	conn->session->n_conns--;
	while ((node = tei_list_pop(&conn->jobs))) {
		struct tes_agent_job *job =
			tei_list_entry(node, struct tes_agent_job, of_conn);

		job->conn = NULL;
		if (tes_workers_take_back(job))
			forget_job(job);
	}
	tei_frame_close(conn->frames);
	tei_free(conn);
}

/*
 * Its process ends, or has ended: its sockets are closed before its pidfd says
 * so. For a figure only, so that what cannot be opened counts as alive.
 */
static bool is_ending(const struct tes_agent_session *s)
{
	unsigned int flags = 0;
	char text[512], *at;
	FILE *stat;
	size_t n;

	if (s->pidfd < 0)
		return false;
	(void)snprintf(text, sizeof(text), "/proc/%d/stat", (int)s->pid);
	stat = fopen(text, "re");
	if (!stat)
		return errno == ENOENT;
	n = fread(text, 1, sizeof(text) - 1, stat);
	(void)fclose(stat);
	if (!n) /* it has gone since it was opened: ESRCH */
		return true;
	text[n] = 0;
	at = strrchr(text, ')'); /* its name may have any other */
	return at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
	       (flags & EXITING);
}

static void on_down(struct tei_frame_conn *frames, int err, const char *text,
		    void *arg)
{
	struct tes_agent_conn *conn = arg;
	struct tes_agent_session *s = conn->session;

	(void)frames;
	(void)text;
	LOG_DEBUG("dummy %llu: connection down: %s", (unsigned long long)s->id,
		  strerror(-err));
	s->n_jobs++; /* it stays until we are through with it */
	close_conn(conn);
	s->n_jobs--;
	if (!s->n_conns && !s->ended) {
		s->agent->stats.died += is_ending(s);
		tes_session_end(s);
	} else if (s->ended && !s->n_jobs) {
		free_session(s);
	}
}

static void on_fault(enum tei_frame_fault fault, void *arg)
{
	struct tes_agent_conn *conn = arg;

	conn->session->agent->stats.faults[fault]++;
}

static const struct tei_frame_ops conn_ops = {
	.frame = on_frame,
	.down = on_down,
	.fault = on_fault,
};

void tes_session_connect(struct tes_agent_session *s, int socket)
{
	struct tes_agent_conn *conn = tei_calloc(1, sizeof(*conn));
	int rc = -ENOMEM;

	if (conn)
		rc = tei_frame_adopt(s->agent->loop, &tes_agent_protocol,
				     socket, &conn_ops, conn, &conn->frames);
	else
		(void)close(socket);
	if (rc) {
		tei_free(conn);
		if (!s->n_conns)
			tes_session_end(s);
		return;
	}
	conn->session = s;
	tei_list_init(&conn->jobs);
	tei_list_add_tail(&s->conns, &conn->link);
	s->n_conns++;
}

/* ---- sessions ---- */

static void on_died(evutil_socket_t fd, short what, void *arg)
{
	struct tes_agent_session *s = arg;

	(void)fd;
	(void)what;
	tei_loop_note(s->agent->loop);
	s->agent->stats.died++;
	tes_session_end(s);
}

/* Without a pidfd the connections have to tell. 0, -ESRCH: dead already. */
static int watch(struct tes_agent_session *s)
{
	s->pidfd = -1;
	if (s->pid)
		s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
	if (s->pidfd < 0)
		return s->pid && errno == ESRCH ? -ESRCH : 0;
	(void)event_assign(&s->died, tei_loop_base(s->agent->loop), s->pidfd,
			   EV_READ, on_died, s);
	if (!event_add(&s->died, NULL))
		return 0;
	(void)close(s->pidfd);
	s->pidfd = -1;
	return 0;
}

static struct tes_agent_session *create(struct tes_agent *agent, pid_t pid)
{
	struct tes_agent_session *s = tei_calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->agent = agent;
	s->pid = pid;
	tei_list_init(&s->link);
	tei_list_init(&s->conns);
	tei_list_init(&s->queue);
	tei_list_init(&s->turn);
	if (RAND_bytes(s->token, sizeof(s->token)) == 1)
		return s;
	tei_free(s);
	return NULL;
}

enum tes_greeting_status tes_session_open(struct tes_agent *agent, int fd,
					  uint64_t length, pid_t pid,
					  struct tes_agent_session **out)
{
	struct tes_agent_session *s;
	int rc;

	if (agent->n_sessions >= TES_AGENT_SESSIONS_MAX)
		return TES_GREETING_CROWD;
	if (length > agent->memory_each_max)
		return TES_GREETING_TOO_LARGE;
	if (length > agent->memory_max - agent->memory_bytes)
		return TES_GREETING_NO_MEMORY;
	s = create(agent, pid);
	if (!s)
		return TES_GREETING_NO_MEMORY;
	rc = tes_agent_memory_map(agent->store, fd, length, &s->memory);
	if (rc) {
		tei_free(s);
		return rc == -EINVAL ? TES_GREETING_MEMORY
				     : TES_GREETING_NO_MEMORY;
	}
	s->id = ++agent->last_session;
	s->memory.id = ++agent->last_memory;
	agent->memory_bytes += length;
	agent->n_sessions++;
	agent->stats.sessions_total++;
	tei_list_add_tail(&agent->sessions, &s->link);
	if (watch(s)) {
		tes_session_end(s);
		return TES_GREETING_NO_SESSION;
	}
	LOG_DEBUG("dummy %llu: process %d, %llu bytes",
		  (unsigned long long)s->id, (int)pid,
		  (unsigned long long)length);
	*out = s;
	return TES_GREETED;
}

enum tes_greeting_status tes_session_find(struct tes_agent *agent,
					  const struct tes_greeting *g,
					  pid_t pid,
					  struct tes_agent_session **out)
{
	tei_list_for_each (pos, &agent->sessions) {
		struct tes_agent_session *s =
			tei_list_entry(pos, struct tes_agent_session, link);

		if (s->id != g->session || s->ended || s->pid != pid ||
		    CRYPTO_memcmp(s->token, g->token, sizeof(s->token)))
			continue;
		if (s->n_conns >= TES_AGENT_CONNS_MAX)
			return TES_GREETING_CROWD;
		*out = s;
		return TES_GREETED;
	}
	return TES_GREETING_NO_SESSION;
}

void tes_session_end(struct tes_agent_session *s)
{
	if (s->ended)
		return;
	s->ended = true;
	if (s->pidfd >= 0) {
		(void)event_del(&s->died);
		(void)close(s->pidfd);
		s->pidfd = -1;
	}
	s->n_jobs++; /* it stays until we are through with it */
	while (!tei_list_empty(&s->conns))
		close_conn(tei_list_entry(s->conns.next, struct tes_agent_conn,
					  link));
	LOG_DEBUG("dummy %llu: gone, %u calls under way",
		  (unsigned long long)s->id, s->n_jobs - 1);
	if (--s->n_jobs == 0)
		free_session(s);
}
