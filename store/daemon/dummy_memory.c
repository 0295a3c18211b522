/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy_memory.c - memory lent to the daemon, and how it is taken back
 *
 * A daemon that stopped may write to lent memory when it goes on. Staging
 * memory that was lent to it is simply not used again. Memory of the caller
 * must be usable again: its pages are copied, and the copies take their place
 * in this process; the daemon keeps the pages that both had. From then on those
 * addresses are ordinary memory, whose values are staged.
 *
 * Two values that share a page share its fate: a get that went into such a page
 * meanwhile is lost, and says so.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/daemon/dummy.h"
#include "store/daemon/dummy_shelf.h"

#define COPY_ALIGN   64u
#define LINES_MINUTE 6u

/* ---- which memory is shared ---- */

static bool is_within(const struct tes_dummy *dummy, const struct iovec *piece)
{
	uintptr_t at = (uintptr_t)piece->iov_base;
	uintptr_t base = (uintptr_t)dummy->memory;

	return at >= base && at - base <= dummy->bytes &&
	       piece->iov_len <= dummy->bytes - (at - base);
}

static bool is_replaced(struct tes_dummy *dummy, const struct iovec *piece)
	TEI_REQUIRES(dummy->mu)
{
	uint64_t at = (uint64_t)((uint8_t *)piece->iov_base - dummy->memory);
	uint64_t page = at / TES_DUMMY_PAGE;
	uint64_t end =
		(at + piece->iov_len + TES_DUMMY_PAGE - 1) / TES_DUMMY_PAGE;

	for (; page < end; page++)
		if (dummy->replaced[page / 8] & (1u << page % 8))
			return true;
	return false;
}

static bool any_replaced(struct tes_dummy *dummy, const struct iovec *pieces,
			 uint32_t n)
{
	bool found = false;

	if (!atomic_load_explicit(&dummy->n_replaced, memory_order_relaxed))
		return false;
	tei_mutex_lock(&dummy->mu);
	for (uint32_t i = 0; i < n && !found; i++)
		found = is_replaced(dummy, &pieces[i]);
	tei_mutex_unlock(&dummy->mu);
	return found;
}

bool tes_loan_is_shared(struct tes_dummy *dummy, const struct iovec *pieces,
			uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!is_within(dummy, &pieces[i]))
			return false;
	return !any_replaced(dummy, pieces, n);
}

/* ---- lending ---- */

static void copy_in(struct tes_dummy *dummy, const struct tes_loan_item *item)
{
	uint8_t *to = dummy->memory + item->offset;

	for (uint32_t i = 0; i < item->n_pieces; i++) {
		if (item->pieces[i].iov_len)
			memcpy(to, item->pieces[i].iov_base,
			       item->pieces[i].iov_len);
		to += item->pieces[i].iov_len;
	}
}

static struct te_store_buffer *wait_room(struct tes_dummy *dummy,
					 uint64_t bytes, uint64_t deadline_ns)
{
	struct te_store_buffer *room;

	tei_mutex_lock(&dummy->mu);
	do {
		tes_dummy_sweep(dummy);
		room = tes_buffer_take(&dummy->copies, bytes);
		/* Where pages were replaced, the daemon would not see it. */
		if (!room && !atomic_load_explicit(&dummy->n_replaced,
						   memory_order_relaxed))
			room = tes_buffer_take(&dummy->user, bytes);
	} while (!room && tes_dummy_wait_freed(dummy, deadline_ns));
	tei_mutex_unlock(&dummy->mu);
	return room;
}

static void say_no_room(const struct tes_dummy *dummy, uint64_t bytes,
			const char *why)
{
	static struct tei_log_limit limit = {.per_minute = LINES_MINUTE};

	if (tei_log_allowed(&limit))
		LOG_WARN("store: no room for %" PRIu64 " bytes in the local "
			 "buffer of %" PRIu64 ": %s: make it larger, or keep "
			 "values in memory of te_store_pool_alloc()",
			 bytes, dummy->copies.bytes, why);
}

int tes_loan_make(struct tes_loan *loan, bool put, uint64_t deadline_ns)
{
	struct tes_dummy *dummy = loan->dummy;
	uint64_t sum = 0, at;
	size_t i;

	loan->room = NULL;
	for (i = 0; i < loan->n; i++)
		if (loan->items[i].copied)
			sum += (loan->items[i].bytes + COPY_ALIGN - 1) /
			       COPY_ALIGN * COPY_ALIGN;
	if (!sum)
		return 0;
	if (sum > dummy->copies.bytes && sum > dummy->user.bytes) {
		say_no_room(dummy, sum, "that is more than it has");
		return put ? TE_STORE_NO_AVAILABLE_HANDLE
			   : TE_STORE_INVALID_PARAMS;
	}
	loan->room = wait_room(dummy, sum, deadline_ns);
	if (!loan->room) {
		say_no_room(dummy, sum, "other calls had it until the end");
		return TE_STORE_RPC_TIMEOUT;
	}
	at = (uint64_t)(loan->room->data - dummy->memory);
	for (i = 0; i < loan->n; i++) {
		struct tes_loan_item *item = &loan->items[i];

		if (!item->copied)
			continue;
		item->offset = at;
		at += (item->bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
		if (put)
			copy_in(dummy, item);
	}
	return 0;
}

void tes_loan_copy_back(const struct tes_loan *loan, size_t i, uint64_t bytes)
{
	const struct tes_loan_item *item = &loan->items[i];
	const uint8_t *from = loan->dummy->memory + item->offset;

	if (!item->copied)
		return;
	for (uint32_t k = 0; k < item->n_pieces && bytes; k++) {
		size_t len = item->pieces[k].iov_len;

		if (len > bytes)
			len = (size_t)bytes;
		if (len)
			memcpy(item->pieces[k].iov_base, from, len);
		from += len;
		bytes -= len;
	}
}

bool tes_loan_is_lost(const struct tes_loan *loan, size_t i)
{
	const struct tes_loan_item *item = &loan->items[i];

	return !item->copied &&
	       any_replaced(loan->dummy, item->pieces, item->n_pieces);
}

void tes_loan_end(struct tes_loan *loan)
{
	struct tes_dummy *dummy = loan->dummy;

	if (!loan->room)
		return;
	tes_buffer_destroy(loan->room);
	loan->room = NULL;
	tei_mutex_lock(&dummy->mu);
	tei_cond_broadcast(&dummy->freed);
	tei_mutex_unlock(&dummy->mu);
}

/* ---- getting it back ---- */

static void mark(struct tes_dummy *dummy, uint64_t page, uint64_t end)
	TEI_REQUIRES(dummy->mu)
{
	for (; page < end; page++) {
		if (dummy->replaced[page / 8] & (1u << page % 8))
			continue;
		dummy->replaced[page / 8] |= (uint8_t)(1u << page % 8);
		atomic_fetch_add_explicit(&dummy->n_replaced, 1,
					  memory_order_relaxed);
	}
}

/* Replaces pages [page, end) by a copy, by one mremap(). */
static void replace_pages(struct tes_dummy *dummy, uint64_t page, uint64_t end)
	TEI_REQUIRES(dummy->mu)
{
	uint8_t *at = dummy->memory + page * TES_DUMMY_PAGE;
	size_t len = (size_t)(end - page) * TES_DUMMY_PAGE;
	void *copy = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mark(dummy, page, end);
	if (copy != MAP_FAILED) {
		memcpy(copy, at, len);
		if (mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at) !=
		    MAP_FAILED)
			return;
		(void)munmap(copy, len);
	}
	LOG_ERROR("daemon: does not answer, and no memory to replace the %zu "
		  "bytes lent to it: it still has them",
		  len);
}

void tes_dummy_unpin(struct tes_dummy *dummy)
{
	if (atomic_exchange(&dummy->pinned, false))
		tes_pins_remove(&dummy->pins, dummy->memory, dummy->bytes);
}

void tes_loan_give_up(struct tes_loan *loan)
{
	struct tes_dummy *dummy = loan->dummy;

	tes_dummy_unpin(dummy);
	tei_mutex_lock(&dummy->mu);
	for (size_t i = 0; i < loan->n; i++) {
		const struct tes_loan_item *item = &loan->items[i];

		for (uint32_t k = 0; !item->copied && k < item->n_pieces; k++) {
			const struct iovec *p = &item->pieces[k];
			uint64_t from = (uint64_t)((uint8_t *)p->iov_base -
						   dummy->memory);
			uint64_t to = from + p->iov_len;

			if (p->iov_len)
				replace_pages(dummy, from / TES_DUMMY_PAGE,
					      (to + TES_DUMMY_PAGE - 1) /
						      TES_DUMMY_PAGE);
		}
	}
	tei_mutex_unlock(&dummy->mu);
}

/* ---- values in the daemon's memory, mapped read-only ---- */

struct shelved {
	struct te_store_buffer buffer;
	struct tes_shelf *shelf; /* a reference */
	uint64_t id;
};

/* ---- the shelf ---- */

/* Destroys a shelf; without the lock. */
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

	/* A sealed memfd can be mapped safely; the dummy never writes to it. */
	if (!length || length > TE_LENGTH_MAX || tes_sealed_check(fd, length))
		return;
	at = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return;
	shelf->base = at;
	shelf->length = length;
}

/* Asks for the memory to map. 0 if the daemon answered, with or without. */
static int ask_memory(struct tes_shelf *shelf,
		      const struct tes_dummy_session *session,
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
	if (!ask_memory(shelf, session, deadline_ns))
		return shelf;
	destroy(shelf);
	return NULL;
}

/* Creates a shelf; only the connecting thread uses the path of the socket. */
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

void tes_shelf_reported(struct tes_shelf *shelf, struct tei_list *taken,
			bool done)
{
	struct tei_list *node;

	if (!done) {
		tei_mutex_lock(&shelf->dummy->mu);
		tei_list_splice_tail(&shelf->freed, taken);
		tei_mutex_unlock(&shelf->dummy->mu);
		return;
	}
	while ((node = tei_list_pop(taken)))
		tei_free(tei_list_entry(node, struct shelved, buffer.link));
}

/* ---- late answers ---- */

/*
 * All of the answer has come, whose body has *len bytes; or -EAGAIN, the end.
 */
static int has_come(int fd, size_t *len)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];
	struct tei_frame f;
	int here = 0;
	ssize_t n = recv(fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN
							 : -ECONNRESET;
	if (!n)
		return -ECONNRESET;
	if ((size_t)n < sizeof(head))
		return -EAGAIN;
	tei_frame_decode_header(head, &f);
	*len = f.len;
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
