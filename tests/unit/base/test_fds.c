/* SPDX-License-Identifier: Apache-2.0 */
/* test_fds.c - descriptors that go with messages */
#include <fcntl.h>
#include <unistd.h>

#include "base/net.h"
#include "tests/lib/test.h"

static int pair[2];

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(pair[0]);
	close(pair[1]);
	return 0;
}

static void receive(struct msghdr *msg, union tei_fds_room *room)
{
	static char byte;
	static struct iovec iov = {&byte, 1};

	*msg = (struct msghdr){.msg_iov = &iov,
			       .msg_iovlen = 1,
			       .msg_control = room->bytes,
			       .msg_controllen = sizeof(room->bytes)};
	assert_int_equal(recvmsg(pair[1], msg, MSG_CMSG_CLOEXEC), 1);
}

/* With these[n], which the kernel copies. */
static void send_fds(const int these[], size_t n)
{
	union {
		char bytes[CMSG_SPACE(16 * sizeof(int))];
		struct cmsghdr align;
	} room = {{0}};
	struct iovec iov = {(char[]){'x'}, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = room.bytes,
			     .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), these, n * sizeof(int));
	assert_int_equal(sendmsg(pair[0], &msg, 0), 1);
}

/* Where the next one would be: nothing below is free. */
static int lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

static void one_goes_with_a_message(void **state)
{
	union tei_fds_room out, in;
	struct iovec iov = {(char[]){'x'}, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	char text[4] = "";
	int ends[2], got = -1;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	tei_fds_attach(&msg, &out, ends[1]);
	assert_int_equal(sendmsg(pair[0], &msg, 0), 1);
	receive(&msg, &in);
	assert_int_equal(tei_fds_take(&msg, &got), 1);
	assert_int_equal(write(got, "hi", 3), 3);
	assert_int_equal(read(ends[0], text, sizeof(text)), 3);
	assert_string_equal(text, "hi");
	close(got);
	close(ends[0]);
	close(ends[1]);
}

static void none_leaves_the_callers(void **state)
{
	union tei_fds_room in;
	struct msghdr msg;
	int got = -7;

	(void)state;
	assert_int_equal(send(pair[0], "x", 1, 0), 1);
	receive(&msg, &in);
	assert_int_equal(tei_fds_take(&msg, &got), 0);
	assert_int_equal(got, -7);
}

static void all_but_the_first_are_closed(void **state)
{
	int these[16], got = -1, free_before = lowest_free();
	union tei_fds_room in;
	struct msghdr msg;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(these); i++)
		these[i] = pair[0];
	send_fds(these, 3);
	receive(&msg, &in);
	assert_int_equal(tei_fds_take(&msg, &got), 3);
	assert_int_equal(got, free_before);
	close(got);
	assert_int_equal(lowest_free(), free_before);
	send_fds(these, TEST_COUNT(these)); /* more than there is room for */
	receive(&msg, &in);
	assert_int_equal(tei_fds_take(&msg, &got), TEI_FDS_MAX);
	assert_true(msg.msg_flags & MSG_CTRUNC);
	close(got);
	assert_int_equal(lowest_free(), free_before);
}

static void several_go_and_all_are_taken(void **state)
{
	int free_before = lowest_free(), these[TEI_FDS_MAX], got[TEI_FDS_MAX];
	union tei_fds_room out, in;
	struct iovec iov = {(char[]){'x'}, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	(void)state;
	for (unsigned int n = 1; n <= TEI_FDS_MAX; n++) {
		these[n - 1] = pair[0];
		memset(got, -1, sizeof(got));
		msg = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1};
		tei_fds_attach_all(&msg, &out, these, n);
		assert_int_equal(sendmsg(pair[0], &msg, 0), 1);
		receive(&msg, &in);
		assert_int_equal(tei_fds_take_all(&msg, got), n);
		for (unsigned int i = 0; i < TEI_FDS_MAX; i++) {
			if (i >= n)
				assert_int_equal(got[i], -1);
			else
				assert_int_equal(close(got[i]), 0);
		}
		assert_int_equal(lowest_free(), free_before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_goes_with_a_message, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(several_go_and_all_are_taken,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(none_leaves_the_callers, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(all_but_the_first_are_closed,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
