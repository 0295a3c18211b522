/* SPDX-License-Identifier: Apache-2.0 */
/* test_session.c - who is there, and what goes with them */
#include "store/core/policy.h"
#include "store/core/state.h"
#include "store/core/tenant.h"
#include "tests/unit/store_core/rig.h"

static void an_owner_that_left_makes_its_objects_misses_at_once(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(rig_lookup(&r, 2, "a").status, -704);
	assert_int_equal(rig_exist(&r, 2, "a"), 0);
	assert_int_equal(rig_figures(&r).capacity_bytes, 0);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	assert_int_equal(rig_figures(&r).suspects, 1);
	assert_int_equal(rig_start(&r, 2, "b", 100).status, -200);
	rig_fini(&r);
}

static void an_owner_that_left_is_not_revived_by_heartbeats(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	rig_pass(&r, rig_config.suspect_ms - 100, "12");
	assert_int_equal(rig_lookup(&r, 2, "a").status, -704);
	assert_int_equal(rig_figures(&r).objects, 1);
	rig_pass(&r, 200, "12");
	assert_int_equal(rig_figures(&r).objects, 0);
	assert_int_equal(rig_figures(&r).dropped_objects_total, 1);
	assert_int_equal(rig_figures(&r).sessions, 1);
	assert_int_equal(rig_figures(&r).segments, 0);
	assert_false(tes_core_busy(r.core));
	rig_fini(&r);
}

static void who_left_has_its_own_time_to_be_back(void **state)
{
	struct tes_core_config c = rig_config;
	struct rig r;

	(void)state;
	c.left_ms = 5000;
	rig_init(&r, &c);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	rig_pass(&r, c.left_ms - 100, "2");
	assert_int_equal(rig_exist(&r, 2, "a"), 0);
	assert_int_equal(rig_join(&r, 5, 'o', 'O'), 0);
	assert_int_equal(rig_exist(&r, 2, "a"), 1);
	rig_plain(&r, TES_EVENT_LEAVE, 5);
	rig_pass(&r, c.left_ms + 100, "2");
	assert_int_equal(rig_figures(&r).objects, 0);
	rig_fini(&r);
}

static void a_new_connection_of_the_same_process_keeps_everything(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(rig_join(&r, 5, 'o', 'O'), 0);
	assert_null(rig_find(&r, TES_ACTION_CLOSE));
	assert_int_equal(rig_lookup(&r, 2, "a").status, 0);
	assert_int_equal(rig_figures(&r).capacity_bytes, 0x10000);
	assert_int_equal(rig_figures(&r).suspects, 0);
	assert_int_equal(rig_figures(&r).sessions, 2);
	rig_plain(&r, TES_EVENT_LEAVE, 1); /* late news of the old one */
	assert_int_equal(rig_lookup(&r, 2, "a").status, 0);
	assert_int_equal(rig_join(&r, 6, 'o', 'O'), 0);
	assert_int_equal(rig_find(&r, TES_ACTION_CLOSE)->session, 5);
	rig_fini(&r);
}

/* The master has it: what was put there meanwhile stays. */
static void a_mount_whose_answer_was_lost_is_said_again(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(rig_join(&r, 5, 'o', 'O'), 0);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 5);
	rig_name = rig_usual_name(1);
	assert_int_equal(rig_mount(&r, 5, 'm', 0x10000, 0x10000), 0);
	rig_name = NULL;
	assert_true(rig_find(&r, TES_ACTION_REPLY)->u.reply.kept);
	assert_int_equal(rig_lookup(&r, 2, "a").status, 0);
	assert_int_equal(rig_figures(&r).capacity_bytes, 0x10000);
	assert_int_equal(rig_figures(&r).segments, 1);
	rig_fini(&r);
}

static void a_restarted_process_loses_what_it_had(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	assert_int_equal(rig_join(&r, 5, 'o', 'P'), 0);
	assert_int_equal(rig_find(&r, TES_ACTION_CLOSE)->session, 1);
	assert_int_equal(rig_lookup(&r, 2, "a").status, -704);
	/* The same segment, mounted again before the old one is walked. */
	assert_int_equal(rig_mount(&r, 5, 'm', 0x10000, 0x10000), 0);
	assert_int_equal(rig_put(&r, 2, "a", 200).status, 0);
	rig_pass(&r, 100, "25");
	assert_int_equal(rig_lookup(&r, 2, "a").size, 200);
	assert_int_equal(rig_figures(&r).sessions, 2);
	assert_false(tes_core_busy(r.core));
	rig_fini(&r);
}

static void a_session_number_is_not_used_twice(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_join(&r, 1, 'x', 'X'), -600);
	assert_int_equal(rig_join(&r, 0, 'x', 'X'), -600);
	assert_int_equal(rig_figures(&r).sessions, 2);
	rig_fini(&r);
}

static void a_silent_owner_is_suspect_and_a_heartbeat_undoes_it(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	rig_pass(&r, rig_config.suspect_ms, "2");
	assert_int_equal(rig_figures(&r).suspects, 1);
	assert_int_equal(rig_lookup(&r, 2, "a").status, -704);
	assert_int_equal(rig_start(&r, 2, "b", 100).status, -200);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 1);
	assert_int_equal(rig_lookup(&r, 2, "a").status, 0);
	assert_int_equal(rig_figures(&r).suspects, 0);
	rig_pass(&r, rig_config.client_ttl_ms + 100, "2");
	assert_int_equal(rig_figures(&r).sessions, 1);
	assert_int_equal(rig_figures(&r).objects, 0);
	rig_fini(&r);
}

static void a_master_that_was_stalled_expires_nobody(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	rig_start(&r, 2, "b", 100);
	rig_pass(&r, 1000, "12");
	r.now += 3600 * 1000;
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).suspects, 0);
	assert_int_equal(rig_figures(&r).building, 1);
	assert_int_equal(rig_lookup(&r, 2, "a").status, 0);
	rig_pass(&r, rig_config.suspect_ms, "");
	assert_int_equal(rig_figures(&r).suspects, 2);
	rig_fini(&r);
}

static void a_short_stall_counts_when_patience_is_short(void **state)
{
	struct tes_core_config c = rig_config;
	struct rig r;

	(void)state;
	c.suspect_ms = 300;
	c.client_ttl_ms = 1000;
	rig_init(&r, &c);
	rig_pair(&r);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	for (int i = 0; i < 20; i++) { /* stopped again and again */
		r.now += 900;
		rig_tick(&r);
	}
	assert_int_equal(rig_figures(&r).sessions, 2);
	assert_int_equal(rig_figures(&r).suspects, 1); /* who left */
	rig_pass(&r, c.suspect_ms, "1");
	assert_int_equal(rig_figures(&r).sessions, 1);
	rig_fini(&r);
}

static void a_key_of_a_suspect_owner_can_be_put_elsewhere(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	assert_int_equal(rig_mount(&r, 2, 'n', 0x80000, 0x10000), 0);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(rig_put(&r, 2, "a", 300).status, 0);
	assert_int_equal(rig_lookup(&r, 2, "a").size, 300);
	assert_int_equal(rig_join(&r, 5, 'o', 'O'), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").size, 300);
	assert_int_equal(rig_figures(&r).objects, 1);
	rig_fini(&r);
}

static void what_is_removed_while_suspect_stays_removed(void **state)
{
	struct rig r;

	(void)state;
	rig_buries = true;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(rig_remove(&r, 2, "a", false), 0);
	assert_int_equal(rig_join(&r, 5, 'o', 'O'), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").status, -704);
	/* It was answered, but the owner has still to bury it. */
	assert_int_equal(rig_figures(&r).fencing, 1);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 5);
	rig_bury(&r);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_buries = false;
	rig_fini(&r);
}

static void an_unmount_drops_its_objects_in_steps(void **state)
{
	struct tes_core_config c = rig_config;
	char key[16];
	struct rig r;
	int ticks = 0;

	(void)state;
	c.step_objects = 16;
	rig_init(&r, &c);
	rig_pair(&r);
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(rig_put(&r, 2, key, 100).status, 0);
	}
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	assert_int_equal(rig_unmount(&r, 1, 'm'), -101);
	assert_int_equal(rig_lookup(&r, 2, "k50").status, -704);
	assert_int_equal(rig_remove(&r, 2, "k50", false), -704);
	assert_int_equal(rig_figures(&r).capacity_bytes, 0);
	assert_int_equal(rig_mount(&r, 1, 'm', 0x10000, 0x10000), 0);
	assert_int_equal(rig_put(&r, 2, "k50", 200).status, 0);
	for (; tes_core_busy(r.core); ticks++)
		rig_tick(&r);
	assert_in_range(ticks, 6, 8);
	assert_int_equal(rig_lookup(&r, 2, "k50").size, 200);
	assert_int_equal(rig_figures(&r).objects, 1);
	assert_int_equal(rig_figures(&r).dropped_objects_total, 100);
	rig_fini(&r);
}

static void an_end_on_a_dropped_segment_is_late(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	g = rig_start(&r, 2, "a", 100);
	rig_unmount(&r, 1, 'm');
	assert_int_equal(rig_end(&r, 2, "a", g.generation), -704);
	assert_int_equal(rig_figures(&r).late_ends_total, 1);
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).building, 0);
	rig_fini(&r);
}

static void
what_the_policy_takes_for_time_goes_on_while_owners_are_away(void **state)
{
	struct grant g[32];
	char key[32][16];
	struct rig r;
	uint16_t then;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	for (int i = 0; i < 32; i++) {
		snprintf(key[i], sizeof(key[i]), "%d", i);
		g[i] = rig_start(&r, 2, key[i], 1024 - 64);
		assert_int_equal(g[i].status, 0);
	}
	rig_pass(&r, rig_config.suspect_ms + 100, "2");
	assert_int_equal(rig_figures(&r).capacity_bytes, 0);
	then = r.core->tenants[0]->policy.now;
	for (int i = 0; i < 32; i++)
		assert_int_equal(rig_end(&r, 2, key[i], g[i].generation), 0);
	/* Half of the pool: half of what passes in the time of all of it. */
	assert_in_range(r.core->tenants[0]->policy.now - then, 7, 8);
	rig_fini(&r);
}

static enum tes_core_segment_status status_of_first(const struct rig *r)
{
	struct tes_core_segment segment = {.status = 0};
	size_t cursor = 0;

	(void)tes_core_segment_next(r->core, &cursor, &segment);
	return segment.status;
}

static void
during_its_grace_a_segment_is_read_but_gets_nothing_new(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	assert_int_equal(status_of_first(&r), TES_CORE_SEGMENT_OK);
	assert_int_equal(rig_unmount_later(&r, 2, 'm', 3000), -101);
	assert_int_equal(rig_unmount_later(&r, 1, 'z', 3000), -101);
	assert_int_equal(rig_unmount_later(&r, 1, 'm', 3000), 0);
	assert_int_equal(status_of_first(&r),
			 TES_CORE_SEGMENT_GRACEFULLY_UNMOUNTING);
	assert_int_equal(rig_lookup(&r, 2, "a").status, 0);
	/* Not even eviction makes room there. */
	assert_int_equal(rig_start(&r, 2, "b", 100).status, -200);
	assert_int_equal(rig_figures(&r).evicted_objects_total, 0);
	/* The earlier end holds. */
	assert_int_equal(rig_unmount_later(&r, 1, 'm', UINT64_MAX), 0);
	rig_pass(&r, 2900, "12");
	assert_int_equal(rig_lookup(&r, 2, "a").status, 0);
	rig_pass(&r, 200, "12");
	assert_int_equal(rig_lookup(&r, 2, "a").status, -704);
	assert_int_equal(rig_figures(&r).segments, 0);
	assert_int_equal(rig_unmount_later(&r, 1, 'm', 3000), -101);
	rig_fini(&r);
}

static void a_grace_can_be_cut_short(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_mount(&r, 1, 'n', 0x20000, 0x10000), 0);
	rig_put(&r, 2, "a", 100);
	assert_int_equal(rig_unmount_later(&r, 1, 'm', 60000), 0);
	assert_int_equal(rig_unmount_later(&r, 1, 'n', 60000), 0);
	assert_int_equal(rig_unmount_later(&r, 1, 'm', 500), 0);
	rig_pass(&r, 600, "12");
	assert_int_equal(rig_figures(&r).segments, 1);
	assert_int_equal(rig_unmount(&r, 1, 'n'), 0);
	assert_int_equal(rig_figures(&r).segments, 0);
	rig_fini(&r);
}

/* ---- names ---- */

/*
 * Client and incarnation as in rig_join(); the engine has that name, and has
 * had it in an earlier life, unless @held is none.
 */
static int join_after(struct rig *r, tes_session_id s, char client, char life,
		      const char *engine, struct tes_core_hold held)
{
	uint8_t id[TES_CORE_ID_LEN], incarnation[TES_CORE_ID_LEN];
	struct tes_event ev = {.type = TES_EVENT_JOIN, .session = s};
	int code;

	memset(id, client, sizeof(id));
	memset(incarnation, life, sizeof(incarnation));
	ev.u.join.client_id = id;
	ev.u.join.incarnation = incarnation;
	ev.u.join.engine = engine;
	ev.u.join.held = held;
	ev.u.join.probes = true;
	code = rig_step(r, &ev)->u.reply.code;
	if (!code)
		rig_plain(r, TES_EVENT_HEARTBEAT, s);
	return code;
}

static int join_as(struct rig *r, tes_session_id s, char client, char life,
		   const char *engine)
{
	return join_after(r, s, client, life, engine,
			  (struct tes_core_hold){0});
}

static int mount_as(struct rig *r, tes_session_id s, char id, const char *name)
{
	int code;

	rig_name = name;
	code = rig_mount(r, s, id, (uint64_t)id << 20, 0x10000);
	rig_name = NULL;
	return code;
}

static void a_name_is_its_first_living_owners(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_as(&r, 1, 'a', 'A', "a:1"), 0);
	assert_int_equal(join_as(&r, 2, 'b', 'B', "b:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'm', "owner"), 0);
	assert_int_equal(mount_as(&r, 2, 'n', "owner"), -601);
	assert_int_equal(rig_figures(&r).segments, 1);
	/* Its owner has as many of the name as it likes. */
	assert_int_equal(mount_as(&r, 1, 'o', "owner"), 0);
	assert_int_equal(mount_as(&r, 2, 'n', "b:1"), 0);
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	assert_int_equal(mount_as(&r, 2, 'p', "owner"), -601);
	assert_int_equal(rig_unmount(&r, 1, 'o'), 0);
	assert_int_equal(mount_as(&r, 2, 'p', "owner"), 0);
	assert_int_equal(mount_as(&r, 1, 'm', "owner"), -601);
	rig_fini(&r);
}

/* An owner that is started anew finds somebody who said hello under its name
 * before, and who answers whenever he is asked. */
static void who_lends_nothing_has_no_name(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_as(&r, 1, 'a', 'A', "a:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'm', "a:1"), 0);
	assert_int_equal(join_as(&r, 2, 'b', 'B', "a:1"), 0);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(join_as(&r, 3, 'c', 'C', "a:1"), 0);
	assert_int_equal(mount_as(&r, 3, 'n', "a:1"), 0);
	assert_int_equal(mount_as(&r, 2, 'o', "a:1"), -601);
	/* Another client of the same engine. */
	assert_int_equal(join_as(&r, 4, 'd', 'C', "a:1"), 0);
	assert_int_equal(mount_as(&r, 4, 'q', "a:1"), 0);
	rig_fini(&r);
}

/* It crashed without a word, and its successor has its name. */
static void who_does_not_answer_gives_its_name_away(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_as(&r, 1, 'a', 'A', "a:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'm', "a:1"), 0);
	assert_int_equal(join_as(&r, 2, 'b', 'B', "a:1"), 0);
	assert_int_equal(mount_as(&r, 2, 'n', "a:1"), -601);
	assert_non_null(rig_find(&r, TES_ACTION_PROBE));
	rig_pass(&r, 200, "2");
	assert_int_equal(mount_as(&r, 2, 'n', "a:1"), -601);
	rig_pass(&r, 200, "2");
	assert_int_equal(mount_as(&r, 2, 'n', "a:1"), 0);
	/* At once where its connection has gone with it. */
	assert_int_equal(join_as(&r, 3, 'c', 'C', "a:1"), 0);
	assert_int_equal(mount_as(&r, 3, 'o', "a:1"), -601);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	assert_int_equal(mount_as(&r, 3, 'o', "a:1"), 0);
	rig_fini(&r);
}

static bool is_displaced(const struct rig *r, tes_session_id s)
{
	for (size_t i = 0; i < r->out.n; i++)
		if (r->out.at[i].type == TES_ACTION_OWNER &&
		    r->out.at[i].session == s &&
		    r->out.at[i].u.owner.news == TES_OWNER_DISPLACED)
			return true;
	return false;
}

/* A stranger may be as quick as a successor, and an owner only slow. */
static void who_comes_back_has_its_name_again(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_as(&r, 1, 'a', 'A', "a:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'm', "a:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'o', "a:1"), 0);
	assert_int_equal(join_as(&r, 2, 'b', 'B', "a:1"), 0);
	assert_int_equal(mount_as(&r, 2, 'x', "b:1"), 0);
	rig_pass(&r, rig_config.suspect_ms, "2");
	assert_int_equal(mount_as(&r, 2, 'n', "a:1"), 0);
	assert_int_equal(rig_figures(&r).segments, 4);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 1);
	assert_true(is_displaced(&r, 2));
	assert_int_equal(rig_figures(&r).segments, 3);
	rig_pass(&r, 100, "12");
	assert_false(is_displaced(&r, 2));
	assert_int_equal(mount_as(&r, 2, 'n', "a:1"), -601);
	/* The same where it comes back on another connection. */
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(mount_as(&r, 2, 'n', "a:1"), 0);
	rig_pass(&r, 200, "2");
	assert_int_equal(join_as(&r, 3, 'a', 'A', "a:1"), 0);
	assert_int_equal(rig_figures(&r).segments, 3);
	assert_int_equal(rig_unmount(&r, 3, 'm'), 0);
	assert_int_equal(rig_unmount(&r, 2, 'n'), -101);
	rig_fini(&r);
}

static void who_comes_back_has_its_name_alone(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_as(&r, 1, 'a', 'A', "a:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'm', "a:1"), 0);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(join_as(&r, 2, 'b', 'B', "b:1"), 0);
	for (char id = 1; id <= 20; id++)
		assert_int_equal(mount_as(&r, 2, id, "a:1"), 0);
	assert_int_equal(rig_figures(&r).segments, 21);
	assert_int_equal(join_as(&r, 3, 'a', 'A', "a:1"), 0);
	assert_int_equal(rig_figures(&r).segments, 1);
	assert_int_equal(rig_unmount(&r, 3, 'm'), 0);
	rig_fini(&r);
}

/* Who was there in its place, and silent when it came back, has no claim. */
static void a_silent_successor_has_no_claim(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_as(&r, 1, 'a', 'A', "a:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'm', "a:1"), 0);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(join_as(&r, 2, 'b', 'B', "a:1"), 0);
	assert_int_equal(mount_as(&r, 2, 'n', "a:1"), 0);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	assert_int_equal(join_as(&r, 4, 'b', 'B', "a:1"), 0);
	/* The first one may still be back. */
	assert_int_equal(rig_figures(&r).segments, 2);
	rig_plain(&r, TES_EVENT_LEAVE, 4);
	assert_int_equal(join_as(&r, 3, 'a', 'A', "a:1"), 0);
	assert_int_equal(rig_figures(&r).segments, 1);
	assert_int_equal(join_as(&r, 5, 'b', 'B', "a:1"), 0);
	assert_int_equal(rig_figures(&r).segments, 1);
	assert_int_equal(rig_unmount(&r, 3, 'm'), 0);
	rig_fini(&r);
}

/* Of an earlier life, which is known by its epoch. */
static struct tes_core_hold held(uint64_t epoch, uint64_t n, bool young)
{
	return (struct tes_core_hold){
		.life = epoch, .epoch = epoch, .n = n, .young = young};
}

static uint64_t hold_of(const struct rig *r, tes_session_id s)
{
	return tes_core_name_hold(r->core, s).n;
}

/* A stranger is the first at a new master; owners come back later. */
static void a_new_master_gives_names_to_who_had_them_last(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_as(&r, 1, 's', 'S', "a:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'n', "a:1"), 0);
	assert_int_equal(join_after(&r, 2, 'a', 'A', "a:1", held(5, 1, 0)), 0);
	/* Of another name it has proved nothing. */
	assert_int_equal(mount_as(&r, 1, 'o', "b:1"), 0);
	assert_int_equal(mount_as(&r, 2, 'p', "b:1"), -601);
	assert_int_equal(mount_as(&r, 2, 'm', "a:1"), 0);
	assert_int_equal(rig_figures(&r).segments, 2);
	assert_int_equal(rig_unmount(&r, 1, 'n'), -101);
	assert_int_equal(mount_as(&r, 1, 'n', "a:1"), -601);
	/* Who had it before, and lost it; who had it after. */
	assert_int_equal(join_after(&r, 3, 'c', 'C', "a:1", held(4, 9, 0)), 0);
	assert_int_equal(mount_as(&r, 3, 'q', "a:1"), -601);
	assert_int_equal(join_after(&r, 4, 'd', 'D', "a:1", held(5, 2, 0)), 0);
	assert_int_equal(mount_as(&r, 4, 'q', "a:1"), 0);
	assert_int_equal(rig_unmount(&r, 2, 'm'), -101);
	/* Not even while its successor is silent for a while. */
	rig_plain(&r, TES_EVENT_LEAVE, 4);
	assert_int_equal(mount_as(&r, 2, 'm', "a:1"), 0);
	assert_int_equal(hold_of(&r, 2), 0);
	assert_int_equal(join_as(&r, 5, 'd', 'D', "a:1"), 0);
	assert_int_equal(rig_unmount(&r, 2, 'm'), -101);
	rig_fini(&r);
}

/*
 * A hold of a young master goes behind those of earlier lives, also of who lost
 * the name then: in its place the owner's own one from then would be gone.
 */
static void a_young_master_leaves_an_owner_the_hold_that_it_brings(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_after(&r, 1, 'a', 'A', "a:1", held(5, 2, 0)), 0);
	assert_int_equal(mount_as(&r, 1, 'm', "a:1"), 0);
	assert_int_equal(hold_of(&r, 1), 0);
	rig_pass(&r, 6 * rig_config.client_ttl_ms + 100, "1");
	assert_int_equal(hold_of(&r, 1), 1);
	assert_false(tes_core_name_hold(r.core, 1).young);
	rig_fini(&r);
}

/* The owner was away for a whole life that was short, a stranger was not. */
static void a_hold_of_a_young_master_yields_to_an_earlier_one(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_after(&r, 1, 's', 'S', "a:1", held(6, 7, 1)), 0);
	assert_int_equal(mount_as(&r, 1, 'n', "a:1"), 0);
	assert_int_equal(join_after(&r, 2, 'a', 'A', "a:1", held(5, 1, 1)), 0);
	assert_int_equal(mount_as(&r, 2, 'm', "a:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'n', "a:1"), -601);
	/* Somebody who had the name when all were back. */
	assert_int_equal(join_after(&r, 3, 'c', 'C', "a:1", held(7, 1, 0)), 0);
	assert_int_equal(mount_as(&r, 3, 'q', "a:1"), 0);
	assert_int_equal(mount_as(&r, 2, 'm', "a:1"), -601);
	assert_int_equal(mount_as(&r, 1, 'n', "a:1"), -601);
	rig_fini(&r);
}

static void an_old_master_gives_names_to_who_is_there(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_as(&r, 1, 'a', 'A', "a:1"), 0);
	assert_int_equal(hold_of(&r, 1), 0);
	assert_int_equal(mount_as(&r, 1, 'm', "a:1"), 0);
	rig_pass(&r, 6 * rig_config.client_ttl_ms, "1");
	assert_int_equal(hold_of(&r, 1), 1);
	assert_true(tes_core_name_hold(r.core, 1).young);
	rig_pass(&r, 100, "1");
	assert_int_equal(hold_of(&r, 1), 2);
	assert_int_equal(hold_of(&r, 1), 2);
	assert_false(tes_core_name_hold(r.core, 1).young);
	assert_int_equal(join_after(&r, 2, 'b', 'B', "a:1", held(9, 9, 0)), 0);
	assert_int_equal(mount_as(&r, 2, 'n', "a:1"), -601);
	/* Somebody else's may have been between. */
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	assert_int_equal(mount_as(&r, 1, 'm', "a:1"), 0);
	assert_int_equal(hold_of(&r, 1), 3);
	assert_int_equal(hold_of(&r, 2), 0);
	assert_int_equal(hold_of(&r, 77), 0);
	rig_fini(&r);
}

static void who_has_lost_its_name_holds_it_no_more(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(join_as(&r, 1, 's', 'S', "a:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'n', "a:1"), 0);
	assert_int_equal(mount_as(&r, 1, 'o', "other"), 0);
	assert_int_equal(hold_of(&r, 1), 1);
	assert_int_equal(join_after(&r, 2, 'a', 'A', "a:1", held(5, 1, 0)), 0);
	assert_int_equal(mount_as(&r, 2, 'm', "a:1"), 0);
	assert_int_equal(hold_of(&r, 1), 0);
	/* The same where it gives the name up. */
	assert_int_equal(join_as(&r, 3, 'c', 'C', "c:1"), 0);
	assert_int_equal(mount_as(&r, 3, 'p', "c:1"), 0);
	assert_int_equal(mount_as(&r, 3, 'q', "c:2"), 0);
	assert_int_equal(hold_of(&r, 3), 2);
	assert_int_equal(rig_unmount(&r, 3, 'p'), 0);
	assert_int_equal(hold_of(&r, 3), 0);
	rig_fini(&r);
}

/* ---- sessions that nobody stands behind ---- */

#define N_MANY 6144u /* from so many on those that left make room */
#define N_ALL  8192u /* that a server has place for */

/* A client of its own, from a place. */
static void come(struct rig *r, tes_session_id s, uint64_t source)
{
	uint8_t id[TES_CORE_ID_LEN] = {0};
	struct tes_event ev = {.type = TES_EVENT_JOIN, .session = s};

	memcpy(id, &s, sizeof(s));
	ev.u.join.client_id = ev.u.join.incarnation = id;
	ev.u.join.source = source;
	assert_int_equal(rig_step(r, &ev)->u.reply.code, 0);
}

static void who_comes_and_goes_uses_up_no_sessions(void **state)
{
	tes_session_id s = 100;
	struct grant g;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	g = rig_start(&r, 2, "k", 100);
	assert_int_equal(g.status, 0);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	while (rig_figures(&r).sessions < N_MANY) {
		come(&r, ++s, 7);
		rig_plain(&r, TES_EVENT_LEAVE, s);
	}
	/* The rest stay: with each of them one goes that had left. */
	for (unsigned int i = N_MANY; i < N_ALL; i++)
		come(&r, ++s, 7);
	assert_int_equal(rig_figures(&r).sessions, N_MANY);
	/* Those of the same source went; who came from elsewhere is back. */
	assert_int_equal(rig_join(&r, 3, 'w', 'W'), 0);
	assert_int_equal(rig_end(&r, 3, "k", g.generation), 0);
	/* A source that has none ends the oldest of another. */
	come(&r, ++s, 8);
	assert_int_equal(rig_figures(&r).sessions, N_MANY);
	assert_int_equal(rig_find(&r, TES_ACTION_CLOSE)->session,
			 101 + N_ALL - N_MANY);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_its_first_living_owners),
		cmocka_unit_test(who_lends_nothing_has_no_name),
		cmocka_unit_test(who_comes_back_has_its_name_again),
		cmocka_unit_test(who_comes_back_has_its_name_alone),
		cmocka_unit_test(a_silent_successor_has_no_claim),
		cmocka_unit_test(a_new_master_gives_names_to_who_had_them_last),
		cmocka_unit_test(
			a_young_master_leaves_an_owner_the_hold_that_it_brings),
		cmocka_unit_test(
			a_hold_of_a_young_master_yields_to_an_earlier_one),
		cmocka_unit_test(an_old_master_gives_names_to_who_is_there),
		cmocka_unit_test(who_has_lost_its_name_holds_it_no_more),
		cmocka_unit_test(who_does_not_answer_gives_its_name_away),
		cmocka_unit_test(
			what_the_policy_takes_for_time_goes_on_while_owners_are_away),
		cmocka_unit_test(
			an_owner_that_left_makes_its_objects_misses_at_once),
		cmocka_unit_test(
			an_owner_that_left_is_not_revived_by_heartbeats),
		cmocka_unit_test(
			a_new_connection_of_the_same_process_keeps_everything),
		cmocka_unit_test(who_left_has_its_own_time_to_be_back),
		cmocka_unit_test(a_mount_whose_answer_was_lost_is_said_again),
		cmocka_unit_test(a_restarted_process_loses_what_it_had),
		cmocka_unit_test(a_session_number_is_not_used_twice),
		cmocka_unit_test(
			a_silent_owner_is_suspect_and_a_heartbeat_undoes_it),
		cmocka_unit_test(a_master_that_was_stalled_expires_nobody),
		cmocka_unit_test(a_short_stall_counts_when_patience_is_short),
		cmocka_unit_test(a_key_of_a_suspect_owner_can_be_put_elsewhere),
		cmocka_unit_test(what_is_removed_while_suspect_stays_removed),
		cmocka_unit_test(an_unmount_drops_its_objects_in_steps),
		cmocka_unit_test(an_end_on_a_dropped_segment_is_late),
		cmocka_unit_test(
			during_its_grace_a_segment_is_read_but_gets_nothing_new),
		cmocka_unit_test(a_grace_can_be_cut_short),
		cmocka_unit_test(who_comes_and_goes_uses_up_no_sessions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
