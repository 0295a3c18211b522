/* SPDX-License-Identifier: Apache-2.0 */
/* test_tenant.c - keys of their own, and how much each may have */
#include "tests/unit/store_core/tenants.h"

static struct tes_core_tenant ask(const struct rig *r, const char *name)
{
	struct tes_core_tenant t = {.name = NULL};

	assert_true(tes_core_tenant_query(r->core, name, &t));
	assert_string_equal(t.name, name);
	return t;
}

/* How many of @n objects of 1 KiB of @s are stored and still there. */
static int fill(struct rig *r, tes_session_id s, const char *prefix, int n)
{
	char key[16];
	int there = 0;

	for (int i = 0; i < n; i++) {
		name(key, prefix, i);
		rig_put(r, s, key, KIB - 64);
		assert_true(charges_exact(r->core));
	}
	for (int i = 0; i < n; i++) {
		name(key, prefix, i);
		there += rig_ask(r, TES_EVENT_SIZE, s, key, false)
				 ->u.reply.status[0] == 0;
	}
	return there;
}

static void a_key_is_another_one_for_each_tenant(void **state)
{
	struct grant red, blue;
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 16 * KIB, 16 * KIB);
	red = rig_put(&r, RED, "a", 100);
	assert_int_equal(rig_exist(&r, BLUE, "a"), 0);
	assert_int_equal(rig_lookup(&r, BLUE, "a").status, -704);
	blue = rig_put(&r, BLUE, "a", 200);
	assert_int_equal(red.status, 0);
	assert_int_equal(blue.status, 0);
	assert_int_equal(rig_lookup(&r, RED2, "a").generation, red.generation);
	assert_int_equal(rig_lookup(&r, BLUE, "a").generation, blue.generation);
	assert_int_equal(rig_remove(&r, BLUE, "a", true), 0);
	assert_int_equal(rig_lookup(&r, RED, "a").size, 100);
	assert_int_equal(ask(&r, "red").charged, 192);
	assert_int_equal(ask(&r, "blue").charged, 0);
	end(&r);
}

static void who_has_no_quota_has_no_keys(void **state)
{
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 16 * KIB, 16 * KIB);
	/* Not even `default`. */
	assert_int_equal(rig_start(&r, OWNER, "a", 100).status, -1701);
	assert_int_equal(rig_lookup(&r, OWNER, "a").status, -1701);
	assert_int_equal(rig_exist(&r, OWNER, "a"), -1701);
	assert_int_equal(rig_remove(&r, OWNER, "a", false), -1701);
	/* From when it has one it has keys. */
	assert_int_equal(tes_core_tenant_set(r.core, "default", KIB), 0);
	assert_int_equal(rig_put(&r, OWNER, "a", 100).status, 0);
	assert_int_equal(tes_core_tenant_unset(r.core, "default"), -EBUSY);
	assert_int_equal(rig_remove(&r, OWNER, "a", false), 0);
	assert_int_equal(tes_core_tenant_unset(r.core, "default"), 0);
	assert_int_equal(tes_core_tenant_unset(r.core, "default"), -ENOENT);
	assert_int_equal(rig_exist(&r, OWNER, "a"), -1701);
	end(&r);
}

static void while_tenants_are_off_all_have_the_same_keys(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	join(&r, OWNER, NULL);
	join(&r, RED, "red");
	join(&r, BLUE, "blue");
	assert_int_equal(rig_mount(&r, OWNER, 'm', 0x10000, 64 * KIB), 0);
	assert_int_equal(rig_put(&r, RED, "a", 100).status, 0);
	assert_int_equal(rig_exist(&r, BLUE, "a"), 1);
	assert_int_equal(rig_exist(&r, OWNER, "a"), 1);
	assert_int_equal(tes_core_tenant_set(r.core, "red", KIB), -ENOTSUP);
	assert_int_equal(tes_core_tenant_unset(r.core, "red"), -ENOTSUP);
	assert_int_equal(ask(&r, "default").charged, 192);
	end(&r);
}

static void a_tenant_at_its_quota_evicts_its_own(void **state)
{
	struct rig r;

	(void)state;
	begin(&r, 128 * KIB, 16 * KIB, 64 * KIB);
	assert_int_equal(fill(&r, BLUE, "b", 20), 20);
	assert_int_equal(fill(&r, RED, "r", 50), 16);
	assert_int_equal(ask(&r, "red").charged, 16 * KIB);
	assert_int_equal(ask(&r, "red").evicted_bytes_total, 34 * KIB);
	assert_int_equal(ask(&r, "red").rejects_total, 0);
	assert_int_equal(fill(&r, BLUE, "b", 20), 20);
	end(&r);
}

static void beyond_its_quota_is_an_error_when_nothing_of_it_can_go(void **state)
{
	char key[16];
	struct grant g;
	struct rig r;

	(void)state;
	begin(&r, 128 * KIB, 8 * KIB, 64 * KIB);
	/* Larger than all of it: nothing goes. */
	assert_int_equal(fill(&r, RED, "r", 7), 7);
	assert_int_equal(rig_start(&r, RED, "x", 8 * KIB).status, -1700);
	assert_int_equal(fill(&r, RED, "r", 7), 7);
	/* All of it is being read. */
	assert_int_equal(fill(&r, RED, "r", 8), 8);
	for (int i = 0; i < 8; i++) {
		name(key, "r", i);
		assert_int_equal(rig_lookup(&r, RED, key).status, 0);
	}
	assert_int_equal(rig_start(&r, RED, "x", 100).status, -1700);
	assert_int_equal(ask(&r, "red").rejects_total, 2);
	/* Of others it is no business. */
	assert_int_equal(rig_put(&r, BLUE, "x", 100).status, 0);
	/* What is there already needs no room. */
	assert_int_equal(rig_start(&r, RED, "r1", 100).status, -705);
	/* When the leases are over it goes on. */
	rig_pass(&r, 5100, "1234");
	g = rig_start(&r, RED, "x", 100);
	assert_int_equal(g.status, 0);
	/* What is unfinished is charged, and what is given up no longer. */
	assert_int_equal(ask(&r, "red").charged, 7 * KIB + 192);
	assert_int_equal(rig_end_as(&r, RED, "x", g.generation, EPOCH, 0), 0);
	assert_int_equal(ask(&r, "red").charged, 7 * KIB);
	end(&r);
}

static void replicas_beyond_the_first_are_left_out_at_the_quota(void **state)
{
	const struct tes_core_replicate two = {.replica_num = 2};
	struct grant g;
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 3 * KIB, 16 * KIB);
	assert_int_equal(rig_mount(&r, BLUE, 'n', 0x90000, 64 * KIB), 0);
	g = rig_start_as(&r, RED, "a", KIB - 64, &two, NULL, false);
	assert_int_equal(ask(&r, "red").charged, 2 * KIB);
	assert_int_equal(rig_end_all(&r, RED, "a", g.generation, 2, 3), 0);
	g = rig_start_as(&r, RED, "b", KIB - 64, &two, NULL, false);
	assert_int_equal(g.status, 0);
	assert_int_equal(ask(&r, "red").charged, 3 * KIB);
	/* A replica that is lost is no longer charged. */
	assert_int_equal(rig_unmount(&r, BLUE, 'n'), 0);
	rig_pass(&r, 200, "1234");
	assert_true(charges_exact(r.core));
	assert_in_range(ask(&r, "red").charged, KIB, 2 * KIB);
	end(&r);
}

static void an_upsert_at_the_quota_spares_what_it_replaces(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 3 * KIB, 16 * KIB);
	assert_int_equal(rig_put(&r, RED, "a", KIB - 64).status, 0);
	assert_int_equal(rig_put(&r, RED, "b", KIB - 64).status, 0);
	g = rig_start_as(&r, RED, "a", 2 * KIB - 64, NULL, NULL, true);
	assert_int_equal(g.status, 0);
	assert_int_equal(rig_exist(&r, RED, "b"), 0);
	assert_int_equal(rig_exist(&r, RED, "a"), 1);
	assert_int_equal(ask(&r, "red").charged, 3 * KIB);
	assert_int_equal(rig_end(&r, RED, "a", g.generation), 0);
	assert_int_equal(ask(&r, "red").charged, 2 * KIB);
	g = rig_start_as(&r, RED, "a", 2 * KIB - 64, NULL, NULL, true);
	assert_int_equal(g.status, -1700);
	assert_int_equal(rig_exist(&r, RED, "a"), 1);
	end(&r);
}

static void quotas_beyond_the_pool_are_scaled_to_it(void **state)
{
	struct tes_core_tenant t;
	size_t cursor = 0, n = 0;
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 96 * KIB, 32 * KIB);
	assert_int_equal(ask(&r, "red").effective, 48 * KIB);
	assert_int_equal(ask(&r, "red").requested, 96 * KIB);
	assert_int_equal(ask(&r, "blue").effective, 16 * KIB);
	assert_int_equal(rig_mount(&r, BLUE, 'n', 0x90000, 64 * KIB), 0);
	assert_int_equal(ask(&r, "red").effective, 96 * KIB);
	assert_int_equal(rig_unmount(&r, BLUE, 'n'), 0);
	assert_int_equal(ask(&r, "red").effective, 48 * KIB);
	/* The largest numbers do not overflow. */
	assert_int_equal(tes_core_tenant_set(r.core, "red", UINT64_MAX), 0);
	assert_int_equal(tes_core_tenant_set(r.core, "blue", UINT64_MAX), 0);
	assert_int_equal(ask(&r, "red").effective, 32 * KIB);
	while (tes_core_tenant_next(r.core, &cursor, &t))
		n += t.registered;
	assert_int_equal(n, 2);
	end(&r);
}

static void
less_quota_than_it_has_costs_it_objects_at_the_next_put(void **state)
{
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 16 * KIB, 16 * KIB);
	assert_int_equal(fill(&r, RED, "r", 16), 16);
	assert_int_equal(tes_core_tenant_set(r.core, "red", 4 * KIB), 0);
	assert_int_equal(ask(&r, "red").charged, 16 * KIB);
	assert_int_equal(rig_put(&r, RED, "x", KIB - 64).status, 0);
	assert_int_equal(ask(&r, "red").charged, 4 * KIB);
	end(&r);
}

static void room_in_the_pool_is_paid_by_who_has_most_of_its_share(void **state)
{
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 40 * KIB, 40 * KIB);
	/* 32 KiB each; a new owner brought more and took it away again. */
	assert_int_equal(rig_mount(&r, BLUE, 'n', 0x90000, 64 * KIB), 0);
	assert_int_equal(fill(&r, BLUE, "b", 8), 8);
	assert_int_equal(fill(&r, RED, "r", 40), 40);
	assert_int_equal(rig_unmount(&r, BLUE, 'n'), 0);
	rig_pass(&r, 200, "1234");
	assert_true(charges_exact(r.core));
	while (ask(&r, "blue").charged < 30 * KIB)
		assert_int_equal(fill(&r, BLUE, "c", 30), 30);
	assert_in_range(ask(&r, "red").charged, 16 * KIB, 34 * KIB);
	end(&r);
}

static void remove_all_takes_what_is_the_tenants(void **state)
{
	struct tes_event all = {.type = TES_EVENT_REMOVE_ALL, .session = RED};
	struct tes_event none = {.type = TES_EVENT_REMOVE_ALL,
				 .session = OWNER};
	struct tes_event admin = {.type = TES_EVENT_REMOVE_ALL};
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 16 * KIB, 16 * KIB);
	fill(&r, RED, "k", 10);
	fill(&r, BLUE, "k", 10);
	assert_int_equal(rig_step(&r, &none)->u.reply.code, -1701);
	assert_int_equal(rig_try(&r, &all), 0);
	rig_pass(&r, 200, "1234");
	assert_int_equal(ask(&r, "red").objects, 0);
	assert_int_equal(ask(&r, "blue").objects, 10);
	admin.u.remove_all.tenant = "green";
	assert_int_equal(rig_step(&r, &admin)->u.reply.code, -1701);
	admin.u.remove_all.tenant = "blue";
	assert_int_equal(rig_try(&r, &admin), 0);
	rig_pass(&r, 200, "1234");
	assert_int_equal(ask(&r, "blue").objects, 0);
	end(&r);
}

static void groups_of_one_name_are_apart(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 2 * KIB, 16 * KIB);
	for (tes_session_id s = RED; s <= BLUE; s++)
		for (int i = 0; i < 2; i++) {
			const char *key = i ? "a" : "b";

			g = rig_start_as(&r, s, key, KIB - 64, NULL, "g",
					 false);
			assert_int_equal(g.status, 0);
			assert_int_equal(rig_end(&r, s, key, g.generation), 0);
		}
	/* One goes for this, and the other of its group with it. */
	assert_int_equal(rig_put(&r, RED, "x", KIB - 64).status, 0);
	assert_int_equal(ask(&r, "red").objects, 1);
	assert_int_equal(ask(&r, "blue").objects, 2);
	end(&r);
}

static void tenants_that_nobody_needs_are_forgotten(void **state)
{
	uint64_t before;
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 16 * KIB, 16 * KIB);
	before = rig_figures(&r).metadata_bytes;
	for (tes_session_id s = 10; s < 20; s++) {
		char tenant[16];

		name(tenant, "t", (int)s);
		join(&r, s, tenant);
		assert_int_equal(rig_exist(&r, s, "a"), -1701);
		rig_plain(&r, TES_EVENT_LEAVE, s);
	}
	assert_true(rig_figures(&r).metadata_bytes > before);
	rig_pass(&r, 20000, "1234");
	assert_int_equal(rig_figures(&r).metadata_bytes, before);
	end(&r);
}

static void offered_objects_are_the_tenants_that_put_them(void **state)
{
	static const char *names[] = {"blue", "green"};
	struct tes_core_key keys[] = {rig_key("a"), rig_key("a"), rig_key("a")};
	uint64_t generation[] = {5, 6, 7}, epoch[] = {3, 3, 3};
	uint64_t size[] = {100, 200, 300},
		 address[] = {0x10000, 0x10400, 0x10800};
	uint32_t tenant[] = {1, 2, 0}, crc[] = {1, 2, 3};
	struct tes_core_objects objects = {
		.n = 3,
		.n_entries = 3,
		.keys = keys,
		.generation = generation,
		.gen_epoch = epoch,
		.size = size,
		.address = address,
		.length = size,
		.crc = crc,
		.tenant = tenant,
		.tenants = names,
		.n_tenants = 2,
	};
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 16 * KIB, 16 * KIB);
	assert_int_equal(rig_unmount(&r, OWNER, 'm'), 0);
	rig_tick(&r);
	rig_mount_offering(&r, OWNER, 'n', 0x10000);
	assert_int_equal(rig_offer(&r, OWNER, 'n', &objects, true), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(r.out.at[0].u.reply.status[i], 0);
	assert_int_equal(rig_lookup(&r, BLUE, "a").size, 100);
	assert_int_equal(rig_lookup(&r, RED, "a").status, -704);
	/* Of who has no quota any more they are there, but out of reach. */
	assert_int_equal(ask(&r, "green").charged, 320);
	assert_false(ask(&r, "green").registered);
	assert_int_equal(ask(&r, "green").effective, 0);
	assert_int_equal(ask(&r, "default").objects, 1);
	assert_int_equal(tes_core_tenant_set(r.core, "green", KIB), 0);
	join(&r, 5, "green");
	assert_int_equal(rig_lookup(&r, 5, "a").size, 200);
	end(&r);
}

/* What an owner is told of commits says whose they are. */
static void owners_are_told_whose_objects_they_have(void **state)
{
	const struct tes_action *a;
	struct tes_core_config c = rig_config;
	struct rig r;

	(void)state;
	c.tenants = true;
	rig_buries = true;
	rig_init(&r, &c);
	assert_int_equal(tes_core_tenant_set(r.core, "red", 8 * KIB), 0);
	assert_int_equal(tes_core_tenant_set(r.core, "default", 8 * KIB), 0);
	join(&r, OWNER, NULL);
	join(&r, RED, "red");
	rig_buries = false;
	assert_int_equal(rig_mount(&r, OWNER, 'm', 0x10000, 64 * KIB), 0);
	assert_int_equal(rig_put(&r, RED, "a", 100).status, 0);
	a = rig_find(&r, TES_ACTION_COMMITTED);
	assert_non_null(a);
	assert_int_equal(a->u.committed.objects.n_tenants, 1);
	assert_string_equal(a->u.committed.objects.tenants[0], "red");
	assert_int_equal(a->u.committed.objects.tenant[0], 1);
	assert_int_equal(rig_put(&r, OWNER, "a", 100).status, 0);
	a = rig_find(&r, TES_ACTION_COMMITTED);
	assert_non_null(a);
	assert_int_equal(a->u.committed.objects.n_tenants, 0);
	assert_int_equal(a->u.committed.objects.tenant[0], 0);
	end(&r);
}

static void names_of_tenants_have_rules(void **state)
{
	char name[TES_CORE_TENANT_MAX + 2];

	(void)state;
	assert_true(tes_core_tenant_name_valid("a"));
	assert_true(tes_core_tenant_name_valid("team-1/llama \xc3\xa9"));
	assert_false(tes_core_tenant_name_valid(""));
	assert_false(tes_core_tenant_name_valid("_a"));
	assert_false(tes_core_tenant_name_valid("a\n"));
	assert_false(tes_core_tenant_name_valid("a\x7f"));
	memset(name, 'a', sizeof(name));
	name[TES_CORE_TENANT_MAX] = '\0';
	assert_true(tes_core_tenant_name_valid(name));
	name[TES_CORE_TENANT_MAX] = 'a';
	name[TES_CORE_TENANT_MAX + 1] = '\0';
	assert_false(tes_core_tenant_name_valid(name));
}

/* Session @s, with a tenant and a client of its own. */
static int32_t join_own(struct rig *r, tes_session_id s)
{
	struct tes_event ev = {.type = TES_EVENT_JOIN, .session = s};
	uint8_t id[TES_CORE_ID_LEN] = {0};
	char tenant[16];

	memcpy(id, &s, sizeof(s));
	snprintf(tenant, sizeof(tenant), "own-%d", (int)s);
	ev.u.join.client_id = ev.u.join.incarnation = id;
	ev.u.join.engine = "x:1";
	ev.u.join.tenant = tenant;
	return rig_step(r, &ev)->u.reply.code;
}

static void names_that_clients_make_up_keep_no_quota_out(void **state)
{
	tes_session_id s = 100;
	struct rig r;

	(void)state;
	begin(&r, 64 * KIB, 16 * KIB, 16 * KIB);
	while (s < 100 + TES_CORE_TENANTS_MAX && !join_own(&r, s))
		s++;
	assert_in_range(s, 1000, 99 + TES_CORE_TENANTS_MAX);
	assert_int_equal(tes_core_tenant_set(r.core, "green", KIB), 0);
	rig_tenant = "green";
	assert_int_equal(rig_join(&r, 9, 'g', 'g'), 0);
	rig_tenant = NULL;
	/* Who gets a quota leaves the place to another one, and back. */
	assert_int_equal(join_own(&r, s), -1);
	assert_int_equal(tes_core_tenant_set(r.core, "own-100", KIB), 0);
	assert_int_equal(join_own(&r, s), 0);
	assert_int_equal(tes_core_tenant_unset(r.core, "own-100"), 0);
	assert_int_equal(join_own(&r, s + 1), -1);
	/* So does who leaves. */
	for (tes_session_id i = 100; i <= s; i++)
		rig_plain(&r, TES_EVENT_LEAVE, i);
	rig_pass(&r, 20000, "1234");
	assert_int_equal(join_own(&r, s + 2), 0);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_another_one_for_each_tenant),
		cmocka_unit_test(who_has_no_quota_has_no_keys),
		cmocka_unit_test(while_tenants_are_off_all_have_the_same_keys),
		cmocka_unit_test(a_tenant_at_its_quota_evicts_its_own),
		cmocka_unit_test(
			beyond_its_quota_is_an_error_when_nothing_of_it_can_go),
		cmocka_unit_test(
			replicas_beyond_the_first_are_left_out_at_the_quota),
		cmocka_unit_test(
			an_upsert_at_the_quota_spares_what_it_replaces),
		cmocka_unit_test(quotas_beyond_the_pool_are_scaled_to_it),
		cmocka_unit_test(
			less_quota_than_it_has_costs_it_objects_at_the_next_put),
		cmocka_unit_test(
			room_in_the_pool_is_paid_by_who_has_most_of_its_share),
		cmocka_unit_test(remove_all_takes_what_is_the_tenants),
		cmocka_unit_test(groups_of_one_name_are_apart),
		cmocka_unit_test(tenants_that_nobody_needs_are_forgotten),
		cmocka_unit_test(offered_objects_are_the_tenants_that_put_them),
		cmocka_unit_test(owners_are_told_whose_objects_they_have),
		cmocka_unit_test(names_of_tenants_have_rules),
		cmocka_unit_test(names_that_clients_make_up_keep_no_quota_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
