/* SPDX-License-Identifier: Apache-2.0 */
/* test_ofi_hostile.c - peers and providers that say what is not so */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/chance.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/unit/backends/ofi_rig.h"

#define NEAR_AGAIN 3
#define LENGTH     4096
#define KEY_AT     OFI_KEY_LEN /* of the first chunk's, in the blob */

static void be_quiet(int level, const char *text, void *arg)
{
	(void)level;
	(void)text;
	(void)arg;
}

static int set_up(void **state)
{
	tei_log_set_sink(be_quiet, NULL);
	return ofi_rig_set_up(state);
}

static int tear_down(void **state)
{
	int rc = ofi_rig_tear_down(state);

	tei_log_set_sink(NULL, NULL);
	return rc;
}

static void assert_untouched(void)
{
	for (size_t i = 0; i < RIG_LEN; i++)
		assert_int_equal(rig.far[i], 0);
}

/* It is refused, sooner or later, and the pair is as new. */
static void is_refused(struct fake_slice *s)
{
	assert_int_equal(fake_post(&rig.pair, s), 0);
	(void)ofi_rig_settle(&s, 1);
	assert_int_equal(s->n_done, 1);
	assert_true(s->err < 0);
}

static void goes_well(void)
{
	struct fake_slice *s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);

	ofi_rig_carry(s);
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
	memset(rig.far, 0, LENGTH);
}

/* ---- keys ---- */

static void forged_key_changes_nothing(void **state)
{
	uint64_t chance = 9;

	(void)state;
	memset(rig.near, 7, LENGTH);
	for (int i = 0; i < 50; i++) {
		struct fake_slice *s =
			ofi_rig_slice(i % 2 ? TEI_READ : TEI_WRITE, 0, LENGTH);
		uint64_t key = tei_chance(&chance);

		memcpy(s->key + KEY_AT, &key, sizeof(key));
		is_refused(s);
		fake_slice_destroy(s);
		assert_int_equal(rig.near[0], 7);
	}
	assert_untouched();
	goes_well();
}

/* Who knows a region and an endpoint that is another's has no key there. */
static void key_without_its_token_changes_nothing(void **state)
{
	struct fake_slice *s;

	(void)state;
	if (rig.shape != FAKE_OFI_CXI)
		skip();
	for (size_t i = 0; i < OFI_TOKEN_LEN; i++) {
		ofi_endpoint(rig.pair.initiator)->token[i] ^= 1;
		s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);
		is_refused(s);
		fake_slice_destroy(s);
		assert_untouched();
	}
	goes_well();
}

/* Else the core would pause the way, and try the request again for ever. */
static void refused_key_is_the_fault_of_its_slice(void **state)
{
	uint64_t chance = 10;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fake_slice *s =
			ofi_rig_slice(i ? TEI_READ : TEI_WRITE, 0, LENGTH);
		uint64_t key = tei_chance(&chance);

		memcpy(s->key + KEY_AT, &key, sizeof(key));
		assert_int_equal(fake_post(&rig.pair, s), 0);
		ofi_rig_wait_down();
		assert_int_equal(rig.pair.initiator_link.down_err, -ESTALE);
		fake_flush(rig.pair.initiator, -ECONNRESET);
		assert_int_equal(s->n_done, 1);
		assert_int_equal(s->err, -EACCES);
		fake_slice_destroy(s);
		ofi_rig_rejoin();
	}
	assert_untouched();
}

/* Good ones that are done before it on each connection do not excuse it. */
static void refused_key_is_found_among_good_ones(void **state)
{
	bool found = false;

	(void)state;
	for (int round = 0; round < 3 && !found; round++) {
		struct fake_slice *s[9];

		for (size_t i = 0; i < TEST_COUNT(s); i++)
			s[i] = ofi_rig_slice(TEI_WRITE, i * LENGTH, LENGTH);
		s[8]->key[KEY_AT] ^= 1;
		for (size_t i = 0; i < TEST_COUNT(s); i++)
			assert_int_equal(fake_post(&rig.pair, s[i]), 0);
		(void)ofi_rig_settle(s, TEST_COUNT(s));
		found = s[8]->err == -EACCES;
		(void)ofi_rig_count_good(s, TEST_COUNT(s));
	}
	assert_true(found);
	memset(rig.far, 0, RIG_LEN);
	goes_well();
}

/* From when it is hidden on, also before it is removed. */
static void key_of_a_region_that_has_gone_changes_nothing(void **state)
{
	static uint8_t memory[LENGTH];
	uint8_t key[TEI_BLOB_MAX];
	struct fake_slice *s;

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct tei_rail *rail = rig.pair.b.rail;
		size_t len = sizeof(key);

		assert_int_equal(tei_backend_ofi.region_add(rail, NEAR_AGAIN,
							    memory, LENGTH,
							    RIG_RW, key, &len),
				 0);
		s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);
		memcpy(s->key, key, len);
		s->slice->remote = (uintptr_t)memory;
		memset(rig.near, 7, LENGTH);
		ofi_rig_carry(s);
		assert_int_equal(s->err, 0);
		assert_int_equal(memory[0], 7);
		while (tei_backend_ofi.region_hide(rail, NEAR_AGAIN))
			(void)fake_turn(rail);
		memset(memory, 0, LENGTH);
		fake_slice_destroy(s);
		if (rig.pair.target_link.n_down || !rig.pair.target)
			ofi_rig_rejoin();
		s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);
		memcpy(s->key, key, len);
		s->slice->remote = (uintptr_t)memory;
		is_refused(s);
		for (size_t k = 0; k < LENGTH; k++)
			assert_int_equal(memory[k], 0);
		fake_slice_destroy(s);
		tei_backend_ofi.region_remove(rail, NEAR_AGAIN);
	}
}

static void range_outside_is_refused_here(void **state)
{
	static const uint64_t past[] = {RIG_LEN, RIG_LEN - LENGTH + 1,
					RIG_LEN - 1, UINT64_MAX / 2};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(past); i++) {
		struct fake_slice *s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);

		s->slice->remote += past[i];
		is_refused(s);
		assert_int_equal(s->err, -EFAULT);
		fake_slice_destroy(s);
	}
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
	assert_int_equal(fake_ofi_counts().refused, 0);
	memset(rig.far, 0, RIG_LEN); /* what was inside has arrived */
	goes_well();
}

/* The blob says that the region is longer than it is. */
static void range_outside_is_refused_there(void **state)
{
	static const uint64_t longer = 4 * RIG_LEN;

	(void)state;
	for (int i = 0; i < 10; i++) {
		struct fake_slice *s = ofi_rig_slice(TEI_READ, 0, LENGTH);

		memcpy(s->key + 10, &longer, 8); /* bytes of a chunk, of all */
		memcpy(s->key + 18, &longer, 8);
		s->slice->remote += RIG_LEN - LENGTH / 2;
		is_refused(s);
		fake_slice_destroy(s);
	}
	assert_true(fake_ofi_counts().refused >= 10);
	goes_well();
}

static void blob_of_nonsense_ends_its_slice_only(void **state)
{
	uint64_t chance = 4;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct fake_slice *s = ofi_rig_slice(TEI_READ, 0, LENGTH);
		size_t at = tei_chance(&chance) % OFI_KEY_LEN;

		s->slice->key_len =
			i % 3 ? (uint32_t)rig.key_len
			      : (uint32_t)(tei_chance(&chance) % rig.key_len);
		s->key[at] ^= (uint8_t)(1 + tei_chance(&chance) % 255);
		assert_int_equal(fake_post(&rig.pair, s), 0);
		(void)ofi_rig_settle(&s, 1);
		assert_int_equal(s->n_done, 1);
		fake_slice_destroy(s);
	}
	goes_well();
}

/* ---- addresses ---- */

/* One half alone, which is told where the other one is said to be. */
static void tell_half(bool target, const uint8_t *blob, size_t len)
{
	struct fake_link link;
	uint8_t mine[TEI_BLOB_MAX];
	size_t mine_len = sizeof(mine);
	struct tei_endpoint *ep = fake_endpoint(
		target ? &rig.pair.b : &rig.pair.a, &link, target, fake_epoch);
	int rc;

	assert_int_equal(tei_backend_ofi.endpoint_open(ep, mine, &mine_len), 0);
	rc = tei_backend_ofi.endpoint_connect(ep, blob, len);
	assert_true(rc <= 0);
	for (int i = 0; rc == -EINPROGRESS && i < 130; i++)
		fake_progress(&rig.pair);
	if (rc == -EINPROGRESS && !target && rig.connected)
		assert_int_equal(link.n_up, 0);
	fake_flush(ep, -ECANCELED);
	tei_backend_ofi.endpoint_close(ep);
	tei_free(ep);
}

static void address_of_nonsense_connects_nobody(void **state)
{
	uint8_t good[TEI_BLOB_MAX], blob[TEI_BLOB_MAX];
	struct fake_link link;
	struct tei_endpoint *ep =
		fake_endpoint(&rig.pair.b, &link, true, fake_epoch);
	size_t good_len = sizeof(good);
	uint64_t chance = 77;

	(void)state;
	assert_int_equal(tei_backend_ofi.endpoint_open(ep, good, &good_len), 0);
	for (int i = 0; i < 600; i++) {
		size_t len = good_len;

		memcpy(blob, good, sizeof(blob));
		if (i % 3 == 0)
			len = tei_chance(&chance) % sizeof(blob);
		if (i % 3 == 1)
			blob[tei_chance(&chance) % len] ^=
				(uint8_t)(1 + tei_chance(&chance) % 255);
		for (size_t k = 0; i % 3 == 2 && k < len; k++)
			blob[k] = (uint8_t)tei_chance(&chance);
		tell_half(i % 2, blob, len);
	}
	fake_flush(ep, -ECANCELED);
	tei_backend_ofi.endpoint_close(ep);
	tei_free(ep);
	goes_well();
}

/* The end of one of them takes nothing from the other. */
static void address_named_twice_serves_both(void **state)
{
	struct fake_link links[3];
	struct tei_endpoint *eps[3];
	uint8_t blob[TEI_BLOB_MAX], unused[TEI_BLOB_MAX];
	size_t len = sizeof(blob);

	(void)state;
	if (rig.connected)
		return; /* a token is for one */
	for (int i = 0; i < 3; i++) {
		size_t n = sizeof(unused);

		eps[i] = fake_endpoint(i ? &rig.pair.a : &rig.pair.b, &links[i],
				       !i, fake_epoch);
		assert_int_equal(
			tei_backend_ofi.endpoint_open(eps[i], i ? unused : blob,
						      i ? &n : &len),
			0);
		if (i)
			assert_int_equal(tei_backend_ofi.endpoint_connect(
						 eps[i], blob, len),
					 0);
	}
	for (int i = 2; i >= 0; i--) {
		fake_flush(eps[i], -ECANCELED);
		tei_backend_ofi.endpoint_close(eps[i]);
		tei_free(eps[i]);
		goes_well();
	}
}

static void stranger_without_a_token_is_refused(void **state)
{
	uint8_t token[64];
	uint64_t chance = 6, refused, asked = 0;

	(void)state;
	if (!rig.connected)
		skip();
	for (int i = 0; i < 100; i++) {
		size_t len = tei_chance(&chance) % sizeof(token);

		for (size_t k = 0; k < len; k++)
			token[k] = (uint8_t)tei_chance(&chance);
		asked += fake_ofi_strangers(token, len);
	}
	while (fake_ofi_counts().requests)
		fake_progress(&rig.pair);
	refused = fake_ofi_counts().strangers_refused;
	assert_int_equal(refused, asked);
	assert_int_equal(rig.pair.a.rail->bad_frames +
				 rig.pair.b.rail->bad_frames,
			 asked);
	goes_well();
}

/* The initiator's own completions carry contexts that are memory of ours. */
static void writes_of_peers_with_data_are_nobodys_completions(void **state)
{
	static uint8_t junk[256];

	(void)state;
	memset(junk, 0xa5, sizeof(junk));
	for (unsigned int d = 0; d < 2; d++) {
		fake_ofi_tell_of_write(d, NULL);
		fake_ofi_tell_of_write(d, junk);
	}
	fake_progress(&rig.pair);
	goes_well();
	for (size_t i = 0; i < sizeof(junk); i++)
		assert_int_equal(junk[i], 0xa5);
}

/* ---- providers that lie ---- */

static void take_address(struct fi_info *info)
{
	tei_free(info->src_addr);
	info->src_addr = NULL;
	info->src_addrlen = 0;
}

static void lie(unsigned int which, struct fi_info *info,
		struct fake_ofi_limits *limits)
{
	char **fabric = &info->fabric_attr->name;
	char name[600];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	switch (which) {
	case 0:
		info->tx_attr->size = 0;
		break;
	case 1:
		info->tx_attr->size = SIZE_MAX;
		break;
	case 2:
		limits->depth = 1;
		break;
	case 3:
		info->tx_attr->iov_limit = 0;
		break;
	case 4:
		info->tx_attr->iov_limit = SIZE_MAX;
		limits->pieces = 1;
		break;
	case 5:
		info->ep_attr->max_msg_size = 0;
		break;
	case 6:
		info->ep_attr->max_msg_size = SIZE_MAX;
		limits->message = 1000;
		break;
	case 7:
		info->ep_attr->max_msg_size = 1;
		break;
	case 8:
		info->domain_attr->mr_key_size = 9;
		break;
	case 9:
		info->domain_attr->mr_key_size = 0;
		break;
	case 10:
		info->domain_attr->mr_mode ^= FI_MR_VIRT_ADDR;
		break;
	case 11:
		info->domain_attr->mr_mode ^= FI_MR_PROV_KEY;
		break;
	case 12:
		tei_free(*fabric);
		*fabric = NULL;
		break;
	case 13:
		tei_free(*fabric);
		*fabric = tei_strdup(name);
		break;
	case 14:
		take_address(info);
		break;
	case 15:
		info->addr_format = FI_SOCKADDR_IN6;
		break;
	case 16:
		info->addr_format = 0xffff;
		break;
	case 17:
		limits->endpoints = 0;
		break;
	case 18:
		limits->keys = 0;
		break;
	default:
		info->ep_attr->type = FI_EP_UNSPEC;
	}
}
#define LIES 20

/* Pieces that need more operations than one, in both directions. */
static void try_to_carry(void)
{
	struct fake_slice *s[16];
	struct iovec iov[8];

	for (size_t i = 0; i < 8; i++)
		iov[i] = (struct iovec){rig.near + i * 1000, 100 + i};
	for (size_t i = 0; i < TEST_COUNT(s); i++) {
		s[i] = i % 2 ? ofi_rig_pieces(TEI_READ, i * 4096, iov, 8)
			     : ofi_rig_slice(TEI_WRITE, i * 4096, 2000);
		if (fake_post(&rig.pair, s[i])) {
			s[i]->n_done = 1; /* was not taken */
			s[i]->err = -EIO;
		}
	}
	for (size_t i = 0; i < TEST_COUNT(s); i++) {
		while (!s[i]->n_done && !rig.pair.initiator_link.n_down)
			fake_progress(&rig.pair);
	}
	if (rig.pair.initiator_link.n_down)
		fake_flush(rig.pair.initiator, -ESTALE);
	(void)ofi_rig_count_good(s, TEST_COUNT(s));
	if (rig.pair.initiator_link.n_down) {
		tei_backend_ofi.endpoint_close(rig.pair.initiator);
		tei_free(rig.pair.initiator);
		rig.pair.initiator = NULL;
	}
}

static void provider_that_lies_is_refused_or_fails(void **state)
{
	unsigned int n_refused = 0;

	(void)state;
	for (unsigned int i = 0; i < LIES; i++) {
		int rc;

		ofi_rig_close();
		fake_ofi_stop();
		ofi_rig_start();
		for (unsigned int d = 0; d < 2; d++)
			lie(i, fake_ofi_info(d), fake_ofi_limits(d));
		rc = ofi_rig_open(NULL);
		if (!rc)
			try_to_carry();
		else
			n_refused++;
		if (!rc)
			ofi_rig_close();
		assert_int_equal(fake_ofi_open(), 0);
		fake_ofi_stop();
		ofi_rig_start();
		assert_int_equal(ofi_rig_open(NULL), 0);
	}
	assert_in_range(n_refused, 4, LIES - 4);
}

/* Calls that say that there is more than they were given room for. */
static ssize_t read_more(struct fid_cq *cq, void *buf, size_t count)
{
	ssize_t n = fake_ofi.cq_read(cq, buf, count);

	return n > 0 ? (ssize_t)count + 1 : n;
}

static ssize_t read_longer(struct fid_eq *eq, uint32_t *event, void *buf,
			   size_t len, uint64_t flags)
{
	ssize_t n = fake_ofi.eq_read(eq, event, buf, len, flags);

	return n > 0 ? (ssize_t)len + 1 : n;
}

static int name_longer(struct fid *fid, void *addr, size_t *addrlen)
{
	int rc = fake_ofi.getname(fid, addr, addrlen);

	*addrlen = 4096;
	return rc;
}

static void await_death(struct tei_rail *rail)
{
	int rc = 0;

	while (rc >= 0)
		rc = fake_turn(rail);
	assert_int_equal(rc, -EIO);
}

static void provider_that_says_more_than_it_gave_is_not_believed(void **state)
{
	struct ofi_provider lying = fake_ofi;
	struct fake_slice *s;

	(void)state;
	ofi_rig_close();
	tei_ofi_use(&lying);
	lying.getname = name_longer;
	assert_int_equal(ofi_rig_open(NULL),
			 rig.connected ? -ENODEV : -EMSGSIZE);
	lying.getname = fake_ofi.getname;
	assert_int_equal(ofi_rig_open(NULL), 0);
	if (rig.connected) {
		lying.eq_read = read_longer;
		fake_ofi_reset_all();
		await_death(rig.pair.a.rail);
		lying.eq_read = fake_ofi.eq_read;
		ofi_rig_reopen(NULL);
	}
	lying.cq_read = read_more;
	s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	await_death(rig.pair.a.rail);
	lying.cq_read = fake_ofi.cq_read;
	fake_flush(rig.pair.initiator, -ENODEV);
	assert_int_equal(s->n_done, 1);
	fake_slice_destroy(s);
	ofi_rig_close();
	tei_ofi_use(&fake_ofi);
	assert_int_equal(ofi_rig_open(NULL), 0);
}

/* Keys of few bytes, which the engine chooses, are found by trying. */
static void provider_of_short_keys_is_refused(void **state)
{
	static const char *const named[] = {"ofi.devices=fake0,fake1", NULL};
	struct fi_domain_attr *near = fake_ofi_info(0)->domain_attr;
	struct fi_domain_attr *far = fake_ofi_info(1)->domain_attr;
	size_t size = near->mr_key_size;

	(void)state;
	if (near->mr_mode & FI_MR_PROV_KEY)
		return;
	ofi_rig_close();
	for (size_t n = 0; n < 4; n++) {
		near->mr_key_size = far->mr_key_size = n;
		assert_int_equal(ofi_rig_open(named), -EOPNOTSUPP);
		assert_int_equal(ofi_rig_open(NULL), -ENODEV);
	}
	near->mr_key_size = far->mr_key_size = size;
	assert_int_equal(ofi_rig_open(NULL), 0);
}

/*
 * A provider that keeps what was registered, and gives it out again when the
 * same memory is.
 */
static struct fid_mr *kept;
static uint64_t kept_at;
static unsigned int n_more;

static int register_or_find(struct fid_domain *domain,
			    const struct fi_mr_attr *attr, uint64_t flags,
			    struct fid_mr **out)
{
	uint64_t at = (uintptr_t)attr->mr_iov->iov_base;
	int rc;

	if (kept && kept_at == at) {
		n_more++;
		*out = kept;
		return 0;
	}
	rc = fake_ofi.mr_regattr(domain, attr, flags, out);
	if (!rc) {
		kept = *out;
		kept_at = at;
	}
	return rc;
}

static int keep_or_close(struct fid *fid)
{
	if (!kept || fid != &kept->fid)
		return fake_ofi.close(fid);
	if (n_more) {
		n_more--;
		return 0;
	}
	kept = NULL;
	return fake_ofi.close(fid);
}

static void provider_that_keeps_keys_is_refused(void **state)
{
	struct ofi_provider keeping = fake_ofi;

	(void)state;
	if (!(fake_ofi_info(0)->domain_attr->mr_mode & FI_MR_PROV_KEY))
		return;
	keeping.mr_regattr = register_or_find;
	keeping.close = keep_or_close;
	ofi_rig_close();
	tei_ofi_use(&keeping);
	assert_int_equal(ofi_rig_open(NULL), -EOPNOTSUPP);
	assert_null(kept);
	tei_ofi_use(&fake_ofi);
	assert_int_equal(ofi_rig_open(NULL), 0);
}

/* ---- names ---- */

static unsigned int n_found;

static int count(const struct tei_device *device, void *arg)
{
	(void)arg;
	assert_true(device->name[0]);
	assert_non_null(memchr(device->name, 0, sizeof(device->name)));
	n_found++;
	return 0;
}

static int probe(char *devices)
{
	struct ofi_config config = ofi_rig_config();
	const struct tei_search search = {.config = &config, .found = count};
	int rc;

	config.devices = devices;
	n_found = 0;
	rc = tei_backend_ofi.probe(&search);
	return rc ? rc : (int)n_found;
}

static void provider_that_lets_keys_outlive_their_end_is_left_out(void **state)
{
	static const char variable[] = "FI_CXI_MR_MATCH_EVENTS";

	(void)state;
	if (rig.shape != FAKE_OFI_CXI)
		skip();
	assert_int_equal(unsetenv(variable), 0);
	assert_int_equal(probe(NULL), 0);
	assert_int_equal(setenv(variable, "0", 1), 0);
	assert_int_equal(probe(NULL), 0);
	assert_int_equal(setenv(variable, "True", 1), 0);
	assert_int_equal(probe(NULL), 2);
}

static void domains_without_a_fit_name_are_not_found(void **state)
{
	static const char *const bad[] = {NULL, "",
					  "a-name-of-more-than-forty-seven-"
					  "bytes-which-no-device-may-have"};
	static char nobody[] = "nobody";

	(void)state;
	assert_int_equal(probe(NULL), 2);
	assert_int_equal(probe(nobody), -EINVAL);
	ofi_rig_close();
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		fake_ofi_rename(1, bad[i]);
		assert_int_equal(probe(NULL), 1);
	}
	fake_ofi_rename(1, fake_ofi_info(0)->domain_attr->name);
	assert_int_equal(probe(NULL), 1);
	fake_ofi_rename(0, NULL);
	fake_ofi_rename(1, NULL);
	assert_int_equal(probe(NULL), 0);
	fake_ofi_fail(FAKE_OFI_GETINFO, 1, FI_ENODATA);
	assert_int_equal(probe(NULL), 0);
	fake_ofi_fail(FAKE_OFI_GETINFO, 1, FI_ENOMEM);
	assert_int_equal(probe(NULL), -ENOMEM);
	fake_ofi_stop();
	ofi_rig_start();
	assert_int_equal(ofi_rig_open(NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(forged_key_changes_nothing),
		TEST(key_without_its_token_changes_nothing),
		TEST(refused_key_is_the_fault_of_its_slice),
		TEST(refused_key_is_found_among_good_ones),
		TEST(key_of_a_region_that_has_gone_changes_nothing),
		TEST(range_outside_is_refused_here),
		TEST(range_outside_is_refused_there),
		TEST(blob_of_nonsense_ends_its_slice_only),
		TEST(address_of_nonsense_connects_nobody),
		TEST(address_named_twice_serves_both),
		TEST(stranger_without_a_token_is_refused),
		TEST(writes_of_peers_with_data_are_nobodys_completions),
		TEST(provider_that_lies_is_refused_or_fails),
		TEST(provider_that_says_more_than_it_gave_is_not_believed),
		TEST(provider_of_short_keys_is_refused),
		TEST(provider_that_lets_keys_outlive_their_end_is_left_out),
		TEST(provider_that_keeps_keys_is_refused),
		TEST(domains_without_a_fit_name_are_not_found),
	};

	return ofi_rig_run("hostile", tests, TEST_COUNT(tests));
}
