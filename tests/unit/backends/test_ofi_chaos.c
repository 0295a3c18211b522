/* SPDX-License-Identifier: Apache-2.0 */
/* test_ofi_chaos.c - schedules of ops and trouble in any order, from seeds */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/chance.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/unit/backends/ofi_rig.h"

#define SEEDS    100
#define STEPS    300
#define SLICES   64
#define ROOM     16384 /* of a slice, in both memories */
#define EXTRA_ID 7
#define AFTER    16 /* turns in which nothing may be touched any more */

static void be_quiet(int level, const char *text, void *arg)
{
	(void)level;
	(void)text;
	(void)arg;
}

static int set_up(void **state)
{
	tei_log_set_sink(be_quiet, NULL);
	return ofi_rig_set_up(state);
}

static int tear_down(void **state)
{
	int rc = ofi_rig_tear_down(state);

	tei_log_set_sink(NULL, NULL);
	return rc;
}

struct chaos {
	uint64_t chance;
	struct fake_slice *s[SLICES]; /* NULL: free */
	struct iovec iov[SLICES][4];
	bool hangs, dropped, has_extra;
	uint64_t n_posted, n_ended, n_good, n_joins;
};

static uint64_t pick(struct chaos *c, uint64_t below)
{
	return tei_chance(&c->chance) % below;
}

static bool is_up(const struct chaos *c)
{
	return !rig.pair.initiator_link.n_down && !c->dropped;
}

/* ---- slices ---- */

static void reap(struct chaos *c)
{
	for (size_t i = 0; i < SLICES; i++) {
		if (!c->s[i] || !c->s[i]->n_done)
			continue;
		assert_int_equal(c->s[i]->n_done, 1);
		c->n_ended++;
		c->n_good += !c->s[i]->err;
		fake_slice_destroy(c->s[i]);
		c->s[i] = NULL;
	}
}

static void post_one(struct chaos *c)
{
	size_t i = pick(c, SLICES), n = 1 + pick(c, 4);
	uint32_t op = pick(c, 2) ? TEI_READ : TEI_WRITE;
	struct fake_slice *s;
	int rc;

	if (c->s[i] || !is_up(c))
		return;
	for (size_t k = 0; k < n; k++)
		c->iov[i][k] = (struct iovec){rig.near + i * ROOM + k * 4096,
					      1 + pick(c, 4096)};
	s = ofi_rig_pieces(op, i * ROOM, c->iov[i], (uint32_t)n);
	s->slice->skip = pick(c, c->iov[i][0].iov_len);
	s->slice->length -= s->slice->skip;
	rc = tei_backend_ofi.post(rig.pair.initiator, &s->slice, 1);
	assert_int_equal(s->n_done, 0);
	if (rc == 1) {
		c->s[i] = s;
		c->n_posted++;
		return;
	}
	fake_slice_destroy(s);
}

static void cancel_one(struct chaos *c)
{
	size_t i = pick(c, SLICES);

	if (c->s[i] && !c->s[i]->n_done)
		tei_backend_ofi.cancel(rig.pair.initiator, c->s[i]->slice);
}

/* ---- ends ---- */

static void assert_all(const uint8_t *bytes, uint8_t value)
{
	assert_int_equal(bytes[0], value);
	assert_memory_equal(bytes, bytes + 1, RIG_LEN - 1);
}

static void hang(struct chaos *c, bool on)
{
	c->hangs = on;
	fake_ofi_hang(0, on);
}

/* Flush says that local memory is quiet: it stays as it is then. */
static void join_anew(struct chaos *c)
{
	ofi_rig_flush(-ECONNRESET);
	reap(c);
	for (size_t i = 0; i < SLICES; i++)
		assert_null(c->s[i]);
	memset(rig.near, 0xee, RIG_LEN);
	hang(c, false);
	for (int i = 0; i < AFTER; i++)
		fake_progress(&rig.pair);
	assert_all(rig.near, 0xee);
	rig.pair.initiator->rail->ops->endpoint_close(rig.pair.initiator);
	tei_free(rig.pair.initiator);
	rig.pair.initiator = NULL;
	ofi_rig_rejoin();
	c->dropped = false;
	c->n_joins++;
}

/* Drop says that remote memory is quiet. */
static void drop_target(struct chaos *c)
{
	if (c->dropped || rig.pair.target_link.n_down)
		return;
	c->dropped = true;
	if (tei_backend_ofi.drop(rig.pair.target))
		ofi_rig_wait(&rig.pair.target_link.n_down, 1);
	memset(rig.far, 0xdd, RIG_LEN);
	hang(c, false);
	for (int i = 0; i < AFTER; i++)
		fake_progress(&rig.pair);
	assert_all(rig.far, 0xdd);
}

static void change_extra(struct chaos *c)
{
	const struct tei_backend_ops *ops = &tei_backend_ofi;
	static uint8_t memory[4096], key[TEI_BLOB_MAX];
	struct tei_rail *rail = rig.pair.b.rail;
	size_t len = sizeof(key);

	if (!c->has_extra) {
		c->has_extra =
			!ops->region_add(rail, EXTRA_ID, memory, sizeof(memory),
					 RIG_RW, key, &len);
		return;
	}
	if (ops->region_hide(rail, EXTRA_ID))
		return;
	ops->region_remove(rail, EXTRA_ID);
	c->has_extra = false;
}

/* ---- schedules ---- */

static void make_trouble(struct chaos *c)
{
	static const int errors[] = {FI_EIO, FI_EACCES, FI_EREMOTEIO,
				     FI_ECANCELED, FI_ETIMEDOUT};
	int err = errors[pick(c, TEST_COUNT(errors))];

	switch (pick(c, 8)) {
	case 0:
		fake_ofi_reset_all();
		break;
	case 1:
		fake_ofi_spoil(1 + (unsigned)pick(c, 8), err);
		break;
	case 2:
		fake_ofi_fail(FAKE_OFI_POST, 1 + (unsigned)pick(c, 8), err);
		break;
	case 3:
		drop_target(c);
		break;
	case 4:
		change_extra(c);
		break;
	case 5:
		(void)fake_ofi_strangers(&c->chance, pick(c, 32));
		break;
	default:
		fake_ofi_be_busy((unsigned)pick(c, 30));
	}
}

static void step(struct chaos *c)
{
	switch (pick(c, 16)) {
	case 0:
		make_trouble(c);
		break;
	case 1:
		hang(c, !c->hangs);
		break;
	case 2:
		cancel_one(c);
		break;
	case 3:
	case 4:
		(void)fake_turn(rig.pair.a.rail);
		break;
	case 5:
		(void)fake_turn(rig.pair.b.rail);
		break;
	case 6:
		if (!is_up(c) || rig.pair.target_link.n_down)
			join_anew(c);
		break;
	default:
		post_one(c);
	}
	reap(c);
}

static bool all_ended(const struct chaos *c)
{
	return c->n_ended == c->n_posted;
}

static void end_all(struct chaos *c)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	hang(c, false);
	fake_ofi_fail(FAKE_OFI_ANY, 0, 0);
	fake_ofi_spoil(0, 0);
	fake_ofi_be_busy(0);
	while (!all_ended(c) && tei_now_ms() < end) {
		fake_progress(&rig.pair);
		if (!is_up(c))
			join_anew(c);
		reap(c);
	}
	assert_true(all_ended(c));
	while (c->has_extra) {
		change_extra(c);
		fake_progress(&rig.pair);
	}
	join_anew(c);
}

static void any_schedule_ends_each_slice_once(void **state)
{
	uint64_t n = 0, good = 0, joins = 0;
	unsigned int open = fake_ofi_open();

	(void)state;
	for (uint64_t seed = 1; seed <= TEST_TIMES(SEEDS); seed++) {
		struct chaos c = {.chance = seed};

		for (int i = 0; i < STEPS; i++)
			step(&c);
		end_all(&c);
		while (fake_ofi_counts().requests)
			fake_progress(&rig.pair);
		if (fake_ofi_open() != open)
			fail_msg("seed %llu: something stays open",
				 (unsigned long long)seed);
		n += c.n_posted;
		good += c.n_good;
		joins += c.n_joins;
	}
	assert_true(good > n / 10 && good < n);
	print_message("%llu slices, %llu good, %llu connections\n",
		      (unsigned long long)n, (unsigned long long)good,
		      (unsigned long long)joins);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			any_schedule_ends_each_slice_once, set_up, tear_down),
	};

	return ofi_rig_run("chaos", tests, TEST_COUNT(tests));
}
