/* SPDX-License-Identifier: Apache-2.0 */
/* dummy_shelf.c - values that lie in memory of the daemon's, mapped read-only */
#include "store/daemon/dummy_shelf.h"

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
	struct tes_shelf *shelf; /* a reference */
	uint64_t id;
};

/* ---- the shelf ---- */

/* Without the lock. */
static void destroy(struct tes_shelf *shelf)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&shelf->freed)))
		tei_free(tei_list_entry(node, struct shelved, buffer.link));
	if (shelf->base)
		(void)munmap((void *)(uintptr_t)shelf->base, shelf->length);
	tei_free(shelf);
}

void tes_shelf_put(struct tes_shelf *shelf)
{
	struct tes_dummy *dummy;
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

static void map_memory(struct tes_shelf *shelf, int fd, uint64_t length)
{
	void *at;

	/* It can be mapped without fear, but never written to. */
	if (!length || length > TE_LENGTH_MAX || tes_sealed_check(fd, length))
		return;
	at = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return;
	shelf->base = at;
	shelf->length = length;
}

/* 0: asked, whether there is one or not. Or the daemon did not answer. */
static int ask(struct tes_shelf *shelf, const struct tes_dummy_session *session,
	       uint64_t deadline_ns)
{
	struct tes_greeting g = {
		.version = TES_AGENT_VERSION,
		.word = TES_GREETING_BUFFERS,
		.session = session->id,
	};
	int socket = tes_dummy_find(shelf->dummy, deadline_ns), fd = -1, rc;
	unsigned int n_fds;

	if (socket < 0)
		return socket;
	memcpy(g.token, session->token, sizeof(g.token));
	rc = tes_greeting_send(socket, &g, -1);
	if (!rc)
		rc = tes_dummy_await(socket, POLLIN, deadline_ns);
	if (!rc)
		rc = tes_greeting_receive(socket, &g, &fd, &n_fds);
	(void)close(socket);
	if (!rc && fd >= 0 && g.word == TES_GREETED)
		map_memory(shelf, fd, g.length);
	if (fd >= 0)
		(void)close(fd);
	return rc;
}

static struct tes_shelf *create(struct tes_dummy *dummy,
				const struct tes_dummy_session *session,
				uint64_t deadline_ns)
{
	struct tes_shelf *shelf = tei_calloc(1, sizeof(*shelf));

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
static struct tes_shelf *create_alone(struct tes_dummy *dummy,
				      uint64_t deadline_ns)
	TEI_REQUIRES(dummy->mu)
{
	struct tes_dummy_session session = dummy->session;
	struct tes_shelf *shelf;

	dummy->connecting = true;
	tei_mutex_unlock(&dummy->mu);
	shelf = create(dummy, &session, deadline_ns);
	tei_mutex_lock(&dummy->mu);
	dummy->connecting = false;
	tei_cond_broadcast(&dummy->freed);
	return shelf;
}

static bool is_of(const struct tes_shelf *shelf,
		  const struct tes_dummy_conn *conn)
{
	return shelf && !memcmp(shelf->token, conn->token, sizeof(conn->token));
}

struct tes_shelf *tes_shelf_get(struct tes_dummy *dummy,
				const struct tes_dummy_conn *conn,
				uint64_t deadline_ns)
{
	struct tes_shelf *shelf = NULL, *old = NULL;

	tei_mutex_lock(&dummy->mu);
	while (dummy->connecting && !is_of(dummy->shelf, conn))
		if (!tes_dummy_wait_freed(dummy, deadline_ns))
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
	tes_shelf_put(old);
	return shelf;
}

/* ---- buffers ---- */

static void give_back(struct te_store_buffer *buffer)
{
	struct shelved *s = TEI_CONTAINER(buffer, struct shelved, buffer);
	struct tes_shelf *shelf = s->shelf;
	struct tes_dummy *dummy = shelf->dummy;

	tei_mutex_lock(&dummy->mu);
	tei_list_add_tail(&shelf->freed, &buffer->link);
	tei_mutex_unlock(&dummy->mu);
	tes_shelf_put(shelf);
}

struct te_store_buffer *tes_shelf_buffer(struct tes_shelf *shelf,
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

size_t tes_shelf_take_freed(struct tes_shelf *shelf, struct tei_list *out,
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

void tes_shelf_told(struct tes_shelf *shelf, struct tei_list *taken, bool told)
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

static void take_back(struct tes_dummy *dummy, struct tes_shelf *shelf,
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

bool tes_shelf_late(struct tes_dummy *dummy, struct tes_dummy_conn *conn)
{
	Agent__BuffersReply *reply;
	struct tei_arena arena;
	const uint8_t *body;
	size_t len;
	int rc = has_come(conn->fd, &len);

	if (rc)
		return rc != -EAGAIN;
	tei_arena_init(&arena, 16u << 20);
	rc = tes_dummy_receive(conn, AGENT__AGENT_TYPE__AGENT_BUFFERS, &arena,
			       tei_now_ns(), &body, &len);
	reply = rc ? NULL : agent__buffers_reply__unpack(&arena.pb, len, body);
	if (reply)
		take_back(dummy, conn->shelf, reply);
	tei_arena_fini(&arena);
	return true;
}
