/* SPDX-License-Identifier: Apache-2.0 */
/*
 * half.c - endpoints: joined by number, broken, dropped
 *
 * The initiator's half may leave while the target's goes on applying what is
 * on its way; only a drop, or its own end, makes that one stop.
 */
#include <errno.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "tests/sim/backend/sim.h"

#define ADDRESS_LEN 16

struct tei_mutex tei_sim_mu = {PTHREAD_MUTEX_INITIALIZER};

static struct tei_list halves = {&halves, &halves}; /* guarded by tei_sim_mu */
static uint64_t last_id;                            /* guarded by tei_sim_mu */

/* What another process says means nothing here. */
static uint64_t process(void)
{
	return (uint64_t)getpid();
}

static int say(uint64_t id, void *out, size_t *len)
{
	struct tei_writer w;

	tei_writer_init(&w, out, *len);
	tei_write_u64(&w, process());
	tei_write_u64(&w, id);
	if (w.bad)
		return -ENOBUFS;
	*len = ADDRESS_LEN;
	return 0;
}

static bool understand(const void *bytes, size_t len, uint64_t *id)
{
	struct tei_reader r;
	uint64_t from;

	tei_reader_init(&r, bytes, len);
	from = tei_read_u64(&r);
	*id = tei_read_u64(&r);
	return tei_reader_done(&r) && from == process();
}

int tei_sim_rail_describe(struct tei_rail *rail, void *blob, size_t *len)
{
	return say(rail->index, blob, len);
}

int tei_sim_rail_match(struct tei_rail *rail, const struct tei_address *peer,
		       const void *blob, size_t len)
{
	uint64_t index;

	(void)rail;
	(void)peer;
	return understand(blob, len, &index);
}

struct sim_half *tei_sim_find(uint64_t id)
{
	tei_list_for_each (node, &halves) {
		struct sim_half *half =
			tei_list_entry(node, struct sim_half, link);

		if (half->id == id)
			return half->broken ? NULL : half;
	}
	return NULL;
}

void tei_sim_break(struct sim_half *half)
{
	half->broken = true;
	tei_sim_arm(sim_rail(half->base->rail), 0);
}

int tei_sim_endpoint_open(struct tei_endpoint *ep, void *addr, size_t *len)
{
	struct sim_half *half = sim_half(ep);
	int rc;

	if (sim_rail(ep->rail)->weather.down)
		return -ENETDOWN;
	tei_mutex_lock(&tei_sim_mu);
	rc = say(last_id + 1, addr, len);
	if (!rc) {
		half->base = ep;
		half->id = ++last_id;
		tei_list_add_tail(&halves, &half->link);
	}
	tei_mutex_unlock(&tei_sim_mu);
	return rc;
}

/* The initiator comes last and joins the two, after a round trip. */
int tei_sim_endpoint_connect(struct tei_endpoint *ep, const void *addr,
			     size_t len)
{
	struct sim_rail *rail = sim_rail(ep->rail);
	struct sim_half *half = sim_half(ep), *other;
	uint64_t id;

	if (!understand(addr, len, &id))
		return -EPROTO;
	if (ep->target)
		return 0;
	if (rail->weather.down)
		return -ENETDOWN;
	tei_mutex_lock(&tei_sim_mu);
	other = tei_sim_find(id);
	if (other && other->base->target && !other->other) {
		other->other = half->id;
		half->other = id;
	}
	tei_mutex_unlock(&tei_sim_mu);
	if (!half->other)
		return -ECONNREFUSED;
	half->up_at = tei_now_ns() + 2 * rail->spec.latency + 1;
	tei_sim_arm(rail, half->up_at);
	return -EINPROGRESS;
}

/* Both halves end; the initiator learns of it as of any broken connection. */
static void end_target(struct sim_half *half) TEI_REQUIRES(tei_sim_mu)
{
	struct sim_half *other = tei_sim_find(half->other);

	half->broken = true;
	if (half->other && other)
		tei_sim_break(other);
}

void tei_sim_endpoint_close(struct tei_endpoint *ep)
{
	tei_mutex_lock(&tei_sim_mu);
	if (ep->target)
		end_target(sim_half(ep));
	tei_list_del(&sim_half(ep)->link);
	tei_mutex_unlock(&tei_sim_mu);
}

int tei_sim_drop(struct tei_endpoint *ep)
{
	struct sim_rail *rail = sim_rail(ep->rail);
	struct sim_half *half = sim_half(ep);

	if (half->confirm_at)
		return -EINPROGRESS;
	if (tei_sim_chance(rail) < 0.5) {
		half->confirm_at =
			tei_now_ns() + 1 +
			(uint64_t)(tei_sim_chance(rail) * (double)rail->linger);
		tei_sim_arm(rail, half->confirm_at);
		return -EINPROGRESS;
	}
	tei_mutex_lock(&tei_sim_mu);
	end_target(half);
	half->reported = true;
	tei_mutex_unlock(&tei_sim_mu);
	return 0;
}

/* ---- what progress() has to tell ---- */

static uint64_t next_of(const struct sim_rail *rail,
			const struct sim_half *half) TEI_REQUIRES(tei_sim_mu)
{
	uint64_t at = SIM_NEVER;

	if (half->reported)
		return SIM_NEVER;
	if (half->broken)
		return 0;
	if (half->confirm_at)
		at = half->confirm_at;
	if (half->up_at && half->up_at < at && !rail->weather.silent)
		at = half->up_at;
	return at;
}

/* The rail's half whose turn comes first. */
static struct sim_half *first_of(const struct sim_rail *rail, uint64_t *at)
	TEI_REQUIRES(tei_sim_mu)
{
	struct sim_half *first = NULL;

	*at = SIM_NEVER;
	tei_list_for_each (node, &halves) {
		struct sim_half *half =
			tei_list_entry(node, struct sim_half, link);

		if (half->base->rail != rail->base ||
		    next_of(rail, half) >= *at)
			continue;
		*at = next_of(rail, half);
		first = half;
	}
	return first;
}

uint64_t tei_sim_halves_next(const struct sim_rail *rail)
{
	uint64_t at;

	first_of(rail, &at);
	return at;
}

/* A half belongs to the holder of the token: it stays while nobody is told. */
static struct sim_half *take_due(const struct sim_rail *rail, uint64_t now,
				 int *what)
{
	struct sim_half *half;
	uint64_t at;

	tei_mutex_lock(&tei_sim_mu);
	half = first_of(rail, &at);
	if (at > now)
		half = NULL;
	*what = 0;
	if (half && half->broken) {
		*what = -ECONNRESET;
	} else if (half && half->confirm_at && half->confirm_at <= now) {
		end_target(half);
		*what = -ESTALE;
	}
	if (*what)
		half->reported = true;
	else if (half)
		half->up_at = 0;
	tei_mutex_unlock(&tei_sim_mu);
	return half;
}

int tei_sim_halves_run(struct sim_rail *rail, uint64_t now)
{
	struct sim_half *half;
	int what, n = 0;

	while ((half = take_due(rail, now, &what))) {
		if (what)
			tei_endpoint_down(half->base, what);
		else
			tei_endpoint_up(half->base);
		n++;
	}
	return n;
}
