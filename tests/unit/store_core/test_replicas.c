/* SPDX-License-Identifier: Apache-2.0 */
/* test_replicas.c - several replicas of an object, several extents of one */
#include "store/core/evict.h"
#include "store/core/state.h"
#include "tests/unit/store_core/rig.h"

#define KIB ((uint64_t)1024)
#define MIB (KIB * KIB)

/* A put of "a" of @size bytes by session 1. */
static const struct tes_action *start(struct rig *r, uint64_t size,
				      const struct tes_core_replicate *how)
{
	static struct tes_core_key key;
	static uint64_t sizes[1];
	struct tes_event ev = {.type = TES_EVENT_PUT_START,
			       .session = 1,
			       .n = 1,
			       .keys = &key};

	key = rig_key("a");
	sizes[0] = size;
	ev.u.put_start.sizes = sizes;
	ev.u.put_start.how = how;
	return rig_step(r, &ev);
}

static const struct tes_action *start_replicas(struct rig *r, uint64_t size,
					       uint32_t n)
{
	struct tes_core_replicate how = {.replica_num = n};

	return start(r, size, &how);
}

/* The end of "a" with its @n entries; CRCs count from 1. */
static int end(struct rig *r, uint64_t generation, uint32_t n, uint32_t written,
	       uint32_t quiet)
{
	struct tes_core_key key = rig_key("a");
	uint32_t crcs[64];
	struct tes_event ev = {
		.type = TES_EVENT_PUT_END, .session = 1, .n = 1, .keys = &key};

	for (uint32_t i = 0; i < n; i++)
		crcs[i] = i + 1;
	ev.u.put_end.generations = &generation;
	ev.u.put_end.extents = &n;
	ev.u.put_end.crcs = crcs;
	ev.u.put_end.written = &written;
	ev.u.put_end.quiet = &quiet;
	ev.u.put_end.epoch = EPOCH;
	return rig_step(r, &ev)->u.reply.status[0];
}

static const struct tes_action *look_up(struct rig *r)
{
	return rig_ask(r, TES_EVENT_LOOKUP, 1, "a", false);
}

/* Sessions 1 .. n, on machines as @hosts says, with @size bytes each. */
static void owners(struct rig *r, const char *hosts, uint64_t size)
{
	for (int i = 0; hosts[i]; i++) {
		rig_host = &hosts[i];
		assert_int_equal(rig_join(r, (tes_session_id)i + 1,
					  (char)('a' + i), (char)('A' + i)),
				 0);
		rig_host = NULL;
		rig_plain(r, TES_EVENT_HEARTBEAT, (tes_session_id)i + 1);
		assert_int_equal(rig_mount(r, (tes_session_id)i + 1,
					   (char)('m' + i),
					   (uint64_t)(i + 1) << 32, size),
				 0);
	}
}

/* Whose entry @i of the reply is: 'A' and on. */
static char owner_of(const struct tes_action *a, size_t i)
{
	return (char)a->u.reply.segments[a->u.reply.segment[i]].incarnation[0];
}

static void replicas_lie_on_distinct_segments(void **state)
{
	const struct tes_action *a;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "xyz", MIB);
	a = start_replicas(&r, 100, 3);
	assert_int_equal(a->u.reply.status[0], 0);
	assert_int_equal(a->u.reply.extents[0], 3);
	assert_int_equal(owner_of(a, 0) + owner_of(a, 1) + owner_of(a, 2),
			 'A' + 'B' + 'C');
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(a->u.reply.replica[i], i);
		assert_int_equal(a->u.reply.length[i], 100);
	}
	assert_int_equal(rig_figures(&r).used_bytes, 3 * 192);
	assert_int_equal(end(&r, a->u.reply.generation[0], 3, 7, 0), 0);
	a = look_up(&r);
	assert_int_equal(a->u.reply.extents[0], 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(a->u.reply.crc[i], i + 1);
	assert_int_equal(rig_remove(&r, 1, "a", true), 0);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_fini(&r);
}

static void fewer_segments_than_replicas_are_enough(void **state)
{
	const struct tes_action *a;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "xy", MIB);
	a = start_replicas(&r, 100, 5);
	assert_int_equal(a->u.reply.status[0], 0);
	assert_int_equal(a->u.reply.extents[0], 2);
	assert_int_equal(rig_figures(&r).partial_puts_total, 1);
	rig_fini(&r);
}

static void replicas_lie_on_distinct_machines_while_there_are(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "xxxxyy", MIB);
	for (int i = 0; i < 50; i++) {
		const struct tes_action *a = start_replicas(&r, 100, 2);

		assert_int_equal(a->u.reply.extents[0], 2);
		assert_true((owner_of(a, 0) < 'E') != (owner_of(a, 1) < 'E'));
		end(&r, a->u.reply.generation[0], 2, 0, 3);
	}
	assert_int_equal(start_replicas(&r, 100, 4)->u.reply.extents[0], 4);
	rig_fini(&r);
}

static void bad_replicates_are_refused(void **state)
{
	const struct tes_core_replicate bad[] = {
		{.replica_num = 0},
		{.replica_num = 33},
		{.replica_num = UINT32_MAX},
		{.replica_num = 1, .soft_pin = 3},
		{.replica_num = 1, .soft_pin = 1, .soft_pin_ttl_ms = 86400001},
	};
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "x", MIB);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(start(&r, 100, &bad[i])->u.reply.code, -600);
	assert_int_equal(rig_figures(&r).building, 0);
	rig_fini(&r);
}

static void one_written_replica_is_enough(void **state)
{
	const struct tes_action *a;
	uint64_t generation;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "xyz", MIB);
	generation = start_replicas(&r, 100, 3)->u.reply.generation[0];
	/* The second is there, the first is quiet, the third may be written. */
	assert_int_equal(end(&r, generation, 3, 2, 1), 0);
	a = rig_find(&r, TES_ACTION_FENCE);
	assert_non_null(a);
	assert_int_equal(a->u.fence.writer[0], 'A');
	assert_int_equal(rig_figures(&r).fencing, 1);
	assert_int_equal(rig_figures(&r).used_bytes, 2 * 192);
	rig_fenced(&r, a->session, a->u.fence.fence, true);
	assert_int_equal(rig_figures(&r).used_bytes, 192);
	a = look_up(&r);
	assert_int_equal(a->u.reply.status[0], 0);
	assert_null(a->u.reply.extents);
	assert_int_equal(a->u.reply.crc[0], 2);
	rig_fini(&r);
}

static void nothing_written_frees_what_is_quiet(void **state)
{
	uint64_t generation;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "xyz", MIB);
	generation = start_replicas(&r, 100, 3)->u.reply.generation[0];
	assert_int_equal(end(&r, generation, 3, 0, 5), 0);
	assert_int_equal(rig_figures(&r).fencing, 1);
	assert_int_equal(rig_figures(&r).used_bytes, 192);
	assert_int_equal(look_up(&r)->u.reply.status[0], -704);
	rig_fini(&r);
}

static void an_end_with_other_entries_changes_nothing(void **state)
{
	uint64_t generation;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "xy", MIB);
	generation = start_replicas(&r, 100, 2)->u.reply.generation[0];
	assert_int_equal(end(&r, generation, 1, 1, 0), -600);
	assert_int_equal(end(&r, generation, 3, 1, 0), -600);
	assert_int_equal(rig_figures(&r).building, 1);
	assert_int_equal(end(&r, generation, 2, 3, 0), 0);
	rig_fini(&r);
}

static void an_object_outlives_all_but_its_last_owner(void **state)
{
	const struct tes_action *a;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "xyz", MIB);
	a = start_replicas(&r, 100, 3);
	assert_int_equal(end(&r, a->u.reply.generation[0], 3, 7, 0), 0);
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	assert_int_equal(look_up(&r)->u.reply.extents[0], 2);
	rig_tick(&r);
	assert_int_equal(look_up(&r)->u.reply.extents[0], 2);
	rig_plain(&r, TES_EVENT_LEAVE, 3);
	a = look_up(&r);
	assert_null(a->u.reply.extents);
	assert_int_equal(owner_of(a, 0), 'A');
	rig_pass(&r, rig_config.suspect_ms, "1");
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).lost_replicas_total, 2);
	assert_int_equal(look_up(&r)->u.reply.status[0], 0);
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	assert_int_equal(look_up(&r)->u.reply.status[0], -704);
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).objects, 0);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_fini(&r);
}

static void an_owner_may_die_while_its_replica_is_written(void **state)
{
	uint64_t generation;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "xyz", MIB);
	generation = start_replicas(&r, 100, 3)->u.reply.generation[0];
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	rig_tick(&r);
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).segments, 2);
	/* The writer still counts the entries that it was given. */
	assert_int_equal(end(&r, generation, 2, 7, 0), -600);
	assert_int_equal(end(&r, generation, 3, 7, 0), 0);
	assert_int_equal(look_up(&r)->u.reply.extents[0], 2);
	rig_fini(&r);
}

/* Fill 1 MiB with pieces of 128 KiB and take every second out. */
static void make_holes(struct rig *r)
{
	char key[16];

	for (int i = 0; i < 8; i++) {
		snprintf(key, sizeof(key), "%d", i);
		assert_int_equal(rig_put(r, 1, key, 128 * KIB - 64).status, 0);
	}
	assert_int_equal(rig_figures(r).used_bytes, MIB);
	for (int i = 0; i < 8; i += 2) {
		snprintf(key, sizeof(key), "%d", i);
		assert_int_equal(rig_remove(r, 1, key, true), 0);
	}
}

static void a_replica_is_split_when_no_hole_fits(void **state)
{
	const struct tes_action *a;
	uint64_t size = 400 * KIB, length = 0;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "x", MIB);
	make_holes(&r);
	a = start_replicas(&r, size, 1);
	assert_int_equal(a->u.reply.status[0], 0);
	assert_int_equal(rig_figures(&r).evicted_objects_total, 0);
	assert_int_equal(a->u.reply.extents[0], 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(a->u.reply.replica[i], 0);
		length += a->u.reply.length[i];
	}
	assert_int_equal(length, size);
	assert_int_equal(a->u.reply.length[0], 128 * KIB - 64);
	assert_int_equal(end(&r, a->u.reply.generation[0], 4, 1, 0), 0);
	a = look_up(&r);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(a->u.reply.crc[i], i + 1);
	assert_int_equal(rig_remove(&r, 1, "a", true), 0);
	assert_int_equal(rig_figures(&r).used_bytes, MIB / 2);
	rig_fini(&r);
}

static void small_replicas_are_not_split(void **state)
{
	const struct tes_action *a;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "x", 64 * KIB);
	for (int i = 0; i < 4; i++) {
		char key[2] = {(char)('0' + i), '\0'};

		assert_int_equal(rig_put(&r, 1, key, 16 * KIB - 64).status, 0);
	}
	assert_int_equal(rig_remove(&r, 1, "0", true), 0);
	assert_int_equal(rig_remove(&r, 1, "2", true), 0);
	a = start_replicas(&r, 24 * KIB, 1);
	assert_int_equal(a->u.reply.status[0], 0);
	assert_null(a->u.reply.extents);
	assert_int_equal(rig_figures(&r).evicted_objects_total, 1);
	rig_fini(&r);
}

static void a_writer_that_stalls_is_fenced_at_every_owner(void **state)
{
	uint64_t fences[2];
	tes_session_id to[2];
	size_t n = 0;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "xyz", MIB);
	assert_int_equal(start_replicas(&r, 100, 3)->u.reply.status[0], 0);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	rig_pass(&r, rig_config.suspect_ms - 100, "23");
	r.now += 100;
	rig_tick(&r);
	for (size_t i = 0; i < r.out.n; i++) {
		if (r.out.at[i].type != TES_ACTION_FENCE)
			continue;
		assert_true(n < 2);
		to[n] = r.out.at[i].session;
		fences[n++] = r.out.at[i].u.fence.fence;
	}
	/* Its own segment went with it. */
	assert_int_equal(n, 2);
	assert_int_equal(rig_figures(&r).used_bytes, 2 * 192);
	for (size_t i = 0; i < n; i++)
		rig_fenced(&r, to[i], fences[i], true);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_fini(&r);
}

#define TIGHT_MOUNTS 200
#define TIGHT_KEYS   50

static void mount_many(struct rig *r, size_t n)
{
	uint8_t segment[TES_CORE_ID_LEN] = {0};
	struct tes_event ev = {.type = TES_EVENT_MOUNT, .session = 1};

	for (size_t i = 0; i < n; i++) {
		memcpy(segment, &i, sizeof(i));
		ev.u.mount.segment = segment;
		ev.u.mount.name = "name";
		ev.u.mount.base = MIB + i * 4096;
		ev.u.mount.size = 4096;
		assert_int_equal(rig_step(r, &ev)->u.reply.code, 0);
	}
}

static void a_full_pool_is_not_searched_for_every_replica(void **state)
{
	struct tes_core_replicate how = {.replica_num = 2};
	struct tes_core_key keys[TIGHT_KEYS];
	struct tes_event ev = {.type = TES_EVENT_PUT_START,
			       .session = 1,
			       .n = TIGHT_KEYS,
			       .keys = keys};
	char names[TIGHT_MOUNTS][24];
	uint64_t sizes[TIGHT_KEYS];
	unsigned int effort;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(rig_join(&r, 1, 'a', 'A'), 0);
	mount_many(&r, TIGHT_MOUNTS);
	for (size_t i = 0; i < TIGHT_MOUNTS; i++) {
		snprintf(names[i], sizeof(names[i]), "%zu", i);
		assert_int_equal(rig_put(&r, 1, names[i], 4096 - 64).status, 0);
	}
	for (size_t i = 0; i < TIGHT_KEYS; i++) {
		names[i][0] = 'n';
		names[i][1] = (char)('A' + i);
		names[i][2] = 0;
		keys[i] = rig_key(names[i]);
		sizes[i] = 4096 - 64;
	}
	ev.u.put_start.sizes = sizes;
	ev.u.put_start.how = &how;
	assert_int_equal(rig_step(&r, &ev)->u.reply.status[0], 0);
	assert_int_equal(rig_figures(&r).partial_puts_total, TIGHT_KEYS);
	effort = TES_CORE_EFFORT * r.core->config.step_objects - r.core->effort;
	/* An eviction of 8 for each, and one search or two. */
	assert_in_range(effort, 8 * TIGHT_KEYS + TIGHT_MOUNTS / 2,
			8 * TIGHT_KEYS + 2 * TIGHT_MOUNTS);
	rig_fini(&r);
}

static void the_preferred_segment_comes_first(void **state)
{
	const char *names[] = {"none", "second"};
	struct tes_core_replicate how = {
		.replica_num = 1, .preferred = names, .n_preferred = 2};
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "xyz", MIB);
	rig_name = "second";
	assert_int_equal(rig_mount(&r, 2, 'p', (uint64_t)9 << 32, MIB), 0);
	rig_name = NULL;
	for (int i = 0; i < 20; i++) {
		const struct tes_action *a = start(&r, 100, &how);

		assert_int_equal(a->u.reply.address[0] >> 32, 9);
		end(&r, a->u.reply.generation[0], 1, 0, 1);
	}
	rig_fini(&r);
}

static void local_first_is_the_writers_machine(void **state)
{
	struct tes_core_config config = rig_config;
	struct rig r;

	(void)state;
	config.strategy = TES_CORE_LOCAL_FIRST;
	rig_init(&r, &config);
	owners(&r, "xyyyyx", MIB);
	for (int i = 0; i < 20; i++) {
		const struct tes_action *a = start_replicas(&r, 100, 1);

		assert_true(owner_of(a, 0) == 'A' || owner_of(a, 0) == 'F');
		end(&r, a->u.reply.generation[0], 1, 0, 1);
	}
	rig_fini(&r);
}

static void an_empty_segment_is_not_flooded(void **state)
{
	struct tes_core_config config = rig_config;
	unsigned int n = 0;
	char key[16];
	struct rig r;

	(void)state;
	config.strategy = TES_CORE_FREE_RATIO_FIRST;
	rig_init(&r, &config);
	owners(&r, "wxyz", MIB);
	for (int i = 0; i < 1600; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		rig_put(&r, 1, key, KIB);
	}
	assert_int_equal(rig_mount(&r, 4, 'q', (uint64_t)9 << 32, 64 * MIB), 0);
	for (int i = 0; i < 400; i++) {
		snprintf(key, sizeof(key), "n%d", i);
		n += rig_put(&r, 1, key, KIB).address >> 32 == 9;
	}
	/* One of five: its share is 80. */
	assert_in_range(n, 60, 160);
	rig_fini(&r);
}

static void any_owner_that_comes_back_brings_objects_to_evict(void **state)
{
	const struct tes_action *a;
	char key[16];

	(void)state;
	for (tes_session_id back = 1; back <= 3; back++) {
		struct rig r;

		rig_init(&r, NULL);
		owners(&r, "xyz", 8192);
		a = start_replicas(&r, 8192 - 64, 3);
		end(&r, a->u.reply.generation[0], 3, 7, 0);
		assert_int_equal(rig_join(&r, 4, 'd', 'D'), 0);
		rig_pass(&r, rig_config.suspect_ms, "4");
		/* Nobody is there who has it: others go in its place. */
		assert_int_equal(rig_mount(&r, 4, 'v', (uint64_t)9 << 32, 4096),
				 0);
		for (int i = 0; i < 5; i++) {
			snprintf(key, sizeof(key), "%d", i);
			assert_int_equal(rig_put(&r, 4, key, 4032).status, 0);
		}
		rig_plain(&r, TES_EVENT_HEARTBEAT, back);
		assert_int_equal(rig_put(&r, 4, "b", 8192 - 64).status, 0);
		rig_fini(&r);
	}
}

static void metadata_of_an_object_is_at_most_200_bytes(void **state)
{
	enum { N = 100000, KEY = 64 };
	uint64_t empty, full;
	char key[KEY + 1];
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	owners(&r, "x", 1024 * MIB);
	empty = rig_figures(&r).metadata_bytes;
	for (int i = 0; i < N; i++) {
		snprintf(key, sizeof(key), "%064d", i);
		assert_int_equal(rig_put(&r, 1, key, 4000).status, 0);
	}
	full = rig_figures(&r).metadata_bytes;
	assert_int_equal(rig_figures(&r).key_bytes, (uint64_t)N * KEY);
	print_message("%.1f bytes an object\n", (double)(full - empty) / N);
	assert_true(full - empty <= (uint64_t)200 * N);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replicas_lie_on_distinct_segments),
		cmocka_unit_test(fewer_segments_than_replicas_are_enough),
		cmocka_unit_test(
			replicas_lie_on_distinct_machines_while_there_are),
		cmocka_unit_test(bad_replicates_are_refused),
		cmocka_unit_test(one_written_replica_is_enough),
		cmocka_unit_test(nothing_written_frees_what_is_quiet),
		cmocka_unit_test(an_end_with_other_entries_changes_nothing),
		cmocka_unit_test(an_object_outlives_all_but_its_last_owner),
		cmocka_unit_test(an_owner_may_die_while_its_replica_is_written),
		cmocka_unit_test(a_replica_is_split_when_no_hole_fits),
		cmocka_unit_test(small_replicas_are_not_split),
		cmocka_unit_test(a_writer_that_stalls_is_fenced_at_every_owner),
		cmocka_unit_test(a_full_pool_is_not_searched_for_every_replica),
		cmocka_unit_test(the_preferred_segment_comes_first),
		cmocka_unit_test(local_first_is_the_writers_machine),
		cmocka_unit_test(an_empty_segment_is_not_flooded),
		cmocka_unit_test(
			any_owner_that_comes_back_brings_objects_to_evict),
		cmocka_unit_test(metadata_of_an_object_is_at_most_200_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
