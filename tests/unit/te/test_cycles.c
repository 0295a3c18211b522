/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cycles.c - connections of verbs that come and go leave nothing
 *
 * On the devices of this host, or of the fake provider where there are none.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/verbs/verbs.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/lib/process.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define CYCLES TEST_TIMES(1000)
#define LEN    ((size_t)1 << 16)

extern const struct tei_backend_ops tei_backend_verbs;

static bool is_fake;

/* What this process has of the kernel, and the host of its devices. */
struct left {
	unsigned int n_fds;
	char resources[1024];
};

static void look(struct left *out)
{
	static const char *const args[] = {"resource", "show", NULL};
	DIR *dir = opendir("/proc/self/fd");
	char *text;

	*out = (struct left){0};
	if (!is_fake) {
		text = test_process_run("/usr/bin/rdma", args, 0, RIG_WAIT_MS);
		(void)snprintf(out->resources, sizeof(out->resources), "%s",
			       text);
		free(text);
	}
	assert_non_null(dir);
	while (readdir(dir))
		out->n_fds++;
	closedir(dir);
}

static bool is_as_before(void *arg)
{
	const struct left *before = arg;
	struct left now;

	look(&now);
	return now.n_fds == before->n_fds &&
	       !strcmp(now.resources, before->resources);
}

static void nothing_is_left(struct left *before)
{
	struct left now;

	if (test_wait_until(is_as_before, before, RIG_WAIT_MS))
		return;
	look(&now);
	fail_msg("%u descriptors, %s, not %u, %s", now.n_fds, now.resources,
		 before->n_fds, before->resources);
}

struct both {
	struct te_engine *user, *owner;
	te_segment_id segment;
	uint8_t from[LEN], to[LEN];
	uint8_t incarnation[TE_INCARNATION_LEN]; /* of user */
	uint64_t n_ended;                        /* epochs */
};

static bool has_new_epoch(void *arg)
{
	const struct both *b = arg;
	uint64_t epoch = 0, since;

	assert_int_equal(te_segment_epoch(b->user, b->segment, &epoch, &since),
			 0);
	return epoch > b->n_ended;
}

/* Memory is registered, a connection made, used and ended. */
static void cycle(struct both *b, unsigned int i)
{
	te_region_id near = rig_region(b->user, b->from, LEN, 0);
	struct iovec piece = {b->from, 1 + i % LEN};
	struct te_request request =
		rig_request(b->segment, TE_WRITE, b->to, &piece);

	memset(b->from, (int)(i % 255 + 1), LEN);
	assert_int_equal(rig_run(b->user, &request).error, 0);
	assert_memory_equal(b->from, b->to, piece.iov_len);
	assert_int_equal(te_region_remove(b->user, near), 0);
	assert_int_equal(te_peer_revoke(b->owner, b->incarnation, RIG_WAIT_MS),
			 0);
	b->n_ended++;
	assert_true(test_wait_until(has_new_epoch, b, RIG_WAIT_MS));
}

static void connections_that_come_and_go_leave_nothing(void **state)
{
	static const char *const verbs[] = {"backends", "verbs", NULL};
	struct both *b = calloc(1, sizeof(*b));
	struct left at_first, connected;

	(void)state;
	assert_non_null(b);
	te_engine_destroy(rig_engine(verbs)); /* what libraries keep */
	look(&at_first);
	b->owner = rig_engine(verbs);
	b->user = rig_engine(verbs);
	te_engine_incarnation(b->user, b->incarnation);
	rig_region(b->owner, b->to, LEN, RIG_ANY);
	b->segment = rig_segment(b->user, b->owner);
	cycle(b, 0);
	look(&connected);
	for (unsigned int i = 1; i <= CYCLES; i++)
		cycle(b, i);
	nothing_is_left(&connected);
	te_engine_destroy(b->user);
	te_engine_destroy(b->owner);
	nothing_is_left(&at_first);
	free(b);
}

static int count(const struct tei_device *device, void *arg)
{
	(void)device;
	*(bool *)arg = false;
	return 1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_that_come_and_go_leave_nothing),
	};
	struct verbs_config config = {
		.lanes = 1, .depth = 16, .mtu = VERBS_MTU_MAX, .pieces = 1};
	const struct tei_search search = {
		.config = &config, .found = count, .arg = &is_fake};
	int failed;

	is_fake = true;
	(void)tei_backend_verbs.probe(&search);
	puts(is_fake ? "on fake devices" : "on devices of this host");
	if (is_fake) {
		fake_verbs_start(1);
		tei_verbs_use(&fake_verbs);
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (is_fake)
		fake_verbs_stop(); /* asserts that nothing is left */
	return failed;
}
