/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rail_state.c - a rail that loses its link, or has it again
 *
 * Losing it costs the endpoints that use it, at once: their slices go by other
 * rails as soon as the owner has confirmed that nothing of them can land. The
 * rail itself stays open and is used again when its device says so.
 */
#include <errno.h>
#include <string.h>

#include <te/te.h>

#include "base/log.h"
#include "te/common/engine.h"
#include "te/worker/worker.h"

void tei_rail_show(struct tei_rail_box *box)
{
	uint32_t state = TE_RAIL_UP;

	if (box->dead || box->down)
		state = TE_RAIL_DOWN;
	else if (box->breaker.state != TEI_BREAKER_CLOSED)
		state = TE_RAIL_PAUSED;
	atomic_store_explicit(&box->shown, state, memory_order_relaxed);
}

void tei_rail_changed(struct tei_rail *rail, bool up)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct tei_rail_box *box =
		TEI_CONTAINER(rail, struct tei_rail_box, rail);
	struct te_engine *engine = rail->core->engine;

	if (box->dead || box->down == !up)
		return;
	box->down = !up;
	if (tei_log_allowed(&limit))
		LOG_WARN("rail %s: link is %s", box->name, up ? "up" : "down");
	if (up) /* no pause that the dead link has earned */
		tei_breaker_reset(&box->breaker);
	tei_rail_show(box);
	if (up)
		engine->worker->ops->rail_up(box);
	else
		engine->worker->ops->rail_down(box);
}

void tei_rail_renewed(struct tei_rail *rail, const struct tei_device *device)
{
	struct te_engine *engine = rail->core->engine;

	tei_mutex_lock(&engine->mu);
	rail->device.address = device->address;
	if (device->speed_bps)
		rail->device.speed_bps = device->speed_bps;
	tei_mutex_unlock(&engine->mu);
	engine->worker->ops->rail_renewed(engine);
}

struct tei_device tei_rail_device(const struct tei_rail_box *box)
{
	struct te_engine *engine = box->rail.core->engine;
	struct tei_device device;

	tei_mutex_lock(&engine->mu);
	device = box->rail.device;
	tei_mutex_unlock(&engine->mu);
	return device;
}

const char *te_rail_state_name(uint32_t state)
{
	switch (state) {
	case TE_RAIL_UP:
		return "up";
	case TE_RAIL_DOWN:
		return "down";
	case TE_RAIL_PAUSED:
		return "paused";
	default:
		return "unknown";
	}
}

static struct te_rail_info look(struct tei_rail_box *box)
{
	struct tei_device device = tei_rail_device(box);
	struct tei_rail *rail = &box->rail;

	return (struct te_rail_info){
		.name = box->name,
		.backend = rail->ops->name,
		.speed_bps = device.speed_bps,
		.numa_node = device.numa_node,
		.state =
			atomic_load_explicit(&box->shown, memory_order_relaxed),
		.sent_bytes = atomic_load_explicit(&rail->sent_bytes,
						   memory_order_relaxed),
		.received_bytes = atomic_load_explicit(&rail->received_bytes,
						       memory_order_relaxed),
		.unmatched_peers = atomic_load_explicit(&box->n_unmatched,
							memory_order_relaxed),
	};
}

int te_engine_rails(struct te_engine *engine, struct te_rail_info *out,
		    size_t *n)
{
	size_t i, room;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!n || (!out && *n))
		return -EINVAL;
	room = *n;
	*n = engine->worker->n_rails;
	for (i = 0; i < *n && i < room; i++)
		out[i] = look(engine->worker->rails[i]);
	return 0;
}

bool te_engine_has_backend(struct te_engine *engine, const char *backend)
{
	uint32_t i;

	if (!tei_engine_alive(engine) || !backend)
		return false;
	for (i = 0; i < engine->worker->n_rails; i++)
		if (!strcmp(engine->worker->rails[i]->rail.ops->name, backend))
			return true;
	return false;
}
