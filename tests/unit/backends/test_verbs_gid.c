/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_gid.c - which GID of a port is chosen */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "backends/verbs/gid.h"
#include "tests/lib/test.h"

#define V1   IBV_GID_TYPE_ROCE_V1
#define V2   IBV_GID_TYPE_ROCE_V2
#define IB   IBV_GID_TYPE_IB
#define NET  true, false
#define NONE false, false
#define OVER true, true

struct entry {
	const char *text;
	uint32_t index, type;
	bool network, overlay;
};

static union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (strchr(text, ':'))
		assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	else
		assert_int_equal(inet_pton(AF_INET, text, gid.raw + 12), 1);
	return gid;
}

static struct verbs_gid made(const struct entry *e)
{
	struct verbs_gid gid = {.gid = gid_of(e->text),
				.index = e->index,
				.type = e->type,
				.network = e->network,
				.overlay = e->overlay};

	return gid;
}

static void kinds_of_addresses_are_told_apart(void **state)
{
	static const struct {
		const char *text;
		enum tei_scope scope;
	} rows[] = {
		{"::", TEI_SCOPE_NONE},
		{"::1", TEI_SCOPE_NONE},
		{"ff02::1", TEI_SCOPE_NONE},
		{"fe80::", TEI_SCOPE_NONE},
		{"0.0.0.0", TEI_SCOPE_NONE},
		{"127.0.0.1", TEI_SCOPE_NONE},
		{"224.0.0.1", TEI_SCOPE_NONE},
		{"255.255.255.255", TEI_SCOPE_NONE},
		{"fe80::1", TEI_SCOPE_LINK},
		{"febf::1", TEI_SCOPE_LINK},
		{"169.254.3.4", TEI_SCOPE_LINK},
		{"169.253.3.4", TEI_SCOPE_GLOBAL},
		{"10.9.0.1", TEI_SCOPE_PRIVATE},
		{"172.16.0.1", TEI_SCOPE_PRIVATE},
		{"172.31.255.1", TEI_SCOPE_PRIVATE},
		{"172.32.0.1", TEI_SCOPE_GLOBAL},
		{"192.168.1.1", TEI_SCOPE_PRIVATE},
		{"192.169.1.1", TEI_SCOPE_GLOBAL},
		{"100.64.0.1", TEI_SCOPE_PRIVATE},
		{"100.128.0.1", TEI_SCOPE_GLOBAL},
		{"fd00::1", TEI_SCOPE_PRIVATE},
		{"2001:db8::1", TEI_SCOPE_GLOBAL},
		{"198.51.100.7", TEI_SCOPE_GLOBAL},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		union ibv_gid gid = gid_of(rows[i].text);

		if (tei_scope_of(gid.raw) != rows[i].scope)
			fail_msg("%s: %d", rows[i].text, tei_scope_of(gid.raw));
	}
}

/* Each is better than the one behind it. */
static void better_addresses_rank_higher(void **state)
{
	static const struct entry order[] = {
		{"2001:db8::1", 0, V2, NET},  {"198.51.100.7", 0, V2, NONE},
		{"10.9.0.1", 0, V2, NET},     {"198.51.100.7", 0, V2, OVER},
		{"10.9.0.1", 0, V2, NONE},    {"fe80::1", 0, V2, NONE},
		{"198.51.100.7", 0, V1, NET},
	};
	unsigned int above = 100;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(order); i++) {
		struct verbs_gid gid = made(&order[i]);
		unsigned int rank = tei_verbs_gid_rank(&gid);

		if (rank >= above)
			fail_msg("%s in row %zu: %u is not below %u",
				 order[i].text, i, rank, above);
		above = rank;
	}
	assert_int_equal(above, 0); /* RoCE version 1 is not used */
}

static void overlay_is_no_better_than_link_local(void **state)
{
	const struct entry over = {"10.0.0.1", 0, V2, OVER};
	const struct entry link = {"fe80::1", 0, V2, NET};
	struct verbs_gid a = made(&over), b = made(&link);

	(void)state;
	assert_int_equal(tei_verbs_gid_rank(&a), tei_verbs_gid_rank(&b));
}

struct table {
	const char *name;
	int wanted, place; /* wanted index, expected place or error */
	size_t n;
	struct entry rows[5];
};

static void table_decides(void **state)
{
	static const struct table tables[] = {
		{"a RoCE port with one address",
		 -1,
		 3,
		 4,
		 {{"fe80::1", 0, V1, NET},
		  {"fe80::1", 1, V2, NET},
		  {"10.9.0.1", 2, V1, NET},
		  {"10.9.0.1", 3, V2, NET}}},
		{"an InfiniBand port",
		 -1,
		 0,
		 1,
		 {{"fe80::2:c903:1", 0, IB, NONE}}},
		{"equal ones: the lowest index, wherever it stands",
		 -1,
		 1,
		 3,
		 {{"10.9.0.3", 7, V2, NET},
		  {"10.9.0.1", 3, V2, NET},
		  {"10.9.0.2", 5, V2, NET}}},
		{"in a container, where the interface is out of sight",
		 -1,
		 1,
		 2,
		 {{"fe80::1", 0, V2, NONE}, {"10.9.0.1", 1, V2, NONE}}},
		{"nothing but version 1",
		 -1,
		 -ENOENT,
		 2,
		 {{"fe80::1", 0, V1, NET}, {"10.9.0.1", 1, V1, NET}}},
		{"an empty table", -1, -ENOENT, 0, {{0}}},
		{"a wanted one, though it ranks below",
		 0,
		 0,
		 2,
		 {{"fe80::1", 0, V2, NET}, {"10.9.0.1", 1, V2, NET}}},
		{"a wanted one of version 1",
		 2,
		 1,
		 2,
		 {{"10.9.0.1", 3, V2, NET}, {"10.9.0.1", 2, V1, NET}}},
		{"a wanted one that is not there",
		 9,
		 -ENOENT,
		 1,
		 {{"10.9.0.1", 3, V2, NET}}},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(tables); i++) {
		const struct table *t = &tables[i];
		struct verbs_gid gids[5];
		int place;

		for (size_t k = 0; k < t->n; k++)
			gids[k] = made(&t->rows[k]);
		place = tei_verbs_gid_choose(gids, t->n, t->wanted);
		if (place != t->place)
			fail_msg("%s: %d", t->name, place);
	}
}

static void gids_are_shown_as_addresses(void **state)
{
	char text[VERBS_GID_TEXT_LEN];
	union ibv_gid v4 = gid_of("10.9.0.1"), v6 = gid_of("fe80::1");

	(void)state;
	tei_verbs_gid_text(&v4, text);
	assert_string_equal(text, "10.9.0.1");
	tei_verbs_gid_text(&v6, text);
	assert_string_equal(text, "fe80::1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_of_addresses_are_told_apart),
		cmocka_unit_test(better_addresses_rank_higher),
		cmocka_unit_test(overlay_is_no_better_than_link_local),
		cmocka_unit_test(table_decides),
		cmocka_unit_test(gids_are_shown_as_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
