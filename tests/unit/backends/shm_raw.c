/* SPDX-License-Identifier: Apache-2.0 */
/* shm_raw.c - bare sockets and memory that speak to a rail of shm */
#include "tests/unit/backends/shm_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <te/te.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/lib/self.h"
#include "tests/lib/test.h"

static const struct tei_backend_ops *const ops = &tei_backend_shm;
static int arena_fd;
static unsigned int fds_before, maps_before;

struct fake_rail sraw_rail;
uint8_t *sraw_memory;

int tei_memory_backing(struct tei_engine_core *core, const void *addr,
		       uint64_t length, struct tei_backing *out)
{
	uint64_t offset = (uintptr_t)addr - (uintptr_t)sraw_memory;

	(void)core;
	if (offset > SRAW_LEN || length > SRAW_LEN - offset)
		return -ENOENT;
	*out = (struct tei_backing){.fd = arena_fd,
				    .offset = offset,
				    .length = SRAW_LEN,
				    .asked = SRAW_LEN};
	return 0;
}

void tei_mapping_add(struct tei_engine_core *core, struct tei_mapping *mapping,
		     void *addr, uint64_t length)
{
	(void)core;
	*mapping = (struct tei_mapping){.addr = addr, .length = length};
}

void tei_mapping_remove(struct tei_engine_core *core,
			struct tei_mapping *mapping)
{
	(void)core;
	mapping->length = 0;
}

/* ---- what is open ---- */

unsigned int sraw_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, "/memfd:") != NULL;
	fclose(maps);
	return n;
}

int sraw_sealed(size_t size)
{
	int fd = memfd_create("raw", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW),
			 0);
	return fd;
}

int sraw_set_up(void **state)
{
	(void)state;
	fake_key_len = SHM_KEY_LEN;
	fds_before = test_fds_open();
	maps_before = sraw_maps();
	arena_fd = sraw_sealed(SRAW_LEN);
	sraw_memory = mmap(NULL, SRAW_LEN, PROT_READ | PROT_WRITE, MAP_SHARED,
			   arena_fd, 0);
	assert_true(sraw_memory != MAP_FAILED);
	memset(sraw_memory, 0x5a, SRAW_LEN);
	return fake_rail_open(&sraw_rail, ops, NULL);
}

int sraw_tear_down(void **state)
{
	(void)state;
	fake_rail_close(&sraw_rail);
	munmap(sraw_memory, SRAW_LEN);
	close(arena_fd);
	return test_fds_open() != fds_before || sraw_maps() != maps_before ||
			       fake_pins()
		       ? -1
		       : 0;
}

/* ---- the rail ---- */

void sraw_turn(void)
{
	assert_true(fake_turn(sraw_rail.rail) >= 0);
}

bool sraw_turn_until(const unsigned int *n, unsigned int want)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (*n < want && tei_now_ms() < end)
		sraw_turn();
	return *n >= want;
}

struct tei_endpoint *sraw_open(struct fake_link *link, bool target,
			       struct shm_address *a)
{
	struct tei_endpoint *ep =
		fake_endpoint(&sraw_rail, link, target, fake_epoch);
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = sizeof(bytes);

	assert_non_null(ep);
	assert_int_equal(ops->endpoint_open(ep, bytes, &len), 0);
	assert_true(tei_shm_address_decode(bytes, len, a));
	/* Joined to one that says the same of itself. */
	if (target)
		assert_int_equal(ops->endpoint_connect(ep, bytes, len),
				 -EINPROGRESS);
	return ep;
}

void sraw_close(struct tei_endpoint *ep)
{
	ops->flush(ep, -ECANCELED);
	ops->endpoint_close(ep);
	tei_free(ep);
}

uint64_t sraw_region(uint8_t *at, size_t len, uint32_t access,
		     uint8_t key[SHM_KEY_LEN])
{
	uint64_t id = fake_region_add(at, len, access);
	size_t key_len = SHM_KEY_LEN;

	assert_int_equal(ops->region_add(sraw_rail.rail, id, at, len, access,
					 key, &key_len),
			 0);
	return id;
}

void sraw_unregion(uint64_t id)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	int rc = -EBUSY;

	while (rc && tei_now_ms() < end)
		rc = ops->region_hide(sraw_rail.rail, id);
	assert_int_equal(rc, 0);
	ops->region_remove(sraw_rail.rail, id);
	fake_region_remove(id);
}

/* ---- as an initiator ---- */

int sraw_dial(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char path[SHM_PATH_MAX];

	assert_true(fd >= 0);
	tei_shm_path(shm_rail(sraw_rail.rail), path);
	assert_true(strlen(path) < sizeof(un.sun_path));
	memcpy(un.sun_path, path, strlen(path));
	assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

bool sraw_closed(int fd)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	uint8_t bytes[SHM_MESSAGE_LEN];

	while (tei_now_ms() < end) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (!n || (n < 0 && errno != EAGAIN))
			return true;
		sraw_turn();
	}
	return false;
}

void sraw_hello(int fd, const struct shm_address *a)
{
	struct shm_message m = {.op = SHM_HELLO};

	memcpy(m.token, a->token, SHM_TOKEN_LEN);
	assert_int_equal(tei_shm_send(fd, &m, -1), 0);
}

void sraw_receive(int fd, struct shm_message *m, int *got)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	int rc = -EAGAIN;

	while (rc == -EAGAIN && tei_now_ms() < end) {
		rc = tei_shm_receive(fd, m, got);
		if (rc)
			sraw_turn();
	}
	assert_int_equal(rc, 0);
}

int sraw_attach(const struct shm_address *a, struct shm_pages **pages)
{
	int fd = sraw_dial(), got;
	struct shm_message m;

	sraw_hello(fd, a);
	sraw_receive(fd, &m, &got);
	assert_int_equal(m.op, SHM_WELCOME);
	assert_true(got >= 0);
	assert_int_equal(tei_shm_pages_map(got, pages), 0);
	close(got);
	return fd;
}

void sraw_serves_honest_peers(void)
{
	struct shm_message m = {.op = SHM_ASK};
	struct shm_pages *pages;
	struct shm_address a;
	struct fake_link link;
	struct tei_endpoint *ep = sraw_open(&link, true, &a);
	uint64_t id = sraw_region(
		sraw_memory, SRAW_LEN,
		TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE, m.key);
	int fd = sraw_attach(&a, &pages), got;

	m.id = id;
	assert_int_equal(tei_shm_send(fd, &m, -1), 0);
	sraw_receive(fd, &m, &got);
	assert_int_equal(m.op, SHM_GRANT);
	assert_int_equal(m.status, 0);
	assert_true(tei_shm_is_granted(pages, m.slot, m.generation));
	assert_true(got >= 0);
	close(got);
	close(fd);
	tei_shm_pages_unmap(pages);
	sraw_unregion(id);
	sraw_close(ep);
}

/* ---- as a target ---- */

void sraw_host_open(struct sraw_host *h)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	strcpy(h->dir, "/tmp/te-raw-XXXXXX");
	assert_non_null(mkdtemp(h->dir));
	h->address = (struct shm_address){.pid = (uint32_t)getpid(),
					  .uid = (uint32_t)geteuid()};
	memset(h->address.token, 7, SHM_TOKEN_LEN);
	snprintf(h->address.path, SHM_PATH_MAX, "%s/te-raw", h->dir);
	memcpy(un.sun_path, h->address.path, strlen(h->address.path) + 1);
	h->listener = socket(AF_UNIX,
			     SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(h->listener, (struct sockaddr *)&un, sizeof(un)),
			 0);
	assert_int_equal(listen(h->listener, 8), 0);
}

void sraw_host_close(struct sraw_host *h)
{
	close(h->listener);
	unlink(h->address.path);
	rmdir(h->dir);
}

int sraw_meet(const struct sraw_host *h, struct tei_endpoint *ep)
{
	uint8_t bytes[SHM_ADDRESS_MAX];
	size_t len = tei_shm_address_encode(&h->address, bytes);
	struct shm_message m = {0};
	int fd, got;

	assert_int_equal(ops->endpoint_connect(ep, bytes, len), -EINPROGRESS);
	fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(fd >= 0);
	sraw_receive(fd, &m, &got);
	assert_int_equal(m.op, SHM_HELLO);
	assert_memory_equal(m.token, h->address.token, SHM_TOKEN_LEN);
	return fd;
}

void sraw_welcome(int fd, const struct shm_address *a, int pages_fd)
{
	struct shm_message m = {.op = SHM_WELCOME};

	memcpy(m.token, a->token, SHM_TOKEN_LEN);
	assert_int_equal(tei_shm_send(fd, &m, pages_fd), 0);
}
