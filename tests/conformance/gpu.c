/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.c - what a GPU's memory adds: ways that there are not, memory that goes
 *
 * All other tests run with it, too, where the backend reaches it by itself.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/conformance/rig.h"

#define LEN ((size_t)1 << 20)

/* ---- the way to peers' memory ---- */

static struct {
	const char *backend;
	int rc;            /* of adding a region by it alone */
	atomic_bool words; /* a line has told why not */
} alone;

static void watch_refusal(int level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	if (strstr(line, "no backend that is open reaches it"))
		atomic_store(&alone.words, true);
}

bool rig_find_way(void)
{
	static char detour[64];
	struct te_engine *owner = rig_engine("127.0.0.1");
	uint8_t *memory = rig_memory(owner, LEN);
	struct te_region region = {
		.addr = memory, .length = LEN, .access = RIG_ANY};
	te_region_id id;

	alone.backend = rig_backend;
	te_log_set(watch_refusal, NULL);
	alone.rc = te_region_add(owner, &region, &id);
	te_log_set(NULL, NULL);
	te_engine_destroy(owner);
	rig_memory_free(NULL, memory);
	if (alone.rc != -EOPNOTSUPP)
		return true;
	(void)snprintf(detour, sizeof(detour), "%s,tcp", rig_backend);
	rig_backend = detour;
	return false;
}

static void region_is_reached_or_refused_with_words(void **state)
{
	(void)state;
	if (!rig_remote_gpu)
		skip();
	if (!alone.rc)
		return; /* the other tests go by it */
	assert_int_equal(alone.rc, -EOPNOTSUPP);
	assert_true(atomic_load(&alone.words));
	assert_string_not_equal(rig_backend, alone.backend);
}

/* ---- memory that is not there ---- */

/* Memory of a GPU for the rig's own region; *@access: as that has it. */
static uint8_t *some_memory(const struct rig *r, uint32_t *access)
{
	*access = rig_remote_gpu ? RIG_ANY : TE_ACCESS_LOCAL;
	return rig_remote_gpu ? rig_memory(r->owner, RIG_LEN) : rig_local();
}

static void free_memory(uint8_t *memory)
{
	if (rig_remote_gpu)
		rig_memory_free(NULL, memory);
	else
		rig_local_free(memory);
}

static void region_ends_where_its_memory_does(void **state)
{
	struct te_region region = {.length = RIG_LEN};
	te_region_id id;
	uint8_t *memory;
	struct rig r;

	(void)state;
	rig_open(&r);
	memory = some_memory(&r, &region.access);
	region.addr = memory + 1;
	assert_int_equal(te_region_add(r.owner, &region, &id), -EFAULT);
	region.addr = memory;
	assert_int_equal(te_region_add(r.owner, &region, &id), 0);
	assert_int_equal(te_region_remove(r.owner, id), 0);
	free_memory(memory);
	assert_int_equal(te_region_add(r.owner, &region, &id), -EFAULT);
	rig_close(&r);
}

/* Both ways, and what there is beside it is as good as ever. */
static void moves_fail(const struct rig *r, void *remote, void *local)
{
	assert_int_equal(rig_move(r, TE_WRITE, remote, local, LEN), -EIO);
	assert_int_equal(rig_move(r, TE_READ, remote, local, LEN), -EIO);
	rig_fill(r->here, LEN, 5);
	assert_int_equal(rig_move(r, TE_WRITE, r->memory, r->local, LEN), 0);
	rig_check(r->there, LEN, 5);
}

static void memory_that_its_user_frees_fails_its_requests(void **state)
{
	uint8_t *local;
	struct rig r;

	(void)state;
	if (!rig_local_gpu || rig_nic)
		skip(); /* a NIC keeps what it has registered */
	rig_open(&r);
	local = rig_local();
	rig_local_add(r.user, local);
	assert_int_equal(rig_move(&r, TE_WRITE, r.memory, local, LEN), 0);
	rig_local_free(local);
	moves_fail(&r, r.memory, local);
	rig_close(&r);
}

static void memory_that_its_owner_frees_fails_its_requests(void **state)
{
	uint8_t *memory;
	struct rig r;

	(void)state;
	if (!rig_remote_gpu || rig_nic || !strcmp(rig_backend, "shm"))
		skip(); /* who has it registered or mapped keeps it */
	rig_open(&r);
	memory = rig_memory(r.owner, LEN);
	rig_region(r.owner, memory, LEN, RIG_ANY, NULL);
	assert_int_equal(rig_move(&r, TE_WRITE, memory, r.local, LEN), 0);
	rig_memory_free(NULL, memory);
	moves_fail(&r, memory, r.local);
	rig_close(&r);
}

/* ---- messages ---- */

static int send(const struct rig *r, void *message, size_t len)
{
	struct iovec piece = {message, len};
	struct te_request request = rig_request(r, TE_NOTIFY, NULL, &piece);

	return rig_run(r->user, &request).error;
}

/* Its bytes are a processor's to copy. The next one is the first to arrive. */
static void message_is_of_the_hosts_memory(void **state)
{
	uint8_t text[] = "of the host";
	struct te_notify message;
	struct rig r;

	(void)state;
	if (!rig_local_gpu)
		skip();
	rig_open(&r);
	assert_int_equal(send(&r, r.local + 5, 8), -EFAULT);
	assert_int_equal(send(&r, text, sizeof(text)), 0);
	assert_int_equal(te_notify_take(r.owner, &message), 0);
	assert_int_equal(message.length, sizeof(text));
	assert_memory_equal(message.bytes, text, sizeof(text));
	te_notify_free(&message);
	rig_close(&r);
}

const struct CMUnitTest rig_gpu_tests[] = {
	cmocka_unit_test(region_is_reached_or_refused_with_words),
	cmocka_unit_test(region_ends_where_its_memory_does),
	cmocka_unit_test(memory_that_its_user_frees_fails_its_requests),
	cmocka_unit_test(memory_that_its_owner_frees_fails_its_requests),
	cmocka_unit_test(message_is_of_the_hosts_memory),
};
const size_t rig_n_gpu_tests = TEST_COUNT(rig_gpu_tests);
