/* SPDX-License-Identifier: Apache-2.0 */
/* test_ofi_load.c - a million slices, and how many a second */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/chance.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/unit/backends/ofi_rig.h"

#define MILLION   1000000u
#define IN_FLIGHT 256u
#define SMALL     64u

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

/* ---- with faults ---- */

struct crowd {
	struct fake_slice *s[IN_FLIGHT];
	uint64_t want[IN_FLIGHT]; /* what its bytes begin with */
	uint64_t chance, n_ended, n_good, n_failed, n_breaks;
};

static void look_at(struct crowd *c, uint32_t i)
{
	struct fake_slice *s = c->s[i];
	uint64_t got;

	assert_int_equal(s->n_done, 1);
	c->n_ended++;
	if (s->err) {
		c->n_failed++;
		return;
	}
	c->n_good++;
	memcpy(&got,
	       s->slice->op == TEI_WRITE ? rig.far + i * SMALL
					 : rig.near + i * SMALL,
	       sizeof(got));
	assert_true(got == c->want[i]);
}

static void renew(struct crowd *c, uint32_t i)
{
	struct fake_slice *s = c->s[i];
	struct tei_slice *slice = s->slice;

	c->want[i] = tei_chance(&c->chance);
	slice->op = c->want[i] % 2 ? TEI_READ : TEI_WRITE;
	memcpy(slice->op == TEI_WRITE ? rig.near + i * SMALL
				      : rig.far + i * SMALL,
	       &c->want[i], sizeof(c->want[i]));
	s->n_done = 0;
	s->err = 1;
}

/* What the core does with an endpoint that is down. */
static void mend(struct crowd *c)
{
	if (!rig.pair.initiator_link.n_down && !rig.pair.target_link.n_down)
		return;
	c->n_breaks++;
	ofi_rig_rejoin();
}

static void post_all(struct crowd *c)
{
	struct tei_slice *slices[IN_FLIGHT];
	uint32_t at = 0;

	for (uint32_t i = 0; i < IN_FLIGHT; i++) {
		renew(c, i);
		slices[i] = c->s[i]->slice;
	}
	while (at < IN_FLIGHT) {
		int rc;

		for (uint32_t i = at; i < IN_FLIGHT; i++)
			slices[i]->ep = rig.pair.initiator;
		rc = tei_backend_ofi.post(rig.pair.initiator, slices + at,
					  (int)(IN_FLIGHT - at));
		if (rc > 0)
			at += (uint32_t)rc;
		else
			fake_progress(&rig.pair);
		mend(c);
	}
}

static void a_million_slices_with_faults_end_once_each(void **state)
{
	const struct fake_ofi_chances some = {
		.seed = 7, .spoil = 1000, .busy = 2000, .cut = 300000};
	struct crowd c = {.chance = 42};
	uint64_t begin;

	(void)state;
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		c.s[i] = ofi_rig_slice(TEI_WRITE, i * SMALL, SMALL);
	fake_ofi_set_chances(&some);
	begin = tei_now_ms();
	while (c.n_ended < TEST_TIMES(MILLION)) {
		post_all(&c);
		for (uint32_t i = 0; i < IN_FLIGHT; i++) {
			while (!c.s[i]->n_done) {
				fake_progress(&rig.pair);
				mend(&c);
			}
		}
		for (uint32_t i = 0; i < IN_FLIGHT; i++)
			look_at(&c, i);
	}
	fake_ofi_set_chances(NULL);
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		fake_slice_destroy(c.s[i]);
	assert_int_equal(c.n_good + c.n_failed, c.n_ended);
	assert_true(c.n_breaks > TEST_TIMES(400));
	assert_true(c.n_failed > c.n_breaks / 2);
	print_message(
		"%llu slices: %llu good, %llu failed, %llu endpoints "
		"broken, %llu ms\n",
		(unsigned long long)c.n_ended, (unsigned long long)c.n_good,
		(unsigned long long)c.n_failed, (unsigned long long)c.n_breaks,
		(unsigned long long)(tei_now_ms() - begin));
}

/* ---- the rate ---- */

#define BATCH 128u

/* All that were posted have ended well. */
static bool is_done(struct fake_slice *const *s)
{
	for (uint32_t i = 0; i < BATCH; i++) {
		if (!s[i]->n_done)
			return false;
	}
	return true;
}

static void carry_batch(struct fake_slice *const *s,
			struct tei_slice *const *slices)
{
	struct tei_rail *rail = rig.pair.a.rail;
	int at = 0;

	for (uint32_t i = 0; i < BATCH; i++)
		s[i]->n_done = 0;
	while (at < (int)BATCH) {
		at += tei_backend_ofi.post(rig.pair.initiator, slices + at,
					   (int)BATCH - at);
		(void)tei_backend_ofi.progress(rail, 64);
	}
	while (!is_done(s))
		(void)tei_backend_ofi.progress(rail, 64);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * TEI_NS_PER_S + (uint64_t)t.tv_nsec;
}

static double per_us(uint64_t n, uint64_t ns)
{
	return (double)n * 1e3 / (double)(ns ? ns : 1);
}

/* Prints figures of one thread, and asserts none. */
static void slices_a_second_are_told(void **state)
{
	struct fake_slice *s[BATCH];
	struct tei_slice *slices[BATCH];
	uint64_t begin, cpu, n = 0;

	(void)state;
	for (uint32_t i = 0; i < BATCH; i++) {
		s[i] = ofi_rig_slice(TEI_WRITE, i * SMALL, 8);
		slices[i] = s[i]->slice;
	}
	begin = tei_now_ns();
	cpu = cpu_ns();
	for (; n < TEST_TIMES(MILLION); n += BATCH)
		carry_batch(s, slices);
	cpu = cpu_ns() - cpu;
	begin = tei_now_ns() - begin;
	for (uint32_t i = 0; i < BATCH; i++) {
		assert_int_equal(s[i]->n_done, 1);
		assert_int_equal(s[i]->err, 0);
		fake_slice_destroy(s[i]);
	}
	print_message(
		"%llu slices of 8 B: %.2f M/s, %.2f M per s of processor\n",
		(unsigned long long)n, per_us(n, begin), per_us(n, cpu));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_million_slices_with_faults_end_once_each),
		TEST(slices_a_second_are_told),
	};

	return ofi_rig_run("load", tests, TEST_COUNT(tests));
}
