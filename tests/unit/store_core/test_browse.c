/* SPDX-License-Identifier: Apache-2.0 */
/* test_browse.c - which keys there are, where, and away with all */
#include "tests/unit/store_core/rig.h"

#define N_KEYS 300

struct seen {
	unsigned int n[N_KEYS], all;
};

static struct rig rig;

static int start(void **state)
{
	(void)state;
	rig_init(&rig, NULL);
	rig_pair(&rig);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	rig_fini(&rig);
	return 0;
}

static const char *name(unsigned int i)
{
	static char text[16];

	snprintf(text, sizeof(text), "k%03u", i);
	return text;
}

static void put_all(void)
{
	for (unsigned int i = 0; i < N_KEYS; i++)
		assert_int_equal(rig_put(&rig, 2, name(i), 10).status, 0);
}

static void note(const struct tes_core_key *key, void *arg)
{
	struct seen *seen = arg;
	char text[16] = "";

	assert_true(key->len < sizeof(text));
	memcpy(text, key->bytes, key->len);
	seen->all++;
	if (*text == 'k')
		seen->n[strtoul(text + 1, NULL, 10)]++;
}

static void every_key_is_shown_once_in_pieces(void **state)
{
	struct seen seen = {.all = 0};
	size_t cursor = 0;
	unsigned int before, pieces = 0;
	bool more;

	(void)state;
	put_all();
	do {
		before = seen.all;
		more = tes_core_keys(rig.core, NULL, &cursor, 4, note, &seen);
		assert_true(seen.all - before < N_KEYS / 2);
		/* Others come meanwhile. */
		rig_put(&rig, 2, (const char[]){'x', (char)('a' + pieces), 0},
			10);
		pieces++;
	} while (more && pieces < 20);
	while (more)
		more = tes_core_keys(rig.core, NULL, &cursor, 4, note, &seen);
	assert_true(pieces > 3);
	for (unsigned int i = 0; i < N_KEYS; i++)
		assert_int_equal(seen.n[i], 1);
}

static void only_what_is_readable_is_shown(void **state)
{
	struct seen seen = {.all = 0};
	size_t cursor = 0;

	(void)state;
	assert_int_equal(rig_start(&rig, 2, "k001", 10).status, 0);
	assert_int_equal(rig_put(&rig, 2, "k002", 10).status, 0);
	while (tes_core_keys(rig.core, NULL, &cursor, 1, note, &seen))
		;
	assert_int_equal(seen.all, 1);
	assert_int_equal(seen.n[2], 1);
	rig_plain(&rig, TES_EVENT_LEAVE, 1); /* the owner is suspect */
	cursor = 0;
	while (tes_core_keys(rig.core, NULL, &cursor, 1000, note, &seen))
		;
	assert_int_equal(seen.all, 1);
}

static int32_t query(const char *key, struct tes_core_place *place, size_t *n,
		     uint64_t *size)
{
	const struct tes_core_key k = rig_key(key);

	return tes_core_key_query(rig.core, NULL, &k, place, 1, n, size);
}

static void a_query_tells_where_and_grants_nothing(void **state)
{
	struct grant g = rig_put(&rig, 2, "there", 100);
	struct tes_core_place place;
	uint64_t size;
	size_t n;

	(void)state;
	assert_int_equal(query("there", &place, &n, &size), 0);
	assert_int_equal(n, 1);
	assert_int_equal(size, 100);
	assert_int_equal(place.length, 100);
	assert_int_equal(place.address, g.address + TES_CORE_HEADER_LEN);
	assert_int_equal(place.replica, 0);
	assert_true(strlen(place.engine) > 0);
	assert_int_equal(query("nowhere", &place, &n, &size), -704);
	assert_int_equal(query("", &place, &n, &size), -600);
	assert_int_equal(rig_start(&rig, 2, "half", 100).status, 0);
	assert_int_equal(query("half", &place, &n, &size), -703);
	/* No lease: it may be removed at once. */
	assert_int_equal(rig_remove(&rig, 2, "there", false), 0);
}

/* As the shell does it: no session, and ticks until the reply has come. */
static uint64_t remove_all(bool force, unsigned int *steps)
{
	struct tes_event ev = {.type = TES_EVENT_REMOVE_ALL};
	struct tes_event tick = {.type = TES_EVENT_TICK};
	const struct tes_action *a;

	ev.u.remove_all.force = force;
	assert_int_equal(rig_try(&rig, &ev), 0);
	*steps = 0;
	while (!(a = rig_find(&rig, TES_ACTION_REPLY))) {
		assert_int_equal(rig_try(&rig, &tick), 0);
		(*steps)++;
		assert_true(*steps < 1000);
	}
	assert_int_equal(a->session, 0);
	assert_int_equal(a->u.reply.code, 0);
	return a->u.reply.removed;
}

static void the_shell_removes_all_but_what_leases_keep(void **state)
{
	unsigned int steps;

	(void)state;
	put_all();
	assert_int_equal(rig_lookup(&rig, 2, "k007").status, 0);
	assert_int_equal(rig_exist(&rig, 2, "k008"), 1);
	assert_int_equal(rig_start(&rig, 2, "building", 10).status, 0);
	assert_int_equal(remove_all(false, &steps), N_KEYS - 2);
	assert_int_equal(rig_figures(&rig).objects, 2);
	assert_int_equal(remove_all(true, &steps), 2);
	assert_int_equal(rig_figures(&rig).objects, 0);
	assert_int_equal(rig_figures(&rig).building, 1);
	assert_int_equal(remove_all(true, &steps), 0);
}

#define T(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_key_is_shown_once_in_pieces),
		T(only_what_is_readable_is_shown),
		T(a_query_tells_where_and_grants_nothing),
		T(the_shell_removes_all_but_what_leases_keep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
