/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - one dummy: its memory, its connections, its calls under way
 *
 * A session ends when the process is dead (its pidfd says so, whoever else may
 * hold its sockets) or has closed its last connection.
 */
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/daemon/agent_private.h"

/* ---- a dummy's memory in our address space ---- */

static bool is_memory(int fd, uint64_t length)
{
	return length >= TES_AGENT_REGION_MIN &&
	       length % TES_AGENT_REGION_MIN == 0 && length <= TE_LENGTH_MAX &&
	       !tes_sealed_check(fd, length);
}

/*
 * Maps @fd, which is_memory(); it stays the caller's. 0, -EINVAL (not to be
 * written to), -ENOMEM.
 */
static int agent_memory_map(struct te_store *store, int fd, uint64_t length,
			    struct tes_agent_memory *out)
{
	void *base;

	base = mmap(NULL, length, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED) /* -EPERM, -EACCES: not to be written to */
		return errno == ENOMEM || errno == EAGAIN ? -ENOMEM : -EINVAL;
	/* A copy would keep the dummy's memory after both have gone. */
	(void)madvise(base, length, MADV_DONTFORK);
	if (te_store_register(store, base, length)) {
		(void)munmap(base, length);
		return -ENOMEM;
	}
	out->base = base;
	out->length = length;
	return 0;
}

static void agent_memory_unmap(struct te_store *store,
			       struct tes_agent_memory *memory)
{
	(void)te_store_unregister(store, memory->base);
	(void)munmap(memory->base, memory->length);
	memory->base = NULL;
}

void *tes_agent_memory_at(const struct tes_agent_memory *memory,
			  uint64_t offset, uint64_t length)
{
	if (offset > memory->length || length > memory->length - offset)
		return NULL;
	return memory->base + offset;
}

/* ---- threads that execute the calls of dummies ---- */

/*
 * Sessions with calls that wait stand in a ring and take turns, a call each.
 * One session never has all the threads, so that a dummy whose calls wait for
 * a silent owner does not keep the others from theirs. Calls that look at the
 * whole table of the master go one at a time, for it takes one of a client.
 * Memory of dummies that have gone is unmapped here, too: gigabytes take long.
 */

static unsigned int most_of_one(const struct tes_agent *agent)
{
	return agent->n_threads > 1 ? agent->n_threads - 1 : 1;
}

static bool is_walk(const struct tes_agent_job *job)
{
	return job->frame.type == AGENT__AGENT_TYPE__AGENT_REMOVE_ALL;
}

/* The first that may begin; walks wait for each other, and for nobody else. */
static struct tes_agent_job *first_of(const struct tes_agent *agent,
				      struct tes_agent_session *s)
	TEI_REQUIRES(agent->mu)
{
	tei_list_for_each (pos, &s->queue) {
		struct tes_agent_job *job =
			tei_list_entry(pos, struct tes_agent_job, of_queue);

		if (!agent->walking || !is_walk(job))
			return job;
	}
	return NULL;
}

static struct tes_agent_job *next_job(struct tes_agent *agent)
	TEI_REQUIRES(agent->mu)
{
	tei_list_for_each (pos, &agent->turns) {
		struct tes_agent_session *s =
			tei_list_entry(pos, struct tes_agent_session, turn);
		struct tes_agent_job *job;

		if (s->n_running >= most_of_one(agent))
			continue;
		job = first_of(agent, s);
		if (!job)
			continue;
		tei_list_del(&s->turn);
		s->n_running++;
		agent->n_running++;
		agent->walking = agent->walking || is_walk(job);
		tei_list_del(&job->of_queue);
		if (!tei_list_empty(&s->queue))
			tei_list_add_tail(&agent->turns, &s->turn);
		return job;
	}
	return NULL;
}

static void session_job_over(struct tes_agent_job *job);

static void on_done(struct tei_call *call)
{
	session_job_over(TEI_CONTAINER(call, struct tes_agent_job, post));
}

static void finish_job(struct tes_agent *agent, struct tes_agent_job *job)
{
	struct tes_agent_session *s = job->session;

	tei_mutex_lock(&agent->mu);
	s->n_running--;
	if (is_walk(job))
		agent->walking = false;
	tei_mutex_unlock(&agent->mu);
	job->post.fn = on_done;
	(void)tei_loop_post(agent->loop, &job->post);
	/* The loop may have freed job and session by now. */
	tei_mutex_lock(&agent->mu);
	agent->n_running--;
	tei_cond_broadcast(&agent->work);
	tei_mutex_unlock(&agent->mu);
}

static struct tes_agent_session *next_gone(struct tes_agent *agent)
	TEI_REQUIRES(agent->mu)
{
	struct tei_list *node = tei_list_pop(&agent->gone);

	if (!node)
		return NULL;
	agent->n_running++;
	return tei_list_entry(node, struct tes_agent_session, turn);
}

static void session_unmapped(struct tes_agent_session *s);

static void on_unmapped(struct tei_call *call)
{
	session_unmapped(TEI_CONTAINER(call, struct tes_agent_session, post));
}

static void session_unmap(struct tes_agent_session *s);

static void unmap(struct tes_agent *agent, struct tes_agent_session *s)
{
	session_unmap(s);
	s->post.fn = on_unmapped;
	(void)tei_loop_post(agent->loop, &s->post);
	tei_mutex_lock(&agent->mu);
	agent->n_running--;
	tei_cond_broadcast(&agent->work);
	tei_mutex_unlock(&agent->mu);
}

/* Waits for a job or a session to unmap. False: the agent stops. */
static bool await_job(struct tes_agent *agent, struct tes_agent_job **job,
		      struct tes_agent_session **gone)
{
	bool stopping;

	*job = NULL;
	*gone = NULL;
	tei_mutex_lock(&agent->mu);
	while (!agent->stopping && !(*gone = next_gone(agent)) &&
	       !(*job = next_job(agent)))
		(void)tei_cond_wait(&agent->work, &agent->mu, UINT64_MAX);
	stopping = agent->stopping;
	tei_mutex_unlock(&agent->mu);
	return !stopping;
}

static void *serve_session(void *arg)
{
	struct tes_agent *agent = arg;
	struct tes_agent_session *gone;
	struct tes_agent_job *job;

	while (await_job(agent, &job, &gone)) {
		if (gone) {
			unmap(agent, gone);
			continue;
		}
		tes_agent_serve(agent, job);
		finish_job(agent, job);
	}
	return NULL;
}

int tes_workers_start(struct tes_agent *agent, unsigned int n)
{
	int rc;

	if (n > TES_AGENT_THREADS_MAX)
		n = TES_AGENT_THREADS_MAX;
	/* Before the first one looks at it. */
	agent->n_threads = n;
	for (unsigned int i = 0; i < n; i++) {
		rc = tei_thread_start(&agent->threads[i], "te-agent",
				      serve_session, agent);
		if (!rc)
			continue;
		(void)tes_workers_quiet(agent, UINT64_MAX);
		agent->n_threads = i;
		tes_workers_join(agent);
		return rc;
	}
	return 0;
}

bool tes_workers_quiet(struct tes_agent *agent, uint64_t deadline_ns)
{
	bool quiet;

	tei_mutex_lock(&agent->mu);
	agent->stopping = true;
	tei_cond_broadcast(&agent->work);
	while (agent->n_running &&
	       tei_cond_wait(&agent->work, &agent->mu, deadline_ns))
		;
	quiet = !agent->n_running;
	tei_mutex_unlock(&agent->mu);
	return quiet;
}

void tes_workers_join(struct tes_agent *agent)
{
	for (unsigned int i = 0; i < agent->n_threads; i++)
		(void)pthread_join(agent->threads[i], NULL);
	agent->n_threads = 0;
}

static void workers_add(struct tes_agent_job *job)
{
	struct tes_agent_session *s = job->session;
	struct tes_agent *agent = s->agent;

	tei_mutex_lock(&agent->mu);
	tei_list_add_tail(&s->queue, &job->of_queue);
	if (tei_list_empty(&s->turn))
		tei_list_add_tail(&agent->turns, &s->turn);
	tei_cond_signal(&agent->work);
	tei_mutex_unlock(&agent->mu);
}

/* Unmap the memory of a session that is over. False: workers are stopping. */
static bool workers_unmap(struct tes_agent_session *s)
{
	struct tes_agent *agent = s->agent;
	bool taken;

	tei_mutex_lock(&agent->mu);
	taken = !agent->stopping;
	if (taken) {
		tei_list_add_tail(&agent->gone, &s->turn);
		tei_cond_signal(&agent->work);
	}
	tei_mutex_unlock(&agent->mu);
	return taken;
}

/* False: a worker has it already. */
static bool workers_take_back(struct tes_agent_job *job)
{
	struct tes_agent_session *s = job->session;
	struct tes_agent *agent = s->agent;
	bool queued;

	tei_mutex_lock(&agent->mu);
	queued = !tei_list_empty(&job->of_queue);
	tei_list_del(&job->of_queue);
	if (tei_list_empty(&s->queue))
		tei_list_del(&s->turn);
	tei_mutex_unlock(&agent->mu);
	return queued;
}

#define ARENA_MAX (16u << 20) /* of a job: request, columns and answer */
#define EXITING   0x4u        /* PF_EXITING, of the flags in /proc/PID/stat */

/* ---- jobs ---- */

static void free_job(struct tes_agent_job *job)
{
	tei_arena_fini(&job->arena);
	tei_free(job->body);
	tei_free(job);
}

/* Let go of its memory; nobody uses it any more. Any thread. */
static void session_unmap(struct tes_agent_session *s)
{
	agent_memory_unmap(s->agent->store, &s->memory);
	tes_agent_buffers_destroy(s->buffers);
	s->buffers = NULL;
}

/* Frees a session whose memory is unmapped. */
static void session_unmapped(struct tes_agent_session *s)
{
	struct tes_agent *agent = s->agent;

	agent->leaving_bytes -= s->memory.length;
	agent->n_leaving--;
	tei_list_del(&s->link);
	tei_free(s);
}

/* A worker unmaps its memory: that may block. */
static void free_session(struct tes_agent_session *s)
{
	if (workers_unmap(s))
		return;
	session_unmap(s);
	session_unmapped(s);
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
		/* The workers were asked to end, and have. */
		tei_list_del(&s->turn);
		session_unmap(s);
		session_unmapped(s);
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
	if (s->n_jobs)
		return;
	if (s->ended)
		free_session(s);
	else if (s->leaving)
		tes_session_end(s);
}

/* @job is over, by its worker or because it was dropped. */
static void session_job_over(struct tes_agent_job *job)
{
	struct tes_agent_conn *conn = job->conn;
	bool sent;

	sent = conn && job->answer &&
	       !tei_frame_reply(conn->frames, &job->frame, job->answer);
	/* The dummy must not wait for an answer that cannot be sent. */
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

	return !s->leaving && conn->n_jobs < TES_AGENT_JOBS_MAX &&
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
	if (s->leaving && conn->n_jobs)
		return; /* the end of the connection is its answer */
	job = has_room(conn, f->len) ? create_job(conn, f) : NULL;
	if (!job) {
		tei_frame_refuse_for_now(frames, "too many calls at a time");
		return;
	}
	tei_list_add_tail(&conn->jobs, &job->of_conn);
	s->used_ns = job->since_ns;
	conn->n_jobs++;
	s->n_jobs++;
	s->queued_bytes += job->len;
	s->agent->queued_bytes += job->len;
	workers_add(job);
}

/* Drops calls that wait; calls that run will find no connection to answer. */
static void close_conn(struct tes_agent_conn *conn)
{
	struct tei_list *node;

	tei_list_del(&conn->link);
	conn->session->n_conns--;
	while ((node = tei_list_pop(&conn->jobs))) {
		struct tes_agent_job *job =
			tei_list_entry(node, struct tes_agent_job, of_conn);

		job->conn = NULL;
		if (workers_take_back(job))
			forget_job(job);
	}
	tei_frame_close(conn->frames);
	tei_free(conn);
}

/*
 * True: the dummy's process ends or has ended; its sockets close before its
 * pidfd becomes readable. Only a figure depends on it, so unknown counts as
 * alive.
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
	s->used_ns = tei_now_ns();
	s->n_conns++;
}

/* ---- who makes way ---- */

/*
 * Sessions, memory and descriptors are limited, and who came first must not
 * keep them from those who come later. So the user who has most makes way,
 * there the process that has most, and of its sessions the one that has been
 * idle for longest; a call under way protects those of a process with little.
 * A dummy opens another session when it calls again. Processes whose number
 * cannot be seen from here are one to us, for each user.
 */

#define LITTLE      8  /* a process has less than that part of a limit */
#define CONNS_LEAST 16 /* for want of descriptors nobody with fewer goes */

enum share { SHARE_SESSIONS, SHARE_MEMORY, SHARE_CONNS };

struct candidate {
	struct tes_agent_session *session;
	uint64_t of_user, of_process;
};

static uint64_t weight(const struct tes_agent_session *s, enum share share)
{
	switch (share) {
	case SHARE_MEMORY:
		return s->memory.length;
	case SHARE_CONNS:
		return s->n_conns;
	case SHARE_SESSIONS:
		break;
	}
	return 1;
}

static void add_weight(struct candidate *c, const struct tes_agent_session *s,
		       enum share share)
{
	if (s->uid != c->session->uid)
		return;
	c->of_user += weight(s, share);
	if (s->pid == c->session->pid)
		c->of_process += weight(s, share);
}

/* Adds up what its user and process have, with what @comer, if any, wants. */
static struct candidate candidate_of(struct tes_agent_session *s,
				     enum share share,
				     const struct tes_agent_session *comer)
{
	struct candidate c = {.session = s};

	tei_list_for_each (pos, &s->agent->sessions) {
		const struct tes_agent_session *other =
			tei_list_entry(pos, struct tes_agent_session, link);

		if (!other->leaving && !other->chosen)
			add_weight(&c, other, share);
	}
	if (comer)
		add_weight(&c, comer, share);
	return c;
}

/* Memory that is all given out in equal parts stays where it is. */
static bool may_go(const struct candidate *c, enum share share,
		   const struct candidate *comer)
{
	const struct tes_agent_session *s = c->session;
	uint64_t limit = TES_AGENT_SESSIONS_MAX;

	if (!comer)
		return c->of_process >= CONNS_LEAST;
	if (s->uid != comer->session->uid)
		return c->of_user > comer->of_user;
	if (share == SHARE_MEMORY)
		limit = s->agent->memory_max;
	if (s->n_jobs && c->of_process < limit / LITTLE)
		return false;
	return share == SHARE_MEMORY ? c->of_process > comer->of_process
				     : c->of_process >= comer->of_process;
}

static bool goes_before(const struct candidate *a, const struct candidate *b)
{
	bool busy = a->session->n_jobs != 0;

	if (a->of_user != b->of_user)
		return a->of_user > b->of_user;
	if (a->of_process != b->of_process)
		return a->of_process > b->of_process;
	if (busy != (b->session->n_jobs != 0))
		return !busy;
	return a->session->used_ns < b->session->used_ns;
}

/* Frees the place of @s; its memory is counted apart until it is unmapped. */
static void discount_session(struct tes_agent_session *s)
{
	if (s->leaving)
		return;
	s->leaving = true;
	s->agent->n_sessions--;
	s->agent->n_leaving++;
	s->agent->memory_bytes -= s->memory.length;
	s->agent->leaving_bytes += s->memory.length;
}

/*
 * Has @s make way. Its calls that run go on, and only then does it end: the end
 * of a connection says that nobody touches the dummy's memory.
 */
static void retire_session(struct tes_agent_session *s)
{
	s->agent->stats.made_way++;
	discount_session(s);
	s->n_jobs++; /* it stays until we are through with it */
	tei_list_for_each (pos, &s->conns) {
		struct tes_agent_conn *conn =
			tei_list_entry(pos, struct tes_agent_conn, link);

		tei_list_for_each_safe (at, tmp, &conn->jobs) {
			struct tes_agent_job *job = tei_list_entry(
				at, struct tes_agent_job, of_conn);

			if (workers_take_back(job))
				forget_job(job);
		}
	}
	if (--s->n_jobs == 0)
		tes_session_end(s);
}

/*
 * Finds the session that is to make way for @comer, which is in no list, or,
 * with NULL, for want of descriptors. NULL: there is none.
 */
static struct tes_agent_session *choose_session(const struct tes_agent *agent,
						enum share share,
						struct tes_agent_session *comer)
{
	struct candidate best = {.of_user = 0}, its = {.of_user = 0};

	if (comer)
		its = candidate_of(comer, share, comer);
	tei_list_for_each (pos, &agent->sessions) {
		struct tes_agent_session *s =
			tei_list_entry(pos, struct tes_agent_session, link);
		struct candidate c = candidate_of(s, share, comer);

		if (!s->leaving && !s->chosen &&
		    may_go(&c, share, comer ? &its : NULL) &&
		    (!best.session || goes_before(&c, &best)))
			best = c;
	}
	return best.session;
}

/* Retires @s, whose process has most of what @what names. */
static void make_way(struct tes_agent_session *s, const char *what)
{
	if (tei_log_allowed(&s->agent->made_way))
		LOG_WARN("dummies: a session of pid %d, uid %u makes way, idle "
			 "for %llu ms: its process has more %s than others",
			 (int)s->pid, (unsigned int)s->uid,
			 (unsigned long long)((tei_now_ns() - s->used_ns) /
					      TEI_NS_PER_MS),
			 what);
	retire_session(s);
}

/* True: one that makes way gives descriptors back when its calls are over. */
static bool any_are_coming(const struct tes_agent *agent)
{
	tei_list_for_each (pos, &agent->sessions) {
		const struct tes_agent_session *s =
			tei_list_entry(pos, struct tes_agent_session, link);

		if (s->leaving && s->n_conns)
			return true;
	}
	return false;
}

bool tes_session_make_way(struct tes_agent *agent)
{
	struct tes_agent_session *s = NULL;

	if (!any_are_coming(agent))
		s = choose_session(agent, SHARE_CONNS, NULL);
	if (!s)
		return false;
	make_way(s, "connections");
	return true;
}

/* Chooses who makes way, so that there is room for @comer. */
static enum tes_greeting_status choose_sessions(struct tes_agent *agent,
						struct tes_agent_session *comer)
{
	uint64_t left = agent->memory_max - agent->memory_bytes;
	unsigned int n = agent->n_sessions;
	struct tes_agent_session *s;

	for (; n >= TES_AGENT_SESSIONS_MAX; n--) {
		s = choose_session(agent, SHARE_SESSIONS, comer);
		if (!s)
			return TES_GREETING_CROWD;
		s->chosen = true;
		left += s->memory.length;
	}
	while (comer->memory.length > left) {
		s = choose_session(agent, SHARE_MEMORY, comer);
		if (!s)
			return TES_GREETING_NO_MEMORY;
		s->chosen = true;
		left += s->memory.length;
	}
	return TES_GREETED;
}

/*
 * Finds room for @comer. What is to be unmapped yet is limited by itself, so
 * that room is there at once. Nobody has to go where that does not suffice.
 */
static enum tes_greeting_status make_room(struct tes_agent *agent,
					  struct tes_agent_session *comer)
{
	bool is_crowd = agent->n_sessions >= TES_AGENT_SESSIONS_MAX;
	enum tes_greeting_status status;

	if (agent->n_leaving >= TES_AGENT_SESSIONS_MAX)
		return TES_GREETING_CROWD;
	if (comer->memory.length > agent->memory_max ||
	    agent->leaving_bytes > agent->memory_max)
		return TES_GREETING_NO_MEMORY;
	status = choose_sessions(agent, comer);
	tei_list_for_each_safe (pos, tmp, &agent->sessions) {
		struct tes_agent_session *s =
			tei_list_entry(pos, struct tes_agent_session, link);

		if (s->chosen && !status)
			make_way(s, is_crowd ? "sessions" : "memory");
		else
			s->chosen = false;
	}
	return status;
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

/*
 * Watches for the end of the process; without a pidfd its connections tell. 0,
 * -ESRCH: dead already.
 */
static int watch_session(struct tes_agent_session *s)
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

static struct tes_agent_session *create(struct tes_agent *agent,
					const struct ucred *cred)
{
	struct tes_agent_session *s = tei_calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->agent = agent;
	s->uid = cred->uid;
	s->pid = cred->pid;
	s->used_ns = tei_now_ns();
	tei_list_init(&s->link);
	tei_list_init(&s->conns);
	tei_list_init(&s->queue);
	tei_list_init(&s->turn);
	if (RAND_bytes(s->token, sizeof(s->token)) == 1)
		return s;
	tei_free(s);
	return NULL;
}

/* Makes @s one of the agent's; watch_session() is next. */
static void enlist_session(struct tes_agent_session *s)
{
	struct tes_agent *agent = s->agent;

	s->id = ++agent->last_session;
	s->memory.id = ++agent->last_memory;
	agent->memory_bytes += s->memory.length;
	agent->n_sessions++;
	agent->stats.sessions_total++;
	tei_list_add_tail(&agent->sessions, &s->link);
}

enum tes_greeting_status tes_session_open(struct tes_agent *agent, int fd,
					  uint64_t length,
					  const struct ucred *cred,
					  struct tes_agent_session **out)
{
	enum tes_greeting_status status;
	struct tes_agent_session *s;
	int rc;

	if (length > agent->memory_each_max)
		return TES_GREETING_TOO_LARGE;
	if (!is_memory(fd, length))
		return TES_GREETING_MEMORY;
	s = create(agent, cred);
	if (!s)
		return TES_GREETING_NO_MEMORY;
	s->memory.length = length;
	status = make_room(agent, s);
	if (status) {
		tei_free(s);
		return status;
	}
	rc = agent_memory_map(agent->store, fd, length, &s->memory);
	if (rc) {
		tei_free(s);
		return rc == -EINVAL ? TES_GREETING_MEMORY
				     : TES_GREETING_NO_MEMORY;
	}
	enlist_session(s);
	if (watch_session(s)) {
		tes_session_end(s);
		return TES_GREETING_NO_SESSION;
	}
	LOG_DEBUG("dummy %llu: process %d, %llu bytes",
		  (unsigned long long)s->id, (int)s->pid,
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

		if (s->id != g->session || s->leaving || s->pid != pid ||
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
	discount_session(s);
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
