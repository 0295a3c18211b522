/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.c - a connection's life: connect, calls, deadlines, close
 *
 * A connection has one timer event for all its deadlines and for everything
 * that must not happen inside a call of the user. It may fire too early, never
 * too late: deadlines that move back leave it armed.
 */
#include "base/frame.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/frame_private.h"
#include "base/mem.h"
#include "base/net.h"
#include "base/thread.h"

/* Time that one connection may read while others wait to. */
#define READ_NS (TEI_NS_PER_MS / 50)

/* ---- state of a connection ---- */

void tei_frame_enter(struct tei_frame_conn *conn)
{
	conn->busy++;
}

static void free_conn(struct tei_frame_conn *conn)
{
	tei_alarm_clear(&conn->tick);
	tei_list_del(&conn->orphan.link);
	assert(tei_list_empty(&conn->calls));
	tei_heap_fini(&conn->due);
	tei_free(conn->text);
	tei_free(conn);
}

void tei_frame_leave(struct tei_frame_conn *conn)
{
	if (--conn->busy == 0 && conn->closed && conn->state == TEI_FRAME_ENDED)
		free_conn(conn);
}

uint64_t tei_frame_due_ms(uint64_t timeout_ms)
{
	uint64_t due;

	/* Add one: the clock's millisecond has begun already. */
	if (__builtin_add_overflow(tei_now_ms() + 1, timeout_ms, &due))
		return TEI_FRAME_NEVER;
	return due;
}

/* Look at deadlines at @at_ms at the latest. */
static void tick_at(struct tei_frame_conn *conn, uint64_t at_ms)
{
	uint64_t now = tei_now_ms();

	if (at_ms >= conn->tick_ms)
		return;
	if (tei_alarm_set(&conn->tick, at_ms > now ? at_ms - now : 0) == 0)
		conn->tick_ms = at_ms;
}

void tei_frame_tick_now(struct tei_frame_conn *conn)
{
	tei_alarm_now(&conn->tick);
}

void tei_frame_count(struct tei_frame_conn *conn, enum tei_frame_fault fault)
{
	if (!conn->closed && conn->ops->fault)
		conn->ops->fault(fault, conn->arg);
}

/*
 * ---- calls in flight ----
 *
 * They stand in a list in the order of their ids. Peers answer mostly in
 * order, so the search from the front is short.
 */

static void remove_call(struct tei_frame_conn *conn,
			struct tei_frame_call *call)
{
	tei_list_del(&call->link);
	tei_heap_remove(&conn->due, &call->due);
	if (conn->due.n == 0)
		tei_heap_fini(&conn->due); /* an idle connection is small */
}

static struct tei_frame_call *find_call(struct tei_frame_conn *conn,
					uint64_t id)
{
	tei_list_for_each (pos, &conn->calls) {
		struct tei_frame_call *call;

		call = TEI_CONTAINER(pos, struct tei_frame_call, link);
		if (call->id >= id)
			return call->id == id ? call : NULL;
	}
	return NULL;
}

void tei_frame_answer(struct tei_frame_conn *conn, const struct tei_frame *f)
{
	struct tei_frame_call *call = find_call(conn, f->id);

	if (!call)
		return; /* it was late or taken back */
	remove_call(conn, call);
	call->done(call, 0, f);
}

static void answer_all_calls(struct tei_frame_conn *conn, int err)
{
	while (!tei_list_empty(&conn->calls)) {
		struct tei_frame_call *call;

		call = TEI_CONTAINER(conn->calls.next, struct tei_frame_call,
				     link);
		remove_call(conn, call);
		call->done(call, err, NULL);
	}
}

static void expire_calls(struct tei_frame_conn *conn, uint64_t now_ms)
{
	struct tei_heap_node *top;

	while ((top = tei_heap_top(&conn->due)) && top->at <= now_ms) {
		struct tei_frame_call *call;

		call = TEI_CONTAINER(top, struct tei_frame_call, due);
		remove_call(conn, call);
		call->done(call, -ETIMEDOUT, NULL);
	}
}

int tei_frame_call(struct tei_frame_conn *conn, struct tei_frame_call *call,
		   uint16_t type, const struct ProtobufCMessage *msg,
		   uint64_t timeout_ms)
{
	uint64_t due = tei_frame_due_ms(timeout_ms);
	int rc;

	call->due.place = 0;
	tei_list_init(&call->link);
	rc = tei_heap_add(&conn->due, &call->due, due);
	if (rc)
		return rc;
	call->id = ++conn->last_id;
	tei_list_add_tail(&conn->calls, &call->link);
	rc = tei_frame_send(conn, type, 0, call->id, msg);
	if (rc)
		remove_call(conn, call);
	else if (due != TEI_FRAME_NEVER)
		tick_at(conn, due);
	return rc;
}

void tei_frame_call_cancel(struct tei_frame_conn *conn,
			   struct tei_frame_call *call)
{
	remove_call(conn, call);
}

/* ---- end, deadlines, events ---- */

/* Takes the socket from @conn and returns it. */
static int leave_wire(struct tei_frame_conn *conn)
{
	int fd = conn->fd;

	event_del(&conn->readable);
	event_del(&conn->writable);
	conn->fd = -1;
	tei_frame_drop_input(conn);
	tei_frame_drop_output(conn);
	tei_frame_leave_server(conn);
	conn->state = TEI_FRAME_ENDED;
	return fd;
}

static void end_wire(struct tei_frame_conn *conn)
{
	int fd = leave_wire(conn);

	/* A forked child has it too, so close() alone would not end it. */
	(void)shutdown(fd, SHUT_RDWR);
	close(fd);
}

void tei_frame_end(struct tei_frame_conn *conn, int err)
{
	assert(conn->busy > 0);
	if (conn->state == TEI_FRAME_ENDED)
		return;
	end_wire(conn);
	if (!conn->err)
		conn->err = err;
	if (!conn->reported && !conn->closed)
		tei_frame_tick_now(conn);
}

static void report_end(struct tei_frame_conn *conn)
{
	conn->reported = true;
	answer_all_calls(conn, conn->err);
	if (!conn->closed)
		conn->ops->down(conn, conn->err, conn->text, conn->arg);
}

static void step_is_late(struct tei_frame_conn *conn)
{
	conn->step_ms = conn->part_ms = TEI_FRAME_NEVER;
	if (conn->state == TEI_FRAME_UP)
		tei_frame_count(conn, TEI_FRAME_TIMEOUT);
	tei_frame_end(conn, -ETIMEDOUT);
}

void tei_frame_rearm(struct tei_frame_conn *conn)
{
	struct tei_heap_node *top = tei_heap_top(&conn->due);

	if (conn->step_ms != TEI_FRAME_NEVER)
		tick_at(conn, conn->step_ms);
	if (conn->part_ms != TEI_FRAME_NEVER)
		tick_at(conn, conn->part_ms);
	if (top && top->at != TEI_FRAME_NEVER)
		tick_at(conn, top->at);
}

static void on_tick(void *arg)
{
	struct tei_frame_conn *conn = arg;
	uint64_t now = tei_now_ms();

	conn->tick_ms = TEI_FRAME_NEVER;
	tei_frame_enter(conn);
	if (conn->broken && conn->state == TEI_FRAME_UP) {
		/* Why it was reset may be unread. */
		(void)tei_frame_receive(conn);
		tei_frame_end(conn, -conn->broken);
	}
	if (conn->n_stash && !conn->paused && !conn->deferred)
		(void)tei_frame_receive(conn);
	if (now >= conn->step_ms || now >= conn->part_ms)
		step_is_late(conn);
	expire_calls(conn, now);
	if (conn->err && !conn->reported && !conn->closed)
		report_end(conn);
	tei_frame_rearm(conn);
	tei_frame_leave(conn);
}

/*
 * Tells whether it is @conn's turn. The system tells of sockets in an order
 * that stays the same for those that have something to read each time that it
 * is asked. So where a turn was too short for somebody, who has had READ_NS
 * does not read again before all others have.
 */
static bool may_read(struct tei_frame_conn *conn)
{
	struct tei_frame_server *server = conn->server;
	uint64_t turn = tei_loop_turn(conn->loop);

	if (!server || !turn) /* of a loop that is not measured */
		return !tei_frame_is_late(conn);
	if (server->turn != turn) {
		server->turn = turn;
		server->round += !server->late;
		server->late = false;
	}
	if (conn->round == server->round && conn->read_ns >= READ_NS)
		return false;
	if (tei_frame_is_late(conn)) {
		server->late = true;
		return false;
	}
	if (conn->round != server->round)
		conn->read_ns = 0;
	conn->round = server->round;
	return true;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct tei_frame_conn *conn = arg;
	uint64_t since_ns;

	(void)what;
	tei_loop_note(conn->loop);
	tei_loop_reads(conn->loop, fd);
	if (!may_read(conn))
		return; /* level-triggered: comes again */
	since_ns = tei_loop_turn_ns(conn->loop);
	tei_frame_enter(conn);
	(void)tei_frame_receive(conn);
	conn->read_ns += tei_loop_turn_ns(conn->loop) - since_ns;
	tei_frame_leave(conn);
}

void tei_frame_low_water(struct tei_frame_conn *conn, int bytes)
{
	(void)setsockopt(conn->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes,
			 sizeof(bytes)); /* else it is read as it comes */
}

bool tei_frame_read(struct tei_frame_conn *conn)
{
	bool more;

	if (conn->state != TEI_FRAME_UP || conn->paused)
		return false;
	tei_frame_enter(conn);
	more = tei_frame_receive(conn);
	tei_frame_leave(conn);
	return more;
}

/*
 * A connection from a port to itself comes about when nobody listens and the
 * kernel happens to choose the target as source port.
 */
static bool is_own_echo(int fd)
{
	struct tei_address own, peer;

	return tei_socket_ends(fd, &own, &peer) && own.len == peer.len &&
	       memcmp(&own.ss, &peer.ss, own.len) == 0;
}

static int connect_result(int fd)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -errno;
	if (!err && is_own_echo(fd))
		err = ECONNREFUSED;
	return -err;
}

static void connect_done(struct tei_frame_conn *conn)
{
	int rc = connect_result(conn->fd);

	event_del(&conn->writable);
	if (!rc && event_add(&conn->readable, NULL))
		rc = -ENOMEM;
	if (rc) {
		tei_frame_end(conn, rc);
		return;
	}
	conn->state = TEI_FRAME_UP;
	conn->step_ms = TEI_FRAME_NEVER;
	if (conn->ops->up)
		conn->ops->up(conn, conn->arg);
	if (conn->state == TEI_FRAME_UP)
		tei_frame_flush(conn);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct tei_frame_conn *conn = arg;

	(void)fd;
	(void)what;
	tei_loop_note(conn->loop);
	tei_frame_enter(conn);
	if (conn->state == TEI_FRAME_CONNECTING)
		connect_done(conn);
	else
		tei_frame_flush(conn);
	tei_frame_leave(conn);
}

static void on_orphan(struct tei_loop_orphan *orphan)
{
	struct tei_frame_conn *conn;

	conn = TEI_CONTAINER(orphan, struct tei_frame_conn, orphan);
	tei_frame_enter(conn);
	tei_frame_end(conn, -ECANCELED);
	tei_frame_leave(conn);
}

static void set_options(int fd)
{
	int on = 1, idle_s = 15, interval_s = 5, n = 3;
	unsigned int unread_ms = 30000;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/* A host that vanished is noticed in half a minute at the latest. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s,
		   sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof(n));
	/* Also while something is on its way to it. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unread_ms,
		   sizeof(unread_ms));
}

struct tei_frame_conn *
tei_frame_create(struct tei_loop *loop,
		 const struct tei_frame_protocol *protocol, int fd,
		 const struct tei_address *peer,
		 const struct tei_frame_ops *ops, void *arg)
{
	struct event_base *base = tei_loop_base(loop);
	struct tei_frame_conn *conn;

	conn = tei_calloc(1, sizeof(*conn));
	if (!conn) {
		close(fd);
		return NULL;
	}
	conn->loop = loop;
	conn->protocol = protocol;
	conn->ops = ops;
	conn->arg = arg;
	conn->fd = fd;
	conn->peer = *peer;
	conn->tick_ms = conn->step_ms = conn->part_ms = TEI_FRAME_NEVER;
	conn->orphan.fn = on_orphan;
	tei_list_init(&conn->link);
	tei_list_init(&conn->of_holder);
	for (int i = 0; i < TEI_FRAME_MEMORIES; i++)
		tei_list_init(&conn->usage[i].link);
	tei_list_init(&conn->calls);
	tei_list_init(&conn->orphan.link);
	tei_heap_init(&conn->due);
	/* These fail only for a base that the loop never makes. */
	event_assign(&conn->readable, base, fd, EV_READ | EV_PERSIST,
		     on_readable, conn);
	event_assign(&conn->writable, base, fd, EV_WRITE | EV_PERSIST,
		     on_writable, conn);
	tei_alarm_init(&conn->tick, loop, on_tick, conn);
	set_options(fd);
	return conn;
}

static int open_socket(int family)
{
	int fd;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd < 0 ? -errno : fd;
}

int tei_frame_connect(struct tei_loop *loop,
		      const struct tei_frame_protocol *protocol,
		      const struct tei_address *to, uint64_t timeout_ms,
		      const struct tei_frame_ops *ops, void *arg,
		      struct tei_frame_conn **out)
{
	struct tei_frame_conn *conn;
	int fd;

	TEI_DEBUG_ASSERT(tei_loop_is_mine(loop));
	fd = open_socket(to->ss.ss_family);
	if (fd < 0)
		return fd;
	conn = tei_frame_create(loop, protocol, fd, to, ops, arg);
	if (!conn)
		return -ENOMEM;
	conn->outgoing = true;
	conn->state = TEI_FRAME_CONNECTING;
	tei_frame_enter(conn);
	conn->step_ms = tei_frame_due_ms(timeout_ms);
	tei_frame_rearm(conn);
	if (connect(fd, (const struct sockaddr *)&to->ss, to->len) &&
	    errno != EINPROGRESS && errno != EINTR)
		tei_frame_end(conn, -errno);
	else if (event_add(&conn->writable, NULL))
		tei_frame_end(conn, -ENOMEM);
	tei_frame_leave(conn);
	*out = conn;
	return 0;
}

int tei_frame_adopt(struct tei_loop *loop,
		    const struct tei_frame_protocol *protocol, int fd,
		    const struct tei_frame_ops *ops, void *arg,
		    struct tei_frame_conn **out)
{
	const struct tei_address nobody = {.len = 0};
	struct tei_frame_conn *conn;

	TEI_DEBUG_ASSERT(tei_loop_is_mine(loop));
	(void)evutil_make_socket_nonblocking(fd);
	conn = tei_frame_create(loop, protocol, fd, &nobody, ops, arg);
	if (!conn)
		return -ENOMEM;
	conn->state = TEI_FRAME_UP;
	if (event_add(&conn->readable, NULL)) {
		tei_frame_close(conn);
		return -ENOMEM;
	}
	*out = conn;
	return 0;
}

void tei_frame_close(struct tei_frame_conn *conn)
{
	assert(!conn->closed);
	tei_frame_enter(conn);
	conn->closed = true;
	answer_all_calls(conn, -ECANCELED);
	if (conn->state == TEI_FRAME_UP)
		tei_frame_flush(conn);
	if (conn->state == TEI_FRAME_REFUSING)
		tei_loop_adopt(conn->loop, &conn->orphan);
	else
		tei_frame_end(conn, -ECANCELED);
	tei_frame_leave(conn);
}

int tei_frame_detach(struct tei_frame_conn *conn)
{
	int fd;

	if (!tei_frame_is_open(conn) || conn->state != TEI_FRAME_UP ||
	    conn->broken)
		return -ENOTCONN;
	if (conn->n_out)
		return -EBUSY;
	tei_frame_enter(conn);
	conn->closed = true;
	fd = leave_wire(conn);
	answer_all_calls(conn, -ECANCELED);
	tei_frame_leave(conn);
	return fd;
}

static void begin_refusal(struct tei_frame_conn *conn, uint16_t flags,
			  const char *text)
{
	size_t len = strnlen(text, TEI_FRAME_TEXT_MAX);
	int rc;

	if (!tei_frame_is_open(conn))
		return;
	tei_frame_enter(conn);
	rc = conn->state == TEI_FRAME_CONNECTING
		     ? -EPROTO
		     : tei_frame_queue(conn, TEI_FRAME_REFUSED, flags, 0, text,
				       len);
	if (rc) {
		tei_frame_end(conn, -EPROTO);
	} else {
		conn->state = TEI_FRAME_REFUSING;
		conn->err = -EPROTO;
		conn->step_ms = tei_frame_due_ms(TEI_FRAME_LINGER_MS);
		if (conn->deferred) /* reads on, to see the peer's end */
			(void)event_add(&conn->readable, NULL);
		tei_frame_drop_input(conn);
		tei_frame_flush(conn);
		tei_frame_tick_now(conn);
	}
	tei_frame_leave(conn);
}

void tei_frame_refuse(struct tei_frame_conn *conn, const char *text)
{
	begin_refusal(conn, 0, text);
}

void tei_frame_refuse_for_now(struct tei_frame_conn *conn, const char *text)
{
	begin_refusal(conn, TEI_FRAME_RETRY, text);
}

void tei_frame_bad(struct tei_frame_conn *conn, const char *text)
{
	tei_frame_enter(conn);
	tei_frame_count(conn, TEI_FRAME_BAD_BODY);
	tei_frame_refuse(conn, text);
	tei_frame_leave(conn);
}

void tei_frame_set_ops(struct tei_frame_conn *conn,
		       const struct tei_frame_ops *ops, void *arg)
{
	conn->ops = ops;
	conn->arg = arg;
}

void tei_frame_expect(struct tei_frame_conn *conn, uint64_t ms)
{
	if (!tei_frame_is_open(conn))
		return;
	conn->step_ms = ms ? tei_frame_due_ms(ms) : TEI_FRAME_NEVER;
	tei_frame_rearm(conn);
}

bool tei_frame_local(const struct tei_frame_conn *conn, struct tei_address *out)
{
	memset(out, 0, sizeof(*out));
	out->len = sizeof(out->ss);
	return conn->fd >= 0 &&
	       !getsockname(conn->fd, (struct sockaddr *)&out->ss, &out->len);
}

const struct tei_address *tei_frame_peer(const struct tei_frame_conn *conn)
{
	return &conn->peer;
}

uint64_t tei_frame_source(const struct tei_frame_conn *conn)
{
	return conn->holder ? conn->holder->source->node.hash : 0;
}

size_t tei_frame_backlog(const struct tei_frame_conn *conn)
{
	return conn->n_out;
}
