/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line.c - slices on their way along a rail, event by event
 *
 * progress() lets the rail's events happen in the order of their times, up to
 * now. A line that was not looked at for a while catches up without an error:
 * what follows an event is reckoned from the event's time.
 */
#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/sim/backend/sim.h"

#define TAKEN_MAX 1024 /* slices taken and not done */

void tei_sim_line_init(struct sim_rail *rail)
{
	tei_list_init(&rail->queue);
	tei_list_init(&rail->landing);
	tei_list_init(&rail->acks);
	tei_list_init(&rail->stuck);
	tei_list_init(&rail->ghosts);
}

void tei_sim_line_fini(struct sim_rail *rail)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&rail->ghosts)))
		tei_free(tei_list_entry(node, struct sim_ghost, link));
}

static struct tei_slice *first(const struct tei_list *list)
{
	return tei_list_empty(list)
		       ? NULL
		       : tei_list_entry(list->next, struct tei_slice, link);
}

static void put(struct sim_rail *rail, struct tei_slice *slice,
		enum sim_stage stage, uint64_t at)
{
	struct tei_list *const lists[] = {
		[SIM_QUEUED] = &rail->queue,
		[SIM_LANDING] = &rail->landing,
		[SIM_ACKED] = &rail->acks,
		[SIM_STUCK] = &rail->stuck,
	};

	tei_list_del(&slice->link);
	sim_slice(slice)->stage = stage;
	sim_slice(slice)->at = at;
	tei_list_add_tail(lists[stage], &slice->link);
}

/* ---- the line ---- */

static double work_of(const struct sim_rail *rail,
		      const struct tei_slice *slice)
{
	return (double)rail->spec.cost +
	       (double)slice->length * 8e9 / (double)rail->spec.bps;
}

static double speed_of(const struct sim_rail *rail)
{
	const struct sim_weather *w = &rail->weather;

	return w->down || w->silent ? 0 : w->speed;
}

/* The next slice gets the line. */
static void begin(struct sim_rail *rail, uint64_t now)
{
	const struct tei_slice *slice = first(&rail->queue);

	rail->left = slice ? work_of(rail, slice) : 0;
	rail->at = now;
}

static void advance(struct sim_rail *rail, uint64_t to)
{
	if (to <= rail->at)
		return;
	rail->left -= (double)(to - rail->at) * speed_of(rail);
	if (rail->left < 0)
		rail->left = 0;
	rail->at = to;
}

/* As ceil(), for which one would have to link libm. */
static uint64_t round_up(double value)
{
	uint64_t whole = (uint64_t)value;

	return whole + ((double)whole < value);
}

/* When the first slice's last byte has left. */
static uint64_t free_at(const struct sim_rail *rail)
{
	double speed = speed_of(rail);

	if (tei_list_empty(&rail->queue) || speed <= 0)
		return SIM_NEVER;
	return rail->at + round_up(rail->left / speed);
}

static void leave_line(struct sim_rail *rail, uint64_t now)
{
	put(rail, first(&rail->queue), SIM_LANDING, now + rail->spec.latency);
	begin(rail, now);
}

static bool is_broken(const struct tei_endpoint *ep)
{
	bool broken;

	tei_mutex_lock(&tei_sim_mu);
	broken = sim_half(ep)->broken;
	tei_mutex_unlock(&tei_sim_mu);
	return broken;
}

static void rearm(struct sim_rail *rail)
{
	tei_mutex_lock(&tei_sim_mu); /* so that no break is overwritten */
	tei_sim_arm(rail, tei_sim_rail_next(rail));
	tei_mutex_unlock(&tei_sim_mu);
}

int tei_sim_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		 int n)
{
	struct sim_rail *rail = sim_rail(ep->rail);
	int taken;

	if (rail->weather.down)
		return -ENETDOWN;
	if (is_broken(ep))
		return -ECONNRESET;
	if (rail->weather.refuse > 0 &&
	    tei_sim_chance(rail) < rail->weather.refuse)
		return -ECONNRESET;
	for (taken = 0; taken < n && rail->n_taken < TAKEN_MAX; taken++) {
		bool idle = tei_list_empty(&rail->queue);

		tei_list_init(&slices[taken]->link);
		put(rail, slices[taken], SIM_QUEUED, 0);
		rail->n_taken++;
		if (idle)
			begin(rail, tei_now_ns());
		tei_sim_note(rail, SIM_POSTED, slices[taken], 0);
	}
	rearm(rail);
	return taken;
}

/* ---- the end of a slice ---- */

static void end(struct sim_rail *rail, struct tei_slice *slice, int err)
{
	tei_list_del(&slice->link);
	rail->n_taken--;
	if (err)
		slice->provider_code = -err;
	tei_sim_note(rail, SIM_DONE, slice, err);
	tei_slice_done(slice, err, err ? 0 : slice->length);
}

/* What has left of a write will land some time, up to sim.linger late. */
static void haunt(struct sim_rail *rail, struct tei_slice *slice,
		  uint64_t length, uint64_t at)
{
	struct sim_ghost *ghost;

	if (slice->op != TEI_WRITE || !length)
		return;
	ghost = tei_sim_ghost(slice, length);
	if (!ghost)
		return; /* it is lost, as it may be */
	ghost->at = at;
	tei_list_add_tail(&rail->ghosts, &ghost->link);
}

static uint64_t late(struct sim_rail *rail, uint64_t at)
{
	return at + (uint64_t)(tei_sim_chance(rail) * (double)rail->linger);
}

/* The part that has left of the slice that has the line. */
static uint64_t part_gone(struct sim_rail *rail, const struct tei_slice *slice)
{
	double whole = work_of(rail, slice);

	return (uint64_t)((double)slice->length * (whole - rail->left) / whole);
}

/* An endpoint breaks under this slice: what of it lands all the same? */
static void give_up(struct sim_rail *rail, struct tei_slice *slice,
		    bool has_line, uint64_t now)
{
	bool lands = tei_sim_chance(rail) < 0.75;

	if (lands && has_line)
		haunt(rail, slice, part_gone(rail, slice),
		      late(rail, now + rail->spec.latency));
	else if (lands && sim_slice(slice)->stage == SIM_LANDING)
		haunt(rail, slice, slice->length,
		      late(rail, sim_slice(slice)->at));
}

void tei_sim_cancel(struct tei_endpoint *ep, struct tei_slice *slice)
{
	struct sim_rail *rail = sim_rail(ep->rail);
	bool has_line = slice == first(&rail->queue);
	uint64_t now = tei_now_ns();

	assert(slice); /* first() has none when nothing is queued */
	/* What has begun to go out is sent to its end. */
	if (has_line)
		haunt(rail, slice, slice->length,
		      now + (uint64_t)rail->left + rail->spec.latency);
	else if (sim_slice(slice)->stage == SIM_LANDING)
		haunt(rail, slice, slice->length, sim_slice(slice)->at);
	tei_list_del(&slice->link);
	if (has_line)
		begin(rail, now);
	end(rail, slice, -ECANCELED);
	rearm(rail);
}

static void flush_list(struct sim_rail *rail, struct tei_list *list,
		       const struct tei_endpoint *ep, struct tei_list *out)
{
	const struct tei_slice *head = first(&rail->queue);
	uint64_t now = tei_now_ns();

	tei_list_for_each_safe (node, tmp, list) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		if (slice->ep != ep)
			continue;
		give_up(rail, slice, slice == head, now);
		tei_list_del(node);
		tei_list_add_tail(out, node);
	}
}

/* The target's half may learn of it, or go on until it is dropped. */
static void break_both(struct sim_rail *rail, struct sim_half *half)
{
	struct sim_half *other;

	tei_mutex_lock(&tei_sim_mu);
	other = tei_sim_find(half->other);
	if (half->other && other && tei_sim_chance(rail) < 0.5)
		tei_sim_break(other);
	half->broken = half->reported = true;
	tei_mutex_unlock(&tei_sim_mu);
}

int tei_sim_flush(struct tei_endpoint *ep, int err)
{
	struct sim_rail *rail = sim_rail(ep->rail);
	const struct tei_slice *head = first(&rail->queue);
	uint64_t now = tei_now_ns();
	struct tei_list out;

	tei_list_init(&out);
	if (!ep->target) {
		advance(rail, now);
		flush_list(rail, &rail->queue, ep, &out);
		flush_list(rail, &rail->landing, ep, &out);
		flush_list(rail, &rail->acks, ep, &out);
		flush_list(rail, &rail->stuck, ep, &out);
	}
	if (head != first(&rail->queue))
		begin(rail, now);
	break_both(rail, sim_half(ep));
	while (!tei_list_empty(&out))
		end(rail, first(&out), err);
	rearm(rail);
	return 0;
}

/* ---- events ---- */

enum event {
	EVENT_NONE,
	EVENT_WEATHER,
	EVENT_LANDS,
	EVENT_GHOST,
	EVENT_ACKED,
	EVENT_FREE,
};

static struct sim_ghost *first_ghost(const struct sim_rail *rail)
{
	struct sim_ghost *one = NULL;

	tei_list_for_each (node, &rail->ghosts) {
		struct sim_ghost *ghost =
			tei_list_entry(node, struct sim_ghost, link);

		if (!one || ghost->at < one->at)
			one = ghost;
	}
	return one;
}

static void earlier(uint64_t at, enum event event, uint64_t *best_at,
		    enum event *best)
{
	if (at >= *best_at)
		return;
	*best_at = at;
	*best = event;
}

static uint64_t at_of(const struct tei_slice *slice)
{
	return slice ? sim_slice(slice)->at : SIM_NEVER;
}

/* In silence nothing arrives either; all of it does when it is over. */
static enum event next_event(const struct sim_rail *rail, uint64_t *at)
{
	uint64_t weather = tei_sim_weather_next(&rail->weather, &rail->spec);
	const struct sim_ghost *ghost = first_ghost(rail);
	enum event event = EVENT_NONE;

	*at = SIM_NEVER;
	if (weather != SIM_NEVER)
		earlier(rail->opened_at + weather, EVENT_WEATHER, at, &event);
	if (rail->weather.silent)
		return event;
	earlier(at_of(first(&rail->landing)), EVENT_LANDS, at, &event);
	if (ghost)
		earlier(ghost->at, EVENT_GHOST, at, &event);
	earlier(at_of(first(&rail->acks)), EVENT_ACKED, at, &event);
	earlier(free_at(rail), EVENT_FREE, at, &event);
	return event;
}

uint64_t tei_sim_rail_next(const struct sim_rail *rail)
{
	uint64_t at, halves = tei_sim_halves_next(rail);

	next_event(rail, &at);
	return halves < at ? halves : at;
}

/* True: the core has to be let in before anything else happens. */
static bool turn_weather(struct sim_rail *rail, uint64_t now)
{
	bool was_down = rail->weather.down;

	advance(rail, now);
	tei_sim_weather_turn(&rail->weather, &rail->spec);
	if (rail->weather.down == was_down)
		return false;
	tei_rail_changed(rail->base, was_down);
	return true;
}

/* It broke just there: half of the time behind the slice. */
static void break_at(struct sim_rail *rail, struct tei_slice *slice)
{
	struct tei_endpoint *ep = slice->ep;

	if (tei_sim_chance(rail) < 0.5)
		tei_sim_apply(rail, slice);
	put(rail, slice, SIM_STUCK, SIM_NEVER);
	break_both(rail, sim_half(ep));
	tei_endpoint_down(ep, -ECONNRESET);
}

static bool land(struct sim_rail *rail, uint64_t now)
{
	struct tei_slice *slice = first(&rail->landing);
	int rc;

	if (rail->weather.error > 0 &&
	    tei_sim_chance(rail) < rail->weather.error) {
		break_at(rail, slice);
		return true;
	}
	rc = tei_sim_apply(rail, slice);
	if (rc == -ECONNRESET) { /* the half will be told, or is lost */
		put(rail, slice, SIM_STUCK, SIM_NEVER);
		return false;
	}
	sim_slice(slice)->err = rc;
	put(rail, slice, SIM_ACKED, now + rail->spec.latency);
	return false;
}

static bool happen(struct sim_rail *rail, enum event event, uint64_t at)
{
	struct sim_ghost *ghost;

	switch (event) {
	case EVENT_NONE:
		break;
	case EVENT_WEATHER:
		return turn_weather(rail, at);
	case EVENT_LANDS:
		return land(rail, at);
	case EVENT_GHOST:
		ghost = first_ghost(rail);
		tei_list_del(&ghost->link);
		tei_sim_ghost_lands(rail, ghost);
		break;
	case EVENT_ACKED:
		end(rail, first(&rail->acks),
		    sim_slice(first(&rail->acks))->err);
		break;
	case EVENT_FREE:
		leave_line(rail, at);
		break;
	}
	return false;
}

int tei_sim_progress(struct tei_rail *base, int budget)
{
	struct sim_rail *rail = sim_rail(base);
	uint64_t now = tei_now_ns(), at;
	int n = tei_sim_halves_run(rail, now);
	enum event event;

	for (; n < budget; n++) {
		event = next_event(rail, &at);
		if (at > now)
			break;
		if (happen(rail, event, at)) {
			n++;
			break;
		}
	}
	rearm(rail);
	return n;
}
