/* SPDX-License-Identifier: Apache-2.0 */
/* dummy_shelf.c - values that lie in memory of the daemon's, mapped read-only */
#include "store/client/dummy_shelf.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"

struct shelved {
	struct te_store_buffer buffer;
	struct tei_shelf *shelf; /* a reference */
	uint64_t id;
};

/* ---- the shelf ---- */

/* Without the lock. */
static void destroy(struct tei_shelf *shelf)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&shelf->freed)))
		tei_free(tei_list_entry(node, struct shelved, buffer.link));
	if (shelf->base)
		(void)munmap((void *)(uintptr_t)shelf->base, shelf->length);
	tei_free(shelf);
}

void tei_shelf_put(struct tei_shelf *shelf)
{
	struct tei_dummy *dummy;
	bool last;

	if (!shelf)
		return;
	dummy = shelf->dummy;
	tei_mutex_lock(&dummy->mu);
	last = --shelf->refs == 0;
	tei_mutex_unlock(&dummy->mu);
	if (last)
		destroy(shelf);
}

static void map_memory(struct tei_shelf *shelf, int fd, uint64_t length)
{
	void *at;

	/* It can be mapped without fear, but never written to. */
	if (!length || length > TE_LENGTH_MAX || tei_sealed_check(fd, length))
		return;
	at = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return;
	shelf->base = at;
	shelf->length = length;
}

/* 0: asked, whether there is one or not. Or the daemon did not answer. */
static int ask(struct tei_shelf *shelf, const struct tei_dummy_session *session,
	       uint64_t deadline_ns)
{
	struct tei_greeting g = {
		.version = TEI_AGENT_VERSION,
		.word = TEI_GREETING_BUFFERS,
		.session = session->id,
	};
	int socket = tei_dummy_find(shelf->dummy, deadline_ns), fd = -1, rc;
	unsigned int n_fds;

	if (socket < 0)
		return socket;
	memcpy(g.token, session->token, sizeof(g.token));
	rc = tei_greeting_send(socket, &g, -1);
	if (!rc)
		rc = tei_dummy_await(socket, POLLIN, deadline_ns);
	if (!rc)
		rc = tei_greeting_receive(socket, &g, &fd, &n_fds);
	(void)close(socket);
	if (!rc && fd >= 0 && g.word == TEI_GREETED)
		map_memory(shelf, fd, g.length);
	if (fd >= 0)
		(void)close(fd);
	return rc;
}

static struct tei_shelf *create(struct tei_dummy *dummy,
				const struct tei_dummy_session *session,
				uint64_t deadline_ns)
{
	struct tei_shelf *shelf = tei_calloc(1, sizeof(*shelf));

	if (!shelf)
		return NULL;
	shelf->dummy = dummy;
	memcpy(shelf->token, session->token, sizeof(shelf->token));
	shelf->refs = 1;
	tei_list_init(&shelf->freed);
	if (!ask(shelf, session, deadline_ns))
		return shelf;
	destroy(shelf);
	return NULL;
}

/* Whoever connects is alone with the place that the daemon told. */
static struct tei_shelf *create_alone(struct tei_dummy *dummy,
				      uint64_t deadline_ns)
	TEI_REQUIRES(dummy->mu)
{
	struct tei_dummy_session session = dummy->session;
	struct tei_shelf *shelf;

	dummy->connecting = true;
	tei_mutex_unlock(&dummy->mu);
	shelf = create(dummy, &session, deadline_ns);
	tei_mutex_lock(&dummy->mu);
	dummy->connecting = false;
	tei_cond_broadcast(&dummy->freed);
	return shelf;
}

static bool is_of(const struct tei_shelf *shelf,
		  const struct tei_dummy_conn *conn)
{
	return shelf && !memcmp(shelf->token, conn->token, sizeof(conn->token));
}

struct tei_shelf *tei_shelf_get(struct tei_dummy *dummy,
				const struct tei_dummy_conn *conn,
				uint64_t deadline_ns)
{
	struct tei_shelf *shelf = NULL, *old = NULL;

	tei_mutex_lock(&dummy->mu);
	while (dummy->connecting && !is_of(dummy->shelf, conn))
		if (!tei_dummy_wait_freed(dummy, deadline_ns))
			break;
	if (!is_of(dummy->shelf, conn) && !dummy->connecting &&
	    !memcmp(dummy->session.token, conn->token, sizeof(conn->token))) {
		shelf = create_alone(dummy, deadline_ns);
		if (shelf) {
			old = dummy->shelf;
			dummy->shelf = shelf;
		}
	}
	shelf = NULL;
	if (is_of(dummy->shelf, conn) && dummy->shelf->base) {
		shelf = dummy->shelf;
		shelf->refs++;
	}
	tei_mutex_unlock(&dummy->mu);
	tei_shelf_put(old);
	return shelf;
}

/* ---- buffers ---- */

static void give_back(struct te_store_buffer *buffer)
{
	struct shelved *s = TEI_CONTAINER(buffer, struct shelved, buffer);
	struct tei_shelf *shelf = s->shelf;
	struct tei_dummy *dummy = shelf->dummy;

	tei_mutex_lock(&dummy->mu);
	tei_list_add_tail(&shelf->freed, &buffer->link);
	tei_mutex_unlock(&dummy->mu);
	tei_shelf_put(shelf);
}

struct te_store_buffer *tei_shelf_buffer(struct tei_shelf *shelf,
					 uint64_t offset, uint64_t length,
					 uint64_t id)
{
	struct shelved *s = tei_calloc(1, sizeof(*s));

	if (!s)
		return NULL; /* it goes when the session does */
	tei_list_init(&s->buffer.link);
	s->buffer.length = length;
	s->buffer.release = give_back;
	s->shelf = shelf;
	s->id = id;
	tei_mutex_lock(&shelf->dummy->mu);
	shelf->refs++;
	tei_mutex_unlock(&shelf->dummy->mu);
	if (offset > shelf->length || length > shelf->length - offset) {
		give_back(&s->buffer);
		return NULL;
	}
	s->buffer.data = (uint8_t *)(uintptr_t)(shelf->base + offset);
	return &s->buffer;
}

size_t tei_shelf_take_freed(struct tei_shelf *shelf, struct tei_list *out,
			    uint64_t *ids, size_t max)
{
	size_t n = 0;

	tei_mutex_lock(&shelf->dummy->mu);
	while (n < max && !tei_list_empty(&shelf->freed)) {
		struct tei_list *node = tei_list_pop(&shelf->freed);

		ids[n++] =
			tei_list_entry(node, struct shelved, buffer.link)->id;
		tei_list_add_tail(out, node);
	}
	tei_mutex_unlock(&shelf->dummy->mu);
	return n;
}

void tei_shelf_told(struct tei_shelf *shelf, struct tei_list *taken, bool told)
{
	struct tei_list *node;

	if (!told) {
		tei_mutex_lock(&shelf->dummy->mu);
		tei_list_splice_tail(&shelf->freed, taken);
		tei_mutex_unlock(&shelf->dummy->mu);
		return;
	}
	while ((node = tei_list_pop(taken)))
		tei_free(tei_list_entry(node, struct shelved, buffer.link));
}

/* ---- late answers ---- */

/* All of the answer has come, whose body has *len bytes; or -EAGAIN, the end. */
static int has_come(int fd, size_t *len)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];
	struct tei_reader r;
	int here = 0;
	ssize_t n = recv(fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN
							 : -ECONNRESET;
	if (!n)
		return -ECONNRESET;
	if ((size_t)n < sizeof(head))
		return -EAGAIN;
	tei_reader_init(&r, head, sizeof(head));
	*len = tei_read_u32(&r);
	if (ioctl(fd, FIONREAD, &here) || here < 0)
		return -ECONNRESET;
	return (size_t)here >= sizeof(head) + *len ? 0 : -EAGAIN;
}

static void take_back(struct tei_dummy *dummy, struct tei_shelf *shelf,
		      const Agent__BuffersReply *reply) TEI_REQUIRES(dummy->mu)
{
	(void)dummy;
	for (size_t i = 0; i < reply->n_id; i++) {
		struct shelved *s;

		s = reply->id[i] ? tei_calloc(1, sizeof(*s)) : NULL;
		if (!s)
			continue; /* it goes when the session does */
		s->id = reply->id[i];
		tei_list_add_tail(&shelf->freed, &s->buffer.link);
	}
}

bool tei_shelf_late(struct tei_dummy *dummy, struct tei_dummy_conn *conn)
{
	Agent__BuffersReply *reply;
	struct tei_arena arena;
	const uint8_t *body;
	size_t len;
	int rc = has_come(conn->fd, &len);

	if (rc)
		return rc != -EAGAIN;
	tei_arena_init(&arena, 16u << 20);
	rc = tei_dummy_receive(conn, AGENT__AGENT_TYPE__AGENT_BUFFERS, &arena,
			       tei_now_ns(), &body, &len);
	reply = rc ? NULL : agent__buffers_reply__unpack(&arena.pb, len, body);
	if (reply)
		take_back(dummy, conn->shelf, reply);
	tei_arena_fini(&arena);
	return true;
}
