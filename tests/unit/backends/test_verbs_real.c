/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_verbs_real.c - the same queue pairs on a device of this host
 *
 * Both rails are on its first active port, so one machine with soft-RoCE will do.
 * Skipped where there is none. It keeps the fake provider honest: what passes
 * there is tried here by real queue pairs.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/verbs_rig.h"

static char device[48];

static int note_first(const struct tei_device *found, void *arg)
{
	(void)arg;
	memcpy(device, found->name, sizeof(device));
	return 1;
}

static int set_up(void **state)
{
	(void)state;
	return verbs_rig_open_on(tei_verbs_in_use(), device, NULL, RIG_RW);
}

static void bytes_of_every_size_arrive_both_ways(void **state)
{
	static const size_t sizes[] = {1, 64, 65, 4096, 100000, RIG_LEN};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
			struct fake_slice *s = verbs_rig_slice(op, 0, sizes[i]);

			verbs_rig_fill(rig.near, RIG_LEN, 2 * i + op);
			verbs_rig_fill(rig.far, RIG_LEN, 1000 + 2 * i + op);
			verbs_rig_carry(s);
			assert_int_equal(s->err, 0);
			assert_memory_equal(rig.near, rig.far, sizes[i]);
			fake_slice_destroy(s);
		}
	}
}

static void forged_key_reaches_nothing_and_is_blamed_on_nobody(void **state)
{
	struct fake_slice *s = verbs_rig_slice(TEI_WRITE, 0, 100);

	(void)state;
	memset(rig.near, 1, 100);
	memset(rig.far, 0, 100);
	s->key[VERBS_KEY_LEN + 1] ^= 0x55;
	verbs_rig_carry(s);
	assert_int_equal(s->err, -EACCES);
	assert_int_equal(rig.far[0], 0);
	verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
	assert_int_equal(rig.pair.initiator_link.down_err, -ESTALE);
	fake_slice_destroy(s);
	verbs_rig_rejoin();
	s = verbs_rig_slice(TEI_WRITE, 0, 100);
	verbs_rig_carry(s);
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
}

static void removed_region_is_refused(void **state)
{
	struct fake_slice *s = verbs_rig_slice(TEI_READ, 0, 100);

	(void)state;
	assert_int_equal(tei_backend_verbs.region_hide(rig.pair.b.rail, 2), 0);
	verbs_rig_carry(s);
	assert_int_equal(s->err, -EACCES);
	fake_slice_destroy(s);
}

static void dropped_endpoint_is_confirmed_and_lets_nothing_in(void **state)
{
	struct fake_slice *s = verbs_rig_slice(TEI_WRITE, 0, 4096);

	(void)state;
	assert_int_equal(tei_backend_verbs.drop(rig.pair.target), -EINPROGRESS);
	verbs_rig_wait(&rig.pair.target_link.n_down, 1);
	memset(rig.near, 1, 4096);
	memset(rig.far, 0, 4096);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	fake_flush(rig.pair.initiator, -ESTALE);
	assert_int_equal(s->n_done, 1);
	assert_int_equal(s->err, -ESTALE);
	assert_int_equal(rig.far[0], 0);
	fake_slice_destroy(s);
	verbs_rig_rejoin();
}

static void idle_rail_is_woken_by_its_descriptor(void **state)
{
	struct tei_rail *rail = rig.pair.a.rail;
	struct pollfd fd = {.fd = tei_backend_verbs.wait_fd(rail),
			    .events = POLLIN};
	struct fake_slice *s = verbs_rig_slice(TEI_READ, 0, 100000);

	(void)state;
	for (int i = 0; i < 200; i++)
		fake_progress(&rig.pair);
	tei_backend_verbs.arm(rail);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	assert_int_equal(poll(&fd, 1, FAKE_LIMIT_MS), 1);
	rail->woken = true;
	verbs_rig_wait(&s->n_done, 1);
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
}

static void connections_come_and_go(void **state)
{
	struct fake_slice *s;

	(void)state;
	for (int i = 0; i < 50; i++) {
		verbs_rig_rejoin();
		s = verbs_rig_slice(TEI_WRITE, 0, 64);
		verbs_rig_carry(s);
		assert_int_equal(s->err, 0);
		fake_slice_destroy(s);
	}
}

#define MANY 64

static void many_slices_at_once_all_arrive(void **state)
{
	struct fake_slice *s[MANY];

	(void)state;
	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		verbs_rig_fill(rig.near, RIG_LEN, op);
		verbs_rig_fill(rig.far, RIG_LEN, 10 + op);
		verbs_rig_post(s, MANY, op, RIG_LEN / MANY);
		verbs_rig_await(s, MANY);
		assert_memory_equal(rig.near, rig.far, RIG_LEN);
	}
}

/* ---- memory ---- */

static void unregistered_memory_is_carried_both_ways(void **state)
{
	static uint8_t elsewhere[RIG_LEN];
	size_t length = RIG_LEN - 77;

	(void)state;
	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		struct fake_slice *s = verbs_rig_slice(op, 0, length);

		s->piece.iov_base = elsewhere;
		verbs_rig_fill(elsewhere, RIG_LEN, op);
		verbs_rig_fill(rig.far, RIG_LEN, 10 + op);
		verbs_rig_carry(s);
		assert_int_equal(s->err, 0);
		assert_memory_equal(elsewhere, rig.far, length);
		fake_slice_destroy(s);
	}
}

/* A device, a domain, and what is registered there. */
static struct verbs_config config = {
	.lanes = 1, .depth = 16, .mtu = VERBS_MTU_MAX, .pieces = 1};
static struct verbs_port port;
static struct ibv_pd *pd;
static struct verbs_regions regions;

static int open_domain(void **state)
{
	(void)state;
	if (tei_verbs_port_open(&port, tei_verbs_in_use(), &config, device))
		return -1;
	pd = port.api->alloc_pd(port.context);
	tei_verbs_regions_init(&regions, &port, pd);
	return pd ? 0 : -1;
}

/* The kernel refuses while a key is left. */
static int close_domain(void **state)
{
	int rc = port.api->dealloc_pd(pd);

	(void)state;
	tei_verbs_regions_fini(&regions);
	tei_verbs_port_close(&port);
	return rc;
}

static void add(uint64_t id, uint8_t *at, size_t length, struct verbs_key *key)
{
	static uint8_t bytes[TEI_KEY_MAX];
	size_t len = sizeof(bytes);

	assert_int_equal(tei_verbs_region_add(&regions, id, at, length, RIG_RW,
					      bytes, &len),
			 0);
	assert_null(tei_verbs_key_decode(bytes, len, key));
}

static void take_away(uint64_t id)
{
	assert_int_equal(tei_verbs_region_hide(&regions, id), 0);
	tei_verbs_region_remove(&regions, id);
}

#define CHUNK  ((size_t)16 << 20)
#define CHUNKS 64

/* The same 16 MiB again and again, as a gigabyte is much for a small machine. */
static void a_gigabyte_goes_in_chunks_of_16_mebibytes(void **state)
{
	int fd = memfd_create("chunk", MFD_CLOEXEC);
	uint8_t *all = mmap(NULL, CHUNKS * CHUNK, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct verbs_key key;
	uint64_t begin;

	(void)state;
	assert_true(fd >= 0 && all != MAP_FAILED && !ftruncate(fd, CHUNK));
	for (size_t i = 0; i < CHUNKS; i++)
		assert_true(mmap(all + i * CHUNK, CHUNK, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
	config.chunk = CHUNK;
	begin = tei_now_ms();
	add(1, all, CHUNKS * CHUNK, &key);
	assert_int_equal(key.range.n, CHUNKS);
	print_message("registered in %llu ms\n",
		      (unsigned long long)(tei_now_ms() - begin));
	take_away(1);
	config.chunk = 0;
	munmap(all, CHUNKS * CHUNK);
	close(fd);
}

#define REGIONS 10000u

static void ten_thousand_regions_leave_no_key(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), length = REGIONS * page;
	uint8_t *all = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t begin = tei_now_ms();
	struct verbs_key key;

	(void)state;
	assert_true(all != MAP_FAILED);
	for (uint64_t i = 0; i < REGIONS; i++)
		add(i, all + i * page, page, &key);
	for (uint64_t i = 0; i < REGIONS; i++)
		take_away(i);
	print_message("came and went in %llu ms\n",
		      (unsigned long long)(tei_now_ms() - begin));
	munmap(all, length);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, set_up, verbs_rig_tear_down)
#define MEMORY_TEST(name) \
	cmocka_unit_test_setup_teardown(name, open_domain, close_domain)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bytes_of_every_size_arrive_both_ways),
		TEST(many_slices_at_once_all_arrive),
		TEST(forged_key_reaches_nothing_and_is_blamed_on_nobody),
		TEST(removed_region_is_refused),
		TEST(dropped_endpoint_is_confirmed_and_lets_nothing_in),
		TEST(idle_rail_is_woken_by_its_descriptor),
		TEST(connections_come_and_go),
		TEST(unregistered_memory_is_carried_both_ways),
		MEMORY_TEST(a_gigabyte_goes_in_chunks_of_16_mebibytes),
		MEMORY_TEST(ten_thousand_regions_leave_no_key),
	};
	const struct tei_search search = {
		.config = &config, .named = true, .found = note_first};

	if (tei_backend_verbs.probe(&search) != 1) {
		puts("no active port of a verbs device on this host");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
