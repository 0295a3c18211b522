/* SPDX-License-Identifier: Apache-2.0 */
/* play.c - an agent whose store is the test, and dummies made by hand */
#include "tests/unit/store_daemon/play.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define FDS_MAX 32

struct play_store play_store;

/* ---- the store ---- */

static void pass_gate(void)
{
	atomic_fetch_add(&play_store.n_calls, 1);
	atomic_fetch_add(&play_store.n_waiting, 1);
	while (atomic_load(&play_store.shut))
		(void)sched_yield();
	atomic_fetch_sub(&play_store.n_waiting, 1);
}

int te_store_put(struct te_store *store, const struct te_store_key *keys,
		 const struct te_store_value *values, size_t n,
		 const struct te_store_replicate *how, int *results)
{
	(void)store;
	(void)keys;
	(void)how;
	pass_gate();
	for (size_t i = 0; i < n; i++) {
		results[i] = 0;
		for (uint32_t k = 0; k < values[i].n_pieces; k++) {
			const uint8_t *at = values[i].pieces[k].iov_base;

			for (size_t b = 0; b < values[i].pieces[k].iov_len; b++)
				atomic_fetch_add(&play_store.sum, at[b]);
		}
	}
	return 0;
}

int te_store_get(struct te_store *store, const struct te_store_key *keys,
		 const struct te_store_value *values, size_t n,
		 int64_t *results)
{
	(void)store;
	(void)keys;
	pass_gate();
	for (size_t i = 0; i < n; i++) {
		results[i] = 0;
		for (uint32_t k = 0; k < values[i].n_pieces; k++) {
			memset(values[i].pieces[k].iov_base, 'g',
			       values[i].pieces[k].iov_len);
			results[i] += (int64_t)values[i].pieces[k].iov_len;
		}
	}
	return (int)n;
}

int te_store_get_ranges(struct te_store *store, const struct te_store_key *keys,
			size_t n_keys, const struct te_store_range *ranges,
			size_t n_ranges, int64_t *results)
{
	(void)store;
	(void)keys;
	(void)n_keys;
	(void)ranges;
	atomic_fetch_add(&play_store.n_calls, 1);
	for (size_t i = 0; i < n_ranges; i++)
		results[i] = (int64_t)ranges[i].length;
	return (int)n_ranges;
}

int te_store_exist(struct te_store *store, const struct te_store_key *keys,
		   size_t n, int *results)
{
	(void)store;
	(void)keys;
	atomic_fetch_add(&play_store.n_calls, 1);
	for (size_t i = 0; i < n; i++)
		results[i] = 1;
	return 0;
}

int te_store_size(struct te_store *store, const struct te_store_key *keys,
		  size_t n, int64_t *results)
{
	(void)store;
	(void)keys;
	for (size_t i = 0; i < n; i++)
		results[i] = play_store.size ? (int64_t)play_store.size : 1;
	return 0;
}

int te_store_remove(struct te_store *store, const struct te_store_key *keys,
		    size_t n, int force, int *results)
{
	(void)store;
	(void)keys;
	(void)force;
	for (size_t i = 0; i < n; i++)
		results[i] = 0;
	return 0;
}

int te_store_upsert(struct te_store *store, const struct te_store_key *keys,
		    const struct te_store_value *values, size_t n,
		    const struct te_store_replicate *how, int *results)
{
	return te_store_put(store, keys, values, n, how, results);
}

int te_store_remove_all(struct te_store *store, int force, uint64_t *removed)
{
	(void)store;
	(void)force;
	/* As the master has it: one of a client at a time. */
	if (atomic_fetch_add(&play_store.n_walks, 1)) {
		atomic_fetch_sub(&play_store.n_walks, 1);
		return TE_STORE_INVALID_PARAMS;
	}
	pass_gate();
	atomic_fetch_sub(&play_store.n_walks, 1);
	*removed = 7;
	return 0;
}

int te_store_remove_matching(struct te_store *store, const char *pattern,
			     int force, uint64_t *removed)
{
	(void)store;
	(void)pattern;
	(void)force;
	*removed = 0;
	return TE_STORE_INVALID_PARAMS;
}

int te_store_replicas(struct te_store *store, const struct te_store_key *keys,
		      size_t n, int *results, struct te_store_replica *out,
		      size_t *n_out)
{
	(void)store;
	(void)keys;
	(void)out;
	for (size_t i = 0; i < n; i++)
		results[i] = TE_STORE_OBJECT_NOT_FOUND;
	*n_out = 0;
	return 0;
}

int te_store_pool(struct te_store *store, struct te_store_pool *out)
{
	(void)store;
	memset(out, 0, sizeof(*out));
	return 0;
}

void te_store_stats(struct te_store *store, struct te_store_stats *out)
{
	(void)store;
	memset(out, 0, sizeof(*out));
}

int te_store_health(struct te_store *store)
{
	(void)store;
	return 0;
}

struct te_engine *te_store_engine(struct te_store *store)
{
	(void)store;
	return NULL;
}

const char *te_store_hostname(struct te_store *store)
{
	(void)store;
	return "127.0.0.1:1";
}

int te_store_register(struct te_store *store, void *addr, uint64_t length)
{
	(void)store;
	(void)addr;
	(void)length;
	atomic_fetch_add(&play_store.n_registered, 1);
	return 0;
}

int te_store_unregister(struct te_store *store, void *addr)
{
	(void)store;
	(void)addr;
	atomic_fetch_sub(&play_store.n_registered, 1);
	return 0;
}

/* ---- the agent ---- */

void play_start(struct play *play, unsigned int n_threads, uint64_t memory_max)
{
	memset(&play_store, 0, sizeof(play_store));
	test_tmpdir_create(play->dir);
	(void)snprintf(play->path, sizeof(play->path), "%s/socket", play->dir);
	play->config = (struct tes_agent_config){
		.n_threads = n_threads,
		.memory_max = memory_max ? memory_max : 16 * PLAY_SIZE,
		.socket_path = play->path,
		.host = "127.0.0.1",
	};
	assert_int_equal(tes_agent_start(&play->config, &play->agent), 0);
}

void play_restart(struct play *play)
{
	assert_int_equal(tes_agent_start(&play->config, &play->agent), 0);
}

void play_stop(struct play *play)
{
	assert_true(tes_agent_stop(play->agent, PLAY_MS));
	assert_int_equal(atomic_load(&play_store.n_registered), 0);
	test_tmpdir_remove(play->dir);
}

struct awaited {
	_Atomic unsigned int *value;
	unsigned int wanted;
};

static bool is_there(void *arg)
{
	const struct awaited *awaited = arg;

	return atomic_load(awaited->value) == awaited->wanted;
}

void play_await(_Atomic unsigned int *value, unsigned int wanted)
{
	struct awaited awaited = {value, wanted};

	assert_true(test_wait_until(is_there, &awaited, PLAY_MS));
}

/* ---- dummies ---- */

int play_connect(const struct play *play)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_true(strlen(play->path) < sizeof(un.sun_path));
	memcpy(un.sun_path, play->path, strlen(play->path) + 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	return fd;
}

void play_send(int socket, const void *bytes, size_t len, const int *fds,
	       size_t n_fds)
{
	union {
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds) {
		struct cmsghdr *c;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	assert_int_equal(sendmsg(socket, &msg, MSG_NOSIGNAL), (ssize_t)len);
}

/* How many of @len bytes come before the end. */
static size_t receive(int socket, void *to, size_t len)
{
	size_t n = 0;

	while (n < len) {
		struct pollfd pfd = {.fd = socket, .events = POLLIN};
		ssize_t got;

		assert_int_equal(poll(&pfd, 1, PLAY_MS), 1);
		got = recv(socket, (uint8_t *)to + n, len - n, 0);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	return n;
}

int play_greet(int socket, struct tes_greeting *g, const int *fds, size_t n_fds)
{
	uint8_t bytes[TES_GREETING_LEN];

	tes_greeting_encode(g, bytes);
	play_send(socket, bytes, sizeof(bytes), fds, n_fds);
	if (receive(socket, bytes, sizeof(bytes)) != sizeof(bytes))
		return -1;
	assert_true(tes_greeting_decode(bytes, g));
	return g->word;
}

bool play_ends(int socket)
{
	uint8_t bytes[4096];

	while (receive(socket, bytes, sizeof(bytes)) == sizeof(bytes))
		;
	return true; /* or receive() has failed the test */
}

void play_attach(const struct play *play, struct play_dummy *dummy)
{
	memset(dummy, 0, sizeof(*dummy));
	dummy->fd = tes_sealed_create(PLAY_SIZE);
	assert_true(dummy->fd >= 0);
	dummy->memory = mmap(NULL, PLAY_SIZE, PROT_READ | PROT_WRITE,
			     MAP_SHARED, dummy->fd, 0);
	assert_true(dummy->memory != MAP_FAILED);
	dummy->socket = play_connect(play);
	dummy->session.version = TES_AGENT_VERSION;
	dummy->session.word = TES_GREETING_NEW;
	dummy->session.length = PLAY_SIZE;
	assert_int_equal(
		play_greet(dummy->socket, &dummy->session, &dummy->fd, 1),
		TES_GREETED);
}

int play_join(const struct play *play, const struct play_dummy *from)
{
	struct tes_greeting g = from->session;
	int socket = play_connect(play);

	g.word = TES_GREETING_JOIN;
	assert_int_equal(play_greet(socket, &g, NULL, 0), TES_GREETED);
	return socket;
}

void play_leave(struct play_dummy *dummy)
{
	(void)close(dummy->socket);
	(void)close(dummy->fd);
	(void)munmap(dummy->memory, PLAY_SIZE);
}

void play_ask(struct play_dummy *dummy, uint16_t type, const void *msg)
{
	static uint8_t bytes[2u << 20];
	const ProtobufCMessage *m = msg;
	size_t len = m ? protobuf_c_message_get_packed_size(m) : 0;
	uint64_t id = ++dummy->last_id;
	uint32_t length = (uint32_t)len;

	assert_true(len + TEI_FRAME_HEADER_LEN <= sizeof(bytes));
	memset(bytes, 0, TEI_FRAME_HEADER_LEN);
	memcpy(bytes, &length, 4);
	memcpy(bytes + 4, &type, 2);
	memcpy(bytes + 8, &id, 8);
	if (m)
		(void)protobuf_c_message_pack(m, bytes + TEI_FRAME_HEADER_LEN);
	play_send(dummy->socket, bytes, TEI_FRAME_HEADER_LEN + len, NULL, 0);
}

Agent__Results *play_answer(struct play_dummy *dummy, struct tei_arena *arena)
{
	uint8_t head[TEI_FRAME_HEADER_LEN], body[4096];
	Agent__Results *results;
	uint32_t length;
	uint64_t id;

	tei_arena_init(arena, 1u << 20);
	assert_int_equal(receive(dummy->socket, head, sizeof(head)),
			 sizeof(head));
	memcpy(&length, head, 4);
	memcpy(&id, head + 8, 8);
	assert_int_equal(id, dummy->last_id);
	assert_true(length <= sizeof(body));
	assert_int_equal(receive(dummy->socket, body, length), length);
	results = agent__results__unpack(&arena->pb, length, body);
	assert_non_null(results);
	return results;
}

void play_ask_piece(struct play_dummy *dummy, uint16_t type, uint64_t region,
		    uint64_t offset, uint64_t length, uint32_t wait_ms)
{
	Agent__Batch msg = AGENT__BATCH__INIT;
	uint32_t len = 1;

	msg.keys.data = (uint8_t *)(uintptr_t) "k";
	msg.keys.len = 1;
	msg.key_lens = &len;
	msg.n_key_lens = 1;
	msg.region = region;
	msg.offset = &offset;
	msg.length = &length;
	msg.n_offset = msg.n_length = 1;
	msg.wait_ms = wait_ms;
	play_ask(dummy, type, &msg);
}

int64_t play_result(struct play_dummy *dummy)
{
	struct tei_arena arena;
	Agent__Results *results = play_answer(dummy, &arena);
	int64_t result = results->code;

	if (!result) {
		assert_int_equal(results->n_result, 1);
		result = results->result[0];
	}
	tei_arena_fini(&arena);
	return result;
}
