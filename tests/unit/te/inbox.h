/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.h - an engine with a small inbox, and notifications as frames by hand */
#ifndef TESTS_UNIT_TE_INBOX_H
#define TESTS_UNIT_TE_INBOX_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "te/core/engine.h"
#include "te/notify/notify.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/raw.h"
#include "tests/unit/te/rig.h"

#define NOTIFY TE__CONTROL_TYPE__CONTROL_NOTIFY
#define ROOM   TE__CONTROL_TYPE__CONTROL_ROOM

#define SMALL                                                              \
	"notify_queue", "4", "notify_queue_bytes", "64k", "notify_memory", \
		"192k", "connect_timeout"
static const char *const small[] = {SMALL, "60s", NULL};
static struct te_engine *engine;
static uint8_t body[65536], bytes[70000];

static inline int set_up(void **state)
{
	(void)state;
	te_log_set_level(0); /* refusals are warned of, which is right */
	engine = rig_engine(small);
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	te_engine_destroy(engine);
	return 0;
}

struct frame {
	Te__Notify m;
	ProtobufCBinaryData message[300];
};

/* @n messages of @len bytes, each begins with its number. */
static inline void fill(struct frame *f, uint64_t first, size_t n, size_t len)
{
	te__notify__init(&f->m);
	f->m.first = first;
	f->m.epoch = 1;
	f->m.message = f->message;
	f->m.n_message = n;
	for (size_t i = 0; i < n; i++) {
		uint8_t *at = bytes + (len <= 8 ? i * 8 : 0);

		*at = (uint8_t)(first + i);
		f->message[i] = (ProtobufCBinaryData){len, at};
	}
}

static inline void hear_notified(int fd, uint32_t status, uint64_t taken)
{
	size_t len = sizeof(body);
	Te__Notified *m;

	assert_int_equal(raw_receive(fd, body, &len), NOTIFY);
	m = te__notified__unpack(NULL, len, body);
	assert_non_null(m);
	assert_int_equal(m->status, status);
	assert_int_equal(m->taken, taken);
	te__notified__free_unpacked(m, NULL);
}

static inline void tell(int fd, uint64_t first, size_t n, uint64_t taken)
{
	struct frame f;

	fill(&f, first, n, 8);
	raw_send_message(fd, NOTIFY, 7, &f.m.base);
	hear_notified(fd, 0, taken);
}

static inline void expect(uint8_t number)
{
	struct te_notify message;

	assert_int_equal(te_notify_take(engine, &message), 0);
	assert_int_equal(*(const uint8_t *)message.bytes, number);
	te_notify_free(&message);
}

static inline void expect_none(void)
{
	struct te_notify message;

	assert_int_equal(te_notify_take(engine, &message), -EAGAIN);
}

static inline void take_one(void)
{
	struct te_notify message;

	assert_int_equal(te_notify_take(engine, &message), 0);
	te_notify_free(&message);
}

#define WITH_ENGINE(test) \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
