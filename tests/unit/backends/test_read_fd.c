/* SPDX-License-Identifier: Apache-2.0 */
/* test_read_fd.c - by which socket a rail of tcp serves its peers */
#include <fcntl.h>

#include <te/te.h>

#include "tests/lib/test.h"
#include "tests/unit/backends/fake_core.h"

extern const struct tei_backend_ops tei_backend_tcp;

#define LEN ((size_t)4096)
#define ANY (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

static uint8_t remote[LEN], local[LEN];
static struct fake_pair pair;
static uint64_t region;

static int set_up(void **state)
{
	(void)state;
	region = fake_region_add(remote, LEN, ANY);
	assert_int_equal(fake_pair_open(&pair, &tei_backend_tcp, NULL), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_pair_close(&pair);
	fake_region_remove(region);
	return 0;
}

static void move(uint32_t op)
{
	struct iovec iov = {local, LEN};
	struct fake_slice *s = fake_slice_create(&pair, op, region,
						 (uintptr_t)remote, &iov, 1);

	assert_int_equal(fake_post(&pair, s), 0);
	assert_true(fake_wait(&pair, &s->n_done, 1));
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
}

static void target_alone_says_from_where_it_has_read(void **state)
{
	static const uint32_t ops[] = {TEI_WRITE, TEI_READ};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ops); i++) {
		pair.a.rail->read_fd = pair.b.rail->read_fd = -1;
		move(ops[i]);
		assert_int_equal(pair.a.rail->read_fd, -1);
		assert_true(pair.b.rail->read_fd >= 0);
		assert_true(fcntl(pair.b.rail->read_fd, F_GETFD) >= 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			target_alone_says_from_where_it_has_read, set_up,
			tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
