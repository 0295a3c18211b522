/* SPDX-License-Identifier: Apache-2.0 */
/* ofi_rig.c - two rails of ofi on the fake libfabric, joined */
#include "tests/unit/backends/ofi_rig.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define NEAR_ID 1
#define FAR_ID  2

struct ofi_rig rig;

/* ---- shapes ---- */

static int count_one(const struct tei_device *device, void *arg)
{
	(void)device;
	++*(unsigned int *)arg;
	return 0;
}

void ofi_rig_stop(void)
{
	tei_ofi_use(NULL);
	fake_ofi_stop();
}

/* The backend finds no domain of a provider that it does not drive. */
static bool is_driven(void)
{
	struct ofi_config config = ofi_rig_config();
	unsigned int n = 0;
	const struct tei_search search = {
		.config = &config, .found = count_one, .arg = &n};
	int rc;

	ofi_rig_start();
	rc = tei_backend_ofi.probe(&search);
	ofi_rig_stop();
	return !rc && n;
}

int ofi_rig_run(const char *name, const struct CMUnitTest *tests, size_t n)
{
	char group[64];
	int failed = 0;

	for (int i = 0; i < FAKE_OFI_SHAPES; i++) {
		rig.shape = (enum fake_ofi_shape)i;
		rig.connected = i == FAKE_OFI_TCP || i == FAKE_OFI_VERBS;
		if (!is_driven())
			continue;
		(void)snprintf(group, sizeof(group), "%s of %s", name,
			       fake_ofi_provider(rig.shape));
		failed += _cmocka_run_group_tests(group, tests, n, NULL, NULL);
	}
	return failed;
}

/* ---- opened ---- */

const char *const *ofi_rig_settings(const char *const more[])
{
	static const char *settings[9];
	static char provider[32];
	size_t n = 0;

	(void)snprintf(provider, sizeof(provider), "ofi.provider=%s",
		       fake_ofi_provider(rig.shape));
	settings[n++] = provider;
	for (; more && *more; more++) {
		assert(n + 1 < TEST_COUNT(settings));
		settings[n++] = *more;
	}
	settings[n] = NULL;
	return settings;
}

struct ofi_config ofi_rig_config(void)
{
	static char provider[16];

	(void)snprintf(provider, sizeof(provider), "%s",
		       fake_ofi_provider(rig.shape));
	return (struct ofi_config){
		.provider = provider, .depth = 128, .completions = 32768};
}

void ofi_rig_start(void)
{
	(void)setenv("FI_CXI_MR_MATCH_EVENTS", "1", 1);
	fake_ofi_start(rig.shape, 2);
	tei_ofi_use(&fake_ofi);
}

static int add_regions(void)
{
	const struct tei_backend_ops *ops = &tei_backend_ofi;
	uint8_t unused[FAKE_KEY_MAX];
	size_t len = sizeof(unused);
	int rc;

	rc = ops->region_add(rig.pair.a.rail, NEAR_ID, rig.near, RIG_LEN, 0,
			     unused, &len);
	if (rc)
		return rc;
	rig.key_len = sizeof(rig.key);
	rc = ops->region_add(rig.pair.b.rail, FAR_ID, rig.far, RIG_LEN, RIG_RW,
			     rig.key, &rig.key_len);
	if (rc)
		ops->region_remove(rig.pair.a.rail, NEAR_ID);
	return rc;
}

/* Software providers fence by closing what peers reach them by. */
static void remove_region(struct tei_rail *rail, uint64_t id)
{
	while (tei_backend_ofi.region_hide(rail, id))
		(void)fake_turn(rail);
	tei_backend_ofi.region_remove(rail, id);
}

/*
 * By connections the target hears later than the initiator that they are
 * joined, or never.
 */
static int await_target(void)
{
	const struct fake_link *link = &rig.pair.target_link;
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	if (!rig.connected)
		return 0;
	while (!link->n_up && !link->n_down && tei_now_ms() < end)
		fake_progress(&rig.pair);
	return link->n_up ? 0 : link->n_down ? link->down_err : -ETIMEDOUT;
}

static void remove_regions(void)
{
	remove_region(rig.pair.a.rail, NEAR_ID);
	remove_region(rig.pair.b.rail, FAR_ID);
}

int ofi_rig_open(const char *const more[])
{
	const char *const *settings = ofi_rig_settings(more);
	char name[48];
	int rc;

	rig.pair = (struct fake_pair){.ops = &tei_backend_ofi};
	(void)snprintf(name, sizeof(name), "%s",
		       fake_ofi_info(0)->domain_attr->name);
	fake_device = name;
	rc = fake_rail_open(&rig.pair.a, &tei_backend_ofi, settings);
	if (rc)
		return rc;
	(void)snprintf(name, sizeof(name), "%s",
		       fake_ofi_info(1)->domain_attr->name);
	rc = fake_rail_open(&rig.pair.b, &tei_backend_ofi, settings);
	fake_device = "";
	if (rc)
		goto close_a;
	rc = add_regions();
	if (rc)
		goto close_b;
	rc = fake_pair_connect(&rig.pair);
	if (rc)
		goto remove_regions;
	rc = await_target();
	if (!rc)
		return 0;

	fake_pair_disconnect(&rig.pair);
remove_regions:
	remove_regions();
close_b:
	fake_rail_close(&rig.pair.b);
close_a:
	fake_rail_close(&rig.pair.a);
	assert(rc < 0);
	return rc;
}

void ofi_rig_close(void)
{
	fake_ofi_fail(FAKE_OFI_ANY, 0, 0);
	fake_ofi_spoil(0, 0);
	fake_ofi_set_chances(NULL);
	fake_pair_disconnect(&rig.pair);
	remove_regions();
	fake_rail_close(&rig.pair.b);
	fake_rail_close(&rig.pair.a);
}

int ofi_rig_set_up(void **state)
{
	(void)state;
	memset(rig.near, 0, RIG_LEN);
	memset(rig.far, 0, RIG_LEN);
	ofi_rig_start();
	return ofi_rig_open(NULL);
}

int ofi_rig_tear_down(void **state)
{
	(void)state;
	ofi_rig_close();
	assert_int_equal(fake_ofi_counts().waited,
			 0); /* nobody else is driven */
	ofi_rig_stop();
	return 0;
}

void ofi_rig_reopen(const char *const more[])
{
	ofi_rig_close();
	assert_int_equal(ofi_rig_open(more), 0);
}

void ofi_rig_flush(int err)
{
	if (!tei_backend_ofi.flush(rig.pair.initiator, err))
		return;
	fake_ofi_lose(1, 10);
	fake_ofi_hang(0, false);
	ofi_rig_wait(&rig.pair.initiator_link.n_flushed, 1);
	fake_ofi_silence(1, false);
}

void ofi_rig_rejoin(void)
{
	fake_pair_disconnect(&rig.pair);
	assert_int_equal(fake_pair_connect(&rig.pair), 0);
	assert_int_equal(await_target(), 0);
}

/* ---- slices ---- */

struct fake_slice *ofi_rig_pieces(uint32_t op, size_t at,
				  const struct iovec *iov, uint32_t n)
{
	struct fake_slice *s = fake_slice_create(
		&rig.pair, op, 0, (uintptr_t)(rig.far + at), iov, n);

	memcpy(s->key, rig.key, rig.key_len);
	s->slice->key_len = (uint32_t)rig.key_len;
	return s;
}

struct fake_slice *ofi_rig_slice(uint32_t op, size_t at, size_t length)
{
	struct fake_slice *s = ofi_rig_pieces(op, at, NULL, 0);

	s->piece = (struct iovec){rig.near + at, length};
	s->slice->iov = &s->piece;
	s->slice->n_iov = 1;
	s->slice->length = length;
	return s;
}

void ofi_rig_carry(struct fake_slice *s)
{
	assert_int_equal(fake_post(&rig.pair, s), 0);
	assert_int_equal(s->n_done, 0);
	ofi_rig_wait(&s->n_done, 1);
}

void ofi_rig_post(struct fake_slice **s, size_t n, uint32_t op, size_t length)
{
	struct tei_slice *slices[OFI_QUEUE_MAX];

	assert_true(n <= OFI_QUEUE_MAX);
	for (size_t i = 0; i < n; i++) {
		s[i] = ofi_rig_slice(op, i * length, length);
		slices[i] = s[i]->slice;
	}
	assert_int_equal(
		tei_backend_ofi.post(rig.pair.initiator, slices, (int)n), n);
}

void ofi_rig_wait(const unsigned int *n, unsigned int want)
{
	assert_true(fake_wait(&rig.pair, n, want));
	assert_int_equal(*n, want);
}

void ofi_rig_wait_down(void)
{
	ofi_rig_wait(&rig.pair.initiator_link.n_down, 1);
}

static bool are_done(struct fake_slice *const *s, size_t n)
{
	while (n && s[n - 1]->n_done)
		n--;
	return !n;
}

bool ofi_rig_settle(struct fake_slice *const *s, size_t n)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (!are_done(s, n) && !rig.pair.initiator_link.n_down) {
		fake_progress(&rig.pair);
		assert_true(tei_now_ms() < end);
	}
	if (!rig.pair.initiator_link.n_down)
		return false;
	ofi_rig_rejoin();
	return true;
}

unsigned int ofi_rig_count_good(struct fake_slice **s, size_t n)
{
	unsigned int good = 0;

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(s[i]->n_done, 1);
		good += !s[i]->err;
		fake_slice_destroy(s[i]);
	}
	return good;
}
