/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_impostor.c - one that says the incarnation of another engine
 *
 * It knows all that peers are told of each other, which is not the secret
 * between the user and the owner.
 */
#include <unistd.h>

#include "te/region/group.h"
#include "tests/unit/te/messages.h"
#include "tests/unit/te/raw.h"

#define N_ENDPOINTS 100u
#define DROP        TE__CONTROL_TYPE__CONTROL_DROP
#define NOTIFY      TE__CONTROL_TYPE__CONTROL_NOTIFY
#define PROBE       TE__CONTROL_TYPE__CONTROL_PROBE
#define REVOKED     TE__CONTROL_TYPE__CONTROL_REVOKED

static uint8_t who[TE_INCARNATION_LEN]; /* the user */

/* It shows no secret, as an older engine, or a wrong one. */
static int come_as_the_user(bool shows_secret)
{
	uint8_t nonce[TEI_NONCE_LEN] = {1}, secret[TEI_PEER_SECRET_LEN] = {7};
	Te__Hello hello;

	te_engine_incarnation(user, who);
	raw_fill_hello(&hello, who, nonce);
	if (shows_secret)
		hello.peer_secret =
			(ProtobufCBinaryData){sizeof(secret), secret};
	return raw_greet_with(owner, &hello, NULL);
}

static void await_frame(int fd, int type)
{
	uint8_t body[4096];
	size_t len = sizeof(body);

	assert_int_equal(raw_receive(fd, body, &len), type);
}

static void say_number_one(int fd)
{
	uint8_t text[] = "not the user's";
	ProtobufCBinaryData one = {sizeof(text), text};
	Te__Notify m = TE__NOTIFY__INIT;
	struct te_notify message;

	m.first = m.epoch = m.n_message = 1;
	m.message = &one;
	raw_send_message(fd, NOTIFY, 2, &m.base);
	await_frame(fd, NOTIFY);
	assert_int_equal(te_notify_take(owner, &message), 0);
	te_notify_free(&message);
}

/* The user's first message would be taken for one that had come before. */
static void impostor_takes_no_number_of_a_message(void **state)
{
	struct te_batch *batch = make_batch(1);
	uint32_t number = 0;
	int fd[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		fd[i] = come_as_the_user(i);
		say_number_one(fd[i]);
	}
	submit_number(batch, &number, 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(batch, 0), 0);
	expect_numbers(1);
	te_batch_destroy(batch);
	close(fd[0]);
	close(fd[1]);
}

static void drop_all(int fd)
{
	Te__Probe probe = TE__PROBE__INIT;
	Te__Drop drop = TE__DROP__INIT;

	for (; drop.endpoint < N_ENDPOINTS; drop.endpoint++) {
		raw_send_message(fd, DROP, 2 + drop.endpoint, &drop.base);
		await_frame(fd, DROP);
	}
	raw_send_message(fd, PROBE, 2 + N_ENDPOINTS, &probe.base);
	await_frame(fd, PROBE);
}

static void impostor_drops_no_link(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	for (int i = 0; i < 2; i++) {
		fd = come_as_the_user(i);
		drop_all(fd);
		close(fd);
	}
	assert_int_equal(
		test_stat(owner, "te_endpoint_drops_served_total", NULL), 0);
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
}

/* What is meant for an incarnation is meant for all who claim it. */
static void all_that_claim_an_incarnation_are_revoked(void **state)
{
	uint64_t epoch = 0, since;
	int fd[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		fd[i] = come_as_the_user(i);
	assert_int_equal(te_peer_revoke(owner, who, RIG_WAIT_MS), 0);
	for (int i = 0; i < 2; i++) {
		await_frame(fd[i], REVOKED);
		close(fd[i]);
	}
	/* The answer comes behind the news of it. */
	assert_int_equal(te_peer_probe(user, te_engine_name(owner), 0, NULL),
			 0);
	assert_int_equal(te_segment_epoch(user, segment, &epoch, &since), 0);
	assert_int_equal(epoch, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINES(impostor_takes_no_number_of_a_message),
		WITH_ENGINES(impostor_drops_no_link),
		WITH_ENGINES(all_that_claim_an_incarnation_are_revoked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
