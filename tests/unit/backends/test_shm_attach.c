/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shm_attach.c - what bad owners do to those who attach to them
 *
 * Descriptors of every wrong kind, sizes that are lies, words that cannot be:
 * each costs an error, never a SIGBUS, and nothing stays open or mapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <te/te.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/shm_raw.h"

#define ANY  (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)
#define FAR  0x100000000u /* where the owner says that its memory is */
#define SLOT 5

static const struct tei_backend_ops *const ops = &tei_backend_shm;

/* ---- descriptors that are not what they should be ---- */

static int unsealed(size_t size)
{
	int fd = memfd_create("raw", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static int make_pipe(size_t size)
{
	int fds[2];

	(void)size;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	close(fds[1]);
	return fds[0];
}

static int make_socket(size_t size)
{
	(void)size;
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int make_dir(size_t size)
{
	(void)size;
	return open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int make_device(size_t size)
{
	(void)size;
	return open("/dev/zero", O_RDWR | O_CLOEXEC);
}

static int make_file(size_t size)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		return make_device(size);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static int make_path(size_t size)
{
	(void)size;
	return open("/tmp", O_PATH | O_CLOEXEC);
}

static int may_shrink(size_t size)
{
	int fd = unsealed(size);

	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	return fd;
}

static int too_small(size_t size)
{
	return sraw_sealed(size - 4096);
}

static int empty(size_t size)
{
	(void)size;
	return sraw_sealed(0);
}

static int not_for_writers(size_t size)
{
	int fd = sraw_sealed(size);

	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	return fd;
}

static int none(size_t size)
{
	(void)size;
	return -1;
}

typedef int make_fn(size_t size);

static make_fn *const wrong[] = {
	unsealed,    make_pipe, make_socket,     make_dir,
	make_device, make_file, make_path,       may_shrink,
	too_small,   empty,     not_for_writers, none,
};

/* ---- an owner ---- */

struct owner {
	struct sraw_host host;
	struct shm_address a; /* of the initiator's half */
	struct fake_link link;
	struct tei_endpoint *ep;
	struct shm_pages *pages;
	int fd;
};

static void owner_meet(struct owner *o)
{
	sraw_host_open(&o->host);
	o->pages = NULL;
	o->ep = sraw_open(&o->link, false, &o->a);
	o->fd = sraw_meet(&o->host, o->ep);
}

static void owner_open(struct owner *o)
{
	int fd;

	owner_meet(o);
	fd = tei_shm_pages_make(&o->pages);
	assert_true(fd >= 0);
	sraw_welcome(o->fd, &o->a, fd);
	close(fd);
	assert_true(sraw_turn_until(&o->link.n_up, 1));
}

static void owner_close(struct owner *o)
{
	sraw_close(o->ep);
	close(o->fd);
	if (o->pages)
		tei_shm_pages_unmap(o->pages);
	sraw_host_close(&o->host);
}

static void pages_of_every_wrong_kind_break_the_endpoint(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
		int fd = wrong[i](SHM_PAGES_LEN);
		struct owner o;

		owner_meet(&o);
		sraw_welcome(o.fd, &o.a, fd);
		assert_true(sraw_turn_until(&o.link.n_down, 1));
		assert_int_equal(o.link.n_up, 0);
		if (fd >= 0)
			close(fd);
		owner_close(&o);
	}
}

static void pages_that_are_too_large_are_not_taken(void **state)
{
	int fd = sraw_sealed((size_t)2 * SHM_PAGES_LEN);
	struct owner o;

	(void)state;
	owner_meet(&o);
	sraw_welcome(o.fd, &o.a, fd);
	assert_true(sraw_turn_until(&o.link.n_down, 1));
	close(fd);
	owner_close(&o);
}

static void a_welcome_for_another_is_not_taken(void **state)
{
	struct shm_pages *pages;
	struct owner o;
	int fd;

	(void)state;
	owner_meet(&o);
	fd = tei_shm_pages_make(&pages);
	o.a.token[3] ^= 1;
	sraw_welcome(o.fd, &o.a, fd);
	assert_true(sraw_turn_until(&o.link.n_down, 1));
	close(fd);
	tei_shm_pages_unmap(pages);
	owner_close(&o);
}

static void nonsense_on_the_socket_breaks_the_endpoint(void **state)
{
	uint8_t bytes[300];

	(void)state;
	srand(2);
	for (int i = 0; i < 100; i++) {
		uint64_t before = sraw_rail.rail->bad_frames;
		size_t len = i % 3 ? 1 + (size_t)rand() % sizeof(bytes)
				   : SHM_MESSAGE_LEN;
		struct owner o;

		owner_open(&o);
		for (size_t k = 0; k < len; k++)
			bytes[k] = (uint8_t)(rand() >> 7);
		assert_true(send(o.fd, bytes, len, MSG_NOSIGNAL) > 0);
		assert_true(sraw_turn_until(&o.link.n_down, 1));
		assert_int_equal(sraw_rail.rail->bad_frames, before + 1);
		owner_close(&o);
	}
}

/* ---- regions ---- */

struct wish {                  /* a slice that names a region of the owner */
	struct fake_pair pair; /* only for its initiator */
	struct fake_slice *slice;
	struct iovec iov;
	uint8_t bytes[4096];
};

/* Posted; whether the owner is asked is still to be seen. */
static void wish_of(struct wish *w, struct owner *o, uint8_t kind, uint64_t id,
		    uint32_t op, uint64_t length)
{
	const struct shm_key key = {.id = id,
				    .addr = FAR,
				    .length = length,
				    .access = ANY,
				    .kind = kind};

	*w = (struct wish){.pair = {.ops = ops, .initiator = o->ep}};
	w->iov = (struct iovec){w->bytes, sizeof(w->bytes)};
	w->slice = fake_slice_create(
		&w->pair, op, id, FAR + length - sizeof(w->bytes), &w->iov, 1);
	tei_shm_key_encode(&key, w->slice->key);
	w->slice->slice->key_len = SHM_KEY_LEN;
	assert_int_equal(ops->post(o->ep, &w->slice->slice, 1), 1);
}

static void wish_for(struct wish *w, struct owner *o, uint64_t id, uint32_t op,
		     uint64_t length)
{
	wish_of(w, o, SHM_ARENA, id, op, length);
}

/* Posted; the owner has been asked. */
static void wish(struct wish *w, struct owner *o, uint32_t op, uint64_t length)
{
	struct shm_message m;
	int got;

	wish_for(w, o, 9, op, length);
	sraw_receive(o->fd, &m, &got);
	assert_int_equal(m.op, SHM_ASK);
	assert_int_equal(m.id, 9);
	assert_memory_equal(m.key, w->slice->key, SHM_KEY_LEN);
}

/* It ends so, and is destroyed. */
static void expect_end(struct wish *w, int err)
{
	assert_true(sraw_turn_until(&w->slice->n_done, 1));
	assert_int_equal(w->slice->err, err);
	fake_slice_destroy(w->slice);
}

/* The owner's answer: it has no room for one more. */
static void bar(struct owner *o, struct wish *w, uint64_t id)
{
	const struct shm_message m = {
		.op = SHM_GRANT,
		.id = id,
		.status = (uint8_t)tei_status_from_errno(-EOPNOTSUPP)};

	assert_int_equal(tei_shm_send(o->fd, &m, -1), 0);
	assert_true(sraw_turn_until(&w->slice->n_done, 1));
	assert_int_equal(w->slice->err, -EOPNOTSUPP);
	fake_slice_destroy(w->slice);
}

static void grant(struct owner *o, int fd)
{
	const struct shm_message m = {.op = SHM_GRANT,
				      .id = 9,
				      .kind = SHM_ARENA,
				      .generation = 1,
				      .slot = SLOT};

	tei_shm_grant(o->pages, SLOT, 1);
	assert_int_equal(tei_shm_send(o->fd, &m, fd), 0);
}

static void arenas_of_every_wrong_kind_cost_an_error(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
		int fd = wrong[i](SRAW_LEN);
		struct owner o;
		struct wish w;

		owner_open(&o);
		wish(&w, &o, TEI_WRITE, SRAW_LEN);
		grant(&o, fd);
		while (!w.slice->n_done && !o.link.n_down)
			sraw_turn();
		ops->flush(o.ep, -ECONNRESET);
		assert_int_equal(w.slice->n_done, 1);
		assert_int_not_equal(w.slice->err, 0);
		fake_slice_destroy(w.slice);
		if (fd >= 0)
			close(fd);
		owner_close(&o);
	}
}

static void grants_that_cannot_be_break_the_endpoint(void **state)
{
	static const struct shm_message bad[] = {
		{.id = 8, .kind = SHM_ARENA, .generation = 1, .slot = SLOT},
		{.id = 9, .kind = SHM_FOREIGN, .generation = 1, .slot = SLOT},
		{.id = 9, .kind = 0, .generation = 1, .slot = SLOT},
		{.id = 9, .kind = SHM_ARENA, .generation = 0, .slot = SLOT},
		{.id = 9,
		 .kind = SHM_ARENA,
		 .generation = 1,
		 .slot = SHM_SLOTS},
		{.id = 9,
		 .kind = SHM_ARENA,
		 .generation = 1,
		 .slot = UINT32_MAX},
	};
	int fd = sraw_sealed(SRAW_LEN);

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		struct shm_message m = bad[i];
		struct owner o;
		struct wish w;

		owner_open(&o);
		wish(&w, &o, TEI_WRITE, SRAW_LEN);
		m.op = SHM_GRANT;
		assert_int_equal(tei_shm_send(o.fd, &m, fd), 0);
		assert_true(sraw_turn_until(&o.link.n_down, 1));
		ops->flush(o.ep, -ECONNRESET);
		assert_int_equal(w.slice->n_done, 1);
		fake_slice_destroy(w.slice);
		owner_close(&o);
	}
	close(fd);
}

/* ---- chunks of a GPU's memory ---- */

#define CHUNK ((uint64_t)2 << 20)
#define ALL   (12 * CHUNK)

/* Posted, of a GPU's region; the owner has been asked for it from @at on. */
static void expect_ask(const struct owner *o, uint64_t at)
{
	struct shm_message m;
	int got;

	sraw_receive(o->fd, &m, &got);
	assert_int_equal(m.op, SHM_ASK);
	assert_int_equal(m.id, 9);
	assert_int_equal(m.addr, at);
	assert_true(m.access & SHM_TAKES_GPU);
}

static void wish_chunks(struct wish *w, struct owner *o)
{
	wish_of(w, o, SHM_GPU, 9, TEI_WRITE, ALL);
	expect_ask(o, 0);
}

/* An answer with so many chunks, and so many descriptors. */
static struct shm_message chunks(unsigned int n)
{
	struct shm_message m = {.op = SHM_GRANT,
				.id = 9,
				.kind = SHM_CHUNKS,
				.generation = 1,
				.addr = FAR,
				.length = ALL,
				.slot = SLOT};

	for (unsigned int i = 0; i < n; i++)
		m.lengths[i] = CHUNK;
	return m;
}

static void send_chunks(const struct owner *o, const struct shm_message *m,
			unsigned int n)
{
	struct shm_fds fds = {.n = 0};

	while (fds.n < n)
		fds.at[fds.n++] = sraw_sealed(4096);
	tei_shm_grant(o->pages, SLOT, 1);
	assert_int_equal(tei_shm_send_fds(o->fd, m, &fds), 0);
	tei_shm_fds_close(&fds);
}

static void expect_return(const struct owner *o)
{
	struct shm_message m;
	int got;

	sraw_receive(o->fd, &m, &got);
	assert_int_equal(m.op, SHM_RETURN);
	assert_int_equal(m.id, 9);
	assert_int_equal(m.generation, 1);
	assert_int_equal(fake_n_windows, 0);
}

static void chunks_are_asked_for_until_all_are_here(void **state)
{
	struct shm_message m = chunks(SHM_CHUNKS_BURST);
	struct owner o;
	struct wish w;

	(void)state;
	owner_open(&o);
	wish_chunks(&w, &o);
	send_chunks(&o, &m, SHM_CHUNKS_BURST);
	expect_ask(&o, 8 * CHUNK);
	assert_int_equal(w.slice->n_done, 0);
	m = chunks(4);
	send_chunks(&o, &m, 4);
	expect_end(&w, -ENOMEM); /* of the burst, which this core has not */
	assert_int_equal(fake_n_windows, 1);
	owner_close(&o);
	assert_int_equal(fake_n_windows, 0);
}

/* The owner refuses the rest, or this process has no room for descriptors. */
static void chunks_that_do_not_all_come_are_returned(void **state)
{
	(void)state;
	for (int few = 0; few < 2; few++) {
		struct shm_message m = chunks(SHM_CHUNKS_BURST);
		struct owner o;
		struct wish w;

		owner_open(&o);
		wish_chunks(&w, &o);
		send_chunks(&o, &m, SHM_CHUNKS_BURST);
		expect_ask(&o, 8 * CHUNK);
		m = chunks(4);
		if (!few) {
			m = (struct shm_message){.op = SHM_GRANT, .id = 9};
			m.status = (uint8_t)tei_status_from_errno(-EOPNOTSUPP);
		}
		send_chunks(&o, &m, few ? 3 : 0);
		expect_end(&w, few ? -ENOMEM : -EOPNOTSUPP);
		expect_return(&o);
		assert_int_equal(o.link.n_down, 0);
		owner_close(&o);
	}
}

static void chunks_that_cannot_be_break_the_endpoint(void **state)
{
	enum { NONE, MORE_FDS, TOO_LONG, TOO_SHORT, NO_GPU, OTHER, MOVED, N };

	(void)state;
	for (int how = NONE; how < N; how++) {
		struct shm_message m = chunks(SHM_CHUNKS_BURST);
		unsigned int n_fds = 4;
		struct owner o;
		struct wish w;

		owner_open(&o);
		wish_chunks(&w, &o);
		if (how != TOO_SHORT) {
			send_chunks(&o, &m, SHM_CHUNKS_BURST);
			expect_ask(&o, 8 * CHUNK);
		}
		m = chunks(4);
		if (how == NONE)
			m.lengths[0] = 0;
		n_fds += how == MORE_FDS;
		if (how == TOO_LONG)
			m.lengths[3]++;
		if (how == TOO_SHORT)
			m.length = ALL - 1;
		if (how == NO_GPU)
			m.kind = SHM_GPU;
		m.generation += how == OTHER;
		m.addr -= how == MOVED ? CHUNK : 0;
		send_chunks(&o, &m, how == NO_GPU ? 0 : n_fds);
		assert_true(sraw_turn_until(&o.link.n_down, 1));
		assert_int_equal(fake_n_windows, 0);
		ops->flush(o.ep, -ECONNRESET);
		assert_int_equal(w.slice->n_done, 1);
		fake_slice_destroy(w.slice);
		owner_close(&o);
	}
}

static void chunks_without_end_break_the_endpoint(void **state)
{
	const uint64_t bursts = TEI_GPU_CHUNKS_MAX / SHM_CHUNKS_BURST;
	struct shm_message m = chunks(SHM_CHUNKS_BURST);
	struct owner o;
	struct wish w;

	(void)state;
	owner_open(&o);
	wish_chunks(&w, &o);
	for (unsigned int i = 0; i < SHM_CHUNKS_BURST; i++)
		m.lengths[i] = 1;
	for (uint64_t i = 1; i <= bursts; i++) {
		send_chunks(&o, &m, SHM_CHUNKS_BURST);
		expect_ask(&o, i * SHM_CHUNKS_BURST);
	}
	assert_int_equal(fake_n_windows, 1);
	send_chunks(&o, &m, SHM_CHUNKS_BURST);
	assert_true(sraw_turn_until(&o.link.n_down, 1));
	assert_int_equal(fake_n_windows, 0);
	ops->flush(o.ep, -ECONNRESET);
	assert_int_equal(w.slice->n_done, 1);
	fake_slice_destroy(w.slice);
	owner_close(&o);
}

static void a_grant_that_nobody_asked_for_breaks_the_endpoint(void **state)
{
	int fd = sraw_sealed(SRAW_LEN);
	struct owner o;

	(void)state;
	owner_open(&o);
	grant(&o, fd);
	assert_true(sraw_turn_until(&o.link.n_down, 1));
	close(fd);
	owner_close(&o);
}

/* What was mapped stays as long as it is: that is what the seals are for. */
static void an_owner_cannot_cut_short_what_is_mapped(void **state)
{
	int fd = sraw_sealed(SRAW_LEN);
	struct owner o;
	struct wish w;

	(void)state;
	owner_open(&o);
	wish(&w, &o, TEI_READ, SRAW_LEN);
	grant(&o, fd);
	assert_int_equal(ftruncate(fd, 0), -1);
	/* The pages may go, but zeros come for them. */
	assert_int_equal(fallocate(fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   0, SRAW_LEN),
			 0);
	memset(w.bytes, 1, sizeof(w.bytes));
	assert_true(sraw_turn_until(&w.slice->n_done, 1));
	assert_int_equal(w.slice->err, 0);
	assert_int_equal(w.bytes[sizeof(w.bytes) - 1], 0);
	assert_int_equal(ftruncate(fd, 4096), -1);
	fake_slice_destroy(w.slice);
	close(fd);
	owner_close(&o);
}

/* All of the arena @fd is to be written with 1, and may be. */
static void write_all(struct wish *w, struct owner *o, int fd)
{
	wish(w, o, TEI_WRITE, SRAW_LEN);
	memset(w->bytes, 1, sizeof(w->bytes));
	grant(o, fd);
}

/* The end of it was not. */
static void expect_no_end(int fd)
{
	char byte = 1;

	assert_int_equal(pread(fd, &byte, 1, SRAW_LEN - 1), 1);
	assert_int_equal(byte, 0);
}

static void what_is_revoked_is_not_touched(void **state)
{
	int fd = sraw_sealed(SRAW_LEN);
	struct owner o;
	struct wish w;

	(void)state;
	owner_open(&o);
	write_all(&w, &o, fd);
	tei_shm_revoke(o.pages, SLOT);
	assert_true(sraw_turn_until(&w.slice->n_done, 1));
	assert_int_equal(w.slice->err, -EFAULT);
	expect_no_end(fd);
	assert_int_equal(o.link.n_down, 0);
	fake_slice_destroy(w.slice);
	close(fd);
	owner_close(&o);
}

static void who_is_fenced_touches_nothing_more(void **state)
{
	int fd = sraw_sealed(SRAW_LEN);
	struct owner o;
	struct wish w;

	(void)state;
	owner_open(&o);
	write_all(&w, &o, fd);
	memset((void *)o.pages, 0xff, SHM_PAGES_LEN); /* of all there is */
	assert_true(sraw_turn_until(&o.link.n_down, 1));
	assert_int_equal(o.link.down_err, -ESTALE);
	ops->flush(o.ep, -ESTALE);
	assert_int_equal(w.slice->n_done, 1);
	expect_no_end(fd);
	fake_slice_destroy(w.slice);
	close(fd);
	owner_close(&o);
}

static void mappings_that_fail_are_tried_again(void **state)
{
	int fd = sraw_sealed(SRAW_LEN);
	struct owner o;
	struct wish w;

	(void)state;
	owner_open(&o);
	wish(&w, &o, TEI_WRITE, SRAW_LEN);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	grant(&o, fd);
	assert_true(sraw_turn_until(&w.slice->n_done, 1));
	tei_fault_disarm_all();
	assert_int_equal(w.slice->err, -ENOMEM);
	fake_slice_destroy(w.slice);
	wish(&w, &o, TEI_WRITE, SRAW_LEN);
	grant(&o, fd);
	expect_end(&w, 0);
	close(fd);
	owner_close(&o);
}

/* The owner's socket may have been full when it wanted to tell of others. */
static void one_forget_frees_all_that_is_revoked(void **state)
{
	const struct shm_message m = {.op = SHM_FORGET, .id = 77};
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	int fd = sraw_sealed(SRAW_LEN);
	unsigned int before;
	struct owner o;
	struct wish w;

	(void)state;
	owner_open(&o);
	before = sraw_maps();
	wish(&w, &o, TEI_READ, SRAW_LEN);
	grant(&o, fd);
	expect_end(&w, 0);
	assert_int_equal(sraw_maps(), before + 1);
	assert_int_equal(tei_shm_send(o.fd, &m, -1), 0);
	for (int i = 0; i < 100; i++)
		sraw_turn();
	assert_int_equal(sraw_maps(), before + 1);
	tei_shm_revoke(o.pages, SLOT);
	assert_int_equal(tei_shm_send(o.fd, &m, -1), 0);
	while (sraw_maps() > before && tei_now_ms() < end)
		sraw_turn();
	assert_int_equal(sraw_maps(), before);
	close(fd);
	owner_close(&o);
}

static void barred_regions_give_way_to_others(void **state)
{
	struct shm_message m;
	struct owner o;
	struct wish w;
	uint64_t id;
	int got;

	(void)state;
	owner_open(&o);
	for (id = 1; id <= SHM_VIEWS_MAX + 10; id++) {
		wish_for(&w, &o, id, TEI_READ, SRAW_LEN);
		sraw_receive(o.fd, &m, &got);
		assert_int_equal(m.op, SHM_ASK);
		assert_int_equal(m.id, id);
		bar(&o, &w, id);
	}
	owner_close(&o);
}

/* The owner may have room by then. */
static void barred_regions_are_asked_for_again(void **state)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	int fd = sraw_sealed(SRAW_LEN), got, rc;
	struct shm_message m;
	struct owner o;
	struct wish w;

	(void)state;
	owner_open(&o);
	wish(&w, &o, TEI_READ, SRAW_LEN);
	bar(&o, &w, 9);
	for (;;) {
		wish_for(&w, &o, 9, TEI_READ, SRAW_LEN);
		sraw_turn();
		rc = tei_shm_receive(o.fd, &m, &got);
		if (!rc)
			break;
		assert_int_equal(rc, -EAGAIN);
		expect_end(&w, -EOPNOTSUPP);
		assert_true(tei_now_ms() < end);
	}
	grant(&o, fd);
	expect_end(&w, 0);
	close(fd);
	owner_close(&o);
}

/* ---- whom it attaches to ---- */

static int connect_to(struct shm_address a)
{
	uint8_t bytes[SHM_ADDRESS_MAX];
	size_t len = tei_shm_address_encode(&a, bytes);
	struct shm_address mine;
	struct fake_link link;
	struct tei_endpoint *ep = sraw_open(&link, false, &mine);
	int rc = ops->endpoint_connect(ep, bytes, len);

	sraw_close(ep);
	return rc;
}

static void sockets_of_others_are_not_attached_to(void **state)
{
	struct sraw_host h;
	struct shm_address a;

	(void)state;
	sraw_host_open(&h);
	assert_int_equal(connect_to(h.address), -EINPROGRESS);
	a = h.address;
	a.pid++;
	assert_int_equal(connect_to(a), -ENXIO);
	a = h.address;
	a.uid++;
	assert_int_equal(connect_to(a), -ENXIO);
	a = h.address;
	a.path[strlen(a.path) - 1] ^= 1;
	assert_int_equal(connect_to(a), -ENXIO);
	a = h.address;
	memmove(a.path, a.path + 1, strlen(a.path));
	assert_int_equal(connect_to(a), -ENXIO);
	/* Somebody else could have put it there. */
	assert_int_equal(chmod(h.dir, 0770), 0);
	assert_int_equal(connect_to(h.address), -ENXIO);
	sraw_host_close(&h);
}

#define T(test) \
	cmocka_unit_test_setup_teardown(test, sraw_set_up, sraw_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(pages_of_every_wrong_kind_break_the_endpoint),
		T(pages_that_are_too_large_are_not_taken),
		T(a_welcome_for_another_is_not_taken),
		T(nonsense_on_the_socket_breaks_the_endpoint),
		T(arenas_of_every_wrong_kind_cost_an_error),
		T(grants_that_cannot_be_break_the_endpoint),
		T(chunks_are_asked_for_until_all_are_here),
		T(chunks_that_do_not_all_come_are_returned),
		T(chunks_that_cannot_be_break_the_endpoint),
		T(chunks_without_end_break_the_endpoint),
		T(a_grant_that_nobody_asked_for_breaks_the_endpoint),
		T(an_owner_cannot_cut_short_what_is_mapped),
		T(what_is_revoked_is_not_touched),
		T(who_is_fenced_touches_nothing_more),
		T(mappings_that_fail_are_tried_again),
		T(one_forget_frees_all_that_is_revoked),
		T(barred_regions_give_way_to_others),
		T(barred_regions_are_asked_for_again),
		T(sockets_of_others_are_not_attached_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
