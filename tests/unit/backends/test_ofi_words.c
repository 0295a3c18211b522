/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ofi_words.c - the log says what was chosen, and the cause of what fails
 *
 * Where a provider has a number of its own for that, it is in the line.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "tests/unit/backends/ofi_rig.h"

#define LENGTH 4096
#define MANY   32 /* NICs, as some hosts have */

static char lines[16384];

static void keep(int level, const char *line, void *arg)
{
	size_t used = strlen(lines);

	(void)level;
	(void)arg;
	(void)snprintf(lines + used, sizeof(lines) - used, "%s\n", line);
}

static void forget(void)
{
	lines[0] = '\0';
}

static void begin(void)
{
	forget();
	tei_log_set_sink(keep, NULL);
	tei_log_set_level(TEI_LOG_INFO);
}

static void end(void)
{
	tei_log_set_level(TEI_LOG_WARN);
	tei_log_set_sink(NULL, NULL);
}

/* Nothing is open yet. */
static int set_up(void **state)
{
	(void)state;
	begin();
	ofi_rig_start();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ofi_rig_stop();
	end();
	return 0;
}

static int set_up_rig(void **state)
{
	int rc = ofi_rig_set_up(state);

	begin();
	return rc;
}

static int tear_down_rig(void **state)
{
	int rc = ofi_rig_tear_down(state);

	end();
	return rc;
}

/* Whether a line has both; "": any. */
static void said(const char *words, const char *more)
{
	const char *at = strstr(lines, words);
	const char *end_of = at ? strchr(at, '\n') : NULL;
	const char *rest = at ? strstr(at, more) : NULL;

	if (!rest || rest > end_of)
		fail_msg("\"%s ... %s\" is not in:\n%s", words, more, lines);
}

static int ignore(const struct tei_device *device, void *arg)
{
	(void)device;
	(void)arg;
	return 0;
}

static int probe(char *devices)
{
	struct ofi_config config = ofi_rig_config();
	const struct tei_search search = {
		.config = &config, .found = ignore, .named = true};

	config.devices = devices;
	return tei_backend_ofi.probe(&search);
}

/* ---- the choice ---- */

/* Starts the fake anew, with as many NICs as some hosts have: rdmap100s0 .. */
static void start_many(void)
{
	char name[32];

	fake_ofi_stop();
	fake_ofi_start(rig.shape, MANY);
	for (unsigned int i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "rdmap%us0-rdm", 100 + i);
		fake_ofi_rename(i, name);
	}
}

static void each_nic_of_many_is_named_with_provider_and_depth(void **state)
{
	char more[64], name[32];

	(void)state;
	start_many();
	(void)snprintf(more, sizeof(more), " (%s, %zu operations in flight)\n",
		       fake_ofi_provider(rig.shape),
		       fake_ofi_limits(0)->depth < 128
			       ? fake_ofi_limits(0)->depth
			       : (size_t)128);
	assert_int_equal(probe(NULL), 0);
	for (unsigned int i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "%srdmap%us0-rdm",
			       i ? ", " : " ", 100 + i);
		test_contains(lines, name);
	}
	test_contains(lines, more);
	test_contains(lines, "backend ofi: libfabric 2.1: ");
}

/* And what had no room is seen to be missing. */
static void nics_that_are_left_out_are_told_with_the_reason(void **state)
{
	static char first[] = "rdmap100s0";

	(void)state;
	fake_ofi_info(0)->tx_attr->size = 0;
	fake_ofi_info(1)->ep_attr->max_msg_size = 0;
	assert_int_equal(probe(NULL), 0);
	said("backend ofi: not used: has no room for operations: fake0",
	     "; operations have no bytes: fake1");
	start_many();
	forget();
	assert_int_equal(probe(first), 0);
	said("rdmap100s0-rdm (",
	     "; left out: not in ofi.devices: rdmap101s0-rdm, rdmap102s0-rdm");
	test_contains(lines, "...\n");
}

static void library_without_the_provider_is_told(void **state)
{
	char words[64];

	(void)state;
	(void)snprintf(words, sizeof(words), "not used: has no domain here: %s",
		       fake_ofi_provider(rig.shape));
	fake_ofi_fail(FAKE_OFI_GETINFO, 1, FI_ENODATA);
	assert_int_equal(probe(NULL), 0);
	said(words, "");
}

/* ---- domains that do not open ---- */

static void domain_that_has_gone_is_told(void **state)
{
	static const char *const devices[] = {"ofi.devices=fake0,fake1", NULL};

	(void)state;
	fake_device = "fake7";
	assert_int_equal(fake_rail_open(&rig.pair.a, &tei_backend_ofi,
					ofi_rig_settings(NULL)),
			 -ENODEV);
	fake_device = "";
	said("rail fake7: no provider has this domain any more", "");
	fake_ofi_fail(FAKE_OFI_DOMAIN, 1, FI_ENODEV);
	assert_int_equal(ofi_rig_open(devices), -ENODEV);
	said("rail fake0", ": open its domain: No such device");
}

static void limits_that_make_no_sense_are_told(void **state)
{
	static const char *const devices[] = {"ofi.devices=fake0,fake1", NULL};

	(void)state;
	fake_ofi_info(0)->domain_attr->mr_key_size = 9;
	assert_int_equal(ofi_rig_open(devices), -EOPNOTSUPP);
	said(" is not used: has keys of more than 8 bytes", "");
}

static void memory_that_is_refused_is_told(void **state)
{
	uint8_t key[TEI_BLOB_MAX];
	size_t len = sizeof(key);

	(void)state;
	fake_ofi_refuse_memory(1, FI_ENOMEM);
	assert_int_equal(tei_backend_ofi.region_add(rig.pair.b.rail, 50,
						    rig.near, LENGTH, RIG_RW,
						    key, &len),
			 -ENOMEM);
	said("rail fake1", " cannot be registered: Cannot allocate memory");
	fake_ofi_refuse_memory(1, 0);
}

/* ---- operations and queues ---- */

/* By each provider's own number for it. */
static const struct {
	const char *words;
	int code;
} refusals[FAKE_OFI_SHAPES] = {
	/* Says nothing but that the connection has ended. */
	[FAKE_OFI_TCP] = {NULL, FI_EKEYREJECTED},
	[FAKE_OFI_VERBS] = {"Permission denied (5; provider verbs: 10, ", 10},
	[FAKE_OFI_EFA] = {"Permission denied (5; provider efa: 7, ", 7},
	[FAKE_OFI_CXI] = {"Permission denied (5; provider cxi: 18, ", 18},
};

static void check_refusal(struct fake_slice *s)
{
	assert_int_equal(fake_post(&rig.pair, s), 0);
	(void)ofi_rig_settle(&s, 1);
	assert_int_equal(s->n_done, 1);
	assert_int_equal(s->err, -EACCES);
	assert_int_equal(s->slice->provider_code, refusals[rig.shape].code);
	if (refusals[rig.shape].words)
		said(": an operation failed: ", refusals[rig.shape].words);
	fake_slice_destroy(s);
	forget();
}

static void refused_key_is_told_with_the_providers_number(void **state)
{
	struct fake_slice *s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);

	(void)state;
	s->key[OFI_KEY_LEN] ^= 1;
	check_refusal(s);
}

static void range_that_the_target_refuses_is_told_so_too(void **state)
{
	static const uint64_t longer = 4 * RIG_LEN;
	struct fake_slice *s = ofi_rig_slice(TEI_READ, 0, LENGTH);

	(void)state;
	memcpy(s->key + 10, &longer, 8); /* bytes of a chunk, of all */
	memcpy(s->key + 18, &longer, 8);
	s->slice->remote += RIG_LEN - LENGTH / 2;
	check_refusal(s);
}

static void address_of_nonsense_is_told(void **state)
{
	static const uint8_t nonsense[64] = {1};
	struct fake_link link;
	uint8_t mine[TEI_BLOB_MAX];
	size_t len = sizeof(mine);
	struct tei_endpoint *ep =
		fake_endpoint(&rig.pair.a, &link, false, fake_epoch);

	(void)state;
	assert_int_equal(tei_backend_ofi.endpoint_open(ep, mine, &len), 0);
	assert_int_equal(tei_backend_ofi.endpoint_connect(ep, nonsense, 19),
			 -EPROTO);
	said(": a peer's address is refused: of another kind", "");
	fake_flush(ep, -ECANCELED);
	tei_backend_ofi.endpoint_close(ep);
	tei_free(ep);
}

static void rail_of_nonsense_is_told(void **state)
{
	(void)state;
	assert_int_equal(tei_backend_ofi.rail_match(rig.pair.a.rail, NULL,
						    "\1\0\0\0", 4),
			 0);
	said(": a peer's description of its rail is refused: "
	     "no name of a provider",
	     "");
}

static void rail_that_says_nothing_is_no_fault(void **state)
{
	uint64_t before = rig.pair.a.rail->bad_frames;

	(void)state;
	assert_int_equal(
		tei_backend_ofi.rail_match(rig.pair.a.rail, NULL, "", 0), 0);
	assert_int_equal(rig.pair.a.rail->bad_frames, before);
}

/* Both go by efa, so people expect that they reach each other. */
static void rail_of_another_fabric_is_told(void **state)
{
	const struct ofi_self other = {.provider = "efa",
				       .fabric = "efa-direct"};
	uint8_t blob[TEI_BLOB_MAX];
	size_t len = sizeof(blob);

	(void)state;
	if (rig.shape != FAKE_OFI_EFA)
		return;
	assert_int_equal(tei_ofi_self_encode(&other, blob, &len), 0);
	assert_int_equal(
		tei_backend_ofi.rail_match(rig.pair.a.rail, NULL, blob, len),
		0);
	said("rail fake0", "goes by fabric efa-direct of provider efa, not "
			   "by efa");
}

static void queue_that_dies_is_told(void **state)
{
	int rc = 0;

	(void)state;
	fake_ofi_fail(FAKE_OFI_CQ_READ, 1, FI_ENODEV);
	while (rc >= 0)
		rc = fake_turn(rig.pair.a.rail);
	said(": its completion queue failed: No such device", "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_OPEN(name) \
	cmocka_unit_test_setup_teardown(name, set_up_rig, tear_down_rig)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_nic_of_many_is_named_with_provider_and_depth),
		TEST(nics_that_are_left_out_are_told_with_the_reason),
		TEST(library_without_the_provider_is_told),
		TEST(domain_that_has_gone_is_told),
		TEST(limits_that_make_no_sense_are_told),
		TEST_OPEN(memory_that_is_refused_is_told),
		TEST_OPEN(refused_key_is_told_with_the_providers_number),
		TEST_OPEN(range_that_the_target_refuses_is_told_so_too),
		TEST_OPEN(address_of_nonsense_is_told),
		TEST_OPEN(rail_of_nonsense_is_told),
		TEST_OPEN(rail_that_says_nothing_is_no_fault),
		TEST_OPEN(rail_of_another_fabric_is_told),
		TEST_OPEN(queue_that_dies_is_told),
	};

	return ofi_rig_run("words", tests, TEST_COUNT(tests));
}
