/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_rig.c - two rails of verbs on the fake provider, joined */
#include "tests/unit/backends/verbs_rig.h"

#include <assert.h>
#include <string.h>

#include "base/chance.h"
#include "tests/lib/test.h"

#define NEAR_ID 1
#define FAR_ID  2

struct verbs_rig rig;

static int add_regions(uint32_t far_access)
{
	const struct tei_backend_ops *ops = &tei_backend_verbs;
	uint8_t unused[TEI_BLOB_MAX];
	size_t len = sizeof(unused);
	int rc;

	rc = ops->region_add(rig.pair.a.rail, NEAR_ID, rig.near, RIG_LEN, 0,
			     unused, &len);
	if (rc)
		return rc;
	rig.key_len = sizeof(rig.key);
	return ops->region_add(rig.pair.b.rail, FAR_ID, rig.far, RIG_LEN,
			       far_access, rig.key, &rig.key_len);
}

/* The initiator may be up before; what is posted then waits a while. */
static void await_target(void)
{
	verbs_rig_wait(&rig.pair.target_link.n_up, 1);
}

int verbs_rig_open_on(const struct verbs_provider *api, const char *port,
		      const char *const settings[], uint32_t far_access)
{
	int rc;

	memset(&rig, 0, sizeof(rig));
	rig.fake = api == &fake_verbs;
	fake_device = port;
	tei_verbs_use(api);
	rc = fake_pair_open(&rig.pair, &tei_backend_verbs, settings);
	if (rc)
		return rc;
	await_target();
	return add_regions(far_access);
}

int verbs_rig_open_two(const char *near_port, const char *const near_settings[],
		       const char *far_port, const char *const far_settings[])
{
	int rc;

	memset(&rig, 0, sizeof(rig));
	rig.fake = true;
	rig.pair.ops = &tei_backend_verbs;
	tei_verbs_use(&fake_verbs);
	fake_device = near_port;
	rc = fake_rail_open(&rig.pair.a, &tei_backend_verbs, near_settings);
	if (rc)
		return rc;
	fake_device = far_port;
	rc = fake_rail_open(&rig.pair.b, &tei_backend_verbs, far_settings);
	if (rc)
		return rc;
	rc = fake_pair_connect(&rig.pair);
	if (rc)
		return rc;
	await_target();
	return add_regions(RIG_RW);
}

int verbs_rig_open(const char *const settings[], uint32_t far_access)
{
	fake_verbs_start(1);
	return verbs_rig_open_on(&fake_verbs, "fake0/1", settings, far_access);
}

static void remove_region(struct tei_rail *rail, uint64_t id)
{
	assert(!tei_backend_verbs.region_hide(rail, id));
	tei_backend_verbs.region_remove(rail, id);
}

void verbs_rig_close(void)
{
	if (rig.fake)
		fake_verbs_fail(0, 0);
	fake_pair_disconnect(&rig.pair);
	remove_region(rig.pair.a.rail, NEAR_ID);
	remove_region(rig.pair.b.rail, FAR_ID);
	fake_rail_close(&rig.pair.b);
	fake_rail_close(&rig.pair.a);
	if (rig.fake)
		fake_verbs_stop();
}

struct fake_slice *verbs_rig_pieces(uint32_t op, size_t at,
				    const struct iovec *iov, uint32_t n)
{
	struct fake_slice *s = fake_slice_create(
		&rig.pair, op, 0, (uintptr_t)(rig.far + at), iov, n);

	memcpy(s->key, rig.key, rig.key_len);
	s->slice->key_len = (uint32_t)rig.key_len;
	return s;
}

struct fake_slice *verbs_rig_slice(uint32_t op, size_t at, size_t length)
{
	struct fake_slice *s = verbs_rig_pieces(op, at, NULL, 0);

	s->piece = (struct iovec){rig.near + at, length};
	s->slice->iov = &s->piece;
	s->slice->n_iov = 1;
	s->slice->length = length;
	return s;
}

int verbs_rig_set_up(void **state)
{
	(void)state;
	return verbs_rig_open(NULL, RIG_RW);
}

int verbs_rig_tear_down(void **state)
{
	(void)state;
	verbs_rig_close();
	return 0;
}

void verbs_rig_reopen(const char *const settings[])
{
	verbs_rig_close();
	assert_int_equal(verbs_rig_open(settings, RIG_RW), 0);
}

void verbs_rig_fill(uint8_t *at, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)tei_chance(&seed);
}

void verbs_rig_carry(struct fake_slice *s)
{
	assert_int_equal(fake_post(&rig.pair, s), 0);
	assert_int_equal(s->n_done, 0);
	verbs_rig_wait(&s->n_done, 1);
}

void verbs_rig_post(struct fake_slice **s, size_t n, uint32_t op, size_t length)
{
	struct tei_slice *slices[VERBS_QUEUE_MAX];

	assert_true(n <= VERBS_QUEUE_MAX);
	for (size_t i = 0; i < n; i++) {
		s[i] = verbs_rig_slice(op, i * length, length);
		slices[i] = s[i]->slice;
	}
	assert_int_equal(
		tei_backend_verbs.post(rig.pair.initiator, slices, (int)n), n);
}

void verbs_rig_await(struct fake_slice **s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		verbs_rig_wait(&s[i]->n_done, 1);
		assert_int_equal(s[i]->err, 0);
		fake_slice_destroy(s[i]);
	}
}

void verbs_rig_rejoin(void)
{
	fake_pair_disconnect(&rig.pair);
	assert_int_equal(fake_pair_connect(&rig.pair), 0);
	await_target();
}

void verbs_rig_wait(const unsigned int *n, unsigned int want)
{
	assert_true(fake_wait(&rig.pair, n, want));
	assert_int_equal(*n, want);
}
