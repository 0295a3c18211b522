/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shm_owner.c - what strangers and bad initiators do to an owner
 *
 * Whatever they say on the socket or write to the shared page: nothing is
 * handed out that they may not have, nothing stays open, and the next honest
 * peer is served. And the owner knows what a peer that stops or dies may do.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <te/te.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/shm_raw.h"

#define ANY (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

static const struct tei_backend_ops *const ops = &tei_backend_shm;

/* ---- strangers ---- */

static void strangers_that_say_no_hello_are_closed_and_counted(void **state)
{
	uint8_t bytes[300];

	(void)state;
	srand(1);
	for (int i = 0; i < 300; i++) {
		uint64_t before = sraw_rail.rail->bad_frames;
		size_t len = 1 + (size_t)rand() % sizeof(bytes);
		int fd = sraw_dial();

		if (i % 3 == 0)
			len = SHM_MESSAGE_LEN;
		for (size_t k = 0; k < len; k++)
			bytes[k] = (uint8_t)(rand() >> 7);
		assert_true(send(fd, bytes, len, MSG_NOSIGNAL) > 0);
		assert_true(sraw_closed(fd));
		close(fd);
		assert_int_equal(sraw_rail.rail->bad_frames, before + 1);
	}
	sraw_serves_honest_peers();
}

/* The bytes of a message, as they are sent. */
static void bytes_of(const struct shm_message *m, uint8_t out[SHM_MESSAGE_LEN])
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(tei_shm_send(pair[0], m, -1), 0);
	assert_int_equal(recv(pair[1], out, SHM_MESSAGE_LEN, 0),
			 SHM_MESSAGE_LEN);
	close(pair[0]);
	close(pair[1]);
}

static void magic_version_op_and_token_of_a_hello_matter(void **state)
{
	struct shm_message m = {.op = SHM_HELLO};
	uint8_t bytes[SHM_MESSAGE_LEN];
	struct shm_pages *pages;
	struct shm_address a;
	struct fake_link link;
	struct tei_endpoint *ep = sraw_open(&link, true, &a);

	(void)state;
	memcpy(m.token, a.token, SHM_TOKEN_LEN);
	for (size_t i = 0; i < 32; i++) {
		int fd;

		if (i >= 6 && i < 16)
			continue; /* not of a hello */
		fd = sraw_dial();
		bytes_of(&m, bytes);
		bytes[i] ^= 0x81;
		assert_true(send(fd, bytes, sizeof(bytes), 0) > 0);
		assert_true(sraw_closed(fd));
		close(fd);
	}
	assert_int_equal(link.n_up, 0);
	assert_int_equal(link.n_down, 0);
	close(sraw_attach(&a, &pages));
	tei_shm_pages_unmap(pages);
	sraw_close(ep);
}

static void a_hello_of_another_length_is_none(void **state)
{
	uint8_t bytes[SHM_MESSAGE_LEN + 8] = {0};
	struct shm_message m = {.op = SHM_HELLO};
	struct shm_pages *pages;
	struct shm_address a;
	struct fake_link link;
	struct tei_endpoint *ep = sraw_open(&link, true, &a);

	(void)state;
	memcpy(m.token, a.token, SHM_TOKEN_LEN);
	bytes_of(&m, bytes);
	for (size_t len = 1; len <= sizeof(bytes); len++) {
		uint64_t before = sraw_rail.rail->bad_frames;
		int fd;

		if (len == SHM_MESSAGE_LEN)
			continue;
		fd = sraw_dial();
		assert_true(send(fd, bytes, len, 0) > 0);
		assert_true(sraw_closed(fd));
		close(fd);
		assert_int_equal(sraw_rail.rail->bad_frames, before + 1);
	}
	assert_int_equal(link.n_up, 0);
	close(sraw_attach(&a, &pages));
	tei_shm_pages_unmap(pages);
	sraw_close(ep);
}

static void a_token_admits_one_connection(void **state)
{
	struct shm_pages *pages;
	struct shm_address a;
	struct fake_link link;
	struct tei_endpoint *ep = sraw_open(&link, true, &a);
	int first = sraw_attach(&a, &pages), second = sraw_dial();

	(void)state;
	sraw_hello(second, &a);
	assert_true(sraw_closed(second));
	assert_int_equal(link.n_down, 0);
	close(first);
	close(second);
	tei_shm_pages_unmap(pages);
	sraw_close(ep);
}

static void the_token_of_a_dropped_endpoint_is_worth_nothing(void **state)
{
	struct shm_address a;
	struct fake_link link;
	struct tei_endpoint *ep = sraw_open(&link, true, &a);
	int fd = sraw_dial();

	(void)state;
	assert_int_equal(ops->drop(ep), 0);
	sraw_hello(fd, &a);
	assert_true(sraw_closed(fd));
	close(fd);
	sraw_close(ep);
}

static void many_silent_strangers_are_closed_in_the_end(void **state)
{
	int fds[SHM_ACCEPTED_MAX + 8];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(fds); i++) {
		fds[i] = sraw_dial();
		sraw_turn();
	}
	assert_true(shm_rail(sraw_rail.rail)->n_accepted <= SHM_ACCEPTED_MAX);
	sraw_serves_honest_peers();
	for (size_t i = 0; i < TEST_COUNT(fds); i++) {
		assert_true(sraw_closed(fds[i]));
		close(fds[i]);
	}
	assert_int_equal(shm_rail(sraw_rail.rail)->n_accepted, 0);
}

/* ---- initiators ---- */

struct known { /* one that the owner believes in */
	struct fake_link link;
	struct tei_endpoint *ep;
	struct shm_pages *pages;
	int fd;
};

static void known_open(struct known *k)
{
	struct shm_address a;

	k->ep = sraw_open(&k->link, true, &a);
	k->fd = sraw_attach(&a, &k->pages);
}

static void known_close(struct known *k)
{
	close(k->fd);
	tei_shm_pages_unmap(k->pages);
	sraw_close(k->ep);
}

static void messages_that_cannot_be_close_the_endpoint(void **state)
{
	static const uint8_t wrong[] = {SHM_HELLO, SHM_WELCOME, SHM_GRANT,
					SHM_FORGET};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
		struct shm_message m = {.op = wrong[i]};
		uint64_t before = sraw_rail.rail->bad_frames;
		struct known k;

		known_open(&k);
		assert_int_equal(tei_shm_send(k.fd, &m, -1), 0);
		assert_true(sraw_turn_until(&k.link.n_down, 1));
		assert_int_equal(sraw_rail.rail->bad_frames, before + 1);
		known_close(&k);
	}
	sraw_serves_honest_peers();
}

static void descriptors_from_an_initiator_do_not_stay_open(void **state)
{
	struct shm_message m = {.op = SHM_ASK};
	struct known k;
	int mine;

	(void)state;
	known_open(&k);
	mine = sraw_sealed(4096);
	assert_int_equal(tei_shm_send(k.fd, &m, mine), 0);
	assert_true(sraw_turn_until(&k.link.n_down, 1));
	close(mine);
	known_close(&k);
}

/* The answer to asking with this key. */
static int ask(const struct known *k, uint64_t id,
	       const uint8_t key[SHM_KEY_LEN], struct shm_message *m, int *fd)
{
	*m = (struct shm_message){.op = SHM_ASK, .id = id};
	memcpy(m->key, key, SHM_KEY_LEN);
	assert_int_equal(tei_shm_send(k->fd, m, -1), 0);
	sraw_receive(k->fd, m, fd);
	assert_int_equal(m->op, SHM_GRANT);
	return tei_status_to_errno(m->status);
}

static void keys_that_are_made_up_are_given_nothing(void **state)
{
	uint8_t key[SHM_KEY_LEN], bad[SHM_KEY_LEN];
	uint64_t id =
		sraw_region(sraw_memory, SRAW_LEN, TE_ACCESS_REMOTE_READ, key);
	struct shm_message m;
	struct known k;
	int fd;

	(void)state;
	known_open(&k);
	/* Id, address, length, version, kind, access, reserved. */
	for (size_t i = 0; i < SHM_KEY_LEN; i++) {
		for (int bit = 0; bit < 8; bit++) {
			int rc;

			memcpy(bad, key, sizeof(bad));
			bad[i] ^= (uint8_t)(1 << bit);
			rc = ask(&k, id, bad, &m, &fd);
			/* A part of it is a lie that gains nothing. */
			if (!rc)
				assert_true(i >= 8 && i < 32);
			if (fd >= 0)
				close(fd);
			if (rc)
				assert_int_equal(fd, -1);
		}
	}
	assert_int_equal(k.link.n_down, 0);
	assert_int_equal(ask(&k, id, key, &m, &fd), 0);
	close(fd);
	known_close(&k);
	sraw_unregion(id);
}

/* ---- chunks of a GPU's memory ---- */

#define CHUNK    ((uint64_t)2 << 20)
#define N_CHUNKS 11u
#define FAR      ((uint8_t *)0x100000000) /* nobody touches it */

/* Another process than ours, so that descriptors are what it needs. */
static void known_far_open(struct known *k)
{
	known_open(k);
	shm_endpoint(k->ep)->pid++;
}

/* The answer to asking for chunks from @at on; its descriptors are counted. */
static int ask_at(const struct known *k, uint64_t id, const uint8_t *key,
		  uint64_t at, struct shm_message *m, unsigned int *n_fds)
{
	struct shm_fds fds;
	int rc = -EAGAIN;

	*m = (struct shm_message){
		.op = SHM_ASK, .id = id, .addr = at, .access = SHM_TAKES_GPU};
	memcpy(m->key, key, SHM_KEY_LEN);
	assert_int_equal(tei_shm_send(k->fd, m, -1), 0);
	while (rc == -EAGAIN) {
		sraw_turn();
		rc = tei_shm_receive_fds(k->fd, m, &fds);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(m->op, SHM_GRANT);
	*n_fds = fds.n;
	tei_shm_fds_close(&fds);
	return tei_status_to_errno(m->status);
}

static uint64_t chunks_open(uint32_t access, uint8_t key[SHM_KEY_LEN])
{
	fake_chunk_len = CHUNK;
	return sraw_region(FAR, N_CHUNKS * CHUNK, access, key);
}

static void chunks_close(struct known *k, uint64_t id)
{
	known_close(k);
	sraw_unregion(id);
	fake_chunk_len = 0;
	fake_exports_left = UINT32_MAX;
}

/* The lowest descriptor that is free, which tells what has stayed open. */
static int free_fd(void)
{
	int fd = dup(0);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

/* Engines that know no memory of GPUs ask for it as for foreign memory. */
static void a_key_of_a_gpu_looks_foreign(void **state)
{
	struct shm_key key = {
		.id = 7, .addr = 4096, .length = 1, .access = ANY};
	uint8_t bytes[SHM_KEY_LEN];
	struct shm_key out;

	(void)state;
	for (int kind = SHM_ARENA; kind <= SHM_GPU; kind++) {
		key.kind = (uint8_t)kind;
		tei_shm_key_encode(&key, bytes);
		assert_int_equal(bytes[SHM_KEY_KIND],
				 kind == SHM_GPU ? SHM_FOREIGN : kind);
		assert_true(tei_shm_key_decode(bytes, SHM_KEY_LEN, &out));
		assert_int_equal(out.kind, kind);
		assert_int_equal(tei_shm_is_across(bytes, SHM_KEY_LEN),
				 kind == SHM_GPU);
	}
	bytes[SHM_KEY_KIND] = SHM_GPU; /* as it was written once */
	bytes[SHM_KEY_FLAGS] = 0;
	assert_true(tei_shm_is_across(bytes, SHM_KEY_LEN));
	bytes[SHM_KEY_KIND] = SHM_CHUNKS;
	assert_false(tei_shm_key_decode(bytes, SHM_KEY_LEN, &out));
}

static void chunks_come_as_they_are_asked_for(void **state)
{
	uint8_t key[SHM_KEY_LEN];
	uint64_t id = chunks_open(ANY, key);
	struct shm_message m;
	unsigned int n;
	struct known k;
	int fd;

	(void)state;
	known_far_open(&k);
	fd = free_fd();
	for (int i = 0; i < 2; i++) { /* asked again, the same */
		assert_int_equal(ask_at(&k, id, key, 0, &m, &n), 0);
		assert_int_equal(m.kind, SHM_CHUNKS);
		assert_int_equal(m.addr, (uintptr_t)FAR);
		assert_int_equal(m.length, N_CHUNKS * CHUNK);
		assert_int_equal(n, SHM_CHUNKS_BURST);
		for (unsigned int c = 0; c < n; c++)
			assert_int_equal(m.lengths[c], CHUNK);
	}
	assert_int_equal(ask_at(&k, id, key, 8 * CHUNK, &m, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(m.lengths[2], CHUNK);
	assert_int_equal(m.lengths[3], 0);
	assert_int_equal(ask_at(&k, id, key, 11 * CHUNK, &m, &n), -EFAULT);
	assert_int_equal(ask_at(&k, id, key, UINT64_MAX, &m, &n), -EFAULT);
	assert_int_equal(ask_at(&k, id, key, 1, &m, &n), -EOPNOTSUPP);
	assert_int_equal(n, 0);
	assert_int_equal(free_fd(), fd);
	assert_int_equal(k.link.n_down, 0);
	chunks_close(&k, id);
}

/* What it has no right to, or does not understand; and a driver that fails. */
static void chunks_that_are_refused_leave_nothing(void **state)
{
	uint8_t key[SHM_KEY_LEN], bad[SHM_KEY_LEN];
	uint64_t id = chunks_open(ANY, key);
	struct shm_message m;
	unsigned int n;
	struct known k;
	int got, fd;

	(void)state;
	known_far_open(&k);
	fd = free_fd();
	assert_int_equal(ask(&k, id, key, &m, &got), -EOPNOTSUPP);
	assert_int_equal(got, -1);
	memcpy(bad, key, sizeof(bad));
	bad[0] ^= 0x40; /* of another region */
	assert_int_equal(ask_at(&k, id, bad, 0, &m, &n), -EFAULT);
	assert_int_equal(n, 0);
	fake_epoch++; /* its access was ended */
	assert_int_equal(ask_at(&k, id, key, 0, &m, &n), -ESTALE);
	assert_int_equal(n, 0);
	fake_epoch--;
	for (unsigned int left = 0; left < SHM_CHUNKS_BURST; left++) {
		fake_exports_left = left;
		assert_int_equal(ask_at(&k, id, key, 0, &m, &n), -EOPNOTSUPP);
		assert_int_equal(n, 0);
		assert_int_equal(m.lengths[0], 0);
	}
	assert_int_equal(free_fd(), fd);
	assert_int_equal(fake_pins(), 0);
	/* Nothing was granted, so nothing is waited for. */
	assert_int_equal(ops->region_hide(sraw_rail.rail, id), 0);
	chunks_close(&k, id);
}

/* A peer holds a region until it says that it has closed it. */
static void chunks_are_held_until_they_are_returned(void **state)
{
	uint8_t key[SHM_KEY_LEN];
	uint64_t id = chunks_open(ANY, key);
	struct shm_message m;
	unsigned int n;
	struct known k;

	(void)state;
	known_far_open(&k);
	assert_int_equal(ask_at(&k, id, key, 0, &m, &n), 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(ops->region_hide(sraw_rail.rail, id), -EBUSY);
	m.op = SHM_RETURN;
	m.kind = 0;
	assert_int_equal(tei_shm_send(k.fd, &m, -1), 0);
	while (ops->region_hide(sraw_rail.rail, id))
		sraw_turn();
	chunks_close(&k, id);
}

static void a_region_for_readers_cannot_be_written(void **state)
{
	uint8_t key[SHM_KEY_LEN];
	uint64_t id =
		sraw_region(sraw_memory, SRAW_LEN, TE_ACCESS_REMOTE_READ, key);
	struct shm_message m;
	struct known k;
	char path[64];
	int fd, again;
	void *at;

	(void)state;
	known_open(&k);
	assert_int_equal(ask(&k, id, key, &m, &fd), 0);
	at = mmap(NULL, SRAW_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(at == MAP_FAILED);
	at = mmap(NULL, SRAW_LEN, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(at != MAP_FAILED);
	assert_int_equal(mprotect(at, SRAW_LEN, PROT_READ | PROT_WRITE), -1);
	munmap(at, SRAW_LEN);
	assert_true(write(fd, "x", 1) < 0);
	assert_int_equal(ftruncate(fd, 1), -1);
	/* Opening it anew gives no more. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again >= 0) {
		assert_true(write(again, "x", 1) < 0);
		assert_int_equal(ftruncate(again, 1), -1);
		at = mmap(NULL, SRAW_LEN, PROT_READ | PROT_WRITE, MAP_SHARED,
			  again, 0);
		assert_true(at == MAP_FAILED);
		close(again);
	}
	assert_int_equal(sraw_memory[0], 0x5a);
	close(fd);
	known_close(&k);
	sraw_unregion(id);
}

static void a_part_of_an_arena_is_not_handed_out(void **state)
{
	uint8_t key[SHM_KEY_LEN];
	uint64_t id = sraw_region(sraw_memory + 4096, 4096, ANY, key);
	struct shm_message m;
	struct known k;
	int fd;

	(void)state;
	known_open(&k);
	assert_int_equal(ask(&k, id, key, &m, &fd), 0);
	assert_int_equal(m.kind, SHM_FOREIGN);
	assert_int_equal(fd, -1);
	known_close(&k);
	sraw_unregion(id);
}

static int add_without_descriptors(uint32_t access)
{
	uint8_t key[SHM_KEY_LEN];
	size_t len = sizeof(key);
	int rc, next = dup(0); /* the lowest that is free */
	struct rlimit limit, none;

	assert_true(next > 3);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	rc = ops->region_add(sraw_rail.rail, 5, sraw_memory, SRAW_LEN, access,
			     key, &len);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return rc;
}

/* It would be slow, or not to be reached, for as long as it lives. */
static void a_region_without_a_descriptor_is_refused(void **state)
{
	(void)state;
	assert_int_equal(add_without_descriptors(ANY), -EMFILE);
	sraw_serves_honest_peers();
	assert_int_equal(add_without_descriptors(TE_ACCESS_REMOTE_READ),
			 -EMFILE);
}

static void who_asks_and_does_not_read_is_closed(void **state)
{
	struct shm_message m = {.op = SHM_ASK};
	struct known k;
	int i;

	(void)state;
	known_open(&k);
	for (i = 0; i < 100000 && !k.link.n_down; i++) {
		(void)tei_shm_send(k.fd, &m, -1);
		sraw_turn();
	}
	assert_int_equal(k.link.n_down, 1);
	known_close(&k);
	sraw_serves_honest_peers();
}

/* ---- the shared page ---- */

static void nonsense_in_the_shared_page_harms_nobody(void **state)
{
	uint8_t key[SHM_KEY_LEN];
	uint64_t id = sraw_region(sraw_memory, SRAW_LEN, ANY, key);
	struct shm_message m;
	struct known k;
	int fd;

	(void)state;
	known_open(&k);
	assert_int_equal(ask(&k, id, key, &m, &fd), 0);
	close(fd);
	memset((void *)k.pages, 0xff, SHM_PAGES_LEN); /* mark: odd */
	assert_int_equal(ops->region_hide(sraw_rail.rail, id), -EBUSY);
	atomic_store(&k.pages->mark, 0);
	sraw_unregion(id);
	known_close(&k);
	sraw_serves_honest_peers();
}

static void a_chunk_under_way_is_waited_for(void **state)
{
	struct known k;

	(void)state;
	known_open(&k);
	atomic_store(&k.pages->mark, 7);
	assert_int_equal(ops->drop(k.ep), -EINPROGRESS);
	assert_true(tei_shm_is_fenced(k.pages));
	for (int i = 0; i < 100; i++)
		sraw_turn();
	assert_int_equal(k.link.n_down, 0);
	atomic_store(&k.pages->mark, 8);
	assert_true(sraw_turn_until(&k.link.n_down, 1));
	assert_int_equal(k.link.down_err, -ESTALE);
	known_close(&k);
}

/* ---- another process ---- */

/*
 * Attaches, is in the middle of a chunk, says so, and waits for a byte: to go
 * on, or to become another program.
 */
static void be_midway(const struct shm_address *a, int tell, int go)
{
	struct shm_message m;
	struct shm_pages *pages;
	int fd = sraw_dial(), got = -1;
	char byte;

	sraw_hello(fd, a);
	(void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
	if (tei_shm_receive(fd, &m, &got) || tei_shm_pages_map(got, &pages))
		_exit(1);
	atomic_store(&pages->mark, 7);
	if (write(tell, "", 1) != 1 || read(go, &byte, 1) != 1)
		_exit(1);
	if (byte == 'x')
		execl("/bin/sleep", "sleep", "60", (char *)NULL);
	atomic_store(&pages->mark, 8);
	(void)!read(go, &byte, 1);
	_exit(0);
}

struct child {
	struct fake_link link;
	struct tei_endpoint *ep;
	pid_t pid;
	int tell, go;
};

static void child_start(struct child *c)
{
	struct shm_address a;
	int tell[2], go[2];

	c->ep = sraw_open(&c->link, true, &a);
	assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (!c->pid) {
		close(go[1]); /* it ends with us */
		be_midway(&a, tell[1], go[0]);
	}
	close(tell[1]);
	close(go[0]);
	c->tell = tell[0];
	c->go = go[1];
	assert_true(sraw_turn_until(&c->link.n_up, 1));
	assert_int_equal(poll(&(struct pollfd){.fd = c->tell, .events = POLLIN},
			      1, FAKE_LIMIT_MS),
			 1);
}

static void child_end(struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->tell);
	close(c->go);
	sraw_close(c->ep);
}

static void a_peer_that_dies_midway_is_quiet(void **state)
{
	struct child c;

	(void)state;
	child_start(&c);
	assert_int_equal(ops->drop(c.ep), -EINPROGRESS);
	kill(c.pid, SIGKILL);
	assert_true(sraw_turn_until(&c.link.n_down, 1));
	assert_int_equal(c.link.down_err, -ESTALE);
	child_end(&c);
}

static void a_peer_that_stopped_midway_is_quiet_once_it_went_on(void **state)
{
	struct child c;

	(void)state;
	child_start(&c);
	kill(c.pid, SIGSTOP);
	assert_int_equal(ops->drop(c.ep), -EINPROGRESS);
	assert_int_equal(write(c.go, "", 1), 1);
	for (int i = 0; i < 100; i++)
		sraw_turn();
	assert_int_equal(c.link.n_down, 0);
	kill(c.pid, SIGCONT);
	assert_true(sraw_turn_until(&c.link.n_down, 1));
	child_end(&c);
}

/* Its memory is gone as if it had died, but the process lives on. */
static void a_peer_that_becomes_another_program_midway_is_quiet(void **state)
{
	struct child c;

	(void)state;
	child_start(&c);
	assert_int_equal(write(c.go, "x", 1), 1);
	assert_true(sraw_turn_until(&c.link.n_down, 1));
	assert_int_equal(c.link.down_err, -ECONNRESET);
	child_end(&c);
	child_start(&c);
	assert_int_equal(ops->drop(c.ep), -EINPROGRESS);
	for (int i = 0; i < 100; i++)
		sraw_turn();
	assert_int_equal(c.link.n_down, 0);
	assert_int_equal(write(c.go, "x", 1), 1);
	assert_true(sraw_turn_until(&c.link.n_down, 1));
	assert_int_equal(c.link.down_err, -ESTALE);
	child_end(&c);
}

static void a_region_is_free_once_its_user_is_another_program(void **state)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	uint8_t key[SHM_KEY_LEN];
	uint64_t id = sraw_region(sraw_memory, SRAW_LEN, ANY, key);
	struct shm_message m = {.op = SHM_ASK, .id = id};
	struct child c;

	(void)state;
	child_start(&c);
	memcpy(m.key, key, sizeof(key));
	assert_int_equal(tei_shm_owner_message(shm_endpoint(c.ep), &m), 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(ops->region_hide(sraw_rail.rail, id), -EBUSY);
	assert_int_equal(write(c.go, "x", 1), 1);
	while (ops->region_hide(sraw_rail.rail, id) && tei_now_ms() < end)
		;
	assert_int_equal(ops->region_hide(sraw_rail.rail, id), 0);
	ops->region_remove(sraw_rail.rail, id);
	fake_region_remove(id);
	child_end(&c);
}

static void a_process_is_known_by_when_it_began(void **state)
{
	const struct shm_host *host = &shm_rail(sraw_rail.rail)->host;

	(void)state;
	assert_true(tei_shm_is_process(host->pid, host->start));
	assert_false(tei_shm_is_process(host->pid, host->start + 1));
	/* Where /proc does not tell. */
	assert_true(tei_shm_is_process(0x7fffffff, 1));
}

static void the_end_of_a_peer_is_heard(void **state)
{
	struct child c;

	(void)state;
	child_start(&c);
	kill(c.pid, SIGKILL);
	assert_true(sraw_turn_until(&c.link.n_down, 1));
	assert_int_equal(c.link.down_err, -ECONNRESET);
	child_end(&c);
}

static void failing_allocations_leave_nothing(void **state)
{
	(void)state;
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		struct fake_pair p;

		if (!fake_pair_open(&p, ops, NULL))
			fake_pair_close(&p);
	}
	sraw_serves_honest_peers();
}

#define T(test) \
	cmocka_unit_test_setup_teardown(test, sraw_set_up, sraw_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(strangers_that_say_no_hello_are_closed_and_counted),
		T(magic_version_op_and_token_of_a_hello_matter),
		T(a_hello_of_another_length_is_none),
		T(a_token_admits_one_connection),
		T(the_token_of_a_dropped_endpoint_is_worth_nothing),
		T(many_silent_strangers_are_closed_in_the_end),
		T(messages_that_cannot_be_close_the_endpoint),
		T(descriptors_from_an_initiator_do_not_stay_open),
		T(keys_that_are_made_up_are_given_nothing),
		T(a_key_of_a_gpu_looks_foreign),
		T(chunks_come_as_they_are_asked_for),
		T(chunks_that_are_refused_leave_nothing),
		T(chunks_are_held_until_they_are_returned),
		T(a_region_for_readers_cannot_be_written),
		T(a_part_of_an_arena_is_not_handed_out),
		T(a_region_without_a_descriptor_is_refused),
		T(who_asks_and_does_not_read_is_closed),
		T(nonsense_in_the_shared_page_harms_nobody),
		T(a_chunk_under_way_is_waited_for),
		T(a_peer_that_dies_midway_is_quiet),
		T(a_peer_that_stopped_midway_is_quiet_once_it_went_on),
		T(a_peer_that_becomes_another_program_midway_is_quiet),
		T(a_region_is_free_once_its_user_is_another_program),
		T(a_process_is_known_by_when_it_began),
		T(the_end_of_a_peer_is_heard),
		T(failing_allocations_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
