/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_port.c - ports of devices: found, chosen, opened, looked at */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "backends/verbs/port.h"
#include "base/log.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

struct seen {
	int n;
	struct tei_device device[8];
};

static struct verbs_config usual(void)
{
	return (struct verbs_config){.lanes = 2,
				     .depth = 256,
				     .mtu = 4096,
				     .reads = 16,
				     .inline_max = 64,
				     .pieces = 4};
}

static int note(const struct tei_device *device, void *arg)
{
	struct seen *seen = arg;

	seen->device[seen->n++] = *device;
	return 0;
}

static int find(const struct verbs_config *config, struct seen *seen)
{
	*seen = (struct seen){0};
	return tei_verbs_ports_find(&fake_verbs, config, note, seen);
}

static int set_up(void **state)
{
	(void)state;
	fake_verbs_start(3);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	test_faults_end();
	fake_verbs_stop();
	return 0;
}

static void
every_port_is_found_and_those_with_a_link_have_an_address(void **state)
{
	struct verbs_config config = usual();
	const struct sockaddr_in *in;
	struct seen seen;

	(void)state;
	fake_verbs_device(1)->phys_port_cnt = 2;
	fake_verbs_port(2, 1)->state = IBV_PORT_DOWN;
	fake_verbs_port(0, 1)->active_width = 2;
	fake_verbs_port(0, 1)->active_speed = 32;
	assert_int_equal(find(&config, &seen), 0);
	assert_int_equal(seen.n, 4);
	assert_string_equal(seen.device[0].name, "fake0/1");
	assert_string_equal(seen.device[1].name, "fake1/1");
	assert_string_equal(seen.device[2].name, "fake1/2");
	assert_int_equal(seen.device[0].speed_bps, 100000000000);
	assert_int_equal(seen.device[1].speed_bps, 0);
	in = (const void *)&seen.device[1].address.ss;
	assert_int_equal(in->sin_family, AF_INET);
	assert_int_equal(ntohl(in->sin_addr.s_addr), 0x0a090102);
	assert_string_equal(seen.device[3].name, "fake2/1");
	assert_int_equal(seen.device[3].address.len, 0);
}

static void settings_choose_devices_and_ports(void **state)
{
	struct verbs_config config = usual();
	char one[] = "fake1", two[] = " fake0/1, fake2", port[] = "fake1/2";
	struct seen seen;

	(void)state;
	fake_verbs_device(1)->phys_port_cnt = 2;
	config.devices = one;
	assert_int_equal(find(&config, &seen), 0);
	assert_int_equal(seen.n, 2);
	config.port = 2;
	assert_int_equal(find(&config, &seen), 0);
	assert_int_equal(seen.n, 1);
	assert_string_equal(seen.device[0].name, "fake1/2");
	config.port = 0;
	config.devices = two;
	assert_int_equal(find(&config, &seen), 0);
	assert_int_equal(seen.n, 2);
	assert_string_equal(seen.device[1].name, "fake2/1");
	config.devices = port;
	assert_int_equal(find(&config, &seen), 0);
	assert_int_equal(seen.n, 1);
	assert_string_equal(seen.device[0].name, "fake1/2");
}

static char warned[512];

static void keep_warning(int level, const char *line, void *arg)
{
	(void)arg;
	if (level == TEI_LOG_WARN)
		(void)snprintf(warned, sizeof(warned), "%s", line);
}

static void an_iwarp_device_is_left_out_with_the_way_out(void **state)
{
	struct verbs_config config = usual();
	char exclude[] = "erdma_1";
	struct seen seen;

	(void)state;
	fake_verbs_make_erdma(1, false);
	warned[0] = '\0';
	tei_log_set_sink(keep_warning, NULL);
	assert_int_equal(find(&config, &seen), 0);
	assert_int_equal(seen.n, 2);
	assert_non_null(strstr(warned, "erdma_1: left out: it reports iWARP"));
	assert_non_null(strstr(warned, "compat_mode=Y"));
	/* Who does not want it is not told. */
	warned[0] = '\0';
	config.exclude = exclude;
	assert_int_equal(find(&config, &seen), 0);
	tei_log_set_sink(NULL, NULL);
	assert_string_equal(warned, "");
	config.exclude = NULL;
	fake_verbs_make_erdma(1, true);
	assert_int_equal(find(&config, &seen), 0);
	assert_int_equal(seen.n, 3);
	assert_string_equal(seen.device[1].name, "erdma_1/1");
	assert_int_equal(seen.device[1].address.ss.ss_family, AF_INET);
}

static void unknown_name_is_refused(void **state)
{
	struct verbs_config config = usual();
	char names[] = "fake0,fake9", prefix[] = "fake";
	struct seen seen;

	(void)state;
	config.devices = names;
	assert_int_equal(find(&config, &seen), -EINVAL);
	assert_int_equal(seen.n, 0);
	config.devices = prefix;
	assert_int_equal(find(&config, &seen), -EINVAL);
}

/* How many of the ports that are found have what they need to be used. */
static int n_usable(const struct verbs_config *config)
{
	struct seen seen;
	int n = 0;

	assert_int_equal(find(config, &seen), 0);
	assert_int_equal(seen.n, 3);
	for (int i = 0; i < seen.n; i++)
		n += seen.device[i].address.len > 0;
	return n;
}

static void port_without_a_usable_gid_is_found_but_not_used(void **state)
{
	struct verbs_config config = usual();
	char first[] = "0", none[] = "5", word[] = "best", best[] = "auto";
	struct seen seen;

	(void)state;
	fake_verbs_set_gid(0, 1, 1, NULL, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(n_usable(&config), 2);
	config.gid_index = first; /* of version 1, but a person wants it */
	assert_int_equal(n_usable(&config), 3);
	config.gid_index = none;
	assert_int_equal(n_usable(&config), 0);
	config.gid_index = word;
	assert_int_equal(find(&config, &seen), -EINVAL);
	config.gid_index = best;
	assert_int_equal(n_usable(&config), 2);
}

static void device_that_can_never_be_used_is_left_out(void **state)
{
	struct verbs_config config = usual();
	struct verbs_port port;
	struct seen seen;

	(void)state;
	fake_verbs_device(1)->max_mr = 0;
	assert_int_equal(find(&config, &seen), 0);
	assert_int_equal(seen.n, 2);
	assert_int_equal(
		tei_verbs_port_open(&port, &fake_verbs, &config, "fake1/1"),
		-ENODEV);
}

static void host_without_devices_has_no_rails(void **state)
{
	struct verbs_config config = usual();
	struct seen seen;

	(void)state;
	fake_verbs_fail(1, ENOSYS); /* the kernel has no such modules */
	assert_int_equal(find(&config, &seen), 0);
	assert_int_equal(seen.n, 0);
}

static int stop_at_second(const struct tei_device *device, void *arg)
{
	struct seen *seen = arg;

	seen->device[seen->n++] = *device;
	return seen->n == 2 ? -ENOMEM : 0;
}

static void finding_ends_when_told_so(void **state)
{
	struct verbs_config config = usual();
	struct seen seen = {0};

	(void)state;
	assert_int_equal(tei_verbs_ports_find(&fake_verbs, &config,
					      stop_at_second, &seen),
			 -ENOMEM);
	assert_int_equal(seen.n, 2);
}

/* Each device that fails is left out; nothing stays open. */
static void device_that_fails_costs_only_itself(void **state)
{
	struct verbs_config config = usual();
	struct seen seen;
	unsigned int nth = 1;

	(void)state;
	do {
		fake_verbs_fail(++nth, EIO); /* the first is the list */
		assert_int_equal(find(&config, &seen), 0);
		assert_int_equal(seen.n, fake_verbs_struck() ? 2 : 3);
	} while (fake_verbs_struck());
	assert_true(nth > 12); /* four calls a device */
}

static void opened_port_knows_its_limits_and_address(void **state)
{
	struct verbs_config config = usual();
	struct verbs_port port;
	char text[VERBS_GID_TEXT_LEN];

	(void)state;
	assert_int_equal(
		tei_verbs_port_open(&port, &fake_verbs, &config, "fake1/1"), 0);
	assert_int_equal(port.number, 1);
	assert_int_equal(port.gid.index, 1);
	tei_verbs_gid_text(&port.gid.gid, text);
	assert_string_equal(text, "10.9.1.2");
	assert_int_equal(port.offer.mtu, 1024);
	assert_int_equal(port.link, VERBS_LINK_ETHERNET);
	tei_verbs_port_close(&port);
	tei_verbs_port_close(&port); /* nothing to do */
}

static void gone_ports_are_not_opened(void **state)
{
	static const char *const names[] = {"fake7/1", "fake1",  "fake1/2",
					    "fake/1",  "fake1/", "fake1/999"};
	struct verbs_config config = usual();
	struct verbs_port port;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(names); i++)
		assert_int_equal(tei_verbs_port_open(&port, &fake_verbs,
						     &config, names[i]),
				 -ENODEV);
}

static void changed_address_is_seen_and_lost_link_changes_nothing(void **state)
{
	struct verbs_config config = usual();
	struct verbs_port port;
	char text[VERBS_GID_TEXT_LEN];

	(void)state;
	assert_int_equal(
		tei_verbs_port_open(&port, &fake_verbs, &config, "fake0/1"), 0);
	fake_verbs_set_gid(0, 1, 3, "198.51.100.1", IBV_GID_TYPE_ROCE_V2);
	fake_verbs_link(0, 1, false);
	assert_int_equal(tei_verbs_port_look(&port), -ENETDOWN);
	assert_int_equal(port.gid.index, 1);
	fake_verbs_link(0, 1, true);
	assert_int_equal(tei_verbs_port_look(&port), 0);
	assert_int_equal(port.gid.index, 3);
	tei_verbs_gid_text(&port.gid.gid, text);
	assert_string_equal(text, "198.51.100.1");
	tei_verbs_port_close(&port);
}

static void lack_of_memory_is_told(void **state)
{
	struct verbs_config config = usual();
	struct verbs_port port;

	(void)state;
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		int rc = tei_verbs_port_open(&port, &fake_verbs, &config,
					     "fake0/1");

		if (!rc)
			tei_verbs_port_close(&port);
		else
			assert_true(tei_fault_struck(TEI_FAULT_ALLOC));
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_port_is_found_and_those_with_a_link_have_an_address),
		TEST(settings_choose_devices_and_ports),
		TEST(an_iwarp_device_is_left_out_with_the_way_out),
		TEST(unknown_name_is_refused),
		TEST(port_without_a_usable_gid_is_found_but_not_used),
		TEST(device_that_can_never_be_used_is_left_out),
		TEST(host_without_devices_has_no_rails),
		TEST(finding_ends_when_told_so),
		TEST(device_that_fails_costs_only_itself),
		TEST(opened_port_knows_its_limits_and_address),
		TEST(gone_ports_are_not_opened),
		TEST(changed_address_is_seen_and_lost_link_changes_nothing),
		TEST(lack_of_memory_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
