/* SPDX-License-Identifier: Apache-2.0 */
/* test_owners.c - owners that do not answer, as their readers see them */
#include <errno.h>
#include <string.h>

#include <te/te.h>

#include "base/clock.h"
#include "store/client/owners.h"
#include "store/client/places.h"
#include "store/client/work.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/fake_te.h"

/* A reader and an engine that it reads from. */
struct pair {
	struct te_engine *reader, *engine;
	struct tes_owners owners;
	struct tes_owner *owner;
	uint8_t incarnation[TE_INCARNATION_LEN];
	unsigned int n_told;
};

static void on_silent(void *arg, const uint8_t incarnation[TE_INCARNATION_LEN])
{
	struct pair *p = arg;

	assert_memory_equal(incarnation, p->incarnation, TE_INCARNATION_LEN);
	p->n_told++;
}

static void open_pair(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	assert_int_equal(te_engine_create(NULL, "reader:1", &p->reader), 0);
	assert_int_equal(te_engine_create(NULL, "owner:1", &p->engine), 0);
	te_engine_incarnation(p->engine, p->incarnation);
	tes_owners_init(&p->owners, p->reader);
	p->owners.silent = on_silent;
	p->owners.silent_arg = p;
}

static int get_owner(struct pair *p)
{
	return tes_owners_get(&p->owners, te_engine_name(p->engine),
			      p->incarnation, 1000, &p->owner);
}

static void close_pair(struct pair *p)
{
	if (p->owner)
		tes_owners_put(&p->owners, p->owner);
	tes_owners_fini(&p->owners);
	te_engine_destroy(p->engine);
	te_engine_destroy(p->reader);
}

static bool try_it(void *arg)
{
	struct pair *p = arg;

	return tes_owners_try(&p->owners, p->owner, 1000);
}

static void who_never_failed_is_read(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p);
	assert_int_equal(get_owner(&p), 0);
	assert_true(try_it(&p));
	assert_int_equal(p.n_told, 0);
	close_pair(&p);
}

static void who_failed_and_answers_is_read_again_at_once(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p);
	assert_int_equal(get_owner(&p), 0);
	tes_owners_failed(&p.owners, p.owner);
	assert_int_equal(p.n_told, 1);
	assert_true(
		tes_owners_avoided(&p.owners, p.owner->name, p.incarnation));
	assert_true(try_it(&p));
	assert_false(
		tes_owners_avoided(&p.owners, p.owner->name, p.incarnation));
	close_pair(&p);
}

static void who_does_not_answer_is_asked_now_and_then_only(void **state)
{
	struct pair p;
	uint64_t from = tei_now_ns();
	int i;

	(void)state;
	open_pair(&p);
	assert_int_equal(get_owner(&p), 0);
	fake_te_kill(p.engine);
	tes_owners_failed(&p.owners, p.owner);
	for (i = 0; i < 1000; i++)
		assert_false(try_it(&p));
	/* For longer than it is avoided for one failure. */
	assert_false(test_wait_until(try_it, &p, 2500));
	assert_true(p.n_told >= 2);
	assert_true(p.n_told <=
		    2 + (tei_now_ns() - from) / (200 * TEI_NS_PER_MS));
	tes_owner_answered(p.owner);
	assert_true(try_it(&p));
	close_pair(&p);
}

static void who_cannot_be_opened_is_told_of(void **state)
{
	struct pair p;
	int i;

	(void)state;
	open_pair(&p);
	fake_te_kill(p.engine);
	for (i = 0; i < 100; i++)
		assert_true(get_owner(&p) < 0);
	assert_true(p.n_told >= 1);
	assert_true(p.n_told < 100);
	assert_true(tes_owners_avoided(&p.owners, te_engine_name(p.engine),
				       p.incarnation));
	close_pair(&p);
}

/* Gives the owner a place in @places, whose epoch the owner then ends. */
static void end_epoch_of_place(struct pair *p, struct tes_places *places,
			       struct tes_work *work)
{
	uint32_t index;

	tes_places_init(places, &p->owners, work, 1000, UINT64_MAX);
	assert_int_equal(tes_places_add_owner(places, p->owner, &index), 0);
	assert_int_equal(te_peer_revoke(p->engine, NULL, 1000), 0);
	places->at[index].stale = true;
}

/* A process that has to wait for a processor tells of an epoch late. */
static void who_tells_of_a_new_epoch_late_is_waited_for(void **state)
{
	struct tes_work work = {0};
	struct tes_places places;
	uint64_t epoch, since_ns;
	struct pair p;

	(void)state;
	open_pair(&p);
	assert_int_equal(get_owner(&p), 0);
	tei_arena_init(&work.round, 4096);
	end_epoch_of_place(&p, &places, &work);
	fake_te_learn_epochs_after(p.reader, 200 * TEI_NS_PER_MS);
	tes_places_await_epochs(&places);
	assert_int_equal(
		te_segment_epoch(p.reader, p.owner->segment, &epoch, &since_ns),
		0);
	assert_int_not_equal(epoch, places.at[0].epoch);
	tes_places_fini(&places);
	tei_arena_fini(&work.round);
	close_pair(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_never_failed_is_read),
		cmocka_unit_test(who_failed_and_answers_is_read_again_at_once),
		cmocka_unit_test(
			who_does_not_answer_is_asked_now_and_then_only),
		cmocka_unit_test(who_cannot_be_opened_is_told_of),
		cmocka_unit_test(who_tells_of_a_new_epoch_late_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
