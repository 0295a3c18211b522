/* SPDX-License-Identifier: Apache-2.0 */
/* loop_timer.c - alarms and timers of a loop */
#include "base/loop.h"

#include <event2/event.h>

#include "base/clock.h"
#include "base/loop_private.h"
#include "base/mem.h"

static void on_alarm(evutil_socket_t fd, short what, void *arg)
{
	struct tei_alarm *alarm = arg;

	(void)fd;
	(void)what;
	tei_loop_note(alarm->loop);
	alarm->fn(alarm->arg); /* may free it */
}

void tei_alarm_init(struct tei_alarm *alarm, struct tei_loop *loop,
		    void (*fn)(void *), void *arg)
{
	*alarm = (struct tei_alarm){.loop = loop, .fn = fn, .arg = arg};
	tei_list_init(&alarm->link);
	/* Fails only for a base that the loop never makes. */
	event_assign(&alarm->event, loop->base, -1, 0, on_alarm, alarm);
}

int tei_alarm_set(struct tei_alarm *alarm, uint64_t ms)
{
	struct timeval tv = {.tv_sec = (time_t)(ms / 1000),
			     .tv_usec = (suseconds_t)(ms % 1000 * 1000)};

	if (!tei_clock_simulated())
		return event_add(&alarm->event, &tv) ? -ENOMEM : 0;
	alarm->at = tei_now_ns() + ms * TEI_NS_PER_MS;
	tei_list_del(&alarm->link);
	tei_list_add_tail(&alarm->loop->alarms, &alarm->link);
	return 0;
}

void tei_alarm_now(struct tei_alarm *alarm)
{
	event_active(&alarm->event, EV_TIMEOUT, 1);
}

void tei_alarm_clear(struct tei_alarm *alarm)
{
	event_del(&alarm->event);
	tei_list_del(&alarm->link);
}

struct tei_timer {
	struct tei_alarm alarm;
	uint64_t every_ms; /* 0: once */
	void (*fn)(void *);
	void *arg;
};

static void on_timer(void *arg)
{
	struct tei_timer *timer = arg;

	/* Cannot fail: it was set before. */
	if (timer->every_ms)
		(void)tei_alarm_set(&timer->alarm, timer->every_ms);
	timer->fn(timer->arg); /* may stop and so free the timer */
}

struct tei_timer *tei_timer_start(struct tei_loop *loop, uint64_t ms,
				  bool repeat, void (*fn)(void *), void *arg)
{
	struct tei_timer *timer;

	timer = tei_calloc(1, sizeof(*timer));
	if (!timer)
		return NULL;
	timer->fn = fn;
	timer->arg = arg;
	timer->every_ms = repeat ? ms : 0;
	tei_alarm_init(&timer->alarm, loop, on_timer, timer);
	if (tei_alarm_set(&timer->alarm, ms)) {
		tei_free(timer);
		return NULL;
	}
	return timer;
}

void tei_timer_stop(struct tei_timer *timer)
{
	if (!timer)
		return;
	tei_alarm_clear(&timer->alarm);
	tei_free(timer);
}
