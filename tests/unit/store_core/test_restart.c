/* SPDX-License-Identifier: Apache-2.0 */
/* test_restart.c - what one life of the master leaves to the next */
#include "tests/unit/store_core/rig.h"

#define BASE  0x10000u
#define LATER (EPOCH + 1000u)

/* @seed: each life draws another. */
static void start_drawing(struct rig *r, uint64_t epoch, uint64_t seed)
{
	struct tes_core_config config = rig_config;

	rig_buries = true;
	config.epoch = epoch;
	config.seed = seed;
	rig_init(r, &config);
}

static void start(struct rig *r, uint64_t epoch)
{
	start_drawing(r, epoch, rig_config.seed);
}

/* An owner (session 1) that offers, and a client (session 2). */
static void start_anew(struct rig *r, uint64_t epoch)
{
	start(r, epoch);
	for (tes_session_id s = 1; s <= 2; s++) {
		assert_int_equal(rig_join(r, s, (char)('n' + s), 'O'), 0);
		rig_plain(r, TES_EVENT_HEARTBEAT, s);
	}
	rig_mount_offering(r, 1, 'm', BASE);
}

/* A life with an owner (session 1), and a client (2) that has put "a". */
static struct grant start_with_a(struct rig *r, uint64_t epoch)
{
	struct grant g;

	start(r, epoch);
	rig_pair(r);
	g = rig_start(r, 2, "a", 1000);
	assert_int_equal(g.status, 0);
	assert_int_equal(rig_end_as(r, 2, "a", g.generation, epoch, true), 0);
	return g;
}

static int offer(struct rig *r, tes_session_id s, char segment,
		 const struct tes_core_objects *objects)
{
	return rig_offer(r, s, segment, objects, true);
}

static const struct tes_core_objects *told(const struct rig *r)
{
	const struct tes_action *a = rig_find(r, TES_ACTION_COMMITTED);

	assert_non_null(a);
	return &a->u.committed.objects;
}

static void put_as(struct rig *r, const char *key,
		   const struct tes_core_replicate *how, const char *group)
{
	struct grant g = rig_start_as(r, 2, key, 1000, how, group, false);

	assert_int_equal(g.status, 0);
	assert_int_equal(rig_end(r, 2, key, g.generation), 0);
}

static int put_under(struct rig *r, uint64_t epoch, const char *key,
		     bool upsert)
{
	struct grant g = rig_start_as(r, 2, key, 1000, NULL, NULL, upsert);

	assert_int_equal(g.status, 0);
	return rig_end_as(r, 2, key, g.generation, epoch, true);
}

/* ---- how objects are to be kept ---- */

static void how_an_object_is_kept_goes_with_it_to_another_master(void **state)
{
	const struct tes_core_replicate how = {
		.replica_num = 1,
		.soft_pin = TES_CORE_SOFT_ENABLE,
		.soft_pin_ttl_ms = 5000,
		.data_type = 7,
		.hard_pin = true,
	};
	struct tes_event beat = {.type = TES_EVENT_HEARTBEAT, .session = 1};
	struct tes_event tick = {.type = TES_EVENT_TICK};
	const struct tes_core_objects *o;
	struct rig before, after;

	(void)state;
	start(&before, EPOCH);
	rig_pair(&before);
	put_as(&before, "a", &how, "group");
	start_anew(&after, LATER);
	beat.u.heartbeat.fresh = true;
	for (int times = 0; times < 2; times++) {
		o = told(times ? &after : &before);
		assert_int_equal(o->n, 1);
		assert_int_equal(o->attributes[0],
				 TES_CORE_PINNED | 7u << TES_CORE_TYPE_SHIFT);
		assert_int_equal(o->pin_ms[0], 5000);
		assert_int_equal(o->groups[0].len, 5);
		assert_memory_equal(o->groups[0].bytes, "group", 5);
		if (times)
			break;
		assert_int_equal(offer(&after, 1, 'm', o), 0);
		/* Told again to its owner, which has a new connection. */
		assert_int_equal(rig_try(&after, &beat), 0);
		assert_int_equal(rig_try(&after, &tick), 0);
	}
	rig_fini(&before);
	rig_fini(&after);
}

static void what_was_pinned_for_good_is_so_at_another_master(void **state)
{
	const struct tes_core_replicate how = {.replica_num = 1,
					       .hard_pin = true};
	struct rig before, after;
	struct grant g;

	(void)state;
	start(&before, EPOCH);
	rig_pair(&before);
	g = rig_start_as(&before, 2, "a", 40000, &how, NULL, false);
	assert_int_equal(rig_end(&before, 2, "a", g.generation), 0);
	start_anew(&after, LATER);
	assert_int_equal(offer(&after, 1, 'm', told(&before)), 0);
	assert_int_equal(rig_start(&after, 2, "b", 40000).status, -200);
	assert_int_equal(rig_exist(&after, 2, "a"), 1);
	rig_fini(&before);
	rig_fini(&after);
}

static void what_is_not_pinned_gives_way_at_another_master(void **state)
{
	struct rig before, after;

	(void)state;
	start(&before, EPOCH);
	rig_pair(&before);
	rig_put(&before, 2, "a", 40000);
	assert_null(told(&before)->pin_ms);
	assert_int_equal(told(&before)->attributes[0], 0);
	start_anew(&after, LATER);
	assert_int_equal(offer(&after, 1, 'm', told(&before)), 0);
	assert_int_equal(rig_start(&after, 2, "b", 40000).status, 0);
	assert_int_equal(rig_exist(&after, 2, "a"), 0);
	rig_fini(&before);
	rig_fini(&after);
}

/* ---- lives ---- */

static int join_naming(struct rig *r, tes_session_id s, uint64_t epoch,
		       bool believed)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct tes_event ev = {.type = TES_EVENT_JOIN, .session = s};

	memset(id, (int)s, sizeof(id));
	ev.u.join.client_id = ev.u.join.incarnation = id;
	ev.u.join.engine = "k:1";
	ev.u.join.buries = true;
	ev.u.join.epoch = epoch;
	ev.u.join.believed = believed;
	return rig_step(r, &ev)->u.reply.code;
}

static int join_knowing(struct rig *r, tes_session_id s, uint64_t epoch)
{
	return join_naming(r, s, epoch, true);
}

static void
a_master_whose_clock_went_back_is_later_than_what_was_known(void **state)
{
	struct grant before, g;
	uint64_t epoch;
	struct rig r;

	(void)state;
	before = start_with_a(&r, EPOCH);
	g = rig_start(&r, 2, "b", 1000);
	assert_int_equal(join_knowing(&r, 7, EPOCH), 0);
	assert_int_equal(join_knowing(&r, 8, EPOCH - 1), 0);
	assert_int_equal(tes_core_epoch(r.core), EPOCH);
	/* Who knows more waits for what was begun. */
	assert_int_equal(join_knowing(&r, 9, LATER), -1010);
	epoch = tes_core_epoch(r.core);
	assert_true(epoch > LATER);
	assert_int_equal(join_knowing(&r, 9, LATER), -1010);
	assert_int_equal(tes_core_epoch(r.core), epoch);
	/* What was put stays what it was, and what was begun is. */
	assert_int_equal(rig_lookup(&r, 2, "a").generation, before.generation);
	assert_int_equal(r.out.at[0].u.reply.gen_epoch[0], EPOCH);
	assert_int_equal(rig_end(&r, 2, "a", before.generation), 0);
	assert_int_equal(put_under(&r, epoch, "c", false), 0);
	assert_int_equal(rig_end(&r, 2, "b", g.generation), 0);
	assert_int_equal(rig_lookup(&r, 2, "b").status, 0);
	assert_int_equal(r.out.at[0].u.reply.gen_epoch[0], EPOCH);
	assert_int_equal(join_knowing(&r, 9, LATER), 0);
	assert_int_equal(tes_core_epoch(r.core), epoch);
	rig_fini(&r);
}

/* Of two that never end, the master has time for one. */
static void who_knows_more_waits_no_longer_than_a_put_may_take(void **state)
{
	struct tes_core_config config = rig_config;
	struct grant one, two;
	struct rig r;

	(void)state;
	config.step_objects = 1;
	rig_init(&r, &config);
	rig_pair(&r);
	one = rig_start(&r, 2, "a", 1000);
	two = rig_start(&r, 2, "b", 1000);
	assert_int_equal(one.status, 0);
	assert_int_equal(two.status, 0);
	assert_int_equal(join_knowing(&r, 3, LATER), -1010);
	rig_pass(&r, config.put_discard_ms - 1, "12");
	assert_int_equal(join_knowing(&r, 3, LATER), -1010);
	rig_pass(&r, 1, "12");
	assert_int_equal(join_knowing(&r, 3, LATER), 0);
	assert_int_equal(rig_end(&r, 2, "a", one.generation), -704);
	assert_int_equal(rig_end(&r, 2, "b", two.generation), -300);
	rig_fini(&r);
}

static void epochs_are_raised_once_in_a_while_above_all_that_ask(void **state)
{
	struct tes_core_config config = rig_config;
	uint64_t epoch;
	struct rig r;

	(void)state;
	config.raise_ms = 5000;
	rig_init(&r, &config);
	assert_int_equal(join_knowing(&r, 1, LATER), 0);
	epoch = tes_core_epoch(r.core);
	assert_int_equal(join_knowing(&r, 2, epoch + (1u << 30)), -1010);
	assert_int_equal(join_knowing(&r, 3, epoch + 1), -1010);
	assert_int_equal(join_knowing(&r, 4, epoch), 0);
	rig_pass(&r, config.raise_ms - 1, "14");
	assert_int_equal(join_knowing(&r, 3, epoch + 1), -1010);
	assert_int_equal(tes_core_epoch(r.core), epoch);
	rig_pass(&r, 1, "14");
	assert_int_equal(join_knowing(&r, 3, epoch + 1), 0);
	assert_true(tes_core_epoch(r.core) > epoch + (1u << 30));
	assert_int_equal(join_knowing(&r, 2, epoch + (1u << 30)), 0);
	rig_fini(&r);
}

#define BATCH (TES_CORE_PART + 8u)

/* Ends the puts of @keys as of @epoch. */
static void end_batch(struct rig *r, const struct tes_core_key *keys,
		      const uint64_t *generations, uint64_t epoch)
{
	uint32_t written[BATCH], crcs[BATCH] = {0};
	struct tes_event ev = {.type = TES_EVENT_PUT_END,
			       .session = 2,
			       .n = BATCH,
			       .keys = keys};
	const struct tes_action *a;

	for (size_t i = 0; i < BATCH; i++)
		written[i] = 1;
	ev.u.put_end.generations = generations;
	ev.u.put_end.written = written;
	ev.u.put_end.crcs = crcs;
	ev.u.put_end.epoch = epoch;
	a = rig_step(r, &ev);
	for (size_t i = 0; i < BATCH; i++)
		assert_int_equal(a->u.reply.status[i], 0);
}

/* The epoch grows between two parts of it, and is of all. */
static void a_batch_in_parts_is_of_one_epoch(void **state)
{
	char names[BATCH][8];
	uint64_t sizes[BATCH], generations[BATCH];
	struct tes_core_key keys[BATCH];
	struct tes_core_part part = {.to = TES_CORE_PART};
	struct tes_event ev = {.type = TES_EVENT_PUT_START,
			       .session = 2,
			       .n = BATCH,
			       .keys = keys,
			       .part = &part};
	struct tes_actions mine;
	struct tei_arena arena;
	struct rig r;

	(void)state;
	start(&r, EPOCH);
	rig_buries = false;
	rig_pair(&r);
	for (size_t i = 0; i < BATCH; i++) {
		snprintf(names[i], sizeof(names[i]), "k%zu", i);
		keys[i] = rig_key(names[i]);
		sizes[i] = 10;
	}
	ev.u.put_start.sizes = sizes;
	ev.cookie = ++r.cookie;
	tei_arena_init(&arena, 1 << 20);
	mine = (struct tes_actions){.arena = &arena};
	assert_int_equal(tes_core_step(r.core, &ev, r.now, &mine), 0);
	assert_int_equal(join_knowing(&r, 3, LATER), -1010);
	part.from = part.to;
	part.to = BATCH;
	assert_int_equal(tes_core_step(r.core, &ev, r.now, &mine), 0);
	assert_int_equal(mine.at[0].u.reply.epoch, EPOCH);
	for (size_t i = 0; i < BATCH; i++) {
		assert_int_equal(mine.at[0].u.reply.status[i], 0);
		generations[i] = mine.at[0].u.reply.generation[i];
	}
	tei_arena_fini(&arena);
	end_batch(&r, keys, generations, EPOCH);
	assert_int_equal(join_knowing(&r, 3, LATER), 0);
	rig_fini(&r);
}

static void a_life_that_nobody_can_have_known_changes_nothing(void **state)
{
	const uint64_t last = INT64_MAX - (1u << 24) - 1; /* with room above */
	struct rig r;

	(void)state;
	start(&r, EPOCH);
	assert_int_equal(join_knowing(&r, 1, UINT64_MAX), -600);
	assert_int_equal(join_knowing(&r, 1, INT64_MAX), -600);
	assert_int_equal(join_knowing(&r, 1, last + 1), -600);
	assert_int_equal(rig_figures(&r).sessions, 0);
	assert_int_equal(tes_core_epoch(r.core), EPOCH);
	assert_int_equal(join_knowing(&r, 1, last), 0);
	assert_true(tes_core_epoch(r.core) > last);
	assert_true(tes_core_epoch(r.core) < INT64_MAX);
	rig_fini(&r);
}

/* Whoever says so joins, and that is all. */
static void an_epoch_that_nobody_believes_counts_for_nothing(void **state)
{
	struct rig before, after;
	struct grant g;

	(void)state;
	start_with_a(&before, LATER);
	start(&after, EPOCH);
	rig_pair(&after);
	g = rig_start(&after, 2, "b", 1000);
	assert_int_equal(join_naming(&after, 3, LATER, false), 0);
	assert_int_equal(join_naming(&after, 4, UINT64_MAX, false), 0);
	assert_int_equal(tes_core_epoch(after.core), EPOCH);
	assert_int_equal(rig_end(&after, 2, "b", g.generation), 0);
	rig_plain(&after, TES_EVENT_HEARTBEAT, 3);
	rig_mount_offering(&after, 3, 'n', BASE);
	assert_int_equal(offer(&after, 3, 'n', told(&before)), -300);
	assert_int_equal(tes_core_epoch(after.core), EPOCH);
	assert_int_equal(rig_exist(&after, 2, "a"), 0);
	assert_int_equal(rig_figures(&after).offers_refused_total, 1);
	/* Neither does it when the key is there. */
	assert_int_equal(rig_unmount(&after, 3, 'n'), 0);
	rig_pass(&after, 200, "123");
	assert_int_equal(rig_put(&after, 2, "a", 500).status, 0);
	rig_mount_offering(&after, 3, 'n', BASE);
	assert_int_equal(offer(&after, 3, 'n', told(&before)), -300);
	assert_int_equal(rig_lookup(&after, 2, "a").size, 500);
	rig_fini(&before);
	rig_fini(&after);
}

/* The old one was put under an epoch that was made up, and is not believed by
 * the master of the new one; nor by the one after that. */
static void an_old_value_of_a_made_up_life_does_not_come_back(void **state)
{
	const uint64_t made_up = INT64_MAX - 3;
	struct rig first, second, third;
	struct grant g;

	(void)state;
	start_with_a(&first, made_up);
	start(&second, EPOCH);
	rig_pair(&second);
	g = rig_put(&second, 2, "a", 500);
	assert_int_equal(g.status, 0);
	start_anew(&third, LATER);
	assert_int_equal(offer(&third, 1, 'm', told(&second)), 0);
	assert_int_equal(join_naming(&third, 3, made_up, false), 0);
	rig_plain(&third, TES_EVENT_HEARTBEAT, 3);
	rig_mount_offering(&third, 3, 'n', BASE);
	assert_int_equal(offer(&third, 3, 'n', told(&first)), -300);
	assert_int_equal(rig_lookup(&third, 2, "a").size, 500);
	rig_fini(&first);
	rig_fini(&second);
	rig_fini(&third);
}

/* Both were raised above what the same client knew of. What was put in the
 * first is not the second's own, and two values have never the same number. */
static void two_lives_above_the_same_one_are_told_apart(void **state)
{
	const uint64_t before = LATER + 1000;
	struct rig first, second;
	uint64_t epoch;

	(void)state;
	start_drawing(&first, EPOCH, 1);
	rig_pair(&first);
	assert_int_equal(join_knowing(&first, 3, before), 0);
	epoch = tes_core_epoch(first.core);
	assert_int_equal(put_under(&first, epoch, "a", false), 0);
	start_drawing(&second, LATER, 2);
	rig_pair(&second);
	assert_int_equal(join_knowing(&second, 3, before), 0);
	assert_int_not_equal(tes_core_epoch(second.core), epoch);
	/* Its owner knows of the first. */
	assert_int_equal(join_knowing(&second, 4, epoch), 0);
	rig_plain(&second, TES_EVENT_HEARTBEAT, 4);
	rig_mount_offering(&second, 4, 'n', BASE);
	assert_int_equal(offer(&second, 4, 'n', told(&first)), 0);
	assert_int_equal(rig_exist(&second, 2, "a"), 1);
	rig_fini(&first);
	rig_fini(&second);
}

/* Each is told apart from all others, however many there are. */
static void many_lives_are_told_from_one_another(void **state)
{
	struct rig r;

	(void)state;
	start(&r, EPOCH);
	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t epoch = tes_core_epoch(r.core) + i % 7;

		assert_int_equal(join_knowing(&r, i + 1, epoch), 0);
		assert_true(tes_core_epoch(r.core) >= epoch);
	}
	rig_fini(&r);
}

/* Offers "a" as of @epoch, in place @i; @key: under that one, or NULL. */
static int offer_as(struct rig *r, const struct tes_core_objects *a,
		    uint64_t epoch, uint64_t i, struct tes_core_key *key)
{
	uint64_t address = BASE + i * 4096;
	struct tes_core_objects o = *a;

	if (key)
		o.keys = key;
	o.gen_epoch = &epoch;
	o.address = &address;
	return rig_offer(r, 1, 'm', &o, false);
}

/* More than can be told apart, each of which leaves nothing behind. */
static void epochs_do_not_run_out(void **state)
{
	struct rig before, r;
	uint64_t epoch;

	(void)state;
	start_with_a(&before, EPOCH);
	start(&r, LATER << 20);
	rig_buries = false;
	rig_pair(&r);
	assert_int_equal(join_knowing(&r, 3, LATER << 20), 0);
	assert_int_equal(rig_mount(&r, 3, 'n', BASE, 0x10000), 0);
	epoch = tes_core_epoch(r.core);
	assert_int_equal(put_under(&r, epoch, "b", false), 0);
	rig_mount_offering(&r, 1, 'm', BASE);
	for (uint64_t i = 0; i < 33000; i++) {
		/* In a place other than the last one. */
		assert_int_equal(
			offer_as(&r, told(&before), LATER + i, i % 2, NULL), 0);
		/* Always the same client. */
		assert_int_equal(join_knowing(&r, (i + 1) << 8 | 4,
					      tes_core_epoch(r.core) + 1),
				 0);
	}
	assert_int_equal(rig_lookup(&r, 2, "a").status, 0);
	assert_int_equal(r.out.at[0].u.reply.gen_epoch[0], LATER + 32999);
	assert_int_equal(rig_lookup(&r, 2, "b").status, 0);
	assert_int_equal(r.out.at[0].u.reply.gen_epoch[0], epoch);
	rig_fini(&before);
	rig_fini(&r);
}

#define KEPT (UINT16_MAX / 8 * 7)

/*
 * Offers object @i, which stays, of an epoch of its own; the first one with the
 * key of the last, of which it is an older value.
 */
static int offer_kept(struct rig *r, const struct tes_core_objects *a,
		      uint64_t i)
{
	uint64_t number = i ? i : KEPT;
	struct tes_core_key key = {(const uint8_t *)&number, sizeof(number)};

	return offer_as(r, a, LATER + i, i, &key);
}

static void what_is_of_an_epoch_too_many_makes_nothing_go(void **state)
{
	struct rig before, r;
	uint64_t found;

	(void)state;
	start_with_a(&before, EPOCH);
	start(&r, LATER << 20);
	rig_buries = false;
	assert_int_equal(rig_join(&r, 1, 'o', 'O'), 0);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 1);
	assert_int_equal(rig_mount_as(&r, 1, 'm', BASE, 1u << 30, true), 0);
	for (uint64_t i = 0; i < KEPT; i++)
		assert_int_equal(offer_kept(&r, told(&before), i), 0);
	found = rig_figures(&r).objects;
	assert_int_equal(offer_kept(&r, told(&before), KEPT), -200);
	assert_int_equal(rig_figures(&r).objects, found);
	rig_fini(&before);
	rig_fini(&r);
}

static void what_a_later_life_left_is_taken_and_exceeded(void **state)
{
	struct rig before, after;

	(void)state;
	start_with_a(&before, LATER);
	start_anew(&after, EPOCH);
	assert_int_equal(join_knowing(&after, 3, LATER), 0);
	assert_int_equal(offer(&after, 1, 'm', told(&before)), 0);
	assert_true(tes_core_epoch(after.core) > LATER);
	assert_int_equal(rig_lookup(&after, 2, "a").status, 0);
	rig_fini(&before);
	rig_fini(&after);
}

/* ---- what this life knows better ---- */

/* Session 3 mounts another segment, and offers what @before was told. */
static int offer_of(struct rig *r, const struct rig *before)
{
	assert_int_equal(join_knowing(r, 3, LATER), 0);
	rig_plain(r, TES_EVENT_HEARTBEAT, 3);
	rig_mount_offering(r, 3, 'n', BASE);
	return offer(r, 3, 'n', told(before));
}

/* The clock went back, and who knew of the life before comes late. */
static void what_was_put_since_is_newer_than_what_is_offered(void **state)
{
	struct rig before, after;
	struct grant g;

	(void)state;
	start_with_a(&before, LATER);
	start(&after, EPOCH);
	rig_pair(&after);
	g = rig_put(&after, 2, "a", 500);
	assert_int_equal(g.status, 0);
	assert_int_equal(offer_of(&after, &before), -705);
	assert_int_equal(rig_lookup(&after, 2, "a").size, 500);
	rig_fini(&before);
	rig_fini(&after);
}

/* Its owner was gone when it was removed, and comes back when the life has got
 * another number meanwhile. */
static void what_this_life_has_given_up_cannot_be_offered_again(void **state)
{
	struct rig before, r;

	(void)state;
	/* The same objects, so that they can be told of later. */
	start_with_a(&before, EPOCH);
	start_with_a(&r, EPOCH);
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	rig_pass(&r, 200, "12");
	assert_int_equal(rig_put(&r, 2, "a", 1000).status, -200);
	assert_int_equal(join_knowing(&r, 4, LATER), 0);
	assert_int_not_equal(offer_of(&r, &before), 0);
	assert_int_equal(rig_exist(&r, 2, "a"), 0);
	rig_fini(&before);
	rig_fini(&r);
}

static void what_this_life_has_may_be_offered_to_it(void **state)
{
	struct rig r, before;
	struct grant g;

	(void)state;
	start_with_a(&before, EPOCH);
	g = start_with_a(&r, EPOCH);
	assert_int_equal(join_knowing(&r, 4, LATER), 0);
	rig_mount_offering(&r, 1, 'm', BASE);
	assert_int_equal(offer(&r, 1, 'm', told(&before)), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, g.generation);
	assert_int_equal(r.out.at[0].u.reply.n_entries, 1);
	rig_fini(&before);
	rig_fini(&r);
}

/* "a" of a life before is refused as of @epoch and of @size; NULL: as it is. */
static void check_is_none(uint64_t *epoch, uint64_t *size)
{
	struct tes_core_objects o;
	struct rig before, after;

	start_with_a(&before, EPOCH);
	start_anew(&after, LATER);
	o = *told(&before);
	if (epoch)
		o.gen_epoch = epoch;
	if (size)
		o.size = o.length = size;
	assert_int_equal(offer(&after, 1, 'm', &o), -600);
	assert_int_equal(rig_exist(&after, 2, "a"), 0);
	rig_fini(&before);
	rig_fini(&after);
}

static void an_object_of_a_life_that_cannot_be_is_none(void **state)
{
	uint64_t epoch = (uint64_t)INT64_MAX + 5;

	(void)state;
	check_is_none(&epoch, NULL);
}

/* So long that with its header it is short again. */
static void an_object_of_nearly_all_numbers_is_none(void **state)
{
	uint64_t size = UINT64_MAX;

	(void)state;
	check_is_none(NULL, &size);
}

/* ---- numbers that were given in other lives ---- */

/* What is put after it is offered to the next master as usual. */
static void no_number_that_is_offered_uses_ours_up(void **state)
{
	uint64_t last = INT64_MAX;
	struct rig before, r, after;
	struct tes_core_objects o;

	(void)state;
	start_with_a(&before, EPOCH);
	start_anew(&r, LATER);
	o = *told(&before);
	o.generation = &last;
	assert_int_equal(offer(&r, 1, 'm', &o), 0);
	assert_int_equal(rig_exist(&r, 2, "a"), 1);
	assert_int_equal(put_under(&r, LATER, "b", false), 0);
	start_anew(&after, LATER + 1);
	assert_int_equal(offer(&after, 1, 'm', told(&r)), 0);
	assert_int_equal(rig_exist(&after, 2, "b"), 1);
	rig_fini(&before);
	rig_fini(&r);
	rig_fini(&after);
}

static void a_number_given_in_two_lives_means_the_one_of_ours(void **state)
{
	struct rig before, r;

	(void)state;
	start_with_a(&before, EPOCH);
	start_anew(&r, LATER);
	assert_int_equal(offer(&r, 1, 'm', told(&before)), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, 1);
	assert_int_equal(put_under(&r, LATER, "a", true), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, 1);
	assert_int_equal(r.out.at[0].u.reply.gen_epoch[0], LATER);
	rig_fini(&before);
	rig_fini(&r);
}

/* The put yields to the older object, which has the same number. */
static void the_end_of_a_put_is_not_taken_for_that_of_another_life(void **state)
{
	struct rig before, r;
	struct grant g;

	(void)state;
	start_with_a(&before, EPOCH);
	start_anew(&r, LATER);
	assert_int_equal(rig_mount(&r, 2, 'n', BASE, 0x10000), 0);
	g = rig_start(&r, 2, "a", 500);
	assert_int_equal(g.status, 0);
	assert_int_equal(g.generation, 1);
	assert_int_equal(offer(&r, 1, 'm', told(&before)), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, 1);
	assert_int_equal(rig_end_as(&r, 2, "a", 1, LATER, true), -700);
	assert_int_equal(rig_lookup(&r, 2, "a").size, 1000);
	rig_fini(&before);
	rig_fini(&r);
}

/* A release of "b", which nobody has put, and of "a". */
static void release_two(struct rig *r, const uint64_t *epochs, size_t n_epochs)
{
	const struct tes_core_key keys[] = {rig_key("b"), rig_key("a")};
	const uint64_t generations[] = {1, 1};
	struct tes_event ev = {
		.type = TES_EVENT_RELEASE, .session = 2, .n = 2, .keys = keys};

	ev.u.release.generations = generations;
	ev.u.release.gen_epochs = epochs;
	ev.u.release.n_gen_epochs = n_epochs;
	assert_null(rig_step(r, &ev));
}

static void one_epoch_is_that_of_all_keys_of_a_release(void **state)
{
	const uint64_t none_is[] = {EPOCH, LATER}, both_are = EPOCH;
	struct rig r;

	(void)state;
	start_with_a(&r, EPOCH);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, 1);
	release_two(&r, none_is, 2);
	release_two(&r, &none_is[1], 1);
	assert_int_equal(rig_start(&r, 2, "all", 0x10000 - 64).status, -200);
	release_two(&r, &both_are, 1);
	assert_int_equal(rig_start(&r, 2, "all", 0x10000 - 64).status, 0);
	rig_fini(&r);
}

static void each_key_of_a_release_may_have_its_epoch(void **state)
{
	const uint64_t epochs[] = {LATER, EPOCH};
	struct rig r;

	(void)state;
	start_with_a(&r, EPOCH);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, 1);
	assert_int_equal(rig_start(&r, 2, "all", 0x10000 - 64).status, -200);
	release_two(&r, epochs, 2);
	assert_int_equal(rig_start(&r, 2, "all", 0x10000 - 64).status, 0);
	rig_fini(&r);
}

/* Reads of the old value are over, not those of the new one. */
static void a_release_means_the_value_of_one_life(void **state)
{
	const uint64_t old = EPOCH, new = LATER;
	struct rig before, r;

	(void)state;
	start_with_a(&before, old);
	start_anew(&r, new);
	assert_int_equal(offer(&r, 1, 'm', told(&before)), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, 1);
	assert_int_equal(put_under(&r, new, "a", true), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, 1);
	rig_release_of(&r, 2, "a", 1, &old);
	assert_int_equal(rig_start(&r, 2, "all", 0x10000 - 64).status, -200);
	rig_release_of(&r, 2, "a", 1, &new);
	assert_int_equal(rig_start(&r, 2, "all", 0x10000 - 64).status, 0);
	rig_fini(&before);
	rig_fini(&r);
}

/* ---- what was removed before all have come ---- */

/* "a" of a life before, on two owners: *one and *two know of it. */
static void put_twice(struct rig *one, struct rig *two)
{
	start_with_a(one, EPOCH);
	start_with_a(two, EPOCH);
}

static void what_was_removed_does_not_come_with_another_owner(void **state)
{
	struct rig one, two, after;

	(void)state;
	put_twice(&one, &two);
	start_anew(&after, LATER);
	assert_int_equal(offer(&after, 1, 'm', told(&one)), 0);
	assert_int_equal(rig_remove(&after, 2, "a", true), 0);
	assert_int_equal(offer_of(&after, &two), -704);
	assert_int_equal(rig_exist(&after, 2, "a"), 0);
	rig_fini(&one);
	rig_fini(&two);
	rig_fini(&after);
}

static void what_was_replaced_and_evicted_is_not_as_before(void **state)
{
	struct rig one, two, after;

	(void)state;
	put_twice(&one, &two);
	start(&after, LATER);
	rig_pair(&after);
	for (int i = 0; i < 2; i++) {
		struct grant g = rig_start(&after, 2, i ? "b" : "a", 40000);

		assert_int_equal(g.status, 0);
		assert_int_equal(rig_end_as(&after, 2, i ? "b" : "a",
					    g.generation, LATER, true),
				 0);
	}
	assert_int_equal(rig_exist(&after, 2, "a"), 0);
	assert_int_equal(offer_of(&after, &two), -704);
	assert_int_equal(rig_exist(&after, 2, "a"), 0);
	rig_fini(&one);
	rig_fini(&two);
	rig_fini(&after);
}

static void what_was_looked_for_to_be_removed_does_not_come(void **state)
{
	struct rig one, two, after;

	(void)state;
	put_twice(&one, &two);
	start_anew(&after, LATER);
	assert_int_equal(rig_remove(&after, 2, "a", true), -704);
	assert_int_equal(offer(&after, 1, 'm', told(&one)), -704);
	rig_fini(&one);
	rig_fini(&two);
	rig_fini(&after);
}

/* Neither do many others make it forgotten, nor are they taken for it. */
static void remove_many(struct rig *rig)
{
	char key[24];

	for (int i = 0; i < 20000; i++) {
		snprintf(key, sizeof(key), "other-%d", i);
		assert_int_equal(rig_remove(rig, 2, key, true), -704);
	}
}

static void many_removed_keys_are_told_from_one_another(void **state)
{
	struct rig one, two, after;

	(void)state;
	put_twice(&one, &two);
	start_anew(&after, LATER);
	remove_many(&after);
	assert_int_equal(offer(&after, 1, 'm', told(&one)), 0);
	rig_fini(&after);
	start_anew(&after, LATER);
	assert_int_equal(rig_remove(&after, 2, "a", true), -704);
	remove_many(&after);
	assert_int_equal(offer(&after, 1, 'm', told(&one)), -704);
	rig_fini(&one);
	rig_fini(&two);
	rig_fini(&after);
}

static void after_a_removal_of_all_nothing_comes(void **state)
{
	struct tes_event all = {.type = TES_EVENT_REMOVE_ALL, .session = 2};
	struct rig one, two, after;

	(void)state;
	put_twice(&one, &two);
	start_anew(&after, LATER);
	assert_null(rig_step(&after, &all));
	rig_pass(&after, 500, "12");
	assert_int_equal(offer(&after, 1, 'm', told(&one)), -704);
	rig_fini(&one);
	rig_fini(&two);
	rig_fini(&after);
}

/* It is as if it had died; but what is there is its own. */
static void who_comes_very_late_brings_nothing(void **state)
{
	struct rig one, two, after;

	(void)state;
	put_twice(&one, &two);
	start_anew(&after, LATER);
	assert_int_equal(offer(&after, 1, 'm', told(&one)), 0);
	rig_pass(&after, 6 * rig_config.client_ttl_ms + 200, "12");
	assert_int_equal(offer_of(&after, &two), -704);
	rig_mount_offering(&after, 1, 'm', BASE);
	assert_int_equal(offer(&after, 1, 'm', told(&one)), 0);
	assert_int_equal(rig_exist(&after, 2, "a"), 1);
	rig_fini(&one);
	rig_fini(&two);
	rig_fini(&after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			how_an_object_is_kept_goes_with_it_to_another_master),
		cmocka_unit_test(
			what_was_pinned_for_good_is_so_at_another_master),
		cmocka_unit_test(
			what_is_not_pinned_gives_way_at_another_master),
		cmocka_unit_test(
			a_master_whose_clock_went_back_is_later_than_what_was_known),
		cmocka_unit_test(
			a_life_that_nobody_can_have_known_changes_nothing),
		cmocka_unit_test(
			who_knows_more_waits_no_longer_than_a_put_may_take),
		cmocka_unit_test(
			epochs_are_raised_once_in_a_while_above_all_that_ask),
		cmocka_unit_test(a_batch_in_parts_is_of_one_epoch),
		cmocka_unit_test(
			an_epoch_that_nobody_believes_counts_for_nothing),
		cmocka_unit_test(
			an_old_value_of_a_made_up_life_does_not_come_back),
		cmocka_unit_test(two_lives_above_the_same_one_are_told_apart),
		cmocka_unit_test(many_lives_are_told_from_one_another),
		cmocka_unit_test(epochs_do_not_run_out),
		cmocka_unit_test(what_is_of_an_epoch_too_many_makes_nothing_go),
		cmocka_unit_test(what_a_later_life_left_is_taken_and_exceeded),
		cmocka_unit_test(
			what_was_put_since_is_newer_than_what_is_offered),
		cmocka_unit_test(
			what_this_life_has_given_up_cannot_be_offered_again),
		cmocka_unit_test(what_this_life_has_may_be_offered_to_it),
		cmocka_unit_test(an_object_of_a_life_that_cannot_be_is_none),
		cmocka_unit_test(an_object_of_nearly_all_numbers_is_none),
		cmocka_unit_test(no_number_that_is_offered_uses_ours_up),
		cmocka_unit_test(
			a_number_given_in_two_lives_means_the_one_of_ours),
		cmocka_unit_test(
			the_end_of_a_put_is_not_taken_for_that_of_another_life),
		cmocka_unit_test(one_epoch_is_that_of_all_keys_of_a_release),
		cmocka_unit_test(each_key_of_a_release_may_have_its_epoch),
		cmocka_unit_test(a_release_means_the_value_of_one_life),
		cmocka_unit_test(
			what_was_removed_does_not_come_with_another_owner),
		cmocka_unit_test(
			what_was_replaced_and_evicted_is_not_as_before),
		cmocka_unit_test(
			what_was_looked_for_to_be_removed_does_not_come),
		cmocka_unit_test(many_removed_keys_are_told_from_one_another),
		cmocka_unit_test(after_a_removal_of_all_nothing_comes),
		cmocka_unit_test(who_comes_very_late_brings_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
